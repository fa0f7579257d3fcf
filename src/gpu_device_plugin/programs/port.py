"""The port for metrics, probes and the status page, where an address is set."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.option import Program
from gpu_device_plugin.logs import LogTail
from gpu_device_plugin.programs.listening import Describe
from gpu_device_plugin.status.endpoints import Endpoint, Metrics, Page, make_routes
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.telemetry import Listener, everyone
from gpu_device_plugin.web.address import read_address
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.server import WebServer
from gpu_device_plugin.web.tls import server_tls
from gpu_device_plugin.web.token import TokenFile

if TYPE_CHECKING:
    from gpu_device_plugin.status.pod_watch import PodWatcher

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
        self._listeners = list[Listener]()
        self._metrics: Metrics | None = None
        self._page: Page | None = None
        self._pods: PodWatcher | None = None
        if Endpoint.METRICS in self._endpoints:
            self._count(parsed.program)
        if Endpoint.STATUS in self._endpoints:
            self._show()
        if {Endpoint.METRICS, Endpoint.STATUS} & set(self._endpoints):
            self._ask_for_pods(str(parsed.values.get("pod-resources-socket", "")))

    @property
    def tell(self) -> Listener:
        """To be told what happens."""
        return everyone(*self._listeners)

    def _count(self, program: Program) -> None:
        """Counts from now on what metrics tell of a program."""
        from gpu_device_plugin.status.metrics.metrics import PARTS, Metrics  # noqa: PLC0415 - 4 MB

        metrics = Metrics(self._reporter, PARTS[program])
        self._metrics = metrics
        self._listeners.append(metrics.hear)

    def _show(self) -> None:
        """Shows the status as a page."""
        from gpu_device_plugin.status.page.page import (  # noqa: PLC0415 - only if wanted
            CONTENT_SECURITY_POLICY,
            render_page,
        )

        self._page = Page(render_page, CONTENT_SECURITY_POLICY)

    def _ask_for_pods(self, socket: str) -> None:
        """Asks the kubelet who holds what, in programs whose devices pods can hold."""
        if not socket:
            return
        from gpu_device_plugin.kubelet.podresources import PodResourcesClient  # noqa: PLC0415
        from gpu_device_plugin.status.pod_watch import PodWatcher  # noqa: PLC0415 - as above

        self._pods = PodWatcher(PodResourcesClient(socket))
        self._reporter.pods = self._pods.pods
        self._listeners.append(self._pods.hear)

    @asynccontextmanager
    async def open(self, describe: Describe) -> AsyncIterator[None]:
        """Serves as long as the context lasts."""
        describe(self._reporter)
        routes = make_routes(
            self._reporter, self._endpoints, metrics=self._metrics, page=self._page
        )
        root = logging.getLogger()
        root.addHandler(self._reporter.tail)
        pods = nullcontext() if self._pods is None else self._pods.running()
        try:
            async with pods, WebServer(self._address, routes, guard=self._guard, tls=self._tls):
                yield
        finally:
            root.removeHandler(self._reporter.tail)
