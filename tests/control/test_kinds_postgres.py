"""Publications, slots, tables and schemas in a real PostgreSQL: the stories of every kind, and its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, LiteralString

import pytest
from psycopg import Connection, OperationalError

from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.intents import used, used_by
from cdcv2.control.kinds import postgres as postgres_kinds
from cdcv2.control.kinds.postgres import (
    WITHIN_DESTROY,
    WITHIN_MAKE,
    PostgresKind,
    PublicationKind,
    StagingKind,
    TargetTableKind,
)
from cdcv2.control.kinds.slots import SlotKind
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, OutputError, RefusedError, UsageError
from cdcv2.materialize.protocol.messages import Checkpoint, Field, Open, Table
from cdcv2.materialize.targets.postgres import fence
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.materialize.targets.postgres.tables import TYPES, made_columns
from cdcv2.rows.source_types import SourceType
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from cdcv2.store.postgres_session import connect
from cdcv2.views.source_columns import kind_of
from tests.kinds_of_state import STORIES, KindCase

pytestmark = pytest.mark.integration

ADDRESS = "PostgreSQL bank"
COLUMNS = [["id", "bigint", False], ["name", "text", True]]
SLOT = {"plugin": "pgoutput", "database": "bank"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One for all; each test leaves it as it was."""
    with Postgres() as running:
        with running.connect(autocommit=True) as session:
            session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); CREATE TABLE items (id bigint PRIMARY KEY)")
            session.execute("CREATE ROLE weak LOGIN PASSWORD 'weak'")
        yield running


@pytest.fixture(scope="module", autouse=True)
def sessions() -> Iterator[None]:
    """A look has a session of its own; here, each takes the last one of its user, as three thousand are looked.

    A session that has ended, as its server did, is not taken.
    """
    kept: dict[str, Connection[Any]] = {}

    def connect_again(conninfo: str, *, origin: str = "", autocommit: bool = False) -> Connection[Any]:
        if autocommit:
            return connect(conninfo, autocommit=True)
        session = kept.pop(conninfo, None)
        if session is not None:
            with suppress(OperationalError):
                session.execute("SELECT")
                session.rollback()
                kept[conninfo] = session
                return session
        session = kept[conninfo] = connect(conninfo, origin=origin)
        # No statement is prepared, as none is in a session of its own. And `with` does not close one that a pool has.
        session.prepare_threshold = None
        vars(session)["_pool"] = kept
        return session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_kinds, "connect", connect_again)
        yield
    for session in kept.values():
        session.close()


def conninfo(postgres: Postgres, user: str | None = None, password: str | None = None) -> str:
    """The connection string of a user; by default, of the superuser."""
    who = f"user={user or postgres.username} password={password or postgres.password}"
    return f"host={postgres.host} port={postgres.port} dbname=bank {who}"


#: kind -> class, name, settings, how others make one that is not ours, and how one is dropped
CASES: dict[Kind, tuple[type[PostgresKind], str, dict[str, Any], str, str]] = {
    Kind.PUBLICATION: (PublicationKind, "shop", {"tables": ["public.items", "public.orders"]},
                       "CREATE PUBLICATION shop FOR TABLE orders", "DROP PUBLICATION shop"),
    Kind.SLOT: (SlotKind, "shop", SLOT, "SELECT pg_create_logical_replication_slot('shop', 'test_decoding')",
                "SELECT pg_drop_replication_slot('shop')"),
    Kind.TARGET_TABLE: (TargetTableKind, "public.Shop", {"columns": COLUMNS, "key": ["id"]},
                        'CREATE TABLE "Shop" (id bigint PRIMARY KEY)', 'DROP TABLE "Shop"'),
    Kind.STAGING: (StagingKind, "shop_staging", {}, "CREATE SCHEMA shop_staging", "DROP SCHEMA shop_staging"),
}  # fmt: skip
WHERE = {
    Kind.PUBLICATION: "FROM pg_publication WHERE pubname = 'shop'",
    Kind.SLOT: "FROM pg_replication_slots WHERE slot_name = 'shop'",
    Kind.TARGET_TABLE: "FROM pg_class WHERE relname = 'Shop'",
    Kind.STAGING: "FROM pg_namespace WHERE nspname = 'shop_staging'",
}


def case_of(postgres: Postgres, kind: Kind, **login: str) -> KindCase:
    """The kind, as this user has it."""
    make, name, settings, theirs, drop = CASES[kind]

    def do(statement: str) -> list[Any]:
        with postgres.connect(autocommit=True) as session:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    # Making and dropping a slot is no part of a transaction.
    steps = () if kind is Kind.SLOT else (WITHIN_MAKE, WITHIN_DESTROY)
    return KindCase(
        kind, make({ADDRESS: conninfo(postgres, **login)}), ADDRESS, name, settings, lambda: do(theirs),
        lambda: do(drop), lambda: do(f"SELECT count(*) {WHERE[kind]}") == [(1,)], steps,
    )  # fmt: skip


@pytest.mark.parametrize("kind", list(CASES))
@pytest.mark.parametrize("story", STORIES)
def test_what_is_in_postgres_does_as_every_kind_does(
    story: Callable[[KindCase], None], kind: Kind, postgres: Postgres
) -> None:
    """Each story on each kind; nothing is there afterwards."""
    case = case_of(postgres, kind)
    story(case)

    assert not case.exists()


@pytest.mark.parametrize("kind", list(CASES))
def test_without_a_right_it_is_owed_and_done_when_it_is_there(kind: Kind, postgres: Postgres) -> None:
    """The same catalogue, another user: what was denied is tried again without end."""
    weak = case_of(postgres, kind, user="weak", password="weak")
    entry = weak.up()
    assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry

    strong = case_of(postgres, kind)
    strong.catalogue, strong.now = weak.catalogue, weak.now
    assert EntryState.MADE is strong.go_on().state
    weak.now = strong.now
    entry = weak.down()
    assert entry.debt is not None and (EntryState.UNWANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
    strong.now = weak.now
    assert EntryState.GONE is strong.go_on().state


@pytest.mark.parametrize("kind", list(CASES))
def test_a_server_that_is_away_is_waited_for(kind: Kind) -> None:
    """On the way up, while it is used, and on the way down; nothing is believed meanwhile."""
    with Postgres() as postgres:
        with postgres.connect(autocommit=True) as session:
            session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); CREATE TABLE items (id bigint PRIMARY KEY)")
        case = case_of(postgres, kind)
        postgres.stop()
        assert Reason.UNREACHABLE is (case.up().debt or pytest.fail("no debt")).reason
        postgres.start()
        made = case.go_on()
        case.catalogue.kept[made.nonce] = used(made, case.now)
        postgres.stop()
        entry = case.go_on()
        assert (EntryState.IN_USE, Reason.UNREACHABLE) == (entry.state, (entry.debt or pytest.fail("none")).reason)
        entry = case.down()
        assert (EntryState.UNWANTED, Reason.UNREACHABLE) == (entry.state, (entry.debt or pytest.fail("none")).reason)
        postgres.start()

        assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_a_table_that_is_locked_or_needed_is_owed(postgres: Postgres) -> None:
    """By a session, and by a view that others have built on it; and then it is dropped."""
    case = case_of(postgres, Kind.TARGET_TABLE)
    case.up()
    with postgres.connect(autocommit=True) as session:
        session.execute('CREATE VIEW theirs AS SELECT * FROM "Shop"')
        entry = case.down()
        assert entry.debt is not None and Reason.BUSY is entry.debt.reason
        session.execute("DROP VIEW theirs")
    with closing(postgres.connect()) as session:
        session.execute('LOCK TABLE "Shop"')
        control = case.control()
        control.round()
        entry = case.entry()
        assert entry.debt is not None and Reason.BUSY is entry.debt.reason
        session.rollback()

    assert EntryState.GONE is case.go_on().state


