"""A simulated node that stays: a simulated kubelet, the real plugin, and requests to both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.hardware.simulated.backend import EVENTS_VARIABLE
from gpu_device_plugin.hardware.simulated.profile import load_profile
from gpu_device_plugin.simulation.demo.process import PluginProcess
from gpu_device_plugin.simulation.demo.stage import LogLine, Stage, Tone
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.node_control import Handler, Json, serve_control
from gpu_device_plugin.simulation.node_place import NodePlace, NodeState
from gpu_device_plugin.simulation.page_address import FREE_LOOPBACK, page_url, same_port
from gpu_device_plugin.simulation.pods import PodSpec

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a plugin that has ended is started again, as a kubelet restarts containers."""
SETTLED = ("registered ", "no devices found", "nothing is offered")
"""How the plugin's lines begin that tell that it has come as far as it will."""
NO_PAGE = "metrics, probes and status are not served"


class PluginFailed(UserError):
    """The plugin has ended before it registered for the first time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The node that is to run."""

    place: NodePlace
    profile: str
    """Name of a built-in one, or the absolute path of a file."""
    arguments: Sequence[str] = ()
    """Of the plugin, beside those that make it one of this node."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the plugin's environment, beside those that Python needs."""
    page_address: str = FREE_LOOPBACK
    """Where page and metrics are served; empty for nowhere."""


class SimulatedNodeRun:
    """One node from its start to its end.

    Args:
        wanted: what is to run.
        on_line: told of every line of the log.
        on_ready: told, once, when the plugin has registered, or has nothing to, and its page is
            there, if there is to be one.
    """

    def __init__(
        self,
        wanted: Wanted,
        on_line: Callable[[LogLine], None],
        on_ready: Callable[[NodeState], None],
    ) -> None:
        place = wanted.place
        self._wanted = wanted
        self._on_ready = on_ready
        self._is_told = False
        self._is_settled = False
        self._page_is_settled = not wanted.page_address
        profile = load_profile(wanted.profile)
        self._stage = Stage(profile.machine, Inventory(profile.platform), on_line=on_line)
        self.kubelet = SimulatedKubelet(
            place.sockets, self._stage.hear_kubelet, place.pod_resources
        )
        self.state = NodeState(
            profile=wanted.profile,
            pid=os.getpid(),
            kubelet_socket=self.kubelet.socket,
            pod_resources_socket=place.pod_resources,
            events_file=place.events,
        )
        self._plugin = self._new_plugin()
        self._last_error = ""
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Runs until `stop` is called or the task is cancelled.

        Raises:
            UserError: the place is taken, or the plugin cannot be started.
        """
        place = self._wanted.place
        is_new = place.prepare()
        with place.locked():
            async with AsyncExitStack() as stack:
                stack.callback(place.clear, with_directory=is_new)
                place.furnish()
                await stack.enter_async_context(self.kubelet)
                await stack.enter_async_context(serve_control(place.control, self._handlers()))
                stack.push_async_callback(self._stop_plugin)
                place.save(self.state)
                await self._keep_running()

    def stop(self) -> None:
        """Ends it."""
        self._stopped.set()

    async def _keep_running(self) -> None:
        """Starts the plugin, again and again if need be."""
        ended = asyncio.create_task(self._keep_plugin(), name="plugin")
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        try:
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
        finally:
            for task in (ended, stopped):
                task.cancel()
            await asyncio.gather(ended, stopped, return_exceptions=True)

    async def _keep_plugin(self) -> None:
        pause = FIRST_PAUSE
        while True:
            registrations = self.kubelet.view().registrations
            await self._plugin.start()
            code = await self._plugin.wait()
            if not self.kubelet.view().registrations and not self._is_told:
                raise PluginFailed(
                    f"the plugin has ended with code {code}: {self._last_error or 'see above'}"
                )
            pause = FIRST_PAUSE if self.kubelet.view().registrations > registrations else pause
            text = f"the plugin has ended with code {code}; it is started again in {pause:g} s"
            self._stage.happen(text)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            self._plugin = self._new_plugin()

    def _new_plugin(self) -> PluginProcess:
        place = self._wanted.place
        return PluginProcess(
            [
                f"--simulate={self._wanted.profile}",
                f"--kubelet-socket={self.kubelet.socket}",
                f"--plugin-directory={place.sockets}",
                f"--pod-resources-socket={place.pod_resources}",
                f"--metrics-address={same_port(self._wanted.page_address, self.state.url)}",
                *self._wanted.arguments,
            ],
            {**self._wanted.variables, EVENTS_VARIABLE: place.events},
            self._hear,
        )

    async def _stop_plugin(self) -> None:
        await self._plugin.stop()

    def _hear(self, level: str, text: str) -> None:
        if level == "error":
            self._last_error = text
        self._stage.hear_plugin(level, text)
        url = page_url(text)
        if url and url != self.state.url:
            self.state = replace(self.state, url=url)
            self._wanted.place.save(self.state)
        self._is_settled = self._is_settled or text.startswith(SETTLED)
        self._page_is_settled = self._page_is_settled or bool(url) or text.startswith(NO_PAGE)
        if self._is_settled and self._page_is_settled and not self._is_told:
            self._is_told = True
            self._on_ready(self.state)

    def _handlers(self) -> Mapping[str, Handler]:
        return {
            "pod": self._run_pod,
            "delete-pod": self._delete_pod,
            "restart-kubelet": self._restart_kubelet,
            "reload": self._reload,
            "show": self._show,
            "stop": self._stop,
        }

    async def _run_pod(self, request: Json) -> Json:
        limits = {str(name): int(count) for name, count in dict(request["limits"]).items()}
        namespace = str(request.get("namespace") or "default")
        pod = await self.kubelet.admit(PodSpec.of(str(request["name"]), limits, namespace))
        return {"devices": {a.resource: list(a.device_ids) for a in pod.assignments}}

    async def _delete_pod(self, request: Json) -> Json:
        name = str(request["name"])
        if name not in self.kubelet.view().pods:
            pods = ", ".join(self.kubelet.view().pods) or "none"
            raise UserError(f"there is no pod {name}", f"there are: {pods}")
        self.kubelet.delete(name)
        return {}

    async def _restart_kubelet(self, _request: Json) -> Json:
        self._stage.happen("the kubelet is restarted")
        await self.kubelet.restart()
        return {}

    async def _reload(self, _request: Json) -> Json:
        self._stage.happen("SIGHUP to the plugin")
        self._plugin.reload()
        return {}

    async def _show(self, _request: Json) -> Json:
        view = self.kubelet.view()
        return {
            "node": asdict(self.state),
            "resources": {
                name: {
                    "capacity": resource.capacity,
                    "allocatable": resource.allocatable,
                    "inUse": resource.in_use,
                    "connected": resource.is_connected,
                    "devices": [
                        {"id": d.id, "healthy": d.is_healthy, "pod": d.pod}
                        for d in resource.devices
                    ],
                }
                for name, resource in view.resources.items()
            },
            "pods": {
                name: {a.resource: list(a.device_ids) for a in pod.assignments}
                for name, pod in view.pods.items()
            },
        }

    async def _stop(self, _request: Json) -> Json:
        self._stage.happen("asked to end", Tone.PLAIN)
        # The answer goes out first.
        asyncio.get_running_loop().call_soon(self.stop)
        return {}
