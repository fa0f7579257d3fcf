"""Labels of whole GPUs: product, number, memory, architecture, sharing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.hardware.model import Gpu, Platform
from gpu_device_plugin.labels import keys
from gpu_device_plugin.labels.model import Facts, Finding, Label, Problem
from gpu_device_plugin.labels.shares import NOT_OFFERED, Terms, find_terms
from gpu_device_plugin.labels.values import product

GPU_RESOURCE = "nvidia.com/gpu"
SETTINGS = frozenset(keys.of(keys.GPU, name) for name in (keys.REPLICAS, keys.SHARING_STRATEGY))
CUT = "MIG is enabled, so GPUs are not offered as a whole"
NAMED = (keys.PRODUCT, keys.COUNT)
"""What cannot be told of GPUs without a name: GPUs are counted by model."""
COMPUTE_KEYS = ("gpu.family", "gpu.compute.*")


def mode_is_known(gpu: Gpu) -> bool:
    """Whether it could be read whether MIG is enabled on the GPU."""
    return gpu.mig_capable or not gpu.mig_problem


def whole_gpus(config: Config, facts: Facts) -> Iterator[Finding]:
    """The GPUs as they are, cut into MIG devices or not."""
    inventory = facts.node.inventory
    gpus, platform = inventory.gpus, inventory.platform
    if not gpus:
        return
    models = Counter(gpu.name for gpu in gpus if gpu.name)
    if len(models) > 1:
        listed = ", ".join(f"{count} x {name}" for name, count in models.items())
        yield Problem(f"GPUs of several models ({listed}): the labels gpu.* tell of one of them")
    mute = ", ".join(str(gpu.index) for gpu in gpus if gpu.compute_capability is None)
    if mute:
        lacks = () if any(gpu.compute_capability for gpu in described(gpus)) else COMPUTE_KEYS
        text = f"no compute capability can be read of GPU {mute}"
        yield Problem(text, is_failure=True, costs=lacks)
    yield from _problems_of_names(gpus)
    terms = find_terms(config, inventory)
    if terms.problem:
        yield Problem(
            f"nvidia-device-plugin offers nothing with this configuration: {terms.problem}"
        )
    if len({terms.of(GPU_RESOURCE, gpu.uuid) for gpu in gpus if not gpu.mig_enabled}) > 1:
        yield Problem("GPUs are shared in several ways: the labels gpu.* tell of one of them")
    cut, whole = (_values(terms, _with_mode(gpus, is_cut=it), platform) for it in (True, False))
    doubtful = tuple(key for key, value in whole.items() if cut.get(key) != value)
    if not all(map(mode_is_known, gpus)):
        yield _unknown_mode(gpus, doubtful)
    why = dict.fromkeys(SETTINGS, CUT) if described(gpus)[0].mig_enabled else {}
    for key, value in whole.items():
        yield Label(key, None if key in doubtful else value, why=why.get(key, ""))


def _problems_of_names(gpus: Sequence[Gpu]) -> Iterator[Problem]:
    nameless = ", ".join(str(gpu.index) for gpu in gpus if not gpu.name)
    name = described(gpus)[0].name
    costs = tuple(keys.of(keys.GPU, key) for key in NAMED)
    if nameless:
        text = f"no name can be read of GPU {nameless}"
        yield Problem(text, is_failure=True, costs=() if name else costs)
    if name and product(name) is None:
        text = f"the name {name!r} has nothing that a label can show"
        yield Problem(text, costs=(keys.of(keys.GPU, keys.PRODUCT),))


def _unknown_mode(gpus: Sequence[Gpu], doubtful: tuple[str, ...]) -> Problem:
    text = next(gpu.mig_problem for gpu in gpus if not mode_is_known(gpu))
    costs = doubtful if any(gpu.mig_capable for gpu in gpus) else (*doubtful, keys.MIG_CAPABLE)
    return Problem(f"the MIG mode of a GPU cannot be read: {text}", is_failure=True, costs=costs)


def _with_mode(gpus: Sequence[Gpu], *, is_cut: bool) -> list[Gpu]:
    """The GPUs as if it were known of all whether MIG is enabled.

    What comes out the same either way needs no MIG mode.
    """
    return [gpu if mode_is_known(gpu) else replace(gpu, mig_enabled=is_cut) for gpu in gpus]


def _values(terms: Terms, gpus: Sequence[Gpu], platform: Platform) -> Mapping[str, str | None]:
    """The labels of one model: that of the first GPU which is not cut, else that of the first.

    DEVIATION: v0.19.3 mixes the labels of all models, and which one prevails is random.
    """
    group = described(gpus)
    first = group[0]
    shares = NOT_OFFERED if first.mig_enabled else terms.of(GPU_RESOURCE, first.uuid)
    memory = next((g.memory_bytes for g in reversed(group) if g.memory_bytes), 0)
    compute = next((g.compute_capability for g in reversed(group) if g.compute_capability), None)
    named = {
        keys.PRODUCT: product(first.name, *shares.suffixes),
        keys.COUNT: str(sum(gpu.name == first.name for gpu in gpus)),
    }
    values: dict[str, str | None] = {
        **(named if first.name else dict.fromkeys(NAMED)),
        keys.REPLICAS: str(shares.replicas),
        keys.SHARING_STRATEGY: shares.strategy,
    }
    if memory:
        values[keys.MEMORY] = str(memory_label(memory, platform))
    if compute is not None and compute[0] != 0:
        values[keys.FAMILY] = family(*compute)
        values[keys.COMPUTE_MAJOR], values[keys.COMPUTE_MINOR] = map(str, compute)
    return {keys.of(keys.GPU, name): value for name, value in values.items()}


def described(gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that the labels tell of: those like the first which is not cut, or like the first.

    One without a name is the last choice.
    """
    candidates = [gpu for gpu in gpus if gpu.name] or gpus
    first = next((gpu for gpu in candidates if not gpu.mig_enabled), candidates[0])
    return [g for g in gpus if (g.name, g.mig_enabled) == (first.name, first.mig_enabled)]


def memory_label(size: int, platform: Platform) -> int:
    """Memory as its label shows it: in whole MiB, but in bytes for vfio, as v0.19.3 has it."""
    return size if platform is Platform.VFIO else size // 2**20


_FAMILIES = {1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper"}
_LATER_FAMILIES = {10: "blackwell", 12: "blackwell", 13: "rubin"}


def family(major: int, minor: int) -> str:
    """The architecture of a compute capability.

    DEVIATION: ``rubin`` is v0.20.0's; v0.19.3 knows no 13.x. That 11.0 (Thor) is ``undefined``
    is as in both.
    """
    if major == 7:
        return "turing" if minor >= 5 else "volta"
    if major == 8:
        return "ada-lovelace" if minor >= 9 else "ampere"
    return _FAMILIES.get(major) or _LATER_FAMILIES.get(major, "undefined")
