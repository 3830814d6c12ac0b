"""Row types from the schema inside the records, and from PostgreSQL's catalogue: the same, and right for the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cdcv2.capture.facts import Record, RowFact, SnapshotRow, UnfitRow
from cdcv2.connectors.debezium import postgres_catalogue
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.debezium.row_types import Avro, row_type_from_envelope, source_table, without_sources
from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError, UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import identity
from cdcv2.rows.source_types import SourceType
from tests.recorded import HOME, TABLES, dump

TYPES_T = """
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TYPE mood AS ENUM ('sad', 'glad');
    CREATE TABLE types_t (
      id int PRIMARY KEY, s text, big text, n numeric(12, 2), nbare numeric, f float8, b boolean NOT NULL DEFAULT true,
      d date, t time, ts timestamp, tz timestamptz, iv interval, j jsonb, arr int[], bin bytea, u uuid, e int4range,
      big8 bigint, c char(5));
    CREATE TABLE more (
      small smallint, real4 real, millis timestamp(3), clock time(0), zoned timetz, one bit(1), many bit(9),
      pos positive, state mood, texts text[], addr inet, doc xml, doubled int GENERATED ALWAYS AS (2) STORED,
      "unit price" money);
    CREATE TABLE odd (id int, place point);
"""


def row_types_in(records: Iterable[Record], prefix: str) -> dict[str, dict[str, Avro]]:
    """The row type of each table of the connector whose records carry schemas (``schemas.enable=true``), by table.

    Where they changed on the way, the first: a log begins with it. Records without a schema are passed over.
    """
    found: dict[str, dict[str, Avro]] = {}
    for record in records:
        if record.value is None or not record.topic.startswith(f"{prefix}.") or b'"schema"' not in record.value:
            continue
        try:
            body = parse_json(record.value)
        except ValueError:
            continue
        source = body.get("payload", {}).get("source") if isinstance(body, dict) and "payload" in body else None
        if isinstance(source, dict) and source.get("table"):
            table = source_table(source)
            if table not in found:
                found[table] = row_type_from_envelope(body["schema"], table)
    return found


def test_a_row_type_from_the_envelope_takes_every_recorded_row() -> None:
    """All types of the recording, snapshot and stream, infinities and decimals among them."""
    found = row_types_in(dump("edge", "topics_edgeall").read(), "edgeall")
    assert {"public.nopk", "public.types_t"} == found.keys()
    how = Recipe("edgeall", {table: RowType(schema) for table, schema in found.items()})
    facts = [how.fact(record) for record in dump("edge", "topics_edgeall").read()]
    refused = [fact.reason for fact in facts if isinstance(fact, UnfitRow)]
    # The run had REPLICA IDENTITY DEFAULT at first; later a column was added to each table, and one dropped.
    assert all("old values" in reason or "large value" in reason or "columns" in reason for reason in refused)
    assert any("'added' is new" in reason for reason in refused)
    rows = [row for fact in facts if isinstance(fact, RowFact) for row, _ in fact.changes]
    rows += [fact.row for fact in facts if isinstance(fact, SnapshotRow)]
    assert 15 < len(rows)
    first = next(row for row in rows if hasattr(row, "nbare") and row.nbare is not None)
    assert b"\xde\xad\xbe\xef" == first.bin
    assert (1, None, 3) == first.arr
    assert first.nbare.scale == 0


def test_its_fields_say_what_the_numbers_mean() -> None:
    """Days, micros, ISO text: an int alone does not show it."""
    schema = row_types_in(dump("edge", "topics_edgeall").read(), "edgeall")["public.types_t"]
    docs = {field["name"]: field.get("doc") for field in schema["fields"]}
    assert "days since 1970-01-01" == docs["d"]
    assert "microseconds since 1970-01-01 00:00, no time zone" == docs["ts"]
    assert {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2} == schema["fields"][3]["type"][1]


@pytest.mark.parametrize("schema, text", [
    ({}, "no struct 'after'"),
    ({"fields": [{"field": "after", "type": "struct", "fields": [{"field": "x", "type": "odd"}]}]}, "column 'x'"),
    ({"fields": [{"field": "after", "type": "struct", "fields": [{
        "field": "x", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"},
    }]}]}, "decimal.handling.mode=string"),
])
def test_a_schema_that_is_none_is_refused(schema: dict[str, Any], text: str) -> None:
    """With the column, and the setting that helps."""
    with pytest.raises(MalformedError, match=text):
        row_type_from_envelope(schema)


def test_maps_of_strings_become_maps() -> None:
    """hstore.handling.mode=map."""
    kind = {"field": "x", "type": "map", "keys": {"type": "string"}, "values": {"type": "string", "optional": True}}
    envelope = {"fields": [{"field": "after", "type": "struct", "fields": [kind]}]}
    (field,) = row_type_from_envelope(envelope)["fields"]
    assert {"type": "map", "values": ["null", "string"]} == field["type"]


# -- from PostgreSQL


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    """A PostgreSQL with tables of many types."""
    from cdcv2.servers.postgres import Postgres

    with Postgres() as server, server.connect(autocommit=True) as connected:
        connected.execute(TYPES_T)
        yield connected


@pytest.mark.integration
def test_the_catalogue_gives_what_the_records_have(connection: Any) -> None:
    """The same table, described by PostgreSQL and by the connector's schema: the same types but for decimals."""
    recorded = row_types_in(dump("edge", "topics_edgeall").read(), "edgeall")["public.types_t"]
    decimals = {"n", "nbare"}
    expected = [field for field in recorded["fields"] if field["name"] not in decimals]
    said = postgres_catalogue.row_type_from_postgres(connection, "public.types_t")["fields"]
    assert expected == [identity(field) | _doc(field) for field in said if field["name"] not in decimals]
    assert [["null", "string"]] * 2 == [field["type"] for field in said if field["name"] in decimals]


