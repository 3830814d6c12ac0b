"""A pipeline on real servers: two PostgreSQL, Kafka, a distributed Connect, and ``cdcv2 up`` with a capture and a view.

A thread commits rows to the source at a steady rate, each with the next number, and keeps the moment of each commit. So
how far the target is behind is known to a reader of both: the age of the first commit whose number the target lacks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.kafka_gate import KafkaGate
from cdcv2.connectors.debezium.config import JSON_CONVERTERS, debezium_config
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from cdcv2.store.connect_client import ConnectClient

TABLE, NAME = "public.orders", "shop"
ROOT = Path(__file__).resolve().parents[1]
#: Seconds after which something is broken.
PATIENCE = 180.0
_ROW = {"type": "record", "name": "orders", "fields": [{"name": "id", "type": "long"}]}
_FILE = """
pipeline: shop
kafka: {{bootstrap: "{bootstrap}"}}
sources:
  shop:
    postgres: {{conninfo: "host={source.host} port={source.port} dbname=bank user=cdcv2 password=${{SOURCE_PASSWORD}}"}}
    notifications: shop.notifications
    connector: {{url: "{url}"}}
captures:
  shop: {{into: logs}}
views:
  copy:
    bindings: [{{log: public.orders, target: orders, key: [id]}}]
    target:
      driver: postgres
      conninfo: "host={target.host} port={target.port} dbname=bank user=cdcv2 password=${{COPY_PASSWORD}}"
"""


@dataclass
class PipelineWorld:
    """The servers and the processes, until :meth:`close`."""

    opened: ExitStack
    folder: Path
    broker: KafkaBroker
    #: What the connector writes goes through it.
    gate: KafkaGate
    source: Postgres
    target: Postgres
    connect: DistributedConnect
    client: ConnectClient
    config: dict[str, str]
    pipeline: Pipeline
    process: subprocess.Popen[bytes] | None = None
    #: The moment of each commit; its number is that of its row, from 1 on.
    commits: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def open(cls) -> PipelineWorld:
        """All of it, with one row that has arrived."""
        opened = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="cdcv2-pipeline-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = KafkaBroker(heap="384m", options=("-XX:+UseSerialGC",))
        gate = KafkaGate(broker)
        opened.callback(gate.close)
        opened.enter_context(broker)
        source, target = opened.enter_context(Postgres()), opened.enter_context(Postgres())
        with source.connect(autocommit=True) as session:
            session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); ALTER TABLE orders REPLICA IDENTITY FULL")
            session.execute("CREATE TABLE other (id bigint); CREATE PUBLICATION shop FOR TABLE orders")
        connect = opened.enter_context(DistributedConnect(broker.bootstrap, environment=source.environment))
        config = debezium_config(
            NAME, [TABLE], host=source.host, port=source.port, database="bank", user=source.username,
            publication="disabled",
            more={**JSON_CONVERTERS, "producer.override.bootstrap.servers": gate.bootstrap},
        )
        client = ConnectClient(connect.url)
        os.environ["SOURCE_PASSWORD"], os.environ["COPY_PASSWORD"] = source.password, target.password
        path = folder / "shop.yaml"
        text = _FILE.format(bootstrap=broker.bootstrap, source=source, target=target, url=connect.url)
        path.write_text(text, "utf-8")
        (folder / "rows").mkdir()
        (folder / "rows" / f"{TABLE}.avsc").write_text(json.dumps(_ROW), "utf-8")
        made = cls(opened, folder, broker, gate, source, target, connect, client, config, read_pipeline(str(path)))
        opened.callback(made.down)
        client.create(NAME, config)
        made.demand(made.slot_is_read, "the connector reads from its slot")
        made.commit(1)
        made.up()
        made.demand(lambda: made.arrived() == 1, "the first row is in the target")
        return made

    def close(self) -> None:
        """End all."""
        self.opened.close()

    def up(self) -> None:
        """Start ``cdcv2 up``, which starts the jobs that do not run."""
        with open(self.folder / "up.log", "ab") as log:
            command = [sys.executable, "-m", "cdcv2", "up", str(self.pipeline.path)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder)

    def leave_jobs(self) -> None:
        """End ``cdcv2 up``; its jobs go on, and are not started again."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
        self.process = None

    def down(self) -> None:
        """End ``cdcv2 up`` and the jobs."""
        self.idle()
        self.leave_jobs()
        for name in ("shop", "copy"):
            if self.job(name).path.exists():
                self.job(name).kill()

    def job(self, name: str) -> JobFolder:
        """The folder of a job."""
        return JobFolder(folder_of(self.pipeline) / name)

    def commit(self, number: int) -> None:
        """So many rows, each in a transaction."""
        with self.source.connect(autocommit=True) as session:
            for _ in range(number):
                self._insert(session)

    def load(self, rate: float) -> None:
        """Commit at this rate from now on, in a thread."""
        self._stop.clear()

        def work() -> None:
            with self.source.connect(autocommit=True) as session:
                while not self._stop.wait(1 / rate):
                    self._insert(session)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def idle(self) -> None:
        """Commit no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _insert(self, session: Any) -> None:
        session.execute("INSERT INTO orders VALUES (%s)", (len(self.commits) + 1,))
        self.commits.append(time.time())

    def arrived(self) -> int:
        """The number of the last row in the target; 0: none, or no table yet."""
        with self.target.connect(autocommit=True) as session:
            ((there,),) = session.execute("SELECT to_regclass('orders') IS NOT NULL").fetchall()
            # Another session may hold the table.
            session.execute("SET lock_timeout = '100ms'")
            ((last,),) = session.execute("SELECT max(id) FROM orders").fetchall() if there else [(0,)]
        return int(last or 0)

    def behind(self, last: int | None = None) -> float:
        """The truth: how old the first commit is whose row the target lacks; ``last``: the last that it has."""
        last = self.arrived() if last is None else last
        return max(0.0, time.time() - self.commits[last]) if last < len(self.commits) else 0.0

    def slot_is_read(self) -> bool:
        """Whether the connector has a session at the slot."""
        with self.source.connect(autocommit=True) as session:
            query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
            return session.execute(query, (NAME,)).fetchall() == [(True,)]

    def runs(self) -> bool:
        """Whether Connect reports that the connector and its task run."""
        status = self.client.status(NAME) or {}
        states = [status.get("connector", {}).get("state"), *(task["state"] for task in status.get("tasks", []))]
        return len(states) > 1 and set(states) == {"RUNNING"}

    def ask_connect(self, method: str, path: str) -> None:
        """Change the connector's state."""
        self.client._ask(method, f"/connectors/{NAME}{path}")

    def demand(self, condition: Any, what: str) -> None:
        """Raise RuntimeError unless the condition holds in the end."""
        if not poll_until(condition, PATIENCE, pause=0.2):
            log = (self.folder / "up.log").read_text("utf-8", "replace")[-2000:] if self.process else ""
            raise RuntimeError(f"after {PATIENCE:.0f} s it is not so that {what}; {log}")

    def demand_caught_up(self) -> None:
        """Raise RuntimeError unless the target has all, in the end."""
        self.demand(lambda: self.arrived() == len(self.commits), "the target has all rows")
