"""An output, or a target, that lacks what the reader's state has given out is refused before anything is reported."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.cli.main import main as command
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.exits import Exit
from cdcv2.servers.postgres import Postgres
from cdcv2.protocol import Message
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.reader import BatchReport, Reader
from cdcv2.spark.replay import ReplayPlan, outcome, replay
from cdcv2.testing import Workload
from tests.spark.materializing import LAST, materialized, written
from tests.spark.replaying import messages, plan, put, replayed, run, told, truth, updates

pytestmark = pytest.mark.spark

#: A log that is finished up to 4, to 8 and to 12, in three parts.
FACTS = updates(5, count=24)
PARTS: list[list[Message]] = [
    messages([one for one in FACTS if low <= one[1] < low + 4], low + 4, lower=low, seed=low) for low in (0, 4, 8)
]


def begun(spark: SparkSession, folder: Path) -> ReplayPlan:
    """A replay of the first two parts, in two runs; ``older`` is the output as it was between them."""
    wanted = plan(folder, [put(folder / "things", PARTS[0], per_file=9)])
    run(spark, wanted)
    shutil.copytree(wanted.output or folder, folder / "older")
    put(folder / "things", PARTS[1], per_file=9)
    assert Antichain([8]) == run(spark, wanted).released
    return wanted


def refused(spark: SparkSession, wanted: ReplayPlan, *words: str) -> None:
    """The run ends with the error, whose text has the words, and nothing was reported."""
    people = io.StringIO()
    with pytest.raises(RefusedError) as caught:
        replay(spark, wanted, ProgressLines(people), signals=False)
    assert "" == people.getvalue()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_run_with_nothing_new_is_as_complete_as_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    """The first start, a restart with something new, one without, and one whose state is older than the output."""
    place = put(tmp_path / "things", PARTS[0], per_file=9)
    wanted = plan(tmp_path, [place])
    complete = "replay: complete through 3; nothing that was stated is missing\n"

    for _ in range(2):
        reader, said = told(spark, wanted)
        assert (Exit.DONE, True) == (outcome(reader), said.endswith(complete)), said
    shutil.copytree(wanted.state, tmp_path / "older")
    put(tmp_path / "things", PARTS[1], per_file=9)
    run(spark, wanted)
    reader, said = told(spark, replace(wanted, state=tmp_path / "older", checkpoint=tmp_path / "fresh"))
    assert "replay: complete through 7; nothing that was stated is missing\n" in said
    assert truth({"things": [*PARTS[0], *PARTS[1]]}) == replayed(spark, wanted)


@pytest.mark.parametrize(("lost", "more"), [("removed", False), ("older", True)], ids=["removed", "older"])
def test_an_output_that_is_behind_the_state_is_refused(
    spark: SparkSession, tmp_path: Path, lost: str, more: bool
) -> None:
    """Whether something new has arrived or not. Both ways out that the error names lead to the truth."""
    wanted = begun(spark, tmp_path)
    assert wanted.output is not None
    wanted.output.rename(tmp_path / "whole")
    if lost == "older":
        shutil.copytree(tmp_path / "older", wanted.output)
    if more:
        put(tmp_path / "things", PARTS[2], per_file=9)

    at = "0" if lost == "removed" else "4"
    refused(
        spark, wanted, f"the state in {wanted.state} has given out everything up to 8",
        f"the output in {wanted.output} has it only up to {at}", "restored from an older backup, and the state was not",
        "Restore what goes with the state; or remove the state and its checkpoint, and all is read again",
    )
    # It is as it was: what is put there again is not put into something new.
    assert (lost == "older") == wanted.output.exists()
    expected = truth({"things": [one for part in PARTS[:3 if more else 2] for one in part]})
    # The state goes, and the output takes what it lacks.
    shutil.copytree(wanted.state, tmp_path / "kept")
    shutil.rmtree(wanted.state)
    run(spark, wanted)
    assert expected == replayed(spark, wanted)
    # Or the output that goes with the state comes back.
    for there, back in ((wanted.state, "kept"), (wanted.output, "whole")):
        shutil.rmtree(there)
        (tmp_path / back).rename(there)
    run(spark, wanted)
    assert expected == replayed(spark, wanted)


def test_another_output_does_not_go_with_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """It would lack what the first one has."""
    wanted = begun(spark, tmp_path)

    refused(spark, replace(wanted, output=tmp_path / "other"), f"{tmp_path / 'other'} has it only up to 0")


def test_an_output_that_lost_a_file_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """With the state or without: what the file had is not written again, as the manifests have it."""
    wanted = begun(spark, tmp_path)
    assert wanted.output is not None
    next((wanted.output / "things").rglob("*.parquet")).unlink()

    refused(spark, wanted, f"the lake in {wanted.output} has lost files", "remove it, and the reader's state")
    shutil.rmtree(wanted.state)
    refused(spark, wanted, "1 of 2 are missing")


class Meddling(ProgressLines):
    """Does something to the output behind each batch that is reported."""

    def __init__(self, people: io.StringIO, meddle: Callable[[], None]) -> None:
        super().__init__(people)
        self._meddle = meddle

    def batch(self, report: BatchReport) -> None:
        """Report it, and act."""
        super().batch(report)
        self._meddle()


@pytest.mark.parametrize("files", [None, 1], ids=["at the end", "at the next batch"])
def test_an_output_that_goes_while_the_job_runs_is_noticed(
    spark: SparkSession, tmp_path: Path, files: int | None
) -> None:
    """Before the next line that calls something complete."""
    wanted = plan(tmp_path, [put(tmp_path / "things", PARTS[0], per_file=3)], files=files)
    people = io.StringIO()

    def meddle() -> None:
        shutil.rmtree(wanted.output or tmp_path)

    with pytest.raises(RefusedError, match="has it only up to 0"):
        replay(spark, wanted, Meddling(people, meddle), signals=False)
    assert 1 == len(people.getvalue().splitlines()), people.getvalue()


# --- views


def kept(spark: SparkSession, path: Path, cuts: int, *, target: str, more: str) -> Reader:
    """Two more cuts of the workload, kept as views."""
    written(path, Workload(cuts=4), target=target, more=more, cuts=cuts, last=LAST)
    return materialized(spark, path / "shop.yaml")


def refused_views(spark: SparkSession, path: Path, *words: str) -> None:
    """The job ends with the error, whose text has the words, and nothing was reported."""
    people = io.StringIO()
    with pytest.raises(RefusedError) as caught:
        materialized(spark, path / "shop.yaml", people=people)
    assert "" == people.getvalue()
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize("kind", ["lake", "delta"])
def test_views_that_are_behind_the_state_are_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Older, or removed, with their recovery log; nothing new has arrived. They are left as they are."""
    settings = {"target": f"{{driver: {kind}, folder: tables}}", "more": "recovery_log: recovery"}
    kept(spark, tmp_path, 1, **settings)
    for name in ("tables", "recovery"):
        shutil.copytree(tmp_path / name, tmp_path / f"older-{name}")
    assert Antichain([4]) == kept(spark, tmp_path, 2, **settings).released
    people = io.StringIO()
    materialized(spark, tmp_path / "shop.yaml", people=people)
    assert "replay: complete through 3; nothing that was stated is missing\n" == people.getvalue()

    said = f"the state in {tmp_path / 'state'} has given out everything up to 4, and the target of the views "
    for name in ("tables", "recovery"):
        shutil.rmtree(tmp_path / name)
    refused_views(spark, tmp_path, f"{said}'conformance' has it only up to 0", "restored from an older backup")
    assert not (tmp_path / "tables").exists()
    for name in ("tables", "recovery"):
        (tmp_path / f"older-{name}").rename(tmp_path / name)
    refused_views(spark, tmp_path, f"{said}'conformance' has it only up to 2", "remove the state and its checkpoint")

    shutil.rmtree(tmp_path / "state")
    assert Antichain([4]) == materialized(spark, tmp_path / "shop.yaml").released
    assert 0 == command(["compare", str(tmp_path / "shop.yaml")])


@pytest.mark.integration
def test_views_in_a_database_that_is_another_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """One that is empty: its tables are not made, and nothing is reported as complete."""
    with Postgres() as server:
        # Python workers on Spark have the environment of the first test.
        given = server.environment
        where = " ".join(f"{name}={given['PG' + name.upper()]}" for name in ("host", "port", "user", "password"))
        settings = {"target": f'{{driver: postgres, conninfo: "{where} dbname={given["PGDATABASE"]}"}}', "more": ""}
        assert Antichain([2]) == kept(spark, tmp_path, 1, **settings).released
        with server.connect() as connection:
            connection.execute("DROP TABLE cdcv2_checkpoints, account_total, entry_log, account_now, account_last")
        refused_views(spark, tmp_path, "everything up to 2, and the target of the views 'conformance'", "only up to 0")
        with server.connect() as connection:
            assert (None,) == connection.execute("SELECT to_regclass('account_total')").fetchone()
