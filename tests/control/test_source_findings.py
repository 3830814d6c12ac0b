"""What `cdcv2 doctor` finds of a source in a real PostgreSQL; each statement that it names takes its finding away."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.options.capture_arguments import listed
from cdcv2.connectors.debezium.left_out import unsent_columns
from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres
from cdcv2.control import first_pipeline
from cdcv2.control.findings import Finding, Health
from cdcv2.control.first_pipeline import DatabaseAddress, FirstPipeline, source_tables
from cdcv2.control.pipeline import OwnedObject, SourceFields
from cdcv2.control.source_findings import reader_findings, source_findings
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.store.postgres_session import why_read_only
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.fake_connect import fake_connect

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


def found(
    session: Any, *tables: str, owned: bool = False, state: bool = False, known: Sequence[str] = ()
) -> list[Finding]:
    """What is found of a source whose capture reads these tables; ``known``: named in full-identity."""
    line: Any = None
    named = OwnedObject("shop", owned, line)
    source = SourceFields("shop", "shop", None, None, named, named, line, None)
    types = dict.fromkeys(tables or ["public.orders"], ORDERS)
    return list(source_findings(source, session, types, from_state=state, known_full=known))


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


def test_columns_whose_values_may_arrive_changed_are_named_once_for_each_cause(session: Any) -> None:
    """Those of the row types alone: what the records lack cannot arrive changed."""
    session.execute("CREATE DOMAIN grid AS int[][]")
    session.execute("CREATE TABLE odd (id int PRIMARY KEY, a int[][], b grid, gone int[][])")
    session.execute("CREATE TABLE even (id int PRIMARY KEY, lasts interval, times time[], fine time(3)[], flat int[])")
    types = {table: RowType(row_type_from_postgres(session, table)) for table in ("public.odd", "public.even")}
    fields = [one for one in types["public.odd"].schema["fields"] if one["name"] != "gone"]
    types["public.odd"] = RowType({**types["public.odd"].schema, "fields": fields})
    line: Any = None
    named = OwnedObject("shop", False, line)
    source = SourceFields("shop", "shop", None, None, named, named, line, None)
    warned = [
        one for one in source_findings(source, session, types, from_state=True)
        if "values-that-arrive-changed" in (one.remedy or "")
    ]

    assert [
        "public.odd.a, public.odd.b: an array of more than one dimension arrives as NULLs, or stops the capture",
        "public.even.lasts: infinite intervals arrive as 0",
        "public.even.times: microseconds of a time in an array arrive as 0, and so does 24:00",
    ] == [one.text for one in warned]
    assert {Health.WARNING} == {one.health for one in warned}
    assert all("column.exclude.list" in one.remedy and "compare --source" in one.remedy for one in warned)


def test_a_row_type_lacks_the_columns_that_the_connector_leaves_out(session: Any) -> None:
    """The filter and the row type: both, or neither; the remedy makes the right one."""
    session.execute("CREATE TABLE places (id int PRIMARY KEY, at point, name text, photo text)")
    session.execute("ALTER TABLE places REPLICA IDENTITY FULL")
    line: Any = None
    named = OwnedObject("shop", False, line)
    source = SourceFields("shop", "shop", None, None, named, named, line, None)
    less = RowType(row_type_from_postgres(session, "public.places", ["at", "photo"]))

    def judged(excluded: str) -> list[str]:
        found = source_findings(source, session, {"public.places": less}, from_state=False,
                                config={"column.exclude.list": excluded})  # fmt: skip
        return [one.remedy for one in found if one.text.startswith("public.places") and one.health is Health.WRONG]

    assert [] == judged(r"public\.places\.(at|photo)")
    (remedy,) = judged("public.places.at")
    assert remedy.endswith("cdcv2 rows --source env --table public.places --exclude-columns at")
    (remedy,) = judged("public.places.photo")
    assert "mend tables" in remedy


def test_where_the_connector_is_not_known_a_row_type_without_columns_is_not_checked(session: Any) -> None:
    """As before the connector is there. No remedy gives the row type the columns that it lacks on purpose."""
    session.execute("CREATE TABLE places (id int PRIMARY KEY, \"a, b\" int, \"it's\" point, name text)")
    session.execute("ALTER TABLE places REPLICA IDENTITY FULL; ALTER PUBLICATION shop ADD TABLE places")
    line: Any = None
    named = OwnedObject("shop", False, line)
    source = SourceFields("shop", "shop", None, None, named, named, line, None)
    less = RowType(row_type_from_postgres(session, "public.places", ["a, b", "it's"]))

    def looked_at() -> list[Finding]:
        found = source_findings(source, session, {"public.places": less}, from_state=False, config=None)
        return [one for one in found if "row type" in one.text]

    there, unknown = looked_at()
    assert (Health.OK, Health.NOT_CHECKED) == (there.health, unknown.health)
    assert "public.places: its row type has no a, b, it's, which is right if" in unknown.text
    session.execute("ALTER TABLE places ALTER name TYPE int USING 1")
    changed, unknown = looked_at()
    words = shlex.split(changed.remedy.partition(": ")[2])
    assert (Health.WRONG, Health.NOT_CHECKED) == (changed.health, unknown.health)
    assert ["cdcv2", "rows", "--source", "env", "--table", "public.places", "--exclude-columns"] == words[:-1]
    assert ["a, b", "it's"] == listed("--exclude-columns", words[-1])


def test_a_primary_key_on_a_generated_column_is_no_key(session: Any) -> None:
    """The changes do not have it, and the log's rows do not: the table is captured with REPLICA IDENTITY FULL."""
    session.execute("CREATE TABLE made (a int, b int GENERATED ALWAYS AS (a * 2) STORED PRIMARY KEY)")
    session.execute("ALTER PUBLICATION shop ADD TABLE made")
    tables = source_tables(session, ["public.made"])
    shop = FirstPipeline("shop", DatabaseAddress("db", 5432, "d", "u", False), tables, "k:1", "http://c:1")
    rows = {"public.made": RowType(tables[0].row_type)}

    def fits(state: bool) -> bool:
        line: Any = None
        named = OwnedObject("shop", False, line)
        source = SourceFields("shop", "shop", None, None, named, named, line, None)
        found = source_findings(source, session, rows, from_state=state, config=shop._config())
        return [] == wrong(list(found))

    assert ((), False) == (tables[0].view_key(), shop.from_state())
    assert "ALTER TABLE public.made REPLICA IDENTITY FULL;" in shop.statements()
    assert [False, False] == [fits(state) for state in (False, True)]
    session.execute("ALTER TABLE made REPLICA IDENTITY FULL")
    assert [True, False] == [fits(state) for state in (False, True)]


