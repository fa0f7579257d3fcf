"""Runs programs in a root file system as a container runtime does, by crun."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

CRUN = shutil.which("crun")
LIMIT = 60.0
CAPABILITY_SETS = ("bounding", "effective", "permitted")
OWN_CGROUPS = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
"""Without it crun refuses machines with both generations of cgroups, though none is used."""


def why_not() -> str:
    """Why no container can be started here; empty if one can."""
    if CRUN is None:
        return "no crun to run containers with"
    spaces = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork"]
    trial = [*spaces, "sh", "-c", OWN_CGROUPS, "sh", "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return f"no container can be started here: {done.stderr.strip()}" if done.returncode else ""


@dataclass(frozen=True)
class Finished:
    """A container that has ended."""

    code: int
    output: str
    seconds: float


@dataclass(frozen=True)
class Container:
    """How a container is run: by default as tight as the chart can make it."""

    root: Path
    user: int = 65532
    read_only: bool = True
    capabilities: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container: directory on the host."""
    scratch: bool = False
    """Whether /tmp can be written, as with an emptyDir there."""

    def run(self, *arguments: str, limit: float = LIMIT) -> Finished:
        """Runs a program until it ends."""
        with tempfile.TemporaryDirectory() as bundle:
            self._write(Path(bundle), arguments)
            name = f"test-{uuid.uuid4()}"
            began = time.monotonic()
            try:
                done = subprocess.run(
                    command(bundle, name),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                    check=False,
                )
            except subprocess.TimeoutExpired as expired:
                kill(bundle, name)
                return Finished(-1, (expired.stdout or b"").decode(), limit)
        return Finished(done.returncode, done.stdout.decode(), time.monotonic() - began)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Runs a program beside the test; it is killed at the end if it still runs."""
        with tempfile.TemporaryDirectory() as bundle:
            self._write(Path(bundle), arguments)
            name = f"test-{uuid.uuid4()}"
            with subprocess.Popen(
                command(bundle, name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                try:
                    yield process
                finally:
                    kill(bundle, name)

    def _write(self, bundle: Path, arguments: Sequence[str]) -> None:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        caps = [f"CAP_{name}" for name in self.capabilities]
        mounts: list[dict[str, object]] = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "mode=755", "size=65536k"],
            },
        ]
        if self.scratch:
            mounts.append({"destination": "/tmp", "type": "tmpfs", "options": ["mode=1777"]})
        mounts += [
            {"destination": inside, "type": "bind", "source": str(outside), "options": ["rbind"]}
            for inside, outside in self.binds.items()
        ]
        config = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": self.user, "gid": self.user},
                "args": list(arguments),
                "env": [f"{k}={v}" for k, v in {"PATH": path, **self.environ}.items()],
                "cwd": "/",
                "capabilities": dict.fromkeys(CAPABILITY_SETS, caps),
                "noNewPrivileges": True,
            },
            "root": {"path": str(self.root), "readonly": self.read_only},
            "hostname": "node1",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": t} for t in ("pid", "mount", "ipc", "uts", "network")]
            },
        }
        (bundle / "config.json").write_text(json.dumps(config))


def command(bundle: str, name: str) -> list[str]:
    assert CRUN is not None
    state = ["--root", f"{bundle}/state", "--cgroup-manager=disabled"]
    prefix = ["unshare", "--mount", "sh", "-c", OWN_CGROUPS, "sh"]
    return [*prefix, CRUN, *state, "run", "--bundle", bundle, name]


def kill(bundle: str, name: str) -> None:
    assert CRUN is not None
    with suppress(subprocess.SubprocessError):
        subprocess.run(
            [CRUN, "--root", f"{bundle}/state", "delete", "--force", name],
            capture_output=True,
            timeout=10,
            check=False,
        )
