"""What a real server states of its commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control import database_probe
from cdcv2.control.database_probe import confirmed_slot, first_commit_after, observe_database
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import Act, decide
from cdcv2.control.kinds.slots import SlotKind
from cdcv2.control.observations import SlotObservation
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until

pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(settings={"track_commit_timestamp": "on", "max_prepared_transactions": "2"}) as made:
        with made.connect(autocommit=True) as session:
            session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
            session.execute("CREATE TABLE orders (id bigint)")
        yield made


def conninfo(server: Postgres) -> str:
    return (
        f"host={server.host} port={server.port} dbname={server.database} user={server.username} "
        f"password={server.password}"
    )


def test_no_first_commit_is_named_where_not_all_were_looked_at(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some, the oldest may be younger than one that was not looked at: "at most" would be below the truth."""
    begun = time.time()
    with server.connect(autocommit=True) as session:
        for number in range(3):
            session.execute("INSERT INTO orders VALUES (%s)", (number,))
    last = TransactionEnd(3, 500, begun, 8)
    first = first_commit_after(conninfo(server), "shop", last, origin="a test")
    monkeypatch.setattr(database_probe, "MOST", 2)

    assert first is not None and begun <= first <= time.time()
    assert first_commit_after(conninfo(server), "shop", last, origin="a test") is None


def test_a_slot_that_is_not_read_confirms_nothing_and_is_seen_as_it_is(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for it has an end."""
    monkeypatch.setattr(database_probe, "_CONFIRMING", 0.1)
    seen = confirmed_slot(conninfo(server), "shop", 1 << 60, origin="a test")

    assert seen is not None and (seen.name, seen.active) == ("shop", False)
    assert confirmed_slot(conninfo(server), "other", 1 << 60, origin="a test") is None


def test_what_a_slot_waits_for_is_asked_once(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with each look at whether it has confirmed more."""
    asked = list[str]()
    real = database_probe._rows

    def rows(session: Any, sql: str, *values: object) -> list[Any]:
        asked.append(sql)
        found = real(session, sql, *values)
        return [(*found[0][:6], True)] if sql == database_probe._SLOT else found

    monkeypatch.setattr(database_probe, "_CONFIRMING", 0.3)
    monkeypatch.setattr(database_probe, "_rows", rows)
    slot = confirmed_slot(conninfo(server), "shop", 1 << 60, origin="a test")

    assert slot is not None and slot.being_made
    assert 1 == asked.count(database_probe._OLDEST) < asked.count(database_probe._SLOT)


def seen(server: Postgres, user: str = "") -> SlotObservation | None:
    """The slot that is made in these tests; ``user``: as this one sees it."""
    login = f" user={user} password={user}" if user else ""
    return observe_database(conninfo(server) + login, "late", origin="a test").slot


def made_in_a_thread(server: Postgres) -> Thread:
    """A session that makes the slot, for as long as that takes."""

    def make() -> None:
        with server.connect(autocommit=True) as session:
            session.execute("SELECT pg_create_logical_replication_slot('late', 'pgoutput')")

    thread = Thread(target=make)
    thread.start()
    return thread


def is_awaited(server: Postgres) -> bool:
    slot = seen(server)
    return slot is not None and slot.being_made


ENTRY = CatalogueEntry(
    "7f", Kind.SLOT, "late", "db", {"plugin": "pgoutput", "database": "bank"}, True, ("shop",), maker="c", attempted=1.0
)


def step_of(server: Postgres) -> Any:
    """What the catalogue makes of the slot."""
    return decide(ENTRY, SlotKind({"db": conninfo(server)}).look(ENTRY), 2.0)


def test_a_slot_that_waits_for_a_transaction_names_it_and_is_not_there_yet(server: Postgres) -> None:
    """Of any database. One that has only read is not waited for, however old it is; nor is that named."""
    with server.connect(autocommit=True) as session:
        session.execute("CREATE DATABASE other")
        session.execute("CREATE ROLE weak LOGIN PASSWORD 'weak'")
    with server.connect() as reads, server.connect(dbname="other") as writes:
        reads.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reads.execute("SELECT FROM orders")
        writes.execute("SET application_name = 'night'")
        writes.execute("CREATE TABLE junk (id bigint)")
        process = writes.info.backend_pid
        thread = made_in_a_thread(server)
        try:
            assert poll_until(lambda: is_awaited(server), 20)
            slot, weak, step = seen(server), seen(server, "weak"), step_of(server)
        finally:
            writes.rollback()
        thread.join(30)
        # The reader is there still.
        assert not thread.is_alive()
        made = seen(server)
    after = step_of(server)
    with server.connect(autocommit=True) as session:
        session.execute("SELECT pg_drop_replication_slot('late')")

    assert slot is not None and slot.oldest is not None and len(slot.oldest.since) == 19
    assert (process, "cdcv2", "night", "other") == (
        slot.oldest.process, slot.oldest.user, slot.oldest.application, slot.oldest.database)
    assert slot.confirmed is None and f"process {process} of cdcv2 (night)" in str(slot.awaits)
    # Without the right to see more, it is named, too.
    assert weak is not None and weak.oldest is not None and weak.oldest.process == process
    assert made is not None and (False, None, None) == (made.being_made, made.oldest, made.awaits)
    assert (Act.AWAIT, EntryState.WANTED, None) == (step.act, step.entry.state, step.entry.identity)
    assert Reason.AWAITED is step.entry.debt.reason and "transactions that were open" in step.shown
    assert (EntryState.MADE, None) == (after.entry.state, after.entry.debt)


def test_a_slot_that_waits_for_a_prepared_transaction_names_that(server: Postgres) -> None:
    """No session has it."""
    with server.connect(autocommit=True) as session:
        session.execute("BEGIN; INSERT INTO orders VALUES (9); PREPARE TRANSACTION 'it''s'")
    thread = made_in_a_thread(server)
    try:
        assert poll_until(lambda: is_awaited(server), 20)
        slot = seen(server)
    finally:
        with server.connect(autocommit=True) as session:
            session.execute("ROLLBACK PREPARED 'it''s'")
    thread.join(30)
    with server.connect(autocommit=True) as session:
        session.execute("SELECT pg_drop_replication_slot('late')")

    assert slot is not None and slot.oldest is not None
    assert (None, "it's", "cdcv2", "bank") == (
        slot.oldest.process, slot.oldest.prepared, slot.oldest.user, slot.oldest.database)
    assert "ROLLBACK PREPARED 'it''s'" in slot.oldest.remedy


def test_a_slot_that_is_read_is_made(server: Postgres) -> None:
    """It is held by a session, too, as one that is being made."""
    with server.connect(autocommit=True) as session:
        session.execute("CREATE PUBLICATION late")
        session.execute("SELECT pg_create_logical_replication_slot('late', 'pgoutput')")
    reader = server.connect(autocommit=True, replication="database")
    reader.pgconn.exec_(b"START_REPLICATION SLOT late LOGICAL 0/0 (proto_version '1', publication_names 'late')")
    slot = seen(server)
    reader.close()
    with server.connect(autocommit=True) as session:
        assert poll_until(lambda: not (seen(server) or SlotObservation("", True)).active, 20)
        session.execute("SELECT pg_drop_replication_slot('late')")

    assert slot is not None and (True, False, None) == (slot.active, slot.being_made, slot.awaits)
