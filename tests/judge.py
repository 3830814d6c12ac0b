"""A reader and the oracle side by side: after every message they must have given out and kept the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError
from cdcv2.protocol.ledger import Ledger
from cdcv2.protocol.messages import Batch, Updates
from cdcv2.protocol.resolver import Resolver
from tests.oracle import Contradiction, Oracle, Out, Said, Time, Told, beyond, coordinates, frontier
from tests.strategies import beginning, build, lift

CONTRADICTION = "contradiction"


def plain_batch(batch: Batch | None) -> Out | None:
    """A reader's batch in the oracle's terms; an identity that stands twice in it is a failed test."""
    if batch is None:
        return None
    updates = {(data, coordinates(time)): diff for data, time, diff in batch.updates}
    assert len(updates) == len(batch.updates)
    return Out(updates, frontier(batch.lower), frontier(batch.upper))


def said_by(reader: Resolver, message: Any) -> Out | str | None:
    """What a reader answers; if it refuses, that it is as it was before."""
    before = reader.export_state()
    try:
        return plain_batch(reader.absorb(message))
    except ContradictionError:
        assert before == reader.export_state()
        return CONTRADICTION


def truth_about(oracle: Oracle, message: Any) -> Out | str | None:
    """What the oracle answers to the same message."""
    try:
        return oracle.absorb(message)
    except Contradiction:
        return CONTRADICTION


def judge(
    start: Sequence[Time],
    log: Sequence[Told | Said],
    *,
    quarantine: bool = False,
    keep_all: bool = False,
    general: bool = False,
    between: Callable[[Resolver, Oracle, list[Out]], Resolver] = lambda reader, oracle, outs: reader,
) -> tuple[Resolver, Oracle, list[Out]]:
    """Show a log to both, message by message; `between` may replace the reader, or resolve and add to the batches."""
    reader = Resolver(
        map(lift, start), begins=beginning(start), on_error="quarantine" if quarantine else "raise", keep_all=keep_all,
        general=general,
    )
    oracle = Oracle(start, log, quarantine, keep_all)
    outs: list[Out] = []
    for number, message in enumerate(log):
        expected = truth_about(oracle, message)
        actual = said_by(reader, build(message))
        assert expected == actual, f"message {number}, {build(message)}"
        if isinstance(actual, Out):
            outs.append(actual)
        same_state(oracle, reader)
        reader = between(reader, oracle, outs)
    same_missing(oracle, reader)
    partitioned(oracle, outs)
    return reader, oracle, outs


def same_state(oracle: Oracle, reader: Resolver) -> None:
    """Both frontiers, what is in dispute, and that nothing is kept that is not open."""
    assert oracle.complete == frontier(reader.frontier)
    assert oracle.known == frontier(reader.known)
    assert (not oracle.complete) == reader.closed
    contested = oracle.contested()
    assert (contested if oracle.quarantine else set()) == frontier(reader.quarantine)
    assert sum(1 for key in oracle.held if oracle.ruled_diffs.get(key, 1)) == reader.held_updates()
    assert (oracle.late, oracle.early) == (reader.counters["late"], reader.counters["before_start"])
    for time, (expected, held) in reader.open_times().items():
        at = coordinates(time)
        assert beyond(oracle.reported, at)
        assert oracle.received(at) == held
        if expected is not None and at not in contested:
            assert oracle.counted(at) == {expected}


def same_missing(oracle: Oracle, reader: Resolver) -> None:
    """What lacks: the same intervals, however they are cut, and the same numbers of updates where they are agreed."""
    truth, found, contested = oracle.missing(), reader.missing(), oracle.contested()
    disputed = contested | {time for time in oracle.spoken() if len(oracle.counted(time)) > 1}
    lacking = {coordinates(time): count for time, count in found.updates}
    gaps = [(frontier(lower), frontier(upper)) for lower, upper in found.statements]

    assert bool(truth or contested) == bool(found)
    assert without(truth.updates, disputed) == without(lacking, disputed)
    assert truth.unstated == {t for t in oracle.grid if any(beyond(low, t) and not beyond(up, t) for low, up in gaps)}
    assert contested == frontier(found.contested)
    assert found.to_plain() and str(found)


def without(counts: dict[Time, int], times: set[Time]) -> dict[Time, int]:
    """The counts at other times than these."""
    return {time: count for time, count in counts.items() if time not in times}


def partitioned(oracle: Oracle, outs: Sequence[Out]) -> None:
    """Batches join on to one another from the start to the frontier, and each holds only times within its bounds."""
    bounds = [oracle.origin, *(out.upper for out in outs)]

    assert bounds[:-1] == [out.lower for out in outs]
    assert oracle.reported == bounds[-1]
    for out in outs:
        for _, time in out.updates:
            assert beyond(out.lower, time) and not beyond(out.upper, time)


class LazyReader:
    """A reader that folds as late as it may, as one with its rows on many machines does: the ledger's other side.

    Rows are appended unfolded; distinct identities are counted only when the ledger asks.
    """

    def __init__(self, start: Iterable[Time]) -> None:
        self.ledger = Ledger(map(lift, start), begins=beginning(start))
        self.rows: list[tuple[Any, Any, int]] = []

    def absorb(self, message: Any) -> Out | None:
        """The batch that a message completes. Raises ContradictionError, and nothing has changed."""
        ledger, rows = self.ledger.copy(), list(self.rows)
        if isinstance(message, Updates):
            new = [update for update in message.updates if ledger.keeps(update[1])]
            rows += new
            counts: dict[Any, int] = {}
            for _, time, _ in new:
                counts[time] = counts.get(time, 0) + 1
            ledger.arrived(counts, exact=False)
        else:
            ledger.state([(message, None)])
        wanted = ledger.to_fold()
        rows, distinct = folded(rows, set(wanted))
        ledger.folded(distinct)
        lower, upper = ledger.reported, ledger.settle()
        out = [row for row in rows if not ledger.keeps(row[1])]
        self.ledger, self.rows = ledger, [row for row in rows if ledger.keeps(row[1])]
        return None if upper == lower else plain_batch(Batch(out, Antichain(lower), upper))


def folded(rows: list[tuple[Any, Any, int]], times: set[Any]) -> tuple[list[tuple[Any, Any, int]], dict[Any, int]]:
    """The rows with those at `times` once per identity, and how many identities each has; two diffs contradict."""
    diffs: dict[tuple[Any, Any], int] = {}
    distinct = dict.fromkeys(times, 0)
    for data, time, diff in rows:
        if time not in times:
            continue
        if diffs.setdefault((data, time), diff) != diff:
            raise ContradictionError("diff", time, diffs[data, time], diff)
    for _, time in diffs:
        distinct[time] += 1
    return [row for row in rows if row[1] not in times] + [(d, t, r) for (d, t), r in diffs.items()], distinct
