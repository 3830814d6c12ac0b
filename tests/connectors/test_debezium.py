"""What one record means: every kind of record, whole and broken."""

from __future__ import annotations

import base64
import json
import math
import pickle
from typing import Any

import pytest

from cdcv2.capture.facts import (
    Begin, End, IgnoredRecord, Notification, Record, RowFact, SnapshotRow, Truncate, UnfitRow,
)
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.debezium.images import ImageReader
from cdcv2.errors import DecodeError, UsageError
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType
from tests.recorded import TABLES, dump, facts, recipe

TABLE = "public.t"
TOPIC = "src.public.t"
FIELDS: list[tuple[str, Any]] = [
    ("id", "long"), ("name", ["null", "string"]), ("size", ["null", "double"]), ("raw", ["null", "bytes"]),
]


def row_type(*fields: tuple[str, Any]) -> RowType:
    """A row type with these columns."""
    return RowType({"type": "record", "name": "t", "fields": [{"name": name, "type": kind} for name, kind in fields]})


def array(items: str) -> dict[str, Any]:
    """An array of these, or NULL."""
    return {"type": "array", "items": ["null", items]}


RECIPE = Recipe("src", {TABLE: row_type(*FIELDS)}, notification_topic="notes")
ROW = {"id": 5, "name": "a", "size": 1.5, "raw": "3q2+7w=="}
PLACEHOLDER = "__debezium_unavailable_value"


