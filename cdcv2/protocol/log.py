"""What a log must offer: a :class:`Source` to read it, a :class:`Sink` to write it; and how it is named.

The protocol does no I/O of its own. A box that holds bytes (memory, a directory, Kafka) implements these two small
contracts in ``cdcv2.logs``; readers and writers of this box are given one. The word that names a log on a command line,
in a job's arguments or in a YAML file is a :class:`LogAddress`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from cdcv2.core.own_json import checked
from cdcv2.errors import UsageError
from cdcv2.protocol.messages import GarbledMessage, Message

#: In an address, what stands for the name of a log: a capture has one for each table.
TEMPLATE = "{table}"
_KAFKA = "kafka"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class LogAddress:
    """Where a log is, or with ``{table}`` where several are: ``kafka:TOPIC``, or a directory of this machine.

    A remap is named in the same way. Anything else that begins with ``NAME:`` (s3://, file://, ...) is refused, so that
    it never becomes a directory of that name; a directory that is called so is written with ``./`` before it.

    Attributes:
        kind: ``"topic"`` or ``"directory"``.
        name: the topic, or the path as it was written.
        table: the table that the log is (a copy) of, where the address was given with one.

    >>> LogAddress.parse("kafka:shop.{table}").of("public.orders")
    LogAddress(kind='topic', name='shop.public.orders', table=None)
    >>> str(LogAddress.parse("logs").of("public.orders"))
    'logs/public.orders'

    Cost: that of the text.
    """

    kind: Literal["topic", "directory"]
    name: str
    table: str | None = None

    @classmethod
    def parse(cls, text: str, table: str | None = None) -> LogAddress:
        """The address that the text is. Raises UsageError for an empty one, a URL, and what no topic is called."""
        scheme = _SCHEME.match(text)
        if not (text[scheme.end():] if scheme and scheme[1] == _KAFKA else text):
            raise UsageError(f"{text!r} names nothing; the current directory is written as a dot")
        if scheme is None:
            return cls("directory", text, table)
        if scheme[1] != _KAFKA:
            path = f"; a directory that is called so is written ./{text}" if "://" not in text else ""
            raise UsageError(
                f"{text!r} cannot be used: {scheme[1]}: is not supported, as put-if-absent is known for local "
                f"directories only. Write the path of a directory, or kafka:TOPIC{path}"
            )
        return cls.topic(text[scheme.end():], table)

    @classmethod
    def topic(cls, name: str, table: str | None = None) -> LogAddress:
        """The address of a topic, by its name. Raises UsageError for what no topic is called."""
        if not _TOPIC.fullmatch(name.replace(TEMPLATE, "t")):
            raise UsageError(
                f"{name!r} is no name of a topic, which has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
            )
        return cls("topic", name, table)

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic of Kafka, or several."""
        return self.kind == "topic"

    @property
    def is_template(self) -> bool:
        """Whether the name has ``{table}`` in it."""
        return TEMPLATE in self.name

    def of(self, table: str) -> LogAddress:
        """The address of one log of several. Without ``{table}`` a directory holds them, each called like its table.

        Raises UsageError for a topic without ``{table}``, and for a table after which no topic can be called.
        """
        if self.is_topic:
            self.demand_several()
            return LogAddress.parse(str(self).replace(TEMPLATE, table))
        path = self.name if self.is_template else f"{self.name.rstrip('/')}/{TEMPLATE}"
        return LogAddress("directory", path.replace(TEMPLATE, table))

    def demand_several(self) -> None:
        """Raise UsageError unless the logs of several tables can be there."""
        if self.is_topic and not self.is_template:
            raise UsageError(f"{self}: the topics of several tables need names, {_KAFKA}:NAME.{TEMPLATE}")

    def demand_one(self) -> None:
        """Raise UsageError unless it names one place: a log to read, a remap."""
        if self.is_topic and self.is_template:
            raise UsageError(f"{self} names a topic for each table: name one of these")

    def __str__(self) -> str:
        return f"{_KAFKA}:{self.name}" if self.is_topic else self.name


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
