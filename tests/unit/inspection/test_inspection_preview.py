"""The specifications that the plugin would write, and their text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from support.configs import a_config
from support.inventories import a_gpu
from unit.inspection.nodes import MadeUpNode

from gpu_device_plugin.config.model import Config, Extensions, GpuSelection, Imex
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.imex import find_channels
from gpu_device_plugin.inspection.documents import as_json, as_yaml, save_json, save_yaml, twins
from gpu_device_plugin.inspection.drift import find_drifts
from gpu_device_plugin.inspection.preview import Preview, make_preview
from gpu_device_plugin.plugin.cdi import set_up_cdi
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan

VENDOR = "k8s.device-plugin.nvidia.com"
SETTINGS = CdiSettings(("enable-coherent-annotations",), ("update-ldcache",))


@dataclass
class FakeBackend:
    """Reads what it is told to."""

    read: Callable[[], Inventory]
    loadable: bool = True

    def is_loadable(self) -> bool:
        return self.loadable


class Node(MadeUpNode):
    """Makes previews."""

    loadable = True

    def backend(self) -> Backend:
        return cast("Backend", FakeBackend(lambda: self.inventory, self.loadable))

    def config(self, **flags: Any) -> Config:
        return a_config(container_driver_root=self.root, **flags)

    def preview(self, **flags: Any) -> Preview:
        return make_preview(self.config(**flags), SETTINGS, self.backend())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    made.take_over(monkeypatch)
    return made


@pytest.mark.parametrize("naming", ["uuid", "index"])
def test_the_preview_is_what_the_plugin_writes(node: Node, naming: str, tmp_path: Path) -> None:
    node.tree.node("/dev/gdrdrv", 240, 0)
    node.add_channel()
    config = replace(
        node.config(
            device_list_strategy=("cdi-cri",),
            device_id_strategy=naming,
            nvidia_driver_root="/host",
            gdrcopy_enabled=True,
            gds_enabled=True,
        ),
        imex=Imex(channel_ids=(0,), required=True),
    )
    plan = make_plan(with_default_resources(config, node.inventory), node.inventory)
    channels = find_channels((0,), node.root, required=True)
    settings = replace(SETTINGS, directory=str(tmp_path / "plugin"))
    set_up_cdi(config, settings, node.inventory, plan, channels)

    preview = make_preview(config, SETTINGS, node.backend())
    done = list(save_json(preview.specs, str(tmp_path / "ours")))

    by_plugin, ours = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("plugin", "ours")
    )
    assert ours == by_plugin
    assert sorted(ours) == [f"{VENDOR}-{c}.json" for c in ("gdrcopy", "gpu", "imex-channel")]
    assert f"{tmp_path}/ours/{VENDOR}-gpu.json: written" in done
    assert find_drifts(preview.specs, str(tmp_path / "plugin")) == ()


def test_a_configuration_without_cdi_is_previewed_all_the_same(node: Node) -> None:
    assert node.preview().unused
    assert not node.preview(device_list_strategy=("envvar", "cdi-annotations")).unused
    assert node.preview().specs == node.preview(device_list_strategy=("cdi-cri",)).specs


def test_what_is_left_out_is_not_previewed(node: Node) -> None:
    extensions = Extensions(gpus=GpuSelection(exclude=("0",)))

    got = make_preview(replace(node.config(), extensions=extensions), SETTINGS, node.backend())

    assert got.specs.specs[0].names == (f"{VENDOR}/gpu=GPU-1",)
    assert not list(got.errors())


def test_what_is_missing_is_told(node: Node) -> None:
    node.add(a_gpu(2))

    preview = node.preview(gds_enabled=True)

    assert list(preview.errors()) == [
        (f"GPU 2 (GPU-2) is left out: it has no device node, not even {node.root}/dev/nvidia12"),
        f"no specification holds {VENDOR}/gpu=GPU-2: containers that get it will not start",
    ]
    assert list(preview.warnings()) == [
        f"no specification for gds: none of /dev/nvidia-fs* is below {node.root}"
    ]
    assert f"nvidia-smi: not found below {node.root}" in preview.missing_files()


def test_no_gpu_at_all_is_told_once(node: Node) -> None:
    for gpu in node.inventory.gpus:
        node.tree.real(f"/dev/nvidia{gpu.minor}").unlink()

    assert list(node.preview().errors())[-1] == (
        f"no specification for gpu: no device node of any GPU is below {node.root}"
    )
    assert as_json(node.preview().specs) == ""


def test_what_the_plugin_refuses_is_refused(node: Node) -> None:
    with pytest.raises(ConfigError, match=r"device-list-strategy: .*magic"):
        node.preview(device_list_strategy=("magic",))
    with pytest.raises(ConfigError, match="blanks"):
        node.preview(cdi_annotation_prefix="a b")
    node.inventory = replace(node.inventory, driver_version="1.2")
    with pytest.raises(HardwareError, match="holds neither"):
        node.preview()
    node.loadable = False
    with pytest.raises(ConfigError, match="CDI needs the NVML library"):
        node.preview()


def test_the_text_holds_all_documents(node: Node) -> None:
    node.tree.node("/dev/gdrdrv", 240, 0)
    specs = node.preview(gdrcopy_enabled=True).specs
    wanted = [json.loads(spec.to_json()) for spec in specs.specs]
    assert len(wanted) == 2

    decoder, text, found = json.JSONDecoder(), as_json(specs), []
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()

    assert found == wanted
    assert list(yaml.safe_load_all(as_yaml(specs))) == wanted


def test_text_that_is_not_utf8_is_refused(node: Node, tmp_path: Path) -> None:
    specs = node.preview(nvidia_ctk_path="/bin/\udcff").specs

    for make in (as_json, as_yaml, lambda s: list(save_yaml(s, str(tmp_path)))):
        with pytest.raises(ConfigError, match="cannot be written: 'utf-8' codec"):
            make(specs)


def test_yaml_files_are_written_and_clash_with_those_in_json(node: Node, tmp_path: Path) -> None:
    specs = node.preview().specs
    directory = str(tmp_path / "cdi")

    assert list(save_yaml(specs, directory)) == [f"{directory}/{VENDOR}-gpu.yaml: written"]
    assert yaml.safe_load((tmp_path / "cdi" / f"{VENDOR}-gpu.yaml").read_text()) == json.loads(
        specs.specs[0].to_json()
    )
    assert list(twins(specs, directory)) == []
    list(save_json(specs, directory))
    assert list(twins(specs, directory)) == [
        (
            f"{directory}/{VENDOR}-gpu.json and .yaml hold the same devices: no runtime resolves them "
            "(remove one of the files)"
        )
    ]
    assert "no longer asked for" in "".join(save_json(replace(specs, classes=()), directory))
