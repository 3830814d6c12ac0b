"""What a capture of transactions holds on to: the records of its sources, and of what it has given out a few numbers.

The TEMP collection is a set of these, varying over the times of the timeline. With a binding's frontier it sums up all
that the sources said up to there, so that a capture may be begun anew at any time that is bound::

    Begun, Through      how it was begun, and up to which commit all is given out
    Row, Halt, End,
    Restart             of transactions that are not given out: what came of them so far
    Done                given out before an earlier transaction was; only without the order of commits

Repeats of one fact must be equal records, wherever they stand in the sources: so no record has a position in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.errors import MalformedError

#: What a transaction is called by its source.
Tx: TypeAlias = Union[int, str]
#: The transaction that the rows of an initial snapshot are in; its commit is where the snapshot was taken.
SNAPSHOT: Tx = "snapshot"


class RowRecord(NamedTuple):
    """A change of ``table`` in the transaction ``tx``: pairs of data and diff.

    ``order`` tells it from the other rows of the transaction. ``after`` is a commit from that of the transaction
    before, in the order of commits, up to but without its own (Debezium's ``sequence[0]``); None: none was known yet.
    Of rows of the snapshot it is where that was taken. ``number`` counts the rows of its table in the transaction, from
    1 (Debezium's ``data_collection_order``); None: that is not known. ``renumbered``: it is of a connector that
    numbers a transaction anew when it is restarted inside it. A connector may send a row again with another ``after``,
    so that is no part of which row it is: see :meth:`is_copy`. What a record tells of a row that must be looked up is
    one change of diff 0: see :mod:`cdcv2.capture.state`.

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

    def is_copy(self, other: RowRecord) -> bool:
        """Whether that one, which has the same place in the same transaction, is the same row.

        >>> one = RowRecord("orders", 7, 1, None, (("tea", 1),), 1)
        >>> one.is_copy(one._replace(after=100)), one.is_copy(one._replace(number=2))
        (True, False)
        """
        numbers = {number for number in (self.number, other.number) if number is not None}
        return (self.table, self.changes) == (other.table, other.changes) and len(numbers) < 2


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
    """Whether that is so of the transaction nobody can know any more. Never in TEMP, as others may know it."""

    tx: Tx


@dataclass(frozen=True, slots=True)
class HaltRecord:
    """Something in the transaction that no update can say (a TRUNCATE): it is never given out, nor what follows it.

    ``table`` and ``number`` are those of its row, which TEMP does not hold: they show whether a transaction that is
    given out already counted it.
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

    The Ends of one source come in the order of their commits, again and again if it likes. Raises MalformedError for a
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
    """The transaction was given out, and one that was committed before it was not."""

    tx: Tx
    commit: int


@dataclass(frozen=True, slots=True)
class ThroughRecord:
    """All transactions through ``commit`` (H) are given out. What comes after no known commit comes after ``base``."""

    commit: int
    base: int


@dataclass(frozen=True, slots=True)
class StartRecord:
    """How the capture was begun: in which order it gives out, of which tables, after a snapshot or without one.

    It marks what is given out as soon as it is complete: see :mod:`cdcv2.timeline.ordering`. ``looked_up`` says that
    old rows are, in what was given out.
    """

    ordering: str
    tables: tuple[str, ...]
    snapshot: bool
    looked_up: bool = False


#: What a source of transactions says.
Said: TypeAlias = Union[RowRecord, HaltRecord, EndRecord, RestartRecord]
#: What TEMP holds, each once.
Held: TypeAlias = Union[RowRecord, HaltRecord, EndRecord, RestartRecord, ReleaseRecord, ThroughRecord, StartRecord]
