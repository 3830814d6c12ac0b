"""What replay refuses, since going on would break a promise; each refusal states what to do."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    ForeignStateError,
    MalformedError,
    MissingLogError,
    OutputError,
    RefusedError,
    StartError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.exits import Exit
from cdcv2.control.plan import provenance_of
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog, check_timeline
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.spark.output import OutputFolder, as_of
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import opened, outcome
from cdcv2.store.numbered import NumberedFiles
from tests.spark.replaying import PLAIN, ROWS, messages, plan, put, replayed, run, told, truth, updates

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory):
    """A replay that has been run, over two tables."""
    folder = tmp_path_factory.mktemp("done")
    things = put(folder / "things", messages(updates(1, count=20), 12), per_file=9)
    notes = put(folder / "notes", messages(updates(2, count=20, row_type=PLAIN), 12), row_type=PLAIN, per_file=9)
    wanted = plan(folder, [things, notes])
    run(spark, wanted)
    return wanted


def refused(spark: SparkSession, wanted, kind: type[Exception], *words: str) -> None:
    """Opening the replay raises the error, whose text has the words."""
    with pytest.raises(kind) as caught:
        opened(spark, wanted, ProgressLines())
    for word in words:
        assert word in str(caught.value)


def test_the_state_of_another_log_is_refused(spark: SparkSession, done, tmp_path: Path) -> None:
    """A state is the summary of certain logs; with others it would be the summary of nothing."""
    copy = put(tmp_path / "things~copy", messages(updates(1, count=20), 12))
    places = [*done.logs.places, copy]
    wanted = replace(done, logs=replace(done.logs, places=places), output=tmp_path / "out")

    refused(spark, wanted, ForeignStateError, "has read things from", "things~copy", "remove")


def test_the_state_of_a_log_that_begins_elsewhere_is_refused(spark: SparkSession, done, tmp_path: Path) -> None:
    """What came before another start was never counted."""
    refused(spark, replace(done, start=Antichain([5]), output=tmp_path / "out"), ForeignStateError, "begins at [0]")


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "received"])
def test_an_update_before_the_start_is_an_error(spark: SparkSession, tmp_path: Path, counted: bool) -> None:
    """It would be left out; whether a statement counts it, or it is only there, with its position."""
    early = Updates([(row, 1, 1) for row, _, _ in updates(1, count=1)])
    said = Progress([0], [9], {1: len(early.updates)}) if counted else Progress([5], [9], {})
    wanted = replace(plan(tmp_path, [put(tmp_path / "things", [said, early])]), start=Antichain([5]))

    with pytest.raises(StartError, match=r"at time 1 \(.*things\[0\]@0.*to begin at \[5\]"):
        run(spark, wanted)
    assert Antichain([5]) == open_lake(wanted.output).frontier


def test_a_changed_row_type_is_refused_by_the_state_and_by_the_output(spark, done, tmp_path: Path) -> None:
    """Rows of two types are never mixed in one folder."""
    changed = replace(done, tables={**done.tables, "notes": ROWS})

    refused(spark, replace(changed, output=tmp_path / "out"), ForeignStateError, "rows of notes of another type")
    refused(spark, replace(changed, state=tmp_path / "state"), ForeignStateError, "rows of notes of another type")


def test_an_output_of_other_logs_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """It states of which it was made, as the command has it; with a state of its own, nothing else would show it."""
    wanted = plan(tmp_path, [put(tmp_path / "things", messages(updates(1, count=20), 12))])
    run(spark, wanted)
    other = put(tmp_path / "other" / "things", messages(updates(2, count=20), 15))

    logs = [NamedLog("things", DirectoryLog(tmp_path / "things"), ROWS)]
    assert open_lake(wanted.output).manifest.reader == provenance_of(logs, check_timeline(logs, None)).to_plain()
    own = tmp_path / "its state"
    changed = replace(wanted, logs=replace(wanted.logs, places=[other]), state=own, checkpoint=own / "checkpoint")
    refused(spark, changed, ForeignStateError, "was made of another log 'things'", "write into another folder")


def test_an_output_of_other_tables_is_refused(spark: SparkSession, done, tmp_path: Path) -> None:
    """One manifest makes all tables of an output finished together, so their set is fixed."""
    places = [place for place in done.logs.places if place.table == "notes"]
    wanted = replace(
        done, logs=replace(done.logs, places=places), tables={"notes": PLAIN}, state=tmp_path / "state"
    )

    refused(spark, wanted, ForeignStateError, "the tables notes, things, not of notes", "its own output folder")


def test_a_state_or_output_of_another_version_is_refused(spark: SparkSession, done, tmp_path: Path) -> None:
    """What a later release wrote is not guessed at."""
    for name, folder, kind, words in (
        ("state", "state/manifests", MalformedError, "version 99"),
        ("output", "out/_manifests", ForeignStateError, "holds no lake of cdcv2, version 3"),
    ):
        shutil.copytree(done.state.parent, tmp_path / name)
        numbered = NumberedFiles(tmp_path / name / folder, name)
        last = numbered.numbers()[-1]
        numbered.put(last + 1, {**numbered.read(last), "version": 99})
        wanted = replace(done, state=tmp_path / name / "state", output=tmp_path / name / "out")

        refused(spark, wanted, kind, words)


def test_a_lost_output_is_not_begun_with_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    """The state has forgotten what it gave out, so a new output would lack it."""
    said = messages(updates(3), 12, seed=3)
    place = put(tmp_path / "things", said[:-1], per_file=9)
    wanted = plan(tmp_path, [place])
    run(spark, wanted)
    assert open_lake(wanted.output).frontier != Antichain([0])

    shutil.rmtree(wanted.output)
    put(tmp_path / "things", said[-1:])
    with pytest.raises(RefusedError, match="remove the state and its checkpoint"):
        run(spark, wanted)

    shutil.rmtree(wanted.state)
    run(spark, wanted)
    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_state_that_lacks_what_the_checkpoint_has_done_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark brings nothing twice, so a replay would end well, having read nothing; without the checkpoint it reads."""
    said = messages(updates(4), 12, seed=4)
    place = put(tmp_path / "things", said[:-1], per_file=9)
    wanted = plan(tmp_path, [place], checkpoint=tmp_path / "kept elsewhere")
    run(spark, wanted)
    shutil.copytree(wanted.state, tmp_path / "older")
    put(tmp_path / "things", said[-1:])
    run(spark, wanted)
    opened(spark, wanted, ProgressLines())

    for state, text in (("older", "has only what came through batch 0"), ("lost", "has nothing")):
        behind = replace(wanted, state=tmp_path / state)
        refused(spark, behind, RefusedError, text, "through batch 1 is done", "remove the checkpoint")

    shutil.rmtree(wanted.checkpoint)
    again = run(spark, behind)
    assert again.finished
    assert again.released == open_lake(wanted.output).frontier
    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_checkpoint_in_which_no_batch_is_done_needs_no_state(spark: SparkSession, tmp_path: Path) -> None:
    """A job that died in its first batch leaves one: Spark brings that batch again, so nothing is passed over."""
    said = messages(updates(9), 12, seed=9)
    wanted = plan(tmp_path, [put(tmp_path / "things", said, per_file=30)], checkpoint=tmp_path / "kept elsewhere")
    with failpoints.placed("reader.before-manifest"), pytest.raises(failpoints.PlacedCrash):
        run(spark, wanted)
    assert ["0"] == sorted(path.name for path in (wanted.checkpoint / "offsets").glob("[0-9]*"))
    run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)