def envelope(op: str = "c", *, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """An envelope as the connector writes it."""
    source = {
        "name": "src", "schema": "public", "table": "t", "txId": 757, "lsn": 1040, "snapshot": "false",
        "sequence": '["1000","1040"]', **more.pop("source", {}),
    }
    place = {"id": "757:1040", "total_order": 3, "data_collection_order": 2}
    return {"op": op, "before": before, "after": after, "source": source, "transaction": place, **more}


def record(body: Any, *, topic: str = TOPIC, key: Any = None) -> Record:
    """A record with this JSON."""
    return Record(topic, 1, 17, None if key is None else json.dumps(key).encode(), json.dumps(body).encode())


def said(body: Any, *, topic: str = TOPIC, key: Any = None, recipe: Recipe = RECIPE) -> Any:
    """The fact in the record."""
    return recipe.fact(record(body, topic=topic, key=key))


def row(**changes: Any) -> Any:
    """The row of ``ROW``, changed."""
    values = {"id": 5, "name": "a", "size": 1.5, "raw": b"\xde\xad\xbe\xef"}
    return RECIPE.tables[TABLE].row({**values, **changes})


# -- changes


@pytest.mark.parametrize(
    "op, before, after, changes",
    [
        ("c", None, ROW, ((row(), 1),)),
        ("u", ROW, {**ROW, "name": "b"}, ((row(), -1), (row(name="b"), 1))),
        ("d", ROW, None, ((row(), -1),)),
    ],
)
def test_images_become_minus_one_and_plus_one(op: str, before: Any, after: Any, changes: Any) -> None:
    """An insert adds, a delete takes away, an update does both."""
    expected = RowFact(TABLE, 757, 3, 2, 1000, op, changes, Position(TOPIC, 1, 17))
    assert expected == said(envelope(op, before=before, after=after))


def test_a_schema_beside_the_payload_changes_nothing() -> None:
    """JSON with and without schemas means the same."""
    body = envelope(after=ROW)
    assert said(body) == said({"schema": {"type": "struct"}, "payload": body})


def test_the_first_transaction_has_no_end_before_it() -> None:
    """A null in the sequence is kept as what it is: the decision needs to know."""
    assert said(envelope(after=ROW, source={"sequence": '[null,"1040"]'})).seq is None
    for first, lsn in (('"0"', 0), ("0", 0), (f'"{2**63 - 2}"', 2**63 - 2)):
        assert lsn == said(envelope(after=ROW, source={"sequence": f'[{first},"1040"]'})).seq


def test_a_snapshot_row_has_the_lsn_of_the_snapshot() -> None:
    """Its ``txId`` is unrelated, and it has no transaction."""
    body = envelope("r", after=ROW, transaction=None, source={"snapshot": "first_in_data_collection"})
    expected = SnapshotRow(TABLE, 1040, "first_in_data_collection", row(), Position(TOPIC, 1, 17))
    assert expected == said(body)


def test_truncate_is_a_fact_of_its_transaction() -> None:
    """It takes its place in commit order, and stops the capture only there."""
    fact = said(envelope("t"))
    assert isinstance(fact, Truncate)
    assert (TABLE, 757, 3, 2, 1000) == fact[:5]
    assert "public.t was truncated in transaction 757" == fact.reason


@pytest.mark.parametrize("topic, body, why", [
    (TOPIC, None, "tombstone"),
    (TOPIC, envelope("m"), "message"),
    ("src.message", envelope("m"), "topic of no captured table"),
    ("__debezium-heartbeat.src", {"ts_ms": 1}, "topic of no captured table"),
    ("src.public.other", envelope(after=ROW), "topic of no captured table"),
    ("other.public.t", b"anything", "topic of no captured table"),
    ("notes", {"type": "STARTED", "aggregate_type": "Incremental Snapshot"}, "notification about something else"),
    ("notes", {"type": "STARTED", "aggregate_type": "Initial Snapshot", "additional_data": {"connector_name": "x"}},
     "notification of another connector"),
])
def test_what_says_nothing(topic: str, body: Any, why: str) -> None:
    """Tombstones, messages, heartbeats, and what belongs to others."""
    value = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    of = "x" if why == "notification of another connector" else None
    assert IgnoredRecord(why, of) == RECIPE.fact(Record(topic, 0, 0, None, value))


# -- transactions and notifications


def test_an_end_has_the_commit_time_and_the_counts() -> None:
    """``id`` is txId and LSN; a BEGIN carries another LSN, and nothing relies on it."""
    end = {"status": "END", "id": "757:46023296", "event_count": 5, "data_collections": [
        {"data_collection": "public.t", "event_count": 4}, {"data_collection": "public.u", "event_count": 1}]}
    assert End(757, 46023296, {"public.t": 4, "public.u": 1}) == said(end, topic="src.transaction")
    empty = {"status": "END", "id": "757:46023296", "event_count": 0, "data_collections": []}
    assert End(757, 46023296, {}) == said(empty, topic="src.transaction")
    begin = {"status": "BEGIN", "id": "757:46022848", "event_count": None, "data_collections": None}
    assert Begin(757, 46022848) == said(begin, topic="src.transaction")


def test_notifications_tell_how_the_snapshot_goes() -> None:
    """The number of rows comes as text, beside how the scan ended."""
    scanned = {"type": "TABLE_SCAN_COMPLETED", "aggregate_type": "Initial Snapshot", "additional_data": {
        "connector_name": "src", "scanned_collection": "public.t", "total_rows_scanned": "1834", "status": "SUCCEEDED"}}
    assert Notification("TABLE_SCAN_COMPLETED", "public.t", 1834, 17, "SUCCEEDED") == said(scanned, topic="notes")
    started = {"type": "STARTED", "aggregate_type": "Initial Snapshot", "additional_data": {"connector_name": "src"}}
    assert Notification("STARTED", None, None, 17) == said(started, topic="notes")


# -- values


def test_numbers_that_json_has_not() -> None:
    """NaN and the infinities come as strings; minus zero is zero, NaN is one value."""
    def size(value: Any) -> float:
        fact = said(envelope(after={**ROW, "size": value}))
        return float(fact.changes[0][0].size)

    assert math.isnan(size("NaN"))
    assert [math.inf, -math.inf, 3.0] == [size("Infinity"), size("-Infinity"), size(3)]
    assert "0.0" == str(size(-0.0))
    nan, again = (said(envelope(after={**ROW, "size": "NaN"})) for _ in range(2))
    assert nan.changes == again.changes


def test_inner_values_are_converted_too() -> None:
    """Arrays, maps and records: base64 and odd numbers anywhere inside."""
    fields = [{"name": "raw", "type": "bytes"}, {"name": "n", "type": "int"}]
    inner = {"type": "record", "name": "inner", "fields": fields}
    kinds = row_type(
        ("list", {"type": "array", "items": ["null", "double"]}), ("map", {"type": "map", "values": "bytes"}),
        ("pair", ["null", inner]),
    )
    body = envelope(after={"list": [1, None, "Infinity"], "map": {"k": "3q2+7w=="}, "pair": {"raw": "", "n": 4}})
    changed, _ = said(body, recipe=Recipe("src", {TABLE: kinds})).changes[0]
    assert kinds.row([[1.0, None, math.inf], {"k": b"\xde\xad\xbe\xef"}, [b"", 4]]) == changed


def test_a_big_integer_keeps_its_digits() -> None:
    """JSON numbers beyond 2**53 are exact."""
    assert 2**63 - 1 == said(envelope(after={**ROW, "id": 2**63 - 1})).changes[0][0].id


# -- rows that do not fit


def unfit(body: dict[str, Any], key: Any = None, recipe: Recipe = RECIPE) -> tuple[str, str]:
    """Reason and remedy of a row that cannot be captured."""
    fact = said(body, key=key, recipe=recipe)
    assert isinstance(fact, UnfitRow)
    return fact.reason, fact.remedy


@pytest.mark.parametrize("after, reason", [
    ({key: value for key, value in ROW.items() if key != "size"}, "the columns of public.t changed: 'size' is missing"),
    ({**ROW, "colour": "red", "age": 3}, "the columns of public.t changed: 'age' is new, 'colour' is new"),
    ({**ROW, "id": "five"}, "the values of a row of public.t do not fit its row type: column 'id': 'five' is not"),
    ({**ROW, "id": None}, "do not fit its row type: column 'id': None is not"),
    ({**ROW, "size": "huge"}, "do not fit its row type: column 'size': 'huge' is not"),
    ({**ROW, "raw": "no base64"}, "do not fit its row type"),
])
def test_a_changed_row_type_is_named_with_its_column(after: Any, reason: str) -> None:
    """It belongs to its transaction; what came before can still be captured."""
    told, remedy = unfit(envelope(after=after))
    assert reason in told
    assert told.endswith(", in transaction 757")
    assert "After ALTER TABLE make the row type again (cdcv2 rows), and start over with a new snapshot" in remedy


@pytest.mark.parametrize("recipe", [RECIPE, Recipe("src", dict(RECIPE.tables), before="from-state")])
@pytest.mark.parametrize("after", [None, [1], 7, "gone"])
@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_row_that_is_none_is_no_record_of_the_connector(op: str, after: Any, recipe: Recipe) -> None:
    """Only a deletion comes without one: the topic, the partition and the offset are named."""
    with pytest.raises(DecodeError, match=r"at src.public.t\[1\]@17: after is .*, not the values of a row"):
        said(envelope(op, before=ROW, after=after), key={"id": 5}, recipe=recipe)


@pytest.mark.parametrize("recipe", [RECIPE, Recipe("src", dict(RECIPE.tables), before="from-state")])
@pytest.mark.parametrize("body", [
    envelope("d", before="gone"), envelope("d", before=[5]), envelope("d", before=7),
    envelope("c", after={**ROW, "raw": "\u00fc"}), envelope("u", before={**ROW, "raw": "\ud800"}, after=ROW),
])
def test_what_is_no_image_stops_at_its_transaction(body: dict[str, Any], recipe: Recipe) -> None:
    """Other JSON than an object in its place, other text than base64: a reason, and no mistake of ours."""
    assert "of public.t" in unfit(body, key={"id": 5}, recipe=recipe)[0]


def test_a_changed_row_in_the_snapshot_belongs_to_the_snapshot() -> None:
    """It has no transaction; it stops at once, unless the snapshot is long released."""
    fact = said(envelope("r", after={"id": 5}))
    assert isinstance(fact, UnfitRow)
    assert (None, 1040) == (fact.tx, fact.lsn)
    assert "in the snapshot" in fact.reason


@pytest.mark.parametrize("op, verb", [("u", "updated"), ("d", "deleted")])
def test_without_old_values_it_names_the_identity(op: str, verb: str) -> None:
    """REPLICA IDENTITY DEFAULT gives no old row for an update."""
    reason, remedy = unfit(envelope(op, after=ROW))
    assert f"a row of public.t was {verb} and its old values are not given" in reason
    assert "ALTER TABLE public.t REPLICA IDENTITY FULL" in remedy


@pytest.mark.parametrize("before", [
    {"id": 5, "name": None, "size": None, "raw": None},
    {"id": 5, "name": "", "size": 0, "raw": ""},
])
def test_a_delete_that_shows_only_its_key_is_refused(before: Any) -> None:
    """The record does not state that the other values are made up; it looks so, and guessing would be silent."""
    reason, remedy = unfit(envelope("d", before=before), key={"id": 5})
    assert "the only values given are its key's" in reason
    assert "REPLICA IDENTITY FULL" in remedy and "relreplident" in remedy


@pytest.mark.parametrize("value, believed", [
    ([["a"], {}], True), ([[], {"k": "v"}], True), ([[], {}], False), ([[""], None], True),
])
def test_a_delete_of_a_row_with_arrays_and_maps_is_judged_by_what_is_in_them(value: list[Any], believed: bool) -> None:
    """They cannot be looked up among what is made up, and what is in them was not."""
    tags, marks = {"type": "array", "items": "string"}, ["null", {"type": "map", "values": "string"}]
    recipe = Recipe("src", {TABLE: row_type(("id", "long"), ("tags", tags), ("marks", marks), ("name", "string"))})
    row = {"id": 5, "tags": value[0], "marks": value[1], "name": ""}
    fact = said(envelope("d", before=row), key={"id": 5}, recipe=recipe)

    assert believed == isinstance(fact, RowFact)


@pytest.mark.parametrize(
    "key, tables", [(None, ()), ({"id": 5, "name": "", "size": 0, "raw": ""}, ()), ({"id": 5}, (TABLE,))]
)
def test_a_delete_of_an_empty_row_is_believed_where_one_can(key: Any, tables: tuple[str, ...]) -> None:
    """Without a key only FULL permits deletes; a key of all columns is all there is; or one has looked."""
    checked = Recipe("src", dict(RECIPE.tables), full_identity=frozenset(tables))
    fact = said(envelope("d", before={"id": 5, "name": None, "size": None, "raw": None}), key=key, recipe=checked)
    assert isinstance(fact, RowFact)


@pytest.mark.parametrize("with_schema", [False, True])
def test_a_key_of_columns_called_schema_and_payload_is_a_key(with_schema: bool) -> None:
    """It looks like a payload with its schema beside it, and is none: its schema is a text."""
    names = ("schema", "payload", "note")
    recipe = Recipe("src", {TABLE: row_type(*((name, "string") for name in names))})
    key: dict[str, Any] = {"schema": "s", "payload": "p"}
    body = envelope("d", before={**key, "note": "n"})
    if with_schema:
        key = {"schema": {"type": "struct", "fields": []}, "payload": key}
    fact = said(body, key=key, recipe=recipe)
    kept = said(body, key=key, recipe=Recipe("src", dict(recipe.tables), before="from-state"))

    assert isinstance(fact, RowFact) and [-1] == [diff for _, diff in fact.changes]
    assert {"schema", "payload"} == set(kept.change.key.columns)


@pytest.mark.parametrize("column, value", [
    ("name", PLACEHOLDER), ("raw", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
])
def test_a_large_value_that_was_not_touched_is_refused(column: str, value: str) -> None:
    """The placeholder is no value; with FULL it does not occur."""
    reason, remedy = unfit(envelope("u", before=ROW, after={**ROW, column: value}))
    assert f"without its unchanged large value of '{column}'" in reason
    assert "REPLICA IDENTITY FULL" in remedy


@pytest.mark.parametrize("kind, given, value", [
    ("string", "{}", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
    (array("string"), ["a"], [PLACEHOLDER]),
    (array("bytes"), ["YQ=="], [base64.b64encode(PLACEHOLDER.encode()).decode()]),
    (array("int"), [1], list(PLACEHOLDER.encode())), (array("long"), [1], list(PLACEHOLDER.encode())),
    # java.util.UUID.nameUUIDFromBytes of the placeholder.
    (array("string"), ["u"], ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    ({"type": "map", "values": ["null", "string"]}, {}, {PLACEHOLDER: PLACEHOLDER}),
], ids=["hstore", "text[]", "bytea[]", "integer[]", "bigint[]", "uuid[]", "hstore as map"])
@pytest.mark.parametrize("optional", [False, True])
def test_a_large_value_that_was_not_touched_is_refused_in_every_type(
    kind: Any, given: Any, value: Any, optional: bool
) -> None:
    """Each type has a placeholder of its own; what only resembles one is a value. From state it is left out."""
    types = {TABLE: row_type(("id", "long"), ("large", ["null", kind] if optional else kind))}
    old, new = {"id": 5, "large": given}, {"id": 5, "large": value}
    alike = [value * 2 if isinstance(value, (str, list)) else {**value, "more": "x"}, given]

    reason, _ = unfit(envelope("u", before=old, after=new), recipe=Recipe("src", types))
    kept = said(envelope("u", before=old, after=new), key={"id": 5}, recipe=Recipe("src", types, before="from-state"))

    assert f"a row of {TABLE} comes without its unchanged large value of 'large', in transaction 757" == reason
    assert ("id",) == kept.change.new.columns
    for like in alike:
        after = {"id": 5, "large": like}
        assert isinstance(said(envelope("u", before=old, after=after), recipe=Recipe("src", types)), RowFact)


def test_a_row_without_a_transaction_names_the_setting() -> None:
    """Without transaction metadata there are no commit times."""
    fact = said(envelope(after=ROW, transaction=None))
    assert isinstance(fact, UnfitRow)
    assert (None, None) == (fact.tx, fact.lsn)
    assert "provide.transaction.metadata=true" in fact.remedy


def test_an_incremental_snapshot_is_refused() -> None:
    """It mixes rows into the stream by watermarks of its own."""
    reason, remedy = unfit(envelope("r", after=ROW, source={"snapshot": "incremental"}))
    assert "an incremental snapshot of public.t" in reason
    assert "start over" in remedy


def test_an_infinite_date_in_an_array_is_that_of_the_stream() -> None:
    """As one that stands alone; what is no number is left to the row type."""
    dates = {"type": "array", "items": {"type": "date"}}
    kind = {"type": "array", "items": ["null", "int"]}
    field = {"name": "days", "type": kind, "cdcv2.source": dates}
    row_type = RowType({"type": "record", "name": "t", "fields": [field]})
    image = {"days": [-622191234, None, 5, -625821272]}
    assert row_type.row({"days": [2146033979, None, 5, -2147472691]}) == ImageReader(row_type).read(image, "public.t")


def sourced(kind: Any, source: dict[str, Any]) -> RowType:
    """A row type of one column of a source's type, which may be null."""
    return RowType({"type": "record", "name": "t", "fields": [
        {"name": "v", "type": ["null", kind], "cdcv2.source": source},
    ]})  # fmt: skip


TEXTS, NUMBERS = ({"type": "array", "items": ["null", one]} for one in ("string", "long"))


@pytest.mark.parametrize(("kind", "source", "value", "shown"), [
    ("long", {"type": "timestamp"}, -9223372036853775810, "-9223372036853775810 for a value of the type timestamp"),
    ("long", {"type": "timestamp"}, -210866803200000001, "of the type timestamp"),
    ("long", {"type": "timestamp", "precision": 3}, 9224318016000000, "of the type timestamp"),
    ("long", {"type": "timestamp", "precision": 0}, -210866803200001, "of the type timestamp"),
    ("int", {"type": "date"}, -2440589, "of the type date"),
    ("int", {"type": "date"}, 2145042906, "of the type date"),
    ("long", {"type": "interval"}, 2**63 - 1, "9223372036854775807 for a value of the type interval"),
    ("long", {"type": "interval"}, -(2**63), "of the type interval"),
    (NUMBERS, {"type": "array", "items": {"type": "timestamp"}}, [0, -9223372036853775810], "of the type timestamp"),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, ["[Ljava.lang.String;@44bcaad4", "[Ljava.lang.String;@b3"],
     "'[Ljava.lang.String;@44bcaad4' for an element that is an array itself"),
    (TEXTS, {"type": "array", "items": {"type": "uuid"}}, ["[[Ljava.util.UUID;@1f9ad65d"], "that is an array itself"),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, ["[I@1f9ad65d"], "that is an array itself"),
])
def test_what_the_connector_makes_of_a_value_that_it_cannot_hold_stops(
    kind: Any, source: dict[str, Any], value: Any, shown: str
) -> None:
    """With the column, the value and the remedy, also as an old value, in a snapshot, and where rows come in parts."""
    kinds = {TABLE: sourced(kind, source)}
    image, none = {"v": value}, {"v": None}
    for before in ("from-envelope", "from-state"):
        recipe = Recipe("src", kinds, before=before, full_identity={TABLE})
        bodies = [envelope(after=image), envelope("u", before=image, after=none), envelope("r", after=image)]
        for body in bodies:
            reason, remedy = unfit(body, recipe=recipe)
            assert reason.startswith("the connector sent ") and "column 'v' of a row of public.t" in reason
            assert shown in reason
            assert "column.exclude.list" in remedy


@pytest.mark.parametrize(("kind", "source", "value"), [
    ("long", {"type": "timestamp"}, -210866803200000000), ("long", {"type": "timestamp"}, 2**63 - 1),
    ("long", {"type": "timestamp"}, -(2**63)), ("long", {"type": "timestamp", "precision": 3}, 9224318015999999),
    ("long", {"type": "timestamp", "precision": 3}, 9223372036825200000),
    ("long", {"type": "timestamp", "precision": 3}, -9223372036832400000),
    ("int", {"type": "date"}, -2440588), ("int", {"type": "date"}, 2145042905), ("int", {"type": "date"}, 2146033979),
    ("int", {"type": "date"}, -2147472691),
    ("long", {"type": "interval"}, 2**63 - 2), ("long", {"type": "interval"}, 1 - 2**63),
    ("long", {"type": "int8"}, -(2**63)),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, ["[Ljava.lang.String;@44bcaad4", "so Java prints an array"]),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, [None, "[Ljava.lang.String;@44bcaad4"]),
    (TEXTS, {"type": "array", "items": {"type": "int4range"}}, ["[1,5)"]),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, []),
    (TEXTS, {"type": "array", "items": {"type": "text"}}, None),
])
def test_the_first_and_last_values_of_a_type_are_values(kind: Any, source: dict[str, Any], value: Any) -> None:
    """Also its infinities, and text that only begins as an array that Java prints."""
    row_type = sourced(kind, source)
    assert row_type.row([value]) == ImageReader(row_type).read({"v": value}, TABLE)


