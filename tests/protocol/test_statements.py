"""What a writer states: an interval without a gap, each count that is not stated yet, and nothing that differs."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product as P
from cdcv2.errors import ResumeError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol import writer
from cdcv2.protocol.messages import Progress
from cdcv2.protocol.statements import check_orphans, check_stated, statements
from cdcv2.protocol.writer import Writer


@given(
    st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9)),
    st.dictionaries(st.integers(0, 20), st.integers(0, 3)), st.integers(1, 5),
)
def test_parts_of_an_interval_are_the_whole(known: int, more: int | None, counts: dict[int, int], at_most: int) -> None:
    """Each begins where the one before ends, has a few counts, and all together have those of the interval."""
    upper = Antichain() if more is None else Antichain([max([known + more, *(at + 1 for at in counts)])])
    found = statements(Antichain([known]), upper, counts, at_most)
    if upper == Antichain([known]):
        assert [] == found
        return
    assert Antichain([known]) == found[0].lower and upper == found[-1].upper
    assert all(one.upper == following.lower for one, following in zip(found, found[1:]))
    assert all(one.upper != one.lower for one in found)
    wanted = {at: n for at, n in counts.items() if n and at >= known}
    assert wanted == dict(pair for one in found for pair in one.counts)
    sizes = [len(one.counts) for one in found]
    assert all(size == at_most for size in sizes[:-1]) and sizes[-1] <= at_most


def test_times_without_an_order_are_stated_at_once() -> None:
    """No bound parts some of them from the others."""
    counts = {P(0, 1): 1, P(1, 0): 2, P(2, 2): 0}
    [one] = statements(Antichain([P(0, 0)]), Antichain([P(3, 3)]), counts, 1)
    assert one == Progress([P(0, 0)], [P(3, 3)], {P(0, 1): 1, P(1, 0): 2})


def test_a_writer_states_many_times_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is larger than a topic takes would end it, and every run after it."""
    monkeypatch.setattr(writer, "statements", partial(statements, at_most=2))
    log = MemoryLog()
    with Writer(log) as written:
        written.extend([("a", 1, 1), ("a", 2, 1), ("a", 3, 1)])
        written.advance([9])
        assert Antichain([9]) == written.known
    stated: list[Any] = [entry.message for entry in log.read()][1:]
    assert [Progress([0], [3], {1: 1, 2: 1}), Progress([3], [9], {3: 1})] == stated


def test_orphans_that_are_not_written_now_are_of_another_history() -> None:
    """One is shown, and how many of them are not there."""
    check_orphans("moves", 3, 2, 2, "x")
    with pytest.raises(ResumeError, match="moves holds 'x' at time 3, which no statement counts, and 1 of 2 such"):
        check_orphans("moves", 3, 2, 1, "x")


def test_a_statement_further_on_does_not_hide_one_that_differs() -> None:
    """Whichever of the two was found first."""
    further, differs = Progress([30], [40], {35: 1}), Progress([10], [20], {12: 3})
    for others in ((further, differs), (differs, further)):
        with pytest.raises(ResumeError, match="log moves states 3 updates at time 12"):
            check_stated(Progress([0], [15]), others, "moves")


def test_of_several_times_that_differ_the_first_is_told() -> None:
    """Also where Python has no order for them."""
    stated = Progress([P(0, 0)], [P(3, 3)], {P(2, 0): 1, P(0, 1): 1, P(1, 1): 1})
    with pytest.raises(ResumeError, match=re.escape("states 1 updates at time Product(0, 1)")):
        check_stated(Progress([P(0, 0)], [P(3, 3)]), [stated], "moves")


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        ({12: 3}, {12: 3}, None), ({12: 3}, {12: 4}, (4, 12, 3)), ({12: 1}, {}, (0, 12, 1)), ({}, {12: 1}, (1, 12, 0)),
        # What only one of the two covers is no matter of both.
        ({5: 2, 12: 3}, {12: 3, 17: 9}, None), ({5: 2}, {17: 9}, None), ({12: 3, 13: 2}, {12: 3, 13: 1}, (1, 13, 2)),
    ],
)  # fmt: skip
def test_two_statements_count_the_same_at_each_time_of_both(
    mine: dict[int, int], theirs: dict[int, int], differs: tuple[int, int, int] | None
) -> None:
    """A time that a statement covers and does not name has no updates."""
    statement, others = Progress([0], [15], mine), [Progress([10], [20], theirs)]
    if differs is None:
        check_stated(statement, others, "moves")
        return
    stated, time, fed = differs
    text = f"^log moves states {stated} updates at time {time}, and the writer was fed {fed}: it is fed another history"
    with pytest.raises(ResumeError, match=text):
        check_stated(statement, others, "moves")
