from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.scalars import resolve

TAG = "tag:yaml.org,2002:"


def plain(text: str) -> object:
    return resolve(text, None, plain=True)


@pytest.mark.parametrize(
    "text", ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]
)
def test_words_for_true(text: str) -> None:
    assert plain(text) is True


@pytest.mark.parametrize(
    "text", ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]
)
def test_words_for_false(text: str) -> None:
    assert plain(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_words_for_null(text: str) -> None:
    assert plain(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("010", 8),
        ("0o10", 8),
        ("0O10", 8),
        ("0x1F", 31),
        ("0X1f", 31),
        ("0b11", 3),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1__0_", 10),
        ("0x_1F", 31),
        ("+5", 5),
        ("-5", -5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_integers(text: str, number: float) -> None:
    assert plain(text) == number
    assert type(plain(text)) is int


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("1.", 1.0),
        ("1.5", 1.5),
        (".5", 0.5),
        (".5e1", 5.0),
        ("-.5", -0.5),
        ("1_0.5", 10.5),
        ("08", 8.0),
        ("09.5", 9.5),
        ("18446744073709551616", 2.0**64),
        ("+18446744073709551615", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("9" * 200, float("9" * 200)),
        ("0" * 200 + "8", 8.0),
        (".inf", math.inf),
        ("+.Inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_doubles(text: str, number: float) -> None:
    assert plain(text) == number
    assert type(plain(text)) is float


def test_not_a_number() -> None:
    assert all(math.isnan(resolve(t, None, plain=True) or 0.0) for t in (".nan", ".NaN", ".NAN"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "1:10",
        "0:1",
        "10:05:03",
        "2001-01-01",
        "2001-12-14t21:59:43.10-05:00",
        "yEs",
        "nULL",
        "tRue",
        "_1",
        ".",
        "+",
        "-",
        "-.",
        "._5",
        ".5_0",
        "1e",
        "1e400",
        ".5e400",
        "0xG",
        "0x",
        "0b2",
        "0x" + "f" * 17,
        "9" * 5000,
        "1 000",
        "60s",
        "<<",
        "=",
        "٣",
        ".Nan",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize("text", ["yes", "1", "~", "", ".inf"])
def test_quotes_and_unknown_tags_make_texts(text: str) -> None:
    assert resolve(text, None, plain=False) == text
    assert resolve(text, "!", plain=True) == text
    assert resolve(text, "!own", plain=True) == text
    assert resolve(text, TAG + "str", plain=True) == text
    assert resolve(text, TAG + "other", plain=True) == text


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("int", "5", 5),
        ("bool", "yes", True),
        ("float", "1.5", 1.5),
        ("float", "5", 5.0),
        ("null", "~", None),
        ("timestamp", "2001-01-01", "2001-01-01"),
        ("timestamp", "2001-1-1 1:2:3", "2001-1-1 1:2:3"),
        ("binary", "djE=", "v1"),
        ("binary", "dj\nE=", "v1"),
        ("binary", "/w==", "\ufffd"),
    ],
)
def test_tags(tag: str, text: str, value: object) -> None:
    found = resolve(text, TAG + tag, plain=False)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("int", "x"),
        ("int", "1.5"),
        ("int", "yes"),
        ("int", ""),
        ("bool", "1"),
        ("float", "x"),
        ("null", "x"),
        ("timestamp", "1"),
        ("timestamp", "soon"),
    ],
)
def test_tags_that_do_not_fit(tag: str, text: str) -> None:
    with pytest.raises(ValueError, match=f'^"{text}" is not a {tag}$'):
        resolve(text, TAG + tag, plain=True)


def test_bytes_that_are_not_base64() -> None:
    with pytest.raises(ValueError, match="!!binary is not base64"):
        resolve("djE", TAG + "binary", plain=True)


@given(st.text(alphabet="0123456789+-._eExXoObBaAfF:nyNY~", max_size=12), st.booleans())
def test_whatever_is_written_has_a_value(text: str, is_plain: bool) -> None:
    value = resolve(text, None, plain=is_plain)
    assert value is None or isinstance(value, bool | int | float | str)
    if isinstance(value, str):
        assert value == text