# -- records that are none


@pytest.mark.parametrize("topic, value, reason", [
    (TOPIC, b"\x00\x00\x00\x00\x01", "no JSON"),
    (TOPIC, b"\x00\x00\x00\x00\x01\x00\x02", "these are Confluent Avro records (schema id 1)"),
    (TOPIC, b"\x00\x00\x00\x01\x01{}", "these are JSON behind a schema registry's header (schema id 257)"),
    (TOPIC, b"\x00\x00\x00\x00\x01\x00\x02", "set key.converter and value.converter"),
    (TOPIC, json.dumps(envelope(source={"connector": "mysql", "schema": None})).encode(),
     "it is of Debezium's connector for 'mysql', and only that for 'postgresql' is understood"),
    (TOPIC, json.dumps(envelope(after=ROW, source={"connector": "oracle"})).encode(), "connector for 'oracle'"),
    ("src.transaction", b'{"status": "BEGIN", "id": "file=bin.000003,pos=154"}', "not txId:LSN as Debezium"),
    (TOPIC, b"\xff\xfe", "no JSON"),
    (TOPIC, b"{", "no JSON"),
    (TOPIC, b"[" * 100_000, "no JSON"),
    (TOPIC, b"[1]", "the JSON is a list"),
    (TOPIC, b'{"schema": {"type": "struct"}, "payload": null}', "the JSON is a NoneType"),
    (TOPIC, b'{"id": 5}', "an envelope has op and source"),
    (TOPIC, json.dumps(envelope("x")).encode(), "op is 'x'"),
    (TOPIC, json.dumps(envelope(source={"table": "u"})).encode(), "it is of table public.u of src, in the topic"),
    (TOPIC, json.dumps(envelope(source={"name": "other"})).encode(), "it is of table public.t of other, in the topic"),
    (TOPIC, json.dumps(envelope(after=ROW, source={"txId": "757"})).encode(), "txId is '757', not an integer"),
    (TOPIC, json.dumps(envelope(after=ROW, source={"sequence": None})).encode(), "source.sequence is None"),
    (TOPIC, json.dumps(envelope(after=ROW, source={"sequence": '["a","b"]'})).encode(), "source.sequence is"),
    *((TOPIC, json.dumps(envelope(after=ROW, source={"sequence": f'[{first},"1"]'})).encode(),
       f"""source.sequence is '[{first},"1"]', and {named} is no LSN""")
      for first, named in (('"-5"', "-5"), ("-5", "-5"), ("1.9", "1.9"), ("1e999", "inf"), ("true", "True"),
                           (f'"{2**63 - 1}"', f"{2**63 - 1}"))),
    (TOPIC, json.dumps(envelope(after=ROW, transaction={"total_order": 0, "data_collection_order": 1})).encode(),
     "order numbers count from 1"),
    ("src.transaction", b'{"status": "END", "id": "757"}', "the transaction's id is '757'"),
    ("src.transaction", b'{"status": "OPEN", "id": "757:5"}', "the transaction's status is 'OPEN'"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "data_collections": [5]}', "5 is no count"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "data_collections": 7}',
     "data_collections is 7, not a list"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "data_collections": '
                        b'[{"data_collection": "public.t", "event_count": -3}]}', "event_count of public.t is -3"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "event_count": 4, "data_collections": '
                        b'[{"data_collection": "public.t", "event_count": 3}]}',
     "event_count is 4, and its data_collections count 3"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "event_count": 4, "data_collections": null}',
     "event_count is 4, and its data_collections count 0"),
    ("src.transaction", b'{"status": "END", "id": "757:5", "event_count": "0"}', "event_count is '0', not an integer"),
    ("src.transaction", b'{"status": "END", "id": "757:-5"}', "the LSN -5 is none"),
    ("src.transaction", b'{"status": "END", "id": "757:9223372036854775807"}', "the LSN 9223372036854775807 is none"),
    (TOPIC, json.dumps(envelope("r", after=ROW, source={"lsn": -1})).encode(), "the LSN -1 is none"),
    ("notes", b'{"aggregate_type": "Initial Snapshot"}', "a notification has type"),
    ("notes", b'{"type": "COMPLETED", "aggregate_type": "Initial Snapshot", "additional_data":'
              b' {"total_rows_scanned": "many"}}', "total_rows_scanned is 'many'"),
])
def test_a_foreign_record_is_named_with_its_place(topic: str, value: bytes, reason: str) -> None:
    """Topic, partition and offset: somebody has to go and look."""
    with pytest.raises(DecodeError) as caught:
        RECIPE.fact(Record(topic, 1, 17, None, value))
    assert reason in str(caught.value)
    assert f"{topic}[1]@17" in str(caught.value)
    assert value == caught.value.raw


