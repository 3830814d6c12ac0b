"""One transaction's updates of all bindings, combined: by key for Loads and Stores, or as columns for Changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from cdcv2.errors import ViewError
from cdcv2.materialize.protocol.messages import ConflictError, Key, Loaded, Store, Values
from cdcv2.protocol.messages import Update
from cdcv2.views.binding import View
from cdcv2.views.changes import Net, NetCounts


class CombinedUpdates:
    """One transaction: the updates of every binding, by key; then, with what was loaded, what is to be stored.

    ``digests``: whether rows of multisets that are held for columns are to have their digests.

    Cost: per update, its key and one addition; in the end a sort of the keys, so that a repeated transaction stores the
    same in the same order.
    """

    def __init__(self, views: Sequence[View], *, digests: bool = False) -> None:
        self._views, self._digests = views, digests
        self._sums: list[dict[Key, Any]] = [{} for _ in views]
        self._before: list[dict[Key, Values]] = [{} for _ in views]
        # Number of a binding whose changes are columns -> its updates.
        self._held: dict[int, list[Update]] = {}
        #: how many updates it holds
        self.size = 0

    def add(self, number: int, updates: Iterable[tuple[Key, Update]]) -> Iterator[Key]:
        """Take in updates of the binding with this number; give out each key that is new and has to be loaded."""
        view, sums = self._views[number], self._sums[number]
        for key, (row, time, diff) in updates:
            held = sums.get(key)
            if held is None:
                held = view.begin()
                if not view.table.delta:
                    yield key
            sums[key] = view.add(held, row, time, diff)
            self.size += 1

    def hold(self, number: int, updates: Sequence[Update]) -> None:
        """Take in updates of a binding whose changes are to be columns."""
        self._held.setdefault(number, []).extend(updates)
        self.size += len(updates)

    def net(self, number: int) -> tuple[Net, list[tuple[Key, Update]]] | None:
        """What a binding's updates that are held come to; and, with their keys, those that a Load and a Store take.

        None where there are none. Raises MalformedError.
        """
        changes = self._views[number].changes
        if changes is None or number not in self._held:
            return None
        if self._digests and isinstance(changes, NetCounts):
            return changes.net_with_digests(self._held[number]), []
        net = changes.net(self._held[number])
        return net, self._of(number, net.odd) if net.odd else []

    def _of(self, number: int, keys: Collection[Key]) -> list[tuple[Key, Update]]:
        keyed = ((self._views[number].key_of(update[0]), update) for update in self._held[number])
        return [(key, update) for key, update in keyed if key in keys]

    def judged(self, cause: ConflictError) -> ViewError:
        """What is wrong at a key where the target has not the row that changes as columns go with."""
        view, key = self._views[cause.binding], cause.key
        name_of = view.key_of if self._digests else view.place
        # As text: a NaN is no other one's equal.
        held, place = view.begin(), repr(cause.key)
        for row, time, diff in self._held[cause.binding]:
            if repr(name_of(row)) == place:
                held, key = view.add(held, row, time, diff), view.key_of(row)
        try:
            view.after(key, held, cause.there)
        except ViewError as found:
            return found
        return cause

    def loaded(self, message: Loaded) -> None:
        """Take in what is at a key."""
        self._before[message.binding][message.key] = message.values

    def stores(self) -> Iterator[Store]:
        """What is to be stored, by binding and key. Raises ViewError."""
        for number, (view, sums, before) in enumerate(zip(self._views, self._sums, self._before)):
            for key in sorted(sums):
                store = view.after(key, sums[key], before.get(key))
                if store is not None:
                    yield store._replace(binding=number)
