"""Where to listen: what the option says, and the sockets that come of it."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from gpu_device_plugin.errors import UsageError

BACKLOG = 64
"""Connections that the kernel keeps until they are accepted."""
RECEIVE_BYTES = 16 * 1024
"""Of a connection's kernel buffer: requests are small, so is what a flood can make us keep."""

_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_PORT = re.compile(r"[0-9]{1,5}")
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Address:
    """A place to listen at."""

    host: str
    """An address or a name; empty for every address of the node or pod."""
    port: int
    """0: any that is free."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str, option: str) -> Address:
    """``127.0.0.1:9440``, ``[::1]:9440``, ``node-1:9440``, or ``:9440`` for every address.

    Args:
        text: what the user has written.
        option: the user's name for it, for the message.

    Raises:
        UsageError: it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        raise _refusal(option, text, "it has no port")
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise _refusal(option, text, "its port is no number from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise _refusal(option, text, "what is in brackets is no IPv6 address")
    elif ":" in host:
        raise _refusal(option, text, "an IPv6 address stands in brackets, and no scheme before it")
    elif host and not (_NAME.fullmatch(host) and len(host) <= _LONGEST_NAME):
        raise _refusal(option, text, "its host is neither a name nor an address")
    return Address(host, int(port))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text.isprintable()


def _refusal(option: str, text: str, why: str) -> UsageError:
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return UsageError(
        f"{option}: {shown[:80]!r} cannot be listened at: {why}",
        "such as 127.0.0.1:9440, [::1]:9440, or :9440 for every address",
    )


def listen(address: Address) -> list[socket.socket]:
    """The sockets that listen there, one for each address that a name stands for.

    Looks up names, and so may block.

    Raises:
        OSError: one of them cannot be listened at.
    """
    with ExitStack() as undo:
        sockets = list[socket.socket]()
        port = address.port
        for family, host in _places(address):
            sock = _listening(family, host, port)
            undo.callback(sock.close)
            sockets.append(sock)
            port = sock.getsockname()[1]  # the same one for all where any will do
        undo.pop_all()
        return sockets


def _places(address: Address) -> list[tuple[int, tuple[object, ...]]]:
    if not address.host:
        family = socket.AF_INET6 if _has_ipv6() else socket.AF_INET
        return [(family, ("::",) if family == socket.AF_INET6 else ("0.0.0.0",))]  # noqa: S104 - asked for
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, (place[0], *place[2:])) for family, _, _, _, place in found))


def _has_ipv6() -> bool:
    """Whether there is an IPv6 address at all; the kernel may have it switched off."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as trial:
            trial.bind(("::", 0))
    except OSError:
        return False
    return True


def _listening(family: int, host: tuple[object, ...], port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        if family == socket.AF_INET6:
            is_every = host[0] == "::"
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_every else 1)
        sock.setblocking(False)
        sock.bind((host[0], port, *host[1:]))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def reason(error: OSError) -> str:
    """Why something cannot be listened at, in words."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return (error.strerror or str(error)).lower()
    return os.strerror(error.errno).lower()
