"""The demonstration without servers holds and prints its story, and it fails where something does not hold."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cdcv2.demo import small
from cdcv2.demo.mangled_copy import MangledCopy, describe
from cdcv2.demo.story import folder_of
from cdcv2.protocol.messages import Progress, Updates
from tests.children import CDCV2, started

RECORDED = Path(small.__file__).with_name("recorded")


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """A run: its exit code, and what it printed."""
    code = small.main(folder)
    return code, *capsys.readouterr()


def test_it_ends_well_twice_in_the_same_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step is printed, and every check holds; the second run starts over."""
    for _ in range(2):
        code, out, err = told(tmp_path / "demo", capsys)

        assert (0, "") == (code, err)
        assert 5 == sum(line[:2] in {f"{step}." for step in range(1, 6)} for line in out.splitlines())
        assert "NO " not in out
        for claim in (
            "cdcv2 capture exits 0", "it holds repeats, inversions and other bounds", "at each of 10 checkpoints",
            "no row was ever there less than zero times", "branches and history had one sum",
            "cdcv2 verify --full copies exits 0", "an update message removed: cdcv2 verify exits 1",
            "a diff changed in one of two copies: cdcv2 verify exits 3",
        ):  # fmt: skip
            assert claim in out


def test_it_fails_when_replay_gives_out_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proof that the comparison compares: a source that differs by one row."""
    at = small.RecordedTruth.at

    def differs(self: small.RecordedTruth, time: int) -> dict[str, Counter[Any]]:
        tables = at(self, time)
        tables["public.orders"][("nobody",)] += 1
        return tables

    monkeypatch.setattr(small.RecordedTruth, "at", differs)
    code, out, err = told(tmp_path / "demo", capsys)

    assert 1 == code
    assert "NO  all 6 tables equal the source" in out
    assert err.startswith("\nFAILED after") and str(tmp_path / "demo") in err


def test_it_fails_when_a_transaction_is_torn() -> None:
    """Replay that gave out one table before another would be seen by the sums."""
    row_types = {table: small.RowType.load(RECORDED / "rows" / f"{table}.avsc") for table in small.TABLES}
    replayed = small.ReplayOutput(row_types)
    teller, branch, history = (
        tuple(5 if column == small.SUMS[table] else None for column in row_types[table].columns) for table in small.SUMS
    )
    tables = dict(zip(small.SUMS, (teller, branch, history)))
    replayed.commit(1, [(table, row, 1) for table, row in tables.items()])
    assert [] == replayed.torn
    replayed.commit(2, [("public.pgbench_tellers", teller, 1)])
    replayed.commit(3, [("public.pgbench_tellers", teller, -3)])

    assert ([2, 3], [3]) == (replayed.torn, replayed.negative)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_it_ends_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    """By Ctrl-C or by SIGTERM, wherever it is: here at a step that it has just printed."""
    around = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(small.__file__).parents[2])}
    with started(*CDCV2, "demo", "--small", env=around, cwd=tmp_path) as process:
        assert process.stdout is not None
        while "1. Recorded" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        _, err = process.communicate(timeout=300)

    assert (130, True, False) == (process.returncode, "interrupted" in err, "Traceback" in err)


def test_what_is_shipped_is_what_was_recorded() -> None:
    """The beginning of each partition of the recorded set, record by record, up to where it is cut."""
    whole = Path(__file__).resolve().parents[1] / "data" / "debezium" / "clean_full" / "topics.jsonl.gz"

    def partitions(path: Path) -> dict[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                found.setdefault((record["topic"], record["partition"]), []).append(line)
        return found

    shipped, original = partitions(RECORDED / "topics.jsonl.gz"), partitions(whole)
    for place, records in shipped.items():
        assert records == original[place][:len(records)], place
    assert 5109 == sum(map(len, shipped.values()))


def test_a_mangled_copy_is_described_by_what_is_in_it() -> None:
    """Repeats, statements that step back, and bounds that the log does not have."""
    log = [Updates([("a", 1, 1), ("b", 1, 1)]), Progress([0], [2], {1: 2}), Progress([2], [5])]
    same, other = describe("same", log, log), describe("other", log, [
        Progress([3], [5]), log[0], Progress([0], [2], {1: 2}), Updates([("a", 1, 1)]), Progress([2], [3]), log[1],
    ])

    assert (MangledCopy("same", 3, 3, 0, 0, 0), False) == (same, same.thoroughly)
    assert (MangledCopy("other", 6, 3, 1, 2, 2), True) == (other, other.thoroughly)


def test_its_files_are_in_the_users_cache_outside_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left in the directory in which somebody happens to be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert tmp_path / "cache" / "cdcv2" / "demo-small" == folder_of("demo-small")
    monkeypatch.chdir(Path(small.__file__).parents[2])
    assert Path(".work/demo-small") == folder_of("demo-small")
