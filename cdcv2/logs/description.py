"""What a log states of itself, beside its messages: ordering, timeline, log set, identity, name, where it begins.

A directory log states it in ``_log.json``. A topic states it in headers of every message; one that a capture has opened
and not written to yet has an empty message with these headers. So a reader who has this log alone, in another place and
another cluster, knows it. An attribute is stated when the log is opened to be written so, and is never taken away.

``ordering`` is left out where it is the order of commits, and where the log is of no transactions. ``timeline`` is the
identity of the source or the remap that the log's times come from: logs of two timelines are never read as one.
``identity`` is drawn when a directory log is made, and stands in the header of each of its files, too; that of a topic
is Kafka's own, and in no header, as a copy of the topic has another. ``table`` is the name that the directory had when
a capture first wrote the log, see :mod:`cdcv2.logs.directory_name_check`; a topic's name is its own.
``start`` is left out where the log begins at the least time; it is :data:`UNCOVERED` while the connector does not cover
the log's table, so that nothing is stated of it, and the first time of which something is, once it does. It is
:data:`PARTIAL` where the table's first record changes a row that no record brought: nothing is stated of it, either.

``empty`` is :data:`ASSUMED` if the table was empty at the snapshot only by the user's declaration.

A further attribute is one more field of :class:`LogDescription`. An attribute of one message of a topic, and not of the
whole log, is a header of that message: see :class:`~cdcv2.protocol.log.Entry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

from cdcv2.errors import ForeignStateError, MalformedError, UsageError
from cdcv2.protocol.log import Headers, Log
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER


#: The start of a log of whose table nothing is stated, as the connector does not cover it.
UNCOVERED = "none"
#: The connector covers the table now, and rows that it had before are in no record.
PARTIAL = "partial"
#: The log's table was empty at the snapshot only by the user's declaration, not by a notification.
ASSUMED = "assumed"
#: What a start may be and is no time; the later ones replace the earlier ones, and a time replaces all.
_NO_TIMES = (None, UNCOVERED, PARTIAL)


@dataclass(frozen=True, slots=True)
class LogDescription:
    """What a log states of itself; None: it does not state it.

    >>> LogDescription(timeline="7f").headers()
    (('cdcv2-timeline', b'7f'),)
    >>> LogDescription.from_headers([("cdcv2-ordering", b"complete"), ("other", None)])
    LogDescription(ordering='complete', timeline=None, log_set=None, identity=None, table=None, start=None, empty=None)

    Raises MalformedError for a ``start`` that is neither a time nor :data:`UNCOVERED` or :data:`PARTIAL`.
    """

    ordering: str = COMMIT_ORDER
    timeline: str | None = None
    #: The logs that one capture writes together, by the identity that these have.
    log_set: str | None = None
    identity: str | None = None
    #: The name of the log among those of its capture, in a directory.
    table: str | None = None
    #: Where the log begins, a time; UNCOVERED, PARTIAL: nowhere yet.
    start: str | None = None
    #: ASSUMED: its table was empty at the snapshot by the user's declaration; None: that is not assumed.
    empty: str | None = None

    def __post_init__(self) -> None:
        if not (self.start in _NO_TIMES or (self.start.isascii() and self.start.isdecimal())):
            raise MalformedError(
                f"the start {self.start!r} of a log is no time, and not {UNCOVERED!r} or {PARTIAL!r}"
            )

    @property
    def covered(self) -> bool:
        """Whether something is, or may be, stated of the log's table."""
        return self.start not in (UNCOVERED, PARTIAL)

    @property
    def begins(self) -> int:
        """The first time of which something is stated, or may be.

        >>> LogDescription().begins, LogDescription(start="70").begins
        (0, 70)
        """
        return 0 if self.start in _NO_TIMES else int(self.start)

    def to_plain(self) -> dict[str, str]:
        """What is stated, as it stands in ``_log.json``."""
        stated = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value for name, value in stated.items()
            if value is not None and (name, value) != ("ordering", COMMIT_ORDER)
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> LogDescription:
        """The description in a mapping, which may have other keys. Raises MalformedError for values that are no str."""
        stated = {field.name: plain[field.name] for field in fields(cls) if plain.get(field.name) is not None}
        odd = {name: value for name, value in stated.items() if not isinstance(value, str)}
        if odd:
            raise MalformedError(f"{min(odd)} is {odd[min(odd)]!r}, which is no text")
        return cls(**stated)

    def headers(self) -> Headers:
        """The headers of every message in a topic of this description."""
        stated = replace(self, identity=None, table=None).to_plain()
        return tuple((header(name), value.encode()) for name, value in stated.items())

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, Any]] | None) -> LogDescription:
        """What the headers of a message state of its log. One of a later release may have more of them."""
        found = {name: value for name, value in headers or () if value}
        stated = {field.name: found[header(field.name)] for field in fields(cls) if header(field.name) in found}
        return cls(**{name: str(value, "utf-8", "replace") for name, value in stated.items()})

    def of_copy(self) -> LogDescription:
        """What a copy of the log states, message by message: it is another log, of the same timeline and of no log set.

        >>> LogDescription(timeline="7f", log_set="0c", identity="3e").of_copy() == LogDescription(timeline="7f")
        True
        """
        return replace(self, log_set=None, identity=None, table=None)

    def joined(self, other: LogDescription, name: str) -> LogDescription:
        """What both state of the log ``name``; an ordering other than that of commits stands, and a start that is one.

        Raises ForeignStateError where they name two timelines, two identities or two starts, and names both.
        """
        for attribute, what in ONE_OF_EACH.items():
            one, two = getattr(self, attribute), getattr(other, attribute)
            if not {*_NO_TIMES} & {one, two} and one != two:
                raise ForeignStateError(
                    f"the log {name} is of {what} {one}, and of {what} {two} as well: two logs were mixed, or two "
                    "captures write to one. Give each of them a log of its own"
                )
        begun = {"start"} if _rank(other.start) > _rank(self.start) else set[str]()
        mine = {key: value for key, value in self.to_plain().items() if key not in {"ordering"} | begun}
        ordering = other.ordering if self.ordering == COMMIT_ORDER else self.ordering
        return replace(other, **mine, ordering=ordering)


