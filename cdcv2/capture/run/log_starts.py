"""Which of a capture's logs are of tables that the connector covers, and where each of them begins.

A log states where it begins (:class:`~cdcv2.logs.description.LogDescription`). That the connector does not cover its
table is stated before anything is stated in any other log, so that one that a crash left behind is not taken for such a
one. When it is covered, where it begins is stated first, then its first interval, and then those of the other logs: so
these are never stated beyond a time at which it lacks something.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cdcv2 import failpoints
from cdcv2.capture.coverage import has_started
from cdcv2.errors import UsageError
from cdcv2.logs.description import ASSUMED, PARTIAL, UNCOVERED, DescribedLog, LogDescription, description_of
from cdcv2.protocol.log import Log

LOGGER = logging.getLogger(__name__)

COVERED = failpoints.declare("coverage.start-durable", "where the logs of tables that are covered now begin is durable")


class LogStarts:
    """Where the logs of tables begin, as they state it. ``logs`` has the log of each table.

    The caller opens a log, reads it from :meth:`stated` on, and reports with :meth:`opened` how far it is stated.
    """

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self._logs = dict(logs)
        self._stated: dict[str, LogDescription] = {}
        # Table -> its start as the log states it; None: it states none.
        self._texts: dict[str, str | None] = {}
        # Table -> where its log begins; tables of which nothing is stated; those of them that have rows in no record.
        self._begin: dict[str, int] = {}
        self._uncovered, self._partial = set[str](), set[str]()
        # Of these, where the log begins, if it states that and nothing else yet.
        self._waiting: dict[str, int] = {}

    @property
    def describing(self) -> bool:
        """Whether each log can state that its table is not covered."""
        return all(isinstance(log, DescribedLog) for log in self._logs.values())

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables of which nothing is stated, as the connector does not cover them."""
        return frozenset(self._uncovered)

    @property
    def partial(self) -> frozenset[str]:
        """Of the uncovered tables, those whose log states that the records do not have all rows of the table."""
        return frozenset(self._partial)

    @property
    def waiting(self) -> dict[str, int]:
        """For each table that counts as not covered and whose log states where it begins, where that is."""
        return dict(self._waiting)

    @property
    def begin(self) -> dict[str, int]:
        """For each table that is covered, where its log begins."""
        return dict(self._begin)

    def text(self, table: str) -> str | None:
        """The start of a log that was opened, as it states it; None: it states none, and begins at the least time."""
        return self._texts.get(table)

    def stated(self, table: str) -> int:
        """Where the log states that it begins. Raises what reading a description raises."""
        stated = self._stated[table] = description_of(self._logs[table])
        self._texts[table] = stated.start
        return stated.begins

    def opened(self, table: str, known: int) -> bool:
        """The log is stated up to ``known``, read from its start on: whether its table is covered."""
        stated = self._stated[table]
        if not has_started(None if not stated.covered else stated.begins, known):
            self._uncovered.add(table)
            self._partial |= {table} if stated.start == PARTIAL else set()
            if stated.begins:
                self._waiting[table] = stated.begins
            return False
        self._begin[table] = stated.begins
        if not stated.covered:
            # Another capture has found that it is, from the beginning on.
            self._describe(table, "0")
        return True

    def cover(self, uncovered: Iterable[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Have the logs state, durably, which tables are not covered, and where those begin that are from now on.

        ``partial`` are those of the former that have rows which are in no record. To be called before anything of a
        release is written. Raises UsageError for a log that cannot state it, and what writing a description raises.
        """
        for table in sorted(set(uncovered) - self._uncovered):
            self._describe(table, UNCOVERED)
            self._uncovered.add(table)
            self._begin.pop(table, None)
        for table in sorted(set(partial) - self._partial):
            self._describe(table, PARTIAL)
            self._partial.add(table)
            LOGGER.warning("%s is left out: its first record changes a row that no record brought", table)
        for table, time in sorted(begins.items()):
            self._describe(table, str(time))
            self._uncovered.discard(table)
            self._partial.discard(table)
            self._waiting.pop(table, None)
            self._begin[table] = time
        if begins:
            failpoints.reach(COVERED)

    def assume(self, empty: Iterable[str]) -> None:
        """Have the logs of these tables state, durably, that they were empty at the snapshot by the user's declaration.

        Call it before anything is stated of them. A log without a description is left out. Raises what writing a
        description raises.
        """
        for table in sorted(set(empty) & self._stated.keys()):
            log = self._logs[table]
            if isinstance(log, DescribedLog) and self._stated[table].empty is None:
                log.describe(LogDescription(empty=ASSUMED))
                self._stated[table] = replace(self._stated[table], empty=ASSUMED)

    def empty(self, table: str) -> str | None:
        """What a log that was opened states of that; None: nothing."""
        return self._stated[table].empty

    def _describe(self, table: str, start: str) -> None:
        log = self._logs[table]
        if not isinstance(log, DescribedLog):
            raise UsageError(f"the log {log.name} cannot state that it begins later than others")
        log.describe(LogDescription(start=start))
        self._texts[table] = start
