"""The bank makes every difficulty that a copy must get over, and its own invariant holds at each commit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg
import pytest

from cdcv2.demo.bank import TABLES, Bank, in_order, lsn_number, row_types
from cdcv2.demo.business import KINDS, OTHER_BANK
from cdcv2.demo.transit import Couriers, introduce
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server for all banks of this file."""
    with Postgres() as started:
        yield started


@pytest.fixture
def make_bank(server: Postgres) -> Callable[..., Bank]:
    """Makes a bank in a database of its own."""

    def make(seed: int, name: str = "one") -> Bank:
        with server.connect(autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            connection.execute(f"CREATE DATABASE {name}".encode())
        bank = Bank(lambda: server.connect(dbname=name), seed=seed, accounts=100)
        bank.create()
        return bank

    return make


def test_money_is_constant_whenever_one_looks_and_moves_between_the_tables(make_bank: Callable[..., Bank]) -> None:
    """Looked at while four clients work: the sum stands still, and neither table's own sum does."""
    bank = make_bank(1)
    sums, totals = set(), set()
    with bank.at_work(clients=4, limit=600) as working:
        waiting = threading.Thread(target=working.wait)
        waiting.start()
        while waiting.is_alive():
            cut = bank.cut()
            accounts = sum(row[3] for row in cut["public.accounts"])
            branches = sum(row[2] for row in cut["public.branches"])
            sums.add((accounts, branches))
            totals.add(accounts + branches)

    assert {bank.money} == totals | {bank.total()}
    assert len(sums) > 5


def test_all_kinds_of_work_are_done_and_some_is_taken_back(make_bank: Callable[..., Bank]) -> None:
    """What is never done is never tested; equal rows there are, too."""
    bank = make_bank(2)

    done = bank.run(800, clients=3)

    committed, rolled_back = set(done.committed), done.rolled_back
    assert {kind.__name__ for kind in KINDS} - {"undone"} == committed
    assert rolled_back["undone"] > 0 and rolled_back["counter"] > 0
    assert 800 == done.committed.total() + rolled_back.total() + done.deadlocks
    ledger = Counter(bank.contents("public.ledger"))
    assert max(ledger.values()) > 1


def test_one_client_does_the_same_again_for_the_same_seed(make_bank: Callable[..., Bank]) -> None:
    """Alone, it has no other to interleave with."""

    def after(seed: int) -> object:
        bank = make_bank(seed)
        bank.run(150, clients=1)
        return bank.cut()

    assert after(5) == after(5) != after(6)


def test_contents_are_rows_of_the_row_types_that_come_with_the_bank(make_bank: Callable[..., Bank]) -> None:
    """So that what was captured can be compared without translation; nulls and non-ASCII text are among them."""
    cut, types = make_bank(3).cut(), row_types()

    assert list(TABLES) == list(types) == list(cut)
    for table, rows in cut.items():
        assert rows == in_order(types[table].row(row) for row in rows)
    values = [value for row in cut["public.accounts"] for value in row]
    assert None in values and "ünïcødé ✓" in values and "0.125" in values


def test_tables_have_full_replica_identity(server: Postgres, make_bank: Callable[..., Bank]) -> None:
    """Without it, updates and deletes would come without their old rows."""
    bank = make_bank(4)
    with bank.connect() as connection:
        found = connection.execute(
            "SELECT relname, relreplident FROM pg_class WHERE relname IN ('accounts', 'branches', 'ledger')"
        ).fetchall()

    assert {("accounts", "f"), ("branches", "f"), ("ledger", "f")} == set(found)


def test_a_marker_lies_past_all_that_was_committed_before_it(make_bank: Callable[..., Bank]) -> None:
    """Its number separates: the log's end before it is below, its own end above."""
    bank = make_bank(7)
    for _ in range(3):
        bank.run(20, clients=2)
        before, marker, after = end_of_log(bank), bank.marker(), end_of_log(bank)

        assert before < marker < after


def end_of_log(bank: Bank) -> int:
    """Where PostgreSQL will write next."""
    with bank.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return lsn_number(row[0]) if row else 0


def test_a_client_that_fails_is_heard_of(make_bank: Callable[..., Bank]) -> None:
    """Its thread must not die in silence while the demo waits for changes."""
    bank = make_bank(8)
    with bank.connect() as connection:
        connection.execute("DROP TABLE ledger")

    with pytest.raises(psycopg.errors.UndefinedTable):
        bank.run(50)


def owed(bank: Bank) -> tuple[int, int]:
    """What the other bank owes this one, by the balance and by the ledger."""
    cut = bank.cut()
    (balance,) = [row[2] for row in cut["public.branches"] if row[0] == OTHER_BANK]
    return balance, -sum(row[3] for row in cut["public.ledger"] if row[2] in ("sent", "received"))


def test_payments_between_two_banks_leave_the_money_of_each_as_it_was(make_bank: Callable[..., Bank]) -> None:
    """They change what each holds itself; on their way they are owed; in the end all have come in."""
    banks = [make_bank(9), make_bank(10, "two")]
    for bank in banks:
        introduce(bank)
    seen = set()
    with banks[0].at_work(clients=2, rate=100), banks[1].at_work(clients=2, rate=100):
        with Couriers(banks[0], banks[1], rate=200, seed=1) as couriers:
            assert poll_until(lambda: couriers.received >= 30, 120)
            for bank in banks:
                balance, booked = owed(bank)
                assert (bank.money, balance) == (bank.total(), booked)
                seen.add(balance)

    assert 2 == len(seen - {0})
    assert couriers.sent == couriers.received >= 30
    assert 0 == sum(balance for balance, _ in map(owed, banks))
    assert [bank.money for bank in banks] == [bank.total() for bank in banks]


def test_a_courier_that_fails_is_heard_of(make_bank: Callable[..., Bank]) -> None:
    """A payment that cannot come in must not be waited for in silence."""
    banks = [make_bank(11), make_bank(12, "two")]
    introduce(banks[0])
    introduce(banks[1])
    with banks[1].connect() as connection:
        connection.execute("DROP TABLE ledger")

    with pytest.raises(psycopg.errors.UndefinedTable), Couriers(banks[0], banks[1], rate=200, seed=1) as couriers:
        assert poll_until(lambda: checked(couriers), 60)


def checked(couriers: Couriers) -> bool:
    """Never, but for what it raises."""
    couriers.check()
    return False
