"""Compression that is wanted, and headers that an answer brings itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.web.headers import complete, takes_gzip
from gpu_device_plugin.web.messages import Response


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("br, deflate", False),
        ("identity", False),
        ("", False),
        ("gzipped", False),
    ],
)
def test_gzip_is_what_the_client_says(accepted, takes):
    assert takes_gzip(accepted) is takes


@given(st.text())
def test_any_header_is_understood_somehow(accepted):
    assert takes_gzip(accepted) in {True, False}


def test_an_answer_may_replace_a_header():
    headers, _ = complete(Response(200, headers={"Content-Security-Policy": "own"}), "")
    assert [value for name, value in headers if name == "Content-Security-Policy"] == ["own"]
