"""The certificate of the port, taken anew when its files have changed."""

from __future__ import annotations

import logging
import ssl

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.news import News
from gpu_device_plugin.web.files import Identity, identity

log = logging.getLogger(__name__)


class ServerTls:
    """The TLS context for new connections, TLS 1.2 and newer.

    Files that have been replaced, as cert-manager does before a certificate ends, are taken
    for the next connection. If they cannot be used, the former ones stay.
    """

    def __init__(self, certificate: str, key: str) -> None:
        """Reads the files.

        Args:
            certificate: path of the chain, PEM, that of the server first.
            key: path of its private key, PEM, without a password.

        Raises:
            ConfigError: they cannot be used.
        """
        self._paths = certificate, key
        self._seen = self._identities()
        self._context = self._make()
        self._news = News()

    def current(self) -> ssl.SSLContext:
        """The context for a connection that begins now."""
        now = self._identities()
        if now == self._seen:
            self._news.end()
            return self._context
        try:
            self._context, self._seen = self._make(), now
        except ConfigError as error:
            # Tried again with the next connection: it need not be the files that are wrong.
            if self._news.is_new(str(error)):
                log.error("%s; the former certificate stays in use", error)
        else:
            self._news.end()
            log.info("the certificate of the port is %s as it is now", self._paths[0])
        return self._context

    def _identities(self) -> tuple[Identity, ...]:
        return tuple(identity(path) for path in self._paths)

    def _make(self) -> ssl.SSLContext:
        certificate, key = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        for path, option in ((certificate, _CERTIFICATE), (key, _KEY)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise ConfigError(
                    f"{option}: {path} cannot be read: {error.strerror}",
                    "it names a PEM file, such as that of a Secret's mount",
                ) from None
        try:
            # An empty password keeps OpenSSL from asking for one on the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or "one of them is no PEM file"
            raise ConfigError(
                f"{certificate} and {key} cannot be used for TLS: {why}",
                f"{_CERTIFICATE} and {_KEY} name a certificate and its own key, without password",
            ) from None
        return context


_CERTIFICATE = "--metrics-tls-cert-file (GPU_NODE_METRICS_TLS_CERT_FILE)"
_KEY = "--metrics-tls-key-file (GPU_NODE_METRICS_TLS_KEY_FILE)"


def server_tls(certificate: str, key: str) -> ServerTls | None:
    """TLS by the values of the two options; None if neither is set.

    Raises:
        ConfigError: one is set without the other, or the files cannot be used.
    """
    if not certificate and not key:
        return None
    if not key or not certificate:
        given, missing = (_CERTIFICATE, _KEY) if certificate else (_KEY, _CERTIFICATE)
        raise ConfigError(f"{given} is set without its other half", f"set {missing} too")
    return ServerTls(certificate, key)
