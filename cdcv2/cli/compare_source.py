"""The source's side of ``cdcv2 compare``: tables of PostgreSQL against their logs, at one moment of the source.

The tables are read in one repeatable-read snapshot, between two positions of the WAL: *low*, read before the snapshot
was taken, and *high*, read in it. Times in a log are positions of commits. So what the log has at times up to low is in
the snapshot, what it has after high is not, and a key that changes between them may be as it was before or after each
of these changes. Nothing else is let pass.

What the logs had before the snapshot was taken is in it, whatever its time. If that time is after high, the server has
lost commits, or is another one: then a difference is found where one looks only up to high, and sees none.
"""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdcv2.store.source_address import SourceAddress
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import MalformedError, UsageError
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.materialize.targets.postgres.tables import postgres_errors
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.fingerprint import Difference, Fingerprint, LocalRows, Side, Texts, Verdict, compare
from cdcv2.rows.postgres_texts import PostgresRows, TextTable, text_table
from cdcv2.rows.row_type import RowType
from cdcv2.sql_names import sql_name
from cdcv2.store.postgres_session import connect, guarded_tables

if TYPE_CHECKING:
    from psycopg import Connection

#: How long to wait, in seconds, between two looks at logs that are to go on.
PAUSE = 0.2
#: After how many cuts a reader that keeps resume marks moves them.
_CUTS_HELD = 100
#: Without row security, PostgreSQL refuses to leave out rows that a policy hides: those that are left would be equal.
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET row_security = off"
)
_NOW = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, pg_current_snapshot()::text"


class SourceSnapshot:
    """A snapshot of the source, until ``close``. Raises UsageError and UnavailableError as ``connect`` does."""

    def __init__(self, address: SourceAddress) -> None:
        self._address = address
        self._session = self._connect()
        with postgres_errors("read", "its position"):
            self._session.execute(_SETTINGS)
        self.look()

    def look(self) -> None:
        """Take the snapshot of now, in place of the one before."""
        with postgres_errors("read", "its position"):
            self._session.rollback()
            (before, _), = self._session.execute(_NOW).fetchall()
            self._session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (within, running), = self._session.execute(_NOW).fetchall()
        #: what committed up to ``low`` is in the snapshot, what committed after ``high`` is not
        self.low, self.high = int(before), int(within)
        #: how many transactions were open, which the snapshot does not have
        self.open = len([one for one in running.split(":")[2].split(",") if one])

    def end(self) -> int:
        """Where its WAL ends now, behind the snapshot."""
        with postgres_errors("read", "its position"):
            ((position, _),) = self._session.execute(_NOW).fetchall()
        return int(position)

    def mark(self) -> int:
        """Commit a transaction that changes no table, so that the logs can come past the snapshot; its position."""
        with self._connect() as session, postgres_errors("write", "a marker"):
            ((position,),) = session.execute(
                "SELECT (pg_logical_emit_message(true, 'cdcv2', 'compare') - '0/0')::bigint"
            ).fetchall()
        return int(position)

    def table(self, name: str, row_type: RowType, without: Collection[str]) -> TextTable:
        """How to identify the rows of a table. Raises UsageError, also where the role may not see all of them."""
        with postgres_errors("read", name):
            if guarded_tables(self._session, [name]):
                role = self._session.info.user
                raise UsageError(
                    f"row-level security may hide rows of {name} from the role {role}, so nothing would be proven. As "
                    f"a superuser: ALTER ROLE {sql_name(role)} BYPASSRLS; or let --source name a role that has it, or "
                    "owns the table"
                )
            return text_table(self._session, name, row_type, without)

    def side(self, table: TextTable) -> Side:
        """Its rows."""
        return PostgresRows(self._session, table.columns, table.width, table.name)

    def compare(self, table: TextTable, rows: Iterable[tuple[Texts, int]]) -> Verdict:
        """Its rows with others."""
        with postgres_errors("read", table.name):
            return compare(self.side(table), LocalRows(rows, table.width), table.width)

    def later(self) -> SourceSnapshot:
        """Another snapshot, of now."""
        return SourceSnapshot(self._address)

    def _connect(self) -> Connection[Any]:
        return connect(self._address.conninfo, origin=self._address.origin, autocommit=True)

    def close(self) -> None:
        """Leave."""
        self._session.close()


