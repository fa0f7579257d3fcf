"""The pages on deployment are current, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import generate_chart_docs
import pytest
from deployment.charts import CHART, ROOT

PAGES = [ROOT / "docs" / f"{name}.md" for name in ("install", "chart", "troubleshooting")]


def anchors(path: Path) -> set[str]:
    """Those that a page has, as forges make them."""
    found = set[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
            found |= {heading.split()[0]}  # deviations are linked to by their number
    return found


def test_the_tables_of_values_are_current() -> None:
    assert generate_chart_docs.main(["--check"]) == 0, "run tools/generate_chart_docs.py --write"


def test_every_value_is_in_the_tables_with_a_meaning() -> None:
    rows = list(generate_chart_docs.values())

    assert len(rows) > 60
    assert not [row.path for row in rows if not row.meaning]
    assert len({row.path for row in rows}) == len(rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_values_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = {row.path for row in generate_chart_docs.values()}

    for name in re.findall(r"(?<![\w/])deployments/[\w./-]*\w", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"--set(?:-string|-file)? ([\w.]+)=", text):
        is_mistake = name in {"sleepInterval", "failOnInitError"}
        top = ".".join(name.split(".")[:2])
        assert is_mistake or name in known or top in known, name


def test_messages_that_are_quoted_are_those_of_the_chart() -> None:
    templates = (CHART / "templates" / "validation.yaml").read_text(encoding="utf-8")
    said = templates.replace('\\"', '"').replace("%s", "…").replace("%q", "…")
    table = (ROOT / "docs" / "chart.md").read_text(encoding="utf-8").split("## What is refused")[1]
    quoted = re.findall(r"\| `([^|`]+)`[^|]*\|\n", table)

    assert len(quoted) >= 9
    for message in quoted:
        start = message.split("…")[0].strip()
        if not message.startswith(("values don't meet", "config.map.NAME")):
            assert start in said, message


def test_no_page_tells_where_it_was_written() -> None:
    for folder in ("deployments", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                assert not re.search(r"/root/|/home/\w+/|pypi|pythonhosted", text), path
