"""A connector that keeps views in a SQLite database, exactly once: the smallest honest one where the store rules.

It needs nothing but Python, and knows nothing of cdcv2: it speaks newline JSON on its standard streams, one message a
line (docs/third-party-connectors.md). Try it as a driver::

    target: {driver: process, command: [python3, sqlite_connector.py], config: {path: shop.db}}
    recovery_log: shop-recovery

Rows, checkpoint and fence are in one transaction. Whoever opens raises the fence; whoever commits with an older one is
ended. Each table has a column per field, and ``flow_document``, the whole row as JSON.

Some of those who speak to it leave out what is zero, empty or false, and give keys and values in packed form alone.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import struct
import sys
from typing import Any

WHOLE = {"keyBegin": 0, "keyEnd": 2**32 - 1}


def say(kind: str, **said: Any) -> None:
    """One message, at once."""
    print(json.dumps({kind: said}), flush=True)


def name(text: str) -> str:
    """A name as SQL has it."""
    return '"' + text.replace('"', '""') + '"'


def plain(value: Any) -> Any:
    """A value as SQLite keeps it."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def unpacked(text: str) -> list[Any]:
    """The values of a packed tuple, which is in base64: null, booleans, numbers, text, and JSON."""
    data, at, found = base64.b64decode(text), 0, list[Any]()
    while at < len(data):
        kind, at = data[at], at + 1
        if kind in (0x01, 0x02):
            raw = bytearray()
            while data[at] or data[at + 1: at + 2] == b"\xff":
                raw.append(data[at])
                at += 1 if data[at] else 2
            at += 1
            found.append(raw.decode() if kind == 0x02 else json.loads(raw))
        elif 0x0C <= kind <= 0x1C:
            size, less = abs(kind - 0x14), (1 << 8 * max(0, 0x14 - kind)) - 1
            found.append(int.from_bytes(data[at: at + size], "big") - less)
            at += size
        elif kind == 0x21:
            bits = data[at: at + 8]
            flip = bytes([bits[0] ^ 0x80]) + bits[1:] if bits[0] >= 0x80 else bytes(byte ^ 0xFF for byte in bits)
            found.append(struct.unpack(">d", flip)[0])
            at += 8
        else:
            found.append({0x00: None, 0x26: False, 0x27: True}[kind])
    return found


def whole(said: dict[str, Any]) -> dict[str, Any]:
    """A Load or Store with all that may be left out of it."""
    given = {what: unpacked(said.get(f"{what}Packed", "")) for what in ("key", "values") if what not in said}
    return {"binding": 0, **said, **given}


class Table:
    """What one binding is kept in."""

    def __init__(self, binding: dict[str, Any]) -> None:
        selected = {"values": [], **binding["fieldSelection"]}
        self.name, self.keys = name(binding["resourcePath"][0]), [name(one) for one in selected["keys"]]
        self.columns = [*self.keys, *(name(one) for one in selected["values"]), name(selected["document"])]
        self.where = " AND ".join(f"{one} = ?" for one in self.keys)

    def make(self, database: sqlite3.Connection) -> None:
        """Make it, unless it is there."""
        columns = ", ".join([*self.columns, f"PRIMARY KEY ({', '.join(self.keys)})"])
        database.execute(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns})")

    def put(self, database: sqlite3.Connection, store: dict[str, Any]) -> None:
        """Make it what a Store says."""
        if store.get("delete"):
            database.execute(f"DELETE FROM {self.name} WHERE {self.where}", [plain(one) for one in store["key"]])
            return
        row = [*map(plain, store["key"]), *map(plain, store["values"]), json.dumps(store["doc"])]
        database.execute(f"INSERT OR REPLACE INTO {self.name} VALUES ({', '.join('?' * len(row))})", row)


