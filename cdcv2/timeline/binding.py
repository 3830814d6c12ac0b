"""A binding: one step of a remap, as a minter proposes it and as a reader follows it."""

from __future__ import annotations

from dataclasses import dataclass

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import check_time
from cdcv2.errors import MalformedError
from cdcv2.protocol.messages import Update


@dataclass(frozen=True, slots=True)
class Binding:
    """It decides the times from ``lower`` on and before ``upper``: at ``into`` the sources have come to ``frontier``,
    before that they are where they were. With ``upper`` None it decides all times, and the remap is closed.

    >>> Binding(3, 1001, Antichain([7])).into, Binding(3, None, Antichain()).into
    (1000, 3)

    Raises MalformedError for an ``upper`` that is not greater than ``lower``, and for what is no time.
    """

    lower: int
    upper: int | None
    frontier: Antichain

    def __post_init__(self) -> None:
        check_int(self.lower)
        if self.upper is not None and check_int(self.upper) <= self.lower:
            raise MalformedError(f"a binding of the times from {self.lower} to {self.upper} decides none of them")

    @property
    def into(self) -> int:
        """The last time that it decides; the first when it decides all that follow."""
        return self.lower if self.upper is None else self.upper - 1

    def changes(self, before: Antichain) -> list[Update]:
        """What it changes in the collection of from-times that the remap is, after ``before``; sorted.

        >>> Binding(3, 1001, Antichain([7])).changes(Antichain([5]))
        [(5, 1000, -1), (7, 1000, 1)]
        """
        held, now = set(before), set(self.frontier)
        changes: list[Update] = [(time, self.into, -1) for time in before if time not in now]
        return changes + [(time, self.into, 1) for time in self.frontier if time not in held]


def check_int(time: object) -> int:
    """Return ``time`` if it is a time of a timeline: an int. Raises MalformedError for anything else.

    >>> check_int(1000)
    1000
    """
    if type(time) is not int:
        raise MalformedError(f"{time!r} is no time of a timeline: those are integers, as milliseconds are")
    check_time(time)
    return time
