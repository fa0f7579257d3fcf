"""Labels through the C simulator of NVML, and what is left of them when its functions fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pynvml
import pytest
from support import nvmlsim
from support.labels import gfd_config, is_label_value, problems, published

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware import platform as platform_module
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.hardware.node_facts import (
    AutoSource,
    NodeFacts,
    NvmlSource,
    open_source,
)
from gpu_device_plugin.hardware.nvml.library import NvmlLibrary
from gpu_device_plugin.hardware.platform import Probes
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.labels.model import Facts

CLUSTER = "5f4dcc3b5aa765d61d8327deb882cf99"
Node = Callable[..., NvmlSource]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    if nvmlsim.COMPILER is None:
        pytest.skip("no C compiler to build the NVML simulator with")
    library = nvmlsim.build()

    def make(profile: str, extra: Iterable[str] = (), fabric: str = "") -> NvmlSource:
        simulated = SimulatedBackend.from_profile(profile)
        inventory = simulated.read()
        links = simulated.read_links(inventory, lambda: False)
        text = nvmlsim.profile_text(inventory, links, extra)
        if fabric:
            text = text.replace("[gpu]\n", f"[gpu]\nfabric {fabric}\n")
        path = tmp_path / "profile"
        path.write_text(text)
        monkeypatch.setenv("NVMLSIM_PROFILE", str(path))
        _pci_bus(tmp_path / "sys", inventory)
        source = NvmlSource(sysfs=str(tmp_path / "sys"))
        source._library.path = str(library)
        return source

    return make


def _pci_bus(root: Path, inventory: Inventory) -> None:
    for gpu in inventory.gpus:
        directory = root / "bus/pci/devices" / gpu.sysfs_id
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "class").write_text("0x030200\n")


def labels_of(source: NvmlSource, mig: str = "none") -> dict[str, str]:
    return published(gfd_config(mig), Facts(source.read(), machine="m"))


@pytest.mark.parametrize("profile", ["dgx-a100-mig", "t4x4", "gh200", "rtx4090x2", "k80x2"])
@pytest.mark.parametrize("mig", ["none", "single", "mixed"])
def test_the_labels_are_those_of_the_simulated_node(node: Node, profile: str, mig: str) -> None:
    wanted = published(gfd_config(mig), Facts(open_source("", profile).read(), machine="m"))
    wanted["gpu.mode"] = "compute"

    assert labels_of(node(profile), mig) == wanted


def absent(*_: object) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def test_the_fabric_is_told_by_whichever_query_there_is(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = node("hgx-b200", fabric=f"3 0 32766 {CLUSTER}")
    for query in ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"):
        assert labels_of(source)["gpu.clique"] == "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99.32766"
        monkeypatch.setattr(pynvml, query, absent)

    assert "gpu.clique" not in labels_of(source)


@pytest.mark.parametrize(
    "fabric", [f"1 0 1 {CLUSTER}", f"3 999 1 {CLUSTER}", f"3 0 1 {'0' * 32}", ""]
)
def test_gpus_that_are_not_attached_have_no_clique(node: Node, fabric: str) -> None:
    assert "gpu.clique" not in labels_of(node("hgx-b200", fabric=fabric))


def test_a_fabric_query_that_fails_costs_the_clique_only(node: Node) -> None:
    source = node("hgx-b200", ["fail nvmlDeviceGetGpuFabricInfo@3 999"], f"3 0 1 {CLUSTER}")
    labels = labels_of(source)

    assert "gpu.clique" not in labels
    assert labels["gpu.count"] == "8"
    assert "NVML does not tell the fabric of GPU 3" in source.read().failures[0]


@pytest.mark.parametrize(
    "failing",
    [
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetUUID@1:0",
        "nvmlDeviceGetGpuInstanceProfileInfo@2",
        "nvmlDeviceGetMaxMigDeviceCount@2",
    ],
)
@pytest.mark.parametrize("mig", ["none", "single", "mixed"])
def test_what_no_label_needs_may_fail(node: Node, failing: str, mig: str) -> None:
    whole = labels_of(node("dgx-a100-mig"), mig)  # of which GPU 2 is not cut
    source = node("dgx-a100-mig", [f"fail {failing} 4"])

    assert labels_of(source, mig) == whole
    assert source.read().failures == ()


@pytest.mark.parametrize("mig", ["none", "single", "mixed"])
def test_without_names_only_products_are_missing_and_the_number_of_a_model(
    node: Node, mig: str
) -> None:
    whole = labels_of(node("dgx-a100-mig"), mig)
    source = node("dgx-a100-mig", ["fail nvmlDeviceGetName 999"])
    wanted = {key: value for key, value in whole.items() if not key.endswith(".product")}
    if mig != "single":  # with single it says that nothing is offered
        del wanted["gpu.count"]

    assert labels_of(source, mig) == wanted
    text = "no name can be read of GPU 0, 1, 2, 3, 4, 5, 6, 7"
    assert text in problems(gfd_config(mig), Facts(source.read(), machine="m"))


def test_a_gpu_without_a_name_does_not_count_among_the_others(node: Node) -> None:
    labels = labels_of(node("t4x4", ["fail nvmlDeviceGetName@0 999"]))

    assert (labels["gpu.product"], labels["gpu.count"]) == ("Tesla-T4", "3")


def test_a_library_that_is_missing_is_told_without_a_flag_that_has_no_effect(
    tmp_path: Path,
) -> None:
    with pytest.raises(InitError, match=r"by the NVIDIA runtime \(NVIDIA Container Toolkit\)\?"):
        missing_from("").load()
    with pytest.raises(InitError, match="and --driver-root-ctr-path right"):
        missing_from(str(tmp_path)).load()


def missing_from(root: str) -> NvmlLibrary:
    library = NvmlLibrary(root)
    library.path = "/nowhere/libnvidia-ml.so.1"
    return library


FUNCTIONS = (
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlComputeInstanceGetInfo",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlInit",
)
RESULTS = (3, 4, 6, 13, 15, 999)
"""Not supported, no permission, not found, function not found, GPU is lost, unknown."""
NO_MIG = (3, 13)
MAY_DIFFER = {"count", "replicas", "mode", "product", "strategy"}
"""What may tell of fewer GPUs, or say that something is not known."""


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("where", ["", "@0", "@1:0"])
def test_whatever_fails_the_other_labels_stand(
    node: Node, result: int, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for mig in ("single", "mixed"):
        config = gfd_config(mig)
        whole = labels_of(node("dgx-a100-mig", fabric=f"3 0 1 {CLUSTER}"), mig)
        for function in FUNCTIONS:
            extra = [f"fail {function}{where} {result}"]
            source = node("dgx-a100-mig", extra, f"3 0 1 {CLUSTER}")
            try:
                facts = Facts(source.read(), machine="m")
            except InitError:
                assert function in {"nvmlInit", "nvmlDeviceGetCount"}, function
                continue
            labels = published(config, facts)
            if function == "nvmlDeviceGetMigMode" and result in NO_MIG:
                continue  # which says that the GPU cannot be cut at all
            for key, value in labels.items():
                assert is_label_value(value), (function, key, value)
                may_differ = key.rsplit(".", 1)[-1] in MAY_DIFFER
                assert may_differ or value == whole.get(key), (function, key, value)
            if function not in {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName"}:
                assert labels["gpu.machine"] == "m", function
            if not function.startswith("nvmlSystem"):
                assert labels["cuda.driver.major"] == "550", function


class TestAuto:
    def probing(self, monkeypatch: pytest.MonkeyPatch, *found: Probes) -> None:
        answers = list(found)
        monkeypatch.setattr(platform_module, "probe", lambda *_: answers.pop(0))

    def test_without_any_trace_of_a_driver_it_says_what_was_looked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.probing(monkeypatch, Probes(False, False, False, False))

        with pytest.raises(InitError, match=r"libnvidia-ml.so.1: no.*--device-discovery-strategy"):
            AutoSource().read()

    def test_it_looks_again_until_there_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nothing = Probes(False, False, False, False)
        self.probing(monkeypatch, nothing, Probes(False, True, False, False))
        source = AutoSource()
        with pytest.raises(InitError):
            source.read()
        monkeypatch.setattr(
            NvmlSource, "read", lambda self: NodeFacts(Inventory(self._detected), machine=self.name)
        )

        assert source.read() == source.read() == NodeFacts(Inventory(Platform.NVML), machine="nvml")

    def test_a_tegra_is_read_through_cuda_and_wsl_through_nvml(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.probing(
            monkeypatch,
            Probes(False, False, True, False),
            Probes(False, True, False, True),
            Probes(True, True, False, False),
        )

        assert [AutoSource._probe().name for _ in range(3)] == ["tegra", "tegra", "nvml"]
