"""Where the installed programs begin, before anything heavy is imported."""

from __future__ import annotations

import signal


def device_plugin() -> None:
    """``nvidia-device-plugin``.

    A SIGHUP that comes while the program is still being loaded asks for nothing that is not about
    to happen; by default it would end the process.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from gpu_device_plugin.programs.device_plugin import main  # noqa: PLC0415 - as above

    main()


def gpu_feature_discovery() -> None:
    """``gpu-feature-discovery``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from gpu_device_plugin.programs.gpu_feature_discovery import main  # noqa: PLC0415 - as above

    main()


def mps_control_daemon() -> None:
    """``mps-control-daemon``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from gpu_device_plugin.programs.mps_control_daemon import main  # noqa: PLC0415 - as above

    main()
