"""The demonstration of doubled captures: two databases, two captures that write the same logs, and each is killed.

Two banks work, each in a PostgreSQL of its own, and pay each other. Two connectors put their changes on Kafka, and two
captures, on Spark, bind them to one timeline and write one log per table, each of them all of it, at the same time.
Each is killed and started again, and the other one goes on. In the end there must be one log: no contradiction, the
rows of both databases, and at *every* frontier all the money of both banks, with what is on its way between them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.core.antichain import Antichain
from cdcv2.demo import both
from cdcv2.demo.bank import TABLES, row_types
from cdcv2.demo.road import ROWS, BankSource, before, cents, fetch_jars, text
from cdcv2.demo.service import PATIENCE, Service, arrives
from cdcv2.demo.story import FailedCheck, Story, folder_of, run_demo
from cdcv2.demo.transit import Couriers, introduce
from cdcv2.demo.watch import LogWatch, end_of
from cdcv2.exits import Exit
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.remap_kafka import KafkaRemap
from cdcv2.protocol.messages import Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import Child
from cdcv2.servers.spark_home import check_demo
from cdcv2.servers.submit import spark_submit
from cdcv2.timeline.positions import position
from cdcv2.timeline.remap_queries import known, when

BANKS = ("bank", "shop")
TIMELINE = "timeline"
#: how many times, and sums of each single table, there must be at least, or the demonstration has shown little
MIN_TIMES, MIN_SUMS = 100, 80
#: so many transactions both banks have committed before they close, at least, and about so many records are one time
TRANSACTIONS, RECORDS = 2500, 150


class DoubledDemo:
    """One run, in a folder that it empties first. ``seed`` is that of banks, couriers and kills."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder, self.rate, self.seed = folder.absolute(), 10.0, seed
        self.story, self._draw = Story(), Random(f"{seed}/kills")
        self.rows: dict[str, RowType] = {
            f"{bank}.{table}": kind for bank in BANKS for table, kind in row_types().items()
        }

    def run(self) -> None:
        """Run the whole story. Raises Failed, or what a part raises."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        story = self.story
        with ExitStack() as opened:
            with story.step("Two PostgreSQL, Kafka and two Debezium start; a bank opens in each database"):
                self._start(opened)
            with ExitStack() as working:
                with story.step("The banks work; two captures write the same logs, and each is killed (SIGKILL)"):
                    self._capture(working)
                with story.step("The banks close; all that they did arrives"):
                    self._end()
            with story.step("Is it one log, and did both write it?"):
                self._verify()
            with story.step("The logs are replayed, and judged at every frontier, and by both databases in the end"):
                self._replay()
            with story.step("Two negative controls: what is wrong must be found"):
                self._damage()

    # -- the parts ----------------------------------------------------------------------------------------------

    def _start(self, opened: ExitStack) -> None:
        fetch_jars()
        self.kafka = opened.enter_context(KafkaBroker(self.folder / "kafka"))
        self.sources = [
            BankSource(name, self.folder / f"connect-{name}", opened, seed=self.seed + at) for at,
            name in enumerate(BANKS)
        ]
        for source in self.sources:
            introduce(source.bank)
            source.connect(self.kafka, opened, partitions=2)
            # As captures of several databases take them: a folder of row types for each.
            shutil.copytree(ROWS, self.folder / "rows" / source.prefix)
        for source in self.sources:
            source.begin()
        (self.folder / "rows" / "temp.avsc").write_text(json.dumps(TEMP.schema), "utf-8")
        self.watch = LogWatch(self.kafka.bootstrap, {table: f"log.{table}" for table in self.rows}, self.rows)
        self.money = sum(source.bank.money for source in self.sources)
        self.story.fact(f"{len(TABLES)} tables in each; the money of both banks is {cents(self.money)} at any moment")
        self.story.fact(
            "no transaction spans two databases: a payment leaves one bank, and later comes into the other;"
        )
        self.story.fact("each books what the other one owes it, and what is owed to both together is on its way")

    def _capture(self, working: ExitStack) -> None:
        """Both captures die once, while everything is at work; return when enough frontiers have come."""
        self.captures = [
            working.enter_context(Service(f"the {name} capture", self._launcher(name), self._turns(name)))
            for name in ("first", "second")
        ]
        first, second = self.captures
        for one in self.captures:
            one.child.wait_until(lambda: '"what": "start"' in one.child.log_since_start(), "it starts", PATIENCE)
        self.work = working.enter_context(ExitStack())
        self.clients = [
            self.work.enter_context(source.bank.at_work(clients=2, rate=self.rate)) for source in self.sources
        ]
        banks = [source.bank for source in self.sources]
        self.couriers = self.work.enter_context(Couriers(banks[0], banks[1], rate=self.rate / 5, seed=self.seed))
        self._until(lambda: self.watch.frontier_moves() > 0, "the logs grow")
        self.kills = [self._kill(first, second), self._kill(second, first)]
        for one in self.captures:
            one.wait_moved()
        self.story.fact("both are up again, and write")
        self._until(lambda: sum(self._committed()) >= TRANSACTIONS, "the banks have done enough")

    def _kill(self, one: Service, other: Service) -> Antichain:
        """SIGKILL in mid-run; how far the logs were then. The other one goes on, and this one is started again."""
        one.wait_moved()
        # At any moment of the turn that follows.
        Event().wait(self._draw.uniform(0.0, 2.0))
        one.kill9()
        at, turns = self.watch.known(), other.moves
        self.story.fact(f"killed {one.name} when the logs were complete up to {text(at)}")
        self._until(lambda: other.moves >= turns + 2, f"{other.name} goes on", one)
        further = self.watch.known()
        self.story.check(before(at, further), f"{other.name} goes on alone, now up to {text(further)}")
        one.start()
        one.wait_moved(1)
        return at

    def _end(self) -> None:
        self.work.close()
        ends = {}
        for source in self.sources:
            topic = f"{source.prefix}.transaction"
            ends[topic, 0] = end_of(self.kafka.bootstrap, topic, source.bank.marker(), patience=PATIENCE)
        remap = KafkaRemap(TIMELINE, self.kafka.bootstrap)

        def is_in() -> bool:
            bound = known(remap)
            times = [when(bound, position(place, offset)) for place, offset in ends.items()]
            return not any(found is None or self.watch.known().less_equal(found.time) for found in times)

        self._until(is_in, "the logs have everything")
        for one in self.captures:
            code = one.stop()
            self.story.check(code == 0, f"asked to stop, {one.name} ended with exit code 0")
        first, last = self.watch.first, self.watch.known()
        for one, at in zip(self.captures, self.kills):
            (life,) = one.lives
            self.story.check(
                before(first, at) and before(at, last) and life.start < life.end < one.moves,
                f"the kill of {one.name} fell between the first frontier {text(first)} and the last {text(last)}, and "
                f"between its turns {life.end} and {life.end + 1} of {one.moves}",
            )
        code, output, _ = self._cdcv2("capture", "kafka", *self._words(), "--into", "kafka:log.{table}", "--json")
        left = json.loads(output) if code == Exit.DONE else {}
        self.story.check(
            code == Exit.DONE and not left["waiting"],
            "a third capture, without Spark, goes over it: nothing is held that is not whole "
            f"({left.get('records')} records were left for it)",
        )
        self.story.fact(
            f"{' and '.join(map(str, self._committed()))} transactions were committed in the banks, and "
            f"{self.couriers.sent} payments went between them"
        )

    def _verify(self) -> None:
        story = self.story
        code, output, _ = self._cdcv2("verify", "--full", "--json", *self._logs(temp=True))
        judged = json.loads(output)
        complete = code == Exit.DONE
        story.check(complete, f"cdcv2 verify --full exits {code}: nothing is missing, no two facts exclude each other")
        counted = Counter[str]()
        for one in judged["tables"].values():
            counted.update(one["counters"])
        distinct = counted["updates"] - counted["repeats"]
        messages = sum(sum(self._log(name).values()) for name in judged["tables"])
        story.fact(
            f"{messages} messages in {len(judged['tables'])} logs: {counted['statements']} statements, and "
            f"{counted['updates']} updates, of them {distinct} different ones"
        )
        story.check(
            counted["repeats"] * 5 >= distinct,
            f"{counted['repeats']} updates were repeated by the other capture: both wrote, and stated the same",
        )
        turns = [which for _, which in sorted(self._turn_lines())]
        changes = sum(one != other for one, other in zip(turns, turns[1:]))
        story.check(
            changes >= 8,
            f"they were at work at the same time: of {len(turns)} turns {changes} came after one of the other",
        )
        _, output, _ = self._cdcv2("inspect", f"kafka:{TIMELINE}", "--bindings", "--json", *self._bootstrap)
        bindings = [one for one in map(json.loads, output.splitlines()) if one["kind"] == "proposal"]
        won = Counter(one["by"] for one in bindings if one["won"])
        story.check(
            len(won) > 1,
            f"the timeline has {won.total()} bindings, of {len(won)} processes: {', '.join(map(str, won.values()))}; "
            f"{len(bindings) - won.total()} proposals came too late, and are void",
        )

    def _replay(self) -> None:
        story, path = self.story, self.folder / "replayed.jsonl"
        code, _, output = self._cdcv2("replay", "--json", "--output", str(path), *self._logs())
        story.check(code == Exit.DONE, f"cdcv2 replay exits {code}: {output.strip().rpartition(': ')[2]}")
        self.replayed = path.read_text("utf-8").splitlines()
        seen = both.read(self.replayed, BANKS)
        for source in self.sources:
            for table in TABLES:
                name = f"{source.prefix}.{table}"
                here, there = seen.rows.get(name, []), source.bank.contents(table)
                story.check(here == there, f"{name} equals PostgreSQL's, row by row ({len(there)} rows)")
        story.check(not seen.negative, "no row was ever there less than zero times")
        story.check(
            seen.totals == {self.money},
            f"at each of {seen.times} frontiers the money of both banks was {cents(self.money)}",
        )
        story.fact(f"({len(set(seen.frontiers))} were given out as such, and a bank is there from its snapshot on)")
        story.check(
            {source.prefix: {source.bank.money} for source in self.sources} == seen.of_bank,
            "and with what it is owed by the other one, that of each was its own constant",
        )
        story.check(
            not seen.unbooked and seen.on_its_way[-1] == 0 and self.couriers.sent == self.couriers.received,
            "at each frontier the ledgers have the same on its way as the balances; in the end nothing is",
        )
        below = sum(amount < 0 for amount in seen.on_its_way)
        most = cents(max(seen.on_its_way))
        story.fact(f"on its way were {len(set(seen.on_its_way))} different amounts, up to {most}; at {below} of")
        story.fact("these frontiers less than nothing: received before it was sent, as databases have no common order")
        self._judge_sums(seen)

    def _judge_sums(self, seen: both.BankChecks) -> None:
        """The constant is one of no part of what it is the sum of."""
        sums = {**seen.sums, **{f"{bank} without what it is owed": held for bank, held in seen.held.items()}}
        self.story.fact("distinct sums: " + ", ".join(f"{name} {len(found)}" for name, found in sorted(sums.items())))
        self.story.check(
            seen.times >= MIN_TIMES and min(map(len, sums.values())) >= MIN_SUMS,
            f"at least {MIN_TIMES} frontiers were looked at, and {MIN_SUMS} sums of each table and of each bank alone",
        )

    def _damage(self) -> None:
        table = f"{BANKS[1]}.{TABLES[0]}"
        holding = [at for at, line in enumerate(self.replayed) if json.loads(line).get("table") == table]
        gone = holding[len(holding) * 9 // 10]
        torn = both.read([*self.replayed[:gone], *self.replayed[gone + 1:]], BANKS)
        self.story.check(len(torn.totals) > 1, f"an update of {table} left out: the sum is seen to be another one")
        name, described = f"log.{table}", self.watch.description(table)
        log = KafkaLog(name, self.kafka.bootstrap, self.rows[table], description=described)
        batches = [message for message in self.watch.messages(table) if isinstance(message, Updates)]
        data, time, diff = batches[len(batches) // 2].updates[0]
        log.send(Updates([(data, time, diff + 1 or 2)]))
        log.flush()
        log.close()
        code, _, _ = self._cdcv2("verify", "--full", *self._logs())
        self.story.check(code == Exit.WRONG, f"another fact is written: cdcv2 verify --full exits {code}")

    # -- what they are made of ----------------------------------------------------------------------------------

    @property
    def _bootstrap(self) -> list[str]:
        return ["--bootstrap", self.kafka.bootstrap]

    def _words(self) -> list[str]:
        """The arguments of every capture, on Spark or not."""
        words = [*self._bootstrap, "--remap", f"kafka:{TIMELINE}", "--rows", str(self.folder / "rows")]
        for name in BANKS:
            words += ["--prefix", name, "--notifications", f"{name}={name}.notifications"]
        return words

    def _launcher(self, name: str) -> Callable[[Mapping[str, str]], Child]:
        """Starts a capture. Both get the same words, and a folder of their own for what they print."""
        words = ["--into", "kafka:log.{table}", "--bind-every", "0.5", "--bind-at-most", str(RECORDS)]

        def launch(more: Mapping[str, str]) -> Child:
            return spark_submit(
                "capture", [*self._words(), *words], folder=self.folder / name, master="local[1]", memory="768m",
                environment=more,
            )  # fmt: skip

        return launch

    def _turns(self, name: str) -> Callable[[], int]:
        return lambda: sum(which == name for _, which in self._turn_lines())

    def _turn_lines(self) -> Iterator[tuple[float, str]]:
        """When which capture came a turn further, by its own lines."""
        for name in ("first", "second"):
            log = self.folder / name / "capture.log"
            for line in log.read_text("utf-8").splitlines() if log.exists() else ():
                if line.startswith("{") and line.endswith("}"):
                    record = json.loads(line)
                    if record["what"] == "carried":
                        yield record["at"], name

    def _committed(self) -> list[int]:
        """How many transactions of its own each bank has done."""
        return [one.done.committed.total() for one in self.clients]

    def _logs(self, *, temp: bool = False) -> list[str]:
        """The logs, as a command takes them."""
        folder = self.folder / "rows"
        of = {f"{bank}.{table}": folder / bank / f"{table}.avsc" for bank in BANKS for table in TABLES}
        if temp:
            of |= {f"_temp.{bank}": folder / "temp.avsc" for bank in BANKS}
        rows = [word for name, file in of.items() for word in ("--row", f"{name}={file}")]
        return [*(f"{name}=kafka:log.{name}" for name in of), *self._bootstrap, *rows]

    def _log(self, name: str) -> Mapping[int, int]:
        """How many messages a log has, by partition."""
        log = KafkaLog(f"log.{name}", self.kafka.bootstrap, self.rows.get(name, TEMP))
        try:
            return log.ends()
        finally:
            log.close()

    def _until(self, condition: Callable[[], bool], what: str, dead: Service | None = None) -> None:
        """Wait for it, as long as something moves, and everybody lives but for one that is ``dead``."""

        def watched() -> bool:
            self._check(dead)
            return condition()

        if not arrives(watched, lambda: [one.moves for one in self.captures], pause=0.5):
            raise FailedCheck(f"nothing has moved for {PATIENCE:g} s before {what}")

    def _check(self, dead: Service | None) -> None:
        """Raises what has failed in the background."""
        self.couriers.check()
        for clients in self.clients:
            clients.check()
        for service in self.captures:
            if service is not dead and not service.child.running:
                raise FailedCheck(f"{service.name} ended by itself, with code {service.child.returncode}:\n"
                                  f"{service.child.log_tail()}")  # fmt: skip

    def _cdcv2(self, *words: str) -> tuple[int, str, str]:
        """The exit code of ``cdcv2``, and what it printed to standard output and to standard error."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [sys.executable, "-m", "cdcv2", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode not in (Exit.DONE, Exit.MISSING, Exit.WRONG):
            raise FailedCheck(f"cdcv2 {words[0]} ended with exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.returncode, done.stdout, done.stderr


def main(folder: Path | None = None, *, seed: int = 0) -> int:
    """Run the demonstration, as :func:`~cdcv2.demo.story.run_demo` does. Raises as :func:`check_demo` does."""
    check_demo()  # before anything is printed or started
    folder = folder or folder_of("demo-doubled")
    return run_demo(DoubledDemo(folder, seed=seed), folder)
