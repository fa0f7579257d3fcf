"""The configuration of a program: command line over environment over file over defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpu_device_plugin.config.customise import disable_customisation
from gpu_device_plugin.config.diagnostics import ConfigWarning, Place, Report, at_once
from gpu_device_plugin.config.files import NotAFile, open_file
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.model import Config, DeviceListStrategy, PluginFlags
from gpu_device_plugin.config.options import PROGRAMS, Option, Program
from gpu_device_plugin.config.schema import Key, build, folded
from gpu_device_plugin.errors import ConfigError

if TYPE_CHECKING:
    from gpu_device_plugin.config.decode import Decoded
    from gpu_device_plugin.config.document import Document

LARGEST = 2 * 1024 * 1024
"""Bytes of a file that are read: twice what a ConfigMap can hold."""
MOST_FINDINGS = 1000
"""Warnings of one file for whoever wants to know of everything."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and what is odd about it."""

    config: Config
    warnings: tuple[ConfigWarning, ...] = ()
    origins: Mapping[str, Place] = field(default_factory=dict)
    """What set an option, by its key of the file: flag, variable or line; nothing for defaults."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where keys and items of the file stand, by their `folded` paths."""
    file: str = ""
    """Path of the configuration file; empty if there is none."""

    def origin(self, path: str) -> Place | None:
        """What has set the value at a key of the file; None for a default."""
        return self.origins.get(path) or self.places.get(folded(path))


def read_file(path: str, *, again: bool = False) -> bytes:
    """The contents of a configuration file.

    Args:
        path: of the file.
        again: whether it is read again when it may have changed, so that a pipe will not do.

    Raises:
        ConfigError: they cannot be had.
    """
    place = Place(path)
    try:
        with open_file(path, again=again) as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        right = error.right if isinstance(error, NotAFile) else ""
        raise place.error(f"the configuration file cannot be read: {reason}", right) from None
    if len(data) > LARGEST:
        raise place.error("the configuration file is too large", f"allowed: {LARGEST} bytes")
    return data


def load(
    parsed: Parsed,
    read: Callable[[str], bytes] = read_file,
    report: Report = at_once,
    document: Callable[[], Document] | None = None,
) -> Loaded:
    """Reads the file, if there is one, and puts flags, variables and defaults to it.

    It is called again for every reload: the file is read anew, flags and variables stay.

    Args:
        parsed: the command line and environment of a program that has a configuration file.
        read: gives the contents of the file of that path.
        report: is told of every value in the file that is wrong. If it returns, the configuration
            is made of all the others.
        document: gives what is in the file, where it is not read for this alone.

    Raises:
        ConfigError: the file cannot be read or has something wrong in it.
    """
    file = parsed.text("config-file")
    decoded = None
    if file:
        decoded = _decode(document or (lambda: _document(read, file, parsed)), file, report)
    values: dict[str, Any] = decoded.values if decoded else {}
    origins: dict[str, Place] = {}
    flags = _section(values, "flags")
    _section(flags, "plugin")
    _section(flags, "gfd")
    for option in PROGRAMS[parsed.program].options:
        if option.config_path and _merge(values, option, parsed):
            if parsed.is_set(option.name):
                origins[option.config_path] = Place(path=parsed.origins[option.name])
            elif decoded:
                origins[option.config_path] = decoded.places[folded(option.config_path)]
    flags["nvidia_dev_root"] = flags.get("nvidia_dev_root") or flags.get("nvidia_driver_root")
    if parsed.program not in {Program.GPU_FEATURE_DISCOVERY, Program.AGENT}:
        flags["gfd"] = None
    _refuse_more_than_one_with_mps(values)
    config, changes = disable_customisation(build(SCHEMA, values), file)
    warnings = [*(decoded.warnings if decoded else ()), *changes, *_hidden(config, file)]
    if parsed.program in {Program.DEVICE_PLUGIN, Program.AGENT}:
        warnings += _without_devices(config.flags.plugin, origins)
    places = decoded.places if decoded else {}
    return Loaded(config, tuple(warnings), origins, places, file)


