"""Logs that begin later than others, through Spark: read as the readers of the command do, and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, RefusedError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.stops import Stop
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.spark.output import as_of
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import ReplayPlan, outcome
from cdcv2.spark.sources import LogPlace
from tests.cli.conftest import runs
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED, Captures
from tests.cli.test_uncovered import ALONE, FIRST_OF_T, NAMED, SAID, VIEWS, WHOLE
from tests.spark.materializing import materialized
from tests.spark.replaying import plan, replay, run, told

pytestmark = pytest.mark.spark


@pytest.fixture
def capture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Captures:
    """Captures without Spark into a folder of the test's: of t, and of u that is covered later, from 140 on."""
    made = Captures(runs(capsys), tmp_path)
    assert 0 == made([*BEGUN, *SAID, *FIRST_OF_T], *NOTIFIED, tables="tu").code
    return made


def of(capture: Captures, *tables: str) -> ReplayPlan:
    """A replay of their logs."""
    places = [LogPlace(f"public.{table}", "directory", str(capture.logs / f"public.{table}")) for table in tables]
    return plan(capture.folder, places)


def ids(spark: SparkSession, wanted: ReplayPlan, table: str, at: int | None = None) -> Counter[int]:
    """The rows of a table in the output."""
    assert wanted.output is not None
    rows = as_of(spark, wanted.output, at, table=f"public.{table}").collect()
    return Counter({row["id"]: row["multiplicity"] for row in rows})


class Then(ProgressLines):
    """What happens when the logs were opened, and before they are read."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def covered(self, coverage: TableCoverage) -> None:
        """As soon as it is known which tables are covered."""
        self._happens()


def test_a_replay_goes_on_without_it_and_takes_it_in_when_it_is_covered(spark: SparkSession, capture: Captures) -> None:
    """With the state of before: it begins where its log does. What is asked of it before that is an error.

    A stop that the logs keep is named once, and what is complete is given out.
    """
    wanted = of(capture, "t", "u")
    reader, people = told(spark, wanted)
    assert (Exit.DONE, Antichain([121])) == (outcome(reader), open_lake(wanted.output).frontier)
    assert 1 == people.count(NAMED) and "complete through 120; nothing that was stated is missing" in people
    assert Counter([1, 3, 10]) == ids(spark, wanted, "t")
    with pytest.raises(IncompleteError, match=NAMED):
        ids(spark, wanted, "u")
    with pytest.raises(IncompleteError, match=NAMED):
        run(spark, replace(of(capture, "u"), state=capture.folder / "alone", output=capture.folder / "only"))

    def then() -> None:
        assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code

    with pytest.raises(RefusedError, match="the connector covers public.u by now, from 140 on"):
        replay(spark, wanted, Then(then), signals=False)
    assert Antichain([121]) == open_lake(wanted.output).frontier
    for table in "tu":
        DirectoryLog(capture.logs / f"public.{table}").put_stop(Stop("a row is lacking", "Start over"))
    reader, people = told(spark, wanted)
    assert (Exit.DONE, Antichain([161])) == (outcome(reader), open_lake(wanted.output).frontier)
    assert "public.u is covered by the connector from 140 on" in people
    assert 1 == people.count("the capture stopped: a row is lacking. Start over")
    assert (Counter([1, 3, 10, 11]), Counter([7, 8])) == (ids(spark, wanted, "t"), ids(spark, wanted, "u"))
    assert Counter([7]) == ids(spark, wanted, "u", 140)
    with pytest.raises(UsageError, match="nothing is stated of public.u at 139: the connector covers it from 140 on"):
        ids(spark, wanted, "u", 139)
    fresh = replace(wanted, state=capture.folder / "fresh", checkpoint=capture.folder / "fresh" / "checkpoint")
    run(spark, replace(fresh, output=capture.folder / "again"))
    assert Counter([7, 8]) == ids(spark, replace(fresh, output=capture.folder / "again"), "u")


def test_a_log_that_begins_late_is_complete_nowhere_before_it_states_something(
    spark: SparkSession, capture: Captures
) -> None:
    """Where it begins is stated, and updates are in it, which no statement counts yet."""
    with failpoints.placed(release_order.UPDATES_DURABLE), pytest.raises(failpoints.PlacedCrash):
        capture(WHOLE, *NOTIFIED, tables="tu")
    wanted = of(capture, "u")
    reader, people = told(spark, wanted)
    assert (Antichain([0]), Antichain([0])) == (reader.released, open_lake(wanted.output).frontier), people
    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    assert Antichain([161]) == run(spark, wanted).released and Counter([7, 8]) == ids(spark, wanted, "u")


def test_views_go_on_without_it_and_take_it_in_when_it_is_covered(spark: SparkSession, capture: Captures) -> None:
    """As the command does, which takes its turn; also where all of a view's logs begin late."""
    path = capture.folder / "both.yaml"
    path.write_text(VIEWS, "utf-8")
    assert Exit.DONE == outcome(materialized(spark, path))
    assert "t: 3 rows" in capture.run("compare", path).out
    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    assert Exit.DONE == outcome(materialized(spark, path))
    said = capture.run("compare", path)
    assert 0 == said.code and "t: 4 rows" in said.out and "u: 2 rows" in said.out
    assert (0, 0) == (capture.run("materialize", path).code, capture.run("compare", path).code)
    alone = capture.folder / "alone.yaml"
    alone.write_text(ALONE.replace("lake}", "lone}").replace("recovery_log: recovery", "recovery_log: other"), "utf-8")
    assert Exit.DONE == outcome(materialized(spark, alone, "--state", str(capture.folder / "alone")))
    said = capture.run("compare", alone)
    assert 0 == said.code and "u: 2 rows" in said.out and "equal: alone, complete through 160" in said.out
