"""The edges of a snapshot, and stops that must not be forgotten: small dumps of one table, captured by the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Said

NOTIFIED = ("--notifications", "p.notifications")


def record(topic: str, part: int, offset: int, value: object, key: object = None) -> str:
    """A line of a dump."""
    return json.dumps({
        "topic": topic, "partition": part, "offset": offset, "key": None if key is None else json.dumps(key),
        "value": json.dumps(value),
    })  # fmt: skip


def row(part: int, offset: int, number: int, *, table: str = "t", op: str = "r", before: int = 100, **more: Any) -> str:
    """A row of a table: of the snapshot, or with a transaction in ``more``."""
    source = {
        "connector": "postgresql", "name": "p", "schema": "public", "table": table, "lsn": 100, "txId": 1,
        "snapshot": "true" if op == "r" else "false", "sequence": json.dumps([str(before), "100"]), **more,
    }  # fmt: skip
    transaction = source.pop("transaction", None)
    value = {
        "op": op, "before": None, "after": {"id": number, "v": 0}, "transaction": transaction, "source": source,
    }  # fmt: skip
    return record(f"p.public.{table}", part, offset, value, {"id": number})


def insert(part: int, offset: int, number: int, tx: int, order: int, before: int) -> str:
    """A row that is inserted by a transaction."""
    transaction = {"id": f"{tx}:1", "total_order": order, "data_collection_order": order}
    return row(part, offset, number, op="c", before=before, txId=tx, transaction=transaction)


def end(offset: int, tx: int, lsn: int, count: int) -> str:
    """The END of a transaction that has so many rows of the table t."""
    counts = [{"data_collection": "public.t", "event_count": count}]
    value = {"status": "END", "id": f"{tx}:{lsn}", "event_count": count, "data_collections": counts}
    return record("p.transaction", 0, offset, value)


def note(offset: int, kind: str, **more: object) -> str:
    """A notification about the snapshot."""
    value = {"aggregate_type": "Initial Snapshot", "type": kind, "additional_data": {"connector_name": "p", **more}}
    return record("p.notifications", 0, offset, value)


def scanned(offset: int, rows: int, table: str = "public.t") -> str:
    """So many rows of the table were scanned."""
    return note(offset, "TABLE_SCAN_COMPLETED", scanned_collection=table, total_rows_scanned=str(rows))


class Captures:
    """Captures dumps into one folder, and shows what its log then holds."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.logs = folder / "logs"

    def arrange_rows(self, tables: str) -> Path:
        """A folder with the row types of these tables."""
        rows = self.folder / "rows"
        rows.mkdir(exist_ok=True)
        for table in tables:
            fields = [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "int"]}]
            (rows / f"public.{table}.avsc").write_text(json.dumps({"type": "record", "name": table, "fields": fields}))
        return rows

    def __call__(self, dump: list[str], *more: str, tables: str = "t") -> Said:
        rows = self.arrange_rows(tables)
        (self.folder / "dump.jsonl").write_text("\n".join(dump) + "\n")
        return self.run(
            "capture", self.folder / "dump.jsonl", "--prefix", "p", "--rows", rows, "--into", self.logs, *more
        )

    def forget(self, memory: str) -> None:
        """Lose the memory, if it is lost."""
        if memory == "lost":
            (self.logs / "_memory.json").unlink(missing_ok=True)

    def same_stop(self, dump: list[str], *more: str) -> str:
        """Capture it with the state, without it, and from a dump that lost all but the ENDs: the text of each run."""
        said = [self(dump, *more)]
        self.forget("lost")
        said.append(self(dump, *more))
        self.forget("lost")
        said.append(self([line for line in dump if "p.transaction" in line], *more))
        assert [(4, said[0].err)] * 3 == [(one.code, one.err) for one in said]
        return said[0].err

    def held(self, table: str = "t") -> list[int]:
        """The rows that the log of the table comes to, by their ids; none where nothing is finished."""
        shown = self.run("as-of", self.logs, "--table", f"public.{table}")
        lines = shown.out.splitlines()[1:] if shown.code == 0 else []
        return sorted(int(line.partition(",")[0]) for line in lines)


@pytest.fixture
def capture(run: Run, tmp_path: Path) -> Captures:
    """Captures into a folder of the test's."""
    return Captures(run, tmp_path)


FIRST = {"snapshot": "first"}
LAST = {"snapshot": "last"}


