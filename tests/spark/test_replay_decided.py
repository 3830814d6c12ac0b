"""What was decided about a contradiction holds on Spark, whatever the state had from before the decision."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError
from cdcv2.exits import Exit
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.logs.quarantine import Case, Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import outcome, replay
from cdcv2.spark.sources import LogPlace
from tests.spark.replaying import PLAIN, plan, put, replayed, run

pytestmark = pytest.mark.spark

A, B, C, D = (PLAIN.row([number, "row"]) for number in range(4))
#: Kind -> the messages that are there at first, those that come later, the decision, and what is at time 5 then. Time 3
#: lacks an update, so that nothing from there on is given out before it comes.
KINDS: dict[str, tuple[list[Message], list[Message], tuple[int | None, int | None], dict[object, int]]] = {
    "diff": (
        [Updates([(B, 5, 1)])], [Updates([(B, 5, 2)]), Progress([0], [9], {3: 1, 5: 1, 8: 1})], (None, 2), {B: 2},
    ),
    "count": (
        [Progress([0], [9], {3: 1, 5: 1, 8: 1}), Updates([(B, 5, 1)])], [Progress([4], [7], {5: 2})], (1, None), {B: 1},
    ),
    "surplus": (
        [Progress([0], [9], {3: 1, 5: 1, 8: 1}), Updates([(B, 5, 1)])], [Updates([(C, 5, 1)])], (None, 0), {C: 1},
    ),
}
LAST: list[Message] = [Updates([(A, 3, 1), (D, 8, 1)])]


def judged(place: LogPlace, folder: Path) -> tuple[Quarantine, Case, LogReader]:
    """The log, read without Spark in a quarantine."""
    log = DirectoryLog(place.name)
    quarantine = Quarantine(folder)
    reading = LogReader(covered([NamedLog(place.table, log, log.row_type)]), quarantine=quarantine)
    for _ in reading:
        continue
    return quarantine, quarantine.cases()[0], reading


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_ends_at_a_contradiction_and_goes_on_with_what_was_decided(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """With the state that it had: rows of the time were stashed, and counted, before there was a decision."""
    first, then, (count, diff), there = KINDS[kind]
    place = put(tmp_path / "notes", first, row_type=PLAIN, per_file=1)
    wanted = plan(tmp_path, [place])
    run(spark, wanted)
    put(tmp_path / "notes", then, row_type=PLAIN, per_file=1)
    with pytest.raises(ContradictionError):
        run(spark, wanted)
    quarantine, case, _ = judged(place, tmp_path / "q")
    row = PLAIN.to_plain(B) if kind == "surplus" else None
    quarantine.decide(case.decision(count, row, diff))
    put(tmp_path / "notes", LAST, row_type=PLAIN, per_file=1)

    reader = run(spark, replace(wanted, quarantine=tmp_path / "q"))

    assert Antichain([9]) == reader.released
    rows = {**{(row, 5): n for row, n in there.items()}, (A, 3): 1, (D, 8): 1}
    assert {"notes": Counter((row, time, n) for (row, time), n in rows.items())} == {
        table: Counter(found.keys()) for table, found in replayed(spark, wanted).items()
    }
    _, _, without = judged(place, tmp_path / "q")
    assert ({}, reader.released) == (without.disputed(), without.frontier)


def test_a_row_that_was_counted_before_it_was_decided_never_to_have_happened_is_not_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its time waits for the other update that is stated; the state had the number of before."""
    place = put(tmp_path / "notes", KINDS["surplus"][0], row_type=PLAIN, per_file=1)
    wanted = plan(tmp_path, [place])
    run(spark, wanted)
    put(tmp_path / "other", [*KINDS["surplus"][0], *KINDS["surplus"][1]], row_type=PLAIN, per_file=1)
    other = LogPlace("notes", "directory", str(tmp_path / "other"))
    quarantine, case, _ = judged(other, tmp_path / "q")
    quarantine.decide(case.decision(None, PLAIN.to_plain(B), 0))
    put(tmp_path / "notes", LAST, row_type=PLAIN, per_file=1)

    reader = run(spark, replace(wanted, quarantine=tmp_path / "q"))

    assert Antichain([5]) == reader.released
    assert {A} == {row for row, _, _ in replayed(spark, wanted)["notes"]}


def test_a_job_holds_at_what_others_found_in_dispute(spark: SparkSession, tmp_path: Path) -> None:
    """Its own log has no contradiction. It goes on, with its state, once there is a decision."""
    sound = [*KINDS["surplus"][0], *LAST]
    place = put(tmp_path / "notes", sound, row_type=PLAIN, per_file=1)
    put(tmp_path / "other", [*KINDS["surplus"][0], *KINDS["surplus"][1]], row_type=PLAIN, per_file=1)
    quarantine, case, _ = judged(LogPlace("notes", "directory", str(tmp_path / "other")), tmp_path / "q")
    wanted = replace(plan(tmp_path, [place]), quarantine=tmp_path / "q")
    lines = io.StringIO()

    reader = replay(spark, wanted, ProgressLines(lines), signals=False)

    assert (Exit.WRONG, Antichain([5])) == (outcome(reader), reader.released)
    assert f"notes: in quarantine as {case.name}: " in lines.getvalue()
    assert "missing: notes: time 5 is in dispute" in lines.getvalue().splitlines()[-1]
    quarantine.decide(case.decision(None, PLAIN.to_plain(C), 0))

    reader = run(spark, wanted)

    assert (Exit.DONE, Antichain([9])) == (outcome(reader), reader.released)
    assert {(A, 3), (B, 5), (D, 8)} == {(row, time) for row, time, _ in replayed(spark, wanted)["notes"]}


def test_a_job_is_not_held_by_a_case_of_another_history(spark: SparkSession, tmp_path: Path) -> None:
    """Though the table has the same name."""
    place = put(tmp_path / "notes", [*KINDS["surplus"][0], *LAST], row_type=PLAIN, per_file=1)
    put(
        tmp_path / "other", [*KINDS["surplus"][0], *KINDS["surplus"][1]], row_type=PLAIN, per_file=1,
        description=LogDescription(timeline="other things"),
    )
    judged(LogPlace("notes", "directory", str(tmp_path / "other")), tmp_path / "q")

    reader = run(spark, replace(plan(tmp_path, [place]), quarantine=tmp_path / "q"))

    assert (Exit.DONE, Antichain([9])) == (outcome(reader), reader.released)
