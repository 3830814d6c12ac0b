"""What the clients of the bank do: each kind of work is one transaction, true when it shall commit.

Between them they do to the tables what makes copies go wrong: changes in two tables at once, new and vanishing rows,
a changed key, a row updated to itself, equal rows twice in a table without a key, many rows at once, work that is
rolled back whole or back to a savepoint.

All take rows of accounts before those of branches, and lower keys first, so deadlocks are rare.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from psycopg import Cursor

    Open: TypeAlias = Cursor[tuple[Any, ...]]

Kind: TypeAlias = "Callable[[Open, Random], bool]"

#: the number of the branch whose balance is what another bank owes this one; no account belongs to it
OTHER_BANK = 0


def _some_account(cursor: Open, draw: Random) -> tuple[int, int] | None:
    """An account and its branch, or None when there is none at the place that was drawn."""
    top = cursor.execute("SELECT max(id) FROM accounts").fetchone()
    wanted = draw.randint(1, top[0] if top and top[0] else 1)
    row = cursor.execute("SELECT id, branch FROM accounts WHERE id >= %s ORDER BY id LIMIT 1", (wanted,)).fetchone()
    return (int(row[0]), int(row[1])) if row else None


def _account_gets(cursor: Open, account: int, amount: int) -> bool:
    """Whether it could: it must be there still, and may not be overdrawn."""
    cursor.execute(
        "UPDATE accounts SET balance = balance + %s WHERE id = %s AND balance + %s >= 0", (amount, account, amount)
    )
    return cursor.rowcount == 1


def _branch_gets(cursor: Open, branch: int, amount: int) -> None:
    cursor.execute("UPDATE branches SET balance = balance + %s WHERE id = %s", (amount, branch))


def _book(cursor: Open, account: int, branch: int | None, kind: str, amount: int) -> None:
    cursor.execute("INSERT INTO ledger VALUES (%s, %s, %s, %s)", (account, branch, kind, amount))


def transfer(cursor: Open, draw: Random) -> bool:
    """From one account to another: within one table."""
    giver, taker = _some_account(cursor, draw), _some_account(cursor, draw)
    if giver is None or taker is None or giver == taker:
        return False
    amount = draw.randint(1, 30_000)
    for account, change in sorted([(giver[0], -amount), (taker[0], amount)]):
        if not _account_gets(cursor, account, change):
            return False
        _book(cursor, account, None, "transfer", change)
    return True


def counter(cursor: Open, draw: Random) -> bool:
    """Cash over the counter, in or out: from one table to the other."""
    found = _some_account(cursor, draw)
    amount = draw.randint(1, 50_000) * draw.choice([1, -1])
    if found is None or not _account_gets(cursor, found[0], amount):
        return False
    _branch_gets(cursor, found[1], -amount)
    _book(cursor, *found, "cash", amount)
    return True


def fees(cursor: Open, draw: Random) -> bool:
    """The same fee several times: equal rows in the ledger."""
    found, times = _some_account(cursor, draw), draw.randint(2, 4)
    if found is None or not _account_gets(cursor, found[0], -100 * times):
        return False
    _branch_gets(cursor, found[1], 100 * times)
    for _ in range(times):
        _book(cursor, *found, "fee", -100)
    return True


def payday(cursor: Open, draw: Random) -> bool:
    """One branch pays many accounts in one statement."""
    found, amount = _some_account(cursor, draw), draw.randint(1, 2_000)
    if found is None:
        return False
    branch = found[1]
    cursor.execute(
        "WITH paid AS (SELECT id FROM accounts WHERE branch = %s ORDER BY id LIMIT 12 FOR UPDATE) "
        "UPDATE accounts SET balance = balance + %s FROM paid WHERE accounts.id = paid.id RETURNING accounts.id",
        (branch, amount),
    )
    paid = sorted(int(row[0]) for row in cursor.fetchall())
    _branch_gets(cursor, branch, -amount * len(paid))
    for account in paid:
        _book(cursor, account, branch, "salary", amount)
    return bool(paid)


def opened(cursor: Open, draw: Random) -> bool:
    """A new account, filled over the counter."""
    amount, holder = draw.randint(1, 80_000), f"holder {draw.randrange(10**6)}"
    neighbour = _some_account(cursor, draw)
    if neighbour is None:
        return False
    made = cursor.execute(
        "INSERT INTO accounts VALUES (nextval('account_numbers'), %s, %s, %s, NULL, false, '2026-01-01', NULL) "
        "RETURNING id",
        (neighbour[1], holder, amount),
    ).fetchone()
    _branch_gets(cursor, neighbour[1], -amount)
    _book(cursor, int(made[0]) if made else 0, neighbour[1], "opened", amount)
    return True


def closed(cursor: Open, draw: Random) -> bool:
    """An account is paid out and deleted."""
    found = _some_account(cursor, draw)
    if found is None:
        return False
    left = cursor.execute("DELETE FROM accounts WHERE id = %s RETURNING balance", (found[0],)).fetchone()
    if left is None:
        return False
    _branch_gets(cursor, found[1], int(left[0]))
    _book(cursor, *found, "closed", -int(left[0]))
    return True


def renumbered(cursor: Open, draw: Random) -> bool:
    """An account gets a new number: its key changes."""
    found = _some_account(cursor, draw)
    if found is None:
        return False
    cursor.execute("UPDATE accounts SET id = nextval('account_numbers'), vip = NOT vip WHERE id = %s", (found[0],))
    return cursor.rowcount == 1


def touched(cursor: Open, draw: Random) -> bool:
    """An account is updated to what it was, and the note of another changes."""
    same, noted = _some_account(cursor, draw), _some_account(cursor, draw)
    if same is None or noted is None or same > noted:
        return False
    cursor.execute("UPDATE accounts SET holder = holder WHERE id = %s", (same[0],))
    note = draw.choice([None, "", "a note", "ñ" * draw.randint(1, 200)])
    cursor.execute("UPDATE accounts SET note = %s WHERE id = %s", (note, noted[0]))
    return True


def reconsidered(cursor: Open, draw: Random) -> bool:
    """A first attempt is taken back to a savepoint, a second one stands."""
    cursor.execute("SAVEPOINT before")
    counter(cursor, draw)
    fees(cursor, draw)
    cursor.execute("ROLLBACK TO SAVEPOINT before")
    return counter(cursor, draw)


def undone(cursor: Open, draw: Random) -> bool:
    """Everything is done, and then taken back."""
    transfer(cursor, draw)
    counter(cursor, draw)
    return False


def audited(cursor: Open, draw: Random) -> bool:
    """One row of the ledger is marked, one of those that may have equals."""
    cursor.execute(
        "UPDATE ledger SET kind = kind || '*' WHERE ctid = "
        "(SELECT ctid FROM ledger WHERE kind = %s LIMIT 1 OFFSET %s FOR UPDATE SKIP LOCKED)",
        (draw.choice(["fee", "cash", "transfer"]), draw.randrange(20)),
    )
    return cursor.rowcount == 1


def struck(cursor: Open, draw: Random) -> bool:
    """One row of the ledger is deleted, whatever equals it stays."""
    cursor.execute(
        "DELETE FROM ledger WHERE ctid = "
        "(SELECT ctid FROM ledger WHERE kind = 'fee' LIMIT 1 OFFSET %s FOR UPDATE SKIP LOCKED)",
        (draw.randrange(20),),
    )
    return cursor.rowcount == 1


def sent(cursor: Open, draw: Random) -> int:
    """Money leaves for the other bank, and is booked as what that one owes; how much, 0 when there is none to send."""
    found, amount = _some_account(cursor, draw), draw.randint(1, 20_000)
    if found is None or not _account_gets(cursor, found[0], -amount):
        return 0
    _branch_gets(cursor, OTHER_BANK, amount)
    _book(cursor, found[0], OTHER_BANK, "sent", -amount)
    return amount


def received(cursor: Open, draw: Random, amount: int) -> bool:
    """Money from the other bank comes in, and is booked as paid back by it."""
    found = _some_account(cursor, draw)
    if found is None or not _account_gets(cursor, found[0], amount):
        return False
    _branch_gets(cursor, OTHER_BANK, -amount)
    _book(cursor, found[0], OTHER_BANK, "received", amount)
    return True


_SHARES: dict[Kind, int] = {
    transfer: 20,
    counter: 30,
    fees: 8,
    payday: 3,
    opened: 8,
    closed: 6,
    renumbered: 3,
    touched: 5,
    reconsidered: 5,
    undone: 5,
    audited: 4,
    struck: 3,
}
#: the kinds of work, and how often each is drawn
KINDS = tuple(_SHARES)
WEIGHTS = tuple(_SHARES.values())
