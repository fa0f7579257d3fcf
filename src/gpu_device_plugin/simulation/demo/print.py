"""The demonstration as plain lines, for files, pipes and terminals that can do no more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

from gpu_device_plugin.simulation.demo.glyphs import glyphs_of
from gpu_device_plugin.simulation.demo.script import ACTS
from gpu_device_plugin.simulation.demo.stage import LogLine, Picture, Stage, Tone
from gpu_device_plugin.simulation.demo.text import SGR, Line, Span, span, to_text
from gpu_device_plugin.simulation.demo.view import gpu_table, log_line, resource_table

PLAIN_WIDTH = 100
"""Columns of the tables."""


class Printer:
    """What the live view shows, as lines: the log as it grows, the tables after each act."""

    def __init__(self, out: TextIO) -> None:
        self.stream = out
        self._glyphs = glyphs_of(out)
        self._last_table: list[Line] = []

    def line(self, line: LogLine) -> None:
        """A line of the log."""
        self._write(log_line(line, PLAIN_WIDTH, named=True))

    def say(self, text: str) -> None:
        """Lines that are of neither log nor tables."""
        self._write([(span(line),) for line in text.splitlines()])

    def begin(self, stage: Stage) -> None:
        """An act begins."""
        scene = stage.scene
        number = f"{scene.number}/{scene.total}  "
        self._write([(), (span(number + scene.title),), (span(" " * len(number) + scene.text),)])

    def end(self, picture: Picture) -> None:
        """An act has ended; GPUs that look as before are not shown again."""
        table = gpu_table(picture, PLAIN_WIDTH, self._glyphs)
        resources = resource_table(picture.node, PLAIN_WIDTH, self._glyphs)
        lines = [*resources] if table == self._last_table else [*table, (), *resources]
        self._last_table = table
        self._write([(span("       "), *line) for line in lines])

    def summary(self, seconds: float, *, live: bool) -> None:
        """Everything is over, and well."""
        done = Span(self._glyphs.done, SGR[Tone.GOOD])
        acts: list[Line] = [(done, span(f" {act.title}")) for act in ACTS] if live else [()]
        end = span(f"All {len(ACTS)} acts came out as they should, in {seconds:.1f} s.")
        self._write([*acts, (end,)], colour=live)

    def _write(self, lines: Iterable[Line], *, colour: bool = False) -> None:
        """Writes; if nobody reads any more, the story is played to its end all the same."""
        try:
            self.stream.write("".join(to_text(line, colour=colour) + "\n" for line in lines))
            self.stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
