"""The shape of a capture's memory, with and without Spark: to change what a capture remembers, begin here.

A capture by commit times has a :class:`~cdcv2.capture.memory.CaptureMemory`, one of streams a
:class:`~cdcv2.capture.memory.StreamMemory`. One on a remap keeps none: the records of its open transactions are in its
open-records log (:mod:`cdcv2.capture.open_record_codec`).

The shape is stated once, by the types below. Each names the class whose ``export`` (of streams ``plain``) makes that
part; the capture puts the parts together (:mod:`cdcv2.capture.run.commit_times`, :mod:`cdcv2.capture.run.stream_state`,
and on Spark :mod:`cdcv2.spark.capture.query`). mypy holds them to it, but for a key that may be missing, and what is
read is checked against it. :func:`plain_memory` makes JSON of every memory, and :func:`read_memory` reads it.

A key that is new must be ``NotRequired``, and what reads it must do without: an older memory lacks it, and would be
refused as damaged. An older release overlooks it. Raise :data:`MEMORY_VERSION` only where that would be wrong, or where
a key gets another meaning: every memory of before is then refused, and its user has to remove it.

Where it is kept is another question: :mod:`cdcv2.capture.run.memory_file` has it in a file,
:mod:`cdcv2.spark.capture.memory_folder` in a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar

from cdcv2.capture.connector import FIRST_KIND, DatabaseConnector
from cdcv2.core.own_json import checked, reading
from cdcv2.errors import ForeignStateError

#: When it is raised is stated above.
MEMORY_VERSION = 1
#: What a memory is of that does not state it: what was once the only one.
_UNSTATED = {"connector": FIRST_KIND}
#: What a memory is called in errors, where nothing states where it is.
MEMORY = "the memory of the capture"

#: What to do about a memory that does not fit.
FORGET = (
    "remove the memory (_memory.json in the folder of the logs; of a job, what --state has): the capture then begins "
    "at the start of its topics, and what the logs have is found there"
)


class ReleasedRowsMemory(TypedDict):
    """What :class:`~cdcv2.capture.snapshot.positions.SnapshotRows` keeps of the first snapshot, once it is released."""

    released: dict[str, list[int]]
    rows: dict[str, int]
    read: dict[str, dict[str, int]]


class SnapshotMemory(TypedDict):
    """What :class:`~cdcv2.capture.snapshot.tracker.SnapshotTracker` keeps of the first snapshot."""

    released: bool
    lsn: int | None
    completed: bool
    notified: NotRequired[int]
    rows: NotRequired[ReleasedRowsMemory | None]


class ResnapshotsMemory(TypedDict):
    """What it keeps of those that were taken later; ``told`` are the LSNs that the user declares."""

    told: list[int]
    runs: int
    notified: int


class CommitsMemory(TypedDict):
    """What :class:`~cdcv2.capture.commit_transactions.CommitTransactions` keeps: up to which END all is released.

    ``spoilt`` is what stops it for good, ``lost`` what was not there. ``first`` has, with resnapshots, the finished
    transactions of which a first record was read.
    """

    version: NotRequired[Any]
    tables: list[str]
    mode: str
    through: int | None
    snapshot: SnapshotMemory
    lost: NotRequired[list[Any] | None]
    spoilt: NotRequired[list[Any] | None]
    again: NotRequired[ResnapshotsMemory | None]
    first: NotRequired[list[int]]


class SumsMemory(TypedDict):
    """What :class:`~cdcv2.capture.recent_sums.RecentSums` keeps: ``times`` has pairs of a time and its number."""

    since: int
    older: int
    times: list[Any]


class CountsMemory(TypedDict):
    """What :class:`~cdcv2.capture.stream_counts.StreamCounts` keeps of one stream."""

    version: NotRequired[Any]
    released: int
    begun: int
    below: NotRequired[int]
    past: NotRequired[SumsMemory]
    again: NotRequired[bool]
    late: NotRequired[list[Any]]
    unlike: NotRequired[SumsMemory | None]
    times: dict[str, list[Any]]
    stated: list[Any]
    promised: int


class BatchMemory(TypedDict):
    """The last micro-batch of Spark that was kept: ``query`` is the identity of its checkpoint."""

    query: str
    number: int


class LogMemory(TypedDict):
    """What spares reading a log from its start.

    Without Spark it is what :class:`~cdcv2.protocol.writer.Writer` exports, with its ``reader``; with Spark a
    :class:`~cdcv2.capture.memory.LogTail`, with ``known``.
    """

    positions: dict[str, int]
    marks: NotRequired[dict[str, Any]]
    rows: NotRequired[int | None]
    reader: NotRequired[dict[str, Any]]
    known: NotRequired[int]


class Memory(Protocol):
    """The memory of some kind of capture. No field has a default, so that nothing is left out where one is made."""

    @classmethod
    def empty(cls: type[M]) -> M:
        """That of a capture that begins."""

    def to_plain(self) -> dict[str, Any]:
        """The memory as JSON can hold it."""

    @classmethod
    def from_plain(cls: type[M], plain: Mapping[str, Any]) -> M:
        """The memory that :meth:`to_plain` made this of. Raises a Python error for values of other types."""


M = TypeVar("M", bound=Memory)


def capture_identity(connector: DatabaseConnector) -> dict[str, Any]:
    """By what the memory of a capture of a database is known to be of it, with and without Spark: which connector has
    written the topics (unless it is the one that was once the only one), their prefix, and the row type of each table.

    A job on Spark adds where it reads and writes. Cost: linear in the tables.

    >>> from types import SimpleNamespace as Plain
    >>> capture_identity(Plain(kind="words", prefix="shop", tables={"t": Plain(fingerprint="7f")}))
    {'prefix': 'shop', 'tables': {'t': '7f'}, 'connector': 'words'}
    """
    rows = {table: row_type.fingerprint for table, row_type in sorted(connector.tables.items())}
    kind = {} if connector.kind == FIRST_KIND else {"connector": connector.kind}
    return {"prefix": connector.prefix, "tables": rows, **kind}


def plain_memory(memory: Memory, capture: Mapping[str, Any]) -> dict[str, Any]:
    """The memory of the capture with this identity (plain values only), as it is kept. Cost: linear.

    >>> from cdcv2.capture.memory import StreamMemory
    >>> plain = plain_memory(StreamMemory({}, {}, {("t", 0): 7}, {}, {}, None), {"topic": "t"})
    >>> read_memory(StreamMemory, plain, {"topic": "t"}).read
    {('t', 0): 7}
    """
    return {"version": MEMORY_VERSION, "capture": capture, **memory.to_plain()}


def read_memory(
    kind: type[M], plain: Mapping[str, Any] | None, capture: Mapping[str, Any], place: object = MEMORY
) -> M:
    """The memory that :func:`plain_memory` made this of; an empty one of None.

    Raises ForeignStateError unless it is of this capture and version, and each value of the type that is stated here. A
    memory with a digest never has another type; those that were written before there were digests may. Cost: linear.
    """
    if plain is None:
        return kind.empty()
    check_version(plain, place)
    with reading(place, FORGET):
        # Jobs on Spark called it their binding before.
        found = checked(plain["capture"] if "capture" in plain else plain["binding"], dict)
        for name in sorted(found.keys() | capture.keys()):
            if found.get(name) != capture.get(name):
                there, here = (one.get(name, _UNSTATED.get(name)) for one in (found, capture))
                raise ForeignStateError(
                    f"{place} is of another capture: its {name} is {there!r}, here it is {here!r}. Give each capture a "
                    f"memory and logs of its own; if only this memory is wrong, {FORGET}"
                )
        return kind.from_plain(plain)


def has_released(plain: Mapping[str, Any]) -> bool:
    """Whether a memory of any kind states that something is in the logs. Raises a Python error for one that is none.

    >>> from cdcv2.capture.memory import StreamMemory
    >>> has_released(plain_memory(StreamMemory.empty(), {}))
    False
    """
    if "counts" in plain:
        return any(counts["released"] for counts in plain["counts"].values())
    return plain["commits"]["through"] not in (None, 0)


def check_version(plain: Mapping[str, Any], place: object = MEMORY) -> None:
    """Raise ForeignStateError unless a memory, or a part of one that has its own version, has that of this release."""
    if plain.get("version") != MEMORY_VERSION:
        raise ForeignStateError(
            f"{place} has version {plain.get('version')!r}, and this release reads {MEMORY_VERSION}: {FORGET}"
        )
