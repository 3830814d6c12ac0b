"""A table of every type, from a real PostgreSQL by Debezium and Kafka, by the jobs on Spark into every target."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.submit import spark_submit
from tests import every_type
from tests.arriving import TABLES, Source, arriving, check_arrived, check_equal, files, target_database
from tests.cli.conftest import Run, runs
from tests.spark.submitting import QUICK
from tests.stress.summary import record

pytestmark = [pytest.mark.spark, pytest.mark.integration]
PATIENCE = 400.0
#: With which Delta on Spark commits what executors staged.
MERGE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


def test_types_arrive_as_types(run: Run, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the commands: equal to the source, with its types, and a user's queries run unchanged."""
    with arriving(broker) as source:
        for name, value in source.server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("CDCV2_POSTGRES", raising=False)
        with target_database(source) as (target, session):
            for table in TABLES:
                path = tmp_path / "rows" / f"{table}.avsc"
                assert 0 == run("rows", "--source", "env", "--table", table, "--output", path).code
            captured(run, source, tmp_path)
            targets = {"postgres": target, "lake": files("lake", "lake"), "delta": files("delta", "delta"),
                       "merged": files("merged", "delta")}  # fmt: skip
            for name, one in targets.items():
                path = one.written(name, tmp_path)
                merged = name == "merged"
                child = spark_submit(
                    "materialize",
                    [str(path), "--state", str(tmp_path / f"{name}-state"), "--no-follow", "--max-files", "2",
                     *(["--merge-on-spark"] if merged else [])],
                    folder=tmp_path / "jobs" / name, settings=QUICK | (MERGE if merged else {}),
                    sets=("spark", "delta") if merged else ("spark",),
                )  # fmt: skip
                assert 0 == child.wait(PATIENCE), child.log_tail()
                check_equal(run, path, one)
            check_arrived(source.session, session)
    record("types arrive, by the jobs on Spark", [0], {
        "columns": len(every_type.COLUMNS), "rows": every_type.ROWS, "targets": len(targets),
    })


def captured(run: Run, source: Source, folder: Path) -> None:
    """The capture job follows until all is there that was committed, and ends at SIGTERM."""
    position = source.position()
    # The connector makes the topic of transactions with the first of them; the job waits for it.
    child = spark_submit(
        "capture",
        ["--bootstrap", source.bootstrap, "--prefix", "src", "--notifications", "src.notifications", "--rows",
         str(folder / "rows"), "--into", str(folder / "logs"), "--state", str(folder / "state")],
        folder=folder / "jobs", settings=QUICK,
    )  # fmt: skip

    source.mark()

    def there() -> bool:
        said = run("verify", folder / "logs", "--json")
        frontier = json.loads(said.out)["frontier"] if said.code == 0 else [0]
        return bool(frontier[0] > position)

    child.wait_until(there, "all that was committed", PATIENCE)
    child.signal(signal.SIGTERM)
    assert 0 == child.wait(PATIENCE), child.log_tail()
