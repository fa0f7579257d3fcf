"""The port for metrics, probes and the status page, where an address is set."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.logs import LogTail
from gpu_device_plugin.programs.listening import Describe
from gpu_device_plugin.status.endpoints import TEXT_PAGE, Endpoint, Metrics, Page, make_routes
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.telemetry import Listener, nobody
from gpu_device_plugin.web.address import read_address
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.server import WebServer
from gpu_device_plugin.web.tls import server_tls
from gpu_device_plugin.web.token import TokenFile

ADDRESS = "--metrics-address (GPU_NODE_METRICS_ADDRESS)"


class OpenPort:
    """What the options ask for."""

    tell: Listener = staticmethod(nobody)
    """To be told what happens."""

    def __init__(self, parsed: Parsed) -> None:
        """Reads the options and the files that they name.

        Raises:
            UserError: one of them cannot be used.
        """
        self._endpoints = parsed.strings("metrics-endpoints")
        self._address = read_address(parsed.text("metrics-address"), ADDRESS)
        self._tls = server_tls(
            parsed.text("metrics-tls-cert-file"), parsed.text("metrics-tls-key-file")
        )
        token_file = parsed.text("metrics-token-file")
        self._guard = Guard(
            token=TokenFile(token_file) if token_file else None,
            is_tls=self._tls is not None,
            own_name=self._address.host,
        )
        self._reporter = Reporter(
            parsed.program,
            node=str(parsed.values.get("node-name", "")),
            simulated=str(parsed.values.get("simulate", "")),
            tail=LogTail(),
        )
        self._metrics = self._make_metrics() if Endpoint.METRICS in self._endpoints else None
        self._page: Page = TEXT_PAGE

    def _make_metrics(self) -> Metrics:
        """Metrics, which count from now on what is told."""
        from gpu_device_plugin.status import metrics  # noqa: PLC0415 - 4 MB, only where scraped

        made = metrics.Metrics(self._reporter, metrics.parts_of(self._reporter.program))
        self.tell = made.hear
        return made

    @asynccontextmanager
    async def open(self, describe: Describe) -> AsyncIterator[None]:
        """Serves as long as the context lasts."""
        describe(self._reporter)
        routes = make_routes(
            self._reporter, self._endpoints, metrics=self._metrics, page=self._page
        )
        root = logging.getLogger()
        root.addHandler(self._reporter.tail)
        try:
            async with WebServer(self._address, routes, guard=self._guard, tls=self._tls):
                yield
        finally:
            root.removeHandler(self._reporter.tail)
