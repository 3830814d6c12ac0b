"""``cdcv2 replay --lake``: a history as Parquet files, which a later run continues, and one of Spark, too."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints, read_lake
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MissingLogError
from cdcv2.event_stream import read_events
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.history_output import HistoryFolder
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.columns import UpdateBatch
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from cdcv2.views.identity import Provenance
from tests.children import CDCV2
from tests.cli.conftest import HISTORY, Run, write
from tests.golden.output import BATCHES, GOLDEN, TABLES, WIDE


def rows(lake: Path, at: int | None = None, table: str = "prices") -> list[tuple[object, ...]]:
    """The rows of a table, each with how often it is there."""
    return sorted((tuple(row.values()) for row in read_lake(lake, table, at).to_pylist()), key=repr)


def upper_of(lake: Path) -> Antichain | None:
    """Up to where it is; None while there is none."""
    try:
        return open_lake(lake).frontier
    except MissingLogError:
        return None


ITEMS: dict[str, Any] = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}


def grown(folder: Path, upper: int, row_type: RowType | None = None) -> Path:
    """A log with a row for each time below ``upper``, which is written on in its place."""
    kind = row_type or RowType(ITEMS)
    with Writer(DirectoryLog(folder, kind, create=True)) as writer:
        writer.extend([(kind.row([time]), time, 1) for time in range(upper)])
        writer.advance([upper])
    return folder


def test_a_history_is_written_and_read_at_each_of_its_times(run: Run, prices: Path, tmp_path: Path) -> None:
    """As the logs have it, and complete as far as they are."""
    said = run("replay", prices, "--lake", tmp_path / "lake")

    assert (0, "complete through 9; 6 updates written\n", "") == said
    assert [(1, 10, "apple", 1), (2, None, "", 2)] == rows(tmp_path / "lake", 5)
    assert [(1, 12, "apple", 1), (2, None, "", 1), (3, 7, 'pl"um, ripe', 1)] == rows(tmp_path / "lake")


def test_a_later_run_goes_on_where_the_lake_is(run: Run, tmp_path: Path) -> None:
    """Also where the one before died behind any step of a batch; nothing is there twice, and nothing lacks."""
    log, lake = tmp_path / "items", tmp_path / "lake"
    for upper, step in ((3, None), (5, "output.after-files"), (7, "output.after-manifest"), (9, None)):
        grown(log, upper)
        if step is None:
            assert run("replay", log, "--lake", lake).code == 0
            continue
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
            run("replay", log, "--lake", lake)
    again = run("replay", log, "--lake", lake)

    assert again.out == "complete through 8; 0 updates written\n"
    assert [(number, 1) for number in range(9)] == rows(lake, table="items")
    parts = open_lake(lake).manifest.parts["items"]
    # The file of the run that died before its manifest was removed by the next.
    assert len(list((lake / "items").iterdir())) == len(parts) == 3


def test_a_finished_history_is_closed_and_stays_so(run: Run, tmp_path: Path) -> None:
    """Then nothing can come any more; a job that reports so is not started again."""
    log = write(tmp_path / "prices", *HISTORY, Progress([10], [], {}))
    codes = [run("replay", log, "--lake", tmp_path / "lake", "--follow", "--events", tmp_path / "events").code
             for _ in range(2)]

    assert [0, 0] == codes and open_lake(tmp_path / "lake").frontier == Antichain()
    assert [[], []] == [one["frontier"] for one in read_events(tmp_path / "events") if one["event"] == "end"]


def test_columns_of_every_type_are_as_spark_writes_them(run: Run, tmp_path: Path) -> None:
    """Names that Avro cannot have, rows in rows, NaN: the lake has what one that Spark wrote has, file by file."""
    log = DirectoryLog(tmp_path / "wide", WIDE, create=True, description=LogDescription(timeline="x"))
    with Writer(log) as writer:
        for upper, batch in enumerate(BATCHES, 1):
            writer.extend([(WIDE.row(row), time, diff) for row, time, diff in batch.get("wide", ())])
            writer.advance([upper])
    assert run("replay", tmp_path / "wide", "--lake", tmp_path / "lake").code == 0
    ours, theirs = (read_lake(place, "wide", 2) for place in (tmp_path / "lake", GOLDEN))

    assert ours.schema == theirs.schema and repr(ours.to_pylist()) == repr(theirs.to_pylist())
    assert ours.num_rows == 3


def test_a_lake_that_spark_wrote_is_continued(tmp_path: Path) -> None:
    """With the rows in both its old and its new files."""
    lake = Path(shutil.copytree(GOLDEN, tmp_path / "lake"))
    before = open_lake(lake).manifest
    output = HistoryFolder(lake, TABLES, before.start, before.coverage)
    output.apply({"plain": [(TABLES["plain"].row([8]), 6, 1)]}, output.upper, Antichain([7]))

    assert [(7, 1), (8, 1)] == rows(lake, table="plain")
    assert UpdateBatch.of(WIDE, []) is not None and read_lake(lake, "wide", 4).num_rows == 2


@pytest.mark.parametrize(("words", "code", "text"), [
    (["--lake", "lake", "--output", "x"], 2, "--lake and --output: the history goes into the lake, or is printed"),
    (["--follow"], 2, "--follow goes with --lake"),
    (["--lake", "lake", "--json"], 2, "not allowed with argument"),
    (["--lake", "lake", "--start", "1"], 4, "begins at [0], not at [1]"),
])
def test_what_does_not_go_together_is_refused(
    words: list[str], code: int, text: str, run: Run, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake has one start, and nothing is printed beside it."""
    monkeypatch.chdir(tmp_path)
    assert run("replay", prices, "--lake", "lake").code == 0
    said = run("replay", prices, *words)

    assert said.code == code and text in said.err


