"""Topics that were dumped to a file: one JSON object a line, plain or gzipped.

::

    {"topic": "shop.public.orders", "partition": 0, "offset": 17, "key": "...", "value": "...", "timestamp": 179...}
    {"topic": "shop.public.orders", "partition": 0, "offset": 17, "key": "...", "payload": "...", "ts": 179...}

The second line is what ``kcat -C -J`` writes. ``key`` and the value are the record's text, or null. Topic, partition,
offset and the value must be there: a value that is absent is not a value that is null, which would be a tombstone.

The offsets of a partition must be without gaps, as a missing record may be a fact that nothing else shows. Where a
connector writes in Kafka's transactions, each one leaves a marker that takes an offset and that no reader sees. Such
gaps look like any other, so those topics are captured from Kafka, where the broker reports what there is to be read.
"""

from __future__ import annotations

import gzip
import heapq
import json
import os
import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.core.json_text import parse_json
from cdcv2.errors import (
    DecodeError, MalformedError, MissingLogError, UnavailableError, UnsafeTopicError, UsageError,
)
from cdcv2.protocol.log import Place
from cdcv2.store.numbered import path_to_read

_WHAT = "a dumped record"
#: So many partitions that a dump lacks are named.
_NAMED = 5
#: The names that the value, and the time, of a record may have: ours, and those of kcat.
VALUE_NAMES, TIME_NAMES = ("value", "payload"), ("timestamp", "ts")
_FAULT = "The dump is at fault: dump the topics again"
#: What a line without a value is refused with.
LINE_WITHOUT_VALUE = "it has neither 'value' nor 'payload', as kcat -J names it; null would be a tombstone"
#: The same of one with a place that no record has.
NEGATIVE = "partitions and offsets are from 0 on"


class DumpedTopics:
    """The records of one or more dumps, held in memory. What several dumps have, or one has twice, is one record.

    ``needed`` are the topics of which every record from the position asked for on must be there (None: all topics).

    Raises MissingLogError for a file that is not there, UsageError for a directory, UnavailableError for one that
    cannot be read, DecodeError (file and line) for a line that is no record, and for a damaged file; MalformedError for
    two different records of a needed topic at one offset.
    """

    def __init__(self, *paths: str | os.PathLike[str], needed: Collection[str] | None = None) -> None:
        self._needed = needed
        self._names = ", ".join(os.fspath(path) for path in paths)
        self._places: dict[Place, list[tuple[int, Record]]] = {}
        for path in paths:
            for timestamp, record in _lines(path_to_read(path)):
                self._places.setdefault((record.topic, record.partition), []).append((timestamp, record))
        for (topic, _), records in self._places.items():
            records.sort(key=lambda entry: entry[1].offset)
            records[:] = self._once(records, needed is None or topic in needed)

    def _once(self, records: Iterable[tuple[int, Record]], needed: bool) -> Iterator[tuple[int, Record]]:
        """Those of a partition, in order, without copies; of a topic that is not needed the first at each offset."""
        last: Record | None = None
        for timestamp, record in records:
            if last is None or record.offset > last.offset:
                yield timestamp, record
                last = record
            elif record != last and needed:
                raise MalformedError(
                    f"two different records stand at {record.position} in {self._names}: these are dumps of different "
                    "topics, or one was changed. Dump the topics again"
                )

    def topics(self) -> list[str]:
        """The topics that have records."""
        return sorted({topic for topic, _ in self._places})

    def identities(self) -> dict[str, str]:
        """Empty: a dump has none."""
        return {}

    def ends(self) -> dict[Place, int]:
        """For each partition, the offset behind its last record."""
        return {place: records[-1][1].offset + 1 for place, records in self._places.items()}

    def partitions(self) -> dict[Place, list[Record]]:
        """The records of each partition, in order."""
        return {place: [record for _, record in records] for place, records in sorted(self._places.items())}

    def read(self, positions: Mapping[Place, int] | None = None, *, follow: bool = False) -> Iterator[Record]:
        """The records from the positions on: each partition in its order, the partitions merged by timestamp.

        That is about the order in which they arrived, so no more is held open than then. ``follow`` changes
        nothing: a dump does not grow. Raises UnsafeTopicError where a partition begins behind its position, or has a
        gap behind it: what stood there was removed, and with it facts; and where it ends before its position.
        """
        start = positions or {}
        for place, records in sorted(self._places.items()):
            if self._needed is None or place[0] in self._needed:
                _check_start(self._names, place, records[0][1].offset, start.get(place, 0))
                _check_end(self._names, place, records[-1][1].offset, start.get(place, 0))
                _check_gaps(self._names, place, (record.offset for _, record in records), start.get(place, 0))
        merged = heapq.merge(*(_from(records, start.get(place, 0)) for place, records in sorted(self._places.items())),
                             key=lambda entry: entry[0])
        return (record for _, record in merged)

    def known_topics(self) -> list[str]:
        """The same: a dump does not grow."""
        return self.topics()

    def unread(self) -> int:
        """None that could come."""
        return 0

    def waits(self) -> None:
        """Nothing: it is all there."""

    def ranges(self, topic: str) -> Ranges:
        """The topic, to be read by ranges of offsets."""
        return DumpedRanges(self, [topic])

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Nothing: it is in memory already."""


class DumpedRanges:
    """Dumped topics, held in memory: their first record is where they begin. ``topics``: only these of them."""

    def __init__(self, dumped: DumpedTopics, topics: Collection[str] | None = None) -> None:
        self._records = {
            place: records for place, records in dumped.partitions().items() if topics is None or place[0] in topics
        }

    def look(self) -> TopicExtents:
        """How far the dumps go."""
        return TopicExtents(
            {place: (records[0].offset, records[-1].offset + 1) for place, records in self._records.items()}
        )

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The records; see :class:`~cdcv2.capture.topics.Ranges`. Raises UnsafeTopicError if the dump lacks one."""
        for place, (low, high) in sorted(ranges.items()):
            records = self._records.get(place, [])
            first = bisect_left(records, low, key=lambda record: record.offset)
            found = records[first:bisect_left(records, high, key=lambda record: record.offset)]
            if len(found) != high - low:
                there = {record.offset for record in found}
                gone = next(offset for offset in range(low, high) if offset not in there)
                raise UnsafeTopicError(
                    f"the dump of {place[0]!r} lacks {gone} in partition {place[1]}: that record was removed "
                    "(compaction), or not dumped. Dump it too; a producer that writes in Kafka's transactions leaves "
                    "such gaps: capture from Kafka then"
                )
            yield from found


