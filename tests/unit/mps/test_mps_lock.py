"""Who holds the lock of a daemon."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

import pytest
from support.aio import run
from support.descriptors import no_descriptors
from support.mps import GPU, a_daemon

from gpu_device_plugin.mps.lock import UNSEEN, is_held, lock_holder
from gpu_device_plugin.mps.names import DaemonFiles, find_traces, is_absent
from gpu_device_plugin.mps.processes import is_alive


def test_the_holder_is_told_until_it_ends(tools):
    files = tools.files()
    os.makedirs(files.pipe)
    os.makedirs(files.log)
    assert lock_holder(files) is None
    run(tools.around().tool.start_daemon(files))
    pid = lock_holder(files)
    assert pid
    assert os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    run(tools.around().tool.command(files, "quit"))
    assert os.path.exists(files.lock)
    assert lock_holder(files) is None


def test_a_holder_outside_our_view_has_no_number(tmp_path, monkeypatch):
    files = DaemonFiles(str(tmp_path), GPU)
    os.makedirs(files.pipe)
    open(files.lock, "w").close()
    for told, expected in ((0, UNSEEN), (-1, UNSEEN), (7, 7)):
        answer = struct.pack("hhqqi4x", 1, 0, 0, 0, told)
        monkeypatch.setattr(fcntl, "fcntl", lambda *_, answer=answer: answer)
        assert lock_holder(files) == expected


def test_a_file_system_without_locks_does_not_tell(tmp_path, monkeypatch):
    files = DaemonFiles(str(tmp_path), GPU)
    os.makedirs(files.pipe)
    open(files.lock, "w").close()

    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(OSError, match=r"No locks available.*control_lock"):
        lock_holder(files)
    assert [is_held(files, unknown=answer) for answer in (True, False)] == [True, False]


def test_a_lock_that_is_not_there_is_held_by_nobody(tmp_path):
    files = DaemonFiles(str(tmp_path), GPU)
    assert lock_holder(files) is None
    os.makedirs(files.directory)
    open(files.pipe, "w").close()
    assert lock_holder(files) is None
    assert is_absent(files.lock)


def test_what_cannot_be_looked_for_may_be_there(tmp_path):
    files = DaemonFiles(str(tmp_path), GPU)
    os.makedirs(files.directory)
    os.symlink("pipe", files.pipe)
    assert not is_absent(files.lock)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        lock_holder(files)


def test_without_a_descriptor_to_spare_nobody_knows(tools):
    async def work():
        pid = await tools.leave_behind(a_daemon())
        with no_descriptors():
            with pytest.raises(OSError, match="Too many open files"):
                lock_holder(tools.files())
            assert is_alive(pid)
            assert is_alive(1)
            assert not is_alive(2**22 - 1)
        assert lock_holder(tools.files()) == pid

    run(work())


def test_traces_are_directories_with_pipes(tmp_path):
    for path in ("nvidia.com/gpu/pipe", "nvidia.com/gpu.shared/pipe", "nvidia.com/x/log", "shm/a"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    found = [files.resource for files in find_traces(str(tmp_path))]
    assert found == ["nvidia.com/gpu", "nvidia.com/gpu.shared"]
    assert list(find_traces(str(tmp_path / "absent"))) == []
