"""A row for each table and target, from jobs' events, logs' tails and what servers answer; no server is started."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.topics import TopicExtents
from cdcv2.cli.main import main
from cdcv2.cli.status import lines
from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control import examination, explanation, pipeline_probe, pipeline_status, view_checkpoint
from cdcv2.control.catalogue import take_catalogue
from cdcv2.control.entries import CatalogueEntry, Debt, EntryState, Kind, Reason
from cdcv2.control.examination import examine
from cdcv2.control.explanation import explain
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.kept_value import keep
from cdcv2.control.log_tail import stated_frontier
from cdcv2.control.metrics import measure
from cdcv2.control.metrics.model import samples_of
from cdcv2.control.observations import AwaitedTransaction, ConnectorObservation, DatabaseObservation, SlotObservation
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.parallel_requests import Reply, ask_all
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.control.pipeline_probe import PipelineObservation, SourceObservation, TopicEnds
from cdcv2.control.pipeline_status import PipelineStatus, TableRow, status_of
from cdcv2.control.seconds_behind import OTHER_SERVER
from cdcv2.control.supervision import JobState, JobStatus
from cdcv2.control.supervisor import Supervisor
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UnavailableError
from cdcv2.logs.description import UNCOVERED, LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType

pytest.importorskip("yaml")

ROW = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}
FILE = """
pipeline: shop
kafka: {bootstrap: "127.0.0.1:1"}
sources:
  shop:
    postgres: {conninfo: "host=127.0.0.1 port=1 dbname=shop password=open-sesame"}
    connector: {url: "http://127.0.0.1:1"}
captures:
  shop: {into: logs}
views:
  copy:
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""
LAST, FIRST = TransactionEnd(757, 500, 100.0, 8), TransactionEnd(756, 400, 95.0, 6)


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    """A pipeline whose capture has stated all before 501, and whose log is stated before 401."""
    path = tmp_path / "shop.yaml"
    path.write_text(FILE, "utf-8")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(ROW), "utf-8")
    return read_pipeline(str(path))


def log(pipeline: Pipeline, *frontiers: int) -> None:
    """The log, with a row before each frontier, which is stated."""
    made = DirectoryLog(pipeline.path.parent / "logs" / "public.orders", RowType.load(ROW), create=True)
    with Writer(made) as writer:
        for frontier in frontiers:
            writer.extend([(made.row_type.row([frontier]), frontier - 1, +1)])
            writer.advance([frontier])


def answering(
    monkeypatch: pytest.MonkeyPatch, view: SourceObservation, target: Reply, topic: Callable[[list[int]], Reply]
) -> None:
    """Servers that answer so."""
    def look(pipeline: Pipeline, frontiers: Any) -> PipelineObservation:
        targets = {"copy": target}
        return PipelineObservation({"shop": view}, targets, {"shop": topic(sorted(frontiers(targets)["shop"]))})

    monkeypatch.setattr(pipeline_status, "look", look)


def topic(frontiers: list[int]) -> Reply:
    ends = [FIRST, LAST]
    beyond = {one: next((end for end in ends if end.lsn >= one), None) for one in frontiers}
    return Reply(TopicEnds("shop.transaction", 9, LAST, beyond))


WELL = SourceObservation(
    Reply(DatabaseObservation(103.0, 700, SlotObservation("shop", True, confirmed=700, sent=700))),
    Reply(ConnectorObservation("shop", "RUNNING", ("RUNNING",))),
)


