"""The plugin's CDI specifications, as a genuine podman takes them: a container per allocation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.aio import run
from support.cdi_node import Node
from support.process import RUN as RUN_PLUGIN
from support.process import node as kubelet_and_plugin
from support.serving import GPU, allocatable

from gpu_device_plugin.simulation.pods import PodSpec

BUSYBOX = shutil.which("busybox")
IN_CONTAINER = "ls /dev; env; sed 's/^/mount /' /proc/self/mountinfo"
START = """
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /run
cp -r "$SPECIFICATIONS" /run/cdi
exec podman --root "$STORE" run --rm --network=none --cgroups=disabled --log-driver=none \\
    --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024 "$@"
"""


def why_not() -> str:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root can start containers here"
    missing = [name for name in ("podman", "crun", "busybox", "unshare") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "all there")


class Host:
    """Runs containers with the specifications in a directory."""

    def __init__(self, directory: Path, specifications: Path) -> None:
        self.directory = directory
        self.root = directory / "container"
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "run", "lib", "usr/bin", "usr/lib"):
            (self.root / name).mkdir(parents=True)
        assert BUSYBOX is not None
        shutil.copy(BUSYBOX, self.root / "bin/busybox")
        for name in ("sh", "ls", "env", "sed"):
            (self.root / "bin" / name).symlink_to("busybox")
        (directory / "containers.conf").write_text("[containers]\ndefault_ulimits = []\n")
        self.environ = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(directory),
            "CONTAINERS_CONF": str(directory / "containers.conf"),
            "SPECIFICATIONS": str(specifications),
            "STORE": str(directory / "store"),
        }

    def start(self, *devices: str) -> tuple[int, list[str]]:
        """Starts a container with CDI devices; its exit code and what it says of itself."""
        done = subprocess.run(
            [
                *("unshare", "--mount", "sh", "-c", START, "sh"),
                *(f"--device={name}" for name in devices),
                *("--rootfs", str(self.root), "/bin/sh", "-c", IN_CONTAINER),
            ],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Host, dict[int, tuple[str, ...]]]:
    """CDI names that the plugin answers for one GPU and for three, and a host that has them."""
    specifications, sockets = tmp_path / "cdi", tmp_path / "sockets"
    sockets.mkdir()
    simulated = Node(tmp_path)
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\ncat > /dev/null\n")
    hook.chmod(0o755)
    redirect = (
        "import functools; from gpu_device_plugin.programs import device_plugin as program\n"
        "program.CdiSettings = functools.partial("
        f"program.CdiSettings, directory={str(specifications)!r})\n"
    )
    monkeypatch.setattr("support.process.RUN", redirect + RUN_PLUGIN)
    names: dict[int, tuple[str, ...]] = {}

    async def work() -> None:
        environ = {
            **simulated.environ,
            "NVIDIA_DRIVER_ROOT": str(simulated.root),
            "NVIDIA_CDI_HOOK_PATH": str(hook),
        }
        async with kubelet_and_plugin(sockets, environ=environ) as (kubelet, _):
            await kubelet.until(allocatable(4), "four GPUs")
            for count in (1, 3):
                pod = await kubelet.admit(PodSpec.of(f"pod-{count}", {GPU: count}))
                names[count] = pod.assignments[0].cdi_devices

    run(work())
    host = Host(tmp_path, specifications)
    code, said = host.start()
    if code:
        pytest.skip(f"podman starts no container here, not even without devices: {said}")
    return host, names


def test_a_container_has_the_devices_and_libraries_of_its_allocation(
    allocated: tuple[Host, dict[int, tuple[str, ...]]],
) -> None:
    host, names = allocated
    assert {count: len(each) for count, each in names.items()} == {1: 1, 3: 3}
    seen = {}
    for count, devices in names.items():
        code, lines = host.start(*devices)
        assert code == 0, lines
        seen[count] = {line for line in lines if line[:6] == "nvidia" and line[6:].isdigit()}
        assert {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"} <= set(lines)
        assert "NVIDIA_VISIBLE_DEVICES=void" in lines
        mounts = [line for line in lines if line.startswith("mount ")]
        assert any("/libcuda.so.535.183.06 ro," in line for line in mounts), mounts
    assert (len(seen[1]), len(seen[3])) == (1, 3)
    assert not seen[1] & seen[3]


def test_a_name_that_was_not_allocated_is_refused(
    allocated: tuple[Host, dict[int, tuple[str, ...]]],
) -> None:
    host, _ = allocated
    code, lines = host.start("k8s.device-plugin.nvidia.com/gpu=no-such-gpu")
    assert code != 0
    assert "no-such-gpu" in "\n".join(lines)


def test_a_container_without_a_device_has_none(
    allocated: tuple[Host, dict[int, tuple[str, ...]]],
) -> None:
    host, _ = allocated
    code, lines = host.start()
    assert code == 0, lines
    assert not [line for line in lines if line.startswith("nvidia")]
