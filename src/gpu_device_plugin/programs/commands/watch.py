"""``--watch``: the same look again and again, until somebody has seen enough."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.canvas import Canvas
from gpu_device_plugin.console.screen import Colours, Screen, colours_for
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.programs.commands.console import write_out
from gpu_device_plugin.programs.commands.status import Shown
from gpu_device_plugin.status.look import Look, LookSource
from gpu_device_plugin.status.words import clock_time

log = logging.getLogger(__name__)

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals after which the terminal has to be given back first."""
SIGNAL_EXIT = 128
"""As a shell has it, before the number of the signal."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest look, and why there is no newer one."""

    look: Look
    error: str = ""


async def watch(source: LookSource, first: Look, shown: Shown) -> int:
    """Shows the first look and all later ones; only Ctrl-C or a signal ends it.

    A look in vain is told, and the watching goes on.

    Args:
        source: is asked.
        first: what it has told.
        shown: what of it is shown.

    Returns:
        The exit code after a signal other than that of Ctrl-C.
    """
    shown.require(first.status)  # what cannot be shown at all ends it before anything is drawn
    if shown.form == "table" and is_terminal():
        return await _watch_on_terminal(source, first, shown)
    return await _watch_as_blocks(source, first, shown)


def is_terminal() -> bool:
    """Whether pictures can be drawn on the standard output."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}


async def _next(source: LookSource, before: Seen, shown: Shown) -> Seen:
    """The look after the pause, or the one before with the reason why there is none."""
    await asyncio.sleep(shown.seconds or 0)
    try:
        look = await source.look()
        shown.require(look.status)
        return Seen(look)
    except UserError as error:
        return Seen(before.look, str(error))


async def _watch_as_blocks(source: LookSource, first: Look, shown: Shown) -> int:
    """A block for each look; messages go to stderr when they change."""
    seen, told = Seen(first), list[str]()
    is_first = True
    while True:
        messages = [seen.error] if seen.error else shown.notes(seen.look)
        for message in messages:
            if message not in told:
                log.warning("%s", message)
        told = messages
        if not seen.error:
            write_out(_opening(shown.form, seen.look, is_first=is_first) + shown.text(seen.look))
            is_first = False
        seen = await _next(source, seen, shown)


def _opening(form: str, look: Look, *, is_first: bool) -> str:
    """What tells a block from the one before."""
    if form == "yaml":
        return "" if is_first else "---\n"
    if form == "json":
        return ""
    return f"{'' if is_first else chr(10)}{clock_time(look.status.time)}\n"


async def _watch_on_terminal(source: LookSource, first: Look, shown: Shown) -> int:
    """One picture that changes; the last one stays when it is over."""
    seen, columns = Seen(first), 80
    changed = asyncio.Event()

    async def keep_looking() -> None:
        nonlocal seen
        while True:
            seen = await _next(source, seen, shown)
            changed.set()

    with _called_on((signal.SIGWINCH,), lambda _: changed.set()), _ending() as ended:
        looking = asyncio.create_task(keep_looking(), name="look")
        try:
            with Canvas(sys.stdout) as canvas:
                while not ended.done() and not looking.done():
                    changed.clear()
                    columns, height = canvas.size()
                    picture = _cut(_picture(seen, shown, columns), height)
                    canvas.draw([_writable(line) for line in picture])
                    await _first_of(changed, ended, looking)
        finally:
            looking.cancel()
            write_out("".join(f"{line}\n" for line in _picture(seen, shown, columns)))
        if not ended.done():
            await looking  # raises what has ended it
        return SIGNAL_EXIT + ended.result()


async def _first_of(changed: asyncio.Event, *others: asyncio.Future[Any]) -> None:
    """Waits until there is something to do."""
    changing = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait({changing, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        changing.cancel()


@contextmanager
def _ending() -> Iterator[asyncio.Future[int]]:
    """The number of the first signal that asks for an end."""
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(number)

    with _called_on(ENDING, end):
        yield ended
    ended.cancel()


@contextmanager
def _called_on(numbers: Sequence[signal.Signals], call: Callable[[int], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, call, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _picture(seen: Seen, shown: Shown, columns: int) -> list[str]:
    """All lines that there are to show."""
    colours = colours_for(sys.stdout, os.environ)
    lines = [f"{clock_time(seen.look.status.time)}, every {shown.seconds:g} s, Ctrl-C ends", ""]
    messages = [seen.error] if seen.error else shown.notes(seen.look)
    lines += [_message(message, colours, is_error=bool(seen.error)) for message in messages]
    lines += [""] if messages else []
    return lines + (shown.lines(seen.look, Screen(columns, colours)) or [shown.view.if_empty])


def _writable(line: str) -> str:
    """The line with what the terminal's encoding lacks written with backslashes."""
    encoding = sys.stdout.encoding or "ascii"
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _message(text: str, colours: Colours, *, is_error: bool) -> str:
    word, colour = ("error", colours.red) if is_error else ("warning", colours.yellow)
    return f"{colours.paint(colour, word)}: {one_line(text)}"


def _cut(lines: list[str], height: int) -> list[str]:
    """As many lines as there is room for."""
    if len(lines) <= height:
        return lines
    more = len(lines) - height + 1
    return [*lines[: height - 1], f"... {more} more lines"]