def test_a_publication_whose_table_or_itself_is_locked_is_owed(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a session of others: on the way up, and on the way down."""
    monkeypatch.setattr(postgres_kinds, "PATIENCE", 200)
    case = case_of(postgres, Kind.PUBLICATION)
    table = case.settings["tables"][0]
    with closing(postgres.connect()) as session:
        session.execute(f"LOCK TABLE {table}")
        case.up()
        entry = case.entry()
        assert entry.debt is not None and (EntryState.WANTED, Reason.BUSY) == (entry.state, entry.debt.reason), entry
        session.rollback()
        assert EntryState.MADE is case.go_on().state
        session.execute(f'COMMENT ON PUBLICATION "{case.name}" IS NULL')
        entry = case.down()
        assert entry.debt is not None and (EntryState.UNWANTED, Reason.BUSY) == (entry.state, entry.debt.reason), entry
        session.rollback()

    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_a_schema_keeps_what_others_put_there(postgres: Postgres) -> None:
    """Only tables of ours are dropped with it."""
    case = case_of(postgres, Kind.STAGING)
    case.up()
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE shop_staging.cdcv2_rows_1 (x int); CREATE TABLE shop_staging.theirs (x int)")
        entry = case.down()
        assert entry.debt is not None and Reason.BUSY is entry.debt.reason
        assert [("cdcv2_rows_1",), ("theirs",)] == session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'shop_staging' ORDER BY 1"
        ).fetchall()
        session.execute("DROP TABLE shop_staging.theirs")

    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


@pytest.mark.parametrize("kind", list(CASES))
def test_what_a_server_has_is_removed_by_whatever_address_leads_to_it(kind: Kind, postgres: Postgres) -> None:
    """The file has another address of it by now. Another database or server has nothing of ours."""
    case, info, make = case_of(postgres, kind), conninfo(postgres), CASES[kind][0]
    case.address = "PostgreSQL db:1/bank"
    case.how = make({case.address: info})
    made = case.up()
    away = conninfo(postgres).replace(f"port={postgres.port}", "port=1")
    case.how = make({"PostgreSQL localhost:1/other": info, "PostgreSQL away/bank": away})
    owed = case.down()
    assert owed.debt is not None and "no connection to PostgreSQL db:1/bank is declared any more" in owed.debt.text
    case.how = make({"PostgreSQL away/bank": away, "PostgreSQL localhost:1/bank": info})
    case.catalogue.kept[made.nonce] = replace(owed, server="another")
    owed = case.go_on()
    assert owed.debt is not None and "is declared any more" in owed.debt.text and case.exists()
    case.catalogue.kept[made.nonce] = replace(owed, server=made.server)

    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


@pytest.mark.parametrize(("kind", "settings", "there"), [
    (Kind.PUBLICATION, {"tables": ["public.items", 'public.we."ird']},
     "SELECT tablename FROM pg_publication_tables WHERE pubname = 'my.Shop' ORDER BY 1"),
    (Kind.STAGING, {}, "SELECT nspname FROM pg_namespace WHERE nspname = 'my.Shop'"),
    (Kind.TARGET_TABLE, {"columns": COLUMNS, "key": ["id"]},
     "SELECT relname FROM pg_class WHERE relnamespace = 'my'::regnamespace AND relkind = 'r'"),
])  # fmt: skip
def test_a_dot_is_a_character_of_a_name_as_any_except_behind_a_schema(
    kind: Kind, settings: dict[str, Any], there: LiteralString, postgres: Postgres
) -> None:
    """Only a table is in a schema, which ends at the first dot."""
    case = replace(case_of(postgres, kind), name="my.Shop", settings=settings)
    with postgres.connect(autocommit=True) as session:
        session.execute('CREATE TABLE "we.""ird" (id bigint PRIMARY KEY); CREATE SCHEMA my')
        try:
            made = case.up()
            assert EntryState.MADE is made.state, made
            found = {name for (name,) in session.execute(there)}
            assert EntryState.GONE is case.down().state
            assert [] == session.execute(there).fetchall()
        finally:
            session.execute('DROP TABLE "we.""ird"; DROP SCHEMA my')

    assert {Kind.PUBLICATION: {"items", 'we."ird'}, Kind.STAGING: {"my.Shop"}}.get(kind, {"Shop"}) == found


def test_a_publication_follows_the_file_and_shows_what_others_changed(postgres: Postgres) -> None:
    """Its tables are its settings."""
    case = case_of(postgres, Kind.PUBLICATION)
    case.up()
    assert case.up(settings={"tables": ["public.orders"]}).debt is None
    with postgres.connect(autocommit=True) as session:
        session.execute("ALTER PUBLICATION shop ADD TABLE items")
    entry = case.up(settings={"tables": ["public.orders"]})
    assert entry.debt is not None and Reason.DRIFT is entry.debt.reason
    assert "tables is ['public.items', 'public.orders'], not ['public.orders']" in entry.debt.text

    assert EntryState.GONE is case.down().state


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("change", [
    "ALTER PUBLICATION shop DROP TABLE sold",
    "ALTER PUBLICATION shop DROP TABLE sold; ALTER PUBLICATION shop ADD TABLE sold",
    "ALTER TABLE sold RENAME TO old; CREATE TABLE sold (id int)",
    "ALTER TABLE sold RENAME TO old; CREATE TABLE sold (id int); ALTER PUBLICATION shop ADD TABLE sold",
    "ALTER PUBLICATION shop SET TABLE items, sold WHERE (id > 0)",
    "ALTER PUBLICATION shop SET (publish = 'insert, update, truncate')",
    "ALTER PUBLICATION shop SET (publish = 'insert, update, delete')",
    "ALTER PUBLICATION shop SET (publish = 'insert'); "
    "ALTER PUBLICATION shop SET (publish = 'insert, update, delete, truncate')",
])
def test_a_table_that_leaves_a_publication_in_use_is_lost_also_when_it_is_back(
    change: str, owned: bool, postgres: Postgres
) -> None:
    """Its changes since then are in no topic. Before a job uses the publication that does no harm."""
    tables = {"tables": ["public.items", "public.sold"]}
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE TABLE sold (id bigint PRIMARY KEY)")
        if not owned:
            session.execute("CREATE PUBLICATION shop FOR TABLE items, sold")
        case = case_of(postgres, Kind.PUBLICATION)
        made = case.up(owned=owned, settings=tables)
        assert (EntryState.MADE, None) == (made.state, made.debt)
        for statement in change.split("; "):
            session.execute(statement)
        unused = case.go_on()
        for statement in ("DROP TABLE IF EXISTS old CASCADE", "ALTER PUBLICATION shop SET TABLE items, sold",
                          "ALTER PUBLICATION shop SET (publish = 'insert, update, delete, truncate')"):
            session.execute(statement)
        case.go_on()
        case.use()
        good = case.go_on()
        for statement in change.split("; "):
            session.execute(statement)
        lost = case.go_on()
        session.execute("DROP PUBLICATION shop; DROP TABLE IF EXISTS old, sold CASCADE")

    assert (EntryState.MADE, EntryState.IN_USE, None) == (unused.state, good.state, good.debt)
    assert EntryState.LOST is lost.state and lost.debt is not None
    assert "has not published" in lost.debt.text and "public.sold" in lost.debt.text


@pytest.mark.parametrize("owned", [True, False])
def test_a_publication_that_is_lost_goes_on_where_a_person_accepts_it(owned: bool, postgres: Postgres) -> None:
    """As it is from then on: the next time is noticed, too. It has to be the same one, and to publish all tables."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop")
        if not owned:
            session.execute("CREATE PUBLICATION shop FOR TABLE items, orders")
        case = case_of(postgres, Kind.PUBLICATION)
        case.up(owned=owned, settings={"tables": ["public.items", "public.orders"]})
        case.use()
        case.go_on()
        with pytest.raises(UsageError, match="nothing called 'shop' is lost and can be accepted; what can: nothing"):
            case.control().accept(["shop"])
        states = []
        for _ in range(2):
            session.execute("ALTER PUBLICATION shop DROP TABLE items")
            states.append(case.go_on().state)
            with pytest.raises(RefusedError, match="cannot be accepted: .*public.items.*Put it back as it was"):
                case.control().accept(["shop"])
            session.execute("ALTER PUBLICATION shop ADD TABLE items")
            # All that are named, or none.
            with pytest.raises(UsageError, match="nothing called 'sho' is lost and can be accepted; what can: shop"):
                case.control().accept(["shop", "sho"])
            assert EntryState.LOST is case.go_on().state
            case.control().accept(["shop"])
            states += [case.go_on().state, case.go_on().state]
        session.execute("DROP PUBLICATION shop; CREATE PUBLICATION shop FOR TABLE items, orders")
        states.append(case.go_on().state)
        if owned:
            with pytest.raises(RefusedError, match="cannot be accepted: it is missing, or another one has its name"):
                case.control().accept(["shop"])
        else:
            # What others run is what they state it to be.
            case.control().accept(["shop"])
            states += [case.go_on().state, case.go_on().state]
        session.execute("DROP PUBLICATION shop")

    good = [EntryState.LOST, EntryState.IN_USE, EntryState.IN_USE]
    assert good * 2 + good[:1 if owned else 3] == states


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("address", [ADDRESS, "another name of it"])
def test_what_others_run_is_compared_with_what_it_was_before_the_file_left_it_out(
    lost: bool, address: str, postgres: Postgres
) -> None:
    """It was altered and altered back meanwhile, or was lost before. For other topics it begins from nothing."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE PUBLICATION shop FOR TABLE items, orders")
        case = case_of(postgres, Kind.PUBLICATION)
        case.how = PublicationKind(dict.fromkeys([ADDRESS, address, "a third"], conninfo(postgres)))
        settings = {"tables": ["public.items", "public.orders"]}
        feeds = {"shop.public.items": "public.items", "shop.public.orders": "public.orders"}
        case.up(owned=False, settings=settings, feeds=feeds)
        case.use()
        case.go_on()
        states = [case.down().state]
        states.append(case.up(owned=False, settings=settings, address=address, feeds=feeds).state)
        if lost:
            session.execute("ALTER PUBLICATION shop DROP TABLE items; ALTER PUBLICATION shop ADD TABLE items")
            states.append(case.go_on().state)
            states.append(case.down().state)
        else:
            states.append(case.down().state)
            session.execute("ALTER PUBLICATION shop DROP TABLE items; ALTER PUBLICATION shop ADD TABLE items")
        back = case.up(owned=False, settings=settings, feeds=feeds, user="another job")
        others = {f"second.{table}": table for table in settings["tables"]}
        other = case.up(owned=False, settings=settings, feeds=others, address="a third")
        session.execute("DROP PUBLICATION shop")

    assert [EntryState.GONE, EntryState.IN_USE, *[EntryState.LOST] * lost, EntryState.GONE] == states
    assert EntryState.LOST is back.state and back.debt is not None and f"--accept-lost {back.nonce}" in back.debt.text
    assert EntryState.MADE is other.state


@pytest.mark.parametrize(("change", "state"), [
    ("ALTER PUBLICATION shop DROP TABLE items; ALTER PUBLICATION shop ADD TABLE items", EntryState.LOST),
    ("ALTER TABLE items RENAME TO old; ALTER TABLE old RENAME TO items", EntryState.LOST),
    ("VACUUM FULL items; ALTER PUBLICATION shop ADD TABLE more", EntryState.IN_USE),
])
def test_a_table_that_one_of_two_captures_leaves_out_for_a_while_is_compared(
    change: str, state: EntryState, postgres: Postgres
) -> None:
    """The publication of others is in use by the other one all the time."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE IF EXISTS more; CREATE TABLE more (id int)")
        session.execute("CREATE PUBLICATION shop FOR TABLE items, orders")
        case = case_of(postgres, Kind.PUBLICATION)

        def run(*tables: str) -> EntryState:
            settings = {"tables": [f"public.{table}" for table in tables]}
            control = case.control()
            control.desire([
                wish for table in tables for wish in case.desired(
                    owned=False, settings=settings, user=f"capture {table}",
                    feeds={f"shop.public.{table}": f"public.{table}"},
                )
            ], lambda: "n1")  # fmt: skip
            case.go_on(control)
            control.catalogue.write(used_by("capture orders", control.catalogue.entries(), case.now))
            return case.go_on(control).state

        states = [run("items", "orders"), run("orders")]
        for statement in change.split("; "):
            session.execute(statement)
        states += [run("orders"), run("items", "orders")]
        session.execute("DROP PUBLICATION shop; DROP TABLE more")

    assert [EntryState.IN_USE, EntryState.IN_USE, EntryState.IN_USE, state] == states


