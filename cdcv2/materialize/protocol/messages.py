"""The messages between a runtime and a driver: frozen values, orders in the imperative, answers in the past tense.

::

    runtime:  Open    Acknowledge    Load    Flush    Store, Changes   StartCommit
    driver:   Opened  Acknowledged   Loaded  Flushed                   StartedCommit

:mod:`cdcv2.materialize.protocol.turns` has the order in which they may be sent. A driver knows *tables*: columns of a
key and columns of values, with types. It need not know what a row of a log is, and how diffs become values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MalformedError, RefusedError, ViewError
from cdcv2.materialize.protocol.fence import Piece, Range
from cdcv2.rows.source_types import SourceType

if TYPE_CHECKING:
    import pyarrow as pa

#: The column that marks deleted rows, of tables that keep them.
DELETED = "cdcv2_deleted"
#: The version of the protocol, in every Open.
VERSION = 1

#: The values of a table's key columns, in order. Two keys are one if they are ``==``.
Key: TypeAlias = tuple[Any, ...]
#: The values of a table's other columns, in order.
Values: TypeAlias = tuple[Any, ...]

#: Kind of a field -> what its values are in Python; any may be None where the field is nullable.
KINDS: dict[str, str] = {
    "boolean": "bool",
    "int": "int of 32 bits with sign",
    "long": "int of 64 bits with sign",
    "integer": "int of any size",
    "decimal": "decimal.Decimal with `scale` digits behind the point, of at most `precision`, if that is stated",
    "float": "float that single precision holds",
    "double": "float",
    "string": "str",
    "bytes": "bytes",
    "json": "str that holds JSON",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table: ``kind`` is one of :data:`KINDS`. Raises MalformedError for another.

    ``source``: what it is in the database that the log comes from, where that is known. A system may keep it in that
    type (:mod:`cdcv2.views.source_columns`); values are of the kind nevertheless, and it is no part of ``==``.
    """

    name: str
    kind: str
    nullable: bool = False
    precision: int | None = None
    scale: int | None = None
    source: SourceType | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MalformedError(f"column {self.name!r} has the kind {self.kind!r}: known are {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True)
class Table:
    """One view in the foreign system.

    ``delta``: it is only ever pushed to, what is stored are changes. ``soft``: a deleted row stays there, marked, and
    none is ever removed. ``multiset``: its key is a digest of the other columns, the last of which is the multiplicity
    of the row; a driver that keeps it so may take :class:`Changes` of these counts.
    """

    name: str
    key: tuple[Field, ...]
    values: tuple[Field, ...]
    delta: bool = False
    soft: bool = field(default=False, compare=False)
    multiset: bool = field(default=False, compare=False)

    @property
    def stored(self) -> tuple[Field, ...]:
        """The columns of the rows in Changes: of a multiset without its digest and its count."""
        return self.values[:-1] if self.multiset else self.fields

    @property
    def erased(self) -> bool:
        """Whether a Store may delete what is at a key."""
        return not self.delta and not self.soft

    @property
    def marked(self) -> bool:
        """Whether its last column marks deleted rows."""
        return self.soft and bool(self.values) and self.values[-1].name == DELETED

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns, the key's first."""
        return self.key + self.values


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the view is: what is not beyond ``frontier`` is in it; ``state`` is the reader's own, plain JSON.

    ``views``: target -> mark of its view (:mod:`cdcv2.views.identity`); None: no instance has written it.
    ``committed``: whether a transaction was; before the first one, ``frontier`` is only the requested start. None: a
    release that did not keep this wrote the checkpoint, and nothing in it shows a transaction.

    >>> Checkpoint.from_plain(Checkpoint(Antichain([7])).to_plain())
    Checkpoint(frontier=Antichain([7]), state=None)
    """

    frontier: Antichain
    state: Any = None
    views: Mapping[str, str] | None = field(default=None, compare=False, repr=False)
    committed: bool | None = field(default=True, compare=False, repr=False)

    def started_at(self, start: Antichain) -> Checkpoint:
        """This, or, where nothing was committed yet, that of a view that has nothing and begins at ``start``.

        An instance with another start that ended before its first commit left nothing in a view. Raises RefusedError
        where it is not known whether there was a commit, and the start is not the frontier.

        >>> Checkpoint(Antichain([120]), committed=False).started_at(Antichain([0]))
        Checkpoint(frontier=Antichain([0]), state=None)
        """
        if self.committed is None and start != self.frontier:
            raise RefusedError(
                f"the checkpoint {self.frontier} was written by an older release and does not show whether anything "
                f"was committed: it may be only where the view was once to begin, and the start is now {start}. If "
                f"the target has the view up to {self.frontier}, resume from there (start: in the file); if not, take "
                "a new name and an empty place"
            )
        return self if self.committed or self.committed is None else Checkpoint(start)

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it, with a version."""
        plain = {"version": 1, "frontier": self.frontier.to_plain(), "state": self.state}
        if self.committed is False or (self.committed and not self._shows_commit):
            plain["committed"] = self.committed
        return plain if self.views is None else {**plain, "views": dict(self.views)}

    @property
    def _shows_commit(self) -> bool:
        """Whether it has what only a commit adds."""
        return self.state is not None or self.views is not None

    @classmethod
    def from_plain(cls, plain: Any) -> Checkpoint:
        """What :meth:`to_plain` made this of. Raises ForeignStateError for anything else."""
        if not isinstance(plain, Mapping) or plain.get("version") != 1 or not isinstance(plain.get("frontier"), list):
            raise ForeignStateError(
                f"{plain!r} is no checkpoint of version 1: somebody else wrote it, or a newer release did; use that one"
            )
        found = cls(Antichain.from_plain(plain["frontier"]), plain.get("state"), plain.get("views"))
        # Where it is not stated, an older release wrote it.
        return replace(found, committed=plain.get("committed", True if found._shows_commit else None))


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of the driver's state in the recovery log: an RFC 7386 merge patch, or a whole new state."""

    document: Mapping[str, Any]
    merge: bool = True


@dataclass(frozen=True, slots=True)
class Open:
    """First: what to keep, which share of the keys, and the driver's state in the recovery log.

    ``start`` is the frontier of a view that has nothing yet; ``pieces`` is up to where the recovery log has each part
    of the range, and empty if it has none; ``extent`` is up to where a transaction has started there, if one has.
    """

    materialization: str
    tables: tuple[Table, ...]
    range: Range = Range()
    state: Mapping[str, Any] | None = None
    start: Antichain = Antichain([0])
    pieces: tuple[Piece, ...] = ()
    extent: Antichain | None = None
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Opened:
    """Whose commit counts.

    ``checkpoint``: the store's own, which then rules; None: the recovery log's rules. ``pieces``: where parts of the
    range are at different frontiers, each part's. ``repeats``: a transaction of which anything was stored must be
    repeated with the same extent after a crash; the runtime then makes the extent durable before the first Store.
    ``changes``: numbers of the tables of which it takes Changes, in place of Loads and Stores. ``digests``: whether
    these are to have the digest of each row of a multiset.
    """

    checkpoint: Checkpoint | None = None
    pieces: tuple[Piece, ...] = ()
    repeats: bool = False
    changes: frozenset[int] = frozenset()
    digests: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The last transaction is committed in the recovery log; on opening: everything committed there still is."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The last transaction is in the store, visible to its readers. Its patch may be lost: the next may be a repeat."""

    state: Patch | None = None


class Load(NamedTuple):
    """What is at this key? Each key once per transaction at most."""

    binding: int
    key: Key


class Loaded(NamedTuple):
    """This is at the key. A key that is not there is not answered."""

    binding: int
    key: Key
    values: Values


@dataclass(frozen=True, slots=True)
class Flush:
    """No more Loads. The transaction is of the times beyond ``lower`` and not beyond ``upper``."""

    lower: Antichain
    upper: Antichain


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything that is there has been Loaded. Its patch is durable before the first Store."""

    state: Patch | None = None


class Store(NamedTuple):
    """This is to be at the key, or nothing (``delete``). ``exists``: whether a Loaded came for it.

    Of a delta table, the values are the change that the transaction makes; ``exists`` is False then.
    """

    binding: int
    key: Key
    values: Values
    exists: bool = False
    delete: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of a table that go and that come in a transaction, as columns: in place of its Loads and Stores.

    ``gone`` and ``come`` have the table's columns in order, the key's first, in the types of
    :func:`cdcv2.views.columns.arrow_of`, and no key twice. The first ``both`` rows of each have the same keys, in
    the same order: these change. Nothing was looked up, so the driver has to see to it, in the transaction that
    commits, that a row that goes is the row that is there, and that none is where one only comes (in a table that is
    ``marked``, none that is not marked). Otherwise it raises :class:`ConflictError`, and nothing was changed.

    Of a ``multiset``, both have the columns of the rows, and last by how much the row's count changes: below 0 in
    ``gone``, where a row stands once, and above in ``come``, where it may stand several times. No row stands in
    both. With ``digests`` in Opened, the digest of the row is the first column, and each row stands once: the columns
    are those of the table then. The driver has to see to it that what goes is there as often.
    """

    binding: int
    gone: pa.Table
    come: pa.Table
    both: int


class ConflictError(ViewError):
    """A driver found at a key another row than Changes expect. The runtime knows the log's rows, and names them.

    Attributes:
        key: the key; of a multiset without digests, the row.
        binding: the number of the table.
        there: the values at the key, or of a multiset the row and its count; None where nothing is.
    """

    def __init__(self, target: str, binding: int, key: Key, there: Values | None) -> None:
        super().__init__(target, key, "it has not the row there that the log's changes go with")
        self.key: Key = key
        self.binding, self.there = binding, there

    def __reduce__(self) -> tuple[Any, ...]:
        return ConflictError, (self.target, self.binding, self.key, self.there)


@dataclass(frozen=True, slots=True)
class StartCommit:
    """No more Stores. A store that rules commits this checkpoint with them."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class StartedCommit:
    """A store that rules has committed; others have staged. Its patch is committed with the checkpoint."""

    state: Patch | None = None


#: The messages of a runtime.
Request: TypeAlias = Union[Open, Acknowledge, Load, Flush, Store, Changes, StartCommit]
#: The messages of a driver.
Response: TypeAlias = Union[Opened, Acknowledged, Loaded, Flushed, StartedCommit]

REQUESTS: tuple[type[Any], ...] = (Open, Acknowledge, Load, Flush, Store, Changes, StartCommit)
RESPONSES: tuple[type[Any], ...] = (Opened, Acknowledged, Loaded, Flushed, StartedCommit)
