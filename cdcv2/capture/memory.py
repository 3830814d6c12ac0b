"""What a capture by commit times keeps between two runs, with and without Spark, and whether a run may resume with it.

Its shape is stated once, by the types below: mypy holds those who export it to them, and what is read is checked
against them.

Rows are never kept: they are in the source's topics, and are read again. So a memory is small. It is written after the
statements that it describes, so that a crash leaves the old or the new one. Losing it costs time, never facts: the
topics are read from their start, and what the logs have already is found there.

Where it is kept is another question: :mod:`cdcv2.capture.run.state_file` has it in a file,
:mod:`cdcv2.spark.capture.state_file` in a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from cdcv2.core.own_json import check_shape, reading
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.protocol.log import Place, places_from_plain, plain_places

MEMORY_VERSION = 1

#: What to do about a memory that does not fit.
FORGET = (
    "remove the memory (_memory.json in the folder of the logs; of a job, what --state has), and the capture begins at "
    "the start of its topics and repeats the facts that are there"
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


class LogMemory(TypedDict):
    """What spares reading a log from its start, as far as both writers keep the same of it; the rest is their own."""

    positions: dict[str, int]
    marks: NotRequired[dict[str, Any]]
    rows: NotRequired[int | None]
    reader: NotRequired[dict[str, Any]]


@dataclass(frozen=True)
class CaptureMemory:
    """One memory. A capture that begins has an empty one.

    ``commits`` is what ``CommitTransactions`` exported (up to which END all is released, whether the snapshot is, what
    stops it); None at the begin. ``positions`` have the place from which each partition must be read again. ``topics``
    has the identities of the source's topics, which other topics of the same names would not have. ``logs`` has, for
    each table, what spares reading its log from the start: plain values, which only the writer of the logs understands.
    """

    commits: CommitsMemory | None = None
    positions: Mapping[Place, int] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """The memory as JSON can hold it."""
        return {
            "commits": self.commits, "positions": plain_places(self.positions), "topics": dict(self.topics),
            "logs": dict(sorted(self.logs.items())),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], place: object = "the memory of the capture") -> CaptureMemory:
        """The memory that :meth:`to_plain` made this of.

        Raises ForeignStateError where a value is of another type, or is missing. A memory with a digest never has such
        a one; those that were written before there were digests may.
        """
        with reading(place, FORGET):
            check_shape(plain["logs"], dict[str, LogMemory | None])
            check_shape(plain["commits"], CommitsMemory | None)
            if plain["commits"] is not None and plain["commits"].get("again"):
                check_shape(plain["commits"]["first"], list[int])
            check_shape(plain.get("topics", {}), dict[str, str])
            positions = places_from_plain(plain["positions"])
            return cls(plain["commits"], positions, plain.get("topics", {}), plain["logs"])


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
            f"these logs were captured with --snapshot-again {lsns}, and it is not given any more: go on giving it (if "
            "it was wrong, remove the memory of this capture)"
        )
    spoilt = commits.get("spoilt") or []
    return declared == list(again) or (bool(spoilt) and spoilt[2:] != [True])


def check_memory(plain: Mapping[str, Any], tables: tuple[str, ...], snapshot: str, known: int) -> None:
    """Raises ForeignStateError where it is of another capture, or ahead of logs that are stated up to ``known``."""
    if plain.get("version") != MEMORY_VERSION:
        raise ForeignStateError(f"the memory has version {plain.get('version')!r}, not {MEMORY_VERSION}: {FORGET}")
    if tuple(plain["tables"]) != tables or plain["mode"] != snapshot:
        raise ForeignStateError(
            f"the memory is of the tables {plain['tables']} with snapshot {plain['mode']}, "
            f"this capture has {list(tables)} with snapshot {snapshot}: {FORGET}"
        )
    through = plain["through"]
    if through is not None and (snapshot == "initial" or through > 0) and through >= known:
        raise ForeignStateError(
            f"the memory states that all through {through} is in the logs, but one only has what is before {known}, "
            f"so it is not the memory of these logs: {FORGET}"
        )
