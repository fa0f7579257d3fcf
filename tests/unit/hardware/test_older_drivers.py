"""The NVML backend with libraries that lack the newer functions."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from support import nvmlsim, older_drivers

from gpu_device_plugin.hardware.model import HealthKind
from gpu_device_plugin.hardware.nvml.older import OLDER

NEWEST = frozenset(OLDER)
ALL_BUT_THE_OLDEST = NEWEST | {name for names, _ in OLDER.values() for name in names[:-1]}
TOPOLOGY = {"nvmlDeviceGetNvLinkState", "nvmlDeviceGetTopologyCommonAncestor"}

AGES = pytest.mark.parametrize("without", [NEWEST, ALL_BUT_THE_OLDEST], ids=["older", "oldest"])


@pytest.fixture
def asked(nvml_node):
    """What is told of a node whose library lacks some functions, and what is true."""

    def ask(profile: str, without: Iterable[str], *events: str):
        node = nvml_node(profile)
        link = node.root / "usr/lib64/libnvidia-ml.so.1"
        link.unlink()
        os.symlink(nvmlsim.build(without), link)
        return older_drivers.ask(node.root, node.truth, node.events, *events), node

    return ask


@AGES
@pytest.mark.parametrize("profile", ["dgx-1", "dgx-a100-mig"])
def test_all_is_told_that_newer_drivers_tell(asked, without, profile):
    told, node = asked(profile, without, "xid 2 79 3 0", "error 15")

    assert told.inventory == node.truth
    assert told.links == node.links
    xid, lost = told.events
    assert (xid.uuid, xid.xid) == (node.truth.gpus[2].uuid, 79)
    # They know of no instances.
    assert (xid.gpu_instance, xid.compute_instance) == (None, None)
    assert lost.kind is HealthKind.MONITOR_LOST
    # What the doctor asks.
    assert [gpu.bus_id for gpu in told.facts.gpus] == [g.pci_bus_id for g in node.truth.gpus]
    assert not any(gpu.error or gpu.mig_error for gpu in told.facts.gpus)


def test_without_functions_for_links_there_are_none(asked):
    told, _ = asked("dgx-1", TOPOLOGY)

    assert (told.links.ancestors, told.links.nvlinks, told.links.problems) == ({}, {}, ())
