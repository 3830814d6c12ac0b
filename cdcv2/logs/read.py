"""The one reader of finished cuts: addresses of logs in, cuts out that are complete in every log.

Commands, views, comparisons, notebooks and DataFrames read here what logs hold as finished. Who reads otherwise is
listed here, and a test holds the list:

- ``spark/reader``: the rows of a job on Spark stay on the executors; it decides by the same ledger.
- ``demo/watch``, ``demo/views``, ``demo/damage``: the demo looks at logs that it mangles. ``demo/small``: messages.
- ``spark/capture/logs``, ``capture/before_images``, ``capture/run/database``, ``capture/run/log_digests``,
  ``capture/run/output_frontier``, ``capture/run/omitted_tables``: a capture reads what its own logs hold, each alone.
- ``logs/quarantine`` reads its evidence, ``control/log_tail`` the last statement of a log, and ``cli/logs`` messages.

The rules are those of :class:`~cdcv2.protocol.timeline.Timeline`; here are the order of reading, the resume marks and
the front door. The logs that hold the common frontier back are read first, so what is held in memory for the others
stays small.

A command makes its logs of its arguments by ``open_logs`` of :mod:`cdcv2.cli.logs`, and has their reading shown by the
``ProgressObserver`` there. A new command is a module of ``cdcv2.cli`` that ``COMMANDS`` of :mod:`cdcv2.cli.main` names.

The file is long because it is one door: the functions that open logs take the arguments of the reader that they make,
and each of its answers needs all of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import UnsafeTopicError, UsageError
from cdcv2.logs.bookmark import Bookmark, covering
from cdcv2.logs.log_names import log_address
from cdcv2.logs.named_logs import (
    CoveredLogs, NamedLog, OpenTopic, check_timeline, demand_whole, logs_at_each, some_covered,
)
from cdcv2.logs.quarantine import Evidence, Quarantine
from cdcv2.logs.read_on import is_empty, read_on
from cdcv2.protocol.log import Entry
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import GarbledMessage
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.timeline import Cut, Timeline
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times, least_time


class Observer(Protocol):
    """What a caller wants to know while logs are read. The default of each is: nothing."""

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """A message was read, before it is taken in; None: the log has nothing now. May raise, to end the reading."""

    def lost(self, named: NamedLog, error: UnsafeTopicError) -> None:
        """A log has lost messages and is not read on. Raises ``error`` unless the reading is to go on without it."""

    def garbled(self, named: NamedLog, entry: Entry) -> bool:
        """Whether bytes that are no message are dealt with; if not, the reader of the log judges them."""


class NullObserver:
    """An observer that observes nothing; others inherit from it."""

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Nothing is done."""

    def lost(self, named: NamedLog, error: UnsafeTopicError) -> None:
        """Raise it."""
        raise error

    def garbled(self, named: NamedLog, entry: Entry) -> bool:
        """The reader judges them."""
        return False


