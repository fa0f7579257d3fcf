"""The pages on the port and on the status document, against the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.status import model
from gpu_device_plugin.status.collect import SEVERITIES
from gpu_device_plugin.status.endpoints import FRESH_SECONDS, Page, make_routes
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.web.connection import LARGEST_HEAD, Limits
from gpu_device_plugin.web.guard import OWN_DOMAINS
from gpu_device_plugin.web.server import MOST_CONNECTIONS

DOCS = Path(__file__).parents[3] / "docs"
STATUS = (DOCS / "status.md").read_text()
PROBES = (DOCS / "probes.md").read_text()

CLASSES = [
    cls
    for _, cls in inspect.getmembers(model, dataclasses.is_dataclass)
    if isinstance(cls, type) and cls.__module__ == model.__name__
]
TABLES = [
    set(re.findall(r"`(\w+)`", " ".join(re.findall(r"(?m)^\| (.+?) \|", table))))
    for table in STATUS.split("\n\n")
    if table.startswith("| field")
]
"""The fields of each table."""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_is_in_one_table(cls):
    names = {field.name for field in dataclasses.fields(cls)}
    assert any(names <= table for table in TABLES), names


def test_every_value_of_a_choice_is_in_the_document():
    for value in [*WatchState, *State, *SEVERITIES.values(), model.SCHEMA]:
        assert f"`{value}`" in STATUS, value


def test_every_path_is_in_the_page():
    class NoMetrics:
        def render(self, accept: str = "") -> None:
            raise AssertionError(accept)

    routes = make_routes(
        Reporter("p"),
        ("metrics", "probes", "status"),
        metrics=NoMetrics(),  # type: ignore[arg-type]  # never asked
        page=Page(lambda _: b""),
    )
    for path in routes:
        assert f"`{path}`" in PROBES, path


def test_every_limit_is_in_the_page():
    limits = Limits()
    for text in (
        f"{LARGEST_HEAD // 1024} KiB",
        f"| {limits.head:.0f} s from the start",
        f"| {limits.idle:.0f} s |",
        f"| {limits.write:.0f} s |",
        f"| connections | {MOST_CONNECTIONS}.",
        f"up to {FRESH_SECONDS} s old",
    ):
        assert text in PROBES, text
    for domain in OWN_DOMAINS:
        assert f"`.{domain}`" in PROBES, domain


def reasons() -> list[str]:
    """The fixed words of every reason that a probe can give."""
    names = ("probes", "of_labels", "of_profiles")
    sources = [Path(model.__file__).with_name(f"{name}.py").read_text() for name in names]
    found = [text for source in sources for text in re.findall(r'yield f?"(.*?)"', source)]
    return [re.split(r"\{", text.removeprefix("{name}: "))[0].rstrip(": ") for text in found]


def test_every_reason_is_in_the_page():
    assert len(reasons()) > 10
    for words in reasons():
        assert words in PROBES, words
