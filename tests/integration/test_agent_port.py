"""The port of gpu-node agent: devices, labels and profile in one status."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.agents import NONE, OBJECT, AgentStage, shared
from support.aio import run
from support.apiserver import ApiServer
from support.programs import ProgramProcess
from support.serving import GPU
from support.web import fetch

from gpu_device_plugin.status.document import from_json
from gpu_device_plugin.status.model import NodeStatus

LISTEN = "--metrics-address=127.0.0.1:0"
LIMIT = 60.0
"""Seconds of a test; a busy machine takes some to start the agent."""
PAUSE = 0.05
"""Seconds between questions, so that asking does not keep the agent from its work."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[AgentStage]:
    with ApiServer() as api:
        yield AgentStage(tmp_path, api)


async def port_of(running: ProgramProcess) -> int:
    """Where the agent serves."""
    await running.logged("serving HTTP")
    found = re.search(r"serving HTTPS? at \S*?:(\d+): ", running.log)
    assert found is not None
    return int(found[1])


async def until_status(port: int, wanted: Callable[[NodeStatus], bool]) -> NodeStatus:
    """Asks until the status is like that; the limit is that of the test."""
    # Nothing announces it.
    while not wanted(  # noqa: ASYNC110
        status := from_json((await fetch(port, "/status.json")).body)
    ):
        await asyncio.sleep(PAUSE)
    return status


async def samples(port: int) -> dict[str, float]:
    """The metrics."""
    text = (await fetch(port, "/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_devices_labels_and_profile_are_one_status(stage):
    stage.label("ts4")

    async def work():
        async with stage.running(LISTEN) as (_, process):
            port = await port_of(process)
            status = await until_status(port, lambda status: status.ready.ok)
            assert status.program == "gpu-node agent"
            assert status.node == "node1"
            assert [(r.name, r.allocatable) for r in status.resources] == [(GPU, 16)]
            assert status.configuration is not None
            assert status.configuration.profile == "ts4"
            assert status.configuration.file == str(stage.source / "ts4")
            assert status.labelling is not None
            assert status.labelling.place == str(stage.file)
            assert dict(status.labelling.labels)["nvidia.com/gpu.replicas"] == "4"
            assert (await fetch(port, "/livez")).status == 200
            page = (await fetch(port, "/")).text
            assert page.startswith("<!doctype html>")
            assert "ts4" in page

    run(work(), LIMIT)


def test_a_typo_makes_the_agent_unready_until_it_is_mended(stage):
    stage.label("ts4")

    async def work():
        async with stage.running(LISTEN) as (_, process):
            port = await port_of(process)
            await until_status(port, lambda status: status.ready.ok)
            stage.label("typo")
            status = await until_status(port, lambda status: not status.ready.ok)
            assert "names the configuration 'typo'" in status.ready.reasons[0]
            assert status.live.ok
            assert status.configuration is not None
            assert status.configuration.profile == "ts4"
            assert "typo" in status.configuration.problem
            assert status.resources[0].allocatable == 16
            stage.label("ts4")
            status = await until_status(port, lambda status: status.ready.ok)
            assert status.configuration is not None
            assert not status.configuration.problem

    run(work(), LIMIT)


def test_an_agent_without_a_configuration_says_so(stage):
    stage.swap(ts4=shared(4), ts2=shared(2))
    stage.label(None)

    async def work():
        async with stage.running(LISTEN, FALLBACK_STRATEGIES="named") as (_, process):
            port = await port_of(process)
            status = await until_status(port, lambda status: len(status.ready.reasons) == 2)
            assert "no configuration can be used" in " ".join(status.ready.reasons)
            assert status.live.ok
            stage.label("ts2")
            await until_status(port, lambda status: status.ready.ok)

    run(work(), LIMIT)


def test_labels_that_are_not_published_are_a_reason_not_to_be_ready(stage):
    stage.label("ts4")
    stage.environ["USE_NODE_FEATURE_API"] = "true"
    assert stage.api is not None
    stage.api.denied.add("create nodefeatures")

    async def work():
        assert stage.api is not None
        async with stage.running(LISTEN) as (_, process):
            port = await port_of(process)
            status = await until_status(
                port, lambda status: bool(status.labelling and status.labelling.problem)
            )
            assert "forbidden" in " ".join(status.ready.reasons)
            status = await until_status(
                port, lambda status: bool(status.resources and status.resources[0].streams)
            )
            assert status.resources[0].allocatable == 16
            stage.api.denied.clear()
            await until_status(port, lambda status: status.ready.ok)
            assert OBJECT in stage.api.store.objects

    run(work(), LIMIT)


def test_metrics_tell_of_all_parts(stage):
    stage.label("ts4")

    async def work():
        async with stage.running(LISTEN) as (kubelet, process):
            port = await port_of(process)
            await until_status(port, lambda status: status.ready.ok)
            stage.label("default")
            await stage.shows(kubelet, 4)
            stage.label("typo")
            await process.logged("last good configuration")
            process.signal(signal.SIGHUP)
            await process.logged("SIGHUP: reloading")
            await until_status(port, lambda status: "typo" in " ".join(status.ready.reasons))
            failed = 'gpu_node_profile_changes_total{outcome="failed"}'
            while not (found := await samples(port))[failed]:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(PAUSE)
            assert found['gpu_node_profile_changes_total{outcome="ok"}'] == 2
            assert found[failed] == 1
            assert found["gpu_node_last_profile_change_successful"] == 0
            assert found['gpu_node_label_passes_total{outcome="ok"}'] >= 2
            assert found["gpu_node_labels"] > 20
            assert found['gpu_node_reloads_total{outcome="ok"}'] >= 1
            assert any(name.startswith("gpu_node_config_info{") for name in found)
            stage.swap(default=NONE, typo=NONE)
            # Answers may be a moment old.
            name = "gpu_node_last_profile_change_successful"
            while (await samples(port))[name] != 1:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(PAUSE)

    run(work(), LIMIT)
