from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.durations import INFINITE, format_duration, parse_duration

US, MS, S, M, H = 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("60s", M),
        ("1h5m", H + 5 * M),
        ("1h2m3s4ms5us6ns", H + 2 * M + 3 * S + 4 * MS + 5 * US + 6),
        ("5\u00b5s", 5 * US),
        ("5\u03bcs", 5 * US),
        ("1.5h", 90 * M),
        ("1.s", S),
        (".5s", S // 2),
        ("-1.5s", -3 * S // 2),
        ("+5s", 5 * S),
        ("1.0000000001s", S),
        ("0.9ns", 0),
        ("1s1s", 2 * S),
        ("0000000000000000000000001s", S),
        ("0.3333333333333333333333333333h", 20 * M),
        ("0.100000000000000000000h", 6 * M),
        ("0.830103483285477580700h", 49 * M + 48 * S + 372539827),
        ("0.9223372036854775807h", 55 * M + 20 * S + 413933267),
        ("0.9999999999999999999h", H),
        ("infinite", INFINITE),
        ("9223372036854775807ns", INFINITE),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_durations_in_the_way_of_go(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a duration"),
        ("-", "not a duration"),
        ("s", "not a duration"),
        (".s", "not a duration"),
        ("soon", "not a duration"),
        (" 1s", "not a duration"),
        ("+-1s", "not a duration"),
        ("Infinite", "not a duration"),
        ("-infinite", "not a duration"),
        ("60", "a duration without a unit"),
        ("00", "a duration without a unit"),
        ("1.5", "a duration without a unit"),
        ("1d", "a duration with an unknown unit"),
        ("1 s", "a duration with an unknown unit"),
        ("1s ", "a duration with an unknown unit"),
        ("1h-5m", "a duration with an unknown unit"),
        ("1H", "a duration with an unknown unit"),
        ("\u0661s", "not a duration"),
        ("9223372036854775808ns", "too long a duration"),
        ("-9223372036854775809ns", "too long a duration"),
        ("99999999999999999999h", "too long a duration"),
        ("9" * 5000 + "s", "too long a duration"),
        ("2562047h48m", "too long a duration"),
    ],
)
def test_other_texts_are_no_durations(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (60, "60ns"),
        (1500, "1.5\u00b5s"),
        (999_999, "999.999\u00b5s"),
        (MS, "1ms"),
        (1_100_000, "1.1ms"),
        (10 * S, "10s"),
        (M, "1m0s"),
        (61 * S + 500 * MS, "1m1.5s"),
        (H, "1h0m0s"),
        (H + 2 * M, "1h2m0s"),
        (-90 * S, "-1m30s"),
        (S + 1, "1.000000001s"),
        (INFINITE, "infinite"),
        (INFINITE - 1, "2562047h47m16.854775806s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_the_canonical_form(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text
    if nanoseconds != -(2**63):  # Go reads fractions through a double
        assert parse_duration(text) == nanoseconds


@given(st.integers(-(2**52), 2**52))
def test_what_is_printed_is_read_back(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@given(st.text(alphabet="0123456789.hmsnuµ+- infte", max_size=12))
def test_whatever_is_read_is_within_64_bits(text: str) -> None:
    try:
        nanoseconds = parse_duration(text)
    except ValueError:
        return
    assert -(2**63) <= nanoseconds < 2**63
