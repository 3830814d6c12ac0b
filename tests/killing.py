"""``cdcv2 materialize``, or the job on Spark, killed at random moments while a reader looks at its target all along.

The history is a bank's, in two logs: entries (two of each transfer, now and then taken back) and balances. The target
keeps three views of it: sums by account, in which a repeated entry shows; the entries as a multiset, in which it shows
again; and the balances, rows by key. What a reader sees in one snapshot is judged against the truth at the checkpoint
that it sees there: so a torn transaction shows, and so do rows without their checkpoint.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.errors import MissingLogError, OutputError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child

ROOT = Path(__file__).resolve().parents[1]
#: Seconds after which something is broken, and not only slow.
PATIENCE = 120.0
ACCOUNTS, OPENING = 12, 1000
ENTRIES, BALANCES = (
    RowType({
        "type": "record", "name": name,
        "fields": [{"name": "account", "type": "string"}, {"name": column, "type": "long"}],
    })
    for name, column in (("entry", "amount"), ("balance", "balance"))
)  # fmt: skip
PLAN = """
materialization: bank
timeline: bank
logs: {entries: entries, balances: balances}
bindings:
  - {log: entries, target: totals, key: [account], reduce: {entries: count, total: {sum: amount}}}
  - {log: entries, target: entry_log}
  - {log: balances, target: balances, key: [account]}
