"""What every label means, where it comes from, and when it is there; docs/labels.md is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.labels import keys, sources
from gpu_device_plugin.labels.sources import Source

PROFILE = "PROFILE"
"""Stands for a MIG profile in a key."""

ALWAYS = "always"
DEVICES = "there is a GPU"
READABLE = "it can be read"
SINGLE = "strategy `single`, and all GPUs are cut alike"
MIXED = "strategy `mixed`"
VGPU = "there is a vGPU that tells it"


@dataclass(frozen=True, slots=True)
class Description:
    """One label, or one for each MIG profile."""

    key: str
    """Without the prefix ``nvidia.com/``; with ``PROFILE`` for a MIG profile."""
    meaning: str
    source: Source
    when: str
    example: str
    replaced_by: str = ""
    """The label to use instead of this one, which is deprecated."""

    def matches(self, key: str) -> bool:
        """Whether it describes a label of that key."""
        before, is_pattern, after = self.key.partition(PROFILE)
        if not is_pattern:
            return key == self.key
        return (
            key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after)
        )


@dataclass(frozen=True, slots=True)
class Section:
    """Labels that belong together."""

    title: str
    descriptions: tuple[Description, ...]


_NODE = Section(
    "The node",
    (
        Description(
            keys.TIMESTAMP,
            "Seconds since 1970 at the start of the program, or at its last SIGHUP.",
            sources.CLOCK,
            "`--no-timestamp` is not set",
            "1700000000",
        ),
        Description(
            keys.MACHINE,
            "What the machine calls itself; `unknown` if that cannot be read.",
            sources.MACHINE,
            DEVICES,
            "DGXA100-920-23687-2530-000",
        ),
        Description(
            keys.MODE,
            "`compute` (3D controllers), `graphics` (VGA controllers), or `unknown` "
            "(others, several of them, Tegra).",
            sources.PCI_CLASS,
            DEVICES,
            "compute",
        ),
        Description(
            keys.CLIQUE,
            "Cluster and clique of the NVLink fabric (IMEX domain) that all attached GPUs are in.",
            sources.FABRIC,
            "a GPU is attached to a fabric",
            "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99.32766",
        ),
    ),
)


def _driver(key: str, part: str, example: str, replaced_by: str = "") -> Description:
    source = sources.DRIVER if key.startswith("cuda.driver") else sources.CUDA
    return Description(key, part, source, READABLE, example, replaced_by)


_VERSIONS = Section(
    "Driver and CUDA",
    (
        _driver(
            keys.DRIVER_FULL,
            "Version of the driver; `unknown` in each part under Tegra and vfio.",
            "550.107.02",
        ),
        _driver(keys.DRIVER_MAJOR, "First part of it.", "550"),
        _driver(keys.DRIVER_MINOR, "Second part of it.", "107"),
        _driver(keys.DRIVER_REVISION, "Third part of it; may be empty.", "02"),
        _driver(
            keys.CUDA_FULL,
            "The newest CUDA that the driver supports; `0.0` under vfio.",
            "12.4",
        ),
        _driver(keys.CUDA_MAJOR, "First part of it.", "12"),
        _driver(keys.CUDA_MINOR, "Second part of it.", "4"),
        _driver(keys.OLD_DRIVER_MAJOR, "As its successor.", "550", keys.DRIVER_MAJOR),
        _driver(keys.OLD_DRIVER_MINOR, "As its successor.", "107", keys.DRIVER_MINOR),
        _driver(keys.OLD_DRIVER_REVISION, "As its successor.", "02", keys.DRIVER_REVISION),
        _driver(keys.OLD_CUDA_MAJOR, "As its successor.", "12", keys.CUDA_MAJOR),
        _driver(keys.OLD_CUDA_MINOR, "As its successor.", "4", keys.CUDA_MINOR),
    ),
)

_GPUS = Section(
    "GPUs",
    (
        Description(
            keys.of(keys.GPU, keys.PRODUCT),
            "Model; `-SHARED` if replicas share it under its own name. Under `single` "
            "`-MIG-PROFILE`, or `-MIG-INVALID` if the GPUs are not all cut alike.",
            sources.NAME,
            "the name has a letter or digit that a label can show",
            "NVIDIA-A100-SXM4-40GB",
        ),
        Description(
            keys.of(keys.GPU, keys.COUNT),
            "GPUs of that model, cut or not, without regard to replicas; under `single` MIG "
            "devices, or 0 if the GPUs are not all cut alike.",
            sources.COUNT,
            DEVICES,
            "8",
        ),
        Description(
            keys.of(keys.GPU, keys.REPLICAS),
            "Replicas of each; 0 for GPUs that are cut, which are not offered.",
            sources.SHARING,
            "the MIG modes can be read",
            "1",
        ),
        Description(
            keys.of(keys.GPU, keys.SHARING_STRATEGY),
            "`none`, `time-slicing` or `mps`; empty if nothing is offered.",
            sources.SHARING,
            "the MIG modes can be read",
            "none",
        ),
        Description(
            keys.of(keys.GPU, keys.MEMORY),
            "Memory of each in MiB (under vfio in bytes); that of each MIG device under `single`.",
            sources.MEMORY,
            "the driver tells it; GPUs that share the CPU's memory may not",
            "40960",
        ),
        Description(
            keys.of(keys.GPU, keys.FAMILY),
            "Architecture: `tesla`, `fermi`, `kepler`, `maxwell`, `pascal`, `volta`, `turing`, "
            "`ampere`, `ada-lovelace`, `hopper`, `blackwell`, `rubin`, or `undefined`.",
            sources.COMPUTE,
            READABLE,
            "ampere",
        ),
        Description(
            keys.of(keys.GPU, keys.COMPUTE_MAJOR),
            "Compute capability, before the dot; -1 under vfio.",
            sources.COMPUTE,
            READABLE,
            "8",
        ),
        Description(
            keys.of(keys.GPU, keys.COMPUTE_MINOR),
            "Compute capability, after the dot; -1 under vfio.",
            sources.COMPUTE,
            READABLE,
            "0",
        ),
        Description(
            keys.MIG_CAPABLE,
            "Whether any GPU can be cut into MIG devices.",
            sources.MIG_MODE,
            "the MIG modes can be read",
            "true",
        ),
        Description(
            keys.MPS_CAPABLE,
            "Whether GPUs are shared by MPS: it is configured, and no GPU has MIG enabled. "
            "The MPS control daemon runs where this is `true`.",
            sources.MPS,
            DEVICES,
            "false",
        ),
        Description(
            keys.MIG_STRATEGY,
            "The MIG strategy.",
            sources.STRATEGY,
            "strategy `single` or `mixed`",
            "mixed",
        ),
    ),
)

_SHARE = (
    (keys.MULTIPROCESSORS, "Streaming multiprocessors of each MIG device.", "14"),
    (keys.SLICES_GI, "Slices of its GPU instance.", "1"),
    (keys.SLICES_CI, "Slices of its compute instance.", "1"),
    (keys.ENGINES_COPY, "Copy engines that it has a share of.", "1"),
    (keys.ENGINES_DECODER, "Video decoders that it has a share of.", "0"),
    (keys.ENGINES_ENCODER, "Video encoders that it has a share of.", "0"),
    (keys.ENGINES_JPEG, "JPEG decoders that it has a share of.", "0"),
    (keys.ENGINES_OFA, "Optical flow accelerators that it has a share of.", "0"),
)
_OF_PROFILE = (
    (keys.PRODUCT, "Model and profile; `-SHARED` as for GPUs.", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
    (keys.COUNT, "MIG devices of the profile, on all GPUs.", "7"),
    (keys.REPLICAS, "Replicas of each.", "1"),
    (keys.SHARING_STRATEGY, "`none`, `time-slicing` or `mps`.", "none"),
    (keys.MEMORY, "Memory of each in MiB.", "4864"),
    *_SHARE,
)
_OF_MIG = {
    keys.PRODUCT: sources.MIG_NAME,
    keys.COUNT: sources.MIG_COUNT,
    keys.REPLICAS: sources.SHARING,
    keys.SHARING_STRATEGY: sources.SHARING,
}

_MIG_SINGLE = Section(
    "MIG devices under the strategy `single`",
    tuple(
        Description(keys.of(keys.GPU, name), meaning, sources.MIG_SHARE, SINGLE, example)
        for name, meaning, example in _SHARE
    ),
)
_MIG_MIXED = Section(
    "MIG devices under the strategy `mixed`",
    tuple(
        Description(
            keys.of(keys.mig_kind(PROFILE), name),
            meaning,
            _OF_MIG.get(name, sources.MIG_SHARE),
            MIXED,
            example,
        )
        for name, meaning, example in _OF_PROFILE
    ),
)
_VGPU = Section(
    "Virtual GPUs",
    (
        Description(
            keys.VGPU_PRESENT,
            "Whether this is a virtual machine with a vGPU.",
            sources.PCI_SPACE,
            "it can be read, which takes a privileged container",
            "false",
        ),
        Description(
            keys.VGPU_VERSION,
            "Version of the driver of its host.",
            sources.PCI_SPACE,
            VGPU,
            "550.90.05",
        ),
        Description(
            keys.VGPU_BRANCH,
            "Branch of the driver of its host.",
            sources.PCI_SPACE,
            VGPU,
            "r550_90",
        ),
    ),
)

SECTIONS = (_NODE, _VERSIONS, _GPUS, _MIG_SINGLE, _MIG_MIXED, _VGPU)


def descriptions() -> Iterator[Description]:
    """All labels that there can be."""
    for section in SECTIONS:
        yield from section.descriptions


def describe(key: str) -> Description | None:
    """What a label of that key means; None if there is no such label."""
    return next((item for item in descriptions() if item.matches(key)), None)