def test_where_something_is_lost_nothing_is_called_complete(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its job goes on, and its frontier moves: what is missing before it shows in the catalogue alone."""
    log(shop, 401, 701)
    answering(monkeypatch, WELL, Reply([701]), topic)
    before = status_of(shop)
    entry = CatalogueEntry(
        "7f", Kind.PUBLICATION, "shop", "PostgreSQL db/shop", {"tables": ["public.orders"]}, True, ("shop",),
        state=EntryState.LOST, debt=Debt(Reason.LOST, "it has not published public.orders all the time", 1.0, 1),
    )
    with OwnedFolder(shop.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write([entry])
    status = status_of(shop)
    main(["explain", str(shop.path), "copy", "--json"])
    (way,) = json.loads(capsys.readouterr().out)

    assert {None} != {row.seconds_behind for row in before.tables}
    assert {(None, "not known")} == {(row.seconds_behind, row.basis) for row in status.tables}
    assert all("has not published public.orders" in row.text for row in status.tables) and not status.well
    assert "shop" == status.to_plain()["lost"][0]["name"]
    assert "slot" == way["fault"]["kind"] and "has not published" in way["fault"]["fault"]
    (shop.state / "catalogue.sqlite").write_bytes(b"no database" * 999)
    assert any("the catalogue: " in text and "damaged" in text for text in status_of(shop).unanswered)


def test_a_table_that_the_connector_does_not_cover_is_not_called_complete(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log goes on with the others, and nothing is stated of it."""
    answering(monkeypatch, WELL, Reply([701]), topic)
    path = shop.path.parent / "logs" / "public.orders"
    made = DirectoryLog(path, RowType.load(ROW), create=True, description=LogDescription(start=UNCOVERED))
    with Writer(made) as writer:
        writer.advance([701])
    rows = status_of(shop).tables

    assert [("log", None, "not known"), ("target", None, "not known")] == behind(status_of(shop))
    assert all("public.orders is not covered by the connector: nothing is stated of it" in row.text for row in rows)


def test_what_others_have_changed_is_shown(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number stays, as nothing is known to be missing; and nothing is called well."""
    log(shop, 401, 701)
    answering(monkeypatch, WELL, Reply([701]), topic)
    before = status_of(shop)
    entry = CatalogueEntry(
        "7f", Kind.CONNECTOR, "shop", "http://connect:8083", {}, True, ("shop",), state=EntryState.IN_USE,
        debt=Debt(Reason.DRIFT, "the connector 'shop' was changed by others: a filter", 1.0, 1),
    )
    with OwnedFolder(shop.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write([entry])
    status = status_of(shop)
    main(["status", str(shop.path)])

    assert [row.seconds_behind for row in before.tables] == [row.seconds_behind for row in status.tables]
    assert "was changed by others: a filter" in capsys.readouterr().out and not status.well
    assert [("shop", "connector")] == [(one["job"], one["kind"]) for one in status.to_plain()["changed"]]


def test_what_another_server_answers_for_is_not_called_complete(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The catalogue knows it at once: status and explain look there first."""
    log(shop, 401, 701)
    answering(monkeypatch, WELL, Reply([701]), topic)
    entries = [
        CatalogueEntry(
            f"7{n}", Kind.TOPIC, f"shop.{n}", "Kafka k:9092", {}, True, ("shop",), state=state, server="one",
            debt=Debt(Reason.MOVED, f"Kafka k:9092 is another server now (two), where shop.{n} was seen on one", 1, 1),
        ) for n, state in enumerate((EntryState.IN_USE, EntryState.IN_USE, EntryState.UNWANTED))
    ]  # fmt: skip
    with OwnedFolder(shop.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write(entries)
    status = status_of(shop)
    main(["status", str(shop.path)])
    shown = capsys.readouterr().out
    main(["explain", str(shop.path), "copy", "--json"])
    (way,) = json.loads(capsys.readouterr().out)

    assert {(None, "not known")} == {(row.seconds_behind, row.basis) for row in status.tables} and not status.well
    assert "  Kafka k:9092 is another server now" in shown and "shop.1 was" not in shown and "shop.2" not in shown
    assert ["shop.0", "shop.1"] == [one["name"] for one in status.to_plain()["moved"]]
    assert "topic" == way["fault"]["kind"] and "another server now" in way["fault"]["fault"]


def test_a_state_folder_that_cannot_be_written_is_named_first(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that state nothing then work, perhaps: they are not called hung."""
    answering(monkeypatch, WELL, Reply([501]), topic)
    monkeypatch.setattr(pipeline_status, "unwritable", lambda folder: f"the disk of {folder.name} is full: make room")
    status = status_of(shop)
    main(["status", str(shop.path)])

    assert "  the disk of shop.state is full: make room" in capsys.readouterr().out and not status.well
    assert "the disk of shop.state is full: make room" == status.to_plain()["disk"]


def test_what_a_topic_forgets_while_its_capture_is_paused_is_lost(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is compared as for the metrics; a resume would capture nothing of it."""
    log(shop, 401, 701)
    extents = TopicExtents({("shop.public.orders", 0): (12, 30)})
    answering(monkeypatch, WELL, Reply([701]), topic)
    monkeypatch.setattr(measure, "KafkaRanges", lambda *_: SimpleNamespace(look=lambda: extents))
    monkeypatch.setattr(measure, "_topics_of", lambda _: extents.topics)
    for captured, lost in ((5, 7), (12, None), (20, None)):
        place = {("shop.public.orders", 0): captured}
        monkeypatch.setattr(measure, "_captured", lambda *_, place=place: place)
        status = status_of(shop)
        main(["explain", str(shop.path), "copy", "--json"])
        (way,) = json.loads(capsys.readouterr().out)
        found = [one for one in way["links"] if one["kind"] == "topic"][0]

        named = f"has removed {lost} records before they were captured"
        assert (lost is not None) is (named in (found["fault"] or "")) is bool(status.lost.of)
        assert {lost is None} == {row.seconds_behind is not None for row in status.tables}


def test_a_job_that_does_not_run_is_as_far_as_its_logs_and_its_target(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last run may have stated nothing before it was paused."""
    log(shop, 401, 701)
    answering(monkeypatch, WELL, Reply([601]), topic)
    rows = {row.name: row for row in status_of(shop).jobs}

    assert ([701], [601]) == (rows["shop"].frontier, rows["copy"].frontier)


def test_when_a_job_is_started_again_is_shown(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that waits for its next start, and as long as that is to come."""
    answering(monkeypatch, WELL, Reply([501]), topic)
    folder = JobFolder(folder_of(shop) / "copy")
    folder.make()
    keep(folder.path / "status.json", JobStatus(
        JobState.WAITING, since=5.0, run=1, due=time.time() + 100, reason="no server", attempts=1).to_plain())
    status = status_of(shop)
    row = status.job("copy")
    assert row is not None and row.due is not None

    assert any(text.endswith("no server; it is started again in 40 s") for text in lines(status, row.due - 40))
    assert not any("started again" in text for text in lines(status, row.due + 1))


def behind(status: PipelineStatus) -> list[tuple[str, float | None, str]]:
    return [(row.kind, row.seconds_behind, row.basis) for row in status.tables]


def test_a_log_and_its_target_are_behind_by_what_each_lacks(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a capture that does not run states itself how far it is; the target is asked."""
    log(shop, 401, 501)
    answering(monkeypatch, WELL, Reply([401]), topic)
    both = status_of(shop)
    answering(monkeypatch, WELL, Reply([501]), topic)
    same = status_of(shop)

    assert behind(both) == [("log", 0.0, "exact"), ("target", 3.0, "exact")]
    assert behind(same) == [("log", 0.0, "exact"), ("target", 0.0, "exact")]
    assert [(row.table, row.job, row.target, row.frontier) for row in both.tables] == [
        ("public.orders", "shop", None, [501]), ("public.orders", "copy", "orders", [401]),
    ]


def test_without_answers_it_is_stated_so(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number pretends that the source was asked; and no secret is in what is shown."""
    log(shop, 501)
    away = Reply(error="PostgreSQL does not answer")
    answering(monkeypatch, SourceObservation(away, WELL.connector), Reply([501]), topic)
    status = status_of(shop)
    text = "\n".join(lines(status, 200.0))

    assert [(row.basis, row.seconds_behind is not None) for row in status.tables] == [
        ("since the last END read", True), ("since the last END read", True),
    ]
    assert "since the last END read" in text and "the database of shop: PostgreSQL does not answer" in text
    assert "open-sesame" not in text + json.dumps(status.to_plain())


def test_an_unanswered_connector_is_none_that_runs(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server has sent may wait in it: no exact 0."""
    log(shop, 501)
    answering(monkeypatch, WELL._replace(connector=Reply(error="Connect does not answer")), Reply([501]), topic)
    status = status_of(shop)

    assert behind(status) == [("log", 3.0, "at most"), ("target", 3.0, "at most")]
    assert {row.text for row in status.tables} == {"Connect does not answer: commits may be missing"}


def test_a_source_that_lacks_what_was_captured_is_another_one(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restored backup, or a standby that lagged: nothing is known; explain names the server. A target alone may be
    further than the source was at our look.
    """
    log(shop, 501)
    older = WELL._replace(database=Reply(DatabaseObservation(103.0, 499, None)))
    answering(monkeypatch, older, Reply([501]), topic)
    status = status_of(shop)
    code = main(["explain", str(shop.path), "public.orders"])
    text = capsys.readouterr().out
    answering(monkeypatch, WELL._replace(database=Reply(DatabaseObservation(103.0, 500, None))), Reply([601]), topic)

    assert behind(status) == [("log", None, "not known"), ("target", None, "not known")]
    assert {row.text for row in status.tables} == {OTHER_SERVER}
    assert code == 1 and f"stands still: {OTHER_SERVER}" in text and "is the server database of shop" in text, text
    assert behind(status_of(shop))[1] == ("target", 0.0, "exact")


@pytest.mark.parametrize(("more", "reason"), [
    ([], "no right to write"), ([{"frontier": [0]}, {"frontier": [501]}], "no right to write"),
    ([{"frontier": [501], "caught_up": True}, {"frontier": [501]}], None), ([{"frontier": [502]}], None),
])  # fmt: skip
def test_a_reader_that_dies_again_and_again_is_not_well_while_it_runs(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, more: list[dict[str, object]], reason: str | None
) -> None:
    """Its last end counts until it came further, or had nothing left to do; status, explain and the page agree."""
    log(shop, 501)
    answering(monkeypatch, WELL, Reply([501]), topic)
    supervisor = Supervisor(folder_of(shop))
    event = {"version": 1, "at": time.time()}
    for name, last in (("shop", [{"frontier": [501]}]), ("copy", more)):
        folder = JobFolder(folder_of(shop) / name)
        folder.make()
        begun = [{"event": "start"}, {"event": "progress", "frontier": [501]}, {"event": "end", "exit": 4}]
        begins = folder.events.write_text("".join(f"{json.dumps({**event, **one})}\n" for one in begun), "utf-8")
        with open(folder.events, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps({**event, 'event': 'start'})}\n")
            file.writelines(f"{json.dumps({**event, 'event': 'progress', **one})}\n" for one in last)
        keep(folder.path / "run.json", {"run": 2, "command": "c", "events_from": begins})
        status = JobStatus(JobState.RUNNING, time.time(), 2, "c", progress="[501]")
        if name == "copy":
            status = status._replace(attempts=1, reason="no right to write", remedy="grant it")
        keep(folder.path / "status.json", status.to_plain())
    monkeypatch.setattr(JobFolder, "alive", lambda self: True)
    with OwnedFolder(shop.state, 5.0):
        found = status_of(shop)
        (way,) = explain(shop, "copy")

    assert {"shop", "copy"} == set(supervisor.names())
    assert (reason, reason is None, reason is None) == (found.jobs[1].reason, found.jobs[1].well, found.well)
    assert (None if reason is None else "reader") == (None if way.fault is None else way.fault.kind)
    assert (reason or "") in (way.fault.fault or "" if way.fault else "")


def test_what_an_earlier_look_knew_makes_at_most_closer(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing was missing at 103; now the connector is paused, and what is missing is younger than that."""
    log(shop, 501)
    answering(monkeypatch, WELL, Reply([501]), topic)
    before = status_of(shop)
    paused = SourceObservation(
        Reply(DatabaseObservation(110.0, 900, SlotObservation("shop", True, sent=900))),
        Reply(ConnectorObservation("shop", "PAUSED", ("PAUSED",))),
    )
    answering(monkeypatch, paused, Reply([501]), topic)

    assert behind(status_of(shop))[0] == ("log", 10.0, "at most")
    assert behind(status_of(shop, before))[0] == ("log", 7.0, "at most")


def test_a_capture_whose_slot_is_being_made_states_what_that_waits_for(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sees no record, and cannot know why. A reader of its logs is not concerned."""
    slot = SlotObservation("shop", True, being_made=True, oldest=AwaitedTransaction(7, user="lab", database="other"))
    answering(monkeypatch, WELL._replace(database=Reply(DatabaseObservation(103.0, 700, slot))), Reply(None), topic)
    status = status_of(shop)
    main(["status", str(shop.path)])
    text = capsys.readouterr().out

    waits = "its slot: PostgreSQL makes the slot shop when the transactions that were open have ended. The oldest that "
    waits += "is open: process 7 of lab in the database other"
    assert f"waits for {waits}" in text
    assert [["shop", waits]] == [[row.name, one] for row in status.jobs for one in row.awaited]
    assert 7 == json.loads(json.dumps(status.to_plain()))["sources"][0]["database"]["slot"]["oldest"]["process"]


def test_servers_that_are_away_are_named_and_end_nothing(
    shop: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Really asked, where no server is: the table is there all the same."""
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(pipeline_probe, "PATIENCE", 0.5)
    log(shop, 501)
    main(["status", str(shop.path)])
    text = capsys.readouterr().out

    assert "public.orders" in text and "complete through 500" in text
    for name in ("the database of shop: PostgreSQL does not answer", "the connector of shop", "the topics of shop"):
        assert name in text, name
    assert "open-sesame" not in text


@pytest.mark.parametrize("answer", [
    [], 5, None, "RUNNING", {}, {"connector": None, "tasks": None}, {"connector": {"state": "RUNNING"}},
    {"connector": {"state": "RUNNING"}, "tasks": ["RUNNING"]}, {"connector": {"state": 1}, "tasks": []},
])  # fmt: skip
def test_an_answer_in_another_form_than_that_of_connect_is_no_answer(answer: object) -> None:
    """A proxy may have given it: the address is named, and nothing ends."""
    reply = ask_all({"it": lambda: pipeline_probe.connector_observation("shop", "http://proxy:80", answer)}, 5.0)["it"]

    assert reply.value is None and "http://proxy:80 does not state the connector shop" in str(reply.error)


def test_the_answer_of_connect_has_states_and_the_reason() -> None:
    """Of the connector, of each task, and of the first that failed."""
    seen = pipeline_probe.connector_observation("shop", "http://connect:8083", {
        "name": "shop", "connector": {"state": "RUNNING", "worker_id": "one"},
        "tasks": [{"id": 0, "state": "FAILED", "trace": "A: failed\n\tat x\nCaused by: B: disk full\n\tat y"}],
    })

    assert seen == ConnectorObservation("shop", "RUNNING", ("FAILED",), "B: disk full")


def test_keys_of_the_json_stay(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs read them: keys may be added, and none may go."""
    log(shop, 501)
    answering(monkeypatch, WELL, Reply([501]), topic)
    plain = status_of(shop).to_plain()

    assert set(plain) >= {"pipeline", "owner", "tables", "jobs", "sources", "topics"}
    assert set(plain["tables"][0]) >= {
        "table", "kind", "job", "target", "frontier", "committed_at", "seconds_behind", "basis", "text", "all_there_at",
    }
    assert set(plain["sources"][0]) >= {"source", "database", "connector", "database_error", "connector_error"}
    assert set(plain["sources"][0]["database"]["slot"]) >= {"name", "active", "retained", "left", "status"}
    assert json.loads(json.dumps(plain)) == plain


def test_a_question_without_an_answer_ends_after_its_time() -> None:
    """One hangs, one fails as a server does; the third is answered. A mistake of ours is raised."""
    import threading

    forever = threading.Event()

    def fail() -> None:
        raise UnavailableError("it is away, password=hunter2")

    answers = ask_all({"hangs": forever.wait, "fails": fail, "answers": lambda: 7}, 0.2)
    forever.set()

    assert answers["answers"] == Reply(7)
    assert answers["fails"].error == "it is away, password=***"
    assert answers["hangs"].value is None and "did not answer" in str(answers["hangs"].error)
    with pytest.raises(ZeroDivisionError):
        ask_all({"mistake": lambda: 1 / 0}, 1.0)


def test_a_row_in_words() -> None:
    """Seconds for people."""
    row = TableRow("t", "log", "c", None, [501], None, 3.25, "at most", "the connector does not run", None)
    status = PipelineStatus("shop", None, [row, row._replace(seconds_behind=None, basis="not known", text="why"),
                                           row._replace(seconds_behind=0.0, basis="exact"),
                                           row._replace(seconds_behind=90.4, basis="since the last END read")],
                            [], PipelineObservation({}, {}, {}))  # fmt: skip

    assert [one.split("  ")[2].strip() for one in list(lines(status, 0.0))[1:]] == [
        "at most 3.2 s behind", "not known", "0 s behind", "90 s since the last END read",
    ]


def test_a_long_reason_of_several_tables_stands_once() -> None:
    """Behind them, with its number; a short one, or one of a single table, beside it."""
    why = "the publication shop was removed by others while a job used it: " + "x" * 40
    row = TableRow("t", "log", "c", None, [501], None, None, "not known", why, None)
    rows = [row, row._replace(table="u"), row._replace(table="v", text="short"), row._replace(table="w", text="short")]
    status = PipelineStatus("shop", None, rows, [], PipelineObservation({}, {}, {}))
    shown = list(lines(status, 0.0))

    assert (1, 2) == ("\n".join(shown).count(why), sum("(see 1 below)" in one for one in shown))
    assert f"  1: {why}" == shown[-1] and 2 == sum(one.endswith("(short)") for one in shown)


def test_explain_names_what_stands_still(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a table, a target, a capture or a view; a name that there is not is an error with those that there are."""
    monkeypatch.setattr(explanation, "_PATIENCE", 0.2)
    log(shop, 501)
    answering(monkeypatch, WELL, Reply([401]), topic)
    codes = {name: main(["explain", str(shop.path), name]) for name in ("public.orders", "orders", "shop", "copy")}
    text = capsys.readouterr().out
    unknown = main(["explain", str(shop.path), "public.order"])
    errors = capsys.readouterr().err
    main(["explain", str(shop.path), "copy", "--json"])
    ((way,),) = [json.loads(capsys.readouterr().out)]

    assert codes == dict.fromkeys(codes, 1)
    assert "the first that stands still is the capture shop" in text and "cdcv2 up" in text
    assert unknown == 2 and "public.orders" in errors
    assert [link["kind"] for link in way["links"]][-1] == "target" and way["fault"]["kind"] == "capture"
    assert "open-sesame" not in text + json.dumps(way)


def test_a_target_that_is_further_than_its_job_stated_has_a_clock_all_the_same(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last commit is not older than the one that the job stated: without topics, that bounds it."""
    folder = shop.state / "jobs" / "copy"
    folder.mkdir(parents=True)
    event = {"version": 1, "event": "progress", "at": 99.0, "frontier": [401], "committed_at": 95.0, "rows_held": 3}
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n", "utf-8")
    away = Reply(error="it does not answer")
    answering(monkeypatch, WELL, Reply([501]), lambda frontiers: away)
    further = behind(status_of(shop))[1]
    answering(monkeypatch, WELL, Reply([301]), lambda frontiers: away)
    (job,) = [row for row in status_of(shop).jobs if row.name == "copy"]

    assert further == ("target", 8.0, "at most")
    assert behind(status_of(shop))[1] == ("target", None, "not known")
    assert (job.rows_held, job.deaths) == (3, 0)


def test_metrics_have_the_numbers_of_the_status(shop: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """One model: what is in the status is what a program sees."""
    log(shop, 401, 501)
    answering(monkeypatch, WELL, Reply([401]), topic)
    samples = {(one.name, one.labels): one.value for one in samples_of(status_of(shop).to_plain(), 0.0, [], None)}

    assert samples["cdcv2_table_seconds_behind", ("public.orders", "target", "copy", "orders")] == 3.0
    assert samples["cdcv2_table_seconds_behind", ("public.orders", "log", "shop", "")] == 0.0
    assert samples["cdcv2_slot_active", ("shop", "shop")] == samples["cdcv2_connector_running", ("shop", "shop")] == 1.0


def test_logs_of_one_capture_are_as_far_as_the_slowest_of_them(shop: Pipeline) -> None:
    """A crash between two statements leaves one behind; a log that is not there yet, and topics, state nothing."""
    log(shop, 401, 501)
    folder = shop.path.parent / "logs"
    other = DirectoryLog(folder / "public.items", RowType.load(ROW), create=True)
    with Writer(other) as writer:
        writer.advance([401])
    into = LogAddress.parse(str(folder))

    assert stated_frontier(into, ["public.orders", "public.items"]) == [401]
    assert stated_frontier(into, ["public.orders"]) == [501]
    assert stated_frontier(into, ["public.orders", "public.none"]) is None
    assert stated_frontier(LogAddress.parse("kafka:cdc.{table}"), ["public.orders"]) is None


@pytest.mark.parametrize(("confirmed", "expected"), [
    (700, ("log", 2.0, "exact")), (699, ("log", 3.0, "at most")), (None, ("log", 3.0, "at most")),
])  # fmt: skip
def test_the_topic_is_asked_again_behind_what_the_connector_has_confirmed(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, confirmed: int | None, expected: tuple[str, float, str]
) -> None:
    """A commit of 101 comes into the topic between the two: asked once, the topic would lack it, and 0 be "exact".

    Where the connector does not confirm, the commit may be missing; and no answer is no confirmation.
    """
    log(shop, 501)
    asked = list[str]()
    ends = [LAST] if confirmed != 700 else [LAST, TransactionEnd(758, 650, 101.0, 9)]

    def confirms(conninfo: str, slot: str, position: int, *, origin: str) -> SlotObservation:
        asked.append(f"the slot {slot} about {position}")
        if confirmed is None:
            raise UnavailableError("PostgreSQL does not answer")
        return SlotObservation(slot, True, confirmed, sent=700)

    def topics(pipeline: Pipeline, recipe: object, frontiers: Any) -> Callable[[], TopicEnds]:
        def question() -> TopicEnds:
            there = ends if "topic" in asked else [LAST]
            asked.append("topic")
            beyond = {one: next((end for end in there if end.lsn >= one), None) for one in frontiers}
            return TopicEnds("shop.transaction", 9, there[-1], beyond)

        return question

    view = WELL.database.value._replace(slot=SlotObservation("shop", True, 500, sent=700))
    monkeypatch.setattr(pipeline_probe, "_database", lambda source: lambda: view)
    monkeypatch.setattr(pipeline_probe, "_connector", lambda source: lambda: WELL.connector.value)
    monkeypatch.setattr(pipeline_probe, "checkpoint_of", lambda view, timeline: [501])
    monkeypatch.setattr(pipeline_probe, "confirmed_slot", confirms)
    monkeypatch.setattr(pipeline_probe, "_topic", topics)

    assert behind(status_of(shop))[0] == expected
    assert asked == ["topic", "the slot shop about 700", "topic"]


def test_the_checkpoint_of_another_view_of_that_name_is_not_taken_for_its_own(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pipelines have a view copy in one target: the tables of this one are not there, however far the other is."""
    view = shop.view("copy")
    kept = Checkpoint(Antichain([9]), views={"others": "mark"})
    monkeypatch.setattr(view_checkpoint, "_held", lambda _: [SimpleNamespace(value={"checkpoint": kept.to_plain()})])
    with pytest.raises(RefusedError, match="has others of a view 'copy', and none of its tables here"):
        view_checkpoint.checkpoint_of(view)
    kept = Checkpoint(Antichain([9]), views={"others": "mark", "orders": "mark"})
    assert [9] == view_checkpoint.checkpoint_of(view)


def test_the_checkpoint_of_the_same_tables_on_another_timeline_is_not_taken_for_its_own(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two databases have the same tables, and both pipelines copy them into one target, as views of one name."""
    monkeypatch.setattr(examination, "_PATIENCE", 0.2)
    kept = Checkpoint(Antichain([9]), {"timeline": "theirs"}, views={"orders": "mark"})
    monkeypatch.setattr(view_checkpoint, "_held", lambda _: [SimpleNamespace(value={"checkpoint": kept.to_plain()})])
    asked = pipeline_probe.ask_all
    monkeypatch.setattr(pipeline_probe, "ask_all", lambda first, seconds: asked(
        {key: one for key, one in first.items() if key[0] == "target"}, seconds))
    unknown = look_at_target(shop)
    log(shop, 501)
    for identity, theirs in (("mine", True), ("theirs", False)):
        (shop.path.parent / "logs" / "_capture.json").write_text(json.dumps({"version": 1, "id": identity}), "utf-8")
        found = look_at_target(shop)
        assert (found.error is not None, found.value) == (theirs, None if theirs else [9])
        doctor = [one for one in examine(shop) if one.part == "view copy" and "of the timeline theirs" in one.text]
        assert theirs == bool(doctor)
    assert [9] == unknown.value


def look_at_target(pipeline: Pipeline) -> Reply:
    """What the target of the view answers."""
    return pipeline_probe.look(pipeline, lambda targets: {}).targets["copy"]
