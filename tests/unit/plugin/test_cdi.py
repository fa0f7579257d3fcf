"""How CDI is set up from a configuration, and what it adds to answers."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.configs import a_config
from support.inventories import a_gpu, cut_gpu
from unit.inspection.nodes import CHANNEL, MadeUpNode

from gpu_device_plugin.config.model import Config, Extensions, GpuSelection
from gpu_device_plugin.errors import ConfigError, RequestError
from gpu_device_plugin.hardware.model import Platform, UnreadableGpu
from gpu_device_plugin.imex import ImexChannel
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.plugin.cdi import CdiInjector, set_up_cdi
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.response import AllocationSettings, make_response
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Device, Plan, Resource
from gpu_device_plugin.resources.plan import make_plan

VENDOR = "k8s.device-plugin.nvidia.com"
GPU_FILE = f"{VENDOR}-gpu.json"
RESOURCE = Resource("nvidia.com/gpu", (Device(id="GPU-0", index="0", paths=("/dev/nvidia10",)),))


class Node(MadeUpNode):
    """Sets CDI up with a directory of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.cdi = directory / "cdi"
        self.channels: tuple[ImexChannel, ...] = ()
        self.selection = GpuSelection()

    def config(self, **flags: Any) -> Config:
        flags.setdefault("device_list_strategy", ("cdi-cri",))
        flags.setdefault("container_driver_root", self.root)
        return replace(a_config(**flags), extensions=Extensions(gpus=self.selection))

    def set_up(
        self, plan: Plan | None = None, settings: CdiSettings | None = None, **flags: Any
    ) -> CdiInjector:
        config = self.config(**flags)
        if plan is None:
            plan = make_plan(with_default_resources(config, self.inventory), self.inventory)
        given = replace(settings or CdiSettings(), directory=str(self.cdi))
        return set_up_cdi(config, given, self.inventory, plan, self.channels)

    def written(self, cls: str = "gpu") -> dict[str, Any]:
        spec: dict[str, Any] = json.loads((self.cdi / f"{VENDOR}-{cls}.json").read_text())
        return spec

    def names(self) -> list[str]:
        return [device["name"] for device in self.written()["devices"]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    made.take_over(monkeypatch)
    return made


def injected(injector: CdiInjector, *names: str) -> pb.ContainerAllocateResponse:
    response = pb.ContainerAllocateResponse()
    injector.inject(response, RESOURCE, names)
    return response


def in_cri(response: pb.ContainerAllocateResponse) -> list[str]:
    return [device.name for device in response.cdi_devices]


# ------------------------------------------------------------------ options


def test_the_names_that_are_handed_out_are_written(node: Node) -> None:
    node.set_up()
    assert node.names() == ["GPU-0", "GPU-1"]

    node.set_up(device_id_strategy="index")
    assert node.names() == ["0", "1"]
    assert [path.name for path in node.cdi.iterdir()] == [GPU_FILE]


def test_paths_are_those_of_the_host(node: Node) -> None:
    node.set_up(nvidia_driver_root="/run/nvidia/driver", nvidia_ctk_path="/opt/nvidia-cdi-hook")

    common = node.written()["containerEdits"]
    (mount,) = (m for m in common["mounts"] if "libcuda" in m["containerPath"])
    assert mount["hostPath"] == f"/run/nvidia/driver{mount['containerPath']}"
    paths = {n["path"]: n["hostPath"] for n in common["deviceNodes"]}
    assert paths["/dev/nvidiactl"] == "/run/nvidia/driver/dev/nvidiactl"
    assert {hook["path"] for hook in common["hooks"]} == {"/opt/nvidia-cdi-hook"}
    assert {hook["args"][0] for hook in common["hooks"]} == {"nvidia-cdi-hook"}


def test_nodes_beside_the_driver_root_have_a_root_of_their_own(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "gpu_device_plugin.plugin.cdi.find_dev_root", lambda _: str(tmp_path / "beside")
    )
    node.tree.node("/../beside/dev/nvidia10", 195, 10)

    node.set_up(nvidia_driver_root="/", nvidia_dev_root="/host", plan=Plan())

    (device,) = node.written()["devices"]
    assert device["containerEdits"]["deviceNodes"][0]["hostPath"] == "/host/dev/nvidia10"


def test_flags_that_are_no_part_of_the_configuration_file_count(node: Node) -> None:
    node.set_up(
        settings=CdiSettings(
            feature_flags=("enable-coherent-annotations",), disabled_hooks=("update-ldcache",)
        )
    )

    spec = node.written()
    assert spec["devices"][0]["annotations"] == {"gpu.nvidia.com/coherent": "false"}
    assert not any("update-ldcache" in h["args"] for h in spec["containerEdits"]["hooks"])


def test_what_is_left_out_is_not_described(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    # Nothing is said of it either: it has no device nodes, and nobody knows its MIG capabilities.
    node.add(cut_gpu(2, 1), a_gpu(3))
    node.inventory = replace(node.inventory, unreadable=(UnreadableGpu(4, "GPU is lost"),))
    node.selection = GpuSelection(exclude=("1", "2", "3", "4"))

    node.set_up(mig_strategy="mixed")

    assert node.names() == ["GPU-0"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_file_goes_with_the_last_gpu_that_is_offered(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.set_up()
    node.add_channel()
    node.channels = (ImexChannel("0", f"/{CHANNEL}", f"/{CHANNEL}"),)
    node.selection = GpuSelection(exclude=("*",))

    node.set_up(nvidia_driver_root="/")

    assert [path.name for path in node.cdi.iterdir()] == [f"{VENDOR}-imex-channel.json"]
    assert "no specification for gpu: extensions.gpus leaves out every GPU" in caplog.text


def test_a_gpu_in_mig_mode_is_whole_where_it_is_handed_out_so(node: Node) -> None:
    """The strategy ``none`` hands such a GPU out as a whole, so it must have a name."""
    node.add(replace(cut_gpu(2), minor=10))

    node.set_up(mig_strategy="none")
    assert node.names() == ["GPU-0", "GPU-1", "GPU-2"]

    node.set_up(mig_strategy="mixed")
    assert node.names() == ["GPU-0", "GPU-1"]


def test_a_tegra_takes_its_csv_files_from_the_driver_root(node: Node) -> None:
    node.inventory = replace(node.inventory, platform=Platform.TEGRA, gpus=())
    directory = "/etc/nvidia-container-runtime/host-files-for-container.d"
    node.tree.file(f"{directory}/devices.csv", "dev, /dev/nvidiactl\n")

    node.set_up(device_id_strategy="index")

    assert node.names() == ["0"]


def test_a_discovery_strategy_decides_over_devices_but_not_over_specifications(
    node: Node,
) -> None:
    node.inventory = replace(node.inventory, platform=Platform.TEGRA, detected=Platform.NVML)
    node.set_up()
    assert node.names() == ["GPU-0", "GPU-1"]

    node.inventory = replace(
        node.inventory,
        platform=Platform.NVML,
        detected=Platform.TEGRA,
        gpus=node.inventory.gpus[:1],
    )
    with pytest.raises(ConfigError, match="integrated GPU has no UUID"):
        node.set_up()


# ------------------------------------------------------------------ what is told


def test_a_gpu_that_is_left_out_is_told_of_with_its_resource(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.add(a_gpu(2))

    node.set_up()

    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == [
        (
            "CDI: GPU 2 (GPU-2) is left out: it has no device node, "
            f"not even {node.root}/dev/nvidia12"
        ),
        (
            f"CDI: no specification holds {VENDOR}/gpu=GPU-2: containers that get it will not "
            "start resource=nvidia.com/gpu"
        ),
    ]


def test_a_feature_without_nodes_is_dropped_and_its_old_file_removed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.cdi.mkdir()
    (node.cdi / f"{VENDOR}-gds.json").write_text("{}")
    node.tree.node("/dev/gdrdrv", 240, 0)

    injector = node.set_up(gds_enabled=True, gdrcopy_enabled=True)

    assert injector.others == (f"{VENDOR}/gdrcopy=all",)
    assert sorted(path.name for path in node.cdi.iterdir()) == [
        f"{VENDOR}-gdrcopy.json",
        GPU_FILE,
    ]
    assert f"CDI: no specification for gds: none of /dev/nvidia-fs* is below {node.root}" in (
        caplog.messages
    )


def test_missing_driver_files_are_counted_and_named_on_demand(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    node.set_up()

    (count,) = (m for m in caplog.messages if "optional driver files" in m)
    names = [r for r in caplog.records if r.levelno == logging.DEBUG]
    assert count == f"CDI: {len(names)} optional driver files are not there"
    assert f"CDI: nvidia-smi: not found below {node.root}" in caplog.messages


def test_what_leads_to_no_valid_specification_is_an_error(node: Node) -> None:
    with pytest.raises(ConfigError, match="CDI annotation prefix"):
        node.set_up(cdi_annotation_prefix="a b")
    with pytest.raises(ConfigError, match="hook program is empty"):
        node.set_up(nvidia_ctk_path="")
    assert not node.cdi.exists()
    node.cdi.write_text("in the way")
    with pytest.raises(ConfigError, match="cdi: cannot be made"):
        node.set_up()


# ------------------------------------------------------------------ answers


def test_names_are_in_the_order_of_the_original(node: Node) -> None:
    node.tree.node("/dev/gdrdrv", 240, 0)
    node.tree.node("/dev/infiniband/rdma_cm", 231, 0)
    node.tree.node("/dev/nvidia-fs0", 500, 0)
    node.channels = (ImexChannel("0", f"/{CHANNEL}", f"{node.root}/{CHANNEL}"),)

    injector = node.set_up(gds_enabled=True, gdrcopy_enabled=True, mofed_enabled=True)

    assert in_cri(injected(injector, "GPU-1", "GPU-0")) == [
        f"{VENDOR}/gpu=GPU-1",
        f"{VENDOR}/gpu=GPU-0",
        f"{VENDOR}/imex-channel=0",
        f"{VENDOR}/gdrcopy=all",
        f"{VENDOR}/gds=all",
        f"{VENDOR}/mofed=all",
    ]


@pytest.mark.parametrize("prefix", ["cdi.k8s.io/", "nvidia.cdi.", ""])
def test_an_annotation_has_the_prefix_and_a_new_id_each_time(prefix: str) -> None:
    injector = CdiInjector(in_annotations=True, in_cri=False, prefix=prefix)

    (one,) = injected(injector, "a", "b").annotations.items()
    (two,) = injected(injector, "a", "b").annotations.items()

    assert one[1] == two[1] == f"{VENDOR}/gpu=a,{VENDOR}/gpu=b"
    assert one[0] != two[0]
    uuid4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert re.fullmatch(re.escape(f"{prefix}nvidia-device-plugin_") + uuid4, one[0])


def test_a_name_that_is_none_fails_in_an_annotation_only() -> None:
    """Old MIG UUIDs hold slashes; the CRI's own field is not checked, as in the original."""
    legacy = "MIG-GPU-1/3/0"

    with pytest.raises(RequestError, match="MIG-GPU-1/3/0"):
        injected(CdiInjector(in_annotations=True, in_cri=True, prefix=""), legacy)
    by_cri = injected(CdiInjector(in_annotations=False, in_cri=True, prefix=""), legacy)
    assert in_cri(by_cri) == [f"{VENDOR}/gpu={legacy}"]


def test_nothing_is_added_where_there_is_nothing_to_name() -> None:
    response = injected(CdiInjector(in_annotations=True, in_cri=True, prefix=""))

    assert response == pb.ContainerAllocateResponse()


@pytest.mark.parametrize(
    ("strategies", "visible", "mounts", "annotations", "devices", "nodes"),
    [
        (("cdi-annotations",), None, 0, 1, 0, False),
        (("cdi-cri",), None, 0, 0, 1, False),
        (("cdi-annotations", "cdi-cri"), None, 0, 1, 1, False),
        (("cdi-cri", "envvar"), "GPU-0", 0, 0, 1, True),
        (("volume-mounts", "cdi-annotations"), "/var/run/nvidia-container-devices", 1, 1, 0, True),
        (
            ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
            "/var/run/nvidia-container-devices",
            1,
            1,
            1,
            True,
        ),
    ],
)
def test_strategies_add_up(
    node: Node,
    strategies: tuple[str, ...],
    visible: str | None,
    mounts: int,
    annotations: int,
    devices: int,
    nodes: bool,
) -> None:
    config = node.config(device_list_strategy=strategies, pass_device_specs=True)
    injector = node.set_up(device_list_strategy=strategies)
    settings = AllocationSettings.of(config, (), (injector,))

    response = make_response(settings, RESOURCE, RESOURCE.devices)

    assert response.envs.get("NVIDIA_VISIBLE_DEVICES") == visible
    assert len(response.mounts) == mounts
    assert list(response.annotations.values()) == [f"{VENDOR}/gpu=GPU-0"] * annotations
    assert in_cri(response) == [f"{VENDOR}/gpu=GPU-0"] * devices
    assert any(d.container_path == "/dev/nvidia10" for d in response.devices) == nodes
