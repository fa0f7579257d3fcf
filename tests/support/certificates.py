"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OPENSSL = shutil.which("openssl")


@dataclass(frozen=True)
class Certificates:
    """A certificate authority, and what it has signed; PEM files."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(directory: Path) -> Certificates:
    """An authority of its own, a server certificate for 127.0.0.1, one for a client."""
    assert OPENSSL is not None
    directory.mkdir(parents=True, exist_ok=True)
    _run(directory, "ca", "-subj", "/CN=tests-ca")
    by = ("-CA", "ca.pem", "-CAkey", "ca.key")
    names = "subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc"
    _run(directory, "server", "-subj", "/CN=apiserver", "-addext", names, *by)
    _run(directory, "client", "-subj", "/CN=tests/O=system:nodes", *by)
    return Certificates(
        *(
            directory / name
            for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
        )
    )


def _run(directory: Path, name: str, *arguments: str) -> None:
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    files = ("-out", f"{name}.pem", "-keyout", f"{name}.key")
    subprocess.run(
        [OPENSSL or "openssl", "req", *kind, "-days", "2", *files, *arguments],
        cwd=directory,
        check=True,
        capture_output=True,
    )
