"""What has caused something: a line of the configuration, a flag, a variable, or a rule."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.options import option_for_path


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something is as it is."""

    what: str
    """What it makes, such as ``4 replicas``."""
    by: str
    """The key, flag or variable, or the rule in words."""
    place: Place | None = None
    """Where it stands in a file; None for flags, variables and rules."""

    def __str__(self) -> str:
        """``4 replicas: sharing.timeSlicing.resources[0].replicas (config.yaml:7)``."""
        text = f"{self.what}: {self.by}" if self.what else self.by
        if self.place is not None and self.place.line:
            text += f" ({self.place.file}:{self.place.line})"
        return text


def cause(loaded: Loaded, path: str, what: str, rule: str = "") -> Cause:
    """What has set a key of the configuration.

    Args:
        loaded: the configuration.
        path: the key.
        what: it makes.
        rule: what counts if nothing has set it; by default, that its option has a default.
    """
    origin = loaded.origin(path)
    if origin is None:
        option = option_for_path(path)
        usual = f"default of --{option.name}" if option else f"default of {path}"
        return Cause(what, rule or usual)
    if origin.file:
        return Cause(what, origin.path, origin)
    return Cause(what, origin.path)
