"""Changes in directories, seen by inotify and without."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.aio import run, until

from gpu_device_plugin.watch import directories as module
from gpu_device_plugin.watch.directories import DirectoryWatch
from gpu_device_plugin.watch.inotify import Inotify


@contextmanager
def watching(*paths: Path, **options):
    """A watch and the event that it sets."""
    changed = asyncio.Event()
    watch = DirectoryWatch([str(path) for path in paths], changed.set, **options)
    watch.start()
    try:
        yield watch, changed
    finally:
        watch.stop()


async def seen(changed: asyncio.Event) -> None:
    await changed.wait()
    changed.clear()


def test_files_that_come_go_and_move_are_seen(tmp_path):
    async def work():
        with watching(tmp_path) as (watch, changed):
            (tmp_path / "a").touch()
            await seen(changed)
            os.rename(tmp_path / "a", tmp_path / "b")
            await seen(changed)
            os.unlink(tmp_path / "b")
            await seen(changed)
            assert not watch.is_polling

    run(work())


def test_two_directories_may_be_one(tmp_path):
    async def work():
        other = tmp_path / "other"
        other.mkdir()
        with watching(tmp_path, tmp_path, other) as (_, changed):
            (other / "a").touch()
            await seen(changed)

    run(work())


def test_a_directory_that_is_replaced_is_watched_again(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)

    async def work():
        directory = tmp_path / "plugins"
        directory.mkdir()
        with watching(directory) as (watch, changed):
            directory.rmdir()
            await seen(changed)
            assert watch.is_polling
            directory.mkdir()
            await until(lambda: not watch.is_polling)
            changed.clear()
            (directory / "a").touch()
            await seen(changed)

    run(work())


def test_a_directory_that_is_moved_away_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)

    async def work():
        directory = tmp_path / "plugins"
        directory.mkdir()
        with watching(directory) as (watch, changed):
            os.rename(directory, tmp_path / "old")
            await seen(changed)
            assert watch.is_polling

    run(work())


@pytest.mark.parametrize(
    ("number", "sysctl"),
    [
        (errno.EMFILE, "fs.inotify.max_user_instances"),
        (errno.ENFILE, "fs.file-max"),
        (errno.ENOSYS, None),
    ],
)
def test_without_inotify_it_looks_again_and_again(tmp_path, monkeypatch, caplog, number, sysctl):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)

    def refuse():
        raise OSError(number, os.strerror(number))

    async def work():
        with caplog.at_level(logging.WARNING), watching(tmp_path, make_inotify=refuse) as found:
            watch, changed = found
            assert watch.is_polling
            await seen(changed)
            await seen(changed)

    run(work())
    assert len(caplog.records) == 1
    assert (sysctl is None) or sysctl in caplog.text


def test_a_limit_on_watches_leads_to_polling(tmp_path, caplog):
    class Full(Inotify):
        def add(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def work():
        with watching(tmp_path, make_inotify=Full) as (watch, _):
            assert watch.is_polling

    with caplog.at_level(logging.WARNING):
        run(work())
    assert "fs.inotify.max_user_watches" in caplog.text


def test_a_watch_that_was_stopped_tells_nothing(tmp_path):
    async def work():
        with watching(tmp_path) as (watch, changed):
            watch.stop()
            (tmp_path / "a").touch()
            await asyncio.sleep(0)
            assert not changed.is_set()

    run(work())
