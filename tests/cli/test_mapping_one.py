"""A remap, logs and a TEMP that version 1 of the mapping wrote, with half a transaction: captures go on with them."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

from cdcv2.capture.facts import End, RowFact
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from tests.cli.conftest import Run
from tests.envelopes import value

GOLDEN = Path(__file__).parent.parent / "data" / "mapping_1"
A = "public.a"


def row(number: int, seq: int) -> RowFact:
    """A row of transaction 7; number 2 is in TEMP, of which version 1 did not write that number."""
    return RowFact(A, 7, number, number, seq, "c", ((f"row 7.{number}", 1),), Position(f"p.{A}", 0, 0))


def test_it_asks_for_a_proposal_and_goes_on_with_what_was_open(run: Run, tmp_path: Path) -> None:
    """The row in TEMP comes again with its number, and another `source.sequence`: it is the same row."""
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    later = {(f"p.{A}", 0): [row(2, 60), row(1, 50)], ("p.transaction", 0): [End(7, 90, {A: 2})]}
    first = (tmp_path / "first.jsonl").read_text("utf-8")
    lines = [
        {"topic": topic, "partition": part, "offset": offset, "value": value(fact, "p").decode()}
        for (topic, part), facts in later.items() for offset, fact in enumerate(facts, 2 if "public" in topic else 1)
    ]
    (tmp_path / "all.jsonl").write_text(first + "".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    words = ["capture", tmp_path / "all.jsonl", "--remap", tmp_path / "remap", "--rows", tmp_path / "rows", "--prefix",
             "p", "--snapshot", "none", "--into", tmp_path / "logs"]  # fmt: skip
    said = run(*words)
    assert 4 == said.code and "the mapping is version 2, bound 1" in said.err, said.err
    once = shlex.join(["cdcv2", *map(str, words), "--propose-recipe"])
    assert said.err.endswith(f"propose this one with --propose-recipe: start, once: {once}\n"), said.err
    said = run(*shlex.split(once)[1:])
    assert 0 == said.code, said.err

    updates = [update for batch in Iter(DirectoryLog(tmp_path / "logs" / A).read()) for update in batch.updates]
    assert ["row 5.1", "row 7.1", "row 7.2"] == sorted(data.text for data, _, _ in updates)
