"""Serves status pages as the programs do, without a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpu_device_plugin.status.model import NodeStatus
from gpu_device_plugin.status.page.page import CONTENT_SECURITY_POLICY, render_page


@dataclass
class PageServer:
    """What is served may be exchanged at any time."""

    status: NodeStatus
    code: int = 200
    """Of all answers."""
    instead: bytes = b""
    """An answer that is no status page."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def serving(status: NodeStatus) -> Iterator[PageServer]:
    """A server on a free port."""
    served = PageServer(status)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.instead or render_page(served.status)
            self.send_response(served.code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