def test_logs_of_two_timelines_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is read, naming both; and several that state none, unless the user names their timeline."""
    said = messages(updates(5, count=20), 12)
    one, other, none = (
        put(tmp_path / name, said, description=LogDescription(timeline=timeline))
        for name, timeline in (("things", "x"), ("things~other", "y"), ("things~none", None))
    )
    with pytest.raises(ForeignStateError, match="things is of the timeline x, and the log .*other of the timeline y"):
        run(spark, plan(tmp_path, [one, other]))
    with pytest.raises(UsageError, match="things~none does not state of which timeline .* --timeline x"):
        run(spark, plan(tmp_path, [one, none]))
    assert not (tmp_path / "out").exists()
    opened(spark, plan(tmp_path, [one, none], timeline="x"), ProgressLines())


def test_a_file_that_was_removed_from_a_log_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers have no gaps; with the file, facts are lost."""
    place = put(tmp_path / "things", messages(updates(5), 12), per_file=3)
    (tmp_path / "things" / f"{1:020d}.avro").unlink()

    with pytest.raises(UnsafeTopicError, match="00000000000000000001.avro"):
        run(spark, plan(tmp_path, [place]))


def test_two_processes_cannot_write_one_state(spark: SparkSession, tmp_path: Path) -> None:
    """Of two that put the same number one loses, and gets an error; what it began is void."""
    place = put(tmp_path / "things", messages(updates(6), 12), per_file=9)
    wanted = plan(tmp_path, [place])
    late = opened(spark, replace(wanted, output=tmp_path / "other"), ProgressLines())
    run(spark, wanted)

    with pytest.raises(RefusedError, match="another process works with the state"):
        late._commit()


def test_an_output_that_cannot_be_written_is_said_to_be_so(spark: SparkSession, tmp_path: Path) -> None:
    """A file in the way is the most portable of the reasons."""
    (tmp_path / "out").write_text("in the way")
    place = put(tmp_path / "things", messages(updates(7), 12))

    refused(spark, plan(tmp_path, [place]), OutputError, "the lake in", "out", "cannot be")


def test_a_target_that_fails_leaves_the_state_before_it(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are given out before the state records it: the next run gives them out again."""
    said = messages(updates(8), 12, seed=8)
    wanted = plan(tmp_path, [put(tmp_path / "things", said, per_file=30)])
    tables = wanted.output / "things"
    OutputFolder(wanted.output, wanted.tables, wanted.start).begin()
    tables.write_text("in the way")
    with pytest.raises(OutputError, match="directory cannot be written"):
        run(spark, wanted)

    tables.unlink()
    run(spark, wanted)
    assert truth({"things": said}) == replayed(spark, wanted)


def test_reading_what_is_no_output_is_refused(tmp_path: Path) -> None:
    """Parquet files without a manifest are not known to be finished."""
    with pytest.raises(MissingLogError, match="no manifest"):
        as_of(None, tmp_path)


def test_what_lacks_at_the_end_of_the_input_is_told_by_the_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    """1 while updates that were stated are not there; 0 once they have come."""
    said = messages(updates(31), 12, seed=31)
    lost = next(message for message in said if isinstance(message, Updates))
    place = put(tmp_path / "things", [message for message in said if message != lost], per_file=20)
    reader, lines = told(spark, plan(tmp_path, [place]))
    assert (Exit.MISSING, True) == (outcome(reader), "; missing: things: " in lines.splitlines()[-1])

    put(tmp_path / "things", [lost])
    assert Exit.DONE == outcome(run(spark, plan(tmp_path, [place])))
    assert truth({"things": said}) == replayed(spark, plan(tmp_path, [place]))
