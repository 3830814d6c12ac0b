"""The reader for whole numbers decides what the general classes decide, and leaves to them what may be an error."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, MalformedError, StartError
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Batch, Message, Progress, Updates
from cdcv2.protocol.resolver import Resolver
from tests.two_readers import answer, given, kept, run

# A mutant is found by the first few cases or by none.
HISTORIES = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "mutate" else 400
KINDS = {
    "ContradictionError diff", "ContradictionError count", "ContradictionError surplus", "StartError", "DecodeError",
    "MalformedError", "TypeError", "ValueError",
}


def test_drawn_histories_are_read_as_the_general_classes_read_them() -> None:
    """Each message gives the same, or raises the same and changes nothing; and each kind of error was met."""
    assert KINDS == set(run(range(HISTORIES))) or HISTORIES < 400


def both() -> tuple[Resolver, Resolver]:
    """A reader of each kind."""
    return Resolver(), Resolver(general=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_long_history_is_read_as_the_general_classes_read_it(seed: int) -> None:
    """Thousands of times are finished one by one while others wait, and what was finished is cut off."""
    random = Random(seed)
    log: list[Message] = []
    for first in range(0, 6000, 5):
        times = [time for time in range(first, first + 5) if random.random() < 0.8]
        log += [Updates([(random.randrange(9), time, 1)]) for time in times]
        log.append(Progress([first], [first + 5], dict.fromkeys(times, 1)))
    log.append(Progress([6000], []))
    fast, general = both()
    given_out = 0
    for number, message in enumerate(mangle(log, seed=seed, copies=2, window=(1, 20, 400, 5000)[seed])):
        expected = given(general.absorb(message))
        assert expected == given(fast.absorb(message))
        given_out += bool(expected)
        if number % 500 == 0:
            assert kept(general) == kept(fast)

    assert fast.closed and given_out > 1
    assert kept(general) == kept(fast)
    assert fast._integers is not None


def test_statements_that_overlap_and_waited_are_taken_in_together() -> None:
    """Those of two captures, cut at other times; the last of them closes the gap."""
    log = [
        Entry(Position("log", 0, number), Progress([low], [high], {t: 1 for t in range(low, high)}))
        for number, (low, high) in enumerate([(8, 12), (3, 9), (5, 10), (2, 4), (11, 20), (0, 3)])
    ]
    fast, general = both()
    for message in log:
        assert given(general.absorb(message)) == given(fast.absorb(message))
        assert kept(general) == kept(fast)
    assert 20 == fast.known.integer

    # The statement that counted it first is the evidence.
    lie = Entry(Position("log", 0, 9), Progress([5], [12], {t: 1 for t in range(5, 11)}))
    assert answer(general, lie) == answer(fast, lie)
    with pytest.raises(ContradictionError, match=r"at time 11 and also 0 \(log\[0\]@0 and log\[0\]@9\)"):
        fast.absorb(lie)


@pytest.mark.parametrize("lie", [
    Updates([("new", 3, 1), ("new", 9, 1), ("b", 3, 1), ("a", 3, 2)]),
    Updates([("new", 9, 1), ("b", 3, 1), ("c", 3, 1), ("surplus", 3, 1)]),
    Updates([("b", 3, 1), ("none is stated", 4, 1)]),
    Updates.trusted((("new", 9, 1), (["no hash"], 9, 1))),
    Progress([0], [5], {3: 2, 4: 1}),
    Progress([2], [9], {3: 4}),
    Progress([4], [7], {}),
], ids=["diff", "surplus", "nothing stated", "no hash", "count", "less", "beyond"])  # fmt: skip
def test_what_contradicts_changes_nothing(lie: Message) -> None:
    """Neither the part of the message that is right, nor what the reader has from the very same tuples before."""
    first = Updates([("a", 3, 1), ("six", 6, 1)])
    fast, general = both()
    for reader in (fast, general):
        reader.absorb(first)
        reader.absorb(Progress([0], [5], {3: 3}))
        before = kept(reader)
        again = Updates.trusted((*first.updates, *lie.updates)) if isinstance(lie, Updates) else lie
        with pytest.raises((ContradictionError, TypeError)):
            reader.absorb(again)
        assert before == kept(reader)
        assert 3 == reader.frontier.integer
        batch = reader.absorb(Updates([("b", 3, 1), ("c", 3, 1)]))
        assert batch is not None and 5 == batch.upper.integer
    assert kept(general) == kept(fast)


@pytest.mark.parametrize("data, first", [("a", 0), ("b", 0), ("c", 2), ("d", None)])
def test_the_first_copy_of_an_update_is_the_evidence(data: str, first: int | None) -> None:
    """Whichever message it came with, and not where a duplicate was read."""
    log: list[Any] = [
        Entry(Position("log", 0, 0), Updates([("a", 3, 1), ("b", 3, 1)])),
        Updates([("d", 3, 1)]),
        Entry(Position("log", 0, 2), Updates([("a", 3, 1), ("c", 3, 1), ("d", 3, 1)])),
    ]
    where = None if first is None else Position("log", 0, first), Position("log", 0, 3)
    for reader in both():
        for message in log:
            reader.absorb(message)
        with pytest.raises(ContradictionError) as caught:
            reader.absorb(Entry(Position("log", 0, 3), Updates([(data, 3, 2)])))
        assert where == caught.value.positions


class Broken:
    """Data whose comparison fails."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable now")


