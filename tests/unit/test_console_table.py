"""Tables fit the terminal as long as that is possible, and lose nothing where there is room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.console.screen import ANSI
from gpu_device_plugin.console.table import GAP, Cell, Column, Row, shortened, table_lines

COLUMNS = (
    Column("NAME", narrowest=6),
    Column("USED", right=True),
    Column("CAUSE", narrowest=8, last_resort=1),
    Column("ID", narrowest=5, last_resort=2, by_middle=True),
)
ROWS = (
    ("a", "1/100", "", "GPU-0123456789"),
    ("a-long-name", "3/4", "XID 79: GPU has fallen off the bus", "GPU-9876543210"),
)


def lines(width: int | None = None) -> list[str]:
    return [*table_lines(COLUMNS, ROWS, width)]


def test_all_columns_are_aligned_and_empty_cells_say_so():
    assert lines() == [
        "NAME          USED  CAUSE                               ID",
        "a            1/100  -                                   GPU-0123456789",
        "a-long-name    3/4  XID 79: GPU has fallen off the bus  GPU-9876543210",
    ]


def test_long_cells_are_cut_where_there_is_no_room():
    assert lines(50) == [
        "NAME          USED  CAUSE           ID",
        "a            1/100  -               GPU-0123456789",
        "a-long-name    3/4  XID 79: GPU h…  GPU-9876543210",
    ]


def test_columns_that_matter_least_are_left_out_where_even_that_does_not_do():
    assert lines(26) == [
        "NAME        USED  CAUSE",
        "a          1/100  -",
        "a-long-n…    3/4  XID 79:…",
    ]
    assert [line.split()[0] for line in lines(1)] == ["NAME", "a", "a-lon…"]


def test_columns_that_say_nothing_are_left_out_first():
    rows = [("a", "1", "", "GPU-0123456789")]

    assert next(table_lines(COLUMNS, rows, 28)).split() == ["NAME", "USED", "ID"]


def test_a_table_without_rows_has_a_head():
    assert [*table_lines(COLUMNS, [])] == ["NAME  USED  CAUSE  ID"]


def test_colours_do_not_count_as_width():
    rows: list[Row] = [(Cell("a", ANSI.red), "1", "", "x"), ("bb", "1", "", "x")]

    head, first, second = table_lines(COLUMNS, rows, None, ANSI)

    assert head.startswith("\x1b[1mNAME\x1b[0m")
    assert first == "\x1b[31ma\x1b[0m        1  -      x"
    assert second == "bb       1  -      x"


def test_what_cannot_be_printed_is_shown_as_an_escape():
    (_, row) = table_lines((Column("A"),), [("x\x1b[31m\n",)])

    assert row == r"x\x1b[31m\n"


@pytest.mark.parametrize(
    ("width", "text"), [(9, "abcdefghi"), (8, "abcd…ghi"), (3, "a…i"), (2, "a…"), (1, "…")]
)
def test_an_id_keeps_both_ends(width, text):
    assert shortened("abcdefghi", width, by_middle=True) == text


@pytest.mark.parametrize(("width", "text"), [(9, "abcdefghi"), (8, "abcdefg…"), (1, "…")])
def test_a_text_keeps_its_beginning(width, text):
    assert shortened("abcdefghi", width) == text


def test_what_is_wanted_has_the_room_first():
    columns = (Column("A", narrowest=3), Column("B", narrowest=3, is_wanted=True))

    assert [*table_lines(columns, [("aaaaaaaa", "bbbbbbbb")], 14)][1] == "aaa…  bbbbbbbb"


words = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), max_size=30)
tables = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(
            st.builds(
                Column,
                st.text("ABC", min_size=1, max_size=6),
                st.booleans(),
                st.integers(0, 8),
                st.booleans(),
                st.booleans(),
                st.integers(0, 3),
            ),
            min_size=n,
            max_size=n,
        ),
        st.lists(st.lists(words, min_size=n, max_size=n), max_size=5),
    )
)


@settings(deadline=None)
@given(tables)
def test_with_room_nothing_is_lost(table):
    columns, rows = table

    _, *body = table_lines(columns, rows)

    for row, line in zip(rows, body, strict=True):
        assert all((cell or "-") in line for cell in row)


@settings(deadline=None)
@given(tables, st.integers(1, 120))
def test_lines_are_not_longer_than_the_terminal_if_what_must_stay_fits(table, width):
    columns, rows = table
    must = 0
    for n, column in enumerate(columns):
        natural = max([len(column.head), *(len(row[n]) or 1 for row in rows)])
        if not column.last_resort:
            narrow = max(column.narrowest, len(column.head))
            must += (min(natural, narrow) if column.narrowest else natural) + len(GAP)

    longest = max(len(line) for line in table_lines(columns, rows, width))

    assert longest <= max(width, must - len(GAP))


@settings(deadline=None)
@given(tables, st.integers(1, 120))
def test_cells_stay_in_their_columns(table, width):
    columns, rows = table
    coloured = [*table_lines(columns, rows, width, ANSI)]
    plain = [*table_lines(columns, rows, width)]

    assert len(plain) == len(rows) + 1
    stripped = [line.replace(ANSI.bold, "").replace(ANSI.end, "").rstrip() for line in coloured]
    assert stripped == plain