class LogReader:
    """Logs of one timeline, read together; iterate for the cuts that are finished in all of them.

    >>> from cdcv2.protocol.messages import Progress, Updates
    >>> from cdcv2.logs.memory import MemoryLog
    >>> from cdcv2.logs.named_logs import covered
    >>> row = RowType.load({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    >>> slow = MemoryLog("slow", [Progress([0], [3], {})])
    >>> fast = MemoryLog("fast", [Updates([("a", 1, 1)]), Progress([0], [9], {1: 1})])
    >>> reading = LogReader(covered([NamedLog("slow", slow, row), NamedLog("fast", fast, row)]))
    >>> for updates, frontier in reading:
    ...     print(updates, frontier)
    {'fast': [('a', 1, 1)]} [3]

    Args:
        found: the logs, opened; several of one table are copies.
        start, begins, on_error: as of :class:`~cdcv2.protocol.resolver.Resolver`. An empty start: nothing is left to be
            read, and the logs are only read for what they state (:meth:`short`).
        marks: what :meth:`marks` gave when all up to ``start`` was read, or nothing of it; with any mapping, resume
            marks are kept.
        follow: do not end where the logs end; :meth:`cuts` gives None where nothing is there now.
        catch_up: with ``follow``, state by :attr:`caught_up` when all that the logs held at first was given out.
        whole: read every log to its end. Otherwise the reading ends with the logs that hold the others back.
        keep_all: as of the Resolver. ``content``: False gives cuts without updates, and holds none.
        observer: what is called while the logs are read.
        quarantine: a folder for evidence; with it ``on_error`` is ``"quarantine"``, what was decided there is applied,
            what is in dispute there holds its log at its time, whether or not it is met, and bytes that are no message
            are kept there and passed over.

    Raises, when iterated, what reading a log raises, what absorbing a message raises, and RefusedError where a table
    is covered by now that was not when the logs were opened. Cost: that of the Timeline, and a look at each part's
    frontier for each round of messages. Memory: that of the Timeline.
    """

    def __init__(
        self, found: CoveredLogs, *, start: Iterable[Time] = (0,), begins: Iterable[Time] | None = None,
        on_error: str = "raise", marks: Mapping[str, Any] | None = None, follow: bool = False, catch_up: bool = False,
        whole: bool = True, keep_all: bool = False, content: bool = True, observer: Observer = NullObserver(),
        quarantine: Quarantine | None = None,
    ) -> None:
        self.found, self.logs = found, found.logs
        self._start = Antichain(start)
        self._begins = self._start if begins is None else Antichain(begins)
        self._follow, self._whole, self._observer = follow, whole, observer
        self._evidence = None if quarantine is None else Evidence(quarantine, self.logs)
        #: The tables.
        self.parts = list(dict.fromkeys(named.table for named in self.logs))
        self._timeline = Timeline(
            self.parts, start=self._start, begins=self._begins, starts=found.starts,
            on_error="quarantine" if self._evidence is not None else on_error,
            keep_all=keep_all, content=content,
        ) if self._start else None
        self._bookmarks = [] if marks is None else [
            Bookmark(named.log, marks.get(named.log.name), self._start, self._begins_of(named.table))
            for named in self.logs
        ]
        # The numbers of the logs that were read to their ends.
        self._ended = set[int]()
        # Where that is asked for, the numbers of those that were read to where they ended at first.
        self._reached = set[int]()
        self._catch_up = catch_up
        # The numbers of those that had nothing when they were asked last.
        self._empty = set[int]()
        # How far the parts were when it was last asked which hold the others back, and these.
        self._frontiers: list[Antichain] = []
        self._behind = set[str]()

    def __iter__(self) -> Iterator[Cut]:
        return (cut for cut in self.cuts() if cut is not None)

    def cuts(self) -> Iterator[Cut | None]:
        """The cuts; with ``follow``, None where a log has nothing now."""
        timeline = self._timeline
        if timeline is None:
            self._read_over()
            return
        yield from self._decided(timeline, now=True)
        sources = [self._source(number) for number in range(len(self.logs))]
        for number, entry in in_turn(sources, self._chosen, self._ended.add):
            named = self.logs[number]
            (self._empty.add if entry is None and is_empty(named.log) else self._empty.discard)(number)
            self._observer.read(named, entry)
            if timeline.closed and (self._follow or not self._whole):
                return
            if entry is None:
                yield from self._decided(timeline, now=False)
                yield None
                continue
            if isinstance(entry.message, GarbledMessage) and self._pass_over(named, entry, entry.message):
                continue
            cut = timeline.absorb(named.table, entry)
            if self._evidence is not None:
                self._evidence.look(named.table, timeline.readers[named.table])
            if cut is not None:
                self.found.demand_still()
                yield cut

    def _decided(self, timeline: Timeline, *, now: bool) -> Iterator[Cut]:
        """The cuts that decisions complete which were not applied before. What is not decided holds its log."""
        if self._evidence is None or not self._evidence.renew(now=now):
            return
        for table, decision in self._evidence.decisions():
            time, reader = decision.time, timeline.readers[table]
            if time is None or not reader.keeps(time):
                continue
            if decision.count is not None:
                cut = timeline.resolve(table, time, count=decision.count)
            else:
                cut = timeline.resolve(table, time, data=self._evidence.row(decision), diff=decision.diff)
            self._evidence.look(table, reader)
            if cut is not None:
                self.found.demand_still()
                yield cut
        # Behind the decisions: of a time that is let go, all that was decided is applied.
        for table, times in self._evidence.withheld():
            cut = timeline.withhold(table, times)
            if cut is not None:
                self.found.demand_still()
                yield cut

    def _pass_over(self, named: NamedLog, entry: Entry, garbled: GarbledMessage) -> bool:
        """Whether bytes that are no message were kept, here or by the observer; one that was decided is left to none.
        """
        if self._evidence is None:
            return self._observer.garbled(named, entry)
        if not self._evidence.keep_bytes(named, entry.position, garbled):
            self._observer.garbled(named, entry)
        return True

    def _source(self, number: int) -> Iterator[Entry | None]:
        named = self.logs[number]
        try:
            if self._bookmarks:
                yield from self._bookmarks[number].read(follow=self._follow)
            elif self._catch_up:
                yield from read_on(named.log, lambda: self._reached.add(number))
            else:
                yield from named.log.read(follow=self._follow)
        except UnsafeTopicError as error:
            self._observer.lost(named, error)

    def _read_over(self) -> None:
        """The history is finished, and known: only what the logs state is asked."""
        for number in range(len(self.logs)):
            for _ in self._source(number):
                continue
            self._ended.add(number)

    def _chosen(self, numbers: Sequence[int]) -> Sequence[int]:
        """Of logs that have not ended, those to read from next: those that hold the others back, as long as there are.
        """
        slowest = self._slowest()
        behind = [number for number in numbers if self.logs[number].table in slowest]
        return numbers if not behind and self._whole else behind

    def _slowest(self) -> set[str]:
        """The parts that hold the common frontier back. Of times of a partial order, each by an element of its own."""
        frontiers = [reader.frontier for reader in self.readers.values()]
        if frontiers != self._frontiers:
            least = Antichain.meet_of(frontiers)
            self._frontiers, self._behind = frontiers, {
                part for part, frontier in zip(self.readers, frontiers)
                if frontier == least or any(time in least.elements for time in frontier)
            }
        return self._behind

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def readers(self) -> dict[str, Resolver]:
        """Table -> its reader; none where nothing is left to be read."""
        return {} if self._timeline is None else self._timeline.readers

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is complete in each log, and was given out."""
        return Antichain() if self._timeline is None else self._timeline.frontier

    @property
    def closed(self) -> bool:
        """Whether the history of every log is complete, and all of it was given out."""
        return not self.frontier

    @property
    def caught_up(self) -> bool:
        """With ``catch_up``: whether all was given out that was finished in what the logs held when they were opened.

        So it is as soon as one that holds the others back was read to where it ended then, with all of its copies.
        """
        return self._is_through(self._reached)

    @property
    def at_end(self) -> bool:
        """With ``follow``: whether all was given out that is finished in what the logs hold now, as far as was seen."""
        return self._is_through(self._empty)

    def _is_through(self, read: set[int]) -> bool:
        """Whether no more can be given out, if these logs have no more."""
        copies = {part: {number for number, named in enumerate(self.logs) if named.table == part}
                  for part in self._slowest()}  # fmt: skip
        return self.closed or any(read.issuperset(numbers) for numbers in copies.values())

    def missing(self) -> dict[str, MissingUpdates]:
        """Table -> what lacks there, for tables of which something that is stated is missing in what was read."""
        return {} if self._timeline is None else self._timeline.missing()

    def incomplete(self) -> dict[str, MissingUpdates]:
        """Table -> what lacks there, of those that hold the others back: what these lack may not have been read.

        With the tables whose logs end before the start, and what they lack up to there.
        """
        slowest = self._slowest() if self._timeline is not None else set[str]()
        found = {part: missing for part, missing in self.missing().items() if part in slowest}
        for part, known in self.short().items():
            there = found.get(part, MissingUpdates())
            found[part] = replace(there, statements=((known, self.frontier), *there.statements))
        return found

    def disputed(self) -> dict[str, dict[str, str]]:
        """Table -> name of a case in the quarantine -> its sentence: what is in dispute, and was not decided."""
        return {} if self._evidence is None else self._evidence.open(self.readers)

    def unmet(self) -> dict[str, dict[str, str]]:
        """The same, of what is in dispute by other readings alone."""
        return {} if self._evidence is None else self._evidence.unmet(self.readers)

    def marks(self) -> dict[str, Any]:
        """Name of a log -> its resume mark, as JSON has it: what was given out by now need not be read again."""
        return {
            named.log.name: mark.plain(self.frontier) for named, mark in zip(self.logs, self._bookmarks)
        }

    def short(self) -> dict[str, Antichain]:
        """Table -> up to where all is stated, of those that were read to their ends, by marks, and end before the
        start or what was given out: such a log lost its end, or is an old one."""
        found: dict[str, Antichain] = {}
        for part in self.parts if self._bookmarks else ():
            copies = [number for number, named in enumerate(self.logs) if named.table == part]
            if self._ended.issuperset(copies):
                stated = (one for number in copies for one in self._bookmarks[number].statements())
                known = covering(self._begins_of(part), stated).known
                if not known.dominates(self.frontier):
                    found[part] = known
        return found

    def _begins_of(self, part: str) -> Antichain:
        return self._begins.join(Antichain(self.found.starts[part])) if part in self.found.starts else self._begins

    # -- leaving ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the logs."""
        for named in self.found.opened:
            named.log.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def in_turn(
    sources: Sequence[Iterator[Entry | None]],
    chosen: Callable[[Sequence[int]], Sequence[int]] = lambda numbers: numbers,
    ended: Callable[[int], object] = lambda number: None,
) -> Iterator[tuple[int, Entry | None]]:
    """A message of each source in turn, with the number of the source, until all have ended or none is chosen.

    ``chosen`` is given the numbers of those that have not ended, and returns those to read next; ``ended`` is called
    with the number of one that ends.

    >>> from cdcv2.protocol.log import Position
    >>> from cdcv2.protocol.messages import Progress
    >>> one = [Entry(Position("log", 0, offset), Progress([0], [offset + 1])) for offset in range(2)]
    >>> [(number, entry.position.offset) for number, entry in in_turn([iter(one), iter(one[:1])]) if entry]
    [(0, 0), (1, 0), (0, 1)]
    """
    open_ones = list(range(len(sources)))
    while numbers := list(chosen(open_ones)) if open_ones else []:
        for number in numbers:
            try:
                yield number, next(sources[number])
            except StopIteration:
                open_ones.remove(number)
                ended(number)


