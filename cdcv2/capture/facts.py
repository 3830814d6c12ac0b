"""The facts that capture works on: what a record of a source means, without its format.

Facts are plain values (named tuples): they can be sent between processes, compared and counted.

Their numbers are ints for every database (:mod:`~cdcv2.capture.connector` has how other positions become such):

- ``tx`` names a transaction: the same in its rows, its BEGIN and its END.
- ``lsn`` is where it was committed, and its time in the logs: from 1 to 2**63 - 2, and greater than that of all that
  were committed before. ENDs are in this order in their topic. A snapshot may have 0, and less than all behind it.
- ``seq``, of a row, is the ``lsn`` of the last END before that of its own transaction; None: its transaction is the
  first. If a greater one is read, and its own END is not there, that is taken for lost, and the capture stops.
- ``order`` numbers the rows of a transaction, ``table_order`` those of a table in it: both from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.errors import Cdcv2Error
from cdcv2.protocol.log import Position
from cdcv2.rows.values import with_one_nan

#: The diffs of the changes of one row: it goes, it comes, or one goes and then one comes in its place.
_DIFFS = (-1,), (1,), (-1, 1)


class Record(NamedTuple):
    """One Kafka record, as stored: ``key`` and ``value`` are bytes, or None."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(self.topic, self.partition, self.offset)


class RowFact(NamedTuple):
    """A row changed in a transaction.

    ``tx`` and ``order`` (of all its rows, from 1) identify it; ``table_order`` is its number among those of its
    table, from 1. ``seq`` is the END of the transaction before, as far as the connector knew it; a second copy of the
    row may have another one. ``changes`` are pairs ``(row, diff)``: a row goes (diff -1), one comes (1), or one goes
    and then one comes; never none, as a record that changes nothing is no row. ``renumbered``: its connector renumbers
    the rows of a transaction when it is restarted inside it.
    """

    table: str
    tx: int
    order: int
    table_order: int
    seq: int | None
    op: str
    changes: tuple[tuple[Any, int], ...]
    position: Position
    renumbered: bool = False


class PartialImage(NamedTuple):
    """Some of the values of a row, canonical, in the order of its columns; all of them: ``values`` is the row."""

    columns: tuple[str, ...]
    values: tuple[Any, ...]

    def only(self, names: Collection[str]) -> PartialImage:
        """The image without the other columns."""
        named = [(name, value) for name, value in zip(self.columns, self.values) if name in names]
        return PartialImage(tuple(name for name, _ in named), tuple(value for _, value in named))

    def __reduce__(self) -> tuple[Any, ...]:
        # Values are equal if they are ==, and a NaN is so only to itself.
        return _revived_image, tuple(self)


def _revived_image(columns: tuple[str, ...], values: tuple[Any, ...]) -> PartialImage:
    return PartialImage(columns, with_one_nan(values))


class PartialChange(NamedTuple):
    """A change of which the record lacks something: only the table's content shows its effect.

    ``op`` is c, u, d or t (all rows go). ``key`` identifies the row; without a key, it is the row that equals ``old``,
    which is then whole. If both are given, the row of that key must have the ``old`` values. ``new`` lacks the large
    values that the change did not touch.
    """

    op: str
    key: PartialImage | None
    old: PartialImage | None
    new: PartialImage | None


class PartialChangeFact(NamedTuple):
    """A row changed, or all of them went, in a transaction: a :class:`RowFact` that must be looked up in the table."""

    table: str
    tx: int
    order: int
    table_order: int
    seq: int | None
    change: PartialChange
    position: Position
    renumbered: bool = False


class SnapshotRow(NamedTuple):
    """A row of the initial snapshot, whose rows all carry one ``lsn``; identified by its position alone.

    ``marker`` states whether it is the first or the last row of its table, or of all, in Debezium's words: those of
    :data:`~cdcv2.capture.snapshot.extent.MARKERS`. Any other text, as the empty one, marks nothing.
    """

    table: str
    lsn: int
    marker: str
    row: Any
    position: Position
    renumbered: bool = False


