"""What docs/materialization.md says of types is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.materialize import Field
from cdcv2.materialize.messages import KINDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "materialization.md").read_text("utf-8")


def test_every_kind_and_its_type_is_in_the_table() -> None:
    """A kind that somebody adds is documented."""
    pytest.importorskip("psycopg")
    from cdcv2.materialize.drivers.postgres_tables import TYPES, type_of

    lines = PAGE[PAGE.index("| kind |"):].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    said = {row[0].strip("`"): row[2].split("; ")[-1].strip("`") for row in cells}

    assert set(KINDS) == set(TYPES) == set(said)
    assert said == {kind: type_of(Field("c", kind)) for kind in KINDS}
    assert "numeric(12,2)" == type_of(Field("c", "decimal", precision=12, scale=2))
