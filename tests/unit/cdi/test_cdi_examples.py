"""Specifications that v0.19.3 wrote, made again from descriptions of the same trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_device_plugin.cdi.generate import GeneratedSpecs, additional_devices, generate
from gpu_device_plugin.cdi.options import CdiOptions, Naming
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.cdi.writer import write_specs
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import (
    Gpu,
    Inventory,
    MigAttributes,
    MigDevice,
    MigProfile,
    Platform,
)
from gpu_device_plugin.imex import ImexChannel

DATA = Path(__file__).parent / "data"
EXAMPLES = ("01-driver-container", "02-host-root-mig", "03-tegra-orin", "03b-tegra-mixed", "04-wsl")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def load(name: str) -> dict[str, Any]:
    example: dict[str, Any] = json.loads((DATA / f"example-{name}.json").read_text())
    return example


def plant(tree: FakeTree, rows: list[dict[str, Any]], location: str) -> None:
    """Makes the files of a description below a directory of the tree."""
    for row in rows:
        path = location.rstrip("/") + row["path"]
        match row["type"]:
            case "dir":
                tree.folder(path)
            case "symlink":
                tree.link(path, row["target"])
            case "socket":
                tree.socket(path)
            case "char":
                tree.node(path, row["major"], row["minor"], int(row["mode"], 8), row["gid"])
            case "file" if row.get("elf"):
                tree.library(path, row["soname"])
            case "file":
                tree.file(path, row.get("content", "text"), int(row["mode"], 8))


def plant_kernel(tree: FakeTree, inputs: dict[str, Any]) -> None:
    for address, entries in inputs.get("sysfs_drm", {}).items():
        for entry in entries:
            tree.folder(f"/sys/bus/pci/devices/{address}/drm/{entry}")
    if "mig_minors" in inputs:
        tree.file("/proc/driver/nvidia-caps/mig-minors", inputs["mig_minors"])
    parameter = inputs["environment"]["firmware_class_path_parameter"]
    tree.file("/sys/module/firmware_class/parameters/path", parameter + "\n")


def inventory_of(inputs: dict[str, Any]) -> Inventory:
    nvml = inputs.get("nvml", {"gpus": []})
    return Inventory(
        Platform(inputs["platform"]),
        gpus=tuple(gpu_of(gpu, nvml.get("coherent", False)) for gpu in nvml["gpus"]),
        driver_version=nvml.get("driver_version", ""),
        cuda_driver_version=nvml.get("cuda_driver_version", 0),
    )


def gpu_of(gpu: dict[str, Any], coherent: bool) -> Gpu:
    return Gpu(
        index=gpu["index"],
        uuid=gpu["uuid"],
        minor=gpu["minor"],
        name=gpu["name"],
        pci_bus_id=gpu["pci_bus_id"] or "",
        coherent=coherent,
        mig_enabled=gpu["mig_enabled"],
        mig_devices=tuple(mig_of(mig) for mig in gpu["mig_devices"]),
    )


def mig_of(mig: dict[str, Any]) -> MigDevice:
    extras = tuple(mig["profile"].split("+")[1:])
    return MigDevice(
        slot=mig["index"],
        uuid=mig["uuid"],
        gpu_instance=mig["gi"],
        compute_instance=mig["ci"],
        profile=MigProfile(1, 1, 5, extras),
        attributes=MigAttributes(14, 1, 0, 0, 0, 0, 1, 1, 4864),
        memory_bytes=0,
    )


def options_of(inputs: dict[str, Any]) -> CdiOptions:
    given = inputs["options"]
    channels = tuple(
        ImexChannel(
            str(number),
            f"/dev/nvidia-caps-imex-channels/channel{number}",
            f"{given['dev_root'].rstrip('/')}/dev/nvidia-caps-imex-channels/channel{number}",
        )
        for number in given["imex_channels"]
    )
    return CdiOptions(
        driver_root=given["driver_root"],
        dev_root=given["dev_root"],
        target_driver_root=given["target_driver_root"],
        target_dev_root=given["target_dev_root"],
        hook_path=given["hook_path"],
        naming=Naming(given["device_id_strategy"]),
        gdrcopy=given["gdrcopy"],
        gds=given["gds"],
        mofed=given["mofed"],
        imex_channels=channels,
        feature_flags=frozenset(given["feature_flags"]),
        tegra=given["device_discovery_strategy"] == "tegra",
    )


def run(name: str, directory: Path) -> GeneratedSpecs:
    inputs = load(name)["inputs"]
    tree = FakeTree(directory)
    plant(tree, json.loads((DATA / inputs["root"]).read_text()), inputs["root_location"])
    plant_kernel(tree, inputs)
    machine = System(
        search_path=inputs["environment"]["process_path_env"],
        xdg_data_dirs=inputs["environment"]["xdg_data_dirs"] or "",
        kernel_release="6.1.0-test",
        machine=MACHINES[inputs["environment"]["architecture"]],
        driver_stores=lambda: ["/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"],
    )
    return generate(options_of(inputs), inventory_of(inputs), tree.system(machine))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_comes_out_as_the_original_wrote_it(name: str, tmp_path: Path) -> None:
    expected = load(name)["expected"]

    specs = run(name, tmp_path / "root")
    write_specs(specs, str(tmp_path / "cdi"))

    written = {p.name: json.loads(p.read_text()) for p in (tmp_path / "cdi").iterdir()}
    assert expected == written
    assert specs.problems == ()


@pytest.mark.parametrize("name", EXAMPLES)
def test_key_order_is_the_originals(name: str, tmp_path: Path) -> None:
    for file, expected in load(name)["expected"].items():
        cls = file.removeprefix("k8s.device-plugin.nvidia.com-").removesuffix(".json")

        spec = next(s for s in run(name, tmp_path / cls).specs if s.kind.endswith("/" + cls))

        assert json.dumps(expected, separators=(",", ":")) == spec.to_json()


def test_additional_devices_in_the_order_of_allocate(tmp_path: Path) -> None:
    specs = run("01-driver-container", tmp_path)

    assert additional_devices(specs) == [
        "k8s.device-plugin.nvidia.com/gdrcopy=all",
        "k8s.device-plugin.nvidia.com/gds=all",
        "k8s.device-plugin.nvidia.com/mofed=all",
    ]


def test_one_tegra_gpu_has_no_uuid_to_be_named_by(tmp_path: Path) -> None:
    inputs = load("03-tegra-orin")["inputs"]
    inputs["options"]["device_id_strategy"] = "uuid"
    tree = FakeTree(tmp_path)
    plant(tree, json.loads((DATA / inputs["root"]).read_text()), "/")

    with pytest.raises(ConfigError, match="device-id-strategy=index"):
        generate(options_of(inputs), inventory_of(inputs), tree.system())
