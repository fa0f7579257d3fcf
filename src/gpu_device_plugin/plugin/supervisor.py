"""The life of the plugin process: start, reload, kubelet restarts, end.

State is looked at rather than events counted: a change in a directory or a signal only wakes
the loop, which then compares what is there with what it knows. Lost, doubled and late events
therefore change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.kubelet import api
from gpu_device_plugin.plugin.companions import INIT_RETRY_SECONDS, Companions
from gpu_device_plugin.plugin.kubelet_socket import Identity, KubeletSocket
from gpu_device_plugin.plugin.node import Node, NodeReader
from gpu_device_plugin.plugin.observation import Observation, ObservedResource, Reload
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.rereading import reread
from gpu_device_plugin.plugin.servers import Servers
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.telemetry import Listener, nobody
from gpu_device_plugin.threads import in_thread
from gpu_device_plugin.watch.directories import DirectoryWatch
from gpu_device_plugin.watch.loop import tell_errors_once
from gpu_device_plugin.watch.signals import on_signals, run_until

log = logging.getLogger(__name__)


async def to_nobody(_: Node) -> None:
    """Announces a node to nobody."""


class Supervisor:
    """Runs the plugin until a signal ends it.

    Args:
        reader: reads configuration and hardware.
        kubelet: where resources are registered.
        environ: the variables that decide over health checks.
        socket_directory: where the plugin's own sockets are made.
        rescan_seconds: pause between looks for changed hardware; 0 for none.
        tell: hears what happens.
        announce: is told of each node while nothing is offered yet, or as soon as what is offered
            has been adapted to it, and waited for.
        must_fit: whether a node that cannot be offered as configured is an error at the start;
            else nothing is offered until a change mends it.
    """

    def __init__(
        self,
        reader: NodeReader,
        kubelet: KubeletSocket,
        *,
        environ: Mapping[str, str] = os.environ,
        socket_directory: str = api.DEVICE_PLUGIN_DIR,
        rescan_seconds: float = 0,
        tell: Listener = nobody,
        announce: Callable[[Node], Awaitable[None]] = to_nobody,
        must_fit: bool = True,
    ) -> None:
        self._reader = reader
        self._kubelet = kubelet
        self._environ = environ
        self._socket_directory = socket_directory
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._reload = False
        self._changed: Inventory | None = None
        self._kubelet_seen: Identity | None = None
        self._node: Node | None = None
        self._tell = tell
        self._servers = Servers(kubelet, socket_directory, tell)
        self._beside = Companions(self.reload, self._note_change, rescan_seconds, tell)
        self._init_problem = ""
        self._announce = announce
        self._must_fit = must_fit
        self._preference: LinkedGpus | None = None
        self._last_reload: Reload | None = None

    def observe(self) -> Observation:
        """What is served at this moment, and how that goes."""
        health = self._beside.health
        return Observation(
            node=self._node,
            resources=tuple(ObservedResource.of(served) for served in self._servers.served),
            links=None if self._preference is None else self._preference.links,
            watch=health.state,
            offer_problem="" if self._node is None else self._node.plan_problem,
            kubelet_socket=self._kubelet.path,
            last_reload=self._last_reload,
        )

    async def run(self) -> None:
        """Serves the node; returns after SIGINT, SIGTERM or SIGQUIT.

        Raises:
            UserError: the node cannot be served and waiting is not allowed or of no use.
        """
        tell_errors_once()
        on_signals(stop=self._on_stop, reload=self._on_reload)
        await self.serve(self._stop)

    async def serve(self, stop: asyncio.Event) -> None:
        """Serves the node until an event comes; signals are the caller's.

        Raises:
            UserError: the node cannot be served and waiting is not allowed or of no use.
        """
        watch = self._watch_directories()
        try:
            await run_until(stop, "supervisor", self._live())
        finally:
            watch.stop()
            await self._beside.stop()
            await asyncio.gather(self._beside.health.stop(), self._servers.stop())

    def reload(self) -> None:
        """Lets configuration and hardware be read anew."""
        self._reload = True
        self._wake.set()

    def rescan(self) -> None:
        """Lets the hardware be looked at now; if it has changed, what is offered is adapted."""
        self._beside.rescan()

    def _on_stop(self, number: signal.Signals) -> None:
        log.info("%s: shutting down", number.name)
        self._stop.set()

    def _on_reload(self) -> None:
        log.info("SIGHUP: reloading")
        self.reload()

    def _note_change(self, inventory: Inventory) -> None:
        self._changed = inventory
        self._wake.set()

    def _watch_directories(self) -> DirectoryWatch:
        directories = []
        if self._kubelet.is_wanted:
            directories = [self._kubelet.directory, self._socket_directory]
        watch = DirectoryWatch(directories, self._wake.set)
        watch.start()
        return watch

    async def _live(self) -> None:
        loaded, backend = await in_thread("configure", self._reader.configure)
        must_fit = self._must_fit
        read = self._reader.read
        node = await in_thread("read", lambda: read(loaded, backend, must_fit=must_fit))
        await self._serve(node)
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._reload:
                self._reload = False
                await self._restart_or_adapt()
            elif self._kubelet_is_new():
                log.info("the kubelet has started: serving anew")
                await self._restart_or_adapt()
            elif self._changed is not None:
                await self._adapt_to_change()
            else:
                self._servers.poke()

    def _kubelet_is_new(self) -> bool:
        """Whether the kubelet has another socket than when serving began."""
        now = self._kubelet.identity() if self._kubelet.is_wanted else None
        if now is None or now == self._kubelet_seen:
            return False
        before, self._kubelet_seen = self._kubelet_seen, now
        # Resources that still wait for the first kubelet need not be started anew for it.
        return before is not None or not self._servers

    async def _restart_or_adapt(self) -> None:
        """Begins anew; if that is not possible, the node of before follows its hardware."""
        if await self._restart():
            return
        node = self._node
        if self._changed is not None:
            await self._adapt_to_change()
        elif node is not None and node.inventory is not None and node.problem_is_over is not None:
            await self._adapt(node.inventory)  # what is lacking of it may be written by now

    async def _restart(self) -> bool:
        """Begins anew; a configuration that cannot be used leaves everything as it is.

        Returns:
            Whether the hardware was taken as it is now.
        """
        outcome = await reread(self._reader, self._node, must_fit=self._must_fit)
        self._beside.await_place(outcome.is_over)
        self._last_reload = Reload(time.time(), outcome.told.error)
        self._tell(outcome.told)
        node = outcome.node
        if node is None:
            await self._keep()
            return False
        await self._stop_serving(node)
        if self._changed is not None:  # seen before the node was read, or after: it is looked again
            self._changed = None
            self._beside.rescan()
        await self._serve(node)
        return True

    async def _keep(self) -> None:
        """Goes on with what is served already; only a new kubelet has to be told of it."""
        node = self._node
        if node is not None and self._servers.were_told_to_another_than(self._kubelet.identity()):
            await self._stop_serving(node)
            await self._serve(node)

    async def _adapt_to_change(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            log.info("the hardware has changed: adapting")
            await self._adapt(changed)

    async def _adapt(self, inventory: Inventory) -> None:
        """Takes over changed hardware without disturbing what has stayed the same."""
        before = self._node
        if before is None:
            return
        plan = self._reader.plan_anew
        node = await in_thread("plan", lambda: plan(before, inventory))
        await self._beside.stop()
        preference = LinkedGpus(node.gpus, self._tell)
        await self._servers.adapt(node, preference)
        self._take(node, preference)
        await self._announce(node)

    async def _serve(self, node: Node) -> None:
        """Begins to serve what a node offers."""
        await self._announce(node)
        self._kubelet_seen = self._kubelet.identity() if self._kubelet.is_wanted else None
        preference = LinkedGpus(node.gpus, self._tell)
        self._servers.start(node, preference)
        self._take(node, preference)

    def _take(self, node: Node, preference: LinkedGpus) -> None:
        """This is the node from now on."""
        self._node = node
        self._preference = preference
        self._tell_of_waiting(node)
        policy = HealthPolicy.of(self._environ, node.config.extensions.health)
        self._beside.start(node, self._servers.boards, preference, policy)

    def _tell_of_waiting(self, node: Node) -> None:
        if node.init_problem and node.init_problem != self._init_problem:
            log.warning(
                "%s; waiting, as failOnInitError is false: next attempt every %g s",
                node.init_problem,
                INIT_RETRY_SECONDS,
            )
        elif not node.init_problem and not node.plan_problem and not node.plan.resources:
            log.info("no devices found: waiting for a signal or a restart of the kubelet")
        self._init_problem = node.init_problem

    async def _stop_serving(self, successor: Node) -> None:
        await self._beside.stop()
        try:
            await self._servers.stop(keep=successor.plan.names())
        except UserError as error:
            # Whoever serves the resource next tries again until the socket can be replaced.
            log.error("%s", error)
