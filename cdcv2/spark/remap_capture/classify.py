"""The executors' side of a capture on a shared remap: records of exact ranges become facts with their times.

Each record that carries a row becomes one row of a frame, with the canonical bytes of its before-image (``minus``) and
of its new row (``plus``), and with a *mark* of each, a digest. Every decision needs only to know which rows are equal,
so the driver gets marks and never sees a row. The other facts of the records are pickled into the last row of each
Arrow batch (:class:`ShareFacts`). They include partial changes, whose before-images the driver looks up. One pass over
the records gives both.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

from cdcv2.capture.bound_facts import timeline_fact
from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.capture.facts import Notification, Record, encoded_images, is_renumbered
from cdcv2.capture.open_records import SNAPSHOT as SNAPSHOT_TX, BeginRecord, RowRecord, SourceRecord
from cdcv2.connectors.kinds import PLAIN_TOPIC
from cdcv2.errors import DecodeError
from cdcv2.protocol.log import Place
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ranges import BoundRanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: ``kind`` is ROW, PLAIN or FACTS; ``output`` and ``table`` are numbers; ``place`` is one of the stretch, in order;
#: ``tx`` is NO_TX for a row of the snapshot, whose ``number`` is its offset. ``of_table`` is the row's number among
#: those of its table, ``renumbered`` whether its connector renumbers the rows of a transaction.
BOUND = (
    "kind byte, output int, table int, time long, tx long, number long, place int, after long, "
    "of_table long, renumbered boolean, "
    "minus binary, plus binary, minus_mark binary, plus_mark binary, facts binary"
)
#: What of it the driver reads.
DRIVER_COLUMNS = (
    "kind", "output", "table", "time", "tx", "number", "place", "after", "of_table", "renumbered", "minus_mark",
    "plus_mark", "facts",
)
ROW, PLAIN, FACTS = 0, 1, 2
NO_TX = -1
RECORD_COLUMNS = ("topic", "partition", "offset", "key", "value")

_ARROW = pa.schema([
    ("kind", pa.int8()), ("output", pa.int32()), ("table", pa.int32()), ("time", pa.int64()), ("tx", pa.int64()),
    ("number", pa.int64()), ("place", pa.int32()), ("after", pa.int64()),
    ("of_table", pa.int64()), ("renumbered", pa.bool_()), ("minus", pa.binary()), ("plus", pa.binary()),
    ("minus_mark", pa.binary()), ("plus_mark", pa.binary()), ("facts", pa.binary()),
])  # fmt: skip

#: Who reads the records of a topic: a database, or a plain table by its number, with its row type.
Reader: TypeAlias = Union[DatabaseConnector, tuple[int, RowType]]


def mark(data: bytes) -> bytes:
    """128-bit collision-resistant digest of a row's canonical bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


@dataclass
class ShareFacts:
    """The facts of a share of the records beside rows that executors keep; ``output`` is a number."""

    records: int = 0
    #: The malformed ones, with their times.
    wrong: list[tuple[int, DecodeError]] = field(default_factory=list)
    #: (output, time, offset, fact)
    reports: list[tuple[int, int, int, Union[SourceRecord, BeginRecord, Notification]]] = field(default_factory=list)
    #: (output, table, time) of plain rows -> how many
    plain: dict[tuple[int, int, int], int] = field(default_factory=dict)
    #: Outputs with records of a connector that renumbers the rows of a transaction.
    old: set[int] = field(default_factory=set)

    @staticmethod
    def read(raw: bytes) -> ShareFacts:
        """As an executor of ours wrote it."""
        facts: ShareFacts = pickle.loads(raw)
        return facts


def bound(records: DataFrame, readers: Mapping[str, tuple[int, Reader]], stretch: BoundRanges) -> DataFrame:
    """Records of a range as a frame BOUND; ``readers`` has, by topic, the output's number and its reader."""
    function = partial(_classify, pickle.dumps(dict(readers)), stretch)
    return records.select(*RECORD_COLUMNS).mapInArrow(function, BOUND)


@functools.lru_cache(maxsize=4)
def _readers(raw: bytes) -> dict[str, tuple[int, Any]]:
    # Unpickled once per worker process: it compiles the functions of each row type.
    readers: dict[str, tuple[int, Reader]] = pickle.loads(raw)
    made: dict[int, _DatabaseClassifier] = {}
    found: dict[str, tuple[int, Any]] = {}
    for topic, (output, reader) in readers.items():
        if isinstance(reader, tuple):
            found[topic] = output, _PlainClassifier(output, *reader)
        else:
            found[topic] = output, made.setdefault(output, _DatabaseClassifier(output, reader))
    return found


def _classify(how: bytes, stretch: BoundRanges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    readers = _readers(how)
    places: dict[Place, int] = {place: number for number, place in enumerate(sorted(stretch.end))}
    for batch in batches:
        facts, rows = ShareFacts(), list[tuple[Any, ...]]()
        columns = [batch.column(name).to_pylist() for name in RECORD_COLUMNS]
        for record in map(Record._make, zip(*columns)):
            place = record.topic, record.partition
            into = stretch.into(place, record.offset)
            try:
                readers[record.topic][1].take(record, into, places[place], facts, rows)
                facts.records += 1
            except DecodeError as error:
                facts.wrong.append((into, error))
        rows.append((FACTS, *[None] * 13, pickle.dumps(facts)))
        arrays = [pa.array(column, kind.type) for column, kind in zip(zip(*rows), _ARROW)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


class _DatabaseClassifier:
    """Reads the topics of a connector. Where before-images are looked up, every fact goes to the driver."""

    def __init__(self, output: int, recipe: DatabaseConnector) -> None:
        self._output, self._recipe, self._looked_up = output, recipe, recipe.before == FROM_STATE
        self._tables = {table: (at, recipe.tables[table].encode) for at, table in enumerate(sorted(recipe.tables))}

    def take(self, record: Record, into: int, place: int, facts: ShareFacts, rows: list[tuple[Any, ...]]) -> None:
        """Take the fact of a record. Raises DecodeError for a malformed one."""
        fact = self._recipe.fact(record)
        if is_renumbered(fact):
            facts.old.add(self._output)
        one = fact if isinstance(fact, Notification) else timeline_fact(fact)
        if isinstance(one, RowRecord) and not self._looked_up:
            table, encode = self._tables[one.table]
            snapshot = one.tx == SNAPSHOT_TX
            images = encoded_images(one.changes, encode, record.position)
            rows.append((
                ROW, self._output, table, into, NO_TX if snapshot else one.tx, record.offset if snapshot else one.order,
                place, one.after, one.number, one.renumbered, *images,
                *(None if data is None else mark(data) for data in images), None,
            ))
        elif one is not None:
            facts.reports.append((self._output, into, record.offset, one))


class _PlainClassifier:
    """Reads a plain topic."""

    def __init__(self, output: int, table: int, row_type: RowType) -> None:
        self._output, self._table = output, table
        self._rows, self._encode = PLAIN_TOPIC(row_type), row_type.encode

    def take(self, record: Record, into: int, place: int, facts: ShareFacts, rows: list[tuple[Any, ...]]) -> None:
        """Take the record's row. Raises DecodeError for a record that is none."""
        data = self._encode(self._rows.row(record))
        nothing = None, None, None, None
        rows.append((PLAIN, self._output, self._table, into, None, None, place, *nothing, data, None, None, None))
        key = self._output, self._table, into
        facts.plain[key] = facts.plain.get(key, 0) + 1
