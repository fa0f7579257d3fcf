"""What NVML tells of a node beyond what it offers: for whoever looks for what is wrong.

Every query may fail by itself; what is not known is None. NVML's own names are in the comments
of its header (nvml.h, driver 580).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

Telling = Callable[[str], None]
"""Told of each step before it is made, so that it is known which one hangs."""


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """One GPU."""

    index: int
    error: str = ""
    """Why it cannot be read; empty if it can."""
    uuid: str = ""
    name: str = ""
    bus_id: str = ""
    persistence: bool | None = None
    compute_mode: int | None = None
    """0 for everybody, 3 for one process alone (nvmlComputeMode_t)."""
    ecc_current: bool | None = None
    ecc_pending: bool | None = None
    mig_current: bool | None = None
    mig_pending: bool | None = None
    mig_devices: int | None = None
    mig_error: str = ""
    """Why its MIG devices cannot be read; empty if they can or there are none."""
    remap_pending: bool | None = None
    """Rows of its memory are replaced at the next reset."""
    remap_failed: bool | None = None
    """Rows of its memory could not be replaced."""
    retired_pending: bool | None = None
    """Pages of its memory are taken out of use at the next reset."""
    recovery_action: int | None = None
    """What the driver asks for (nvmlDeviceGpuRecoveryAction_t); 0 for nothing."""
    link_width: int | None = None
    link_width_most: int | None = None
    """Lanes of PCIe: in use, and possible for GPU and slot."""


@dataclass(frozen=True, slots=True)
class NvmlFacts:
    """What NVML tells of the node."""

    library: str = ""
    """Its path, or its bare name if the dynamic loader finds it."""
    load_error: str = ""
    init_error: str = ""
    init_code: int = 0
    """NVML's number of that error."""
    count_error: str = ""
    hung_at: str = ""
    """What was being done when it stopped to answer; empty if it answered all."""
    crash: str = ""
    """How the process that asked has ended; empty if it ended well."""
    driver_version: str = ""
    nvml_version: str = ""
    cuda_driver_version: int = 0
    """12040 is CUDA 12.4."""
    count: int = 0
    gpus: tuple[NvmlGpu, ...] = ()

    @property
    def problem(self) -> str:
        """Why nothing is known of the GPUs; empty if something is."""
        crash = f"it has crashed: {self.crash}" if self.crash else ""
        hung = f"it hangs: no answer to {self.hung_at}" if self.hung_at and not self.gpus else ""
        return self.load_error or self.init_error or self.count_error or crash or hung

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NvmlFacts:
        """From what `to_dict` has made."""
        gpus = tuple(NvmlGpu(**gpu) for gpu in data.get("gpus", ()))
        return cls(**{**data, "gpus": gpus})


def read_facts(driver_root: str, tell: Telling = lambda _: None) -> NvmlFacts:
    """Asks NVML; blocks as long as the driver does."""
    import pynvml  # noqa: PLC0415 - 3 MB

    from gpu_device_plugin.errors import InitError  # noqa: PLC0415 - with the next one
    from gpu_device_plugin.hardware.nvml.library import (  # noqa: PLC0415 - as above
        NvmlError,
        NvmlLibrary,
        shutdown,
    )

    library = NvmlLibrary(driver_root)
    facts = NvmlFacts(library=library.path)
    tell("loading the library")
    try:
        library.load()
    except InitError as error:
        return replace(facts, load_error=error.message.removeprefix("cannot load NVML: "))
    tell("the initialisation")
    try:
        pynvml.nvmlInit()
    except NvmlError as error:
        return replace(
            facts,
            init_code=int(error.value),
            init_error=str(error),
            # NVML tells these also while it cannot be initialised.
            nvml_version=str(_ask(pynvml.nvmlSystemGetNVMLVersion) or ""),
            driver_version=str(_ask(pynvml.nvmlSystemGetDriverVersion) or ""),
        )
    try:
        return _read_node(facts, tell)
    finally:
        tell("the end")
        shutdown()


def _read_node(facts: NvmlFacts, tell: Telling) -> NvmlFacts:
    import pynvml  # noqa: PLC0415 - as above

    tell("the versions")
    facts = replace(
        facts,
        driver_version=str(_ask(pynvml.nvmlSystemGetDriverVersion) or ""),
        nvml_version=str(_ask(pynvml.nvmlSystemGetNVMLVersion) or ""),
        cuda_driver_version=int(_ask(pynvml.nvmlSystemGetCudaDriverVersion) or 0),
    )
    try:
        tell("the number of GPUs")
        count = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        return replace(facts, count_error=str(error))
    from gpu_device_plugin.hardware.nvml.facts_gpu import read_gpu  # noqa: PLC0415 - as above

    return replace(facts, count=count, gpus=tuple(read_gpu(n, tell) for n in range(count)))


def _ask(query: Callable[[], Any]) -> Any:
    import pynvml  # noqa: PLC0415 - as above

    try:
        return query()
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None
