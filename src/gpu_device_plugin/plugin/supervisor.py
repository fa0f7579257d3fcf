"""The life of the plugin process: start, reload, kubelet restarts, end.

State is looked at rather than events counted: a change in a directory or a signal only wakes
the loop, which then compares what is there with what it knows. Lost, doubled and late events
therefore change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Iterable

from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.kubelet import api
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.health import HealthWatch
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket, plugin_socket_path
from gpu_device_plugin.plugin.node import Node, NodeReader
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.served import ServedResource
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.threads import in_thread
from gpu_device_plugin.watch.directories import DirectoryWatch
from gpu_device_plugin.watch.signals import on_signals

log = logging.getLogger(__name__)

_Work = Coroutine[object, object, None]

RETIRE_SECONDS = 1.0
"""Longest wait until the kubelet has heard that a resource is gone."""
INIT_RETRY_SECONDS = 30.0
"""Pause before a driver that could not be used is tried again."""
SETTLE_SECONDS = 1.0
"""Time after a reload in which the new registrations come to rest."""


class Supervisor:
    """Runs the plugin until a signal ends it."""

    def __init__(
        self,
        reader: NodeReader,
        kubelet: KubeletSocket,
        policy: HealthPolicy,
        *,
        socket_directory: str = api.DEVICE_PLUGIN_DIR,
    ) -> None:
        self._reader = reader
        self._kubelet = kubelet
        self._socket_directory = socket_directory
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._reload = False
        self._kubelet_seen: tuple[int, int, int] | None = None
        self._node: Node | None = None
        self._served: dict[str, ServedResource] = {}
        self._health = HealthWatch(policy)
        self._tasks: list[asyncio.Task[None]] = []
        self._init_problem = ""

    async def run(self) -> None:
        """Serves the node; returns after SIGINT, SIGTERM or SIGQUIT.

        Raises:
            UserError: the node cannot be served and waiting is not allowed or of no use.
        """
        on_signals(stop=self._on_stop, reload=self._on_reload)
        watch = self._watch_directories()
        life = asyncio.create_task(self._live(), name="supervisor")
        end = asyncio.create_task(self._stop.wait(), name="stop signal")
        try:
            await asyncio.wait({life, end}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.result()
        finally:
            life.cancel()
            end.cancel()
            await asyncio.gather(life, end, return_exceptions=True)
            watch.stop()
            await asyncio.gather(self._health.stop(), self._stop_serving())

    def _on_stop(self, number: signal.Signals) -> None:
        log.info("%s: shutting down", number.name)
        self._stop.set()

    def _on_reload(self) -> None:
        log.info("SIGHUP: reloading")
        self._request_reload()

    def _request_reload(self) -> None:
        self._reload = True
        self._wake.set()

    def _watch_directories(self) -> DirectoryWatch:
        directories = []
        if self._kubelet.is_wanted:
            directories = [self._kubelet.directory, self._socket_directory]
        watch = DirectoryWatch(directories, self._wake.set)
        watch.start()
        return watch

    async def _live(self) -> None:
        config, backend = await in_thread("configure", self._reader.configure)
        node = await in_thread("read", lambda: self._reader.read(config, backend))
        self._serve(node)
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._reload:
                self._reload = False
                await self._restart()
            elif self._kubelet_is_new():
                log.info("the kubelet has started: serving anew")
                await self._restart()
            else:
                for served in self._served.values():
                    served.poke()

    def _kubelet_is_new(self) -> bool:
        """Whether the kubelet has another socket than when serving began."""
        now = self._kubelet.identity() if self._kubelet.is_wanted else None
        if now is None or now == self._kubelet_seen:
            return False
        before, self._kubelet_seen = self._kubelet_seen, now
        # Resources that still wait for the first kubelet need not be started anew for it.
        return before is not None or not self._served

    async def _restart(self) -> None:
        """Begins anew; a configuration that cannot be used leaves everything as it is."""
        try:
            config, backend = await in_thread("configure", self._reader.configure)
            node = await in_thread("read", lambda: self._reader.read(config, backend))
        except ConfigError as error:
            log.error("%s", error)
            log.error("the last good configuration stays in force")
            await self._keep()
            return
        await self._stop_serving(keep=node.plan.names())
        self._serve(node)

    async def _keep(self) -> None:
        """Goes on with what is served already; only a new kubelet has to be told of it."""
        kubelet = self._kubelet.identity()
        told = {served.registered_with for served in self._served.values()}
        if self._node is not None and not told <= {None, kubelet}:
            await self._stop_serving(keep=self._node.plan.names())
            self._serve(self._node)

    def _serve(self, node: Node) -> None:
        """Begins to serve what a node offers."""
        self._node = node
        self._kubelet_seen = self._kubelet.identity() if self._kubelet.is_wanted else None
        self._tell_of_waiting(node)
        inventory = node.inventory
        preference = LinkedGpus(inventory.gpus if inventory is not None else ())
        for resource in node.plan.resources:
            service = ResourceService(DeviceBoard(resource), node.settings, preference, node.policy)
            path = plugin_socket_path(resource.socket_name, self._socket_directory)
            self._served[resource.name] = ServedResource(service, self._kubelet, path)
        boards = [served.service.board for served in self._served.values()]
        for served in self._served.values():
            served.start()
        self._health.show_on(boards)
        if inventory is None:
            self._begin("driver", self._await_driver(node))
        if inventory is None or not boards:
            self._begin("health", self._health.stop())
        else:
            self._begin("links", _learn_links(node, inventory, preference))
            if self._health.is_running:
                self._begin("hand-over", self._hand_over(node, inventory, boards))
            else:
                self._health.start(node.backend, inventory)

    def _begin(self, name: str, work: _Work) -> None:
        self._tasks.append(asyncio.create_task(_guarded(name, work), name=name))

    def _tell_of_waiting(self, node: Node) -> None:
        if node.init_problem and node.init_problem != self._init_problem:
            log.warning(
                "%s; waiting, as failOnInitError is false: next attempt every %g s",
                node.init_problem,
                INIT_RETRY_SECONDS,
            )
        elif not node.init_problem and not node.plan.resources:
            log.info("no devices found: waiting for a signal or a restart of the kubelet")
        self._init_problem = node.init_problem

    async def _await_driver(self, node: Node) -> None:
        """Reloads once the driver can be used."""
        while True:
            await asyncio.sleep(INIT_RETRY_SECONDS)
            try:
                await in_thread("driver", node.backend.read)
            except InitError as error:
                log.debug("still waiting for the driver: %s", error)
            else:
                log.info("the driver can be used now")
                self._request_reload()
                return

    async def _hand_over(
        self, node: Node, inventory: Inventory, boards: Iterable[DeviceBoard]
    ) -> None:
        """Replaces the health monitor of the time before a reload.

        It goes on until the new registrations have settled, so that no event falls between.
        While it holds the driver, NVML tells what it has known all along; what it tells
        afterwards is compared with what was planned on.
        """
        await asyncio.gather(*(board.first_told() for board in boards))
        await asyncio.sleep(SETTLE_SECONDS)
        await self._health.stop()
        try:
            now = await in_thread("read", node.backend.read)
        except InitError as error:
            log.warning("after the reload: %s", error)
            self._request_reload()
            return
        if now == inventory:
            self._health.start(node.backend, inventory)
        else:
            log.info("the hardware has changed: reloading once more")
            self._request_reload()

    async def _stop_serving(self, keep: tuple[str, ...] | None = None) -> None:
        """Stops all servers; resources that are not kept are told to be empty first."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        served, self._served = self._served, {}
        await asyncio.gather(
            *(
                s.stop() if keep is None or name in keep else s.retire(RETIRE_SECONDS)
                for name, s in served.items()
            )
        )


async def _learn_links(node: Node, inventory: Inventory, preference: LinkedGpus) -> None:
    """Reads the links between GPUs beside everything else."""
    stopped = asyncio.Event()
    try:
        links = await in_thread("links", lambda: node.backend.read_links(inventory, stopped.is_set))
    except InitError as error:
        links = Links(problems=(str(error),))
    finally:
        stopped.set()
    preference.set_links(links)
    await preference.prepare()


async def _guarded(name: str, work: _Work) -> None:
    """Lets nothing end a background task unnoticed."""
    try:
        await work
    except Exception:
        log.exception("the task %s failed", name)