def test_a_slot_of_others_that_was_made_again_goes_on_where_a_person_accepts_it(postgres: Postgres) -> None:
    """After a new snapshot, as its owner states. One of ours that is made again has lost what it held."""
    with postgres.connect(autocommit=True) as session:
        make = "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')"
        session.execute(make)
        case = case_of(postgres, Kind.SLOT)
        case.up(owned=False)
        case.use()
        case.go_on()
        session.execute("SELECT pg_drop_replication_slot('shop')")
        lost = case.go_on()
        assert lost.debt is not None and f"--accept-lost {lost.nonce}" in lost.debt.text
        with pytest.raises(RefusedError, match="cannot be accepted: it is missing"):
            case.control().accept(["shop"])
        session.execute(make)
        case.control().accept(["shop"])
        states = [case.go_on().state, case.go_on().state]
        session.execute("SELECT pg_drop_replication_slot('shop')")

    assert (EntryState.LOST, [EntryState.IN_USE] * 2) == (lost.state, states)


def test_a_publication_of_others_that_lacks_a_table_in_use_is_lost(postgres: Postgres) -> None:
    """From the first look on: what is committed before its owner adds the table is in no topic."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE PUBLICATION shop FOR TABLE items")
        case = case_of(postgres, Kind.PUBLICATION)
        before = case.up(owned=False, settings={"tables": ["public.items", "public.orders"]})
        case.use()
        lost = case.go_on()
        session.execute("ALTER PUBLICATION shop ADD TABLE orders")
        still = case.go_on()
        session.execute("DROP PUBLICATION shop")

    assert before.debt is not None and Reason.DRIFT is before.debt.reason
    assert (EntryState.LOST, EntryState.LOST) == (lost.state, still.state)
    assert lost.debt is not None and "has not published public.orders" in lost.debt.text


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("child", [
    "CREATE TABLE child (more int) INHERITS (sold)",
    "CREATE TABLE child (id bigint NOT NULL); ALTER TABLE child INHERIT sold",
    "CREATE TABLE child (more int) INHERITS (sold); ALTER PUBLICATION shop ADD TABLE child",
])
def test_a_table_in_use_is_lost_when_others_inherit_from_it(child: str, owned: bool, postgres: Postgres) -> None:
    """Their rows are rows of it, and in no topic of it. Without them it is whole again, and a person accepts it."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE TABLE sold (id bigint PRIMARY KEY)")
        if not owned:
            session.execute("CREATE PUBLICATION shop FOR TABLE items, sold")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up(owned=owned, settings={"tables": ["public.items", "public.sold"]})
            case.use()
            good = case.go_on()
            session.execute(child.encode())
            lost = case.go_on()
            with pytest.raises(RefusedError, match="cannot be accepted: .*public.child inherit from public.sold"):
                case.control().accept(["shop"])
            session.execute("ALTER TABLE child NO INHERIT sold; ALTER PUBLICATION shop SET TABLE items, sold")
            case.control().accept(["shop"])
            again = case.go_on()
        finally:
            session.execute("DROP PUBLICATION shop; DROP TABLE IF EXISTS child; DROP TABLE sold")

    assert (EntryState.IN_USE, None) == (good.state, good.debt)
    assert EntryState.LOST is lost.state and lost.debt is not None
    assert "does not send all rows of public.sold as they are. public.child inherit from public.sold" in lost.debt.text
    assert (EntryState.IN_USE, None) == (again.state, again.debt)


