"""The token that clients have to know, taken anew when its file has changed."""

from __future__ import annotations

import hmac
import logging
from base64 import b64decode

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.news import News
from gpu_device_plugin.web.files import identity

log = logging.getLogger(__name__)

OPTION = "--metrics-token-file (GPU_NODE_METRICS_TOKEN_FILE)"
LARGEST = 16 * 1024
"""Bytes of a token; more could not be sent in a request."""


class TokenFile:
    """A bearer token in a file, with or without a line feed at its end.

    If a changed file cannot be used, the former token goes on counting: a Secret that is being
    replaced locks nobody out, and never lets anybody in.
    """

    def __init__(self, path: str) -> None:
        """Reads the file.

        Raises:
            ConfigError: it holds no token.
        """
        self._path = path
        self._seen = identity(path)
        self._token = _read(path)
        self._news = News()

    def accepts(self, authorization: str) -> bool:
        """Whether the value of an ``Authorization`` header proves that the client knows it.

        The token may be a bearer token, or the password of any user, which is what browsers can
        send. Takes the same time for every wrong token.
        """
        self._follow()
        return hmac.compare_digest(_given(authorization), self._token)

    def _follow(self) -> None:
        now = identity(self._path)
        if now == self._seen:
            self._news.end()
            return
        try:
            self._token, self._seen = _read(self._path), now
        except ConfigError as error:
            # Tried again with the next request: it need not be the file that is wrong.
            if self._news.is_new(str(error)):
                log.error("%s; the former token stays in force", error)
        else:
            self._news.end()
            log.info("the token in %s has changed", self._path)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            token = file.read(LARGEST + 1).strip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"{OPTION}: {path} cannot be read: {error.strerror}") from None
    if not token:
        raise ConfigError(f"{OPTION}: {path} is empty", "it holds one token on one line")
    if len(token) > LARGEST or not all(0x21 <= byte <= 0x7E for byte in token):
        raise ConfigError(
            f"{OPTION}: {path} holds no token",
            "a token is one line of printable ASCII without blanks",
        )
    return token


def _given(authorization: str) -> bytes:
    """The token, or password, that a client has sent; empty if it has sent none."""
    scheme, _, rest = authorization.strip().partition(" ")
    sent = rest.strip().encode("latin-1", "replace")
    if scheme.lower() == "bearer":
        return sent
    if scheme.lower() == "basic":
        try:
            return b64decode(sent, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return b""
