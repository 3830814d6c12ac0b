"""Capture on Spark is killed again and again while a bank works, loses its memory, and its connector is killed, too."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.demo.bank import TABLES, Bank, in_order, row_types
from cdcv2.demo.watch import LogWatch, topics_of
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol import Resolver
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child, poll_until
from cdcv2.servers.submit import spark_submit
from tests.stress.summary import record

pytestmark = [pytest.mark.spark, pytest.mark.integration]

PREFIX = "bank"
ROWS = Path(__file__).resolve().parents[2] / "cdcv2" / "demo" / "rows"
MONEY = {"public.accounts": 3, "public.branches": 2}
KILLS = 24
SEED = 20261121
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


class World:
    """The servers, the bank, and the capture that runs on them; ``open`` closes it all."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder = folder
        self.kafka = opened.enter_context(KafkaBroker())
        self.postgres = opened.enter_context(Postgres())
        self.bank = Bank(self.postgres.connect, seed=SEED)
        self.bank.create()
        config = debezium_config(
            PREFIX, TABLES, host=self.postgres.host, port=self.postgres.port, database=self.postgres.database,
            user=self.postgres.username, partitions=3,
        )
        self.connect = opened.enter_context(
            Connect(self.kafka.bootstrap, config, environment=self.postgres.environment)
        )
        self.connect.wait_streaming()
        self.bank.marker("the beginning")
        assert poll_until(lambda: f"{PREFIX}.transaction" in topics_of(self.kafka.bootstrap), PATIENCE)
        self.watch = LogWatch(self.kafka.bootstrap, {table: f"log.{table}" for table in TABLES}, row_types())

    @contextmanager
    def capture(self, *more: str) -> Iterator[Child]:
        """The job; it is killed in the end."""
        words = [
            "--bootstrap", self.kafka.bootstrap, "--prefix", PREFIX, "--tables", ",".join(TABLES),
            "--rows", str(ROWS), "--into", "kafka:log.{table}", "--notifications", f"{PREFIX}.notifications",
            "--state", str(self.folder / "state"), *more,
        ]
        job = spark_submit("capture", words, folder=self.folder / "job")
        try:
            yield job
        finally:
            job.kill9()

    def passed(self, time: int) -> bool:
        """Whether all logs are complete through ``time``."""
        return not self.watch.known().less_equal(time)


def lost(state: Path, choice: random.Random, counts: Counter[str]) -> None:
    """Lose what a capture keeps: nothing, Spark's checkpoint, or all of its memory."""
    draw = choice.random()
    if draw < 0.25:
        shutil.rmtree(state / "checkpoint", ignore_errors=True)
        counts["with the checkpoint deleted"] += 1
    elif draw < 0.5:
        shutil.rmtree(state, ignore_errors=True)
        counts["with the whole memory deleted"] += 1


def test_capture_survives_many_kills(tmp_path: Path) -> None:
    """The driver's JVM alone, the whole group, at random moments; the connector twice, after its snapshot."""
    choice = random.Random(SEED)
    counts: Counter[str] = Counter({"kills": 0})
    with ExitStack() as opened:
        world = World(tmp_path, opened)
        with world.bank.at_work(clients=3, rate=15.0) as clients:
            for number in range(KILLS):
                with world.capture() as job:
                    kill_in_mid_run(world, job, choice, number)
                counts["kills"] += 1
                counts["of the driver's JVM alone" if number % 2 else "of the process group"] += 1
                if number in (KILLS // 3, 2 * KILLS // 3):
                    world.connect.kill9()
                    world.connect.start()
                    counts["of Debezium"] += 1
                lost(tmp_path / "state", choice, counts)
                clients.check()
        end = world.bank.marker()
        with world.capture() as job:
            job.wait_until(lambda: world.passed(end), "the logs pass the marker", PATIENCE)
        counts["transactions"] = clients.done.committed.total()
        judge(world, counts)
    assert counts["kills"] >= 20 and counts["of Debezium"] == 2
    assert counts["with the checkpoint deleted"] >= 3 and counts["with the whole memory deleted"] >= 3
    record("capture is killed", [SEED], counts)


def kill_in_mid_run(world: World, job: Child, choice: random.Random, number: int) -> None:
    """Kill it at a random moment: mostly after it got further, now and then while it starts."""
    if number % 4:
        before = world.watch.known()
        job.wait_until(lambda: world.watch.known() != before, "it got further", PATIENCE)
        # A random moment within the next batches; nothing is expected to have happened before it.
        threading.Event().wait(choice.uniform(0.0, 2.0))
    else:
        threading.Event().wait(choice.uniform(1.0, 12.0))
    job.kill9(alone=number % 2 == 1)


def judge(world: World, counts: Counter[str]) -> None:
    """The logs hold no contradiction, and replayed they are the database at the end, and consistent on the way."""
    changes: dict[int, list[tuple[str, tuple[object, ...], int]]] = {}
    for table, row_type in row_types().items():
        log = KafkaLog(f"log.{table}", world.kafka.bootstrap, row_type)
        reader, auditor = Resolver(), Resolver(keep_all=True)
        for entry in log.read():
            if entry is None:
                continue
            auditor.absorb(entry)  # forgets nothing, so finds contradictions at finished times, too
            for row, time, diff in (batch.updates if (batch := reader.absorb(entry)) else ()):
                changes.setdefault(time, []).append((table, tuple(row), diff))
        log.close()
        assert not reader.missing() and not auditor.missing()
    held: dict[str, Counter[tuple[object, ...]]] = {table: Counter() for table in TABLES}
    money = 0
    for time in sorted(changes):
        for table, row, diff in changes[time]:
            held[table][row] += diff
            money += diff * row[MONEY[table]] if table in MONEY else 0  # type: ignore[operator]
        assert all(held[table][row] >= 0 for table, row, _ in changes[time]), f"a negative row at {time}"
        assert money == world.bank.money, f"money made or lost at {time}"
    counts["updates"] = sum(map(len, changes.values()))
    counts["frontiers with the constant sum"] = len(changes)
    for table in TABLES:
        assert in_order(held[table].elements()) == world.bank.contents(table), table
