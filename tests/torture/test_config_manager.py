"""Five hundred changes while the API comes and goes: the link is right, signals equal changes."""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest
from support.apiserver import ApiServer
from support.profiles import NODE, Stage
from support.targets import counting
from support.usage import usage

CHANGES = 500
LIMIT = 60.0
"""Seconds for one change; after some failures the client pauses up to half a minute."""


class Model:
    """What should be so."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.texts = {name: f"version: v1 # {name}\n" for name in ("default", "a", "b")}
        self.value: str | None = "a"
        self.linked, self.known = "a", self.texts["a"]
        self.signals = 1

    def update(self) -> None:
        wanted = self.value or "default"
        if wanted in self.texts and wanted != self.linked:
            self.linked = wanted
        elif self.texts[self.linked] == self.known:
            return
        self.known = self.texts[self.linked]
        self.signals += 1

    def change(self, choice: random.Random) -> str:
        """Lets something happen; what it was."""
        kind = choice.choice(["label"] * 5 + ["contents"] * 3 + ["same", "cut", "restart", "gone"])
        if kind == "label":
            self.value = choice.choice(["a", "b", None, "typo"])
            self.stage.label(self.value)
        elif kind == "contents":
            name = choice.choice(list(self.texts))
            self.texts[name] = f"version: v1 # {choice.random()}\n"
            self.stage.swap(**self.texts)
        elif kind == "same":
            self.stage.swap(**self.texts)
        elif kind == "cut":
            self.stage.api.store.compact()
            self.stage.api.cut_watches()
        elif kind == "restart":
            self.stage.api.stop()
            self.value = choice.choice(["a", "b"])
            self.stage.label(self.value)
            self.stage.api.start()
        elif self.value is not None:
            self.value = None
            self.stage.api.store.delete(NODE)
        self.update()
        return kind

    def is_true(self) -> bool:
        return (self.stage.linked, self.stage.target.count) == (self.linked, self.signals)


async def settle(model: Model, seconds: float = LIMIT) -> None:
    async with asyncio.timeout(seconds):
        while not model.is_true():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.002)


@pytest.mark.torture
def test_five_hundred_changes(tmp_path):
    seed = int(os.environ.get("TORTURE_SEED", time.time()))
    print(f"seed {seed}")
    choice = random.Random(seed)
    name = f"target-{os.getpid()}"

    async def work(stage: Stage) -> None:
        model = Model(stage)
        async with stage.running() as process:
            await settle(model)
            before = usage(process.process.pid)
            for number in range(CHANGES):
                kind = model.change(choice)
                try:
                    await settle(model)
                except TimeoutError:
                    shown = stage.linked, stage.target.count
                    pytest.fail(f"{number} {kind}: {shown}, not {model.linked, model.signals}")
            await asyncio.sleep(1)
            assert model.is_true()
            after = usage(process.process.pid)
        print(f"{model.signals} signals; files, threads, kB: {before} -> {after}")
        assert after[0] <= before[0] + 1
        assert after[1] == before[1]
        assert after[2] <= before[2] + 2048

    with ApiServer() as api, counting(name, tmp_path) as target:
        stage = Stage(tmp_path, api, target, name)
        stage.label("a")
        asyncio.run(work(stage))
