"""The tables of docs/types.md are true: every row of them is tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.wire.rows import RowType
from cdcv2.wire.schema import PRIMITIVES

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "types.md").read_text("utf-8")


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, without the marks around code."""
    lines = TEXT.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |")) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("` `", "").strip("`") for cell in line.strip("|").split(" |")])
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
    from cdcv2.embedded.postgres import Postgres
    from cdcv2.sources.postgres import row_type_from_postgres

    rows = table("PostgreSQL")
    columns = ", ".join(f"c{number} {row[0]}" for number, row in enumerate(rows))
    with Postgres() as server, server.connect(autocommit=True) as connection:
        connection.execute(f"CREATE TABLE every_type ({columns})")
        fields = row_type_from_postgres(connection, "public.every_type")["fields"]

    assert [(row[0], ["null", json.loads(row[2])]) for row in rows] == [
        (row[0], field["type"]) for row, field in zip(rows, fields, strict=True)
    ]
