"""What is made, warned of, left out and refused on nodes that are not as they should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.cdi.generate import (
    GeneratedSpecs,
    additional_devices,
    generate,
    missing_names,
)
from gpu_device_plugin.cdi.model import ContainerEdits, Hook, Spec
from gpu_device_plugin.cdi.names import CdiClass
from gpu_device_plugin.cdi.options import CdiOptions, Naming
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.testing import FakeTree, elf
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import (
    Gpu,
    Inventory,
    MigAttributes,
    MigDevice,
    MigProfile,
    Platform,
    UnreadableGpu,
    sysfs_address,
)
from gpu_device_plugin.imex import ImexChannel

V = "550.1"
LIB = "/usr/lib/x86_64-linux-gnu"
MINORS = "/proc/driver/nvidia-caps/mig-minors"
OPTIONS = CdiOptions(driver_root="/driver-root", target_driver_root="/", naming=Naming.INDEX)
SHARE = MigAttributes(14, 1, 0, 0, 0, 0, 1, 1, 4864)


class Node:
    """A node with a driver below /driver-root, whose parts a test can change."""

    def __init__(self, directory: Path) -> None:
        self.tree = FakeTree(directory)
        self.options = OPTIONS
        self.inventory = Inventory(Platform.NVML, driver_version=V, cuda_driver_version=12040)
        self.machine = System(search_path="/usr/bin", kernel_release="6.1")
        self.tree.library(f"/driver-root{LIB}/libcuda.so.{V}", "libcuda.so.1")
        for number, name in enumerate(("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")):
            self.tree.node(f"/driver-root/dev/{name}", 195, 200 + number)

    def add_gpu(self, index: int, nodes: bool = True, **fields: object) -> Gpu:
        gpu = replace(
            Gpu(index, f"GPU-{index}", index, "NVIDIA A100", pci_bus_id=f"00000000:0{index}:00.0"),
            **fields,  # type: ignore[arg-type]
        )
        self.inventory = replace(self.inventory, gpus=(*self.inventory.gpus, gpu))
        if nodes:
            self.tree.node(f"/driver-root/dev/nvidia{gpu.minor}", 195, gpu.minor)
        return gpu

    def add_mig_gpu(self, index: int, *instances: int) -> Gpu:
        migs = tuple(
            MigDevice(slot, f"MIG-{index}-{slot}", gi, 0, MigProfile(1, 1, 5), SHARE, 0)
            for slot, gi in enumerate(instances)
        )
        return self.add_gpu(index, mig_enabled=True, mig_devices=migs)

    def set(self, **changes: object) -> None:
        self.options = replace(self.options, **changes)  # type: ignore[arg-type]

    def run(self) -> GeneratedSpecs:
        return generate(self.options, self.inventory, self.tree.system(self.machine))

    def spec(self, cls: CdiClass = CdiClass.GPU) -> Spec:
        spec = self.run().spec(cls)
        assert spec is not None
        return spec


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def paths(edits: ContainerEdits) -> list[str]:
    return [n.path for n in edits.device_nodes]


def mounted(edits: ContainerEdits) -> dict[str, str]:
    return {m.container_path: m.host_path for m in edits.mounts}


def hook_of(edits: ContainerEdits, name: str) -> list[Hook]:
    return [hook for hook in edits.hooks if name in hook.args]


def links_of(edits: ContainerEdits) -> list[str]:
    return [a for h in hook_of(edits, "create-symlinks") for a in h.args if "::" in a]


# ------------------------------------------------------------------ devices


def test_names_are_those_that_are_handed_out(node: Node) -> None:
    node.add_gpu(0)
    node.add_gpu(2)

    specs = node.run()

    assert specs.specs[0].names == (
        "k8s.device-plugin.nvidia.com/gpu=0",
        "k8s.device-plugin.nvidia.com/gpu=2",
    )
    assert missing_names(specs, ["0", "2", "2"]) == []
    assert missing_names(specs, ["GPU-0", "1", "1"]) == [
        "k8s.device-plugin.nvidia.com/gpu=GPU-0",
        "k8s.device-plugin.nvidia.com/gpu=1",
    ]


def test_the_node_has_the_minor_not_the_index(node: Node) -> None:
    node.add_gpu(0, minor=5)

    assert paths(node.spec().devices[0].edits) == ["/dev/nvidia5"]


def test_a_gpu_without_nodes_does_not_take_the_others_with_it(node: Node) -> None:
    node.add_gpu(0)
    node.add_gpu(1, nodes=False)

    specs = node.run()

    assert missing_names(specs, ["0", "1"]) == ["k8s.device-plugin.nvidia.com/gpu=1"]
    assert specs.problems == (
        "GPU 1 (GPU-1) is left out: it has no device node, not even /driver-root/dev/nvidia1",
    )


def test_no_gpu_with_nodes_drops_the_class_with_the_reason(node: Node) -> None:
    node.add_gpu(0, nodes=False)

    specs = node.run()

    assert specs.specs == ()
    assert specs.classes[0].reason == "no device node of any GPU is below /driver-root"
    assert missing_names(specs, ["0"]) == ["k8s.device-plugin.nvidia.com/gpu=0"]


def test_a_gpu_with_only_drm_nodes_is_kept_and_reported(node: Node) -> None:
    node.add_gpu(0, nodes=False)
    node.tree.folder("/sys/bus/pci/devices/0000:00:00.0/drm/card0")
    node.tree.node("/driver-root/dev/dri/card0", 226, 0, 0o660)

    specs = node.run()

    assert paths(specs.specs[0].devices[0].edits) == ["/dev/dri/card0"]
    assert "GPU 0 (GPU-0) will not work" in specs.problems[0]


def test_no_gpu_at_all(node: Node) -> None:
    with pytest.raises(HardwareError, match="no GPU and no MIG device"):
        node.run()


def test_unreadable_gpus_are_reported(node: Node) -> None:
    lost = UnreadableGpu(1, "GPU is lost")
    node.inventory = replace(node.inventory, unreadable=(lost,))
    with pytest.raises(HardwareError, match=r"\(GPU 1: GPU is lost\)"):
        node.run()

    node.add_gpu(0)
    assert node.run().problems == ("GPU 1 is left out: GPU is lost",)


def test_two_gpus_of_one_name(node: Node) -> None:
    node.set(naming=Naming.UUID)
    node.add_gpu(0)
    node.add_gpu(1, uuid="GPU-0")

    specs = node.run()

    assert [d.name for d in specs.specs[0].devices] == ["GPU-0"]
    assert "another device is called GPU-0" in specs.problems[0]


def test_a_link_to_a_node_is_no_node(node: Node) -> None:
    node.add_gpu(0)
    node.add_gpu(1, nodes=False)
    node.tree.link("/driver-root/dev/nvidia1", "nvidia0")

    assert len(node.spec().devices) == 1


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:0F:00.0", "0000:0f:00.0"),
        ("0000:0f:00.0", "0000:0f:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("00010000:0F:00.0", "10000:0f:00.0"),
        ("", ""),
        ("x:0f:00.0", ""),
        ("0000:../../x", ""),
    ],
)
def test_pci_addresses(bus_id: str, address: str) -> None:
    assert sysfs_address(bus_id) == address


def test_links_by_pci_address_lead_to_own_nodes_only(node: Node) -> None:
    node.add_gpu(0)
    node.tree.folder("/sys/bus/pci/devices/0000:00:00.0/drm/card0")
    node.tree.node("/driver-root/dev/dri/card0", 226, 0)
    node.tree.node("/driver-root/dev/dri/card1", 226, 1)
    by_path = "/driver-root/dev/dri/by-path/pci-0000:00:00.0"
    node.tree.link(f"{by_path}-card", "../card1")
    node.tree.link(f"{by_path}-render", "/driver-root/dev/dri/card0")

    assert links_of(node.spec().devices[0].edits) == [
        f"/driver-root/dev/dri/card0::{by_path}-render"
    ]


def test_groups_of_restricted_nodes(node: Node) -> None:
    node.add_gpu(0, nodes=False)
    node.tree.node("/driver-root/dev/nvidia0", 195, 0, 0o660, gid=44)
    node.tree.node("/driver-root/dev/nvidia-modeset", 195, 254, 0o664, gid=45)

    spec = node.spec()
    assert spec.version == "0.7.0"
    assert spec.devices[0].edits.additional_gids == (44,)
    assert spec.edits.additional_gids == (45,)

    node.set(feature_flags=frozenset({"no-additional-gids-for-device-nodes"}))
    assert node.spec().version == "0.5.0"
    assert node.spec().devices[0].edits.device_nodes[0].gid == 44


def test_annotations_of_coherent_gpus(node: Node) -> None:
    node.add_gpu(0, coherent=True)
    node.add_gpu(1)
    node.add_gpu(2, coherent=None)
    assert node.spec().devices[0].annotations == {}

    node.set(feature_flags=frozenset({"enable-coherent-annotations", "unknown", ""}))
    assert [dict(d.annotations) for d in node.spec().devices] == [
        {"gpu.nvidia.com/coherent": "true"},
        {"gpu.nvidia.com/coherent": "false"},
        {},
    ]


# ---------------------------------------------------------------------- MIG


def test_mig_devices_without_their_gpu(node: Node) -> None:
    node.add_mig_gpu(0, 1, 2)
    node.tree.file(MINORS, "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n" * 2)
    for minor in (12, 13):
        node.tree.node(f"/driver-root/dev/nvidia-caps/nvidia-cap{minor}", 237, minor, 0o444)

    specs = node.run()

    assert [d.name for d in specs.specs[0].devices] == ["0:0"]
    assert specs.problems == (
        f"MIG device 0:1 (MIG-0-1) is left out: {MINORS}: no line for gpu0/gi2/ci0 or its GPU instance",
    )


def test_a_gpu_in_mig_mode_as_a_whole(node: Node) -> None:
    node.add_mig_gpu(0)
    with pytest.raises(HardwareError, match="no GPU and no MIG device"):
        node.run()

    node.set(whole_mig_gpus=True)
    assert [d.name for d in node.spec().devices] == ["0"]


def test_missing_capabilities_stop_everything(node: Node) -> None:
    node.add_gpu(0)
    node.add_mig_gpu(1, 1)

    with pytest.raises(HardwareError, match=f"{MINORS}: cannot be read: No such file"):
        node.run()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"gpu0/gi1/access " + b"9" * 5000, "no line for gpu0/gi1/"), (b"x" * (17 << 20), "cannot")],
)
def test_a_table_that_is_none(node: Node, content: bytes, message: str) -> None:
    node.add_mig_gpu(0, 1)
    node.tree.file(MINORS, content)

    with pytest.raises(HardwareError, match=f"{MINORS}: {message}"):
        node.run()


def test_nothing_but_mig_devices_without_capabilities(node: Node) -> None:
    node.add_mig_gpu(0, 1)
    node.tree.file(MINORS, "config 1\n")

    with pytest.raises(HardwareError, match="no line for gpu0/gi1/ci0"):
        node.run()


def test_a_mig_device_without_capability_nodes_has_its_gpu(node: Node) -> None:
    node.add_mig_gpu(0, 1)
    node.tree.file(MINORS, "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n")

    specs = node.run()

    assert paths(specs.specs[0].devices[0].edits) == ["/dev/nvidia0"]
    assert "/dev/nvidia-caps/nvidia-cap12: not found below /driver-root" in specs.warnings


def test_old_mig_uuids_are_no_names(node: Node) -> None:
    node.set(naming=Naming.UUID)
    gpu = node.add_mig_gpu(0, 1)
    old = replace(gpu.mig_devices[0], uuid="MIG-GPU-0/1/0")
    node.inventory = replace(node.inventory, gpus=(replace(gpu, mig_devices=(old,)),))
    node.tree.file(MINORS, "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n")

    with pytest.raises(ConfigError, match="--device-id-strategy=index"):
        node.run()


def test_an_unknown_mig_state_is_reported(node: Node) -> None:
    node.add_gpu(0, mig_problem="insufficient permissions")

    specs = node.run()

    assert len(specs.specs[0].devices) == 1
    assert "its MIG state is unknown: insufficient permissions" in specs.problems[0]


# ------------------------------------------------------------------- driver


def test_missing_files_are_warnings(node: Node) -> None:
    node.add_gpu(0)

    specs = node.run()

    assert specs.problems == ()
    assert "nvidia-smi: not found below /driver-root" in specs.warnings
    assert mounted(specs.specs[0].edits) == {f"{LIB}/libcuda.so.{V}": f"{LIB}/libcuda.so.{V}"}


def test_no_driver_below_the_root(node: Node) -> None:
    node.add_gpu(0)
    node.inventory = replace(node.inventory, driver_version="999.9")

    with pytest.raises(HardwareError, match=r"/driver-root: holds neither libcuda\.so\.999\.9 nor"):
        node.run()


def test_a_library_that_is_another_drivers(node: Node) -> None:
    node.add_gpu(0)
    node.inventory = replace(node.inventory, driver_version="550.2")
    node.tree.link(f"/driver-root{LIB}/libcuda.so.550.2", f"libcuda.so.{V}")

    with pytest.raises(HardwareError, match=r"libcuda\.so\.550\.1: not the library of .* 550\.2"):
        node.run()


def test_an_unknown_version_is_read_off_the_library(node: Node) -> None:
    node.add_gpu(0)
    node.inventory = replace(node.inventory, driver_version="")

    hooks = hook_of(node.spec().edits, "enable-cuda-compat")

    assert hooks[0].args[-1] == f"--host-driver-version={V}"


def test_a_name_without_version(node: Node) -> None:
    node.add_gpu(0)
    node.inventory = replace(node.inventory, driver_version="")
    node.tree.real(f"/driver-root{LIB}/libcuda.so.{V}").rename(
        node.tree.real(f"/driver-root{LIB}/libcuda.so.*.*")
    )

    with pytest.raises(HardwareError, match="does not tell the driver's version"):
        node.run()


def test_a_version_is_no_pattern(node: Node) -> None:
    node.add_gpu(0)
    node.inventory = replace(node.inventory, driver_version="*")

    with pytest.raises(HardwareError, match="holds neither"):
        node.run()


def test_only_the_first_library_directory_counts(node: Node) -> None:
    node.add_gpu(0)
    node.tree.library(f"/driver-root/usr/lib64/libcuda.so.{V}", "libcuda.so.1")
    node.tree.library(f"/driver-root{LIB}/libnvidia-ml.so.{V}", "libnvidia-ml.so.1")

    edits = node.spec().edits

    assert edits.env[0] == "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"
    assert list(mounted(edits)) == [f"/usr/lib64/libcuda.so.{V}"]


def test_a_root_that_is_a_link_or_has_a_slash_too_many(node: Node) -> None:
    node.add_gpu(0)
    plain = node.spec()
    node.tree.link("/elsewhere", "driver-root")
    for root in ("/elsewhere", "/driver-root/"):
        node.set(driver_root=root)
        assert node.spec() == plain


def test_absolute_links_are_mounted_from_where_they_lead_in_the_root(node: Node) -> None:
    node.add_gpu(0)
    node.set(target_driver_root="/run/nvidia/driver")
    node.tree.file("/usr/bin/real-smi", "the plugin's own", mode=0o755)
    node.tree.file("/driver-root/opt/real-smi", mode=0o755)
    node.tree.link("/driver-root/usr/bin/nvidia-smi", "/opt/real-smi")
    node.tree.library(f"/driver-root/opt/libnvidia-ml.so.{V}", "libnvidia-ml.so.1")
    node.tree.link(f"/driver-root{LIB}/libnvidia-ml.so.{V}", f"/opt/libnvidia-ml.so.{V}")
    node.tree.link(
        f"/driver-root{LIB}/libescape.so.{V}", "../../../../../../../../usr/bin/real-smi"
    )

    mounts = mounted(node.spec().edits)

    assert mounts["/usr/bin/nvidia-smi"] == "/run/nvidia/driver/opt/real-smi"
    assert mounts[f"/opt/libnvidia-ml.so.{V}"] == f"/run/nvidia/driver/opt/libnvidia-ml.so.{V}"
    assert all(host.startswith("/run/nvidia/driver/") for host in mounts.values())
    assert "/usr/bin/real-smi" not in mounts


def test_hostile_libraries_get_no_links(node: Node) -> None:
    node.add_gpu(0)
    below = f"/driver-root{LIB}"
    node.tree.file(f"{below}/libup.so.{V}", elf(["../../../etc/x"]))
    node.tree.file(f"{below}/libtwo.so.{V}", elf(["libtwo.so.1", "libtwo.so.2"]))
    node.tree.file(f"{below}/libtext.so.{V}", "text")
    node.tree.file(f"{below}/libGLX_nvidia.so.a::b.so.{V}", "text")
    node.tree.socket(f"{below}/libsocket.so.{V}")

    specs = node.run()

    assert links_of(specs.specs[0].edits) == [f"libcuda.so.1::{LIB}/libcuda.so"]
    assert len([w for w in specs.warnings if "no links are made for it" in w]) == 5
    assert len([w for w in specs.warnings if "no hook would understand it" in w]) == 1


def test_links_of_ordinary_libraries(node: Node) -> None:
    node.add_gpu(0)
    below = f"/driver-root{LIB}"
    node.tree.library(f"{below}/libtls.so.{V}", f"libtls.so.{V}")
    node.tree.link(f"{below}/libtls.so", f"libtls.so.{V}")
    node.tree.library(f"{below}/libml.so.{V}", "libml.so.1")
    node.tree.link(f"{below}/libml.so.1", f"libml.so.{V}")
    node.tree.library(f"{below}/libempty.so.{V}", "")
    node.tree.link(f"{below}/libempty.so", f"libempty.so.{V}")
    node.tree.library(f"{below}/libplain.so.{V}", "libplain.so.1")
    node.tree.file(f"{below}/libplain.so.1")

    assert links_of(node.spec().edits) == [
        f"libcuda.so.1::{LIB}/libcuda.so",
        f"libempty.so.{V}::{LIB}/libempty.so",
        f"libml.so.{V}::{LIB}/libml.so.1",
        f"libtls.so.{V}::{LIB}/libtls.so",
    ]


def test_firmware_of_all_directories(node: Node) -> None:
    node.add_gpu(0)
    node.tree.file("/sys/module/firmware_class/parameters/path", " /opt/[fw] \n")
    for folder in ("/opt/[fw]", "/lib/firmware/updates/6.1", "/lib/firmware", "/lib/firmware/5.0"):
        node.tree.file(f"/driver-root{folder}/nvidia/{V}/gsp_x.bin")

    places = [p for p in mounted(node.spec().edits) if p.endswith(".bin")]

    assert places == [
        f"/lib/firmware/nvidia/{V}/gsp_x.bin",
        f"/opt/[fw]/nvidia/{V}/gsp_x.bin",
        f"/lib/firmware/updates/6.1/nvidia/{V}/gsp_x.bin",
    ]


def test_sockets(node: Node) -> None:
    node.add_gpu(0)
    node.tree.socket("/driver-root/var/run/nvidia-persistenced/socket")
    node.tree.socket("/driver-root/run/nvidia-fabricmanager/socket")
    node.tree.folder("/driver-root/tmp/nvidia-mps")

    mounts = node.spec().edits.mounts
    sockets = [m.container_path for m in mounts if m.options[-1] == "noexec"]
    assert sockets == [
        "/run/nvidia-fabricmanager/socket",
        "/var/run/nvidia-persistenced/socket",
    ]

    node.set(feature_flags=frozenset({"disable-ipc-discoverer"}))
    assert not any("socket" in m.container_path for m in node.spec().edits.mounts)


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "x86_64"), ("aarch64", "aarch64")])
def test_vulkan_files_of_the_architecture(node: Node, machine: str, name: str) -> None:
    node.add_gpu(0)
    node.machine = replace(node.machine, machine=machine, xdg_data_dirs="/opt/share:")
    for arch in ("x86_64", "aarch64"):
        node.tree.file(f"/driver-root/opt/share/vulkan/icd.d/nvidia_icd.{arch}.json")
    node.tree.file("/driver-root/vulkan/icd.d/nvidia_icd.json")

    shared = f"vulkan/icd.d/nvidia_icd.{name}.json"
    assert {p: h for p, h in mounted(node.spec().edits).items() if "vulkan" in p} == {
        "/etc/vulkan/icd.d/nvidia_icd.json": "/vulkan/icd.d/nvidia_icd.json",
        f"/etc/{shared}": f"/opt/share/{shared}",
    }


def test_explicit_libraries(node: Node) -> None:
    node.add_gpu(0)
    node.tree.library(f"/driver-root{LIB}/libEGL.so.1", "libEGL.so.1")
    node.tree.link(f"/driver-root{LIB}/libEGL.so", "libEGL.so.1")
    assert f"{LIB}/libEGL.so.1" not in mounted(node.spec().edits)

    node.set(feature_flags=frozenset({"enable-explicit-driver-libraries"}))
    assert f"{LIB}/libEGL.so.1" in mounted(node.spec().edits)


# -------------------------------------------------------------------- hooks


def test_disabled_hooks(node: Node) -> None:
    node.add_gpu(0)
    node.set(disabled_hooks=frozenset({"update-ldcache", "create-symlinks", "no-such-hook"}))

    specs = node.run()

    names = [hook.args[2] for hook in specs.specs[0].edits.hooks]
    assert names == ["enable-cuda-compat", "disable-device-node-modification"]
    assert "disabled hook 'no-such-hook' is not one that is known" in specs.warnings


def test_all_hooks_disabled(node: Node) -> None:
    node.add_gpu(0)
    node.set(disabled_hooks=frozenset({"all"}), hook_path="")

    assert node.spec().edits.hooks == ()


def test_no_hook_program(node: Node) -> None:
    node.add_gpu(0)
    node.set(hook_path="")

    with pytest.raises(ConfigError, match=r"is empty \(--nvidia-cdi-hook-path\)"):
        node.run()


def test_another_hook_program_gets_no_sub_command(node: Node) -> None:
    node.add_gpu(0)
    node.set(hook_path="/opt/bin/nvidia-cdi-hook")

    hook = hook_of(node.spec().edits, "enable-cuda-compat")[0]

    assert hook.path == "/opt/bin/nvidia-cdi-hook"
    assert hook.args[:2] == ("nvidia-cdi-hook", "enable-cuda-compat")


# ------------------------------------------------------------ other classes


def test_classes_without_nodes_are_dropped_with_the_reason(node: Node) -> None:
    node.add_gpu(0)
    node.set(gds=True, gdrcopy=True, mofed=True)
    node.tree.node("/driver-root/dev/infiniband/rdma_cm", 10, 58)

    specs = node.run()

    assert [(r.cls, r.reason) for r in specs.classes if r.spec is None] == [
        (CdiClass.GDRCOPY, "none of /dev/gdrdrv is below /driver-root"),
        (CdiClass.GDS, "none of /dev/nvidia-fs* is below /driver-root"),
    ]
    assert additional_devices(specs) == ["k8s.device-plugin.nvidia.com/mofed=all"]


def test_imex_channels(node: Node) -> None:
    node.add_gpu(0)
    path = "/dev/nvidia-caps-imex-channels/channel0"
    node.set(
        imex_channels=(ImexChannel("0", path, path),), driver_root="/driver-root", dev_root="/"
    )
    node.tree.node("/dev/nvidia0", 195, 0)

    spec = node.spec(CdiClass.IMEX)

    assert spec.to_dict()["devices"] == [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": path, "hostPath": path}]}}
    ]
    assert spec.to_dict()["containerEdits"] == {}


def test_a_bad_vendor(node: Node) -> None:
    node.add_gpu(0)
    node.set(vendor="no vendor")

    with pytest.raises(ConfigError, match="vendor 'no vendor'"):
        node.run()


def test_the_platform_can_be_chosen(node: Node) -> None:
    node.set(platform=Platform.WSL)
    node.tree.node("/driver-root/dev/dxg", 10, 125)
    node.tree.file("/store/libcuda.so.1.1")
    node.machine = replace(node.machine, driver_stores=lambda: ["/store", "/none"])

    specs = node.run()

    assert specs.specs[0].names == ("k8s.device-plugin.nvidia.com/gpu=all",)
    assert "several driver stores, all are used: /store, /none" in specs.warnings


@pytest.mark.parametrize("stores", [list, lambda: ["relative"]])
def test_wsl_without_a_windows_driver(node: Node, stores: Callable[[], list[str]]) -> None:
    node.set(platform=Platform.WSL)
    node.machine = replace(node.machine, driver_stores=stores)

    with pytest.raises(HardwareError, match="driver store"):
        node.run()


def test_wsl_without_its_device(node: Node) -> None:
    node.set(platform=Platform.WSL)
    node.machine = replace(node.machine, driver_stores=lambda: ["/store"])

    assert node.run().classes[0].reason == "/driver-root/dev/dxg is missing"


def test_wsl_of_which_every_gpu_is_left_out(node: Node) -> None:
    node.add_gpu(0)
    node.set(platform=Platform.WSL, left_out=frozenset({"0"}))

    assert node.run().classes[0].reason == "extensions.gpus leaves out every GPU"


def test_this_machine_is_described_without_a_prefix() -> None:
    assert System.current().prefix == ""
    assert System.current().kernel_release


# ------------------------------------------------------------ hostile files

PLACES = ("/usr/lib64", LIB, "/lib64", "/usr/bin", "/opt", "/etc")
FILES = (f"libcuda.so.{V}", f"libnvidia-ml.so.{V}", "libcuda.so.1", "nvidia-smi", "nvidia-imex")
WAYS = ("/", "../", "../../../../../../", "./", "/opt/", "/usr/../../", f"{LIB}/", "")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(FILES)),
        st.none() | st.tuples(st.sampled_from(WAYS), st.sampled_from((*FILES, "x", ".", ""))),
        max_size=14,
    )
)
def test_no_tree_of_links_leads_out_of_the_driver_root(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[tuple[str, str], tuple[str, str] | None],
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    node.set(target_driver_root="/run/nvidia/driver", dev_root="/driver-root")
    node.add_gpu(0)
    for place in PLACES:
        node.tree.file(f"{place}/outside", mode=0o755)
    for (place, name), target in files.items():
        path = f"/driver-root{place}/{name}"
        if os.path.lexists(node.tree.real(path)):
            continue
        if target is None:
            node.tree.file(path, elf([name]), 0o755)
        elif "".join(target):
            node.tree.link(path, "".join(target))
    try:
        specs = node.run().specs
    except HardwareError:
        return

    for mount in specs[0].edits.mounts:
        assert mount.host_path.startswith("/run/nvidia/driver/")
        inside = node.tree.real(mount.host_path.replace("/run/nvidia/driver", "/driver-root"))
        assert str(inside.resolve()).startswith(str(node.tree.real("/driver-root")))
        assert inside.exists()
