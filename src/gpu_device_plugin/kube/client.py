"""Requests to the Kubernetes API: JSON objects by their paths."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from enum import StrEnum
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

from gpu_device_plugin import __version__
from gpu_device_plugin.kube.access import Access
from gpu_device_plugin.kube.answers import JsonObject, decoded, refusal
from gpu_device_plugin.kube.connection import Connection, Endpoint, Head, Request
from gpu_device_plugin.kube.errors import AccessError, ApiUnreachable
from gpu_device_plugin.kube.limiter import TokenBucket
from gpu_device_plugin.kube.patience import Patience, limited
from gpu_device_plugin.kube.tls import TlsContexts
from gpu_device_plugin.news import News

log = logging.getLogger(__name__)

Query = Mapping[str, str]

LARGEST = 16 * 1024 * 1024
"""Bytes of an answer, or of one event; etcd holds objects of 1.5 MB."""
CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
"""From when a request is sent until its whole answer is there."""
IDLE_SECONDS = 75.0
"""How long a connection is kept for another request, such as the next pass after a minute; API
servers close them after 90 s."""


class PatchKind(StrEnum):
    """How a patch is to be applied, as its content type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class KubeClient:
    """One API server, asked as one identity.

    Paths are those of the API: ``/api/v1/nodes/NAME``; names in them are to be escaped with
    `path`. All methods raise `KubeError`: `ApiError` for what the API refuses, `ApiUnreachable`
    where there is no answer. Nothing is retried here but a request on a connection that
    the server had closed meanwhile. To be closed at the end, or used as a context.
    """

    def __init__(
        self,
        access: Access,
        *,
        qps: float = 5.0,
        burst: int = 10,
        program: str = "gpu-device-plugin",
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Prepares a client; nothing is sent yet.

        Args:
            access: server and identity.
            qps: requests a second in the long run; less than 0 for no limit.
            burst: requests that may follow each other at once.
            program: how the program calls itself in the audit log.
            request_seconds: limit for a request, without the wait for its turn.
        """
        self._access = access
        self._url = urlsplit(access.server)
        self._tls = TlsContexts(access.tls, access.source)
        self._bucket = TokenBucket(qps, burst)
        self._agent = f"{program}/v{__version__}"
        self._seconds = request_seconds
        self._idle: tuple[Connection, float] | None = None
        self._last_token = ""
        self._token_news = News()

    async def get(self, target: str, query: Query | None = None) -> JsonObject:
        """The object, or list of objects, of that path."""
        return await self._exchange("GET", target, query)

    async def create(self, collection: str, item: JsonObject) -> JsonObject:
        """Creates an object in the collection of that path; a conflict if there is one already."""
        return await self._exchange("POST", collection, body=item)

    async def replace(self, target: str, item: JsonObject) -> JsonObject:
        """Replaces an object; a conflict if its resource version is not the present one."""
        return await self._exchange("PUT", target, body=item)

    async def patch(
        self, target: str, patch: object, kind: PatchKind = PatchKind.MERGE
    ) -> JsonObject:
        """Changes a part of an object."""
        return await self._exchange("PATCH", target, body=patch, content_type=kind)

    async def stream(
        self, target: str, query: Query, silence_seconds: float
    ) -> AsyncGenerator[JsonObject, None]:
        """The objects of an endless answer, one by one, on a connection of its own.

        Args:
            target: path of a collection.
            query: what makes the answer endless, such as ``watch=true``.
            silence_seconds: longest time until another object begins, whatever else comes; one that
                has begun has the time of a request to be complete.
        """
        request = self._request("GET", target, query)
        await self._take_turn()
        async with await self._connect() as connection:
            async with limited(request, self._seconds):
                head = await connection.send(request)
                if head.status >= 300:
                    raise refusal(request, head, await connection.whole_body(LARGEST))
            rest = b""
            patience = Patience(request, silence_seconds)
            async with aclosing(connection.body()) as parts:
                while part := await patience.next_part(parts):
                    before = bool(rest)
                    *lines, rest = (rest + part).split(b"\n")
                    if len(rest) > LARGEST:
                        raise ApiUnreachable(f"{request}: an event is larger than {LARGEST} bytes")
                    events = [line for line in lines if line.strip()]
                    if events or (rest and not before):
                        patience = Patience(request, self._seconds if rest else silence_seconds)
                    for event in events:
                        yield decoded(request, event)

    async def close(self) -> None:
        """Closes what is open."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle[0].close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _exchange(
        self,
        method: str,
        target: str,
        query: Query | None = None,
        *,
        body: object = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        request = self._request(method, target, query, content, content_type)
        await self._take_turn()
        async with limited(request, self._seconds):
            head, answer = await self._send(request)
        if head.status >= 300:
            raise refusal(request, head, answer)
        return decoded(request, answer)

    async def _send(self, request: Request) -> tuple[Head, bytes]:
        """Sends on the idle connection, and anew if that turns out to be closed.

        A creation is not sent twice: it may have been carried out.
        """
        while True:
            async with self._connection() as (connection, is_used):
                try:
                    head = await connection.send(request)
                except ApiUnreachable:
                    if is_used and request.method != "POST":
                        continue
                    raise
                return head, await connection.whole_body(LARGEST)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[Connection, bool]]:
        """A connection, and whether it has been used before; kept if it can be used again."""
        now = asyncio.get_running_loop().time
        idle, self._idle = self._idle, None
        is_used = idle is not None and idle[1] > now() and idle[0].is_reusable
        if idle is not None and is_used:
            connection = idle[0]
        else:
            if idle is not None:
                idle[0].close()
            connection = await self._connect()
        try:
            yield connection, is_used
        finally:
            if connection.is_reusable and self._idle is None:
                self._idle = connection, now() + IDLE_SECONDS
            else:
                connection.close()

    async def _connect(self) -> Connection:
        is_https = self._url.scheme == "https"
        endpoint = Endpoint(
            host=self._url.hostname or "",
            port=self._url.port or (443 if is_https else 80),
            tls=self._tls.current() if is_https else None,
            server_name=self._access.tls.server_name,
        )
        return await Connection.open(endpoint, CONNECT_SECONDS)

    async def _take_turn(self) -> None:
        wait = self._bucket.reserve(asyncio.get_running_loop().time())
        if wait > 0:
            await asyncio.sleep(wait)

    def _request(
        self,
        method: str,
        target: str,
        query: Query | None = None,
        body: bytes = b"",
        content_type: str = "",
    ) -> Request:
        host = self._url.netloc.rpartition("@")[2]
        headers = [("Host", host), ("Accept", "application/json"), ("User-Agent", self._agent)]
        if body:
            headers.append(("Content-Type", content_type))
        credentials = self._credentials()
        if credentials:
            headers.append(("Authorization", credentials))
        full = self._url.path.rstrip("/") + target
        return Request(
            method, f"{full}?{urlencode(query)}" if query else full, tuple(headers), body
        )

    def _token(self) -> str:
        """The token to send; while its file cannot be used, the last one that was in it."""
        try:
            self._last_token = self._access.bearer_token()
        except AccessError as error:
            if not self._last_token:
                raise
            if self._token_news.is_new(error.message):
                log.warning("%s; the former token stays in use", error.message)
        else:
            self._token_news.end()
        return self._last_token

    def _credentials(self) -> str:
        token = self._token()
        if token:
            return f"Bearer {token}"
        if self._access.username:
            pair = f"{self._access.username}:{self._access.password}"
            return f"Basic {b64encode(pair.encode()).decode()}"
        return ""


def path(*parts: str) -> str:
    """A path of the API, each part escaped: ``path("api", "v1", "nodes", name)``."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
