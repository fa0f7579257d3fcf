"""Whether files can be written, and what would let them be."""

from __future__ import annotations

import errno
import os
import resource
import signal

import pytest

from gpu_device_plugin.storage import PASSING, remedy, write_error


def test_a_directory_that_can_be_written_is_left_as_it_was(tmp_path):
    assert write_error(str(tmp_path), 100_000) is None
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path):
    absent = write_error(str(tmp_path / "absent"))
    assert absent is not None
    assert absent.errno == errno.ENOENT
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        found = write_error(str(tmp_path), 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert found is not None
    assert found.errno == errno.EFBIG
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "free_inodes", "all_inodes", "hint"),
    [
        (errno.EROFS, 1, 9, "must be mounted read-write"),
        (errno.ENOSPC, 1, 9, "free some space there"),
        (errno.EDQUOT, 0, 9, "free some space there"),
        (errno.ENOSPC, 0, 9, "no inode is left"),
        (errno.ENOSPC, 0, 0, "free some space there"),
        (errno.EMFILE, 0, 9, "limit of open files of the process"),
        (errno.ENFILE, 0, 9, "fs.file-max"),
        (errno.ENOMEM, 0, 9, "free some memory"),
        (errno.EIO, 0, 9, "the disk fails"),
        (errno.EACCES, 1, 9, ""),
    ],
)
def test_the_remedy_is_that_of_the_fault(
    tmp_path, monkeypatch, number, free_inodes, all_inodes, hint
):
    fields = [*os.statvfs(tmp_path)]
    fields[5:8] = [all_inodes, free_inodes, free_inodes]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    told = remedy(OSError(number, os.strerror(number)), str(tmp_path))
    assert hint in told
    assert bool(told) is bool(hint)
    assert bool(told) is (number in PASSING)


def test_of_a_directory_that_is_gone_nothing_is_known_of_inodes(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert remedy(full, str(tmp_path / "gone")) == "free some space there"
