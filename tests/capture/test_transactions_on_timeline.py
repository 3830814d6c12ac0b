"""Transactions come out whole and in order, and what is held at a time is all that it takes to go on from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given, settings

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.updates_then_statements import Advance, WriterLogs
from cdcv2.capture.open_records import SNAPSHOT, ReleaseRecord, StartRecord, ThroughRecord, Tx
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.transactions_on_timeline import TransactionSummary, Transactions, resume
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, SourceStop
from cdcv2.failpoints import PlacedCrash
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Update, Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from cdcv2.timeline.partitioned import NOT_STARTED
from cdcv2.timeline.reclock import Reclock
from cdcv2.timeline.remap import Remap
from tests.strategies import Chooser, choosers
from tests.transactions_oracle import (
    CAPTURED, ENDS, History, Place, bindings, frontier, histories, place_of, remaps, truth,
)  # fmt: skip

# As many examples as in the profile: 100, or fewer while changes are tried out.
ORDINARY = settings.default.max_examples
ORDERINGS = pytest.mark.parametrize("ordering", (COMMIT_ORDER, AS_COMPLETE))
SNAPSHOTS = pytest.mark.parametrize("snapshot", (False, True))
STEPS = sorted(name for name in failpoints.KNOWN if name.startswith("release."))
Run = dict[str, list[Update]]


def bound(remap: list[tuple[int, Place]]) -> Remap:
    """The remap with all its bindings."""
    done = Remap(NOT_STARTED)
    for binding in bindings(remap):
        assert done.follow(binding)
    return done


def fed(
    choose: Chooser, history: History, place: Place, reclock: Reclock, operator: Transactions
) -> Iterator[TransactionSummary]:
    """Feed both operators all that is in the sources from a place on, in pieces; what that finishes."""
    while operator.frontier != reclock.frontier or place != history.whole():
        following = {part: end - choose.integer(0, end - place.get(part, 0)) for part, end in history.whole().items()}
        carried = reclock.updates(choose.shuffled(history.between(place, following)), frontier(following))
        before, place = operator.frontier, following
        summary = operator.updates(carried.updates, None if choose.chance(3) else carried.frontier)
        assert summary.frontier == operator.frontier and operator.frontier.dominates(before)
        for updates in (*summary.output.values(), summary.temp):
            assert all(before.less_equal(time) for _, time, _ in updates)
        yield summary


def carry(choose: Chooser, history: History, place: Place, reclock: Reclock, operator: Transactions) -> Run:
    """All that comes out of it: of each table, and of TEMP under no name."""
    out: Run = {table: [] for table in (*CAPTURED, "")}
    for summary in fed(choose, history, place, reclock, operator):
        for table, updates in (*summary.output.items(), ("", summary.temp)):
            out[table] += updates
    return out


def recalled(history: History, place: Place) -> ReleasedEnds[Tx]:
    """All ENDs that the transaction topic has there."""
    ends = {end.commit: (end.tx, end.commit, dict(end.counts)) for end in history.partitions[ENDS][:place.get(ENDS, 0)]}
    return ReleasedEnds(tuple(ends[commit] for commit in sorted(ends)), True, None)


def beyond(out: Run, time: int) -> dict[str, Counter[Any]]:
    """What came out from a time on."""
    done: dict[str, Counter[Any]] = {}
    for table, updates in out.items():
        done[table] = Counter()
        for data, at, diff in updates:
            if at >= time:
                done[table][data, at] += diff
    return done


def held(updates: Iterable[Update], time: int) -> Counter[Any]:
    """What a collection holds at a time."""
    sums: Counter[Any] = Counter()
    for data, at, diff in updates:
        if at <= time:
            sums[data] += diff
    return Counter({data: diff for data, diff in sums.items() if diff})


@SNAPSHOTS
@ORDERINGS
@given(choose=choosers())
def test_output_and_temp_are_what_the_definition_says(ordering: str, snapshot: bool, choose: Chooser) -> None:
    """At every time of the timeline, with the records in any order, in any pieces, and some of them twice."""
    history = histories(choose, snapshot=snapshot)
    remap = remaps(choose, history)
    operator = Transactions(CAPTURED, ordering=ordering, snapshot=snapshot)
    out = carry(choose, history, {}, Reclock(bound(remap)), operator)
    for time in range(remap[-1][0] + 1):
        expected = truth(history, remap, time, ordering == COMMIT_ORDER)
        found: Counter[Any] = Counter()
        for table in CAPTURED:
            found.update({(table, data): diff for data, diff in held(out[table], time).items()})
        temp = held(out[""], time)
        told = {one for one in temp if isinstance(one, (StartRecord, ThroughRecord, ReleaseRecord))}
        through = [one.commit for one in told if isinstance(one, ThroughRecord)]

        assert expected.output == found and set(temp.values()) <= {1}
        assert expected.rest == set(temp) - told
        assert ([expected.through] if expected.through else []) == through
        assert expected.early == {one.commit for one in told if isinstance(one, ReleaseRecord)}
    assert (set(temp), len(expected.rest) + len(expected.early)) == (operator.temp(), operator.held)


@SNAPSHOTS
@ORDERINGS
@settings(max_examples=3 * ORDINARY // 4)
@given(choose=choosers())
def test_the_summary_law(ordering: str, snapshot: bool, choose: Chooser) -> None:
    """For any time that is bound, R and TEMP at it give the rest of the run, whatever else is known."""
    history = histories(choose, snapshot=snapshot)
    remap = remaps(choose, history)
    whole = carry(
        choose, history, {}, Reclock(bound(remap)), Transactions(CAPTURED, ordering=ordering, snapshot=snapshot)
    )
    for into, place in remap:
        going_on = Antichain([into + 1])
        source = bound(remap)
        assert (going_on, frontier(place)) == resume(source, [going_on, Antichain([into + 9])])
        reading = {} if choose.chance(4) else place  # from the start is too much, and right
        operator = Transactions(
            CAPTURED, ordering=ordering, snapshot=snapshot, temp=whole[""], frontier=going_on,
            recalled=recalled(history, place),
        )
        assert set(held(whole[""], into)) == operator.temp()
        again = carry(choose, history, reading, Reclock(source, source=frontier(reading)), operator)

        assert beyond(whole, into + 1) == beyond(again, into + 1) == beyond(again, 0)


@ORDERINGS
@settings(max_examples=ORDINARY // 2)
@given(choose=choosers())
def test_a_crash_between_any_two_writes_does_no_harm(ordering: str, choose: Chooser) -> None:
    """Stopped at any step, any number of times, the logs come to hold what those of one run do; and to their end."""
    history = histories(choose, snapshot=True)
    remap = bound(remaps(choose, history))
    closing = remap.close() if choose.chance(2) else None
    assert closing is None or remap.follow(closing)
    logs = {table: MemoryLog(table) for table in ("", *CAPTURED)}
    for crashes in reversed(range(choose.integer(1, 5))):
        uppers, writers = {table: upper(log) for table, log in logs.items()}, dict[str, Writer]()
        for table in CAPTURED:
            assert uppers[""].dominates(uppers[table]), "an output is known whose state is not"
        going_on, source = resume(remap, uppers.values())
        if not going_on:
            break
        for table in uppers:
            if uppers[table]:
                writers[table] = Writer(logs[table])
        operator = Transactions(
            CAPTURED, ordering=ordering, snapshot=True, temp=facts(logs[""]), frontier=going_on,
            recalled=recalled(history, place_of(source, history)),
        )
        reclock = Reclock(remap, source=source, compacting=False)
        step, nth = choose.pick(STEPS), choose.integer(1, 4) if crashes else 10**6
        with suppress(PlacedCrash), failpoints.placed(step, nth=nth):
            for summary in fed(choose, history, place_of(source, history), reclock, operator):
                if "" in writers:
                    writers[""].extend(summary.temp)
                outputs = {table: writers[table] for table in CAPTURED if table in writers}
                logs_of_it = WriterLogs(outputs, lambda table: summary.output[table])
                release_order.write_release(logs_of_it, Advance(summary.frontier), temp=writers.get(""))
    whole = Transactions(CAPTURED, ordering=ordering, snapshot=True)
    expected = carry(choose, history, {}, Reclock(remap), whole)

    assert {table: set(updates) for table, updates in expected.items()} == {
        table: facts(log) for table, log in logs.items()
    }
    assert {remap.upper} == {upper(log) for log in logs.values()}


def upper(log: MemoryLog) -> Antichain:
    """How far a log is known to be complete."""
    resolver = Resolver()
    for entry in log.read():
        if entry is not None:
            resolver.absorb(entry)
    return resolver.known


def facts(log: MemoryLog) -> set[Update]:
    """The updates that a log holds."""
    messages = [entry.message for entry in log.read() if entry is not None]
    return {update for message in messages if isinstance(message, Updates) for update in message.updates}


def test_the_remap_must_still_know_where_the_sources_were() -> None:
    """At the last time that all logs have; later they would be written at another time."""
    remap = bound([(10, {0: 2}), (20, {0: 4})])
    remap.compact(20)
    with pytest.raises(RefusedError, match="compacted to 20"):
        resume(remap, [Antichain([21]), Antichain([11])])
    with pytest.raises(RefusedError, match="compacted to 20"):
        resume(remap, [Antichain([20])])

    assert frontier({0: 4}) == resume(remap, [Antichain([21])]).source


def test_why_it_must() -> None:
    """Read from the start over a remap that is compacted to where the output is, what is old is written twice."""
    remap = Remap(Antichain([0]))
    remap.mint(Antichain([2]), 10)
    remap.mint(Antichain([4]), 20)
    remap.compact(11)
    again = Reclock(remap, source=remap.source_frontier_at(Antichain([11]))).updates([("old", 1, 1), ("new", 3, 1)])

    assert [("old", 11, 1), ("new", 20, 1)] == again.updates
    with pytest.raises(RefusedError):
        resume(remap, [Antichain([11])])


@ORDERINGS
@SNAPSHOTS
@settings(max_examples=2 * ORDINARY)
@given(choosers())
def test_whichever_end_is_lost_it_is_missed(ordering: str, snapshot: bool, choose: Chooser) -> None:
    """Its rows are not taken for repeats, whether they come before or after others are given out."""
    history = histories(choose, snapshot=snapshot)
    streamed = [one for one in history.transactions if one.end.tx != SNAPSHOT]
    endless = [one.end.tx for one in streamed[:-1] if any(row.table in CAPTURED for row in one.rows)]
    assume(endless)
    lost = choose.pick(endless)
    history.partitions[ENDS] = [end for end in history.partitions[ENDS] if end.tx != lost]
    remap = bound(remaps(choose, history))
    operator = Transactions(CAPTURED, ordering=ordering, snapshot=snapshot)

    with pytest.raises(SourceStop, match=f"the END of transaction {lost} is missing"):
        carry(choose, history, {}, Reclock(remap), operator)
    assert operator.stop is not None
