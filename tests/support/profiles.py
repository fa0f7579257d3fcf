"""A node with configurations, and config-manager on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.aio import until
from support.apiserver import ApiServer
from support.programs import ProgramProcess, program
from support.targets import CountingTarget

NODE = "/api/v1/nodes/node1"
LABEL = "nvidia.com/device-plugin.config"


@dataclass
class Stage:
    """A node in the API, configurations, a link, and a process that reads it."""

    root: Path
    api: ApiServer
    target: CountingTarget
    name: str
    environ: dict[str, str] = field(default_factory=dict)
    versions: int = 0

    def __post_init__(self) -> None:
        self.source.mkdir()
        self.environ = {
            "KUBECONFIG": self.api.kubeconfig(self.root),
            "NODE_NAME": "node1",
            "CONFIG_FILE_SRCDIR": str(self.source),
            "CONFIG_FILE_DST": str(self.link),
            "FALLBACK_STRATEGIES": "named, single",
            "PROCESS_TO_SIGNAL": self.name,
        }
        self.swap()

    @property
    def source(self) -> Path:
        return self.root / "configs"

    @property
    def link(self) -> Path:
        return self.root / "config.yaml"

    @property
    def linked(self) -> str:
        return os.path.basename(os.readlink(self.link)) if self.link.is_symlink() else ""

    def swap(self, **changed: str) -> None:
        """Replaces all configurations at once, as the kubelet does."""
        texts = {name: f"version: v1 # {name}\n" for name in ("default", "a", "b")} | changed
        self.versions += 1
        fresh = self.source / f"..{self.versions}"
        fresh.mkdir()
        for name, text in texts.items():
            (fresh / name).write_text(text)
        (self.source / "..data_tmp").symlink_to(fresh.name)
        os.rename(self.source / "..data_tmp", self.source / "..data")
        for name in texts:
            if not (self.source / name).is_symlink():
                (self.source / name).symlink_to(f"..data/{name}")

    def label(self, value: str | None) -> None:
        """Labels the node; None takes the label away."""
        labels = {} if value is None else {LABEL: value}
        self.api.store.put(NODE, {"metadata": {"labels": labels}})

    async def follows(self, name: str, signals: int) -> None:
        """Until the link and the process have what they should have."""
        await until(lambda: self.linked == name and self.target.count == signals)

    async def stays(self, name: str, signals: int, process: ProgramProcess) -> None:
        """Nothing happens; that nothing happens is not announced by anything."""
        await asyncio.sleep(0.05)
        assert (self.linked, self.target.count) == (name, signals)
        assert process.process.returncode is None

    @asynccontextmanager
    async def running(self, *arguments: str, **environ: str) -> AsyncIterator[ProgramProcess]:
        async with program("config_manager", *arguments, environ=self.environ | environ) as process:
            yield process
