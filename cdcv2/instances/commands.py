"""The commands of a controller and the responses of an instance: frozen values, orders in the imperative.

::

    controller:  CreateInstance   CreateIndex   Peek   Tail   CancelPeek   AllowCompaction   InitializationComplete
    instance:    Frontiers        PeekResponse  TailResponse  DroppedAt

:mod:`cdcv2.instances.stages` has the order in which they may be sent, :mod:`cdcv2.instances.wire` how they are written.
An instance is a process, and its dataflows are *indexes*: tables by key, at every finished time from ``since`` on.
A time is an int here, as it is for captures and materializations. Keys and rows are plain JSON values: objects by
column, as :meth:`~cdcv2.rows.row_type.RowType.to_plain` has them.

Source: the verbs of the document on the reconciliation of commands (002). An index has one export, so its name is that
of the dataflow and of the export; a tail has a name of its own, and is dropped as an index is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError

#: The values of the key columns in order, as plain JSON.
PlainKey: TypeAlias = tuple[Any, ...]
#: The least frontier: what a controller assumes before an instance reports another one.
LEAST = Antichain([0])


class IndexedTable(NamedTuple):
    """A table of an index: the columns of its key, and which log it is read from, by identity and not by name."""

    name: str
    key: tuple[str, ...]
    log: str


class RowCount(NamedTuple):
    """A row, as plain JSON, and how often it is there; below 0 where a log lacks rows from before it begins."""

    row: Any
    multiplicity: int


class RowChange(NamedTuple):
    """A change of a table: a row as plain JSON, the time, and how much its count changes."""

    row: Any
    time: int
    diff: int


@dataclass(frozen=True, slots=True)
class CreateInstance:
    """Begin: a process that has state already compares what follows with it. ``nonce`` is that of the session.

    It punctuates the history: what was sent before it counts no more.
    """

    nonce: str


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Keep these tables by key, of one timeline, at every time from ``since`` on. ``id`` names the same for ever.

    >>> orders = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),), 5)
    >>> orders.since, orders.definition == CreateIndex("copy", orders.tables, 7).definition
    (5, True)

    Raises MalformedError for no table, a table that is named twice, one without a key, and a since that is no time.
    """

    id: str
    tables: tuple[IndexedTable, ...]
    since: int = 0

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        if not names or len(set(names)) < len(names):
            raise MalformedError(f"the index {self.id!r} has the tables {names}: it takes one or more, each once")
        for table in self.tables:
            if not table.key:
                raise MalformedError(f"the index {self.id!r} has no key for {table.name!r}: name its columns")
        demand_time(self.since)

    @property
    def definition(self) -> frozenset[IndexedTable]:
        """What it is, beside its name and since: the imports and the plan, which is the key alone."""
        return frozenset(self.tables)


@dataclass(frozen=True, slots=True)
class AllowCompaction:
    """No read at a time before ``frontier`` will be requested of this index any more; empty: drop it.

    Of a tail: its client has all up to ``frontier``; empty: end it.
    """

    id: str
    frontier: Antichain


@dataclass(frozen=True, slots=True)
class Peek:
    """Answer what is at these keys at a time, once that time is finished: table -> keys. One cut over all of them.

    ``uuid`` is the client's. The same Peek twice is one.
    """

    uuid: str
    id: str
    keys: Mapping[str, tuple[PlainKey, ...]] = field(hash=False)
    time: int

    def __post_init__(self) -> None:
        demand_time(self.time)


@dataclass(frozen=True, slots=True)
class CancelPeek:
    """The answer is not needed any more. A peek that is not known may be cancelled: it may have been answered."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Tail:
    """Send the changes of a table of an index that are beyond the frontier ``after``, as they are finished.

    With ``after`` at the least frontier the first batch begins with all that is there at ``since``: what happened
    before stands at that time. The times of every instance are the same thereby, however far each is compacted.
    """

    uuid: str
    id: str
    table: str
    after: Antichain = LEAST
    since: int = 0

    def __post_init__(self) -> None:
        demand_time(self.since)

    @property
    def hold(self) -> int:
        """Up to which time its index may be compacted, while the client has all up to ``after`` and no more.

        >>> Tail("t1", "main", "orders", Antichain([7])).hold, Tail("t1", "main", "orders", since=5).hold
        (6, 5)
        """
        return self.after.integer - 1 if self.after.integer else self.since


@dataclass(frozen=True, slots=True)
class InitializationComplete:
    """The history was sent: what came since CreateInstance is what the instance should have, and all of it."""


@dataclass(frozen=True, slots=True)
class Frontiers:
    """Everything not beyond ``upper`` is finished in the index, and can be requested from its since on.

    The first one is beyond the since, each is beyond the one before; the empty one means that nothing more comes: the
    index is complete, or was dropped. ``committed_at``: when the last of what is finished was committed, in seconds
    since 1970, where the process around the instance has read that; it is no part of what is compared.
    """

    id: str
    upper: Antichain
    committed_at: float | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PeekResponse:
    """The one answer to a Peek. ``rows``: table -> for each key, in their order, its rows; or why there is none.

    ``error`` is a text for people, or :data:`CANCELED`.
    """

    uuid: str
    rows: Mapping[str, tuple[tuple[RowCount, ...], ...]] = field(default_factory=dict, hash=False)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TailResponse:
    """A batch of a tail: its changes beyond ``lower`` and not beyond ``upper``, consolidated, sorted by time.

    The lower of each is the upper of the one before.
    """

    uuid: str
    lower: Antichain
    upper: Antichain
    changes: tuple[RowChange, ...] = ()


@dataclass(frozen=True, slots=True)
class DroppedAt:
    """The tail has ended: nothing beyond ``frontier`` was sent, and nothing follows. ``reason`` is for people."""

    uuid: str
    frontier: Antichain
    reason: str


#: What a cancelled peek is answered with.
CANCELED = "canceled"

#: What a controller sends.
Command: TypeAlias = Union[
    CreateInstance, CreateIndex, AllowCompaction, Peek, CancelPeek, Tail, InitializationComplete
]
#: What an instance sends.
Answer: TypeAlias = Union[Frontiers, PeekResponse, TailResponse, DroppedAt]

COMMANDS: tuple[type[Any], ...] = (
    CreateInstance, CreateIndex, AllowCompaction, Peek, CancelPeek, Tail, InitializationComplete
)
ANSWERS: tuple[type[Any], ...] = (Frontiers, PeekResponse, TailResponse, DroppedAt)


def demand_time(time: object) -> int:
    """The time, if it is a whole number from 0 on. Raises MalformedError."""
    if type(time) is not int or time < 0:
        raise MalformedError(f"{time!r} is no time of an index: these are whole numbers from 0 on")
    return time


def is_finished(time: int, upper: Antichain) -> bool:
    """Whether a time is not beyond a frontier."""
    return not upper.less_equal(time)


def last_time(upper: Antichain) -> int | None:
    """The last finished time; None where there is none, and where the frontier is empty, which ends with no time.

    >>> last_time(Antichain([7])), last_time(Antichain([0])), last_time(Antichain())
    (6, None, None)
    """
    return None if not upper.integer else upper.integer - 1


def least_since(times: Iterable[int], given: int) -> int:
    """The least of the times, and of a since."""
    return min((given, *times))
