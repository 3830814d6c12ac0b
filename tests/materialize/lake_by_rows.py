"""Changes as columns against Loads and Stores, in a lake and in Delta tables: random histories both ways."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdcv2.errors import Cdcv2Error, OutputError, UsageError
from cdcv2.materialize import Driver, MemoryRecoveryLog, Runtime
from cdcv2.materialize.protocol.messages import Open, Opened
from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.files import GONE, KEY
from tests.materialize.row_by_row import History

#: What somebody does to a file: takes rows out, brings some back, empties a column, spells JSON otherwise.
EDITS = ("rows", "gone", "column", "json")
#: Lies of a history that are not in its log.
BY_HAND = ("edit", "delete", "insert")


class LakeByRows(LakeDriver):
    """The same driver, which takes no Changes."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


class DeltaByRows(DeltaDriver):
    """The same driver, which takes no Changes."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


def in_a_lake(folder: Path, seed: int) -> tuple[Any, Any]:
    """How a history ends row by row, and as columns: the error, the rows, and every file.

    A file from which rows were taken by hand is found by the first one that reads it. By columns the driver may have
    its rows in memory still, and leave that to the reader.
    """
    history = History(seed)
    found = []
    for place, driver in ((folder / "rows", LakeByRows), (folder / "columns", LakeDriver)):
        ended = carried(history, driver(place, files=2), lambda place=place: edit(place, random.Random(seed)))
        view = open_lake(place)
        files = [pq.read_table(view.folder.file("rows", part)) for part in view.manifest.parts.get("rows", ())]
        plain, rows = [(repr(file.to_pylist()), file.schema) for file in files], anywhere(shown(view), place)
        if rows.startswith(OutputError.__name__):
            found.append((rows if ended == "done" else anywhere(ended, place), rows, []))
        else:
            found.append((anywhere(ended, place), rows, plain))
    return found[0], found[1]


def in_delta(folder: Path, seed: int) -> tuple[Any, Any]:
    """The same in Delta tables, which somebody empties by hand: the error, the rows, the version of the table."""
    history = History(seed)
    found = []
    for place, driver in ((folder / "rows", DeltaByRows), (folder / "columns", DeltaDriver)):
        try:
            ended = carried(history, driver(place), lambda place=place: open_delta(place).table("rows").delete())
        except UsageError as cause:
            return str(cause), str(cause)
        view = open_delta(place)
        found.append((ended, shown(view), view.table("rows").version()))
    return found[0], found[1]


def carried(history: History, driver: Driver, by_hand: Callable[[], object]) -> str:
    """How it ends; ``by_hand`` is done where the history's lie is not in its log."""
    ended, edited = "done", history.lie not in BY_HAND
    walk = Runtime("m", [history.binding], driver, history.source, log=MemoryRecoveryLog("m"), rows=1)
    try:
        for step in walk.steps():
            if walk.transactions == history.edited and not edited and getattr(step, "__name__", "") == "Flush":
                edited = True
                by_hand()
    except UsageError:
        raise
    except Cdcv2Error as cause:
        ended = f"{type(cause).__name__}: {cause}"
    finally:
        walk.close()
    return ended


def shown(view: Any) -> str:
    """The rows of a view, or why it cannot be read; a NaN is no other one's equal, but its text is."""
    try:
        return "\n".join(sorted(map(repr, view.rows("rows"))))
    except OutputError as cause:
        return f"{type(cause).__name__}: {cause}"


def anywhere(text: str, place: Path) -> str:
    """The text without the names of the place and of its files."""
    return re.sub("[0-9a-f]{32}", "FILE", text.replace(str(place), "LAKE"))


def edit(folder: Path, draw: random.Random) -> None:
    """By hand, in the youngest file."""
    view = open_lake(folder)
    parts = view.manifest.parts.get("rows", ())
    what = draw.choice(EDITS)
    if not parts:
        return
    path = view.folder.file("rows", parts[-1])
    rows = pq.read_table(path)
    others = [name for name in rows.column_names if name not in ("id", KEY, GONE, "cdcv2_deleted")]
    name = draw.choice(others) if others else "id"
    at = rows.schema.get_field_index(name)
    if what == "rows":
        rows = rows.slice(draw.randrange(2))
    elif what == "gone":
        marks = [not gone if place == 0 else gone for place, gone in enumerate(rows[GONE].to_pylist())]
        field = rows.schema.get_field_index(GONE)
        rows = rows.set_column(field, rows.schema.field(GONE), [pa.array(marks, pa.bool_())])
    elif what == "column" and others:
        rows = rows.set_column(at, rows.schema.field(at), [pa.nulls(len(rows), rows.schema.field(at).type)])
    elif what == "json" and rows.schema.field(at).type == pa.string():
        texts = [text if text is None else text.replace(",", " , ") for text in rows[name].to_pylist()]
        rows = rows.set_column(at, rows.schema.field(at), [pa.array(texts, pa.string())])
    pq.write_table(rows, path)
