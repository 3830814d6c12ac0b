"""The demonstration of materialization: the bank ends in a second PostgreSQL and in Delta tables; two readers look on.

A bank works in PostgreSQL, and its changes become logs as in :mod:`cdcv2.demo.full`. While they grow, the logs are
duplicated, shuffled and re-batched into other topics; of those, ``cdcv2 materialize`` keeps tables in another
PostgreSQL, and the materialize job, on Spark, keeps Delta tables. All that time two readers look at all tables of
a target in one snapshot, and the money in it must be the constant. Meanwhile capture and both runtimes are killed, the
sessions with the target are ended and its server is killed, and everything is started again, and no more than that.
In the end each table must equal the bank's, row by row; and a row that is altered by hand must be found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cdcv2.demo.bank import TABLES, Row, in_order
from cdcv2.demo.live import LiveMangler
from cdcv2.demo.polls import TARGETS, Course, DeltaPoll, Poller, PostgresPoll, applying
from cdcv2.demo.road import ROWS, Road, cents
from cdcv2.demo.service import PATIENCE, Service, arrives
from cdcv2.demo.story import FailedCheck, Story, folder_of, run_demo
from cdcv2.demo.watch import described, smaller
from cdcv2.exits import Exit
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.iter import Iter
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child, poll_until
from cdcv2.servers.spark_home import check_demo
from cdcv2.servers.submit import spark_submit

NAME = "bank"
#: target -> how many snapshots, different frontiers, and sums of each single table there must be at least
LEAST = {"PostgreSQL": (500, 40, 20), "Delta": (100, 8, 6)}
_BINDINGS = """bindings:
  - {log: public.accounts, target: accounts, key: [id]}
  - {log: public.branches, target: branches, key: [id]}
  - {log: public.ledger, target: ledger}
