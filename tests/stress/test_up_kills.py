"""Everything under ``cdcv2 up`` is killed again and again while a bank works: its jobs, and ``cdcv2 up`` itself.

A capture and two views keep a bank's tables in another database and in a lake. At each frontier that a reader sees, the
money is the constant. A third view names a column that is not there: no retry helps, so it is held, and never starts
again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.supervisor import Supervisor
from cdcv2.demo.bank import TABLES, Bank
from cdcv2.demo.watch import topics_of
from cdcv2.errors import MissingLogError, OutputError, UnavailableError
from cdcv2.exits import Exit
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from cdcv2.store.connect_client import ConnectClient
from tests.children import CDCV2
from tests.stress.summary import record

pytestmark = pytest.mark.integration

ROWS = Path(__file__).resolve().parents[2] / "cdcv2" / "demo" / "rows"
KILLS = 60
SEED = 20261126
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300
VIEW = """
    bindings:
      - {log: public.accounts, target: accounts, key: [id]}
      - {log: public.branches, target: branches, key: [id]}
      - {log: public.ledger, target: ledger}
"""
FILE = f"""
pipeline: bank
kafka: {{bootstrap: "BOOTSTRAP"}}
rows: {ROWS}
sources:
  bank:
    postgres: {{conninfo: "SERVER dbname=bank password=${{PGPASSWORD}}"}}
    notifications: bank.notifications
    connector: {{name: bank, url: "CONNECT"}}
captures:
  bank: {{into: logs}}
views:
  copy:{VIEW}
    target: {{driver: postgres, conninfo: "SERVER dbname=copy password=${{PGPASSWORD}}"}}
  lake:{VIEW}
    target: {{driver: lake, folder: lake}}
    recovery_log: recovery
  wrong:
    bindings: [{{log: public.ledger, target: ledger, key: [nothing]}}]
    target: {{driver: lake, folder: wrong}}
    recovery_log: wrong-recovery