def test_a_foreign_key_is_named_too() -> None:
    """A delete needs it, to see whether its old row is whole."""
    value = json.dumps(envelope("d", before=ROW)).encode()
    with pytest.raises(DecodeError, match="^not a record of the connector at .*: its key is no JSON"):
        RECIPE.fact(Record(TOPIC, 1, 17, b"\x00", value))


# -- the recipe


@pytest.mark.parametrize("wrong, text", [
    ({"prefix": ""}, "names nothing"),
    ({"tables": {}}, "at least one table"),
    ({"tables": {"t": row_type(*FIELDS)}}, "write public.t"),
    ({"snapshot": "always"}, "'initial' or 'none'"),
    ({"full_identity": frozenset({"public.u"})}, "full_identity names public.u"),
    ({"tables": {"public.a b": row_type(*FIELDS), "public.a-b": row_type(*FIELDS), "public.a_b": row_type(*FIELDS)}},
     "one topic"),
])
def test_a_wrong_recipe_is_refused(wrong: dict[str, Any], text: str) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError, match=text):
        Recipe(**{"prefix": "src", "tables": dict(RECIPE.tables), **wrong})


def test_a_recipe_knows_its_topics_and_travels() -> None:
    """It goes to other processes with its row types."""
    assert ["src.transaction", "notes", TOPIC] == RECIPE.topics()
    assert "src.public.a_b" == Recipe("src", {"public.a b": row_type(*FIELDS)}).topic("public.a b")
    travelled = pickle.loads(pickle.dumps(RECIPE))
    assert RECIPE == travelled
    assert said(envelope(after=ROW)) == said(envelope(after=ROW), recipe=travelled)


