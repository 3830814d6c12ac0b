"""What a log must offer: a :class:`Source` to read it, a :class:`Sink` to write it.

The protocol does no I/O of its own. A box that holds bytes (memory, a directory, Kafka) implements these two small
contracts in ``cdcv2.logs``; readers and writers of this box are given one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from cdcv2.core.own_json import checked
from cdcv2.protocol.messages import GarbledMessage, Message


class Position(NamedTuple):
    """Where a message stands in its log; for people in errors, and for resuming.

    ``place`` is the topic or directory, ``part`` the partition (0 in a directory), ``offset`` the Kafka offset
    or file number, ``index`` the message's ordinal within that (0 in Kafka).
    """

    place: str
    part: int
    offset: int
    index: int = 0  # type: ignore[assignment]  # a position is never searched as a tuple is

    def __str__(self) -> str:
        inside = f"#{self.index}" if self.index else ""
        return f"{self.place}[{self.part}]@{self.offset}{inside}"


#: What stands beside a message in a topic, by name: it is no part of any fact.
Headers: TypeAlias = tuple[tuple[str, bytes], ...]


class Entry(NamedTuple):
    """A message, or bytes that are none, with its position, and what stands beside it where there is such a thing."""

    position: Position
    message: Message | GarbledMessage
    headers: Headers = ()


#: A partition of a topic: the topic, and its number there.
Place: TypeAlias = tuple[str, int]


def plain_places(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """An offset of each partition, as JSON can hold it. Cost: sorts them.

    >>> plain_places({("orders", 1): 4, ("orders", 0): 7})
    {'orders': {'0': 7, '1': 4}}
    """
    plain: dict[str, dict[str, int]] = {}
    for (topic, part), offset in sorted(offsets.items()):
        plain.setdefault(topic, {})[str(part)] = offset
    return plain


def places_from_plain(plain: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """What :func:`plain_places` made this of. Raises TypeError and others for anything else. Cost: linear.

    >>> places_from_plain({"orders": {"0": 7}})
    {('orders', 0): 7}
    """
    return {(topic, int(part)): checked(at, int) for topic, parts in plain.items() for part, at in parts.items()}


#: part -> the next offset to read there: everything before it has been read.
Positions: TypeAlias = dict[int, int]


class Source(Protocol):
    """A log that can be read. Called by one thread at a time.

    Promised: every message that was durable before the call is given at least once. Not promised: an order, or
    that a message comes only once.
    """

    @property
    def name(self) -> str:
        """The topic, directory or label: for people."""

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages from ``after`` on (default: from the start), to the end as it was at the call.

        With ``follow`` it does not end: None means that nothing is there now, or nothing has come yet (then a log
        names the parts of which the end was not seen, as ``unread``); ask again. Bytes that are no message come as
        :class:`GarbledMessage`; the consumer judges them. Raises MissingLogError, UnavailableError, UnsafeTopicError
        (messages have been removed that were asked for).
        """

    def ends(self) -> Positions:
        """For each part, the position behind the last message that is there now."""


class Sink(Protocol):
    """A log that can be written. Called by one thread at a time; other processes may write the same log."""

    def canonical(self, data: Any) -> Any:
        """The data as a reader of this log gets them: two data are one exactly when these are equal.

        Raises MalformedError for data that the log cannot hold.
        """

    def send(self, message: Message) -> None:
        """Take a message; it may be buffered. Raises MalformedError for what the log cannot hold."""

    def flush(self) -> None:
        """Return when everything sent is durable; raise (UnavailableError, OutputError) if it may not be.

        After a raise some messages may have become durable, in any order: sending them again is always right.
        """

    def close(self) -> None:
        """Release what the sink holds; states nothing, and flushes nothing that was not asked for."""


class Log(Source, Sink, Protocol):
    """Both: what a writer needs, which reads the log before it goes on with it."""
