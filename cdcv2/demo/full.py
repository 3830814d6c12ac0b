"""The demonstration on real parts: PostgreSQL, Debezium, Kafka and two Spark jobs that are killed on the way.

A bank works in PostgreSQL; Debezium puts its changes on Kafka; the capture job makes one log per table of them; the
logs are duplicated, shuffled and re-batched into other topics; the replay job makes tables of those. In the end each
table must equal PostgreSQL's, row by row, and at *every* frontier the money of all tables together must be what it
was in the beginning, though money moves between tables all the time. Then two logs are damaged on purpose, and the
damage must be found.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cdcv2.core.antichain import Antichain
from cdcv2.demo import damage, tables
from cdcv2.demo.bank import TABLES, Bank, Clients, row_types
from cdcv2.demo.story import Failed, Story, tell
from cdcv2.demo.watch import LogWatch, mangle_topic, topics_of
from cdcv2.embedded import jars
from cdcv2.embedded.connect import Connect, debezium_config
from cdcv2.embedded.java import find_java
from cdcv2.embedded.kafka import KafkaBroker
from cdcv2.embedded.postgres import Postgres
from cdcv2.embedded.processes import Child, poll_until
from cdcv2.embedded.submit import spark_submit
from cdcv2.errors import UnavailableError

PREFIX = "bank"
_ROWS = Path(__file__).with_name("rows")
#: how many frontiers and sums there must be at least, or the demonstration has shown little
MIN_FRONTIERS, MIN_SUMS = 300, 100


class Demo:
    """One run, in a folder that it empties first. ``seed`` is that of the bank and of the mangling."""

    def __init__(self, folder: Path, *, seed: int = 0, rate: float = 60.0) -> None:
        self.folder, self.seed, self.rate = folder.absolute(), seed, rate
        self.story = Story()
        self.rows = row_types()
        self._open = ExitStack()

    def run(self) -> None:
        """Tell the whole story. Raises Failed, or what a part raises."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self._open:
            with self.story.step("PostgreSQL, Kafka and Debezium start; a bank opens"):
                self._start_servers()
            with self.story.step("The bank works; the capture job writes one log per table, and is killed (SIGKILL)"):
                end = self._capture()
            with self.story.step("The logs are duplicated, shuffled and re-batched into other topics"):
                self._mangle()
            with self.story.step("The replay job makes tables of the mangled logs, and is killed (SIGKILL)"):
                self._replay(end)
            with self.story.step("What arrived is compared with PostgreSQL, at the end and at every frontier"):
                self._compare()
            with self.story.step("Two negative controls: damage must be found"):
                damage.controls(self.story, self.folder, self.watch.messages(TABLES[0]), self.rows[TABLES[0]])

    # -- the parts ----------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        for name in ("kafka", "debezium", "spark"):
            jars.fetch(name)
        self.kafka = self._open.enter_context(KafkaBroker(self.folder / "kafka"))
        self.postgres = self._open.enter_context(Postgres())
        self.bank = Bank(self.postgres.connect, seed=self.seed)
        self.bank.create()
        config = debezium_config(
            PREFIX, TABLES, host=self.postgres.host, port=self.postgres.port, database=self.postgres.database,
            user=self.postgres.username, partitions=3,
        )  # fmt: skip
        connect = Connect(
            self.kafka.bootstrap, config, environment=self.postgres.environment, folder=self.folder / "connect"
        )
        self._open.enter_context(connect)
        connect.wait_streaming()
        # The connector makes the transaction topic with the first transaction.
        self.bank.marker("the beginning")
        if not poll_until(lambda: f"{PREFIX}.transaction" in topics_of(self.kafka.bootstrap), 180):
            raise UnavailableError("Debezium has made no transaction topic within a minute")
        self.story.say(f"{len(TABLES)} tables; the money in them is {self.bank.money / 100:,.2f} at any moment")

    def _capture(self) -> int:
        """Let the bank work while capture runs; return the marker that the logs are complete through."""
        self.watch = LogWatch(self.kafka.bootstrap, {table: f"log.{table}" for table in TABLES}, self.rows)
        with self._job("capture", self._capture_words()) as job, ExitStack() as work:
            self._wait(job, lambda: '"what": "start"' in job.log_since_start(), "capture starts", 120)
            clients = work.enter_context(self.bank.at_work(clients=4, rate=self.rate))
            self._wait(job, lambda: self.watch.frontier_moves() >= 3, "the logs grow", 240)
            first = self.watch.first
            before = self._work_on(clients, 300)
            job.kill9()
            at_kill = self.watch.known()
            self.story.say(f"killed capture when the logs were complete up to {_text(at_kill)}; the bank goes on")
            self._work_on(clients, 150)
        with self._job("capture", self._capture_words()) as job:
            with self.bank.at_work(clients=4, rate=self.rate, first=4) as more:
                self._work_on(more, 200)
            end = self.bank.marker()
            self._wait(job, lambda: not self.watch.known().less_equal(end), "the logs pass the marker", 240)
            job.stop()
        last = self.watch.known()
        self.story.check(job.returncode == 0, "told to stop, capture ended with exit code 0")
        self.story.check(
            _before(first, at_kill) and _before(at_kill, last),
            f"the kill fell between the first frontier {_text(first)} and the last {_text(last)}",
        )
        done = clients.done.committed + more.done.committed
        self.story.say(f"{done.total()} transactions committed ({before} before the kill), {len(done)} kinds of work")
        return end

    def _mangle(self) -> None:
        self._mangled = 0
        for table in TABLES:
            shown = mangle_topic(self.watch, table, f"mangled.{table}", seed=self.seed + 1)
            self._mangled += shown.messages
            self.story.say(str(shown))
            self.story.check(shown.thoroughly, f"mangled.{table} holds repeats, inversions and other bounds")

    def _replay(self, end: int) -> None:
        output = self.folder / "tables"
        with self._job("replay", [*self._replay_words(), "--max-messages", str(self._mangled // 12)]) as job:
            self._wait(job, lambda: len(tables.uppers(output)) >= 2, "some frontiers are finished", 240)
            job.kill9()
        killed_at = tables.uppers(output)
        self.story.say(f"killed replay when its tables were complete up to {killed_at[-1]}")
        with self._job("replay", [*self._replay_words(), "--available-now"]) as job:
            code = job.wait(240)
        if code:
            raise Failed(f"replay ended with code {code}:\n{job.log_tail()}")
        after = tables.uppers(output)
        self.story.check(
            after[0] < killed_at[-1] < after[-1] and after[-1] > end,
            f"the kill fell between the first frontier {after[0]} and the last {after[-1]}, which is past the marker",
        )

    def _compare(self) -> None:
        seen = tables.read(self.folder / "tables")
        for table in TABLES:
            here, there = seen.rows.get(table, []), self.bank.contents(table)
            self.story.check(here == there, f"{table} equals PostgreSQL's, row by row ({len(there)} rows)")
        self.story.check(not seen.repeated, "no update was given out twice")
        self.story.check(not seen.negative, "no row was ever there less than zero times")
        self.story.check(
            seen.totals == {self.bank.money},
            f"at each of {seen.times} frontiers the money of all tables was {self.bank.money / 100:,.2f}",
        )
        fewest = min(len(sums) for sums in seen.sums.values())
        self.story.say(
            f"{len(seen.uppers)} of these frontiers were given out as such; distinct sums of single tables: "
            + ", ".join(f"{table} {len(sums)}" for table, sums in sorted(seen.sums.items()))
        )
        self.story.check(
            seen.times >= MIN_FRONTIERS and fewest >= MIN_SUMS,
            f"at least {MIN_FRONTIERS} frontiers were looked at, and no table's own sum would have done",
        )

    # -- the jobs -----------------------------------------------------------------------------------------------

    def _capture_words(self) -> list[str]:
        return [
            "--bootstrap", self.kafka.bootstrap,
            "--prefix", PREFIX,
            "--tables", ",".join(TABLES),
            "--rows", str(_ROWS),
            "--logs", "kafka:log.{table}",
            "--notifications", f"{PREFIX}.notifications",
            "--state", str(self.folder / "capture-state"),
        ]  # fmt: skip

    def _replay_words(self) -> list[str]:
        words = ["--bootstrap", self.kafka.bootstrap]
        for table in TABLES:
            words += ["--log", f"{table}=kafka:mangled.{table}", "--rows", f"{table}={_ROWS / table}.avsc"]
        return [
            *words,
            "--output", str(self.folder / "tables"),
            "--state", str(self.folder / "replay-state"),
        ]  # fmt: skip

    @contextmanager
    def _job(self, name: str, words: Sequence[str]) -> Iterator[Child]:
        job = spark_submit(name, words, folder=self.folder / "jobs")
        try:
            yield job
        finally:
            job.stop()

    def _wait(self, job: Child, condition: object, what: str, timeout: float) -> None:
        job.wait_until(condition, what, timeout)  # type: ignore[arg-type]

    def _work_on(self, clients: Clients, transactions: int) -> int:
        """Wait until the clients have committed so many more; return how many they have in all."""
        begin = clients.done.committed.total()

        def enough() -> bool:
            clients.check()
            return clients.done.committed.total() >= begin + transactions

        if not poll_until(enough, 120):
            raise UnavailableError("the bank's clients do not get on: is PostgreSQL still there?")
        return clients.done.committed.total()


def _before(one: Antichain, other: Antichain) -> bool:
    return other.dominates(one) and one != other


def _text(frontier: Antichain) -> str:
    return ", ".join(map(str, frontier)) or "the end"


def main(folder: Path = Path(".work/demo"), *, seed: int = 0) -> int:
    """Run the demonstration, as :func:`~cdcv2.demo.story.tell` does. Raises UnavailableError without Java."""
    find_java()  # before anything is told or started
    return tell(Demo(folder, seed=seed), folder)