def test_other_logs_than_it_was_made_of_are_refused(run: Run, prices: Path, tmp_path: Path) -> None:
    """Of the same table and the same types: their times have nothing to do with each other."""
    other = write(tmp_path / "other" / "prices", *HISTORY, Updates([]), Progress([10], [12], {}))
    assert run("replay", prices, "--lake", tmp_path / "lake").code == 0
    said = run("replay", other, "--lake", tmp_path / "lake")

    assert said.code == 4 and "was made of another log 'prices'" in said.err
    assert "Give it the logs that it was made of; or write into another folder" in said.err


def test_a_log_that_was_made_again_is_refused_when_its_first_rows_come(run: Run, tmp_path: Path) -> None:
    """It is empty when the replay starts: nothing is read then, and what comes later is of another history."""
    log, lake = grown(tmp_path / "items", 2), tmp_path / "lake"
    assert run("replay", log, "--lake", lake).code == 0
    shutil.rmtree(log)
    DirectoryLog(log, RowType(ITEMS), create=True)
    words = ["replay", str(log), "--lake", str(lake), "--follow", "--events", str(tmp_path / "events")]
    with subprocess.Popen([*CDCV2, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert poll_until(lambda: (tmp_path / "events").exists() and read_events(tmp_path / "events"), 60)
            grown(log, 5)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == 4 and "was made of another log 'items'" in err
    assert [(0, 1), (1, 1)] == rows(lake, table="items")


def test_the_output_asks_of_which_logs_before_each_batch(tmp_path: Path) -> None:
    """Whichever writer it is; what stands there of another reader stays."""
    row_type = RowType(ITEMS)
    first, other = (Provenance("x", {"items": [name]}) for name in ("7f", "0c"))
    for words in ({"bookmarks": {}}, {}):
        output = HistoryFolder(tmp_path / "lake", {"items": row_type}, Antichain([0]), made_of=lambda: first)
        (upper,) = output.upper
        output.apply({"items": [(row_type.row([upper]), upper, 1)]}, output.upper, Antichain([upper + 1]), words)
    assert output.reader == {"bookmarks": {}, "timeline": "x", "logs": {"items": ["7f"]}}
    output = HistoryFolder(tmp_path / "lake", {"items": row_type}, Antichain([0]), made_of=lambda: other)

    with pytest.raises(ForeignStateError, match="was made of another log 'items': of 7f, and it is 0c now"):
        output.apply({"items": [(row_type.row([2]), 2, 1)]}, output.upper, Antichain([3]))
    assert [(0, 1), (1, 1)] == rows(tmp_path / "lake", table="items")


def test_a_lake_of_an_earlier_release_takes_the_logs_that_come_first(run: Run, tmp_path: Path) -> None:
    """It does not state of which it was made; from then on it does."""
    log, lake, row_type = grown(tmp_path / "items", 3), tmp_path / "lake", RowType(ITEMS)
    output = HistoryFolder(lake, {"items": row_type}, Antichain([0]))
    output.apply({"items": [(row_type.row([0]), 0, 1)]}, output.upper, Antichain([1]))

    assert run("replay", log, "--lake", lake).code == 0 and len(rows(lake, table="items")) == 3
    assert open_lake(lake).manifest.reader["logs"].keys() == {"items"}
    assert run("replay", grown(tmp_path / "other" / "items", 5), "--lake", lake).code == 4


def test_who_is_refused_has_made_no_lake(run: Run, tmp_path: Path) -> None:
    """So another start may be tried there."""
    log = grown(tmp_path / "items", 5)
    early = run("replay", log, "--lake", tmp_path / "lake", "--start", "3")
    nothing = run("replay", log, "--lake", "")

    assert early.code != 0 and "before" in early.err and not (tmp_path / "lake").exists()
    assert nothing.code == 2 and "--lake '': a folder is wanted there" in nothing.err
    assert run("replay", log, "--lake", tmp_path / "lake").code == 0


def test_logs_that_end_before_the_lake_lack_something(run: Run, tmp_path: Path) -> None:
    """They lost their end: the lake stays as it is, and the run states it."""
    log = grown(tmp_path / "items", 3)
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    grown(log, 5)
    assert run("replay", log, "--lake", tmp_path / "lake").code == 0
    shutil.rmtree(log)
    copy.rename(log)
    said = run("replay", log, "--lake", tmp_path / "lake")

    assert said.code == 1 and "items is incomplete" in said.err
    assert len(rows(tmp_path / "lake", table="items")) == 5


def test_one_that_follows_writes_what_comes_until_a_signal_ends_it(tmp_path: Path) -> None:
    """SIGTERM, between two batches: what is reported as complete is in the lake."""
    log, lake, events = grown(tmp_path / "items", 2), tmp_path / "lake", tmp_path / "events"
    words = ["replay", str(log), "--lake", str(lake), "--follow", "--events", str(events)]
    with subprocess.Popen([*CDCV2, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert poll_until(lambda: upper_of(lake) == Antichain([2]), 60)
            grown(log, 4)
            assert poll_until(lambda: upper_of(lake) == Antichain([4]), 60)
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == 0 and out == "complete through 3; 4 updates written\n"
    assert read_events(events)[-1]["frontier"] == [4]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "null"},
        ["null", {"type": "map", "values": {"type": "map", "values": "null"}}],
        {"type": "array", "items": {"type": "record", "name": "r", "fields": [
            {"name": "a", "type": "int"}, {"name": "b", "type": "null"}]}},
        {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0},
    ],
)  # fmt: skip
def test_a_table_that_a_lake_cannot_hold_is_refused_before_there_is_one(run: Run, tmp_path: Path, kind: Any) -> None:
    """With the name of the table, and the way out; rows of a null are no matter."""
    held = RowType({**ITEMS, "fields": [*ITEMS["fields"], {"name": "none", "type": "null"}]})
    DirectoryLog(tmp_path / "held", held, create=True).close()
    wide = RowType({**ITEMS, "fields": [*ITEMS["fields"], {"name": "v", "type": kind}]})
    DirectoryLog(tmp_path / "wide", wide, create=True).close()
    said = run("replay", tmp_path / "held", tmp_path / "wide", "--timeline", "t", "--lake", tmp_path / "lake")

    assert (2, True) == (said.code, "wide: a lake cannot hold its rows" in said.err), said
    assert "Leave the table out" in said.err and not (tmp_path / "lake").exists()
    output = HistoryFolder(tmp_path / "other", {"held": held}, Antichain([0]))
    assert {"held": 1} == output.apply({"held": [(held.row([1, None]), 3, 1)]}, Antichain([0]), Antichain([4]))
