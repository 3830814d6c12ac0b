"""The drawing of logs: updates by time over what is stated, and below how the frontiers moved."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cdcv2.completeness import through_text
from cdcv2.viz.svg import EDGE, KINDS, LINE, USUAL, Axis, Canvas


#: The times from one to before another; None: to the end of the history.
Span = tuple[int, int | None]


class LogLane(NamedTuple):
    """One log.

    - ``finished``, ``waiting``: (time, how many updates), of times that are finished, and of others.
    - ``stated``: the times that statements cover; ``gaps``: those below them that none covers.
    - ``lacks``: (time, how many updates that are stated are missing).
    - ``frontier``: everything before it is finished; None: the history has ended.
    - ``steps``: (messages that were read of all logs, the frontier from there on).
    """

    table: str
    finished: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, int], ...]
    stated: tuple[Span, ...]
    gaps: tuple[Span, ...]
    lacks: tuple[tuple[int, int], ...]
    frontier: int | None
    steps: tuple[tuple[int, int | None], ...]


class LogsPicture(NamedTuple):
    """Logs that were read together, so many messages of them, and up to where all of them are finished."""

    lanes: tuple[LogLane, ...]
    messages: int
    frontier: int | None

    def __repr__(self) -> str:
        lanes = ", ".join(f"{lane.table} {sum(count for _, count in lane.finished)} updates" for lane in self.lanes)
        return f"LogsPicture({lanes}; {self.messages} messages)"

    def _repr_html_(self) -> str:
        return draw_logs(self)


_BARS, _STRIP, _STEPS, _GAP = 44, 8, 84, 10
#: The least width of what must be seen, in pixels.
_SEEN = 3


def draw_logs(picture: LogsPicture, width: int = USUAL) -> str:
    """The picture as SVG, so many pixels wide. Raises UsageError for a width that is not from 360 to 1,600."""
    count = len(picture.lanes)
    title = f"{count} log{'s' if count != 1 else ''}, {_through(picture.frontier)}"
    canvas = Canvas(width, title)
    axis = time_axis(picture, canvas)
    canvas.line_of_text(title)
    canvas.y += 4
    for lane in picture.lanes:
        _lane(canvas, axis, lane)
    axis.ticks(canvas, word="time; bars: updates, line: frontier")
    canvas.line_of_text("band: times that statements cover", "faint")
    if picture.messages:
        _steps(canvas, axis, picture)
    return canvas.svg()


def time_axis(picture: LogsPicture, canvas: Canvas) -> Axis:
    """From shortly before the first thing that happened to the last one that is stated."""
    times = [time for lane in picture.lanes for time, _ in (*lane.finished, *lane.waiting, *lane.lacks)]
    ends = [end for lane in picture.lanes for span in (*lane.stated, *lane.gaps) for end in span if end is not None]
    upper = max([*times, *ends, 1])
    # What is stated of the times before the first update begins at 0, and would leave no room for the rest.
    starts = [lower for lane in picture.lanes for lower, _ in lane.gaps if lower]
    lower = min([*times, *starts], default=0)
    return Axis(max(0, lower - (upper - lower) // 40), upper, EDGE, canvas.width - EDGE)


def _lane(canvas: Canvas, axis: Axis, lane: LogLane) -> None:
    number = sum(count for _, count in lane.finished)
    canvas.line_of_text(lane.table)
    canvas.line_of_text(f"{_updates(number)}, {_through(lane.frontier)}", "faint")
    for text in _lacks(lane):
        canvas.line_of_text(text, "bad")
    top, bottom = canvas.y, canvas.y + _BARS
    _bars(canvas, axis, lane, bottom)
    for lower, upper in lane.stated:
        left, right = axis.at(lower), axis.right if upper is None else axis.at(upper)
        canvas.box(left, bottom + 2, right - left, _STRIP, "calm", f"stated: {_span(lower, upper)}")
    for lower, upper in lane.gaps:
        left, right = axis.at(lower), axis.right if upper is None else axis.at(upper)
        canvas.box(left, bottom + 2, max(right - left, _SEEN), _STRIP, "bad", f"not stated: {_span(lower, upper)}")
    for time, count in lane.lacks:
        canvas.box(axis.at(time), bottom - 8, _SEEN, 8, "bad", f"{count} missing at {time}")
    x = axis.right if lane.frontier is None else axis.at(lane.frontier)
    canvas.path([(x, top), (x, bottom + 2 + _STRIP)], "mark")
    canvas.y = bottom + _STRIP + _GAP


def _bars(canvas: Canvas, axis: Axis, lane: LogLane, bottom: float) -> None:
    """Updates, in as many steps as can be seen."""
    steps = max(1, int((axis.right - axis.left) / 4))
    by_step: dict[bool, Counter[int]] = {}
    for waiting, updates in ((False, lane.finished), (True, lane.waiting)):
        found = by_step[waiting] = Counter()
        for time, count in updates:
            found[(time - axis.lower) * steps // (axis.upper - axis.lower + 1)] += count
    highest = max([*by_step[False].values(), *by_step[True].values()], default=1)
    for waiting, found in by_step.items():
        for step, count in found.items():
            height = max(2.0, _BARS * count / highest)
            left = axis.left + step * (axis.right - axis.left) / steps
            canvas.box(left, bottom - height, 3, height, "faint" if waiting else "fill",
                       f"{_updates(count)}{', not finished' if waiting else ''}")


def _steps(canvas: Canvas, times: Axis, picture: LogsPicture) -> None:
    """How far the frontier of each log was, by the messages that were read."""
    canvas.y += _GAP
    canvas.line_of_text("frontiers while the messages were read")
    messages = Axis(0, picture.messages, EDGE, canvas.width - EDGE)
    top, bottom = canvas.y, canvas.y + _STEPS
    up = Axis(times.lower, times.upper, bottom - 2, top + 2)
    canvas.path([(messages.left, top), (messages.left, bottom), (messages.right, bottom)], "line")
    for number, lane in enumerate(picture.lanes):
        points, before = list[tuple[float, float]](), None
        for read, frontier in (*lane.steps, (picture.messages, lane.frontier)):
            y = up.right if frontier is None else up.at(frontier)
            points += [(messages.at(read), y if before is None else before), (messages.at(read), y)]
            before = y
        canvas.path(points, f"series{number % KINDS}")
    canvas.y = bottom
    messages.ticks(canvas, word=f"messages; upwards: time, from {times.lower} to {times.upper}")
    for number, lane in enumerate(picture.lanes):
        y = canvas.y + LINE / 2
        canvas.path([(EDGE, y), (EDGE + 20, y)], f"series{number % KINDS}")
        canvas.line_of_text(lane.table, indent=28)


def _lacks(lane: LogLane) -> list[str]:
    found = [f"not stated: {_span(*span)}" for span in lane.gaps]
    found += [f"{_updates(count)} missing at time {time}" for time, count in lane.lacks]
    return found if len(found) < 4 else [*found[:2], f"and {len(found) - 2} more that lack"]


def _updates(count: int) -> str:
    return f"{count:,} update{'s' if count != 1 else ''}"


def _span(lower: int, upper: int | None) -> str:
    return f"from {lower} on" if upper is None else f"from {lower} to before {upper}"


def _through(frontier: int | None) -> str:
    return through_text([] if frontier is None else [frontier])
