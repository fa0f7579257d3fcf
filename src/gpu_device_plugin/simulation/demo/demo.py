"""The demonstration: a simulated DGX, the real plugin, a kubelet and pods, and what goes wrong.

The plugin is ``nvidia-device-plugin`` itself in a process of its own, on real sockets in a
temporary directory; the kubelet and the GPUs are simulated. Every scene checks what came out, so
that the demonstration is a test of the whole as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO

from gpu_device_plugin.console.canvas import Canvas
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.simulated.backend import EVENTS_VARIABLE, SimulatedBackend
from gpu_device_plugin.simulation.demo.glyphs import glyphs_of, is_capable
from gpu_device_plugin.simulation.demo.print import Printer
from gpu_device_plugin.simulation.demo.process import PluginProcess
from gpu_device_plugin.simulation.demo.script import PROFILE, perform
from gpu_device_plugin.simulation.demo.stage import LogLine, Stage
from gpu_device_plugin.simulation.demo.text import to_text
from gpu_device_plugin.simulation.demo.theatre import Theatre
from gpu_device_plugin.simulation.demo.view import Glyphs, render
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.page_address import FREE_LOOPBACK

PLUGIN_DIR_VARIABLE = "GPU_NODE_PLUGIN_DIR"
REDRAW_SECONDS = 0.5
"""Longest time between two pictures, for the clock."""
FRAME_SECONDS = 0.04
"""Shortest time between two pictures."""
LAST_LOOK = 1.0
"""Seconds that the last picture stays."""
LAST_LINES = 12
"""Lines of the log that are shown after a failure."""
INTERRUPTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Interrupted = asyncio.Future[signal.Signals]


@dataclass(slots=True)
class _Interruption(Exception):
    """A signal has ended the demonstration."""

    number: signal.Signals


def run_demo(
    speed: float | None = None,
    stream: TextIO | None = None,
    page_address: str = FREE_LOOPBACK,
) -> int:
    """Runs the demonstration on a terminal, or as plain lines where there is none.

    Args:
        speed: how many times faster the pauses are; 0 for none. By default 1 on a terminal,
            else 0.
        stream: what is written to; the standard output by default.
        page_address: where the plugin's page and metrics are served meanwhile; empty for nowhere.

    Returns:
        0 if everything came out as it should, or somebody at the terminal has seen enough; 1 if
        something did not, with the reason on stderr; 128 and its number after another signal.
    """
    out = sys.stdout if stream is None else stream
    live = is_capable(out, os.environ)
    pace = float(live) if speed is None else speed
    try:
        with _quiet_logs():
            seconds = asyncio.run(_demo(out, page_address, live=live, speed=pace))
    except _Interruption as end:
        return 0 if live and end.number is signal.SIGINT else 128 + end.number
    except (UserError, OSError) as error:
        sys.stderr.write(f"gpu-node demo: {error}\n")
        return 1
    Printer(out).summary(seconds, live=live)
    return 0


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keeps log records of this process off the picture; what matters in them is shown there."""
    root = logging.getLogger()
    before, root.handlers[:] = root.handlers[:], [logging.NullHandler()]
    try:
        yield
    finally:
        root.handlers[:] = before


async def _demo(out: TextIO, page_address: str, *, live: bool, speed: float) -> float:
    """Sets the stage, plays, and clears away; the seconds that it took."""
    printer = Printer(out)
    on_line = None if live else printer.line
    async with _signals() as interrupted:
        with tempfile.TemporaryDirectory(prefix="gpu-node-") as directory:
            async with _theatre(directory, on_line, page_address, speed=speed) as house:
                play = _play_live if live else _play_plain
                await play(house, printer, interrupted)
                return house.stage.seconds


@asynccontextmanager
async def _theatre(
    directory: str,
    on_line: Callable[[LogLine], None] | None,
    page_address: str,
    *,
    speed: float,
) -> AsyncIterator[Theatre]:
    """The kubelet running, the plugin ready to be started; both are stopped in the end."""
    sockets = os.path.join(directory, "device-plugins")
    os.mkdir(sockets)
    backend = SimulatedBackend.from_profile(PROFILE)
    inventory = backend.read()
    stage = Stage(
        backend.node.profile.machine,
        inventory,
        hidden=(sockets + "/", directory + "/"),
        on_line=on_line,
    )
    pods = os.path.join(directory, "pod-resources.sock")
    kubelet = SimulatedKubelet(sockets, stage.hear_kubelet, pod_resources_socket=pods)
    config, events = os.path.join(directory, "config.yaml"), os.path.join(directory, "events")
    plugin = PluginProcess(
        [
            f"--simulate={PROFILE}",
            f"--kubelet-socket={kubelet.socket}",
            f"--config-file={config}",
            f"--metrics-address={page_address}",
            f"--pod-resources-socket={pods}",
        ],
        {PLUGIN_DIR_VARIABLE: sockets, EVENTS_VARIABLE: events},
        stage.hear_plugin,
    )
    async with kubelet:
        try:
            yield Theatre(stage, kubelet, plugin, inventory, config, events, speed)
        finally:
            await plugin.stop()


async def _play_plain(house: Theatre, printer: Printer, interrupted: Interrupted) -> None:
    """Plays while the log is printed as it grows."""
    play = perform(
        house,
        before=lambda: printer.begin(house.stage),
        after=lambda: printer.end(house.picture()),
    )
    await _first_of([play], interrupted)


async def _play_live(house: Theatre, printer: Printer, interrupted: Interrupted) -> None:
    """Plays while the picture is drawn anew after every change."""

    async def play() -> None:
        await perform(house)
        await house.pause(LAST_LOOK)

    loop = asyncio.get_running_loop()
    try:
        with Canvas(printer.stream) as canvas:
            loop.add_signal_handler(signal.SIGWINCH, house.stage.changed.set)
            await _first_of([play(), _draw(house, canvas, glyphs_of(printer.stream))], interrupted)
    except UserError:
        # The picture that showed them is gone.
        for line in house.picture().log[-LAST_LINES:]:
            printer.line(line)
        raise
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _draw(house: Theatre, canvas: Canvas, glyphs: Glyphs) -> None:
    while True:
        house.stage.changed.clear()
        picture = render(house.picture(), *canvas.size(), glyphs)
        canvas.draw([to_text(line, colour=True) for line in picture])
        await asyncio.sleep(FRAME_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(REDRAW_SECONDS):
                await house.stage.changed.wait()


@asynccontextmanager
async def _signals() -> AsyncIterator[Interrupted]:
    """The first signal that asks for an end; more of them do not keep from clearing away."""
    loop = asyncio.get_running_loop()
    interrupted: Interrupted = loop.create_future()

    def interrupt(number: signal.Signals) -> None:
        if not interrupted.done():
            interrupted.set_result(number)

    for number in INTERRUPTED:
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield interrupted
    finally:
        interrupted.cancel()
        for number in INTERRUPTED:
            loop.remove_signal_handler(number)


async def _first_of(
    works: Sequence[Coroutine[object, object, None]], interrupted: Interrupted
) -> None:
    """Runs until the first of them has ended, or a signal comes.

    Raises:
        _Interruption: a signal came.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        futures: list[asyncio.Future[Any]] = [*tasks, interrupted]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if interrupted.done():
            raise _Interruption(interrupted.result())
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