def test_init_asks_the_filters_of_a_connector_once_for_each_table(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once for each column, which takes minutes where tables are wide; without a connector not at all."""
    session.execute("CREATE TABLE wide (id int PRIMARY KEY, a int, b int, c int)")
    asked: list[str] = []

    def counted(config: Any, table: str, columns: Any) -> list[str]:
        asked.append(table)
        return unsent_columns(config, table, columns)

    monkeypatch.setattr(first_pipeline, "unsent_columns", counted)
    tables = source_tables(session, ["public.*"], excluded=["public.wide.a"])
    assert ([], [(), ("a",)]) == (asked, [one.unsent for one in tables])
    tables = source_tables(session, ["public.*"], config={"column.exclude.list": "public.wide.[bc]"})
    assert (["public.orders", "public.wide"], [(), ("b", "c")]) == (asked, [one.unsent for one in tables])


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


#: A table of three partitions, one of them below another; it has FULL itself, and so has one of these.
WHOLE = """
    CREATE TABLE whole (id bigint NOT NULL, r int, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
    CREATE TABLE one PARTITION OF whole FOR VALUES IN (1);
    CREATE TABLE more PARTITION OF whole FOR VALUES IN (2, 3) PARTITION BY LIST (r);
    CREATE TABLE two PARTITION OF more FOR VALUES IN (2); CREATE TABLE three PARTITION OF more FOR VALUES IN (3);
    ALTER TABLE whole REPLICA IDENTITY FULL; ALTER TABLE one REPLICA IDENTITY FULL;
    ALTER PUBLICATION shop SET TABLE whole; ALTER PUBLICATION shop SET (publish_via_partition_root = true)
"""


def test_the_server_sends_an_old_row_as_the_identity_of_its_partition_has_it(session: Any) -> None:
    """Under the name of the table above, and by none of what that has: all that is judged here depends on it."""
    session.execute(WHOLE)
    session.execute("INSERT INTO whole VALUES (7, 1), (8, 2)")
    session.execute("SELECT pg_create_logical_replication_slot('seen', 'pgoutput')")
    try:
        session.execute("DELETE FROM whole WHERE r = 1; ALTER TABLE whole REPLICA IDENTITY DEFAULT")
        session.execute("DELETE FROM whole WHERE r = 2")
        found = session.execute(
            "SELECT data, 'whole'::regclass::oid::bigint FROM pg_logical_slot_get_binary_changes("
            "'seen', NULL, NULL, 'proto_version', '1', 'publication_names', 'shop')"
        ).fetchall()
    finally:
        session.execute("SELECT pg_drop_replication_slot('seen')")
    # A deletion: D, the number of the table, and O for an old row, or K for its key.
    deleted = [(int.from_bytes(data[1:5]), data[5:6], root) for data, root in found if data[:1] == b"D"]

    assert [b"O", b"K"] == [kind for _, kind, _ in deleted] and all(number == root for number, _, root in deleted)


def test_a_table_that_is_sent_as_a_whole_needs_full_of_each_partition(session: Any) -> None:
    """The server takes that of the partition in which a row is, and never that of the table above it."""
    session.execute(WHOLE)
    findings = found(session, "public.whole")
    (lacking,) = [one for one in findings if "before-images" in one.text]
    session.execute("ALTER TABLE more REPLICA IDENTITY FULL")
    still = wrong(found(session, "public.whole"))
    session.execute(lacking.remedy.rpartition(";")[0])
    (whole,) = [one for one in found(session, "public.whole") if "before-images" in one.text]

    assert Health.WRONG is lacking.health
    assert "public.three, public.two of it have not REPLICA IDENTITY FULL" in lacking.text
    assert lacking.remedy.startswith(
        "ALTER TABLE public.three REPLICA IDENTITY FULL; ALTER TABLE public.two REPLICA IDENTITY FULL;"
    )
    assert any("public.three, public.two of it have not" in text for text in still)
    assert Health.OK is whole.health and "of each new one in the transaction that makes it" in whole.text


def test_a_table_that_is_known_to_have_full_and_lacks_it_is_wrong(session: Any) -> None:
    """In whichever way before-images are taken: of such a table an old row is taken as it comes."""
    session.execute(WHOLE)
    before = [wrong(found(session, "public.whole", state=True, known=known)) for known in ((), ("public.whole",))]
    session.execute("ALTER TABLE two REPLICA IDENTITY FULL; ALTER TABLE three REPLICA IDENTITY FULL")

    assert [] == [one for one in before[0] if "full-identity" in one]
    assert any("names it, and public.three, public.two have not REPLICA IDENTITY FULL" in one for one in before[1])
    after = wrong(found(session, "public.whole", state=True, known=("public.whole",)))
    assert [] == [one for one in after if "full-identity" in one]


@pytest.mark.parametrize(("identity", "text"), [
    ("USING INDEX by_code", "the index by_code of its partition public.two, as"), ("NOTHING", "no replica identity"),
])
def test_the_identity_of_a_partition_that_names_no_row_is_wrong(identity: str, text: str, session: Any) -> None:
    """Also from state, where the key of a table is enough."""
    session.execute(WHOLE)
    session.execute("ALTER TABLE whole ADD code int NOT NULL; CREATE UNIQUE INDEX by_code ON two (code)")
    session.execute(f"ALTER TABLE two REPLICA IDENTITY {identity}")

    assert any("before-images by" in one and text in one for one in wrong(found(session, "public.whole", state=True)))


def test_init_refuses_a_table_from_which_others_inherit(session: Any) -> None:
    """And names the tables that can be captured."""
    session.execute("CREATE TABLE child () INHERITS (orders); CREATE TABLE plain (id int)")
    with pytest.raises(UsageError, match=r"public.orders has public.child.*--tables public.child,public.plain"):
        source_tables(session, ["public.*"])
    with pytest.raises(UsageError, match="ALTER TABLE ... NO INHERIT"):
        source_tables(session, ["public.orders"])

    assert ["public.child", "public.plain"] == [one.name for one in source_tables(session, ["public.[cp]*"])]


@pytest.mark.parametrize(("identity", "key", "by_envelope", "by_state"), [
    ("FULL", "", True, True), ("DEFAULT", "", False, True), ("USING INDEX orders_pkey", "", False, True),
    ("USING INDEX by_code", "", False, False), ("NOTHING", "", False, False), ("FULL", "DEFERRABLE", True, False),
    ("DEFAULT", "DEFERRABLE", False, False),
])
def test_a_key_that_does_not_name_a_row_is_wrong(
    identity: str, key: str, by_envelope: bool, by_state: bool, session: Any
) -> None:
    """Of an old row, the records have the columns of the index alone, so another row would be deleted; without an
    identity, the table can no more be written. So ``init`` looks no rows up by such a key: all tables need FULL.
    """
    session.execute("ALTER TABLE orders ADD code int NOT NULL; CREATE UNIQUE INDEX by_code ON orders (code)")
    session.execute(f"ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id) {key}")
    session.execute(f"ALTER TABLE orders REPLICA IDENTITY {identity}")
    session.execute("CREATE TABLE plain (id int PRIMARY KEY)")
    fits = [not any("before-images" in text for text in wrong(found(session, state=state))) for state in (False, True)]
    both = FirstPipeline(
        "shop", DatabaseAddress("db", 5432, "d", "u", False), source_tables(session, ["public.*"]), "k:1", "http://c:1",
    )

    assert [by_envelope, by_state] == fits
    assert by_state == both.from_state() != ("ALTER TABLE public.plain REPLICA IDENTITY FULL;" in both.statements())


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


@pytest.fixture()
def reader(postgres: Postgres, session: Any) -> Iterator[Any]:
    """A session of a role that may only read, of a table with a policy for it."""
    session.execute("DROP ROLE IF EXISTS reader; DROP ROLE IF EXISTS owner")
    session.execute(f"CREATE ROLE reader LOGIN REPLICATION PASSWORD '{postgres.password}'; CREATE ROLE owner")
    session.execute("GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON orders TO reader")
    session.execute("CREATE POLICY few ON orders FOR SELECT TO reader USING (id > 5)")
    with postgres.connect(autocommit=True, user="reader") as reading:
        yield reading
    session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP ROLE reader, owner")


HIDDEN = "public.orders: row-level security may hide rows from reader: a snapshot would lack them"


def test_rows_that_a_policy_hides_are_wrong(session: Any, reader: Any) -> None:
    """For the role that asks, unless it is subject to none; the statement that is named takes the finding away."""
    before = wrong(found(reader))
    session.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    findings = found(reader)
    (remedy,) = [one.remedy for one in findings if one.health is Health.WRONG]
    of_superuser = wrong(found(session))
    session.execute(remedy.partition(";")[0])
    mended = wrong(found(reader))

    assert [[], [HIDDEN], [], []] == [before, wrong(findings), of_superuser, mended]
    assert remedy.startswith("ALTER ROLE reader BYPASSRLS;")


def test_an_owner_is_subject_to_policies_only_where_they_are_forced(session: Any, reader: Any) -> None:
    """And so is a member of the role that owns the table. It is the same as PostgreSQL states itself."""
    session.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY; ALTER TABLE orders OWNER TO owner")
    states = []
    for statement in ("GRANT owner TO reader", "ALTER TABLE orders FORCE ROW LEVEL SECURITY",
                      "ALTER ROLE reader BYPASSRLS", "ALTER ROLE reader NOBYPASSRLS; REVOKE owner FROM reader"):
        session.execute(statement)
        ((active,),) = reader.execute("SELECT row_security_active('orders')").fetchall()
        assert [HIDDEN] * active == wrong(found(reader))
        states.append(active)

    assert [False, True, False, True] == states


def test_the_role_of_the_connector_is_looked_at_where_it_is_another(session: Any, reader: Any) -> None:
    """One that the server does not have, as a reference is none, may be subject to policies."""
    def of(user: str) -> list[tuple[str, str]]:
        findings = list(reader_findings("c", session, user, ["public.orders"]))
        assert all(one.remedy for one in findings)
        return [(one.health.value, one.text) for one in findings]

    assert [[], []] == [of("reader"), of("${env:PGUSER}")]
    session.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")

    assert [("wrong", HIDDEN)] == of("reader")
    assert [("warning", "public.orders: row-level security may hide rows from the connector's role, which is not known "
             "here: ${env:PGUSER}")] == of("${env:PGUSER}")  # fmt: skip
    assert [] == of(session.info.user)


PIPELINE = """
pipeline: shop
kafka: {{bootstrap: "127.0.0.1:1"}}
sources:
  shop:
    postgres: {{conninfo: "{conninfo}"}}
    connector: {{url: "{url}"}}
captures: {{shop: {{}}}}
"""


def test_doctor_asks_for_the_rows_that_the_connector_sees(
    session: Any, reader: Any, postgres: Postgres, run: Run, tmp_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As its settings name the role; not where it takes no snapshot, as the stream has all rows."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    session.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(ORDERS.schema), "utf-8")
    conninfo = f"host={postgres.host} port={postgres.port} dbname=bank user={postgres.username}"
    path = tmp_path / "shop.yaml"
    texts = []
    with fake_connect() as worker:
        path.write_text(PIPELINE.format(conninfo=f"{conninfo} password={postgres.password}", url=worker.url), "utf-8")
        for more in ({}, {"snapshot.mode": "no_data"}, {"database.user": postgres.username}):
            worker.configs["shop"] = {"topic.prefix": "shop", "database.user": "reader", **more}
            findings = json.loads(run("doctor", path, "--json").out)["findings"]
            texts.append([(one["part"], one["health"]) for one in findings if one["text"] == HIDDEN])

    assert [[("connector of shop", "wrong")], [], []] == texts


def test_init_refuses_a_table_of_which_a_policy_may_hide_rows(session: Any, reader: Any) -> None:
    """From the role that asks, or from that of the connector."""
    assert ["public.orders"] == [one.name for one in source_tables(reader, ["public.*"], "reader")]
    session.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    for asking, role in ((reader, None), (session, "reader")):
        with pytest.raises(UsageError, match="of public.orders from the role reader.*ALTER ROLE reader BYPASSRLS"):
            source_tables(asking, ["public.*"], role)

    assert ["public.orders"] == [one.name for one in source_tables(session, ["public.*"])]


def test_a_source_in_which_nothing_can_be_written_is_wrong_where_cdcv2_writes_there(
    session: Any, reader: Any, postgres: Postgres
) -> None:
    """A publication of ours; a marker only where it is a standby, as read-only sessions may commit one."""
    reader.execute("SET default_transaction_read_only = on")
    refused = [text for text in wrong(found(reader, owned=True)) if "read-only" in text]

    assert len(refused) == 1 and refused[0].endswith(", and cdcv2 writes the publication there")
    assert not [text for text in wrong(found(reader)) if "read-only" in text]
    reader.execute("SELECT pg_logical_emit_message(true, 'cdcv2', 'marker')")
    assert why_read_only(reader, standby_only=True) is None
    reader.execute("RESET default_transaction_read_only")
    assert not [text for text in wrong(found(reader, owned=True)) if "read-only" in text]
