"""The NVML backend with libraries that lack the newer functions."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing

import pynvml
import pytest
from support import nvmlsim
from support.aio import run
from support.backends import news

from gpu_device_plugin.hardware.backend import NvmlBackend
from gpu_device_plugin.hardware.model import HealthKind
from gpu_device_plugin.hardware.nvml.facts import read_facts
from gpu_device_plugin.hardware.nvml.older import OLDER

NEWEST = frozenset(OLDER)
ALL_BUT_THE_OLDEST = NEWEST | {name for names, _ in OLDER.values() for name in names[:-1]}
TOPOLOGY = {"nvmlDeviceGetNvLinkState", "nvmlDeviceGetTopologyCommonAncestor"}

AGES = pytest.mark.parametrize("without", [NEWEST, ALL_BUT_THE_OLDEST], ids=["older", "oldest"])


@pytest.fixture
def older(node, monkeypatch):
    """A node whose library lacks some functions."""
    # nvidia-ml-py asks each library for a function once.
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def make(profile: str, without):
        made = node(profile)
        link = made.root / "usr/lib64/libnvidia-ml.so.1"
        link.unlink()
        os.symlink(nvmlsim.build(without), link)
        made.backend = NvmlBackend(str(made.root))
        return made

    return make


@AGES
@pytest.mark.parametrize("profile", ["dgx-1", "dgx-a100-mig"])
def test_the_inventory_is_that_of_newer_drivers(older, without, profile):
    made = older(profile, without)

    assert made.backend.read() == made.truth


@AGES
def test_so_are_the_links(older, without):
    made = older("dgx-1", without)

    assert made.backend.read_links(made.truth, lambda: False) == made.links


@AGES
def test_what_the_doctor_asks_is_told(older, without):
    made = older("t4x4", without)

    facts = read_facts(str(made.root))

    assert facts.count == 4
    assert [gpu.bus_id for gpu in facts.gpus] == [gpu.pci_bus_id for gpu in made.truth.gpus]
    assert not any(gpu.error for gpu in facts.gpus)


def test_without_functions_for_links_there_are_none(older):
    made = older("dgx-1", TOPOLOGY)

    links = made.backend.read_links(made.truth, lambda: False)

    assert (links.ancestors, links.nvlinks, links.problems) == ({}, {}, ())


@AGES
def test_events_that_name_no_instance_are_about_the_gpu(older, without):
    made = older("t4x4", without)

    async def main():
        async with asyncio.timeout(10), aclosing(news(made.backend, made.truth)) as events:
            assert (await anext(events)).kind is HealthKind.MONITOR_READY
            made.happen("xid 2 79 3 0", "error 15")
            return [await anext(events) for _ in range(2)]

    xid, lost = run(main())

    assert (xid.uuid, xid.xid) == (made.truth.gpus[2].uuid, 79)
    assert (xid.gpu_instance, xid.compute_instance) == (None, None)
    assert lost.kind is HealthKind.MONITOR_LOST
