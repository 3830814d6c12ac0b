"""The recorded change data and the truth about it, in the forms in which tests compare them.

A table's content is a multiset of rows, each a tuple of the texts that PostgreSQL's COPY wrote; a captured row is
turned into that form, never the other way round.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from cdcv2.capture.facts import End, Fact, Record, SnapshotRow
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.dump_files import DumpedTopics
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message
from cdcv2.rows.row_type import RowType

HOME = Path(__file__).parent / "data" / "debezium"
TABLES = {path.stem: RowType.load(path) for path in sorted((HOME / "rows").glob("*.avsc"))}
CHECKPOINTS = [
    "00_before_snapshot", "01_live", "01_quiesced", "02_live", "02_quiesced",
    "03_live", "03_quiesced", "04_live", "04_quiesced",
]
EPOCH = datetime(1970, 1, 1)


def recipe(run: str, **more: Any) -> Recipe:
    """The capture of a recorded run."""
    return Recipe(run, TABLES, **more)


@cache
def dump(run: str, name: str = "topics") -> DumpedTopics:
    """The records of a run."""
    return DumpedTopics(HOME / run / f"{name}.jsonl.gz")


@cache
def facts(run: str, before: str = "from-envelope") -> dict[tuple[str, int], list[tuple[Record, Fact]]]:
    """Each partition's records with their facts, so that many tests need not parse them again."""
    how = recipe(run, before=before)
    return {
        place: [(record, how.fact(record)) for record in records]
        for place, records in dump(run).partitions().items()
    }


@cache
def ends(run: str) -> dict[int, int]:
    """LSN of each END -> its transaction."""
    said = (fact for entries in facts(run).values() for _, fact in entries)
    return {fact.lsn: fact.tx for fact in said if isinstance(fact, End)}


@cache
def checkpoint_time(run: str, tag: str) -> int:
    """The time at which the logs must equal the truth of a checkpoint."""
    meta = json.loads((HOME / run / "truth" / tag / "_meta.json").read_text())
    if tag == "00_before_snapshot":
        said = (fact for entries in facts(run).values() for _, fact in entries)
        return next(fact.lsn for fact in said if isinstance(fact, SnapshotRow))
    if not meta["live"]:
        return int(meta["lsn_int"])
    _, xmax, xip = meta["pg_snapshot"].split(":")
    under_way = {int(xid) for xid in xip.split(",") if xid}
    return max(lsn for lsn, tx in ends(run).items() if tx < int(xmax) and tx not in under_way)


@cache
def truth(run: str, tag: str, table: str) -> Counter[tuple[str, ...]]:
    """The true content of a table at a checkpoint."""
    name = table.removeprefix("public.")
    raw = gzip.decompress((HOME / run / "truth" / tag / f"{name}.csv.gz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(raw, newline="")))
    assert tuple(rows[0]) == TABLES[table].columns
    return Counter(tuple(row) for row in rows[1:])


def content(messages: Iterable[Message], table: str, *times: int) -> list[Counter[tuple[str, ...]]]:
    """The content of a table at each of the times (rising), as a reader of its log has it."""
    contents: list[Counter[tuple[str, ...]]] = []
    rows: Counter[Any] = Counter()
    updates: list[tuple[Any, Any, int]] = [update for batch in Iter(messages) for update in batch.updates]
    updates.sort(key=lambda update: update[1])
    position = 0
    for wanted in times:
        while position < len(updates) and updates[position][1] <= wanted:
            row, _, diff = updates[position]
            rows[row] += diff
            position += 1
        assert all(number >= 0 for number in rows.values()), f"negative rows in {table} at {wanted}"
        contents.append(Counter({as_copied(table, row): number for row, number in rows.items() if number}))
    return contents


def as_copied(table: str, row: Any) -> tuple[str, ...]:
    """A row as PostgreSQL's COPY writes it in CSV, without the quotes."""
    return tuple(_text(table, name, value) for name, value in zip(TABLES[table].columns, row))


def _text(table: str, name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if (table, name) == ("public.pgbench_history", "mtime"):
        return _moment(EPOCH + timedelta(microseconds=value))
    if name == "paid_on":
        return str(date(1970, 1, 1) + timedelta(days=value))
    if name == "placed":
        return _moment(datetime.fromisoformat(value).astimezone(timezone.utc).replace(tzinfo=None)) + "+00"
    return str(value)


def _moment(moment: datetime) -> str:
    text = moment.isoformat(" ")
    return text.rstrip("0") if "." in text else text
