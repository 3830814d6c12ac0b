"""An index: the rows of some tables by key, at every finished time from a since on.

A change is the very tuple that the log's reader gave, and is held twice by reference: at its key, and, while its time
is after since, among the changes by time. Most keys have one change, which is held as it is; several are a list.
Compaction sums up what is at since, key by key, when so much has come that it pays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, cast

from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import consolidate
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import LEAST, RowChange, RowCount, is_finished
from cdcv2.protocol.messages import Update
from cdcv2.protocol.ordered_updates import OrderedUpdates, time_of

_row_of = itemgetter(0)


class TableForm(NamedTuple):
    """How the rows of a table are keyed and shown: the key of a row; the key of plain values; a row as plain JSON."""

    key_of: Callable[[Any], Hashable]
    key_from_plain: Callable[[Sequence[Any]], Hashable]
    to_plain: Callable[[Any], Any]


class _Changes(list[Update]):
    """Several changes of one key, by time; ``summed``: of how many rows the last sum was, which are the first ones."""

    __slots__ = ("summed",)

    def __init__(self, changes: Iterable[Update] = (), summed: int = 1) -> None:
        super().__init__(changes)
        self.summed = summed


_AtKey: TypeAlias = "Update | _Changes"


class Arrangement:
    """The tables of one index; ``forms`` has them by name.

    >>> whole = TableForm(lambda row: row[0], lambda key: key[0], list)
    >>> orders = Arrangement({"orders": whole})
    >>> orders.apply({"orders": [((7, "new"), 1, 1), ((7, "new"), 3, -1), ((7, "paid"), 3, 1)]}, Antichain([4]))
    >>> orders.at("orders", [7], 2), orders.at("orders", [7], 3)
    ((RowCount(row=[7, 'new'], multiplicity=1),), (RowCount(row=[7, 'paid'], multiplicity=1),))

    Source: the arrangements of differential dataflow. Cost: amortised constant per update, and per change of a key
    that is looked up. Memory: the rows at since, half as many changes of their keys that are not summed up, and the
    changes after since.
    """

    def __init__(self, forms: Mapping[str, TableForm], since: int = 0) -> None:
        self._forms = dict(forms)
        self.since = since
        #: Everything not beyond it is here.
        self.upper = LEAST
        # Table -> key -> its changes; those up to since count as at since.
        self._keys: dict[str, dict[Hashable, _AtKey]] = {name: {} for name in forms}
        # Table -> its changes after since.
        self._recent = {name: OrderedUpdates() for name in forms}

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
        ordered = {table: self._ordered(table, found, upper) for table, found in updates.items()}
        keys = {table: self._keys_of(table, found) for table, found in ordered.items()}
        for table, found in ordered.items():
            self._add(table, keys[table], found)
        self.upper = upper

    def _ordered(self, table: str, updates: Iterable[Update], upper: Antichain) -> list[Update]:
        """The updates by time, those of one time as they came; each is of the cut."""
        if table not in self._forms:
            raise MalformedError(f"a cut has the table {table!r}, and the index has {', '.join(self._forms)}")
        found = list(updates)
        times = list(map(time_of, found))
        if not times:
            return found
        for time in times if set(map(type, times)) != {int} else (min(times), max(times)):
            if type(time) is not int or not self.upper.less_equal(time) or upper.less_equal(time):
                raise MalformedError(f"a cut of [{self.upper}, {upper}) has an update of {table} at {time!r}")
        found.sort(key=time_of)
        return found

    def _keys_of(self, table: str, updates: Iterable[Update]) -> list[Hashable]:
        return list(map(self._forms[table].key_of, map(_row_of, updates)))

    def _add(self, table: str, keys: Sequence[Hashable], updates: list[Update]) -> None:
        held = self._keys[table]
        get = held.get
        for key, update in zip(keys, updates):
            there = get(key)
            if there is None:
                held[key] = update
            elif type(there) is _Changes:
                there.append(update)
            else:
                held[key] = _Changes((cast(Update, there), update))
        after = bisect_right(updates, self.since, key=time_of)
        self._recent[table].extend(updates[after:] if after else updates)
        self._sum_up(table, keys[:after])

    def _sum_up(self, table: str, keys: Iterable[Hashable]) -> None:
        """Of these keys, sum up the changes up to since where they have become half as many again."""
        held = self._keys[table]
        for key in keys:
            changes = held.get(key)
            if type(changes) is not _Changes:
                continue
            end = bisect_right(changes, self.since, key=time_of)
            if 2 * (end - changes.summed) < changes.summed:
                continue
            summed = _sums(changes[:end])
            rest = _Changes(summed + changes[end:], max(1, len(summed)))
            if not rest:
                del held[key]
            else:
                held[key] = rest if len(rest) > 1 else rest[0]

    def compact(self, since: int) -> None:
        """Forget the times before ``since``: what happened there is read as of it. Backwards changes nothing.

        Cost: amortised constant per change that is moved, and a search at its key.
        """
        if since <= self.since:
            return
        self.since = since
        after = Antichain.of_integer(since + 1)
        for table, recent in self._recent.items():
            self._sum_up(table, self._keys_of(table, recent.pop_not_beyond(after)))

    def at(self, table: str, key: Sequence[Any], time: int) -> tuple[RowCount, ...]:
        """The rows of a key, in plain JSON as are its values, at a finished time from since on; in the order they came.

        Raises MalformedError for another time, and for a key that is none of the table's.
        """
        if time < self.since or not is_finished(time, self.upper):
            raise MalformedError(f"time {time} is not from {self.since} on and before {self.upper}")
        form = self._forms[table]
        there = self._keys[table].get(form.key_from_plain(key))
        if there is None:
            return ()
        found = [update for update in _each(there) if time_of(update) <= time]
        if len(found) > 1:
            found = _sums(found)
        return tuple(RowCount(form.to_plain(row), count) for row, _, count in found)

    def changes(self, table: str, after: Antichain, since: int) -> tuple[RowChange, ...]:
        """The changes of a table that are beyond ``after``, consolidated, by time.

        With the least frontier, all: those before ``since`` stand at it. Cost: that of the changes since ``after``.
        """
        found: list[Update] = []
        if after == LEAST:
            every = (update for there in self._keys[table].values() for update in _each(there))
            found += ((row, since, diff) for row, time, diff in every if cast(int, time) <= self.since)
            found += ((row, max(cast(int, time), since), diff) for row, time, diff in self._recent[table])
        elif after.integer is not None:
            found = self._recent[table].since(after.integer)
        to_plain = self._forms[table].to_plain
        return tuple(RowChange(to_plain(row), cast(int, time), diff) for row, time, diff in consolidate(found))

    def check(self) -> None:
        """Audit the invariants; for tests. Raises AssertionError. Cost: linear."""
        for table, keys in self._keys.items():
            held = [update for there in keys.values() for update in _each(there)]
            later = [update for update in held if cast(int, update[1]) > self.since]
            if sorted(map(repr, later)) != sorted(map(repr, self._recent[table])):
                raise AssertionError("the changes by key are not those by time")
            for key, there in keys.items():
                if any(self._forms[table].key_of(row) != key for row, _, _ in _each(there)):
                    raise AssertionError("a change is at a key that is not its own")
                if type(there) is _Changes:
                    _check_changes(there, self.since)

    def __len__(self) -> int:
        """How many changes it holds."""
        return sum(len(_each(there)) for keys in self._keys.values() for there in keys.values())


def _each(there: _AtKey) -> Sequence[Update]:
    """The changes of a key."""
    return there if type(there) is _Changes else (cast(Update, there),)


def _sums(changes: Iterable[Update]) -> list[Update]:
    """What the changes come to: one for each row that is there, at the time since which it is."""
    sums: dict[Any, Update] = {}
    for update in changes:
        row, _, diff = update
        before = sums.get(row)
        if before is None:
            sums[row] = update
        elif before[2] + diff:
            sums[row] = row, before[1], before[2] + diff
        else:
            del sums[row]
    return list(sums.values())


def _check_changes(changes: _Changes, since: int) -> None:
    times = [cast(int, time) for _, time, _ in changes]
    first, end = changes[:changes.summed], bisect_right(times, since)
    if len(changes) < 2 or times != sorted(times) or not all(diff for _, _, diff in changes):
        raise AssertionError(f"the changes {changes} of a key are not several, or not by time, or one is none")
    if len(set(map(_row_of, first))) < len(first) or 2 * (end - len(first)) >= len(first):
        raise AssertionError(f"of the changes {changes} of a key, too many are not summed up")
