"""A bookmark in a log: how far it need not be read again, for a view that is complete up to a frontier.

A message is over when all its times are not beyond the frontier. If all messages of a prefix of a log are over, a
reader from the frontier on would keep none of it; so it may begin behind the prefix. The bookmark names the last
message of that prefix and its digest, and reading begins *at* it. If another message stands there, or none, the log was
recreated, or has lost its end, and is read from its start. The statements of the prefix are kept beside the bookmark:
they show it if a log that has lost its end behind the bookmark ends before the view does.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.protocol.coverage import Coverage, ReadStatement
from cdcv2.protocol.log import Entry, Source
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates

#: Behind every frontier: what closes a log, and bytes that are no message.
_NEVER = float("inf")


class _OpenMessage(NamedTuple):
    """A message that may not be over: its offset, itself if one reads from there, when it is over, what it states."""

    offset: int
    first: Message | GarbledMessage | None
    over: float
    states: Progress | None


class Bookmark:
    """One log, read from where a bookmark lies, if it still fits.

    Args:
        source: the log; its times are ints.
        plain: what :meth:`plain` gave for it, at an earlier reading; anything else is no bookmark.
        frontier: up to where the view is complete.
        begins: where the history begins.
    """

    def __init__(
        self, source: Source, plain: Any = None, frontier: Antichain = Antichain([0]),
        begins: Antichain = Antichain([0]),
    ) -> None:
        self._source, self._begins = source, begins
        # part -> (offset, digest): where reading begins, and what must stand there; and what is stated before.
        self._begin, before = _read(plain)
        self._upto = _upto(frontier)
        # part -> messages that may not be over, in order.
        self._open: dict[int, deque[_OpenMessage]] = {}
        # part -> the last offset at which a message begins that is over, as all before it; and that message.
        self._last: dict[int, tuple[int, Message | GarbledMessage | str]] = dict(self._begin)
        # What is stated by the messages that are over, as all before them.
        self._stated = covering(begins, before)

    def read(self, *, follow: bool) -> Iterator[Entry | None]:
        """The entries of the log, as its ``read`` gives them; those before the bookmark are left out."""
        ends = self._source.ends() if self._begin else {}
        if all(ends.get(part, 0) > offset for part, (offset, _) in self._begin.items()):
            entries = self._source.read({part: offset for part, (offset, _) in self._begin.items()}, follow=follow)
            unseen = dict(self._begin)
            for entry in entries:
                if entry is not None and not _fits(entry, unseen):
                    break
                if entry is not None:
                    self._keep(entry)
                yield entry
            else:
                if not unseen:
                    return
        self._last, self._open, self._begin, self._stated = {}, {}, {}, covering(self._begins, ())
        for entry in self._source.read(follow=follow):
            if entry is not None:
                self._keep(entry)
            yield entry

    def statements(self) -> list[Progress]:
        """What was stated in all that was read, and before the bookmark, without the counts."""
        waiting = (one.states for parts in self._open.values() for one in parts)
        return [*_spans(self._begins, self._stated), *(one for one in waiting if one is not None)]

    def _keep(self, entry: Entry) -> None:
        position, message = entry.position, entry.message
        # Reading begins at the first message of a file.
        first = message if position.index == 0 else None
        waiting = self._open.setdefault(position.part, deque())
        waiting.append(_OpenMessage(position.offset, first, _over(message), _states(message)))
        self._settle(position.part)

    def _settle(self, part: int) -> None:
        """Leave behind what is over."""
        waiting = self._open[part]
        while waiting and waiting[0].over <= self._upto:
            one = waiting.popleft()
            if one.first is not None:
                self._last[part] = (one.offset, one.first)
            if one.states is not None:
                self._stated.accept(self._stated.plan([ReadStatement(one.states)]))

    def plain(self, frontier: Antichain) -> dict[str, Any]:
        """The bookmark for a view that is complete up to the frontier, as JSON has it."""
        self._upto = _upto(frontier)
        for part in self._open:
            self._settle(part)
        for part, (offset, found) in self._last.items():
            if not isinstance(found, str):
                self._last[part] = (offset, _digest(found))
        stated = [[one.lower.to_plain(), one.upper.to_plain()] for one in _spans(self._begins, self._stated)]
        return {"parts": {str(part): list(found) for part, found in self._last.items()}, "stated": stated}


def covering(begins: Antichain, statements: Iterable[Progress]) -> Coverage:
    """What the statements cover of a history that begins there."""
    made = Coverage(begins)
    made.accept(made.plan(map(ReadStatement, statements)))
    return made


def _spans(begins: Antichain, stated: Coverage) -> list[Progress]:
    waiting = [one.statement for one in stated.waiting()]
    return waiting if stated.known == begins else [Progress(begins, stated.known), *waiting]


def _read(plain: Any) -> tuple[dict[int, tuple[int, str]], list[Progress]]:
    """The content of a bookmark; empty for an unknown form, which costs a reading from the start."""
    try:
        begin = {int(part): (int(offset), str(digest)) for part, (offset, digest) in plain["parts"].items()}
        return begin, [
            Progress(Antichain.from_plain(lower), Antichain.from_plain(upper)) for lower, upper in plain["stated"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError, MalformedError):
        return {}, []


def _fits(entry: Entry, unseen: dict[int, tuple[int, str]]) -> bool:
    """Whether this may stand there; the first of a part must be the one that the bookmark names."""
    part = entry.position.part
    if part not in unseen:
        return True
    offset, digest = unseen.pop(part)
    return entry.position.offset == offset and entry.position.index == 0 and _digest(entry.message) == digest


def _over(message: Message | GarbledMessage) -> float:
    """The least frontier, as a number, of a view that needs nothing more of the message."""
    if isinstance(message, GarbledMessage):
        return _NEVER
    if isinstance(message, Updates):
        times = [time for _, time, _ in message.updates]
        return max(map(_number, times), default=-1) + 1
    return max(map(_number, message.upper), default=_NEVER)


def _states(message: Message | GarbledMessage) -> Progress | None:
    """What it states of ints, without its counts."""
    if not isinstance(message, Progress) or message.lower == message.upper:
        return None
    if any(type(time) is not int for time in (*message.lower, *message.upper)):
        return None
    return Progress(message.lower, message.upper)


def _upto(frontier: Antichain) -> float:
    return max(map(_number, frontier), default=_NEVER)


def _number(time: Any) -> float:
    # Of times that are no ints, nothing is known here.
    return time if type(time) is int else _NEVER


def _digest(message: Message | GarbledMessage) -> str:
    return hashlib.sha256(repr(message).encode("utf-8", "backslashreplace")).hexdigest()[:32]
