"""Up to where a stream is complete, by numbers: each bound at its edge, and what a restart knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cdcv2.capture.recent_sums import RECENT, RecentSums
from cdcv2.capture.stream_counts import StreamCounts, update_digest
from cdcv2.errors import ForeignStateError, SourceStop


def counts(known: int = 0, *facts: tuple[int, int | None] | int, **more: Any) -> StreamCounts:
    """One that took these: a time is an update, a pair a bound."""
    stream = StreamCounts(None, known, **more)
    for fact in facts:
        if isinstance(fact, int):
            stream.update("p", fact)
        else:
            stream.bound(*fact)
    return stream


def restored(stream: StreamCounts) -> StreamCounts:
    """What the next run knows."""
    return StreamCounts(json.loads(json.dumps(stream.plain())), 0)


def test_what_earlier_releases_kept_has_one_sum_or_none() -> None:
    """Of the updates that are stated; this release keeps that sum as well, so that they can go on from it."""
    plain = stated(6).plain()
    del plain["past"]
    assert 1 == plain["below"] == StreamCounts(plain, 0).plain()["below"]
    del plain["below"]

    assert 0 == StreamCounts(plain, 0).plain()["below"]


def test_digests_are_those_of_earlier_releases() -> None:
    """They stand in the states of captures, and are compared after a restart."""
    assert [14976968285639670515, 6939551576139762202, 10916193751591708304] == [
        update_digest(b"a", time, diff) for time, diff in ((3, 1), (3, -2), (4, 1))
    ]


def test_a_memory_of_another_version_is_refused() -> None:
    """With its stream, and what to do."""
    plain = StreamCounts(None, 0).plain()
    for version in (7, None):
        other: Any = {**plain, "version": version}
        expected = f"^the memory of the topic t has version {version}, and this release reads 1: remove the memory"
        with pytest.raises(ForeignStateError, match=expected):
            StreamCounts(other, 0, name="the topic t")


def test_updates_are_held_in_their_parts_until_they_are_stated() -> None:
    """Those at the frontier are not before it."""
    stream = StreamCounts(None, 0)
    for part, time in (("a", 3), ("b", 5), ("a", 5), ("a", 3)):
        assert stream.update(part, time)
    assert {"a": {3: 2, 5: 1}, "b": {5: 1}} == stream.times
    assert (["a"], 2, 4) == (list(stream.parts(5)), stream.waiting(5), stream.held)
    stream.bound(5, 2)
    stream.release(5)
    assert ({"a": {5: 1}, "b": {5: 1}}, 5, 2) == (stream.times, stream.released, stream.held)
    assert ([], 0, ["a", "b"]) == (list(stream.parts(5)), stream.waiting(5), list(stream.parts(6)))
    stream.bound(6, 4)
    assert 6 == stream.complete()


NAMED = "the stream is stated to have"
STOPS: list[tuple[Callable[[], StreamCounts], Callable[[StreamCounts], Any], str, int]] = [
    (lambda: counts(0, (4, None)), lambda one: one.update("p", 3),
     "an update at time 3 (here) came after the stream was stated to be complete before 4", 0),
    (lambda: counts(0, (4, None)), lambda one: one.bound(3, None, place="here"),
     "the bound 3 (here) goes back: the stream was stated to be complete before 4 already", 0),
    (lambda: counts(0, (4, 2)), lambda one: one.bound(4, 3, place="here"),
     f"{NAMED} 3 rows before time 4 (here), and 2 before 4", 0),
    (lambda: counts(0, (4, 3)), lambda one: one.bound(4, 2, place="here"),
     f"{NAMED} 2 rows before time 4 (here), and 3 before 4", 0),
    (lambda: counts(0, (4, 3)), lambda one: one.bound(3, 4, place="here"),
     f"{NAMED} 4 rows before time 3 (here), and 3 before 4", 0),
    (lambda: stated(6), lambda one: one.bound(4, 2, place="here"),
     f"{NAMED} 2 rows before time 4 (here), and 1 have come", 6),
    (lambda: counts(0, 3, 3, (4, 1)), lambda one: one.complete(),
     "the stream was stated to have 1 rows before time 4, and 2 have come", 0),
    (lambda: counts(5, 3, 4, (5, 1)), lambda one: one.complete(),
     "the stream was stated to have 1 rows before time 5, and 2 have come", 5),
    (lambda: counts(0, 3, (9, 2), (9, None)), lambda one: one.complete(),
     "the stream was stated to have 2 rows before time 9, and 1 have come, although by another bound none before 9 is "
     "missing", 0),
    (lambda: counts(5, (5, None), held=RecentSums({"since": 0, "older": 0, "times": [(3, 7)]})),
     lambda one: one.complete(), "the stream has other updates at time 3 than the log: it is another history", 5),
]  # fmt: skip


def stated(frontier: int) -> StreamCounts:
    """An update at 3 is stated, by a promise."""
    stream = counts(0, 3, (frontier, None))
    stream.release(frontier)
    return stream


@pytest.mark.parametrize("made, act, reason, frontier", STOPS)
def test_what_contradicts_names_its_place_and_what_to_do(
    made: Callable[[], StreamCounts], act: Callable[[StreamCounts], Any], reason: str, frontier: int
) -> None:
    """And up to where the log is complete."""
    stream = made()
    with pytest.raises(SourceStop) as caught:
        stream.update("p", 3, place="here") if "an update" in reason else act(stream)
    stop = caught.value
    assert (reason, frontier) == (stop.reason, stop.frontier)
    first = {
        "an update": "State a bound only when every update before it is there. Find out",
        "the bound": "A bound without a number of rows may only grow. Find out",
        "the stream has": "Bring the records back that the log was written from, or capture these into new logs",
    }
    expected = next((text for start, text in first.items() if reason.startswith(start)), "Find out which is right")
    assert stop.remedy.startswith(expected)


def test_a_bound_may_be_stated_again() -> None:
    """With as many rows, or none that is later."""
    stream = counts(0, 3, (4, 1), (4, 1), (4, None), (4, None))

    assert 4 == stream.complete()


def test_a_bound_that_was_reached_hides_no_later_one() -> None:
    """A promise went beyond it."""
    stream = counts(0, 3, (4, 1))
    stream.release(4)
    stream.bound(6, None)
    stream.release(6)
    stream.bound(8, 1)

    assert 8 == stream.complete()


@pytest.mark.parametrize("held", [RecentSums(), RecentSums({"since": 4, "older": 2**64, "times": []})])
def test_what_is_read_again_is_compared_with_the_log_once(held: RecentSums) -> None:
    """Its digests add up, whatever multiple of 2**64 is left; behind where the log was an update is late."""
    stream = StreamCounts(None, 5, held=held)
    assert stream.compares and stream.plain()["again"] and stream.update("p", 3) is False
    stream.bound(4, 1)
    stream.bound(7, None)
    assert 7 == stream.complete() and not stream.compares and stream.waits() is None
    stream.release(7)
    for one in (stream, restored(stream)):
        assert not one.compares
        with pytest.raises(SourceStop, match="came after the stream was stated to be complete before 7"):
            one.update("p", 5)
        with pytest.raises(SourceStop, match="2 rows before time 4, and 1 have come"):
            one.bound(4, 2)


def test_an_update_at_the_time_where_the_log_was_is_no_repeat() -> None:
    """All before that time was there; what is at it and comes after its statement is late."""
    stream = counts(5, 3, (5, 1))
    assert 5 == stream.complete()
    assert stream.update("p", 5) and stream.update("p", 6) and not stream.update("p", 4 - 1, 0)
    stream.bound(7, 3)
    stream.release(stream.complete())
    with pytest.raises(SourceStop, match="an update at time 5 came after"):
        stream.update("p", 5)


def test_the_first_time_that_differs_is_named() -> None:
    """Of those that have a number of their own; a multiple of 2**64 is no difference."""
    held = RecentSums({"since": 2, "older": 2**64, "times": [(3, 7), (4, 7)]})
    with pytest.raises(SourceStop, match="has other updates at time 3 than the log"):
        counts(5, (5, None), held=held).complete()


@pytest.mark.parametrize("known, again", [(0, False), (1, True), (5, True)])
def test_a_log_that_holds_something_is_read_again(known: int, again: bool) -> None:
    """A late bound waits for that, also behind a restart; then it is judged."""
    stream = counts(known)
    assert again == stream.plain()["again"] == restored(stream).plain()["again"]
    if known < 5:
        return
    stream.bound(4, 2)
    after = restored(stream)
    assert [[4, 2]] == json.loads(json.dumps(after.plain()["late"]))
    after.update("p", 3)
    after.bound(5, 1)
    with pytest.raises(SourceStop, match="2 rows before time 4, and 1 have come"):
        after.complete()


def test_what_was_compared_is_not_read_again() -> None:
    """Though nothing was added to the log since."""
    stream = counts(5, 3, (5, 1))
    assert 5 == stream.complete() and not stream.plain()["again"]

    assert not restored(stream).plain()["again"]


def test_of_late_bounds_only_the_last_are_held() -> None:
    """Memory is bounded, while a log is read again."""
    stream = counts(3 * RECENT)
    for before in range(2 * RECENT):
        stream.bound(before, before)
    assert 2 * RECENT == len(stream.plain()["late"])
    stream.bound(2 * RECENT, 2 * RECENT)

    late = stream.plain()["late"]
    assert (RECENT, (RECENT + 1, RECENT + 1), (2 * RECENT, 2 * RECENT)) == (len(late), late[0], late[-1])


@pytest.mark.parametrize("made, text", [
    (lambda: counts(), "nothing is complete: no bound is beyond time 0"), (lambda: stated(6), None),
    (lambda: counts(5, 3, (5, 2)), "1 of 2 updates before time 5 are missing"),
    (lambda: counts(0, 3, 7), "2 updates at times from 3 on wait for a bound"),
    (lambda: counts(5, held=RecentSums()),
     "the log is complete before 5 already, and no bound that was read is as far"),
])
def test_what_it_waits_for(made: Callable[[], StreamCounts], text: str | None) -> None:
    """In words."""
    assert text == made().waits()
