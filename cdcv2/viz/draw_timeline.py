"""The drawing of a timeline: bindings as strokes, and below them what lasts."""

from __future__ import annotations

from typing import NamedTuple

from cdcv2.viz.svg import EDGE, USUAL, Axis, Canvas


class TimelineBar(NamedTuple):
    """Something that lasts from one time to another; None: it still does."""

    name: str
    lower: int
    upper: int | None


class TimelinePicture(NamedTuple):
    """The times that bindings have, how far the logs of each capture are, and transactions while they were open."""

    name: str
    bindings: tuple[int, ...]
    captures: tuple[TimelineBar, ...]
    transactions: tuple[TimelineBar, ...]

    def __repr__(self) -> str:
        return f"TimelinePicture({self.name}: {len(self.bindings)} bindings, {len(self.transactions)} transactions)"

    def _repr_html_(self) -> str:
        return draw_timeline(self)


_STROKES, _BAR, _GAP = 20, 10, 8
#: So many transactions are drawn, the longest ones.
MOST = 20


def draw_timeline(picture: TimelinePicture, width: int = USUAL) -> str:
    """The picture as SVG, so many pixels wide. Raises UsageError for a width that is not from 360 to 1,600."""
    canvas = Canvas(width, f"timeline {picture.name}: {len(picture.bindings)} bindings")
    bars = [*picture.captures, *picture.transactions]
    ends = [end for bar in bars for end in (bar.lower, bar.upper) if end] + list(picture.bindings)
    axis = Axis(min(ends, default=0), max(ends, default=1), EDGE, canvas.width - EDGE)
    canvas.line_of_text(f"timeline {picture.name}")
    canvas.line_of_text(f"{len(picture.bindings)} bindings", "faint")
    for time in picture.bindings:
        canvas.path([(axis.at(time), canvas.y), (axis.at(time), canvas.y + _STROKES)], "fill")
    canvas.y += _STROKES + _GAP
    for bar in picture.captures:
        _bar(canvas, axis, bar, f"{bar.name}: finished before {bar.upper}", "calm")
    longest = sorted(picture.transactions, key=lambda one: one.lower - (axis.upper if one.upper is None else one.upper))
    for bar in longest[:MOST]:
        text = f"{bar.name}: open from {bar.lower}"
        text += " on" if bar.upper is None else f" to before {bar.upper}"
        _bar(canvas, axis, bar, text, "bad" if bar.upper is None else "fill")
    if len(longest) > MOST:
        canvas.line_of_text(f"and {len(longest) - MOST} shorter ones", "faint")
    axis.ticks(canvas, word="time")
    return canvas.svg()


def _bar(canvas: Canvas, axis: Axis, bar: TimelineBar, text: str, kind: str) -> None:
    canvas.line_of_text(text)
    left, right = axis.at(bar.lower), axis.right if bar.upper is None else axis.at(bar.upper)
    canvas.box(left, canvas.y, max(right - left, 3), _BAR, kind, text)
    canvas.y += _BAR + _GAP
