from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.draft import Draft
from gpu_device_plugin.cdi.model import ContainerEdits, Device, DeviceNode, Hook, Mount
from gpu_device_plugin.cdi.options import CdiOptions, Roots
from gpu_device_plugin.cdi.transform import simplify, to_host

LIBRARY = "/usr/lib/libcuda.so.1"


def moved(driver: str, dev: str, target: str, target_dev: str) -> tuple[str, str]:
    """Host paths of a library and of a device node found below these roots."""
    roots = Roots.of(CdiOptions(driver, dev, target, target_dev))
    join = {"/": ""}
    mount = Mount(join.get(roots.driver, roots.driver) + LIBRARY, LIBRARY)
    node_path = join.get(roots.dev, roots.dev) + "/dev/nvidia0"
    node = DeviceNode("/dev/nvidia0", "" if node_path == "/dev/nvidia0" else node_path)
    edits = to_host(Draft((), ContainerEdits(mounts=(mount,), device_nodes=(node,))), roots).edits
    return edits.mounts[0].host_path, edits.device_nodes[0].host_path


@pytest.mark.parametrize(
    ("roots", "library", "node"),
    [
        (("/driver-root", "/driver-root", "/run/d", "/"), "/run/d" + LIBRARY, "/run/d/dev/nvidia0"),
        (("/driver-root", "/driver-root", "/", "/"), LIBRARY, "/dev/nvidia0"),
        (("/driver-root", "/", "/run/d", "/"), "/run/d" + LIBRARY, "/dev/nvidia0"),
        (("/driver-root", "/", "/run/d", "/run/d"), "/run/d" + LIBRARY, "/run/d/dev/nvidia0"),
        (("/driver-root", "/x/dev", "/", "/y/dev"), LIBRARY, "/x/dev/dev/nvidia0"),
        (("/driver-root/", "", "//run/d/", ""), "/run/d" + LIBRARY, "/run/d/dev/nvidia0"),
        (("/", "/", "/", "/"), LIBRARY, ""),
        (("/", "/", "/", "/run/d"), LIBRARY, ""),
        (("", "", "", ""), LIBRARY, ""),
    ],
)
def test_roots(roots: tuple[str, str, str, str], library: str, node: str) -> None:
    if roots[1] == "/x/dev":  # a dev root that is a /dev itself is not doubled
        node = "/y/dev/dev/nvidia0"
    assert moved(*roots) == (library, node)


def test_hooks_move_but_not_their_arguments() -> None:
    hook = Hook("createContainer", "/usr/bin/nvidia-ctk", ("nvidia-ctk", "--folder", "/usr"))
    relative = Hook("createContainer", "nvidia-ctk")
    roots = Roots.of(CdiOptions("/", "/", "/run/nvidia/driver", "/run/nvidia/driver"))

    edits = to_host(Draft((), ContainerEdits(hooks=(hook, relative))), roots).edits

    assert [h.path for h in edits.hooks] == ["/run/nvidia/driver/usr/bin/nvidia-ctk", "nvidia-ctk"]
    assert edits.hooks[0].args == hook.args


def test_only_whole_parts_of_a_path_are_the_root() -> None:
    roots = Roots.of(CdiOptions("/driver-root", target_driver_root="/"))
    mount = Mount("/driver-root-old/x", "/x")

    assert to_host(Draft((), ContainerEdits(mounts=(mount,))), roots).edits.mounts == (mount,)


def node(path: str) -> DeviceNode:
    return DeviceNode(path, major=1)


def test_common_parts_leave_the_devices() -> None:
    common = ContainerEdits(("A=1",), (node("/dev/c"),), hooks=(Hook("poststop", "/h"),))
    device = Device("a", ContainerEdits(("A=1", "B=2"), (node("/dev/c"), node("/dev/a"))))

    draft = simplify(Draft((device,), common))

    assert draft.devices[0].edits == ContainerEdits(("B=2",), (node("/dev/a"),))


def test_a_device_of_common_parts_only_keeps_them() -> None:
    common = ContainerEdits(device_nodes=(node("/dev/c"),))

    assert simplify(Draft((Device("a", common),), common)).devices[0].edits == common


def test_order() -> None:
    names = ["MIG-1", "GPU-2", "10", "2"]
    paths = ["/dev/dri/card0", "/dev/b", "/dev/a", "/dev/nvidia-caps/x"]
    edits = ContainerEdits(
        device_nodes=tuple(node(p) for p in paths), mounts=tuple(Mount(p, p) for p in paths)
    )

    draft = simplify(Draft(tuple(Device(n, edits) for n in names)))

    in_order = ["/dev/a", "/dev/b", "/dev/dri/card0", "/dev/nvidia-caps/x"]
    assert [d.name for d in draft.devices] == ["10", "2", "GPU-2", "MIG-1"]
    assert [n.path for n in draft.devices[0].edits.device_nodes] == in_order
    assert [m.container_path for m in draft.devices[0].edits.mounts] == in_order


PATHS = st.sampled_from(["/dev/a", "/dev/b", "/dev/dri/c", "/r/dev/a", "/r/x"])
EDITS = st.builds(
    ContainerEdits,
    env=st.lists(st.sampled_from(["A=1", "B=2"]), max_size=3).map(tuple),
    device_nodes=st.lists(st.builds(DeviceNode, PATHS, st.just("") | PATHS), max_size=4).map(tuple),
    mounts=st.lists(st.builds(Mount, PATHS, PATHS), max_size=4).map(tuple),
    additional_gids=st.lists(st.integers(1, 3), max_size=3).map(tuple),
)
DRAFTS = st.builds(
    Draft,
    st.lists(st.builds(Device, st.sampled_from(["a", "b", "0"]), EDITS), max_size=3).map(tuple),
    EDITS,
)


@given(DRAFTS)
def test_simplifying_loses_nothing_and_is_done_once(draft: Draft) -> None:
    simple = simplify(draft)

    assert simplify(simple) == simple
    for before in draft.devices:
        every = {
            n for d in simple.devices if d.name == before.name for n in d.edits.device_nodes
        } | set(simple.edits.device_nodes)
        assert every >= set(before.edits.device_nodes)


@given(DRAFTS, st.sampled_from(["/r", "/", "/dev"]), st.sampled_from(["/t", "/"]))
def test_container_paths_never_change(draft: Draft, root: str, target: str) -> None:
    roots = Roots.of(CdiOptions(root, target_driver_root=target))

    done = to_host(draft, roots)

    assert [m.container_path for m in done.edits.mounts] == [
        m.container_path for m in draft.edits.mounts
    ]
    assert [n.path for n in done.edits.device_nodes] == [n.path for n in draft.edits.device_nodes]
    if root != target:
        assert all(n.host_path for n in done.edits.device_nodes)
