"""What a capture keeps between two runs, with and without Spark, and whether a run may resume with it.

To change what is kept, begin in :mod:`cdcv2.capture.memory_format`, which states what is written and how it is read.

Rows are never kept: they are in the source's topics, and are read again. So a memory is small. It is written after the
statements that it describes, so that a crash leaves the old or the new one. Losing it costs time, never facts: the
topics are read from their start, and what the logs have already is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2.capture.memory_format import (
    FORGET, MEMORY, BatchMemory, CommitsMemory, CountsMemory, LogMemory, check_version,
)
from cdcv2.core.own_json import check_shape, checked, reading
from cdcv2.errors import ForeignStateError, MissingLogError, RefusedError
from cdcv2.protocol.log import Place, Positions, places_from_plain, plain_places


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


def check_memory(plain: Mapping[str, Any], tables: tuple[str, ...], snapshot: str, known: int) -> None:
    """Raise ForeignStateError if it is of another capture, or ahead of logs that are stated up to ``known``."""
    check_version(plain)
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
