"""The page on the agent is right about options and log lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpu_device_plugin
from gpu_device_plugin.config.options import PROGRAMS, Program

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
PACKAGE = Path(gpu_device_plugin.__file__).parent
SOURCES = [*(PACKAGE / "agent").glob("*.py"), PACKAGE / "programs" / "commands" / "agent.py"]


def messages() -> Iterator[str]:
    """What the agent logs, as it stands in the code."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
                and isinstance(node.args[0], ast.Constant)
            ):
                yield str(node.args[0].value)


@pytest.mark.parametrize("message", sorted(set(messages()) - {"%s"}))
def test_every_line_is_in_the_table(message: str) -> None:
    table = PAGE.split("## Log lines")[1]
    plain = re.sub(r"'[^']*'|`|…", "", table)
    longest = max(re.split(r"%[a-z]|'", message), key=len).strip(" ;=")
    known = ("SIGHUP: reloading", ": shutting down")  # as the plugin's
    assert longest in plain or longest in known, longest


def test_flags_and_variables_that_are_named_exist() -> None:
    programs = [p for p in Program if p is not Program.MPS_CONTROL_DAEMON]
    options = [option for program in programs for option in PROGRAMS[program].options]
    flags = {name for option in options for name in option.names}
    variables = {name for option in options for name in option.env}
    named = set(re.findall(r"`--([a-z-]+)", PAGE))
    assert named - {"namespace", "set", "reset-then-reuse-values"} <= flags
    assert set(re.findall(r"`((?:GFD|GPU_NODE)_[A-Z_]+|[A-Z]+_STRATEGY)`", PAGE)) <= variables


def test_what_is_said_not_to_exist_does_not() -> None:
    agent = {option.name for option in PROGRAMS[Program.AGENT].options}
    gone = re.findall(r"`--([a-z-]+)`", PAGE.split("| `--config-file-dst`")[1].split("\n")[0])
    assert not {"config-file-dst", "oneshot", *gone} & agent


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
