"""What the demonstration looks like."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.simulation.demo.script import ACTS
from gpu_device_plugin.simulation.demo.stage import LogLine, Picture, Scene, Side, Tone
from gpu_device_plugin.simulation.demo.text import (
    Align,
    Column,
    Span,
    fit,
    length,
    pad,
    row,
    to_text,
)
from gpu_device_plugin.simulation.demo.view import ASCII, UNICODE, gpu_table, log_line, render
from gpu_device_plugin.simulation.views import DeviceView, NodeView, ResourceView

INVENTORY = SimulatedBackend.from_profile("dgx-a100").read()
UUIDS = [gpu.uuid for gpu in INVENTORY.gpus]


def a_picture(*resources: ResourceView, log: tuple[LogLine, ...] = ()) -> Picture:
    return Picture(
        seconds=65.0,
        machine="DGXA100 1",
        inventory=INVENTORY,
        node=NodeView({resource.name: resource for resource in resources}),
        causes={UUIDS[2]: "XID 48"},
        scene=Scene(2, 9, "Title", "Text."),
        log=log,
        page="http://127.0.0.1:4711/",
    )


def replicas(*, connected: bool = True) -> ResourceView:
    devices = [
        DeviceView(f"{uuid}::{n}", is_healthy=gpu != 2, pod="nb-0" if n == 0 and gpu < 2 else "")
        for gpu, uuid in enumerate(UUIDS)
        for n in range(4)
    ]
    return ResourceView("nvidia.com/gpu.shared", tuple(devices), is_connected=connected)


LOG = (
    LogLine(0.5, Side.PLUGIN, "a message of the plugin that is long " * 4),
    LogLine(1.0, Side.KUBELET, "32 devices"),
    LogLine(1.5, Side.NODE, "XID 48 on GPU 2", Tone.BAD),
)


def text_of(picture: Picture, width: int, height: int) -> list[str]:
    return [to_text(line, colour=False) for line in render(picture, width, height)]


def test_a_line_about_each_gpu_says_who_holds_it_and_what_is_wrong() -> None:
    lines = text_of(a_picture(replicas(), log=LOG), 80, 30)

    assert lines[0].startswith("gpu-node demo · DGXA100 · 8 x NVIDIA A100-SXM4-40GB")
    assert lines[0].endswith("1:05")
    assert lines[2] == "2/9 Title"
    gpu = lines.index(next(line for line in lines if line.startswith("GPU  MODEL")))
    assert lines[gpu + 1].split()[1:] == [
        "NVIDIA",
        "A100-SXM4-40GB",
        "3",
        "●",
        "healthy",
        "■",
        "□",
        "□",
        "□",
        "nb-0",
    ]
    crosses = " ".join(UNICODE.broken * 4)
    assert lines[gpu + 3].endswith(f"1  ✖ XID 48     {crosses}")
    (counts,) = (line for line in lines if line.startswith("nvidia.com/gpu.shared"))
    assert counts.split() == ["nvidia.com/gpu.shared", "32", "28", "2", "26", "connected"]
    assert lines[-1].endswith("node    XID 48 on GPU 2")


def test_wide_terminals_show_more_and_a_log_for_each_side() -> None:
    lines = text_of(a_picture(replicas(), log=LOG), 120, 40)

    assert any(UUIDS[3][:12] in line and "4E:00.0" in line for line in lines)
    (titles,) = (line for line in lines if "THE PLUGIN'S LOG" in line)
    assert "THE NODE AND ITS KUBELET" in titles
    first = lines[lines.index(titles) + 1]
    assert "a message of the plugin" in first
    assert "│   1.00 32 devices" in first


def test_the_address_of_the_page_stands_where_there_is_room() -> None:
    assert text_of(a_picture(), 80, 24)[1].endswith("── http://127.0.0.1:4711/")
    assert "http" not in text_of(a_picture(), 59, 24)[1]


def test_gpus_without_plugin_or_list_are_shown_as_such() -> None:
    gone = [to_text(x, colour=False) for x in gpu_table(a_picture(replicas(connected=False)), 90)]
    none = [to_text(line, colour=False) for line in gpu_table(a_picture(), 90)]

    assert "✖ no plugin" in gone[3]
    assert "● healthy" in gone[1]
    assert "· unlisted" in none[1]
    assert "USE" in none[0]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 200), st.integers(1, 60), st.sampled_from([UNICODE, ASCII]))
def test_a_picture_is_never_larger_than_the_terminal(width: int, height: int, glyphs) -> None:
    lines = render(a_picture(replicas(), log=LOG * 20), width, height, glyphs)

    assert len(lines) <= height
    assert all(length(line) <= width for line in lines)
    if glyphs is ASCII:
        assert all(to_text(line, colour=True).isascii() for line in lines)


def test_all_scenes_fit_into_80_columns() -> None:
    assert all(len(f"1/9 {act.text}") <= 80 for act in ACTS)


def test_long_messages_are_wrapped_below_their_beginning() -> None:
    lines = [to_text(x, colour=False) for x in log_line(LOG[0], 60, named=True)]

    assert lines[0].startswith("  0.50 plugin  a message")
    assert all(line.startswith(" " * 15 + line.strip()[0]) for line in lines[1:])
    assert all(len(line) <= 60 for line in lines)


def test_text_is_cut_padded_and_coloured() -> None:
    line = (Span("abc", "31"), Span("defgh"))

    assert to_text(fit(line, 8), colour=False) == "abcdefgh"
    assert to_text(fit(line, 5), colour=False) == "abcd…"
    assert to_text(fit(line, 0), colour=False) == ""
    assert to_text(pad((Span("a"),), 3, Align.RIGHT), colour=False) == "  a"
    assert to_text(line, colour=True) == "\x1b[31mabc\x1b[0mdefgh"


def test_a_row_keeps_its_columns() -> None:
    columns = [Column("A", 3, Align.RIGHT), Column("B", 4), Column("C", 0)]
    cells = [(Span("1"),), (Span("too long"),), (Span("rest of the line"),)]

    assert to_text(row(columns, cells, 20), colour=False) == "  1  too…  rest of …"
