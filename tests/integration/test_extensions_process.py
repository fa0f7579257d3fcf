"""The real program with settings below ``extensions``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.aio import run
from support.process import node, plugin
from support.serving import GPU, allocatable

from gpu_device_plugin.simulation.admission import AdmissionError
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.simulation.views import NodeView

SHARED = "nvidia.com/gpu.shared"
SIDE_BY_SIDE = """
extensions:
  gpus: {exclude: [3]}
  sharing:
  - {gpus: [0], strategy: exclusive}
  - {strategy: time-slicing, replicas: 4, rename: gpu.shared, failRequestsGreaterThanOne: true}
"""
CONFLICT = """
extensions: {sharing: [{gpus: [0], strategy: time-slicing, replicas: 4}]}
"""
NAMED = """
extensions: {honourNames: true}
resources: {gpus: [{pattern: "*T4*", name: t4}]}
sharing:
  timeSlicing: {resources: [{name: t4, devices: [2, 3], replicas: 3, rename: t4.shared}]}
"""
MIG = """
flags: {migStrategy: mixed}
extensions:
  gpus: {exclude: [6, "0:3"]}
  sharing:
  - {gpus: [5], mig: ["1g.10gb"], strategy: time-slicing, replicas: 2, rename: small}
  - {gpus: [2], strategy: time-slicing, replicas: 5, rename: gpu.shared}
"""


def file(directory: Path, text: str) -> str:
    path = directory / "config.yaml"
    path.write_text(text)
    return f"--config-file={path}"


def offers(counts: Mapping[str, int]) -> Callable[[NodeView], bool]:
    return lambda view: all(allocatable(count, name)(view) for name, count in counts.items())


def test_exclusive_and_shared_gpus_are_side_by_side(tmp_path):
    async def work():
        async with node(tmp_path, file(tmp_path, SIDE_BY_SIDE)) as (kubelet, running):
            view = await kubelet.until(offers({GPU: 1, SHARED: 8}), "one GPU and eight replicas")
            assert set(view.resources) == {GPU, SHARED}
            whole = await kubelet.admit(PodSpec.of("whole", {GPU: 1}))
            shares = [await kubelet.admit(PodSpec.of(f"s{i}", {SHARED: 1})) for i in range(2)]
            given = [p.assignments[0].envs["NVIDIA_VISIBLE_DEVICES"] for p in (whole, *shares)]
            assert len(set(given)) == 3
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            assert sorted(os.listdir(tmp_path)) == ["config.yaml", "kubelet.sock"]

    run(work())


def test_the_limit_of_one_replica_is_that_of_its_resource(tmp_path):
    async def work():
        text = SIDE_BY_SIDE.replace("[0], strategy: exclusive", "[0, 1], strategy: exclusive")
        async with node(tmp_path, file(tmp_path, text)) as (kubelet, _):
            await kubelet.until(offers({GPU: 2, SHARED: 4}), "two GPUs and four replicas")
            await kubelet.admit(PodSpec.of("whole", {GPU: 2}))
            with pytest.raises(AdmissionError, match="at most 1 replica"):
                await kubelet.admit(PodSpec.of("greedy", {SHARED: 2}))

    run(work())


def test_an_xid_finds_every_replica_under_every_name(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        arguments = [file(tmp_path, SIDE_BY_SIDE)]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, _):
            await kubelet.until(offers({GPU: 1, SHARED: 8}), "one GPU and eight replicas")
            events.write_text("xid 0 79\nxid 1 79\nxid 3 79\n")
            await kubelet.until(offers({GPU: 0, SHARED: 4}), "one GPU less on either side")

    run(work())


def test_a_conflict_ends_the_start_with_one_line(tmp_path):
    async def work():
        async with plugin(tmp_path, file(tmp_path, CONFLICT)) as running:
            assert await running.ended() == 1
        (line,) = [line for line in running.lines if line.startswith("E")]
        assert "nvidia.com/gpu would be both time-sliced and exclusive: GPU 0" in line

    run(work())


def test_a_conflict_at_a_reload_changes_nothing(tmp_path):
    async def work():
        async with node(tmp_path, file(tmp_path, SIDE_BY_SIDE)) as (kubelet, running):
            await kubelet.until(offers({GPU: 1, SHARED: 8}), "one GPU and eight replicas")
            file(tmp_path, CONFLICT)
            running.signal(signal.SIGHUP)
            await running.logged("would be both time-sliced and exclusive")
            file(tmp_path, CONFLICT.replace("[0]", "['*']"))
            running.signal(signal.SIGHUP)
            await kubelet.until(offers({GPU: 16, SHARED: 0}), "sixteen replicas")

    run(work())


def test_names_and_selections_are_honoured(tmp_path):
    counts = {"nvidia.com/t4": 2, "nvidia.com/t4.shared": 6}

    async def work():
        async with node(tmp_path, file(tmp_path, NAMED)) as (kubelet, _):
            view = await kubelet.until(offers(counts), "two GPUs and six replicas")
            assert set(view.resources) == set(counts)
        dropped = file(tmp_path, NAMED.replace("true", "false"))
        async with node(tmp_path, dropped) as (kubelet, running):
            await kubelet.until(offers({GPU: 4}), "four GPUs")
            assert "custom resource names are ignored (unless extensions.honourNames" in running.log

    run(work())


def test_mig_devices_are_left_out_and_shared(tmp_path):
    counts = {
        GPU: 1,
        SHARED: 5,
        "nvidia.com/mig-1g.5gb": 2,
        "nvidia.com/mig-2g.10gb": 2,
        "nvidia.com/mig-3g.20gb": 3,
        "nvidia.com/small": 4,
    }

    async def work():
        environ = {"GPU_NODE_SIMULATE": "dgx-a100-mig"}
        arguments = [file(tmp_path, MIG)]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await kubelet.until(offers(counts), "MIG devices, whole GPUs and shares of both")
            assert "GPU 6" not in running.log

    run(work())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "extensions: {sharing: [{strategy: mps, replicas: 2}]}",
            "mps-root: required by extensions",
        ),
        (
            "extensions:\n  gpus: {exclude: [gpu0, 0-3]}",
            "config.yaml:2: extensions.gpus.exclude[1]",
        ),
    ],
)
def test_what_cannot_work_is_told_in_one_line(tmp_path, text, message):
    async def work():
        async with plugin(tmp_path, file(tmp_path, text)) as running:
            assert await running.ended() == 1
        (line,) = [line for line in running.lines if line.startswith("E")]
        assert message in line

    run(work())