def _doc(field: dict[str, Any]) -> dict[str, Any]:
    return {"doc": field["doc"]} if "doc" in field else {}


@pytest.mark.integration
def test_the_catalogue_gives_the_source_types(connection: Any) -> None:
    """With their digits, lengths and elements; an enum by its name, a domain by what is underneath."""
    found = {}
    for table in ("public.types_t", "public.more"):
        row_type = RowType(postgres_catalogue.row_type_from_postgres(connection, table))
        found.update(zip(row_type.columns, row_type.sources))
    assert {
        "id": SourceType("int4"), "s": SourceType("text"), "n": SourceType("numeric", precision=12, scale=2),
        "nbare": SourceType("numeric"), "d": SourceType("date"), "tz": SourceType("timestamptz"),
        "arr": SourceType("array", items=SourceType("int4")), "c": SourceType("bpchar", length=5),
        "millis": SourceType("timestamp", precision=3), "clock": SourceType("time", precision=0),
        "many": SourceType("bit", length=9), "pos": SourceType("int4"), "unit price": SourceType("money"),
        "state": SourceType("enum", name="public.mood"),
    } == {name: found[name] for name in (
        "id", "s", "n", "nbare", "d", "tz", "arr", "c", "millis", "clock", "many", "pos", "unit price", "state"
    )}  # fmt: skip


#: What the connector 3.7 states of columns with ``datatype.propagate.source.type``: PostgreSQL's type; Connect's, its
#: semantic type, and the type, length and scale; for arrays those of the items.
STATED: list[tuple[str, tuple[str, str | None], tuple[str, ...], SourceType | None]] = [
    ("integer", ("int32", None), ("INT4", "10", "0"), SourceType("int4")),
    ("numeric(12,2)", ("string", None), ("NUMERIC", "12", "2"), SourceType("numeric", precision=12, scale=2)),
    ("numeric(5,-2)", ("string", None), ("NUMERIC", "5", "2046"), SourceType("numeric", precision=5, scale=-2)),
    ("numeric", ("string", None), ("NUMERIC", "0"), SourceType("numeric")),
    ("varchar(10)", ("string", None), ("VARCHAR", "10", "0"), SourceType("varchar", length=10)),
    ("varchar", ("string", None), ("VARCHAR", "2147483647", "0"), SourceType("varchar")),
    ("bit(9)", ("bytes", "io.debezium.data.Bits"), ("BIT", "9", "0"), SourceType("bit", length=9)),
    ("date", ("int32", "io.debezium.time.Date"), ("DATE", "13", "0"), SourceType("date")),
    ("time(3)", ("int32", "io.debezium.time.Time"), ("TIME", "12", "3"), SourceType("time", precision=3)),
    ("timestamp", ("int64", "io.debezium.time.MicroTimestamp"), ("TIMESTAMP", "29", "6"), SourceType("timestamp")),
    # time.precision.mode=connect: milliseconds, whatever the column has. Nothing may be made of them.
    ("timestamp", ("int64", "org.apache.kafka.connect.data.Timestamp"), ("TIMESTAMP", "29", "6"), None),
    ("timestamptz(3)", ("string", "io.debezium.time.ZonedTimestamp"), ("TIMESTAMPTZ", "32", "3"),
     SourceType("timestamptz", precision=3)),
    ("mood", ("string", "io.debezium.data.Enum"), ("MOOD", "2147483647", "0"), SourceType("enum")),
    ("numeric(10,2)[]", ("string", None), ("_NUMERIC", "10", "2"),
     SourceType("array", items=SourceType("numeric", precision=10, scale=2))),
    ("text", ("string", None), (), None),
]  # fmt: skip