"""


class World:
    """The servers, the bank and its connector, and the pipeline over them; ``opened`` closes them."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder, self.file = folder, folder / "bank.yaml"
        kafka = opened.enter_context(KafkaBroker())
        self.postgres = postgres = opened.enter_context(Postgres())
        self.bank = Bank(postgres.connect, seed=SEED)
        self.bank.create()
        with postgres.connect(autocommit=True) as session:
            session.execute("CREATE DATABASE copy")
        connect = opened.enter_context(DistributedConnect(kafka.bootstrap, environment=postgres.environment))
        ConnectClient(connect.url).create("bank", debezium_config(
            "bank", TABLES, host=postgres.host, port=postgres.port, database=postgres.database,
            user=postgres.username, partitions=3,
        ))  # fmt: skip
        assert poll_until(lambda: self._slot() is not None, PATIENCE)
        assert poll_until(lambda: self._began(kafka.bootstrap), PATIENCE, pause=1.0)
        server = f"host={postgres.host} port={postgres.port} user={postgres.username}"
        text = FILE.replace("BOOTSTRAP", kafka.bootstrap).replace("CONNECT", connect.url).replace("SERVER", server)
        self.file.write_text(text, "utf-8")
        folders = folder / "bank.state" / "jobs"
        self.jobs = {name: JobFolder(folders / name) for name in ("bank", "copy", "lake", "wrong")}
        opened.callback(self._end)

    def up(self) -> subprocess.Popen[bytes]:
        """``cdcv2 up``, as a process of its own, which its jobs outlive."""
        with open(self.folder / "up.log", "ab") as log:
            return subprocess.Popen([*CDCV2, "up", str(self.file)], stderr=log)

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Return when it holds. Raises UnavailableError, with what ``up`` printed last, where it does not."""
        if not poll_until(condition, PATIENCE):
            lines = (self.folder / "up.log").read_text("utf-8").splitlines()[-20:]
            raise UnavailableError(f"{PATIENCE} s passed before {what}:\n" + "\n".join(lines))

    def at(self, job: str) -> int:
        """How far a job is, as it states itself; 0: nowhere."""
        if not self.jobs[job].path.exists():
            return 0
        progress = self.jobs[job].observe().progress
        return 0 if progress is None else int(json.loads(progress)[0])

    def _slot(self) -> object:
        with self.postgres.connect() as session:
            return session.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone()

    def _began(self, bootstrap: str) -> bool:
        self.bank.marker("the beginning")
        return "bank.transaction" in topics_of(bootstrap)

    def _end(self) -> None:
        for job in self.jobs.values():
            if job.path.exists():
                job.kill()


class Watch:
    """Looks all along: at the money in both targets at their frontiers, and at the processes of each job."""

    def __init__(self, world: World) -> None:
        self._world, self._stop, self._wrong = world, threading.Event(), list[BaseException]()
        #: target -> frontiers at which the money was looked at
        self.frontiers: dict[str, set[str]] = {"copy": set(), "lake": set()}
        self._threads = [
            threading.Thread(target=self._work, args=(look,), daemon=True)
            for look in (self._copy, self._lake, self._processes)
        ]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self.check()

    def check(self) -> None:
        """Raise what it found wrong."""
        if self._wrong:
            raise self._wrong[0]

    def _work(self, look: Callable[[], None]) -> None:
        try:
            while not self._stop.wait(0.1):
                look()
        except BaseException as wrong:  # handed to the test
            self._wrong.append(wrong)

    def _judge(self, target: str, frontier: str, money: int) -> None:
        assert money == self._world.bank.money, f"{target} at {frontier}: {money}, not {self._world.bank.money}"
        self.frontiers[target].add(frontier)

    def _copy(self) -> None:
        with self._world.postgres.connect(dbname="copy") as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if session.execute("SELECT to_regclass('cdcv2_checkpoints')").fetchone() == (None,):
                return
            held = session.execute("SELECT checkpoint FROM cdcv2_checkpoints").fetchone()
            if held is None:
                return
            total = session.execute(
                "SELECT ((SELECT coalesce(sum(balance), 0) FROM accounts)"
                " + (SELECT coalesce(sum(balance), 0) FROM branches))::bigint"
            ).fetchone()
        frontier = json.loads(held[0])["frontier"]
        if total is not None and frontier != [0]:
            self._judge("copy", str(frontier), total[0])

    def _lake(self) -> None:
        try:
            view = open_lake(self._world.folder / "lake")
            total = sum(
                values[column]
                for table, column in (("accounts", 2), ("branches", 1)) for _, values in view.rows(table)
            )  # fmt: skip
        except (MissingLogError, OutputError):  # not there yet, or eight commits older than what is there now
            return
        if list(view.frontier) != [0]:
            self._judge("lake", str(list(view.frontier)), total)

    def _processes(self) -> None:
        """No job has two processes."""
        lines = Counter[str]()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    words = Path("/proc", entry, "cmdline").read_bytes().decode().split("\0")
                except OSError:  # it has ended
                    continue
                lines.update(word for word in words if word.startswith("--events="))
        for name, job in self._world.jobs.items():
            assert lines[f"--events={job.events}"] <= 1, f"two processes of {name}"


def test_everything_is_killed_under_up(tmp_path: Path) -> None:
    """Who is killed, and when after the frontier has moved, is drawn; ``up`` too is started again after its kill."""
    draw, killed = random.Random(SEED), Counter[str]()
    with ExitStack() as opened:
        world = World(tmp_path, opened)
        variables = opened.enter_context(pytest.MonkeyPatch.context())
        variables.setenv("PGPASSWORD", world.postgres.password)
        up = world.up()
        opened.callback(lambda: up.kill())
        with Watch(world) as watch, world.bank.at_work(clients=3, rate=15.0) as clients:
            for _ in range(KILLS):
                name = draw.choice(["up", "bank", "copy", "lake"])
                job = "lake" if name == "up" else name
                start = world.at(job)
                world.await_that(lambda: world.at(job) > start, f"{job} gets further than {start}")
                threading.Event().wait(draw.uniform(0.0, 0.5))
                if name == "up":
                    up.kill()
                    up.wait(PATIENCE)
                    threading.Event().wait(draw.uniform(0.0, 1.0))
                    up = world.up()
                else:
                    world.jobs[name].kill()
                killed[name] += 1
                watch.check()
                clients.check()
        transactions = clients.done.committed.total()
        end = world.bank.marker()
        with Watch(world) as last:
            for name in ("copy", "lake"):
                world.await_that(lambda: world.at(name) > end, f"{name} is past the marker")
            assert poll_until(lambda: all(world.jobs[name].alive() for name in ("bank", "copy", "lake")), PATIENCE)
        reports = {report.name: report for report in Supervisor(tmp_path / "bank.state" / "jobs").look()}
        equal = [main(["compare", str(world.file), "--view", name]) for name in ("copy", "lake")]
        up.send_signal(signal.SIGTERM)
        code = up.wait(PATIENCE)
        ended = main(["down", str(world.file)])
        alive = [name for name, job in world.jobs.items() if job.alive()]

    assert (equal, code, ended, alive) == ([Exit.DONE, Exit.DONE], Exit.DONE, Exit.DONE, [])
    assert reports["wrong"].status.state == "held" and reports["wrong"].status.run == 1
    # Each kill of a job was one more run of it, and nothing else was.
    assert {name: reports[name].status.run - 1 for name in ("bank", "copy", "lake")} == {
        name: killed[name] for name in ("bank", "copy", "lake")
    }
    record("all that runs under cdcv2 up is killed", [SEED], {
        "kills": killed.total(), **{f"of {name}": number for name, number in sorted(killed.items())},
        "transactions": transactions,
        "frontiers of the database with the constant sum": len(watch.frontiers["copy"] | last.frontiers["copy"]),
        "frontiers of the lake with the constant sum": len(watch.frontiers["lake"] | last.frontiers["lake"]),
    })  # fmt: skip
