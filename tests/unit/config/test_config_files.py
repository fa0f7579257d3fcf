"""Files that are read again whenever they may have changed."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from gpu_device_plugin.config.files import ONCE_ONLY, open_again, problem_at
from gpu_device_plugin.config.load import read_file
from gpu_device_plugin.errors import ConfigError


@pytest.fixture
def files(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "socket"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("file", ""),
        ("link", ""),
        ("/dev/null", ""),
        ("dangling", "No such file or directory"),
        ("directory", "Is a directory"),
        ("pipe", ONCE_ONLY),
        ("socket", ONCE_ONLY),
        ("a\0b", "embedded null byte"),
    ],
)
def test_only_files_can_be_read_again(files, name, problem):
    assert problem_at(str(files / name)) == problem


def test_nobody_is_waited_for_at_a_pipe(files):
    with pytest.raises(OSError, match=ONCE_ONLY):
        open_again(str(files / "pipe"))
    with pytest.raises(ConfigError, match=f"pipe: the configuration file.*: {ONCE_ONLY}"):
        read_file(str(files / "pipe"), again=True)

    with open_again(str(files / "link")) as stream:
        assert stream.read() == b"text"


def test_a_program_that_reads_once_may_read_a_pipe(files):
    writer = threading.Thread(target=(files / "pipe").write_text, args=("version: v1",))
    writer.start()

    assert read_file(str(files / "pipe")) == b"version: v1"
    writer.join()
