"""Calls to the other side, and other sides that are no kubelet."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aio import run
from support.babble import PREFACE, babbling

from gpu_device_plugin.kubelet.client import KubeletUnreachable, RegistrationRefused, register
from gpu_device_plugin.kubelet.podresources import PodResourcesClient, PodResourcesUnavailable

CALLS = 20


@contextmanager
def closing(path: str, data: bytes) -> Iterator[None]:
    """Accepts connections, sends something and closes them, before anybody can look."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        server.bind(path)
        server.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(data)

        pool.submit(serve)
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("data", [b"", PREFACE, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_closes_connections_at_once_is_unreachable(tmp_path, data):
    path = str(tmp_path / "k")

    async def work():
        for _ in range(CALLS):
            with pytest.raises(KubeletUnreachable, match=r"(at once|Connection lost|Broken pipe)$"):
                await register(path, "s", "nvidia.com/gpu")

    with closing(path, data):
        run(work())


def test_pod_resources_of_what_closes_connections_at_once(tmp_path):
    path = str(tmp_path / "k")

    async def work():
        for _ in range(CALLS):
            async with PodResourcesClient(path) as kubelet:
                with pytest.raises(
                    PodResourcesUnavailable, match=r"(at once|Connection lost|pipe)"
                ):
                    await kubelet.list()

    with closing(path, b""):
        run(work())


def frames() -> st.SearchStrategy[bytes]:
    """HTTP/2 frames with anything in them."""
    return st.builds(
        lambda kind, flags, stream, body: (
            struct.pack("!HBBBI", len(body) >> 8, len(body) & 255, kind, flags, stream) + body
        ),
        st.integers(0, 12),
        st.integers(0, 255),
        st.sampled_from([0, 1, 2, 3]),
        st.binary(max_size=40),
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(frames() | st.binary(max_size=40), max_size=4))
def test_whatever_is_answered_is_unreachable_or_refused(tmp_path_factory, caplog, polite, parts):
    path = str(tmp_path_factory.mktemp("k") / "k")
    caplog.clear()

    async def work():
        async with babbling(path, PREFACE * polite + b"".join(parts)):
            with pytest.raises((KubeletUnreachable, RegistrationRefused)):
                await register(path, "s", "nvidia.com/gpu")

    run(work())
    assert not [r for r in caplog.records if r.exc_info], caplog.text
    Path(path).unlink(missing_ok=True)
