"""How the GPUs are connected, as NVML tells it.

Answers of NVML can take milliseconds each and a 16-GPU machine needs over a thousand of them,
so this runs apart from the inventory and gives up where a GPU does not answer any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pynvml

from gpu_device_plugin.hardware.model import Gpu, Inventory, Links, sysfs_address
from gpu_device_plugin.hardware.nvml.library import NOT_THERE, NvmlError
from gpu_device_plugin.hardware.nvml.read import bus_id_of

MAX_NVLINKS = 36
"""Link numbers that are tried (NVML_NVLINK_MAX_LINKS of newer drivers; 18 before)."""


def read_links(inventory: Inventory, *, stopped: Callable[[], bool] = lambda: False) -> Links:
    """Reads the links between all GPUs; NVML must be initialised.

    Args:
        inventory: the GPUs.
        stopped: asked between queries; true ends the reading early.
    """
    ancestors, nvlinks = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    problems = list[str]()
    by_address = {gpu.sysfs_id: gpu.index for gpu in inventory.gpus if gpu.sysfs_id}
    handles = dict[int, Any]()
    for gpu in inventory.gpus:
        try:
            handles[gpu.index] = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
        except NvmlError as error:
            problems.append(f"GPU {gpu.index}: {error}")
    for gpu in inventory.gpus:
        if gpu.index not in handles or stopped():
            continue
        try:
            for other, level in _ancestors(gpu, handles):
                # The level belongs to the pair, so that one query serves both directions.
                ancestors[gpu.index, other] = ancestors[other, gpu.index] = level
            for peer in _nvlink_peers(handles[gpu.index]):
                remote = by_address.get(peer)
                if remote is not None and remote != gpu.index:
                    nvlinks[gpu.index, remote] = nvlinks.get((gpu.index, remote), 0) + 1
        except NvmlError as error:
            problems.append(f"GPU {gpu.index}: {error}")
    return Links(ancestors, nvlinks, tuple(problems))


def _ancestors(gpu: Gpu, handles: dict[int, Any]) -> Iterator[tuple[int, int]]:
    for other, handle in handles.items():
        if other > gpu.index:
            try:
                yield other, pynvml.nvmlDeviceGetTopologyCommonAncestor(handles[gpu.index], handle)
            except NvmlError as error:
                if error.value not in NOT_THERE:
                    raise


def _nvlink_peers(handle: Any) -> Iterator[str]:
    """The PCI addresses at the far ends of a GPU's active NVLinks."""
    for link in range(MAX_NVLINKS):
        try:
            active = pynvml.nvmlDeviceGetNvLinkState(handle, link)
        except (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_FunctionNotFound):
            return  # there are no links of this number or above, or the driver knows of none
        except pynvml.NVMLError_NotSupported:
            if link == 0:
                return  # a GPU without NVLink
            continue
        if active != pynvml.NVML_FEATURE_ENABLED:
            continue
        try:
            info = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
        except NvmlError as error:
            if error.value in NOT_THERE:
                continue
            raise
        yield sysfs_address(bus_id_of(info))
