"""Watches the GPUs through an NVML event set, in a thread of its own.

The wait is short, so that a stop is seen at once; NVML offers no way to wake a waiter.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pynvml

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, HealthKind, Inventory
from gpu_device_plugin.hardware.nvml.library import NvmlError, NvmlLibrary
from gpu_device_plugin.hardware.nvml.older import NO_INSTANCE
from gpu_device_plugin.threads import start_thread

log = logging.getLogger(__name__)

WAIT_MS = 250
WATCHED = (
    pynvml.nvmlEventTypeXidCriticalError
    | pynvml.nvmlEventTypeDoubleBitEccError
    | pynvml.nvmlEventTypeSingleBitEccError
)
RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Pauses before an event set is made anew."""

REGISTER_SECONDS = 30.0
"""Pause before a GPU that could not be put into the event set is tried again."""

ALIVE_SECONDS = 10.0
"""How often it is told that the driver answers."""

Emit = Callable[[HealthEvent], None]


class NvmlMonitor:
    """One thread that turns NVML events into health events until it is stopped."""

    def __init__(self, library: NvmlLibrary, inventory: Inventory, emit: Emit) -> None:
        self._library = library
        self._inventory = inventory
        self._emit = emit
        self._stop = threading.Event()
        self._watching = False
        self._waited = False
        """Whether a wait has succeeded since the last failure."""
        self._next_sign = 0.0

    def start(self, ended: Callable[[Exception | None], object]) -> None:
        """Begins to watch; calls back, in the thread, when that has ended, if so by an error.

        Raises:
            OSError: no thread can be started.
        """

        def run() -> None:
            failure: Exception | None = None
            try:
                self._run()
            except Exception as error:  # noqa: BLE001 - handed to whoever waits
                failure = error
            ended(failure)

        # A driver that never answers must not keep the process from ending.
        start_thread("nvml-monitor", run)

    def stop(self) -> None:
        """Asks the thread to end; it does within `WAIT_MS`."""
        self._stop.set()

    def _tell_alive(self) -> None:
        """The driver is not holding us up."""
        now = time.monotonic()
        if now >= self._next_sign:
            self._next_sign = now + ALIVE_SECONDS
            self._emit(HealthEvent(HealthKind.MONITOR_ALIVE))

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._tell_alive()
            try:
                with self._library.session(), ExitStack() as undo:
                    self._watch(undo)
            except (NvmlError, InitError) as error:
                kind = HealthKind.MONITOR_LOST if self._watching else HealthKind.MONITOR_NOT_STARTED
                failures = 0 if self._waited else failures
                self._watching = self._waited = False
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
                log.error("GPU health is not watched: %s; next attempt in %g s", error, pause)
                self._emit(HealthEvent(kind, reason=f"not watched: {error}"))
                self._stop.wait(pause)

    def _watch(self, undo: ExitStack) -> None:
        try:
            events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError_NotSupported:
            log.warning("GPU health is not watched: the driver has no events")
            self._stop.set()
            return
        undo.callback(_free, events)
        owners = dict[int | None, str]()
        pending = self._register(self._inventory.gpus, events, owners)
        for gpu, reason in pending:
            self._emit(HealthEvent(HealthKind.UNMONITORABLE, gpu.uuid, reason=reason))
        self._watching = True
        self._emit(HealthEvent(HealthKind.MONITOR_READY))
        next_try = time.monotonic() + REGISTER_SECONDS
        while not self._stop.is_set():
            try:
                data = pynvml.nvmlEventSetWait(events, WAIT_MS)
            except pynvml.NVMLError_Timeout:
                data = None
            self._waited = True
            self._tell_alive()
            if data is not None:
                self._handle(data, owners)
            if pending and time.monotonic() >= next_try:
                pending = self._register_again(pending, events, owners)
                next_try = time.monotonic() + REGISTER_SECONDS

    def _register_again(
        self, pending: list[tuple[Gpu, str]], events: Any, owners: dict[int | None, str]
    ) -> list[tuple[Gpu, str]]:
        left = self._register([gpu for gpu, _ in pending], events, owners)
        still = {gpu.uuid for gpu, _ in left}
        for gpu, _ in pending:
            if gpu.uuid not in still:
                self._emit(HealthEvent(HealthKind.MONITORABLE, gpu.uuid))
        return left

    @staticmethod
    def _register(
        gpus: Iterable[Gpu], events: Any, owners: dict[int | None, str]
    ) -> list[tuple[Gpu, str]]:
        """Puts GPUs into the event set and their UUIDs, by handle, into `owners`.

        Returns:
            The GPUs for which that has failed, with the reason.
        """
        failed = list[tuple[Gpu, str]]()
        for gpu in gpus:
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
                owners[_key(handle)] = gpu.uuid
                supported = pynvml.nvmlDeviceGetSupportedEventTypes(handle)
                if not supported & WATCHED:
                    _log_unwatched(gpu, "it reports no events")
                    continue
                pynvml.nvmlDeviceRegisterEvents(handle, supported & WATCHED, events)
            except pynvml.NVMLError_NotSupported:
                _log_unwatched(gpu, "it is too old to report events")
            except NvmlError as error:
                failed.append((gpu, f"cannot be watched: {error}"))
        return failed

    def _handle(self, data: Any, owners: dict[int | None, str]) -> None:
        if data.eventType != pynvml.nvmlEventTypeXidCriticalError:
            log.info("ignored: event of type %#x, not a critical XID", data.eventType)
            return
        uuid = owners.get(_key(data.device))
        if uuid is None:
            try:
                uuid = pynvml.nvmlDeviceGetUUID(data.device)
            except NvmlError as error:
                self._emit(
                    HealthEvent(
                        HealthKind.XID,
                        xid=int(data.eventData),
                        reason=f"XID {data.eventData} on a GPU that cannot be told: {error}",
                    )
                )
                return
        self._emit(
            HealthEvent(
                HealthKind.XID,
                uuid=uuid,
                xid=int(data.eventData),
                gpu_instance=_instance(data.gpuInstanceId),
                compute_instance=_instance(data.computeInstanceId),
                reason=f"XID {data.eventData}",
            )
        )


def _key(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _instance(number: int) -> int | None:
    return None if number == NO_INSTANCE else int(number)


def _log_unwatched(gpu: Gpu, why: str) -> None:
    log.warning("GPU %d (%s) counts as healthy and is not watched: %s", gpu.index, gpu.uuid, why)


def _free(events: Any) -> None:
    try:
        pynvml.nvmlEventSetFree(events)
    except NvmlError as error:
        log.debug("the event set could not be freed: %s", error)
