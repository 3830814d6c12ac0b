"""The demonstration on real parts: ``cdcv2 up`` of ``examples/bank``, and all that it keeps running is killed.

A bank works in PostgreSQL. ``cdcv2 up`` makes a connector, which puts the bank's changes on Kafka, and keeps a capture
on Spark running, which makes one log per table of them, and a view, which keeps a copy of the bank in a lake. Capture,
view and ``cdcv2 up`` itself are killed. Then the proof, which shares nothing with the view: the logs are duplicated,
shuffled and re-batched into other topics, and a replay job makes tables of those, and is killed. In the end each table
must equal PostgreSQL's, row by row, and at *every* frontier the money of all tables together must be what it
was in the beginning, though money moves between tables all the time. Then two logs are damaged on purpose, and the
damage must be found.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

from cdcv2.demo import damage, tables
from cdcv2.demo.bank import TABLES
from cdcv2.demo.kept_pipeline import CAPTURE, COPY, KeptPipeline
from cdcv2.demo.road import ROWS, Road, before, cents, stopped, text
from cdcv2.demo.story import FailedCheck, Story, folder_of, run_demo
from cdcv2.demo.watch import mangle_topic
from cdcv2.servers import jars
from cdcv2.servers.archive import flags
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.java import SHORT_LIVED
from cdcv2.servers.processes import Child
from cdcv2.servers.spark_home import check_demo, spark_environment
from cdcv2.servers.submit import spark_submit

#: how many frontiers and sums there must be at least, or the demonstration has shown little
MIN_FRONTIERS, MIN_SUMS = 300, 100


class FullDemo:
    """One run, in a folder that it empties first. ``seed`` is that of the bank and of the mangling."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder.absolute()
        self.story = Story()
        self.road = Road(self.folder, self.story, seed=seed, rate=60.0)

    def run(self) -> None:
        """Run the whole story. Raises Failed, or what a part raises."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "bank").mkdir(parents=True)
        with ExitStack() as opened:
            with self.story.step("PostgreSQL, Kafka and Connect start; a bank opens"):
                environment = self._start(opened)
            with self.story.step("cdcv2 up examples/bank/bank.yaml: the bank works, and all is killed (SIGKILL)"):
                end = self._keep(environment)
            with self.story.step("The logs are duplicated, shuffled and re-batched into other topics"):
                self._mangle()
            with self.story.step("The replay job makes tables of the mangled logs, and is killed (SIGKILL)"):
                self._replay(end)
            with self.story.step("What arrived is compared with PostgreSQL, at the end and at every frontier"):
                self._compare()
            with self.story.step("Two negative controls: damage must be found"):
                log = self.road.watch.messages(TABLES[0])
                damage.controls(self.story, self.folder, log, self.road.rows[TABLES[0]])

    # -- the parts ----------------------------------------------------------------------------------------------

    def _start(self, opened: ExitStack) -> dict[str, str]:
        """Start the servers; return what the pipeline finds in its environment."""
        server = self.road.open(opened).postgres
        folder = self.folder / "connect"
        connect = DistributedConnect(self.road.kafka.bootstrap, environment=server.environment, folder=folder)
        opened.enter_context(connect)
        return {
            **spark_environment(), **server.environment,
            "BANK_KAFKA": self.road.kafka.bootstrap, "BANK_CONNECT": connect.url,
            "BANK_JARS": jars.comma_list("spark"), "BANK_JAVA": " ".join((*SHORT_LIVED, *flags("spark"))),
        }  # fmt: skip

    def _keep(self, environment: dict[str, str]) -> int:
        """Let the bank work while the pipeline is kept; return the marker that the logs are complete through."""
        road, watch, story = self.road, self.road.watch, self.story
        kept = KeptPipeline(self.folder / "bank", environment)
        try:
            kept.child.wait_until(lambda: CAPTURE in kept.runs(), "the connector is made, and capture starts", 180)
            story.fact("cdcv2 up has made publication, topics, connector and slot, and starts the jobs")
            with ExitStack() as work:
                clients = road.clients_at_work(kept.child, work)
                first = watch.first
                at_work = road.work_on(clients, 300)
                kept.child.wait_until(kept.has_copied, "the copy begins", 120)
                runs = kept.runs()
                kept.jobs[CAPTURE].kill()
                at_kill = watch.known()
                story.fact(f"killed capture when the logs were complete up to {text(at_kill)}; the bank goes on")
                kept.child.wait_until(lambda: kept.is_restarted(CAPTURE, runs), "capture is started again", 60)
                kept.kill_up()
                kept.jobs[COPY].kill()
                story.fact("killed cdcv2 up, started it again, and killed the view")
                road.work_on(clients, 150)
            with road.bank.at_work(clients=4, rate=road.rate, first=4) as more:
                road.work_on(more, 200)
            end = road.bank.marker()
            kept.child.wait_until(lambda: road.passed(end), "the logs pass the marker", 240)
            proof, last_runs = kept.compare(), kept.runs()
        finally:
            kept.stop()
        last = watch.known()
        story.check(
            last_runs == {name: run + 1 for name, run in runs.items()} and kept.child.returncode == 0,
            "each job was started again once, by two cdcv2 up; asked to stop, cdcv2 up ended with exit code 0",
        )
        story.check([0, 0] == [job.last_exit() for job in kept.jobs.values()], "and so did capture and view")
        story.check(
            before(first, at_kill) and before(at_kill, last),
            f"the kill fell between the first frontier {text(first)} and the last {text(last)}",
        )
        story.check(
            proof.returncode == 0, "cdcv2 compare: source, logs and copy are equal"
            if proof.returncode == 0 else f"cdcv2 compare: {proof.stdout}{proof.stderr}",
        )  # fmt: skip
        done = clients.done.committed + more.done.committed
        story.fact(f"{done.total()} transactions committed ({at_work} before the kill), {len(done)} kinds of work")
        return end

    def _mangle(self) -> None:
        self._mangled = 0
        for table in TABLES:
            shown = mangle_topic(self.road.watch, table, f"mangled.{table}", seed=self.road.seed + 1)
            self._mangled += shown.messages
            self.story.fact(str(shown))
            self.story.check(shown.thoroughly, f"mangled.{table} holds repeats, inversions and other bounds")

    def _replay(self, end: int) -> None:
        output = self.folder / "tables"
        with stopped(self._submit("--max-records", str(self._mangled // 30))) as job:
            job.wait_until(lambda: len(tables.uppers(output)) >= 2, "some frontiers are finished", 240)
            job.kill9()
        killed_at = tables.uppers(output)
        self.story.fact(f"killed replay when its tables were complete up to {killed_at[-1]}")
        with stopped(self._submit("--no-follow")) as job:
            code = job.wait(240)
        if code:
            raise FailedCheck(f"replay ended with code {code}:\n{job.log_tail()}")
        after = tables.uppers(output)
        self.story.check(
            after[0] < killed_at[-1] < after[-1] and after[-1] > end,
            f"the kill fell between the first frontier {after[0]} and the last {after[-1]}, which is past the marker",
        )

    def _compare(self) -> None:
        seen = tables.read(self.folder / "tables")
        for table in TABLES:
            here, there = seen.rows.get(table, []), self.road.bank.contents(table)
            self.story.check(here == there, f"{table} equals PostgreSQL's, row by row ({len(there)} rows)")
        self.story.check(not seen.repeated, "no update was given out twice")
        self.story.check(not seen.negative, "no row was ever there less than zero times")
        self.story.check(
            seen.totals == {self.road.bank.money},
            f"at each of {seen.times} frontiers the money of all tables was {cents(self.road.bank.money)}",
        )
        fewest = min(len(sums) for sums in seen.sums.values())
        self.story.fact(
            f"{len(seen.uppers)} of these frontiers were given out as such; distinct sums of single tables: "
            + ", ".join(f"{table} {len(sums)}" for table, sums in sorted(seen.sums.items()))
        )
        self.story.check(
            seen.times >= MIN_FRONTIERS and fewest >= MIN_SUMS,
            f"at least {MIN_FRONTIERS} frontiers were looked at, and no table's own sum would have done",
        )

    def _submit(self, *more: str) -> Child:
        words = [*(f"{table}=kafka:mangled.{table}" for table in TABLES), "--rows", str(ROWS)]
        words += ["--bootstrap", self.road.kafka.bootstrap, "--output", str(self.folder / "tables")]
        words += ["--state", str(self.folder / "replay-state"), *more]
        return spark_submit("replay", words, folder=self.folder / "replay")


def main(folder: Path | None = None, *, seed: int = 0) -> int:
    """Run the demonstration, as :func:`~cdcv2.demo.story.run_demo` does. Raises as :func:`check_demo` does."""
    check_demo()  # before anything is printed or started
    folder = folder or folder_of("demo")
    return run_demo(FullDemo(folder, seed=seed), folder)
