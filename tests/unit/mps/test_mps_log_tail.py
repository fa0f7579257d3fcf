"""The daemon's log is passed on."""

from __future__ import annotations

import logging

import pytest
from support.aio import run, until

from gpu_device_plugin.mps import log_tail as module
from gpu_device_plugin.mps.log_tail import LogTail


@pytest.fixture(autouse=True)
def all_levels(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)


def lines(caplog) -> list[str]:
    return [record.getMessage().removesuffix(" resource=r") for record in caplog.records]


def test_lines_come_whole_from_a_file_that_comes_later(tmp_path, caplog):
    path = tmp_path / "control.log"

    async def work():
        tail = LogTail("r", str(path))
        tail.start()
        tail.pass_on()
        path.write_bytes(b"one\ntw")
        await until(lambda: lines(caplog) == ["one"])
        with path.open("ab") as file:
            file.write(b"o\nthree\xff\nlast")
        await until(lambda: len(lines(caplog)) == 3)
        await tail.stop()

    run(work())
    assert lines(caplog) == ["one", "two", "three\ufffd", "last"]


def test_a_tail_that_was_not_started_can_be_stopped(tmp_path, caplog):
    run(LogTail("r", str(tmp_path / "absent")).stop())
    assert not caplog.records