@pytest.mark.parametrize("owned", [True, False])
def test_a_table_whose_old_rows_are_known_by_another_index_is_not_sent_as_it_is(
    owned: bool, postgres: Postgres
) -> None:
    """By its records another row would be deleted. The index of the primary key is that key."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE TABLE sold (id bigint PRIMARY KEY, code int NOT NULL)")
        session.execute("CREATE UNIQUE INDEX by_code ON sold (code)")
        both = {"tables": ["public.items", "public.sold"]}
        if not owned:
            session.execute("CREATE PUBLICATION shop FOR TABLE items, sold")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            session.execute("ALTER TABLE sold REPLICA IDENTITY USING INDEX by_code")
            before = case.up(owned=owned, settings=both)
            session.execute("ALTER TABLE sold REPLICA IDENTITY USING INDEX sold_pkey")
            good = case.up(owned=owned, settings=both)
            case.use()
            session.execute("ALTER TABLE sold REPLICA IDENTITY USING INDEX by_code")
            lost = case.go_on()
            session.execute("ALTER TABLE sold REPLICA IDENTITY FULL")
            case.control().accept(["shop"])
            again = case.go_on()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE sold")

    assert [None, None] == [good.debt, again.debt] and EntryState.IN_USE is again.state
    assert (Reason.DENIED if owned else Reason.DRIFT) is before.debt.reason  # type: ignore[union-attr]
    for one in (before, lost):
        assert one.debt is not None
        assert "public.sold has REPLICA IDENTITY USING INDEX by_code: by its records another row" in one.debt.text
    assert EntryState.LOST is lost.state


@pytest.mark.parametrize("owned", [True, False])
def test_a_table_that_has_full_identity_no_more_is_lost(owned: bool, postgres: Postgres) -> None:
    """Old rows that had all values have their key alone, and the defaults of their columns, which may be values."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE TABLE sold (id bigint PRIMARY KEY)")
        if not owned:
            session.execute("CREATE PUBLICATION shop FOR TABLE items, sold")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up(owned=owned, settings={"tables": ["public.items", "public.sold"]})
            case.use()
            session.execute("ALTER TABLE sold REPLICA IDENTITY FULL")
            good = case.go_on()
            session.execute("ALTER TABLE sold REPLICA IDENTITY DEFAULT")
            lost = case.go_on()
            case.control().accept(["shop"])
            again = case.go_on()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE sold")

    assert [None, None] == [good.debt, again.debt] and EntryState.IN_USE is again.state
    assert EntryState.LOST is lost.state and lost.debt is not None
    assert "has not published public.sold all the time" in lost.debt.text
    assert "its REPLICA IDENTITY is no longer FULL" in lost.debt.text


def test_a_publication_takes_no_table_along_that_inherits(postgres: Postgres) -> None:
    """One from which others inherit is refused before anything is made, and when it comes in; a child is as any other.
    What inherits from it later does not come in by itself.
    """
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE sold (id bigint PRIMARY KEY)")
        session.execute("CREATE TABLE child (PRIMARY KEY (id)) INHERITS (sold)")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            refused, made = case.up(settings={"tables": ["public.items", "public.sold"]}), case.exists()
            case.down()
            good = case.up(settings={"tables": ["public.child", "public.items"]})
            case.use()
            wrong = case.up(settings={"tables": ["public.child", "public.items", "public.sold"]})
            back = case.up(settings={"tables": ["public.child", "public.items"]})
            assert EntryState.GONE is case.down().state
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE child; DROP TABLE sold")

    assert (EntryState.WANTED, False) == (refused.state, made)
    for one in (refused, wrong):
        assert one.debt is not None and Reason.DENIED is one.debt.reason
        assert "is not given a table from which others inherit. public.child inherit from public.sold" in one.debt.text
    assert [(EntryState.MADE, None), (EntryState.IN_USE, None)] == [(one.state, one.debt) for one in (good, back)]


@pytest.mark.parametrize("table", [
    "(id int)", "(id int PRIMARY KEY); ALTER TABLE sold REPLICA IDENTITY NOTHING", "(id int PRIMARY KEY DEFERRABLE)",
])
def test_a_table_without_a_replica_identity_comes_into_no_publication_of_ours(table: str, postgres: Postgres) -> None:
    """Its owners could change and delete no row any more."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop")
        session.execute(f"CREATE TABLE sold {table}".encode())
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            refused, made = case.up(settings={"tables": ["public.items", "public.sold"]}), case.exists()
            session.execute("UPDATE sold SET id = 2; ALTER TABLE sold REPLICA IDENTITY FULL")
            good = case.up(settings={"tables": ["public.items", "public.sold"]})
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE sold")

    assert refused.debt is not None and Reason.DENIED is refused.debt.reason and not made
    assert "is not given public.sold: without a replica identity, every UPDATE and DELETE" in refused.debt.text
    assert (EntryState.MADE, None) == (good.state, good.debt)


def test_a_row_that_is_committed_while_a_table_is_added_is_seen(postgres: Postgres) -> None:
    """The lock is waited for, and the look behind it sees what was committed meanwhile, whatever the default is."""
    both = {"tables": ["public.items", "public.sold"]}
    with postgres.connect(autocommit=True) as session, postgres.connect() as other:
        session.execute("DROP PUBLICATION IF EXISTS shop; CREATE TABLE sold (id bigint PRIMARY KEY)")
        session.execute("ALTER DATABASE bank SET default_transaction_isolation = 'repeatable read'")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up(settings={"tables": ["public.items"]})
            case.use()
            other.execute("INSERT INTO sold VALUES (1)")
            with ThreadPoolExecutor(1) as pool:
                added = pool.submit(case.up, settings=both)
                waiting = "SELECT FROM pg_locks WHERE NOT granted"
                assert poll_until(lambda: session.execute(waiting).fetchone() is not None, 30)
                other.commit()
                refused = added.result()
            assert EntryState.GONE is case.down().state
        finally:
            session.execute("ALTER DATABASE bank RESET default_transaction_isolation")
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE sold")

    assert refused.debt is not None and "is not given public.sold: it has rows already" in refused.debt.text


def test_a_table_with_rows_comes_into_no_publication_in_use(postgres: Postgres) -> None:
    """No record would have them. An empty one comes in, and one that is not read by yet takes any."""
    both = {"tables": ["public.items", "public.sold"]}
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE sold (id bigint PRIMARY KEY); INSERT INTO sold VALUES (1)")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up()
            before_use = case.up(settings=both)
            case.up(settings={"tables": ["public.items"]})
            case.use()
            refused = case.up(settings=both)
            session.execute("DELETE FROM sold")
            good = case.go_on()
            case.down()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE sold")

    assert (EntryState.MADE, None) == (before_use.state, before_use.debt)
    assert refused.debt is not None and Reason.DENIED is refused.debt.reason
    assert "is not given public.sold: it has rows already" in refused.debt.text
    assert (EntryState.IN_USE, None) == (good.state, good.debt)


def test_a_table_whose_rows_are_hidden_is_not_taken_for_an_empty_one(postgres: Postgres) -> None:
    """By a policy to which its owner is subject, too."""
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE first (id int PRIMARY KEY); CREATE TABLE sold (id int PRIMARY KEY)")
        session.execute("INSERT INTO sold VALUES (1)")
        session.execute("ALTER TABLE sold ENABLE ROW LEVEL SECURITY; ALTER TABLE sold FORCE ROW LEVEL SECURITY")
        session.execute("ALTER TABLE first OWNER TO weak; ALTER TABLE sold OWNER TO weak")
        session.execute("GRANT CREATE ON DATABASE bank TO weak; GRANT CREATE ON SCHEMA public TO weak")
        try:
            case = case_of(postgres, Kind.PUBLICATION, user="weak", password="weak")
            case.up(settings={"tables": ["public.first"]})
            case.use()
            refused = case.up(settings={"tables": ["public.first", "public.sold"]})
            case.down()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE first, sold")
            session.execute("REVOKE CREATE ON DATABASE bank FROM weak; REVOKE CREATE ON SCHEMA public FROM weak")

    assert refused.debt is not None and Reason.DENIED is refused.debt.reason
    assert 'row-level security policy for table "sold"' in refused.debt.text


def test_a_publication_takes_no_table_whose_partitions_are_sent_by_themselves(postgres: Postgres) -> None:
    """Its changes would have the names of the partitions. In one of others it may be sent as a whole."""
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE whole (id bigint PRIMARY KEY) PARTITION BY RANGE (id)")
        session.execute("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            refused, made = case.up(settings={"tables": ["public.items", "public.whole"]}), case.exists()
            case.down()
            good = case.up(settings={"tables": ["public.items", "public.part"]})
            case.down()
            session.execute("CREATE PUBLICATION shop FOR TABLE whole WITH (publish_via_partition_root = true)")
            case = case_of(postgres, Kind.PUBLICATION)
            theirs = case.up(owned=False, settings={"tables": ["public.whole"]})
            session.execute("ALTER PUBLICATION shop SET (publish_via_partition_root = false)")
            parts = case.go_on()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE whole")

    assert (EntryState.WANTED, False) == (refused.state, made)
    assert refused.debt is not None and "public.part inherit from public.whole" in refused.debt.text
    assert [(EntryState.MADE, None)] * 2 == [(one.state, one.debt) for one in (good, theirs)]
    assert parts.debt is not None


def test_a_publication_is_made_without_a_table_that_inherits_in_this_moment(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would look as if others had added it."""
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE sold (id bigint PRIMARY KEY); CREATE TABLE child () INHERITS (sold)")
        monkeypatch.setattr(postgres_kinds, "children", lambda *_, **__: {})
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            entries = [case.up(settings={"tables": ["public.sold"]})]
            entries.append(case.up(settings={"tables": ["public.items", "public.sold"]}))
            case.down()
        finally:
            session.execute("DROP PUBLICATION IF EXISTS shop; DROP TABLE child; DROP TABLE sold")

    assert [(EntryState.MADE, None)] * 2 == [(one.state, one.debt) for one in entries]


