"""Where labels come from, in words: for docs/labels.md and for the labels of one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_device_plugin.hardware.model import Platform

GENERIC: Mapping[str, str] = {
    "gpus": "the GPUs",
    "machine": "the file `--machine-type-file`",
    "mps": "`sharing` in the configuration, NVML `nvmlDeviceGetMigMode`",
    "sharing": "`sharing` in the configuration",
    "strategy": "`--mig-strategy`",
}
"""What stands for names in braces where no certain node is meant."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a label comes from, which may depend on the platform."""

    usual: str
    """With names of `GENERIC` in braces, and code in backticks."""
    tegra: str = ""
    """If it is another one under Tegra."""
    vfio: str = ""

    def on(self, platform: Platform, words: Mapping[str, str]) -> str:
        """The source on a node.

        Args:
            platform: of the node.
            words: what stands for each name of `GENERIC`.
        """
        others = {Platform.TEGRA: self.tegra, Platform.VFIO: self.vfio}
        text = others.get(platform) or self.usual
        return text.replace("`", "").format_map(words)

    def summary(self) -> str:
        """The source on any node, in Markdown."""
        others = (("Tegra", self.tegra), ("vfio", self.vfio))
        texts = [self.usual, *(f"{name}: {text}" for name, text in others if text)]
        return "; ".join(texts).format_map(GENERIC)


_NO_DRIVER = "none, no driver tells it"

CLOCK = Source("clock")
MACHINE = Source("{machine}")
PCI_CLASS = Source("PCI class in sysfs of {gpus}", tegra="none, it is no PCI device")
FABRIC = Source("NVML `nvmlDeviceGetGpuFabricInfo` of {gpus}")
DRIVER = Source("NVML `nvmlSystemGetDriverVersion`", tegra=_NO_DRIVER, vfio=_NO_DRIVER)
CUDA = Source("NVML `nvmlSystemGetCudaDriverVersion`", "CUDA `cuDriverGetVersion`", _NO_DRIVER)
NAME = Source("NVML `nvmlDeviceGetName` of {gpus}", "CUDA `cuDeviceGetName`", "PCI device id")
COUNT = Source(
    "NVML `nvmlDeviceGetCount`, those called like {gpus}",
    "CUDA `cuDeviceGetCount`",
    "PCI devices in sysfs that are bound to vfio-pci",
)
MEMORY = Source(
    "NVML `nvmlDeviceGetMemoryInfo` of {gpus}, divided by 1 MiB",
    "CUDA `cuDeviceTotalMem`, divided by 1 MiB",
    "PCI resources in sysfs, in bytes",
)
COMPUTE = Source(
    "NVML `nvmlDeviceGetCudaComputeCapability` of {gpus}",
    "CUDA `cuDeviceGetAttribute`",
    _NO_DRIVER,
)
MIG_MODE = Source("NVML `nvmlDeviceGetMigMode`", "none, it has no MIG", _NO_DRIVER)
SHARING = Source("{sharing}")
MPS = Source("{mps}")
STRATEGY = Source("{strategy}")
MIG_NAME = Source("NVML `nvmlDeviceGetName` of the GPU, profile of the MIG device")
MIG_COUNT = Source("NVML, number of MIG devices with that profile")
MIG_SHARE = Source("NVML `nvmlDeviceGetAttributes` of the first such MIG device")
PCI_SPACE = Source("PCI configuration space")
