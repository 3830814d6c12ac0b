"""Transactions on a timeline: whole, and in the order of their commits, in whatever order their records were bound.

By definition, of the records that the sources hold up to R(t), for every time t of the timeline:

- a transaction is *whole* at t when its End is among them, and of each captured table as many rows as the End counts;
- the *output* at t holds the changes of the transactions that are whole, if all that were committed before them are,
  too. On request it is enough to be whole: that is sooner, and no cut over the transactions;
- the *open-records log* (TEMP) at t holds the other records, and the commit up to which all is released: see
  :mod:`cdcv2.capture.open_records`.

Both are functions of the records up to R(t), and not of their order. So at every time that is bound, R(t) and TEMP at t
are all that a capture needs to resume exactly as it would have continued. TEMP also shows which records, or whole
transactions, are duplicates: rows by their place in the transaction, and those of released transactions by the commit
that they come after.

The binding becomes durable first; then what is finished (:mod:`cdcv2.capture.updates_then_statements`), TEMP before the
output. So where the output is known to be complete, the state to resume from is there, too. :func:`resume` starts at
the meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cdcv2.capture.bound_transactions import BoundTransactions
from cdcv2.capture.open_records import (
    HaltRecord, OpenRecord, RowRecord, SourceRecord, StartRecord, TransientRecord, Tx,
)
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords
from cdcv2.capture.table_content import State
from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import ForeignStateError, MalformedError, RefusedError, SourceStop, UsageError
from cdcv2.protocol.messages import Update
from cdcv2.protocol.open_times import OpenTimes
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER, check_ordered
from cdcv2.timeline.remap import Remap


class TransactionSummary(NamedTuple):
    """What is finished now: the updates of each table and of TEMP, and the frontier that all later ones are beyond.

    ``given`` has the transactions that are given out, with their times; ``begins`` the tables that are covered
    from a time on, with that.
    """

    output: dict[str, list[Update]]
    temp: list[Update]
    frontier: Antichain
    given: dict[Tx, int]
    begins: dict[str, int]


class Transactions:
    """The operator: feed it the records of sources of transactions, at the times that ``Reclock`` gives them.

    >>> from cdcv2.capture.open_records import EndRecord, RowRecord
    >>> carry = Transactions(["t"])
    >>> carry.updates([(RowRecord("t", 7, 1, None, (("a", 1),)), 1000, 1)], Antichain([1001])).output
    {'t': []}
    >>> carry.updates([(EndRecord.of(7, 50, {"t": 1}), 2000, 1)], Antichain([2001])).output
    {'t': [('a', 2000, 1)]}

    Args:
        tables: those that are captured; rows of others are ignored, and Ends may count them.
        ordering: ``COMMIT_ORDER``, or ``AS_COMPLETE``, which TEMP keeps for ever.
        snapshot: whether a transaction ``SNAPSHOT`` comes before all others, and nothing before it.
        temp: the updates of TEMP so far, to resume from; those beyond ``frontier`` are of a run that went further.
        frontier: from where on it goes on; records at earlier times have been released.
        state: the content of the tables at ``frontier``, to look up before-images; None: the rows have them.
        recalled: what was read again of the transaction topic, for a TEMP that has released transactions; None: any
            duplicate of these stops it.
        uncovered: tables that the connector had not reported in what was released before ``frontier``; ``partial``
            are those of them that have rows which are in no record; ``had`` decides whether a row shows that.
        counted: how many rows the tables have, as their logs state; None: no table is judged by that.
        words: those of the database in reasons and remedies.

    Raises ForeignStateError for the TEMP of another capture, RefusedError for a state without the order of commits.
    Memory: TEMP, and what arrived at times that are not finished; cost of a record: O(log open transactions).
    Source: the reclocking document's addendum on transactions.
    """

    def __init__(
        self,
        tables: Iterable[str],
        *,
        ordering: str = COMMIT_ORDER,
        snapshot: bool = False,
        temp: Iterable[Update] = (),
        frontier: Antichain | None = None,
        state: State | None = None,
        recalled: ReleasedEnds[Tx] | None = None,
        uncovered: Iterable[str] = (),
        partial: Iterable[str] = (),
        had: Callable[[RowRecord], bool] | None = None,
        counted: RowCounts | None = None,
        words: SourceWords = ANY_SOURCE,
    ) -> None:
        if ordering not in (COMMIT_ORDER, AS_COMPLETE):
            raise UsageError(f"the ordering is {COMMIT_ORDER!r} or {AS_COMPLETE!r}, not {ordering!r}")
        self._frontier = Antichain([0]) if frontier is None else frontier
        # From where on it was started or resumed: another run has released what is before that.
        self._since = self._frontier
        # How far its input is known to be complete.
        self._stated = Antichain([0])
        if state is not None:
            check_ordered(ordering, "looking up before-images")
        begun = StartRecord(ordering, tuple(sorted(set(tables))), snapshot, state is not None)
        self._words = words
        self._whole = BoundTransactions(
            begun, state, uncovered=uncovered, partial=partial, had=had, counted=counted, words=words
        )
        self._whole.restore(_content(temp, self._frontier), recalled)
        # What came at times that are not finished: each record once.
        self._pending: OpenTimes[dict[SourceRecord | TransientRecord, None]] = OpenTimes(total=True)
        self._stop: SourceStop | None = None
        self._look_for_halt()

    @property
    def frontier(self) -> Antichain:
        """Every update to be given out is beyond it."""
        return self._frontier

    @property
    def stop(self) -> SourceStop | None:
        """Why no more can be released: the sources contradict themselves, or have a fact that no update can express."""
        return self._stop

    @property
    def through(self) -> int | None:
        """H: the commit through which all is given out; None while not even the snapshot is."""
        return self._whole.through

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables that the connector has not reported, in what is given out, and those of :attr:`partial`."""
        return self._whole.uncovered

    @property
    def partial(self) -> frozenset[str]:
        """The uncovered tables whose records do not have all of their rows.

        The connector reports such a table, and its first row was an update or a delete: of a row that no record has.
        """
        return self._whole.partial

    def uncover(self, tables: Iterable[str]) -> None:
        """The connector has not spoken of these, either, as is known before anything is given out."""
        self._whole.uncover(tables)

    @property
    def has_started(self) -> bool:
        """Whether there is an output: a record was read, and the snapshot, if there is one, is released."""
        return self._whole.has_started

    @property
    def held(self) -> int:
        """How many records are held: those of TEMP, and those at times that are not finished."""
        return self._whole.held + sum(len(self._pending[time]) for time in self._pending)

    def temp(self) -> set[OpenRecord]:
        """What TEMP holds at the last time that is finished. Cost: all of it."""
        return set(self._whole.content())

    def updates(self, updates: Iterable[Update], frontier: Antichain | None = None) -> TransactionSummary:
        """Take records at times of the timeline, and then the frontier that these have come to (default: as before).

        A record may come as often as it likes. Raises MalformedError for one that is taken back, or that is at a time
        given out before (but what comes again after a restart, at times before ``frontier`` then, is left out), and
        :attr:`stop` once what could be given out before it was.
        """
        if self._stop is not None:
            raise self._stop
        if frontier is not None and not frontier.dominates(self._stated):
            raise MalformedError(f"the records were complete up to {self._stated}, and now up to {frontier} only")
        for record, time, diff in updates:
            self._arrived(record, check_int(time), diff)
        summary = TransactionSummary({table: [] for table in self._whole.tables}, [], self._frontier, {}, {})
        if frontier is None:
            return summary
        # After a restart the sources may be read from further back than was needed.
        self._stated, frontier = frontier, frontier.join(self._frontier)
        for time in self._pending.not_beyond(frontier):
            records = self._pending.pop(time) or {}
            if not self._finish(check_int(time), records, summary):
                break
        else:
            self._frontier = frontier
        self._look_for_halt()
        return summary._replace(frontier=self._frontier)

    def _arrived(self, record: SourceRecord | TransientRecord, time: int, diff: int) -> None:
        if diff < 1:
            raise MalformedError(f"{record!r} was taken back at {time}: sources of transactions only add")
        if self._frontier.less_equal(time):
            if time not in self._pending:
                self._pending[time] = {}
            self._pending[time][record] = None
        elif self._since.less_equal(time):
            raise MalformedError(f"{record!r} came at {time}, and all before {self._frontier} was stated to be there")

    def _finish(
        self, time: int, records: Iterable[SourceRecord | TransientRecord], summary: TransactionSummary
    ) -> bool:
        """Go on by one time; whether that was possible."""
        try:
            changed = self._whole.advance(records, time)
        except SourceStop as found:
            self._frontier = Antichain([time])
            # One that lasts is of what is stated, given out or not.
            frontier = self._frontier if found.lasting else self._complete()
            self._stop = self._stop_for(found, frontier, found.lasting)
            return False
        summary.temp.extend((held, time, diff) for held, diff in changed.temp)
        summary.given.update((tx, time) for tx in changed.given)
        summary.begins.update(dict.fromkeys(changed.begins, time))
        for table, changes in changed.output.items():
            summary.output[table].extend((data, time, diff) for data, diff in changes)
        self._frontier = Antichain([time + 1])
        return self._whole.halt() is None

    def _look_for_halt(self) -> None:
        halt = self._whole.halt()
        if halt is not None and self._stop is None:
            self._stop = self._stop_for(halt, self._complete())

    def _stop_for(
        self, found: SourceStop | HaltRecord, frontier: Antichain | None, lasting: bool = False
    ) -> SourceStop:
        return SourceStop(self._words.fill(found.reason), self._words.fill(found.remedy), frontier, lasting)

    def _complete(self) -> Antichain | None:
        """Up to where what is given out is complete; None: nothing is."""
        return self._frontier if self._whole.has_released else None


