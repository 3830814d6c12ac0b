"""The rules that a snapshot is judged by, and what stops a capture because of it, in words: for every way to capture.

A completed run *counts* rows of each table that it covers. The snapshot is whole when there are as many; fewer are
waited for, more are a stop. Before its release all of its rows have one LSN. Afterwards, one at that LSN is a duplicate
or a row that the logs lack, and one at another LSN is of a second snapshot. No transaction ends up to that LSN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.contradictions import Contradiction
from cdcv2.capture.snapshot.runs import SnapshotRun
from cdcv2.capture.source_words import (
    CAPTURED_TABLES, NO_SNAPSHOT_SETTING, PRODUCERS, REPLICATION_SLOT, SLOT, SNAPSHOT_LSN,
)

_START_OVER = (
    f"stop the connector, drop its {REPLICATION_SLOT} and its topics, remove the output and the memory of this capture "
    "(on a remap, take another remap and other logs), and start over"
)
#: What to do about a snapshot whose seam with the stream is not exact, by what shows that.
BEGUN_TWICE = f"A snapshot that was begun twice cannot be joined to the stream exactly: {_START_OVER}"
BROKEN_OFF = (
    f"A snapshot that was broken off is not whole, and the {SLOT} is there when it is tried again: {_START_OVER}"
)
TWO = f"The rows of two snapshots cannot be joined to one stream exactly: {_START_OVER}"
MORE = (
    "The topics hold rows of a snapshot that was broken off, too, or the producer sent a row twice, and which are too "
    f"many cannot be known: {_START_OVER}"
)
EARLY = f"The {SLOT} was there before the snapshot, so the two cannot be joined exactly: {_START_OVER}"
RESNAPSHOT = f"A resnapshot cannot be carried over so: {_START_OVER}"
NO_PLACE = f"So it cannot be put into the history: {_START_OVER}"
#: What to do about a table that the connector never reported.
UNKNOWN = (
    "If the connector does not capture this table, leave it out (--tables). If it was empty when the snapshot was "
    "taken, or did not exist yet, name it (--empty), which stays marked beside the logs. On a remap, do either with "
    "another remap and other logs. Otherwise start over with a snapshot of it: the connector's "
    f"{CAPTURED_TABLES}, a new {SLOT} and new topics"
)
#: What to do about a table that has no topic: a dump may lack the topic.
NO_TOPIC = f"If a dump is captured, and its topic was not dumped: dump that whole, too. {UNKNOWN}"
#: What to do about a scan of a table that states no number of rows that can be believed.
RESCAN = (
    "So nothing shows whether the snapshot is whole: stop the connector, mend what its log names, drop its "
    f"{REPLICATION_SLOT} and its topics, remove the output and the memory of this capture, and start over with a new "
    "snapshot"
)
#: What to do about a table that was declared to be empty, and was not.
NOT_EMPTY = (
    "Leave it out of --empty, and capture into empty logs; on a remap, with another remap, too"
)
LACKED = (
    "The snapshot was released without all of its rows. Start over with empty logs and without the memory of this "
    "capture (on a remap, with another remap); with the connector's notification topic (--notifications), if it was "
    "not given: it states how many rows there are. If it was given, the producer sent a row twice: drop the "
    f"{REPLICATION_SLOT} and the topics, too, and let {PRODUCERS} be idempotent"
)
NO_SNAPSHOT = (
    "Capture with --snapshot initial, into empty logs (on a remap, with another remap); or, if the connector was to "
    f"take no snapshot, begin with new topics, a new {SLOT}, empty logs, and the connector's {NO_SNAPSHOT_SETTING}"
)
#: What to do about an LSN that was declared as that of a snapshot, and is of none.
WRONG_LSN = f"Give --snapshot-again the LSN of a snapshot: {SNAPSHOT_LSN} of its rows, which stops of the capture name"


#: What to do about a table that had more rows at its snapshot than the snapshot brought.
NOT_WHOLE = (
    "The snapshot is not what was declared of the table. If it was named with --empty, leave it out of --empty, and "
    "capture into empty logs (on a remap, with another remap, too). If the connector was to take no snapshot "
    f"({NO_SNAPSHOT_SETTING}), capture with --snapshot none, into empty logs. Otherwise start over with a snapshot of "
    f"all rows of the table: a new {SLOT}, new topics, empty logs"
)


# -- before the release


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


def two_marks(one: object, other: object, marker: str) -> Contradiction:
    """Two rows of a table are marked as its first row, or as its last: they are of two snapshots at one LSN."""
    return Contradiction(f"the topics hold two snapshots: both {one} and {other} are marked {marker!r}", TWO)


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


# -- after the release, or where no snapshot is requested


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
