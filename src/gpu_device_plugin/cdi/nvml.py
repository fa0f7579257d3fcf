"""The class ``gpu`` on a machine with NVML (nvidia-container-toolkit v1.19.1, `lib-nvml.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gpu_device_plugin.cdi.draft import NOTHING_OFFERED, VOID, Draft, Dropped
from gpu_device_plugin.cdi.driver import driver_edits, find_driver
from gpu_device_plugin.cdi.edits import device_nodes, with_gids
from gpu_device_plugin.cdi.gpu import CONTROL_NODES, gpu_annotations, gpu_edits, gpu_node
from gpu_device_plugin.cdi.graphics import graphics_edits
from gpu_device_plugin.cdi.mig import mig_edits, read_minors
from gpu_device_plugin.cdi.model import ContainerEdits, Device, merge
from gpu_device_plugin.cdi.names import device_name_fault
from gpu_device_plugin.cdi.options import Naming
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.errors import ConfigError, HardwareError, UserError
from gpu_device_plugin.hardware.mig_minors import MigMinors
from gpu_device_plugin.hardware.model import Gpu, UnreadableGpu


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A device that ought to be in the specification."""

    name: str
    title: str
    node: str
    """The node of its GPU."""
    edits: Callable[[], ContainerEdits]
    """Raises HardwareError."""
    annotations: dict[str, str]


def nvml_draft(scan: Scan) -> Draft | Dropped:
    """Whole GPUs that are not in MIG mode, and all MIG devices, whatever the MIG strategy.

    Those that the options leave out are not looked at.

    A device that cannot be described is left out and reported; the others are kept.

    Raises:
        HardwareError, ConfigError: there is no device, none can be described, the driver's files
            are not below the driver root, or it does not list its MIG capabilities.
    """
    if scan.leaves_out_all:
        return NOTHING_OFFERED
    minors = read_minors(scan) if any(_mig_slots(scan)) else MigMinors()
    candidates = list(_candidates(scan, minors))
    if not candidates:
        reasons = "; ".join(f"GPU {u.index}: {u.reason}" for u in _unreadable(scan))
        raise HardwareError("the CDI class gpu has no device: no GPU and no MIG device", reasons)
    common = common_edits(scan)
    devices: dict[str, Device] = {}
    failures: list[UserError] = []
    for candidate in candidates:
        try:
            device = _device(scan, candidate, devices)
        except UserError as error:
            scan.notes.problem(f"{candidate.title} is left out: {error}")
            failures.append(error)
            continue
        if device is not None:
            devices[device.name] = device
    if devices:
        return Draft(tuple(devices.values()), common)
    if failures:
        raise failures[0]
    return Dropped(f"no device node of any GPU is below {scan.roots.dev}")


def common_edits(scan: Scan) -> ContainerEdits:
    """What every container with a GPU gets.

    Raises:
        HardwareError: the driver's files are not below the driver root.
    """
    driver = find_driver(scan)
    control = ContainerEdits(device_nodes=device_nodes(scan.dev, CONTROL_NODES, scan.notes))
    edits = merge(control, graphics_edits(scan, driver), driver_edits(scan, driver), VOID)
    return with_gids(scan, edits)


def _candidates(scan: Scan, minors: MigMinors) -> Iterator[_Candidate]:
    for unreadable in _unreadable(scan):
        scan.notes.problem(f"GPU {unreadable.index} is left out: {unreadable.reason}")
    for gpu in scan.inventory.gpus:
        if scan.leaves_out(gpu.index):
            continue
        if gpu.mig_problem:
            scan.notes.problem(f"{_title(gpu)}: its MIG state is unknown: {gpu.mig_problem}")
        if not gpu.mig_enabled or scan.options.whole_mig_gpus:
            yield _Candidate(
                name=_name(scan, str(gpu.index), gpu.uuid),
                title=_title(gpu),
                node=gpu_node(gpu),
                edits=partial(gpu_edits, scan, gpu),
                annotations=gpu_annotations(scan, gpu),
            )
        for mig in gpu.mig_devices:
            if scan.leaves_out(f"{gpu.index}:{mig.slot}"):
                continue
            yield _Candidate(
                name=_name(scan, f"{gpu.index}:{mig.slot}", mig.uuid),
                title=f"MIG device {gpu.index}:{mig.slot} ({mig.uuid})",
                node=gpu_node(gpu),
                edits=partial(mig_edits, scan, gpu, mig, minors),
                annotations={},
            )


def _unreadable(scan: Scan) -> Iterator[UnreadableGpu]:
    return (gpu for gpu in scan.inventory.unreadable if not scan.leaves_out(gpu.index))


def _mig_slots(scan: Scan) -> Iterator[str]:
    slots = (f"{gpu.index}:{mig.slot}" for gpu, mig in scan.inventory.mig_pairs())
    return (slot for slot in slots if not scan.leaves_out(slot))


def _device(scan: Scan, candidate: _Candidate, others: dict[str, Device]) -> Device | None:
    """The device, None if it has no device node.

    Raises:
        HardwareError, ConfigError: it cannot be described.
    """
    fault = device_name_fault(candidate.name)
    if fault:
        raise ConfigError(fault, "--device-id-strategy=index names devices by number")
    if candidate.name in others:
        raise HardwareError(f"another device is called {candidate.name}, too")
    edits = candidate.edits()
    where = scan.dev.outer(candidate.node)
    if not edits.device_nodes:
        scan.notes.problem(
            f"{candidate.title} is left out: it has no device node, not even {where}"
        )
        return None
    if all(node.path != candidate.node for node in edits.device_nodes):
        scan.notes.problem(f"{candidate.title} will not work in containers: {where} is missing")
    return Device(candidate.name, with_gids(scan, edits), candidate.annotations)


def _name(scan: Scan, index: str, uuid: str) -> str:
    return index if scan.options.naming is Naming.INDEX else uuid


def _title(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({gpu.uuid})"
