"""An index: the rows of some tables by key, at every finished time from a since on.

Two halves: what is there at ``since``, by key, and the changes after it, by key and by time. Compaction moves changes
from the second to the first, and looks only at what it moves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch, consolidate
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import LEAST, RowChange, RowCount, is_finished
from cdcv2.protocol.messages import Update


class TableForm(NamedTuple):
    """How the rows of a table are keyed and shown: the key of a row; the key of plain values; a row as plain JSON."""

    key_of: Callable[[Any], Hashable]
    key_from_plain: Callable[[Sequence[Any]], Hashable]
    to_plain: Callable[[Any], Any]


class Arrangement:
    """The tables of one index; ``forms`` has them by name.

    >>> whole = TableForm(lambda row: row[0], lambda key: key[0], list)
    >>> orders = Arrangement({"orders": whole})
    >>> orders.apply({"orders": [((7, "new"), 1, 1), ((7, "new"), 3, -1), ((7, "paid"), 3, 1)]}, Antichain([4]))
    >>> orders.at("orders", [7], 2), orders.at("orders", [7], 3)
    ((RowCount(row=[7, 'new'], multiplicity=1),), (RowCount(row=[7, 'paid'], multiplicity=1),))

    Source: the arrangements of differential dataflow. Cost: amortised constant per update, and per change of a key
    that is looked up. Memory: the rows at since, and twice the changes after it.
    """

    def __init__(self, forms: Mapping[str, TableForm], since: int = 0) -> None:
        self._forms = dict(forms)
        self.since = since
        #: Everything not beyond it is here.
        self.upper = LEAST
        # Table -> key -> row -> its count at since, never 0.
        self._base: dict[str, dict[Hashable, dict[Any, int]]] = {name: {} for name in forms}
        # Table -> key -> (row, time, diff) with a time after since, by time.
        self._later: dict[str, dict[Hashable, list[tuple[Any, int, int]]]] = {name: {} for name in forms}
        # (time, table, key, row, diff) of the same, by time.
        self._recent: deque[tuple[int, str, Hashable, Any, int]] = deque()

    @property
    def readable(self) -> bool:
        """Whether its since is finished: before that, what is here is no content of any time."""
        return is_finished(self.since, self.upper)

    def apply(self, updates: Mapping[str, Iterable[Update]], upper: Antichain) -> None:
        """Take in a finished cut: the updates beyond the upper so far and not beyond the new one.

        Raises MalformedError for an upper that goes back, for a time outside and for a table that is not here; nothing
        was taken in then.
        """
        if not upper.dominates(self.upper):
            raise MalformedError(f"a cut up to {upper} was given to an index that is at {self.upper}")
        ordered = sorted(self._checked(updates, upper), key=lambda update: update[0])
        for time, table, key, row, diff in ordered:
            if time <= self.since:
                self._add(table, key, row, diff)
            else:
                self._later[table].setdefault(key, []).append((row, time, diff))
                self._recent.append((time, table, key, row, diff))
        self.upper = upper

    def _checked(
        self, updates: Mapping[str, Iterable[Update]], upper: Antichain
    ) -> Iterator[tuple[int, str, Hashable, Any, int]]:
        for table, found in updates.items():
            if table not in self._forms:
                raise MalformedError(f"a cut has the table {table!r}, and the index has {', '.join(self._forms)}")
            key_of = self._forms[table].key_of
            for row, time, diff in found:
                if type(time) is not int or not self.upper.less_equal(time) or upper.less_equal(time):
                    raise MalformedError(f"a cut of [{self.upper}, {upper}) has an update of {table} at {time!r}")
                yield time, table, key_of(row), row, diff

    def _add(self, table: str, key: Hashable, row: Any, diff: int) -> None:
        rows = self._base[table].setdefault(key, {})
        count = rows.get(row, 0) + diff
        if count:
            rows[row] = count
        else:
            rows.pop(row, None)
            if not rows:
                del self._base[table][key]

    def compact(self, since: int) -> None:
        """Forget the times before ``since``: what happened there is read as of it. Backwards changes nothing.

        Cost: that of the changes that are moved, and of those that stay at their keys.
        """
        moved = Counter[tuple[str, Hashable]]()
        while self._recent and self._recent[0][0] <= since:
            _, table, key, row, diff = self._recent.popleft()
            moved[table, key] += 1
            self._add(table, key, row, diff)
        for (table, key), number in moved.items():
            later = self._later[table][key]
            del later[:number]
            if not later:
                del self._later[table][key]
        self.since = max(self.since, since)

    def at(self, table: str, key: Sequence[Any], time: int) -> tuple[RowCount, ...]:
        """The rows of a key, in plain JSON as are its values, at a finished time from since on; in the order they came.

        Raises MalformedError for another time, and for a key that is none of the table's.
        """
        if time < self.since or not is_finished(time, self.upper) or not self.readable:
            raise MalformedError(f"time {time} is not from {self.since} on and before {self.upper}")
        form = self._forms[table]
        found = form.key_from_plain(key)
        rows = ChangeBatch[Any](self._base[table].get(found, {}).items())
        rows.extend((row, diff) for row, at, diff in self._later[table].get(found, ()) if at <= time)
        return tuple(RowCount(form.to_plain(row), count) for row, count in rows)

    def changes(self, table: str, after: Antichain, since: int) -> tuple[RowChange, ...]:
        """The changes of a table that are beyond ``after``, consolidated, by time.

        With the least frontier, all: those before ``since`` stand at it. Cost: that of the changes since ``after``.
        """
        found: list[tuple[Any, int, int]] = []
        if after == LEAST:
            base = (pair for rows in self._base[table].values() for pair in rows.items())
            found += ((row, since, count) for row, count in base)
            found += ((row, max(time, since), diff) for time, name, _, row, diff in self._recent if name == table)
        else:
            for time, name, _, row, diff in reversed(self._recent):
                if not after.less_equal(time):
                    break
                if name == table:
                    found.append((row, time, diff))
            found.reverse()
        to_plain = self._forms[table].to_plain
        return tuple(RowChange(to_plain(row), cast(int, time), diff) for row, time, diff in consolidate(found))

    def check(self) -> None:
        """Audit the invariants; for tests. Raises AssertionError. Cost: linear."""
        later = [
            (time, table, key, row, diff) for table, keys in self._later.items() for key, found in keys.items()
            for row, time, diff in found
        ]  # fmt: skip
        if sorted(map(repr, later)) != sorted(map(repr, self._recent)):
            raise AssertionError("the changes by key are not those by time")
        if not all(count for keys in self._base.values() for rows in keys.values() for count in rows.values()):
            raise AssertionError("a row is kept that is there 0 times")

    def __len__(self) -> int:
        """How many rows and changes it holds."""
        return len(self._recent) + sum(len(rows) for keys in self._base.values() for rows in keys.values())
