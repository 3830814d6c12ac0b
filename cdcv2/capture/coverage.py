"""Tables of which the connector never spoke: nothing is stated of them until it does.

A table has a row type, and the connector may not capture it: it is not in ``table.include.list``, or not in the
publication. Nothing tells that from a table without rows but what the connector states: it names each table that its
snapshot covered. Without such a word nothing may be stated. If the connector covers the table later, its rows come, and
the first END that counts some is the first time of which something is known.

That is, unless the first of these rows is an update or a delete: then the table had a row that no record brought, and
perhaps more of them. What is stated of it would be no table. So nothing is, until a snapshot covers it: it is
*partial*. A table whose first row is an insert may have had rows as well; nothing tells that from a table that was made
then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.snapshot import SnapshotRun


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
    """The tables of which nothing is stated behind a completed run; ``rows`` are those of the snapshot, by table.

    A run that was skipped names no table. Then ``there`` says which ones are known otherwise: by their topics, their
    records, or the user. None: it is not known yet.

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
    """The tables of which nothing is stated without a snapshot: all but those that are ``there``.

    >>> sorted(unknown(["a", "b"], {"b"}))
    ['a']
    """
    return frozenset(tables) - frozenset(there)


def indispensable(
    left: Collection[str], tables: Collection[str], may: Collection[str], *, skipped: bool = False
) -> str | None:
    """A table of ``left`` without which the others cannot go on; None: they can. ``may`` are those that may be left.

    Where there is no other the snapshot is one of other tables, and a mistake; but not where it was ``skipped``: then
    each table begins with its first record.

    >>> indispensable({"b"}, ["a", "b"], ["a", "b"]), indispensable({"b"}, ["b"], ["b"]), indispensable({"b"}, "ab", "")
    (None, 'b', 'b')
    >>> indispensable({"b"}, ["b"], ["b"], skipped=True)
    """
    alone = len(left) == len(tables) and not skipped
    return min(left) if left and (alone or not set(left) <= set(may)) else None


def has_started(begins: int | None, known: int) -> bool:
    """Whether a log is of a table that is covered, as far as it shows.

    ``begins`` is where the log states that it begins, None: that its table is not covered; ``known`` is up to where it
    is stated. One that begins later counts from its first statement on: so the meet of such logs is behind an END.

    >>> has_started(0, 0), has_started(None, 0), has_started(140, 140), has_started(140, 141), has_started(None, 7)
    (True, False, False, True, True)

    Cost: constant. Source: rows name the END before their own, and no start is one.
    """
    return begins == 0 or known > (begins or 0)


def had_rows(op: str, number: int) -> bool:
    """Whether a table had a row before, as its row of this number in a transaction shows, if none was before that.

    ``op`` is c, u, d or t: a TRUNCATE leaves nothing of what there was.

    >>> had_rows("u", 1), had_rows("d", 1), had_rows("c", 1), had_rows("u", 2), had_rows("t", 1)
    (True, True, False, False, False)
    """
    return number == 1 and op in ("u", "d")


class UncoveredTables:
    """The tables that are not covered yet; ``partial`` are those that are so although there are records of them.

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
        """Which they are."""
        return frozenset(self._tables)

    @property
    def partial(self) -> frozenset[str]:
        """Those of them whose first row was an update or a delete."""
        return frozenset(self._partial)

    def add(self, tables: Iterable[str]) -> None:
        """These are not covered, either."""
        self._tables.update(tables)

    def begin(self, counts: Mapping[str, int], had: Collection[str] = ()) -> list[str]:
        """An END counts these rows, by table, in the order of commits: the tables that are covered from it on.

        ``had`` are tables whose first row in the transaction is of a table that :func:`had_rows`.
        """
        named = {table for table in self._tables - self._partial if counts.get(table)}
        self._partial |= named.intersection(had)
        begun = sorted(named - self._partial)
        self._tables.difference_update(begun)
        return begun

    def scanned(self, tables: Iterable[str]) -> list[str]:
        """A snapshot has all rows of these tables: those that are covered from it on."""
        begun = sorted(self._tables.intersection(tables))
        self._tables.difference_update(begun)
        self._partial.difference_update(begun)
        return begun