def _rank(start: str | None) -> int:
    return _NO_TIMES.index(start) if start in _NO_TIMES else len(_NO_TIMES)


#: Attributes of which a log has one at most -> how they are called in errors.
ONE_OF_EACH = {
    "timeline": "the timeline", "log_set": "the log set", "identity": "the identity", "table": "the table",
    "start": "the start", "empty": "the empty table",
}  # fmt: skip


@runtime_checkable
class DescribedLog(Log, Protocol):
    """A log that states something of itself."""

    def description(self) -> LogDescription:
        """What it states, as far as it is known now. Raises what reading raises."""

    def describe(self, description: LogDescription) -> None:
        """Have it state all of this, durably, beside what it states already.

        Raises ForeignStateError where it states something else, and what writing raises.
        """


def description_of(log: Log) -> LogDescription:
    """What the log states of itself; one that cannot state anything states nothing. Raises what reading raises."""
    return log.description() if isinstance(log, DescribedLog) else LogDescription()


def identity_of_copies(identities: Iterable[str | None]) -> str | None:
    """The identity of a table that is read from these logs, its copies; None where one of them states none.

    >>> identity_of_copies(["b", "a", "b"]), identity_of_copies(["a", None])
    ('a,b', None)
    """
    found = set(identities)
    return None if None in found else ",".join(sorted(filter(None, found)))


def known_by(stated: LogDescription, name: str | None) -> list[str]:
    """By what a log is known: its identity; and its place in its log set, where its capture may write it again.

    ``name``: that of the log among those of its capture.

    >>> known_by(LogDescription(log_set="0c", identity="3e"), "orders")
    ['3e', '0c/orders']
    """
    place = f"{stated.log_set}/{name}" if stated.log_set and name else None
    return [known for known in (stated.identity, place) if known is not None]


def header(attribute: str) -> str:
    """The name of the header that states an attribute in a topic.

    >>> header("log_set")
    'cdcv2-log-set'
    """
    return f"cdcv2-{attribute.replace('_', '-')}"


def check_ordering(ordering: str) -> str:
    """The ordering, if it is one. Raises UsageError."""
    if ordering not in (COMMIT_ORDER, AS_COMPLETE):
        raise UsageError(f"the ordering is {COMMIT_ORDER!r} or {AS_COMPLETE!r}, not {ordering!r}")
    return ordering
