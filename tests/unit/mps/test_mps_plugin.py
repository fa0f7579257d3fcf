"""The plugin's side: what containers get, and when a resource may be served."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace

import pytest
from support.aio import run, until, within
from support.configs import a_config
from support.descriptors import no_descriptors
from support.mps import MpsTools, a_daemon

from gpu_device_plugin.config.model import SharingStrategy
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.mps.daemon import MpsDaemon
from gpu_device_plugin.mps.lock import is_held
from gpu_device_plugin.mps.names import DaemonFiles, touch
from gpu_device_plugin.mps.tool import ControlTool
from gpu_device_plugin.plugin import mps as module
from gpu_device_plugin.plugin.mps import MpsReadiness, mps_injector
from gpu_device_plugin.resources.model import Device, Resource

REPLICAS = (Device(id="GPU-0", index="0", replicas=4),)
SHARED = Resource("nvidia.com/gpu", REPLICAS, sharing=SharingStrategy.MPS)
WHOLE = Resource("nvidia.com/gpu", (Device(id="GPU-0", index="0"),))
SLICED = Resource("nvidia.com/gpu", REPLICAS, sharing=SharingStrategy.TIME_SLICING)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.002)


def waiting(tools: MpsTools, resource: Resource = SHARED, **changes: object) -> MpsReadiness:
    tool = replace(tools.around(seconds=1).tool, **changes)  # type: ignore[arg-type]  # by name
    return MpsReadiness(resource, tool=tool, root=str(tools.root))


@pytest.mark.parametrize("root", ["/run/nvidia/mps", "/run/nvidia/mps/", "/elsewhere"])
def test_a_container_gets_pipes_and_shared_memory(root):
    response = pb.ContainerAllocateResponse()
    mps_injector(a_config(mps_root=root)).inject(response, SHARED, ["GPU-0"])
    assert dict(response.envs) == {"CUDA_MPS_PIPE_DIRECTORY": "/mps/nvidia.com/gpu/pipe"}
    host = root.rstrip("/")
    assert [(m.host_path, m.container_path, m.read_only) for m in response.mounts] == [
        (f"{host}/nvidia.com/gpu/pipe", "/mps/nvidia.com/gpu/pipe", False),
        (f"{host}/shm", "/dev/shm", False),
    ]


@pytest.mark.parametrize("resource", [WHOLE, SLICED])
def test_a_resource_without_replicas_has_no_daemon(tools, resource):
    response = pb.ContainerAllocateResponse()
    mps_injector(a_config(mps_root="/m")).inject(response, resource, ["GPU-0"])
    assert response == pb.ContainerAllocateResponse()

    async def work():
        readiness = waiting(tools, resource)
        await readiness.ready()
        os.makedirs(tools.files().directory)
        touch(tools.files().started)
        lost = asyncio.create_task(readiness.lost())
        await asyncio.sleep(0.01)
        os.unlink(tools.files().started)
        await asyncio.sleep(0.01)
        assert not lost.done()
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)

    run(work())
    assert tools.journal() == []


def test_it_is_ready_when_the_daemon_answers(tools, caplog):
    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await waiting(tools).ready()
        await daemon.stop()

    with caplog.at_level(logging.INFO, module.__name__):
        run(work())
    assert tools.journal().count("control get_default_active_thread_percentage") == 1


def test_it_waits_for_a_daemon_that_comes_later_and_says_so_once(tools, caplog):
    async def work():
        ready = asyncio.create_task(waiting(tools).ready())
        await until(lambda: "waiting for the MPS daemon" in caplog.text)
        assert len(tools.journal()) == 1
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await within(1, ready)
        await daemon.stop()

    with caplog.at_level(logging.INFO, module.__name__):
        run(work())
    messages = [r.getMessage() for r in caplog.records if r.name == module.__name__]
    assert len(messages) <= 3
    assert "Cannot find MPS control daemon process" in messages[0]
    assert "nvidia.com/mps.capable=true" in messages[0]
    assert "--mps-root" in messages[0]
    assert messages[-1] == "the MPS daemon answers resource=nvidia.com/gpu"


def test_a_daemon_without_its_limits_is_not_ready(tools, caplog):
    async def work():
        await tools.leave_behind(a_daemon())
        os.unlink(tools.files().started)
        ready = asyncio.create_task(waiting(tools).ready())
        await until(lambda: "is being started: there is no" in caplog.text)
        assert not ready.done()
        touch(tools.files().started)
        await within(1, ready)

    run(work())


def test_asking_again_is_not_tied_to_files(tools, monkeypatch, caplog):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    tools.control.write_text(
        f"#!/bin/sh\necho x >> {tools.knobs}/journal\n"
        f"[ $(/usr/bin/wc -l < {tools.knobs}/journal) -gt 2 ]\n"
    )
    run(waiting(tools).ready())
    assert len(tools.journal()) == 3
    assert caplog.text.count("waiting for the MPS daemon") == 1


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ({"program": "no-such-control"}, "no-such-control is not found"),
        ({"seconds": 0.05}, r"no answer within 0.05 s"),
    ],
)
def test_each_reason_to_wait_is_named(tools, caplog, tool, message):
    tools.turn("hang-get_default_active_thread_percentage")

    async def work():
        ready = asyncio.create_task(waiting(tools, **tool).ready())
        await until(lambda: message in caplog.text)
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)

    run(work())


def test_a_control_program_that_hangs_does_not_hold_up_the_end(tools):
    tools.turn("hang-get_default_active_thread_percentage")

    async def work():
        ready = asyncio.create_task(waiting(tools, seconds=60.0).ready())
        await until(lambda: bool(tools.journal()))
        ready.cancel()
        await within(1, asyncio.gather(ready, return_exceptions=True))

    run(work())


def test_the_loss_of_a_daemon_is_told(tools):
    async def work():
        readiness = waiting(tools)
        lost = asyncio.create_task(readiness.lost())
        await asyncio.sleep(0.01)
        assert not lost.done()
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await asyncio.sleep(0.01)
        assert not lost.done()
        await daemon.stop()
        assert ".started has been removed" in await within(1, lost)

    run(work())


class Looks:
    """Who holds the lock, really, and how often that has been asked."""

    def __init__(self) -> None:
        self.count = 0
        self.seen = asyncio.Event()
        """Somebody has been seen to hold it."""

    def is_held(self, files: DaemonFiles, *, unknown: bool) -> bool:
        self.count += 1
        held = is_held(files, unknown=unknown)
        if held:
            self.seen.set()
        return held


@pytest.fixture
def looks(monkeypatch):
    looks = Looks()
    monkeypatch.setattr(module, "is_held", looks.is_held)
    return looks


def test_a_daemon_whose_lock_cannot_be_opened_for_a_moment_is_not_lost(tools, looks):
    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        lost = asyncio.create_task(waiting(tools).lost())
        await within(10, looks.seen.wait())
        with no_descriptors():
            before = looks.count
            await until(lambda: lost.done() or looks.count > before + 1)
        assert not lost.done()
        tools.kill_daemon()
        assert "control_lock any more" in await within(10, lost)
        await daemon.stop()

    run(work())


def test_the_loss_of_a_daemon_whose_mark_cannot_be_removed_is_told(tools, looks):
    """As on a file system that has become read-only."""

    async def work():
        readiness, daemon = waiting(tools), MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await readiness.ready()
        lost = asyncio.create_task(readiness.lost())
        await within(10, looks.seen.wait())
        tools.kill_daemon()
        assert "control_lock any more" in await within(10, lost)
        assert os.path.exists(tools.files().started)
        await daemon.stop()

    run(work())


def test_without_more_it_asks_the_tool_in_path():
    assert MpsReadiness(SHARED)._tool == ControlTool()
