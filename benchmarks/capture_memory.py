"""How much memory and time does a capture take of a large snapshot, with all rows in memory, and with few?

The records of a snapshot of one table, of rows of 100 bytes, are made one by one and absorbed by a capture by commit
times without Spark; then the snapshot is released into a log in a directory. Each run is a process of its own, of which
the greatest resident memory is what is measured, and the CPU time of which counts. Expected: in memory 1 kB for each
row; with a limit, 0.1 GB and the memory of the limit, and half as much CPU time again, as each row is encoded, sorted
and decoded once more. Answer: ``results/capture_memory.csv``, from ``python -m benchmarks capture_memory``.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Case, Question
from cdcv2.capture.facts import Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress
from cdcv2.rows.row_type import RowType

ROOT = Path(__file__).resolve().parents[1]
TABLE = "public.accounts"
TOPIC = f"g.{TABLE}"
_COLUMNS = {"aid": "int", "bid": ["null", "int"], "abalance": ["null", "int"], "filler": ["null", "string"]}
ROWS = RowType({
    "type": "record", "name": "accounts",
    "fields": [{"name": name, "type": kind} for name, kind in _COLUMNS.items()],
})  # fmt: skip
#: More rows than there are: all are in memory.
ALL = 10**9
#: Records between two tries to release.
BATCH = 2000


def records(rows: int) -> Iterator[Record]:
    """The snapshot, as Debezium's PostgreSQL connector sends it, as JSON without schemas."""
    row = {"aid": -1, "bid": 1, "abalance": 0, "filler": " " * 84}
    source = {
        "version": "3.7.0.Final", "connector": "postgresql", "name": "g", "ts_ms": 1795251720505, "snapshot": "MARK",
        "db": "g", "sequence": '[null,"1000"]', "ts_us": 1795251720505412, "ts_ns": 1795251720505412000,
        "schema": "public", "table": "accounts", "txId": 5, "lsn": 1000, "xmin": None,
    }  # fmt: skip
    text = json.dumps({
        "before": None, "after": row, "source": source, "transaction": None, "op": "r", "ts_ms": 1795251720962,
    })  # fmt: skip
    first, second, third = text.replace("-1", "|", 1).replace("MARK", "|").split("|")
    for aid in range(rows):
        marker = "last" if aid == rows - 1 else "first" if aid == 0 else "true"
        yield Record(TOPIC, 0, aid, None, f"{first}{aid}{second}{marker}{third}".encode())


def capture(rows: int, limit: int, folder: Path) -> None:
    """Absorb and release the snapshot."""
    log = DirectoryLog(folder / TABLE, ROWS, create=True)
    with Capture(Recipe("g", {TABLE: ROWS}), {TABLE: log}, memory_rows=limit) as made:
        for number, record in enumerate(records(rows), 1):
            made.absorb(record)
            if made.needs_ends:
                made.ends_read({(TOPIC, 0): rows})
            if number % BATCH == 0:
                made.release()
        made.release()


@dataclass
class Runs:
    """A folder for logs, and how many rows there are."""

    folder: Path
    rows: int
    #: The log that the last run wrote.
    written: list[Path] = field(default_factory=list)

    @classmethod
    def open(cls, seed: int, size: int) -> Runs:
        """The records are the same for every seed."""
        return cls(Path(tempfile.mkdtemp(prefix="cdcv2-bench-")), size)

    def check(self) -> None:
        """Raise ValueError unless the log states all rows."""
        (folder,) = self.written
        messages = (entry.message for entry in DirectoryLog(folder / TABLE).read() if entry is not None)
        counts = [one.counts for one in messages if isinstance(one, Progress)]
        if counts != [((1000, self.rows),)]:
            raise ValueError(f"the log states {counts}, not {self.rows} rows at 1000")
        shutil.rmtree(folder)
        self.written.clear()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def with_limit(limit: int) -> Callable[[Runs], dict[str, float]]:
    """A capture that has so many rows in memory at most, in a process of its own."""

    def run(runs: Runs) -> dict[str, float]:
        runs.written.append(Path(tempfile.mkdtemp(dir=runs.folder)))
        words = [sys.executable, "-m", "benchmarks.capture_memory", str(runs.rows), str(limit), str(runs.written[0])]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, cwd=ROOT)
        return {"MB at most": float(done.stdout)}

    return run


def _children(_: Runs) -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


QUESTION = Question(
    prepare=Runs.open,
    baseline=Case("all rows in memory", with_limit(ALL), check=Runs.check),
    cases=[
        Case(f"{limit:,} rows in memory", with_limit(limit), check=Runs.check) for limit in (100_000, 10_000)
    ],
    size=1_000_000,
    unit="rows",
    close=Runs.close,
    servers=_children,
    rounds=3,
    warm_up=0,
)

if __name__ == "__main__":
    capture(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
