"""The state of a simulated node: what its profile says, and what has happened since."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, HealthKind, Inventory, UnreadableGpu
from gpu_device_plugin.hardware.simulated.events import Action, Instruction
from gpu_device_plugin.hardware.simulated.mig import Layout, make_devices, parse_layout
from gpu_device_plugin.hardware.simulated.model import Profile, ProfileGpu, Watch
from gpu_device_plugin.hardware.simulated.yaml import quote

log = logging.getLogger(__name__)

OFF_THE_BUS = 79
"""The XID of a GPU that has fallen off the bus (NVIDIA's list of XID errors)."""

Emit = Callable[[HealthEvent], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Watcher:
    emit: Emit
    uuids: frozenset[str]
    """The GPUs that it watches: those that were there when it began."""


class SimulatedNode:
    """The state of a simulated node; its methods may be called from any thread.

    GPUs are named by index or UUID; an unknown one is a `ConfigError`.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._lock = threading.RLock()
        self._watch = {item.gpu.index: item.watch for item in profile.gpus}
        self._layouts = {item.gpu.index: item.layout for item in profile.gpus}
        self._lost = set[int]()
        self._init_error = profile.init_error
        self._monitor_error = ""
        self._watchers = list[_Watcher]()

    def xid(self, gpu: str | int, number: int, instances: tuple[int, int] | None = None) -> None:
        """A critical error, of one MIG device if GPU instance and compute instance are given."""
        with self._lock:
            item = self._find(gpu)
            if self._watch[item.gpu.index] is Watch.WATCHED and not self._monitor_error:
                gi, ci = instances or (None, None)
                self._tell(
                    HealthEvent(
                        HealthKind.XID,
                        uuid=item.gpu.uuid,
                        xid=number,
                        gpu_instance=gi,
                        compute_instance=ci,
                        reason=f"XID {number}",
                    )
                )

    def lose(self, gpu: str | int) -> None:
        """A GPU falls off the bus: an XID now, unreadable from the next read on."""
        with self._lock:
            self.xid(gpu, OFF_THE_BUS)
            self._lost.add(self._find(gpu).gpu.index)

    def is_lost(self, gpu: Gpu) -> bool:
        """Whether a GPU has disappeared."""
        with self._lock:
            return gpu.index in self._lost

    def bring_back(self, gpu: str | int) -> None:
        """A GPU is there again at the next read, and can be watched as its profile says."""
        with self._lock:
            item = self._find(gpu)
            self._lost.discard(item.gpu.index)
            self._watch[item.gpu.index] = item.watch

    def make_unmonitorable(self, gpu: str | int) -> None:
        """A GPU cannot be watched any more."""
        with self._lock:
            item = self._find(gpu)
            self._watch[item.gpu.index] = Watch.UNMONITORABLE
            self._tell(_unmonitorable(item.gpu))

    def fail_monitor(self, text: str) -> None:
        """No GPU can be watched any more."""
        with self._lock:
            self._monitor_error = text
            self._tell(HealthEvent(HealthKind.MONITOR_LOST, reason=f"not watched: {text}"))

    def heal_monitor(self) -> None:
        """All GPUs can be watched again."""
        with self._lock:
            self._monitor_error = ""
            self._tell(HealthEvent(HealthKind.MONITOR_READY))

    def fail_init(self, text: str) -> None:
        """The driver cannot be used from the next read on."""
        with self._lock:
            self._init_error = text

    def heal_init(self) -> None:
        """The driver can be used again."""
        with self._lock:
            self._init_error = ""

    def set_mig(self, gpu: str | int, profiles: tuple[str, ...] | None) -> None:
        """A GPU is cut into these MIG devices at the next read; None switches MIG off."""
        with self._lock:
            item = self._find(gpu)
            layout = None if profiles is None else parse_layout(item.product, profiles)
            self._layouts[item.gpu.index] = layout

    def apply(self, instruction: Instruction) -> None:
        """Does what a line of the control file says.

        Raises:
            ConfigError: the node has no such GPU, or the GPU cannot be cut like that.
        """
        gpu, text = instruction.gpu, instruction.text
        actions: Mapping[Action, Callable[[], None]] = {
            Action.XID: lambda: self.xid(gpu, instruction.xid, instruction.instances),
            Action.LOST: lambda: self.lose(gpu),
            Action.BACK: lambda: self.bring_back(gpu),
            Action.UNMONITORABLE: lambda: self.make_unmonitorable(gpu),
            Action.MONITOR_ERROR: lambda: self.fail_monitor(text),
            Action.MONITOR_OK: self.heal_monitor,
            Action.INIT_ERROR: lambda: self.fail_init(text),
            Action.INIT_OK: self.heal_init,
            Action.MIG: lambda: self.set_mig(gpu, instruction.profiles),
        }
        actions[instruction.action]()

    def inventory(self) -> Inventory:
        """What there is to read at this moment.

        Raises:
            InitError: the driver cannot be used.
        """
        with self._lock:
            if self._init_error:
                raise InitError(f"NVML cannot be initialised: {self._init_error} (simulated)")
            profile = self.profile
            there = [item for item in profile.gpus if item.gpu.index not in self._lost]
            return Inventory(
                platform=profile.platform,
                gpus=tuple(_with_mig(item, self._layouts[item.gpu.index]) for item in there),
                unreadable=tuple(UnreadableGpu(n, "GPU is lost") for n in sorted(self._lost)),
                driver_version=profile.driver_version,
                cuda_driver_version=profile.cuda_driver_version,
            )

    @contextmanager
    def watched(self, inventory: Inventory, emit: Emit) -> Iterator[None]:
        """Hands over every health event from now on, beginning with how the watching starts."""
        watcher = _Watcher(emit, frozenset(gpu.uuid for gpu in inventory.gpus))
        with self._lock:
            if self._monitor_error:
                reason = f"not watched: {self._monitor_error}"
                emit(HealthEvent(HealthKind.MONITOR_NOT_STARTED, reason=reason))
            else:
                for gpu in inventory.gpus:
                    self._tell_start(gpu, emit)
                emit(HealthEvent(HealthKind.MONITOR_READY))
            self._watchers.append(watcher)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(watcher)

    def _tell_start(self, gpu: Gpu, emit: Emit) -> None:
        watch = self._watch[gpu.index]
        if watch is Watch.UNMONITORABLE:
            emit(_unmonitorable(gpu))
        elif watch is Watch.UNWATCHED:
            log.warning(
                "GPU %d (%s) counts as healthy and is not watched: %s",
                *(gpu.index, gpu.uuid, "it reports no events"),
            )

    def _tell(self, event: HealthEvent) -> None:
        for watcher in self._watchers:
            if event.uuid is None or event.uuid in watcher.uuids:
                watcher.emit(event)

    def _find(self, gpu: str | int) -> ProfileGpu:
        for item in self.profile.gpus:
            if str(gpu) in {str(item.gpu.index), item.gpu.uuid}:
                return item
        raise ConfigError(
            f"no GPU {quote(str(gpu))}",
            f"allowed: 0 to {len(self.profile.gpus) - 1}, or a UUID"
            if self.profile.gpus
            else "the node has none",
        )


def _with_mig(item: ProfileGpu, layout: Layout | None) -> Gpu:
    if layout is None:
        return item.gpu
    devices = make_devices(item.gpu, item.product, layout, item.mig_slots)
    return replace(item.gpu, mig_enabled=True, mig_devices=devices)


def _unmonitorable(gpu: Gpu) -> HealthEvent:
    return HealthEvent(
        HealthKind.UNMONITORABLE, uuid=gpu.uuid, reason="cannot be watched (simulated)"
    )
