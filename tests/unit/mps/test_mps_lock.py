"""Who holds the lock of a daemon."""

from __future__ import annotations

import fcntl
import os
import struct

from support.aio import run
from support.mps import GPU

from gpu_device_plugin.mps.lock import UNSEEN, lock_holder
from gpu_device_plugin.mps.names import DaemonFiles, find_traces


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


def test_a_file_system_without_locks_knows_no_holder(tmp_path, monkeypatch):
    files = DaemonFiles(str(tmp_path), GPU)
    os.makedirs(files.pipe)
    open(files.lock, "w").close()

    def refuse(*_: object) -> bytes:
        raise OSError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert lock_holder(files) is None


def test_traces_are_directories_with_pipes(tmp_path):
    for path in ("nvidia.com/gpu/pipe", "nvidia.com/gpu.shared/pipe", "nvidia.com/x/log", "shm/a"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    found = [files.resource for files in find_traces(str(tmp_path))]
    assert found == ["nvidia.com/gpu", "nvidia.com/gpu.shared"]
    assert list(find_traces(str(tmp_path / "absent"))) == []