class Begin(NamedTuple):
    """A transaction begins. After a crash of the connector it may be missing, or come twice."""

    tx: int
    lsn: int


class End(NamedTuple):
    """A transaction is committed at ``lsn``; ``counts`` has the number of rows of each of its tables.

    ``ts_ms`` is when, by the source's clock, in milliseconds since 1970; None: the record has no time.
    """

    tx: int
    lsn: int
    counts: dict[str, int]
    ts_ms: int | None = None


class Truncate(NamedTuple):
    """The table was truncated in this transaction: a change of all its rows, none of which is named."""

    table: str
    tx: int
    order: int
    table_order: int
    seq: int | None
    position: Position
    reason: str
    remedy: str


class UnfitRow(NamedTuple):
    """A row that cannot become an update: its columns are not those of the row type, or an image is missing.

    It belongs to transaction ``tx``, or to the snapshot at ``lsn`` (then ``tx`` is None); or to neither, as a row of an
    incremental snapshot: then it stops the capture where it stands. ``table_order`` is its number among the rows of
    its table in the transaction; 0: it has none.
    """

    table: str
    tx: int | None
    lsn: int | None
    seq: int | None
    position: Position
    reason: str
    remedy: str
    table_order: int = 0


class Notification(NamedTuple):
    """A report of the connector on its initial snapshot.

    ``kind`` is STARTED, IN_PROGRESS, TABLE_SCAN_COMPLETED (then with ``table`` and the ``rows`` scanned, None if they
    are missing), COMPLETED, ABORTED or SKIPPED. ``status`` is how the scan of the table ended, if that is reported.
    """

    kind: str
    table: str | None
    rows: int | None
    offset: int
    status: str | None = None


class IgnoredRecord(NamedTuple):
    """A record without consequence for any captured table; ``why`` names its kind.

    ``of`` is the connector whose notification it is, if that is another one.
    """

    why: str
    of: str | None = None


#: The facts that one record can be.
Fact: TypeAlias = Union[
    RowFact, PartialChangeFact, SnapshotRow, Begin, End, Truncate, UnfitRow, Notification, IgnoredRecord
]


def is_renumbered(fact: Fact) -> bool:
    """Whether it is a row of a connector that renumbers a transaction's rows when it is restarted inside it.

    >>> is_renumbered(Begin(7, 3))
    False
    """
    return isinstance(fact, (RowFact, PartialChangeFact, SnapshotRow)) and fact.renumbered


def encoded_images(
    changes: tuple[tuple[Any, int], ...], encode: Callable[[Any], bytes], where: object
) -> tuple[bytes | None, bytes | None]:
    """The bytes of the row that goes and of the one that comes (None: none does), of the record ``where``.

    Raises Cdcv2Error for changes that a :class:`RowFact` cannot have: the connector's reader is wrong.

    >>> encoded_images((("old", -1), ("new", 1)), str.encode, Position("t", 0, 7))
    (b'old', b'new')
    """
    diffs = tuple(diff for _, diff in changes)
    if diffs not in _DIFFS:
        raise Cdcv2Error(
            f"{where}: a record takes away one row, or adds one, or does both in this order, and the diffs of its "
            f"changes are {diffs}: correct the connector"
        )
    images = {diff: encode(row) for row, diff in changes}
    return images.get(-1), images.get(1)


class UpdateRecord(NamedTuple):
    """The multiplicity of a row changes at a time."""

    row: Any
    time: int
    diff: int


class BoundRecord(NamedTuple):
    """The topic is complete before a time: ``rows`` updates are there in all, or (None) no other one follows."""

    before: int
    rows: int | None


#: What a record of a stream topic is.
StreamFact: TypeAlias = Union[UpdateRecord, BoundRecord]
