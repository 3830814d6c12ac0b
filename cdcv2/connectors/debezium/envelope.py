"""What the records of Debezium's PostgreSQL connector mean.

::

    c, r   after  +1                        u      before -1, after +1
    d      before -1                        t      a stop: it names no row
    m, tombstones, heartbeats               nothing
    transaction topic                       BEGIN nothing; END the commit time and the row counts

The transaction of a row is ``source.txId`` (``transaction.id`` carries the LSN of the record itself, so it differs
from record to record); its identity is that and ``total_order``. Its commit time is the LSN of END, which no row
has. ``classify`` judges one record at a time and keeps no state; it may run anywhere.

By default both images must be whole: the tables need REPLICA IDENTITY FULL. An update without it has no ``before``. A
delete without it has one in which the columns outside the key are null or a default that the connector made up, and
the record does not show that. Such a delete is recognized only by its looks (no column outside the key has a value of
its own), so tables whose identity is known to be FULL should be named in the recipe.

With ``before="from-state"`` a record becomes a :class:`PartialChangeFact`: it has the key of its row, and the old
values if they are known to be whole. The holder of the table's content looks the before-image up. A table without a key
still needs FULL. A TRUNCATE then removes everything that the table holds.

The connector needs ``provide.transaction.metadata=true``, ``decimal.handling.mode=string``, and
``skipped.operations=none``: by default it leaves out a TRUNCATE silently, and no count shows it.

The file is long because it is one table of rules, a function for each kind of record, which are to be read side by
side.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Protocol

from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE, DatabaseConnector
from cdcv2.capture.facts import (
    Begin, End, Fact, IgnoredRecord, Notification, PartialChange, PartialChangeFact, Record, RowFact, SnapshotRow,
    Truncate, UnfitRow,
)
from cdcv2.connectors.debezium.images import ImageReader, UnfitImage, identity_remedy, keyless_remedy
from cdcv2.connectors.debezium.row_types import source_table
from cdcv2.core.json_text import parse_json
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import DecodeError
from cdcv2.logs.formats import no_json, registry_format


#: Who may be at fault where a record is none of the connector's.
FAULT = "The connector, its converter or another writer of the topic is at fault: name the connector's own topics"
#: What such a record is not.
WHAT = "a record of the connector"
_CONVERTER = (
    "The connector's converter is at fault: set key.converter and value.converter to "
    "org.apache.kafka.connect.json.JsonConverter for this connector, and start over with new topics"
)
_OTHER = "Name the topics of a connector for PostgreSQL; another's can be captured as plain topics (--remap, --plain)"
_POSTGRESQL = "postgresql"
#: The first version of the connector whose numbers go on after a restart.
_NUMBERS_GO_ON = (3, 7)
_VERSION = re.compile(r"(\d+)\.(\d+)\b")


class EnvelopeConnector(DatabaseConnector, Protocol):
    """A connector whose records are Debezium's envelopes."""

    @property
    def readers(self) -> Mapping[str, ImageReader]:
        """What reads the images of each table."""


def classify(connector: EnvelopeConnector, record: Record) -> Fact:
    """The fact of a record. Pure.

    Raises DecodeError, with the position, for bytes that are no JSON and for JSON that is no envelope of this
    connector. A row that is one but cannot be captured comes as :class:`Truncate` or :class:`UnfitRow`, as it stops
    the capture only when its transaction is due.

    Cost: parsing the JSON, and a look at each column.
    """
    topic, value = record.topic, record.value
    table = connector.table(topic)
    if table is None and topic != connector.transaction_topic and topic != connector.notification_topic:
        return IgnoredRecord("topic of no captured table")
    if value is None:
        return IgnoredRecord("tombstone")
    body = _parse(value, record)
    if table is not None:
        return _row(body, table, record, connector)
    if topic == connector.transaction_topic:
        return _transaction(body, record)
    return _notification(body, record, connector)


def _parse(value: bytes, record: Record) -> dict[str, Any]:
    """The payload of a JSON record, with or without its schema."""
    try:
        body = parse_json(value)
    except ValueError as error:
        reason = f"{no_json(value, error)}: capture reads the records of Connect's JSON converter"
        fault = FAULT if registry_format(value) is None else _CONVERTER
        raise DecodeError(reason, position=record.position, raw=value, fault=fault, what=WHAT) from None
    if isinstance(body, dict) and body.keys() == {"schema", "payload"} and _is_struct(body["schema"]):
        body = body["payload"]
    if not isinstance(body, dict):
        raise _foreign(f"the JSON is a {type(body).__name__}, not an object", record)
    return body


