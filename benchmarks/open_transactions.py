"""How much memory do transactions take that are not whole: one of all the rows, or ten thousand at a time?

The same records three times, as topics of three connectors: in transactions of ten rows, one after the other; in one
single transaction; and in ten thousand, of which one row comes after the other, and all Ends last. Each is captured on
a shared remap, by the command and by the job (whose JVM may take 1 GB of heap), in processes of their own; of these the
greatest resident memory is what is measured, that of the driver's Python and of a worker's. Expected: of the job less
than of the command, as executors hold the rows and its driver only marks of them; of both some hundred bytes to a
kilobyte for each row that is held. Answer: ``results/open_transactions.csv``, from
``python -m benchmarks open_transactions``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Case, Question
from benchmarks.spark_capture import AVSC, TABLE, update
from benchmarks.stage import fill, make_topic
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit

ROOT = Path(__file__).resolve().parents[1]
PARTITIONS = 3
#: How many transactions are open at a time, of those that are interleaved.
OPEN = 10_000
#: Records in a turn of the capture.
RECORDS = 100_000
#: Seconds after which something is broken.
PATIENCE = 900
SMALL, ONE, MANY = "small", "one", "many"


def shapes(rows: int) -> dict[str, int]:
    """By connector, how many transactions so many rows are in."""
    return {SMALL: rows // 10, ONE: 1, MANY: min(OPEN, rows)}


def envelopes(prefix: str, rows: int, transactions: int, *, together: bool) -> Iterator[tuple[str, int, None, bytes]]:
    """The topics of a connector; ``together``: the transactions take turns, row by row."""
    each = rows // transactions
    step = 10 * (each + 2)

    def row(tx: int, order: int) -> tuple[str, int, None, bytes]:
        # No row comes twice: changes of one time would cancel out.
        aid = tx * each + order
        return f"{prefix}.{TABLE}", aid % PARTITIONS, None, update(prefix, tx, aid, (tx + 1) * step, order)

    def end(tx: int) -> tuple[str, int, None, bytes]:
        collections = [{"data_collection": TABLE, "event_count": each}]
        said = {"status": "END", "id": f"{tx}:{(tx + 2) * step}", "event_count": each, "data_collections": collections}
        return f"{prefix}.transaction", 0, None, json.dumps({**said, "ts_ms": 1795251720511}).encode()

    if not together:
        for tx in range(transactions):
            yield from (row(tx, order) for order in range(1, each + 1))
            yield end(tx)
        return
    for order in range(1, each + 1):
        yield from (row(tx, order) for tx in range(transactions))
    yield from map(end, range(transactions))


@dataclass
class Topics:
    """A broker with the topics of the three connectors, and a folder."""

    broker: KafkaBroker
    folder: Path
    rows: int
    #: What the last run left in its log: updates.
    found: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, seed: int, size: int) -> Topics:
        """The records are the same for every seed."""
        folder = Path(tempfile.mkdtemp(prefix="cdcv2-bench-"))
        made = cls(KafkaBroker(heap="768m", options=("-XX:+UseSerialGC",)).__enter__(), folder, size)
        (folder / "rows").mkdir()
        (folder / "rows" / f"{TABLE}.avsc").write_text(json.dumps(AVSC), "utf-8")
        for prefix, transactions in shapes(size).items():
            make_topic(made.broker.bootstrap, f"{prefix}.{TABLE}", PARTITIONS)
            make_topic(made.broker.bootstrap, f"{prefix}.transaction", 1)
            fill(made.broker.bootstrap, envelopes(prefix, size, transactions, together=prefix == MANY))
        return made

    def close(self) -> None:
        """Stop the broker, remove the folder."""
        self.broker.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def words(self, prefix: str, name: str) -> list[str]:
        """The arguments of both."""
        return [
            "--bootstrap", self.broker.bootstrap, "--remap", f"kafka:{name}.remap", "--prefix", prefix, "--rows",
            str(self.folder / "rows"), "--snapshot", "none", "--into", f"kafka:{name}.{{table}}",
            "--bind-at-most", str(RECORDS),
        ]  # fmt: skip

    def check(self) -> None:
        """Raise ValueError when an update is missing: each record takes a row away and brings one."""
        for prefix, found in self.found.items():
            each = self.rows // shapes(self.rows)[prefix] * shapes(self.rows)[prefix]
            if found != 2 * each:
                raise ValueError(f"{found} updates of {prefix} are in the log, not {2 * each}")


def measured(topics: Topics, prefix: str, name: str, child: Child) -> dict[str, float]:
    """Wait for the end; the greatest memory of each kind of process that it had."""
    most: dict[str, float] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for kind, size in _sizes(child.pid):
                most[kind] = max(size, most.get(kind, 0.0))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        if child.wait(PATIENCE):
            raise RuntimeError(child.log_tail())
    finally:
        over.set()
        looking.join()
        child.kill9()
    reader, found = Resolver(), 0
    log = KafkaLog(f"{name}.{TABLE}", topics.broker.bootstrap, RowType(AVSC))
    for entry in log.read():
        batch = None if entry is None else reader.absorb(entry)
        found += 0 if batch is None else len(batch.updates)
    log.close()
    topics.found = {prefix: found}
    return {f"MB at most, {kind}": size for kind, size in most.items()}


def _sizes(group: int) -> Iterator[tuple[str, float]]:
    """What the processes of a group are, and the megabytes that each has resident."""
    for place in Path("/proc").iterdir():
        try:
            if not place.name.isdigit() or os.getpgid(int(place.name)) != group:
                continue
            words = (place / "cmdline").read_bytes().split(b"\0")
            pages = int((place / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue  # it has ended
        java, worker = words[0].endswith(b"java"), b"pyspark.daemon" in words
        yield "JVM" if java else "worker" if worker else "driver", pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def by_command(prefix: str) -> Callable[[Topics], dict[str, float]]:
    """``cdcv2 capture``."""

    def run(topics: Topics) -> dict[str, float]:
        name = uuid.uuid4().hex[:8]
        command = [sys.executable, "-m", "cdcv2", "capture", "kafka", *topics.words(prefix, name)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        log = topics.folder / f"{name}.log"
        child = Child("capture", command, log=log, env=environment, cwd=topics.folder)
        return measured(topics, prefix, name, child)

    return run


def by_job(prefix: str) -> Callable[[Topics], dict[str, float]]:
    """``streaming_jobs/capture.py``."""

    def run(topics: Topics) -> dict[str, float]:
        name = uuid.uuid4().hex[:8]
        words = [*topics.words(prefix, name), "--no-follow", "--max-records", str(RECORDS)]
        return measured(topics, prefix, name, spark_submit("capture", words, folder=topics.folder / name))

    return run


_TOLD = {SMALL: "transactions of ten rows", ONE: "one transaction", MANY: "ten thousand open at a time"}

QUESTION = Question(
    prepare=Topics.open,
    baseline=Case(f"cdcv2 capture, {_TOLD[SMALL]}", by_command(SMALL), check=Topics.check),
    cases=[
        *(Case(f"cdcv2 capture, {_TOLD[shape]}", by_command(shape), check=Topics.check) for shape in (ONE, MANY)),
        *(Case(f"the job, {_TOLD[shape]}", by_job(shape), check=Topics.check) for shape in (SMALL, ONE, MANY)),
    ],
    size=1_000_000,
    unit="rows",
    versions=("pyspark", "confluent-kafka"),
    close=Topics.close,
    rounds=1,
    warm_up=0,
)
