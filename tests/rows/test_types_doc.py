"""The tables of docs/types.md are true: every row of them is tried."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import Schema

from cdcv2.materialize import ViewBinding
from cdcv2.materialize.targets.delta.tables import schema_of
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import PRIMITIVES
from cdcv2.rows.source_types import SourceType
from cdcv2.views.source_columns import kind_of
from tests import every_type

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "types.md").read_text("utf-8")


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, without the marks around code."""
    return [[cell.replace("` `", "").strip("`") for cell in cells] for cells in marked(first)]


def marked(first: str) -> list[list[str]]:
    """The same, with these marks. ``first`` may be several headings."""
    lines = TEXT.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |")) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" |")])
    return rows


VALUES = table("Avro type")


def row_type(kind: Any) -> RowType:
    """A row type of one column of the kind."""
    return RowType({"type": "record", "name": "t", "fields": [{"name": "c", "type": kind}]})


@pytest.mark.parametrize(("kind", "python", "plain", "raw", "spark"), VALUES)
def test_values_are_what_the_table_says(kind: str, python: str, plain: str, raw: str, spark: str) -> None:
    """In Python, in JSON, in bytes, and so from each to each; also behind null."""
    value = eval(python, {"float": float})
    for avro, head in [(json.loads(kind), ""), (["null", json.loads(kind)], "02"), ([json.loads(kind), "null"], "00")]:
        if kind == '"null"' and head:
            continue
        one = row_type(avro)
        row = one.row([value])

        if isinstance(value, (int, str, bytes)):
            assert (value, type(value)) == (row.c, type(row.c))
        assert bytes.fromhex(head + raw) == one.encode(row)
        assert json.loads(plain) == one.to_plain(row)["c"]
        assert row == one.from_plain({"c": json.loads(plain)}) == one.decode(bytes.fromhex(head + raw))


def test_every_type_is_in_the_table() -> None:
    """A type that somebody adds is documented."""
    kinds = [json.loads(row[0]) for row in VALUES]
    named = {kind if isinstance(kind, str) else kind["type"] for kind in kinds}

    assert PRIMITIVES | {"fixed", "enum", "array", "map", "record"} == named


@pytest.mark.parametrize(("kind", "python", "plain", "raw", "spark"), VALUES)
def test_types_on_spark_are_what_the_table_says(kind: str, python: str, plain: str, raw: str, spark: str) -> None:
    """As Spark itself prints them."""
    pytest.importorskip("pyspark")
    from cdcv2.errors import UsageError
    from cdcv2.spark.schema import spark_type

    try:
        (field,) = spark_type(row_type(json.loads(kind))).fields
    except UsageError:
        assert "not on Spark" == spark
    else:
        assert spark == field.dataType.simpleString()


@pytest.mark.integration
def test_types_of_postgresql_are_what_the_table_says() -> None:
    """A table with a column of each, described by a real PostgreSQL's catalogue."""
    from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres
    from cdcv2.servers.postgres import Postgres

    rows = table("PostgreSQL")
    columns = ", ".join(f"c{number} {row[0]}" for number, row in enumerate(rows))
    with Postgres() as server, server.connect(autocommit=True) as connection:
        connection.execute(every_type.TYPES)
        connection.execute(f"CREATE TABLE every_type ({columns})")
        fields = row_type_from_postgres(connection, "public.every_type")["fields"]

    assert [(row[0], ["null", json.loads(row[2])]) for row in rows] == [
        (row[0], field["type"]) for row, field in zip(rows, fields, strict=True)
    ]


def in_code(text: str) -> list[str]:
    """What is marked as code."""
    return re.findall(r"`([^`]+)`", text)


def test_every_type_that_arrives_in_a_target_is_tried() -> None:
    """The table that goes from a real PostgreSQL into every target has all of them, and no others."""
    page = {"integer": "the same"}
    for names, target, _ in marked("source | PostgreSQL"):
        page.update((name.partition("(")[0], target) for name in in_code(names))
    tried = {name: kind.type.removesuffix("[]").partition("(")[0] for name, kind in every_type.COLUMNS.items()}

    # The server of the tests has no values of xml; the enum and the domain are of the table's own.
    assert page.keys() - {"xml"} == set(tried.values()) - {"mood", "positive"}
    assert every_type.OTHERS == [
        name for name, kind in tried.items() if not page.get(kind, "the same").startswith("the same")
    ]


#: What the types of the page are, in the log and in the source.
_IN_FILES = {
    "numeric(p,s)": SourceType("numeric", precision=12, scale=2), "numeric": SourceType("numeric"),
    "smallint": SourceType("int2"),
}  # fmt: skip


def test_types_in_files_are_what_the_table_says() -> None:
    """As the schema of a Delta table has them."""
    found = {}
    for names, targets in marked("source | in Delta and in a lake"):
        left, right = in_code(names), in_code(targets)
        found.update(zip(left, right * len(left) if len(right) == 1 else right))
    assert {"numeric(p,s)", "money", "smallint", "timestamptz", "interval", "uuid"} <= found.keys()
    for name, target in found.items():
        source = _IN_FILES.get(name) or SourceType(name)
        made = RowType({"type": "record", "name": "t", "fields": [
            {"name": "id", "type": "int"}, {"name": "v", "type": kind_of(source), "cdcv2.source": source.to_plain()},
        ]})  # fmt: skip
        schema = Schema.from_arrow(schema_of(ViewBinding("t", made, "t", ("id",)).view().table))
        (column,) = [one for one in schema.fields if one.name == "v"]
        assert target.replace("p,s", "12,2") == column.type.type, name
