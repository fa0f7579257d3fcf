"""The paths of the port: probes, the status as JSON, the metrics, the page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gpu_device_plugin.status.document import to_json
from gpu_device_plugin.status.model import Check, NodeStatus
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.web.headers import STRICT_POLICY
from gpu_device_plugin.web.messages import HTML, JSON, TEXT, Handler, Request, Response, Route

FRESH_SECONDS = 0.2
"""How long an answer that is costly to make is given to everybody who asks."""


class Endpoint(StrEnum):
    """What can be served, by the names of ``--metrics-endpoints``."""

    METRICS = "metrics"
    PROBES = "probes"
    STATUS = "status"


class Exposition(Protocol):
    """An answer to a scrape."""

    @property
    def content_type(self) -> str:
        """The form of the metrics, and its version."""
        ...

    @property
    def body(self) -> bytes:
        """The metrics."""
        ...


class Metrics(Protocol):
    """What is scraped."""

    def render(self, accept: str = "") -> Exposition:
        """The metrics of this moment, in the form that an ``Accept`` header asks for."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """The status as a page for people."""

    render: Callable[[NodeStatus], bytes]
    policy: str = STRICT_POLICY
    """Its ``Content-Security-Policy``: what of it may be run, shown and loaded."""
    content_type: str = HTML


def render_text(status: NodeStatus) -> bytes:
    """The least that a page can say."""
    lines = [f"{status.program} v{status.version} node {status.node or '(name not known)'}"]
    lines += [f"live: {_words(status.live)}", f"ready: {_words(status.ready)}"]
    lines += [
        f"{each.name}: {each.allocatable} of {each.capacity} can be allocated, {each.state}"
        for each in status.resources
    ]
    return "".join(f"{line}\n" for line in [*lines, "more: /status.json"]).encode()


def _words(check: Check) -> str:
    return "yes" if check.ok else "; ".join(check.reasons)


TEXT_PAGE = Page(render_text, content_type=TEXT)


class Remembered:
    """Makes an answer at most every so often, so that a flood of questions costs little."""

    def __init__(
        self, make: Callable[[Request], Response], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._clock = clock
        self._until = 0.0
        self._last: tuple[str, Response] | None = None
        """What was asked for (``Accept``), and the answer."""

    def __call__(self, request: Request) -> Response:
        """The answer, which is that of a moment ago at most."""
        now = self._clock()
        if self._last is None or now >= self._until or self._last[0] != request.accept:
            self._last = request.accept, self._make(request)
            self._until = now + FRESH_SECONDS
        return self._last[1]


def make_routes(
    reporter: Reporter,
    wanted: Collection[str],
    *,
    metrics: Metrics | None = None,
    page: Page = TEXT_PAGE,
) -> dict[str, Route]:
    """What answers on which path.

    Args:
        reporter: tells the status.
        wanted: names of endpoints.
        metrics: what is scraped; None where there are none.
        page: how the status is shown to people.
    """
    routes = dict[str, Route]()
    if Endpoint.PROBES in wanted:
        alive = Route(_probe(reporter.liveness, "not alive"), is_open=True)
        ready = Route(_probe(reporter.readiness, "not ready"), is_open=True)
        routes |= {"/livez": alive, "/healthz": alive, "/readyz": ready}
    if Endpoint.METRICS in wanted and metrics is not None:
        routes["/metrics"] = Route(Remembered(lambda asked: _metrics(metrics, asked)))
    if Endpoint.STATUS in wanted:
        routes["/status.json"] = Route(Remembered(lambda _: _document(reporter.status())))
        routes["/"] = Route(Remembered(lambda _: _page(page, reporter.status())))
    return routes


def _probe(ask: Callable[[], Check], no: str) -> Handler:
    def answer(request: Request) -> Response:
        check = ask()
        status = 200 if check.ok else 503
        if not request.is_trusted:
            return Response.of_text(status, "ok" if check.ok else no)
        data = {"ok": check.ok, "reasons": list(check.reasons)}
        return Response(status, JSON, (json.dumps(data, ensure_ascii=False) + "\n").encode())

    return answer


def _metrics(metrics: Metrics, request: Request) -> Response:
    answer = metrics.render(request.accept)
    return Response(200, answer.content_type, answer.body, may_be_compressed=True)


def _document(status: NodeStatus) -> Response:
    return Response(200, JSON, to_json(status).encode(), may_be_compressed=True)


def _page(page: Page, status: NodeStatus) -> Response:
    policy = {"Content-Security-Policy": page.policy}
    return Response(200, page.content_type, page.render(status), policy, may_be_compressed=True)
