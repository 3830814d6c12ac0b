"""The identity of a log, for a state: the last messages that were read when the state was made.

A state spares its owner reading a log from its start. So it must not be used for another log, of which it would claim
what that log never stated; the names of the two do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Entry, Log, Positions
from cdcv2.protocol.messages import GarbledMessage, Message


class LogIdentity:
    """What a log has last in each part when it is read: its state recognizes it by that.

    Reading from positions begins one before each, and what stands there must match ``marks``.
    Cost: the last message of each part once more. Source: ours.

    >>> from cdcv2.protocol.log import Position
    >>> from cdcv2.protocol.messages import Progress
    >>> class One:
    ...     name = "one"
    ...     def read(self, after=None, *, follow=False):
    ...         yield Entry(Position("one", 0, 0), Progress([0], [2]))
    >>> first = LogIdentity(One(), {})
    >>> len(list(first.read()))
    1
    >>> list(LogIdentity(One(), first.marks()).read({0: 1}))
    []
    """

    def __init__(self, log: Log, marks: Mapping[str, str]) -> None:
        self._log, self._marks = log, marks
        self._last: dict[int, tuple[int, list[Message | GarbledMessage]]] = {}

    def read(self, after: Positions | None = None) -> Iterator[Entry]:
        """The same entries, to the log's present end. Raises ForeignStateError where something else stands before."""
        wanted = {part: offset for part, offset in (after or {}).items() if offset > 0}
        before: dict[int, list[Message | GarbledMessage]] = {part: [] for part in wanted}
        for entry in self._log.read({part: offset - 1 for part, offset in wanted.items()} or None):
            if entry is None:
                continue
            part, offset = entry.position.part, entry.position.offset
            if offset >= wanted.get(part, 0):
                self._check(part, wanted, before)
            if offset != self._last.get(part, (-1, []))[0]:
                self._last[part] = offset, []
            self._last[part][1].append(entry.message)
            if part in before:
                before[part].append(entry.message)
            else:
                yield entry
        for part in list(before):
            self._check(part, wanted, before)

    def _check(self, part: int, wanted: Positions, before: dict[int, list[Message | GarbledMessage]]) -> None:
        if part in before and _mark(before.pop(part)) != self._marks.get(str(part)):
            raise ForeignStateError(
                f"the state was not made from the log {self._log.name}, which holds something else before "
                f"{wanted[part]} in part {part}: give none, and the log is read from its start"
            )

    def marks(self) -> dict[str, str]:
        """What stands last in each part, in a few digits."""
        return {str(part): _mark(messages) for part, (_, messages) in sorted(self._last.items())}


def check_ends(name: str, read: Positions, ends: Positions, remedy: str) -> None:
    """Raise ForeignStateError if a log ends before the positions up to which a state states that it was read.

    Cost: linear in the parts.

    >>> check_ends("log", {0: 3}, {0: 3, 1: 9}, "give none")
    """
    for part, offset in sorted(read.items()):
        if offset > ends.get(part, 0):
            raise ForeignStateError(
                f"the log {name} ends at {ends.get(part, 0)} in part {part} and was read up to {offset}: the state is "
                f"of another log, or this one was made again: {remedy}"
            )


def other_log_text(what: str, kept: str, there: str | None, again: str) -> str:
    """Why something does not continue: what is kept is of one log, and another one is there. ``again``: what to do.

    >>> other_log_text("the tail of t", "a", "b", "Begin again")
    'the tail of t is of the log a, and b is here now: its changes are others. Begin again, and replace what you have by the first batch'
    """  # noqa: E501
    there = there or "one without an identity"
    return (
        f"{what} is of the log {kept}, and {there} is here now: its changes are others. {again}, and replace what you "
        "have by the first batch"
    )


def _mark(messages: list[Message | GarbledMessage]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(repr(message).encode())
    return digest.hexdigest()[:32]
