"""The outputs that k8s-device-plugin v0.19.3 has for an eight-GPU node, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import time_sliced
from support.inventories import a_gpu, a_node
from support.labels import facts_of, gfd_config, mps, published

from gpu_device_plugin.config.model import Config, Sharing
from gpu_device_plugin.hardware.model import Gpu, MigAttributes, MigDevice, MigProfile
from gpu_device_plugin.hardware.node_facts import NO_DEVICES
from gpu_device_plugin.labels.model import Facts

COMMON = """
cuda.driver-version.full=550.107.02
cuda.driver-version.major=550
cuda.driver-version.minor=107
cuda.driver-version.revision=02
cuda.driver.major=550
cuda.driver.minor=107
cuda.driver.rev=02
cuda.runtime-version.full=12.4
cuda.runtime-version.major=12
cuda.runtime-version.minor=4
cuda.runtime.major=12
cuda.runtime.minor=4
gfd.timestamp=1700000000
gpu.compute.major=8
gpu.compute.minor=0
gpu.family=ampere
gpu.machine=DGXA100-920-23687-2530-000
gpu.mode=compute
mig.capable=true
vgpu.present=false
"""
WHOLE = """
gpu.count=8
gpu.memory=40960
gpu.product=NVIDIA-A100-SXM4-40GB
gpu.replicas=1
gpu.sharing-strategy=none
mps.capable=false
"""
SINGLE = """
gpu.count=56
gpu.engines.copy=1
gpu.engines.decoder=0
gpu.engines.encoder=0
gpu.engines.jpeg=0
gpu.engines.ofa=0
gpu.memory=4864
gpu.multiprocessors=14
gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
gpu.replicas=1
gpu.sharing-strategy=none
gpu.slices.ci=1
gpu.slices.gi=1
mig.strategy=single
mps.capable=false
"""
INVALID = """
gpu.count=0
gpu.memory=0
gpu.product=NVIDIA-A100-SXM4-40GB-MIG-INVALID
gpu.replicas=0
gpu.sharing-strategy=
mig.strategy=single
mps.capable=false
"""

SHARES = {1: (14, 1, 0, 4864), 2: (28, 2, 1, 9728), 3: (42, 3, 2, 19968)}
"""Of a number of slices: multiprocessors, copy engines, decoders, memory in MiB."""
MEMORY = {1: 5, 2: 10, 3: 20}


def mixed_set(slices: int, count: int) -> str:
    multiprocessors, copies, decoders, memory = SHARES[slices]
    profile = f"{slices}g.{MEMORY[slices]}gb"
    lines = f"""count={count}
engines.copy={copies}
engines.decoder={decoders}
engines.encoder=0
engines.jpeg=0
engines.ofa=0
memory={memory}
multiprocessors={multiprocessors}
product=NVIDIA-A100-SXM4-40GB-MIG-{profile}
replicas=1
sharing-strategy=none
slices.ci={slices}
slices.gi={slices}"""
    return "".join(f"mig-{profile}.{line}\n" for line in lines.splitlines())


def device(slot: int, slices: int) -> MigDevice:
    multiprocessors, copies, decoders, memory = SHARES[slices]
    return MigDevice(
        slot,
        f"MIG-{slot}",
        slot,
        0,
        MigProfile(slices, slices, MEMORY[slices]),
        MigAttributes(multiprocessors, copies, decoders, 0, 0, 0, slices, slices, memory),
        memory << 20,
    )


def cut(index: int, *slices: int) -> Gpu:
    devices = tuple(device(slot, size) for slot, size in enumerate(slices))
    return a_gpu(index, mig_enabled=True, mig_devices=devices)


def eight(*cut_gpus: Gpu) -> list[Gpu]:
    return [*cut_gpus, *(a_gpu(index) for index in range(len(cut_gpus), 8))]


def a_dgx(gpus: list[Gpu]) -> Facts:
    inventory = replace(a_node(gpus), driver_version="550.107.02")
    return facts_of(inventory, timestamp=1700000000, machine="DGXA100 920-23687-2530-000\n")


SPLIT = [cut(index, *[1] * 7) for index in range(8)]
SLICED = time_sliced(4)
RENAMED = time_sliced(4, rename="nvidia.com/gpu.shared")


def lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split())


def case(name: str, gpus: list[Gpu], mig: str, sharing: Sharing | None, *parts: str) -> object:
    wanted = dict[str, str]()
    for part in (COMMON, *parts):
        wanted |= lines(part)
    return pytest.param(a_dgx(gpus), gfd_config(mig, sharing), wanted, id=name)


CASES = [
    case("no MIG, none", eight(), "none", None, WHOLE),
    case("split, single", SPLIT, "single", None, SINGLE),
    case("split, none", SPLIT, "none", None, WHOLE, "gpu.replicas=0"),
    case(
        "split, single, time-slicing",
        SPLIT,
        "single",
        SLICED,
        SINGLE,
        "gpu.replicas=4 gpu.sharing-strategy=time-slicing",
        "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
    ),
    case("one GPU not cut, single", [*SPLIT[:7], a_gpu(7)], "single", None, INVALID),
    case("one GPU empty, single", [*SPLIT[:7], cut(7)], "single", None, INVALID),
    case("two profiles, single", [*SPLIT[:7], cut(7, 2)], "single", None, INVALID),
    case("no MIG, single", eight(), "single", None, WHOLE, "mig.strategy=single"),
    case(
        "two GPUs cut, mixed",
        eight(cut(0, 3, 2, 1, 1), cut(1, 3, 2, 1, 1)),
        "mixed",
        None,
        WHOLE,
        mixed_set(1, 4),
        mixed_set(2, 2),
        mixed_set(3, 2),
        "mig.strategy=mixed",
    ),
    case(
        "all GPUs cut, mixed",
        SPLIT,
        "mixed",
        None,
        WHOLE,
        mixed_set(1, 56),
        "mig.strategy=mixed gpu.replicas=0",
    ),
    case(
        "time-slicing",
        eight(),
        "none",
        SLICED,
        WHOLE,
        "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED",
        "gpu.replicas=4 gpu.sharing-strategy=time-slicing",
    ),
    case(
        "time-slicing, renamed",
        eight(),
        "none",
        RENAMED,
        WHOLE,
        "gpu.replicas=4 gpu.sharing-strategy=time-slicing",
    ),
    case(
        "MPS",
        eight(),
        "none",
        mps(10),
        WHOLE,
        "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED",
        "gpu.replicas=10 gpu.sharing-strategy=mps mps.capable=true",
    ),
]


@pytest.mark.parametrize(("facts", "config", "wanted"), CASES)
def test_the_labels_are_those_of_the_original(
    facts: Facts, config: Config, wanted: dict[str, str]
) -> None:
    assert published(config, facts) == wanted


def test_without_devices_only_time_and_vgpu_are_told() -> None:
    facts = replace(a_dgx([]), node=NO_DEVICES)

    assert published(gfd_config(), facts) == lines("gfd.timestamp=1700000000 vgpu.present=false")
    assert published(gfd_config(), replace(facts, timestamp=None)) == {"vgpu.present": "false"}
