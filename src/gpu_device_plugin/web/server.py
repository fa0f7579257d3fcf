"""The server: listens, accepts no more than it can bear, and finds who answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from gpu_device_plugin.threads import in_thread
from gpu_device_plugin.web.address import Address, listen, reason
from gpu_device_plugin.web.connection import Asked, ClientConnection, Limits
from gpu_device_plugin.web.guard import MISLED, Guard, denial
from gpu_device_plugin.web.messages import Request, Response, Route
from gpu_device_plugin.web.tls import ServerTls

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
HANDLER_SECONDS = 10.0
"""Longest time for making an answer."""
FIRST_PAUSE = 1.0
"""Seconds before listening is tried again; each further pause is twice as long."""
LONGEST_PAUSE = 30.0
QUIET_SECONDS = 60.0
"""Time in which one complaint about clients is logged once."""

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n"
    b"Retry-After: 1\r\n\r\n"
)


class WebServer:
    """Answers on some paths until it is stopped; used as a context.

    That it cannot listen, as long as another program has the port, keeps nobody from working: it
    is logged, and tried again.
    """

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Route],
        *,
        guard: Guard | None = None,
        tls: ServerTls | None = None,
        limits: Limits | None = None,
        most: int = MOST_CONNECTIONS,
        pause: float = FIRST_PAUSE,
    ) -> None:
        """Prepares; nothing is opened yet.

        Args:
            address: where to listen.
            routes: what answers, by path.
            guard: who may ask; everybody by default.
            tls: the certificate to serve HTTPS with; None for HTTP.
            limits: of time for clients.
            most: connections at a time.
            pause: seconds before listening is tried again for the first time.
        """
        self._address = address
        self._routes = routes
        self._guard = guard or Guard(is_tls=tls is not None)
        self._tls = tls
        self._limits = limits or Limits()
        self._most = most
        self._pause = pause
        self._task: asyncio.Task[None] | None = None
        self._connections = dict[asyncio.Task[None], ClientConnection]()
        self._failing = set[str]()
        """Paths whose handler has failed the last time."""
        self._complaints = dict[str, float]()
        self.is_listening = asyncio.Event()
        self.port = 0
        """Where it listens, once it does."""

    async def __aenter__(self) -> Self:
        """Begins to listen, or to try."""
        self._task = asyncio.create_task(self._run(), name="web")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes everything at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._close(list(self._connections))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception:
            log.exception("metrics, probes and status are not served any more")

    async def _serve(self) -> None:
        sockets = await self._listen()
        self.port = sockets[0].getsockname()[1]
        what = "HTTPS" if self._tls else "HTTP"
        where = Address(self._address.host, self.port)
        log.info("serving %s at %s: %s", what, where, ", ".join(sorted(self._routes)))
        self.is_listening.set()
        try:
            await asyncio.gather(*(self._accept(sock) for sock in sockets))
        finally:
            for sock in sockets:
                sock.close()

    async def _listen(self) -> list[socket.socket]:
        problem, pause = "", self._pause
        while True:
            try:
                return await in_thread("listen", lambda: listen(self._address))
            except OSError as error:
                if reason(error) != problem:
                    problem = reason(error)
                    log.error(
                        "metrics, probes and status are not served: --metrics-address %s: %s; "
                        "trying again",
                        self._address,
                        problem,
                    )
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Such as too many open files; meanwhile the kernel keeps who wants to connect.
                self._complain(f"a connection cannot be accepted: {reason(error)}")
                await asyncio.sleep(FIRST_PAUSE)
                continue
            if len(self._connections) >= self._most and not await self._make_room():
                _turn_away(sock, BUSY if self._tls is None else b"")
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = self._tls.current() if self._tls else None
            connection = ClientConnection(sock, tls, self._answer, self._limits, self._complain)
            task = asyncio.create_task(connection.serve(), name="web client")
            self._connections[task] = connection
            task.add_done_callback(self._connections.pop)

    async def _make_room(self) -> bool:
        """Closes the connection whose client has been waited for longest; False if there is none.

        So that whoever merely keeps connections open cannot keep a probe out.
        """
        waiting = [
            (connection.waits_since, task)
            for task, connection in self._connections.items()
            if connection.waits_since is not None
        ]
        if not waiting:
            return False
        _, task = min(waiting, key=lambda each: each[0])
        self._complain(f"more than {self._most} connections: the one that idles longest is closed")
        await self._close([task])
        return True

    @staticmethod
    async def _close(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _complain(self, complaint: str) -> None:
        """Logs what clients do wrong, not for each of them."""
        now = time.monotonic()
        if now - self._complaints.get(complaint, -QUIET_SECONDS) >= QUIET_SECONDS:
            if len(self._complaints) >= self._most:
                self._complaints.clear()
            self._complaints[complaint] = now
            log.warning("%s", complaint)

    async def _answer(self, asked: Asked) -> Response:
        if self._guard.is_misled(asked.header("host"), asked.local_address):
            return MISLED
        path, _, query = _origin_form(asked.target).partition("?")
        route = self._routes.get(path)
        is_trusted = self._guard.trusts(asked.header("authorization"))
        if not is_trusted and (route is None or not route.is_open):
            return denial(asked.header("x-requested-with"))
        if route is None:
            known = ", ".join(sorted(self._routes))
            return Response.of_text(404, f"not found; there are {known}")
        return await self._handle(
            path, route, Request(path, query, asked.header("accept"), is_trusted)
        )

    async def _handle(self, path: str, route: Route, request: Request) -> Response:
        try:
            async with asyncio.timeout(HANDLER_SECONDS):
                response = route.handler(request)
                if inspect.isawaitable(response):
                    response = await response
        except TimeoutError:
            self._failing.add(path)
            log.error("%s is not answered within %g s", path, HANDLER_SECONDS)
            return Response.of_text(503, "the answer takes too long")
        except Exception:
            if path not in self._failing:
                log.exception("%s cannot be answered", path)
            self._failing.add(path)
            return Response.of_text(500, "internal error; the program's log has it")
        self._failing.discard(path)
        return response


def _origin_form(target: str) -> str:
    """The path and query of a target, also of one with scheme and host, as proxies send it."""
    if target.startswith("/"):
        return target
    _, mark, rest = target.partition("://")
    return "/" + rest.partition("/")[2] if mark else target


def _turn_away(sock: socket.socket, answer: bytes) -> None:
    """Says, as far as that goes without waiting, that there is no room."""
    try:
        sock.send(answer)
    except OSError as error:
        log.debug("a client was turned away without a word: %s", error)
    finally:
        sock.close()