#: Two tables, of which one has a table for long values, and the other none; and both have a column that is not written
#: out until the table is written again. Partitions, and what may become one. An enum type, as such, in an array, and in
#: a domain.
LAB = """
CREATE SCHEMA lab; CREATE SCHEMA away; CREATE TYPE lab.mood AS ENUM ('sad', 'ok');
CREATE DOMAIN lab.moods AS lab.mood[];
CREATE TABLE lab.sold (id bigint PRIMARY KEY, name varchar(10), price numeric(10,2), note text);
CREATE TABLE lab.short (id bigint PRIMARY KEY, name varchar(10), price numeric(10,2));
CREATE TABLE lab.felt (id bigint PRIMARY KEY, one lab.mood, many lab.mood[], few lab.moods);
INSERT INTO lab.sold VALUES (1, 'a', 1.5); INSERT INTO lab.short VALUES (1, 'a', 1.5);
ALTER TABLE lab.sold ADD COLUMN late int NOT NULL DEFAULT 7, ADD COLUMN more varchar(10);
ALTER TABLE lab.short ADD COLUMN late int NOT NULL DEFAULT 7, ADD COLUMN more varchar(10);
CREATE TABLE lab.whole (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE lab.half PARTITION OF lab.whole FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE lab.part PARTITION OF lab.half FOR VALUES FROM (0) TO (50);
INSERT INTO lab.whole VALUES (1, 1)
"""


def seen_again(postgres: Postgres, tables: str, change: str, of_others: str = "") -> CatalogueEntry:
    """The entry of a publication in use when the statements were run between two looks; LOOK is one more look.

    ``of_others``: what they publish; empty: it is ours.
    """
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; DROP SCHEMA IF EXISTS lab CASCADE")
        session.execute(LAB)
        if of_others:
            session.execute(f"CREATE PUBLICATION shop FOR {of_others}".encode())
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up(owned=not of_others, settings={"tables": [f"lab.{name}" for name in tables.split()]})
            case.use()
            good = case.go_on()
            assert (EntryState.IN_USE, None) == (good.state, good.debt)
            for statement in change.split("; "):
                if statement == "LOOK":
                    assert EntryState.IN_USE is case.go_on().state
                else:
                    session.execute(statement.encode())
            return case.go_on()
        finally:
            session.execute("DROP PUBLICATION shop; DROP SCHEMA lab CASCADE; DROP SCHEMA away CASCADE")


#: What is published of a table, by us and by others.
PUBLISHED = ["", "TABLE lab.sold", "TABLES IN SCHEMA lab", "ALL TABLES"]


@pytest.mark.parametrize("of_others", PUBLISHED)
@pytest.mark.parametrize("change", [
    "ALTER TABLE lab.sold RENAME TO old; INSERT INTO lab.old VALUES (2); ALTER TABLE lab.old RENAME TO sold",
    "ALTER TABLE lab.sold SET SCHEMA away; INSERT INTO away.sold VALUES (2); ALTER TABLE away.sold SET SCHEMA lab",
])
def test_a_table_that_had_another_name_for_a_while_is_lost(change: str, of_others: str, postgres: Postgres) -> None:
    """Its changes under that name are in no topic: the connector knows it by its own."""
    lost = seen_again(postgres, "sold", change, of_others)

    assert EntryState.LOST is lost.state and lost.debt is not None
    assert "has not published lab.sold" in lost.debt.text


@pytest.mark.parametrize("of_others", PUBLISHED)
@pytest.mark.parametrize("change", [
    "GRANT SELECT ON lab.sold TO weak; GRANT SELECT ON lab.sold TO weak; LOOK; GRANT SELECT ON lab.sold TO weak",
    "GRANT USAGE ON SCHEMA lab TO weak; GRANT USAGE ON SCHEMA lab TO weak; GRANT SELECT (name) ON lab.sold TO weak",
    "CREATE INDEX one ON lab.sold (name); DROP INDEX lab.one; CREATE INDEX CONCURRENTLY two ON lab.sold (name)",
    "CREATE TRIGGER t BEFORE UPDATE ON lab.sold FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TABLE lab.sold OWNER TO weak", "TRUNCATE lab.sold", "VACUUM FULL lab.sold", "REINDEX TABLE lab.sold",
    "CLUSTER lab.sold USING sold_pkey", "ANALYZE lab.sold; VACUUM lab.sold", "COMMENT ON TABLE lab.sold IS 'sold'",
    "VACUUM FREEZE; VACUUM FULL pg_class; VACUUM FULL pg_type; VACUUM FULL pg_attribute; VACUUM FULL pg_inherits",
    "ALTER TABLE lab.sold SET (fillfactor = 50); VACUUM FULL lab.sold",
    "ALTER TABLE lab.sold REPLICA IDENTITY FULL; ALTER TABLE lab.sold REPLICA IDENTITY DEFAULT",
])
def test_what_changes_no_row_and_no_name_is_no_loss(change: str, of_others: str, postgres: Postgres) -> None:
    """What administrators do every day."""
    entry = seen_again(postgres, "sold", change, of_others)

    assert (EntryState.IN_USE, None) == (entry.state, entry.debt)


#: Statements of one table, and whether its rows have other values then: with a table for long values, and without.
WRITTEN = [
    ("ALTER TABLE {} ALTER COLUMN price TYPE numeric(14,4)", True, True),
    ("ALTER TABLE {} ALTER COLUMN name TYPE text USING upper(name)", True, True),
    ("ALTER TABLE {} ALTER COLUMN name TYPE varchar(10) USING upper(name)", True, True),
    ("ALTER TABLE {} ALTER name TYPE varchar(10) USING upper(name), ALTER name SET DEFAULT 'a'", True, True),
    ("ALTER TABLE {} ALTER price TYPE numeric(10,2) USING 2 * price; ALTER TABLE {} ALTER price SET NOT NULL",
     True, True),
    ("ALTER TABLE {} ALTER price TYPE numeric(10,2) USING 2 * price; ALTER TABLE {} ALTER price SET STATISTICS 9",
     True, True),
    ("ALTER TABLE {} ALTER price TYPE numeric(10,2) USING 2 * price; GRANT SELECT (price) ON {} TO weak", True, True),
    ("ALTER TABLE {} ALTER price TYPE numeric(10,2) USING 2 * price; VACUUM FULL {}", True, True),
    ("ALTER TABLE {} ALTER late TYPE bigint", True, True),
    ("ALTER TABLE {} DROP COLUMN price; ALTER TABLE {} ADD COLUMN price numeric(10,2) DEFAULT 7", True, True),
    ("ALTER TABLE {} DROP COLUMN price; LOOK; ALTER TABLE {} ADD COLUMN price numeric(10,2)", True, True),
    ("ALTER TABLE {} RENAME name TO x; ALTER TABLE {} RENAME more TO name; ALTER TABLE {} RENAME x TO y", True, True),
    # Without that table this looks like a VACUUM FULL, which writes the default out.
    ("ALTER TABLE {} ALTER late TYPE int USING 8", True, False),
    # And these look like an ALTER TABLE that writes again.
    ("VACUUM FULL {}; ALTER TABLE {} ALTER COLUMN price SET DEFAULT 5", False, True),
    ("VACUUM FULL {}; ALTER TABLE {} ALTER COLUMN price SET DEFAULT 5, ALTER COLUMN price DROP DEFAULT", False, True),
    ("VACUUM FULL {}; ALTER TABLE {} ALTER price SET STATISTICS 10, ALTER COLUMN more SET STORAGE MAIN", False, True),
    ("VACUUM FULL {}; GRANT SELECT (price) ON {} TO weak; REVOKE SELECT (price) ON {} FROM weak", False, True),
    ("TRUNCATE {}; ALTER TABLE {} ALTER COLUMN name TYPE varchar(20)", False, True),
    ("VACUUM FULL {}; ALTER TABLE {} RENAME name TO x; ALTER TABLE {} RENAME x TO name", False, True),
    ("ALTER TABLE {} RENAME name TO x; ALTER TABLE {} RENAME x TO name", False, False),
    ("ALTER TABLE {} ALTER COLUMN name TYPE varchar(20)", False, False),
    ("VACUUM FULL {}", False, False), ("TRUNCATE {}", False, False), ("ANALYZE {}; REINDEX TABLE {}", False, False),
    ("ALTER TABLE {} ALTER COLUMN name SET DEFAULT 'a', ALTER COLUMN name SET NOT NULL", False, False),
    ("ALTER TABLE {} ADD COLUMN further int; VACUUM FULL {}", False, False),
    ("ALTER TABLE {} ADD COLUMN further float DEFAULT random()", False, False),
    ("ALTER TABLE {} ADD COLUMN further text DEFAULT random()::text; ALTER TABLE {} DROP COLUMN more", False, False),
]


