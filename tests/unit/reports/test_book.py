"""How often something is told."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.reports import xid

from gpu_device_plugin.reports.book import (
    PER_NODE,
    PER_NOTICE,
    TOO_OLD_SECONDS,
    EventBook,
)
from gpu_device_plugin.reports.event import event_again
from gpu_device_plugin.reports.notices import Notice, Notices


def notice(number: int, gpu: int = 0) -> Notice:
    made = Notices().of(xid(gpu, number))
    assert made is not None
    return made


def tell(book: EventBook, now: float) -> int | None:
    """Tells what is due; returns its count."""
    entry = book.due(now)
    if entry is None:
        return None
    book.told(replace(entry), now)
    return entry.count


def test_what_happens_again_is_one_entry_that_counts():
    book = EventBook()
    for n in range(1000):
        book.note(notice(79), wall=n, now=0)

    entry = book.due(0)
    assert entry is not None
    assert (entry.count, entry.first, entry.last) == (1000, 0, 999)
    assert tell(book, 0) == 1000
    assert book.due(0) is None
    assert book.wait(0) is None


def test_what_happens_again_after_the_clock_was_set_back_did_not_begin_in_the_future():
    book = EventBook()
    day = 86400.0
    book.note(notice(1), wall=5 * day, now=0)
    book.note(notice(1), wall=4 * day, now=1)
    (entry,) = book.untold()
    assert (entry.first, entry.last, entry.count) == (4 * day, 4 * day, 2)
    patch = event_again(entry, "text")
    assert patch["firstTimestamp"] == patch["lastTimestamp"] == "1970-01-05T00:00:00Z"
    book.note(notice(1), wall=6 * day, now=2)
    assert (entry.first, entry.last) == (4 * day, 6 * day)


def test_one_notice_is_told_three_times_then_once_a_minute():
    book, told = EventBook(), list[tuple[int, int]]()
    for second in range(300):
        book.note(notice(79), wall=second, now=second)
        if (count := tell(book, second)) is not None:
            told.append((second, count))

    assert told == [(0, 1), (1, 2), (2, 3), (60, 61), (120, 121), (180, 181), (240, 241)]


def test_different_notices_share_what_is_allowed_for_the_node():
    book = EventBook()
    for number in range(50):
        book.note(notice(number), wall=0, now=0)

    at_once = sum(tell(book, 0) is not None for _ in range(50))
    assert at_once == PER_NODE.burst
    wait = book.wait(0)
    assert wait is not None
    assert abs(wait - PER_NODE.seconds) < 1e-6
    assert tell(book, wait) == 1


def test_the_wait_is_that_of_the_notice_that_may_be_told_first():
    book = EventBook()
    for _ in range(PER_NOTICE.burst + 1):
        book.note(notice(79), wall=0, now=0)
        tell(book, 0)

    assert book.due(0) is None
    assert book.wait(0) == PER_NOTICE.seconds
    book.note(notice(48), wall=0, now=0)
    assert book.wait(0) == 0


def test_what_finds_no_place_is_counted():
    book = EventBook(size=2)
    for number in range(5):
        book.note(notice(number), wall=0, now=0)

    assert (len(book), book.left_out) == (2, 3)
    entry = book.due(0)
    assert entry is not None
    book.told(replace(entry), 0, left_out=3)
    book.note(notice(9), wall=0, now=0)
    assert (len(book), book.left_out) == (2, 0)


def test_what_waited_too_long_is_given_up_and_counted():
    book = EventBook()
    for _ in range(3):
        book.note(notice(79), wall=0, now=0)
    book.note(notice(48), wall=0, now=10)

    assert book.drop_old(TOO_OLD_SECONDS) == 0
    assert book.drop_old(TOO_OLD_SECONDS + 1) == 3
    assert len(book) == 1


def test_an_old_notice_that_was_told_is_young_again_when_it_happens_again():
    book = EventBook()
    book.note(notice(79), wall=0, now=0)
    tell(book, 0)
    book.note(notice(79), wall=9000, now=9000)

    assert book.drop_old(9001) == 0
    assert tell(book, 9001) == 2


def test_what_was_dropped_while_it_was_told_stays_away():
    book = EventBook()
    book.note(notice(79), wall=0, now=0)
    entry = book.due(0)
    assert entry is not None
    book.drop(entry)
    book.told(replace(entry), 0)

    assert len(book) == 0


ACTS = st.lists(
    st.tuples(st.sampled_from(["note", "tell", "fail"]), st.integers(0, 99), st.floats(0, 20)),
    max_size=200,
)


@given(ACTS)
def test_nothing_is_lost_the_book_stays_small_and_limits_hold(acts):
    """Counts that were told, and those that wait or were left out, are all that was noted."""
    book, now, noted, sent = EventBook(size=20), 0.0, 0, list[tuple[float, tuple[str, str]]]()
    told = dict[tuple[str, str], int]()
    gone = 0
    for act, number, pause in acts:
        now += pause
        if act == "note":
            before = {e.notice.key: e.count for e in book._entries.values()}
            book.note(notice(number % 30), wall=now, now=now)
            noted += 1
            after = {e.notice.key for e in book._entries.values()}
            gone += sum(count for key, count in before.items() if key not in after)
        elif (entry := book.due(now)) is not None and act == "tell":
            assert entry.count > told.get(entry.notice.key, 0) or entry.told == 0
            book.told(replace(entry), now)
            told[entry.notice.key] = entry.count
            sent.append((now, entry.notice.key))
        assert len(book) <= 20

    kept = sum(entry.count for entry in book._entries.values())
    assert kept + gone + book.left_out == noted
    for begin, _ in sent:
        within = [at for at, _ in sent if begin <= at <= begin + 60]
        assert len(within) <= PER_NODE.burst + 60 / PER_NODE.seconds + 1
