"""A clock that tests turn, and a Kubernetes API without sockets, for what reports to it."""

from __future__ import annotations

import asyncio
from typing import Any

from gpu_device_plugin.kube.client import PatchKind
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable, KubeError
from gpu_device_plugin.reports.clock import Clock
from gpu_device_plugin.reports.model import GpuHealth, NodeHealth, Share, Watching
from gpu_device_plugin.telemetry import HealthChanged, Turn
from support.apistore import Json, ObjectStore, Place, Refusal

GPU = "nvidia.com/gpu"
NODE = "/api/v1/nodes/n1"
EVENTS = "/api/v1/namespaces/default/events"


class TurnedClock(Clock):
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def wall(self) -> float:
        return 1_700_000_000 + self.time

    def now(self) -> float:
        return self.time

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        over = asyncio.Event()
        if seconds is not None:
            self._sleepers.append((self.time + seconds, over))
        waits = [asyncio.create_task(e.wait()) for e in (event, over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self._sleepers = [(at, e) for at, e in self._sleepers if e is not over]
        if not event.is_set():
            return False
        event.clear()
        return True

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)

    async def turn(self, seconds: float = 0) -> None:
        """Lets time pass, and everybody do what is due meanwhile."""
        end = self.time + seconds
        await settle()
        while due := [at for at, _ in self._sleepers if at <= end]:
            self.time = max(self.time, min(due))
            for at, over in self._sleepers:
                if at <= self.time:
                    over.set()
            await settle()
        self.time = end


async def settle() -> None:
    """Lets the loop do all that it can do at this moment."""
    for _ in range(30):
        await asyncio.sleep(0)


class StoreApi:
    """The client's side of an object store."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        self.store = store or ObjectStore()
        self.store.put(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        self.requests: list[tuple[str, str]] = []
        self.problems: list[KubeError] = []
        """What the next requests meet, one after the other."""
        self.down: KubeError | None = None
        """What all requests meet."""
        self.loses_answers = 0
        """So many requests are carried out, but their answers do not come."""
        self.hangs = False
        self.is_closed = False

    async def get(self, target: str) -> Json:
        return await self._do("GET", target)

    async def create(self, collection: str, item: Json) -> Json:
        return await self._do("POST", collection, item)

    async def patch(self, target: str, patch: Any, kind: PatchKind) -> Json:
        assert kind is PatchKind.STRATEGIC
        return await self._do("PATCH", target, patch)

    async def close(self) -> None:
        self.is_closed = True

    async def _do(self, method: str, target: str, body: Any = None) -> Json:
        self.requests.append((method, target))
        if self.hangs:
            await asyncio.Event().wait()
        if self.down or self.problems:
            raise self.down or self.problems.pop(0)
        try:
            if method == "GET":
                answer = self.store.get(target)
            elif method == "POST":
                answer = self.store.create(target, body)
            else:
                answer = self.store.merge(target, body, strategic=True)
        except Refusal as refusal:
            status = refusal.status
            raise ApiError(
                f"{method} {target}", refusal.code, status["reason"], status["message"]
            ) from None
        if self.loses_answers:
            self.loses_answers -= 1
            raise unreachable()
        return answer

    def events(self) -> list[Json]:
        items: list[Json] = self.store.list(EVENTS)["items"]
        return items

    def condition(self) -> Json:
        """The condition of the GPUs; empty if there is none."""
        node = self.store.get(Place.of(NODE).object)
        conditions = node["status"]["conditions"]
        assert conditions[0] == {"type": "Ready", "status": "True"}
        return next((c for c in conditions if c["type"] == "GPUHealthy"), {})


def unreachable() -> KubeError:
    return ApiUnreachable("the Kubernetes API cannot be reached at h:1: connection refused")


def refused(status: int, **more: Any) -> ApiError:
    return ApiError("POST /x", status, message="as told", **more)


def healthy(*numbers: int, watching: Watching = Watching.ON, replicas: int = 1) -> NodeHealth:
    """A node whose GPUs are well."""
    return NodeHealth(
        is_read=True, watching=watching, gpus=tuple(a_gpu(n, replicas=replicas) for n in numbers)
    )


def a_gpu(number: int, problem: str = "", replicas: int = 1) -> GpuHealth:
    ids = frozenset({f"GPU-{number}"} if problem else ())
    share = Share(GPU, {f"GPU-{number}": replicas}, ids)
    return GpuHealth(number, f"GPU-{number}", f"00000000:0{number}:00.0", problem, (share,))


def xid(gpu: int = 0, number: int = 79, turn: Turn = Turn.UNHEALTHY) -> HealthChanged:
    meaning = f"XID {number} (GPU has fallen off the bus)" if number == 79 else f"XID {number}"
    devices = ((GPU, f"GPU-{gpu}"),) if turn is Turn.UNHEALTHY else ()
    return HealthChanged(turn, f"GPU-{gpu}", f"XID {number}", meaning, number, devices=devices)
