"""Prove that a target has everything that its logs say, and nothing else.

Takes the YAML file of cdcv2 materialize. The target is read in one snapshot, together with its checkpoint; the logs are
read up to just there, and what each view comes to is worked out anew, from nothing, and compared: by a fingerprint of
all rows, in any order, and then by the rows that differ.

Exit code 0: they are equal. 1: the logs are not complete up to where the target is, or the target has not come to --at.
3: they differ, and where. Targets: postgres, lake and delta. What was deleted softly counts as gone. Memory: the view.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from cdcv2.commands.console import Output
from cdcv2.commands.logs import entries, parse_time
from cdcv2.commands.materialization_file import Plan, Shown, read_plan
from cdcv2.commands.shown import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.exits import Exit
from cdcv2.materialize.combine import COUNT, DELETED, Binding, Combined
from cdcv2.materialize.deltas import plain_value
from cdcv2.materialize.messages import Field, Key, Table, Values
from cdcv2.materialize.reductions import EXACT
from cdcv2.protocol.timeline import Timeline
from cdcv2.wire.jsonlines import plain_frontier

EXAMPLES = (
    ("cdcv2 compare shop-lake.yaml", "all that the target has"),
    ("cdcv2 compare shop-kafka.yaml --at 101936016", "demand that it has come just there"),
    ("cdcv2 compare shop-lake.yaml --json", "the same for a program"),
)

#: How many differing rows of one table are named.
MOST_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE.yaml", help="the file of cdcv2 materialize")
    parser.add_argument("--at", metavar="TIME", help="demand that the target has all up to there, and no more")
    parser.add_argument("--json", action="store_true", help="what came of it as one JSON object")


@dataclass
class Found:
    """One table: how many rows each side has, their fingerprints, and the first rows that differ."""

    table: Table
    rows: list[int] = field(default_factory=lambda: [0, 0])
    prints: list[int] = field(default_factory=lambda: [0, 0])
    #: (key, by the logs, in the target); None: not there
    differing: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    number: int = 0

    def count(self, side: int, key: str, values: str) -> None:
        """A row of a side: 0 is the logs', 1 the target's."""
        self.rows[side] += 1
        raw = hashlib.sha256(f"{key}\n{values}".encode("utf-8", "surrogatepass")).digest()
        # A sum: the order of rows means nothing, and how often one is there does.
        self.prints[side] = (self.prints[side] + int.from_bytes(raw, "big")) % 2**256

    def differ(self, key: str, by_logs: str | None, in_target: str | None) -> None:
        """A row that is not the same."""
        self.number += 1
        if len(self.differing) < MOST_SHOWN:
            self.differing.append((key, by_logs, in_target))

    @property
    def fingerprint(self) -> list[str]:
        """Both, as people compare them."""
        return [f"{one:064x}"[:16] for one in self.prints]


def run(args: argparse.Namespace) -> Exit:
    """Compare all tables of the file."""
    at = parse_time(args.at) if args.at is not None else None
    plan = read_plan(args.file)
    view = plan.view()
    try:
        frontier = view.frontier
        _demand(frontier, at)
        expected = _expected(plan, frontier)
        found = [_compared(binding, rows, view) for binding, rows in zip(plan.bindings, expected)]
    finally:
        view.close()
    wrong = any(one.number for one in found)
    with Output(None) as output:
        for line in (_plain if args.json else _text)(plan, found, frontier, wrong):
            output.line(line)
    return Exit.WRONG if wrong else Exit.DONE


def _demand(frontier: Antichain, at: Time | None) -> None:
    if at is None:
        return
    if frontier.less_equal(at):
        raise IncompleteError(f"the target is {through_text(frontier)}, and {at} is asked for: let it go on")
    if not frontier or any(type(one) is int and type(at) is int and one > at + 1 for one in frontier):
        raise UsageError(f"--at {at}: the target is {through_text(frontier)}, and shows no past; leave --at out")


def _expected(plan: Plan, frontier: Antichain) -> list[dict[Key, Values]]:
    """What each view comes to at the frontier, as one transaction from nothing would store it."""
    views = [binding.view() for binding in plan.bindings]
    combined = Combined(views)
    timeline = Timeline(dict.fromkeys(named.table for named in plan.logs), start=[plan.start])
    for named, entry in entries(plan.logs, "comparing"):
        cut = timeline.absorb(named.table, entry)
        for number, binding in enumerate(plan.bindings if cut is not None else []):
            updates = cut.updates.get(binding.log, []) if cut is not None else []
            wanted = [(views[number].key_of(one[0]), one) for one in updates if not frontier.less_equal(one[1])]
            for _ in combined.add(number, wanted):
                continue
        if timeline.frontier.dominates(frontier):
            break
    if not timeline.frontier.dominates(frontier):
        lacks = "; ".join(f"{table}: {missing}" for table, missing in timeline.missing().items())
        raise IncompleteError(
            f"the target is {through_text(frontier)}, and its logs {through_text(timeline.frontier)}"
            f"{f' ({lacks})' if lacks else ''}: these are not the logs that it was made of, or they lost something"
        )
    rows: list[dict[Key, Values]] = [{} for _ in views]
    for store in combined.stores():
        rows[store.binding][store.key] = store.values
    return rows


def _compared(binding: Binding, rows: dict[Key, Values], view: Shown) -> Found:
    table = binding.view().table
    found, by_logs = Found(table), dict(_texts(table, rows.items()))
    for key, values in by_logs.items():
        found.count(0, key, values)
    for key, values in _texts(table, _current(binding, table, view.rows(table.name))):
        found.count(1, key, values)
        said = by_logs.pop(key, None)
        if said != values:
            found.differ(key, said, values)
    for key, values in by_logs.items():
        found.differ(key, values, None)
    return found


def _current(binding: Binding, table: Table, rows: Iterable[tuple[Key, Values]]) -> Iterator[tuple[Key, Values]]:
    """Without what was deleted softly."""
    names = [one.name for one in table.values]
    mark = names.index(DELETED) if DELETED in names else None
    count = names.index(COUNT) if not binding.key else None
    for key, values in rows:
        if not (mark is not None and values[mark]) and not (count is not None and not values[count]):
            yield key, values


def _texts(table: Table, rows: Iterable[tuple[Key, Values]]) -> Iterator[tuple[str, str]]:
    for key, values in rows:
        yield _text_of(table.key, key), _text_of(table.values, values)


def _text_of(fields: tuple[Field, ...], values: tuple[Any, ...]) -> str:
    plain = {one.name: _settled(one, value) for one, value in zip(fields, values)}
    return json.dumps(plain, ensure_ascii=False)


def _settled(column: Field, value: Any) -> Any:
    """A value in the one form that it has whichever system it was in."""
    if column.kind == "json" and value is not None:
        return json.loads(value, parse_int=_number, parse_float=_number)
    if column.kind == "decimal" and value is not None:
        return _number(str(value))
    if column.kind == "float" and value is not None:
        # What single precision holds has more than one spelling as a double.
        value = struct.unpack("f", struct.pack("f", value))[0]
    return plain_value(column, value)


def _number(digits: str) -> str:
    return format(Decimal(digits).normalize(EXACT), "f")


def _text(plan: Plan, found: list[Found], frontier: Antichain, wrong: bool) -> Iterator[str]:
    for one in found:
        (ours, theirs), (here, there) = one.rows, one.fingerprint
        if not one.number:
            yield f"{one.table.name}: {theirs} rows, fingerprint {there}"
            continue
        sides = f"the logs say {ours} ({here}), the target has {theirs} ({there})"
        yield f"{one.table.name}: {one.number} rows differ; {sides}"
        for key, by_logs, in_target in one.differing:
            yield f"  {key}: the logs say {by_logs or 'nothing'}, the target has {in_target or 'nothing'}"
        if one.number > len(one.differing):
            yield f"  and {one.number - len(one.differing)} more"
    yield f"{'different' if wrong else 'equal'}: {plan.name}, {through_text(frontier)}"


def _plain(plan: Plan, found: list[Found], frontier: Antichain, wrong: bool) -> Iterator[str]:
    yield json.dumps({
        "materialization": plan.name, "frontier": plain_frontier(frontier), "equal": not wrong,
        "tables": {
            one.table.name: {
                "rows": dict(zip(("logs", "target"), one.rows)),
                "fingerprint": dict(zip(("logs", "target"), one.fingerprint)),
                "differing": one.number,
                "first": [dict(zip(("key", "logs", "target"), row)) for row in one.differing],
            }
            for one in found
        },
    })  # fmt: skip
