"""Two replicas, their controller and clients, as processes and threads, of which the processes are killed.

The oracle is a formula: at each time one key of ``prices`` gets that time as its price, and so does ``totals``. So what
is at a key at a time, and every change, is known without a sum, and both tables together show whether a cut is whole.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.event_stream import read_events
from cdcv2.instances.commands import LEAST
from cdcv2.instances.requests import PeekRequest
from cdcv2.instances.run.client import InstanceClient
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from tests.children import CDCV2
from tests.market import PRICES

#: Seconds after which something is broken, and not only slow.
PATIENCE = 120.0
NAMES = 5
PROCESSES = ("one", "two", "controller")


def price(name: int, at: int) -> int | None:
    """The price of a name at a time: the last time up to it that is the name's."""
    last = at - (at - name) % NAMES
    return last if last >= 1 else None


class KilledInstances:
    """The logs, the processes and the clients; :meth:`run` has them work while processes are killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.place = folder / "shop.sock"
        self.logs = {
            table: DirectoryLog(folder / "logs" / table, PRICES, create=True,
                                description=LogDescription(timeline="m", identity=table, log_set="m"))
            for table in ("prices", "totals")
        }  # fmt: skip
        self.writers = {table: cdcv2.Writer(log) for table, log in self.logs.items()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.lives = Counter[str]()
        # Process -> what all logs had when it was started last.
        self.had: dict[str, int] = {}
        # What all logs had when a replica was started whose word the controller of this life gets first.
        self.least = 0
        self.counts, self.counting = Counter[str](), threading.Lock()
        self.stopped: str | None = None
        self.errors: list[BaseException] = []
        self.ended = threading.Event()
        self.at = 0
        self.step()

    # -- the logs and the processes -----------------------------------------------------------------------------

    def step(self) -> None:
        """One more time, in both logs."""
        at = self.at = self.at + 1
        name = str(at % NAMES)
        gone = [(PRICES.row([name, at - NAMES]), at, -1)] if at > NAMES else []
        self.writers["prices"].extend([*gone, (PRICES.row([name, at]), at, 1)])
        total = [(PRICES.row(["all", at - 1]), at, -1)] if at > 1 else []
        self.writers["totals"].extend([*total, (PRICES.row(["all", at]), at, 1)])
        for table, writer in self.writers.items():
            writer.advance([at + 1])
            self.logs[table].flush()

    def start(self, name: str) -> None:
        self.had[name] = self.at
        if name == "controller":
            self.least = min(self.had[replica] for replica in PROCESSES[:2])
        logs, own = str(self.folder / "logs"), ("--instance", str(self.folder / f"{name}.sock"))
        words: tuple[str, ...] = ("instance", logs, "--replica", *own)
        if name == "controller":
            replicas = (word for one in PROCESSES[:2] for word in ("--of", str(self.folder / f"{one}.sock")))
            words = ("replicas", logs, "--index", "prices=name", "--index", "totals=name", *replicas, "--instance",
                     str(self.place), "--state", str(self.folder / "state"))  # fmt: skip
        with open(self.folder / f"{name}.log", "ab") as errors:
            words += ("--events", str(self.folder / f"{name}.events"))
            self.processes[name] = subprocess.Popen([*CDCV2, *words], stdout=subprocess.DEVNULL, stderr=errors)

    def kill(self) -> None:
        """Kill one of them, or two, and start them again; now and then one is stopped until the next kill."""
        self.go_on()
        victims = self.random.sample(PROCESSES, self.random.choice((1, 1, 2)))
        for name in victims:
            assert self.processes[name].poll() is None, f"{name} has ended by itself"
            self.lives[name] += 1
            self.processes[name].kill()
            self.processes[name].wait()
        for name in victims:
            self.start(name)
            self.counts["kills"] += 1
            self.counts[f"of a {'controller' if name == 'controller' else 'replica'}"] += 1
        if self.random.random() < 0.3:
            self.stopped = next(name for name in PROCESSES if name not in victims or name == victims[-1])
            self.processes[self.stopped].send_signal(signal.SIGSTOP)
            self.counts["processes that were stopped for a while"] += 1
            if self.stopped == "controller":
                self.ended.wait(0.2)
                self.go_on()

    def go_on(self) -> None:
        """What was stopped works again, and does not know that it was."""
        if self.stopped is not None:
            self.processes[self.stopped].send_signal(signal.SIGCONT)
            self.stopped = None

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for name in PROCESSES:
                self.start(name)
            yield
        finally:
            self.ended.set()
            for process in self.processes.values():
                process.kill()
                process.wait()

    # -- clients ------------------------------------------------------------------------------------------------

    def ask_by_client(self, seed: int) -> None:
        """Now, a past time or one to come; "now" never goes back."""
        draw, client, seen = random.Random(seed), InstanceClient(self.place), 1
        while not self.ended.is_set():
            at = draw.choice((None, max(1, seen - draw.randrange(40)), seen + draw.randrange(3)))
            names = draw.sample(range(NAMES), 2)
            found = client.peek({"prices": [str(name) for name in names], "totals": "all"}, at=at, timeout=PATIENCE)
            assert found.at is not None
            if at is None:
                assert found.at >= seen, "now goes back"
            else:
                assert found.at == at
            self.judge(found.at, {name: [row.price for row in found["prices"] if row.name == str(name)]
                                  for name in names}, [row.price for row in found["totals"]])  # fmt: skip
            seen = max(seen, found.at)

    def ask_by_lines(self, seed: int) -> None:
        """The lines themselves: of each connection one answer, or it broke; then the same uuid is requested again."""
        draw, seen = random.Random(seed), 1
        while not self.ended.is_set():
            name = draw.randrange(NAMES)
            keys: Any = {"prices": ((str(name),),), "totals": (("all",),)}
            request = PeekRequest(uuid.uuid4().hex, keys, seen + draw.randrange(3))
            lines: list[bytes] = []
            deadline = time.monotonic() + PATIENCE
            while not lines:
                assert time.monotonic() < deadline, "a peek was not answered"
                lines = _exchanged(self.place, request.to_line())
                self.count("connections that broke or were refused", not lines)
            [line] = lines
            answer = json.loads(line)
            [prices], [totals] = answer["rows"]["prices"], answer["rows"]["totals"]
            assert answer["time"] == request.at
            self.judge(answer["time"], {name: [row["price"] for row, _ in prices]}, [row["price"] for row, _ in totals])
            seen = max(seen, answer["time"])

    def judge(self, at: int, prices: dict[int, list[int]], totals: list[int]) -> None:
        assert totals == [at], (totals, at)
        assert prices == {name: [one] if (one := price(name, at)) is not None else [] for name in prices}, (at, prices)
        self.count("peeks answered")

    def count(self, what: str, number: int = 1) -> None:
        with self.counting:
            self.counts[what] += number

    def tail(self, seed: int) -> None:
        """Follow one table to its end, and begin again at the last upper now and then."""
        draw, client = random.Random(seed), InstanceClient(self.place)
        table = draw.choice(("prices", "totals"))
        upper, changes = Antichain([0]), Counter[Any]()
        while upper:
            since = 0 if upper == Antichain([0]) else None
            with client.tail(table, after=None if since == 0 else upper, since=since, timeout=PATIENCE) as tail:
                while upper and draw.random() > 0.1:
                    batch = tail.batch()
                    assert batch is not None and batch.lower == upper, (batch, upper)
                    upper = batch.upper
                    changes.update({(row.name, row.price, at, diff): 1 for row, at, diff in batch.changes})
                    self.count("batches")
        assert changes == self.changes(table), changes - self.changes(table)

    def changes(self, table: str) -> Counter[Any]:
        """Every change of a table, once."""
        step = NAMES if table == "prices" else 1
        names = {at: str(at % NAMES) if table == "prices" else "all" for at in range(1, self.at + 1)}
        gone = {(names[at], at - step, at, -1): 1 for at in names if at > step}
        return Counter({(name, at, at, 1): 1 for at, name in names.items()} | gone)

    def watch(self) -> None:
        """What is finished never goes back in a life of the controller; in another one, not behind what the logs had.

        A replica states nothing before it has read what the logs had when it was started.
        """
        client, before, life = InstanceClient(self.place), Antichain([0]), 0
        while not self.ended.is_set():
            now, had = self.lives["controller"], self.least
            upper = Antichain(client.status(timeout=PATIENCE)["upper"])
            assert upper == LEAST or upper.dominates(Antichain([had + 1])), (upper, had)
            if self.lives["controller"] == now:
                assert now != life or upper.dominates(before), (before, upper)
                before, life = upper, now
                self.count("frontiers seen")
            self.ended.wait(0.01)

    # -- all of it ----------------------------------------------------------------------------------------------

    def run(self, kills: int, cancelled: int) -> Counter[str]:
        """Kill so many times. Raises AssertionError where a client is not right; the counts show what happened."""
        work = [(self.ask_by_client, 1), (self.ask_by_client, 2), (self.ask_by_lines, 3), (self.tail, 4),
                (self.tail, 5), (lambda _: self.watch(), 6)]  # fmt: skip
        with self.running():
            threads = [threading.Thread(target=self._tried, args=one) for one in work]
            for thread in threads:
                thread.start()
            while self.counts["kills"] < kills and not self.errors:
                # Each kill is of processes that have answered since the one before.
                answered = self.counts["peeks answered"] + 5 + self.random.randrange(20)
                self._until(lambda: self.counts["peeks answered"] >= answered)
                self.kill()
            answered = self.counts["peeks answered"] + 20
            self._until(lambda: self.counts["peeks answered"] >= answered)
            self.go_on()
            self.cancel(cancelled)
            self.ended.set()
            for _ in range(5):
                self.step()
            for thread in threads[:3]:
                thread.join(PATIENCE)
            for table, writer in self.writers.items():
                writer.finish()
                self.logs[table].flush()
            for thread in threads:
                thread.join(PATIENCE)
                assert not thread.is_alive(), "a client waits for ever"
            for error in self.errors:
                raise error
            status = InstanceClient(self.place).status()
            assert (status["upper"], status["peeks"], status["tails"]) == ([], 0, 0)
            for name in PROCESSES:
                stated = read_events(self.folder / f"{name}.events")
                # One that is killed right after its start has stated nothing.
                assert 0 < len({one["pid"] for one in stated if one["event"] == "start"}) <= 1 + self.lives[name]
        return self.counts

    def cancel(self, number: int) -> None:
        """So many peeks for a time that does not come, whose clients go away: nothing is left of them."""
        client = InstanceClient(self.place)
        descriptors = self._descriptors()
        for first in range(0, number, 100):
            streams = []
            for one in range(first, min(first + 100, number)):
                stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                stream.connect(str(self.place))
                stream.sendall(PeekRequest(f"never{one}", {"prices": (("1",),)}, 10**15).to_line())
                streams.append(stream)
            for stream in streams:
                stream.close()
        self._until(lambda: client.status()["peeks"] < 10 and self._descriptors() < descriptors + 20)
        self.counts["peeks for a time that does not come"] += number

    def _descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.processes['controller'].pid}/fd").iterdir()))

    def _until(self, reached: Any) -> None:
        """Go on with the logs until something has come about."""
        deadline = time.monotonic() + PATIENCE
        while not reached() and not self.errors:
            assert time.monotonic() < deadline, f"it stands still: {self.counts}"
            self.step()
            self.ended.wait(0.02)

    def _tried(self, work: Any, seed: int) -> None:
        try:
            work(seed)
        except BaseException as error:
            self.errors.append(error)


def _exchanged(place: Path, line: bytes) -> list[bytes]:
    """All lines of one connection; none where it broke."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(PATIENCE)
        try:
            stream.connect(str(place))
            stream.sendall(line)
            with stream.makefile("rb") as file:
                return [one for one in file.read().splitlines(keepends=True) if one.endswith(b"\n")]
        except OSError:
            time.sleep(0.02)
            return []
