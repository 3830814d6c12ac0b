"""The records that a capture of transactions holds: those of open transactions, and a few numbers about released ones.

The open-records log (TEMP) is a collection of them, varying over the times of the timeline. With a binding's frontier
it sums up all that the sources reported up to there, so a capture can resume at any time that is bound::

    Begun, Through      how the capture started, and up to which commit all is released
    Row, Halt, End,
    Restart             of open transactions: their records so far
    Done                released before an earlier transaction was; only without the order of commits

Copies of one fact must be equal records, wherever they stand in the sources: so no record has a position in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.capture.row_identity import RowIdentity
from cdcv2.errors import MalformedError

#: What a transaction is called by its source.
Tx: TypeAlias = Union[int, str]
#: The transaction that the rows of an initial snapshot are in; its commit is where the snapshot was taken.
SNAPSHOT: Tx = "snapshot"


class RowRecord(NamedTuple):
    """A change of ``table`` in the transaction ``tx``: pairs of data and diff.

    ``order`` identifies it among the rows of the transaction. ``after`` is some commit from that of the transaction
    before, in the order of commits, up to and without its own (Debezium's ``sequence[0]``); None: none was known yet.
    For rows of the snapshot it is the snapshot's LSN. ``number`` counts the rows of its table in the transaction, from
    1 (Debezium's ``data_collection_order``); None: unknown. ``renumbered``: its connector renumbers the rows of a
    transaction when it is restarted inside it. A connector may send a row twice, with another ``after``, so ``after``
    does not identify it: see :attr:`identity`. A row whose before-image must be looked up is one change of diff 0: see
    :mod:`cdcv2.capture.table_content`.

    >>> RowRecord("orders", 7, 1, None, (("tea", 1),)).tx
    7
    """

    table: str
    tx: Tx
    order: Hashable
    after: int | None
    changes: tuple[tuple[Any, int], ...]
    number: int | None = None
    renumbered: bool = False

    @property
    def identity(self) -> RowIdentity:
        """Which row of its transaction it is.

        >>> RowRecord("orders", 7, 3, None, (("tea", 1),), 1).identity
        RowIdentity(table='orders', order=3, number=1, change=(('tea', 1),))
        """
        return RowIdentity(self.table, self.order, self.number, self.changes)


@dataclass(frozen=True, slots=True)
class BeginRecord:
    """The transaction begins. What follows from that depends on the record before it: see :class:`RestartRecord`."""

    tx: Tx


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """Two BEGINs of the transaction, with nothing between: the connector was restarted inside it, or at its start."""

    tx: Tx


@dataclass(frozen=True, slots=True)
class DoubtRecord:
    """Whether the connector was restarted inside the transaction is unknown here. Never in TEMP: others may know it."""

    tx: Tx


@dataclass(frozen=True, slots=True)
class UnendedRecord:
    """BEGIN of the transaction came, then ``end``, the first END behind ``after``, and no END of it.

    Never in TEMP: if its END is lost, nothing of that time is given out.
    """

    tx: Tx
    after: int
    end: int


@dataclass(frozen=True, slots=True)
class HaltRecord:
    """A fact of the transaction that no update can express (a TRUNCATE): the capture releases neither it nor the rest.

    ``table`` and ``number`` are those of its row, which TEMP does not hold: they show whether a released transaction
    already counted it.
    """

    tx: Tx
    after: int | None
    reason: str
    remedy: str
    table: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The transaction was committed, at ``commit``, with so many rows of each table; see :meth:`of`.

    The Ends of one source come in the order of their commits, each any number of times. Raises MalformedError for a
    commit that is no int from 1 on: 0 is before all of them.
    """

    tx: Tx
    commit: int
    counts: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if type(self.commit) is not int or self.commit < (0 if self.tx == SNAPSHOT else 1):
            raise MalformedError(f"{self.commit!r} is no commit of a transaction: those are integers from 1 on")

    @classmethod
    def of(cls, tx: Tx, commit: int, counts: Mapping[str, int]) -> EndRecord:
        """The End that counts these rows; tables without rows may be named.

        >>> EndRecord.of(7, 100, {"b": 2, "a": 1, "c": 0})
        EndRecord(tx=7, commit=100, counts=(('a', 1), ('b', 2)))
        """
        return cls(tx, commit, tuple(sorted((table, number) for table, number in counts.items() if number)))


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """The transaction was released, and one that was committed before it was not."""

    tx: Tx
    commit: int


@dataclass(frozen=True, slots=True)
class ThroughRecord:
    """All transactions up to ``commit`` (H) are released. A row that names no commit comes after ``base``."""

    commit: int
    base: int


@dataclass(frozen=True, slots=True)
class StartRecord:
    """How the capture started: its order of releases, its tables, and whether a snapshot comes first.

    It marks what is released as soon as it is complete: see :mod:`cdcv2.timeline.ordering`. ``looked_up``: the
    before-images of what was released were looked up.
    """

    ordering: str
    tables: tuple[str, ...]
    snapshot: bool
    looked_up: bool = False


#: What a source of transactions reports.
SourceRecord: TypeAlias = Union[RowRecord, HaltRecord, EndRecord, RestartRecord]
#: What is judged at its time, and is never in TEMP.
TransientRecord: TypeAlias = Union[DoubtRecord, UnendedRecord]
#: What TEMP holds, each once.
OpenRecord: TypeAlias = Union[
    RowRecord, HaltRecord, EndRecord, RestartRecord, ReleaseRecord, ThroughRecord, StartRecord
]