rows: ROWS
"""


class Bank:
    """The history, by its seed: the updates of each time, and the truth at a frontier that only moves on."""

    def __init__(self, seed: int, times: int) -> None:
        draw = random.Random(seed)
        self.times = times
        names = [f"account {number}" for number in range(ACCOUNTS)]
        balance = dict.fromkeys(names, OPENING)
        #: time -> (changes of entries, changes of balances)
        self.history: list[tuple[list[Any], list[Any]]] = [
            ([((name, OPENING), 1) for name in names], [((name, OPENING), 1) for name in names])
        ]
        transfers: list[tuple[str, str, int]] = []
        for _ in range(1, times):
            back = bool(transfers) and draw.random() < 0.1
            one, other, amount = transfers.pop(draw.randrange(len(transfers))) if back else (
                *draw.sample(names, 2), draw.randint(1, 99)
            )  # fmt: skip
            sign = -1 if back else 1
            if not back:
                transfers.append((one, other, amount))
            entries = [((one, -amount), sign), ((other, amount), sign)]
            changes: list[Any] = []
            for name, moved in ((one, -amount * sign), (other, amount * sign)):
                changes.append(((name, balance[name]), -1))
                balance[name] += moved
                changes.append(((name, balance[name]), 1))
            self.history.append((entries, changes))
        self.reached = 0
        self.entries, self.balances = Counter[Any](), dict[str, int]()
        self.totals: dict[str, tuple[int, int]] = {}

    def write(self, folder: Path, seed: int) -> None:
        """Both logs, each with statements of its own lengths."""
        draw = random.Random(seed)
        for number, (name, row_type) in enumerate((("entries", ENTRIES), ("balances", BALANCES))):
            with Writer(DirectoryLog(folder / name, row_type, create=True)) as writer:
                at = 0
                while at < self.times:
                    upper = min(at + draw.randint(1, 40), self.times)
                    for time in range(at, upper):
                        for row, diff in self.history[time][number]:
                            writer.update(row_type.row(row), time, diff)
                    writer.advance([upper])
                    at = upper
                writer.finish()

    def move(self, upper: int) -> None:
        """Bring the truth to the frontier."""
        for entries, changes in self.history[self.reached:upper]:
            for (account, amount), diff in entries:
                count, total = self.totals.get(account, (0, 0))
                self.totals[account] = (count + diff, total + diff * amount)
                self.entries[account, amount] += diff
            self.balances.update({account: balance for (account, balance), diff in changes if diff > 0})
        self.reached = upper


class TargetRows(NamedTuple):
    """What a reader sees in one snapshot. ``upper``: of its checkpoint; the number of times at the end."""

    upper: int
    totals: dict[str, tuple[int, int]]
    balances: dict[str, int]
    #: how many entries, and their sum
    entries: tuple[int, int]


class Target(ABC):
    """Where the views are kept."""

    def __init__(self, bank: Bank, folder: Path) -> None:
        self.bank, self.folder = bank, folder

    @abstractmethod
    def look(self) -> TargetRows | None:
        """One snapshot; None while nothing is there."""

    @abstractmethod
    def entry_log(self) -> Counter[Any]:
        """All entries, and how often each is there."""

    @abstractmethod
    def settings(self) -> str:
        """Its settings in the plan."""

    def environment(self) -> dict[str, str]:
        """What the process gets besides ours."""
        return {}

    def upper(self) -> int:
        """Of the checkpoint, now."""
        seen = self.look()
        return 0 if seen is None else seen.upper

    def number(self, frontier: list[int]) -> int:
        """A frontier of the history as a number."""
        return frontier[0] if frontier else self.bank.times


class PostgresTarget(Target):
    """A schema of its own."""

    def __init__(self, bank: Bank, folder: Path, server: Postgres) -> None:
        super().__init__(bank, folder)
        self._server, self._schema = server, f"killed_{os.urandom(6).hex()}"
        with server.connect(autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {self._schema}".encode())
        self._local = threading.local()

    def _session(self) -> Any:
        if not hasattr(self._local, "session"):
            self._local.session = self._server.connect(autocommit=True, options=f"-c search_path={self._schema}")
        return self._local.session

    def look(self) -> TargetRows | None:
        """One repeatable-read transaction."""
        session = self._session()
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if session.execute("SELECT to_regclass('cdcv2_checkpoints')").fetchone() == (None,):
                return None
            held = session.execute("SELECT checkpoint FROM cdcv2_checkpoints").fetchone()
            if held is None:
                return None
            totals = session.execute("SELECT account, entries::bigint, total::bigint FROM totals").fetchall()
            balances = session.execute("SELECT account, balance FROM balances").fetchall()
            entries = session.execute(
                "SELECT coalesce(sum(cdcv2_count), 0)::bigint, coalesce(sum(amount * cdcv2_count), 0)::bigint "
                "FROM entry_log"
            ).fetchone()
        return TargetRows(
            self.number(json.loads(held[0])["frontier"]),
            {account: (count, total) for account, count, total in totals}, dict(balances), tuple(entries),
        )  # fmt: skip

    def entry_log(self) -> Counter[Any]:
        """The table."""
        rows = self._session().execute("SELECT account, amount, cdcv2_count FROM entry_log").fetchall()
        return Counter({(account, amount): count for account, amount, count in rows})

    def settings(self) -> str:
        """libpq finds the server in the environment."""
        return "target: {driver: postgres}\n"

    def environment(self) -> dict[str, str]:
        """The server and the schema."""
        return {**self._server.environment, "PGOPTIONS": f"-c search_path={self._schema}"}


class LakeTarget(Target):
    """A folder of Parquet files, or of Delta tables, and a recovery log: a folder, or SQLite."""

    def __init__(self, bank: Bank, folder: Path, *, sqlite: bool, driver: str = "lake") -> None:
        super().__init__(bank, folder)
        self._recovery = "{sqlite: recovery.db}" if sqlite else "recovery"
        self._driver = driver

    def _view(self) -> Any:
        """Its tables at one cut. Raises MissingLogError while there are none."""
        from cdcv2.materialize.targets.delta.driver import open_delta
        from cdcv2.materialize.targets.lake.driver import open_lake

        return (open_lake if self._driver == "lake" else open_delta)(self.folder / "lake")

    def look(self) -> TargetRows | None:
        """One manifest's tables. A lake that got eight more commits in the meantime is opened a second time."""
        while True:
            try:
                view = self._view()
                rows = {table: list(view.rows(table)) for table in ("totals", "balances", "entry_log")}
            except MissingLogError:
                return None
            except OutputError:
                continue
            entries = [values for _, values in rows["entry_log"]]
            return TargetRows(
                self.number(list(view.frontier)),
                {key[0]: (values[0], values[1]) for key, values in rows["totals"]},
                {key[0]: values[0] for key, values in rows["balances"]},
                (sum(count for _, _, count in entries), sum(amount * count for _, amount, count in entries)),
            )  # fmt: skip

    def entry_log(self) -> Counter[Any]:
        """The table."""
        rows = self._view().rows("entry_log")
        return Counter({(account, amount): count for _, (account, amount, count) in rows})

    def upper(self) -> int:
        """Without reading a table."""
        try:
            return self.number(list(self._view().frontier))
        except MissingLogError:
            return 0

    def settings(self) -> str:
        """Beside the logs."""
        return f"target: {{driver: {self._driver}, folder: lake}}\nrecovery_log: {self._recovery}\n"


