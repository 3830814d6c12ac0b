"""Reads a log to its end as it is now, and then what follows: so it is known when all that was there has been read.

A reader that follows gives None where nothing is there now. That may be before anything came: a broker sends later than
it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol, runtime_checkable

from cdcv2.protocol.log import Entry, Source


@runtime_checkable
class FetchedLog(Protocol):
    """A log that is fetched from elsewhere: its None may come before something that was there all the time."""

    #: The parts of which a reader that follows has not seen the end yet.
    unread: Collection[int]


def is_empty(log: Source) -> bool:
    """Whether the None that a log has just given, as it is followed, means that there is nothing more now."""
    return not isinstance(log, FetchedLog) or not log.unread


def read_on(log: Source, reached: Callable[[], object]) -> Iterator[Entry | None]:
    """The messages that are there now, ``reached()``, None, and then those that follow, as a log that is followed.

    >>> from cdcv2.logs.memory import MemoryLog
    >>> from cdcv2.protocol.messages import Progress
    >>> log = MemoryLog("log", [Progress([0], [3], {})])
    >>> reading = read_on(log, lambda: print("all that was there"))
    >>> next(reading).message.upper, next(reading)
    all that was there
    (Antichain([3]), None)
    >>> log.send(Progress([3], [9], {})); log.flush()
    >>> next(reading).message.upper
    Antichain([9])

    Raises what reading the log raises; while it reads what is there now, also UnavailableError. Cost: that of the log.
    """
    ends = log.ends()
    # What comes between these two lines is given twice, as a log may do.
    yield from log.read()
    reached()
    yield None
    yield from log.read(ends, follow=True)
