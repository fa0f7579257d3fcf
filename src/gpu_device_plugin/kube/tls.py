"""TLS contexts for an API server, made anew when their files have changed."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from gpu_device_plugin.kube.access import Tls
from gpu_device_plugin.kube.errors import AccessError
from gpu_device_plugin.news import News

log = logging.getLogger(__name__)


class TlsContexts:
    """The context for new connections; certificates that are replaced on disk are followed."""

    def __init__(self, tls: Tls, source: str) -> None:
        self._tls = tls
        self._source = source
        self._context: ssl.SSLContext | None = None
        self._seen: tuple[object, ...] = ()
        self._news = News()

    def current(self) -> ssl.SSLContext:
        """The context to connect with now.

        Raises:
            AccessError: a certificate or key cannot be used, and never could.
        """
        now = _identity(self._tls)
        if self._context is not None and now == self._seen:
            self._news.end()
            return self._context
        try:
            self._context, self._seen = make_context(self._tls, self._source), now
        except AccessError as error:
            # Caught in the middle of a replacement: what worked goes on working.
            if self._context is None:
                raise
            if self._news.is_new(str(error)):
                log.warning("%s; the former certificates stay in use", error)
        else:
            self._news.end()
        return self._context


def make_context(tls: Tls, source: str = "") -> ssl.SSLContext:
    """The TLS context that the settings stand for.

    Raises:
        AccessError: names the certificate or key that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, tls, source)
    if tls.certificate_file or tls.certificate_data:
        _identify(context, tls, source)
    return context


def _trust(context: ssl.SSLContext, tls: Tls, source: str) -> None:
    try:
        if tls.ca_data:
            context.load_verify_locations(cadata=tls.ca_data.decode("ascii"))
        elif tls.ca_file:
            context.load_verify_locations(cafile=tls.ca_file)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        what = tls.ca_file if not tls.ca_data else "certificate-authority-data"
        raise _unusable(source, "certificate authority", what, error) from None


def _identify(context: ssl.SSLContext, tls: Tls, source: str) -> None:
    try:
        with (
            _as_file(tls.certificate_data, tls.certificate_file) as certificate,
            _as_file(tls.key_data, tls.key_file) as key,
        ):
            # An empty password keeps OpenSSL from asking for one on the terminal.
            context.load_cert_chain(certificate, key or None, password="")
    except (OSError, ValueError) as error:
        what = tls.certificate_file if not tls.certificate_data else "client-certificate-data"
        raise _unusable(source, "client certificate or its key", what, error) from None


def _unusable(source: str, what: str, name: str, error: OSError | ValueError) -> AccessError:
    reason = "it is no PEM file"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or reason
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return AccessError(f"{source}: the {what} cannot be used: {name}: {reason}")


@contextmanager
def _as_file(data: bytes, path: str) -> Iterator[str]:
    """A path for data that OpenSSL takes from files only; keys never reach a disk."""
    if not data:
        yield path
        return
    number = os.memfd_create("kubeconfig", os.MFD_CLOEXEC)
    with open(number, "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{number}"


def _identity(tls: Tls) -> tuple[object, ...]:
    """What changes when a file is replaced."""
    marks = list[object]()
    for path in (tls.ca_file, tls.certificate_file, tls.key_file):
        try:
            found = os.stat(path) if path else None
        except OSError:
            found = None
        marks.append(found and (found.st_ino, found.st_mtime_ns, found.st_size))
    return tuple(marks)
