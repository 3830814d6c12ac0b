"""What replay put into its tables, read as plain Parquet without replay's own code, and folded in order of time.

Money moves between the tables, so at each time the sum over both is the constant, while each table's own sum changes.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdcv2.demo.bank import Row, in_order

#: table -> the column that holds money
MONEY = {"public.accounts": 3, "public.branches": 2}


@dataclass
class TableChecks:
    """What folding the tables showed."""

    #: how many commit times there are; each is a frontier at which the sum was looked at
    times: int = 0
    #: the uppers that replay gave out
    uppers: list[int] = field(default_factory=list)
    #: the sums over all tables that were seen at some time; one, if nothing was torn
    totals: set[int] = field(default_factory=set)
    #: table -> the sums of its own that were seen
    sums: dict[str, set[int]] = field(default_factory=dict)
    #: the first few times at which a row was there less than zero times
    negative: list[str] = field(default_factory=list)
    #: identities that came twice: replay gave something out again
    repeated: int = 0
    #: table -> its rows in the end, sorted
    rows: dict[str, list[Row]] = field(default_factory=dict)


def manifests(output: Path) -> list[dict[str, Any]]:
    """The manifests of the output, oldest first."""
    return [json.loads(path.read_text("utf-8")) for path in sorted((output / "_manifests").glob("*.json"))]


def read(output: Path) -> TableChecks:
    """Fold everything that the output's manifests name, in order of time."""
    seen = TableChecks(uppers=uppers(output))
    named: dict[str, str] = {}
    for manifest in manifests(output):
        for table, files in manifest["files"].items():
            named.update((f"{table}/{name}.parquet", table) for name, *_ in files)
    changes: dict[int, list[tuple[str, Row, int]]] = {}
    identities: set[tuple[str, Row, int]] = set()
    for path, table in sorted(named.items()):
        for row, time, diff in _updates(output / path):
            seen.repeated += (table, row, time) in identities
            identities.add((table, row, time))
            changes.setdefault(time, []).append((table, row, diff))
    _fold(changes, seen)
    return seen


def _updates(path: Path) -> list[tuple[Row, int, int]]:
    import pyarrow.parquet as parquet

    columns = parquet.read_table(path).to_pydict()
    rows = [tuple(data.values()) for data in columns["data"]]
    return list(zip(rows, columns["time"], columns["diff"]))


def _fold(changes: dict[int, list[tuple[str, Row, int]]], seen: TableChecks) -> None:
    tables: dict[str, Counter[Row]] = {}
    sums = dict.fromkeys(MONEY, 0)
    for time in sorted(changes):
        for table, row, diff in changes[time]:
            tables.setdefault(table, Counter())[row] += diff
            if table in MONEY:
                sums[table] += diff * row[MONEY[table]]
        for table, row, _ in changes[time]:
            if tables[table][row] < 0 and len(seen.negative) < 5:
                seen.negative.append(f"{table} {row} at {time}")
        seen.times += 1
        seen.totals.add(sum(sums.values()))
        for table, total in sums.items():
            seen.sums.setdefault(table, set()).add(total)
    seen.rows = {table: in_order(rows.elements()) for table, rows in tables.items()}


def uppers(output: Path) -> list[int]:
    """The finished frontiers that replay has given out so far, one time each; none while there is no output."""
    given_out = [upper for manifest in manifests(output) for *_, upper in manifest["applied"]]
    return list(dict.fromkeys(time for upper in given_out for time in upper))
