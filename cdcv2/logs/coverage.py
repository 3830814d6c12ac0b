"""Which tables the connector covers, of logs that are read as one, and from which time on.

Nothing is stated of a table of which the connector never spoke, and a reader of several logs goes on without it. From
its first record on it has a log, which begins there. The capture states where, durably, before it states anything of
that time in any log. So a reader that has found a table not to be covered, and finds it so again behind what it has
read of the other logs, has left nothing out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, less_equal
from cdcv2.errors import IncompleteError, LateTableError, UsageError
from cdcv2.logs.description import PARTIAL, LogDescription


#: What gives the rows of a table that the connector covers only since a while.
SNAPSHOT_OF_IT = (
    "Only a new snapshot that covers it has its rows: let the connector capture the table, and start over with one "
    "(a new place in the source, new topics, new logs)"
)


class TableCoverage(NamedTuple):
    """What logs state of it: the tables that are not covered, and where those begin that are covered later.

    ``partial`` are those of the former of which the connector sends records by now, and rows are in none of these.

    >>> of = coverage([("a", LogDescription()), ("b", LogDescription(start="none")), ("c", LogDescription(start="7"))])
    >>> of
    TableCoverage(uncovered=('b',), starts={'c': 7}, partial=())
    >>> of.start("a", Antichain([3])), of.start("c", Antichain([3]))
    (Antichain([3]), Antichain([7]))
    """

    uncovered: tuple[str, ...]
    starts: Mapping[str, int]
    partial: tuple[str, ...] = ()

    def start(self, table: str, start: Antichain) -> Antichain:
        """Where the history of a table is read from, if that of the timeline is from ``start``."""
        return start.join(Antichain([self.starts[table]])) if table in self.starts else start

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"uncovered": list(self.uncovered), "starts": dict(self.starts), "partial": list(self.partial)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableCoverage:
        """What :meth:`to_plain` made this of.

        >>> TableCoverage.from_plain(TableCoverage(("b",), {"c": 7}).to_plain())
        TableCoverage(uncovered=('b',), starts={'c': 7}, partial=())
        """
        return cls(tuple(plain["uncovered"]), dict(plain["starts"]), tuple(plain["partial"]))

    def of(self, table: str) -> TableCoverage:
        """That of this table alone."""
        starts = {name: at for name, at in self.starts.items() if name == table}
        return TableCoverage(
            tuple({table}.intersection(self.uncovered)), starts, tuple({table}.intersection(self.partial))
        )

    def texts(self) -> list[str]:
        """For people: the tables that are not covered, or not from the beginning on."""
        return [self.text(table) for table in (*self.uncovered, *self.starts)]

    def text(self, table: str) -> str:
        """The same of one of these tables."""
        if table in self.starts:
            return (
                f"{table} is covered by the connector from {self.starts[table]} on: nothing is stated of it before, "
                "and rows that it may have had then are not in its log"
            )
        if table not in self.partial:
            return f"{table} is not covered by the connector: nothing is stated of it"
        return (
            f"{table} has rows that are in no record: its first record changes a row that was there before the "
            f"connector covered it. Nothing is stated of it. {SNAPSHOT_OF_IT}"
        )

    def states(self, table: str, frontier: Antichain) -> bool:
        """Whether something is stated of the table before the frontier."""
        if table in self.starts:
            return not frontier.less_equal(self.starts[table])
        return table not in self.uncovered

    def demand_started(self, at: Time | None) -> None:
        """Raise UsageError, naming the table, unless something is stated of each at ``at``; None: that is no time."""
        for table, begins in self.starts.items():
            if at is not None and not less_equal(begins, at):
                raise UsageError(
                    f"nothing is stated of {table} at {at}: the connector covers it from {begins} on. Ask for that or "
                    "a later time"
                )

    def demand(self, tables: Iterable[str]) -> None:
        """Raise IncompleteError if one of these tables is not covered."""
        lacking = [self.text(table) for table in tables if table in self.uncovered]
        if lacking:
            raise IncompleteError("; ".join(lacking))

    def demand_still(self, look: Callable[[], TableCoverage]) -> None:
        """Raise LateTableError if a table that was not covered is so by now; to be asked before a cut is given out."""
        if not self.uncovered:
            return
        now = look()
        for table in self.uncovered:
            if table not in now.uncovered:
                raise LateTableError(
                    f"the connector covers {table} by now, from {now.starts.get(table, 0)} on, and did not when its "
                    "log was opened: start again, and it is read, too"
                )


#: Where all tables are covered, from the beginning on.
ALL = TableCoverage((), {})


def coverage(described: Iterable[tuple[str, LogDescription]]) -> TableCoverage:
    """That of logs, each with the table that it is a copy of; copies begin where the first of them does."""
    begins: dict[str, list[int]] = {}
    partial = set[str]()
    for table, stated in described:
        partial |= {table} if stated.start == PARTIAL else set()
        begins.setdefault(table, []).extend([stated.begins] if stated.covered else [])
    least = {table: min(times) for table, times in sorted(begins.items()) if times}
    uncovered = tuple(table for table in sorted(begins) if table not in least)
    starts = {table: at for table, at in least.items() if at}
    return TableCoverage(uncovered, starts, tuple(table for table in uncovered if table in partial))
