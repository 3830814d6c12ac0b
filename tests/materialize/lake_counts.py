"""A multiset in a lake as changes of counts, against a Load and a Store a row: random histories, files in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.errors import Cdcv2Error, MalformedError, ViewError
from cdcv2.materialize.protocol.messages import Changes, ConflictError, Table
from cdcv2.materialize.targets.lake import counts
from cdcv2.materialize.targets.lake.files import DIFF, GONE, StagedFile, current, rows_of
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.views.binding import View, ViewBinding
from cdcv2.views.combined_updates import CombinedUpdates
from tests.materialize.row_by_row import History


class Held(StagedFile):
    """A new file of a table, in memory."""

    def __init__(self, table: Table) -> None:
        super().__init__(LakeFolder(Path("/nowhere")), table)
        self.rows: list[Any] = []

    def add_table(self, rows: Any) -> None:
        """Keep it."""
        self.rows.append(rows)

    def taken(self) -> list[Any]:
        """What was added."""
        self._write()
        return self.rows


def ends(seed: int, runs: int) -> Iterator[str]:
    """How a history ends as columns, so many times: the error. AssertionError unless it ends so row by row, too."""
    draw, history = random.Random(seed), History(seed)
    for _ in range(runs):
        yield end(history, draw)


def end(history: History, draw: random.Random) -> str:
    """How it ends; soft or hard, with some cuts doubled."""
    binding = ViewBinding("rows", history.row_type, "rows", deletes=draw.choice(["hard", "soft"]))
    view, first, cuts = binding.view(), dict[str, Any](), list[list[Any]]()
    for updates in history.cuts:
        # Of rows that are one in the table, the first: by their digests they would be two.
        kept = [(first.setdefault(repr(view.place(row)), row), time, diff) for row, time, diff in updates]
        cuts.append(kept * draw.choice([1, 1, 2]))
    (may_end, expected), (ended, found) = by_rows(view, cuts), by_columns(view, cuts, draw)
    assert ended in may_end, f"{ended}, and not {may_end}"
    assert expected == found
    return ended.partition(":")[0]


def by_rows(view: View, cuts: list[list[Any]]) -> tuple[set[str], list[str]]:
    """As an earlier release did: the file that comes last has the count. How it may end: at any row that is wrong."""
    table, parts, ended = replace(view.table, multiset=False), list[Any](), {"done"}
    for updates in cuts:
        there, sums, staged, wrong = rows(table, parts), dict[Any, Any](), Held(table), set[str]()
        for row, time, diff in updates:
            key = view.key_of(row)
            sums[key] = view.add(sums.get(key, view.begin()), row, time, diff)
        for key, held in sums.items():
            try:
                store = view.after(key, held, there.get(key))
            except ViewError as cause:
                wrong.add(in_words(cause))
                continue
            if store is not None:
                staged.add(store)
        try:
            parts += [] if wrong else staged.taken()
        except MalformedError as cause:
            wrong.add(in_words(cause))
        if wrong:
            ended = wrong
            break
    return ended, sorted(map(repr, rows(table, parts).values()))


def in_words(cause: Cdcv2Error) -> str:
    """An error; of a value that no file can hold, only in which column it is, as there may be several."""
    text = f"{type(cause).__name__}: {cause}"
    return text.partition(", the ")[0] if isinstance(cause, MalformedError) else text


def rows(table: Table, parts: list[Any]) -> dict[Any, Any]:
    """By key, what the files have."""
    found = current(parts)
    return {} if found is None else dict(rows_of(table, found.filter(pc.invert(found[GONE]))))


def by_columns(view: View, cuts: list[list[Any]], draw: random.Random) -> tuple[str, list[str]]:
    """As changes of counts; files are merged now and then."""
    table, parts, zeros = view.table, list[Any](), view.table.soft
    ended = "done"
    for updates in cuts:
        combined, staged = CombinedUpdates([view]), Held(table)
        combined.hold(0, updates)
        try:
            worked = combined.net(0)
            if worked is not None:
                net, _ = worked
                message = Changes(0, net.gone, net.come, net.both)
                counts.stage(table, message, staged, lambda wanted: like(wanted, parts))
            parts += staged.taken()
        except ConflictError as cause:
            ended = in_words(combined.judged(cause))
            break
        except MalformedError as cause:
            ended = in_words(cause)
            break
        begin = draw.randrange(len(parts) + 3)
        if begin < len(parts):
            parts[begin:] = [counts.merged(table, parts[begin:], zeros)]
    return ended, shown(table, parts, zeros)


def like(wanted: Any, parts: list[Any]) -> Any:
    """What could be these rows."""
    column = counts.probe(wanted)
    found = pa.concat_tables([wanted.schema.empty_table(), *parts])
    return found if column is None else found.filter(pc.is_in(found[column], pc.unique(wanted[column])))


def shown(table: Table, parts: list[Any], zeros: bool) -> list[str]:
    """Each row, and how often it is there."""
    if not parts:
        return []
    found = pa.concat_tables(parts)
    places, sums = counts.added(table, found, zeros)
    found = found.take(places).drop_columns([DIFF]).append_column(table.values[-1].name, sums)
    return sorted(repr(values) for _, values in rows_of(table, found))
