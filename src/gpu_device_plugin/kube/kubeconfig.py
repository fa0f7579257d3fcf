"""Kubeconfig files: the access that the current context stands for.

The format is client-go's (tools/clientcmd/api/v1): lists of named clusters, users and contexts.
Relative paths lead on from the directory of the file.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gpu_device_plugin.kube.access import Access, Tls
from gpu_device_plugin.kube.errors import AccessError, short_line

LARGEST = 16 * 1024 * 1024
"""Bytes that are read; certificates take some kilobytes."""


def read_kubeconfig(path: str) -> Access:
    """The access of a kubeconfig's current context.

    Raises:
        AccessError: names the file and the key that is wrong.
    """
    top = _Section(path, "", _parse(path))
    context_name = top.text("current-context")
    if not context_name:
        raise top.error("current-context", "is not set", "the name of one of the contexts")
    context = top.named("contexts", context_name, "context", "current-context")
    cluster = top.named("clusters", context.text("cluster"), "cluster", context.key("cluster"))
    user_name = context.text("user")
    user = (
        top.named("users", user_name, "user", context.key("user"))
        if user_name
        else _Section(path, "user", {})
    )
    _refuse(cluster, user)
    return Access(
        server=_server(cluster),
        source=f"kubeconfig {short_line(path)}",
        tls=_tls(cluster, user),
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
    )


def _server(cluster: _Section) -> str:
    server = cluster.text("server").rstrip("/")
    if "://" not in server and server:
        server = f"https://{server}"
    try:
        parts = urlsplit(server)
        _ = parts.port  # a property that may raise
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise cluster.error("server", "is no address", "such as https://10.0.0.1:6443")
    return server


def _tls(cluster: _Section, user: _Section) -> Tls:
    return Tls(
        ca_file=cluster.path("certificate-authority"),
        ca_data=cluster.data("certificate-authority-data"),
        certificate_file=user.path("client-certificate"),
        certificate_data=user.data("client-certificate-data"),
        key_file=user.path("client-key"),
        key_data=user.data("client-key-data"),
        server_name=cluster.text("tls-server-name"),
        verify=not cluster.flag("insecure-skip-tls-verify"),
    )


def _refuse(cluster: _Section, user: _Section) -> None:
    """Says what is not supported, instead of failing later for a reason hard to guess."""
    if user.has("exec") or user.has("auth-provider"):
        key = "exec" if user.has("exec") else "auth-provider"
        raise user.error(
            key,
            "is not supported: no program is started for credentials",
            "a token, a tokenFile or a client certificate; in a pod, no kubeconfig at all",
        )
    if cluster.text("proxy-url"):
        raise cluster.error(
            "proxy-url", "is not supported", "an address that can be reached directly"
        )


def _parse(path: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - 3 MB, needed for nothing else

    place = short_line(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise AccessError(f"{place}: the kubeconfig is larger than {LARGEST} bytes")
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        document = yaml.load(content, Loader=loader)  # noqa: S506 - a safe loader
    except OSError as error:
        raise AccessError(
            f"{place}: the kubeconfig cannot be read: {error.strerror}",
            "--kubeconfig (KUBECONFIG) names it; empty for the service account of the pod",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or "it cannot be parsed"
        raise AccessError(f"{place}{line}: the kubeconfig is not YAML: {what}") from None
    if not isinstance(document, dict):
        raise AccessError(f"{place}: the kubeconfig is empty or no mapping")
    return document


@dataclass(frozen=True, slots=True)
class _Section:
    """A mapping of the file, and where it stands."""

    file: str
    place: str
    values: Mapping[str, Any]

    def key(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def error(self, name: str, what: str, allowed: str = "") -> AccessError:
        return AccessError(
            f"{short_line(self.file)}: {short_line(self.key(name))} {what}",
            f"allowed: {allowed}" if allowed else "",
        )

    def has(self, name: str) -> bool:
        return bool(self.values.get(name))

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, "is not a text", "a text; put it in quotes")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name, False)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, "is neither true nor false", "true, false")
        return bool(value)

    def path(self, name: str) -> str:
        value = self.text(name)
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), value) if value else ""

    def data(self, name: str) -> bytes:
        try:
            return base64.b64decode("".join(self.text(name).split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(name, "is not base64") from None

    def named(self, collection: str, name: str, member: str, referrer: str) -> _Section:
        """The mapping of that name in a list of named ones."""
        items = self.values.get(collection)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict) and item.get("name") == name:
                inner = item.get(member)
                place = f"{collection}[{number}].{member}"
                if inner is not None and not isinstance(inner, dict):
                    raise self.error(place, "is no mapping")
                return _Section(self.file, place, inner or {})
        raise self.error(referrer, f"names {name!r}, which is not among the {collection}")
