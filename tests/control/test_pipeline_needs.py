"""What a pipeline file needs in other systems: what it states, in the order in which it is made, and nothing secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, ExternalObject, Kind, Reason
from cdcv2.control.external_state import altered, decide
from cdcv2.control.intents import DesiredState, planned
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_needs import PipelineNeeds
from cdcv2.errors import UsageError

pytest.importorskip("psycopg")
pytest.importorskip("confluent_kafka")

DATABASE, COPY, KAFKA, CONNECT = "PostgreSQL db/shop", "PostgreSQL copy:5433/copy", "Kafka k:9092", "http://c:8083"
FILE = """
pipeline: shop
kafka: {bootstrap: "k:9092"}
sources:
  shop:
    postgres: {conninfo: "host=db dbname=shop user=cdc password=${PGPASSWORD}"}
    notifications: shop.notifications
    connector: {url: "http://c:8083/", owned: yes, config: connector.json}
captures:
  shop: {into: "kafka:cdc.{table}", remap: "kafka:timeline", owned: yes}
views:
  copy:
    owned: yes
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: postgres, conninfo: "host=copy port=5433 dbname=copy password=${COPY_PASSWORD}"}
"""
ROW = {"type": "record", "name": "orders", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
]}  # fmt: skip
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file, with parts of it replaced, and the connector's settings beside it."""
    monkeypatch.setenv("PGPASSWORD", "open-sesame")
    monkeypatch.setenv("COPY_PASSWORD", "open-barley")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(ROW), "utf-8")

    def written(*changes: tuple[str, str], **settings: str) -> Path:
        config = debezium_config("shop", ["public.orders"], host="db", port=5432, database="shop", user="cdc",
                                 publication="disabled", more=settings)  # fmt: skip
        (tmp_path / "connector.json").write_text(json.dumps({"name": "shop", "config": config}), "utf-8")
        text = FILE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "shop.yaml"
        path.write_text(text, "utf-8")
        return path

    return written


def needs(path: Path) -> PipelineNeeds:
    """What the file needs."""
    return external_needs(read_pipeline(str(path))).needs


def keys(found: list[DesiredState], **has: object) -> set[tuple[Kind, str, str]]:
    """Those with these attributes, by kind, address and name."""
    return {one.key for one in found if all(getattr(one, name) == value for name, value in has.items())}


def test_a_capture_by_commit_times_needs_a_topic_for_each_table(write: Write) -> None:
    """It has no remap, as the job on Spark that writes into topics."""
    path = write((', remap: "kafka:timeline"', ", spark: {state: s, arguments: [--jars, j]}"))

    assert {(Kind.TOPIC, KAFKA, "cdc.public.orders")} == {
        key for key in keys(needs(path).stated, user="shop") if key[2].startswith("cdc")}


ALL = {
    (Kind.PUBLICATION, DATABASE, "shop"), (Kind.SLOT, DATABASE, "shop"), (Kind.CONNECTOR, CONNECT, "shop"),
    *((Kind.TOPIC, KAFKA, name) for name in (
        "shop.transaction", "shop.notifications", "shop.public.orders", "__debezium-heartbeat.shop",
        "cdc.public.orders", "cdc._temp.shop",
    )),
    (Kind.REMAP, KAFKA, "timeline"), (Kind.TARGET_TABLE, COPY, "orders"),
}  # fmt: skip


def test_what_is_owned_is_needed_by_its_job_and_has_no_secret(write: Write) -> None:
    """The connector after publication and topics; its slot is made by itself; it makes no publication."""
    found = needs(write()).stated
    by_key = {one.key: one for one in found}
    connector, slot = by_key[Kind.CONNECTOR, CONNECT, "shop"], by_key[Kind.SLOT, DATABASE, "shop"]

    assert ALL == keys(found, owned=True) == keys(found)
    assert ALL - {(Kind.TARGET_TABLE, COPY, "orders")} == keys(found, user="shop")
    assert (connector.key, {"plugin": "pgoutput", "database": "shop"}) == (slot.maker, slot.settings)
    assert {one for one in ALL if one[2].startswith(("shop", "__"))} - {connector.key} == set(connector.needs)
    assert ("disabled", "shop", "shop") == tuple(
        connector.settings[name] for name in ("publication.autocreate.mode", "slot.name", "publication.name")
    )
    assert {"tables": ["public.orders"]} == by_key[Kind.PUBLICATION, DATABASE, "shop"].settings
    assert [["id", "bigint", False], ["price", "numeric(10,2)", True]] == (
        by_key[Kind.TARGET_TABLE, COPY, "orders"].settings["columns"]
    )
    assert "open-" not in repr(found)
    assert "open-" not in repr(external_needs(read_pipeline(str(write()))))


