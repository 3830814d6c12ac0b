"""Write what jobs on Spark leave: ``python -m tests.golden.spark FOLDER``, once per version.

A capture by commit times in the middle of a transaction, a replay and a materialization of its logs: memory, states and
checkpoints. These have absolute paths in them, so FOLDER is :data:`WRITTEN_AT`, and :func:`placed` puts others in their
place. The folder ``spark`` was written before a log had an identity.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdcv2.control.materialization_file import read_plan
from cdcv2.materialize.distributed import DistributedRuntime
from cdcv2.spark import materialize, replay as replaying
from cdcv2.spark.capture import job as capture_job
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.materialization_target import MaterializationTarget
from cdcv2.spark.progress import ProgressLines

WRITTEN_AT = "/tmp/cdcv2-golden-spark"
GOLDEN = Path(__file__).resolve().parent / "spark"
TABLES = ("public.t", "public.u")
VIEWS = """
materialization: both
logs: logs
bindings:
  - {log: public.t, target: t, key: [id]}
  - {log: public.u, target: u, key: [id], reduce: {n: count, v: {sum: v}}}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


def _line(topic: str, offset: int, value: dict[str, Any]) -> str:
    line = {"topic": f"p.{topic}", "partition": 0, "offset": offset, "key": None, "value": json.dumps(value)}
    return json.dumps(line)


def _row(table: str, offset: int, number: int, before: int, tx: tuple[int, int, int] | None = None) -> str:
    """A row of the snapshot, or one that a transaction inserts: which, in which place, in which place of the table."""
    source = {
        "connector": "postgresql", "name": "p", "schema": "public", "table": table, "lsn": 100,
        "txId": tx[0] if tx else 1, "snapshot": "false" if tx else "true", "sequence": json.dumps([str(before), "100"]),
        "version": "3.7.0.Final",
    }  # fmt: skip
    place = {"id": f"{tx[0]}:1", "total_order": tx[1], "data_collection_order": tx[2]} if tx else None
    after = {"id": number, "v": number * 10}
    value = {"op": "c" if tx else "r", "before": None, "after": after, "transaction": place, "source": source}
    return _line(f"public.{table}", offset, value)


def _end(offset: int, tx: int, lsn: int, **counts: int) -> str:
    of = [{"data_collection": f"public.{table}", "event_count": number} for table, number in counts.items()]
    value = {"status": "END", "id": f"{tx}:{lsn}", "event_count": sum(counts.values()), "data_collections": of}
    return _line("transaction", offset, value)


def _note(offset: int, kind: str, table: str = "", rows: int = 0) -> str:
    more = {"scanned_collection": table, "total_rows_scanned": str(rows)} if table else {}
    value = {"aggregate_type": "Initial Snapshot", "type": kind, "additional_data": {"connector_name": "p", **more}}
    return _line("notes", offset, value)


#: What was there when the golden files were written, and what came then.
FIRST = [
    _note(0, "STARTED"), _note(1, "TABLE_SCAN_COMPLETED", "public.t", 2),
    _note(2, "TABLE_SCAN_COMPLETED", "public.u", 1), _note(3, "COMPLETED"),
    _row("t", 0, 1, 100), _row("t", 1, 2, 100), _row("u", 0, 7, 100),
    _row("t", 2, 3, 100, (5, 1, 1)), _row("u", 1, 8, 100, (5, 2, 1)), _end(0, 5, 120, t=1, u=1),
    _row("t", 3, 4, 120, (6, 1, 1)),
]  # fmt: skip
REST = [_row("u", 2, 9, 120, (6, 2, 1)), _end(1, 6, 140, t=1, u=1)]


def arrange(folder: Path, lines: list[str], number: int) -> None:
    """More of the dump, the row types, and the file of the views."""
    for name in ("topics", "rows"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        fields = [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "int"]}]
        schema = {"type": "record", "name": table[-1], "fields": fields}
        (folder / "rows" / f"{table}.avsc").write_text(json.dumps(schema))
    (folder / "topics" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "both.yaml").write_text(VIEWS)


def capture(spark: SparkSession, folder: Path, before: str, report: CaptureReport) -> None:
    """The capture, with its memory."""
    capture_job.capture(spark, capture_job.planned(capture_job.parser().parse_args([
        str(folder / "topics"), "--prefix", "p", "--notifications", "p.notes", "--before", before,
        "--rows", str(folder / "rows"), "--into", str(folder / "logs"), "--state", str(folder / "state" / "capture"),
        "--no-follow",
    ])), report)  # fmt: skip


def replay(spark: SparkSession, folder: Path, progress: ProgressLines) -> None:
    """The replay of its logs, with state and checkpoint."""
    logs = [f"{table}={folder / 'logs' / table}" for table in TABLES]
    words = ["--state", str(folder / "state" / "replay"), "--output", str(folder / "out"), "--no-follow"]
    replaying.replay(spark, replaying.planned(replaying.parser().parse_args([*logs, *words])), progress, signals=False)


def views(spark: SparkSession, folder: Path, progress: ProgressLines) -> None:
    """The views of its logs, with state and checkpoint."""
    given = read_plan(str(folder / "both.yaml"))
    words = [str(folder / "both.yaml"), "--state", str(folder / "state" / "views"), "--no-follow"]
    plan = materialize.planned(given, materialize.parser().parse_args(words))
    runtime = DistributedRuntime(given.name, given.bindings, given.driver(), log=given.recovery(), start=[given.start])

    def target() -> MaterializationTarget:
        runtime.open()
        return MaterializationTarget(runtime)

    try:
        replaying.replay(spark, plan, progress, signals=False, target=target)
    finally:
        runtime.close()


def placed(folder: Path) -> Path:
    """The golden files, in a folder whose path stands where theirs stood."""
    shutil.copytree(GOLDEN, folder)
    for path in [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".parquet", ".avro")]:
        path.write_text(path.read_text("utf-8").replace(WRITTEN_AT, str(folder)), "utf-8")
    return folder


def write(spark: SparkSession, folder: Path) -> None:
    """All of them, into a folder that is not there."""
    steps: list[Callable[[], object]] = [
        lambda: capture(spark, folder, "from-envelope", CaptureReport()),
        lambda: replay(spark, folder, ProgressLines()),
        lambda: views(spark, folder, ProgressLines()),
    ]
    arrange(folder, FIRST, 0)
    for step in steps:
        step()
    # Spark's own sums of its files, which have other paths in another place.
    for path in folder.rglob(".*.crc"):
        path.unlink()
    shutil.rmtree(folder / "state" / "capture" / "checkpoint")


def main() -> None:
    """Write them with a Spark of our own."""
    from cdcv2.servers.jars import comma_list

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.jars", comma_list("spark"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    with builder.getOrCreate() as spark:
        write(spark, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
