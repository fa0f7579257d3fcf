"""Errors that a user can act on.

::

    UserError                    one line to the log, no traceback, exit code 1
    ├── UsageError               a flag or an environment variable is wrong
    ├── ConfigError              the configuration file or a combination of values is wrong
    ├── UnwritableError          a file cannot be written for now, whatever the configuration
    ├── HardwareError            the GPUs of the node cannot be read
    │   └── InitError            the driver library is missing or cannot be initialised
    └── RequestError             a kubelet's request cannot be answered (a gRPC status, the process lives)

Anything else that is raised is a programming error and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Callable


class UserError(Exception):
    """A problem outside the program; `hint` says what would be right."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(UserError):
    """A flag or an environment variable cannot be understood."""


class ConfigError(UserError):
    """A configuration file, or a combination of options, cannot be used."""


class UnwritableError(UserError):
    """A file cannot be written, which may pass by itself: a disk is full, a limit is reached."""

    def __init__(self, message: str, hint: str, is_over: Callable[[], bool]) -> None:
        """Takes what is wrong.

        Args:
            message: as for other errors.
            hint: as for other errors.
            is_over: whether the file could be written by now; may block.
        """
        super().__init__(message, hint)
        self.is_over = is_over


class HardwareError(UserError):
    """The GPUs of the node cannot be read."""


class InitError(HardwareError):
    """The driver library cannot be loaded or initialised; waiting may help."""


class RequestError(UserError):
    """A request of the kubelet names something that does not exist or cannot be satisfied."""
