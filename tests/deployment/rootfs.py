"""The root file system of the image, built once for a state of the sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import build_deployment_tools
from deployment import containers
from deployment.charts import ROOT

INPUTS = ("src/**/*.*", "tools/build_*.py", "requirements*.lock", "pyproject.toml")


def why_not() -> str:
    """Why it cannot be built and used here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can build a root file system and run it"
    missing = [name for name in ("apt-get", "dpkg-deb", "unshare") if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)}: a root file system is made of Debian's packages"
    return containers.why_not()


@cache
def build() -> tuple[Path | None, str]:
    """The directory, or None and what the builder said."""
    base = build_deployment_tools.tools_directory().resolve()
    base.mkdir(parents=True, exist_ok=True)
    directory = base / f"rootfs-{state()}"
    with (base / "rootfs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of the same run want it as well
        if not directory.exists():
            for old in base.glob("rootfs-*"):
                shutil.rmtree(old)
            unfinished = base / "rootfs-unfinished"
            done = subprocess.run(
                [sys.executable, str(ROOT / "tools" / "build_rootfs.py"), str(unfinished)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                return None, (done.stdout + done.stderr)[-2000:]
            unfinished.rename(directory)
    return directory, ""


def state() -> str:
    """Names what it is built of."""
    digest = hashlib.sha256()
    for pattern in INPUTS:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
