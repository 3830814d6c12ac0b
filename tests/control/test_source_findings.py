"""What `cdcv2 doctor` finds of a source in a real PostgreSQL; each statement that it names takes its finding away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdcv2.control.findings import Finding, Health
from cdcv2.control.first_pipeline import source_tables
from cdcv2.control.pipeline_file import OwnedObject, SourceFields
from cdcv2.control.source_findings import source_findings
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres

pytestmark = pytest.mark.integration

ORDERS = RowType({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One for all; each test has its own tables."""
    with Postgres() as running:
        yield running


@pytest.fixture()
def session(postgres: Postgres) -> Iterator[Any]:
    """A session of the superuser: the schema is as new, with a table and a publication of it."""
    with postgres.connect(autocommit=True) as session:
        session.execute("DROP PUBLICATION IF EXISTS shop; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); ALTER TABLE orders REPLICA IDENTITY FULL")
        session.execute("CREATE PUBLICATION shop FOR TABLE orders")
        yield session


def found(session: Any, *tables: str, owned: bool = False) -> list[Finding]:
    """What is found of a source whose capture reads these tables."""
    line: Any = None
    named = OwnedObject("shop", owned, line)
    source = SourceFields("shop", "shop", None, None, named, named, line, None)
    types = dict.fromkeys(tables or ["public.orders"], ORDERS)
    return list(source_findings(source, session, types, from_state=False))


def wrong(findings: list[Finding]) -> list[str]:
    """Those that are wrong; each has a remedy."""
    those = [one for one in findings if one.health is Health.WRONG]
    assert all(one.remedy for one in those)
    return [one.text for one in those]


@pytest.mark.parametrize("published", [
    "insert, update, delete", "update, delete, truncate", "insert, delete, truncate", "insert, update, truncate",
])
def test_a_publication_that_lacks_a_kind_of_change_is_wrong(published: str, session: Any) -> None:
    """Also TRUNCATE: without it, a copy keeps all rows, and no record shows that it happened."""
    assert [] == wrong(found(session))
    session.execute(f"ALTER PUBLICATION shop SET (publish = '{published}')")
    findings = found(session)
    (remedy,) = [one.remedy for one in findings if one.health is Health.WRONG]

    assert ["the publication shop lacks inserts, updates, deletes or truncates"] == wrong(findings)
    session.execute(remedy)
    assert [] == wrong(found(session))


def test_a_table_from_which_others_inherit_is_wrong(session: Any) -> None:
    """Its snapshot has their rows, and its changes are its own. The children are captured as any other table."""
    session.execute("CREATE TABLE child (PRIMARY KEY (id)) INHERITS (orders); CREATE TABLE below () INHERITS (child)")
    session.execute("CREATE TABLE other () INHERITS (orders)")
    for table in ("child", "below", "other"):
        session.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL; ALTER PUBLICATION shop ADD TABLE ONLY {table}")
    findings = found(session, "public.orders", "public.child", "public.below", "public.other")
    remedies = [one.remedy for one in findings if one.health is Health.WRONG]

    inherited = ". A SELECT of it has their rows, too, and so has a snapshot; their changes are not among its own"
    assert [f"public.orders: public.child, public.other inherit from it{inherited}",
            f"public.child: public.below inherit from it{inherited}"] == wrong(findings)  # fmt: skip
    for remedy in remedies:
        session.execute(remedy.rpartition(";")[0])
    assert [] == wrong(found(session, "public.orders", "public.child", "public.below", "public.other"))


@pytest.mark.parametrize(("part", "partly"), [
    ("(id)", True), ("WHERE (id > 5)", True), ("(id, price) WHERE (id > 5)", True), ("(price, id)", False), ("", False),
])
def test_a_table_that_is_sent_in_part_is_wrong(part: str, partly: bool, session: Any) -> None:
    """By a row filter, or by a list that lacks a column. One that lists all columns lacks nothing."""
    session.execute(f"ALTER TABLE orders ADD price int; ALTER PUBLICATION shop SET TABLE orders {part}")
    text = "the publication shop sends public.orders in part: it has a row filter or a list of columns"
    remedies = [one.remedy for one in found(session) if one.text == text]

    assert partly == bool(remedies)
    for remedy in remedies:
        session.execute(remedy.rpartition(";")[0])
    assert text not in wrong(found(session))


def test_partitions_are_no_children(session: Any) -> None:
    """Each of them is captured by itself."""
    session.execute("CREATE TABLE whole (id bigint NOT NULL) PARTITION BY RANGE (id)")
    session.execute("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)")
    session.execute("ALTER TABLE part REPLICA IDENTITY FULL; ALTER PUBLICATION shop ADD TABLE part")

    assert [] == wrong(found(session, "public.part"))
    session.execute("CREATE TABLE late PARTITION OF whole FOR VALUES FROM (9) TO (19)")
    findings = found(session, "public.part")
    text = "no capture reads public.late: partitions beside captured ones"
    assert [Health.WARNING] == [one.health for one in findings if one.text == text]


def test_a_partitioned_table_is_sent_as_a_whole_or_not_captured(session: Any) -> None:
    """What it depends on is a setting of the publication; a warning names what is not sent then."""
    session.execute("CREATE TABLE whole (id bigint NOT NULL PRIMARY KEY) PARTITION BY RANGE (id)")
    session.execute("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)")
    session.execute("ALTER TABLE whole REPLICA IDENTITY FULL; ALTER TABLE part REPLICA IDENTITY FULL")
    session.execute("ALTER PUBLICATION shop ADD TABLE whole")
    parts = wrong(found(session, "public.whole"))
    session.execute("ALTER PUBLICATION shop SET (publish_via_partition_root = true)")
    findings = found(session, "public.whole")

    assert "public.whole: its changes are sent under the names of its partitions" == parts[0]
    assert [] == wrong(findings)
    warned = [one.text for one in findings if one.health is Health.WARNING]
    assert "public.whole: it is sent as a whole, and a TRUNCATE of one partition is not sent" in warned


def test_init_refuses_a_table_from_which_others_inherit(session: Any) -> None:
    """And names the tables that can be captured."""
    session.execute("CREATE TABLE child () INHERITS (orders); CREATE TABLE plain (id int)")
    with pytest.raises(UsageError, match=r"public.orders has public.child.*--tables 'public.child,public.plain'"):
        source_tables(session, ["public.*"])
    with pytest.raises(UsageError, match="ALTER TABLE ... NO INHERIT"):
        source_tables(session, ["public.orders"])

    assert ["public.child", "public.plain"] == [one.name for one in source_tables(session, ["public.[cp]*"])]


def test_a_table_with_rows_that_comes_into_a_publication_of_ours_in_use_is_wrong(session: Any) -> None:
    """Its rows are in no topic: the slot is there, so the connector takes no second snapshot. An empty one may come."""
    session.execute("CREATE TABLE items (id bigint PRIMARY KEY); ALTER TABLE items REPLICA IDENTITY FULL")
    session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    try:
        empty = wrong(found(session, "public.orders", "public.items", owned=True))
        session.execute("INSERT INTO items VALUES (1)")
        full = wrong(found(session, "public.orders", "public.items", owned=True))
    finally:
        session.execute("SELECT pg_drop_replication_slot('shop')")

    assert [] == empty
    assert ["public.items has rows already: the connector takes no second snapshot, so they would be in no topic, and "
            "cdcv2 up does not add it"] == full  # fmt: skip
