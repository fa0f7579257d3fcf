"""Which paths there are, and what they answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from gpu_device_plugin.status.document import from_json
from gpu_device_plugin.status.endpoints import FRESH_SECONDS, Page, Remembered, make_routes
from gpu_device_plugin.status.model import Check
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.web.messages import Request, Response, Route

ALL = ("metrics", "probes", "status")


@dataclass(frozen=True)
class Exposition:
    content_type: str
    body: bytes


class FakeMetrics:
    def render(self, accept: str = "") -> Exposition:
        return Exposition(accept or "plain", b"up 1\n")


def ask(routes: dict[str, Route], path: str, accept: str = "", *, trusted: bool = True) -> Response:
    answer = routes[path].handler(Request(path, accept=accept, is_trusted=trusted))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.parametrize(
    ("wanted", "paths"),
    [
        (ALL, {"/", "/status.json", "/metrics", "/livez", "/readyz", "/healthz"}),
        (["probes"], {"/livez", "/readyz", "/healthz"}),
        (["status"], {"/", "/status.json"}),
        (["metrics"], {"/metrics"}),
    ],
)
def test_only_what_is_wanted_is_there(wanted: Iterable[str], paths: set[str]):
    assert set(make_routes(Reporter("p"), list(wanted), metrics=FakeMetrics())) == paths


def test_only_probes_are_open_to_everybody():
    routes = make_routes(Reporter("p"), ALL, metrics=FakeMetrics())
    assert {path for path, route in routes.items() if route.is_open} == {
        "/livez",
        "/readyz",
        "/healthz",
    }


def test_probes_give_reasons_to_whoever_may_know_them():
    verdict = Check(ok=True)
    reporter = Reporter("p", ready=lambda: verdict, live=lambda: verdict)
    routes = make_routes(reporter, ALL)
    for path, no in (("/livez", "not alive"), ("/healthz", "not alive"), ("/readyz", "not ready")):
        verdict = Check(ok=True)
        good = ask(routes, path)
        assert (good.status, json.loads(good.body)) == (200, {"ok": True, "reasons": []})
        assert ask(routes, path, trusted=False).body == b"ok\n"
        verdict = Check(ok=False, reasons=("secret", "two"))
        bad = ask(routes, path)
        assert bad.status == 503
        assert json.loads(bad.body) == {"ok": False, "reasons": ["secret", "two"]}
        bare = ask(routes, path, trusted=False)
        assert (bare.status, bare.body) == (503, f"{no}\n".encode())


def test_the_document_is_the_status():
    reporter = Reporter("p", node="n")
    answer = ask(make_routes(reporter, ALL), "/status.json")
    assert answer.content_type == "application/json"
    assert from_json(answer.body).node == "n"


def test_metrics_are_in_the_form_that_is_asked_for():
    routes = make_routes(Reporter("p"), ALL, metrics=FakeMetrics())
    assert ask(routes, "/metrics").content_type == "plain"
    assert ask(routes, "/metrics", "application/openmetrics-text").content_type == (
        "application/openmetrics-text"
    )
    assert ask(routes, "/metrics").body == b"up 1\n"


def test_a_page_comes_with_the_policy_that_it_needs():
    page = Page(lambda status: status.node.encode(), policy="own")
    answer = ask(make_routes(Reporter("p", node="n"), ALL, page=page), "/")
    assert (answer.content_type, answer.body) == ("text/html; charset=utf-8", b"n")
    assert answer.headers["Content-Security-Policy"] == "own"


def test_without_a_page_there_is_the_least_that_it_would_say():
    reporter = Reporter("p", ready=lambda: Check(ok=False, reasons=("a", "b")))
    text = ask(make_routes(reporter, ALL), "/").body.decode()
    assert "node (name not known)" in text
    assert "live: yes\nready: a; b\n" in text


def test_a_flood_of_questions_is_one_question():
    now, made = 100.0, 0

    def make(_: Request) -> Response:
        nonlocal made
        made += 1
        return Response.of_text(200, str(made))

    answer = Remembered(make, clock=lambda: now)
    plain, other = Request("/"), Request("/", accept="x")
    assert {answer(plain).body for _ in range(10)} == {b"1\n"}
    now += FRESH_SECONDS
    assert answer(plain).body == b"2\n"
    assert answer(other).body == b"3\n"


def test_handlers_of_probes_do_not_wait():
    assert not asyncio.iscoroutinefunction(make_routes(Reporter("p"), ALL)["/livez"].handler)
