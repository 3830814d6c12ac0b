"""The pull form: any iterable of messages in, batches out, and it stops when the history does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, DecodeError, MalformedError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import GarbledMessage, Progress, Updates

LOG: list[Any] = [
    Updates([("a", 1, 1), ("b", 3, 1)]),
    Progress([0], [2], {1: 1}),
    Progress([2], [5], {3: 1}),
    Progress([5], []),
]


def test_it_yields_updates_and_frontier() -> None:
    """As the loop of the documentation has it."""
    given = [(updates, frontier) for updates, frontier in Iter(LOG)]

    assert [
        ([("a", 1, 1)], Antichain([2])), ([("b", 3, 1)], Antichain([5])), ([], Antichain()),
    ] == given


def test_it_takes_entries_and_passes_over_none() -> None:
    """A source gives messages with their positions, and None where nothing is there now."""
    entries = [Entry(Position("log", 0, offset), message) for offset, message in enumerate(LOG)]
    mixed: list[Any] = [None, entries[0], None, LOG[1], entries[2], None, entries[3]]

    assert list(Iter(LOG)) == list(Iter(mixed))


def test_it_stops_at_the_end_of_the_history_without_asking_for_more() -> None:
    """A live source would make it wait for ever."""
    def live() -> Iterator[Any]:
        yield from LOG
        raise AssertionError("asked for more than the history has")

    reader = Iter(live())

    assert 3 == len(list(reader))
    assert reader.closed
    assert Antichain() == reader.frontier
    assert [] == list(reader)


def test_it_gives_out_each_batch_before_it_asks_for_the_next_message() -> None:
    """A reader that follows a live log sees what is complete at once."""
    asked = []

    def source() -> Iterator[Any]:
        for number, message in enumerate(LOG):
            asked.append(number)
            yield message

    reader = Iter(source())
    next(reader)

    assert [0, 1] == asked
    assert Antichain([2]) == reader.frontier
    assert not reader.closed


def test_it_is_its_own_iterator() -> None:
    """A loop that was left can be taken up again."""
    reader = Iter(LOG)

    assert reader is iter(reader)
    for _ in reader:
        break
    assert 2 == len(list(reader))


def test_when_input_ends_early_it_says_what_lacks() -> None:
    """A truncated log does not look complete."""
    reader = Iter(LOG[:1] + LOG[2:])

    assert [] == list(reader)
    assert not reader.closed
    assert ((Antichain([0]), Antichain([2])),) == reader.missing().statements
    assert () == reader.missing().updates


def test_it_starts_at_any_frontier() -> None:
    """Times other than ints need their own start."""
    P = Product
    told = Updates([("a", P(0, 3), 1), ("b", P(2, 2), 1)])
    log: list[Any] = [told, Progress([P(0, 0)], [P(5, 5)], {P(0, 3): 1, P(2, 2): 1})]

    (batch,) = Iter(log, start=[P(0, 9), P(2, 0)], begins=[P(0, 0)])

    assert [("b", P(2, 2), 1)] == batch.updates
    assert Antichain([P(0, 9), P(2, 0)]) == batch.lower
    with pytest.raises(MalformedError):
        list(Iter(log))
    with pytest.raises(MalformedError):
        Iter(log, start=[])
    assert [([("b", 3, 1)], Antichain([5]))] == [tuple(b) for b in Iter(LOG[:3], start=iter([2]), begins=iter([0]))]


def test_it_goes_on_behind_a_message_that_raised() -> None:
    """The message has changed nothing; whether to go on is the caller's choice."""
    bad = Entry(Position("log", 0, 1), GarbledMessage(b"?", "no message"))
    reader = Iter([LOG[0], Updates([("a", 1, 9)]), bad, *LOG[1:]])

    with pytest.raises(ContradictionError):
        next(reader)
    with pytest.raises(DecodeError, match="log"):
        next(reader)
    assert list(Iter(LOG)) == list(reader)


def test_in_quarantine_it_does_not_stop() -> None:
    """The evidence is at the reader it holds."""
    reader = Iter(
        [LOG[0], Updates([("b", 3, 9)]), *LOG[1:], None, GarbledMessage(b"?", "no message")], on_error="quarantine"
    )

    assert [Antichain([2]), Antichain([3])] == [frontier for _, frontier in reader]
    assert [3] == list(reader.reader.quarantine)
    assert 1 == reader.reader.counters["parked"]


def test_batches_come_by_time_also_for_products() -> None:
    """In an order that never puts a time before one that it is beyond."""
    P = Product
    times: list[Any] = [P(1, 1), P(0, 1), P(1, 0), P(0, 0)]
    (batch,) = Iter(
        [Updates([("a", time, 1) for time in times]), Progress([P(0, 0)], [], dict.fromkeys(times, 1))],
        start=[P(0, 0)],
    )
    given: list[Any] = [time for _, time, _ in batch.updates]

    assert len(times) == len(given)
    for number, time in enumerate(given):
        assert not any(later.less_equal(time) for later in given[number + 1:])