class ResumePoint(NamedTuple):
    """Where to go on: the first frontier that is not summed up yet, and from where the sources are to be read."""

    frontier: Antichain
    source: Antichain


def resume(remap: Remap, uppers: Iterable[Antichain]) -> ResumePoint:
    """Where to go on when TEMP, and the output of each table, are known to be complete up to these frontiers.

    >>> remap = Remap(Antichain([0]))
    >>> _ = remap.mint(Antichain([3]), now=1000), remap.mint(Antichain([5]), now=2000)
    >>> resume(remap, [Antichain([2001]), Antichain([1001])])
    ResumePoint(frontier=Antichain([1001]), source=Antichain([3]))

    Raises RefusedError where the remap has forgotten that: it must be held at the last time that all of them have.
    Cost: O(log bindings).
    """
    frontier = Antichain.meet_of(uppers)
    if frontier and remap.since and check_int(frontier.elements[0]) <= remap.since:
        raise RefusedError(
            f"the remap was compacted to {remap.since}, and the output is behind that ({through_text(frontier)}). "
            "Where the sources were then is forgotten. Capture again, with another remap and other logs; new ones "
            "cannot be begun with one that was compacted"
        )
    return ResumePoint(frontier, remap.source_frontier_at(frontier))


def _content(temp: Iterable[Update], frontier: Antichain) -> list[OpenRecord]:
    """What TEMP holds just before ``frontier``."""
    sums: ChangeBatch[OpenRecord] = ChangeBatch(
        (held, diff) for held, time, diff in temp if not frontier.less_equal(time)
    )
    odd = next((pair for pair in sums if pair[1] != 1), None)
    if odd is not None:
        raise ForeignStateError(
            f"the open-records log holds {odd[0]!r} {odd[1]} times: it is no set, so no capture wrote it alone"
        )
    return [held for held, _ in sums]
