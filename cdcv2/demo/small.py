"""The demonstration without servers: recorded change data of Debezium, through files, in seconds.

What four clients did to six tables of a PostgreSQL was recorded from Kafka's topics. It is captured into one log per
table; the logs are copied, with everything repeated, reordered and re-batched; the copies are replayed, and what comes
out is compared with the records themselves, added up by a dozen lines of code that share nothing with capture or
replay: at checkpoints and at the end. Then two logs are damaged on purpose, and the damage must be found.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from cdcv2.core.antichain import Antichain
from cdcv2.demo import damage
from cdcv2.demo.mangled_copy import describe
from cdcv2.demo.story import Story, folder_of, run_demo
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.read import read
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import GarbledMessage, Message
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType

#: The recorded records, and the row types of their tables.
RECORDED = resources.files("cdcv2.demo") / "recorded"
PREFIX = "clean_full"
TABLES = (
    "public.order_items", "public.orders", "public.pgbench_accounts", "public.pgbench_branches",
    "public.pgbench_history", "public.pgbench_tellers",
)
#: Each transaction of pgbench adds one amount to each of these columns.
SUMS = {"public.pgbench_tellers": "tbalance", "public.pgbench_branches": "bbalance", "public.pgbench_history": "delta"}
#: After each so many commits replay is compared with the source, and at the end.
CHECKPOINT_EVERY = 100
#: With less, the demonstration would have shown little.
MIN_COMMITS, MIN_SUMS = 500, 200

Row: TypeAlias = tuple[Any, ...]
#: What a table holds: row -> how often.
Content: TypeAlias = Counter[Row]


class RecordedTruth:
    """The truth: the recorded records, added up one by one.

    A row's transaction is ``source.txId``; its time is the LSN in that transaction's END. Rows of the snapshot come
    before, at their own LSN.
    """

    def __init__(self, dump: Path) -> None:
        ends: dict[int, int] = {}
        rows: list[dict[str, Any]] = []
        for value in _values(dump):
            if value.get("status") == "END":
                tx, lsn = map(int, value["id"].split(":"))
                ends[tx] = lsn
            elif value.get("op") in ("r", "c", "u", "d"):
                rows.append(value)
        #: how many transactions there are, and when the last was committed; not all are on these tables
        self.transactions, self.last = len(ends), max(ends.values())
        self._changes: list[tuple[int, str, Row, int]] = []
        for value in rows:
            source = value["source"]
            time = source["lsn"] if value["op"] == "r" else ends[source["txId"]]
            for image, diff in ((value["before"], -1), (value["after"], 1)):
                if image is not None:
                    table = f"{source['schema']}.{source['table']}"
                    self._changes.append((time, table, tuple(image.values()), diff))

    def checkpoints(self) -> list[int]:
        """Some commits that changed these tables, the snapshot and the last among them."""
        commits = sorted({time for time, *_ in self._changes})
        return [*commits[:-1:CHECKPOINT_EVERY], commits[-1]]

    def at(self, time: int) -> dict[str, Content]:
        """Every table as of a time."""
        tables = {table: Content() for table in TABLES}
        for when, table, row, diff in self._changes:
            if when <= time:
                tables[table][row] += diff
        return _held(tables)


class ReplayOutput:
    """What replay gave out, added up and looked at commit by commit."""

    def __init__(self, row_types: dict[str, RowType]) -> None:
        self.tables = {table: Content() for table in TABLES}
        #: commits at which the three sums differed
        self.torn: list[int] = []
        #: commits at which a row was there less than zero times
        self.negative: list[int] = []
        self.commits = 0
        #: the sums that were seen
        self.seen: set[int] = set()
        self._columns = {table: row_types[table].columns.index(column) for table, column in SUMS.items()}
        self._sums = dict.fromkeys(SUMS, 0)

    def commit(self, time: int, changes: list[tuple[str, Row, int]]) -> None:
        """Apply one transaction."""
        for table, row, diff in changes:
            self.tables[table][row] += diff
            if table in SUMS:
                self._sums[table] += diff * row[self._columns[table]]
        if any(self.tables[table][row] < 0 for table, row, _ in changes):
            self.negative.append(time)
        if len(set(self._sums.values())) > 1:
            self.torn.append(time)
        self.seen.update(self._sums.values())
        self.commits += 1

    def content(self) -> dict[str, Content]:
        """Every table as it is now."""
        return _held(self.tables)


class SmallDemo:
    """One run, in a folder that it empties first."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        self.folder, self.seed, self.story = folder.absolute(), seed, Story()

    def run(self) -> None:
        """Run the whole story. Raises Failed, or what a part raises."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.story.step("Recorded change data is captured, into one log per table"):
            with resources.as_file(RECORDED) as recorded:
                self._capture(recorded)
        with self.story.step("The logs are copied: everything repeated, reordered and re-batched"):
            self._mangle()
        with self.story.step("The copies are replayed, and compared with the source"):
            self._replay()
        with self.story.step("The command verifies logs and copies"):
            for name in ("logs", "copies"):
                code, output = self._command("verify", "--full", name)
                self.story.check(code == 0, f"cdcv2 verify --full {name} exits 0: {output}")
        with self.story.step("Two negative controls: damage must be found"):
            table = TABLES[1]
            damage.controls(self.story, self.folder, self._messages("logs", table), self.row_types[table])

    def _capture(self, recorded: Path) -> None:
        self.row_types = {table: RowType.load(recorded / "rows" / f"{table}.avsc") for table in TABLES}
        self.source = RecordedTruth(recorded / "topics.jsonl.gz")
        code, output = self._command(
            "capture", str(recorded / "topics.jsonl.gz"), "--prefix", PREFIX, "--rows", str(recorded / "rows"),
            "--into", "logs", "--max-records", "250",
        )  # fmt: skip
        self.story.check(code == 0, f"cdcv2 capture exits 0: {output}")
        self.story.fact(f"the source: a snapshot of {len(TABLES)} tables, and {self.source.transactions} transactions")

    def _mangle(self) -> None:
        code, _ = self._command("mangle", "logs", "copies", "--seed", str(self.seed), "--window", "8")
        self.story.check(code == 0, "cdcv2 mangle exits 0")
        for table in TABLES:
            shown = describe(table, self._messages("logs", table), self._messages("copies", table))
            self.story.fact(str(shown))
            self.story.check(shown.thoroughly, "  it holds repeats, inversions and other bounds")

    def _replay(self) -> None:
        reading = read(str(self.folder / "copies"))
        cuts = list(reading)
        self.story.check(
            reading.frontier == Antichain([self.source.last + 1]) and not reading.missing(),
            f"replay is complete through the last commit, {self.source.last}, in {len(cuts)} batches",
        )
        replayed, due = ReplayOutput(self.row_types), self.source.checkpoints()
        equal: list[int] = []
        for time, changes in _by_commit(cuts):
            replayed.commit(time, changes)
            if time in due and replayed.content() == self.source.at(time):
                equal.append(time)
        rows = sum(content.total() for content in replayed.content().values())
        self.story.check(
            due == equal,
            f"all {len(TABLES)} tables equal the source, row by row, at each of {len(due)} checkpoints; in the end "
            f"they have {rows} rows",
        )
        self.story.check(not replayed.negative, "no row was ever there less than zero times")
        self.story.check(
            not replayed.torn and replayed.commits >= MIN_COMMITS and len(replayed.seen) >= MIN_SUMS,
            f"after each of {replayed.commits} commits tellers, branches and history had one sum "
            f"({len(replayed.seen)} different ones)",
        )

    def _entries(self, name: str, table: str) -> list[Entry]:
        return [entry for entry in DirectoryLog(self.folder / name / table).read() if entry is not None]

    def _messages(self, name: str, table: str) -> list[Message]:
        found = (entry.message for entry in self._entries(name, table))
        return [message for message in found if not isinstance(message, GarbledMessage)]

    def _command(self, *words: str) -> tuple[int, str]:
        """The exit code of ``cdcv2``, run in the folder, and the last line that it printed."""
        command = [sys.executable, "-m", "cdcv2", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        output = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
        return done.returncode, output[-1] if output else ""


def _by_commit(cuts: list[Cut]) -> Iterator[tuple[int, list[tuple[str, Row, int]]]]:
    """What was given out, by time; the cuts come in the order of their frontiers, so nothing is sorted across them."""
    for cut in cuts:
        commits: dict[Any, list[tuple[str, Row, int]]] = {}
        for table, updates in cut.updates.items():
            for row, time, diff in updates:
                commits.setdefault(time, []).append((table, tuple(row), diff))
        yield from sorted(commits.items())


def _held(tables: dict[str, Content]) -> dict[str, Content]:
    """The rows that are there; one that is there less than zero times is kept, as it equals nothing."""
    return {table: Counter({row: count for row, count in rows.items() if count}) for table, rows in tables.items()}


def _values(dump: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(dump, "rt", encoding="utf-8") as lines:
        for line in lines:
            value = json.loads(line)["value"]
            if value is not None:
                yield json.loads(value)


def main(folder: Path | None = None, *, seed: int = 0) -> int:
    """Run it, as :func:`~cdcv2.demo.story.run_demo` does."""
    folder = folder or folder_of("demo-small")
    return run_demo(SmallDemo(folder, seed=seed), folder)
