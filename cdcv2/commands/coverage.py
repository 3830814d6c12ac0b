"""Logs that a command reads as one, without those of tables that the connector does not cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdcv2.commands.console import remark
from cdcv2.commands.logs import Named
from cdcv2.core.order import Time
from cdcv2.wire.coverage import Coverage, coverage
from cdcv2.wire.description import description_of
from cdcv2.wire.stops import stops_of


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
        for stop in stops_of(named.log for named in self.opened):
            remark(f"{command}: {stop.text}")


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
