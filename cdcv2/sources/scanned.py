"""The End of an initial snapshot, which no record of a connector is: made of the notifications about it.

On a timeline of bindings the snapshot is a transaction before all others. It is whole when each table has as many rows
as the notifications of its completed run say. Its commit is the LSN that its rows carry, so the End is said at the
first time at which the completion is bound and a row; if no captured table has any, at that of the completion, as the
least commit there is. So it is a function of what is bound, and all captures say it alike.

A snapshot that is begun after that is one too many: see :func:`begun_again`. One that was broken off before, in a
database that was idle since, has left rows that nothing tells from those of the whole one: see :func:`mixed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cdcv2.reclock.temp import SNAPSHOT, End, Halt, Row
from cdcv2.sources.facts import Notification
from cdcv2.sources.snapshot import ANEW, twice


class Scanned:
    """What the notifications come to, in the order of their topic.

    >>> scanned = Scanned(["t"])
    >>> for kind, table, rows in (("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 2), ("COMPLETED", None, None)):
    ...     scanned.notification(Notification(kind, table, rows, 0))
    >>> scanned.end(None), scanned.end(70)
    (None, End(tx='snapshot', commit=70, counts=(('t', 2),)))
    """

    def __init__(self, tables: Iterable[str]) -> None:
        self._tables = tuple(tables)
        self._completed = False
        self._counts: dict[str, int | None] = {}
        self._started = self._twice = False
        #: Whether a run was begun, and then another one, before one was completed.
        self.broken_off = False
        #: Whether there was any.
        self.heard = False

    def notification(self, fact: Notification) -> None:
        """Take the next one."""
        self.heard = True
        if fact.kind == "STARTED":
            # A run that was broken off counts nothing; one that was completed is the snapshot.
            self._twice |= self._completed
            self.broken_off |= self._started
            self._started = True
            self._counts = {}
        elif fact.kind == "TABLE_SCAN_COMPLETED" and fact.table is not None:
            self._counts[fact.table] = fact.rows
        elif fact.kind in ("COMPLETED", "SKIPPED"):
            # SKIPPED first of all: no snapshot was taken. After a completed one it is said at each start.
            self._completed = True

    def are_enough(self, seen: Mapping[str, int]) -> bool:
        """Whether there may be as many rows of each table, by these numbers, as the completed run has."""
        return self._completed and all(seen.get(table, 0) >= (self._counts.get(table) or 0) for table in self._tables)

    def end(self, lsn: int | None) -> End | Halt | None:
        """The End as far as is known by now, or why there can be none; ``lsn`` is that of the snapshot's first rows."""
        if self._twice:
            return _TWICE
        if not self._completed:
            return None
        counts = {table: self._counts.get(table, 0) for table in self._tables}
        unsaid = sorted(table for table, rows in counts.items() if rows is None)
        if unsaid:
            return Halt(SNAPSHOT, None, f"the notifications do not say how many rows of {unsaid[0]} were scanned", ANEW)
        if lsn is None and any(counts.values()):
            return None
        return End.of(SNAPSHOT, lsn or 0, {table: rows for table, rows in counts.items() if rows is not None})


def begun_again(notified: Iterable[Notification]) -> Halt | None:
    """What stops a capture if one of these, which came after the End, begins another snapshot.

    Its rows would stop it, too; but there are none where the tables are empty by then, and the logs have rows.

    >>> begun_again([Notification("SKIPPED", None, None, 3)])
    >>> begun_again([Notification("STARTED", None, None, 4)]).reason
    'the connector has begun a second snapshot after a completed one'
    """
    return _TWICE if any(fact.kind == "STARTED" for fact in notified) else None


def mixed(rows: Iterable[Row]) -> Halt | None:
    """What stops a capture if these rows, as many as a snapshot has after one broken off, may be others.

    See :func:`~cdcv2.sources.snapshot.twice`.
    """
    many = Counter((row.table, row.changes) for row in rows)
    table = min((table for (table, _), number in many.items() if number > 1), default=None)
    return None if table is None else Halt(SNAPSHOT, None, twice(table), ANEW)


_TWICE = Halt(SNAPSHOT, None, "the connector has begun a second snapshot after a completed one", ANEW)
