"""Records of real connectors that were killed inside a transaction: what each way to capture makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from tests.cli.conftest import Run, Said

HOME = Path(__file__).parent.parent / "data" / "killed_connector"


def captured(run: Run, folder: Path, name: str, *more: object) -> Said:
    """The capture of one of them."""
    return run("capture", HOME / name / "topics.jsonl.gz", "--prefix", "p", "--rows", HOME / name / "rows", "--into",
               folder / "out", "--notifications", "p.notifications", *more)  # fmt: skip


def numbers(folder: Path) -> dict[str, int]:
    """How many rows each table has, by its log: they were only inserted."""
    return {
        table: sum(diff for batch in Iter(DirectoryLog(folder / "out" / table).read()) for _, _, diff in batch.updates)
        for table in ("public.k", "public.l")
    }


@pytest.mark.parametrize("more", [(), ("--remap", "remap"), ("--remap", "remap", "--bind-at-most", "1500")])
def test_rows_that_are_sent_again_with_another_sequence_are_the_same_rows(
    run: Run, tmp_path: Path, more: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Version 3.7.0 counts and numbers right after a restart; only `source.sequence` of the copies differs."""
    said = captured(run, tmp_path, "remap-false-stop", *(tmp_path / one if one == "remap" else one for one in more))

    assert 0 == said.code, said.err
    assert "older than Debezium" not in caplog.text
    assert {"public.k": 1430 + 20, "public.l": 2637 + 1} == numbers(tmp_path)


@pytest.mark.parametrize("name, more, words", [
    ("remap-wrong-exit0", (), "of public.k numbered 1, both with total_order 1, one at p.public.k[0]@771"),
    ("remap-wrong-exit0", ("--remap", "remap"), "two different rows of public.k numbered 1"),
    ("remap-wrong-exit0", ("--remap", "remap", "--bind-at-most", "40"), "two BEGINs, one directly after the other"),
    ("plain-half", (), "of public.k numbered 1, both with total_order 1, one at p.public.k[0]@309"),
    ("plain-half", ("--max-records", "1"), "two BEGINs, one directly after the other"),
    ("plain-half", ("--remap", "remap", "--bind-at-most", "40"), "two BEGINs, one directly after the other"),
])
def test_a_transaction_that_is_numbered_anew_is_never_released(
    run: Run, tmp_path: Path, name: str, more: tuple[str, ...], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before 3.7.0 END counts only what came after the restart: nothing of it is written, and the remedy is named."""
    asked = [tmp_path / one if one == "remap" else one for one in more]
    for _ in range(2):
        said = captured(run, tmp_path, name, *asked)
        assert 4 == said.code, said.out
        assert words in said.err and "transaction 760" in said.err
        assert "use Debezium 3.7.0 or later, and start over with a new snapshot" in said.err
        assert "the connector of p is older than Debezium 3.7.0" in caplog.text

    # All records are at one time where they are bound at once, and nothing is written of that.
    snapshot = {"public.k": 0, "public.l": 0} if asked[-1:] == [tmp_path / "remap"] else {"public.k": 20, "public.l": 1}
    assert snapshot == numbers(tmp_path), "the snapshot, and nothing else"
    assert any(snapshot.values()) == ("the logs are complete through " in said.err)
