"""NVIDIA's own MPS control program, from Debian's archive; nothing is installed.

The package is downloaded once with apt, using lists of its own, and unpacked into a cache:
``$GPU_DEVICE_PLUGIN_TEST_CACHE``, else a directory below the user's own cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGE = "nvidia-cuda-mps"
PROGRAM = "usr/bin/nvidia-cuda-mps-control"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
LIMIT = 120.0
"""Seconds for each of apt's steps."""


class NotToBeHad(Exception):
    """Why the genuine program is not here."""


def control_program() -> Path:
    """The path of ``nvidia-cuda-mps-control``; raises NotToBeHad."""
    base = os.environ.get("GPU_DEVICE_PLUGIN_TEST_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gpu-device-plugin"
    )
    cache = Path(base) / PACKAGE
    program, failed = cache / "root" / PROGRAM, cache / "failed"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one fetches
        if program.exists():
            return program
        if failed.exists() and os.environ.get("PYTEST_XDIST_TESTRUNUID") == failed.read_text():
            raise NotToBeHad("another test process could not fetch it")
        try:
            _fetch(cache)
        except NotToBeHad:
            failed.write_text(os.environ.get("PYTEST_XDIST_TESTRUNUID", ""))
            raise
    return program


def _fetch(cache: Path) -> None:
    if os.uname().machine != "x86_64" or not shutil.which("apt-get") or not SOURCES.exists():
        raise NotToBeHad("it is fetched on Debian on x86-64 only")
    lists = cache / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    sources = cache / "sources"
    sources.mkdir(exist_ok=True)
    text = re.sub(r"(?m)^Components:.*$", "Components: non-free", SOURCES.read_text())
    (sources / "non-free.sources").write_text(text)
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(sources),
        "Dir::State::Lists": str(lists),
        "Dir::State::status": "/dev/null",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    apt = ["apt-get", "-q", *(word for item in options.items() for word in ("-o", "=".join(item)))]
    _run([*apt, "update"], cache)
    _run([*apt, "download", PACKAGE], cache)
    fresh = cache / "unpacked"
    shutil.rmtree(fresh, ignore_errors=True)
    for package in cache.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(package), str(fresh)], cache)
    if not (fresh / PROGRAM).exists():
        raise NotToBeHad(f"the package {PACKAGE} holds no {PROGRAM}")
    fresh.rename(cache / "root")


def _run(command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotToBeHad(f"{command[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise NotToBeHad(f"{command[0]} ended with {done.returncode}, it says: {said[-1]}")
