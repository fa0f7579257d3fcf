"""docs/commands.md shows what the commands print, every option, and every field of the data."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local_statuses import example

from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.programs.gpu_node import make_parser
from gpu_device_plugin.status.show_devices import devices_data, devices_lines
from gpu_device_plugin.status.show_pods import pods_data, pods_lines
from gpu_device_plugin.status.show_status import status_lines

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
SCREEN = Screen(110)


@pytest.fixture
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_greenwich")
@pytest.mark.parametrize(
    ("number", "lines"), [(0, status_lines), (1, devices_lines), (2, pods_lines)]
)
def test_the_examples_are_what_is_printed(number, lines):
    assert BLOCKS[number].splitlines() == [*lines(example(), SCREEN)]


def paths(data: Any, path: str = "") -> Iterator[str]:
    """The fields of a document, as the page writes them."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, f"{path}.{key}" if path else key)
    elif isinstance(data, list) and data and isinstance(data[0], dict):
        for each in data:
            yield from paths(each, f"{path}[]")
    else:
        yield path


@pytest.mark.parametrize("data", [devices_data, pods_data])
def test_every_field_of_the_data_is_explained(data):
    tables = PAGE[PAGE.index("## Data") : PAGE.index("## Who holds what")]
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]*)`", tables))))

    unexplained = {
        part.removesuffix("[]")
        for path in paths(data(example()))
        for part in path.split(".")
        if part.removesuffix("[]") not in words
    }

    assert not unexplained


@pytest.mark.parametrize("command", ["status", "devices", "pods"])
def test_every_option_is_explained(command):
    parser = make_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    options = {
        name
        for action in commands.choices[command]._actions
        for name in action.option_strings
        if action.dest not in {"help", "for_plugin"}
    }

    assert [name for name in options if f"`{name}" not in PAGE] == []
