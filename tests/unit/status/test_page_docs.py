"""What the documentation says of the page is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_device_plugin.status.page.script import SECONDS, SECONDS_HIDDEN
from gpu_device_plugin.status.page.state import CONDITIONS, ENDS, Level
from gpu_device_plugin.status.page.tables import NEWEST, OLDER
from gpu_device_plugin.status.page.usage import MOST_CELLS

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "status-page.md").read_text()
LARGEST = 150_000
"""Bytes of a picture."""


def test_numbers_are_those_of_the_code():
    assert f"{NEWEST}, and {OLDER} more on demand" in TEXT
    assert f"every {SECONDS} s, every {SECONDS_HIDDEN} s in the background" in TEXT
    assert f"Above {MOST_CELLS}\nreplicas" in TEXT


def test_every_condition_has_its_end():
    assert set(CONDITIONS) == set(ENDS)
    for word in CONDITIONS.values():
        assert f"\n| {word} | " in TEXT


@pytest.mark.parametrize("level", list(Level))
def test_every_sign_is_explained(level):
    assert f"\n| {level.symbol} " in TEXT


def test_pictures_are_there_and_small():
    pictures = re.findall(r"images/[\w.-]+", TEXT)
    assert len(pictures) == 3
    for picture in pictures:
        data = (DOCS / picture).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < LARGEST


def test_links_lead_somewhere():
    for file, anchor in re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", TEXT):
        page = (DOCS / file).read_text() if file else TEXT
        titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert anchor in anchors
    for file in re.findall(r"\]\(([\w.-]+\.md)\)", TEXT):
        assert (DOCS / file).exists()
