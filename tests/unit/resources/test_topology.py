"""Preferred sets of GPUs: the original's answers, and a plain search over all partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.resources import topology_tree
from gpu_device_plugin.resources.topology import PairScores, TopologyAllocator
from gpu_device_plugin.resources.topology_subsets import SubsetSearch
from gpu_device_plugin.resources.topology_swaps import SwapSearch
from gpu_device_plugin.resources.topology_tree import TreeSearch

Rows = Sequence[Sequence[int]]

DIGITS = "0123456789abcdef"

CUBE_MESH = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
"""NVLinks of a DGX-1 with V100."""


def machine(
    count: int, groups: dict[int, int], nvlinks: Sequence[Sequence[int]] | None = None
) -> PairScores:
    """GPUs of which each so many successive ones share a level; the rest is on different CPUs.

    Args:
        count: number of GPUs.
        groups: for each level the size of the groups that have it in common.
        nvlinks: links of every two GPUs.
    """
    levels = dict[tuple[int, int], int | None]()
    links = dict[tuple[int, int], int]()
    for one, other in combinations(range(count), 2):
        shared = [level for level, size in groups.items() if one // size == other // size]
        levels[one, other] = min(shared, default=50)
        if nvlinks:
            links[one, other] = nvlinks[one][other]
    return PairScores.from_links(count, levels, links)


def linked(count: int, *pairs: tuple[int, int]) -> PairScores:
    """GPUs of one CPU, some of which have an NVLink."""
    levels = dict.fromkeys(combinations(range(count), 2), 40)
    return PairScores.from_links(count, levels, dict.fromkeys(pairs, 1))


MACHINES = {
    "k80x2": machine(2, {10: 2}),
    "l40sx1": machine(1, {}),
    "v100x8": machine(8, {10: 2, 30: 4}, CUBE_MESH),
    "v100x16": machine(16, {10: 2, 20: 4, 40: 8}),
    "a100x8": machine(8, {20: 2}),
    "h100x8": machine(8, {40: 4}),
}

ANSWERS = [
    # machine, available, required, sizes, what v0.19.3 prefers; "-" is nothing
    ("a100x8", "01234567", "", "12345678", "0 01 012 0123 01234 012345 0123456 01234567"),
    ("a100x8", "76543210", "", "12345678", "7 76 765 7654 76543 765432 7654321 76543210"),
    ("a100x8", "02356", "", "12345", "0 23 023 0235 02356"),
    ("a100x8", "1357", "", "1234", "1 13 135 1357"),
    ("a100x8", "406271", "", "123456", "4 01 401 4021 40671 406271"),
    ("a100x8", "34", "", "12", "3 34"),
    ("a100x8", "01234567", "0", "123456", "0 01 012 0123 01234 012345"),
    ("a100x8", "01234567", "3", "123456", "3 23 345 0123 01234 012345"),
    ("a100x8", "01234567", "7", "123456", "7 67 367 4567 01237 012367"),
    ("a100x8", "01234567", "07", "123456", "- 07 017 0167 01237 012367"),
    ("a100x8", "01234567", "416", "123456", "- - 146 0146 01456 014567"),
    ("a100x8", "013467", "0", "123456", "0 01 013 0134 01367 013467"),
    ("a100x8", "013467", "3", "123456", "3 34 013 0134 01367 013467"),
    ("a100x8", "013467", "7", "123456", "7 67 467 0167 01367 013467"),
    ("a100x8", "013467", "07", "123456", "- 07 017 0167 01367 013467"),
    ("a100x8", "013467", "416", "123456", "- - 146 0146 01467 013467"),
    ("h100x8", "01234567", "", "12345678", "0 01 012 0123 01234 012345 0123456 01234567"),
    ("h100x8", "76543210", "", "12345678", "7 76 765 7654 76543 765432 7654321 76543210"),
    ("h100x8", "02356", "", "12345", "0 02 023 0235 02356"),
    ("h100x8", "1357", "", "1234", "1 13 135 1357"),
    ("h100x8", "406271", "", "123456", "4 67 467 4067 40627 406271"),
    ("h100x8", "34", "", "12", "3 34"),
    ("v100x8", "01234567", "0", "123456", "0 03 023 0123 01234 012345"),
    ("v100x8", "01234567", "3", "123456", "3 03 023 0123 01234 012345"),
    ("v100x8", "01234567", "7", "123456", "7 47 467 4567 14567 014567"),
    ("v100x8", "01234567", "07", "123456", "- 07 047 0467 04567 014567"),
    ("v100x8", "01234567", "416", "123456", "- - 146 1456 14567 014567"),
    ("v100x8", "013467", "0", "123456", "0 04 013 0134 03467 013467"),
    ("v100x8", "013467", "3", "123456", "3 13 013 0134 03467 013467"),
    ("v100x8", "013467", "7", "123456", "7 67 467 0467 03467 013467"),
    ("v100x8", "013467", "07", "123456", "- 07 047 0467 03467 013467"),
    ("v100x8", "013467", "416", "123456", "- - 146 1467 01467 013467"),
    ("k80x2", "01", "", "12", "0 01"),
    ("k80x2", "01", "1", "12", "1 01"),
    ("k80x2", "10", "", "12", "1 10"),
    ("k80x2", "10", "1", "12", "1 10"),
    ("l40sx1", "0", "", "1", "0"),
    ("l40sx1", "0", "0", "1", "0"),
    ("v100x16", DIGITS, "", "18c", "0 01234567 0123456789ab"),
    ("v100x16", DIGITS, "9", "18", "9 89abcdef"),
    ("v100x16", "013468abdf", "", "12345", "0 01 013 0134 01346"),
    ("v100x16", "013468abdf", "", "6789", "01346d 01346df 013468ab 013468abd"),
    ("v100x16", "013468abdf", "6", "12345", "6 46 46d 68ab 01346"),
    ("v100x16", "013468abdf", "6", "6789", "01346d 01346df 013468ab 013468abd"),
    ("v100x16", "01245789acdf", "", "2346", "01 012 0127 012457"),
    ("v100x16", "02346789abcdef", "", "2", "23"),
    ("v100x16", "02346789abcdef", "9", "2", "89"),
]


def positions(digits: str) -> list[int]:
    return [DIGITS.index(digit) for digit in digits]


@pytest.mark.parametrize(("name", "available", "required", "sizes", "expected"), ANSWERS)
def test_answers_like_the_original(
    name: str, available: str, required: str, sizes: str, expected: str
) -> None:
    allocator = TopologyAllocator(MACHINES[name])
    answers = [
        allocator.prefer(positions(available), positions(required), positions(size)[0])
        for size in sizes
    ]

    shown = ["".join(DIGITS[position] for position in answer) or "-" for answer in answers]
    assert expected == " ".join(shown)


@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        ([], [], 0, ()),
        ([], [], 1, ()),
        ([0, 1, 2], [], 0, ()),
        ([0, 1, 2], [], -1, ()),
        ([0, 1, 2], [], 4, ()),
        ([0, 1, 2], [5], 2, ()),
        ([0, 1, 2], [99], 2, ()),
        ([0, 1, 2], [1, 2], 1, ()),
        ([7, 2, 3], [], 2, (2, 3)),
        ([4, 5], [], 1, (4,)),
        ([4, 5], [5], 1, (5,)),
        ([5, 4, 1], [], 3, (5, 4, 1)),
        ([5, 4, 1, 0], [1, 4], 2, (4, 1)),
        ([0, 0, 1], [], 1, (0,)),
        ([0, 0, 1], [], 2, (0, 1)),
        ([0, 0, 1], [], 3, ()),
        ([3, 1, 3, 2], [2, 2], 2, (3, 2)),
        ([3, 1, 3, 2], [2, 2], 1, (2,)),
    ],
)
def test_odd_requests(
    available: list[int], required: list[int], size: int, expected: tuple[int, ...]
) -> None:
    assert expected == TopologyAllocator(MACHINES["a100x8"]).prefer(available, required, size)


def test_an_unknown_gpu_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="no such GPUs"):
        TopologyAllocator(MACHINES["a100x8"]).prefer([0, 8], [], 1)


@pytest.mark.parametrize(
    ("scores", "required", "size", "expected"),
    [
        # The original forgets the best of partitions into seven or eight sets.
        pytest.param(linked(14, (12, 13)), [], 2, (12, 13), id="linked-last-pair"),
        pytest.param(linked(14), [13], 2, (12, 13), id="last-of-14"),
        pytest.param(linked(14), [12, 13], 2, (12, 13), id="last-two-of-14"),
        pytest.param(linked(15), [13, 14], 2, (13, 14), id="last-two-of-15"),
        pytest.param(linked(16), [14, 15], 2, (14, 15), id="last-two-of-16"),
        # It crashes if the best set is the one with the padding.
        pytest.param(linked(5, (3, 4)), [], 3, (0, 1, 2), id="padded-set-is-best"),
        # Uniform links, as it answers itself.
        pytest.param(linked(8), [7], 2, (6, 7), id="last-of-8"),
        pytest.param(linked(8), [7], 3, (3, 4, 7), id="last-of-8-by-3"),
        pytest.param(linked(8), [7], 5, (0, 1, 2, 3, 7), id="last-of-8-by-5"),
        pytest.param(linked(18, (16, 17)), [], 2, (16, 17), id="nine-sets"),
    ],
)
def test_where_the_original_goes_wrong_or_nearly(
    scores: PairScores, required: list[int], size: int, expected: tuple[int, ...]
) -> None:
    allocator = TopologyAllocator(scores)

    assert expected == allocator.prefer(range(scores.count), required, size)


# --- scores ---


@pytest.mark.parametrize(
    ("level", "score"),
    [(0, 60), (10, 50), (20, 40), (30, 30), (40, 20), (50, 10), (None, 0), (7, 0), (-1, 0)],
)
def test_a_common_ancestor_has_a_score(level: int | None, score: int) -> None:
    scores = PairScores.from_links(2, {(0, 1): level})

    assert ((0, score), (score, 0)) == scores.rows


@pytest.mark.parametrize(
    ("links", "score"),
    [
        ({}, 20),
        ({(0, 1): 1, (1, 0): 1}, 120),
        ({(0, 1): 12, (1, 0): 12}, 1220),
        ({(0, 1): 18}, 1820),
        ({(1, 0): 36}, 1820),
        ({(0, 1): 2, (1, 0): 4}, 420),
        ({(1, 0): 3}, 320),
    ],
)
def test_nvlinks_count_from_either_end_up_to_a_limit(
    links: dict[tuple[int, int], int], score: int
) -> None:
    assert score == PairScores.from_links(2, {(1, 0): 40}, links).rows[0][1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (((0, 1),), "square"),
        (((0, 1), (2, 0)), "symmetric"),
        (((3, 1), (1, 0)), "zero diagonal"),
        (((0, -1), (-1, 0)), "below zero"),
        (tuple((0,) * 65 for _ in range(65)), "more than the 64"),
    ],
)
def test_scores_are_checked(rows: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PairScores(rows)


# --- every partition looked at ---


def partitions(members: list[int], size: int, padding: int) -> Iterator[list[list[int]]]:
    """All partitions as the original goes through them; padding is negative."""
    if len(members) == size:
        yield [members]
        return
    for others in combinations(members[1:], size - 1):
        part = [members[0], *others]
        if sum(member < 0 for member in part) in {0, padding}:
            rest = [member for member in members if member not in part]
            for sets in partitions(rest, size, padding):
                yield [part, *sets]


def plainly_preferred(
    rows: Rows, order: Sequence[int], required: set[int], size: int
) -> tuple[int, ...]:
    """The best set by trying everything."""

    def score(part: list[int]) -> int:
        return sum(rows[a][b] for a, b in combinations([m for m in part if m >= 0], 2))

    def fits(part: list[int]) -> bool:
        return min(part) >= 0 and required.issubset(part)

    padding = -len(order) % size
    eligible = (
        sets
        for sets in partitions([*order, *range(-padding, 0)], size, padding)
        if any(map(fits, sets))
    )
    best = max(eligible, key=lambda sets: sum(map(score, sets)))
    chosen = max([part for part in best if fits(part)], key=score)
    return tuple(chosen)


SCORES = [
    st.sampled_from([10, 20]),
    st.sampled_from([10, 20, 40, 120, 220]),
    st.sampled_from([0, 0, 0, 50]),
    st.integers(0, 1860),
]


@st.composite
def matrices(draw: st.DrawFn, most: int = 8) -> Rows:
    """Scores without any pattern, with many ties or few."""
    count, score = draw(st.integers(2, most)), draw(st.sampled_from(SCORES))
    rows = [[0] * count for _ in range(count)]
    for one, other in combinations(range(count), 2):
        rows[one][other] = rows[other][one] = draw(score)
    return rows


@st.composite
def trees(draw: st.DrawFn, most: int = 8) -> Rows:
    """Scores that depend on the place where two branches meet."""
    count, score = draw(st.integers(2, most)), draw(st.sampled_from(SCORES))
    rows = [[0] * count for _ in range(count)]
    groups = [[position] for position in draw(st.permutations(range(count)))]
    while len(groups) > 1:
        some = draw(st.integers(2, min(4, len(groups))))
        value = draw(score)
        for one, other in combinations(groups[:some], 2):
            for a in one:
                for b in other:
                    rows[a][b] = rows[b][a] = value
        groups = [*groups[some:], [each for group in groups[:some] for each in group]]
    return rows


@st.composite
def requests(draw: st.DrawFn, count: int) -> tuple[list[int], set[int], int]:
    order = draw(st.permutations(range(count)))[draw(st.integers(0, count - 2)) :]
    size = draw(st.integers(1, len(order)))
    required = draw(st.sets(st.sampled_from(order), max_size=min(3, size)))
    return order, required, size


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_best_set_of_all_partitions_is_found(data: st.DataObject) -> None:
    rows = data.draw(matrices() | trees())
    order, required, size = data.draw(requests(len(rows)))
    allocator = TopologyAllocator(PairScores(tuple(map(tuple, rows))))

    answer = allocator.prefer(order, sorted(required), size)

    assert plainly_preferred(rows, order, required, size) == answer


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_both_exact_searches_agree_on_trees(data: st.DataObject) -> None:
    rows = data.draw(trees(most=10))
    order, required, size = data.draw(requests(len(rows)))
    search = TreeSearch.of(rows)
    assert search is not None

    sets = search.candidates(order, frozenset(required), size)

    assert sets == SubsetSearch(rows).candidates(order, frozenset(required), size)


def test_both_exact_searches_agree_on_many_gpus() -> None:
    scores = machine(13, {10: 2, 20: 4, 40: 8})
    branches, subsets = TreeSearch.of(scores.rows), SubsetSearch(scores.rows)
    assert branches is not None
    choice = random.Random(7)

    for _ in range(150):
        order = choice.sample(range(13), choice.randint(3, 13))
        size = choice.randint(2, len(order))
        required = frozenset(choice.sample(order, choice.randint(0, min(size, 3))))
        sets = branches.candidates(order, required, size)
        assert sets == subsets.candidates(order, required, size)


# --- more GPUs than can be tried out ---


def irregular(count: int, seed: int = 3) -> PairScores:
    choice, rows = random.Random(seed), [[0] * count for _ in range(count)]
    for one, other in combinations(range(count), 2):
        rows[one][other] = rows[other][one] = choice.choice([10, 20, 40, 50, 110, 220])
    return PairScores(tuple(map(tuple, rows)))


LARGE = {
    "tree-16": machine(16, {10: 2, 20: 4, 40: 8}),
    "tree-32": machine(32, {20: 8, 40: 16}),
    "tree-64": machine(64, {40: 32}),
    "many-branches-64": machine(64, {10: 4, 40: 16}),
    "irregular-16": irregular(16),
    "irregular-40": irregular(40),
    "unknown-24": PairScores.from_links(24, {}),
}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_answers_are_sets_of_what_was_asked_for(data: st.DataObject) -> None:
    scores = data.draw(st.sampled_from(sorted(LARGE)).map(LARGE.__getitem__))
    order, required, size = data.draw(requests(scores.count))
    allocator = TopologyAllocator(scores)

    answer = allocator.prefer(order, sorted(required), size)

    assert size == len(answer)
    assert required <= set(answer)
    assert answer == tuple(position for position in order if position in answer)
    assert answer == TopologyAllocator(scores).prefer(order, sorted(required), size)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_the_work_for_a_request_is_bounded(name: str) -> None:
    scores, choice = LARGE[name], random.Random(5)
    limit = 40_000 if name in {"irregular-16", "irregular-40", "many-branches-64"} else 12_000
    for size in (2, 3, 4, 5, 6, 7, 8, 9, scores.count // 2, scores.count - 3):
        for required in ([], [choice.randrange(scores.count)]):
            allocator = TopologyAllocator(scores)

            allocator.prefer(range(scores.count), required, size)

            assert allocator.work < limit


def test_a_dgx_2_takes_little_work() -> None:
    allocator = TopologyAllocator(LARGE["tree-16"])
    for size in range(1, 17):
        allocator.prefer(range(16), [], size)

    # The original looks at over 30 million partitions for that.
    assert allocator.work < 15_000


def test_swaps_come_close_to_the_best() -> None:
    scores, found = irregular(10), 0
    exact, swaps, choice = TopologyAllocator(scores), SwapSearch(scores.rows), random.Random(1)
    for _ in range(100):
        order, size = choice.sample(range(10), choice.randint(6, 10)), choice.randint(2, 5)
        required = choice.sample(order, choice.randint(0, 2))
        sets = swaps.candidates(order, frozenset(required), size)
        best = scores.within(exact.prefer(order, required, size))
        found += max(map(scores.within, sets)) >= best

    assert found > 60


# --- preparing ---


def test_a_mesh_of_many_gpus_is_exact_once_prepared() -> None:
    scores = irregular(13)
    allocator, subsets = TopologyAllocator(scores), SubsetSearch(scores.rows)

    assert allocator.prepare()

    for size in range(2, 13):
        expected = subsets.candidates(range(13), frozenset([4]), size)[0]
        assert tuple(expected) == allocator.prefer(range(13), [4], size)


def test_preparing_ends_when_told_or_after_its_time() -> None:
    allocator, ticks = TopologyAllocator(irregular(16)), iter(range(1000))

    assert not allocator.prepare(stopped=lambda: True)
    assert not allocator.prepare(limit_s=5, clock=lambda: next(ticks))
    assert len(allocator.prefer(range(16), [3], 5)) == 5
    assert next(ticks) == 6


def test_answers_may_be_given_while_preparing() -> None:
    scores = machine(16, {10: 2, 20: 4, 40: 8})
    busy, quiet = TopologyAllocator(scores), TopologyAllocator(scores)
    preparing = Thread(target=busy.prepare)
    preparing.start()
    try:
        for size in range(1, 17):
            assert quiet.prefer(range(16), [9], size) == busy.prefer(range(16), [9], size)
    finally:
        preparing.join(timeout=10)


def test_what_is_known_about_shapes_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = machine(16, {10: 2, 20: 4, 40: 8})
    allocator, search = TopologyAllocator(scores), TreeSearch.of(scores.rows)
    assert search is not None
    monkeypatch.setattr(topology_tree, "_KEPT_SHAPES", 200)
    most, choice = 0, random.Random(2)

    for _ in range(60):
        order = choice.sample(range(16), choice.randint(3, 16))
        size, required = choice.randint(2, len(order) - 1), order[:1]
        sets = search.candidates(order, frozenset(required), size)
        assert allocator.prefer(order, required, size) == tuple(sets[0])
        most = max(most, len(search._shapes))

    assert most < 1_000
