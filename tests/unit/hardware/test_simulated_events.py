"""The file by which a simulated node is told to misbehave."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.simulated.events import (
    Action,
    ControlFile,
    Instruction,
    parse_line,
)


@pytest.mark.parametrize(
    ("line", "instruction"),
    [
        ("", None),
        ("   # xid 1 2", None),
        ("xid 3 79", Instruction(Action.XID, gpu="3", xid=79)),
        ("  xid  GPU-1  48\t7 0 ", Instruction(Action.XID, "GPU-1", 48, (7, 0))),
        ("lost 0", Instruction(Action.LOST, gpu="0")),
        ("back 0", Instruction(Action.BACK, gpu="0")),
        ("unmonitorable 2", Instruction(Action.UNMONITORABLE, gpu="2")),
        ("monitor-error GPU  is lost", Instruction(Action.MONITOR_ERROR, text="GPU is lost")),
        ("monitor-ok", Instruction(Action.MONITOR_OK)),
        ("init-error no driver", Instruction(Action.INIT_ERROR, text="no driver")),
        ("init-ok", Instruction(Action.INIT_OK)),
        ("mig 1 off", Instruction(Action.MIG, gpu="1")),
        ("mig 1 none", Instruction(Action.MIG, gpu="1", profiles=())),
        (
            "mig 1 1g.5gb,3g.20gb:1c+2c",
            Instruction(Action.MIG, gpu="1", profiles=("1g.5gb", "3g.20gb:1c+2c")),
        ),
    ],
)
def test_lines_mean_what_the_documentation_says(line: str, instruction: Instruction) -> None:
    assert parse_line(line) == instruction


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("explode", "'explode' is nothing that can happen (allowed: xid, lost, back,"),
        ("XID 1 2", "'XID' is nothing that can happen"),
        ("xid", "'xid' cannot be understood (allowed: xid GPU NUMBER [GI CI])"),
        ("xid 1", "cannot be understood"),
        ("xid 1 x", "cannot be understood"),
        ("xid 1 -2", "cannot be understood"),
        ("xid 1 2 3", "cannot be understood"),
        ("xid 1 99999999999", "cannot be understood"),
        ("lost", "'lost' cannot be understood (allowed: lost GPU)"),
        ("lost 1 2", "cannot be understood"),
        ("init-ok now", "'init-ok now' cannot be understood (allowed: init-ok)"),
        ("init-error", "(allowed: init-error TEXT)"),
        ("mig 1", "(allowed: mig GPU PROFILE[,PROFILE...] or mig GPU off)"),
    ],
)
def test_other_lines_are_refused_with_what_is_allowed(line: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_line(line)

    assert message in str(error.value)


texts = st.text(max_size=12) | st.integers(-1, 100).map(str)
lines = st.builds(
    lambda action, words: " ".join([action, *words]),
    st.sampled_from(Action),
    st.lists(texts, max_size=4),
)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | lines)
def test_any_line_is_an_instruction_or_a_config_error(line: str) -> None:
    found: object = None
    try:
        found = parse_line(line)
    except ConfigError as error:
        found = error
    assert found is None or isinstance(found, Instruction | ConfigError)
    assert str(found).isprintable()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_is_followed_from_its_beginning_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "events"
    control = ControlFile(str(path))

    assert not list(control.new_lines())
    append(path, "one\ntwo\nthr")
    assert list(control.new_lines()) == [(1, "one"), (2, "two")]
    assert not list(control.new_lines())
    append(path, "ee\n\n")
    assert list(control.new_lines()) == [(3, "three"), (4, "")]
    path.unlink()
    assert not list(control.new_lines())


def test_a_file_that_is_shorter_or_another_one_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "events"
    control = ControlFile(str(path))

    append(path, "one\ntwo\n")
    assert len(list(control.new_lines())) == 2
    path.write_text("x\n")
    assert list(control.new_lines()) == [(1, "x")]
    fresh = tmp_path / "fresh"
    fresh.write_text("longer than before\n")
    fresh.rename(path)
    assert list(control.new_lines()) == [(1, "longer than before")]


def test_what_is_no_utf8_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"\xff\n")

    assert list(ControlFile(str(path)).new_lines()) == [(1, "�")]