def test_data_that_cannot_be_compared_changes_nothing() -> None:
    """The error is the data's own, and the reader goes on as it was: it still sees what no statement counts."""
    fast, general = both()
    message: Any = Updates([("new", 4, 1), ("a", 2, 1), (Broken(), 2, 1), (Broken(), 2, 1)])
    for reader in (fast, general):
        reader.absorb(Updates([("a", time, 1) for time in (9, 6, 7)]))
        before = kept(reader)
        with pytest.raises(RuntimeError, match="not comparable now"):
            reader.absorb(message)
        assert before == kept(reader)
        assert reader.absorb(Progress([0], [5], {})) is not None
    assert fast._integers is not None
    for reader in (fast, general):
        with pytest.raises(ContradictionError, match="0 updates at time 6 but holds 1"):
            reader.absorb(Progress([5], [7], {}))


def test_statements_ahead_of_all_updates_are_kept_until_each_time_is_complete() -> None:
    """Then each update finishes a time; what is finished is cut off in the midst of it."""
    reader, times = Resolver(), range(4000)
    for time in times:
        reader.absorb(Progress([time], [time + 1], {time: 1}))
    for time in times:
        batch = reader.absorb(Updates([("a", time, 1)]))
        assert batch is not None
        assert ([("a", time, 1)], time, time + 1) == (batch.updates, batch.lower.integer, batch.upper.integer)
    assert reader._integers is not None


def test_what_is_finished_is_forgotten() -> None:
    """Whatever order it came in: the memory of a reader is that of what is open."""
    log: list[Message] = [Updates([("a", time, 1), ("b", time, 1)]) for time in range(50)]
    log += [Progress([time], [time + 1], {time: 2}) for time in range(50)]
    reader = Resolver()
    for offset, message in enumerate([*mangle(log, seed=3, copies=2, window=30), Progress([50], [])]):
        reader.absorb(Entry(Position("log", 0, offset), message))

    integers = reader._integers
    assert integers is not None and integers.closed
    assert {} == {name: kept for name, kept in vars(integers).items() if isinstance(kept, (dict, list)) and kept}


def test_other_times_and_settings_are_read_by_the_general_classes() -> None:
    """And a log of whole numbers does not take times of another kind."""
    assert all(
        reader._integers is None
        for reader in (Resolver(on_error="quarantine"), Resolver(keep_all=True), Resolver([5], begins=[]))
    )
    with pytest.raises(MalformedError, match="different kinds"):
        Resolver().absorb(Updates([("a", Product(1, 1), 1)]))


class Interrupting:
    """Data whose hash raises, once it is in a message, what is no error of a log."""

    def __init__(self) -> None:
        self.asked = 0

    def __hash__(self) -> int:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("no hash")
        return 0


def test_what_was_held_counts_after_a_message_that_raised() -> None:
    """Nothing of that message stays, and a statement of no updates still contradicts the one that is there."""
    reader = Resolver()
    reader.absorb(Updates([("a", 0, 1), ("c", 7, 1)]))
    with pytest.raises(RuntimeError, match="no hash"):
        reader.absorb(Updates([("b", 3, 1), ("a", 3, 1), (Interrupting(), 3, 1)]))

    with pytest.raises(ContradictionError):
        reader.absorb(Progress([0], [5]))
    assert reader.absorb(Progress([0], [5], {0: 1})) is not None


def test_a_statement_from_before_the_history_counts_only_what_is_in_it() -> None:
    """One count or several, of any size; a count before the history begins is an error for both readers."""
    for counts, right in (({6: 1}, True), ({6: 9}, True), ({5: 1, 6: 9}, True), ({3: 9}, False), ({4: 1, 6: 9}, False)):
        readers = Resolver([5], begins=[5]), Resolver([5], begins=[5], general=True)
        answers = [answer(reader, Progress([0], [7], counts)) for reader in readers]
        assert answers[0] == answers[1]
        assert right is ((StartError,) != answers[0][:1])


def test_a_count_that_one_statement_brought_is_held_against_all_that_waited() -> None:
    """The third statement overlaps the first and leaves its count out, although the second came between them."""
    reader, general = both()
    for one in (reader, general):
        assert one.absorb(Progress([1], [12], {5: 1, 11: 1})) is None
        assert one.absorb(Progress([2], [11], {})) is None
        with pytest.raises(ContradictionError):
            one.absorb(Progress([0], [10], {5: 1}))


def test_some_times_have_evidence_and_others_have_none() -> None:
    """Positions are kept for the updates and statements that came with one; a release forgets them."""
    reader = Resolver()
    reader.absorb(Entry(Position("log", 0, 0), Updates([("a", 1, 1)])))
    reader.absorb(Updates([("b", 2, 1), ("c", 3, 1)]))
    reader.absorb(Entry(Position("log", 0, 1), Updates([("d", 4, 1)])))
    reader.absorb(Entry(Position("log", 0, 2), Progress([0], [2], {1: 1})))
    assert reader.absorb(Progress([2], [4], {2: 1, 3: 1})) == Batch(
        [("b", 2, 1), ("c", 3, 1)], Antichain([2]), Antichain([4])
    )
    reader.absorb(Entry(Position("log", 0, 3), Progress([6], [8], {7: 1})))
    assert reader.absorb(Progress([4], [6], {4: 1})) is not None
