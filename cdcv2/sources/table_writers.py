"""The writers of a capture's logs, one for each table that the connector covers: by commit times, and on a remap.

A log states where it begins (:class:`~cdcv2.wire.description.LogDescription`). That the connector does not cover its
table is stated before anything is stated in any other log, so that one that a crash left behind is not taken for such a
one. When it is covered, where it begins is stated first, then its first interval, and then those of the other logs: so
these are never stated beyond a time at which it lacks something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
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

    On a remap it is opened without that, and :meth:`cover` and :attr:`writers` are what is used of it: there others may
    write the same logs at once, so that a log may begin at a time that this capture has not come to.

    Raises what opening and reading the logs raises. Cost: reads what the logs got since.
    """

    def __init__(
        self, logs: Mapping[str, Log], kept: Mapping[str, Any] | None = None, updates_per_message: int = 1000
    ) -> None:
        self.logs, self._chunk = dict(sorted(logs.items())), updates_per_message
        self._writers: dict[str, Writer] = {}
        # Table -> where its log begins.
        self._starts: dict[str, int] = {}
        # Tables of which nothing is stated, whose logs state that; and those of them that have rows in no record.
        self._uncovered, self._partial = set[str](), set[str]()
        # Of these, where the log begins, if it states that and nothing else yet.
        self._waiting: dict[str, int] = {}
        for table, log in self.logs.items():
            self._open(table, log, (kept or {}).get(table))

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
            if stated.begins:
                self._waiting[table] = stated.begins

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

    def waiting(self) -> dict[str, int]:
        """For each table that counts as not covered and whose log states where it begins, where that is."""
        return dict(self._waiting)

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

    # -- writing

    def write(
        self, release: Release, updates: Callable[[str], Iterable[Update]], durable: Callable[[], object]
    ) -> None:
        """Make a release durable, and state it; ``durable`` is called between both. Raises what the logs raise."""
        self.cover(release.uncovered, release.begins, release.partial)
        for table, writer in self._writers.items():
            writer.extend(updates(table))
            writer.stage(release.frontier.join(Antichain([self._starts[table]])))
            steps.reach(TABLE_WRITTEN)
        steps.reach(UPDATES_DURABLE)
        durable()
        # Where the others are stated, nothing may be lacking of those that begin.
        for table in first_begun(self._writers, release.begins):
            self._writers[table].commit()
            steps.reach(TABLE_STATED)

    def cover(self, uncovered: Iterable[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Have the logs state which tables are not covered, and where those begin that are from now on.

        ``partial`` are those of the former that have rows which are in no record.

        To be called before anything is stated of the times that come now. Raises what the logs raise.
        """
        for table in sorted(set(uncovered) - self._uncovered):
            _describe(self.logs[table], UNCOVERED)
            self._uncovered.add(table)
            self._writers.pop(table, None)
            self._starts.pop(table, None)
        for table in sorted(set(partial) - self._partial):
            _describe(self.logs[table], PARTIAL)
            self._partial.add(table)
            LOGGER.warning("%s is left out: its first record changes a row that no record brought", table)
        for table, start in sorted(begins.items()):
            _describe(self.logs[table], str(start))
            self._uncovered.discard(table)
            self._partial.discard(table)
            self._waiting.pop(table, None)
            self._writers[table], self._starts[table] = self._writer(self.logs[table], None, start), start
        if begins:
            steps.reach(COVERED)

    def export(self) -> dict[str, Any]:
        """What spares the next one reading the logs from their start; None: a reader still held rows, after a crash."""
        return {table: _plain_state(writer) for table, writer in self._writers.items()}

    def close(self) -> None:
        """Release the logs. States nothing."""
        for log in self.logs.values():
            log.close()


def first_begun(tables: Iterable[str], begins: Collection[str]) -> list[str]:
    """The order in which tables are stated: where the others are, nothing may be lacking of those that begin.

    >>> first_begun("abc", "b")
    ['b', 'a', 'c']
    """
    return sorted(tables, key=lambda table: (table not in begins, table))


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
