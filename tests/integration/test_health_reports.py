"""The real plugin tells a Kubernetes API of GPUs that break and recover."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.aio import run, until
from support.apiserver import ApiServer
from support.process import PluginProcess, node
from support.serving import GPU, allocatable

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

NODE = "/api/v1/nodes/n1"
EVENTS = "/api/v1/namespaces/default/events"
READY = {"type": "Ready", "status": "True"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer(tokens={"t"}) as server:
        server.store.put(NODE, {"status": {"conditions": [READY]}})
        yield server


@dataclass
class Scene:
    api: ApiServer
    kubelet: SimulatedKubelet
    running: PluginProcess
    faults: Path

    def happens(self, *lines: str) -> None:
        with self.faults.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    async def condition(self, status: str) -> dict[str, Any]:
        await until(lambda: condition(self.api).get("status") == status)
        return condition(self.api)

    async def events(self, found: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        await until(lambda: found(events(self.api)))
        return events(self.api)


def condition(api: ApiServer) -> dict[str, Any]:
    conditions = api.store.get(NODE)["status"]["conditions"]
    assert READY in conditions
    return next((c for c in conditions if c["type"] == "GPUHealthy"), {})


def events(api: ApiServer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.store.list(EVENTS)["items"]
    return items


@asynccontextmanager
async def a_scene(api: ApiServer, tmp_path: Path, *arguments: str) -> AsyncIterator[Scene]:
    faults = tmp_path / "faults"
    faults.touch()
    environ = {
        "GPU_NODE_SIMULATE_EVENTS": str(faults),
        "GPU_NODE_REPORT_HEALTH": "events,node-condition",
        "NODE_NAME": "n1",
        "KUBECONFIG": api.kubeconfig(tmp_path, token="t"),
    }
    async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
        await kubelet.until(lambda view: view.resource(GPU).capacity > 0, "a list")
        await running.logged("GPU health is being watched")
        yield Scene(api, kubelet, running, faults)


def test_an_xid_is_an_event_and_makes_the_condition_false_until_the_plugin_starts_anew(
    api, tmp_path
):
    config = tmp_path / "config.yaml"
    config.write_text(
        "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    )

    async def work():
        async with a_scene(api, tmp_path, f"--config-file={config}") as scene:
            good = await scene.condition("True")
            assert good["message"] == "4 GPUs healthy and watched"
            scene.happens("xid 1 48", "xid 1 48")
            (event,) = await scene.events(lambda found: bool(found) and found[0]["count"] == 2)
            assert (event["reason"], event["type"]) == ("GPUXid", "Warning")
            assert (
                "XID 48 (double-bit ECC error); unhealthy: 4 of 4 nvidia.com/gpu;"
                in (event["message"])
            )
            bad = await scene.condition("False")
            assert bad["message"].startswith("GPU 1 (GPU-")
            scene.running.signal(signal.SIGTERM)
            assert await scene.running.ended(3) == 0
            assert condition(api)["status"] == "False"
        (tmp_path / "faults").unlink()
        async with a_scene(api, tmp_path) as scene:
            await scene.condition("True")
        assert condition(api)["reason"] == "PluginStopped"

    run(work())


def test_a_lost_gpu_that_comes_back_is_told(api, tmp_path):
    async def work():
        async with a_scene(api, tmp_path, "--rescan-interval=100ms") as scene:
            await scene.condition("True")
            scene.happens("lost 2")
            await scene.events(lambda found: {"GPUXid", "GPULost"} <= {e["reason"] for e in found})
            await scene.condition("False")
            scene.happens("back 2")
            await scene.events(lambda found: "GPURecovered" in {e["reason"] for e in found})
            await scene.condition("True")

    run(work())


def test_a_burst_does_not_disturb_the_kubelet(api, tmp_path):
    async def work():
        async with a_scene(api, tmp_path) as scene:
            await scene.condition("True")
            scene.happens(*(f"xid {n % 4} 79" for n in range(1000)))
            await scene.kubelet.until(allocatable(0), "no GPU")
            await scene.events(lambda found: len(found) == 4)
            await scene.condition("False")
            await scene.running.logged(lambda log: log.count("unhealthy resource=") == 4)
            assert api.count("POST", EVENTS) == 4

    run(work())


def test_a_configuration_that_is_rejected_is_an_event(api, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        async with a_scene(api, tmp_path, f"--config-file={config}") as scene:
            config.write_text("version: v9")
            scene.running.signal(signal.SIGHUP)
            (event,) = await scene.events(bool)
            assert event["reason"] == "GPUConfigRejected"
            assert f"{config}:1: version" in event["message"]
            config.write_text("version: v1")
            scene.running.signal(signal.SIGHUP)
            await scene.events(lambda found: "GPUConfigAccepted" in {e["reason"] for e in found})

    run(work())


def test_an_api_that_forbids_it_is_one_line_each_and_no_harm(api, tmp_path):
    api.denied |= {"create events", "get nodes/status", "patch nodes/status"}

    async def work():
        async with a_scene(api, tmp_path) as scene:
            scene.happens("xid 0 79")
            await scene.kubelet.until(allocatable(3), "three GPUs")
            await scene.running.logged(lambda log: log.count("at last every 600 s") == 2)
            assert "resources: [nodes/status], verbs: [get, patch]" in scene.running.log

    run(work())


def test_an_api_that_is_down_gets_everything_when_it_is_back(api, tmp_path):
    async def work():
        async with a_scene(api, tmp_path) as scene:
            await scene.condition("True")
            api.stop()
            scene.happens("xid 0 79")
            await scene.kubelet.until(allocatable(3), "three GPUs")
            await scene.running.logged("trying again")
            api.start()
            await scene.events(bool)
            await scene.condition("False")

    run(work())


def test_an_api_that_hangs_delays_the_end_by_a_second_at_most(api, tmp_path):
    async def work():
        async with a_scene(api, tmp_path) as scene:
            await scene.condition("True")
            api.fail("PATCH", f"{NODE}/status", hang=True, times=99)
            scene.running.signal(signal.SIGTERM)
            assert await scene.running.ended(3) == 0
            assert "did not reach the Kubernetes API in time" in scene.running.log

    run(work())


def test_access_that_cannot_be_used_is_one_line_and_no_harm(tmp_path):
    async def work():
        environ = {"GPU_NODE_REPORT_HEALTH": "events", "NODE_NAME": "n1", "KUBECONFIG": "/none"}
        async with node(tmp_path, environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            await running.logged("GPU health is not reported: ")

    run(work())


def test_nothing_is_loaded_for_it_unless_it_is_asked_for():
    program = (
        "import sys; import gpu_device_plugin.programs.device_plugin; "
        "print([m for m in sys.modules if '.reports' in m or '.kube.' in m or m == 'h11'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
