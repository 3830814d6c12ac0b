"""What a capture keeps between two runs, with and without Spark, and whether a run may resume with it.

A capture by commit times has a :class:`CaptureMemory`, one of streams a :class:`StreamMemory`. One on a remap keeps
none: the records of its open transactions are in its open-records log (:mod:`cdcv2.capture.open_record_codec`).

The shape is stated once, by the types below. Each names the class whose ``export`` (of streams ``plain``) makes that
part; the capture puts the parts together (:mod:`cdcv2.capture.run.commit_times`, :mod:`cdcv2.capture.run.stream_state`,
and on Spark :mod:`cdcv2.spark.capture.query`). mypy holds them to it, but for a key that may be missing, and what is
read is checked against it. :func:`plain_memory` makes JSON of every memory, and :func:`read_memory` reads it.

A key that is new must be ``NotRequired``, and what reads it must do without: an older memory lacks it, and would be
refused as damaged. An older release overlooks it. Raise :data:`MEMORY_VERSION` only where that would be wrong, or where
a key gets another meaning: every memory of before is then refused, and its user has to remove it.

Rows are never kept: they are in the source's topics, and are read again. So a memory is small. It is written after the
statements that it describes, so that a crash leaves the old or the new one. Losing it costs time, never facts: the
topics are read from their start, and what the logs have already is found there.

The file is long because it is one form: each part has its type, how it is checked, and how it is read.

Where it is kept is another question: :mod:`cdcv2.capture.run.memory_file` has it in a file,
:mod:`cdcv2.spark.capture.memory_folder` in a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar

from cdcv2.capture.connector import FIRST_KIND, DatabaseConnector
from cdcv2.core.own_json import check_shape, checked, reading
from cdcv2.errors import ForeignStateError, MissingLogError, RefusedError
from cdcv2.protocol.log import Place, Positions, places_from_plain, plain_places

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
    :class:`LogTail`, with ``known``.
    """

    positions: dict[str, int]
    marks: NotRequired[dict[str, Any]]
    rows: NotRequired[int | None]
    reader: NotRequired[dict[str, Any]]
    known: NotRequired[int]


@dataclass(frozen=True)
class LogTail:
    """A log that Spark writes: stated up to ``known``, and what is behind ``positions`` has not been read.

    ``marks`` identify the log: Kafka's identity of the topic, or digests of a directory's files. ``rows`` is the sum of
    the diffs of all updates before ``known``; None: it is not known, and such a log is read from its start.

    >>> LogTail.from_plain(LogTail(5, {0: 3}, {"topic": "7f"}, 2).to_plain())
    LogTail(known=5, positions={0: 3}, marks={'topic': '7f'}, rows=2)
    """

    known: int
    positions: Positions
    marks: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None

    def to_plain(self) -> dict[str, Any]:
        """The tail as JSON can hold it."""
        positions = {str(part): at for part, at in self.positions.items()}
        return {"known": self.known, "positions": positions, "marks": dict(self.marks), "rows": self.rows}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> LogTail:
        """The tail that :meth:`to_plain` made this of; one that was kept without marks has none."""
        positions = {int(part): checked(offset, int) for part, offset in plain["positions"].items()}
        rows = plain.get("rows")
        known, marks = checked(plain["known"], int), checked(plain.get("marks", {}), dict)
        return cls(known, positions, marks, None if rows is None else checked(rows, int))


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


