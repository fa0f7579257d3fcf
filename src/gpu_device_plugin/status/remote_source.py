"""Asks a running program for its status, on the port of ``--metrics-address``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from gpu_device_plugin import __version__
from gpu_device_plugin.config.text import one_line, quote
from gpu_device_plugin.errors import ConfigError, UsageError, UserError
from gpu_device_plugin.kube.access import Tls
from gpu_device_plugin.kube.connection import Connection, Endpoint, Request
from gpu_device_plugin.kube.tls import make_context
from gpu_device_plugin.status.document import from_json
from gpu_device_plugin.status.look import Look

STATUS_PATH = "/status.json"
DEADLINE = 10.0
"""Seconds for one answer, the connection included."""
LARGEST = 64 * 1024 * 1024
"""Bytes of an answer; 16 GPUs with 100 replicas each, all held, take one hundredth of it."""

LARGEST_TOKEN = 16 * 1024
"""Characters; our own port takes no more than half of it in a request."""

HINT_ADDRESS = "expected HOST:PORT or URL, such as 127.0.0.1:9440 or https://10.0.0.1:9440"
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a program is asked."""

    scheme: str
    host: str
    port: int
    path: str = ""
    """What comes before the path of the status, where a proxy needs that."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        """Host and port as HTTP wants them."""
        return str(self).removeprefix(f"{self.scheme}://").partition("/")[0]


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the two sides prove who they are."""

    token_file: str = ""
    ca_file: str = ""
    verify: bool = True


def parse_address(text: str, source: str = "--address") -> Address:
    """Reads an address.

    Args:
        text: ``HOST:PORT``, ``:PORT`` for this machine, or a URL.
        source: what it comes from, for messages.

    Raises:
        UsageError: it is none of these.
    """
    given = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname or ("127.0.0.1" if parts.netloc.startswith(":") else "")
    is_plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in PORTS or not host or not is_plain or not _is_clean(text):
        raise UsageError(f"{source} {quote(text)} is no address", HINT_ADDRESS)
    if port is None and "://" not in text:
        raise UsageError(f"{source} {quote(text)} has no port", HINT_ADDRESS)
    port = PORTS[parts.scheme] if port is None else port
    if not port:
        raise UsageError(f"{source} {quote(text)} has no port", HINT_ADDRESS)
    path = parts.path.rstrip("/").removesuffix(STATUS_PATH)
    return Address(parts.scheme, host, port, path)


def _is_clean(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


class RemoteSource:
    """Asks one program, anew on a connection of its own for each look.

    Args:
        address: of the program.
        credentials: how the two sides prove who they are.
        deadline: seconds for one answer.
    """

    def __init__(
        self, address: Address, credentials: Credentials | None = None, deadline: float = DEADLINE
    ) -> None:
        self._address = address
        self._credentials = credentials or Credentials()
        self._deadline = deadline

    async def look(self) -> Look:
        """The status of the program.

        Raises:
            UserError: it cannot be had.
        """
        try:
            async with asyncio.timeout(self._deadline):
                body = await self._get()
        except TimeoutError:
            raise UserError(f"{self._what} did not answer within {self._deadline:g} s") from None
        try:
            status = from_json(body)
        except ConfigError as error:
            raise UserError(
                f"{self._what} answers with something else: {one_line(str(error))}",
                "is this the port of --metrics-address?",
            ) from None
        # A program that has not been told the name of its node is known by its address.
        return Look(replace(status, node=status.node or self._address.host))

    def close(self) -> None:
        """Nothing is kept between looks."""

    @property
    def _what(self) -> str:
        return f"the program at {self._address}"

    async def _get(self) -> bytes:
        address, credentials = self._address, self._credentials
        tls = None
        if address.scheme == "https":
            settings = Tls(ca_file=credentials.ca_file, verify=credentials.verify)
            tls = make_context(settings, "--ca-file")
        endpoint = Endpoint(address.host, address.port, tls, what="the program")
        request = Request("GET", address.path + STATUS_PATH, tuple(self._headers()))
        try:
            async with await Connection.open(endpoint, self._deadline) as connection:
                head = await connection.send(request)
                if head.status != HTTPStatus.OK:
                    raise self._refusal(head.status)
                return await connection.whole_body(LARGEST)
        except UserError as error:
            hint = error.hint or self._hint(error.message)
            raise UserError(error.message, hint) from None

    def _headers(self) -> list[tuple[str, str]]:
        headers = [
            ("Host", self._address.host_header),
            ("User-Agent", f"gpu-node/{__version__}"),
            ("Accept", "application/json"),
            ("Connection", "close"),
        ]
        if self._credentials.token_file:
            token = read_token(self._credentials.token_file)
            headers.append(("Authorization", f"Bearer {token}"))
        return headers

    def _refusal(self, status: int) -> UserError:
        """What an answer other than 200 means."""
        told = f"{self._what} refuses its status: {status}"
        token = self._credentials.token_file
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            if token:
                return UserError(told, f"it does not accept the token in {token}")
            return UserError(
                told, "it wants a token: --token-file, or GPU_NODE_TOKEN_FILE, names its file"
            )
        if status == HTTPStatus.NOT_FOUND:
            return UserError(told, "its --metrics-endpoints must contain status")
        return UserError(told)

    def _hint(self, message: str) -> str:
        """What may be the reason that there is no answer."""
        if "connection refused" in message:
            return "--metrics-address (GPU_NODE_METRICS_ADDRESS) of the program opens the port"
        if "certificate" in message:
            return "--ca-file names the authority, --insecure trusts whoever answers"
        if self._address.scheme == "http" and "not HTTP" in message:
            return "https:// before the address asks by TLS"
        if "TLS" in message:
            return "http:// before the address asks without TLS"
        return ""


def read_token(path: str) -> str:
    """The bearer token in a file.

    Raises:
        ConfigError: what is wrong with it, told without showing it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read(LARGEST_TOKEN + 1).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the token file {one_line(path)} cannot be read: {reason}") from None
    if not token or not _is_clean(token):
        reason = "holds characters that no token has" if token else "is empty"
        raise ConfigError(f"the token file {one_line(path)} {reason}")
    if len(token) > LARGEST_TOKEN:
        raise ConfigError(f"the token file {one_line(path)} is too large for a token")
    return token