"""


class ViewsDemo:
    """One run, in a folder that it empties first. ``seed`` is that of the bank and of the mangling."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder.absolute()
        self.story = Story()
        self.road = Road(self.folder, self.story, seed=seed, rate=20.0)

    def run(self) -> None:
        """Run the whole story. Raises Failed, or what a part raises."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        story = self.story
        with ExitStack() as opened:
            with story.step("Two PostgreSQL, Kafka and Debezium start; a bank opens in one of them"):
                self.road.start(opened)
                self.target = opened.enter_context(Postgres(database="copy"))
                self._write_files()
            with ExitStack() as working:
                with story.step("The bank works; its logs, mangled, fill the other PostgreSQL and Delta tables"):
                    self._fill(working)
                with story.step("Runtimes, capture, sessions and the target's server are killed; the readers look on"):
                    self._kill()
                with story.step("The bank closes; all that it did arrives"):
                    self._end()
            with story.step("What the readers have seen, in every snapshot"):
                for name, poller in self.pollers.items():
                    self._judge(name, poller)
            with story.step("What arrived is compared with the bank, row by row, and by cdcv2 compare"):
                self._compare()
            with story.step("Two negative controls: a row that is altered by hand must be found"):
                self._alter()

    # -- the parts ----------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        """The two materializations, each in a YAML file as users write it."""
        logs = "".join(f"  {table}: {{kafka: mangled.{table}, row: {ROWS / table}.avsc}}\n" for table in TABLES)
        rest = f"logs:\n{logs}kafka: {{bootstrap: {self.road.kafka.bootstrap!r}}}\n{_BINDINGS}"
        where = f"host={self.target.host} port={self.target.port} dbname={self.target.database} "
        session = f"user={self.target.username} password=${{TARGET_PASSWORD}} application_name=materialize"
        targets = {
            "postgres.yaml": f"target: {{driver: postgres, conninfo: {where + session!r}}}\n",
            "delta.yaml": "target: {driver: delta, folder: delta}\nrecovery_log: delta-recovery\n",
        }
        for name, target in targets.items():
            (self.folder / name).write_text(f"materialization: {NAME}\n{rest}{target}", "utf-8")
        bank = self.road.postgres
        self._environment = {
            "TARGET_PASSWORD": self.target.password,
            "CDCV2_POSTGRES": f"host={bank.host} port={bank.port} dbname={bank.database} user={bank.username} "
                              f"password={bank.password}",
        }  # fmt: skip

    def _fill(self, working: ExitStack) -> None:
        """Start everything; return when both targets have come a few frontiers far."""
        road = self.road
        self.copies = {
            table: KafkaLog(
                f"mangled.{table}", road.kafka.bootstrap, road.rows[table], create=True, partitions=3,
                # The capture is not there yet, which would state the name of its timeline.
                description=LogDescription(timeline="the bank"),
            )
            for table in TABLES
        }
        for copy in self.copies.values():
            working.callback(copy.close)
        delta = self.folder / "delta"
        self.pollers = {
            "PostgreSQL": Poller(PostgresPoll(self.target.connect, NAME), road.bank.money, pause=0.05),
            "Delta": Poller(DeltaPoll(delta), road.bank.money, pause=0.25),
        }
        for poller in self.pollers.values():
            working.enter_context(poller)
        job = Service("the materialize job", self._submit, self._moves("Delta"), crash="delta.table:7")
        self.spark = working.enter_context(job)
        self.pure = working.enter_context(Service("cdcv2 materialize", self._materialize, self._moves("PostgreSQL")))
        self.capture = working.enter_context(Service("capture", road.submit_capture, road.watch.frontier_moves))
        self.mangling = working.enter_context(LiveMangler(road.watched(), self.copies, seed=road.seed))
        self.clients = working.enter_context(ExitStack())
        self.working = road.begin(self.capture.child, self.clients)
        self.pure.wait_moved(5)
        self.story.fact(f"the other PostgreSQL fills: {self._seen('PostgreSQL')}")
        self.spark.wait_moved(1)
        self.story.fact(f"the Delta tables fill: {self._seen('Delta')}")

    def _kill(self) -> None:
        """Everything that may die does, at least twice, in mid-run; and is started again."""
        self._kill_pure()
        self.spark.wait_dead()
        having, newest = applying(self.folder / "delta")
        self.story.check(
            having > 0,
            f"{self.spark.name} was killed (SIGKILL) when a transaction was in {having} of the {len(TABLES)} tables",
        )
        self._print(f"each at its newest version, the tables have {cents(newest)} now; as one cut, what they should")
        self.spark.start()
        self._end_sessions()
        self._kill_pure()
        self.capture.kill9()
        self._print("killed capture (SIGKILL)")
        self.capture.start()
        self._kill_spark()
        self._end_sessions()
        self._kill_server()
        for service in (self.capture, self.pure, self.spark):
            service.wait_moved()
        self._print(f"all are up again: {self._seen('PostgreSQL')}; {self._seen('Delta')}")

    def _kill_pure(self) -> None:
        self.pure.kill9()
        self._print(f"killed {self.pure.name} (SIGKILL): {self._seen('PostgreSQL')}")
        self.pure.start()

    def _kill_spark(self) -> None:
        self.spark.kill9()
        self._print(f"killed {self.spark.name} (SIGKILL): {self._seen('Delta')}")
        self.spark.start()

    def _end_sessions(self) -> None:
        """``pg_terminate_backend`` for the session of the runtime, which ends by that."""
        self.pure.wait_moved()
        with self.target.connect() as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'materialize'"
            ).fetchone()
        self.story.check(ended == (1,), "the session of cdcv2 materialize with its target was ended by the server")
        self._restart_pure()

    def _kill_server(self) -> None:
        self.pure.wait_moved()
        self.target.kill9()
        self._print("killed the target's PostgreSQL (SIGKILL)")
        if not poll_until(lambda: self.pollers["PostgreSQL"].unreachable > 0, PATIENCE):
            raise FailedCheck("the reader of PostgreSQL has not noticed that its server is away")
        code = self.pure.wait_dead()
        self.target.start()
        self._reported(code)

    def _restart_pure(self) -> None:
        self._reported(self.pure.wait_dead())

    def _reported(self, code: int) -> None:
        output = self.pure.child.log_tail(1)
        words = textwrap.shorten(output.removeprefix("cdcv2 materialize: "), 100, placeholder=" ...")
        self.story.check(code == Exit.UNABLE, f"it ended with exit code {code}: {words}")
        self.pure.start()

    def _end(self) -> None:
        self.clients.close()
        end = self.road.bank.marker()
        for name, arrived in (
            ("the logs", lambda: self.road.passed(end)),
            *((name, self._passed(poller, end)) for name, poller in self.pollers.items()),
        ):
            self._wait(arrived, f"{name} have everything")
            if name == "the logs":
                self.mangling.finish()
        for service in (self.pure, self.spark, self.capture):
            code = service.stop()
            self.story.check(code == 0, f"asked to stop, {service.name} ended with exit code 0")
        done = self.working.done.committed
        self.story.fact(f"{done.total()} transactions were committed, {len(done)} kinds of work")
        for table, copy in self.copies.items():
            shown = described(copy, list(smaller(self.road.watch.messages(table))))
            self.story.fact(str(shown))
            self.story.check(shown.thoroughly, "  it holds repeats, inversions and other bounds")
        for service, least in ((self.pure, 5), (self.spark, 2), (self.capture, 1)):
            last, lives = service.moves, service.lives
            inside = all(life.start < life.end < last for life in lives)
            self.story.check(
                len(lives) >= least and inside,
                f"{service.name} died {len(lives)} times, each time after it had brought its work further, "
                "and before the end",
            )

    def _judge(self, name: str, poller: Poller) -> None:
        story, money = self.story, self.road.bank.money
        snapshots, frontiers, sums = LEAST[name]
        distinct = poller.distinct()
        story.check(
            not poller.wrong,
            f"{name}: in each of {poller.snapshots} snapshots the money of all tables was {cents(money)}, and none "
            f"was older than the one before{''.join(f'; {one}' for one in poller.wrong)}",
        )
        course = Course({
            table: [update for updates, _ in Iter(iter(self.road.watch.messages(table))) for update in updates]
            for table in TABLES
        })
        story.check(
            all(course.at(content.upper) == content.sums for content in poller.contents)
            and not any(rows for upper in poller.empty for rows, _ in course.at(upper).values()),
            f"{name}: at each of {len(poller.contents)} frontiers every table had the rows and the money that the logs "
            "have there",
        )
        story.fact("distinct sums of single tables: " + ", ".join(f"{table} {n}" for table, n in distinct.items()))
        story.check(
            poller.snapshots >= snapshots and len(poller.contents) >= frontiers and min(distinct.values()) >= sums,
            f"at least {snapshots} snapshots, {frontiers} frontiers, and {sums} sums of each single table were seen",
        )
        if name == "PostgreSQL":
            story.check(poller.unreachable > 0, f"{poller.unreachable} times there was no answer: the server was down")

    def _compare(self) -> None:
        for table in TABLES:
            bank = self.road.bank.contents(table)
            for name, rows in (("PostgreSQL", self._in_postgres(table)), ("Delta", self._in_delta(table))):
                self.story.check(bank == rows, f"{name}: {table} equals the bank's, row by row ({len(bank)} rows)")
        for file in ("postgres.yaml", "delta.yaml"):
            code, output = self._cdcv2("compare", file, "--source", "env")
            self.story.check(code == Exit.DONE, f"cdcv2 compare {file} --source env exits {code}: {output[-1]}")

    def _alter(self) -> None:
        """One cent more, in one row."""
        import deltalake

        with self.target.connect() as connection:
            connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id = (SELECT max(id) FROM accounts)")
        delta = deltalake.DeltaTable(self.folder / "delta" / "accounts")
        (last,) = self.road.bank.contents(TABLES[0])[-1][:1]
        delta.update(updates={"balance": "balance + 1"}, predicate=f"id = {last}")
        for file, (name, poller) in zip(("postgres.yaml", "delta.yaml"), self.pollers.items()):
            code, output = self._cdcv2("compare", file)
            named = [line for line in output if f'"id": {last}' in line]
            self.story.check(
                code == Exit.WRONG and len(named) == 1, f"{name}: cdcv2 compare exits {code}, and names the row"
            )
            for line in named:
                self.story.fact(textwrap.shorten(line, 140, placeholder=" ..."))
            content = poller.look()
            poller.look.close()
            self.story.check(
                content is not None and content.money == self.road.bank.money + 1, "the reader would have seen it, too"
            )

    # -- what they are made of ----------------------------------------------------------------------------------

    def _materialize(self, more: Mapping[str, str]) -> Child:
        command = [sys.executable, "-m", "cdcv2", "materialize", str(self.folder / "postgres.yaml"), "--follow"]
        log = self.folder / "cdcv2-materialize.log"
        environment = {**os.environ, **self._environment, **more}
        return Child("cdcv2 materialize", command, log=log, env=environment, cwd=self.folder)

    def _submit(self, more: Mapping[str, str]) -> Child:
        words = [str(self.folder / "delta.yaml"), "--state", str(self.folder / "delta-state"), "--interval", "0.2"]
        return spark_submit("materialize", words, folder=self.folder / "materialize", environment=more)

    def _moves(self, name: str) -> Callable[[], int]:
        return lambda: len(self.pollers[name].contents)

    def _seen(self, name: str) -> str:
        poller = self.pollers[name]
        return f"{poller.snapshots} snapshots so far, at {len(poller.contents)} frontiers, the last {poller.upper}"

    @staticmethod
    def _passed(poller: Poller, end: int) -> Callable[[], bool]:
        return lambda: poller.upper > end

    def _wait(self, arrived: Callable[[], bool], what: str) -> None:
        def watched() -> bool:
            self._check()
            return arrived()

        if not arrives(watched, lambda: [service.moves for service in (self.capture, self.pure, self.spark)]):
            raise FailedCheck(f"nothing has moved for {PATIENCE:g} s before {what}")

    def _print(self, text: str) -> None:
        self._check()
        self.story.fact(text)

    def _check(self) -> None:
        """Raises what has failed in the background."""
        self.mangling.check()
        self.working.check()
        for name, poller in self.pollers.items():
            poller.check()
            if poller.wrong:
                raise FailedCheck(f"{name}: {poller.wrong[0]}")

    def _cdcv2(self, *words: str) -> tuple[int, list[str]]:
        """The exit code of ``cdcv2``, run in the folder, and the lines that it printed."""
        command, environment = [sys.executable, "-m", "cdcv2", *words], {**os.environ, **self._environment}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return done.returncode, (done.stdout + done.stderr).strip().splitlines() or ["nothing"]

    def _in_postgres(self, table: str) -> list[Row]:
        columns = ", ".join(self.road.rows[table].columns)
        counted = "generate_series(1, cdcv2_count)" if table == "public.ledger" else "generate_series(1, 1)"
        query = f"SELECT {columns} FROM {TARGETS[table][0]}, {counted}"
        with self.target.connect() as connection:
            return in_order(connection.execute(query.encode()))

    def _in_delta(self, table: str) -> list[Row]:
        """By deltalake itself, at the table's newest version."""
        import deltalake

        found = deltalake.DeltaTable(self.folder / "delta" / TARGETS[table][0]).to_pyarrow_table()
        rows: list[dict[str, Any]] = found.to_pylist()
        columns = self.road.rows[table].columns
        return in_order(
            tuple(row[column] for column in columns) for row in rows for _ in range(int(row.get("cdcv2_count", 1)))
        )


def main(folder: Path | None = None, *, seed: int = 0) -> int:
    """Run the demonstration, as :func:`~cdcv2.demo.story.run_demo` does. Raises as :func:`check_demo` does."""
    check_demo("deltalake", "pyarrow", "yaml")  # before anything is printed or started
    folder = folder or folder_of("demo-tables")
    return run_demo(ViewsDemo(folder, seed=seed), folder)
