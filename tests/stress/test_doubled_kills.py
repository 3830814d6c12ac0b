"""Two captures on Spark write the same logs of two databases; each is killed again and again, their connectors, too."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.core.antichain import Antichain
from cdcv2.demo.bank import TABLES, Bank, in_order, row_types
from cdcv2.demo.watch import LogWatch, topics_of
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child, poll_until
from cdcv2.servers.submit import spark_submit
from tests.children import CDCV2
from tests.stress.summary import record

pytestmark = [pytest.mark.spark, pytest.mark.integration]

PREFIXES = ("bank", "shop")
ROWS = Path(__file__).resolve().parents[2] / "cdcv2" / "demo" / "rows"
MONEY = {"public.accounts": 3, "public.branches": 2}
#: Fewer, for a look.
KILLS = int(os.environ.get("CDCV2_KILLS", "20"))
SEED = 20261122
#: Seconds after which something is broken, and not only slow.
PATIENCE = 400


class Source:
    """A database at work, and its connector."""

    def __init__(self, prefix: str, postgres: Postgres, kafka: KafkaBroker, opened: ExitStack) -> None:
        self.prefix, self.kafka = prefix, kafka
        if prefix != postgres.database:
            with postgres.connect(autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {prefix}".encode())
        self.bank = Bank(lambda: postgres.connect(dbname=prefix), seed=SEED)
        self.bank.create()
        config = debezium_config(
            prefix, TABLES, host=postgres.host, port=postgres.port, database=prefix, user=postgres.username,
            partitions=2,
        )
        self.connect = opened.enter_context(Connect(kafka.bootstrap, config, environment=postgres.environment))

    def begin(self) -> None:
        """The snapshot is behind it, and there is a transaction."""
        self.connect.wait_streaming(PATIENCE)
        self.bank.marker("the beginning")
        assert poll_until(lambda: f"{self.prefix}.transaction" in topics_of(self.kafka.bootstrap), PATIENCE)

    def end(self) -> None:
        """All that was committed is in the topics: its last transaction is, which touches no table."""
        marker = self.bank.marker()
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": "end", "log_level": 0})
        consumer.assign([TopicPartition(f"{self.prefix}.transaction", 0, 0)])

        def is_in() -> bool:
            message = consumer.poll(0.5)
            said = json.loads(message.value()) if message is not None and not message.error() else {}
            return said.get("status") == "END" and int(str(said["id"]).split(":")[1]) >= marker

        assert poll_until(is_in, PATIENCE, pause=0)
        consumer.close()


class World:
    """The servers, both databases, and the captures that run on them; ``opened`` closes it all."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder, self.opened = folder, opened
        self.kafka = opened.enter_context(KafkaBroker())
        self.postgres = opened.enter_context(Postgres())
        self.sources = [Source(prefix, self.postgres, self.kafka, opened) for prefix in PREFIXES]
        for source in self.sources:
            source.begin()
            shutil.copytree(ROWS, folder / "rows" / source.prefix)
        self.rows: dict[str, RowType] = {
            f"{prefix}.{table}": kind for prefix in PREFIXES for table, kind in row_types().items()
        }
        self.watch = LogWatch(self.kafka.bootstrap, {table: f"log.{table}" for table in self.rows}, self.rows)

    def capture(self, name: str, *more: str) -> Child:
        """A job; it is killed in the end."""
        words = ["--bootstrap", self.kafka.bootstrap, "--remap", "kafka:timeline", "--rows", str(self.folder / "rows"),
                 "--into", "kafka:log.{table}", "--bind-every", "0.5", "--bind-at-most", "200", *more]  # fmt: skip
        for prefix in PREFIXES:
            words += ["--prefix", prefix, "--notifications", f"{prefix}={prefix}.notifications"]
        job = spark_submit("capture", words, folder=self.folder / name, master="local[1]", memory="768m")
        self.opened.callback(job.kill9)
        return job


