"""The executors' side of capture: records become facts, as the connector reads them.

Each record that carries a row becomes one row of a frame: its table and transaction, its number there, and its effect:
the canonical bytes of its before-image (``minus``) and of its new row (``plus``). All other facts of a share of the
records go into one JSON text per Arrow batch (:class:`~cdcv2.spark.capture.batch_facts.BatchFacts`), in the last column
of a row of its own. One pass over the records gives both.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Record, SnapshotRow, encoded_images
from cdcv2.errors import DecodeError
from cdcv2.spark.capture.batch_facts import BatchFacts, Screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: ``kind`` is ROW, SNAPSHOT or FACTS; ``tx`` of a snapshot row is its LSN. ``number`` is the number of a row among
#: those of its table in the transaction, ``order`` that among all.
CLASSIFIED = "kind byte, table int, tx long, number long, order long, minus binary, plus binary, facts string"
ROW, SNAPSHOT, FACTS = 0, 1, 2
RECORD_COLUMNS = ("topic", "partition", "offset", "key", "value")

_ARROW = pa.schema([
    ("kind", pa.int8()), ("table", pa.int32()), ("tx", pa.int64()), ("number", pa.int64()),
    ("order", pa.int64()), ("minus", pa.binary()), ("plus", pa.binary()), ("facts", pa.string()),
])


def classified(records: DataFrame, recipe: DatabaseConnector, screen: Screen, *, counted: bool = True) -> DataFrame:
    """The records as a frame CLASSIFIED.

    With ``counted=False`` only the rows: for records that were counted before, and are read again for their rows.
    """
    how = pickle.dumps(recipe)
    # The screen is pickled with the function; it has an entry per partition, no more.
    function = partial(_classify, how, screen, counted)
    return records.select(*RECORD_COLUMNS).mapInArrow(function, CLASSIFIED)


def snapshots(records: DataFrame, recipe: DatabaseConnector) -> list[int]:
    """The LSNs of the snapshots of which rows are among the records."""
    found = records.select(*RECORD_COLUMNS).mapInArrow(partial(_scanned, pickle.dumps(recipe)), "lsn long")
    return sorted(row["lsn"] for row in found.distinct().collect())


@functools.lru_cache(maxsize=8)
def unpickled(raw: bytes) -> DatabaseConnector:
    """The recipe that was pickled to this."""
    # Unpickled once per worker process: it compiles the functions of each row type.
    recipe: DatabaseConnector = pickle.loads(raw)
    return recipe


def _classify(
    how: bytes, screen: Screen, counted: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    recipe = unpickled(how)
    tables = tuple(sorted(recipe.tables))
    for batch in batches:
        facts = BatchFacts(tables)
        rows = _Columns(recipe, tables)
        columns = [batch.column(name).to_pylist() for name in RECORD_COLUMNS]
        for record in map(Record._make, zip(*columns)):
            _take(record, recipe, screen, facts, rows)
        yield rows.batch(facts.to_json() if counted else None)


def _scanned(how: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    recipe = unpickled(how)
    for batch in batches:
        lsns = set[int]()
        for record in map(Record._make, zip(*(batch.column(name).to_pylist() for name in RECORD_COLUMNS))):
            try:
                fact = recipe.fact(record)
            except DecodeError:
                # It is judged when it is taken; here it is no row of a snapshot.
                continue
            if isinstance(fact, SnapshotRow):
                lsns.add(fact.lsn)
        yield pa.RecordBatch.from_arrays([pa.array(sorted(lsns), pa.int64())], names=["lsn"])


def _take(record: Record, recipe: DatabaseConnector, screen: Screen, facts: BatchFacts, rows: _Columns) -> None:
    place = record.topic, record.partition
    if not screen.is_new(place, record.offset):
        return
    facts.read(place, record.offset)
    try:
        fact = recipe.fact(record)
        if facts.add(fact, record.position, screen):
            rows.add(fact)
    except DecodeError as error:
        facts.garbled(record.position, error.reason)


class _Columns:
    """The rows of one Arrow batch, column by column."""

    def __init__(self, recipe: DatabaseConnector, tables: tuple[str, ...]) -> None:
        self._numbers = {table: number for number, table in enumerate(tables)}
        self._encode = {table: recipe.tables[table].encode for table in tables}
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [], [], [])

    def add(self, fact: Any) -> None:
        """Keep the row of a RowFact or SnapshotRow."""
        kind, table, tx, number, order, minus, plus = self._columns
        encode = self._encode[fact.table]
        gone = come = None
        if isinstance(fact, SnapshotRow):
            kind.append(SNAPSHOT)
            tx.append(fact.lsn)
            number.append(None)
            order.append(None)
            come = encode(fact.row)
        else:
            kind.append(ROW)
            tx.append(fact.tx)
            number.append(fact.table_order)
            order.append(fact.order)
            gone, come = encoded_images(fact.changes, encode, fact.position)
        table.append(self._numbers[fact.table])
        minus.append(gone)
        plus.append(come)

    def batch(self, facts: str | None) -> pa.RecordBatch:
        """The Arrow batch, with the other facts in a last row of its own."""
        texts: list[str | None] = [None] * len(self._columns[0])
        if facts is not None:
            for column, value in zip(self._columns, (FACTS, None, None, None, None, None, None)):
                column.append(value)
            texts.append(facts)
        arrays = [pa.array(column, field.type) for column, field in zip((*self._columns, texts), _ARROW)]
        return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
