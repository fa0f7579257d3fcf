"""Reads the status of the node that this program runs on; needs no other program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.errors import InitError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Gpu, Inventory
from gpu_device_plugin.kubelet.podresources import PodResourcesClient
from gpu_device_plugin.resources.model import Resource
from gpu_device_plugin.resources.plan import plan_node
from gpu_device_plugin.status.local import (
    OTHER_CONFIGURATION,
    HardwareRead,
    KubeletTold,
    LocalView,
    describe_node,
)
from gpu_device_plugin.status.look import Look
from gpu_device_plugin.threads import in_thread


class LocalSource:
    """Reads hardware and configuration and asks the kubelet, anew for each look.

    Args:
        load_config: the configuration of the plugin.
        open_backend: the hardware that it asks for.
        socket: of the kubelet's pod resources; empty if it is not to be asked.
        node: name of the node.
        simulated: the profile of a simulated node.
    """

    def __init__(
        self,
        load_config: Callable[[], Loaded],
        open_backend: Callable[[Config], Backend],
        socket: str,
        *,
        node: str,
        simulated: str = "",
    ) -> None:
        self._load_config = load_config
        self._open_backend = open_backend
        self._kubelet = PodResourcesClient(socket) if socket else None
        self._node = node
        self._simulated = simulated
        self._started = time.time()

    async def look(self) -> Look:
        """The node as it is now.

        Raises:
            ConfigError: the configuration cannot be used.
        """
        reading = asyncio.create_task(in_thread("hardware", self._read))
        try:
            told = await self._ask()
            backend, read = await reading
        finally:
            reading.cancel()
        view = LocalView.of(read, told)
        suspects = view.suspects()
        problems = dict[str, str]()
        if suspects:
            problems = await in_thread("problems", lambda: _problems(backend, suspects))
        status = describe_node(
            view, problems, node=self._node, now=time.time(), started=self._started
        )
        return Look(status, tuple(_notes(view)))

    def close(self) -> None:
        """Ends the connection to the kubelet."""
        if self._kubelet is not None:
            self._kubelet.close()

    def _read(self) -> tuple[Backend, HardwareRead]:
        loaded = self._load_config()
        backend = self._open_backend(loaded.config)
        try:
            inventory = backend.read()
        except InitError as error:
            read = HardwareRead(loaded, None, init_problem=str(error), simulated=self._simulated)
            return backend, read
        resources, problem = _plan(loaded, backend, inventory)
        read = HardwareRead(
            loaded, inventory, resources, plan_problem=problem, simulated=self._simulated
        )
        return backend, read

    async def _ask(self) -> KubeletTold:
        kubelet = self._kubelet
        if kubelet is None:
            return KubeletTold(pods_problem=NOT_ASKED, allocatable_problem=NOT_ASKED)
        try:
            containers = await kubelet.list()
        except UserError as error:
            return KubeletTold(pods_problem=str(error), allocatable_problem=str(error))
        try:
            return KubeletTold(containers, await kubelet.allocatable())
        except UserError as error:
            return KubeletTold(containers, allocatable_problem=str(error))


NOT_ASKED = "--pod-resources-socket (GPU_NODE_POD_RESOURCES_SOCKET) is empty"


def _plan(
    loaded: Loaded, backend: Backend, inventory: Inventory
) -> tuple[tuple[Resource, ...], str]:
    """The resources that a configuration makes of the hardware, or why there are none."""
    config = loaded.config
    try:
        validate_plugin(config, backend.is_loadable, loaded.origins)
        return plan_node(config, inventory).resources, ""
    except UserError as error:
        return (), str(error)


def _problems(backend: Backend, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    return {gpu.uuid: problem for gpu in gpus if (problem := backend.problem_of(gpu))}


def _notes(view: LocalView) -> list[str]:
    notes = []
    told = view.told
    if told.allocatable_problem and told.allocatable_problem != told.pods_problem:
        notes.append(f"what the kubelet holds for healthy is not known: {told.allocatable_problem}")
    if view.is_observed:
        notes.append(OTHER_CONFIGURATION)
    return notes