def test_a_snapshot_that_was_begun_twice_stops_before_anything_is_written(capture: Captures) -> None:
    """A row of a transaction is in both: the slot was there when the second run began."""
    dump = [
        note(0, "STARTED"), note(1, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), scanned(2, 2),
        note(3, "COMPLETED"), insert(0, 2, 2, 5, 1, 100), end(0, 5, 120, 1),
    ]  # fmt: skip
    for _ in range(2):
        said = capture(dump, *NOTIFIED)
        assert (4, []) == (said.code, capture.held())
        assert "began its snapshot twice (notification STARTED at offset 1" in said.err


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_a_row_of_a_partition_that_was_empty_contradicts_what_was_assumed(capture: Captures, memory: str) -> None:
    """Without notifications: the row marked last was read, and every partition to where it ended."""
    first = [row(0, 0, 1, **FIRST), row(0, 1, 3, **LAST)]
    assert 0 == capture(first).code
    for _ in range(2):
        capture.forget(memory)
        said = capture([*first, row(1, 0, 2)])
        assert (4, [1, 3]) == (said.code, capture.held())
        assert "a row of the snapshot of public.t stands at p.public.t[1]@0" in said.err
        assert "with the connector's notification topic (--notifications)" in said.err


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_a_row_that_was_sent_twice_does_not_stand_for_another(capture: Captures, memory: str) -> None:
    """The counts agreed; the row that was on its way comes when the snapshot is released."""
    first = [
        note(0, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 1), row(0, 2, 3, **LAST), scanned(1, 3),
        note(2, "COMPLETED"),
    ]  # fmt: skip
    assert 0 == capture(first, *NOTIFIED).code
    for _ in range(2):
        capture.forget(memory)
        said = capture([*first, row(1, 0, 2)], *NOTIFIED)
        assert (4, [1, 1, 3]) == (said.code, capture.held())
        assert "none of the rows that were released: the logs are stated beyond it, and lack it" in said.err


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_rows_that_are_read_again_are_duplicates(capture: Captures, memory: str) -> None:
    """Also those of a partition that must be read from before them, for a transaction that is open."""
    first = [
        row(0, 0, 1, **FIRST), insert(1, 0, 7, 5, 1, 100), row(0, 1, 3, **LAST), insert(0, 2, 8, 5, 2, 100),
    ]  # fmt: skip
    assert 1 == capture(first, "--max-records", "1").code
    capture.forget(memory)
    said = capture([*first, end(0, 5, 120, 2)])
    assert (0, [1, 3, 7, 8]) == (said.code, capture.held()), said.err


def test_a_crash_between_the_statements_and_the_memory_makes_no_row_a_new_one(
    capture: Captures, tmp_path: Path
) -> None:
    """By the state the snapshot is not released, and the logs have it: what they hold is counted."""
    first = [note(0, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 3, **LAST), scanned(1, 2)]
    assert 1 == capture(first, *NOTIFIED).code
    shutil.copy(capture.logs / "_memory.json", tmp_path / "kept")
    assert 0 == capture([*first, note(2, "COMPLETED")], *NOTIFIED).code
    shutil.copy(tmp_path / "kept", capture.logs / "_memory.json")
    assert (0, [1, 3]) == (capture([*first, note(2, "COMPLETED")], *NOTIFIED).code, capture.held())
    shutil.copy(tmp_path / "kept", capture.logs / "_memory.json")
    said = capture([*first, note(2, "COMPLETED"), row(1, 0, 2)], *NOTIFIED)
    assert 4 == said.code and "stands at p.public.t[1]@0" in said.err


def test_rows_of_a_table_that_the_snapshot_did_not_scan_stop_it(capture: Captures) -> None:
    """Nothing states how many there are; when the others are released, they come too late."""
    late = row(0, 0, 7, table="u", **LAST)
    dump = [note(0, "STARTED"), row(0, 0, 1, **FIRST), scanned(1, 1), late, note(2, "COMPLETED")]
    said = capture(dump, *NOTIFIED, tables="tu")
    assert 4 == said.code and "do not state how many rows of public.u the snapshot scanned" in said.err
    assert [] == capture.held() == capture.held("u")
    shutil.rmtree(capture.logs)
    said = capture([*dump[:3], dump[4], late], *NOTIFIED, "--max-records", "1", tables="tu")
    assert 4 == said.code and "a row of the snapshot of public.u stands at p.public.u[0]@0" in said.err
    assert [] == capture.held("u")


