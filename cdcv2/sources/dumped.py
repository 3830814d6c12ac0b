"""Topics that were dumped to a file: one JSON object a line, plain or gzipped.

::

    {"topic": "shop.public.orders", "partition": 0, "offset": 17, "key": "...", "value": "...", "timestamp": 179...}

``key`` and ``value`` are the record's text, or null; the other fields may be absent but for topic, partition, offset.

The offsets of a partition must be without gaps, as what is missing may be a fact that nothing else tells of. Where a
connector writes in Kafka's transactions, each one leaves a marker that takes an offset and that no reader sees. Such
gaps look like any other, so those topics are captured from Kafka, where the broker says what there is to be read.
"""

from __future__ import annotations

import gzip
import heapq
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from cdcv2.core.json_text import parse_json
from cdcv2.errors import DecodeError, MissingLogError, UnavailableError, UnsafeTopicError, UsageError
from cdcv2.protocol.log import Position
from cdcv2.sources.facts import Record
from cdcv2.sources.snapshot import Place

_WHAT = "a dumped record"
_FAULT = "The dump is at fault: dump the topics anew"


class DumpedTopics:
    """The records of one or more dumps, held in memory.

    ``needed`` are the topics of which every record from the position asked for on must be there (None: all topics).

    Raises MissingLogError for a file that is not there, UsageError for a directory, UnavailableError for one that
    cannot be read, DecodeError (file and line) for a line that is no record, and for a damaged file.
    """

    def __init__(self, *paths: str | os.PathLike[str], needed: Collection[str] | None = None) -> None:
        self._needed = needed
        self._names = ", ".join(os.fspath(path) for path in paths)
        self._places: dict[Place, list[tuple[int, Record]]] = {}
        for path in paths:
            for timestamp, record in _lines(Path(path)):
                self._places.setdefault((record.topic, record.partition), []).append((timestamp, record))
        for records in self._places.values():
            records.sort(key=lambda entry: entry[1].offset)

    def topics(self) -> list[str]:
        """The topics that have records."""
        return sorted({topic for topic, _ in self._places})

    def identities(self) -> dict[str, str]:
        """None: a dump does not tell."""
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

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Nothing: it is in memory already."""


def _check_end(names: str, place: Place, last: int, wanted: int) -> None:
    if last + 1 < wanted:
        topic, partition = place
        raise UnsafeTopicError(
            f"in the dump {names} the topic {topic!r} ends at {last + 1} in partition {partition}, and was read up to "
            f"{wanted} before: it is an older dump, or the topic was made anew. Give a dump that goes further; or "
            "capture it as a new source, with a memory and logs of its own"
        )


def _check_start(names: str, place: Place, first: int, wanted: int) -> None:
    if first > wanted:
        topic, partition = place
        raise UnsafeTopicError(
            f"in the dump {names} the topic {topic!r} begins at {first} in partition {partition}, and {wanted} is "
            f"wanted: what came before was removed, or not dumped. Dump it from {wanted} on, or, if it is gone, begin "
            "anew with a new snapshot"
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
        "removed (compaction), or not dumped. Dump them too, or, if they are gone, begin anew with a new "
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
        place = plain["topic"], plain["partition"], plain["offset"]
        if [type(part) for part in place] != [str, int, int]:
            raise ValueError("topic, partition and offset are a string and two integers")
        key, value = plain.get("key"), plain.get("value")
        return int(plain.get("timestamp") or 0), Record(
            *place, None if key is None else key.encode(), None if value is None else value.encode()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        position = Position(str(path), 0, number)
        raise DecodeError(repr(error), position=position, raw=line, fault=_FAULT, what=_WHAT) from None