def _is_struct(schema: Any) -> bool:
    """Whether it is Connect's schema of an object; a key may be of columns called schema and payload, too."""
    return isinstance(schema, dict) and schema.get("type") == "struct"


def _foreign(reason: str, record: Record) -> DecodeError:
    return DecodeError(reason, position=record.position, raw=record.value, fault=FAULT, what=WHAT)


# -- tables


def _row(body: Mapping[str, Any], table: str, record: Record, connector: EnvelopeConnector) -> Fact:
    op, source = body.get("op"), body.get("source")
    if not isinstance(op, str) or not isinstance(source, dict):
        raise _foreign("an envelope has op and source", record)
    if op == "m":
        return IgnoredRecord("message")
    database = source.get("connector", _POSTGRESQL)
    if database != _POSTGRESQL:
        raise DecodeError(
            f"it is of Debezium's connector for {database!r}, and only that for {_POSTGRESQL!r} is understood",
            position=record.position, raw=record.value, fault=_OTHER, what=WHAT,
        )
    of = source_table(source)
    if of != table or source.get("name") != connector.prefix:
        raise _foreign(f"it is of table {of} of {source.get('name')}, in the topic of {table}", record)
    if op == "r":
        return _snapshot_row(body, source, table, record, connector)
    if op not in ("c", "u", "d", "t"):
        raise _foreign(f"op is {op!r}", record)
    seq, tx = _sequence(source, record), _integer(source, "txId", record)
    place = body.get("transaction")
    if not isinstance(place, dict):
        reason = f"a row of {table} names no transaction"
        return UnfitRow(table, None, None, seq, record.position, reason, _NO_TRANSACTION)
    order, table_order = _integer(place, "total_order", record), _integer(place, "data_collection_order", record)
    if order < 1 or table_order < 1:
        raise _foreign(f"order numbers count from 1, not {order} and {table_order}", record)
    if op == "t" and connector.before == FROM_ENVELOPE:
        reason = f"{table} was truncated in transaction {tx}"
        return Truncate(table, tx, order, table_order, seq, record.position, reason, _TRUNCATED)
    try:
        if connector.before == FROM_STATE:
            change = _partial_change(op, body, table, record, connector)
            return PartialChangeFact(table, tx, order, table_order, seq, change, record.position, renumbers(source))
        changes = _changes(op, body, table, record, connector)
    except UnfitImage as unfit:
        reason = f"{unfit.reason}, in transaction {tx}"
        return UnfitRow(table, tx, None, seq, record.position, reason, unfit.remedy, table_order)
    return RowFact(table, tx, order, table_order, seq, op, changes, record.position, renumbers(source))


def renumbers(source: Mapping[str, Any]) -> bool:
    """Whether the connector of a record renumbers a transaction's rows when it is restarted inside it: before 3.7.0.

    One that does not give its version is taken for a later one.
    """
    version = source.get("version")
    return isinstance(version, str) and _before(version, _NUMBERS_GO_ON)


@functools.lru_cache(maxsize=16)
def _before(version: str, wanted: tuple[int, int]) -> bool:
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) < wanted


def _changes(
    op: str, body: Mapping[str, Any], table: str, record: Record, connector: EnvelopeConnector
) -> tuple[tuple[Any, int], ...]:
    reader = connector.readers[table]
    changes: list[tuple[Any, int]] = []
    if op in ("u", "d"):
        before = body.get("before")
        if before is None:
            reason = f"a row of {table} was {_DONE[op]} and its old values are not given"
            raise UnfitImage(reason, identity_remedy(table))
        judged = op == "d" and table not in connector.full_identity and isinstance(before, dict)
        key_only = judged and reader.looks_key_only(before, _key(record))
        row = reader.read(before, table, old=True)
        if key_only:
            raise UnfitImage(f"a row of {table} was deleted and the only values given are its key's",
                             f"{identity_remedy(table)} {_CHECKED}")
        changes.append((row, -1))
    if op in ("c", "u"):
        changes.append((reader.read(_after(body, record), table), 1))
    return tuple(changes)