def test_what_others_own_is_looked_at_and_what_has_no_owner_is_left_to_the_job(write: Write) -> None:
    """The default: connector, slot and publication are of others, and the job makes its logs and tables itself."""
    path = write((", owned: yes, config: connector.json", ""), (", owned: yes}", "}"), ("    owned: yes\n", ""))
    found = needs(path)
    # Names that only the connector knows are looked at nowhere.
    assert {(Kind.CONNECTOR, CONNECT, "shop")} == keys(found.stated)
    assert [False] == [one.owned for one in found.stated]

    path.write_text(path.read_text("utf-8").replace("connector:", "slot: {name: other}\n    connector:"), "utf-8")
    assert (Kind.SLOT, DATABASE, "other") in keys(needs(path).stated, owned=False, maker=None)


@pytest.mark.parametrize(("old", "new"), [
    ("kafka:cdc.{table}", "kafka:other.{table}"), ("  shop: {into", "  renamed: {into"),
])
def test_what_a_source_has_feeds_the_topics_that_its_captures_read(write: Write, old: str, new: str) -> None:
    """Whatever the captures are called, and wherever their logs are."""
    found, changed = needs(write()), needs(write((old, new)))
    feeds = {one.kind: one.feeds for one in found.stated}
    topics = {"shop.public.orders": "public.orders"}

    assert {kind: topics for kind in (Kind.CONNECTOR, Kind.SLOT, Kind.PUBLICATION)} == {
        kind: fed for kind, fed in feeds.items() if fed
    }
    assert [one.feeds for one in found.stated] == [one.feeds for one in changed.stated]