def absent(known: Mapping[Place, int], there: Collection[Place]) -> list[str]:
    """For each partition that was read before and has no record in a dump, a line that states it; of many the first.

    >>> absent({("t", 0): 5, ("t", 1): 7}, [("t", 0)])
    ["the dump has no record of 't' in partition 1, which was read up to 7 before: nothing new of it is known"]
    """
    lines = [
        f"the dump has no record of {topic!r} in partition {partition}, which was read up to {at} before: nothing new "
        "of it is known"
        for (topic, partition), at in sorted(known.items()) if at and (topic, partition) not in there
    ]
    more = f"the dump has no record of {len(lines) - _NAMED} more partitions that were read before"
    return lines if len(lines) <= _NAMED else [*lines[:_NAMED], more]


def _check_end(names: str, place: Place, last: int, wanted: int) -> None:
    if last + 1 < wanted:
        topic, partition = place
        raise UnsafeTopicError(
            f"in the dump {names} the topic {topic!r} ends at {last + 1} in partition {partition}, and was read up to "
            f"{wanted} before: it is an older dump, or the topic was made again. Give a dump that goes further; or "
            "capture it as a new source, with a memory and logs of its own"
        )


def _check_start(names: str, place: Place, first: int, wanted: int) -> None:
    if first > wanted:
        topic, partition = place
        raise UnsafeTopicError(
            f"in the dump {names} the topic {topic!r} begins at {first} in partition {partition}, and {wanted} is "
            f"wanted: what came before was removed, or not dumped. Dump it from {wanted} on, or, if it is lost, start "
            "over with a new snapshot"
        )


def _check_gaps(names: str, place: Place, offsets: Iterable[int], wanted: int) -> None:
    following = wanted
    for offset in offsets:
        if offset > following:
            raise gap(names, place, f"{following}" if offset == following + 1 else f"{following} to {offset - 1}")
        following = max(following, offset + 1)


def gap(names: str, place: Place, gone: str) -> UnsafeTopicError:
    """That a dump lacks these offsets of a partition, and what to do."""
    topic, partition = place
    return UnsafeTopicError(
        f"in the dump {names} the topic {topic!r} lacks {gone} in partition {partition}: those records were "
        "removed (compaction), or not dumped. Dump them too, or, if they are lost, start over with a new "
        "snapshot. A connector that writes in Kafka's transactions leaves such gaps: capture from Kafka then"
    )


def _from(records: Iterable[tuple[int, Record]], start: int) -> Iterator[tuple[int, Record]]:
    latest = 0
    for timestamp, record in records:
        # Within a partition the order is the offsets', even where a clock stepped back.
        latest = max(latest, timestamp)
        if record.offset >= start:
            yield latest, record


def _lines(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _record(line, path, number)
    except FileNotFoundError:
        raise MissingLogError(f"there is no dump {path}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        reason = f"the file is damaged: {error}"
        raise DecodeError(reason, position=path, fault=_FAULT, what=_WHAT) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory: name the files of the dump, {path}/...") from None
    except OSError as error:
        raise UnavailableError(f"the dump {path} cannot be read: {error.strerror or error}") from error


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def _record(line: bytes, path: Path, number: int) -> tuple[int, Record]:
    try:
        plain: Any = parse_json(line)
        if not isinstance(plain, dict):
            raise ValueError(f"it is a {type(plain).__name__}, not an object")
        place = plain["topic"], plain["partition"], plain["offset"]
        if [type(part) for part in place] != [str, int, int]:
            raise ValueError("topic, partition and offset are a string and two integers")
        if min(place[1:]) < 0:
            raise ValueError(f"{NEGATIVE}: the partition is {place[1]}, the offset {place[2]}")
        key, value = plain.get("key"), value_of(plain)
        return _timestamp(plain), Record(*place, _bytes("key", key), _bytes("value", value))
    except (ValueError, KeyError, TypeError) as error:
        position = f"{path}, line {number}"
        reason = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        raise DecodeError(reason, position=position, raw=line, fault=_FAULT, what=_WHAT) from None


def _timestamp(plain: Mapping[str, Any]) -> int:
    name, given = next(((name, plain[name]) for name in TIME_NAMES if plain.get(name)), ("", 0))
    try:
        return int(given)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"the {name} is {json.dumps(given)[:40]}, not a number of milliseconds") from None


def _bytes(name: str, text: Any) -> bytes | None:
    if text is not None and not isinstance(text, str):
        raise ValueError(f"the {name} is {json.dumps(text)[:40]}, not text or null")
    return None if text is None else text.encode()


def value_of(plain: Mapping[str, Any]) -> Any:
    """The value of a dumped record. Raises ValueError where the line has none, which is not one that is null.

    >>> value_of({"topic": "t", "payload": None}) is None
    True
    """
    name = next((name for name in VALUE_NAMES if name in plain), None)
    if name is None:
        raise ValueError(LINE_WITHOUT_VALUE)
    return plain[name]