def _after(body: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """The row that came; only a deletion has none."""
    after = body.get("after")
    if not isinstance(after, dict):
        raise _foreign(f"after is {after!r}, not the values of a row", record)
    return after


def _partial_change(
    op: str, body: Mapping[str, Any], table: str, record: Record, connector: EnvelopeConnector
) -> PartialChange:
    """The change of a record's row; raises UnfitImage if the record does not identify the row."""
    if op == "t":
        return PartialChange(op, None, None, None)
    reader, names = connector.readers[table], _key(record)
    before = body.get("before") if op in _DONE else None
    new = reader.part(_after(body, record), table) if op != "d" else None
    if not names and op in _DONE and before is None:
        reason = f"a row of {table} was {_DONE[op]}, and neither its old values nor its key are given"
        raise UnfitImage(reason, keyless_remedy(table))
    whole = not names or table in connector.full_identity
    old = None
    # The columns of a delete outside the key are made up, unless the identity is known to be FULL.
    if before is not None and (whole or op == "u"):
        old = reader.part(before, table, old=True)
    if whole and (op == "c" or old is not None):
        if old is not None and len(old.columns) < len(connector.tables[table].columns):
            raise UnfitImage(f"a row of {table} was {_DONE[op]} and its old values are not all given", _NOT_WHOLE)
        return PartialChange(op, None, old, new)
    key = new.only(names) if new is not None else reader.part(before, table, old=True, only=names)
    lacking = names.difference(key.columns)
    if lacking:
        raise UnfitImage(f"the key of a row of {table} is not given: {', '.join(map(repr, sorted(lacking)))}", _NO_KEY)
    return PartialChange(op, key, old, new)


def _snapshot_row(
    body: Mapping[str, Any], source: Mapping[str, Any], table: str, record: Record, connector: EnvelopeConnector
) -> Fact:
    lsn = _check_lsn(_integer(source, "lsn", record), record)
    marker = str(source.get("snapshot"))
    if marker == "incremental":
        # In the midst of the stream: no row of the initial snapshot, nor of one that was taken in its place.
        reason = f"an incremental snapshot of {table} was taken"
        return UnfitRow(table, None, None, None, record.position, reason, _SIGNALLED)
    reader, image = connector.readers[table], _after(body, record)
    try:
        row = reader.read(image, table)
    except UnfitImage as unfit:
        # The first thing that is captured of a table is its initial snapshot: nothing can have changed before that.
        unlike = reader.unlike(image) if lsn not in connector.resnapshots else None
        reason, remedy = f"{unfit.reason}, in the snapshot", unfit.remedy
        if unlike is not None:
            reason, remedy = f"the row type of {table} is not that of its rows in the snapshot: it {unlike}", _ROW_TYPE
        return UnfitRow(table, None, lsn, None, record.position, reason, remedy)
    return SnapshotRow(table, lsn, marker, row, record.position, renumbers(source))


def _key(record: Record) -> frozenset[str]:
    """The names of the columns in the record's key; none if it has no key."""
    if record.key is None:
        return frozenset()
    try:
        return frozenset(_parse(record.key, record))
    except DecodeError as error:
        wrong = f"its key is {error.reason}"
        raise DecodeError(wrong, position=record.position, raw=record.key, fault=FAULT, what=WHAT) from None


def _sequence(source: Mapping[str, Any], record: Record) -> int | None:
    """The END of the transaction before: the first of two LSNs in ``source.sequence``, which is JSON in a string."""
    text = source.get("sequence")
    try:
        first, _ = parse_json(text)  # type: ignore[arg-type]
        if type(first) is str:
            first = int(first)
    except (TypeError, ValueError):
        raise _foreign(f"source.sequence is {text!r}, not a list of two LSNs", record) from None
    if first is not None and (type(first) is not int or not 0 <= first < MAX_TIME):
        raise _foreign(f"source.sequence is {text!r}, and {first} is no LSN: one is from 0 to 2**63 - 2", record)
    return first


def _check_lsn(lsn: int, record: Record) -> int:
    # The frontier behind it is a time as well.
    if not 0 <= lsn < MAX_TIME:
        raise _foreign(f"the LSN {lsn} is none: it is from 0 to 2**63 - 2", record)
    return lsn


def _integer(mapping: Mapping[str, Any], name: str, record: Record) -> int:
    value = mapping.get(name)
    if type(value) is not int:
        raise _foreign(f"{name} is {value!r}, not an integer", record)
    return value


# -- transactions and notifications


def _transaction(body: Mapping[str, Any], record: Record) -> Fact:
    status, name = body.get("status"), str(body.get("id"))
    try:
        tx, lsn = map(int, name.split(":"))
    except ValueError:
        raise _foreign(
            f"the transaction's id is {name!r}, not txId:LSN as Debezium's connector for PostgreSQL writes it", record
        ) from None
    _check_lsn(lsn, record)
    if status == "BEGIN":
        return Begin(tx, lsn)
    if status != "END":
        raise _foreign(f"the transaction's status is {status!r}", record)
    counts: dict[str, int] = {}
    collections: Any = body.get("data_collections")
    if collections is not None and not isinstance(collections, list):
        raise _foreign(f"data_collections is {collections!r}, not a list of counts", record)
    for collection in collections or ():
        if not isinstance(collection, dict):
            raise _foreign(f"{collection!r} is no count of a data collection", record)
        table, number = str(collection.get("data_collection")), _integer(collection, "event_count", record)
        if number < 0:
            raise _foreign(f"event_count of {table} is {number}, less than none", record)
        counts[table] = counts.get(table, 0) + number
    # The connector adds up both of the same events, also behind a restart.
    if body.get("event_count") is not None and _integer(body, "event_count", record) != sum(counts.values()):
        reason = f"event_count is {body['event_count']}, and its data_collections count {sum(counts.values())}"
        raise _foreign(reason, record)
    moment = body.get("ts_ms")
    return End(tx, lsn, counts, moment if type(moment) is int else None)


def _notification(body: Mapping[str, Any], record: Record, connector: EnvelopeConnector) -> Fact:
    kind, more = body.get("type"), body.get("additional_data") or {}
    if not isinstance(kind, str) or not isinstance(more, dict):
        raise _foreign("a notification has type and additional_data", record)
    if more.get("connector_name", connector.prefix) != connector.prefix:
        return IgnoredRecord("notification of another connector", str(more["connector_name"]))
    if body.get("aggregate_type") != "Initial Snapshot":
        return IgnoredRecord("notification about something else")
    rows = more.get("total_rows_scanned")
    try:
        number = None if rows is None else int(rows)
    except (TypeError, ValueError):
        raise _foreign(f"total_rows_scanned is {rows!r}", record) from None
    status = more.get("status")
    table, status = more.get("scanned_collection"), None if status is None else str(status)
    return Notification(kind, table, number, record.offset, status)


_ROW_TYPE = (
    "If the table was altered since that snapshot, its topic has rows of two types, and a log holds rows of one: start "
    "over with a new snapshot (new topics, new slot, new logs). Otherwise make the row type again (cdcv2 rows), and "
    "start again: the snapshot that is there can still be captured. A column that shall not be captured is left out by "
    "the connector's column.exclude.list, with new topics"
)
_NOT_WHOLE = (
    "A table that has no key, or is named with --full-identity, needs REPLICA IDENTITY FULL, and so does each "
    "partition of it: set it, and start over with a new snapshot; or do not name the table"
)
_NO_KEY = (
    "The records' key must be of columns that are captured: make a row type that has them (cdcv2 rows), and leave them "
    "out of the connector's column.exclude.list; then start over with a new snapshot"
)
_DONE = {"u": "updated", "d": "deleted"}
_TRUNCATED = (
    "A TRUNCATE takes away rows without naming them. Delete rows instead (DELETE FROM), let the capture keep the rows "
    "itself (cdcv2 capture --before from-state), or start over with a new snapshot: new topics, new slot, new logs"
)
_NO_TRANSACTION = "Set provide.transaction.metadata=true in the connector, and start over with new topics"
_SIGNALLED = "Only the initial snapshot can be captured: to take another, start over with new topics, slot and logs"
_CHECKED = (
    "If it has that already (SELECT relreplident FROM pg_class gives f: of a partitioned table, look at the partition "
    "of that row, and at all others, as its own does not count) and the row was really empty, name the table with "
    "--full-identity, or in a pipeline's file in the capture's full-identity: [TABLE], and start again"
)
