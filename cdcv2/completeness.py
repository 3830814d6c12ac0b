"""How far something is complete, in words: one phrase, in the output of commands and jobs and in the reason of a stop.

"complete through T" means: every time up to and including T is covered by a statement, and has all the updates that it
counts. A frontier is the first time after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: A span is given in the greatest unit of which it has two.
_UNITS = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))


def time_text(time: Any) -> str:
    """A time, as ``--at`` takes it, too.

    >>> time_text(17), time_text((3, 4))
    ('17', '3,4')
    """
    return ",".join(map(str, _coordinates(time)))


def frontier_text(frontier: Iterable[Any]) -> str:
    """The elements of a frontier, in brackets.

    >>> frontier_text([(0, 2), (2, 0)]), frontier_text([])
    ('[0,2 2,0]', '[]')
    """
    return f"[{' '.join(map(time_text, frontier))}]"


def through_text(frontier: Iterable[Any], start: Iterable[Any] | None = None, *, word: str = "complete") -> str:
    """How far things are complete by a frontier, in words; ``start`` is where the history was read from.

    >>> through_text([18]), through_text([0]), through_text([18], word="stated")
    ('complete through 17', 'nothing is complete yet', 'stated through 17')
    >>> through_text([])
    'complete through the end: the history is finished'
    """
    times = list(frontier)
    if len(times) == 1 and not any(_coordinates(times[0])):
        return f"nothing is {word} yet"
    if start is not None and set(times) == set(start):
        return f"nothing is {word} yet from {frontier_text(times)} on"
    if not times:
        return f"{word} through the end: the history is finished"
    if len(times) == 1 and isinstance(times[0], int):
        return f"{word} through {times[0] - 1}"
    return f"{word} through every time not beyond {frontier_text(times)}"


def committed_text(committed_at: float | None, now: float) -> str:
    """How long ago, by its source's clock, what is complete was committed: behind a phrase; nothing where unknown.

    >>> committed_text(100.0, 103.4), committed_text(100.0, 7300.0), committed_text(None, 7.0)
    ('; committed 3 s ago', '; committed 2 h ago', '')
    """
    if committed_at is None:
        return ""
    # Two clocks: that of the source may be ahead.
    seconds = max(0.0, now - committed_at)
    unit, length = next((unit, length) for unit, length in _UNITS if seconds >= 2 * length or length == 1)
    return f"; committed {int(seconds / length)} {unit} ago"


def _coordinates(time: Any) -> list[int]:
    """A number is one; a time of several coordinates gives each."""
    return [time] if isinstance(time, int) else list(time)
