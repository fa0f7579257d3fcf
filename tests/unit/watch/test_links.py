"""The link is replaced in one step."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from gpu_device_plugin.watch.links import is_usable, leads_to, replace_link


@pytest.fixture
def files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    return tmp_path


def make(link, kind):
    if kind == "link":
        link.symlink_to("a")
    elif kind == "dangling link":
        link.symlink_to("absent")
    elif kind == "file":
        link.write_text("old")
    elif kind == "link to a directory":
        link.symlink_to(".")


@pytest.mark.parametrize(
    "kind", ["nothing", "link", "dangling link", "file", "link to a directory"]
)
def test_whatever_is_there_becomes_the_link(files, kind):
    link = files / "link"
    make(link, kind)
    replace_link(str(link), str(files / "b"))
    assert os.readlink(link) == str(files / "b")
    assert link.read_text() == "b"
    assert sorted(os.listdir(files)) == ["a", "b", "link"]


def test_what_a_run_that_was_killed_has_left_is_no_hindrance(files):
    (files / ".link.new").symlink_to("absent")
    replace_link(str(files / "link"), str(files / "a"))
    assert sorted(os.listdir(files)) == ["a", "b", "link"]


def test_a_directory_in_its_place_is_an_error_and_stays(files):
    (files / "link").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_link(str(files / "link"), str(files / "a"))
    assert sorted(os.listdir(files)) == ["a", "b", "link"]


def test_a_missing_directory_is_an_error(files):
    with pytest.raises(FileNotFoundError):
        replace_link(str(files / "absent/link"), str(files / "a"))


def test_there_is_a_file_at_every_moment(files):
    link = files / "link"
    replace_link(str(link), str(files / "a"))
    stop, missing = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                assert link.read_text() in {"a", "b"}
            except OSError as error:
                missing.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        for name in ("b", "a"):
            replace_link(str(link), str(files / name))
    stop.set()
    thread.join()
    assert not missing


def test_paths_are_compared_by_where_they_end(files):
    (files / "data").symlink_to("a")
    (files / "link").symlink_to("data")
    assert leads_to(str(files / "link"), str(files / "a"))
    assert not leads_to(str(files / "link"), str(files / "b"))
    assert not leads_to(str(files / "absent"), str(files / "absent"))


def test_a_relative_target_counts_from_the_directory_of_the_link(files):
    (files / "data").symlink_to("a")
    (files / "link").symlink_to("data")
    assert leads_to(str(files / "link"), "a")
    assert not leads_to(str(files / "link"), "b")


def test_a_link_that_leads_there_by_its_text_does_so_at_every_moment(files, monkeypatch):
    replace_link(str(files / "link"), str(files / "a"))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)  # as if all was swapped meanwhile
    assert leads_to(str(files / "link"), str(files / "a"))
    assert not leads_to(str(files / "link"), str(files / "b"))


def test_usable_is_what_can_be_read(files):
    make(files / "dangling", "dangling link")
    make(files / "directory", "link to a directory")
    (files / "null").symlink_to("/dev/null")
    usable = {name for name in os.listdir(files) if is_usable(str(files / name))}
    assert usable == {"a", "b", "null"}


def test_what_would_be_waited_for_is_not_usable(files):
    os.mkfifo(files / "pipe")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(files / "socket"))

    assert is_usable(str(files / "a"))
    assert is_usable("/dev/null")
    assert not is_usable(str(files / "pipe"))
    assert not is_usable(str(files / "socket"))
