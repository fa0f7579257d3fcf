"""What is wrong with a profile's file is said in one line; nothing else ever comes of a file."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.hardware.simulated.gpus import GPU_KEYS, LEVELS
from gpu_device_plugin.hardware.simulated.node import SimulatedNode
from gpu_device_plugin.hardware.simulated.products import load_products
from gpu_device_plugin.hardware.simulated.profile import KEYS, parse_profile_text

GPU = "gpus: [{product: Tesla T4%s}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "node.yaml:1: a list is not a mapping (allowed: base, machine,"),
        ("gpu: 1", "node.yaml:1: gpu: there is no such key (allowed: base, machine,"),
        ("cuda: 12.4\ncuda: 12.5", "node.yaml:2: the key 'cuda' stands here twice"),
        ("a: [", "node.yaml:2: not YAML: did not find"),
        ("a: *b", "node.yaml:1: nothing is anchored as 'b' here"),
        ("--- {}\n--- {}", "node.yaml:2: a second document"),
        ("? [a]\n: b", "node.yaml:1: a list or a mapping cannot be a key"),
        ("[" * 17 + "]" * 17, "node.yaml:1: nested more than 16 levels deep"),
        ("cuda: new", "cuda: 'new' is no CUDA version (allowed: MAJOR.MINOR, such as 12.4)"),
        ("platform: amd", "platform: 'amd' is unknown (allowed: nvml, tegra, wsl)"),
        ("driver: []", "driver: a list is not a text (allowed: 1 to 79 printable characters)"),
        ('driver: ""', "driver: '' cannot be used (allowed: 1 to 79 printable characters)"),
        ("base: {a: b}", "base: a mapping is not a text"),
        ("base: nothing", "base: there is no simulated node 'nothing' (allowed: a30-mig,"),
        ("gpus: 8", "gpus: '8' is not a list"),
        ("gpus:\n- count: 1", "node.yaml:2: gpus[0]: a GPU without product (allowed: product: "),
        ("gpus: [{product: T4}]", "gpus[0].product: 'T4' is unknown (allowed: NVIDIA A100-SXM4"),
        (GPU % ", Count: 1", "gpus[0].Count: there is no such key (allowed: product, count,"),
        (GPU % ", count: 0", "gpus[0].count: '0' cannot be used (allowed: whole numbers from 1"),
        (GPU % ", count: 65", "count: '65' cannot be used (allowed: whole numbers from 1 to 64)"),
        (GPU % ", count: 1e1", "count: '1e1' cannot be used"),
        (GPU % ", count: 2, uuid: GPU-1", "gpus[0].uuid: 2 GPUs cannot have the same"),
        (GPU % ", uuid: MIG-1", "gpus[0].uuid: 'MIG-1' is no UUID of a GPU (allowed: GPU-,"),
        (GPU % ", memory: 4GB", "gpus[0].memory: '4GB' cannot be used (allowed: whole numbers"),
        (GPU % ", compute: 8", "gpus[0].compute: '8' is no compute capability (allowed: such as"),
        (GPU % ", health: bad", "health: 'bad' is unknown (allowed: watched, unwatched, unmon"),
        (GPU % ", mig: [1g.5gb]", "gpus[0].mig: Tesla T4 has no MIG"),
        (GPU % ", mig-slots: [0]", "gpus[0].mig-slots: not a slot for each of 0 MIG devices"),
        (GPU % ", mig: on", "gpus[0].mig: 'on' is not a list"),
        ("gpus: [{product: Tesla T4, count: 60}, {product: Tesla T4, count: 5}]", "too many GPUs"),
        ("gpus: [{product: Tesla T4, minor: 1}, {product: Tesla T4}]", "the same minor: 1"),
        (GPU % "" + "\npci: [1]", "node.yaml:2: pci[0]: '1' is no PCI address (allowed: such as"),
        ("gpus: [{product: Tesla T4, count: 2}]\npci: ['1:00.0', '01:00.0']", "no PCI address"),
        (
            "gpus: [{product: Tesla T4, count: 2}]\npci: [01:00.0, 0000:01:00.0]",
            "gpus: two GPUs have the same PCI: 00000000:01:00.0",
        ),
        (GPU % "" + "\nnuma: [a]", "numa[0]: 'a' cannot be used (allowed: whole numbers from -1"),
        (GPU % "" + "\ntopology: {NV4: []}", "topology.NV4: there is no such key (allowed: PIX,"),
        (GPU % "" + "\ntopology: {PIX: [0]}", "topology.PIX[0]: '0' is not a list"),
        (GPU % "" + "\nnvlinks: {0-0: 1}", "nvlinks.0-0: '0-0' is no pair of GPUs (allowed: two"),
        (GPU % "" + "\nnvlinks: {0-1: 0}", "nvlinks.0-1: '0' cannot be used"),
        (GPU % "" + "\nnvlinks: {0-1: 1, 1-0: 1}", "nvlinks.1-0: the pair stands here twice"),
        (
            "gpus: [{product: NVIDIA A30, mig: [3g.20gb]}]",
            "gpus[0].mig: NVIDIA A30 has no MIG profile '3g.20gb' (allowed: 1g.6gb, 2g.12gb,",
        ),
        (
            "gpus: [{product: NVIDIA A30, mig: [2g.12gb:3c]}]",
            "'3c' are no compute instances of 2g.12gb (allowed: 1c to 2c joined by +,",
        ),
        (
            "gpus: [{product: NVIDIA A30, mig: [4g.24gb, 1g.6gb]}]",
            "the MIG instances 4g.24gb, 1g.6gb do not fit on one NVIDIA A30",
        ),
        (
            "gpus: [{product: NVIDIA A30, mig: [1g.6gb+me, 1g.6gb+me]}]",
            "2 MIG instances 1g.6gb+me on NVIDIA A30 (allowed: 1 at most)",
        ),
        (
            "gpus: [{product: NVIDIA A30, mig: [1g.6gb], mig-slots: [0, 1]}]",
            "gpus[0].mig-slots: not a slot for each of 1 MIG devices (allowed: rising numbers)",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_profile_text(text, "node.yaml")

    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("node.yaml:")


def test_a_file_cannot_blow_up() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )

    with pytest.raises(ConfigError, match="more than 20000 values"):
        parse_profile_text(bomb, "node.yaml")
    with pytest.raises(ConfigError, match="longer than 1000000 characters"):
        parse_profile_text("#" * 1_000_001, "node.yaml")


words = st.sampled_from(
    [*KEYS, *GPU_KEYS, *LEVELS, *load_products(), "0-1", "dgx-1", "off", "null", "1g.5gb", "8.0"]
)
scalars = words | st.integers(-2, 70).map(str) | st.text(max_size=8)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | scalars, inner, max_size=5),
    max_leaves=20,
)
gpu = st.fixed_dictionaries(
    {"product": st.sampled_from(list(load_products()))},
    optional={key: scalars | documents for key in GPU_KEYS if key != "product"},
)
nodes = st.fixed_dictionaries(
    {"gpus": st.lists(gpu, max_size=3)},
    optional={key: scalars | documents for key in KEYS if key != "gpus"},
)


def becomes_a_node_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        profile = parse_profile_text(text, "node.yaml")
        if not profile.init_error:
            inventory = SimulatedNode(profile).inventory()
            assert isinstance(inventory, Inventory)
            assert len(inventory.gpus) == len(profile.gpus)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_node_or_a_config_error(text: str) -> None:
    becomes_a_node_or_a_config_error(text)


@settings(max_examples=250, deadline=None)
@given(documents | nodes)
def test_any_document_is_a_node_or_a_config_error(document) -> None:
    import yaml  # noqa: PLC0415 - as in the package

    becomes_a_node_or_a_config_error(yaml.safe_dump(document, allow_unicode=True))
