"""A history that carries its own truth, worked out by the simplest means: no code of the runtime judges the runtime.

Accounts are opened, renamed and closed (the log ``accounts``, rows by key), money comes and goes (the log ``entries``,
rows that are only ever added, or taken back). Three views: ``account_now`` has each account's row; ``account_total``
sums and counts the entries of an account; ``entry_log`` has each entry with how often it is there.

Rows have values that only an honest driver gives back: whole numbers beyond 2**53 and decimals, of which a float holds
but the neighbours, and floats that JSON has no number for.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.materialize.protocol.messages import Checkpoint, Key, Values
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.views.binding import ViewBinding
from cdcv2.views.reductions import Count, Sum

#: What a reader of the target sees: table -> key -> values.
Seen = Mapping[str, Mapping[Key, Values]]

_EXACT = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 10}
ACCOUNTS = RowType({
    "type": "record", "name": "account",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "owner", "type": ["null", "string"]},
        {"name": "number", "type": ["null", "long"], "default": None},
        {"name": "limit", "type": ["null", _EXACT], "default": None},
        {"name": "rate", "type": ["null", "double"], "default": None},
    ],
})  # fmt: skip
ENTRIES = RowType({
    "type": "record", "name": "entry",
    "fields": [
        {"name": "account", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "price", "type": _EXACT},
        {"name": "rate", "type": "double"},
    ],
})  # fmt: skip


def _decimal(unscaled: int) -> Decimal:
    """Exactly: arithmetic with decimals rounds to 28 digits."""
    return Decimal(f"{unscaled}E-10")


_WIDE = Context(prec=60)
_NUMBERS = {"x": 2**53 + 1, "y": -(2**63) + 1}
_LIMITS = {"x": Decimal("0.1000000001"), "y": Decimal("12345678901234567890.0123456789")}
_RATES = (0.1, math.nan, math.inf, -math.inf, 5e-324, -0.0, 1.7976931348623157e308)


def account(name: str, owner: str | None) -> Any:
    """A row of ``accounts``; the owner decides the values that are hard to keep."""
    known = owner or ""
    return ACCOUNTS.row([name, owner, _NUMBERS.get(known), _LIMITS.get(known), {"x": math.nan, "y": 5e-324}.get(known)])


def entry(account: str, amount: int) -> Any:
    """A row of ``entries``; the small number decides the others, and whether it is itself to be a large one."""
    price = _decimal(amount * 12345678901234567890123456789)
    return ENTRIES.row([account, amount + 2**53 * (amount % 3), price, _RATES[amount % len(_RATES)]])


def _comparable(row: Values) -> Values:
    """A row's values so that equal ones are ``==``: decimals as such, and NaN by its name."""
    made = (_decimal(int.from_bytes(one, "big", signed=True)) if isinstance(one, bytes) else one for one in row)
    return tuple("NaN" if one != one else one for one in made)


class Workload:
    """``cuts`` consistent cuts of a history that the seed decides. ``kind`` is the kind of stores:

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
            self.history.append((time, "entries", entry(name, amount), draw.choice([1, 1, 2])))
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
            self.history.append((time, "accounts", account(name, owners.pop(name)), -1))
            if self._lottery.random() < 0.3:
                return
        owners[name] = owner
        self.history.append((time, "accounts", account(name, owner), 1))

    @property
    def bindings(self) -> list[ViewBinding]:
        """The views."""
        delta = self.kind == "delta"
        total = {"entries": Count(), "total": Sum("amount"), "worth": Sum("price")}
        both = [
            ViewBinding("entries", ENTRIES, "account_total", ("account",), total, delta=delta),
            ViewBinding("entries", ENTRIES, "entry_log", delta=delta),
        ]
        if self.kind == "full":
            both.append(ViewBinding("accounts", ACCOUNTS, "account_now", ("name",)))
        else:
            both.append(ViewBinding("accounts", ACCOUNTS, "account_log", delta=delta))
        return both

    def source(self, checkpoint: Checkpoint) -> Iterator[Cut]:
        """All cuts, from the first, as for a reader that has to start over."""
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
                rows[log][_comparable(row)] += diff
        counts, sums, worth = Counter[str](), Counter[str](), Counter[str]()
        for (name, amount, price, _), count in rows["entries"].items():
            counts[name] += count
            sums[name] += count * amount
            worth[name] += count * int(price.scaleb(10, _WIDE))
        there = {log: {row: count for row, count in found.items() if count} for log, found in rows.items()}
        truth = {
            "account_total": Counter(
                {(name, count, sums[name], _decimal(worth[name])): 1 for name, count in counts.items() if count}
            ),
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
                _comparable(values if table.endswith("_log") else (*key, *values))
                for key, values in seen.get(table, {}).items()
            )
            for table in self.truth()
        }
        if self.kind == "delta":
            # A subscriber's sums: what has come to nothing is not there.
            at = {"account_total": 1, "entry_log": -1, "account_log": -1}
            for table, rows in whole.items():
                whole[table] = Counter({row: count for row, count in rows.items() if row[at[table]]})
        return whole
