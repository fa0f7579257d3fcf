"""The real program beside the device manager of a genuine kubelet."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from support.aio import run
from support.cdi_node import Node
from support.commands import gpu_node
from support.genuine_kubelet import (
    GPU,
    GenuineKubelet,
    Refused,
    genuine_kubelet,
    genuine_node,
    why_not,
)
from support.process import PluginProcess, plugin

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "all there")

LIMIT = 60.0
CDI = "k8s.device-plugin.nvidia.com/gpu="
SHARED = """
version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}
"""
RENAMED = """
version: v1
sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}
"""
RECOVERING = """
version: v1
extensions: {health: {recovery: {enabled: true, quietPeriod: 300ms}}}
"""


def visible(envs: dict[str, str]) -> list[str]:
    return sorted(envs["NVIDIA_VISIBLE_DEVICES"].split(","))


def registrations(count: int) -> Callable[[str], bool]:
    return lambda log: log.count("registered resource=") == count


async def reload(kubelet: GenuineKubelet, running: PluginProcess) -> None:
    """Sends SIGHUP; returns when the kubelet has taken the registration."""
    count = running.log.count("registered resource=")
    running.signal(signal.SIGHUP)
    await running.logged(lambda log: log.count("registered resource=") > count)
    await kubelet.amounts()


# ------------------------------------------------------------------ life


def test_devices_come_with_the_plugin_and_go_with_it():
    async def work():
        async with genuine_node() as (kubelet, running):
            await kubelet.has(4)
            assert len(await kubelet.devices()) == 4
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            await kubelet.has(4, 0)
            with pytest.raises(Refused, match="no healthy devices"):
                await kubelet.admit("late", {GPU: 1})

    run(work(), LIMIT)


def test_a_plugin_that_starts_again_has_its_devices_back_and_those_of_pods_are_taken():
    async def work():
        async with genuine_node() as (kubelet, running):
            await kubelet.has(4)
            given = await kubelet.admit("a", {GPU: 1})
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            await kubelet.has(4, 0)
            async with plugin(kubelet.plugins):
                await kubelet.has(4)
                with pytest.raises(Refused, match="Requested: 4, Available: 3"):
                    await kubelet.admit("b", {GPU: 4})
                others = await kubelet.admit("b", {GPU: 3})
                assert set(others.devices[GPU]).isdisjoint(given.devices[GPU])

    run(work(), LIMIT)


def test_a_plugin_that_takes_over_from_a_living_one_serves_after_its_end():
    """A rolling update with surge: the end of the old one makes the kubelet drop the new one."""

    async def work():
        async with genuine_node() as (kubelet, old):
            await kubelet.has(4)
            async with plugin(kubelet.plugins) as new:
                await new.logged("stream opened")
                old.signal(signal.SIGTERM)
                assert await old.ended(2) == 0
                await new.logged("registering again")
                await kubelet.has(4)
                new.signal(signal.SIGTERM)
                assert await new.ended(2) == 0
                await kubelet.has(4, 0)

    run(work(), LIMIT)


def test_a_kubelet_that_starts_again_gets_everything_once_and_pods_keep_their_devices():
    async def work():
        async with genuine_node() as (kubelet, running):
            await kubelet.has(4)
            given = await kubelet.admit("a", {GPU: 2})
            for count in (2, 3):
                await kubelet.restart()
                await kubelet.has(4)
                assert await kubelet.options("a") == given
                await running.logged(registrations(count))
                assert (kubelet.plugins / "nvidia-gpu.sock").is_socket()
            with pytest.raises(Refused, match="Requested: 3, Available: 2"):
                await kubelet.admit("b", {GPU: 3})
            await kubelet.remove("a")
            await kubelet.admit("b", {GPU: 3})

    run(work(), LIMIT)


def test_a_kubelet_that_comes_back_late_is_registered_with():
    async def work():
        async with genuine_node() as (kubelet, running):
            await kubelet.has(4)
            await kubelet.ask("stop")
            await running.logged("stream ended")
            await kubelet.ask("start")
            await kubelet.has(4)

    run(work(), LIMIT)


def test_a_kubelet_that_is_killed_is_registered_with_when_it_is_back():
    async def work():
        async with genuine_node() as (killed, running):
            await killed.has(4)
            killed.process.kill()
            await running.logged("stream ended")
            async with genuine_kubelet(directory=killed.directory) as kubelet:
                await kubelet.has(4)
                await kubelet.admit("a", {GPU: 4})

    run(work(), LIMIT)


# ------------------------------------------------------------------ health


def test_an_xid_takes_a_gpu_away_until_it_has_recovered(tmp_path):
    config, events = tmp_path / "config.yaml", tmp_path / "events"
    config.write_text(RECOVERING)
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        async with genuine_node(f"--config-file={config}", environ=environ) as (kubelet, _):
            await kubelet.has(4)
            given = await kubelet.admit("a", {GPU: 4})
            assert set((await kubelet.health("a")).values()) == {"Healthy"}
            events.write_text("xid 1 79\n")
            await kubelet.has(4, 3)
            health = await kubelet.health("a")
            assert sorted(health) == sorted(given.devices[GPU])
            assert sorted(health.values()) == ["Healthy"] * 3 + ["Unhealthy"]
            await kubelet.has(4)

    run(work(), LIMIT)


def test_a_sick_gpu_is_given_to_nobody(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        async with genuine_node(environ={"GPU_NODE_SIMULATE_EVENTS": str(events)}) as (kubelet, _):
            await kubelet.has(4)
            before = await kubelet.devices()
            events.write_text("xid 1 79\n")
            await kubelet.has(4, 3)
            (sick,) = set(before) - set(await kubelet.devices())
            with pytest.raises(Refused, match="Requested: 4, Available: 3"):
                await kubelet.admit("a", {GPU: 4})
            given = await kubelet.admit("b", {GPU: 3})
            assert sick not in given.devices[GPU]

    run(work(), LIMIT)


# ------------------------------------------------------------------ what containers get


def test_each_strategy_reaches_the_container_as_the_kubelet_merges_it(tmp_path):
    redirect = (
        "import functools; from gpu_device_plugin.programs import device_plugin as program\n"
        "program.CdiSettings = functools.partial("
        f"program.CdiSettings, directory={str(tmp_path / 'cdi')!r})\n"
    )
    node = Node(tmp_path)

    async def given(strategy: str, *arguments: str):
        environ = {**node.environ, "DEVICE_LIST_STRATEGY": strategy}
        async with genuine_node(*arguments, environ=environ, statements=redirect) as (kubelet, _):
            await kubelet.has(4)
            given = await kubelet.admit("a", {GPU: 2})
            return sorted(given.devices[GPU]), given

    async def work():
        ids, got = await given("envvar")
        assert visible(got.envs) == ids
        assert (got.mounts, got.nodes, got.annotations, got.cdi) == ([], [], {}, [])

        ids, got = await given("volume-mounts")
        assert got.envs == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
        assert sorted(got.mounts) == [
            ("/dev/null", f"/var/run/nvidia-container-devices/{i}", False) for i in ids
        ]

        ids, got = await given("cdi-cri")
        assert sorted(got.cdi) == [f"{CDI}{i}" for i in ids]
        assert (got.mounts, got.nodes, got.annotations) == ([], [], {})

        ids, got = await given("cdi-annotations", "--cdi-annotation-prefix=cdi.example.org/")
        ((key, value),) = got.annotations.items()
        assert key.startswith("cdi.example.org/")
        assert sorted(value.split(",")) == [f"{CDI}{i}" for i in ids]
        assert not got.cdi

        every = "envvar,volume-mounts,cdi-annotations,cdi-cri"
        ids, got = await given(every, "--pass-device-specs", "--device-id-strategy=index")
        assert sorted(got.cdi) == sorted(got.annotations.popitem()[1].split(","))
        assert len(got.mounts) == 2
        paths = sorted(f"/dev/nvidia{name.removeprefix(CDI)}" for name in got.cdi)
        assert sorted(got.nodes) == [(path, path, "rw") for path in paths]

    run(work(), LIMIT)


def test_replicas_are_spread_over_the_gpus(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SHARED % 3)

    async def work():
        async with genuine_node(f"--config-file={config}") as (kubelet, _):
            await kubelet.has(12)
            pods = [await kubelet.admit(f"pod{n}", {GPU: 1}) for n in range(4)]
            assert len({visible(pod.envs)[0] for pod in pods}) == 4
            assert all("::" in pod.devices[GPU][0] for pod in pods)
            assert len(visible((await kubelet.admit("two", {GPU: 2})).envs)) == 2
            with pytest.raises(Refused, match="Requested: 7, Available: 6"):
                await kubelet.admit("many", {GPU: 7})

    run(work(), LIMIT)


def test_mig_devices_are_resources_and_one_container_may_have_several():
    small, large = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"

    async def work():
        arguments = ["--mig-strategy=mixed", "--device-list-strategy=volume-mounts"]
        environ = {"GPU_NODE_SIMULATE": "dgx-a100-mig"}
        async with genuine_node(*arguments, environ=environ) as (kubelet, _):
            await kubelet.has(3, of=small)
            await kubelet.has(3, of=large)
            given = await kubelet.admit("a", {small: 2, large: 1})
            ids = given.devices[small] + given.devices[large]
            assert all(i.startswith("MIG-") for i in ids)
            assert sorted(path.rsplit("/", 1)[1] for _, path, _ in given.mounts) == sorted(ids)

    run(work(), LIMIT)


def test_gpus_with_the_best_links_are_chosen():
    """On a DGX-1 each half of the GPUs is meshed, and some pairs have double NVLinks."""

    async def work():
        arguments = ["--device-id-strategy=index"]
        environ = {"GPU_NODE_SIMULATE": "dgx-1"}
        async with genuine_node(*arguments, environ=environ) as (kubelet, _):
            await kubelet.has(8)
            two = await kubelet.admit("two", {GPU: 2})
            pair = "-".join(visible(two.envs))
            assert pair in {"0-3", "1-2", "2-3", "4-7", "5-6", "6-7"}
            four = await kubelet.admit("four", {GPU: 4})
            assert visible(four.envs) == list("4567" if pair < "3" else "0123")

    run(work(), LIMIT)


def test_numa_nodes_reach_the_topology_manager():
    async def work():
        environ = {"GPU_NODE_SIMULATE": "dgx-1"}
        policy = ["--topology-policy=single-numa-node"]
        arguments = ["--device-id-strategy=index"]
        async with genuine_node(*arguments, environ=environ, kubelet_arguments=policy) as node:
            kubelet, _ = node
            await kubelet.has(8)
            with pytest.raises(Refused, match="TopologyAffinityError"):
                await kubelet.admit("five", {GPU: 5})
            three = await kubelet.admit("three", {GPU: 3})
            four = await kubelet.admit("four", {GPU: 4})
            assert {int(i) // 4 for i in visible(four.envs)} != {
                int(i) // 4 for i in visible(three.envs)
            }
            with pytest.raises(Refused, match="TopologyAffinityError"):
                await kubelet.admit("two", {GPU: 2})

    run(work(), LIMIT)


@pytest.mark.parametrize("replicas", [100, 1000])
def test_many_devices(tmp_path, replicas):
    config = tmp_path / "config.yaml"
    config.write_text(SHARED % replicas)

    async def work():
        environ = {"GPU_NODE_SIMULATE": "dgx-a100"}
        async with genuine_node(f"--config-file={config}", environ=environ) as (kubelet, running):
            await kubelet.has(8 * replicas)
            given = await kubelet.admit("a", {GPU: 8})
            assert len(visible(given.envs)) == 8
            await reload(kubelet, running)
            await kubelet.has(8 * replicas)
            rest = await kubelet.admit("b", {GPU: 8 * replicas - 8})
            assert len(visible(rest.envs)) == 8
            assert set(rest.devices[GPU]).isdisjoint(given.devices[GPU])

    run(work(), LIMIT)


def test_pods_are_told_with_their_gpus():
    async def work():
        async with genuine_node() as (kubelet, _):
            await kubelet.has(4)
            given = await kubelet.admit("train", {GPU: 2})
            options = ("--simulate=t4x4", f"--pod-resources-socket={kubelet.pod_resources}")
            return given, await asyncio.to_thread(gpu_node, "pods", "-o", "json", *options)

    given, told = run(work(), LIMIT)
    assert told.code == 0, told.err
    assert '"train"' in told.out
    assert all(i in told.out for i in given.devices[GPU])


# ------------------------------------------------------------------ reloads


def test_a_resource_that_a_reload_takes_away_has_no_devices(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        async with genuine_node(f"--config-file={config}") as (kubelet, running):
            await kubelet.has(4)
            await kubelet.admit("a", {GPU: 1})
            config.write_text(RENAMED)
            running.signal(signal.SIGHUP)
            await kubelet.has(8, of="nvidia.com/gpu.shared")
            await kubelet.has(0)
            config.write_text(SHARED % 3)
            running.signal(signal.SIGHUP)
            await kubelet.has(12)
            await kubelet.has(0, of="nvidia.com/gpu.shared")

    run(work(), LIMIT)


def test_signals_in_quick_succession_leave_one_plugin_that_the_kubelet_knows():
    async def work():
        async with genuine_node() as (kubelet, running):
            await kubelet.has(4)
            for _ in range(10):
                for _ in range(3):
                    await reload(kubelet, running)
                await kubelet.has(4)
            await kubelet.admit("a", {GPU: 1})
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            await kubelet.has(4, 0)
            assert "registering again" not in running.log

    run(work(), LIMIT)


@asynccontextmanager
async def one_busy_cpu(count: int = 4) -> AsyncIterator[tuple[str, ...]]:
    """Processes that use up one CPU; yields the command that lets another one share it."""
    cpu = str(min(os.sched_getaffinity(0)))
    bound = ("taskset", "--cpu-list", cpu)
    burners = [
        await asyncio.create_subprocess_exec(*bound, sys.executable, "-c", "while True: pass")
        for _ in range(count)
    ]
    try:
        yield ("env", "GOMAXPROCS=1", *bound)
    finally:
        for burner in burners:
            burner.kill()
            await burner.wait()


def test_reloads_while_the_kubelet_has_little_time():
    """It takes note of the end of a stream by name; none of these may be that of the next one.

    Each pair of reloads is as quick as can be: the second begins when the list of the first is
    being written to the checkpoint. Without waiting for the kubelet one in six of them fails.
    """

    async def work():
        async with (
            one_busy_cpu() as before,
            genuine_node(before=before) as (kubelet, running),
        ):
            await kubelet.has(4)
            for _ in range(25):
                await reload(kubelet, running)
                await reload(kubelet, running)
                await kubelet.has(4)
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            await kubelet.has(4, 0)
            for symptom in ("registering again", "refused by the kubelet"):
                assert symptom not in running.log

    run(work(), LIMIT)
