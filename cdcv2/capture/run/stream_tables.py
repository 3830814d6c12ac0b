"""Capture of stream topics without Spark: each topic becomes the log of one table, at the times that its records have.

A log is stated as far as its own topic is complete (:mod:`cdcv2.capture.stream_counts`). Updates that are not stated
are in memory, in the writer of their log. The memory beside the logs has from where the topics are read again; without
it they are read from their start, and what the logs have is compared with them, and not written twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from cdcv2.capture.connector import StreamConnector
from cdcv2.capture.facts import BoundRecord, Record, UpdateRecord
from cdcv2.capture.release_answers import RELEASE_EVERY
from cdcv2.capture.run.memory_file import MemoryStore
from cdcv2.capture.run.stream_state import StreamState, StreamTopic
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.stream_counts import StreamCounts, update_digest
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.capture.updates_then_statements import Advance, WriterLogs, write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, MissingLogError, SourceStop, UnavailableError
from cdcv2.protocol.log import Log, Place
from cdcv2.protocol.writer import Writer

#: How long one that follows waits when nothing has come, or something does not answer, in seconds.
WAIT, RETRY = 0.2, 1.0
_PART = ""


class StreamTables:
    """Carries stream topics into logs. One thread.

    ``tables`` has topic and reader of each table, ``logs`` its log, ``memory`` keeps positions (None: nowhere). Feed it
    with :meth:`absorb`, and call :meth:`release` now and then: it writes. An error while writing ends this object.

    Raises what opening the logs raises, and ForeignStateError for the memory of another capture, or one ahead of its
    logs. Memory: the updates that are not stated, consolidated.
    """

    def __init__(
        self, tables: Mapping[str, StreamTopic], logs: Mapping[str, Log], memory: MemoryStore | None = None
    ) -> None:
        plain, save = (None, None) if memory is None else (memory.load(), memory.save)
        self._state = StreamState(tables, plain, save)
        kept = self._state.kept
        self._writers = TableWriters(logs, kept.logs)
        frontiers = self._writers.log_frontiers()
        self._streams = {
            one.topic: _TableStream(
                table, one.records, self._writers.writers[table],
                self._state.counts(table, logs[table], frontiers[table]),
            )
            for table, one in tables.items()
        }
        #: Where each partition was read to, and the offsets before which updates may be repeats of this capture's own.
        self.read: dict[Place, int] = dict(kept.positions)
        self._counted: dict[Place, int] = dict(kept.read)
        self._partitions: dict[str, int] = {}
        #: How many records were taken.
        self.records = 0

    # -- what it knows

    @property
    def topics(self) -> frozenset[str]:
        """All that are read."""
        return frozenset(self._streams)

    @property
    def known(self) -> dict[Place, int]:
        """Up to where each partition was read, by any run that the memory knows."""
        return {place: max(at, self.read.get(place, 0)) for place, at in (self.read | self._counted).items()}

    @property
    def frontier(self) -> Antichain:
        """Up to where all logs are complete."""
        return Antichain([min(self._writers.log_frontiers().values())])

    def frontiers(self) -> dict[str, int]:
        """Up to where each log is complete."""
        return self._writers.log_frontiers()

    def waits(self) -> list[str]:
        """What is held or stated and not complete, in words."""
        return [f"{table}: {text}" for table, _, text in self.waits_by_topics()]

    def waits_by_topics(self) -> list[tuple[str, str, str]]:
        """The same: table, its topic, and in words what it lacks."""
        each = [(stream.table, topic, stream.counts.waits()) for topic, stream in self._streams.items()]
        return sorted((table, topic, text) for table, topic, text in each if text is not None)

    @property
    def held(self) -> int:
        """How many updates are held, as they are not stated."""
        return sum(stream.counts.held for stream in self._streams.values())

    def positions(self) -> dict[Place, int]:
        """From where each partition must be read again: all before it is stated, or counted."""
        positions = dict(self.read)
        for stream in self._streams.values():
            for (_, place), offset in stream.firsts.items():
                positions[place] = min(offset, positions[place])
        return positions

    # -- records

    def found(self, look: TopicExtents) -> dict[Place, tuple[int, int]]:
        """What is there to be read. Raises unless all that is needed of the topics is there.

        Raises ForeignStateError for a topic that was recreated, UnsafeTopicError for one that lost records.
        """
        spans = self._state.check(look, self.read)
        # Also those that were read before and are not there: a promise is of all partitions that the topic has.
        places = spans.keys() | self.read.keys() | self._counted.keys()
        self._partitions = {topic: sum(of == topic for of, _ in places) for topic in self._streams}
        self.read = dict.fromkeys(sorted(spans), 0) | self.read
        return {place: (self.read[place], high) for place, (_, high) in spans.items() if self.read[place] < high}

    def absorb(self, record: Record) -> None:
        """Take one record; those of a partition come in order. Writes nothing.

        Raises DecodeError for a record that is none, SourceStop for one that contradicts a bound; it changes nothing.
        """
        place = record.topic, record.partition
        stream = self._streams[record.topic]
        fact = stream.records.fact(record)
        # What was counted before is counted in the memory: only its row is needed once more, if it is not stated.
        again = record.offset < self._counted.get(place, 0)
        if isinstance(fact, BoundRecord):
            if fact.rows is None and self._partitions.get(record.topic, 1) > 1:
                raise stream.records.several_partitions(record)
            if not again:
                stream.counts.bound(fact.before, fact.rows, place=record.position)
        elif again or stream.count(fact, record):
            stream.hold(fact, place, record.offset)
        self.read[place] = record.offset + 1
        self.records += 1

    def reached(self, ends: Mapping[Place, int]) -> None:
        """The partitions were read up to there, whatever stood last."""
        self.read |= ends

    # -- releases

    def release(self) -> None:
        """Write and state what is complete, table by table. Raises SourceStop where a bound is contradicted.

        That of one table does not keep the others from being released.
        """
        # What is counted may be stated only when it is here.
        behind = {place[0] for place, counted in self._counted.items() if self.read.get(place, 0) < counted}
        stops = list[SourceStop]()
        for topic, stream in self._streams.items():
            try:
                frontier = 0 if topic in behind else stream.counts.complete()
            except SourceStop as stop:
                stops.append(stop)
                continue
            if frontier > stream.counts.released:
                logs = WriterLogs({stream.table: stream.writer})
                settle = partial(self._settle, stream, frontier)
                write_release(logs, Advance(Antichain([frontier])), save=settle)
        if stops:
            raise stops[0]

    def _settle(self, stream: _TableStream, frontier: int) -> None:
        stream.release(frontier)
        self.save()

    def save(self) -> None:
        """Make the positions durable, so that the next start need not read what is stated."""
        counts = {stream.table: stream.counts for stream in self._streams.values()}
        self._state.keep(counts, self.read, self._writers.export(), positions=self.positions(), batch=None)

    def close(self) -> None:
        """Release the logs. States nothing."""
        self._writers.close()

    def __enter__(self) -> StreamTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _TableStream:
    """One table: its writer holds the updates that are not stated; ``firsts`` has where the first of each time is."""

    def __init__(self, table: str, records: StreamConnector, writer: Writer, counts: StreamCounts) -> None:
        self.table, self.records, self.writer, self.counts = table, records, writer, counts
        self.firsts: dict[tuple[int, Place], int] = {}

    def count(self, fact: UpdateRecord, record: Record) -> bool:
        """Whether it is to be held."""
        row, time, diff = fact
        digest = update_digest(self.records.row_type.encode(row), time, diff) if self.counts.compares else 0
        return self.counts.update(_PART, time, place=record.position, digest=digest)

    def hold(self, fact: UpdateRecord, place: Place, offset: int) -> None:
        self.writer.update(*fact)
        self.firsts.setdefault((fact.time, place), offset)

    def release(self, frontier: int) -> None:
        self.counts.release(frontier)
        self.firsts = {of: offset for of, offset in self.firsts.items() if of[0] >= frontier}


def run(
    tables: StreamTables,
    ranges: Ranges,
    *,
    follow: bool = False,
    release_every: int = RELEASE_EVERY,
    stopping: Callable[[], bool] = lambda: False,
    remark: Callable[[str], object] = lambda text: None,
    turn: Callable[[int], object] = lambda records: None,
) -> None:
    """Read, absorb, release, until what the topics hold at the start is read; following, until it is stopped.

    ``turn`` is called after each record with 1, and with 0 where nothing came. One that follows waits for topics that
    are not there and for brokers that do not answer, and reports that by ``remark``. Raises MissingLogError for a topic
    that is not there, and what ranges and tables raise, once everything before is written: a SourceStop has the
    frontier of all logs as it is then.
    """
    look, reported = None, ""
    while not stopping():
        try:
            if look is None or follow:
                look = ranges.look()
                demand_topics(tables.topics, look.topics)
            moved = _turn(tables, ranges, look, release_every, stopping, turn)
        except SourceStop as stop:
            # It was found before what precedes it was written, and knows of one table.
            raise SourceStop(stop.reason, stop.remedy, tables.frontier) from None
        except (MissingLogError, UnavailableError) as later:
            if not follow:
                raise
            if str(later) != reported:
                reported = str(later)
                remark(f"waiting: {reported}")
            time.sleep(RETRY)
            continue
        turn(0)
        if not moved:
            if not follow:
                return
            time.sleep(WAIT)


def demand_topics(wanted: Iterable[str], there: Collection[str], source: str = "") -> None:
    """Raise MissingLogError unless the source has all the topics; ``source`` names it."""
    missing = sorted(topic for topic in wanted if topic not in there)
    if missing:
        where = f" in {source}" if source else ""
        raise MissingLogError(
            f"there is no topic {missing[0]!r}{where}: its name is wrong, or nothing has written it yet"
        )


def _turn(
    tables: StreamTables, ranges: Ranges, look: TopicExtents, most: int, stopping: Callable[[], bool],
    turn: Callable[[int], object],
) -> bool:
    """Read the next part of what is there; whether there was any."""
    wanted = {place: (low, min(high, low + most)) for place, (low, high) in tables.found(look).items()}
    records = ranges.read(wanted)
    try:
        for record in records:
            if stopping():
                break
            tables.absorb(record)
            turn(1)
        else:
            tables.reached({place: high for place, (_, high) in wanted.items()})
    except (DecodeError, SourceStop):
        tables.release()
        raise
    finally:
        getattr(records, "close", lambda: None)()
    tables.release()
    return bool(wanted)
