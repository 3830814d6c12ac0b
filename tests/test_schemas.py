"""The published template agrees with the page beside it, and with Materialize's encoding."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
TEMPLATE: Any = fastavro.parse_schema(json.loads((FOLDER / "message.avsc").read_text("utf-8")))
PAGE = (FOLDER / "README.md").read_text("utf-8")

VECTORS: list[tuple[str, Any]] = [
    ("no updates", []),
    ("(5, 10) at 5, +1", [{"data": {"id": 5, "price": 10}, "time": 5, "diff": 1}]),
    ("(5, 10) at 6, -1", [{"data": {"id": 5, "price": 10}, "time": 6, "diff": -1}]),
    ("from 0 to 3: nothing", {"lower": [0], "upper": [3], "counts": []}),
    (
        "from 3 to 10: 1 at 4, 2 at 5, 1 at 6",
        {"lower": [3], "upper": [10], "counts": [{"time": t, "count": n} for t, n in ((4, 1), (5, 2), (6, 1))]},
    ),
    ("from 3 on: nothing ever", {"lower": [3], "upper": [], "counts": []}),
]


@pytest.mark.parametrize(("said", "message"), VECTORS, ids=[said for said, _ in VECTORS])
def test_the_page_shows_the_bytes_that_an_independent_encoder_writes(said: str, message: Any) -> None:
    """Who writes an encoder in another language compares with this table first."""
    (shown,) = re.findall(rf"^\| {re.escape(said)} \| `([0-9a-f ]+)` \|$", PAGE, re.MULTILINE)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, TEMPLATE, message)

    assert shown == written.getvalue().hex(" ")


def test_the_row_and_its_neighbours_have_the_names_that_readers_look_up() -> None:
    """A record that inherits another namespace is another type to every Avro reader."""
    named = set(re.findall(r"'name': '(com[^']+)'", str(TEMPLATE)))

    assert {f"com.materialize.cdc.{name}" for name in ("update", "data", "progress", "counts")} == named


def test_every_field_is_explained_on_the_page() -> None:
    """The schema's own `doc` is for tools; the page is for people."""
    update, progress = TEMPLATE[0]["items"], TEMPLATE[1]
    fields = {field["name"] for field in update["fields"] + progress["fields"]}

    assert set() == {name for name in fields if f"| `{name}` |" not in PAGE}