@pytest.mark.parametrize(("change", "lost", "lost_if_short"), WRITTEN)
@pytest.mark.parametrize(("table", "owned"), [("sold", True), ("sold", False), ("short", True)])
def test_rows_that_are_written_again_by_an_alter_table_are_lost(
    change: str, lost: bool, lost_if_short: bool, table: str, owned: bool, postgres: Postgres
) -> None:
    """The server sends no change for that, and the logs have the old values for ever."""
    statements = change.replace("{}", f"lab.{table}")
    found = seen_again(postgres, table, statements, "" if owned else f"TABLE lab.{table}")

    expected = lost if table == "sold" else lost_if_short
    assert (EntryState.LOST if expected else EntryState.IN_USE) is found.state
    assert not expected or (found.debt is not None and f"the rows of lab.{table}, which" in found.debt.text)


@pytest.mark.parametrize(("change", "lost"), [
    ("ALTER TYPE lab.mood RENAME VALUE 'sad' TO 'bad'", True), ("ALTER TYPE lab.mood ADD VALUE 'glad'", False),
    ("ALTER TYPE lab.mood ADD VALUE 'glad' BEFORE 'sad'; LOOK; ALTER TYPE lab.mood RENAME VALUE 'glad' TO 'joy'", True),
    ("ALTER TYPE lab.mood RENAME TO moody", False),
])
@pytest.mark.parametrize("kept", ["one", "many", "few"])
def test_a_value_of_an_enum_type_that_gets_another_name_is_lost(
    change: str, lost: bool, kept: str, postgres: Postgres
) -> None:
    """Rows that have it read otherwise then; also within an array, and a domain. One more value changes no row."""
    drop = "; ".join(f"ALTER TABLE lab.felt DROP COLUMN {name}" for name in ("one", "many", "few") if name != kept)
    found = seen_again(postgres, "felt sold", f"{drop}; LOOK; {change}")

    assert (EntryState.LOST if lost else EntryState.IN_USE) is found.state
    assert not lost or (found.debt is not None and "the rows of lab.felt, which" in found.debt.text)


#: What others publish; statements; whether a partition that is captured by itself is lost.
ABOVE = [
    *((f"TABLE {one}", f"ALTER PUBLICATION shop DROP TABLE {one}; ALTER PUBLICATION shop ADD TABLE {one}", True)
      for one in ("lab.whole", "lab.half")),
    ("TABLE lab.whole, lab.half",
     "ALTER PUBLICATION shop DROP TABLE lab.whole; ALTER PUBLICATION shop ADD TABLE lab.whole", False),
    *((of_others, f"ALTER TABLE {above} DETACH PARTITION {below}; "
       f"ALTER TABLE {above} ATTACH PARTITION {below} FOR VALUES FROM (0) TO (50)", lost)
      for of_others, above, below, lost in (
          ("TABLE lab.whole", "lab.half", "lab.part", True), ("TABLE lab.whole", "lab.whole", "lab.half", True),
          ("TABLE lab.half", "lab.half", "lab.part", True), ("TABLE lab.half", "lab.whole", "lab.half", False),
          ("TABLE lab.half, lab.whole", "lab.whole", "lab.half", False),
          ("TABLE lab.part", "lab.half", "lab.part", False), ("ALL TABLES", "lab.half", "lab.part", False),
      )),
    ("TABLE lab.whole", "CREATE TABLE lab.next PARTITION OF lab.whole FOR VALUES FROM (100) TO (200)", False),
    ("TABLE lab.whole", "GRANT SELECT ON lab.whole TO weak; ALTER TABLE lab.whole ADD COLUMN w int", False),
    ("TABLE lab.whole", "ALTER TABLE lab.whole ALTER COLUMN v TYPE int USING 2 * v", True),
]  # fmt: skip


@pytest.mark.parametrize(("of_others", "change", "lost"), ABOVE)
def test_a_partition_that_was_not_sent_for_a_while_is_lost(
    of_others: str, change: str, lost: bool, postgres: Postgres
) -> None:
    """It is a member by the tables above it, and by the links to them: one that is not needed may come and go."""
    found = seen_again(postgres, "part", change, of_others)

    assert (EntryState.LOST if lost else EntryState.IN_USE) is found.state
    assert not lost or (found.debt is not None and "lab.part" in found.debt.text)


@pytest.mark.parametrize("change", [
    "ALTER PUBLICATION shop DROP TABLES IN SCHEMA lab; ALTER PUBLICATION shop ADD TABLES IN SCHEMA lab",
    "ALTER TABLE lab.half DETACH PARTITION lab.part; "
    "ALTER TABLE lab.half ATTACH PARTITION lab.part FOR VALUES FROM (0) TO (50)",
])
def test_a_partition_that_is_sent_by_the_schema_of_a_table_above_it_is_lost(change: str, postgres: Postgres) -> None:
    """The table above is in the schema that is published, and the partition in another one."""
    away = "ALTER TABLE lab.part SET SCHEMA away"
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop")
        session.execute(f"{LAB}; {away}".encode())
        session.execute("CREATE PUBLICATION shop FOR TABLES IN SCHEMA lab")
        case = case_of(postgres, Kind.PUBLICATION)
        case.up(owned=False, settings={"tables": ["away.part"]})
        case.use()
        good = case.go_on()
        for statement in change.replace("lab.part", "away.part").split("; "):
            session.execute(statement.encode())
        lost = case.go_on()
        session.execute("DROP PUBLICATION shop; DROP SCHEMA lab CASCADE; DROP SCHEMA away CASCADE")

    assert (EntryState.IN_USE, None, EntryState.LOST) == (good.state, good.debt, lost.state)


@pytest.mark.parametrize(("change", "lost"), [
    ("ALTER TABLE lab.whole ALTER COLUMN v TYPE int USING 2 * v", "the rows of"),
    ("ALTER TABLE lab.whole ALTER COLUMN v TYPE bigint", "the rows of"),
    ("ALTER TABLE lab.half DETACH PARTITION lab.part", "has not published"),
    ("ALTER TABLE lab.whole DETACH PARTITION lab.half", "has not published"),
    ("DROP TABLE lab.part", "has not published"),
    ("ALTER TABLE lab.half DETACH PARTITION lab.part; "
     "ALTER TABLE lab.half ATTACH PARTITION lab.part FOR VALUES FROM (0) TO (50)", "has not published"),
    ("ALTER TABLE lab.whole RENAME TO old; ALTER TABLE lab.old RENAME TO whole", "has not published"),
    ("CREATE TABLE lab.next PARTITION OF lab.half FOR VALUES FROM (50) TO (100)", ""),
    ("VACUUM FULL lab.part; ANALYZE lab.whole; GRANT SELECT ON lab.whole TO weak", ""), ("TRUNCATE lab.whole", ""),
    ("ALTER TABLE lab.whole ADD COLUMN w float DEFAULT random()", ""),
    ("ALTER TABLE lab.whole ALTER COLUMN v SET DEFAULT 5", ""),
])
def test_a_table_that_is_sent_with_its_partitions_is_lost_when_one_leaves_it(
    change: str, lost: str, postgres: Postgres
) -> None:
    """The rows of that partition are no rows of the table any more, and the server sends no change for it."""
    found = seen_again(postgres, "whole", change, "TABLE lab.whole WITH (publish_via_partition_root)")

    assert (EntryState.LOST if lost else EntryState.IN_USE) is found.state
    assert lost in (found.debt.text if found.debt else "")


