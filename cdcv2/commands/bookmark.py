"""A bookmark in a log: how far it need not be read again, for a view that is complete up to a frontier.

What a message says is over when all its times are not beyond the frontier. A prefix of a log whose messages are all
over says nothing that a reader from the frontier on would keep; so it may begin behind it. The bookmark names the last
message of that prefix and its digest, and reading begins *at* it: when another one stands there, or none, the log has
been made anew, and is read from its start.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.protocol.log import Entry, Source
from cdcv2.protocol.messages import Garbled, Message, Updates

#: Behind every frontier: what closes a log, and bytes that are no message.
_NEVER = float("inf")


class Bookmark:
    """One log, read from where a bookmark lies, if it still fits.

    Args:
        source: the log; its times are ints.
        plain: what :meth:`plain` gave for it, at an earlier reading; anything else is no bookmark.
    """

    def __init__(self, source: Source, plain: Any = None) -> None:
        self._source = source
        # part -> (offset, digest): where reading begins, and what must stand there.
        self._begin = _read(plain)
        # part -> messages that may not be over, in order: offset, digest or what it is of, when it is over.
        self._open: dict[int, deque[tuple[int, Message | Garbled | None, float]]] = {}
        # part -> the last offset at which a message begins that is over, as all before it; and that message.
        self._last: dict[int, tuple[int, Message | Garbled | str]] = dict(self._begin)

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
                    self._note(entry)
                yield entry
            else:
                if not unseen:
                    return
        self._last, self._open, self._begin = {}, {}, {}
        for entry in self._source.read(follow=follow):
            if entry is not None:
                self._note(entry)
            yield entry

    def _note(self, entry: Entry) -> None:
        position, message = entry.position, entry.message
        # Reading begins at the first message of a file.
        first = message if position.index == 0 else None
        self._open.setdefault(position.part, deque()).append((position.offset, first, _over(message)))

    def plain(self, frontier: Antichain) -> dict[str, Any]:
        """The bookmark for a view that is complete up to the frontier, as JSON has it."""
        upto = max(map(_number, frontier), default=_NEVER)
        for part, waiting in self._open.items():
            while waiting and waiting[0][2] <= upto:
                offset, first, _ = waiting.popleft()
                if first is not None:
                    self._last[part] = (offset, first)
        for part, (offset, found) in self._last.items():
            if not isinstance(found, str):
                self._last[part] = (offset, _digest(found))
        return {str(part): list(found) for part, found in self._last.items()}


def _read(plain: Any) -> dict[int, tuple[int, str]]:
    """What a bookmark says; nothing for what is none, which costs a reading from the start."""
    if not isinstance(plain, Mapping):
        return {}
    try:
        found = {int(part): (int(offset), str(digest)) for part, (offset, digest) in plain.items()}
    except (TypeError, ValueError):
        return {}
    return found


def _fits(entry: Entry, unseen: dict[int, tuple[int, str]]) -> bool:
    """Whether this may stand there; the first of a part must be the one that the bookmark names."""
    part = entry.position.part
    if part not in unseen:
        return True
    offset, digest = unseen.pop(part)
    return entry.position.offset == offset and entry.position.index == 0 and _digest(entry.message) == digest


def _over(message: Message | Garbled) -> float:
    """The least time up to which a view must be complete for the message to say nothing more."""
    if isinstance(message, Garbled):
        return _NEVER
    if isinstance(message, Updates):
        times = [time for _, time, _ in message.updates]
        return max(map(_number, times), default=-1) + 1
    return max(map(_number, message.upper), default=_NEVER)


def _number(time: Any) -> float:
    # Of times that are no ints, nothing is known here.
    return time if type(time) is int else _NEVER


def _digest(message: Message | Garbled) -> str:
    return hashlib.sha256(repr(message).encode("utf-8", "backslashreplace")).hexdigest()[:32]
