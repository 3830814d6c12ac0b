"""What the questions about materialization share: changes of orders, as cuts, as logs, and as rows for other ways."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize import Checkpoint, ViewBinding
from cdcv2.protocol.timeline import Cut
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres

ORDERS = RowType({
    "type": "record", "name": "orders",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "customer", "type": "int"}, {"name": "total", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
})  # fmt: skip
BINDING = ViewBinding("orders", ORDERS, "orders", ("id",))
PLAN = """
materialization: shop
logs: logs
bindings: [{log: orders, target: orders, key: [id]}]
rows: 1
"""


@dataclass
class Shop:
    """Transactions of changed orders: three of five are new, the others change one that is there.

    ``rows``: per transaction, the rows as they are then; ``cuts``: the same as updates.
    """

    rows: list[list[tuple[Any, ...]]]
    cuts: list[Cut]
    folder: Path
    server: Postgres | None = None
    held: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, seed: int, changes: int, per_transaction: int) -> Shop:
        """So many changes, so many in a transaction."""
        random, held = Random(seed), dict[int, Any]()
        shop = cls([], [], Path(tempfile.mkdtemp(prefix="cdcv2-bench-")), held=held)
        for time, first in enumerate(range(0, changes, per_transaction)):
            changed: dict[int, Any] = {}
            updates: list[Any] = []
            known = len(held)
            for _ in range(min(per_transaction, changes - first)):
                fresh = not known or random.random() < 0.6
                number = len(held) if fresh else random.randrange(known)
                while number in changed:
                    # No order twice in a transaction: that would be less work for some than for others.
                    number = len(held)
                note = f"note {random.randrange(10**6)}" if random.random() < 0.5 else None
                row = ORDERS.row((number, random.randrange(10**4), random.randrange(10**6), note))
                if number in held:
                    updates.append((held[number], time, -1))
                updates.append((row, time, 1))
                held[number] = changed[number] = row
            shop.rows.append([tuple(row) for row in changed.values()])
            shop.cuts.append(Cut({"orders": updates}, Antichain([time]), Antichain([time + 1])))
        return shop

    def source(self, checkpoint: Checkpoint) -> Iterator[Cut]:
        """As a runtime is fed."""
        return iter(self.cuts)

    def serve(self) -> Shop:
        """Start a PostgreSQL, with a disk that is waited for, as everybody's is."""
        self.server = Postgres(settings={"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}).__enter__()
        return self

    def connect(self) -> Any:
        """A session."""
        if self.server is None:
            raise ValueError("there is no server: serve() was not called")
        return self.server.connect()

    def clean(self) -> None:
        """No table, no checkpoint."""
        with self.connect() as session:
            session.execute("DROP TABLE IF EXISTS orders, cdcv2_checkpoints, plain")

    def server_cpu(self) -> float:
        """CPU seconds of the server so far: its own, and those of its sessions, ended ones too."""
        before, now = -1, self._ticks()
        # A session that ends while one looks is in neither number, or in both: until two looks agree.
        while before != now:
            sleep(0.05)
            before, now = now, self._ticks()
        return now / os.sysconf("SC_CLK_TCK")

    def _ticks(self) -> int:
        if self.server is None or self.server.pid is None:
            return 0
        ticks = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                numbers = place.read_text("utf-8").rpartition(")")[2].split()
            except OSError:  # it has ended since
                continue
            if self.server.pid in (int(place.parent.name), int(numbers[1])):
                ticks += sum(map(int, numbers[11:15]))
        return ticks

    def write(self) -> None:
        """The same as a log in a directory, and a file for the command."""
        with Writer(DirectoryLog(self.folder / "logs" / "orders", ORDERS, create=True)) as writer:
            for cut in self.cuts:
                writer.extend(cut.updates["orders"])
                writer.advance(cut.upper)
            writer.finish()

    def check(self, rows: list[tuple[Any, ...]]) -> None:
        """Raise ValueError unless these are the orders at the end."""
        if sorted(rows) != sorted(tuple(row) for row in self.held.values()):
            raise ValueError(f"{len(rows)} rows are there, and they are not the {len(self.held)} that should be")

    def close(self) -> None:
        """Stop the server, remove the folder."""
        if self.server is not None:
            self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)
