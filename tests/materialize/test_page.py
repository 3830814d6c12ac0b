"""What docs/target-postgresql.md and docs/types.md state of a view's columns is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.materialize import Field
from cdcv2.materialize.protocol.messages import KINDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "target-postgresql.md").read_text("utf-8")


def kinds_in(page: str) -> list[list[str]]:
    """The cells of the table of kinds."""
    lines = page[page.index("| kind |"):].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_kind_and_its_type_is_in_the_table() -> None:
    """A kind that somebody adds is documented."""
    pytest.importorskip("psycopg")
    from cdcv2.materialize.targets.postgres.tables import TYPES, type_of

    cells = kinds_in(PAGE)
    said = {row[0].strip("`"): row[2].split("; ")[-1].strip("`") for row in cells}

    assert set(KINDS) == set(TYPES) == set(said)
    assert said == {kind: type_of(Field("c", kind)) for kind in KINDS}
    assert "numeric(12,2)" == type_of(Field("c", "decimal", precision=12, scale=2))


def test_every_kind_in_delta_and_in_a_lake() -> None:
    """The same, by what each of the two makes of a column."""
    deltalake = pytest.importorskip("deltalake")
    from cdcv2.materialize import Table
    from cdcv2.materialize.targets.delta.tables import schema_of

    cells = kinds_in((DOCS / "types.md").read_text("utf-8"))
    kinds = [row[0].strip("`") for row in cells]
    fields = tuple(Field(kind, kind, False, *((12, 2) if kind == "decimal" else ())) for kind in kinds)
    made = schema_of(Table("t", fields, ()))
    told = deltalake.Schema.from_arrow(made)

    assert set(KINDS) == {field.name for field in fields}
    assert [row[3].strip("`") for row in cells] == [str(one.type) for one in made]
    assert [row[2].strip("`") for row in cells] == [one.type.type for one in told.fields]
