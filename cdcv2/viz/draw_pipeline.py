"""The drawing of a pipeline: three columns where there is room, and one below the other where there is none."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from cdcv2.viz.svg import EDGE, FONT, LINE, USUAL, Canvas


class CopyBox(NamedTuple):
    """A log or a target: its name, how far it is in words, and whether that is well (None: not known)."""

    name: str
    text: str
    well: bool | None


class TableLine(NamedTuple):
    """A table: the capture of its source, its log (None: there is none yet), and its targets."""

    source: str
    log: CopyBox | None
    targets: tuple[CopyBox, ...]


class PipelinePicture(NamedTuple):
    """A pipeline, by tables."""

    name: str
    tables: tuple[TableLine, ...]

    def __repr__(self) -> str:
        return f"PipelinePicture({self.name}: {len(self.tables)} tables)"

    def _repr_html_(self) -> str:
        return draw_pipeline(self)


_HIGH, _GAP, _COLUMNS_FROM, _INDENT = 2 * LINE + 8, 10, 720, 20
_MARKS: dict[bool | None, str] = {True: "good", False: "bad", None: "faint"}


def draw_pipeline(picture: PipelinePicture, width: int = USUAL) -> str:
    """The picture as SVG, so many pixels wide. Raises UsageError for a width that is not from 360 to 1,600."""
    count = len(picture.tables)
    canvas = Canvas(width, f"pipeline {picture.name}: {count} table{'s' if count != 1 else ''}")
    canvas.line_of_text(f"pipeline {picture.name}: source, logs, targets")
    canvas.y += 4
    for source, lines in groupby(sorted(picture.tables, key=lambda line: line.source), key=lambda line: line.source):
        (_columns if width >= _COLUMNS_FROM else _below)(canvas, source, list(lines))
    return canvas.svg()


def _columns(canvas: Canvas, source: str, lines: list[TableLine]) -> None:
    """Source, logs and targets beside one another."""
    wide, between = canvas.room * 0.28, canvas.room * 0.08
    lefts = [EDGE + column * (wide + between) for column in range(3)]
    first = canvas.y + _HIGH / 2
    _box(canvas, lefts[0], canvas.y, wide, CopyBox(source, "source", None))
    for line in lines:
        middle = canvas.y + _HIGH / 2
        bend = lefts[0] + wide + between / 2
        canvas.path([(lefts[0] + wide, first), (bend, first), (bend, middle), (lefts[1], middle)], "line")
        _box(canvas, lefts[1], canvas.y, wide, line.log or CopyBox("no log yet", "", None))
        for target in line.targets:
            here, bend = canvas.y + _HIGH / 2, lefts[1] + wide + between / 2
            canvas.path([(lefts[1] + wide, middle), (bend, middle), (bend, here), (lefts[2], here)], "line")
            _box(canvas, lefts[2], canvas.y, wide, target)
            canvas.y += _HIGH + _GAP
        canvas.y += 0 if line.targets else _HIGH + _GAP


def _below(canvas: Canvas, source: str, lines: list[TableLine]) -> None:
    """Each further to the right than what it comes from."""
    start = canvas.y + _HIGH
    _next(canvas, 0, CopyBox(source, "source", None))
    for line in lines:
        middle = canvas.y + _HIGH / 2
        x = EDGE + _INDENT / 2
        canvas.path([(x, start), (x, middle), (EDGE + _INDENT, middle)], "line")
        under = canvas.y + _HIGH
        _next(canvas, 1, line.log or CopyBox("no log yet", "", None))
        for target in line.targets:
            middle, x = canvas.y + _HIGH / 2, EDGE + _INDENT * 1.5
            canvas.path([(x, under), (x, middle), (EDGE + 2 * _INDENT, middle)], "line")
            _next(canvas, 2, target)


def _next(canvas: Canvas, level: int, copy: CopyBox) -> None:
    left = EDGE + level * _INDENT
    _box(canvas, left, canvas.y, canvas.width - EDGE - left, copy)
    canvas.y += _HIGH + _GAP


def _box(canvas: Canvas, x: float, y: float, wide: float, copy: CopyBox) -> None:
    canvas.box(x, y, wide, _HIGH, "calm", f"{copy.name}: {copy.text}")
    canvas.box(x, y, 4, _HIGH, _MARKS[copy.well])
    canvas.text(x + 12, y + 4 + FONT, copy.name, wide - 20)
    canvas.text(x + 12, y + 4 + LINE + FONT, copy.text, wide - 20, "bad" if copy.well is False else "faint")
