"""Who may ask: the token, and the name by which the server is called.

**DNS rebinding.** A web page of a stranger can have its own host name lead to 127.0.0.1 and then
read, in the browser of whoever looks at it, what is served there: a port on the node itself or one
that ``kubectl port-forward`` has opened. To the browser that is the page's own origin; to the
server, the stranger's name in ``Host``. So a connection to a loopback address is answered only if
it calls the server by an address or by a name that no stranger can own. Where a token or TLS is
asked for, this is not needed: the page knows no token, and its name is not in the certificate.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from gpu_device_plugin.web.messages import Response
from gpu_device_plugin.web.token import TokenFile

OWN_DOMAINS = ("localhost", "local", "internal", "svc", "home.arpa")
"""Top-level domains that nobody can register, among them those of clusters."""

BEARER = 'Bearer realm="gpu-node"'
CHALLENGE = f'Basic realm="gpu-node", {BEARER}'
"""Chromium heeds only the first challenge of a header, and knows no bearer tokens."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides over clients."""

    token: TokenFile | None = None
    is_tls: bool = False
    own_name: str = ""
    """The host of the address that is listened at."""

    def trusts(self, authorization: str) -> bool:
        """Whether a client may know everything."""
        return self.token is None or self.token.accepts(authorization)

    def is_misled(self, host: str, local_address: str) -> bool:
        """Whether a browser was led here by a stranger's name.

        Args:
            host: value of the ``Host`` header; empty if there is none, which no browser does.
            local_address: where the connection has come in.
        """
        if self.token is not None or self.is_tls or not host or not _is_loopback(local_address):
            return False
        name = _without_port(host).rstrip(".").lower()
        return not (_is_address(name) or _is_own(name) or name == self.own_name.lower())


def denial(requested_with: str) -> Response:
    """The answer to a client that knows no token.

    A page that looks for news in the background says so. It is not told that a password would do:
    its browser would put a dialog in front of whatever its user is about, again and again.

    Args:
        requested_with: value of the ``X-Requested-With`` header; what a page's script sends.
    """
    return Response.of_text(
        401,
        "a token is needed: send it as a bearer token, or as the password of any user",
        WWW_Authenticate=BEARER if requested_with else CHALLENGE,
    )


MISLED = Response.of_text(
    421,
    "called by a name that may lead a browser astray: use an address, or localhost",
)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def _is_own(name: str) -> bool:
    return "." not in name or any(name.endswith(f".{domain}") for domain in OWN_DOMAINS)
