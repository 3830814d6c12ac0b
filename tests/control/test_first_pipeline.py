"""`cdcv2 init` writes files that the other commands take, all of them or none, and over none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cdcv2.cli.init import _next, _write
from cdcv2.connectors.debezium.config import JSON_CONVERTERS
from cdcv2.control.first_pipeline import DatabaseAddress, FirstPipeline, SourceTable, connector_of, source_tables
from cdcv2.control.pipeline_check import check_pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import OutputError, UsageError
from cdcv2.servers.postgres import Postgres
from cdcv2.sql_names import sql_name
from cdcv2.store.postgres_session import plain_address
from tests.cli.conftest import PRICES, Run, run  # noqa: F401 - a fixture

pytest.importorskip("yaml")

ORDERS = SourceTable("public.orders", PRICES.schema, ("id",), True)
ODD = SourceTable("public.Odd, one", PRICES.schema, (), False)
SHOP = FirstPipeline("Shop-1", DatabaseAddress("db", 5433, "shop", "cdc", True), [ORDERS], "k:9092", "http://c:8083")


def made(folder: Path, shop: FirstPipeline) -> Path:
    """The files, written; the pipeline's path."""
    _write(folder, {folder / path: text for path, text in shop.files().items()})
    return folder / "pipeline.yaml"


