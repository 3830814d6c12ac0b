"""The judge of the demonstration with two banks: it must see what is wrong, or its "ok" means nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cdcv2.demo import both
from cdcv2.demo.bank import Row

BANKS = ("bank", "shop")
#: An update of a table: the table's name, its row, time, diff.
Said = tuple[str, tuple[Any, ...], int, int]
COLUMNS = {
    "accounts": ("id", "branch", "holder", "balance", "rate", "vip", "opened", "note"),
    "branches": ("id", "city", "balance"),
    "ledger": ("account", "branch", "kind", "amount"),
}


def account(balance: int) -> Row:
    """The one account of a bank."""
    return 1, 1, "h", balance, None, True, 3, None


def other(balance: int) -> Row:
    """What the other bank owes."""
    return 0, "the other bank", balance


def opens(bank: str, time: int, money: int) -> list[Said]:
    """Its snapshot."""
    return [(f"{bank}.accounts", account(money), time, 1), (f"{bank}.branches", other(0), time, 1)]


def pays(bank: str, time: int, has: int, owed: int, amount: int) -> list[Said]:
    """A payment leaves a bank that has and is owed so much; comes in, if the amount is below 0."""
    kind = "sent" if amount > 0 else "received"
    return [
        (f"{bank}.accounts", account(has), time, -1), (f"{bank}.accounts", account(has - amount), time, 1),
        (f"{bank}.branches", other(owed), time, -1), (f"{bank}.branches", other(owed + amount), time, 1),
        (f"{bank}.ledger", (1, 0, kind, -amount), time, 1),
    ]  # fmt: skip


def printed(*cuts: Iterable[Said]) -> Iterator[str]:
    """As replay prints them: what is complete, by table and in no order of times, then the frontier."""
    upper = 0
    for cut in cuts:
        for name, row, time, diff in sorted(cut, key=lambda said: (said[0], -said[2])):
            bank, _, table = name.partition(".")
            data = dict(zip(COLUMNS[table], row))
            yield json.dumps({"table": f"{bank}.public.{table}", "data": data, "time": time, "diff": diff})
            upper = max(upper, time + 1)
        yield json.dumps({"frontier": [upper]})


#: Both open, at different times; a payment of 30 leaves one, and comes into the other.
GOOD = [*opens("bank", 2, 100), *opens("shop", 4, 50), *pays("bank", 6, 100, 0, 30), *pays("shop", 8, 50, 0, -30)]


@pytest.mark.parametrize("cuts", [[GOOD], [GOOD[:2], GOOD[2:4], [], GOOD[4:]]], ids=["at once", "in parts"])
def test_money_on_its_way_is_part_of_the_constant(cuts: list[list[Said]]) -> None:
    """Looked at at each time, however it was printed; the sums of the parts vary."""
    seen = both.read(printed(*cuts), BANKS)

    assert (3, {150}, {"bank": {100}, "shop": {50}}) == (seen.times, seen.totals, seen.of_bank)
    assert ([0, 30, 0], [], []) == (seen.on_its_way, seen.unbooked, seen.negative)
    assert {"bank": {100, 70}, "shop": {50, 80}} == seen.held
    assert {100, 70} == seen.sums["bank.public.accounts"] and {0, 30} == seen.sums["bank.public.branches"]
    assert [account(80)] == seen.rows["shop.public.accounts"] and 9 == seen.frontiers[-1]


def test_what_comes_in_before_it_was_sent_is_less_than_nothing_on_its_way() -> None:
    """Two databases have no common order: that is no error, and the sum is the constant."""
    early = [*GOOD[:4], *pays("bank", 8, 100, 0, 30), *pays("shop", 6, 50, 0, -30)]

    seen = both.read(printed(early), BANKS)

    assert ({150}, [0, -30, 0], []) == (seen.totals, seen.on_its_way, seen.unbooked)


@pytest.mark.parametrize("gone", [4, 5, 7, 9, 12], ids=["goes", "comes", "owed", "of the other", "owed to the other"])
def test_an_update_that_is_missing_is_another_sum(gone: int) -> None:
    """Of both banks, and of that one."""
    seen = both.read(printed([said for at, said in enumerate(GOOD) if at != gone]), BANKS)

    assert {150} != seen.totals and [1, 2] == sorted(len(sums) for sums in seen.of_bank.values())


def test_ledgers_that_say_something_else_are_seen() -> None:
    """What is owed must be what was booked, at each time."""
    seen = both.read(printed([*GOOD[:8], *GOOD[9:]]), BANKS)

    assert 2 == len(seen.unbooked) and seen.unbooked[0].startswith("at 6 ")


def test_a_row_that_goes_before_it_comes_is_seen() -> None:
    """With its table and its time."""
    seen = both.read(printed([*GOOD, ("bank.ledger", (1, 1, "fee", -1), 5, -1)]), BANKS)

    assert ["bank.public.ledger (1, 1, 'fee', -1) at 5"] == seen.negative
