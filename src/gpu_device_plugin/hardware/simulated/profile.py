"""Profiles: what a simulated node has, by the name of a built-in one or from a YAML file.

::

    base: dgx-a100            # another profile; the keys of this file replace those of the base
    machine: DGXA100          # what the machine calls itself (DMI product name)
    platform: nvml            # nvml, tegra or wsl
    driver: 550.127.05        # version of the driver
    cuda: 12.4                # newest CUDA that the driver supports
    init-error: TEXT          # the driver cannot be used, for this reason
    events: control           # file that misbehaviour is read from (see `simulated.events`)
    gpus:
      - product: NVIDIA A100-SXM4-40GB   # a name of products.yaml; all else is optional
        count: 8              # that many of them (1)
        name: ENGINEERING A100           # what NVML calls it (the product)
        uuid: GPU-...         # (made from the profile's name and the index)
        minor: 0              # of /dev/nvidia<minor> (the index)
        memory: 40960         # MiB; 0 if the driver does not tell (that of the product)
        compute: 8.0          # compute capability (that of the product)
        health: watched       # watched; unwatched: reports nothing; unmonitorable: cannot be watched
        mig: [1g.5gb, 3g.20gb:1c+2c]     # how it is cut; [] if MIG is on and it is not; off
        mig-slots: [0, 2, 3]  # NVML's indices of the MIG devices (counted from 0)
    pci: ["07:00.0", ...]     # PCI addresses of the GPUs, in their order
    numa: [3, 3, ...]         # their NUMA nodes; -1 for none
    topology:                 # groups of GPUs by how near they are, as `nvidia-smi topo -m` says it
      PXB: [[0, 1], [2, 3]]   # the nearest counts; what is in no common group is SYS
    nvlinks: {0-1: 2}         # NVLinks between pairs of GPUs; those to NVSwitches do not count

``pci``, ``numa``, ``topology`` and ``nvlinks`` describe places of the machine: there may be more
of them than GPUs. A name with a ``/``, or that ends in ``.yaml`` or ``.yml``, is the path of a
file (that of a base from the directory of its file on), any other one a built-in profile.
"""

from __future__ import annotations

import os

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.simulated.gpus import make_profile
from gpu_device_plugin.hardware.simulated.model import Profile
from gpu_device_plugin.hardware.simulated.yaml import Entry, one_line, parse_yaml, quote

PROFILE_DIRECTORY = os.path.join(os.path.dirname(__file__), "profiles")
DEEPEST_BASE = 8
"""Profiles that build on each other."""

KEYS = (
    "base",
    "machine",
    "platform",
    "driver",
    "cuda",
    "init-error",
    "events",
    "gpus",
    "pci",
    "numa",
    "topology",
    "nvlinks",
)


def built_in_names() -> list[str]:
    """The built-in profiles."""
    found = os.listdir(PROFILE_DIRECTORY)
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def load_profile(name_or_path: str) -> Profile:
    """Reads and checks a profile.

    Raises:
        ConfigError: there is none, or it is wrong; one line with file, line, key and what is
            allowed there.
    """
    path = profile_path(name_or_path)
    return make_profile(_name(path), _merged(path, ()))


def parse_profile_text(text: str, file: str) -> Profile:
    """A profile from the text of a file.

    Raises:
        ConfigError: as `load_profile`.
    """
    return make_profile(_name(file), _with_base(parse_yaml(text, file), file, (file,)))


def profile_path(name_or_path: str, directory: str = "") -> str:
    """The file of a profile.

    Args:
        name_or_path: name of a built-in profile, or path of a file.
        directory: from where a path that is not absolute leads on.

    Raises:
        ConfigError: it is no path, and no built-in profile has that name.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return os.path.normpath(os.path.join(directory, name_or_path))
    names = built_in_names()
    if name_or_path not in names:
        raise ConfigError(
            f"there is no simulated node {quote(name_or_path)}",
            f"allowed: {', '.join(names)}, or the path of a YAML file",
        )
    return os.path.join(PROFILE_DIRECTORY, f"{name_or_path}.yaml")


def _name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _merged(path: str, below: tuple[str, ...]) -> dict[str, Entry]:
    """The keys of a file over those of its bases."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{one_line(path)}: the profile cannot be read: {reason}") from None
    real = os.path.realpath(path)
    return _with_base(parse_yaml(text, path), path, (*below, real))


def _with_base(top: Entry, path: str, below: tuple[str, ...]) -> dict[str, Entry]:
    if top.is_nothing:
        return {}
    given = top.mapping(KEYS)
    if "base" not in given:
        return given
    base = given["base"]
    try:
        base_path = profile_path(base.line_of_text(4096), os.path.dirname(path))
    except ConfigError as error:
        raise base.error(error.message, error.hint.removeprefix("allowed: ")) from None
    if os.path.realpath(base_path) in below or len(below) >= DEEPEST_BASE:
        raise base.error(f"{base.shown()} builds on this very file, or on too many others")
    inherited = _merged(base_path, below)
    for key in top.nulls():
        inherited.pop(key, None)
    return {**inherited, **given}