def test_the_files_fit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by the readers of the other commands, bindings judged by the row types."""
    monkeypatch.setenv("PGPASSWORD", "hush")
    monkeypatch.setenv("COPY_PASSWORD", "hush")
    pytest.importorskip("psycopg")
    path = made(tmp_path, SHOP)
    shop = read_pipeline(str(path))
    connector = json.loads((tmp_path / "connector.json").read_text("utf-8"))
    source = shop.sources["Shop-1"]

    assert {"Shop-1": {"public.orders": PRICES}} == {name: dict(one) for name, one in check_pipeline(shop).items()}
    assert (connector["topic.prefix"], connector["slot.name"], connector["publication.name"]) == (
        source.prefix, source.slot.name, source.publication.name)
    assert connector["notification.sink.topic.name"] == source.notifications
    assert ("disabled", "-1") == (
        connector["publication.autocreate.mode"], connector["topic.creation.default.replication.factor"])
    assert JSON_CONVERTERS.items() <= connector.items()
    assert "host=db port=5433 dbname=shop user=cdc password=hush" == source.conninfo()
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and "hush" in one.read_text("utf-8")]


def test_a_key_that_no_view_can_have_is_left_out(tmp_path: Path) -> None:
    """A number with a floating point in the key: the rows are kept with their counts, and the file is taken."""
    rates = {"type": "record", "name": "rates", "fields": [
        {"name": "at", "type": "double"}, {"name": "rate", "type": "long"}]}
    table = SourceTable("public.rates", rates, ("at", "rate"), True)
    assert ((), ("rate",)) == (table.view_key(), replace(table, key=("rate",)).view_key())
    path = made(tmp_path, replace(SHOP, tables=[table], database=replace(SHOP.database, password=False)))
    assert "{log: \"public.rates\", target: \"rates\"}" in path.read_text("utf-8")


def test_before_images_come_from_where_they_can(tmp_path: Path) -> None:
    """FULL everywhere: the records. A key where FULL lacks: the state. Neither: FULL is asked for."""
    keyed = replace(ORDERS, full=False)
    state, asked = replace(SHOP, tables=[keyed]), replace(SHOP, tables=[ORDERS, ODD])
    text = state.files()["pipeline.yaml"]

    assert "before: from-state" in text and "Without REPLICA IDENTITY FULL: public.orders." in text
    assert "before:" not in SHOP.files()["pipeline.yaml"] + asked.files()["pipeline.yaml"]
    assert ["CREATE PUBLICATION shop_1 FOR TABLE public.orders;"] == state.statements() == SHOP.statements()
    assert ['CREATE PUBLICATION shop_1 FOR TABLE public.orders, public."Odd, one";',
            'ALTER TABLE public."Odd, one" REPLICA IDENTITY FULL;'] == asked.statements()  # fmt: skip
    assert 'target: "Odd, one"}' in asked.files()["pipeline.yaml"]


def test_names_are_in_quotes_where_sql_needs_them() -> None:
    """A word of SQL, a capital letter and a dot do, also in the name of a publication."""
    odd = [replace(ORDERS, name=name, full=False, key=()) for name in ("public.we.ird", "order.Items")]

    assert [
        'CREATE PUBLICATION "user" FOR TABLE public."we.ird", "order"."Items";',
        'ALTER TABLE public."we.ird" REPLICA IDENTITY FULL;', 'ALTER TABLE "order"."Items" REPLICA IDENTITY FULL;',
    ] == replace(SHOP, name="User", tables=odd).statements()


def test_no_target_has_a_dot_in_its_name() -> None:
    """It would begin with a schema, which the target has not."""
    odd = replace(SHOP, tables=[replace(ORDERS, name=name) for name in ("public.we.ird", "public.we_ird", "a.b.c")])
    text = odd.files()["pipeline.yaml"]

    assert 'log: "public.we.ird", target: "we_ird",' in text
    assert 'log: "public.we_ird", target: "we_ird_2",' in text and 'target: "a_b_c"' in text


@pytest.mark.integration
def test_every_word_that_needs_quotes_is_known() -> None:
    """Those of the server that is here."""
    with Postgres() as server, server.connect(autocommit=True) as session:
        words = [word for (word,) in session.execute("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")]
        session.execute('CREATE SCHEMA "a.b" CREATE TABLE c (id int)')
        with pytest.raises(UsageError, match="the schema 'a.b' has a dot in its name: .* ends at the first dot"):
            source_tables(session, ["a.*"])

    assert len(words) > 90
    assert [f'"{word}"' for word in words] == [sql_name(word) for word in words]


def test_generated_columns_are_kept_from_the_snapshot(tmp_path: Path) -> None:
    """Only the snapshot has them, and the row type has not."""
    config = json.loads(replace(SHOP, tables=[replace(ORDERS, unsent=("sum",))]).files()["connector.json"])

    # That of a table "Orders" is sent.
    assert r"(?-i:public\.orders\.sum)" == config["column.exclude.list"]


def test_a_connector_that_is_there_gives_the_names() -> None:
    """Its configuration alone, or as Connect shows a connector; no second one is written."""
    plain = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "t.x",
             "slot.name": "s", "publication.name": "Pub"}  # fmt: skip
    found = connector_of({"name": "mine", "config": plain}, "c")
    files = replace(SHOP, connector=found).files()

    assert plain == connector_of(plain, "c")
    assert "connector.json" not in files
    for text in ('prefix: "t.x"', 'name: "mine"', 'slot: {name: "s"}', 'publication: {name: "Pub"}'):
        assert text in files["pipeline.yaml"]
    assert "notifications" not in files["pipeline.yaml"]
    assert [] == replace(SHOP, connector=found).statements()


MYSQL = {"topic.prefix": "x", "connector.class": "io.debezium.connector.mysql.MySqlConnector"}


@pytest.mark.parametrize("plain", [[], {}, {"config": {}}, {"topic.prefix": "x"}, MYSQL])
def test_what_is_no_connector_of_postgresql_is_refused(plain: object) -> None:
    """With where it is from."""
    with pytest.raises(UsageError, match="connector.json is "):
        connector_of(plain, "connector.json")


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    """A file that came in the meantime is left as it is, and those before it are removed."""
    (tmp_path / "pipeline.yaml").write_text("mine", "utf-8")
    with pytest.raises(OutputError, match="nothing is left there"):
        made(tmp_path, SHOP)

    assert ["pipeline.yaml"] == [one.name for one in tmp_path.rglob("*") if one.is_file()]
    assert "mine" == (tmp_path / "pipeline.yaml").read_text("utf-8")


def test_the_next_steps_are_named() -> None:
    """In order, and ready to be copied."""
    lines = _next(SHOP, Path("shop"))

    assert ["cdcv2 init: 1 tables. Now:", "  cdcv2 up shop/pipeline.yaml"] == [lines[0], lines[-1]]
    assert any("-d @shop/connector.json http://c:8083/connectors/Shop-1/config" in line for line in lines)
    assert "read shop/pipeline.yaml, name its target, and:" in lines


def test_a_login_at_connect_goes_into_the_file_and_the_steps(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """By its path; what the file has is not copied. A wrong file is named before the database is asked."""
    shop = replace(SHOP, login=tmp_path / "connect.netrc")
    connector = read_pipeline(str(made(tmp_path, shop))).sources["Shop-1"].connector
    (started,) = [line for line in _next(shop, Path("shop")) if "curl" in line]
    wrong = run("init", "--source", "env", "--connect-login", tmp_path / "away", "--output", tmp_path / "two")

    assert connector is not None and tmp_path / "connect.netrc" == connector.login
    assert started.startswith(f"  curl --netrc-file {tmp_path / 'connect.netrc'} -X PUT")
    assert (2, True) == (wrong.code, f"the login for Kafka Connect in {tmp_path / 'away'} cannot be read" in wrong.err)


def test_doctor_looks_before_the_connector_is_started() -> None:
    """What it finds is mended before the snapshot begins."""
    lines = _next(SHOP, Path("shop"))
    (started,) = [number for number, line in enumerate(lines) if "curl" in line]

    assert lines.index("  cdcv2 doctor shop/pipeline.yaml") < started < lines.index("  cdcv2 up shop/pipeline.yaml")


def test_what_cdcv2_up_makes_is_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file states connector, slot and publication as ours, and its target: it is taken as it is."""
    monkeypatch.setenv("PGPASSWORD", "hush")
    monkeypatch.setenv("COPY_PASSWORD", "of-copy")
    pytest.importorskip("psycopg")
    asked = replace(SHOP, tables=[ORDERS, ODD], owned=True, target=plain_address("host=c user=u dbname='d b'", "it"))
    shop = read_pipeline(str(made(tmp_path, asked)))
    source, connector = shop.sources["Shop-1"], shop.sources["Shop-1"].connector
    lines = _next(asked, Path("shop"))

    assert connector is not None and (True, tmp_path / "connector.json") == (connector.owned, connector.config)
    assert (True, True) == (source.slot.owned, source.publication.owned)
    target = dict(shop.views["copy"].fields["target"].entries())["conninfo"].text()
    assert "port=5432 user=u dbname='d b' host=c password=of-copy" == target
    # Of the tables it changes nothing: that is their owner's.
    assert ['ALTER TABLE public."Odd, one" REPLICA IDENTITY FULL;'] == asked.statements()
    assert ["read shop/pipeline.yaml, and:", "  cdcv2 doctor shop/pipeline.yaml", "  cdcv2 up shop/pipeline.yaml"] == (
        lines[-3:])
    assert not any("curl" in line or "PUBLICATION" in line for line in lines)


