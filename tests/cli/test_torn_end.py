"""An END that counts fewer rows than came: every way to capture stops before the transaction is released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.capture.facts import End, Fact, RowFact
from cdcv2.protocol.log import Position
from tests.cli.conftest import Run
from tests.envelopes import value

A = "public.a"


def row(tx: int, number: int, seq: int | None) -> RowFact:
    """A row that identifies itself."""
    text = f"row {tx}.{number}"
    return RowFact(A, tx, number, number, seq, "c", ((text, 1),), Position(f"p.{A}", 0, 0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump in which END of transaction 7 counts 1 of its 2 rows, and a row type."""
    partitions: dict[tuple[str, int], list[Fact]] = {
        (f"p.{A}", 0): [row(7, 2, 50)],
        (f"p.{A}", 1): [*(row(5, number, None) for number in (1, 2, 3)), row(7, 1, 50)],
        ("p.transaction", 0): [End(5, 50, {A: 3}), End(7, 90, {A: 1}), End(8, 120, {})],
    }
    lines = [
        {"topic": topic, "partition": part, "offset": offset, "value": value(fact, "p").decode()}
        for (topic, part), facts in partitions.items() for offset, fact in enumerate(facts)
    ]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (tmp_path / "rows").mkdir()
    text = {"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]}
    (tmp_path / "rows" / f"{A}.avsc").write_text(json.dumps(text), "utf-8")
    return tmp_path


@pytest.mark.parametrize("more", [
    (), ("--max-records", "1"), ("--remap",), ("--remap", "--bind-at-most", "3"), ("--remap", "--bind-at-most", "1"),
    ("--remap", "--bind-at-most", "3", "--ordering", "complete"),
    ("--remap", "--bind-at-most", "1", "--ordering", "complete"),
])  # fmt: skip
def test_a_row_that_end_does_not_count_stops_it(run: Run, folder: Path, more: tuple[str, ...]) -> None:
    """However bindings are cut, in either ordering; and so does the next run."""
    words = [word for one in more for word in ((one, folder / "remap") if one == "--remap" else (one,))]
    for _ in range(2):
        said = run("capture", folder / "dump.jsonl", "--rows", folder / "rows", "--prefix", "p", "--snapshot", "none",
                   "--into", folder / "logs", *words)  # fmt: skip

        assert 4 == said.code, said.out
        assert "transaction 7 has " in said.err
        assert f"rows of {A}, numbered up to 2, but its END 90 counts 1" in said.err
