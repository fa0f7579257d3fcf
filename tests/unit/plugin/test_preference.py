"""Preferred allocation of whole GPUs on links that come later."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from support.aio import run
from support.inventories import a_gpu

from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.hardware.model import Links
from gpu_device_plugin.plugin import preference as module
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.resources.model import Device, Resource

GPUS = [a_gpu(index) for index in (0, 1, 3, 4)]
RESOURCE = Resource(
    "nvidia.com/gpu",
    tuple(Device(id=g.uuid, index=str(g.index), gpu_uuid=g.uuid, gpu_index=g.index) for g in GPUS),
)
ALL = [gpu.uuid for gpu in GPUS]
NEIGHBOURS = Links(nvlinks={(1, 4): 2})


def prefer(gpus: LinkedGpus, size: int, available=ALL, required=()) -> list[str]:
    return run(gpus.prefer(RESOURCE, available, required, size))


def linked(links: Links) -> LinkedGpus:
    gpus = LinkedGpus(GPUS)
    gpus.set_links(links)
    return gpus


def test_the_best_connected_gpus_are_preferred_whatever_their_indices():
    assert prefer(linked(NEIGHBOURS), 2) == ["GPU-1", "GPU-4"]


def test_a_required_gpu_is_kept():
    assert prefer(linked(NEIGHBOURS), 2, required=["GPU-3"]) == ["GPU-0", "GPU-3"]


def test_without_links_the_first_ones_are_as_good_as_any(caplog):
    gpus = linked(Links(problems=("GPU 3: lost",)))

    assert prefer(gpus, 2) == ["GPU-0", "GPU-1"]
    assert "GPU 3: lost" in caplog.text


@pytest.mark.parametrize("where", ["available", "required"])
def test_an_unknown_gpu_is_named(where):
    ids = {"available": ALL, "required": []}
    ids[where] = [*ids[where], "GPU-9"]

    with pytest.raises(RequestError, match="unknown device 'GPU-9'"):
        prefer(linked(Links()), 1, ids["available"], ids["required"])


def test_gpus_of_the_node_are_known_also_where_their_replicas_are_offered():
    shared = Resource(RESOURCE.name, tuple(replace(d, replicas=2) for d in RESOURCE.devices))

    assert run(linked(NEIGHBOURS).prefer(shared, ALL, [], 2)) == ["GPU-1", "GPU-4"]


def test_an_early_request_waits_for_the_links():
    async def work():
        gpus = LinkedGpus(GPUS)
        early = asyncio.create_task(gpus.prefer(RESOURCE, ALL, [], 2))
        await asyncio.sleep(0)
        gpus.set_links(NEIGHBOURS)
        assert await early == ["GPU-1", "GPU-4"]

    run(work())


def test_a_request_does_not_wait_long(monkeypatch, caplog):
    monkeypatch.setattr(module, "LINKS_WAIT", 0.01)

    with caplog.at_level(logging.INFO):
        assert prefer(LinkedGpus(GPUS), 2) == ["GPU-0", "GPU-1"]
    assert "without links" in caplog.text


def test_a_request_for_all_that_is_there_does_not_wait_at_all():
    assert prefer(LinkedGpus(GPUS), 4) == ALL


def test_preparation_ends_in_time(monkeypatch, caplog):
    gpus = linked(NEIGHBOURS)
    run(gpus.prepare())
    monkeypatch.setattr(module, "PREPARE_SECONDS", -1.0)
    monkeypatch.setattr(gpus._allocator, "preparation", lambda: iter([None, None]))
    with caplog.at_level(logging.INFO):
        run(gpus.prepare())
    assert "not complete" in caplog.text


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_gpu_that_was_lost_does_not_keep_the_others_from_being_given(size):
    """It is not among the available ones any more, and nobody is asked about its links."""
    gpus = linked(Links(ancestors={(0, 1): 20, (0, 4): 50, (1, 4): 50}, problems=("GPU 3: lost",)))

    got = prefer(gpus, size, [uuid for uuid in ALL if uuid != "GPU-3"])

    assert len(got) == size
    assert "GPU-3" not in got
    assert size != 2 or got == ["GPU-0", "GPU-1"]
