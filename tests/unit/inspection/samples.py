"""Specifications of all kinds, for tests of what looks at them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from gpu_device_plugin.cdi.version import KNOWN_VERSIONS, minimum_version
from gpu_device_plugin.config.scalars import resolve

KIND = "k8s.device-plugin.nvidia.com/gpu"

names = st.sampled_from(["a", "b", "c", "0", "1:0", "GPU-1", "MIG-2"])
printable = st.characters(
    min_codepoint=0x20, max_codepoint=0xFFFD, exclude_categories=["C", "Zl", "Zp"]
)
"""What can stand in YAML as it is, which is how runtimes read JSON, too."""
texts = st.one_of(
    st.sampled_from(["", "x", "a b", 'q"', "é", "a,b", "(", "--x", "node", "\n"]),
    st.text(printable, min_size=1, max_size=8).filter(
        # PyYAML writes y, N and 1e3 without quotes, and go-yaml takes them for something else.
        lambda text: isinstance(resolve(text, None, plain=True), str)
    ),
)
paths = st.sampled_from(["/dev/a", "/dev/b", "/usr/lib/x.so.1", "/with blank", "/"])
ids = st.none() | st.integers(0, 2**32 - 1)


def few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


def nodes(path: st.SearchStrategy[str] = paths) -> st.SearchStrategy[DeviceNode]:
    return st.builds(
        DeviceNode,
        path=path,
        host_path=st.just("") | paths,
        type=st.sampled_from(["", "c", "b"]),
        major=st.integers(0, 3),
        minor=st.integers(0, 3),
        file_mode=st.none() | st.integers(0, 0o7777),
        permissions=st.sampled_from(["", "r", "rwm"]),
        uid=ids,
        gid=ids,
    )


mounts = st.builds(Mount, paths, paths, few(texts), st.sampled_from(["", "bind"]))
env = st.builds("{}={}".format, st.sampled_from(["A", "B"]), texts)
hooks = st.builds(
    Hook,
    hook_name=st.sampled_from(["createContainer", "poststop"]),
    path=paths,
    args=few(st.sampled_from(["nvidia-ctk", "hook", "update-ldcache", "--folder"]) | texts),
    env=few(env),
    timeout=st.none() | st.integers(0, 9),
)
edits = st.builds(
    ContainerEdits,
    env=few(env),
    device_nodes=few(nodes()),
    hooks=few(hooks),
    mounts=few(mounts),
    intel_rdt=st.none() | st.builds(IntelRdt, clos_id=st.sampled_from(["", "x"])),
    additional_gids=few(st.integers(0, 2**32 - 1)),
)
notes: st.SearchStrategy[dict[str, str]] = st.dictionaries(
    st.sampled_from(["a", "b.c/d"]), texts, max_size=2
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A specification that runtimes take."""
    devices = [
        Device(name, draw(edits.filter(lambda e: e != ContainerEdits())), draw(notes))
        for name in draw(st.lists(names, min_size=1, max_size=3, unique=True))
    ]
    spec = Spec("", KIND, tuple(devices), draw(edits), draw(notes))
    return replace(spec, version=minimum_version(spec))


broken_edits = st.builds(
    ContainerEdits,
    env=few(env | texts),
    device_nodes=few(nodes(paths | texts) | st.builds(DeviceNode, paths, type=texts)),
    net_devices=st.lists(st.builds(NetDevice, texts, texts), max_size=1).map(tuple),
    hooks=few(hooks | st.builds(Hook, texts, texts, env=few(texts))),
    mounts=few(st.builds(Mount, paths | texts, paths | texts)),
)
broken_specs = st.builds(
    Spec,
    version=st.sampled_from(KNOWN_VERSIONS) | texts.map(lambda text: text.removeprefix("v")),
    kind=st.sampled_from([KIND, "a.b/c.d", "a/", "x"]) | texts,
    devices=few(st.builds(Device, names | texts, broken_edits | st.just(ContainerEdits()))),
    edits=broken_edits,
)
"""Specifications that runtimes may or may not take."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(texts, children, max_size=3),
    max_leaves=6,
)
"""Anything that JSON can hold."""


def minimal(**edits: Any) -> dict[str, Any]:
    """The JSON of a specification with one device."""
    given = edits or {"env": ["A=b"]}
    return {
        "cdiVersion": "1.1.0",
        "kind": KIND,
        "devices": [{"name": "a", "containerEdits": given}],
        "containerEdits": {},
    }
