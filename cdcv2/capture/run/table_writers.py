"""The writers of a capture's logs, one for each table that the connector covers: by commit times, and on a remap."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from cdcv2.capture.engine import LogsState
from cdcv2.capture.memory_format import FORGET
from cdcv2.capture.run.log_starts import LogStarts
from cdcv2.capture.updates_then_statements import Advance, WriterLogs
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import ForeignStateError, MalformedError, UsageError
from cdcv2.logs.stops import stop_of
from cdcv2.protocol.log import Log
from cdcv2.protocol.messages import Update
from cdcv2.protocol.sums import Sums
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.binding import check_int

LOGGER = logging.getLogger(__name__)


class Tables(Protocol):
    """The logs of a database's tables, with or without Spark: those of :class:`TableWriters` that a remap needs."""

    @property
    def logs(self) -> Mapping[str, Log]:
        """Those of all tables."""

    @property
    def writers(self) -> Mapping[str, Writer]:
        """Those of the tables that are covered, if they are written here."""

    @property
    def log_starts(self) -> LogStarts:
        """Which of them are of tables that are covered, and where they begin."""

    def log_frontiers(self) -> dict[str, int]:
        """Up to where the logs are stated."""

    def spans(self) -> dict[str, tuple[Time, Time] | None]:
        """When the logs have updates."""

    def rows(self) -> dict[str, tuple[int, int]]:
        """Of each log that begins with the history how many rows its table has, and at which time."""

    def cover(self, uncovered: Collection[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Have the logs state which tables are not covered, and where those begin that are from now on."""

    def assume(self, empty: Iterable[str]) -> None:
        """Have the logs of these tables state that they were empty at the snapshot."""

    def close(self) -> None:
        """Release the logs."""


class TableWriters:
    """Writes the logs of tables, by their names. ``kept`` is what :meth:`export` gave; tables of which it has nothing
    are read from their start.

    On a remap it is opened without that, and :meth:`cover` and :attr:`writers` are what is used of it: there others may
    write the same logs at once, so that a log may begin at a time that this capture has not come to.

    Raises what opening and reading the logs raises. Cost: reads what the logs got since.
    """

    def __init__(
        self, logs: Mapping[str, Log], kept: Mapping[str, Any] | None = None, updates_per_message: int = 1000
    ) -> None:
        self.logs: Mapping[str, Log] = dict(sorted(logs.items()))
        self._chunk = updates_per_message
        self._writers: dict[str, Writer] = {}
        #: Which of them are of tables that are covered, and where they begin.
        self.log_starts = LogStarts(self.logs)
        for table, log in self.logs.items():
            writer = self._writer(log, (kept or {}).get(table), self.log_starts.stated(table))
            if self.log_starts.opened(table, _number(writer.known, table)):
                self._writers[table] = writer

    def _writer(self, log: Log, kept: Mapping[str, Any] | None, start: int) -> Writer:
        """One that reads only what its log got since it was exported, where that fits the log."""
        positions = {int(part): offset for part, offset in kept["positions"].items()} if kept is not None else {}
        ends = log.ends() if positions else {}
        whole = kept is not None and "marks" in kept and kept.get("rows") is not None
        if kept is not None and whole and all(ends.get(part, 0) >= at for part, at in positions.items()):
            try:
                state = {**kept, "positions": positions}
                return Writer(log, start=[start], updates_per_message=self._chunk, state=state)
            except ForeignStateError as cause:
                raise ForeignStateError(f"{cause}. It is that of the memory: {FORGET}") from None
            except MalformedError as cause:
                LOGGER.info("log %s is read from its start: %s", log.name, cause)
        return Writer(log, start=[start], updates_per_message=self._chunk)

    # -- what the logs state

    def log_frontiers(self) -> dict[str, int]:
        """For each table that is covered, up to where its log is stated."""
        return {table: _number(writer.known, table) for table, writer in self._writers.items()}

    @property
    def writers(self) -> dict[str, Writer]:
        """Those of the tables that are covered."""
        return dict(self._writers)

    def firsts(self) -> dict[str, tuple[int, int]]:
        """The first time at which each log has updates, where it is known, and the sum of their diffs."""
        found = {table: one.first for table, one in self._writers.items()}
        return {table: (check_int(first[0]), first[1]) for table, first in found.items() if first}

    def spans(self) -> dict[str, tuple[Time, Time] | None]:
        """The first and the last time at which each log has updates; None: it has none."""
        return {table: self._writers[table].span if table in self._writers else None for table in self.logs}

    def rows(self) -> dict[str, tuple[int, int]]:
        """Of each log that begins with the history how many rows its table had when it was opened, and at which time.

        The history of a table that was covered later may begin with rows that are in no record.
        """
        begun = {table: one for table, one in self._writers.items() if not self.log_starts.begin[table]}
        return {table: (one.rows, _number(one.read_to, table)) for table, one in begun.items() if one.rows is not None}

    def stated(self) -> LogsState:
        """What the logs state, for the decisions of a capture. Raises what reading a stop raises."""
        starts = self.log_starts
        return LogsState(
            self.log_frontiers(), self.firsts(), self.spans(), starts.uncovered, starts.partial, starts.describing,
            stop_of(self.logs.values()), self.rows(),
        )

    # -- writing

    def cover(self, uncovered: Collection[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Have the logs state which tables are not covered, and where those begin that are from now on.

        ``partial`` are those of the former that have rows which are in no record. To be called before anything is
        stated of the times that come now. Raises what the logs raise.
        """
        self.log_starts.cover(uncovered, begins, partial)
        for table in uncovered:
            self._writers.pop(table, None)
        for table, start in sorted(begins.items()):
            self._writers[table] = self._writer(self.logs[table], None, start)

    def assume(self, empty: Iterable[str]) -> None:
        """Have the logs of these tables state that they were empty at the snapshot; see LogStarts."""
        self.log_starts.assume(empty)

    def export(self) -> dict[str, Any]:
        """What spares the next one reading the logs from their start; None: a reader still held rows, after a crash."""
        return {table: _plain_state(writer) for table, writer in self._writers.items()}

    def close(self) -> None:
        """Release the logs. States nothing."""
        for log in self.logs.values():
            log.close()


class CoveredTableLogs(WriterLogs):
    """Logs of which some may be of tables that the connector does not cover.

    ``updates`` and ``sums`` are of those that it does.
    """

    def __init__(
        self, tables: Tables, updates: Callable[[str], Iterable[Update]],
        sums: Mapping[str, Iterable[tuple[Time, Sums]]] = MappingProxyType({}),
    ) -> None:
        super().__init__({}, updates, sums)
        self._of, self._begins = tables, dict[str, int]()

    def cover(self, advance: Advance) -> None:
        """As the logs state, and are to state now."""
        self._of.cover(advance.uncovered, advance.begins, advance.partial)
        self._of.assume(advance.empty)
        self._writers, self._begins = self._of.writers, self._of.log_starts.begin

    def begin(self, table: str) -> int:
        """As the log states."""
        return self._begins[table]


def _plain_state(writer: Writer) -> dict[str, Any] | None:
    state = writer.export_state()
    if state["reader"]["stash"]["updates"]:
        return None
    return {**state, "positions": {str(part): at for part, at in state["positions"].items()}}


def _number(known: Antichain, table: str) -> int:
    times: list[Time] = list(known)
    if len(times) != 1 or type(times[0]) is not int:
        raise UsageError(f"the log of {table} has times that are no LSNs ({known}): capture needs a log of its own")
    return times[0]
