"""How a log is named: by one word on a command line, in a job's arguments or in a YAML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cdcv2.errors import UsageError

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
