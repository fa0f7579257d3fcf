"""How to reach the Kubernetes API: a kubeconfig file, or the service account of the pod.

As `clientcmd.BuildConfigFromFlags` of client-go: a kubeconfig that is named must be usable;
without a name it is the service account.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_device_plugin.kube.errors import AccessError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where the kubelet puts token and certificate authority into a pod."""
LARGEST_TOKEN = 64 * 1024
"""Characters; those of service accounts have about a thousand."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How the two sides prove who they are; data takes precedence over files."""

    ca_file: str = ""
    ca_data: bytes = field(default=b"", repr=False)
    """PEM; without file and data the system's authorities are trusted."""
    certificate_file: str = ""
    certificate_data: bytes = field(default=b"", repr=False)
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    server_name: str = ""
    """The name in the server's certificate, if not that of the address."""
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and the identity towards it."""

    server: str
    """``https://host[:port][/prefix]``, or ``http:``."""
    source: str
    """Where this comes from, for messages."""
    tls: Tls = field(default_factory=Tls)
    token: str = field(default="", repr=False)
    token_file: str = ""
    """Read anew for every request, as tokens of service accounts are replaced every hour or so;
    takes precedence over `token` while it can be read."""
    username: str = ""
    password: str = field(default="", repr=False)

    def bearer_token(self) -> str:
        """The token to send now; empty if there is none.

        Raises:
            AccessError: the file holds none, for now at least, and there is no other token.
        """
        token = self.token
        if self.token_file:
            try:
                with open(self.token_file, encoding="utf-8") as file:
                    token = file.read(LARGEST_TOKEN + 1).strip() or self.token
            except (OSError, ValueError) as error:
                if not self.token:
                    raise self._no_token(_reason(error)) from None
            if not token:
                raise self._no_token("it is empty")
        if len(token) > LARGEST_TOKEN:
            raise self._no_token("it is too large for a token")
        if not token.isascii() or not token.isprintable() or " " in token:
            # The message of whoever notices it later would show the token.
            raise self._no_token("it holds characters that no token has")
        return token

    def _no_token(self, why: str) -> AccessError:
        is_missing = self.token_file and not os.path.exists(self.token_file)
        hint = "automountServiceAccountToken of the pod must not be false" if is_missing else ""
        return AccessError(
            f"{self.source}: the token{f' in {self.token_file}' if self.token_file else ''} "
            f"cannot be used: {why}",
            hint,
        )


def load_access(kubeconfig: str = "", environment: Mapping[str, str] = os.environ) -> Access:
    """The access that a program is told to use.

    Args:
        kubeconfig: path of a kubeconfig file; empty for the service account of the pod.
        environment: where the kubelet tells pods of the API server.

    Raises:
        AccessError: there is none, or it cannot be used.
    """
    if not kubeconfig:
        return service_account(environment)
    from gpu_device_plugin.kube.kubeconfig import read_kubeconfig  # noqa: PLC0415 - needs PyYAML

    return read_kubeconfig(kubeconfig)


def service_account(environment: Mapping[str, str], directory: str = SERVICE_ACCOUNT) -> Access:
    """The access that the kubelet gives to every pod.

    Raises:
        AccessError: this is no pod, or one without a service account's token. While the token's file
            is there, but empty, only requests raise it.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    token, authority = os.path.join(directory, "token"), os.path.join(directory, "ca.crt")
    if not host or not port:
        raise AccessError(
            "the Kubernetes API cannot be reached: this is not a pod (KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT are not set), and no kubeconfig was named",
            "set --kubeconfig (KUBECONFIG) to the path of a kubeconfig file",
        )
    access = Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source="the service account of the pod",
        tls=Tls(ca_file=authority if os.path.exists(authority) else ""),
        token_file=token,
    )
    if not _is_empty(token):
        access.bearer_token()
    return access


def _is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no text"