def _document(read: Callable[[str], bytes], file: str, parsed: Parsed) -> Document:
    from gpu_device_plugin.config.document import parse_document  # noqa: PLC0415 - as for decode

    try:
        data = read(file)
    except ConfigError as error:
        hints = (error.hint, f"set by {parsed.origins['config-file']}")
        raise ConfigError(error.message, "; ".join(filter(None, hints))) from None
    return parse_document(data, file)


def _decode(document: Callable[[], Document], file: str, report: Report) -> Decoded:
    from gpu_device_plugin.config.decode import (  # noqa: PLC0415 - needless without a file
        MOST_WARNINGS,
        decode_document,
    )

    most = MOST_WARNINGS if report is at_once else MOST_FINDINGS
    return decode_document(document(), file, report, most)


def _section(values: dict[str, Any], field: str) -> dict[str, Any]:
    """The values of a section, which is created if need be."""
    section = values.get(field)
    if section is None:
        section = values[field] = {}
    found: dict[str, Any] = section
    return found


def _merge(values: dict[str, Any], option: Option, parsed: Parsed) -> bool:
    """Puts in what a flag or variable says, or the default where the file says nothing.

    The IMEX settings get no default: an empty list and false are what they begin with.

    Returns:
        Whether anything but the default is in force.
    """
    *sections, last = _fields(option.config_path)
    for section in sections:
        values = _section(values, section)
    is_set = parsed.is_set(option.name) or values.get(last) is not None
    if parsed.is_set(option.name) or not (is_set or option.config_path.startswith("imex.")):
        values[last] = parsed.values[option.name]
    return is_set


def _fields(path: str) -> Iterator[str]:
    """The fields of the model that lead to a key: ``flags``, ``plugin``, ``pass_device_specs``."""
    key: Key = SCHEMA
    for name in path.split("."):
        key = next(child for child in key.children if child.name == name)
        yield key.field


def _refuse_more_than_one_with_mps(values: dict[str, Any]) -> None:
    """With MPS a container gets one replica unless the file says ``false``.

    DEVIATION: k8s-device-plugin v0.19.3 ignores an explicit ``false``; v0.20.0 honours it.
    """
    mps = (values.get("sharing") or {}).get("mps")
    if mps is not None and mps.get("fail_requests_greater_than_one") is None:
        mps["fail_requests_greater_than_one"] = True


def _hidden(config: Config, file: str) -> Iterator[ConfigWarning]:
    sharing = config.sharing
    if sharing.mps is not None and sharing.time_slicing.resources:
        place = Place(file, path="sharing.timeSlicing")
        yield ConfigWarning(place, "without effect beside sharing.mps")
    entries = config.extensions.sharing
    takes_all = (i for i, entry in enumerate(entries) if entry.selects_everything)
    first = next(takes_all, len(entries))
    for number in range(first + 1, len(entries)):
        place = Place(file, path=f"extensions.sharing[{number}]")
        message = f"without effect after extensions.sharing[{first}], which selects every device"
        yield ConfigWarning(place, message)
    if config.extensions.mps.resources and not config.uses_mps():
        place = Place(file, path="extensions.mps")
        yield ConfigWarning(place, "without effect: nothing is shared through MPS")
    seen = dict[str, int]()
    for number, limits in enumerate(config.extensions.mps.resources):
        earlier = seen.setdefault(limits.name, number)
        if earlier != number:
            place = Place(file, path=f"extensions.mps.resources[{number}]")
            message = f"without effect after extensions.mps.resources[{earlier}], of the same name"
            yield ConfigWarning(place, message)


def _without_devices(flags: PluginFlags, origins: Mapping[str, Place]) -> Iterator[ConfigWarning]:
    """Strategies that leave devices, or what belongs to them, out of containers."""
    strategies = flags.device_list_strategy
    if not strategies:
        place = origins["flags.plugin.deviceListStrategy"]
        yield ConfigWarning(place, "the list is empty: containers get no devices")
    elif flags.pass_device_specs and all(_is_cdi(name) for name in strategies):
        place = origins["flags.plugin.passDeviceSpecs"]
        message = "without effect with CDI strategies alone"
        yield ConfigWarning(place, message, "CDI specifications have the device nodes")


def _is_cdi(name: str) -> bool:
    """Whether a strategy, which need not be one, is one of CDI."""
    return any(name == strategy for strategy in DeviceListStrategy if strategy.is_cdi)