@pytest.mark.parametrize(("postgresql", "kind", "stated", "expected"), STATED)
def test_the_envelope_gives_the_source_types_that_the_connector_states(
    postgresql: str, kind: tuple[str, str | None], stated: tuple[str, ...], expected: SourceType | None
) -> None:
    """As the catalogue does; nothing where it states nothing, or has other units than by its defaults."""
    inner: dict[str, Any] = {"type": kind[0], "optional": True} | ({"name": kind[1]} if kind[1] else {})
    column = {"type": "array", "items": inner, "optional": True} if postgresql.endswith("[]") else inner
    names = ("type", "length", "scale")
    column["parameters"] = {f"__debezium.source.column.{name}": one for name, one in zip(names, stated)}
    envelope = {"fields": [{"field": "after", "type": "struct", "fields": [{**column, "field": "c"}]}]}
    schema = row_type_from_envelope(envelope)

    assert (expected,) == RowType(schema).sources
    assert ([] if expected else ["c"]) == without_sources(schema)


@pytest.mark.integration
def test_types_that_the_recording_lacks(connection: Any) -> None:
    """Domains and enums by what is underneath; short times in millis; generated columns are left out."""
    schema = postgres_catalogue.row_type_from_postgres(connection, "public.more")
    types = {field["name"]: field["type"][1] for field in schema["fields"]}
    assert {
        "small": "int", "real4": "float", "millis": "long", "clock": "int", "zoned": "string", "one": "boolean",
        "many": "bytes", "pos": "int", "state": "string", "texts": {"type": "array", "items": ["null", "string"]},
        "addr": "string", "doc": "string", "unit_x0020_price": "string",
    } == types
    assert "without the generated columns doubled" in schema["doc"]
    assert ("small", "unit price") == (RowType(schema).columns[0], RowType(schema).columns[-1])


@pytest.mark.integration
def test_what_has_no_row_type_is_named(connection: Any) -> None:
    """Table or column, and what to do."""
    with pytest.raises(MalformedError, match="column 'place' has the type 'point'"):
        postgres_catalogue.row_type_from_postgres(connection, "public.odd")
    with pytest.raises(UsageError, match="no table 'public.nowhere'"):
        postgres_catalogue.row_type_from_postgres(connection, "public.nowhere")


@pytest.mark.integration
@pytest.mark.parametrize("kind", [
    "bit(3)[]", "varbit[]", "money[]", "interval[]", "name[]", "xml[]", "int4multirange[]", "positive[]", "bits",
    "name",
])
def test_a_type_that_does_not_arrive_has_no_row_type(kind: str, connection: Any) -> None:
    """The error names column and type, and the setting by which the column is left out."""
    shown = re.escape({"bit(3)[]": "bit[]", "bits": "bit[]"}.get(kind, kind))
    with connection.transaction(force_rollback=True):
        connection.execute(f"CREATE DOMAIN bits AS bit(3)[]; CREATE TABLE unsent (id int, v {kind})")
        with pytest.raises(MalformedError, match=f"column 'v' has the type '{shown}', .*column.exclude.list"):
            postgres_catalogue.row_type_from_postgres(connection, "public.unsent")


@pytest.mark.parametrize(("stated", "shown"), [("_BIT", "bit[]"), ("NAME", "name")])
def test_nor_has_it_one_in_an_envelope(stated: str, shown: str) -> None:
    """The schema there is that of bits, and of text."""
    column = {"field": "c", "type": "bytes", "parameters": {"__debezium.source.column.type": stated}}
    with pytest.raises(MalformedError, match=re.escape(f"column 'c' has the type '{shown}'")):
        row_type_from_envelope({"fields": [{"field": "after", "type": "struct", "fields": [column]}]})


@pytest.mark.integration
def test_identity_is_read_from_the_catalogue(connection: Any) -> None:
    """No record states it, and PostgreSQL does."""
    assert set() == postgres_catalogue.full_identity(connection, ["public.types_t", "public.more"])
    connection.execute("ALTER TABLE types_t REPLICA IDENTITY FULL")
    assert {"public.types_t"} == postgres_catalogue.full_identity(connection, ["public.types_t", "public.more"])


def test_the_row_types_that_ship_with_the_tests_are_plain() -> None:
    """Six tables; each schema is one that reads and writes as itself."""
    assert 6 == len(TABLES)
    for table, kind in TABLES.items():
        text = (HOME / "rows" / f"{table}.avsc").read_text()
        assert kind == RowType(json.loads(text))