def test_without_a_variable_what_is_others_is_not_looked_at(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view is kept where the source's password is not known; what is ours needs it."""
    monkeypatch.delenv("PGPASSWORD")
    theirs = write((", owned: yes, config: connector.json", ""), ("connector:", "slot: {name: shop}\n    connector:"))
    assert (Kind.SLOT, DATABASE, "shop") not in keys(needs(theirs).stated)
    with pytest.raises(UsageError, match="line 6: the environment has no PGPASSWORD"):
        needs(write())


def test_a_word_that_is_deleted_removes_nothing(write: Write) -> None:
    """Only a capture or a view that is dropped does: what we made stays, and is not ours from then on."""
    entries: dict[str, CatalogueEntry] = {}

    def plan(found: PipelineNeeds) -> dict[str, EntryState]:
        drawn = (f"n{number}" for number in range(len(entries), 99))
        changed = planned(entries.values(), found.desired(entries.values()), 5.0, lambda: next(drawn))
        entries.update({one.nonce: one for one in changed})
        return {one.name: one.state for one in entries.values() if one.kind in (Kind.TARGET_TABLE, Kind.REMAP)}

    assert {"orders": EntryState.WANTED, "timeline": EntryState.WANTED} == plan(needs(write()))
    entries.update({name: replace(one, state=EntryState.IN_USE) for name, one in entries.items()})
    assert {EntryState.IN_USE} == set(plan(needs(write(("    owned: yes\n", "")))).values())
    assert [False] == [one.owned for one in entries.values() if one.kind is Kind.TARGET_TABLE]

    # Nor does one about the connector: its slot, its publication and its topics stay with it.
    plan(needs(write((", owned: yes, config: connector.json", ""))))
    kept = [one for one in entries.values() if one.kind is not Kind.TARGET_TABLE and one.kind is not Kind.REMAP]
    assert ({EntryState.IN_USE}, 7) == ({one.state for one in kept}, sum(not one.owned for one in kept))
    fed = [one.feeds for one in kept if one.kind in (Kind.CONNECTOR, Kind.SLOT, Kind.PUBLICATION)]
    assert [{"shop.public.orders": "public.orders"}] * 3 == fed
    plan(needs(write()))
    assert ({EntryState.IN_USE}, True) == ({one.state for one in kept}, all(one.owned for one in entries.values()))

    view = FILE[FILE.index("views:"):]
    assert {"orders": EntryState.UNWANTED, "timeline": EntryState.IN_USE} == plan(needs(write((view, ""))))


def test_what_was_let_go_is_forgotten_where_the_file_names_another_one_or_it_is_lost(write: Write) -> None:
    """Its job would wait for it for ever, or be called not known. What nothing else stands for stays."""
    words = (", owned: yes, config: connector.json", ""), ("    owned: yes\n", "")
    unnamed = needs(write(*words))
    stated = needs(write(*words, ("    notifications:", "    publication: {name: new}\n    notifications:")))
    plain = CatalogueEntry("1", Kind.PUBLICATION, "dbz_old", DATABASE, {}, False, ("shop",), attempted=1.0)
    user = next(one.user for one in stated.stated if one.kind is Kind.PUBLICATION)
    table = replace(plain, kind=Kind.TARGET_TABLE, name="gone", address=COPY, users=("copy",))

    def kept(entry: CatalogueEntry, found: PipelineNeeds = stated) -> bool:
        return any(one.name == entry.name for one in found.desired([entry]))

    assert "shop" == user and kept(replace(plain, state=EntryState.LOST), unnamed)
    assert [False, False] == [kept(replace(plain, state=state)) for state in (EntryState.IN_USE, EntryState.LOST)]
    assert [True, False] == [kept(replace(table, state=state)) for state in (EntryState.IN_USE, EntryState.LOST)]
    # What is ours yet is let go first, and not removed by another name.
    assert kept(replace(plain, owned=True, state=EntryState.IN_USE))


def test_a_slot_without_a_snapshot_is_made_beforehand(write: Write) -> None:
    """There is no seam: so it may be there first, ours or of others."""
    found = needs(write(**{"snapshot.mode": "no_data"})).stated
    assert [None] == [one.maker for one in found if one.kind is Kind.SLOT]


@pytest.mark.parametrize(("text", "partitions"), [("3", 3), ("${env:N}", None)])
def test_partitions_are_those_of_the_connector_and_a_reference_is_not_judged(
    write: Write, text: str, partitions: int | None
) -> None:
    """Only Connect resolves it."""
    found = needs(write(**{"topic.creation.default.partitions": text})).stated
    topic = next(one for one in found if one.kind is Kind.TOPIC and one.name == "shop.public.orders")
    assert partitions == topic.settings.get("partitions")


def test_more_partitions_of_a_topic_of_a_table_are_stated_in_the_file_of_the_connector(write: Write) -> None:
    """Kafka takes none away. The topics of its other tables are given as many by a person."""
    def wished(**settings: str) -> DesiredState:
        found = needs(write(**settings)).stated
        return next(one for one in found if one.name == "shop.public.orders")

    def seen(entry: CatalogueEntry, partitions: int) -> CatalogueEntry:
        thing = ExternalObject("id", empty=False, settings={**wished().settings, "partitions": partitions})
        entry = decide(entry, Answer("k", thing), 9.0).entry
        # An act gives a topic all settings but these.
        return decide(altered(entry), Answer("k", thing), 9.0).entry

    (new,) = planned([], [wished()], 1.0, lambda: "7f")
    one = seen(replace(new, state=EntryState.IN_USE, attempted=1.0, server="k", identity="id",
                       applied=new.settings), 1)  # fmt: skip
    more = seen(one, 3)
    (stated,) = planned([more], [wished(**{"topic.creation.default.partitions": "3"})], 2.0, lambda: "8f")

    assert one.debt is None and more.debt is not None and Reason.DRIFT is more.debt.reason
    assert "partitions is 3, not 1" in more.debt.text and "change it back" not in more.debt.text
    assert "write topic.creation.default.partitions=3 into the connector's file" in more.debt.text
    assert ("7f", EntryState.IN_USE, None) == (stated.nonce, stated.state, seen(stated, 3).debt)
    (other,) = planned([one], [wished(**{"topic.creation.default.partitions": "3"})], 2.0, lambda: "8f")
    debt = seen(other, 1).debt
    command = "kafka-topics.sh --bootstrap-server k:9092 --alter --topic shop.public.orders --partitions 3"
    assert debt is not None and f"{command} gives it as many" in debt.text


def test_several_views_of_a_database_share_nothing_and_kafka_targets_are_topics(write: Write) -> None:
    """A topic per table, with its prefix."""
    old = '{driver: postgres, conninfo: "host=copy port=5433 dbname=copy password=${COPY_PASSWORD}"}'
    target = "{driver: kafka, prefix: out., partitions: 3}\n    recovery_log: recovery"
    found = needs(write((old, target), ("key: [id]}", "key: [id], delta: true}"))).stated
    topic = next(one for one in found if one.name == "out.orders")
    assert (Kind.TOPIC, KAFKA, 3, "copy") == (topic.kind, topic.address, topic.settings["partitions"], topic.user)


REFUSED: list[tuple[list[tuple[str, str]], Mapping[str, Any], str]] = [
    ([("    postgres: ", "    # ")], {}, "line 7: it is made in the database of the source"),
    ([("connector:", "slot: {owned: no}\n    connector:")], {}, "line 8: a connector makes the slot of its first snap"),
    ([(", owned: yes, config: connector.json", ""), ("connector:", "slot: {owned: yes}\n    connector:")], {},
     "line 8: a connector makes the slot of its first snapshot itself"),
    ([], {"database.password": "hidden"}, "line 8: .*connector.json has database.password in clear text"),
    ([], {"registry.url": "http://u:hidden@h"}, "line 8: .*connector.json has registry.url in clear text"),
    ([], {"topic.creation.default.partitions": "abc"}, "line 8: .*partitions=abc: write a whole number"),
    ([], {"topic.creation.default.partitions": "0"}, "line 8: .*partitions=0: write a whole number"),
    ([], {"slot.name": "x", "topic.prefix": "other"}, "line 8: .*has topic.prefix=other, and the pipeline needs shop"),
    ([], {"publication.autocreate.mode": "filtered"}, "autocreate.mode=filtered, and the pipeline needs disabled"),
    ([], {"table.include.list": r"public\.items"}, "line 8: .* leave out public.orders, which a capture reads: add"),
    ([], {"skipped.operations": "t"}, "line 8: .* has skipped.operations=t, and the pipeline needs none: write that"),
    ([], {"errors.tolerance": "all"}, "line 8: .*errors.tolerance=all: Connect leaves out .* leave errors.tol"),
    ([], {"event.processing.failure.handling.mode": "warn"}, "line 8: .*handling.mode=warn: the connector leaves out"),
    ([], {"event.converting.failure.handling.mode": ""}, "line 8: .* So set event.converting.failure.handling.mode"),
    ([], {"post.processors": "reselector"}, "line 8: .* post.processors=reselector: .* So leave post.processors out"),
    ([], {"plugin.name": "decoderbufs"}, "line 8: .* plugin.name=decoderbufs: .* So set plugin.name=pgoutput"),
    ([], {"slot.drop.on.stop": "true"}, "line 8: .* slot.drop.on.stop=true: .* So set slot.drop.on.stop=false"),
    ([], {"slot.stream.params": "origin=none"}, "line 8: .* slot.stream.params with origin=none: the server may leave"),
    ([], {"slot.stream.params": "binary=true;origin=any;publication_names=less"},
     "line 8: .* slot.stream.params with binary=true, publication_names=less: .* So leave slot.stream.params out"),
    ([], {"snapshot.select.statement.overrides": "public.orders",
          "snapshot.select.statement.overrides.public.orders": "SELECT * FROM public.orders WHERE id > 5"},
     "line 8: .* snapshot.select.statement.overrides for public.orders: .* So leave these tables out of snap"),
    ([], {"snapshot.include.collection.list": "public.items"},
     "line 8: .* snapshot.include.collection.list without public.orders: .* So leave snapshot.include"),
    ([], {"column.exclude.list": r"public\.orders\.pr.*"}, "line 8: .* column.exclude.list without public.orders.p"),
    ([], {"table.include.list": r"public\.orders,public\.items, Audit\.log"},
     "line 8: .* names Audit.log, public.items in table.include.list, .* leave it out of the list, or capture it"),
    ([], {"table.include.list": r"public.orders,(?-i:public\.Orders)"}, "line 8: .* names public.Orders in table.incl"),
    ([], {"table.include.list": r"(?-i:public\.Orders)"}, "line 8: .* leave out public.orders, which a capture reads"),
    ([], {"table.include.list": ""},
     r'line 8: .* no table.include.list: .*Write "table.include.list": "\(\?-i:public.*orders\)"$'),
    ([], {"notification.sink.topic.name": "n"}, "has notification.sink.topic.name=n, and the pipeline needs shop.not"),
    ([], {"notification.enabled.channels": "log,jmx"}, "notification.enabled.channels=log,jmx, and the pipeline needs"),
    ([("{driver: postgres", "{driver: lake, folder: lake} #")], {}, "line 13: 'owned' goes with a view of a capture"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "settings", "text"), REFUSED, ids=[one[2][:30] for one in REFUSED])
def test_what_cannot_be_owned_so_is_refused_with_its_line(
    write: Write, changes: list[tuple[str, str]], settings: Mapping[str, str], text: str
) -> None:
    """Before anything is made; and no secret is shown."""
    if "lake" in str(changes):
        changes = [*changes, ("views:\n  copy:\n", "views:\n  copy:\n    recovery_log: recovery\n")]
    with pytest.raises(UsageError, match=text) as refused:
        needs(write(*changes, **settings))
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("settings", [
    {"errors.tolerance": "none"}, {"event.processing.failure.handling.mode": "FAIL"}, {"errors.tolerance": "${env:T}"},
    {"slot.stream.params": "origin=any;messages=true"}, {"slot.stream.params": "${env:PARAMETERS}"},
    {"snapshot.select.statement.overrides": "public.items", "table.include.list": r"public\..*"},
    {"snapshot.select.statement.overrides": "public.orders", "snapshot.mode": "no_data"},
    {"snapshot.isolation.mode": "read_committed", "snapshot.mode": "no_data"},
    {"column.mask.with.0.chars": r"public\.orders\.price", "message.key.columns": "public.orders:price"},
    {"snapshot.include.collection.list": r"PUBLIC\.o.*"}, {"snapshot.include.collection.list": "${env:LISTED}"},
    {"column.exclude.list": r"public\.orders\.total"}, {"column.include.list": r"public\.orders\..*"},
    {"table.include.list": "", "schema.include.list": "public"}, {"table.include.list": "", "snapshot.mode": "no_data"},
    {"table.include.list": r"public\..*"}, {"table.include.list": "${env:TABLES}"},
])  # fmt: skip
def test_settings_that_leave_nothing_out_or_cannot_be_judged_are_taken(
    write: Write, settings: Mapping[str, str]
) -> None:
    """A generated column is in no row type; a pattern may mean tables that are not there; a reference is Connect's."""
    connector = next(one for one in needs(write(**settings)).stated if one.kind is Kind.CONNECTOR)
    assert settings.items() <= connector.settings.items()


@pytest.mark.parametrize(("listed", "more", "sent"), [
    (r"public\.orders", {}, r"(?-i:public\.orders)"), ("PUBLIC.Orders,public.orders", {}, r"(?-i:public\.orders)"),
    (r"public.orders , (audit|old)\.x{1\,3}, [", {}, r"(?-i:public\.orders),(audit|old)\.x{1\,3},["),
    ("public.orders,PUBLIC.signals", {"signal.data.collection": "public.signals"},
     r"(?-i:public\.orders),(?-i:public\.signals)"),
])
def test_a_name_in_the_list_of_tables_means_the_captured_one_alone(
    write: Write, listed: str, more: Mapping[str, str], sent: str
) -> None:
    """For Debezium, it would also mean a table whose name differs in case: its topic would have no owner."""
    connector = next(one for one in needs(write(**{"table.include.list": listed, **more})).stated
                     if one.kind is Kind.CONNECTOR)  # fmt: skip
    assert sent == connector.settings["table.include.list"]


@pytest.mark.parametrize(("settings", "statements"), [
    ({}, "SET row_security = off"), ({"snapshot.mode": "no_data"}, None),
    ({"database.initial.statements": "SET x.y = 'z'"}, "SET x.y = 'z'; SET row_security = off"),
    ({"database.initial.statements": "SET row_security = off; SET x.y = 'z'"}, "SET row_security = off; SET x.y = 'z'"),
    ({"database.initial.statements": "SET x.y = 'z'", "snapshot.mode": "never"}, "SET x.y = 'z'"),
])  # fmt: skip
def test_the_snapshot_of_a_connector_of_ours_has_all_rows_or_fails(
    write: Write, tmp_path: Path, settings: Mapping[str, str], statements: str | None
) -> None:
    """Else a policy hides rows from it. What its file has executed is executed, too."""
    path, file = write(**settings), tmp_path / "connector.json"
    config = json.loads(file.read_text("utf-8"))
    if "database.initial.statements" not in settings:
        config["config"].pop("database.initial.statements", None)
    file.write_text(json.dumps(config), "utf-8")

    connector = next(one for one in needs(path).stated if one.kind is Kind.CONNECTOR)
    assert statements == connector.settings.get("database.initial.statements")


@pytest.mark.parametrize("listed", [r"public\.orders", ""])
def test_a_connector_of_which_nothing_is_captured_is_not_judged(write: Write, listed: str) -> None:
    """No job needs it any more: it is removed."""
    path = write(**{"table.include.list": listed})
    text = path.read_text("utf-8")
    text = text.replace('"kafka:cdc.{table}", remap: "kafka:timeline", owned: yes', "logs, source: other")
    text = text.replace("  shop:\n    postgres", "  other: {prefix: other}\n  shop:\n    postgres")
    path.write_text(text[:text.index("views:")], "utf-8")

    assert needs(path).stated == []


def test_a_connector_whose_file_does_not_state_it_sends_truncate(write: Write, tmp_path: Path) -> None:
    """Its default leaves it out."""
    path, file = write(), tmp_path / "connector.json"
    config = json.loads(file.read_text("utf-8"))
    del config["config"]["skipped.operations"]
    file.write_text(json.dumps(config), "utf-8")

    connector = next(one for one in needs(path).stated if one.kind is Kind.CONNECTOR)
    assert "none" == connector.settings["skipped.operations"]


@pytest.mark.parametrize(("change", "what"), [
    (("views:", "  other: {into: logs/other}\nviews:"), "a folder of the capture other"),
    (("views:", "  other: {into: link/other}\nviews:"), "a folder of the capture other"),
    (("kafka:", "state: logs/state\nkafka:"), "the state folder"),
    (("kafka:", "rows: logs/rows\nkafka:"), "the folder of row types"),
    (("{driver: postgres", "{driver: lake, folder: logs/lake} #"), "a folder of the view copy"),
    (("    bindings:", "    recovery_log: {sqlite: logs/log.db}\n    bindings:"), "a folder of the view copy"),
])
def test_a_folder_of_ours_has_nothing_of_others_in_it(
    write: Write, tmp_path: Path, change: tuple[str, str], what: str
) -> None:
    """It is removed as a whole; what is not ours stays, and may have others beside it."""
    (tmp_path / "link").symlink_to("logs")
    ours = ('into: "kafka:cdc.{table}", remap: "kafka:timeline", owned: yes', "into: logs, owned: yes")
    theirs = (ours[0], "into: logs")
    view = ("    owned: yes\n    bindings", "    capture: shop\n    bindings")
    with pytest.raises(UsageError, match=f"shop.yaml, line 1[01]: .* and {what} is in it, "):
        needs(write(ours, view, change))
    if "rows" not in change[1]:
        assert needs(write(theirs, view, change)).stated
    assert needs(write(ours, view)).stated
