"""Misbehaviour of a simulated node, told by lines that are appended to a file.

::

    xid GPU NUMBER [GI CI]     a critical error of the GPU, or of one MIG device on it
    lost GPU                   falls off the bus: XID 79 now, unreadable from the next read on
    back GPU                   is there again at the next read, and can be watched
    unmonitorable GPU          cannot be watched any more
    monitor-error TEXT         no GPU can be watched any more
    monitor-ok                 all can be watched again
    init-error TEXT            the driver cannot be used from the next read on
    init-ok                    it can be used again
    mig GPU PROFILE[,...]      is cut like that at the next read; `none`: MIG is on, without devices
    mig GPU off                MIG is off at the next read

GPU is an index or a UUID. Empty lines and those that begin with ``#`` do not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.simulated.yaml import quote, whole_number

MOST_READ = 1_000_000
"""Bytes that are taken from the file at a time."""
LARGEST = 2**32 - 1
"""Of XIDs and of ids of instances."""


class Action(StrEnum):
    """What happens to the node."""

    XID = "xid"
    LOST = "lost"
    BACK = "back"
    UNMONITORABLE = "unmonitorable"
    MONITOR_ERROR = "monitor-error"
    MONITOR_OK = "monitor-ok"
    INIT_ERROR = "init-error"
    INIT_OK = "init-ok"
    MIG = "mig"


USAGE = {
    Action.XID: "xid GPU NUMBER [GI CI]",
    Action.LOST: "lost GPU",
    Action.BACK: "back GPU",
    Action.UNMONITORABLE: "unmonitorable GPU",
    Action.MONITOR_ERROR: "monitor-error TEXT",
    Action.MONITOR_OK: "monitor-ok",
    Action.INIT_ERROR: "init-error TEXT",
    Action.INIT_OK: "init-ok",
    Action.MIG: "mig GPU PROFILE[,PROFILE...] or mig GPU off",
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of the file."""

    action: Action
    gpu: str = ""
    """Index or UUID."""
    xid: int = 0
    instances: tuple[int, int] | None = None
    """GPU instance and compute instance that an XID names."""
    text: str = ""
    profiles: tuple[str, ...] | None = None
    """MIG profiles; None to switch MIG off."""


def parse_line(line: str) -> Instruction | None:
    """What a line says; None if it says nothing.

    Raises:
        ConfigError: it is none of the lines that there are.
    """
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    try:
        action = Action(words[0])
    except ValueError:
        raise ConfigError(
            f"{quote(words[0])} is nothing that can happen", "allowed: " + ", ".join(Action)
        ) from None
    instruction = _parse(action, words[1:])
    if instruction is None:
        raise ConfigError(
            f"{quote(line.strip())} cannot be understood", f"allowed: {USAGE[action]}"
        )
    return instruction


def _parse(action: Action, words: list[str]) -> Instruction | None:
    """The instruction; None if there are not the right words for it."""
    if action in {Action.MONITOR_ERROR, Action.INIT_ERROR}:
        text = " ".join(words)
        return Instruction(action, text=text) if text and text.isprintable() else None
    if action in {Action.MONITOR_OK, Action.INIT_OK}:
        return None if words else Instruction(action)
    if action is Action.XID:
        return _parse_xid(words)
    if action is Action.MIG:
        if len(words) != 2:
            return None
        return Instruction(action, gpu=words[0], profiles=_profiles(words[1]))
    return Instruction(action, gpu=words[0]) if len(words) == 1 else None


def _parse_xid(words: list[str]) -> Instruction | None:
    numbers = [whole_number(word) for word in words[1:]]
    known = [number for number in numbers if number is not None and 0 <= number <= LARGEST]
    if len(known) != len(numbers) or len(known) not in {1, 3}:
        return None
    instances = (known[1], known[2]) if len(known) == 3 else None
    return Instruction(Action.XID, gpu=words[0], xid=known[0], instances=instances)


def _profiles(word: str) -> tuple[str, ...] | None:
    if word == "off":
        return None
    return () if word == "none" else tuple(word.split(","))


class ControlFile:
    """Follows a file to which lines are appended; it need not be there yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._line = 0
        self._rest = b""

    def new_lines(self) -> Iterator[tuple[int, str]]:
        """The lines that were completed since the last call, with their numbers.

        A file that is another one or shorter than before is read from its beginning.
        """
        try:
            found = os.stat(self.path)
        except OSError:
            return
        identity = found.st_dev, found.st_ino
        if identity != self._identity or found.st_size < self._offset:
            self._identity, self._offset, self._line, self._rest = identity, 0, 0, b""
        while self._offset < found.st_size:
            try:
                with open(self.path, "rb") as file:
                    file.seek(self._offset)
                    data = file.read(MOST_READ)
            except OSError:
                return
            if not data:
                return
            self._offset += len(data)
            *complete, self._rest = (self._rest + data).split(b"\n")
            for raw in complete:
                self._line += 1
                yield self._line, raw.decode("utf-8", "replace")
