"""Before-images from the state: the old rows, taken from what the logs state that the tables hold.

A table with REPLICA IDENTITY DEFAULT has records with the key of the changed row, and without its old values. But the
log of the table has them: the sum of its updates up to a frontier *is* the table there. So the state needs no storage
of its own. At each start it is added up from the logs, up to exactly the frontier at which the capture resumes. (A log
that a crash left ahead of others has later updates; they are left out here, and captured once more.) Then the state
follows each transaction, in commit order and within it in the order of its changes. The result of a change is a
function of the logs and the records alone, so a capture that was restarted writes the same as one that was not.

How a change affects its table:

=======  ========================================================================================================
c        adds its row; no row may have its key
u        removes the row with its key (without a key, the row that equals the old one), and adds the new one
d        removes that row
t        removes every row
=======  ========================================================================================================

A large value that the change did not touch is not in the record: it is taken from the removed row. A changed key
arrives as a d and, directly behind it, a c: that c takes the value from the row of the d.

If a record has old values, too, they must be those of the state. A different value, a missing row or a key that is
taken mean that logs and topics do not hold one history: the capture stops before that transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.facts import PartialChange, PartialImage
from cdcv2.capture.open_records import SNAPSHOT, RowRecord, Tx
from cdcv2.capture.open_rows import OpenRows
from cdcv2.capture.release_answers import Release
from cdcv2.capture.source_words import (
    ANY_SOURCE, KEY, PARTIAL_ROWS, SLOT, TAKE_WHOLE_ROWS, WHOLE_ROWS, SourceWords,
)
from cdcv2.capture.table_content import UnknownChange
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Entry, Log
from cdcv2.protocol.messages import Progress, Update
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import shown


class Content:
    """The rows of one table, as a multiset and, once a key is known, by that key.

    ``rows`` are its first rows. Cost: a change O(columns); the first one with another key O(rows). Memory: the rows,
    and their keys.

    >>> kinds = RowType({"type": "record", "name": "t", "fields": [
    ...     {"name": "id", "type": "int"}, {"name": "note", "type": "string"}]})
    >>> content = Content("public.t", kinds, {kinds.row([1, "long"]): 1})
    >>> key, untouched = PartialImage(("id",), (1,)), PartialImage(("id",), (1,))
    >>> content.change([(1, PartialChange("u", key, None, untouched)), (2, PartialChange("d", key, None, None))])
    [(Row(id=1, note='long'), -1), (Row(id=1, note='long'), 1), (Row(id=1, note='long'), -1)]
    """

    def __init__(self, table: str, row_type: RowType, rows: Mapping[Any, int] | None = None) -> None:
        self._table, self._row_type = table, row_type
        self._rows: dict[Any, int] = dict(rows or {})
        self._key: tuple[str, ...] | None = None
        self._at: tuple[int, ...] = ()
        self._by_key: dict[tuple[Any, ...], Any] = {}

    @property
    def rows(self) -> dict[Any, int]:
        """Row -> how many there are; a copy."""
        return dict(self._rows)

    def change(self, partial: Iterable[tuple[int, PartialChange]]) -> list[tuple[Any, int]]:
        """Apply the changes of one transaction: pairs (row, diff). ``partial`` has them in order, each with its number.

        Raises UnknownChange; the content must not be used after that.
        """
        changes: list[tuple[Any, int]] = []
        deleted: tuple[int, Any] | None = None
        for order, one in partial:
            if one.op == "t":
                changes += [(row, -number) for row, number in self._rows.items()]
                self._rows, self._by_key = {}, {}
                continue
            self._order_by(one.key.columns if one.key is not None else None)
            old = self._found(one) if one.op != "c" else None
            if old is not None:
                self._remove(old)
                changes.append((old, -1))
            if one.new is not None:
                untouched = deleted[1] if one.op == "c" and deleted is not None and deleted[0] == order - 1 else old
                row = self._filled(one.new, untouched)
                self.add(row)
                changes.append((row, 1))
            deleted = (order, old) if one.op == "d" else None
        return changes

    def become(self, rows: Iterable[Any]) -> list[tuple[Any, int]]:
        """Replace the content by these rows: pairs (row, diff) of what is different."""
        now = Counter(rows)
        changes = [(row, now[row] - self._rows.get(row, 0)) for row in {**self._rows, **now}]
        # No key until the next change has one: whether it identifies these rows is checked then.
        self._rows, self._key, self._by_key = dict(now), None, {}
        return [(row, diff) for row, diff in changes if diff]

    def add(self, row: Any) -> None:
        """Add one row. Raises UnknownChange if another row has its key."""
        if self._key is not None:
            key = tuple([row[at] for at in self._at])
            if key in self._by_key:
                raise UnknownChange(
                    f"a row of {self._table} with the key {self._named(key)} was inserted, and there is one already: "
                    f"{shown(self._by_key[key])}",
                    _TWICE,
                )
            self._by_key[key] = row
        self._rows[row] = self._rows.get(row, 0) + 1

    def _remove(self, row: Any) -> None:
        if self._rows[row] == 1:
            del self._rows[row]
        else:
            self._rows[row] -= 1
        if self._key is not None:
            self._by_key.pop(tuple([row[at] for at in self._at]), None)

    def _order_by(self, columns: tuple[str, ...] | None) -> None:
        """Find rows by these columns from now on; None: by all values, and rows may be equal."""
        if columns == self._key:
            return
        self._key, self._by_key = columns, {}
        if columns is None:
            return
        names = self._row_type.columns
        self._at = tuple(names.index(name) for name in columns)
        twice = []
        for row, number in self._rows.items():
            key = tuple([row[at] for at in self._at])
            if number > 1 or key in self._by_key:
                twice.append(self._named(key))
            self._by_key[key] = row
        if twice:
            # The least one: rows have no order, and all captures must report the same.
            raise UnknownChange(f"there are two rows of {self._table} with the key {min(twice)}", _TWICE)

    def _found(self, partial: PartialChange) -> Any:
        done = "updated" if partial.op == "u" else "deleted"
        row: Any
        if partial.key is None:
            row = partial.old.values if partial.old is not None else ()
            if row not in self._rows:
                raise UnknownChange(f"a row of {self._table} was {done} that is not there: {shown(row)}", _NOT_THERE)
            return row
        row = self._by_key.get(partial.key.values)
        if row is None:
            key = self._named(partial.key.values)
            raise UnknownChange(f"a row of {self._table} was {done} that is not there, the key {key}", _NOT_THERE)
        if partial.old is not None:
            self._compare(row, partial.old, self._named(partial.key.values))
        return row

    def _compare(self, row: Any, old: PartialImage, key: str) -> None:
        held = dict(zip(self._row_type.columns, row))
        # Compared as tuples: there, NaN equals itself.
        others = [
            f"{name!r} was {shown(held[name])} before, and {shown(value)} in the record"
            for name, value in zip(old.columns, old.values) if (held[name],) != (value,)
        ]
        if others:
            reason = f"the old values of the row of {self._table} with the key {key} are not what it had: "
            raise UnknownChange(reason + ", ".join(others), _DIFFERENT)

    def _filled(self, new: PartialImage, untouched: Any) -> Any:
        names = self._row_type.columns
        if len(new.columns) == len(names):
            return self._row_type.row(new.values)
        lacking = [name for name in names if name not in new.columns]
        if untouched is None:
            large = ", ".join(map(repr, lacking))
            raise UnknownChange(
                f"a row of {self._table} was inserted without its large value of {large}", _NO_LARGE_VALUE
            )
        values = dict(zip(names, untouched)) | dict(zip(new.columns, new.values))
        return self._row_type.row([values[name] for name in names])

    def _named(self, key: tuple[Any, ...]) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in zip(self._key or (), key))


class Contents:
    """The contents of all tables, at the frontier up to which all is released.

    With commit times it follows releases (:meth:`follow_release`). On a timeline it is the
    :class:`~cdcv2.capture.table_content.State` that the operator asks (:meth:`take`).
    """

    def __init__(self, contents: Mapping[str, Content]) -> None:
        self._contents = dict(contents)
        self._updates: dict[str, list[Update]] = {}

    @classmethod
    def of(
        cls, tables: Mapping[str, RowType], logs: Mapping[str, Log], known: Mapping[str, int],
        again: Collection[int] = (), starts: Mapping[str, int] | None = None, words: SourceWords = ANY_SOURCE,
    ) -> Contents:
        """The content of the tables at all times below ``known``, up to which each log must be stated.

        ``again`` are the LSNs of resnapshots: at each one below ``known``, a statement of the log must end. ``starts``
        are where logs begin that begin later than others, ``words`` those of the database in remedies.
        Raises RefusedError if none ends there, if a log lacks updates that it states, or if its rows are no table, and
        what reading the logs raises. Cost: reads the logs from their start.
        """
        return cls({
            table: Content(
                table, row_type,
                _added_up(table, logs[table], known[table], again, (starts or {}).get(table, 0), words)
                if known[table] > (starts or {}).get(table, 0) else None,
            )
            for table, row_type in tables.items()
        })

    def rows(self, table: str) -> dict[Any, int]:
        """What the table holds: row -> how many there are; a copy."""
        return self._contents[table].rows

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> Iterator[tuple[str, list[tuple[Any, int]]]]:
        """The changes of the next transaction, by table. Raises UnknownChange; do not use the object after that."""
        if tx == SNAPSHOT:
            found = [(row.table, data) for row in rows for data, _ in row.changes]
            for table, data in found:
                self._contents[table].add(data)
            return iter([(table, [(data, 1)]) for table, data in found])
        partial: dict[str, list[tuple[Any, PartialChange]]] = {}
        for row in rows:
            partial.setdefault(row.table, []).extend((row.order, data) for data, _ in row.changes)
        return iter(self._change(tx, {table: sorted(ones, key=_order) for table, ones in partial.items()}).items())

    def _change(
        self, tx: Tx, partial: Mapping[str, Iterable[tuple[int, PartialChange]]]
    ) -> dict[str, list[tuple[Any, int]]]:
        """Apply the changes of a transaction. Raises UnknownChange, which then names the transaction."""
        try:
            return {table: self._contents[table].change(partial[table]) for table in sorted(partial)}
        except UnknownChange as unknown:
            raise UnknownChange(f"{unknown.reason}, in transaction {tx}", unknown.remedy) from None

    def follow_release(self, release: Release, held: OpenRows, commits: CommitTransactions) -> Release | None:
        """Apply a release, which must then be written; :meth:`updates` returns its updates.

        Returns the release. If a transaction has a change that cannot be known, that transaction halts, and what is
        returned ends before it.
        """
        self._updates = {table: [] for table in self._contents}
        if release.snapshot is not None:
            for table, content in self._contents.items():
                for row in held.snapshot_rows(table):
                    content.add(row)
                    self._updates[table].append((row, release.snapshot, 1))
        for tx, lsn in release.transactions:
            try:
                done = self._change(
                    tx,
                    {table: held.partial_changes(tx, table) for table in self._contents if table not in release.partial}
                )
            except UnknownChange as unknown:
                commits.halt(tx, unknown.reason, unknown.remedy, unknown=True)
                return commits.ready()
            for table, changes in done.items():
                self._updates[table] += [(row, lsn, diff) for row, diff in changes]
        if release.again is not None:
            for table, content in self._contents.items():
                changes = content.become(held.snapshot_rows(table, release.again))
                self._updates[table] += [(row, release.again, diff) for row, diff in changes]
        return release

    def updates(self, table: str) -> list[Update]:
        """The updates of the followed release for the table; can be called once."""
        return self._updates.pop(table, [])


def _order(partial: tuple[Any, PartialChange]) -> Any:
    return partial[0]


def _added_up(
    table: str, log: Log, known: int, again: Collection[int], start: int, words: SourceWords
) -> dict[Any, int]:
    """Row -> how many there are, by what the log states at times below ``known``."""
    rows: Counter[Any] = Counter()
    # A resnapshot is the last part of its release, so a statement ends there. No other statement does.
    unstated = {Antichain([lsn + 1]): lsn for lsn in again if start <= lsn < known}
    reader = Iter(_watched(log.read(), unstated), start=[start])
    for batch in reader:
        for row, time, diff in batch.updates:
            if time < known:  # type: ignore[operator]  # the times of a capture's log are whole numbers
                rows[row] += diff
    if reader.frontier.less_equal(known - 1):
        raise RefusedError(
            f"the log {log.name} of {table} lacks what it states before {known} ({reader.missing()}), so before-images "
            f"cannot be taken from it. Put back what was removed from it; without that, {words.fill(_START_OVER)}"
        )
    if unstated:
        raise RefusedError(
            f"the log of {table} is stated beyond the resnapshot at {min(unstated.values())}, "
            f"without its rows: it was declared too late (or there is none at that LSN). To continue, "
            f"{words.fill(_START_OVER)}"
        )
    for row, number in rows.items():
        if number < 0:
            raise RefusedError(
                f"the log of {table} has {number} of the row {shown(row)} before {known}, so its rows are no table, "
                "and before-images cannot be taken from it: its capture began without the rows that were there. Start "
                "over with a snapshot, or continue with --before from-envelope"
            )
    return {row: number for row, number in rows.items() if number}


def _watched(entries: Iterable[Entry | None], uppers: dict[Antichain, int]) -> Iterator[Entry | None]:
    """The entries; each upper frontier of a statement is removed from ``uppers``."""
    for entry in entries:
        if entry is not None and isinstance(entry.message, Progress):
            uppers.pop(entry.message.upper, None)
        yield entry


_START_OVER = f"start over with a new snapshot that covers the table (new topics, new {SLOT}, new logs)"
_NOT_THERE = (
    "The logs lack rows that the table had: does the connector cover it only since its snapshot, was it captured with "
    "--snapshot none, are records missing from its topic, or is it named with --full-identity and has not "
    f"{WHOLE_ROWS}? To continue, "
    f"{_START_OVER}; where there is no snapshot, take whole before-images: {TAKE_WHOLE_ROWS}, and --before "
    "from-envelope"
)
_TWICE = (
    f"The key in the records ({KEY}) must distinguish all rows of the "
    f"table at any time. If the table has {WHOLE_ROWS}, name it with --full-identity: its rows are then "
    f"distinguished by all their values. Otherwise the logs are not of this table: {_START_OVER}"
)
_DIFFERENT = (
    "Logs and topics do not hold one history (did the table's columns or their types change, or was a topic trimmed?): "
    f"{_START_OVER}{PARTIAL_ROWS}"
)
_NO_LARGE_VALUE = (
    "A changed key comes as a delete and, directly behind it, an insert, and there is no such delete: was the topic "
    f"written by the connector alone? To continue, {_START_OVER}"
)
