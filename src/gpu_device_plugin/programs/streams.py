"""The standard streams of a program that was started without some of them."""

from __future__ import annotations

import os
import sys

STDIN, STDOUT, STDERR = range(3)


def fill_standard_streams(*, needs_stdout: bool = True) -> None:
    """Opens the standard streams that are closed (``>&-``).

    Else the next file or socket would get the number of one, and whatever a library writes to
    stderr would end up in it. Stdin is empty then; what goes to stderr vanishes.

    Args:
        needs_stdout: whether it is an error that nobody gets what goes to stdout; else that
            vanishes, too, as with k8s-device-plugin.
    """
    vanishing = {STDERR} if needs_stdout else {STDOUT, STDERR}
    for number in (STDIN, STDOUT, STDERR):
        if not _is_open(number):
            # The system gives the lowest number that is free, and those below are taken by now.
            os.open(os.devnull, os.O_WRONLY if number in vanishing else os.O_RDONLY)
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115 - for ever
    sys.stdout = sys.stdout or open(STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
