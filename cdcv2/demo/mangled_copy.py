"""What a mangled copy of a log holds beside the log's facts: the proof that it was worth trying."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cdcv2.protocol.messages import Message, Progress, Updates


class MangledCopy(NamedTuple):
    """A copy of a log, by numbers."""

    name: str
    messages: int
    original: int
    #: updates that had been there before
    repeats: int
    #: statements that lie before the one in front of them
    inversions: int
    #: statements whose bounds no statement of the log has
    other_bounds: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.original} messages became {self.messages}, with {self.repeats} repeated updates, "
            f"{self.inversions} inversions, {self.other_bounds} statements of other bounds"
        )

    @property
    def thoroughly(self) -> bool:
        """Whether it holds repeats, inversions and other bounds."""
        return min(self.repeats, self.inversions, self.other_bounds) > 0


def describe(name: str, original: Iterable[Message], copy: Iterable[Message]) -> MangledCopy:
    """Compare a copy, in the order in which it is read, with the log that it was made of.

    >>> log = [Updates([("a", 1, 1)]), Progress([0], [2], {1: 1}), Progress([2], [])]
    >>> str(describe("t", log, [Progress([2], []), Progress([0], [2], {1: 1}), *log[:1] * 2]))
    't: 3 messages became 4, with 1 repeated updates, 1 inversions, 0 statements of other bounds'
    """
    before, there = list(original), list(copy)
    bounds = {(message.lower, message.upper) for message in before if isinstance(message, Progress)}
    updates = [update[:2] for message in there if isinstance(message, Updates) for update in message.updates]
    statements = [message for message in there if isinstance(message, Progress)]
    following = zip(statements, statements[1:])
    inversions = sum(one.lower != two.lower and one.lower.dominates(two.lower) for one, two in following)
    return MangledCopy(
        name,
        len(there),
        len(before),
        len(updates) - len(set(updates)),
        inversions,
        sum((message.lower, message.upper) not in bounds for message in statements),
    )
