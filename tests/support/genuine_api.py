"""A genuine Kubernetes API server with its etcd, where somebody has built or installed them.

``make genuine`` builds the server. ``KUBE_APISERVER`` and ``ETCD`` name the programs, else they are
looked for in ``build`` and in ``PATH``.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.certificates import Certificates, make_certificates

BUILT = Path(__file__).parents[2] / "build" / "kube-apiserver"
SERVER = os.environ.get("KUBE_APISERVER") or shutil.which(BUILT) or shutil.which("kube-apiserver")
ETCD = os.environ.get("ETCD") or shutil.which("etcd")
LIMIT = 90.0
ADMIN = "admin-of-the-tests"
WHY_NOT = "" if SERVER and ETCD else "needs kube-apiserver (make genuine) and etcd"
Json = dict[str, Any]


@dataclass(frozen=True)
class GenuineApi:
    """An API server that runs, asked as its administrator."""

    url: str
    certificates: Certificates

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else {}

    def define(self, crd: Json) -> None:
        """Adds a kind of objects; returns when there can be some."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = self.ask("POST", path, crd)["metadata"]["name"]
        end = time.monotonic() + LIMIT
        while not self._is_established(f"{path}/{name}"):
            assert time.monotonic() < end, f"{name} is not established"
            time.sleep(0.05)  # nothing announces it but a watch

    def _is_established(self, path: str) -> bool:
        conditions = self.ask("GET", path).get("status", {}).get("conditions") or ()
        return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)

    def kubeconfig(self, directory: Path, account: str) -> str:
        """A kubeconfig for a service account of the namespace default."""
        target = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        token = self.ask("POST", target, {"spec": {}})["status"]["token"]
        cluster = {"server": self.url, "certificate-authority": str(self.certificates.authority)}
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(content))
        return str(path)


@contextmanager
def genuine_api(directory: Path) -> Iterator[GenuineApi]:
    """Runs both programs on loopback until the end of the context."""
    files = make_certificates(directory / "tls")
    (directory / "tokens").write_text(f"{ADMIN},admin,admin,system:masters\n")
    client, peer, port = (_free_port() for _ in range(3))
    store = f"http://127.0.0.1:{client}"
    between = f"http://127.0.0.1:{peer}"
    etcd = {
        "data-dir": directory / "etcd",
        "listen-client-urls": store,
        "advertise-client-urls": store,
        "listen-peer-urls": between,
        "initial-advertise-peer-urls": between,
        "initial-cluster": f"default={between}",
    }
    server = {
        "etcd-servers": store,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": files.server,
        "tls-private-key-file": files.server_key,
        "token-auth-file": directory / "tokens",
        "service-account-key-file": files.server,
        "service-account-signing-key-file": files.server_key,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": "10.0.0.0/24",
        "authorization-mode": "RBAC",
        "allow-privileged": "true",
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
    }
    with ExitStack() as programs:
        programs.enter_context(_running(directory / "etcd.log", ETCD, etcd))
        log = directory / "kube-apiserver.log"
        process = programs.enter_context(_running(log, SERVER, server))
        api = GenuineApi(f"https://127.0.0.1:{port}", files)
        _wait_for(api, process, log)
        yield api


@contextmanager
def _running(
    log: Path, program: str | None, options: dict[str, object]
) -> Iterator[subprocess.Popen[bytes]]:
    assert program is not None
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with (
        log.open("wb") as file,
        subprocess.Popen([program, *arguments], stdout=file, stderr=file) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def _wait_for(api: GenuineApi, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and process.poll() is None:
        try:
            api.ask("GET", "/readyz")
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text()[-4000:])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