@pytest.mark.parametrize("remap", [False, True])
@pytest.mark.parametrize(("scan", "reason"), [
    ({"total_rows_scanned": "1"}, "state that public.t was scanned, one with 2 rows and one, at offset 2, with 1."),
    ({"total_rows_scanned": "2", "status": "SQL_EXCEPTION"}, "at offset 2 has the status SQL_EXCEPTION)."),
    ({"status": "SUCCEEDED"}, "at offset 2, does not state how many rows it has (total_rows_scanned)."),
    ({"total_rows_scanned": "2", "status": "SUCCEEDED"}, None),
    ({"total_rows_scanned": "9", "status": "SQL_EXCEPTION", "scanned_collection": "public.x"}, None),
])  # fmt: skip
def test_a_scan_without_a_number_that_can_be_believed_stops_it(
    capture: Captures, tmp_path: Path, scan: dict[str, str], reason: str | None, remap: bool
) -> None:
    """Before anything is written; the same number twice is one, and tables that are not captured do not count."""
    again = note(2, "TABLE_SCAN_COMPLETED", **{"scanned_collection": "public.t", **scan})
    dump = [*BEGUN, note(0, "STARTED"), scanned(1, 2), again, note(3, "COMPLETED"), end(0, 5, 120, 0)]
    said = capture(dump, *NOTIFIED, *(("--remap", str(tmp_path / "remap")) if remap else ()))

    assert ((0, [1, 3]) if reason is None else (4, [])) == (said.code, capture.held()), said
    if reason is not None:
        assert f"{reason} So nothing shows whether the snapshot is whole: stop the connector" in said.err
        assert "begun twice" not in said.err


# -- stops that last

BEGUN = [row(0, 0, 1, **FIRST), row(0, 1, 3, **LAST)]
#: The snapshot of two tables, the second one empty.
WHOLE = [note(0, "STARTED"), scanned(1, 2), scanned(2, 0, "public.u"), note(3, "COMPLETED")]
VIEW = """
materialization: view
logs: {logs}
bindings: [{{log: public.t, target: t, key: [id]}}]
target: {{driver: lake, folder: lake}}
recovery_log: recovery
"""


def test_a_row_above_what_its_end_counted_stops_every_later_run(capture: Captures) -> None:
    """END counted 1 of 2 rows, and released it; then the connector goes on, and the memory and the row are lost."""
    torn = [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(0, 5, 120, 1)]
    assert (0, [1, 3, 10]) == (capture(torn).code, capture.held())
    torn.append(insert(1, 0, 11, 5, 2, 100))
    first = capture(torn).err
    later = [insert(0, 3 + k, 1000 + k, 6, k + 1, 120) for k in range(4)] + [end(1, 6, 9000, 4)]
    said = capture.same_stop([*torn, *later])
    assert said == first and "numbered 2, but its END 120 counts 1; the logs are stated beyond it, and lack it" in said
    assert [1, 3, 10] == capture.held()


def test_a_row_of_a_transaction_whose_end_was_lost_stops_every_later_run(capture: Captures) -> None:
    """Others were released instead of it; verify reports that, and that the logs are wrong."""
    lost = [*BEGUN, insert(1, 0, 40, 4, 1, 100), end(0, 4, 110, 1), insert(0, 2, 60, 6, 1, 130), end(1, 6, 140, 1)]
    assert (0, [1, 3, 40, 60]) == (capture(lost, "--max-records", "1").code, capture.held())
    assert 0 == capture.run("verify", capture.logs).code
    said = capture.same_stop([*lost, insert(1, 1, 50, 5, 1, 110)], "--max-records", "1")
    assert "the END of transaction 5 is missing" in said
    shown = capture.run("verify", capture.logs)
    assert 3 == shown.code and "wrong: the capture stopped: the END of transaction 5 is missing" in shown.out
    (one,) = json.loads(capture.run("verify", capture.logs, "--json").out)["tables"].values()
    assert ["the END of transaction 5 is missing"] == [stop["reason"][:35] for stop in one["stops"]]


def test_a_late_row_of_the_snapshot_stops_every_later_run(capture: Captures) -> None:
    """Also when the row is not in the topics any more."""
    assert 0 == capture([*BEGUN, end(0, 5, 120, 0)]).code
    said = capture.same_stop([*BEGUN, end(0, 5, 120, 0), row(1, 0, 2)])
    assert "stands at p.public.t[1]@0" in said


