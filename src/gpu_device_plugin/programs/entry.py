"""Where the installed programs begin, before anything heavy is imported.

Loading takes a fifth of a second. A request to end that comes meanwhile is kept until the program
can follow it: by default it would be lost for the first process of a container, and print a
traceback for others. A SIGHUP asks for nothing that is not about to happen anyway.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

HELD = {signal.SIGINT, signal.SIGTERM, signal.SIGQUIT}
"""Given free by `gpu_device_plugin.watch.signals.on_signals`."""


def device_plugin() -> None:
    """``nvidia-device-plugin``."""
    hold_signals()
    from gpu_device_plugin.programs.device_plugin import main  # noqa: PLC0415 - heavy

    main()


def gpu_feature_discovery() -> None:
    """``gpu-feature-discovery``."""
    hold_signals()
    from gpu_device_plugin.programs.gpu_feature_discovery import main  # noqa: PLC0415 - heavy

    main()


def config_manager() -> None:
    """``config-manager``, which SIGHUP ends, too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    from gpu_device_plugin.programs.config_manager import main  # noqa: PLC0415 - heavy

    main()


def mps_control_daemon() -> None:
    """``mps-control-daemon``."""
    hold_signals()
    from gpu_device_plugin.programs.mps_control_daemon import main  # noqa: PLC0415 - heavy

    main()


def hold_signals() -> None:
    """Keeps what comes until `on_signals` of the program; for the main function of a process only."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)


def leave(code: int) -> NoReturn:
    """Ends the process; for its main function only.

    A request to end it that comes while it ends would print a traceback or change the exit code.
    """
    for number in HELD:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)
