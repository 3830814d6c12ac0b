"""Mangling changes the form of facts, never the facts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2.core.order import Product
from cdcv2.errors import MalformedError, UsageError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates
from tests.oracle import Time, beyond, coordinates, frontier, grid
from tests.strategies import Chooser, build, choosers, histories

windows = st.sampled_from([None, 1, 2, 3, 10])


def told(messages: Iterable[Any]) -> Counter[Any]:
    """Each update, and how often it occurs."""
    return Counter(update for message in messages if hasattr(message, "updates") for update in message.updates)


def stated(messages: list[Any], times: list[Time]) -> dict[Time, tuple[int, frozenset[int]]]:
    """For each time, how often it is stated, and with which counts."""
    said = [message for message in messages if hasattr(message, "lower")]
    by_time: dict[Time, tuple[int, frozenset[int]]] = {}
    for time in times:
        covering = [s for s in said if beyond(frontier(s.lower), time) and not beyond(frontier(s.upper), time)]
        counts = frozenset({coordinates(at): n for at, n in s.counts}.get(time, 0) for s in covering)
        by_time[time] = (len(covering), counts)
    return by_time


@settings(max_examples=150)
@given(
    choosers(), st.sampled_from([1, 2, 3]), st.integers(1, 3), windows,
    st.sampled_from([(True, False), (True, True), (False, False)]), st.integers(0, 3),
)  # fmt: skip
def test_every_fact_is_told_as_often_as_asked_and_no_other(
    choose: Chooser, dims: int, copies: int, window: int | None, how: tuple[bool, bool], seed: int
) -> None:
    """Each update `copies` times; each time stated `copies` times as often as before, and with the same count."""
    log = [build(message) for message in histories(choose, dims).log]
    times = grid(frozenset({(0,) * dims}), log)

    done = list(mangle(log, seed=seed, copies=copies, window=window, rebatch=how[0], doubled=how[1]))
    more = [time for time in grid(frozenset({(0,) * dims}), done) if time not in times][:50]

    assert {update: copies * n for update, n in told(log).items()} == told(done)
    for time, (often, counts) in stated(log, times + more).items():
        assert (copies * often, counts) == stated(done, [time])[time]


@given(choosers(), st.sampled_from([1, 2, 3]), windows, st.booleans())
def test_the_same_seed_mangles_alike(choose: Chooser, dims: int, window: int | None, rebatch: bool) -> None:
    """Whatever process does it: a failure can be repeated."""
    log = [build(message) for message in histories(choose, dims).log]

    assert list(mangle(log, seed=5, window=window, rebatch=rebatch)) == list(
        mangle(iter(log), seed=5, window=window, rebatch=rebatch)
    )


def chain(length: int) -> list[Message]:
    """A log of one update and one statement for each time."""
    return [
        message for time in range(length)
        for message in (Updates([("a", time, 1), ("b", time, 1)]), Progress([time], [time + 1], {time: 2}))
    ]


def test_another_seed_mangles_otherwise() -> None:
    """Many seeds try many ways."""
    for window in (None, 3):
        assert 10 == len({tuple(mangle(chain(9), seed=seed, window=window)) for seed in range(10)})


@pytest.mark.parametrize("window", [None, 3])
def test_copies_are_in_one_message_if_that_is_asked_for_and_not_otherwise(window: int | None) -> None:
    """A reader of others may take what is twice in one message for a mistake."""
    def twice(**how: bool) -> set[int]:
        messages = mangle(chain(20), seed=3, copies=3, window=window, **how)
        updates = [message.updates for message in messages if isinstance(message, Updates)]
        return {Counter(one)[update] for one in updates for update in one}

    assert {1} == twice()
    assert {1, 3} <= twice(doubled=True)
    with pytest.raises(UsageError, match="without rebatch all stay in theirs"):
        mangle((), rebatch=False, doubled=True)


def wide_log() -> list[Message]:
    """A log of two-dimensional times in a few large messages."""
    times = [Product(one, other) for one in range(6) for other in range(6)]
    corner, middle = [Product(0, 0)], [Product(0, 4), Product(2, 2), Product(4, 0)]
    low, high = Progress(corner, middle), Progress(middle, [])
    return [
        Updates([("a", time, 1) for time in times]),
        Progress(corner, middle, {time: 1 for time in times if low.covers(time)}),
        Progress(middle, [], {time: 1 for time in times if high.covers(time)}),
    ]


LOGS: dict[str, list[Message]] = {
    "chain": chain(40),
    "wide": wide_log(),
    "large": [
        Updates([(number, number % 7, 1) for number in range(60)]), Progress([0], [9], {n: 8 for n in range(7)}),
        Progress([9], [], {50: 1, 90: 2}),
    ],
}


@pytest.mark.parametrize("log, window, expected", [
    ("chain", None, "34f165578736c9f9"),
    ("chain", 4, "8b9df6a2423a805e"),
    ("wide", None, "84da67a710607273"),
    ("large", None, "c08351345e96ea9e"),
    ("large", 2, "2795bf83df6ad6d8"),
])
def test_a_seed_means_the_same_in_every_release(log: str, window: int | None, expected: str) -> None:
    """A failure that names its seed can be repeated later, and elsewhere; a deliberate change updates these."""
    done = [str(message) for seed in range(20) for message in mangle(LOGS[log], seed=seed, window=window)]

    assert expected == hashlib.sha256("\n".join(done).encode()).hexdigest()[:16]


def test_the_defaults_are_two_copies_of_seed_0() -> None:
    """Without bounds, re-batched."""
    assert list(mangle(chain(9), seed=0, copies=2, window=None, rebatch=True)) == list(mangle(chain(9)))


def test_without_rebatching_messages_stay_whole() -> None:
    """They are only repeated and moved."""
    log = chain(20)

    done = list(mangle(log, copies=3, rebatch=False))

    assert Counter(log * 3) == Counter(done)
    assert log * 3 != done


def test_rebatching_splits_and_merges() -> None:
    """Both updates and statements are in other groups than before; some larger, some smaller."""
    done = list(mangle(chain(60), copies=1, seed=3))
    sizes = {len(message) for message in done if isinstance(message, Updates)}
    widths = {
        coordinates(message.upper.elements[0])[0] - coordinates(message.lower.elements[0])[0]
        for message in done if isinstance(message, Progress)
    }

    assert 1 in sizes and max(sizes) > 2
    assert 1 in widths and max(widths) > 1
    long = list(mangle([Progress([0], [100], {n: 1 for n in range(0, 100, 5)})], copies=1, seed=1))
    wide = list(mangle([Progress([Product(0, 0)], [], {Product(n, 9 - n): 1 for n in range(9)})], copies=1, seed=1))
    assert len(long) > 1 and len(wide) > 1
    assert any(isinstance(part, Progress) and len(part.lower) > 1 for part in wide)


def test_statements_that_end_the_history_are_split_too() -> None:
    """Within what is counted and a little after."""
    seen = set()
    for seed in range(30):
        for message in mangle([Progress([3], [], {7: 1})], copies=1, seed=seed):
            assert isinstance(message, Progress)
            seen.add(tuple(message.lower))

    assert (3,) in seen and len(seen) > 3


@pytest.mark.parametrize("window", [1, 2, 5, 20])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("rebatch", [False, True])
def test_within_a_window_no_fact_passes_one_that_stood_further_off(window: int, copies: int, rebatch: bool) -> None:
    """The whole window is used, and not exceeded; statements and updates alike."""
    log: list[Message] = [message for at in range(300) for message in (
        Updates([(f"row {at}", 2 * at, 1)]), Progress([2 * at + 1], [2 * at + 2], {2 * at + 1: 1}),
    )]  # fmt: skip
    furthest, passed, facts = 0, 0, Counter[int]()
    for message in mangle(log, copies=copies, window=window, rebatch=rebatch, seed=7):
        times = [time for _, time, _ in message.updates] if isinstance(message, Updates) else \
            [time for time, _ in message.counts]  # fmt: skip
        passed = max([passed, *(furthest - int(time) for time in times)])  # type: ignore[call-overload]
        furthest = max([furthest, *map(int, times)])  # type: ignore[arg-type]
        facts.update(map(int, times))  # type: ignore[arg-type]

    assert Counter(dict.fromkeys(range(600), copies)) == facts
    assert window // 2 < passed <= window


@pytest.mark.parametrize("rebatch", [True, False])
def test_with_a_window_an_endless_log_can_be_mangled(rebatch: bool) -> None:
    """No more is read ahead than a few windows, so that memory does not grow with the log."""
    read = count()

    def endless() -> Iterator[Message]:
        for time in count():
            next(read)
            yield Progress([time], [time + 1], {time: 1})

    first = list(islice(mangle(endless(), window=10, rebatch=rebatch), 1000))
    furthest = max(coordinates(message.lower.elements[0])[0] for message in first if isinstance(message, Progress))

    assert 1000 == len(first)
    assert next(read) - furthest <= 30


@pytest.mark.parametrize("arguments", [
    {"copies": 0}, {"copies": -1}, {"copies": 1.5}, {"copies": True}, {"window": 0}, {"window": -3}, {"window": 2.0},
    {"window": True},
])
def test_settings_that_mean_nothing_are_refused(arguments: dict[str, Any]) -> None:
    """At the call, and not when the first message is asked for."""
    with pytest.raises(UsageError):
        mangle([], **arguments)


def test_nothing_mangled_is_nothing() -> None:
    """Neither is an error."""
    for window in (None, 4):
        assert [] == list(mangle([], window=window))
        assert [] == list(mangle([Updates([])], window=window))


def test_what_a_log_reads_is_mangled_and_what_is_no_message_is_refused() -> None:
    """Entries are what ``read`` gives; nothing is left out in silence."""
    log = MemoryLog()
    log.send(Updates([("a", 1, 1)]))
    log.send(Progress([0], [2], {1: 1}))
    log.flush()

    assert [("a", 1, 1)] == [update for updates, _ in Iter(mangle([*log.read(), None])) for update in updates]
    for nothing in (None, 5):
        with pytest.raises(UsageError, match="is no log"):
            mangle(nothing)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="is no log"):
            Iter(nothing)  # type: ignore[arg-type]
    for wrong in ("text", GarbledMessage(b"x", "why")):
        with pytest.raises(MalformedError, match="is no message"):
            list(mangle([wrong]))  # type: ignore[list-item]
