"""The story that the demonstration tells, and what must come out of each scene."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.simulation.admission import AdmissionError
from gpu_device_plugin.simulation.demo.stage import Scene
from gpu_device_plugin.simulation.demo.theatre import LIMIT, StoryError, Theatre, require

PROFILE = "dgx-a100"
GPUS = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
REPLICAS = 4
NOTEBOOKS = 10
SICK, LOST = 5, 3
"""Indices of the GPUs that fail."""
END_LIMIT = 2.0
"""Seconds that the plugin may take to end."""

WHOLE_CONFIG = "version: v1\n"
SHARED_CONFIG = f"""\
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
      - name: {GPUS}
        replicas: {REPLICAS}
"""
BROKEN_CONFIG = SHARED_CONFIG.replace(f"replicas: {REPLICAS}", "replicas: many")


Play = Callable[[Theatre], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Act:
    """One scene and how it is played."""

    title: str
    text: str
    play: Play
    pause: float = 1.6
    """Seconds to look at what came out."""


async def start(house: Theatre) -> None:
    """The plugin registers and lists all GPUs with their NUMA nodes."""
    await house.plugin.start()
    view = await house.expect("8 GPUs are allocatable", lambda v: v.resource(GPUS).allocatable == 8)
    told = {device.id: device.numa_nodes for device in view.resource(GPUS).devices}
    real = {g.uuid: () if g.numa_node is None else (g.numa_node,) for g in house.inventory.gpus}
    require("the kubelet knows the NUMA node of every GPU", told == real)


async def whole_gpus(house: Theatre) -> None:
    """Pods get GPUs that are close to each other; a request for too many is turned down."""
    train = await house.admit("train-a", GPUS, 4)
    chosen = _indices(house.inventory, train.device_ids(GPUS))
    pairs = all((index ^ 1) in chosen for index in chosen)
    require(f"four GPUs as two pairs on PCIe switches, not {sorted(chosen)}", pairs)
    visible = train.assignments[0].envs.get("NVIDIA_VISIBLE_DEVICES", "")
    require("the container sees its GPUs", set(visible.split(",")) == set(train.device_ids(GPUS)))
    await house.pause(0.7)
    await house.admit("infer-a", GPUS, 1)
    await house.pause(0.7)
    try:
        await house.admit("train-b", GPUS, 4)
    except AdmissionError as error:
        require(f"a rejection for want of GPUs, not: {error}", "Available: 3" in str(error))
    else:
        raise StoryError("train-b was admitted although three GPUs were left")


async def sick_gpu(house: Theatre) -> None:
    """An application's error is ignored; a hardware error takes the GPU out."""
    since = house.stage.seconds
    house.misbehave("xid 0 31", "XID 31 on GPU 0: a page fault of an application")
    await house.expect_log("ignored: XID 31", since)
    await house.pause(1.2)
    house.misbehave(f"xid {SICK} 48", f"XID 48 on GPU {SICK}: a double-bit memory error")
    view = await house.expect("one GPU is unhealthy", lambda v: v.resource(GPUS).allocatable == 7)
    require("the capacity stays", view.resource(GPUS).capacity == 8)
    uuid = house.inventory.gpus[SICK].uuid
    sick = {device.id for device in view.resource(GPUS).devices if not device.is_healthy}
    require(f"the unhealthy one is GPU {SICK}", sick == {uuid})


async def kubelet_restart(house: Theatre) -> None:
    """The plugin registers with the new kubelet; pods keep their GPUs, health is read anew."""
    before = house.kubelet.view()
    house.stage.happen("the kubelet is restarted, as by an update")
    await house.kubelet.stop()
    await house.pause(0.7)
    await house.kubelet.start()
    view = await house.expect(
        "the plugin has registered again",
        lambda v: v.registrations > before.registrations and v.resource(GPUS).allocatable == 8,
    )
    require("the pods are still there", view.pods == before.pods)
    require("they still hold their GPUs", view.resource(GPUS).in_use == 5)


async def sharing(house: Theatre) -> None:
    """After SIGHUP with a new configuration the GPUs are offered as replicas."""
    house.kubelet.delete(list(house.kubelet.view().pods))
    await house.pause(0.7)
    house.stage.happen(f"new configuration: time-slicing, {REPLICAS} replicas a GPU; SIGHUP")
    house.configure(SHARED_CONFIG)
    house.plugin.reload()
    await house.expect(
        f"{8 * REPLICAS} replicas instead of 8 GPUs",
        lambda v: v.resource(SHARED).allocatable == 8 * REPLICAS and not v.resource(GPUS).capacity,
    )


