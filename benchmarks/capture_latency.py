"""How long after its commit is a transaction finished in the logs, at a steady 500 transactions a second?

A client commits one row in each transaction, with the time of its commit in it. A reader looks at the topic that the
connector writes (the baseline: nothing can be sooner), or at the log of the capture, where a row counts when its
time is behind the frontier: so all transactions before it are there, too. The seconds of a run are those for which it
commits. Expected: the capture adds half of the time between two bindings, a turn, and a statement; on Spark, where a
turn is some jobs however little there is, several times as much. Answer: ``results/capture_latency.csv``, from
``python -m benchmarks capture_latency``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness import Case, Question
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit

TABLE, PREFIX = "public.events", "l"
RATE = 500
BIND_EVERY = 0.25
_AVSC = {"type": "record", "name": "events", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "long"}]}
ROOT = Path(__file__).resolve().parents[1]
#: Seconds after which something is broken.
PATIENCE = 180


@dataclass
class World:
    """Servers, and a connector that follows one table."""

    opened: ExitStack
    folder: Path
    broker: KafkaBroker
    postgres: Postgres
    size: int
    begun: int = 0
    latencies: list[float] = field(default_factory=list)
    lasted: float = 0.0

    @classmethod
    def open(cls, seed: int, size: int) -> World:
        """All of it, with nothing committed but one row; ``size`` transactions are for each run."""
        opened = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="cdcv2-latency-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = opened.enter_context(KafkaBroker(heap="512m", options=("-XX:+UseSerialGC",)))
        postgres = opened.enter_context(Postgres())
        with postgres.connect() as connection:
            connection.execute("CREATE TABLE events (id bigint PRIMARY KEY, at bigint NOT NULL)")
            connection.execute("ALTER TABLE events REPLICA IDENTITY FULL")
        config = debezium_config(
            PREFIX, [TABLE], host=postgres.host, port=postgres.port, database=postgres.database,
            user=postgres.username,
        )
        connect = opened.enter_context(Connect(broker.bootstrap, config, environment=postgres.environment))
        connect.wait_streaming()
        (folder / "rows").mkdir()
        (folder / "rows" / f"{TABLE}.avsc").write_text(json.dumps(_AVSC), "utf-8")
        made = cls(opened, folder, broker, postgres, size)
        made.commit(1)
        made.wait_for_topic()
        return made

    def close(self) -> None:
        """Stop all."""
        self.opened.close()

    def wait_for_topic(self) -> None:
        """Until the connector has made the table's topic, as it does with the first row."""
        given_up = time.monotonic() + PATIENCE
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "latency", "log_level": 0})
        try:
            # All topics: a question for one topic alone would have the broker make it.
            while f"{PREFIX}.{TABLE}" not in consumer.list_topics(timeout=30).topics:
                if time.monotonic() > given_up:
                    raise RuntimeError(f"after {PATIENCE} seconds the connector has not made {PREFIX}.{TABLE}")
                time.sleep(0.05)
        finally:
            consumer.close()

    def commit(self, number: int) -> int:
        """So many transactions at the steady rate; how many there are then."""
        begun = time.monotonic()
        with self.postgres.connect(autocommit=True) as connection:
            for turn in range(number):
                # A late one does not let those after it be late.
                time.sleep(max(0.0, begun + turn / RATE - time.monotonic()))
                self.begun += 1
                connection.execute("INSERT INTO events VALUES (%s, %s)", (self.begun, time.time_ns() // 1000))
        self.lasted = time.monotonic() - begun
        return self.begun

    def measured(self, arrivals: Iterator[tuple[int, int]]) -> dict[str, float]:
        """Commit, and see them arrive; ``arrivals`` are ids and the times at which they were committed."""
        first = self.begun
        committing = threading.Thread(target=self.commit, args=(self.size,))
        latencies: list[float] = []
        seen = first
        committing.start()
        for number, at in arrivals:
            seen = max(seen, number)
            # The first second is that of caches and of the connector's own beginning.
            if number > first + RATE:
                latencies.append(time.time_ns() / 1e6 - at / 1e3)
            if seen == first + self.size:
                break
        committing.join()
        cuts = statistics.quantiles(latencies, n=100)
        return {
            "ms from commit, median": cuts[49], "ms from commit, p99": cuts[98],
            "transactions per second": self.size / self.lasted,
        }

    def rows_of_topic(self) -> Iterator[tuple[int, int]]:
        """What the connector writes from now on."""
        consumer = Consumer({
            "bootstrap.servers": self.broker.bootstrap, "group.id": "latency", "fetch.wait.max.ms": 10, "log_level": 0
        })
        place = TopicPartition(f"{PREFIX}.{TABLE}", 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(f"{PREFIX}.{TABLE}", 0, end)])
        try:
            while True:
                message = consumer.poll(0.1)
                if message is not None and not message.error():
                    row = json.loads(message.value() or b"")["after"]
                    yield row["id"], row["at"]
        finally:
            consumer.close()

    def rows_of_log(self, name: str, job: Child) -> Iterator[tuple[int, int]]:
        """What is finished in the log of a capture from now on, while that lives."""
        log = KafkaLog(f"{name}.{TABLE}", self.broker.bootstrap, RowType(_AVSC))
        reader = Resolver()
        after = self.begun
        try:
            for entry in log.read(follow=True):
                if entry is None and not job.running:
                    raise RuntimeError(f"the capture has ended: {job.log_tail()}")
                batch = None if entry is None else reader.absorb(entry)
                for row, _, _ in batch.updates if batch is not None else ():
                    if row.id > after:
                        yield row.id, row.at
        finally:
            log.close()


def topic(world: World) -> dict[str, float]:
    """The connector alone."""
    return world.measured(world.rows_of_topic())


@contextmanager
def finished_by(world: World, name: str, start: Callable[[], Child]) -> Iterator[Child]:
    """A capture that has written what was there; it ends with the block."""
    job = start()
    try:
        job.wait_until(lambda: _has(world, name), "what was there is finished", PATIENCE)
        yield job
    finally:
        job.kill9()


def _has(world: World, name: str) -> bool:
    from cdcv2.demo.watch import LogWatch

    watch = LogWatch(world.broker.bootstrap, {TABLE: f"{name}.{TABLE}"}, {TABLE: RowType(_AVSC)})
    reader = Resolver()
    batches = [reader.absorb(message) for message in watch.messages(TABLE)]
    return sum(len(batch.updates) for batch in batches if batch is not None) >= world.begun


def _words(world: World, name: str) -> list[str]:
    return [
        "--bootstrap", world.broker.bootstrap, "--remap", f"kafka:{name}.remap", "--prefix", PREFIX, "--notifications",
        f"{PREFIX}.notifications", "--rows", str(world.folder / "rows"), "--into", f"kafka:{name}.{{table}}",
        "--bind-every", str(BIND_EVERY),
    ]  # fmt: skip


def pure(world: World) -> dict[str, float]:
    """The command."""
    name = uuid.uuid4().hex[:8]
    command = [sys.executable, "-m", "cdcv2", "capture", "kafka", *_words(world, name), "--follow"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start() -> Child:
        return Child("capture", command, log=world.folder / "capture.log", env=environment, cwd=world.folder)

    with finished_by(world, name, start) as job:
        return world.measured(world.rows_of_log(name, job))


def on_spark(world: World) -> dict[str, float]:
    """The job."""
    name = uuid.uuid4().hex[:8]

    def start() -> Child:
        return spark_submit("capture", _words(world, name), folder=world.folder / "job")

    with finished_by(world, name, start) as job:
        return world.measured(world.rows_of_log(name, job))


QUESTION: Question[Any] = Question(
    prepare=World.open,
    baseline=Case("in the connector's topic", topic),
    cases=[
        Case("finished in the log of cdcv2 capture --remap", pure),
        Case("finished in the log of the job on a shared remap", on_spark),
    ],
    size=15_000,
    unit="transactions",
    versions=("pyspark", "confluent-kafka"),
    close=World.close,
    rounds=1,
    warm_up=0,
)
