"""Requests to end that come while a program ends: Ctrl-C twice, an impatient supervisor."""

from __future__ import annotations

import signal

import pytest
from support.aio import run
from support.commands import RUN, run_program
from support.process import plugin

AGAIN = "import atexit, os; atexit.register(lambda: os.kill(os.getpid(), {number})); "
"""Sends a signal as the very last thing."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_daemon_ends_as_it_was_about_to(tmp_path, number):
    async def work():
        before = AGAIN.format(number=int(number))
        async with plugin(tmp_path, before=before) as running:
            await running.logged("waiting for the kubelet")
            running.signal(number)
            assert await running.ended() == 0
        assert "Exception" not in running.log

    run(work())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_has_the_exit_code_of_its_work(number):
    before = AGAIN.format(number=int(number))

    done = run_program(before + RUN, "topology", "--simulate=t4x4")

    assert (done.code, done.err) == (0, "")
    assert "Tesla T4" in done.out
    assert run_program(before + RUN, "validate", "/none").code == 1
