"""Changes as columns against Loads and Stores: random histories into PostgreSQL both ways, each with a lie at most."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from cdcv2.core import Antichain
from cdcv2.errors import Cdcv2Error
from cdcv2.materialize import Checkpoint, Runtime, ViewBinding
from cdcv2.materialize.protocol.messages import Open, Opened
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests.every_type import COLUMNS

Connect = Callable[[], Any]
#: name in tests/every_type -> Avro type, and the type in the source; the others have no source type
TYPED: dict[str, tuple[Any, dict[str, Any]]] = {
    "price": ("string", {"type": "numeric", "precision": 12, "scale": 2}), "any": ("string", {"type": "numeric"}),
    "doc": ("string", {"type": "json"}), "docb": ("string", {"type": "jsonb"}), "name": ("string", {"type": "uuid"}),
    "fixed": ("string", {"type": "bpchar", "length": 5}), "host": ("string", {"type": "inet"}),
    "bit9": ("bytes", {"type": "bit", "length": 9}), "day": ("int", {"type": "date"}),
    "clock": ("long", {"type": "time"}), "raw": ("bytes", {"type": "bytea"}), "f8": ("double", {"type": "float8"}),
    "numbers": ("string", {"type": "numrange"}), "found": ("string", {"type": "tsvector"}),
}  # fmt: skip
PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "yes": ("boolean", [True, False]), "long": ("long", [-(2**63), 2**63 - 1, 0]),
    "single": ("float", [1.1, -0.0, 0.0]), "bytes": ("bytes", [b"", bytes(range(256))]),
    "double": ("double", [float("nan"), 5e-324, -0.0, 0.0, float("-inf")]),
    "text": ("string", ["", "a\"b,\n\\.", "ä", "A"]),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["A", "B"]),
    "number": ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, [b"\x04\xd2", b"\xff" * 8]),
    "list": ({"type": "array", "items": ["null", "double"]}, [[], [None, float("nan"), 1e300]]),
    "map": ({"type": "map", "values": "long"}, [{}, {"b": 2**60, "a": 1}]),
}  # fmt: skip
#: Types of keys: text, numbers, decimals, and the source's own.
KEYS: list[tuple[Any, dict[str, Any] | None, list[Any]]] = [
    ("string", None, ["", "a", "B", "ä"]), ("long", None, [-(2**63), 0, 1, 2**63 - 1]),
    ("string", {"type": "numeric"}, ["1.50", "2.500", "NAN", "0"]),
    ("string", {"type": "uuid"}, ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, None, [b"\x04\xd2", b"\x00", b"\xff"]),
    ("bytes", None, [b"", b"\x00\xff"]),
    ("string", {"type": "timestamptz"}, ["2024-02-29T10:34:56.123456Z", "+12024-02-29T10:34:56Z", "infinity"]),
    ("long", {"type": "timestamp"}, [1709210096123456, 0]),
    ("string", {"type": "timetz"}, ["10:00:00.5Z", "23:59:59Z"]),
    ("bytes", {"type": "bit", "length": 9}, [b"\x03\x01", b"\x00\x00"]),
]  # fmt: skip


#: type of the key in PostgreSQL -> one of the keys
VALUES = {"text": "'a'", "bigint": "0", "numeric": "'NaN'", "bytea": "''", "numeric(5,2)": "12.34",
          "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "bit(9)": "'100000011'",
          "timestamp with time zone": "'2024-02-29 10:34:56.123456Z'", "time with time zone": "'10:00:00.5Z'",
          "timestamp without time zone": "'2024-02-29 12:34:56.123456'"}  # fmt: skip


class RowByRow(PostgresDriver):
    """The same driver, which takes no Changes."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


