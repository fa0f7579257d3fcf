"""NVML of older drivers, which have some functions under older names only.

nvidia-ml-py asks for the newest name of each function. go-nvml, with which k8s-device-plugin
v0.19.3 is built, takes an older one where the library lacks it (pkg/nvml/lib.go), and so does this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

NO_INSTANCE = 0xFFFFFFFF
"""In place of the ids of an event that is about no GPU or compute instance."""

Function = Callable[..., int]


class Library(ctypes.CDLL):
    """The library with older functions in place of newer ones that it lacks."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            names, adapted = OLDER.get(name, ((), _as_it_is))
            for older in names:
                try:
                    return adapted(super().__getattr__(older))
                except AttributeError:
                    continue
            raise


def _as_it_is(function: Function) -> Function:
    return function


def _without_flags(function: Function) -> Function:
    return lambda _: function()


def _with_bus_id(function: Function) -> Function:
    """Older PCI information has something else in the place of the long address."""

    def call(*arguments: Any) -> int:
        code = function(*arguments)
        info = _referred(arguments[-1])
        info.busId = b"%08X:%02X:%02X.0" % (info.domain, info.bus, info.device)
        return code

    return call


def _without_instances(function: Function) -> Function:
    """Older events know of no instances."""

    def call(events: Any, data: Any, timeout: Any) -> int:
        code = function(events, data, timeout)
        event = _referred(data)
        event.gpuInstanceId = event.computeInstanceId = NO_INSTANCE
        return code

    return call


def _referred(reference: Any) -> Any:
    return reference._obj  # noqa: SLF001 - ctypes has no other name for what byref() was given


OLDER: dict[str, tuple[tuple[str, ...], Callable[[Function], Function]]] = {
    "nvmlInitWithFlags": (("nvmlInit_v2", "nvmlInit"), _without_flags),
    "nvmlDeviceGetCount_v2": (("nvmlDeviceGetCount",), _as_it_is),
    "nvmlDeviceGetHandleByIndex_v2": (("nvmlDeviceGetHandleByIndex",), _as_it_is),
    "nvmlDeviceGetPciInfo_v3": (("nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"), _with_bus_id),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": (("nvmlDeviceGetNvLinkRemotePciInfo",), _with_bus_id),
    "nvmlDeviceGetAttributes_v2": (("nvmlDeviceGetAttributes",), _as_it_is),
    "nvmlComputeInstanceGetInfo_v2": (("nvmlComputeInstanceGetInfo",), _as_it_is),
    "nvmlEventSetWait_v2": (("nvmlEventSetWait",), _without_instances),
}
"""By the name that nvidia-ml-py asks for: the older names, newest first, and what is different."""