#: Statements on a table that is sent as a whole, of which each partition has FULL; what the entry is then.
NEXT = "CREATE TABLE lab.next PARTITION OF lab.half FOR VALUES FROM (50) TO (100)"
NEXT_FULL = "ALTER TABLE lab.next REPLICA IDENTITY FULL"
IDENTITIES = [
    ("", EntryState.IN_USE, ""), (NEXT, EntryState.IN_USE, NEXT_FULL), (f"{NEXT}; {NEXT_FULL}", EntryState.IN_USE, ""),
    (f"{NEXT}; LOOK; {NEXT_FULL}", EntryState.IN_USE, ""),
    ("ALTER TABLE lab.part REPLICA IDENTITY DEFAULT", EntryState.LOST, "no longer FULL, or that of a partition"),
    (f"{NEXT}; LOOK; ALTER TABLE lab.part REPLICA IDENTITY DEFAULT", EntryState.LOST, "or that of a partition"),
    (f"{NEXT}; LOOK; {NEXT_FULL}; LOOK; ALTER TABLE lab.next REPLICA IDENTITY NOTHING", EntryState.LOST,
     "or that of a partition"),
    ("ALTER TABLE lab.whole REPLICA IDENTITY FULL; LOOK; ALTER TABLE lab.whole REPLICA IDENTITY DEFAULT",
     EntryState.IN_USE, ""),
    (f"{NEXT}; CREATE UNIQUE INDEX by_id ON lab.next (id); ALTER TABLE lab.next ALTER id SET NOT NULL; "
     "ALTER TABLE lab.next REPLICA IDENTITY USING INDEX by_id", EntryState.LOST, "by_id of its partition lab.next"),
]


@pytest.mark.parametrize(("change", "state", "text"), IDENTITIES)
def test_of_a_table_that_is_sent_with_its_partitions_the_identity_of_each_counts(
    change: str, state: EntryState, text: str, postgres: Postgres
) -> None:
    """A new partition has had no other, and its first change without a before-image stops the capture: it is owed the
    statement. One that had FULL, and has it no more, is lost, as any table.
    """
    whole = "ALTER TABLE lab.part REPLICA IDENTITY FULL; LOOK"
    found = seen_again(postgres, "whole", f"{whole}; {change}" if change else whole,
                       "TABLE lab.whole WITH (publish_via_partition_root)")  # fmt: skip

    assert state is found.state
    assert text in (found.debt.text if found.debt else "") and bool(text) == bool(found.debt)


def test_a_partition_without_full_is_owed_where_only_the_table_above_has_it(postgres: Postgres) -> None:
    """As it was noted by a version that asked the table above: it is not lost. A table that is not meant to have FULL
    owes nothing.
    """
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; DROP SCHEMA IF EXISTS lab CASCADE")
        session.execute(LAB)
        session.execute("CREATE PUBLICATION shop FOR TABLE lab.whole WITH (publish_via_partition_root)")
        try:
            case = case_of(postgres, Kind.PUBLICATION)
            case.up(owned=False, settings={"tables": ["lab.whole"]})
            case.use()
            plain = case.go_on()
            noted = {**(plain.applied or {}), "full": ["lab.whole"]}
            del noted["leaves"]
            case.catalogue.kept[plain.nonce] = replace(plain, applied=noted)
            session.execute("ALTER TABLE lab.whole REPLICA IDENTITY FULL")
            owed = case.go_on()
            session.execute("ALTER TABLE lab.part REPLICA IDENTITY FULL")
            good = case.go_on()
        finally:
            session.execute("DROP PUBLICATION shop; DROP SCHEMA lab CASCADE; DROP SCHEMA away CASCADE")

    assert [(EntryState.IN_USE, None)] * 2 == [(one.state, one.debt) for one in (plain, good)]
    assert EntryState.IN_USE is owed.state and owed.debt is not None and Reason.DRIFT is owed.debt.reason
    assert "ALTER TABLE lab.part REPLICA IDENTITY FULL;" in owed.debt.text


def test_a_schema_that_leaves_a_publication_of_others_is_lost_also_when_it_is_back(postgres: Postgres) -> None:
    """Its tables have no membership of their own there; that of their schema is another."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop")
        session.execute("CREATE PUBLICATION shop FOR TABLES IN SCHEMA public")
        case = case_of(postgres, Kind.PUBLICATION)
        case.up(owned=False, settings={"tables": ["public.items"]})
        case.use()
        good = case.go_on()
        session.execute("ALTER PUBLICATION shop DROP TABLES IN SCHEMA public")
        session.execute("ALTER PUBLICATION shop ADD TABLES IN SCHEMA public")
        lost = case.go_on()
        session.execute("DROP PUBLICATION shop")

    assert (EntryState.IN_USE, None, EntryState.LOST) == (good.state, good.debt, lost.state)


def hold(postgres: Postgres, application: str) -> Any:
    """A session that reads the slot, as a connector does, until it is closed."""
    from psycopg import Connection

    session = Connection.connect(
        f"{conninfo(postgres)} replication=database application_name='{application}'", autocommit=True
    )
    session.pgconn.send_query(
        b"START_REPLICATION SLOT shop LOGICAL 0/0 (proto_version '1', publication_names 'none')"
    )
    while session.pgconn.get_result() is None:
        pass
    return session


def test_a_slot_that_others_read_is_owed_and_its_own_reader_is_ended(postgres: Postgres) -> None:
    """A session of Debezium's holds a slot of ours: it is ended, and waited for. Any other is left alone."""
    case = case_of(postgres, Kind.SLOT)
    case.up()
    with closing(hold(postgres, "their reader")):
        entry = case.down()
        assert entry.debt is not None and Reason.BUSY is entry.debt.reason
        assert "their reader" in entry.debt.text and case.exists()
    # The server ends the reader in its own time.
    with postgres.connect(autocommit=True) as session:
        held = "SELECT FROM pg_replication_slots WHERE active"
        assert poll_until(lambda: session.execute(held).fetchone() is None, 30)
    assert EntryState.GONE is case.go_on().state

    case.up()
    with closing(hold(postgres, "Debezium Streaming")):
        assert (EntryState.GONE, False) == (case.down().state, case.exists())


def test_a_slot_of_others_that_no_session_reads_is_left_alone(postgres: Postgres) -> None:
    """With the plugin and the database that ours would have: its reader may be down, and needs what it holds."""
    case = case_of(postgres, Kind.SLOT)
    with postgres.connect(autocommit=True) as session:
        session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    entry = case.up()
    assert entry.debt is not None and (EntryState.WANTED, Reason.REFUSED) == (entry.state, entry.debt.reason)
    assert (EntryState.GONE, True) == (case.down().state, case.exists())
    case.drop()


def test_a_slot_that_others_made_in_place_of_ours_is_left_to_a_person(postgres: Postgres) -> None:
    """Ours is known by the WAL that it keeps, also when it was read meanwhile; one of others begins behind it."""
    case = case_of(postgres, Kind.SLOT)
    case.up()
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE TABLE moved (id int); DROP TABLE moved; SELECT pg_log_standby_snapshot()")
        session.execute("SELECT count(*) FROM pg_logical_slot_get_binary_changes('shop', NULL, NULL, 'proto_version', "
                        "'1', 'publication_names', 'none')")  # fmt: skip
        case.go_on()
        assert (EntryState.GONE, False) == (case.down().state, case.exists())

        case.up()
        case.drop()
        session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        entry = case.down()
        assert entry.debt is not None
        assert (EntryState.UNWANTED, Reason.DOUBTFUL, True) == (entry.state, entry.debt.reason, case.exists())
    case.drop()
    assert EntryState.GONE is case.go_on().state


