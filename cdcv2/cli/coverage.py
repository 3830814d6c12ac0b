"""What a command remarks of the logs that it reads: tables that are not covered, and stops that the logs keep."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from cdcv2.cli.console import remark
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import CoveredLogs, NamedLog
from cdcv2.logs.stops import Stop, in_headers, stops_of
from cdcv2.protocol.log import Entry

#: How often, in seconds, directories that are followed are looked into for a stop.
_LOOK = 1.0


def remark_logs(command: str, found: CoveredLogs) -> None:
    """Name the tables that are not covered, or not from the beginning on, and why a capture stopped for good: what is
    complete is given out, and nothing comes after it any more.

    Raises what reading stops raises. Cost: a look at each log's last messages.
    """
    remark_coverage(command, found)
    StopRemarks(command, found.opened).look()


def remark_coverage(command: str, found: CoveredLogs) -> None:
    """Name the tables that are not covered, or not from the beginning on."""
    for text in found.of.texts():
        remark(f"{command}: {text}")


class StopRemarks:
    """Names each stop that some logs keep, once, whenever it is found. ``command`` is who names it.

    While a log is followed, a stop comes into a topic as a message, and into a directory as a file beside the log.
    """

    def __init__(self, command: str, logs: Sequence[NamedLog]) -> None:
        self._command, self._logs = command, [named.log for named in logs]
        self._named = set[Stop]()
        self._next = 0.0

    def look(self) -> None:
        """Name those that the logs keep now. Raises what reading them raises. Cost: a look at their last messages."""
        self._name(stops_of(self._logs))

    def after_message(self, entry: Entry | None) -> None:
        """Name those that came with a message, or, where there is none now (None), those of directories; by and by."""
        if entry is not None:
            self._name(in_headers(entry.headers))
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOOK
            self._name(stops_of(log for log in self._logs if isinstance(log, DirectoryLog)))

    def _name(self, stops: Iterable[Stop]) -> None:
        for stop in stops:
            if stop not in self._named:
                remark(f"{self._command}: {stop.text}")
            self._named.add(stop)
