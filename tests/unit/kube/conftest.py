"""API servers, and certificates that are made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.apiserver import ApiServer
from support.certificates import OPENSSL, Certificates, make_certificates


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if OPENSSL is None:
        pytest.skip("no openssl command to make certificates with")
    return make_certificates(tmp_path_factory.mktemp("certificates"))
