"""Fifty changes while API and kubelet come and go: devices and labels never disagree."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time

import pytest
from support.agents import NODE, NONE, AgentStage, agree, shared
from support.apiserver import ApiServer
from support.programs import ProgramProcess
from support.serving import GPU
from support.usage import usage

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

CHANGES = int(os.environ.get("TORTURE_CHANGES", "50"))
LIMIT = 60.0
"""Seconds for one change; after some failures the client pauses up to half a minute."""
KINDS = ["label"] * 5 + ["contents"] * 3 + ["kubelet"] * 3
KINDS += ["same", "bad", "cut", "api", "gone", "hup"]


class Model:
    """What should be so."""

    def __init__(self, stage: AgentStage) -> None:
        self.stage = stage
        self.replicas = {"default": 1, "a": 4, "b": 2}
        self.value: str | None = "a"
        self.expected = 4
        self.write()
        stage.label(self.value)

    def write(self, **more: str) -> None:
        texts = {name: NONE if n == 1 else shared(n) for name, n in self.replicas.items()}
        self.stage.swap(**texts, **more)

    def update(self) -> None:
        """A name that is none keeps what is in force, whatever becomes of its contents."""
        self.expected = self.replicas.get(self.value or "default", self.expected)

    async def change(
        self, choice: random.Random, kubelet: SimulatedKubelet, process: ProgramProcess
    ) -> str:
        """Lets something happen; what it was."""
        assert self.stage.api is not None
        api = self.stage.api
        kind = choice.choice(KINDS)
        if kind == "label":
            self.value = choice.choice(["a", "b", None, "typo"])
            self.stage.label(self.value)
        elif kind == "contents" and self.value != "typo":
            # Whether a typo is noticed before or after that makes a difference.
            self.replicas[choice.choice(["a", "b"])] = choice.randint(1, 9)
            self.write()
        elif kind == "same":
            self.write()
        elif kind == "bad":
            self.write(typo="version: v9\n")
        elif kind == "cut":
            api.store.compact()
            api.cut_watches()
        elif kind == "api":
            api.stop()
            self.value = choice.choice(["a", "b"])
            self.stage.label(self.value)
            api.start()
        elif kind == "gone" and self.value is not None:
            self.value = None
            api.store.delete(NODE)
        elif kind == "kubelet":
            await kubelet.stop()
            self.value = choice.choice(["a", "b", self.value])
            self.stage.label(self.value)
            await asyncio.sleep(choice.choice([0, 0, 0.01, 0.05]))
            await kubelet.start()
        elif kind == "hup":
            process.signal(signal.SIGHUP)
        self.update()
        return kind

    def is_true(self, kubelet: SimulatedKubelet) -> bool:
        labels = self.stage.labels()
        return (
            kubelet.view().resource(GPU).allocatable == 4 * self.expected
            and labels.get("gpu.replicas") == str(self.expected)
            and agree(kubelet.view(), labels)
        )


async def settle(model: Model, kubelet: SimulatedKubelet) -> None:
    async with asyncio.timeout(LIMIT):
        while not model.is_true(kubelet):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)


@pytest.mark.torture
def test_fifty_changes(tmp_path):
    seed = int(os.environ.get("TORTURE_SEED", time.time()))
    print(f"seed {seed}")
    choice = random.Random(seed)

    async def work(stage: AgentStage) -> None:
        model = Model(stage)
        async with stage.running("--kube-api-qps=-1") as (kubelet, process):
            await settle(model, kubelet)
            before = usage(process.process.pid)
            async with stage.witnessed(kubelet, agree) as wrong:
                for number in range(CHANGES):
                    kind = await model.change(choice, kubelet, process)
                    try:
                        await settle(model, kubelet)
                    except TimeoutError:
                        devices = kubelet.view().resource(GPU).allocatable
                        shown = devices, stage.labels().get("gpu.replicas")
                        pytest.fail(f"{number} {kind}: {shown}, not {model.expected} each")
                    assert wrong == [], (number, kind)
            await asyncio.sleep(1)
            assert model.is_true(kubelet)
            after = usage(process.process.pid)
        print(f"files, threads, kB: {before} -> {after}")
        assert after[0] <= before[0] + 1
        assert after[1] <= before[1] + 1
        assert after[2] <= before[2] + 4096

    with ApiServer() as api:
        asyncio.run(work(AgentStage(tmp_path, api)))
