"""Fences: the known cases, the rule for what they leave open, and what is known of each key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core import Antichain
from cdcv2.errors import FencedError, RestoredError, UsageError
from cdcv2.materialize import Range
from cdcv2.materialize.protocol.fence import (
    LAST, Holding, Piece, ahead, claim, fenced, install, meet_of, number_of, pieces, restored, taken,
)
from tests.fence_vectors import ASKED, VECTORS, Row, Vector


def plain(holdings: list[Holding]) -> set[Row]:
    """As the vectors write them."""
    return {(one.range.begin, one.range.end, one.fence, one.value) for one in holdings}


def fixtures(vector: Vector) -> list[Holding]:
    """The holdings of a vector."""
    holdings: list[Holding] = []
    for number, wanted in enumerate(vector.fixtures, 1):
        holdings = install(holdings, wanted, fence=ASKED, value=str(number))
    return holdings


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_installing_does_what_the_known_cases_say(vector: Vector) -> None:
    """The same rows, fences and checkpoints as the systems that have fenced this way for years."""
    before = fixtures(vector)

    assert set(vector.before) == plain(before)

    after = install(before, vector.install, fence=ASKED, value="new")

    assert set(vector.after) == plain(after)
    assert [vector.given] == [(one.fence, one.value) for one in after if one.range == vector.install]


ranges = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda two: Range(min(two), max(two)))


@given(st.lists(ranges, min_size=1, max_size=6), st.data())
def test_whoever_came_later_has_the_only_valid_fence(opened: list[Range], data: st.DataObject) -> None:
    """Of two instances that share a key, the earlier one's fence is not that of its holding any more."""
    holdings: list[Holding] = []
    instances: list[tuple[Range, int]] = []
    for wanted in opened:
        holdings = claim(holdings, wanted, value=0)
        instances.append((wanted, next(one.fence for one in holdings if one.range == wanted)))
    valid = [(wanted, fence) for wanted, fence in instances if Holding(wanted, fence, 0) in holdings]

    assert len({one.range for one in holdings}) == len(holdings)
    assert instances[-1] in valid
    for number, (wanted, fence) in enumerate(instances):
        later = any(other.overlaps(wanted) for other, _ in instances[number + 1:])
        assert later != ((wanted, fence) in valid)


def test_a_parent_that_comes_back_is_above_all_its_children() -> None:
    """The known hole: the parent's own checkpoint is stale; so all get one fence, above every one there was."""
    holdings = [Holding(Range(0, 1000), 6, 30), Holding(Range(500, 599), 9, 50), Holding(Range(2000, 2001), 3, 7)]

    after = claim(holdings, Range(0, 1000), value=0)

    assert {(0, 1000, 10, 30), (500, 599, 10, 50), (2000, 2001, 3, 7)} == plain(after)


def test_what_is_known_of_a_key_is_the_furthest_of_its_holdings() -> None:
    """A stale holding states less, but nothing wrong."""
    holdings = [Holding(Range(0, 1000), 6, 30), Holding(Range(500, 599), 9, 50)]

    found = pieces(holdings, Range(0, 1000), lambda at: Antichain([at]), Antichain([0]))

    assert [(0, 499, 30), (500, 599, 50), (600, 1000, 30)] == [
        (one.range.begin, one.range.end, *one.frontier.elements) for one in found
    ]
    assert Antichain([30]) == meet_of(found)


@given(st.lists(st.tuples(ranges, st.integers(0, 9))), ranges)
def test_pieces_cover_the_range_and_are_what_each_key_has(held: list[tuple[Range, int]], wanted: Range) -> None:
    """Key by key, by brute force; neighbours differ, or they would be one piece."""
    holdings = [Holding(one, 0, at) for one, at in held]
    found = pieces(holdings, wanted, lambda at: Antichain([at]), Antichain([0]))
    shown = {key: one.frontier for one in found for key in range(one.range.begin, one.range.end + 1)}
    truth = {
        key: Antichain([max([0, *(at for one, at in held if one.begin <= key <= one.end)])])
        for key in range(wanted.begin, wanted.end + 1)
    }

    assert truth == shown
    assert all(one.frontier != other.frontier for one, other in zip(found, found[1:]))