class LogHistory:
    """Logs of one timeline: what they had before the source was looked at (:meth:`read_all`), or have up to ``low``
    (``rows``), and what happens from there up to ``high`` (``window``): :meth:`look` sets the two.

    ``at``: a time, beyond which changes up to ``high`` are counted. ``patience``: for how many seconds the logs may
    take to come to where they should be.
    """

    def __init__(
        self, logs: Sequence[NamedLog], *, start: int = 0, at: int | None = None, patience: float = 0.0,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.low, self.high, self._at, self._patience = MAX_TIME, MAX_TIME, at, patience
        self._found, self._start, self._quarantine = covered(logs), start, quarantine
        self._reading = LogReader(self._found, start=[start], marks={}, quarantine=quarantine)
        self.rows = {named.table: ChangeBatch[Any]() for named in logs}
        self.window: dict[str, list[tuple[Any, int, int]]] = {named.table: [] for named in logs}
        self.moved = 0
        # The last update that was given out.
        self._last: int | None = None
        #: the last position through which one of the logs is complete, as far as they were read; None: there is none
        self.stated: int | None = None

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is complete in each of them."""
        return self._reading.frontier

    def read_all(self) -> None:
        """Read each of them to its end, as it is."""
        for number, cut in enumerate(self._reading, 1):
            self._take(cut)
            if number % _CUTS_HELD == 0:
                # The reader lets go of the messages that were given out.
                self._reading.marks()
        self._keep_stated()

    def look(self, low: int, high: int) -> None:
        """The source was looked at: what is read from now on lies before, between or behind these positions."""
        self.low, self.high = low, high

    def read_through(self, through: int) -> bool:
        """Read on until they are complete through the time; False if the patience ends before they are."""
        if not self.frontier.less_equal(through):
            return True
        self._reading = LogReader(
            self._found, start=self.frontier, begins=[self._start], marks=self._reading.marks(),
            follow=self._patience > 0, quarantine=self._quarantine,
        )
        deadline = clock.monotonic() + self._patience
        for cut in self._reading.cuts():
            if cut is not None:
                self._take(cut)
            if not self.frontier.less_equal(through) or cut is None and clock.monotonic() >= deadline:
                break
        self._keep_stated()
        return not self.frontier.less_equal(through)

    def _keep_stated(self) -> None:
        for reader in self._reading.readers.values():
            # One whose history is finished states no position, and has all of its updates.
            first = next(iter(reader.frontier), None)
            stated = self._last if first is None else int(first) - 1  # type: ignore[arg-type]
            if stated is not None and stated >= max(self._start, self.stated or 0):
                self.stated = stated

    def _take(self, cut: Cut) -> None:
        for table, updates in cut.updates.items():
            for row, time, diff in updates:
                at = int(time)  # type: ignore[arg-type]  # times are positions here
                self._last = max(at, self._last or 0)
                if at <= self.low:
                    self.rows[table].update(row, diff)
                elif at <= self.high:
                    self.window[table].append((row, at, diff))
                self.moved += self._at is not None and self._at < at <= self.high

    def disputed(self) -> dict[str, dict[str, str]]:
        """What is in dispute, as of a Reading."""
        return self._reading.disputed()

    def lacking(self) -> str:
        """What was stated and is not there."""
        return "; ".join(f"{name}: {missing}" for name, missing in self._reading.missing().items())


@dataclass
class SourceComparison:
    """One table: what the source and the other side are to each other."""

    table: TextTable
    one: Fingerprint
    other: Fingerprint
    differing: list[Difference] = field(default_factory=list)
    #: keys that changed while the snapshot was taken, and are as they were at some moment of that
    between: int = 0

    @property
    def equal(self) -> bool:
        """Whether nothing differs that may not."""
        return not self.differing


def compare_log(source: SourceSnapshot, table: TextTable, read: LogHistory, name: str) -> SourceComparison:
    """A table with its log.

    Raises MalformedError for a log in which a row comes to less than none.
    """
    rows = list(read.rows[name])
    for row, count in rows:
        if count < 0:
            raise MalformedError(
                f"at {read.low}, the row {row!r} is in the log {name} {count} times: it does not hold the whole history"
            )
    texts = [(table.texts(row), count) for row, count in rows]
    verdict = source.compare(table, texts)
    states = _states(table, texts, read.window[name])
    differing = [one for one in verdict.differing if one.one not in states.get(one.key, ())]
    between = len(verdict.differing) - len(differing)
    return SourceComparison(table, verdict.one, verdict.other, differing, between)


def _states(
    table: TextTable, rows: Iterable[tuple[Texts, int]], window: Sequence[tuple[Any, int, int]]
) -> Mapping[Texts, list[Counter[Texts]]]:
    """Key -> the rows that it has after each change in the window, for the keys that change there."""
    changes = [(at, table.texts(row), diff) for row, at, diff in sorted(window, key=lambda one: one[1])]
    keys = {texts[: table.width] for _, texts, _ in changes}
    held: dict[Texts, Counter[Texts]] = {key: Counter() for key in keys}
    for texts, count in rows if keys else ():
        if texts[: table.width] in keys:
            held[texts[: table.width]][texts] += count
    states: dict[Texts, list[Counter[Texts]]] = {key: [] for key in keys}
    for number, (at, texts, diff) in enumerate(changes):
        key = texts[: table.width]
        held[key][texts] += diff
        if all(later != at or other[: table.width] != key for later, other, _ in changes[number + 1:]):
            states[key].append(+held[key])
    return states


def tables_of(
    source: SourceSnapshot, types: Mapping[str, RowType], called: Mapping[str, str], without: Collection[str]
) -> dict[str, TextTable]:
    """Log -> how to identify its table's rows. ``called``: log -> ``schema.table``, if that is not the log's name.

    ``without``: ``LOG.COLUMN``. Raises UsageError.
    """
    for name in called:
        if name not in types:
            raise UsageError(f"--source-table {name}=...: there is no such log; there are {', '.join(types)}")
    for text in without:
        columns = [f"{name}.{column}" for name, row_type in types.items() for column in row_type.columns]
        if text not in columns:
            raise UsageError(f"--without {text}: there is no such column; write LOG.COLUMN")
    found = {}
    for name, row_type in types.items():
        table = called.get(name, name)
        if "." not in table:
            raise UsageError(f"which table of the source is the log {name}? Write --source-table {name}=SCHEMA.TABLE")
        left = {text[len(name) + 1:] for text in without if text.startswith(f"{name}.")}
        found[name] = source.table(table, row_type, left)
    return found
