"""What the operator chose for CDI specifications."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.cdi.names import VENDOR
from gpu_device_plugin.cdi.paths import clean
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.imex import ImexChannel

EXPLICIT_LIBRARIES = "enable-explicit-driver-libraries"
COHERENT_ANNOTATIONS = "enable-coherent-annotations"
PURE_CSV = "disable-multiple-csv-devices"
NO_ADDITIONAL_GIDS = "no-additional-gids-for-device-nodes"
NO_IPC = "disable-ipc-discoverer"
"""Feature flags of nvidia-container-toolkit v1.19.1 that have an effect here; others, such as
``disable-nvsandboxutils``, are accepted and have none."""


class Naming(StrEnum):
    """What a device is called (``--device-id-strategy``)."""

    UUID = "uuid"
    INDEX = "index"

    @classmethod
    def parse(cls, text: str) -> Naming:
        """The naming of that name.

        Raises:
            ConfigError: there is none.
        """
        try:
            return cls(text)
        except ValueError as error:
            known = " or ".join(cls)
            raise ConfigError(f"invalid device id strategy {text!r}", f"{known}") from error


@dataclass(frozen=True, slots=True)
class CdiOptions:
    """Options of `generate`; the comments name the plugin's flags."""

    driver_root: str = "/"
    """``--container-driver-root``: where the driver's files are, as the plugin sees it."""
    dev_root: str = ""
    """Where ``/dev`` with the GPUs is, as the plugin sees it; empty is the driver root."""
    target_driver_root: str = ""
    """``--nvidia-driver-root``: the driver root on the host; empty is `driver_root`."""
    target_dev_root: str = ""
    """``--nvidia-dev-root``: the dev root on the host; empty is `dev_root`."""
    hook_path: str = "/usr/bin/nvidia-ctk"
    """``--nvidia-cdi-hook-path``: the program that hooks run, on the host."""
    naming: Naming = Naming.UUID
    """``--device-id-strategy``."""
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    imex_channels: tuple[ImexChannel, ...] = ()
    feature_flags: frozenset[str] = frozenset()
    """``--cdi-feature-flags``."""
    disabled_hooks: frozenset[str] = frozenset()
    """``--cdi-disable-hooks``: names of hooks, or ``all``."""
    whole_mig_gpus: bool = False
    """Describe a GPU in MIG mode as a whole, too. The original does not, though with the MIG
    strategy ``none`` its plugin hands such GPUs out."""
    left_out: frozenset[str] = frozenset()
    """``extensions.gpus``: indices of GPUs (``3``) and MIG devices (``3:1``) that are treated as if
    the node did not have them."""
    tegra: bool = False
    """The discovery strategy is ``tegra``: CSV files are looked for below the driver root."""
    platform: Platform | None = None
    """What kind of specification is made; None is the inventory's platform."""
    vendor: str = VENDOR


@dataclass(frozen=True, slots=True)
class Roots:
    """The four roots of the options, cleaned, none empty."""

    driver: str
    dev: str
    target_driver: str
    target_dev: str

    @classmethod
    def of(cls, options: CdiOptions) -> Roots:
        """The roots with the handler's defaults of k8s-device-plugin v0.19.3."""
        driver = clean(options.driver_root)
        dev = clean(options.dev_root) if options.dev_root else driver
        return cls(
            driver=driver,
            dev=dev,
            target_driver=clean(options.target_driver_root or driver),
            target_dev=clean(options.target_dev_root or dev),
        )
