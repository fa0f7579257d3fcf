"""The shared memory is mounted, once, and of the right size."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.mps import shm as module
from gpu_device_plugin.mps.shm import half_of, half_of_memory, mount_shm

MEMINFO = "MemTotal:       65803353 kB\nMemFree:         1 kB\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (MEMINFO, "32901676k"),
        ("MemTotal: 7\nMemFree: 1 kB\n", "3"),
        ("MemTotal: 8 MB\n", "4M"),
        ("MemTotal: many kB\n", "65536k"),
        ("", "65536k"),
    ],
)
def test_the_size_is_half_of_the_memory(text, size):
    assert half_of(text) == size


def test_without_meminfo_the_size_is_fixed(tmp_path):
    assert half_of_memory(str(tmp_path / "absent")) == "65536k"
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert half_of_memory(str(tmp_path / "meminfo")) == "32901676k"


def test_what_the_kernel_refuses_is_told_with_the_place(tmp_path, monkeypatch):
    def refuse(_: str, path: str, *__: object) -> None:
        raise PermissionError(1, os.strerror(1), path)

    monkeypatch.setattr(module, "_call", refuse)
    with pytest.raises(UserError, match=r"shm cannot be mounted: .*must be privileged"):
        mount_shm(str(tmp_path))


def test_the_system_call_itself_tells_what_is_wrong(tmp_path):
    with pytest.raises(OSError, match=r"Invalid argument|not permitted"):
        module._call("umount2", str(tmp_path), os.fsencode(tmp_path), 2)


IN_NAMESPACE = r"""
import sys
from gpu_device_plugin.mps.shm import mount_shm
mount_shm(sys.argv[1])
if len(sys.argv) > 2:
    open(sys.argv[1] + "/shm/old", "w").close()
    mount_shm(sys.argv[1])
place = sys.argv[1].replace(" ", "\\040") + "/shm"
with open("/proc/self/mounts") as mounts:
    print([line.split()[2:4] for line in mounts if line.split()[1] == place])
"""


def in_namespace(*arguments: str) -> str:
    command = ["unshare", "--mount", sys.executable, "-c", IN_NAMESPACE, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_there_is_one_mount_however_often_it_is_made(tmp_path):
    root = tmp_path / "with space"
    for arguments in ((), ("again",)):
        shown = in_namespace(str(root), *arguments)
        assert shown.count("tmpfs") == 1
        assert "rw,nosuid,nodev,noexec,relatime,size=" in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_files_in_the_way_are_hidden_not_removed(tmp_path):
    (tmp_path / "shm").mkdir()
    (tmp_path / "shm" / "precious").touch()
    assert in_namespace(str(tmp_path)).count("tmpfs") == 1
    assert (tmp_path / "shm" / "precious").exists()
