"""Labels with their sources, as data and as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import time_sliced
from support.inventories import a_gpu
from support.labels import facts_of, gfd_config, mps, node_of
from unit.inspection.label_reports import DMI, PROFILES, STRATEGIES, report_of, simulated, sources

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.model import Config, GfdFlags, GpuSelection
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.hardware.node_facts import NodeFacts, open_source
from gpu_device_plugin.inspection.labels_report import (
    Gap,
    Settings,
)
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.model import Facts

# ------------------------------------------------------------------ sources


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_label_has_its_value_a_source_and_a_meaning(profile: str, strategy: str) -> None:
    report = simulated(profile, strategy)

    assert {f"nvidia.com/{row.key}": row.value for row in report.rows} == report.published
    for row in report.rows:
        assert row.source, row
        assert row.meaning, row
        assert not set("`{}") & set(row.source), row


def test_sources_name_functions_and_gpus() -> None:
    found = sources(report_of(facts_of(3, timestamp=1)))

    assert found["gpu.product"] == "NVML nvmlDeviceGetName of GPU 0-2"
    assert found["gpu.memory"] == "NVML nvmlDeviceGetMemoryInfo of GPU 0-2, divided by 1 MiB"
    assert found["cuda.driver.rev"] == "NVML nvmlSystemGetDriverVersion"
    assert found["cuda.runtime-version.full"] == "NVML nvmlSystemGetCudaDriverVersion"
    assert found["gfd.timestamp"] == "clock"


def test_only_the_gpus_that_labels_tell_of_are_named() -> None:
    gpus = [a_gpu(0, mig_enabled=True), a_gpu(1, name="Other"), a_gpu(2), a_gpu(3, name="Other")]

    found = sources(report_of(facts_of(gpus)))

    assert found["gpu.product"] == "NVML nvmlDeviceGetName of GPU 1, 3"


def test_gpus_that_are_left_out_are_not_named() -> None:
    config = gfd_config()
    selection = GpuSelection(exclude=("0",))
    config = replace(config, extensions=replace(config.extensions, gpus=selection))

    assert sources(report_of(facts_of(2), config))["gpu.product"].endswith("of GPU 1")


@pytest.mark.parametrize(
    ("platform", "key", "source"),
    [
        (Platform.TEGRA, "gpu.product", "CUDA cuDeviceGetName"),
        (Platform.TEGRA, "gpu.mode", "none, it is no PCI device"),
        (Platform.TEGRA, "cuda.driver.major", "none, no driver tells it"),
        (Platform.VFIO, "gpu.memory", "PCI resources in sysfs, in bytes"),
        (Platform.VFIO, "gpu.compute.major", "none, no driver tells it"),
        (Platform.VFIO, "gpu.mode", "PCI class in sysfs of GPU 0"),
        (Platform.WSL, "gpu.product", "NVML nvmlDeviceGetName of GPU 0"),
    ],
)
def test_platforms_have_their_own_sources(platform: Platform, key: str, source: str) -> None:
    inventory = Inventory(platform, (a_gpu(0),), driver_version="1.2", cuda_driver_version=12040)

    assert sources(report_of(Facts(node_of(inventory))))[key] == source


def test_keys_of_gpus_that_tell_of_mig_devices_have_sources_of_those() -> None:
    found = sources(simulated("dgx-a100-mig-single", "single"))

    assert found["gpu.memory"] == "NVML nvmlDeviceGetAttributes of the first such MIG device"
    assert found["gpu.count"] == "NVML, number of MIG devices with that profile"
    assert found["gpu.family"].startswith("NVML nvmlDeviceGetCudaComputeCapability")


def test_what_is_not_offered_says_why() -> None:
    cut = [a_gpu(0, mig_enabled=True), a_gpu(1, mig_enabled=True)]

    whole = sources(report_of(facts_of(cut)))
    single = sources(report_of(facts_of(cut), gfd_config("single")))

    reason = "MIG is enabled, so GPUs are not offered as a whole"
    assert (whole["gpu.replicas"], whole["gpu.sharing-strategy"]) == (reason, reason)
    assert single["gpu.product"] == "GPU 0 has MIG enabled, but no MIG devices"


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("config", "file", "source"),
    [
        (gfd_config(), "", "no configuration file, so nothing is shared"),
        (gfd_config(), "f", "nothing is shared in f"),
        (gfd_config(sharing=time_sliced(4)), "f", "sharing.timeSlicing of f"),
        (gfd_config(sharing=mps(3)), "f", "sharing.mps of f"),
        (
            gfd_config(sharing=time_sliced(4, name="nvidia.com/mig-1g.5gb")),
            "f",
            "no nvidia.com/gpu in sharing.timeSlicing of f",
        ),
    ],
)
def test_what_decides_over_sharing_is_named(config: Config, file: str, source: str) -> None:
    report = report_of(facts_of(1), settings=Settings(config, file=file))

    assert sources(report)["gpu.replicas"] == source


def test_sharing_is_told_for_each_profile() -> None:
    config = gfd_config("mixed", sharing=time_sliced(4, name="nvidia.com/mig-1g.5gb"))
    facts = FactReader(open_source("", "dgx-a100-mig"), "").read(None)

    found = sources(report_of(facts, settings=Settings(config, file="f")))

    assert found["mig-1g.5gb.replicas"] == "sharing.timeSlicing of f"
    assert (
        found["mig-1g.5gb.me.replicas"] == "no nvidia.com/mig-1g.5gb.me in sharing.timeSlicing of f"
    )


def test_with_mps_the_mig_modes_count() -> None:
    settings = Settings(gfd_config(sharing=mps(3)), file="f")

    found = sources(report_of(facts_of(1), settings=settings))

    assert found["mps.capable"] == "sharing.mps of f, NVML nvmlDeviceGetMigMode"


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (Place(path="GFD_MIG_STRATEGY"), "GFD_MIG_STRATEGY"),
        (Place("f", 3, "flags.migStrategy"), "flags.migStrategy in f:3"),
        (None, "default of --mig-strategy"),
    ],
)
def test_what_set_the_strategy_is_named(origin: Place | None, source: str) -> None:
    origins = {"flags.migStrategy": origin} if origin else {}
    settings = Settings(gfd_config("mixed"), origins)

    assert sources(report_of(facts_of(1), settings=settings))["mig.strategy"] == source


@pytest.mark.parametrize(
    ("file", "machine", "profile", "source"),
    [
        (DMI, "M", "", f"DMI product name, {DMI}"),
        (DMI, "M", "t4x4", "name of the machine in the profile"),
        (DMI, None, "", f"{DMI}, which cannot be read"),
        ("/x", "M", "t4x4", "/x"),
        ("", None, "", "none, --machine-type-file is empty"),
    ],
)
def test_where_the_machine_is_from(
    file: str, machine: str | None, profile: str, source: str
) -> None:
    config = gfd_config(gfd=GfdFlags(False, False, 10**9, "", file))
    settings = Settings(config, simulated=profile)

    report = report_of(facts_of(1, machine=machine), settings=settings)

    assert sources(report)["gpu.machine"] == source


def test_a_strategy_that_is_none_is_an_error() -> None:
    with pytest.raises(ConfigError, match="mig-strategy"):
        simulated("t4x4", "x")


# ------------------------------------------------------------------ what is missing


def test_labels_that_are_missing_are_named() -> None:
    gpus = (a_gpu(0, compute_capability=None, memory_bytes=0, mig_capable=False, mig_problem="no"),)
    report = report_of(
        facts_of(Inventory(Platform.NVML, gpus), vgpus=None, vgpu_problem="denied"),
        gfd_config("single"),
    )

    told = [str(gap) for gap in report.gaps]
    assert told == [
        (
            "not published: cuda.driver-version.*, cuda.driver.*: the version of the driver "
            "cannot be read: no labels for it"
        ),
        (
            "not published: cuda.runtime-version.*, cuda.runtime.*: the CUDA version of the "
            "driver cannot be read"
        ),
        "not published: gpu.family, gpu.compute.*: no compute capability can be read of GPU 0",
        ("not published: gpu.replicas, mig.capable: the MIG mode of a GPU cannot be read: no"),
        (
            "not published: gpu.product, gpu.count, gpu.replicas, gpu.sharing-strategy, "
            "gpu.memory: MIG devices cannot be read: no"
        ),
        "not published: vgpu.*: no labels for vGPU: denied",
    ]
    assert not report.is_blind


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_named_as_missing_is_not_there(strategy: str) -> None:
    gpus = (a_gpu(0, mig_capable=False, mig_problem="no"), a_gpu(1, memory_bytes=0))
    report = report_of(facts_of(gpus), gfd_config(strategy))

    found = {row.key for row in report.rows}
    exact = {key for gap in report.gaps for key in gap.labels if "*" not in key}
    assert not exact & found


def test_memory_that_the_driver_does_not_tell_is_named() -> None:
    report = report_of(facts_of([a_gpu(0, memory_bytes=0)]))

    assert report.gaps == (Gap("the driver does not tell the memory", ("gpu.memory",)),)


def test_doubts_are_told_without_labels() -> None:
    report = report_of(facts_of([a_gpu(0), a_gpu(1, name="Other")]))

    assert str(report.gaps[0]).startswith("GPUs of several models")
    assert not report.gaps[0].is_failure


def test_without_a_driver_nothing_is_known() -> None:
    blind = report_of(Facts(driver_problem="no driver", timestamp=1))
    bare = report_of(Facts(NodeFacts(Inventory(Platform.NVML)), timestamp=1))

    assert (blind.is_blind, blind.tells_of_gpus) == (True, False)
    assert str(blind.gaps[0]).endswith("no driver")
    assert (bare.is_blind, bare.tells_of_gpus, bare.gaps) == (False, False, ())