STOPPED = "the capture stopped: a row of the snapshot of public.t stands at p.public.t[1]@0"


def test_readers_of_a_stopped_log_name_the_stop(capture: Captures, tmp_path: Path) -> None:
    """What is complete is given out as ever, with the same exit code."""
    dump = [*BEGUN, end(0, 5, 120, 0)]
    assert (0, 4) == (capture(dump).code, capture([*dump, row(1, 0, 2)]).code)
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    file = tmp_path / "view.yaml"
    file.write_text(VIEW.format(logs=capture.logs), "utf-8")

    for words in (["replay", capture.logs], ["as-of", capture.logs], ["materialize", file], ["compare", file]):
        said = capture.run(*words)
        assert (0, 1) == (said.code, said.err.count(f"cdcv2 {words[0]}: {STOPPED}")), said


@pytest.mark.parametrize("without", ["public.t", "transaction", "notifications"])
def test_a_stop_that_is_kept_comes_before_what_the_topics_lack(capture: Captures, tmp_path: Path, without: str) -> None:
    """On a remap: its remedy is new logs, whatever became of the topics since."""
    more = (*NOTIFIED, "--remap", str(tmp_path / "remap"))
    dump = [*BEGUN, note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED"), end(0, 5, 120, 0)]
    assert 0 == capture(dump, *more).code
    said = [capture([*dump, row(1, 0, 2)], *more)]
    said.append(capture([line for line in dump if f"p.{without}" not in json.loads(line)["topic"]], *more))

    assert "a row of the snapshot of public.t stands at p.public.t[1]@0" in said[0].err, said
    assert "stated through" in said[0].err
    assert [(4, said[0].err)] * 2 == [(one.code, one.err.splitlines(keepends=True)[-1]) for one in said]


@pytest.mark.parametrize("remap", [False, True])
@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("counted", [0, 1])
def test_a_late_row_of_a_table_whose_log_has_none_of_the_snapshot(
    capture: Captures, tmp_path: Path, counted: int, memory: str, remap: bool
) -> None:
    """Its log is empty, or begins with a transaction; one text in every way, with the table and where the row is."""
    transaction = {"id": "5:1", "total_order": 1, "data_collection_order": 1}
    inserted = row(0, 0, 10, table="u", op="c", txId=5, transaction=transaction)
    dump = [*BEGUN, *WHOLE, end(0, 5, 120, counted).replace("public.t", "public.u"), *[inserted] * counted]
    more = (*NOTIFIED, *(("--remap", str(tmp_path / "remap")) if remap else ()))
    assert 0 == capture(dump, *more, tables="tu").code
    capture.forget(memory)
    said = [capture([*dump, row(1, 0, 2, table="u")], *more, tables="tu") for _ in range(2)]

    assert [4, 4] == [one.code for one in said] and said[0].err == said[1].err, said
    assert "a row of the snapshot of public.u stands at p.public.u[1]@0, which is none of the rows" in said[0].err
    assert "the logs are stated through" in said[0].err and 3 == capture.run("verify", capture.logs).code


def test_a_stop_is_not_kept_in_the_logs_of_other_topics(capture: Captures) -> None:
    """Without the memory, a snapshot at the same LSN with one row more: the ENDs show that it is another source."""
    dump = [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(0, 5, 120, 1)]
    assert 0 == capture(dump).code
    capture.forget("lost")
    said = capture([*BEGUN, row(1, 0, 2), insert(0, 2, 10, 5, 1, 100), end(0, 5, 130, 1)], "--max-records", "1")

    assert 4 == said.code and "the logs were made of other topics" in said.err, said
    assert [] == [*capture.logs.glob("*/_stop.*")]
    capture.forget("lost")
    assert 0 == capture(dump).code


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_rows_of_a_second_snapshot_are_reported_in_the_same_words_by_every_run(
    capture: Captures, tmp_path: Path, memory: str
) -> None:
    """Also by the run that reads them with what is released before them, and on a remap."""
    first = [*BEGUN, *WHOLE, end(0, 5, 120, 0)]
    dump = [*first, insert(0, 2, 10, 6, 1, 120), row(1, 0, 2, lsn=142), end(1, 6, 137, 1)]
    assert 0 == capture(first, *NOTIFIED).code
    said = []
    for _ in range(2):
        said.append(capture(dump, *NOTIFIED))
        capture.forget(memory)
    capture.logs = tmp_path / "others"
    more = (*NOTIFIED, "--remap", str(tmp_path / "remap"))
    assert 0 == capture(first, *more).code
    bound = capture(dump, *more)

    assert [4, 4] == [one.code for one in said] and said[0].err == said[1].err, said
    words = "there are rows of a second snapshot of public.t, at 142; the logs are complete through"
    assert f"{words} 137" in said[0].err and 4 == bound.code and words in bound.err, bound


# -- a snapshot where the recipe has none


@pytest.mark.parametrize("remap", [False, True])
def test_rows_of_a_snapshot_where_none_is_wanted_stop_it_before_anything_is_stated(
    capture: Captures, tmp_path: Path, remap: bool
) -> None:
    """What was committed behind the snapshot is not complete without its rows; with them all is captured."""
    dump = [*BEGUN, *WHOLE, insert(0, 2, 10, 5, 1, 100), end(0, 5, 120, 1)]
    for every in ("1", "2000"):
        more = ("--remap", str(tmp_path / f"none{every}"), "--bind-at-most", every) if remap else ()
        said = capture(dump, "--snapshot", "none", "--max-records", every, *more)
        shown = capture.run("verify", capture.logs)
        assert 4 == said.code and "rows of a snapshot, at 100, and no snapshot is wanted (--snapshot none)." in said.err
        assert "complete through" not in shown.out and [] == capture.held(), (every, shown)
        if remap:
            shutil.rmtree(capture.logs)
    more = ("--remap", str(tmp_path / "remap")) if remap else ()
    assert (0, [1, 3, 10]) == (capture(dump, *NOTIFIED, *more).code, capture.held())


@pytest.mark.parametrize("remap", [False, True])
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_rows_of_a_snapshot_where_none_is_wanted_stop_it_for_ever_once_more_is_stated(
    capture: Captures, tmp_path: Path, memory: str, remap: bool
) -> None:
    """A transaction behind it is released: the logs keep the stop, and lack the rows at the time that they state."""
    first = [insert(1, 0, 10, 5, 1, 100), end(0, 5, 120, 1)]
    second = [*first, row(0, 0, 1)]
    more = ("--snapshot", "none", *(("--remap", str(tmp_path / "remap")) if remap else ()))
    said = [capture(first, *more)]
    for _ in range(2):
        capture.forget(memory)
        said.append(capture(second, *more))
    capture.forget("lost")
    said.append(capture(first, *more))
    shown = capture.run("verify", capture.logs)
    words = {one.err.splitlines()[-1] for one in said[1:]}

    assert [0, 4, 4, 4] == [one.code for one in said], said
    assert 1 == len(words), said
    assert "there are rows of a snapshot, at 100, and no snapshot is wanted (--snapshot none)" in said[1].err
    assert 3 == shown.code and "the capture stopped: there are rows of a snapshot, at 100" in shown.out


def test_rows_of_a_snapshot_where_none_is_wanted_stop_a_remap_that_states_empty_tables(
    capture: Captures, tmp_path: Path
) -> None:
    """Nothing was released, and the table is stated to be empty: each run reports up to where, in the same words."""
    begin = record("p.transaction", 0, 0, {"status": "BEGIN", "id": "5:120"})
    dump = [begin, insert(1, 0, 10, 5, 1, 100)]
    more = ("--snapshot", "none", "--remap", str(tmp_path / "remap"))
    assert 1 == capture(dump, *more).code
    said = [capture([*dump, row(0, 0, 1)], *more) for _ in range(2)]
    words = {one.err.splitlines()[-1] for one in said}

    assert [4, 4] == [one.code for one in said] and 1 == len(words), said
    assert "(--snapshot none); the logs are stated through" in said[0].err
    assert 3 == capture.run("verify", capture.logs).code


@pytest.mark.parametrize("remap", [False, True])
def test_more_rows_of_a_snapshot_than_were_scanned_stop_it(capture: Captures, tmp_path: Path, remap: bool) -> None:
    """In the same words in every way."""
    dump = [*BEGUN, note(0, "STARTED"), scanned(1, 1), note(2, "COMPLETED"), end(0, 5, 120, 0)]
    said = capture(dump, *NOTIFIED, *(("--remap", str(tmp_path / "remap")) if remap else ()))

    assert (4, []) == (said.code, capture.held())
    assert "there are 2 snapshot rows of public.t, but its notification states 1. The topics hold rows of" in said.err


@pytest.mark.parametrize("remap", [False, True])
@pytest.mark.parametrize("how", [NOTIFIED, ("--snapshot", "none")], ids=["snapshot", "none"])
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_an_incremental_snapshot_is_reported_as_that(
    capture: Captures, tmp_path: Path, how: tuple[str, ...], memory: str, remap: bool
) -> None:
    """Whatever snapshot there is, and also in the run that begins; it is no second one, and no one that is not wanted.

    The logs are right, so they keep no stop.
    """
    begun = [*BEGUN, *WHOLE] if how == NOTIFIED else []
    begin = record("p.transaction", 0, 0, {"status": "BEGIN", "id": "5:120"})
    first = [begin, *begun, insert(1, 0, 10, 5, 1, 100), end(1, 5, 120, 1)]
    dump = [*first, row(1, 1, 10, lsn=130, snapshot="incremental")]
    more = (*how, *(("--remap", str(tmp_path / "remap")) if remap else ()))
    assert 0 == capture(first, *more).code
    said, held = [], capture.held()
    for _ in range(2):
        capture.forget(memory)
        said.append(capture(dump, *more))
    capture.logs, more = tmp_path / "fresh", (*how, *(("--remap", str(tmp_path / "fresh remap")) if remap else ()))
    said.append(capture(dump, *more))

    assert [4, 4, 4] == [one.code for one in said] and 10 in held, said
    for one in said:
        text = one.err.splitlines()[-1]
        assert text.startswith("cdcv2 capture: an incremental snapshot of public.t was taken"), text
        assert ". Only the initial snapshot can be captured: to take another, start over with new topics" in text
    assert [] == [*tmp_path.glob("*/*/_stop.*")]


def test_what_was_committed_before_a_snapshot_that_nobody_wants_is_released(capture: Captures) -> None:
    """The connector was to take none, and took one when it had lost its slot: the logs are right up to there."""
    dump = [insert(0, 0, 10, 5, 1, 80), end(0, 5, 90, 1), row(0, 1, 1), insert(0, 2, 11, 6, 1, 90), end(1, 6, 120, 1)]
    said = capture(dump, "--snapshot", "none")

    assert (4, [10]) == (said.code, capture.held()) and "the logs are complete through 90" in said.err, said
    assert 0 == capture.run("verify", capture.logs).code and not [*capture.logs.glob("*/_stop.*")]


def test_what_stops_only_for_what_is_not_released_is_judged_again_on_other_input(capture: Captures) -> None:
    """A dump that was cut, or is of something else: nothing is stated beyond its cause."""
    early = [*BEGUN, end(0, 4, 90, 0)]
    assert 4 == capture(early).code
    assert not list(capture.logs.glob("*/_stop.*"))
    assert (0, [1, 3]) == (capture([*BEGUN, end(0, 5, 120, 0)]).code, capture.held())


def test_a_stop_that_cannot_be_read_is_refused_by_its_file(capture: Captures) -> None:
    """Its text is why nothing more was captured."""
    assert 0 == capture(BEGUN).code
    (capture.logs / "public.t" / "_stop.0.json").write_text("{}")
    for said in (capture(BEGUN), capture.run("verify", capture.logs)):
        assert 4 == said.code and "_stop.0.json is not what a capture writes" in said.err


# -- tables of which the connector never spoke


@pytest.mark.parametrize("notified", [True, False])
def test_a_table_of_which_the_connector_never_spoke_is_empty_if_the_user_says_so(
    capture: Captures, notified: bool
) -> None:
    """It has a row type, no topic, and no notification names it; that it was empty stays marked."""
    said = [note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")] if notified else []
    more = NOTIFIED if notified else ()
    assert 0 == capture([*BEGUN, *said], *more, "--empty", "public.u", tables="tu").code
    shown = capture.run("verify", capture.logs)
    assert 0 == shown.code and "public.u: assumed to have been empty at the snapshot" in shown.out
    assert ["public.u"] == json.loads(capture.run("verify", capture.logs, "--json").out)["assumed_empty"]
    assert 0 == capture([*BEGUN, *said], *more, tables="tu").code, "it is asked once"


def test_a_table_that_is_said_to_be_empty_and_is_not_contradicts_it(capture: Captures) -> None:
    """Its rows come with the snapshot, or when that is released."""
    said = [note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
    more = (*NOTIFIED, "--empty", "public.u")
    assert 4 == capture([*BEGUN, *said, row(0, 0, 7, table="u")], *more, tables="tu").code
    shutil.rmtree(capture.logs)
    assert 0 == capture([*BEGUN, *said], *more, tables="tu").code
    late = capture([*BEGUN, *said, row(0, 0, 7, table="u")], *more, tables="tu")
    assert 4 == late.code and "a row of the snapshot of public.u stands at p.public.u[0]@0" in late.err


def test_a_table_that_was_scanned_and_is_empty_is_complete(capture: Captures) -> None:
    """It has no topic, and the connector reports that it has no rows."""
    said = [note(0, "STARTED"), scanned(1, 2), scanned(2, 0, "public.u"), note(3, "COMPLETED")]
    assert 0 == capture([*BEGUN, *said], *NOTIFIED, tables="tu").code
    assert (0, []) == (capture.run("verify", capture.logs).code, capture.held("u"))


def test_only_a_table_that_is_captured_is_said_to_be_empty(capture: Captures) -> None:
    """A slip is named."""
    refused = capture(BEGUN, "--empty", "public.x")
    assert 2 == refused.code and "empty names public.x, which is not captured" in refused.err


def test_notifications_of_another_connector_are_named(capture: Captures) -> None:
    """Its topic was given by mistake: its records mean nothing for our snapshot."""
    rows = [row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST)]
    others = [note(at, kind, connector_name="bank") for at, kind in enumerate(("STARTED", "COMPLETED"))]
    said = [capture([*rows, *others], *NOTIFIED) for _ in range(2)]
    ours = capture([*rows, *others, note(2, "STARTED")], *NOTIFIED)

    assert [(1, True)] * 2 == [
        (one.code, "2 notifications of bank, and none of a snapshot of p" in one.err) for one in said
    ], said
    assert (1, False) == (ours.code, "bank" in ours.err), ours


def test_a_topic_of_notifications_that_is_not_there_leaves_nothing(capture: Captures) -> None:
    """A mistyped name: what was probably meant is named, and the right one is captured into the same place."""
    dump = [row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
    said = capture(dump, "--notifications", "p.notification")
    nothing = not capture.logs.exists()

    assert (2, True) == (said.code, "no topic 'p.notification', and" in said.err), said
    assert "did you mean p.notifications? Topics of the prefix p: p.notifications, p.public.t" in said.err
    assert (True, 0, [1, 2]) == (nothing, capture(dump, *NOTIFIED).code, capture.held())


def test_a_row_type_without_a_column_of_the_snapshot_is_made_again(capture: Captures) -> None:
    """Nothing is captured of the table yet: its snapshot will do, unless the table was altered since."""
    dump = [row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
    wrong = [line.replace('\\"v\\"', '\\"photo\\"') for line in dump]
    said = capture(wrong, *NOTIFIED)

    assert 4 == said.code
    assert "the row type of public.t is not that of its rows in the snapshot: it does not have the column" in said.err
    assert "'photo', and has the column 'v', which they do not have. If the table was altered since that" in said.err
    assert "start over with a new snapshot (new topics, new slot, new logs). Otherwise make the row type" in said.err
    assert (0, [1, 2]) == (capture(dump, *NOTIFIED).code, capture.held())


def test_logs_do_not_go_into_the_directory_of_a_log(capture: Captures, run: Run, tmp_path: Path) -> None:
    """One level too deep: the log of a table is no place for another capture, nor for copies of it."""
    dump = [row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
    assert 0 == capture(dump, *NOTIFIED).code
    log = capture.logs / "public.t"
    before, beside = sorted(log.rglob("*")), sorted(tmp_path.iterdir())
    capture.logs = log
    tried = [capture(dump, *NOTIFIED), capture(dump, *NOTIFIED, "--remap", str(tmp_path / "remap"))]
    tried.append(capture(dump, *NOTIFIED, "--remap", "kafka:timeline", "--bootstrap", "127.0.0.1:1"))
    tried.append(run("mangle", log.parent, log))
    capture.logs = log / "{table}"
    tried.append(capture(dump, *NOTIFIED, "--remap", str(tmp_path / "remap")))

    assert [2] * 5 == [one.code for one in tried], tried
    assert all(f"{log} is itself a log (_log.json is in it)" in one.err for one in tried), tried
    assert all(f"the one that it is in, {log.parent}, or another" in one.err for one in tried)
    assert (before, beside) == (sorted(log.rglob("*")), sorted(tmp_path.iterdir()))
