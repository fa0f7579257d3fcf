"""A process that is told of changes, and counts how often."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COUNT = """
import signal, sys
def note(number, frame):
    with open(sys.argv[1], "ab", 0) as file:
        file.write(b"%d\\n" % number)
for number in (signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, note)
print("ready", flush=True)
while True:
    signal.pause()
"""


class CountingTarget:
    """A running process with a name of its own."""

    def __init__(self, pid: int, record: Path) -> None:
        self.pid = pid
        self._record = record

    @property
    def signals(self) -> list[int]:
        """The signals that have come, in order."""
        return [int(line) for line in self._record.read_text().split()]

    @property
    def count(self) -> int:
        return len(self.signals)


@contextmanager
def counting(name: str, directory: Path) -> Iterator[CountingTarget]:
    """Starts a process whose first argument is a name; it counts from the beginning."""
    record = directory / f"signals-{name.replace('/', '-')}"
    record.write_text("")
    with subprocess.Popen(
        [name, "-SEc", COUNT, str(record)], executable=sys.executable, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield CountingTarget(process.pid, record)
        finally:
            process.kill()
