"""A log that is known again: by what stood last in it when the memory of a capture was made.

A memory spares a capture reading its logs from their starts, so it must not be taken for that of other logs, of which
it says what they never stated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Entry, Log, Positions
from cdcv2.protocol.messages import Garbled, Message
from cdcv2.sources.remembered import FORGET


class Marked:
    """A log, and what it has last in each part when it is read: by that the memory knows the log again.

    Reading from positions begins one before each, and what stands there must be what ``marks`` say.
    """

    def __init__(self, log: Log, marks: Mapping[str, str]) -> None:
        self._log, self._marks = log, marks
        self._last: dict[int, tuple[int, list[Message | Garbled]]] = {}
        self.name, self.ends = log.name, log.ends
        self.canonical, self.send, self.flush, self.close = log.canonical, log.send, log.flush, log.close

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The same entries. Raises ForeignStateError, at the end, where something else stands before a position."""
        wanted = {part: offset for part, offset in (after or {}).items() if offset > 0}
        before: dict[int, list[Message | Garbled]] = {part: [] for part in wanted}
        from_there = {part: offset - 1 for part, offset in wanted.items()}
        for entry in self._log.read(from_there or None, follow=follow):
            if entry is None:
                yield None
                continue
            part, offset = entry.position.part, entry.position.offset
            if offset != self._last.get(part, (-1, []))[0]:
                self._last[part] = offset, []
            self._last[part][1].append(entry.message)
            if offset < wanted.get(part, 0):
                before[part].append(entry.message)
            else:
                yield entry
        for part, messages in before.items():
            if _mark(messages) != self._marks.get(str(part)):
                raise ForeignStateError(
                    f"the memory was not made from the log {self.name}, which holds something else before "
                    f"{wanted[part]} in part {part}: {FORGET}"
                )

    def marks(self) -> dict[str, str]:
        """What stands last in each part, in a few digits."""
        return {str(part): _mark(messages) for part, (_, messages) in sorted(self._last.items())}


def _mark(messages: list[Message | Garbled]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(repr(message).encode())
    return digest.hexdigest()[:32]