class Session:
    """From Open to the end of the input."""

    def __init__(self, opening: dict[str, Any]) -> None:
        made = opening["materialization"]
        if {name: opening["range"].get(name, 0) for name in WHOLE} != WHOLE:
            sys.exit("this connector keeps all keys or none: open the whole range")
        self.name, self.tables = made["name"], [Table(binding) for binding in made["bindings"]]
        self.database = connect(made["config"])
        self.loads: list[dict[str, Any]] = []
        self.stores: list[dict[str, Any]] = []
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            self.database.execute("INSERT OR IGNORE INTO checkpoints VALUES (?, 0, '{}')", [self.name])
            self.database.execute("UPDATE checkpoints SET fence = fence + 1 WHERE name = ?", [self.name])
            self.fence, checkpoint = self.database.execute(
                "SELECT fence, checkpoint FROM checkpoints WHERE name = ?", [self.name]
            ).fetchone()
        # An empty one: begin at the beginning.
        say("opened", runtimeCheckpoint=json.loads(checkpoint))

    def demand_fence(self) -> None:
        """End here when another instance has opened since."""
        found = self.database.execute("SELECT fence FROM checkpoints WHERE name = ?", [self.name]).fetchone()
        if found != (self.fence,):
            sys.exit("this instance was fenced off by another")

    def flush(self) -> None:
        """Answer all loads. What was read counts only if nobody has taken over until then."""
        for load in self.loads:
            table = self.tables[load["binding"]]
            found = self.database.execute(
                f"SELECT {table.columns[-1]} FROM {table.name} WHERE {table.where}", [plain(one) for one in load["key"]]
            ).fetchone()
            if found is not None:
                say("loaded", binding=load["binding"], doc=json.loads(found[0]))
        self.demand_fence()
        self.loads = []
        say("flushed")

    def commit(self, checkpoint: dict[str, Any]) -> None:
        """Rows and checkpoint, or neither."""
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            self.demand_fence()
            for store in self.stores:
                self.tables[store["binding"]].put(self.database, store)
            self.database.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE name = ?", [json.dumps(checkpoint), self.name]
            )
        self.stores = []
        say("startedCommit")

    def hear(self, kind: str, said: dict[str, Any]) -> None:
        """One message."""
        if kind == "load":
            self.loads.append(whole(said))
        elif kind == "store":
            self.stores.append(whole(said))
        elif kind == "flush":
            self.flush()
        elif kind == "startCommit":
            self.commit(said.get("runtimeCheckpoint", {}))
        elif kind == "acknowledge":
            say("acknowledged")


def connect(config: dict[str, Any]) -> sqlite3.Connection:
    """The database, with the table of checkpoints."""
    database = sqlite3.connect(config["path"], timeout=30, isolation_level=None)
    if config.get("durable", True) is not True:
        # For a database that may be lost when the machine stops.
        database.execute("PRAGMA synchronous = off")
    database.execute(
        "CREATE TABLE IF NOT EXISTS checkpoints (name TEXT PRIMARY KEY, fence INTEGER, checkpoint TEXT)"
    )
    return database


def validated(binding: dict[str, Any]) -> dict[str, Any]:
    """Every field is taken, and the whole row is needed."""
    fields = [projection["field"] for projection in binding["collection"]["projections"]]
    taken = {"type": "FIELD_OPTIONAL", "reason": "SQLite keeps everything"}
    needed = {"type": "LOCATION_REQUIRED", "reason": "the whole row is what Load answers"}
    return {
        "resourcePath": [binding["resourceConfig"]["table"]],
        "constraints": {one: needed if one == "flow_document" else taken for one in fields},
    }


def apply(said: dict[str, Any]) -> None:
    """Make the tables that are missing."""
    with connect(said["materialization"]["config"]) as database:
        for binding in said["materialization"]["bindings"]:
            Table(binding).make(database)
    say("applied", actionDescription="the tables are there")


def main() -> None:
    """Until the input ends. What was not committed by then is not."""
    session: Session | None = None
    table = {"type": "string", "x-collection-name": True}
    for line in sys.stdin:
        [(kind, said)] = json.loads(line).items()
        if kind == "spec":
            settings = {"path": {"type": "string"}, "durable": {"type": "boolean"}}
            say("spec", protocol=3032023, documentationUrl="https://docs.python.org/3/library/sqlite3.html",
                configSchema={"type": "object", "properties": settings},
                resourceConfigSchema={"type": "object", "properties": {"table": table}})  # fmt: skip
        elif kind == "validate":
            say("validated", bindings=[validated(binding) for binding in said["bindings"]])
        elif kind == "apply":
            apply(said)
        elif kind == "open":
            session = Session(said)
        elif session is not None:
            session.hear(kind, said)


if __name__ == "__main__":
    main()
