"""The picture: always a whole, readable XML file, whatever the node is like."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.inventories import a_gpu, a_node

from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.hardware.model import Links
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.hardware.simulated.profile import built_in_names
from gpu_device_plugin.inspection.topology.choice import Request, choose
from gpu_device_plugin.inspection.topology.groups import find_groups
from gpu_device_plugin.inspection.topology.layout import make_layout
from gpu_device_plugin.inspection.topology.matrix import matrix_lines
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.inspection.topology.style import DARK, LIGHT, Palette
from gpu_device_plugin.inspection.topology.svg import to_svg
from gpu_device_plugin.inspection.topology.text import text_lines

NAMESPACE = "{http://www.w3.org/2000/svg}"
PROFILES = [name for name in built_in_names() if name != "no-driver"]


def topology_of(profile: str) -> Topology:
    backend = SimulatedBackend.from_profile(profile)
    inventory = backend.read()
    return make_topology(inventory, backend.read_links(inventory, lambda: False))


def picture(topology: Topology, size: int = 0, required: tuple[int, ...] = ()) -> ET.Element:
    choice = choose(topology, Request(topology.offered, required, size)) if size else None
    return ET.fromstring(to_svg(topology, choice))


def texts(root: ET.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{NAMESPACE}text")]


def of_class(root: ET.Element, name: str, *words: str) -> list[ET.Element]:
    return [
        node
        for node in root.iter(f"{NAMESPACE}{name}")
        if set(words).issubset(node.get("class", "").split())
    ]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any GPUs, any links."""
    count = draw(st.integers(0, 9))
    gpus = [
        a_gpu(
            index,
            name=draw(st.text(max_size=30)),
            pci_bus_id=draw(st.sampled_from(["", f"00000000:{index:02X}:00.0", "0009:01:00.0"])),
            numa_node=draw(st.none() | st.integers(0, 3)),
        )
        for index in range(count)
    ]
    pairs = st.tuples(st.integers(0, 9), st.integers(0, 9))
    links = Links(
        draw(st.dictionaries(pairs, st.sampled_from((0, 10, 20, 30, 40, 50, 60)))),
        draw(st.dictionaries(pairs, st.integers(0, 36))),
        tuple(draw(st.lists(st.text(), max_size=2))),
    )
    return make_topology(a_node(gpus), links, source=draw(st.text(max_size=9)))


# ------------------------------------------------------------------ any node


@settings(deadline=None)
@given(topologies(), st.integers(0, 9))
def test_any_node_makes_a_picture_and_a_text(topology, size):
    size = min(size, topology.count)

    root = picture(topology, size)

    shown = texts(root)
    assert all(str(gpu.index) in shown for gpu in topology.gpus)
    assert len(of_class(root, "rect", "card", "chosen")) == size
    choice = choose(topology, Request(topology.offered, (), size)) if size else None
    assert all(line.isprintable() for line in text_lines(topology, choice, Screen()))


@settings(deadline=None)
@given(topologies())
def test_every_gpu_is_in_the_tree_once(topology):
    root = find_groups(topology)

    if root is None:
        assert topology.count < 2
    else:
        assert sorted(root.gpus) == list(range(topology.count))
        assert all(len(group.members) > 1 for _, group in root.walk())


@settings(deadline=None)
@given(topologies())
def test_nothing_overlaps_and_nothing_is_outside(topology):
    layout = make_layout(topology)
    centres = [layout.centres[position] for position in layout.order]

    assert all(right - left > layout.card for left, right in pairwise(centres))
    assert all(x - layout.card / 2 > 0 and x + layout.card / 2 < layout.width for x in centres)
    for arc in layout.arcs:
        ends = sorted(layout.centres[end] for end in arc.pair.ends)
        assert abs(arc.left - ends[0]) <= layout.card / 2
        assert abs(arc.right - ends[1]) <= layout.card / 2


@settings(deadline=None)
@given(topologies())
def test_the_matrix_is_symmetric(topology):
    lines = [line.split() for line in matrix_lines(topology, None, Screen(None)) if line]

    for matrix in (lines[1 : topology.count + 1], lines[topology.count + 2 :]):
        rows = [row[1:] for row in matrix]
        assert rows == [list(column) for column in zip(*rows, strict=True)]


# ------------------------------------------------------------------ what it shows


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_makes_a_picture(profile):
    topology = topology_of(profile)

    root = picture(topology, min(2, topology.count))

    assert len(of_class(root, "rect", "card")) == topology.count
    assert len(of_class(root, "path", "bus")) == len(make_layout(topology).buses)


def test_links_are_as_wide_as_they_are_many():
    root = picture(topology_of("dgx-1"), 4, (2,))
    widths = {
        title.text.split(", ")[0].split(": ")[1]: float(link.get("stroke-width", 0))
        for link in of_class(root, "path", "link")
        if (title := link.find(f"{NAMESPACE}title")) is not None and title.text
    }

    assert widths["2 NVLinks"] == 2 * widths["1 NVLink"]
    assert len(of_class(root, "path", "link")) == 16
    assert len(of_class(root, "path", "link", "chosen")) == 6
    assert len(of_class(root, "rect", "heat", "chosen")) == 12
    assert len(of_class(root, "rect", "card", "required")) == 1
    assert {"GPU 0-3", "1120", "NV2 230", "PHB 30 · NUMA 0"}.issubset(texts(root))


def test_what_is_not_available_stands_back():
    topology = replace(topology_of("dgx-1"), offered=(0, 1, 2, 3))
    root = picture(topology, 2)

    assert len(of_class(root, "rect", "card", "away")) == 4
    assert len(of_class(root, "path", "link", "away")) == 10


def test_a_screen_reader_gets_everything_in_words():
    root = picture(topology_of("dgx-1"), 4)

    title, description = root.find(f"{NAMESPACE}title"), root.find(f"{NAMESPACE}desc")
    assert title is not None
    assert description is not None
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", title.get("id"))
    assert root.get("aria-describedby") == description.get("id")
    assert (title.text or "").startswith("GPU topology: 8 ")
    words = description.text or ""
    assert "GPU 0-3: PHB 30 · NUMA 0." in words
    assert "NVLinks: 0-1 1, 0-2 1, 0-3 2," in words
    assert "Preferred: GPU 0-3." in words


def test_the_file_needs_no_other():
    text = to_svg(topology_of("dgx-1"), None)

    assert re.findall(r"\w+://[^\"']+", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "url(" not in text
    assert text.startswith("<svg ")


def test_what_could_not_be_read_is_in_the_picture():
    topology = make_topology(a_node(2), Links(problems=("GPU 1: timeout",)))

    assert "links are not known: GPU 1: timeout" in texts(picture(topology))


# ------------------------------------------------------------------ colours


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: str, paper: str, strength: float) -> str:
    parts = [
        round(int(colour[n : n + 2], 16) * strength + int(paper[n : n + 2], 16) * (1 - strength))
        for n in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(palette: Palette):
    behind = {
        palette.ink: [
            palette.paper,
            palette.card,
            palette.chosen_card,
            mixed(palette.heat, palette.paper, 0.5),
            mixed(palette.chosen, palette.paper, 0.5),
        ],
        palette.faint: [palette.paper, palette.card, palette.chosen_card],
        palette.chosen: [palette.paper, palette.chosen_card],
    }

    for text, grounds in behind.items():
        assert all(contrast(text, ground) >= 4.5 for ground in grounds), text
    for line in (palette.link, palette.edge, palette.chosen):
        assert contrast(line, palette.paper) >= 3