@dataclass(frozen=True)
class CaptureMemory:
    """That of a capture by commit times.

    ``commits`` is what ``CommitTransactions`` exported (up to which END all is released, whether the snapshot is, what
    stops it); None at the begin. ``positions`` have the place from which each partition must be read again. ``topics``
    has the identities of the source's topics, which other topics of the same names would not have. ``logs`` has, for
    each table, a :class:`LogMemory`: plain values, which only the writer of the logs understands.
    """

    commits: CommitsMemory | None
    positions: Mapping[Place, int]
    topics: Mapping[str, str]
    logs: Mapping[str, Any]

    @classmethod
    def empty(cls) -> CaptureMemory:
        """That of one that begins."""
        return cls(None, {}, {}, {})

    def to_plain(self) -> dict[str, Any]:
        """The memory as JSON can hold it."""
        return {
            "commits": self.commits, "positions": plain_places(self.positions), "topics": dict(self.topics),
            "logs": dict(sorted(self.logs.items())),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> CaptureMemory:
        """The memory that :meth:`to_plain` made this of. Raises a Python error for values of other types."""
        check_shape(plain["logs"], dict[str, LogMemory | None])
        check_shape(plain["commits"], CommitsMemory | None)
        if plain["commits"] is not None and plain["commits"].get("again"):
            check_shape(plain["commits"]["first"], list[int])
        check_shape(plain.get("topics", {}), dict[str, str])
        positions = places_from_plain(plain["positions"])
        return cls(plain["commits"], positions, plain.get("topics", {}), plain["logs"])


@dataclass(frozen=True)
class StreamMemory:
    """That of a capture of streams.

    ``counts`` has for each table what is open and stated. ``positions``, ``topics`` and ``logs`` are as in
    :class:`CaptureMemory`. ``read`` has the offsets before which all is counted. ``batch`` is of Spark, which keeps
    rows that are open in files beside its checkpoint, and so no positions.
    """

    counts: Mapping[str, CountsMemory]
    positions: Mapping[Place, int]
    read: Mapping[Place, int]
    topics: Mapping[str, str]
    logs: Mapping[str, Any]
    batch: BatchMemory | None

    @classmethod
    def empty(cls) -> StreamMemory:
        """That of one that begins."""
        return cls({}, {}, {}, {}, {}, None)

    def to_plain(self) -> dict[str, Any]:
        """The memory as JSON can hold it."""
        batch = {} if self.batch is None else {"batch": dict(self.batch)}
        return {
            "counts": dict(self.counts), "positions": plain_places(self.positions), "read": plain_places(self.read),
            "topics": dict(self.topics), "logs": dict(sorted(self.logs.items())), **batch,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StreamMemory:
        """The memory that :meth:`to_plain` made this of. Raises a Python error for values of other types."""
        check_shape(plain["counts"], dict[str, CountsMemory])
        check_shape(plain["logs"], dict[str, LogMemory | None])
        check_shape(plain["topics"], dict[str, str])
        check_shape(plain.get("batch"), BatchMemory | None)
        positions, read = places_from_plain(plain["positions"]), places_from_plain(plain["read"])
        return cls(plain["counts"], positions, read, plain["topics"], plain["logs"], plain.get("batch"))


def tails_of(logs: Mapping[str, Any]) -> dict[str, LogTail]:
    """The tails of logs by table, of what a memory of Spark has of them. Raises ForeignStateError for one that is none.
    """
    with reading(MEMORY, FORGET):
        return {table: LogTail.from_plain(tail) for table, tail in logs.items()}


# -- written and read

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

    >>> memory = replace(StreamMemory.empty(), read={("t", 0): 7})
    >>> plain = plain_memory(memory, {"topic": "t"})
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
    _check_version(plain, place)
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

    >>> has_released(plain_memory(StreamMemory.empty(), {}))
    False
    """
    if "counts" in plain:
        return any(counts["released"] for counts in plain["counts"].values())
    return plain["commits"]["through"] not in (None, 0)


# -- whether a run may resume with it

def same_topics(found: Mapping[str, str], remembered: Mapping[str, str]) -> dict[str, str]:
    """The identities of topics by their names. Raises ForeignStateError if one was recreated since it was captured.

    >>> same_topics({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    {'a': '1', 'c': '3', 'b': '2'}
    """
    for topic, identity in remembered.items():
        if found.get(topic, identity) != identity:
            raise ForeignStateError(
                f"the topic {topic} is another one than the one that was captured before: it was made again. Start "
                "over with it: no memory, and other logs"
            )
    return {**remembered, **found}


def declares_same(memory: CaptureMemory, again: tuple[int, ...]) -> bool:
    """Whether a state was saved with the same resnapshots declared; if not, its positions may be behind their rows.

    A permanent stop in the state always counts, unless a newly declared resnapshot explains it. Raises RefusedError if
    a resnapshot that is already in the logs is no longer declared.
    """
    commits = memory.commits
    if commits is None:
        return not again
    resnapshots = commits.get("again")
    declared = [] if resnapshots is None else resnapshots["told"]
    kept = [lsn for lsn in declared if lsn <= (commits["through"] or 0)]
    if not set(again).issuperset(kept):
        lsns = ",".join(map(str, kept))
        raise RefusedError(
            f"these logs were captured with --snapshot-again {lsns}, and it is not given any more: keep giving it (if "
            "it was wrong, remove the memory of this capture)"
        )
    spoilt = commits.get("spoilt") or []
    return declared == list(again) or (bool(spoilt) and spoilt[2:] != [True])


def resumable(
    memory: CaptureMemory, again: tuple[int, ...], remark: Callable[[str], object] = lambda text: None
) -> CaptureMemory:
    """What a capture with these resnapshots declared may resume with: the memory, or of it only which topics they were.

    The second where others were declared: the topics are read from their start then, and must still be those that were
    captured. ``remark`` gets that in words. Raises what :func:`declares_same` raises.

    >>> resumable(CaptureMemory.empty(), (90,))
    CaptureMemory(commits=None, positions={}, topics={}, logs={})
    """
    if memory.commits is None or declares_same(memory, again):
        return memory
    remark("the topics are read from their start, as other snapshots are declared than before")
    return replace(CaptureMemory.empty(), topics=memory.topics)


def _check_version(plain: Mapping[str, Any], place: object) -> None:
    if plain.get("version") != MEMORY_VERSION:
        raise ForeignStateError(
            f"{place} has version {plain.get('version')!r}, and this release reads {MEMORY_VERSION}: {FORGET}"
        )


def check_memory(plain: Mapping[str, Any], tables: tuple[str, ...], snapshot: str, known: int) -> None:
    """Raise ForeignStateError if it is of another capture, or ahead of logs that are stated up to ``known``."""
    _check_version(plain, MEMORY)
    if tuple(plain["tables"]) != tables or plain["mode"] != snapshot:
        raise ForeignStateError(
            f"the memory is of the tables {plain['tables']} with snapshot {plain['mode']}, "
            f"this capture has {list(tables)} with snapshot {snapshot}: {FORGET}"
        )
    through = plain["through"]
    if through is not None and (snapshot == "initial" or through > 0):
        check_not_ahead("the log that is furthest behind", through + 1, known)


def check_not_ahead(log: str, remembered: int, known: int) -> None:
    """Raise ForeignStateError if by a memory a log is complete before ``remembered``, and it is only before ``known``.

    The positions of such a memory would skip what the log lacks. Cost: constant.

    >>> check_not_ahead("the log of t", 5, 5)
    """
    if remembered > known:
        raise ForeignStateError(
            f"by the memory {log} is complete before {remembered}, and it is complete before {known} only: it is "
            f"another log, or lost its end. Bring it back, or {FORGET}"
        )


def missing_logs(cause: MissingLogError, place: object = MEMORY) -> ForeignStateError:
    """The error for a log that a memory knows, and that is not there: it must not come back as if it were new."""
    return ForeignStateError(f"{place} is of a log that is missing. Bring it back, or {FORGET}: {cause}")
