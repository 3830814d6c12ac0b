"""What the questions about instances share: logs of two tables, an instance of them, the same rows in PostgreSQL.

``python -m benchmarks.indexed_shop FOLDER`` reads the logs into a plain dict for each table, and prints what it took.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import cdcv2
from benchmarks.shop import ORDERS
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child, poll_until

TABLES = ("orders", "returns")
#: Updates of a table in a transaction; transactions that a statement finishes, as a turn of a busy capture does.
PER_TRANSACTION, PER_STATEMENT = 5, 100
ROOT = Path(__file__).resolve().parents[1]
#: Seconds after which something is broken.
_PATIENCE = 900.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY, customer integer, total bigint, note text)"


@dataclass
class IndexedShop:
    """Two tables with ``rows`` rows each, every one of which is changed ``changes`` times; times begin at 1."""

    folder: Path
    rows: int
    changes: int
    random: Random
    end: int = 0
    server: Postgres | None = None
    instances: list[Child] = field(default_factory=list)

    @classmethod
    def open(cls, seed: int, rows: int, changes: int = 0) -> IndexedShop:
        """The logs, written."""
        shop = cls(Path(tempfile.mkdtemp(prefix="cdcv2-bench-")), rows, changes, Random(seed))
        for table in TABLES:
            shop.end = shop._write(table)
        return shop

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.folder / "logs"

    def log(self, table: str) -> DirectoryLog:
        """The log of a table."""
        stated = LogDescription(timeline="shop", identity=table)
        return DirectoryLog(self.logs / table, ORDERS, create=True, description=stated)

    def row(self, number: int, version: int) -> Any:
        """A row as it is after so many changes: of a number and a version always the same."""
        note = f"note {number}" if number % 2 else None
        return ORDERS.row((number, number % 9973, 1000 * number + version, note))

    def _updates(self) -> Iterator[list[tuple[Any, int]]]:
        """What each transaction changes: rows and diffs."""
        for version in range(self.changes + 1):
            for first in range(0, self.rows, PER_TRANSACTION):
                numbers = range(first, min(self.rows, first + PER_TRANSACTION))
                gone = [(self.row(number, version - 1), -1) for number in numbers] if version else []
                yield gone + [(self.row(number, version), 1) for number in numbers]

    def _write(self, table: str) -> int:
        log = self.log(table)
        lower, updates, counts, time = 0, list[Any](), dict[int, int](), 0
        for time, changed in enumerate(self._updates(), 1):
            updates += ((row, time, diff) for row, diff in changed)
            counts[time] = len(changed)
            if time % PER_STATEMENT == 0:
                log.send(Updates.trusted(tuple(updates)))
                log.send(Progress([lower], [time + 1], counts))
                lower, updates, counts = time + 1, [], {}
        log.send(Updates.trusted(tuple(updates)))
        log.send(Progress([lower], [time + 1], counts))
        log.flush()
        return time + 1

    def start(self) -> tuple[Child, Path]:
        """``cdcv2 instance``, once it answers, and its place."""
        place = self.folder / f"{len(self.instances)}.sock"
        words = [word for table in TABLES for word in ("--index", f"{table}=id")]
        command = [sys.executable, "-m", "cdcv2", "instance", str(self.logs), *words, "--instance", str(place)]
        child = Child("instance", command, log=self.folder / "instance.log", env=_environment())
        self.instances.append(child)
        if not poll_until(lambda: place.exists() or not child.running, _PATIENCE, pause=0.005) or not child.running:
            raise ValueError(f"the instance does not answer: {child.log_tail()}")
        return child, place

    def serve(self) -> None:
        """The rows as they are at the end in a PostgreSQL, which has them in memory, at a socket."""
        # The socket is in the server's own folder, in which it runs.
        self.server = Postgres(settings={"shared_buffers": "1GB", "unix_socket_directories": "."}).__enter__()
        with self.server.connect(autocommit=True) as session:
            for table in TABLES:
                session.execute(_CREATE.format(table))
                with session.cursor().copy(f"COPY {table} FROM STDIN") as copying:
                    for number in range(self.rows):
                        copying.write_row(self.row(number, self.changes))
                session.execute(f"VACUUM (ANALYZE, FREEZE) {table}")

    def connect(self) -> Any:
        """A session by the socket."""
        if self.server is None:
            raise ValueError("there is no server: serve() was not called")
        return self.server.connect(host=str(self.server.folder / "data"), autocommit=True)

    def close(self) -> None:
        """Stop all, remove the folder."""
        for child in self.instances:
            child.stop()
        if self.server is not None:
            self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def resident(pid: int) -> int:
    """The bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far."""
    numbers = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, numbers[11:13])) / os.sysconf("SC_CLK_TCK")


def into_dicts(shop: IndexedShop) -> dict[str, float]:
    """Another process reads the logs into plain dicts: seconds, CPU seconds, and bytes that it takes."""
    command = [sys.executable, "-m", "benchmarks.indexed_shop", str(shop.logs)]
    child = Child("dicts", command, log=shop.folder / "dicts.log", env=_environment(), cwd=ROOT)
    if child.wait(_PATIENCE):
        raise ValueError(f"the logs were not read: {child.log_tail()}")
    found: dict[str, float] = json.loads(child.log_tail(1))
    return found


def _main(folder: str) -> None:
    before, begun = resident(os.getpid()), perf_counter()
    tables: dict[str, dict[int, Any]] = {}
    for cut in cdcv2.read(folder):
        for table, updates in cut.updates.items():
            held = tables.setdefault(table, {})
            for row, _, diff in updates:
                if diff > 0:
                    held[row.id] = row
                elif held.get(row.id) == row:
                    del held[row.id]
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "seconds": perf_counter() - begun, "cpu": used.ru_utime + used.ru_stime,
        "bytes": resident(os.getpid()) - before, "rows": sum(map(len, tables.values())),
    }))


if __name__ == "__main__":
    _main(sys.argv[1])
