"""Uncovered tables: tables that the connector never reported. Nothing is stated of them until it does.

A table has a row type, and yet the connector may not capture it: it is not in ``table.include.list``, or not in the
publication. Such a table looks like one without rows. Only the connector can show the difference: it names each table
that its snapshot covered. Until it names a table, nothing may be stated of it. If the connector covers the table later,
its rows arrive, and the first END that counts some of them is the first time that is known.

There is one exception: the first of these rows is an update or a delete. Then the table had a row that is in no record,
and perhaps more of them. The log would not be the table. So nothing is stated until a snapshot covers it: the table is
*partial*. A table whose first row is an insert may have had rows as well; it looks like a table that was just created.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.snapshot.completed_run import SnapshotRun


def unnamed(run: SnapshotRun, rows: Mapping[str, int], tables: Iterable[str]) -> frozenset[str]:
    """The tables that a completed run does not name, and that have no rows in it.

    >>> sorted(unnamed(SnapshotRun({"a": 0}, 4), {"c": 1}, ["a", "b", "c"]))
    ['b']

    Source: a connector names in its notifications each table that it scans, one without rows, too.
    """
    return frozenset(table for table in tables if not run.names(table) and not rows.get(table))


def left_out(
    run: SnapshotRun, rows: Mapping[str, int], tables: Iterable[str], there: Collection[str] | None
) -> frozenset[str]:
    """The tables of which nothing is stated after a completed run; ``rows`` are those of the snapshot, by table.

    A run that was skipped names no table. Then ``there`` has the tables that are known otherwise: by their topics,
    their records, or the user. None: not known yet.

    >>> sorted(left_out(SnapshotRun({"a": 0}, 4), {}, ["a", "b"], None))
    ['b']
    >>> sorted(left_out(SnapshotRun({}, 4, skipped=True), {}, ["a", "b"], {"b"}))
    ['a']

    Cost: linear in the tables.
    """
    if not run.skipped:
        return unnamed(run, rows, tables)
    return frozenset() if there is None else unknown(tables, there)


def unknown(tables: Iterable[str], there: Collection[str]) -> frozenset[str]:
    """The tables of which nothing is stated without a snapshot: all that are not in ``there``.

    >>> sorted(unknown(["a", "b"], {"b"}))
    ['a']
    """
    return frozenset(tables) - frozenset(there)


def indispensable(
    left: Collection[str], tables: Collection[str], may: Collection[str], *, skipped: bool = False
) -> str | None:
    """A table of ``left`` that the others cannot go on without; None: they can. ``may`` are those that may be left.

    If no other table is left, the snapshot is one of other tables: a mistake. Not so if the run was ``skipped``: then
    each table begins with its first record.

    >>> indispensable({"b"}, ["a", "b"], ["a", "b"]), indispensable({"b"}, ["b"], ["b"]), indispensable({"b"}, "ab", "")
    (None, 'b', 'b')
    >>> indispensable({"b"}, ["b"], ["b"], skipped=True)
    """
    alone = len(left) == len(tables) and not skipped
    return min(left) if left and (alone or not set(left) <= set(may)) else None


def has_started(begins: int | None, known: int) -> bool:
    """Whether a log shows that its table is covered.

    ``begins`` is where the log states that it begins, None: it states that its table is not covered. ``known`` is the
    time up to which it is stated. A log that begins later counts from its first statement on, so the meet of such logs
    is behind an END.

    >>> has_started(0, 0), has_started(None, 0), has_started(140, 140), has_started(140, 141), has_started(None, 7)
    (True, False, False, True, True)

    Cost: constant. Source: rows name the END before their own, and no start is one.
    """
    return begins == 0 or known > (begins or 0)


def had_rows(op: str, number: int) -> bool:
    """Whether the first row of a table shows that the table had rows before.

    ``number`` is the row's number in its transaction; ``op`` is c, u, d or t: a TRUNCATE leaves no earlier row.

    >>> had_rows("u", 1), had_rows("d", 1), had_rows("c", 1), had_rows("u", 2), had_rows("t", 1)
    (True, True, False, False, False)
    """
    return number == 1 and op in ("u", "d")


class UncoveredTables:
    """The tables that are not covered yet; ``partial`` are those of them that have records.

    >>> uncovered = UncoveredTables(["b", "c", "d"])
    >>> uncovered.begin({"a": 1, "b": 2}), uncovered.begin({"b": 1}), uncovered.begin({"c": 2}, {"c"})
    (['b'], [], [])
    >>> uncovered.begin({"c": 1}), sorted(uncovered.tables), sorted(uncovered.partial)
    ([], ['c', 'd'], ['c'])
    >>> uncovered.scanned({"c"}), sorted(uncovered.tables)
    (['c'], ['d'])

    Cost: linear in the tables that are not covered.
    """

    def __init__(self, tables: Iterable[str] = (), partial: Iterable[str] = ()) -> None:
        self._partial = set(partial)
        self._tables = {*tables, *self._partial}

    @property
    def tables(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self._tables)

    @property
    def partial(self) -> frozenset[str]:
        """Those of them whose first row was an update or a delete."""
        return frozenset(self._partial)

    def add(self, tables: Iterable[str]) -> None:
        """Add tables that are not covered."""
        self._tables.update(tables)

    def begin(self, counts: Mapping[str, int], had: Collection[str] = ()) -> list[str]:
        """The tables that an END with these counts, by table, covers from now on. Call it in the order of commits.

        ``had`` are tables whose first row in the transaction is of a table that :func:`had_rows`.
        """
        named = {table for table in self._tables - self._partial if counts.get(table)}
        self._partial |= named.intersection(had)
        begun = sorted(named - self._partial)
        self._tables.difference_update(begun)
        return begun

    def scanned(self, tables: Iterable[str]) -> list[str]:
        """The tables that a snapshot, which has all of their rows, covers from now on."""
        begun = sorted(self._tables.intersection(tables))
        self._tables.difference_update(begun)
        self._partial.difference_update(begun)
        return begun