class History:
    """Rows of a few columns that come and go by cuts; ``lie``: an update that contradicts the others, or an edit."""

    LIES: ClassVar[list[str]] = ["", "", "edit", "delete", "insert", "twice", "negative", "other", "many", "null"]

    def __init__(self, seed: int) -> None:
        draw = self._draw = random.Random(seed)
        avro, source, self._keys = draw.choice(KEYS)
        fields: list[dict[str, Any]] = [{"name": "id", "type": avro, **({"cdcv2.source": source} if source else {})}]
        self._values: list[list[Any]] = []
        for name in draw.sample([*TYPED, *PLAIN], draw.randint(0, 4)):
            if name in TYPED:
                kind, typed = TYPED[name]
                fields.append({"name": name, "type": ["null", kind], "cdcv2.source": typed})
                self._values.append([None, *(value for _, value in COLUMNS[name].values)])
            else:
                kind, values = PLAIN[name]
                fields.append({"name": name, "type": ["null", kind]})
                self._values.append([None, *values])
        self.row_type = RowType({"type": "record", "name": "t", "fields": fields})
        self.binding = ViewBinding(
            "rows", self.row_type, "rows", self._key(), deletes=draw.choice(["hard", "hard", "soft"])
        )
        self.cuts = self._cuts(draw.randint(2, 5))
        self.lie = draw.choice(self.LIES)
        #: the cut in front of which somebody edits the table, and how
        self.edited, self.edit = draw.randint(1, len(self.cuts)), self._told_lie()

    def _key(self) -> tuple[str, ...]:
        return ("id",)

    def _row(self, key: Any) -> Any:
        return self.row_type.row([key, *(self._draw.choice(values) for values in self._values)])

    def _cuts(self, count: int) -> list[list[tuple[Any, int, int]]]:
        draw, held, key_of = self._draw, dict[Any, Any](), self.binding.view().key_of
        found: list[list[tuple[Any, int, int]]] = []
        for time in range(count):
            updates: list[tuple[Any, int, int]] = []
            for key in self._keys:
                place = key_of(self._row(key))
                for _ in range(draw.choice([0, 1, 1, 2])):
                    made = self._row(key)
                    if place in held:
                        updates.append((held.pop(place), time, -1))
                    if draw.random() < 0.7:
                        held[place] = made
                        updates.append((made, time, 1))
            draw.shuffle(updates)
            found.append(updates)
        return found

    def _told_lie(self) -> str:
        """Put the lie into a cut, or return the SQL that is run by hand."""
        draw, at = self._draw, self._draw.randrange(len(self.cuts))
        row = self._row(draw.choice(self._keys))
        several = {"twice": [1, 1], "negative": [-1], "other": [1], "many": [2], "null": []}
        for number, diff in enumerate(several.get(self.lie, [])):
            one = row if not number else self._row(row.id)
            self.cuts[at].append((one, at, diff))
        others = [name for name in self.row_type.columns if name != "id"]
        column = f'"{draw.choice(others)}"' if others else ""
        if self.lie == "edit" and column:
            return f"UPDATE rows SET {column} = NULL WHERE id = (SELECT id FROM rows ORDER BY id LIMIT 1)"
        if self.lie == "delete":
            return "DELETE FROM rows WHERE id = (SELECT max(id::text) FROM rows)::text::{key}"
        if self.lie == "insert":
            return "INSERT INTO rows (id) VALUES ({value}) ON CONFLICT DO NOTHING"
        return ""

    def source(self, checkpoint: Checkpoint) -> Iterator[Cut]:
        """All cuts."""
        for time, updates in enumerate(self.cuts):
            yield Cut({"rows": updates}, Antichain([time]), Antichain([time + 1]))

    def carried(self, connect: Connect, driver: type[PostgresDriver]) -> tuple[str, list[Any]]:
        """How it ends, and what the table has then."""
        ended = "done"
        try:
            walk = Runtime("m", [self.binding], driver(connect=connect), self.source, rows=1)
            done = False
            for step in walk.steps():
                if walk.transactions == self.edited and not done and getattr(step, "__name__", "") == "Flush":
                    self._edit(connect)
                    done = True
        except Cdcv2Error as cause:
            ended = f"{type(cause).__name__}: {cause}"
        finally:
            walk.close()
        with connect() as session:
            there = session.execute("SELECT rows::text FROM rows ORDER BY 1").fetchall()
        return ended, there

    def _edit(self, connect: Connect) -> None:
        if not self.edit:
            return
        with connect() as session:
            (kind,) = session.execute(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = 'rows'::regclass AND attname = 'id'"
            ).fetchone()
            text = self.edit.replace("{key}", kind).replace("{value}", VALUES[kind])
            if self.binding.marked and "INSERT" in text:
                text = text.replace("(id)", "(id, cdcv2_deleted)").replace(") ON", ", false) ON")
            session.execute(text.encode())


class MultisetHistory(History):
    """The same without a key: rows that come several times, and go; one may go more often than it is there."""

    LIES: ClassVar[list[str]] = ["", "", "never", "too often", "two", "count", "delete"]

    def _key(self) -> tuple[str, ...]:
        return ()

    def _cuts(self, count: int) -> list[list[tuple[Any, int, int]]]:
        draw, held = self._draw, Counter[Any]()
        found: list[list[tuple[Any, int, int]]] = []
        for time in range(count):
            updates: list[tuple[Any, int, int]] = []
            for _ in range(draw.randint(0, 9)):
                known = held and draw.random() < 0.6
                row = draw.choice([*held]) if known else self._row(draw.choice(self._keys))
                diff = draw.choice([one for one in (-3, -2, -1, -1, 1, 1, 2, 2**40) if held[row] + one >= 0])
                held[row] += diff
                updates.append((row, time, diff))
            draw.shuffle(updates)
            found.append(updates)
        return found

    def _told_lie(self) -> str:
        draw, at = self._draw, self._draw.randrange(len(self.cuts))
        rows = [row for row, _, _ in self.cuts[at]]
        new = [self._row(draw.choice(self._keys)) for _ in range(2)]
        lies = {"never": new[:1], "too often": rows[:1], "two": [*rows[1:2], *new]}
        self.cuts[at] += [(row, at, draw.choice([-1, -(2**50)])) for row in lies.get(self.lie, [])]
        one = "WHERE cdcv2_row = (SELECT min(cdcv2_row) FROM rows)"
        edits = {"count": f"UPDATE rows SET cdcv2_count = cdcv2_count - 1 {one}", "delete": f"DELETE FROM rows {one}"}
        return edits.get(self.lie, "")
