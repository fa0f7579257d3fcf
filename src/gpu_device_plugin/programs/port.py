"""The port for metrics, probes and the status page, where an address is set."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.options import Program
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
        self.tell: Listener = nobody
        """To be told what happens."""
        self._metrics: Metrics | None = None
        if Endpoint.METRICS in self._endpoints:
            self._count(parsed.program)
        self._page: Page = TEXT_PAGE

    def _count(self, program: Program) -> None:
        """Counts from now on what metrics tell of a program."""
        from gpu_device_plugin.status.metrics import Metrics, Part  # noqa: PLC0415 - 14 MB

        parts = {
            Program.DEVICE_PLUGIN: Part.PLUGIN,
            Program.GPU_FEATURE_DISCOVERY: Part.LABELS,
            Program.CONFIG_MANAGER: Part.PROFILES,
            Program.MPS_CONTROL_DAEMON: Part.MPS,
        }
        metrics = Metrics(self._reporter, [parts[program]])
        self.tell, self._metrics = metrics.hear, metrics

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