async def notebooks(house: Theatre) -> None:
    """Pods that ask for a replica each are spread over the GPUs."""
    for number in range(NOTEBOOKS):
        await house.admit(f"nb-{number}", SHARED, 1)
        await house.pause(0.15)
    view = house.kubelet.view()
    held = [d.id.partition("::")[0] for d in view.resource(SHARED).devices if d.pod]
    counts = sorted(held.count(gpu.uuid) for gpu in house.inventory.gpus)
    require(f"{NOTEBOOKS} replicas spread evenly, not {counts}", counts == [1] * 6 + [2] * 2)


async def lost_gpu(house: Theatre) -> None:
    """A GPU that falls off the bus takes all its replicas along."""
    house.misbehave(f"lost {LOST}", f"XID 79 on GPU {LOST}: it has fallen off the bus")
    view = await house.expect(
        "all replicas of the GPU are unhealthy",
        lambda v: v.resource(SHARED).allocatable == 7 * REPLICAS,
    )
    sick = {d.id.partition("::")[0] for d in view.resource(SHARED).devices if not d.is_healthy}
    require(f"they are those of GPU {LOST}", sick == {house.inventory.gpus[LOST].uuid})


async def broken_config(house: Theatre) -> None:
    """A configuration that cannot be used changes nothing."""
    before, since = house.kubelet.view(), house.stage.seconds
    house.stage.happen("a configuration with a mistake; SIGHUP")
    house.configure(BROKEN_CONFIG)
    house.plugin.reload()
    await house.expect_log("last good configuration stays in force", since)
    require("nothing has changed", house.kubelet.view() == before)


async def end(house: Theatre) -> None:
    """After SIGTERM the plugin is gone at once and leaves no socket."""
    house.stage.happen("SIGTERM to the plugin")
    house.plugin.terminate()
    try:
        async with asyncio.timeout(END_LIMIT):
            code = await house.plugin.wait()
    except TimeoutError:
        raise StoryError(f"the plugin has not ended within {END_LIMIT:g} s") from None
    require(f"the plugin ends with code 0, not {code}", code == 0)
    await house.kubelet.until(
        lambda v: not any(resource.allocatable for resource in v.resources.values()),
        "nothing is allocatable any more",
        LIMIT,
    )
    left = set(os.listdir(house.kubelet.directory)) - {os.path.basename(house.kubelet.socket)}
    require(f"no socket is left behind: {sorted(left)}", not left)


ACTS = (
    Act(
        "The plugin starts and registers",
        "It reads the GPUs, serves a socket for nvidia.com/gpu and tells the kubelet.",
        start,
    ),
    Act(
        "Pods ask for whole GPUs",
        "Four come from two PCIe switches; a pod that wants four more is turned down.",
        whole_gpus,
        2.0,
    ),
    Act(
        "A GPU fails",
        "XID 31 is an application's fault and is ignored; XID 48 takes the GPU out.",
        sick_gpu,
        2.0,
    ),
    Act(
        "The kubelet restarts",
        "It removes all sockets; the plugin notices, reads the GPUs anew, registers.",
        kubelet_restart,
    ),
    Act(
        "Sharing is switched on",
        f"SIGHUP with time-slicing: a GPU becomes {REPLICAS} of {SHARED}.",
        sharing,
        1.2,
    ),
    Act(
        "Notebooks share the GPUs",
        f"{NOTEBOOKS} pods with one replica each are spread over all GPUs.",
        notebooks,
        1.4,
    ),
    Act(
        "A GPU falls off the bus",
        "All its replicas are unhealthy at once, whoever holds them.",
        lost_gpu,
        2.0,
    ),
    Act(
        "A broken configuration",
        "The plugin names the mistake and stays with the last good configuration.",
        broken_config,
        2.0,
    ),
    Act(
        "The plugin ends",
        "SIGTERM: no socket is left, and the kubelet hands out none of its devices.",
        end,
    ),
)


async def perform(
    house: Theatre,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Plays all acts.

    Args:
        house: what they are played with.
        before: called when each of them begins.
        after: called when each of them has ended.

    Raises:
        StoryError: something did not come out; the message names the act.
    """
    house.configure(WHOLE_CONFIG)
    for number, act in enumerate(ACTS, 1):
        house.stage.enter(Scene(number, len(ACTS), act.title, act.text))
        before()
        try:
            await act.play(house)
        except UserError as error:
            raise StoryError(f"act {number}, {act.title!r}: {error}") from error
        await house.pause(act.pause)
        after()


def _indices(inventory: Inventory, uuids: Iterable[str]) -> set[int]:
    wanted = set(uuids)
    return {gpu.index for gpu in inventory.gpus if gpu.uuid in wanted}
