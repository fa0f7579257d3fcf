"""Labels with their sources as a table, as data, and as the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.configs import time_sliced
from support.inventories import a_gpu
from support.labels import facts_of, gfd_config
from unit.inspection.label_reports import DMI, PROFILES, report_of, simulated

from gpu_device_plugin.config.model import GfdFlags
from gpu_device_plugin.console.screen import ANSI, Screen
from gpu_device_plugin.inspection.labels_report import (
    Settings,
)
from gpu_device_plugin.inspection.labels_text import render, table_lines
from gpu_device_plugin.labels.model import Facts

WIDE = Screen(None)


def test_the_formats_hold_the_same() -> None:
    report = simulated("dgx-a100-mig", "mixed")

    as_json, as_yaml, text = (render(report, form, WIDE) for form in ("json", "yaml", "text"))

    assert json.loads(as_json) == yaml.safe_load(as_yaml) == report.to_dict()
    labels = json.loads(as_json)["labels"]
    assert text == "".join(f"{item['label']}={item['value']}\n" for item in labels)
    assert json.loads(as_json)["simulated"] == "dgx-a100-mig"


def test_problems_are_in_the_data() -> None:
    report = report_of(facts_of([a_gpu(0, memory_bytes=0)]))

    assert report.to_dict()["problems"] == [
        {
            "reason": "the driver does not tell the memory",
            "missing": ["nvidia.com/gpu.memory"],
            "failure": False,
        }
    ]


def test_a_table_has_columns() -> None:
    head, *lines = table_lines(report_of(facts_of(1, timestamp=1)), WIDE)

    value, source = head.index("VALUE"), head.index("FROM")
    assert {line[value - 2 : value] + line[source - 2 : source] for line in lines} == {"    "}
    assert all(line[value] != " " and line[source] != " " for line in lines)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_table_fits_a_terminal_of_100_columns(profile: str) -> None:
    lines = list(table_lines(simulated(profile, "mixed"), Screen(100)))

    assert max(map(len, lines)) <= 100
    joined = " ".join(" ".join(lines).split())
    assert "NVML nvmlSystemGetDriverVersion" in joined or profile in {"no-gpu", "jetson-orin"}


def test_a_narrow_terminal_gets_all_the_same_words() -> None:
    report = report_of(facts_of(1))

    def words(screen: Screen) -> list[str]:
        return sorted(" ".join(table_lines(report, screen)).split())

    assert words(Screen(20)) == words(WIDE)


def test_what_is_empty_is_marked_and_odd_characters_are_one_line() -> None:
    cut = facts_of([a_gpu(0, mig_enabled=True)])
    settings = Settings(gfd_config("single", sharing=time_sliced(4)), file="a\nb\x1b[31m")

    lines = list(table_lines(report_of(cut, settings=settings), WIDE))

    assert any("(empty)" in line for line in lines)
    assert any("a\\nb\\x1b[31m" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_only_the_head_is_coloured() -> None:
    head, *lines = table_lines(report_of(facts_of(1)), Screen(100, ANSI))

    assert head.startswith("\x1b[1mLABEL")
    assert not any("\x1b" in line for line in lines)


def test_nothing_is_no_table() -> None:
    assert render(report_of(Facts()), "table", WIDE) == ""


def test_the_example_in_the_documentation_is_what_is_shown() -> None:
    page = (Path(__file__).parents[3] / "docs" / "labels.md").read_text(encoding="utf-8")
    example = page.partition("--config-file shared.yaml\n")[2].partition("```")[0]
    config = gfd_config(sharing=time_sliced(4), gfd=GfdFlags(False, False, 10**9, "", DMI))
    report = simulated("t4x4", config=config, file="shared.yaml")

    shown = [line for line in example.splitlines() if not line.startswith(("note: ", "…"))]
    lines = list(table_lines(report, WIDE))
    assert len(shown) > 5
    assert [line for line in lines if line in shown] == shown