def test_a_finished_piece_is_ahead_of_all_others() -> None:
    """The empty frontier is the furthest; one who joins it with others reads from where the others are."""
    holdings = [Holding(Range(0, 9), 0, []), Holding(Range(0, 20), 0, [4])]

    found = pieces(holdings, Range(0, 20), Antichain, Antichain([0]))

    assert [Antichain(), Antichain([4])] == [one.frontier for one in found]
    assert Antichain([4]) == meet_of(found)


def test_a_wider_range_leaves_a_narrower_one_that_it_shares_no_key_with() -> None:
    """It begins as the first of its keys does, and no instance is fenced off."""
    narrow = Holding(Range(0, 9), 6, 30)

    assert {(0, 9, 6, 30), (20, 90, 0, "new")} == plain(claim([narrow], Range(20, 90), value="new"))
    assert {(0, 9, 6, 30), (20, 90, 2, 40)} == plain(claim([narrow, Holding(Range(20, 90), 1, 40)], Range(20, 90)))


def test_a_key_has_one_number_everywhere() -> None:
    """Two processes, of two releases, must agree on whose key it is."""
    assert (3421780262, 0) == (number_of(b"123456789"), number_of(b""))
    assert Range().holds(number_of(b"any")) and Range().whole and not Range(0, LAST - 1).whole


def test_ranges_that_share_one_number_overlap() -> None:
    """At either end; next to each other is not enough."""
    middle = Range(10, 20)
    assert [True, True, False, False] == [
        middle.overlaps(other) for other in (Range(0, 10), Range(20, 30), Range(0, 9), Range(21, 30))
    ]


def test_the_first_instance_has_the_fence_zero() -> None:
    """As the systems that have fenced this way begin."""
    assert {(0, LAST, 0, "new")} == plain(install([], Range(), value="new")) == plain(claim([], Range(), value="new"))


def test_what_is_further_than_known_is_found() -> None:
    """Only where the two are of the same keys, and never what is just as far."""
    def piece(begin: int, end: int, at: int) -> Piece:
        return Piece(Range(begin, end), Antichain([at]))

    found = [piece(0, 49, 5), piece(50, 99, 7)]
    assert ahead(found, [piece(0, 49, 5), piece(50, 99, 7)]) is None
    assert ahead(found, [piece(50, 99, 9), piece(0, 49, 5)]) is None
    assert (found[1], piece(60, 99, 6)) == ahead(found, [piece(0, 49, 5), piece(50, 59, 7), piece(60, 99, 6)])
    assert (found[0], piece(0, 99, 4)) == ahead(found, [piece(0, 99, 4)])


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (6, 5), (0, LAST + 1)])
def test_a_range_of_no_keys_is_refused(begin: int, end: int) -> None:
    """It would fence no instance off, or another one."""
    with pytest.raises(UsageError, match=f"{begin}-{end} is no range of keys"):
        Range(begin, end)


def test_keys_are_named_where_they_are_not_all() -> None:
    """No user asks for 0-4294967295."""
    assert "this instance of 'm' was fenced off by another" in str(fenced("m", Range()))
    assert "this instance of 'm' for the keys 0-99 was fenced off by another" in str(fenced("m", Range(0, 99)))


@pytest.mark.parametrize(("found", "later"), [(6, True), (5, False), (4, False), (None, False)])
def test_only_a_higher_fence_is_that_of_a_later_instance(found: int | None, later: bool) -> None:
    """With the fence of this one, a lower one, or no holding at all, the target or the log was put back."""
    error = taken("m", Range(0, 99), 5, found)

    assert (FencedError if later else RestoredError) is type(error)
    assert str(fenced("m", Range(0, 99)) if later else restored("m")) == str(error)


def test_what_was_put_back_is_named_with_what_shows_it() -> None:
    """The checkpoint, where the caller names nothing else."""
    begin = "the target or the recovery log of 'm' was put back to another moment while it was worked on: "

    assert str(restored("m")).startswith(
        f"{begin}its checkpoint is not the one that this instance wrote last. Nothing of this transaction was committed"
    )
    assert str(restored("m", "a row is missing")).startswith(f"{begin}a row is missing. Nothing")
