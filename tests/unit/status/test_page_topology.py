"""The picture of the topology: what is drawn, what is said instead, and the colours."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from support.html_tree import Element, parse_html
from support.page_status import a_status, lost, many_pods, two_jobs, xid

from gpu_device_plugin.status.model import Holder, LinkStatus, NodeStatus
from gpu_device_plugin.status.page.links import kind_text, sort_links, width_of
from gpu_device_plugin.status.page.page import render_page
from gpu_device_plugin.status.page.state import view_gpus
from gpu_device_plugin.status.page.style import DARK, LIGHT
from gpu_device_plugin.status.page.usage import letter


def topology_of(status: NodeStatus) -> Element | None:
    """The part of the page; None if there is none."""
    found = parse_html(render_page(status)).find("section", id="topology")
    return found[0] if found else None


def drawn(status: NodeStatus) -> Element:
    topology = topology_of(status)
    assert topology is not None
    return topology


def lines(part: Element) -> list[tuple[str, float]]:
    """Classes and widths of the lines between GPUs."""
    (picture,) = part.find("svg", class_="circle")
    return [
        (each.attributes["class"], float(each.attributes["stroke-width"]))
        for each in picture.find("path")
        if "stroke-width" in each.attributes
    ]


def with_links(
    status: NodeStatus, links: tuple[LinkStatus, ...], *, known: bool = True
) -> NodeStatus:
    assert status.hardware is not None
    return replace(status, hardware=replace(status.hardware, links=links, links_known=known))


def test_nvlinks_are_lines_as_thick_as_there_are_many():
    part = drawn(a_status("dgx-1"))
    assert len(lines(part)) == 16
    assert set(lines(part)) == {("nv", 4.0), ("nv", 6.5)}
    assert "NV2 2 NVLinks NV1 1 NVLink SYS different CPUs or NUMA nodes (not drawn)" in part.text


def test_pcie_links_are_lines_as_thick_as_the_gpus_are_near():
    part = drawn(a_status("dgx-2"))
    styles = lines(part)
    assert len(styles) == 8 + 16
    assert {style for style, _ in styles} == {"pcie"}
    # The nearest lie on top.
    assert all(before <= after for (_, before), (_, after) in pairwise(styles))
    assert "NODE one CPU or NUMA node (shown by the arcs)" in part.text
    assert "No NVLink joins two GPUs directly" in part.text


def test_numa_nodes_are_arcs_with_names():
    (picture,) = drawn(a_status("dgx-a100")).find("svg", class_="circle")
    assert len(picture.find("path", class_="arc")) == 4
    names = [each.text for each in picture.find("text", class_="numa")]
    assert names == ["NUMA 3", "NUMA 1", "NUMA 7", "NUMA 5"]


def test_gpus_of_a_numa_node_stand_together():
    status = a_status("dgx-1")
    assert status.hardware is not None
    gpus = tuple(replace(gpu, numa_node=gpu.index % 2) for gpu in status.hardware.gpus)
    part = drawn(replace(status, hardware=replace(status.hardware, gpus=gpus)))
    shown = [each.text for each in part.find("text", class_="index")]
    assert shown == ["0", "2", "4", "6", "1", "3", "5", "7"]


def all_alike(count: int, kind: str, nvlinks: int) -> tuple[LinkStatus, ...]:
    return tuple(LinkStatus(a, b, kind, nvlinks) for a in range(count) for b in range(a + 1, count))


def test_where_all_pairs_are_equal_that_is_said_instead_of_drawn():
    part = drawn(with_links(a_status("dgx-2"), all_alike(16, "NV6", 6)))
    assert "All 16 GPUs are equally near each other: NV6, 6 NVLinks." in part.text
    assert len(lines(part)) == 1
    assert part.find("circle", class_="hub")
    both = drawn(with_links(a_status("rtx8000x2"), all_alike(2, "PHB", 0)))
    assert "Both GPUs are equally near each other: PHB, one PCIe host bridge." in both.text


def test_without_numa_nodes_all_but_the_farthest_links_are_drawn():
    status = a_status("t4x4")
    assert status.hardware is not None
    gpus = tuple(replace(gpu, numa_node=None) for gpu in status.hardware.gpus)
    status = replace(status, hardware=replace(status.hardware, gpus=gpus))
    near = LinkStatus(0, 1, "NODE", 0)
    rest = tuple(link for link in all_alike(4, "SYS", 0) if (link.a, link.b) != (0, 1))
    part = drawn(with_links(status, (near, *rest)))
    assert lines(part) == [("pcie", width_of(near, 0))]
    assert not part.find("path", class_="arc")


@pytest.mark.parametrize("profile", ["l40s", "no-gpu", "dgx-a100-mig-single"])
def test_there_is_nothing_to_draw_for_one_gpu_or_where_all_are_cut(profile):
    assert topology_of(a_status(profile)) is None


def test_links_that_are_not_known_are_said_to_be_so():
    status = a_status("t4x4")
    assert "being read" in drawn(with_links(status, (), known=False)).text
    assert "not known" in drawn(with_links(status, ())).text
    assert "not known" in drawn(with_links(status, all_alike(4, "?", 0))).text


def test_links_of_gpus_that_are_not_there_are_passed_over():
    stray = (*all_alike(4, "NV2", 2), LinkStatus(2, 9, "NV2", 2))
    assert "All 4 GPUs" in drawn(with_links(a_status("t4x4"), stray)).text


def test_gpus_show_who_holds_them_by_letter_and_colour():
    part = drawn(a_status("dgx-1", holders=two_jobs))
    gpus = [each for each in part.find("g") if each.attributes["class"].startswith("gpu")]
    assert [each.attributes["class"] for each in gpus] == [
        *["gpu h0"] * 4, *["gpu h1"] * 2, "gpu h2", "gpu"
    ]  # fmt: skip
    marks = [[text.text for text in each.find("text", class_="mark")] for each in gpus]
    assert marks == [["A"], ["A"], ["A"], ["A"], ["B"], ["B"], ["C"], []]
    legend = part.find("ul", class_="pods")[0].text
    assert legend.startswith("A ml-research/ train-llama-0 : GPUs 0\N{EN DASH}3 B team-vision/")
    description = part.find("desc")[0].text
    assert "GPU 0: held by ml-research/train-llama-0." in description
    assert "GPU 7: free." in description
    assert "0 to 3: 2 NVLinks." in description


def test_unhealthy_gpus_have_a_cross_and_words():
    part = drawn(a_status("dgx-1", holders=two_jobs, ills={3: lost(), 7: xid(48)}))
    (three,) = part.find("g", class_="gpu h0 bad")
    assert three.find("title")[0].text == "GPU 3: lost, held by ml-research/train-llama-0"
    assert three.find("text", class_="cross")
    assert part.find("g", class_="gpu bad")[0].find("title")[0].text == "GPU 7: unhealthy, free"


@pytest.mark.parametrize(
    ("replicas", "taken", "mark"), [(4, 1, "1/4"), (100, 50, "50/100"), (1000, 123, "12 %")]
)
def test_shared_gpus_show_how_much_is_in_use(replicas, taken, mark):
    part = drawn(a_status("t4x4", replicas=replicas, holders=many_pods(taken, replicas)))
    assert [each.text for each in part.find("text", class_="mark")] == [mark] * 4


def test_gpus_may_be_cut_not_offered_or_of_unknown_use():
    part = drawn(a_status("dgx-a100-mig"))
    titles = [each.text for each in part.find("title")][1:]
    assert titles[0] == "GPU 0: 4 MIG devices"
    assert "GPU 2: use not known" in titles
    assert "GPU 6: not offered" in titles


def test_links_stand_in_a_table_too():
    (table,) = drawn(a_status("dgx-1")).find("table", class_="matrix")
    rows = [row.text for row in table.find("tbody")[0].find("tr")]
    assert rows[0] == "0 X NV1 NV1 NV2 NV2 SYS SYS SYS"
    partial = drawn(with_links(a_status("t4x4"), (LinkStatus(0, 1, "PIX", 0),)))
    assert "0 X PIX ? ?" in partial.find("table", class_="matrix")[0].text


def test_a_gpu_may_be_held_by_two_pods():
    def hold(devices):
        return {device: [Holder("a", "x", "c"), Holder("a", "y", "c")] for device in devices}

    part = drawn(a_status("rtx8000x2", holders=hold))
    assert part.find("ul", class_="pods")[0].text == "A a/ x : GPUs 0, 1 B a/ y : GPUs 0, 1"


def test_letters_go_on_as_numbers():
    assert [letter(n) for n in (0, 25, 26)] == ["A", "Z", "27"]


@pytest.mark.parametrize(
    ("link", "most", "width"),
    [
        (LinkStatus(0, 1, "NV12", 12), 12, 6.5),
        (LinkStatus(0, 1, "NV1", 1), 12, 1.9),
        (LinkStatus(0, 1, "PSB", 0), 0, 5.2),
        (LinkStatus(0, 1, "SYS", 0), 0, 1.2),
        (LinkStatus(0, 1, "NEW", 0), 0, 1.2),
    ],
)
def test_widths_of_lines(link, most, width):
    assert width_of(link, most) == pytest.approx(width, abs=0.1)


def test_a_kind_of_link_of_a_later_version_is_drawn_as_not_known():
    status = with_links(a_status("t4x4"), (LinkStatus(0, 1, "NEW", 0), LinkStatus(0, 2, "PIX", 0)))
    assert status.hardware is not None
    links = sort_links(view_gpus(status), status.hardware.links)
    assert links.left_out == ("NEW",)
    assert kind_text("NEW", 0) == "not known"


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


STATES = ("good", "note", "warn", "bad")
TEXTS = [
    *((ink, paper) for ink in ("ink", "faint", "link") for paper in ("paper", "card")),
    *((state, "card") for state in STATES),
    *((ink, f"{state}-paper") for state in STATES for ink in ("ink", "faint", state)),
    *(("ink", f"h{n}") for n in range(6)),
]
SHAPES = [
    *((shape, "card") for shape in ("used", "free", "nv", "pcie", "bad")),
    ("used", "bad-paper"),
]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("one", "other", "least"),
    [*((*pair, 4.5) for pair in TEXTS), *((*pair, 3.0) for pair in SHAPES)],
)
def test_colours_have_enough_contrast(palette, one, other, least):
    assert contrast(palette[one], palette[other]) >= least


def test_both_palettes_have_the_same_colours():
    assert list(LIGHT) == list(DARK)
    assert all(
        re.fullmatch("#([0-9a-f]{3}){1,2}", each) for each in (*LIGHT.values(), *DARK.values())
    )
