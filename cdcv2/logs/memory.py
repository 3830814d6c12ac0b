"""A log in memory: what tests, notebooks and examples write to.

It keeps messages, not bytes, so its data may be any hashable values. What was sent is in the log from ``flush`` on,
as in every other log; what was not flushed is lost when the log is closed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from cdcv2.errors import MalformedError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.stops import Stop
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates


class MemoryLog:
    """A log that is as durable as the process. One thread may write it while others read.

    >>> log = MemoryLog()
    >>> log.send(Updates([("a", 3, 1)]))
    >>> log.messages
    []
    >>> log.flush()
    >>> [str(entry.position) for entry in log.read() if entry]
    ['memory[0]@0']

    ``messages`` are in it from the start; a :class:`GarbledMessage` among them is read as one. ``idle_wait`` is how
    long, in seconds, a reader that follows waits before it reports that there is nothing now.
    """

    def __init__(
        self, name: str = "memory", messages: Iterable[Message | GarbledMessage] = (), *, idle_wait: float = 0.01
    ) -> None:
        self._name = name
        self._idle_wait = idle_wait
        # What is durable; only ever appended to, so readers need no lock.
        self._kept: list[Message | GarbledMessage] = list(messages)
        self._sent: list[Message] = []
        self._stops: list[Stop] = []
        self._stated = LogDescription()

    @property
    def name(self) -> str:
        """The label given at the start."""
        return self._name

    @property
    def messages(self) -> list[Message]:
        """The messages that are in the log; a copy."""
        return [message for message in self._kept if not isinstance(message, GarbledMessage)]

    def canonical(self, data: Any) -> Any:
        """The data as they are: any value that can be hashed."""
        return data

    def send(self, message: Message) -> None:
        """Take a message; it is in the log after ``flush``. Raises MalformedError for anything else."""
        if not isinstance(message, (Updates, Progress)):
            raise MalformedError(f"{message!r} is no message: a message is Updates or Progress")
        self._sent.append(message)

    def flush(self) -> None:
        """Put into the log what was sent."""
        self._kept += self._sent
        self._sent.clear()

    def close(self) -> None:
        """Forget what was sent and not flushed. The log can still be read, and written."""
        self._sent.clear()

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages from the position on; see :class:`~cdcv2.protocol.log.Source`."""
        return self._read((after or {}).get(0, 0), len(self._kept), follow)

    def stops(self) -> list[Stop]:
        """The stops that were put."""
        return list(self._stops)

    def put_stop(self, stop: Stop) -> None:
        """Keep a stop."""
        self._stops.append(stop)

    def description(self) -> LogDescription:
        """What it was made to state of itself."""
        return self._stated

    def describe(self, description: LogDescription) -> None:
        """Have it state all of this. Raises ForeignStateError where it states something else."""
        self._stated = self._stated.joined(description, self._name)

    def ends(self) -> Positions:
        """The number of messages, as the position of part 0."""
        return {0: len(self._kept)}

    def _read(self, at: int, end: int, follow: bool) -> Iterator[Entry | None]:
        while True:
            for number in range(at, end):
                yield Entry(Position(self._name, 0, number), self._kept[number])
            if not follow:
                return
            at, end = max(at, end), len(self._kept)
            if at >= end:
                yield None
                time.sleep(self._idle_wait)