def test_two_captures_write_one_log_whoever_dies(tmp_path: Path) -> None:
    """The driver's JVM alone, or the whole group, at random moments; each is started again at once."""
    choice = random.Random(SEED)
    counts: Counter[str] = Counter({"kills": 0})
    # After these kills a connector dies, too; twice each of them.
    moments = Counter(-(-KILLS * at // 5) for at in range(1, 5))
    with ExitStack() as opened:
        world = World(tmp_path, opened)
        with ExitStack() as working:
            clients = [working.enter_context(one.bank.at_work(clients=2, rate=8.0)) for one in world.sources]
            jobs = [world.capture("first"), world.capture("second")]
            moved(world, jobs[0], Antichain([0]))
            for number in range(KILLS):
                kill(world, jobs, number % 2, choice, counts)
                for _ in range(moments[number + 1]):
                    connect = world.sources[counts["of Debezium"] % 2].connect
                    connect.kill9()
                    connect.start()
                    counts["of Debezium"] += 1
                for one in clients:
                    one.check()
        for source in world.sources:
            source.end()
        for job in jobs:
            job.kill9()
        last = world.capture("last", "--no-follow")
        assert 0 == last.wait(PATIENCE), last.log_tail()
        counts["transactions"] = sum(one.done.committed.total() for one in clients)
        verified(world)
        judge(world, counts)
    assert counts["of Debezium"] == 4
    record("two captures on Spark are killed", [SEED], counts)


def moved(world: World, job: Child, before: Antichain) -> None:
    """The logs got further than that."""
    job.wait_until(lambda: world.watch.known() != before, "the logs got further", PATIENCE)


def kill(world: World, jobs: list[Child], which: int, choice: random.Random, counts: Counter[str]) -> None:
    """One of them, when it has got further itself, or, now and then, while it starts; and start it again."""
    job = jobs[which]
    at_start = choice.random() < 0.25
    if not at_start:
        job.wait_until(lambda: job.log_since_start().count('"what": "carried"') > 1, "it has carried", PATIENCE)
    # A random moment within the next turns; nothing is expected to have happened before it.
    threading.Event().wait(choice.uniform(0.0, 6.0 if at_start else 2.0))
    alone = choice.random() < 0.5
    job.kill9(alone=alone)
    # The other one goes on.
    moved(world, jobs[1 - which], world.watch.known())
    jobs[which] = world.capture(("first", "second")[which])
    counts["kills"] += 1
    counts["while it started" if at_start else "after turns of its own"] += 1
    counts["of the driver's JVM alone" if alone else "of the process group"] += 1


def verified(world: World) -> None:
    """The command finds that it is one log, those of TEMP included, at finished times, too."""
    temp = world.folder / "temp.avsc"
    temp.write_text(json.dumps(TEMP.schema), "utf-8")
    files = {name: world.folder / "rows" / name.partition(".")[0] / f"{name.partition('.')[2]}.avsc"
             for name in world.rows}  # fmt: skip
    files |= {f"_temp.{prefix}": temp for prefix in PREFIXES}
    done = subprocess.run(
        [*CDCV2, "verify", "--full", *(f"{name}=kafka:log.{name}" for name in files), "--bootstrap",
         world.kafka.bootstrap, *(word for name, file in files.items() for word in ("--row", f"{name}={file}"))],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr


def judge(world: World, counts: Counter[str]) -> None:
    """The logs hold no contradiction, and replayed they are both databases, and consistent on the way."""
    changes: dict[int, list[tuple[str, str, tuple[object, ...], int]]] = {}
    uppers = set()
    for name, row_type in [*world.rows.items(), *((f"_temp.{prefix}", TEMP) for prefix in PREFIXES)]:
        log = KafkaLog(f"log.{name}", world.kafka.bootstrap, row_type)
        reader, auditor = Resolver(), Resolver(keep_all=True)
        for entry in log.read():
            if entry is None:
                continue
            auditor.absorb(entry)  # forgets nothing, so finds contradictions at finished times, too
            for row, time, diff in (batch.updates if (batch := reader.absorb(entry)) else ()):
                if name in world.rows:
                    prefix, _, table = name.partition(".")
                    changes.setdefault(time, []).append((prefix, table, tuple(row), diff))
            counts["messages of both"] += 1
        log.close()
        assert not reader.missing() and not auditor.missing()
        uppers.add(str(reader.frontier))
    # Two that were killed at different moments may have stated the logs up to different times; the last one did not.
    assert 1 == len(uppers)
    held: dict[tuple[str, str], Counter[tuple[object, ...]]] = {}
    money: Counter[str] = Counter()
    for time in sorted(changes):
        for prefix, table, row, diff in changes[time]:
            held.setdefault((prefix, table), Counter())[row] += diff
            money[prefix] += diff * row[MONEY[table]] if table in MONEY else 0  # type: ignore[operator]
        assert all(held[prefix, table][row] >= 0 for prefix, table, row, _ in changes[time]), f"negative at {time}"
        there = [source for source in world.sources if money[source.prefix]]
        assert sum(money.values()) == sum(source.bank.money for source in there), f"money made or lost at {time}"
    counts["updates"] = sum(map(len, changes.values()))
    counts["frontiers with the constant sum"] = len(changes)
    for source in world.sources:
        for table in TABLES:
            content = in_order(held[source.prefix, table].elements())
            assert content == source.bank.contents(table), f"{source.prefix} {table}"