@pytest.mark.parametrize(("text", "reason"), [
    ("host=c user=u dbname=d password=hush", "--target has password, a secret"),
    ("host=c user=u dbname=d sslpassword=hush", "--target has sslpassword, a secret"),
    ("host=c dbname=d", "--target lacks user"),
    ("user=u", "--target lacks host, dbname"), ("hush hush", "cannot be read"), ("", "--target lacks host"),
])  # fmt: skip
def test_a_target_that_is_not_whole_is_refused(text: str, reason: str) -> None:
    """Libpq would take what lacks from the variables of the source; and a password is shown nowhere."""
    pytest.importorskip("psycopg")
    with pytest.raises(UsageError, match=reason) as raised:
        plain_address(text, "--target")

    assert "hush" not in str(raised.value)


def test_a_connector_of_others_is_not_made(run: Run, tmp_path: Path) -> None:  # noqa: F811
    """Refused before anything is asked."""
    made_by_both = run("init", "--source", "env", "--owned", "--from-connector", "http://127.0.0.1:1/connectors/a",
                       "--output", tmp_path / "shop")  # fmt: skip

    assert (2, True) == (made_by_both.code, "--owned is of a connector that is made" in made_by_both.err)


@pytest.mark.integration
def test_a_database_is_asked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Its tables with their keys; a second run names what is there, and changes nothing."""
    with Postgres() as server, server.connect(autocommit=True) as session:
        session.execute("CREATE TABLE orders (b int, a text, note varchar(9), PRIMARY KEY (a, b))")
        session.execute("CREATE TABLE audit (at timestamptz)")
        session.execute("ALTER TABLE audit REPLICA IDENTITY FULL")
        session.execute("CREATE SCHEMA own CREATE TABLE t (id int PRIMARY KEY)")
        for name, value in {**server.environment, "CDCV2_POSTGRES": "", "PGHOST": server.host, "PGPORT": server.port,
                            "PGDATABASE": server.database, "PGUSER": server.username}.items():  # fmt: skip
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("COPY_PASSWORD", "x")
        first = run("init", "--source", "env", "--output", tmp_path / "shop", "--pipeline", "shop")
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        second = run("init", "--source", "env", "--output", tmp_path / "shop")
        none = run("init", "--source", "env", "--tables", "public.order", "--output", tmp_path / "none")
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        session.execute("CREATE TABLE places (id int PRIMARY KEY, at point, name text)")
        refused, unknown, keyed, both = (
            run("init", "--source", "env", *more, "--output", tmp_path / "none") for more in (
                (), ("--exclude-columns", "public.places.where"),
                ("--exclude-columns", "public.places.id,public.places.at"),
                ("--exclude-columns", "public.places.at", "--from-connector", tmp_path / "shop" / "connector.json"))
        )
        less = run("init", "--source", "env", "--exclude-columns", "public.places.at", "--output", tmp_path / "less")
        there = run("init", "--source", "env", "--from-connector", tmp_path / "less" / "connector.json",
                    "--output", tmp_path / "there")
        alone = run("rows", "--source", "env", "--table", "public.places", "--exclude-columns", "at")
    pipeline = read_pipeline(str(tmp_path / "shop" / "pipeline.yaml"))
    text = pipeline.path.read_text("utf-8")

    assert 0 == first.code, first
    assert {"public.audit", "public.orders"} == set(check_pipeline(pipeline)["shop"])
    assert 'target: "orders", key: ["a", "b"]' in text and 'target: "audit"}' in text and "before: from-state" in text
    assert (2, True) == (second.code, "nothing is written" in second.err and "pipeline.yaml" in second.err), second
    assert before == after
    assert (2, True) == (none.code, "no table 'public.order'" in none.err and "public.orders" in none.err), none
    named = "'at' has the type 'point'" in refused.err and "--exclude-columns" in refused.err
    assert (3, True) == (refused.code, named), refused
    assert (2, True) == (unknown.code, "--exclude-columns public.places.where: it is no column" in unknown.err), unknown
    assert (2, True) == (keyed.code, "public.places: 'id' is of the primary key" in keyed.err), keyed
    assert (2, True) == (both.code, "--exclude-columns is of a connector that is made" in both.err), both
    assert (0, 0, 0) == (less.code, there.code, alone.code), (less, there, alone)
    rows = [json.loads((tmp_path / name / "rows" / "public.places.avsc").read_text("utf-8"))
            for name in ("less", "there")] + [json.loads(alone.out)]
    assert [["id", "name"]] * 3 == [[field["name"] for field in one["fields"]] for one in rows]
    config = json.loads((tmp_path / "less" / "connector.json").read_text("utf-8"))
    assert r"(?-i:public\.places\.at)" == config["column.exclude.list"]
