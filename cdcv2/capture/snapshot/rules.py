"""How a snapshot is judged: every decision about one is here, for every way to capture.

Does a run count, is the snapshot whole (:func:`is_first_whole`, :func:`is_resnapshot_whole`), what contradicts it,
where does it end: to change that, change a function of this file. All are pure. What they are asked about is kept
beside it, in ``tracker``, ``runs``, ``extent`` and ``positions``; on a timeline of bindings, in
:mod:`cdcv2.capture.bound_transactions`. What to do about what they find is stated in ``remedies``. Decisions about a
part of one, and about what is beside it, are elsewhere:

- what one run of a connector is, by its notifications: ``run_rules``;
- whether a record of a snapshot is a row at all: the connector (``envelope`` of Debezium's), which parses it;
- two different rows at one position of a topic: :mod:`cdcv2.capture.open_rows`, which has them;
- where a snapshot ends, by the markers of its last rows: ``extent``;
- which tables a run leaves out: :mod:`cdcv2.capture.coverage`, as transactions may bring such a table later;
- which undeclared snapshots can still be declared: ``declarations``, for the words of the remedy;
- which transactions a resnapshot supersedes: :mod:`cdcv2.capture.commit_transactions`, which has them.

The file is long because every such rule is in it, each a small function.

A completed run *counts* rows of each table that it covers. The snapshot is whole when there are as many; fewer are
waited for, more are a stop. Before its release all of its rows have one LSN. Afterwards, one at that LSN is a duplicate
or a row that the logs lack, and one at another LSN is of a second snapshot. No transaction ends up to that LSN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from typing import NamedTuple

from cdcv2.capture.coverage import indispensable, left_out, unnamed
from cdcv2.capture.snapshot.completed_run import SnapshotRun
from cdcv2.capture.snapshot.remedies import (
    EARLY, LACKED, MORE, NO_SNAPSHOT, NO_TOPIC, NOT_EMPTY, NOT_WHOLE, RESCAN, RESNAPSHOT, TWO, UNKNOWN, WRONG_LSN,
)
from cdcv2.capture.transaction_contradictions import NEW_SOURCE, Commit, Contradiction


class SnapshotStop(NamedTuple):
    """What stops the capture. Nothing beyond ``cap`` is released any more; None: what is complete still is.

    ``another``: it is a snapshot that is not declared, and perhaps can be.
    """

    found: Contradiction
    cap: int | None = None
    another: bool = False


class CountedRun(NamedTuple):
    """What a completed run counts of each covered table; ``uncovered``: of which it counts none. ``wrong``: why not."""

    counts: dict[str, int]
    uncovered: frozenset[str]
    wrong: Contradiction | None


# -- the runs of a connector: what stops a capture, and what is counted


def stop_for_runs(found: Contradiction, completed: int, *, declared: bool, released: bool) -> SnapshotStop:
    """Where runs that contradict themselves stop a capture: declared resnapshots come after a first one that is sound.

    >>> stop_for_runs(Contradiction("the snapshot was aborted", RESNAPSHOT), 0, declared=True, released=False).cap
    -1
    """
    of_first = (completed == 0 or not declared) and not released
    return SnapshotStop(found, -1 if of_first else None, found.remedy == TWO)


def of_resnapshot(found: Contradiction | None, at: int | None) -> Contradiction | None:
    """What contradicts the resnapshot at ``at`` names it."""
    return found and Contradiction(f"{found.reason}, of the snapshot at {at}", RESNAPSHOT)


def count_first(
    run: SnapshotRun, rows: Mapping[str, int], tables: Collection[str], *, empty: Collection[str],
    may: Collection[str], known: Collection[str] | None,
) -> CountedRun:
    """What the run of the first snapshot counts; ``rows`` are those there are of it.

    ``empty``, ``may`` and ``known`` are those of the tracker.

    >>> count_first(SnapshotRun({"a": 2}, 3), {"a": 1}, "ab", empty=(), may="ab", known=None)
    CountedRun(counts={'a': 2}, uncovered=frozenset({'b'}), wrong=None)
    """
    left = left_out(run, rows, tables, known)
    needed = indispensable(left, tables, may, skipped=run.skipped)
    covered = [table for table in tables if table not in left or table == needed]
    wrong = not_empty(run, rows, empty) or uncounted(run, covered)
    if wrong is None and needed is not None:
        wrong = unnamed_table(needed)
    return CountedRun(run.counts(covered), left, wrong)


def count_resnapshot(
    run: SnapshotRun, rows: Mapping[str, int], tables: Collection[str], uncovered: Iterable[str], at: int | None
) -> CountedRun:
    """What the run of the resnapshot at ``at`` counts: it need not name the tables that were ``uncovered`` before it.
    """
    left = unnamed(run, rows, uncovered)
    covered = [table for table in tables if table not in left]
    return CountedRun(run.counts(covered), left, of_resnapshot(uncounted(run, covered), at))


def count_unnotified(
    left: frozenset[str], tables: Collection[str], may: Collection[str], *, all_read: bool
) -> CountedRun | None:
    """What shows that the first snapshot is whole where there are no notifications; None: it may not be whole yet.

    ``all_read``: :func:`is_all_read`. No number of rows is known then, and nothing of the tables without topics,
    ``left``.

    >>> count_unnotified(frozenset("b"), "ab", "ab", all_read=True)
    CountedRun(counts={}, uncovered=frozenset({'b'}), wrong=None)
    """
    if not all_read:
        return None
    needed = indispensable(left, tables, may)
    return CountedRun({}, left, None if needed is None else table_without_topic(needed))


def ended(completed: int, *, notified: bool, last_seen: bool) -> int:
    """How many snapshots have ended: as many as runs are ``completed``, or without notifications the marked one.

    >>> ended(2, notified=True, last_seen=False), ended(0, notified=False, last_seen=True)
    (2, 1)
    """
    return completed if notified else int(last_seen)


def is_all_read(number: int, ended_then: int, *, unread: bool) -> bool:
    """Whether all was read that may be of the snapshot of this number, or before it.

    The partitions were asked for their ends when ``ended_then`` snapshots had ended; ``unread``: one is not read to it.

    >>> is_all_read(0, 1, unread=False), is_all_read(1, 1, unread=False), is_all_read(0, 1, unread=True)
    (True, False, False)
    """
    return ended_then > number and not unread


def end_is_known(counts: Mapping[str, int], lsn: int | None) -> bool:
    """Whether the End of a counted snapshot is known: it is at the LSN of its rows, if there are any."""
    return lsn is not None or not any(counts.values())


# -- before the release


def is_first_whole(*, sound: bool, counted: bool) -> bool:
    """Whether the first snapshot is whole, by commit times and on a timeline.

    ``sound``: nothing contradicts it; ``counted``: there are as many rows as its run counts, or without notifications
    :func:`count_unnotified` has shown that none can be missing.

    >>> is_first_whole(sound=True, counted=True), is_first_whole(sound=True, counted=False)
    (True, False)
    """
    return sound and counted


def declared_too_early(at: int, declared: Collection[int]) -> Contradiction | None:
    """Why the first snapshot, at ``at``, does not come before those that were declared; None: it does."""
    if not declared or at < min(declared):
        return None
    reason = f"the first snapshot is at {at}, not before that at {min(declared)}, as was declared"
    return Contradiction(reason, WRONG_LSN)


def not_empty(run: SnapshotRun | None, rows: Mapping[str, int], empty: Iterable[str]) -> Contradiction | None:
    """Why a table that the user declared empty was not; None: nothing contradicts the user.

    >>> not_empty(SnapshotRun({"a": 2}, 3), {}, ["a"]).reason
    'a was not empty at the snapshot, as --empty states: its notification counts 2 rows'
    >>> not_empty(None, {"a": 1}, ["a", "b"]).reason, not_empty(None, {}, ["b"])
    ('a was not empty at the snapshot, as --empty states: there are 1 rows of it', None)

    Source: a notification counts all rows of its table.
    """
    for table in sorted(empty):
        counted, held = 0 if run is None else run.rows(table), rows.get(table, 0)
        if counted or held:
            shown = f"its notification counts {counted} rows" if counted else f"there are {held} rows of it"
            return Contradiction(f"{table} was not empty at the snapshot, as --empty states: {shown}", NOT_EMPTY)
    return None


def uncounted(run: SnapshotRun, tables: Iterable[str]) -> Contradiction | None:
    """Why the run does not show how many rows one of these tables has; None: it counts them all.

    >>> uncounted(SnapshotRun({"a": 1}, 3), ["a"]), uncounted(SnapshotRun({"a": 1}, 3), ["a", "b"]).reason
    (None, 'the notifications do not state how many rows of b the snapshot scanned')
    """
    for table in tables:
        if run.rows(table) is None:
            wrong = run.wrong.get(table)
            return unnamed_table(table) if wrong is None else Contradiction(wrong, RESCAN)
    return None


def unnamed_table(table: str) -> Contradiction:
    """No notification names a table that the others cannot go on without."""
    return Contradiction(f"the notifications do not state how many rows of {table} the snapshot scanned", UNKNOWN)


def table_without_topic(table: str) -> Contradiction:
    """There are no notifications, and a table that the others cannot go on without has no topic."""
    return Contradiction(
        f"nothing is known of {table}: it has no topic, and without notifications nothing shows that the snapshot "
        "covered it", NO_TOPIC,
    )


def surplus(counts: Mapping[str, int], rows: Mapping[str, int]) -> Contradiction | None:
    """Why the snapshot has more rows of a table than are counted; None: of no table.

    >>> surplus({"a": 1}, {"a": 1}), surplus({"a": 1}, {"a": 2}).reason
    (None, 'there are 2 snapshot rows of a, but its notification states 1')

    Source: a notification counts all rows of its table, and no record has two offsets.
    """
    for table, count in counts.items():
        held = rows.get(table, 0)
        if held > count:
            reason = f"there are {held} snapshot rows of {table}, but its notification states {count}"
            return Contradiction(reason, MORE)
    return None


def lacking(counts: Mapping[str, int], rows: Mapping[str, int]) -> dict[str, int]:
    """How many of the rows that are counted each table still lacks.

    >>> lacking({"a": 3, "b": 1}, {"a": 1, "b": 1})
    {'a': 2}
    """
    return {table: count - rows.get(table, 0) for table, count in counts.items() if count > rows.get(table, 0)}


def two_snapshots(lsns: Collection[int]) -> Contradiction | None:
    """Why these LSNs are not of the rows of one snapshot; None: they are.

    >>> two_snapshots({70}), two_snapshots({80, 70}).reason
    (None, 'there are rows of snapshots at [70, 80]')
    """
    return Contradiction(f"there are rows of snapshots at {sorted(lsns)}", TWO) if len(lsns) > 1 else None


def two_marks(one: object, other: object, marker: str) -> Contradiction | None:
    """Why two rows with one marker, as the last of a table, are of two snapshots at one LSN; None: it is one row."""
    if one == other:
        return None
    return Contradiction(f"the topics hold two snapshots: both {one} and {other} are marked {marker!r}", TWO)


def two_ends(one: object, other: object) -> Contradiction | None:
    """Why the history has two Ends of one snapshot, on a timeline; None: it is one End."""
    return None if one == other else Contradiction(f"the Ends {one} and {other} contradict each other", NEW_SOURCE)


def early_end(tx: object, end: int, base: int, *, stated: bool = False) -> Contradiction | None:
    """Why a transaction of the stream contradicts the snapshot at ``base``; None: it was committed after it.

    ``stated``: the snapshot is released.

    >>> early_end(7, 71, 70), early_end(7, 70, 70).reason
    (None, 'transaction 7 was committed at 70, not after the snapshot at 70')
    """
    if end > base:
        return None
    beyond = "; the logs are stated beyond it" if stated else ""
    reason = f"transaction {tx} was committed at {end}, not after the snapshot at {base}{beyond}"
    return Contradiction(reason, EARLY, stated)


def stop_for_early(end: Commit[int], base: int, *, released: bool, sure: bool) -> SnapshotStop | None:
    """What stops a capture for a transaction that is not after the snapshot at ``base``; None: it is.

    ``sure``: :func:`is_first`. If it is not, the LSN may be that of a resnapshot, and nothing is lost for good.

    >>> stop_for_early(Commit(7, 71), 70, released=True, sure=True)
    >>> stop_for_early(Commit(7, 70), 70, released=True, sure=False).found.stated
    False
    """
    found = early_end(end.tx, end.lsn, base, stated=released)
    if found is None or (found.stated and sure):
        return found and SnapshotStop(found)
    return SnapshotStop(found._replace(stated=False), -1, another=True)


# -- declared resnapshots


def is_resnapshot_whole(*, sound: bool, counted: bool, all_read: bool) -> bool:
    """Whether the next resnapshot is whole. It needs more than the first one, as it supersedes what is before it.

    ``sound``: nothing contradicts the runs; ``counted``: there are as many rows as its run counts; ``all_read``:
    :func:`is_all_read`, so everything that was committed before it is read, too.

    >>> is_resnapshot_whole(sound=True, counted=True, all_read=False)
    False
    """
    return sound and counted and all_read


def is_due(end: int, at: int | None, lost: tuple[object, int] | None) -> bool:
    """Whether the transaction that ends at ``end`` may be released before the resnapshot at ``at``, the next one.

    ``at`` is None if there is none. ``lost`` is a transaction whose END is lost, with the commit that it comes after;
    None: no END is. What comes behind a lost END is never released before a resnapshot. One that is still to come
    supersedes it, as it does where rows are missing: it has what is in no record. So a lost END stops the capture only
    behind the last resnapshot, however much is read before the others are whole.

    >>> is_due(80, None, None), is_due(80, 90, (7, 80)), is_due(80, 90, (7, 70)), is_due(95, 90, None)
    (True, True, False, False)
    """
    return (at is None or end <= at) and (lost is None or end <= lost[1])


def is_next(at: int, cap: int | None, due: Iterable[tuple[bool, bool]]) -> bool:
    """Whether a whole resnapshot at ``at`` is released next, and no stop before it holds.

    ``cap`` is that of a stop. ``due`` are the open transactions before it (:func:`is_due`), by commit: of each whether
    it lacks rows, and whether it stops the capture. Missing rows will never arrive: the resnapshot makes up for them.

    >>> is_next(90, None, [(True, False), (False, True)]), is_next(90, None, [(False, True)])
    (True, False)
    """
    if cap is not None and cap < at:
        return False
    for lacks, halts in due:
        if lacks or halts:
            return not halts
    return True


def makes_up_for(before: int, lsn: int, declared: Iterable[int]) -> bool:
    """Whether a BEGIN without an END between these two ENDs shows nothing, as a resnapshot is between them, too.

    A lost slot takes its last END with it. For one that is lost before both, :func:`is_due` decides.

    >>> makes_up_for(70, 100, [90]), makes_up_for(70, 80, [90])
    (True, False)
    """
    return any(before < at <= lsn for at in declared)


def end_of_declared(tx: object, lsn: int, declared: Collection[int]) -> SnapshotStop | None:
    """What stops a capture for a transaction that has the LSN of a declared resnapshot; None: it has none.

    >>> end_of_declared(7, 90, [90]).cap, end_of_declared(7, 91, [90])
    (89, None)
    """
    if lsn not in declared:
        return None
    reason = f"transaction {tx} was committed at {lsn}, declared as the LSN of a snapshot, and is of none"
    return SnapshotStop(Contradiction(reason, WRONG_LSN), lsn - 1)


# -- after the release, or where no snapshot is requested


def is_first(lsn: int, begins: int | None, seen: Collection[int], *, searched: bool) -> bool:
    """Whether the LSN that was read from the topics is that of the logs' first snapshot.

    It may be that of a resnapshot that an earlier run declared. It is not if the logs begin at it (``begins``), and all
    topics were ``searched`` and show no other snapshot (``seen``).

    >>> is_first(70, 70, {70}, searched=True), is_first(70, 60, {70}, searched=True)
    (True, False)
    """
    return begins == lsn and searched and {*seen} == {lsn}


def among_released(lsn: int, rows: int, released: tuple[int, int]) -> bool:
    """Whether ``rows`` rows of a table, of the snapshot at ``lsn``, can all be among those that were ``released``.

    >>> among_released(70, 2, (70, 2)), among_released(70, 3, (70, 2)), among_released(80, 1, (70, 2))
    (True, False, False)
    """
    at, number = released
    return at == lsn and rows <= number


def stop_for_second(table: str, lsn: int, base: int | None, through: int) -> SnapshotStop | None:
    """What stops a capture for rows of another snapshot than the released one; as :func:`second_snapshot`."""
    found = second_snapshot(table, lsn, base, through)
    # ENDs of transactions without rows may have been read before it: what the slot lost is lost all the same.
    return found and SnapshotStop(found, lsn if lsn > through else None, another=True)


def stop_for_unexpected(lsn: int, through: int) -> SnapshotStop:
    """Rows of a snapshot, and the recipe has none, stop a capture before what was committed after it."""
    return SnapshotStop(unexpected_snapshot(lsn, through, begun=through > 0), lsn - 1)


def second_snapshot(table: str, lsn: int, base: int | None, through: int) -> Contradiction | None:
    """Why a row at ``lsn`` is of another snapshot than the released one at ``base`` (None: that is unknown).

    ``through`` is how far the logs are stated.

    >>> [second_snapshot("t", *at, 90) is None for at in ((70, 70), (80, 70), (80, None), (100, None))]
    [True, False, True, False]
    """
    if lsn > through or (base is not None and lsn != base):
        return Contradiction(f"there are rows of a second snapshot of {table}, at {lsn}", TWO)
    return None


def lacked_row(table: str, where: object) -> Contradiction:
    """There is one more row of the snapshot, after its release."""
    return Contradiction(
        f"a row of the snapshot of {table} stands at {where}, which is none of the rows that were released: the logs "
        "are stated beyond it, and lack it", LACKED, True,
    )


def lacks_rows(tx: object, table: str, rows: int) -> Contradiction:
    """A transaction changes rows of a table that has only so many: the snapshot did not bring all of them.

    >>> lacks_rows(7, "t", 0).reason.partition(":")[0]
    'transaction 7 changes or deletes a row of t that cannot be there'
    """
    return Contradiction(
        f"transaction {tx} changes or deletes a row of {table} that cannot be there: after all that came "
        f"before it, the table has {rows} rows", NOT_WHOLE,
    )


def unexpected_snapshot(at: int, through: int, *, begun: bool) -> Contradiction:
    """There are rows of a snapshot, and the recipe has none; ``begun``: something of the history is stated.

    The logs lack the rows where they are stated beyond ``at``, or before any transaction, as tables without rows.

    >>> [unexpected_snapshot(100, through, begun=through > 0).stated for through in (0, 90, 100)]
    [False, False, True]
    """
    reason = f"there are rows of a snapshot, at {at}, and no snapshot is wanted (--snapshot none)"
    return Contradiction(reason, NO_SNAPSHOT, begun and not 0 < through < at)
