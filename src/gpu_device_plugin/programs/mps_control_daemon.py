"""``mps-control-daemon``: its options; the program itself is not part of this release yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.programs.common import run_program


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    sys.exit(run_program(Program.MPS_CONTROL_DAEMON, refuse, argv))


def refuse(_: Parsed) -> None:
    """Says that there is nothing behind the options yet."""
    raise UserError(
        "mps-control-daemon is not part of this release yet",
        "use the one of k8s-device-plugin v0.19.3 beside this nvidia-device-plugin",
    )
