"""What ``cdcv2 replay --json`` prints of the logs of two banks, folded in order of time and judged at each.

It shares no code with replay: lines of JSON are added up. At a time the logs show what was so before the next one, and
that is one cut over both databases: each is where it was at one of its own commits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdcv2.demo.bank import Row, in_order
from cdcv2.demo.business import OTHER_BANK
from cdcv2.demo.tables import MONEY

LEDGER, BRANCHES = "public.ledger", "public.branches"
#: kinds of bookings that are payments between banks
_PAYMENTS = ("sent", "received")


@dataclass
class BankChecks:
    """What folding showed. A bank is there when its snapshot is in."""

    #: how many times there are at which something changed, and all banks were there
    times: int = 0
    #: the frontiers that replay gave out
    frontiers: list[int] = field(default_factory=list)
    #: the sums over all tables of all banks that were seen, since all were there; one, if nothing was torn
    totals: set[int] = field(default_factory=set)
    #: bank -> the sums over its tables that were seen since it was there; one, too
    of_bank: dict[str, set[int]] = field(default_factory=dict)
    #: "bank.table" -> the sums of its own that were seen
    sums: dict[str, set[int]] = field(default_factory=dict)
    #: bank -> the sums of all that it holds but for what another one owes it: what payments bring and take
    held: dict[str, set[int]] = field(default_factory=dict)
    #: what was on its way, by time
    on_its_way: list[int] = field(default_factory=list)
    #: the first few times at which the ledgers had another amount on its way than the balances
    unbooked: list[str] = field(default_factory=list)
    #: the first few times at which a row was there less than zero times
    negative: list[str] = field(default_factory=list)
    #: "bank.table" -> its rows in the end, sorted
    rows: dict[str, list[Row]] = field(default_factory=dict)


def read(lines: Iterable[str], banks: Sequence[str]) -> BankChecks:
    """Fold what was printed of the tables ``BANK.SCHEMA.TABLE`` of these banks."""
    fold = _Fold(banks)
    changes: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        message = json.loads(line)
        if "frontier" not in message:
            changes.setdefault(message["time"], []).append(message)
            continue
        # What is printed before a frontier is complete, and of no order.
        for time in sorted(changes):
            fold.move(time, changes[time])
        changes.clear()
        fold.seen.frontiers += message["frontier"]
    fold.seen.rows = {table: in_order(rows.elements()) for table, rows in fold.tables.items()}
    return fold.seen


class _Fold:
    """The tables and the sums over them, at one time after the other."""

    def __init__(self, banks: Sequence[str]) -> None:
        self.seen = BankChecks()
        self.tables: dict[str, Counter[Row]] = {}
        self._sums = {f"{bank}.{table}": 0 for bank in banks for table in MONEY}
        # Bank -> what the other one owes it, by its balances and by its ledger.
        self._owed, self._booked = dict.fromkeys(banks, 0), dict.fromkeys(banks, 0)

    def move(self, time: int, changes: Sequence[Mapping[str, Any]]) -> None:
        """All changes of a time, and a look at what is there then."""
        for change in changes:
            self._apply(change["table"], change["data"], change["diff"])
        for change in changes:
            table, row = change["table"], tuple(change["data"].values())
            if self.tables[table][row] < 0 and len(self.seen.negative) < 5:
                self.seen.negative.append(f"{table} {row} at {time}")
        self._look(time)

    def _apply(self, name: str, data: Mapping[str, Any], diff: int) -> None:
        bank, _, table = name.partition(".")
        self.tables.setdefault(name, Counter())[tuple(data.values())] += diff
        if table in MONEY:
            self._sums[name] += diff * data["balance"]
        if table == BRANCHES and data["id"] == OTHER_BANK:
            self._owed[bank] += diff * data["balance"]
        if table == LEDGER and data["kind"] in _PAYMENTS:
            self._booked[bank] -= diff * data["amount"]

    def _look(self, time: int) -> None:
        seen = self.seen
        of_bank = {bank: sum(self._sums[f"{bank}.{table}"] for table in MONEY) for bank in self._owed}
        there = [bank for bank in of_bank if any(+self.tables.get(f"{bank}.{table}", Counter()) for table in MONEY)]
        for bank in there:
            seen.of_bank.setdefault(bank, set()).add(of_bank[bank])
        if len(there) < len(of_bank):
            return
        seen.times += 1
        seen.totals.add(sum(of_bank.values()))
        for bank, total in of_bank.items():
            seen.held.setdefault(bank, set()).add(total - self._owed[bank])
        for name, total in self._sums.items():
            seen.sums.setdefault(name, set()).add(total)
        seen.on_its_way.append(sum(self._owed.values()))
        if self._owed != self._booked and len(seen.unbooked) < 5:
            seen.unbooked.append(f"at {time} {self._owed} by the balances and {self._booked} by the ledgers")
