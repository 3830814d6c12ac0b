"""Logs that a command reads as one, without those of tables that the connector does not cover."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdcv2.commands.console import remark
from cdcv2.commands.logs import Named
from cdcv2.core.order import Time
from cdcv2.protocol.log import Entry
from cdcv2.wire.coverage import Coverage, coverage
from cdcv2.wire.description import description_of
from cdcv2.wire.files import DirectoryLog
from cdcv2.wire.stops import Stop, in_headers, stops_of

#: How often, in seconds, directories that are followed are looked into for a stop.
_LOOK = 1.0


@dataclass(frozen=True)
class Covered:
    """The logs that are to be read, and what all that were opened state of their tables."""

    logs: list[Named]
    opened: Sequence[Named]
    of: Coverage

    @property
    def starts(self) -> dict[str, list[Time]]:
        """Where the logs begin that begin later than others, as a Timeline takes it."""
        return {table: [time] for table, time in self.of.starts.items()}

    def demand_still(self) -> None:
        """Raise RefusedError if a table is covered by now that was not when the logs were opened."""
        self.of.demand_still(lambda: covered(self.opened).of)

    def remark(self, command: str) -> None:
        """Name the tables that are not covered, or not from the beginning on, and why a capture stopped for good."""
        self.remark_coverage(command)
        self.remark_stops(command)

    def remark_coverage(self, command: str) -> None:
        """Name the tables that are not covered, or not from the beginning on."""
        for text in self.of.texts():
            remark(f"{command}: {text}")

    def remark_stops(self, command: str) -> None:
        """Name the stops that the logs keep: what is complete is given out, and nothing comes after it any more.

        Raises what reading them raises. Cost: a look at each log's last messages.
        """
        StopRemarks(command, self.opened).look()


class StopRemarks:
    """Names each stop that some logs keep, once, whenever it is found. ``command`` is who names it.

    While a log is followed, a stop comes into a topic as a message, and into a directory as a file beside the log.
    """

    def __init__(self, command: str, logs: Sequence[Named]) -> None:
        self._command, self._logs = command, [named.log for named in logs]
        self._named = set[Stop]()
        self._next = 0.0

    def look(self) -> None:
        """Name those that the logs keep now. Raises what reading them raises. Cost: a look at their last messages."""
        self._name(stops_of(self._logs))

    def heard(self, entry: Entry | None) -> None:
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


def covered(logs: Sequence[Named]) -> Covered:
    """Those of them that are. Raises what reading a description raises. Cost: a look at each log's description."""
    described = [(named, description_of(named.log)) for named in logs]
    return Covered(
        [named for named, stated in described if stated.covered], logs,
        coverage((named.table, stated) for named, stated in described),
    )


def some_covered(logs: Sequence[Named]) -> Covered:
    """The same; raises IncompleteError where none of them is."""
    found = covered(logs)
    if not found.logs:
        found.of.demand(found.of.uncovered)
    return found
