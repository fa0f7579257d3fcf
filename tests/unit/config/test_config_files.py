"""What a configuration can be read from: once, or whenever it may have changed."""

from __future__ import annotations

import os
import socket
import stat
import threading

import pytest

from gpu_device_plugin.config.files import ONCE_ONLY, RIGHT, RIGHT_ONCE, open_file, problem_at
from gpu_device_plugin.config.load import read_file
from gpu_device_plugin.errors import ConfigError

TERMINAL = "it is a character device, such as a terminal"


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
        ("socket", "it is a socket"),
        ("/dev/tty", TERMINAL),
        ("a\0b", "embedded null byte"),
    ],
)
def test_only_files_can_be_read_again(files, name, problem):
    assert problem_at(str(files / name)) == problem


def test_nobody_is_waited_for_at_a_pipe(files):
    with pytest.raises(OSError, match=ONCE_ONLY):
        open_file(str(files / "pipe"))
    with pytest.raises(ConfigError, match=f"pipe: the configuration file.*: {ONCE_ONLY}"):
        read_file(str(files / "pipe"), again=True)

    with open_file(str(files / "link")) as stream:
        assert stream.read() == b"text"


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("directory", "Is a directory"),
        ("socket", "it is a socket"),
        ("/dev/zero", TERMINAL),
        ("terminal", TERMINAL),
    ],
)
def test_what_is_no_file_is_named_with_what_it_can_be(files, name, problem, again):
    controller, terminal = os.openpty()
    (files / "terminal").symlink_to(os.ttyname(terminal))
    try:
        with pytest.raises(ConfigError) as caught:
            read_file(str(files / name), again=again)
    finally:
        os.close(controller)
        os.close(terminal)
    right = RIGHT if again else RIGHT_ONCE
    assert str(caught.value) == (
        f"{files / name}: the configuration file cannot be read: {problem} ({right})"
    )


def test_a_block_device_is_refused(files):
    path = files / "disk"
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    except PermissionError:
        pytest.skip("only root makes device nodes")
    with pytest.raises(ConfigError, match=r"disk: .*: it is a block device \(it can be a regular"):
        read_file(str(path))


@pytest.mark.parametrize("again", [True, False])
def test_what_takes_the_place_of_a_file_before_it_is_opened_is_seen(files, monkeypatch, again):
    """Between the look and the opening another file may be there."""
    regular = os.stat(files / "file")
    monkeypatch.setattr(os, "stat", lambda _: regular)
    with pytest.raises(ConfigError, match=TERMINAL):
        read_file("/dev/zero", again=again)


def test_a_program_that_reads_once_may_read_a_pipe(files):
    writer = threading.Thread(target=(files / "pipe").write_text, args=("version: v1",))
    writer.start()

    assert read_file(str(files / "pipe")) == b"version: v1"
    writer.join()