# -- the front door ---------------------------------------------------------------------------------------------


def read(
    addresses: str | Path | LogAddress | Iterable[str | Path | LogAddress], *,
    rows: RowType | str | Path | Mapping[str, RowType | str | Path] | None = None, bootstrap: str | None = None,
    config_file: str | Path | None = None, times: Times = "int", timeline: str | None = None,
    start: Iterable[Time] | None = None, follow: bool = False, on_error: str = "raise",
    quarantine: str | Path | None = None,
) -> LogReader:
    """The logs at some addresses, read together as one timeline: iterate for finished cuts.

    >>> import cdcv2, tempfile
    >>> folder = tempfile.mkdtemp() + "/orders"
    >>> row = RowType.load({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    >>> with cdcv2.Writer(cdcv2.DirectoryLog(folder, row, create=True)) as writer:
    ...     writer.extend([(row.row([7]), 1, +1)])
    ...     writer.advance([2])
    >>> for updates, frontier in cdcv2.read(folder):
    ...     print(updates["orders"], frontier)
    [(Row(id=7), 1, 1)] [2]

    An address is a directory log, the directory that a capture wrote (every log in it), ``kafka:TOPIC``, or one of
    these with its table: ``TABLE=ADDRESS``. Several of one table are copies.

    Args:
        rows: for topics, a row type or its ``.avsc`` file, for all or by table.
        bootstrap, config_file: a broker of Kafka, and a file of settings for its client.
        times: for topics, ``"int"``, or the number of coordinates of Product times.
        timeline: that of logs which do not state it.
        start: where the history begins; ``follow``, ``on_error``: as of :class:`LogReader`.
        quarantine: a folder for the evidence of contradictions, as of ``--quarantine``.

    Raises what opening a log raises, IncompleteError where a log that a capture wrote is missing, ForeignStateError for
    logs of two timelines. Cost: a look at each place.
    """
    logs = logs_of(addresses, rows=rows, bootstrap=bootstrap, config_file=config_file, times=times, timeline=timeline)
    begin = [least_time(logs[0].times)] if start is None else list(start)
    kept = None if quarantine is None else Quarantine(quarantine)
    return LogReader(some_covered(logs), start=begin, follow=follow, on_error=on_error, quarantine=kept)


