"""A first try that failed holds up no corrected one in the same folder, which is begun by its first fact."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from cdcv2.capture.run.empty_directory import clear_empty
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run

TABLES = ("public.order_items", "public.orders")


def words(captured: Path, rows: Path, into: Path, *more: object) -> list[object]:
    """A capture of the recorded topics."""
    return ["capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", rows, "--into", into, *more]


def wrong_rows(captured: Path, folder: Path, table: str) -> Path:
    """Row types of which that of one table has a column that its rows have not."""
    shutil.copytree(captured / "rows", folder)
    plain = json.loads((folder / f"{table}.avsc").read_text("utf-8"))
    plain["fields"].append({"name": "colour", "type": "string"})
    (folder / f"{table}.avsc").write_text(json.dumps(plain), "utf-8")
    return folder


@pytest.mark.parametrize("wrong", TABLES)
def test_the_right_row_type_goes_where_a_wrong_one_failed(
    run: Run, captured: Path, tmp_path: Path, wrong: str
) -> None:
    """Whether its table's record is the first one or not; the logs are those of a capture into an empty folder."""
    rows = wrong_rows(captured, tmp_path / "rows", wrong)
    into = tmp_path / "logs"
    first = run(*words(captured, rows, into, "--tables", ",".join(TABLES)))
    second = run(*words(captured, captured / "rows", into))

    assert (4, True) == (first.code, "colour" in first.err)
    assert 0 == second.code, second.err
    assert 0 == run("verify", into).code
    shown = [run("as-of", folder, "--table", wrong).out for folder in (into, captured / "logs")]
    assert shown[0] == shown[1] != ""


def test_an_option_that_was_forgotten_may_be_given(run: Run, captured: Path, tmp_path: Path) -> None:
    """One table alone never sees the snapshot's last row; with all of them it does."""
    into = tmp_path / "logs"
    first = run(*words(captured, captured / "rows", into, "--tables", "public.orders"))
    second = run(*words(captured, captured / "rows", into, "--tables", ",".join(TABLES)))
    third = run(*words(captured, captured / "rows", into))

    assert (1, 0) == (first.code, second.code)
    # Now there are facts: another capture has no place there.
    assert (4, True) == (third.code, "holds another capture, with --tables" in third.err)


def test_a_stop_does_not_go_away_with_the_option_that_shows_it(run: Run, captured: Path, tmp_path: Path) -> None:
    """The connector began its snapshot twice, and only its notifications show that."""
    rows, into, dump = captured / "rows", tmp_path / "logs", tmp_path / "twice.jsonl"
    text = gzip.decompress((captured / "topics.jsonl.gz").read_bytes()).decode()
    notes = [
        json.dumps({"topic": "notes", "partition": 0, "offset": at, "key": None, "value": json.dumps({
            "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {}})}) for at in range(2)
    ]
    dump.write_text("\n".join([*notes, text]), "utf-8")
    more = ["capture", dump, "--prefix", "clean_full", "--rows", rows, "--into", into]
    stopped = run(*more, "--notifications", "notes")
    left_out = run(*more)

    assert 4 == stopped.code and "began its snapshot twice" in stopped.err
    assert 4 == left_out.code and "with --notifications, and not without --notifications" in left_out.err
    assert stopped == run(*more, "--notifications", "notes")


def test_a_remap_is_not_begun_with_a_row_type_that_does_not_fit(run: Run, captured: Path, tmp_path: Path) -> None:
    """Nor are its logs; the corrected try takes the same places."""
    rows = wrong_rows(captured, tmp_path / "rows", "public.orders")
    more = ["--remap", tmp_path / "remap", "--snapshot", "none", "--ordering", "complete"]
    first = run(*words(captured, rows, tmp_path / "logs", *more))
    there = {path.name for path in tmp_path.iterdir()}
    second = run(*words(captured, captured / "rows", tmp_path / "logs", *more))

    assert (4, True, {"rows"}) == (first.code, "colour" in first.err, there)
    assert "colour" not in second.err and (tmp_path / "remap").exists()


def test_logs_of_another_remap_that_hold_nothing_make_room(run: Run, captured: Path, tmp_path: Path) -> None:
    """A remap whose first try bound nothing was thrown away: its logs are descriptions only."""
    kind = RowType.load(captured / "rows" / "public.orders.avsc")
    other = {"timeline": "another"}
    (tmp_path / CAPTURE_FILE).write_text(json.dumps({**other, "tables": ["public.orders"]}), "utf-8")

    with FolderInUse(tmp_path) as used:
        assert not clear_empty(used, other, {"public.orders": kind})
        with FolderInUse(tmp_path):
            assert not clear_empty(used, {"timeline": "ours"}, {})  # as another one runs, it may be his
        assert clear_empty(used, {"timeline": "ours"}, {"public.orders": kind})
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("left", ["fact", "memory", "damage", "note"])
def test_where_something_was_written_nothing_is_removed(
    run: Run, captured: Path, tmp_path: Path, left: str
) -> None:
    """A fact in a log, a state of missing facts, and what cannot be read stay, and are judged as they are."""
    into = tmp_path / "logs"
    shutil.copytree(captured / "logs", into)
    if left != "fact":
        for path in into.glob("*/*.avro"):
            path.unlink()
    if left == "damage":
        (into / "_memory.json").write_text("{", "utf-8")
    if left == "note":
        (into / CAPTURE_FILE).write_text("{", "utf-8")
    before = sorted(into.rglob("*"))

    with FolderInUse(into) as used:
        assert not clear_empty(used, {"prefix": "another"}, {})
    assert before == sorted(into.rglob("*"))


def test_a_topic_that_a_later_dump_lacks_is_named(run: Run, captured: Path, tmp_path: Path) -> None:
    """It was read before, and nothing new of it is known; no row is lost."""
    given = words(captured, captured / "rows", tmp_path / "logs")
    first = run(*given)
    lines = gzip.decompress((captured / "topics.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["topic"] != "clean_full.public.orders"]
    given[1] = tmp_path / "later.jsonl"
    given[1].write_text("".join(kept), "utf-8")
    second = run(*given)

    assert 0 == first.code == second.code and "the dump has no record" not in first.err
    assert "cdcv2 capture: the dump has no record of 'clean_full.public.orders' in partition 0, which was" in second.err