def test_a_slot_that_was_made_again_while_it_is_used_is_lost(postgres: Postgres) -> None:
    """Its server counts the transactions that it has sent, and began from 0."""
    case = case_of(postgres, Kind.SLOT)
    made = case.up()
    case.catalogue.kept[made.nonce] = used(made, case.now)
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE PUBLICATION sent FOR ALL TABLES; INSERT INTO orders VALUES (-1)")
        read = "SELECT count(*) FROM pg_logical_slot_get_binary_changes('shop', NULL, NULL, 'proto_version', '1', " \
               "'publication_names', 'sent')"  # fmt: skip
        session.execute(read)
        session.execute("SELECT pg_stat_force_next_flush()")
        assert EntryState.IN_USE is case.go_on().state
        case.drop()
        session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        entry = case.go_on()
        assert EntryState.LOST is entry.state and "was dropped and made again" in (entry.debt or pytest.fail("")).text
        session.execute("DELETE FROM orders; DROP PUBLICATION sent")
    case.drop()
    assert EntryState.GONE is case.down().state


def test_a_slot_that_its_server_invalidated_is_lost_and_can_be_removed() -> None:
    """Its WAL is removed: no try can help, and nothing is tried."""
    limits = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB", "wal_keep_size": "0"}
    with Postgres(settings=limits) as postgres:
        case = case_of(postgres, Kind.SLOT)
        made = case.up()
        case.catalogue.kept[made.nonce] = used(made, case.now)
        with postgres.connect(autocommit=True) as session:
            for _ in range(4):
                session.execute("SELECT pg_switch_wal()")
                session.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000))")
            session.execute("CHECKPOINT")
        entry = case.go_on()
        assert EntryState.LOST is entry.state and entry.debt is not None
        assert "was invalidated by its server (wal_removed)" in entry.debt.text

        assert (EntryState.GONE, False) == (case.down().state, case.exists())


def test_a_slot_that_a_connector_makes_is_recorded_and_one_from_before_is_refused(postgres: Postgres) -> None:
    """It may be made by its connector once it is known to be absent."""
    case = case_of(postgres, Kind.SLOT)
    control = case.control()
    control.desire(case.desired(), lambda: "n1")
    case.catalogue.kept["n1"] = case.entry().__class__.from_plain({**case.entry().to_plain(), "maker": "c1"})
    entry = case.go_on(control)
    assert entry.debt is not None and (Reason.AWAITED, EntryState.WANTED) == (entry.debt.reason, entry.state)
    with postgres.connect(autocommit=True) as session:
        session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    assert (EntryState.MADE, "bank/shop/pgoutput") == (case.go_on().state, case.entry().identity)

    second = case_of(postgres, Kind.SLOT)
    control = second.control()
    control.desire(second.desired(), lambda: "n2")
    plain = second.entry().to_plain()
    second.catalogue.kept["n2"] = second.entry().__class__.from_plain({**plain, "maker": "c1"})
    entry = second.go_on(control)
    assert entry.debt is not None and "before the first start of its connector" in entry.debt.text
    assert (EntryState.GONE, True) == (second.down().state, case.exists())

    assert (EntryState.GONE, False) == (case.down().state, case.exists())


SOURCES = [
    SourceType("timestamptz"), SourceType("uuid"), SourceType("varchar", length=10), SourceType("date"),
    SourceType("numeric", precision=12, scale=2), SourceType("jsonb"), SourceType("enum", name="public.colour"),
    SourceType("array", items=SourceType("int4")),
]  # fmt: skip
WIDE = Table("wide", (Field("id", "long"),), (
    *(Field(f"a_{kind}", kind, nullable=True) for kind in TYPES), Field("price", "decimal", precision=12, scale=2),
    *(Field(f"b_{number}", str(kind_of(one)), nullable=True, source=one) for number, one in enumerate(SOURCES)),
))  # fmt: skip


def committed(table: str) -> str:
    """The checkpoint of a view with this table, which has begun."""
    return json.dumps(Checkpoint(Antichain([7]), None, {table: "mark"}).to_plain())


def test_a_table_that_was_dropped_by_hand_takes_its_checkpoint_along_and_no_other(postgres: Postgres) -> None:
    """A table beside a view that has begun is not made; when what ours has committed is removed, it is."""
    settings = {"columns": COLUMNS, "key": ["id"], "materialization": "copy", "tables": ["public.Shop"]}
    case = replace(case_of(postgres, Kind.TARGET_TABLE), settings=settings)
    case.up()
    with postgres.connect(autocommit=True) as session:
        session.execute(fence.CREATE)
        for begin, table in enumerate(("public.Shop", "lab")):
            session.execute("INSERT INTO cdcv2_checkpoints VALUES ('copy', %s, 9, 1, %s)", [begin, committed(table)])
        case.drop()
        assert EntryState.GONE is case.down().state
        kept = session.execute("SELECT key_begin, checkpoint FROM cdcv2_checkpoints").fetchall()
        assert [(1, committed("lab"))] == kept

        entry = case.up()
        assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason)
        assert "a new table would lack what came before" in entry.debt.text and not case.exists()
        session.execute("DROP TABLE cdcv2_checkpoints")
    assert EntryState.MADE is case.go_on().state
    assert (EntryState.GONE, False) == (case.down().state, case.exists())


def test_a_table_that_is_made_is_the_one_that_the_driver_would_make(postgres: Postgres) -> None:
    """So a job with --no-create fits it, whatever its columns; and with the last table goes what was committed."""
    settings = {
        "columns": made_columns(WIDE), "key": ["id"], "materialization": "copy", "tables": ["wide"],
    }  # fmt: skip
    case = replace(case_of(postgres, Kind.TARGET_TABLE), name="wide", settings=settings)
    message = Open("copy", (WIDE,))
    with closing(PostgresDriver(conninfo(postgres), create=False)) as driver, pytest.raises(
        MissingLogError, match="the table wide is not there, and --no-create leaves it to others"
    ):
        driver.open(message)
    assert EntryState.MADE is case.up().state
    with closing(PostgresDriver(conninfo(postgres), create=False)) as driver:
        driver.open(message)
    with postgres.connect(autocommit=True) as session:
        assert [("copy",)] == session.execute("SELECT materialization FROM cdcv2_checkpoints").fetchall()
        session.execute("UPDATE cdcv2_checkpoints SET checkpoint = %s", [committed("wide")])
        session.execute("INSERT INTO cdcv2_checkpoints VALUES ('another', 0, 1, 1, '{}')")
        assert EntryState.GONE is case.down().state
        assert [("another",)] == session.execute("SELECT materialization FROM cdcv2_checkpoints").fetchall()
        session.execute("DELETE FROM cdcv2_checkpoints")

        with closing(PostgresDriver(conninfo(postgres))) as driver:
            driver.open(message)
        # What the driver makes is what we would have made; it has no mark, so it is refused.
        found = case.how.look(case.entry())
        assert isinstance(found, Answer) and found.thing is not None and settings == found.thing.settings
        session.execute("DROP TABLE wide; DROP TABLE cdcv2_checkpoints")


def test_what_others_publish_may_be_more(postgres: Postgres) -> None:
    """All tables, or one that we do not need; one that is missing is shown, and is theirs to add."""
    with postgres.connect(autocommit=True) as session:
        for published, fits in (("ALL TABLES", True), ("TABLE orders, items", True), ("TABLE items", False)):
            session.execute(f"CREATE PUBLICATION shop FOR {published}")
            entry = case_of(postgres, Kind.PUBLICATION).up(owned=False, settings={"tables": ["public.orders"]})
            assert (EntryState.MADE, fits) == (entry.state, entry.debt is None), published
            session.execute("DROP PUBLICATION shop")


def test_the_table_that_has_no_schema_is_named(postgres: Postgres) -> None:
    """Else it is not known which of the tables of a view it is."""
    message = Open("copy", (WIDE, replace(WIDE, name="no.where.else")))
    refused = 'refuses to make no.where.else: schema "no" does not exist'
    with closing(PostgresDriver(conninfo(postgres))) as driver, pytest.raises(OutputError, match=refused):
        driver.open(message)
