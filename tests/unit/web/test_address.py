"""Addresses as users write them."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.web import address as module
from gpu_device_plugin.web.address import Address, listen, read_address, reason

OPTION = "--metrics-address (GPU_NODE_METRICS_ADDRESS)"
PORTS = st.integers(0, 65535)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9440", "127.0.0.1", 9440),
        (":9440", "", 9440),
        ("[::1]:9440", "::1", 9440),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("localhost:0", "localhost", 0),
        ("node_1.example.com.:65535", "node_1.example.com.", 65535),
    ],
)
def test_an_address_is_host_and_port(text, host, port):
    assert read_address(text, OPTION) == Address(host, port)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9440", "it has no port"),
        ("127.0.0.1", "it has no port"),
        ("127.0.0.1:", "its port is no number from 0 to 65535"),
        (":65536", "its port is no number"),
        (":-1", "its port is no number"),
        (":+1", "its port is no number"),
        (":٣", "its port is no number"),
        (":1_0", "its port is no number"),
        (":metrics", "its port is no number"),
        ("::1:9440", "an IPv6 address stands in brackets"),
        ("http://127.0.0.1:9440", "and no scheme before it"),
        ("[127.0.0.1]:9440", "what is in brackets is no IPv6 address"),
        ("[]:9440", "what is in brackets is no IPv6 address"),
        ("[::1:9440", "an IPv6 address stands in brackets"),
        ("a b:1", "its host is neither a name nor an address"),
        ("-a:1", "its host is neither"),
        ("*:1", "its host is neither"),
        (f"{'a' * 64}:1", "its host is neither"),
        ("a\n:1", "its host is neither"),
        (f"{'.'.join(['a' * 60] * 5)}:1", "its host is neither"),
    ],
)
def test_what_is_no_address_is_refused_in_one_line(text, why):
    with pytest.raises(UsageError) as caught:
        read_address(text, OPTION)
    message = str(caught.value)
    assert message.startswith(f"{OPTION}: ")
    assert why in message
    assert "such as 127.0.0.1:9440, [::1]:9440, or :9440 for every address" in message
    assert message.isprintable()


def outcome(text: str) -> Address | str:
    try:
        return read_address(text, OPTION)
    except UsageError as error:
        return str(error)


@given(st.text())
def test_any_text_is_an_address_or_refused_in_one_line(text):
    found = outcome(text)
    assert found.isprintable() if isinstance(found, str) else 0 <= found.port <= 65535


@given(st.ip_addresses(), PORTS)
def test_addresses_are_read_back_as_they_are_written(ip, port):
    text = str(Address(str(ip), port))
    assert read_address(text, OPTION) == Address(str(ip), port)


@given(st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{1,5})?", fullmatch=True), PORTS)
def test_names_are_read_back_as_they_are_written(name, port):
    assert read_address(f"{name}:{port}", OPTION) == Address(name, port)


def test_port_zero_is_one_that_is_free_and_the_same_for_all_addresses():
    sockets = listen(Address("localhost", 0))
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert sockets[0].getsockname()[1] != 0
    finally:
        for sock in sockets:
            sock.close()


def test_what_cannot_be_listened_at_leaves_nothing_open():
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(OSError) as caught,  # noqa: PT011 - the reason is checked below
    ):
        listen(Address("127.0.0.1", other.getsockname()[1]))
    assert reason(caught.value) == "address already in use"


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the reason is checked below
        listen(Address("no-such-host.invalid", 1))
    assert reason(caught.value)


def test_without_ipv6_every_address_means_those_of_ipv4(monkeypatch):
    monkeypatch.setattr(module, "_has_ipv6", lambda: False)
    (sock,) = listen(Address("", 0))
    with sock:
        assert sock.family == socket.AF_INET


def test_a_kernel_without_ipv6_is_noticed(monkeypatch):
    def refuse(*_: object) -> socket.socket:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", refuse)
    assert not module._has_ipv6()
