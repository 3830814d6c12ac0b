"""The one order in which a release becomes durable: the updates of all tables, then statements, then the state.

A crash anywhere in it does no harm:

1. Each log states where it begins, or that its table is not covered.
2. The updates of every table are durable.
3. What is kept of the release beside the logs is durable: when it was committed.
4. The open-records log (TEMP), if there is one, is stated: the next run resumes from it.
5. Each table is stated, first those that begin now.
6. The state of the capture is durable: from where the topics are read again.

A crash before a statement leaves updates that no statement counts; the next run writes what they lack, and counts them.
A crash between two statements leaves some logs ahead; the next run goes on at the meet of all.

Every capture calls :func:`write_release`, and what writes the logs of one again. Where the rows are, and who writes
them, is in the :class:`LogSet`: :class:`WriterLogs`; :class:`~cdcv2.capture.run.table_writers.CoveredTableLogs`, of
which some are not covered; and on Spark :class:`~cdcv2.spark.capture.release_frames.FrameLogs`. One log that is written
alone has the same order in :meth:`~cdcv2.protocol.writer.Writer.advance`, ``stage`` and then ``commit``, which a
release calls one by one; what a statement counts is in :mod:`cdcv2.protocol.statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.protocol.messages import Update
from cdcv2.protocol.sums import Sums
from cdcv2.protocol.writer import Writer

BEFORE_UPDATES = failpoints.declare("release.before-updates", "it is known what is released; nothing of it is written")
TABLE_WRITTEN = failpoints.declare("release.table-written", "the updates of one more table are durable, and not stated")
UPDATES_DURABLE = failpoints.declare("release.updates-durable", "the updates of all tables are durable, and not stated")
TEMP_STATED = failpoints.declare("release.temp-stated", "the statement of TEMP is durable; no other is")
TABLE_STATED = failpoints.declare("release.table-stated", "the statement of one more table is durable")
STATED = failpoints.declare("release.stated", "the statements of every table are durable; the memory is not")
REMEMBERED = failpoints.declare("release.remembered", "updates, statements and memory are durable")


@dataclass(frozen=True)
class Advance:
    """How far a release brings the logs, and of which tables.

    All times before ``frontier`` are complete. Nothing is stated of the tables ``uncovered``, of which ``partial`` have
    rows that are in no record; those of ``begins`` are covered from the time there on. ``empty`` are tables that were
    empty at the snapshot only by the user's declaration. ``begun``: there is an output; without one no table is stated.

    >>> Advance(Antichain([5]), begins={"t": 4}).begun
    True
    """

    frontier: Antichain
    begins: Mapping[str, int] = field(default_factory=dict)
    uncovered: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    begun: bool = True


class LogSet(Protocol):
    """The logs of a capture's tables, with the updates of one release."""

    @property
    def tables(self) -> Collection[str]:
        """Those that are covered, and can be stated."""

    def cover(self, advance: Advance) -> None:
        """Have each log state, durably, where it begins, or that its table is not covered, and whether it was empty."""

    def stage(self, advance: Advance) -> Iterable[str]:
        """Make the updates of every table before the frontier durable; yields each table whose updates are."""

    def state(self, table: str, advance: Advance) -> bool:
        """State one table up to the frontier, durably; whether there was anything to state."""


def write_release(
    logs: LogSet, advance: Advance, *, temp: Writer | None = None, keep: Callable[[], object] = lambda: None,
    save: Callable[[], object] = lambda: None,
) -> None:
    """Make a release durable, and state it, in the order of this module.

    ``temp`` is the writer of TEMP, which was fed. ``keep`` makes durable what stands beside the logs. ``save``
    makes the state durable. If it raises, open the logs again and go on: an update that a log has is not written twice.

    Raises what these raise. Cost: linear in what is written. Source: the rules of explicit commit times, and the
    reclocking document's addendum on transactions.

    >>> from cdcv2.logs.memory import MemoryLog
    >>> log = MemoryLog()
    >>> write_release(WriterLogs({"t": Writer(log)}, lambda table: [("a", 3, 1)]), Advance(Antichain([5])))
    >>> [entry.message for entry in log.read()]
    [Updates(updates=(('a', 3, 1),)), Progress(lower=Antichain([0]), upper=Antichain([5]), counts=((3, 1),))]
    """
    failpoints.reach(BEFORE_UPDATES)
    logs.cover(advance)
    if temp is not None:
        temp.stage(advance.frontier)
    for _ in logs.stage(advance) if advance.begun else ():
        failpoints.reach(TABLE_WRITTEN)
    failpoints.reach(UPDATES_DURABLE)
    keep()
    if temp is not None:
        temp.commit()
        failpoints.reach(TEMP_STATED)
    for table in first_started(logs.tables, advance.begins) if advance.begun else ():
        if logs.state(table, advance):
            failpoints.reach(TABLE_STATED)
    failpoints.reach(STATED)
    save()
    failpoints.reach(REMEMBERED)


def first_started(tables: Iterable[str], begins: Collection[str]) -> list[str]:
    """The order in which tables are stated: those that begin come first, so that they lack nothing when others are.

    Cost: O(tables · log tables). Source: the coverage of tables that begin later than others.

    >>> first_started("abc", "b")
    ['b', 'a', 'c']
    """
    return sorted(tables, key=lambda table: (table not in begins, table))


class WriterLogs:
    """Logs that this process writes: ``writers`` by table, and ``updates`` of a table (None: they have been fed).

    ``sums`` are more of them, by time: those that need not be in memory. Memory: none of its own. Cost and source: as
    of :func:`write_release`.

    >>> WriterLogs({}).tables
    []
    """

    def __init__(
        self, writers: Mapping[str, Writer], updates: Callable[[str], Iterable[Update]] | None = None,
        sums: Mapping[str, Iterable[tuple[Time, Sums]]] = MappingProxyType({}),
    ) -> None:
        self._writers, self._updates, self._sums = writers, updates, sums

    @property
    def tables(self) -> list[str]:
        """Those that have a writer."""
        return list(self._writers)

    def cover(self, advance: Advance) -> None:
        """Every table is covered."""

    def begin(self, table: str) -> int:
        """Where the log of a table begins; 0: at the beginning of its times, whatever they are."""
        return 0

    def stage(self, advance: Advance) -> Iterator[str]:
        """One table after the other."""
        for table, writer in self._writers.items():
            if self._updates is not None:
                writer.extend(self._updates(table))
            for time, sums in self._sums.get(table, ()):
                writer.extend_sums(time, sums)
            begin = self.begin(table)
            writer.stage(advance.frontier.join(Antichain([begin])) if begin else advance.frontier)
            yield table

    def state(self, table: str, advance: Advance) -> bool:
        """What was staged."""
        writer = self._writers[table]
        before = writer.known
        writer.commit()
        return writer.known != before
