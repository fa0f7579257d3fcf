"""A node in the API, a kubelet, configurations, and ``gpu-node agent`` among them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.views import NodeView
from support.aio import LIMIT, until
from support.apiserver import ApiServer
from support.programs import ProgramProcess, program
from support.serving import GPU

NODE = "/api/v1/nodes/node1"
LABEL = "nvidia.com/device-plugin.config"
OBJECT = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures/nvidia-features-for-node1"
NONE = "version: v1\n"
AGENT = "import sys; sys.argv[1:1] = ['agent']"
SETTINGS = ("GPU_NODE_", "GFD_", "KUBE", "NODE_", "CONFIG_FILE", "DEFAULT_CONFIG", "FALLBACK")
"""What variables of ours begin with that must not come from outside."""


def shared(replicas: int) -> str:
    """A configuration that shares GPUs by time-slicing."""
    return f"sharing: {{timeSlicing: {{resources: [{{name: {GPU}, replicas: {replicas}}}]}}}}\n"


@dataclass
class AgentStage:
    """Everything around an agent. Labels go to a file unless the environment says otherwise."""

    root: Path
    api: ApiServer | None = None
    environ: dict[str, str] = field(default_factory=dict)
    versions: int = 0

    def __post_init__(self) -> None:
        for directory in (self.source, self.sockets, self.file.parent):
            directory.mkdir(parents=True)
        self.events.touch()
        given = self.environ
        self.environ = {
            **dict.fromkeys([n for n in os.environ if n.startswith(SETTINGS)], ""),
            "GPU_NODE_SIMULATE": "t4x4",
            "GPU_NODE_SIMULATE_EVENTS": str(self.events),
            "GPU_NODE_PLUGIN_DIR": str(self.sockets),
            "KUBELET_SOCKET": str(self.sockets / "kubelet.sock"),
            "USE_NODE_FEATURE_API": "false",
            "GFD_OUTPUT_FILE": str(self.file),
            "NODE_NAME": "node1",
            "PYTHONWARNINGS": "error",
        }
        if self.api is not None:
            self.environ |= {
                "KUBECONFIG": self.api.kubeconfig(self.root),
                "CONFIG_FILE_SRCDIR": str(self.source),
                "FALLBACK_STRATEGIES": "named,single",
            }
        self.environ |= given
        self.swap(default=NONE, ts4=shared(4), ts2=shared(2))

    @property
    def source(self) -> Path:
        return self.root / "configs"

    @property
    def sockets(self) -> Path:
        return self.root / "sockets"

    @property
    def file(self) -> Path:
        return self.root / "features.d" / "gfd"

    @property
    def events(self) -> Path:
        return self.root / "events"

    def swap(self, **texts: str) -> None:
        """Replaces all configurations at once, as the kubelet does."""
        self.versions += 1
        fresh = self.source / f"..{self.versions}"
        fresh.mkdir()
        for name, text in texts.items():
            (fresh / name).write_text(text)
        (self.source / "..data_tmp").symlink_to(fresh.name)
        os.rename(self.source / "..data_tmp", self.source / "..data")
        for old in self.source.iterdir():
            if old.is_symlink() and not old.exists():
                old.unlink()
        for name in texts:
            if not (self.source / name).is_symlink():
                (self.source / name).symlink_to(f"..data/{name}")

    def label(self, value: str | None) -> None:
        """Labels the node; None takes the label away."""
        assert self.api is not None
        labels = {} if value is None else {LABEL: value}
        self.api.store.put(NODE, {"metadata": {"labels": labels}})

    def happens(self, *lines: str) -> None:
        """Lets something happen to the simulated node."""
        with self.events.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def labels(self) -> dict[str, str]:
        """The labels that are in the file, without prefix; none if there is no file."""
        try:
            lines = self.file.read_text().splitlines()
        except FileNotFoundError:
            return {}
        return dict(line.removeprefix("nvidia.com/").split("=", 1) for line in lines)

    def published(self) -> dict[str, str]:
        """The labels of the NodeFeature object, without prefix."""
        assert self.api is not None
        item = self.api.store.objects.get(OBJECT, {})
        labels = item.get("spec", {}).get("labels", {})
        return {key.removeprefix("nvidia.com/"): value for key, value in labels.items()}

    @asynccontextmanager
    async def running(
        self, *arguments: str, before: str = "pass", **environ: str
    ) -> AsyncIterator[tuple[SimulatedKubelet, ProgramProcess]]:
        """A kubelet and an agent."""
        async with (
            SimulatedKubelet(str(self.sockets)) as kubelet,
            self.agent(*arguments, before=before, **environ) as process,
        ):
            yield kubelet, process

    @asynccontextmanager
    async def agent(
        self, *arguments: str, before: str = "pass", **environ: str
    ) -> AsyncIterator[ProgramProcess]:
        """An agent alone."""
        async with program(
            "gpu_node", *arguments, environ=self.environ | environ, before=f"{before}; {AGENT}"
        ) as process:
            yield process

    async def shows(
        self, kubelet: SimulatedKubelet, count: int, limit: float = LIMIT, **labels: str
    ) -> NodeView:
        """Until so many devices can be had and the labels say the same; dots are two underscores."""
        view = await kubelet.until(
            lambda view: view.resource(GPU).allocatable == count, f"{count} devices", limit
        )
        await self.says(limit, **labels)
        return view

    async def says(self, limit: float = LIMIT, **labels: str) -> None:
        """Until the file has these labels."""
        wanted = {key.replace("__", ".").replace("_", "-"): v for key, v in labels.items()}
        try:
            await until(lambda: wanted.items() <= self.labels().items(), limit)
        except TimeoutError:
            raise AssertionError(f"not labelled {wanted}, but {self.labels()}") from None

    @asynccontextmanager
    async def witnessed(
        self, kubelet: SimulatedKubelet, agrees: Callable[[NodeView, dict[str, str]], bool]
    ) -> AsyncIterator[list[tuple[NodeView, dict[str, str]]]]:
        """Looks all the time whether devices and labels agree; those pairs that do not."""
        wrong = list[tuple[NodeView, dict[str, str]]]()

        async def look() -> None:
            while True:
                labels = self.labels()
                for _ in range(20):  # what was sent before the labels arrives meanwhile
                    await asyncio.sleep(0)
                view = kubelet.view()
                if labels and labels == self.labels() and not agrees(view, labels):
                    wrong.append((view, labels))
                await asyncio.sleep(0.001)

        watcher = asyncio.create_task(look())
        try:
            yield wrong
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)


def agree(view: NodeView, labels: dict[str, str]) -> bool:
    """Whether the kubelet has nothing to hand out, or what the labels say."""
    devices = view.resource(GPU).devices
    there = sum(device.is_healthy for device in devices)
    is_shared = any("::" in device.id for device in devices)
    return not there or (
        there == int(labels["gpu.count"]) * int(labels["gpu.replicas"])
        and is_shared == labels["gpu.product"].endswith("-SHARED")
    )