def logs_of(
    addresses: str | Path | LogAddress | Iterable[str | Path | LogAddress], *,
    rows: RowType | str | Path | Mapping[str, RowType | str | Path] | None = None, bootstrap: str | None = None,
    config_file: str | Path | None = None, times: Times = "int", timeline: str | None = None,
) -> list[NamedLog]:
    """The logs at some addresses, of one timeline; arguments and errors as of :func:`read`."""
    given = [addresses] if isinstance(addresses, (str, Path, LogAddress)) else list(addresses)
    places = [_address(one) for one in given]
    logs = logs_at_each(places, _topics(rows, bootstrap, config_file, times))
    check_timeline(logs, timeline)
    demand_whole(places, logs)
    return logs


def _address(address: str | Path | LogAddress) -> LogAddress:
    if isinstance(address, Path):
        return LogAddress("directory", str(address))
    parsed = log_address(address) if isinstance(address, str) else address
    parsed.demand_one()
    return parsed


def _topics(
    rows: RowType | str | Path | Mapping[str, RowType | str | Path] | None, bootstrap: str | None,
    config_file: str | Path | None, times: Times,
) -> OpenTopic:
    """How topics are opened."""

    def opened(topic: str, table: str) -> NamedLog:
        from cdcv2.logs.kafka import KafkaLog

        given = rows.get(table) if isinstance(rows, Mapping) else rows
        if given is None:
            raise UsageError(f"the row type of {table} is not given, and Kafka does not know it: give its .avsc file")
        row_type = given if isinstance(given, RowType) else RowType.load(given)
        log = KafkaLog(topic, bootstrap, row_type, config_file=config_file, times=times)
        return NamedLog(table, log, row_type, times)

    return opened
