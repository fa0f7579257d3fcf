from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.hardware.simulated.events import Action, parse_line
from gpu_device_plugin.simulation.node_faults import append_fault, check_fault
from gpu_device_plugin.simulation.page_address import page_url, same_port


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("xid 3 79", Action.XID),
        ("lost 3", Action.LOST),
        ("back 3", Action.BACK),
        ("mig 0 1g.5gb,3g.20gb", Action.MIG),
        ("mig 0 off", Action.MIG),
        ("init-error it is broken", Action.INIT_ERROR),
        (" monitor-ok ", Action.MONITOR_OK),
    ],
)
def test_what_can_happen_is_understood(line: str, action: Action) -> None:
    assert check_fault(line, "dgx-a100") is action


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("explode 3", "allowed: xid, lost, back"),
        ("xid 3", "allowed: xid GPU NUMBER"),
        ("xid 8 79", "allowed: 0 to 7"),
        ("mig 0 9g.90gb", "9g.90gb"),
        ("mig 0 7g.40gb,7g.40gb", "7g.40gb"),
        ("", "a fault is one line"),
        ("# comment", "a fault is one line"),
        ("xid 0 1\nxid 1 1", "a fault is one line"),
    ],
)
def test_what_cannot_happen_is_refused_with_what_can(line: str, text: str) -> None:
    with pytest.raises(UsageError, match="--fault: ") as refused:
        check_fault(line, "dgx-a100")

    assert text in str(refused.value)


def test_a_profile_that_has_gone_is_told() -> None:
    with pytest.raises(UsageError, match="no simulated node"):
        check_fault("xid 0 1", "gone")


def test_a_line_is_added_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "events"

    append_fault(" xid 0 48 ", str(path))
    append_fault("lost 1", str(path))

    assert path.read_text() == "xid 0 48\nlost 1\n"


@given(st.text(max_size=40))
def test_no_text_is_taken_that_the_node_would_not_take(line: str) -> None:
    try:
        check_fault(line, "t4x4")
    except UsageError:
        return
    assert parse_line(line.strip()) is not None


@pytest.mark.parametrize(
    ("message", "url"),
    [
        ("serving HTTP at 127.0.0.1:4711: /, /metrics", "http://127.0.0.1:4711/"),
        ("serving HTTPS at [::1]:9440: /metrics", "https://[::1]:9440/"),
        ("serving HTTP at :9440: /", "http://127.0.0.1:9440/"),
        ("serving resource=nvidia.com/gpu socket=/x", ""),
        ("", ""),
    ],
)
def test_the_page_is_where_the_log_says(message: str, url: str) -> None:
    assert page_url(message) == url


@pytest.mark.parametrize(
    ("address", "url", "again"),
    [
        ("127.0.0.1:0", "", "127.0.0.1:0"),
        ("127.0.0.1:0", "http://127.0.0.1:4711/", "127.0.0.1:4711"),
        ("127.0.0.1:9440", "http://127.0.0.1:9440/", "127.0.0.1:9440"),
        ("[::1]:0", "http://[::1]:4711/", "[::1]:4711"),
        ("", "", ""),
    ],
)
def test_a_plugin_that_starts_again_has_its_page_where_it_was(
    address: str, url: str, again: str
) -> None:
    assert same_port(address, url) == again