class Poller:
    """A reader that looks all along, and judges each snapshot."""

    def __init__(self, target: Target, pause: float = 0.05) -> None:
        self._target, self._bank, self._pause = target, target.bank, pause
        self._stop, self._wrong = threading.Event(), list[BaseException]()
        #: snapshots that were right, and at how many different frontiers
        self.snapshots, self.frontiers = 0, set[int]()
        self._thread = threading.Thread(target=self._work, name="poller", daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        self.check()

    def check(self) -> None:
        """Raise what it found wrong."""
        if self._wrong:
            raise self._wrong[0]

    def _work(self) -> None:
        try:
            while not self._stop.wait(self._pause):
                self.judge(self._target.look())
        except BaseException as wrong:  # handed to the test
            self._wrong.append(wrong)

    def judge(self, seen: TargetRows | None) -> None:
        """It is what was so at its checkpoint, and that never goes back."""
        bank = self._bank
        if seen is None:
            assert not bank.reached, f"the target has nothing any more; it was at {bank.reached}"
            return
        assert seen.upper >= bank.reached, f"the target went back from {bank.reached} to {seen.upper}"
        bank.move(seen.upper)
        where = f"in the snapshot at {seen.upper}"
        assert bank.totals == seen.totals, where
        assert bank.balances == seen.balances, where
        money = ACCOUNTS * OPENING if seen.upper else 0
        assert (bank.entries.total(), money) == seen.entries, where
        self.snapshots += 1
        self.frontiers.add(seen.upper)


class Runner(NamedTuple):
    """What is killed.

    ``start``: begins a life; the last one, which is not killed, when its third argument is true. ``first``: seconds
    from the start within which some are killed, however far they are; ``further``: seconds after they got further
    within which the others are. ``pause``: seconds between two looks at the target. ``patience``: seconds after which
    something is broken, and not only slow.
    """

    start: Callable[[Target, Path, bool], Child]
    first: float = 1.0
    further: float = 0.08
    pause: float = 0.05
    patience: float = PATIENCE


def kill_many(
    target: Target, kills: int, draw: random.Random, *, rows: int = 60, runner: Runner | None = None
) -> Counter[str]:
    """Start it and kill it, so many times, strictly inside its run; then let it live, and judge what is there.

    Four of five are killed when this very process has brought the target a random way further; the fifth at any moment
    of its first second, however far it has come. ``runner``: by default ``cdcv2 materialize``.
    """
    runner = runner or Runner(start)
    counts, bank = Counter[str](), target.bank
    furthest = bank.times // (kills + 1) * 3 // 4
    plan = target.folder / "bank.yaml"
    plan.write_text(PLAN.replace("ROWS", str(rows)) + target.settings(), "utf-8")
    with Poller(target, runner.pause) as poller:
        while counts["kills"] < kills:
            kill_once(target, plan, draw, counts, furthest, runner)
            poller.check()
        child = runner.start(target, plan, True)
        code = child.wait(runner.patience)
        assert 0 == code, child.log_tail()
    poller.judge(target.look())
    entries = target.entry_log()
    assert bank.times == bank.reached and +bank.entries == entries
    assert counts["strictly inside, after commits of the one that was killed"] >= kills * 3 // 5
    counts["snapshots that were right"] = poller.snapshots
    counts["frontiers seen"] = len(poller.frontiers)
    counts["updates"] = sum(len(entries) + len(changes) for entries, changes in bank.history)
    return counts


def kill_once(
    target: Target, plan: Path, draw: random.Random, counts: Counter[str], furthest: int, runner: Runner
) -> None:
    """One life, which ends by SIGKILL before the history does."""
    before = target.upper()
    child = runner.start(target, plan, False)
    at_start = counts["kills"] % 5 == 4
    if not at_start:
        goal = before + draw.randint(1, furthest)
        child.wait_until(lambda: target.upper() >= goal, f"it has come to {goal}", runner.patience)
    # Any moment within the transactions that follow; nothing is expected to have happened before it.
    threading.Event().wait(draw.uniform(0.0, runner.first if at_start else runner.further))
    child.kill9()
    after = target.upper()
    assert -9 == child.returncode, f"it had ended before it was killed: {child.log_tail()}"
    assert before <= after < target.bank.times, "the history was over before the kills were"
    counts["kills"] += 1
    if before < after:
        counts["strictly inside, after commits of the one that was killed"] += 1
    else:
        counts["before its first commit"] += 1


def start(target: Target, plan: Path, last: bool) -> Child:
    """The command, as a user starts it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **target.environment()}
    command = [sys.executable, "-m", "cdcv2", "materialize", str(plan)]
    return Child("materialize", command, log=target.folder / "materialize.log", env=environment, cwd=ROOT)


def postgres_target(seed: int, times: int, folder: Path, server: Postgres) -> PostgresTarget:
    """With its logs written."""
    return PostgresTarget(_written(seed, times, folder), folder, server)


def lake_target(
    seed: int, times: int, folder: Path, *, sqlite: bool = False, driver: str = "lake"
) -> LakeTarget:
    """With its logs written."""
    return LakeTarget(_written(seed, times, folder), folder, sqlite=sqlite, driver=driver)


def _written(seed: int, times: int, folder: Path) -> Bank:
    bank = Bank(seed, times)
    bank.write(folder, seed)
    return bank
