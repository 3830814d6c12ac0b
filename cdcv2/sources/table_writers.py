"""The writers of a capture's logs, one for each table that the connector covers.

A log states where it begins (:class:`~cdcv2.wire.description.LogDescription`). That the connector does not cover its
table is stated before anything is stated in any other log, so that one that a crash left behind is not taken for such a
one. When it is covered, where it begins is stated first, then its first interval, and then those of the other logs: so
these are never stated beyond a time at which it lacks something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cdcv2 import steps
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import ForeignStateError, MalformedError, UsageError
from cdcv2.protocol.log import Log
from cdcv2.protocol.messages import Update
from cdcv2.protocol.writer import Writer
from cdcv2.reclock.binding import check_int
from cdcv2.sources.release import Release
from cdcv2.sources.remembered import FORGET
from cdcv2.wire.description import PARTIAL, UNCOVERED, Describing, LogDescription, description_of

LOGGER = logging.getLogger(__name__)

TABLE_WRITTEN = steps.declare("capture.table-written", "the updates of one more table are durable; no statement is")
UPDATES_DURABLE = steps.declare("capture.updates-durable", "the updates of every table are durable; no statement is")
COVERED = steps.declare("coverage.start-durable", "where the logs of tables that are covered now begin is durable")
TABLE_STATED = steps.declare("capture.table-stated", "the statement of one more table is durable")


class TableWriters:
    """Writes the logs of tables, by their names. ``kept`` is what :meth:`export` gave; tables of which it has nothing
    are read from their start.

    Raises what opening and reading the logs raises. Cost: reads what the logs got since.
    """

    def __init__(self, logs: Mapping[str, Log], kept: Mapping[str, Any], updates_per_message: int) -> None:
        self.logs, self._chunk = dict(sorted(logs.items())), updates_per_message
        self._writers: dict[str, Writer] = {}
        # Table -> where its log begins.
        self._starts: dict[str, int] = {}
        # Tables of which nothing is stated, whose logs state that; and those of them that have rows in no record.
        self._uncovered, self._partial = set[str](), set[str]()
        for table, log in self.logs.items():
            self._open(table, log, kept.get(table))

    def _open(self, table: str, log: Log, kept: Mapping[str, Any] | None) -> None:
        stated = description_of(log)
        writer = self._writer(log, kept, stated.begins)
        begun = stated.covered and not stated.begins
        if begun or _number(writer.known, table) > stated.begins:
            self._writers[table], self._starts[table] = writer, stated.begins
            if not stated.covered:
                # Another capture has found that it is, from the beginning on.
                _describe(log, "0")
        else:
            self._uncovered.add(table)
            self._partial |= {table} if stated.start == PARTIAL else set()

    def _writer(self, log: Log, kept: Mapping[str, Any] | None, start: int) -> Writer:
        """One that reads only what its log got since it was exported, where that fits the log."""
        positions = {int(part): offset for part, offset in kept["positions"].items()} if kept is not None else {}
        ends = log.ends() if positions else {}
        if kept is not None and "marks" in kept and all(ends.get(part, 0) >= at for part, at in positions.items()):
            try:
                state = {**kept, "positions": positions}
                return Writer(log, start=[start], updates_per_message=self._chunk, state=state)
            except ForeignStateError as cause:
                raise ForeignStateError(f"{cause}. It is that of the memory: {FORGET}") from None
            except MalformedError as cause:
                LOGGER.info("log %s is read from its start: %s", log.name, cause)
        return Writer(log, start=[start], updates_per_message=self._chunk)

    # -- what the logs say

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables of which nothing is stated, as the connector does not cover them."""
        return frozenset(self._uncovered)

    @property
    def partial(self) -> frozenset[str]:
        """Those of them of which there are records, as their logs state, and rows that are in no record."""
        return frozenset(self._partial)

    @property
    def describing(self) -> bool:
        """Whether each log can state that its table is not covered."""
        return all(isinstance(log, Describing) for log in self.logs.values())

    def knowns(self) -> dict[str, int]:
        """For each table that is covered, up to where its log is stated."""
        return {table: _number(writer.known, table) for table, writer in self._writers.items()}

    def starts(self) -> dict[str, int]:
        """For each table that is covered, where its log begins."""
        return dict(self._starts)

    def firsts(self) -> dict[str, tuple[int, int]]:
        """The first time at which each log has updates, where it is known, and the sum of their diffs."""
        found = {table: one.first for table, one in self._writers.items()}
        return {table: (check_int(first[0]), first[1]) for table, first in found.items() if first}

    def spans(self) -> dict[str, tuple[Time, Time] | None]:
        """The first and the last time at which each log has updates; None: it has none."""
        return {table: self._writers[table].span if table in self._writers else None for table in self.logs}

    # -- writing

    def write(
        self, release: Release, updates: Callable[[str], Iterable[Update]], durable: Callable[[], object]
    ) -> None:
        """Make a release durable, and state it; ``durable`` is called between both. Raises what the logs raise."""
        self._cover(release)
        for table, writer in self._writers.items():
            writer.extend(updates(table))
            writer.stage(release.frontier.join(Antichain([self._starts[table]])))
            steps.reach(TABLE_WRITTEN)
        steps.reach(UPDATES_DURABLE)
        durable()
        # Where the others are stated, nothing may be lacking of those that begin.
        for table in sorted(self._writers, key=lambda table: (table not in release.begins, table)):
            self._writers[table].commit()
            steps.reach(TABLE_STATED)

    def _cover(self, release: Release) -> None:
        for table in sorted(release.uncovered - self._uncovered):
            _describe(self.logs[table], UNCOVERED)
            self._uncovered.add(table)
            self._writers.pop(table, None)
        for table in sorted(release.partial - self._partial):
            _describe(self.logs[table], PARTIAL)
            self._partial.add(table)
            LOGGER.warning("%s is left out: its first record changes a row that no record brought", table)
        for table, begins in sorted(release.begins.items()):
            _describe(self.logs[table], str(begins))
            self._uncovered.discard(table)
            self._partial.discard(table)
            self._writers[table], self._starts[table] = self._writer(self.logs[table], None, begins), begins
        if release.begins:
            steps.reach(COVERED)

    def export(self) -> dict[str, Any]:
        """What spares the next one reading the logs from their start; None: a reader still held rows, after a crash."""
        return {table: _plain_state(writer) for table, writer in self._writers.items()}

    def close(self) -> None:
        """Release the logs. States nothing."""
        for log in self.logs.values():
            log.close()


def _describe(log: Log, start: str) -> None:
    if not isinstance(log, Describing):
        raise UsageError(f"the log {log.name} cannot state that it begins later than others")
    log.describe(LogDescription(start=start))


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
