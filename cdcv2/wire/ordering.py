"""In which order a log has the transactions that it was captured from, as the log itself tells.

A log says nothing where that is the order of commits, or where it is of no transactions. One whose capture gives each
transaction out as soon as it is complete is marked, so that whoever has this log alone, in another place and another
cluster, knows it: a directory in ``_log.json``, a topic by a header of every message. A log is marked when it is opened
to be written so, before anything is in it, and the mark is never taken away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from cdcv2.errors import UsageError
from cdcv2.protocol.log import Log
from cdcv2.reclock.temp import AS_COMPLETE, COMMIT_ORDER

#: The header of messages, and the name in a directory's description.
HEADER, NAME = "cdcv2-ordering", "ordering"


@runtime_checkable
class Marked(Protocol):
    """A log that may be marked."""

    def ordering(self) -> str:
        """``COMMIT_ORDER``, or what the log is marked with. Raises what reading raises."""


def ordering_of(log: Log) -> str:
    """The ordering that a log tells; one that cannot tell is in the order of commits."""
    return log.ordering() if isinstance(log, Marked) else COMMIT_ORDER


def check_ordering(ordering: str) -> str:
    """The ordering, if it is one. Raises UsageError."""
    if ordering not in (COMMIT_ORDER, AS_COMPLETE):
        raise UsageError(f"the ordering is {COMMIT_ORDER!r} or {AS_COMPLETE!r}, not {ordering!r}")
    return ordering


def headers(ordering: str) -> list[tuple[str, bytes]]:
    """The headers of a message in a topic of this ordering."""
    return [] if ordering == COMMIT_ORDER else [(HEADER, ordering.encode())]


def told(given: Iterable[tuple[str, Any]] | None) -> str | None:
    """The ordering that the headers of a message tell, if they do. A mark of a later release is one, too."""
    return next((str(value or b"", "utf-8", "replace") for name, value in given or () if name == HEADER), None)
