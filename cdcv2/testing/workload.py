"""A history that carries its own truth, worked out by the simplest means: no code of the runtime judges the runtime.

Accounts are opened, renamed and closed (the log ``accounts``, rows by key), money comes and goes (the log ``entries``,
rows that are only ever added, or taken back). Three views: ``account_now`` has each account's row; ``account_total``
sums and counts the entries of an account; ``entry_log`` has each entry with how often it is there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.materialize.combine import Binding
from cdcv2.materialize.messages import Checkpoint, Key, Values
from cdcv2.materialize.reductions import Count, Sum
from cdcv2.protocol.timeline import Cut
from cdcv2.wire.rows import RowType

#: What a reader of the target sees: table -> key -> values.
Seen = Mapping[str, Mapping[Key, Values]]

ACCOUNTS = RowType({
    "type": "record", "name": "account",
    "fields": [{"name": "name", "type": "string"}, {"name": "owner", "type": ["null", "string"]}],
})  # fmt: skip
ENTRIES = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "account", "type": "string"}, {"name": "amount", "type": "long"}],
})  # fmt: skip


class Workload:
    """``cuts`` consistent cuts of a history that the seed decides. ``kind`` says for which stores:

    - ``"full"``: all three views;
    - ``"delta"``: sums and log, as tables that take changes;
    - ``"sums"``: sums and log, fully reduced, and nothing taken back: for a store that may apply a transaction twice.
    """

    def __init__(self, kind: str = "full", *, seed: int = 0, cuts: int = 8) -> None:
        self.kind = kind
        #: (time, log, row, diff); every time has entries of several accounts
        self.history: list[tuple[int, str, Any, int]] = []
        self._lottery = random.Random(seed)
        owners: dict[str, str | None] = {}
        for number in range(cuts):
            for time in (2 * number, 2 * number + 1):
                self._business(time, owners)
        #: the frontiers of the cuts: the third cut has nothing in it, the last completes the history
        self.uppers = [*([2 * number + 2] for number in range(cuts)), []]
        self.history = [one for one in self.history if one[0] not in (4, 5) and (one[3] > 0 or kind != "sums")]

    def _business(self, time: int, owners: dict[str, str | None]) -> None:
        draw = self._lottery
        for account in draw.sample("abcdef", 3):
            name = f"account {account}"
            if time not in (4, 5):
                self._own(time, name, owners)
            amount = draw.randint(-5, 9)
            self.history.append((time, "entries", ENTRIES.row([name, amount]), draw.choice([1, 1, 2])))
        gone = [one for one in self.history if one[1] == "entries" and one[0] < time - 2 and one[0] not in (4, 5)]
        if time % 3 == 0 and gone:
            back = draw.choice(gone)[2]
            there = sum(diff for at, _, row, diff in self.history if row == back and at not in (4, 5) and at <= time)
            taken = not any(row == back and at == time for at, _, row, _ in self.history)
            if there > 0 and taken:
                self.history.append((time, "entries", back, -1))

    def _own(self, time: int, name: str, owners: dict[str, str | None]) -> None:
        owner = self._lottery.choice(["x", "y", None])
        if name in owners:
            if owner == owners[name]:
                return
            self.history.append((time, "accounts", ACCOUNTS.row([name, owners.pop(name)]), -1))
            if self._lottery.random() < 0.3:
                return
        owners[name] = owner
        self.history.append((time, "accounts", ACCOUNTS.row([name, owner]), 1))

    @property
    def bindings(self) -> list[Binding]:
        """The views."""
        delta = self.kind == "delta"
        total = {"entries": Count(), "total": Sum("amount")}
        both = [
            Binding("entries", ENTRIES, "account_total", ("account",), total, delta=delta),
            Binding("entries", ENTRIES, "entry_log", delta=delta),
        ]
        if self.kind == "full":
            both.append(Binding("accounts", ACCOUNTS, "account_now", ("name",)))
        else:
            both.append(Binding("accounts", ACCOUNTS, "account_log", delta=delta))
        return both

    def source(self, checkpoint: Checkpoint) -> Iterator[Cut]:
        """All cuts, from the first, as a reader would give them that has to begin anew."""
        lower = [0]
        for upper in self.uppers:
            updates: dict[str, list[Any]] = {}
            for time, log, row, diff in self.history:
                if lower[0] <= time and (not upper or time < upper[0]):
                    updates.setdefault(log, []).append((row, time, diff))
            yield Cut(updates, Antichain(lower), Antichain(upper))
            lower = upper

    def truth(self, upper: int | None = None) -> dict[str, Counter[Values]]:
        """What each view has before the time ``upper`` (None: in the end): whole rows, and how often they are there."""
        rows: dict[str, Counter[Any]] = {"accounts": Counter(), "entries": Counter()}
        for time, log, row, diff in self.history:
            if upper is None or time < upper:
                rows[log][tuple(row)] += diff
        counts, sums = Counter[str](), Counter[str]()
        for (account, amount), count in rows["entries"].items():
            counts[account] += count
            sums[account] += count * amount
        there = {log: {row: count for row, count in found.items() if count} for log, found in rows.items()}
        truth = {
            "account_total": Counter({(name, count, sums[name]): 1 for name, count in counts.items() if count}),
            "entry_log": Counter({(*row, count): 1 for row, count in there["entries"].items()}),
        }
        if self.kind == "full":
            truth["account_now"] = Counter(there["accounts"])
        else:
            truth["account_log"] = Counter({(*row, count): 1 for row, count in there["accounts"].items()})
        return truth

    def shown(self, seen: Seen) -> dict[str, Counter[Values]]:
        """What a target shows, in the form of :meth:`truth`: without the keys that are made of a whole row."""
        whole = {
            table: Counter(
                values if table.endswith("_log") else (*key, *values) for key, values in seen.get(table, {}).items()
            )
            for table in self.truth()
        }
        if self.kind == "delta":
            # A subscriber's sums: what has come to nothing is not there.
            at = {"account_total": 1, "entry_log": -1, "account_log": -1}
            for table, rows in whole.items():
                whole[table] = Counter({row: count for row, count in rows.items() if row[at[table]]})
        return whole
