"""What the tests of the materialize job share: logs of the kit's workload in directories, and the file for them."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from cdcv2.control.materialization_file import read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize import Checkpoint
from cdcv2.materialize.distributed import DistributedRuntime
from cdcv2.materialize.targets.delta.driver import DeltaDriver
from cdcv2.protocol import Progress, Updates
from cdcv2.spark.delta import committer
from cdcv2.spark.materialization_target import MaterializationTarget
from cdcv2.spark.materialize import exit_code, parser, planned, views_of
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.reader import Reader
from cdcv2.spark.replay import outcome, replay
from cdcv2.testing import Workload
from cdcv2.testing.workload import ACCOUNTS, ENTRIES
from tests.spark.replaying import THINGS

FILE = """
materialization: conformance
logs: {{accounts: logs/accounts, entries: logs/entries}}
bindings:
  - {{log: entries, target: account_total, key: [account],
     reduce: {{entries: count, total: {{sum: amount}}, worth: {{sum: price}}}}}}
  - {{log: entries, target: entry_log}}
  - {{log: accounts, target: account_now, key: [name]}}
{last}target: {target}
{more}
"""
#: One more view, which has to be as the rows by key are: an account's last owner, of its rows that are there.
LAST = "  - {log: accounts, target: account_last, key: [name], reduce: {last: {last: owner}}}\n"


def written(
    folder: Path, work: Workload, *, target: str, more: str = "recovery_log: recovery", cuts: int = 99, last: str = ""
) -> Path:
    """The logs of the first ``cuts`` cuts, two files each, every update twice; the file beside them."""
    logs = {
        name: DirectoryLog(folder / "logs" / name, row_type, create=True, description=THINGS)
        for name, row_type in (("accounts", ACCOUNTS), ("entries", ENTRIES))
    }
    there = max(DirectoryLog(folder / "logs" / name).ends().get(0, 0) for name in logs) // 2
    for cut in list(work.source(Checkpoint(Antichain([0]))))[there:cuts]:
        for name, log in logs.items():
            updates = cut.updates.get(name, [])
            counts = Counter(time for _, time, _ in updates)
            log.send(Updates([*updates, *updates]))
            log.flush()
            log.send(Progress(cut.lower, cut.upper, counts))
            log.flush()
    path = folder / "shop.yaml"
    path.write_text(FILE.format(target=target, more=more, last=last), "utf-8")
    return path


def materialized(
    spark: SparkSession, path: Path, *options: str, merge: bool = False, people: io.StringIO | None = None
) -> Reader:
    """The job in this process, to the end of what is there; ``people`` takes what it reports to them."""
    given = read_plan(str(path))
    arguments = [str(path), "--state", str(path.parent / "state"), "--no-follow", "--interval", "0.1", *options]
    plan = planned(given, parser().parse_args(arguments))
    log = given.recovery()
    driver = given.driver()
    runtime = DistributedRuntime(given.name, given.bindings, driver, log=log, start=[given.start])

    def target() -> MaterializationTarget:
        if merge:
            assert isinstance(driver, DeltaDriver)
            driver.commit = committer(spark)
        return views_of(given, runtime)

    try:
        reader = replay(spark, plan, ProgressLines(people), signals=False, target=target)
        assert outcome(reader) is exit_code(given, runtime, reader)
        return reader
    finally:
        runtime.close()
