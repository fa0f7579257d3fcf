"""Nodes that no profile has: GPUs that cannot be read, WSL."""

from __future__ import annotations

from support.inventories import a_gpu

from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.diagnosis.offers import Offered, explain_devices
from gpu_device_plugin.hardware.model import Inventory, Platform, UnreadableGpu
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan


def explain(inventory: Inventory, *arguments: str) -> list[Offered]:
    loaded = load_text(None, *arguments)
    config = with_default_resources(loaded.config, inventory)
    return explain_devices(loaded, config, inventory, make_plan(config, inventory))


def test_gpus_that_cannot_be_read_say_why() -> None:
    inventory = Inventory(Platform.NVML, (a_gpu(0),), (UnreadableGpu(1, "lost"),))

    first, second = explain(inventory)
    assert first.resource == "nvidia.com/gpu"
    assert (second.what, str(second.causes[0])) == ("GPU 1", "lost")


def test_gpus_with_an_unknown_mig_state_say_why() -> None:
    gpus = (a_gpu(0), a_gpu(1, mig_problem="no permission"))

    _, second = explain(Inventory(Platform.NVML, gpus), "--mig-strategy=mixed")
    assert str(second.causes[0]) == "its MIG state is unknown: no permission"


def test_all_gpus_of_wsl_are_one_device() -> None:
    found = explain(Inventory(Platform.WSL, (a_gpu(0), a_gpu(1))))

    assert [(device.id, device.resource) for device in found] == [("all", "nvidia.com/gpu")] * 2