# -- what was recorded


@pytest.mark.parametrize("run, rows", [("clean_full", 2878), ("crash_full", 9358)])
def test_every_recorded_row_is_understood(run: str, rows: int) -> None:
    """No row of the recorded runs is unfit, and none is passed over."""
    said_by = [fact for entries in facts(run).values() for _, fact in entries]
    assert not [fact for fact in said_by if isinstance(fact, UnfitRow)]
    assert rows == sum(isinstance(fact, RowFact) for fact in said_by)
    assert 2 == sum(isinstance(fact, Truncate) for fact in said_by)
    whys = {fact.why for fact in said_by if isinstance(fact, IgnoredRecord)}
    assert {"tombstone", "topic of no captured table"} == whys


def test_every_update_with_default_identity_is_refused() -> None:
    """1613 updates without an old row, but for those of the table that has FULL."""
    how = recipe("clean_default")
    facts_of = [how.fact(record) for record in dump("clean_default").read()]
    refused = [fact for fact in facts_of if isinstance(fact, UnfitRow)]
    assert all("REPLICA IDENTITY FULL" in fact.remedy for fact in refused)
    whole = {fact.table for fact in facts_of if isinstance(fact, RowFact) and fact.op in "ud"}
    assert {"public.order_items"} == whole
    assert len(TABLES) - 2 == len({fact.table for fact in refused})
