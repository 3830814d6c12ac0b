"""Ten and more planted faults, as they are seen: each is named at its own link, with its place and what mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control import explanation
from cdcv2.control.chain import first_fault, links
from cdcv2.control.chain_observation import ChainObservation, JobActivity, LockWait, LogObservation
from cdcv2.control.entries import Kind
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.lost_state import MissingState
from cdcv2.control.observations import (
    MISSING, AwaitedTransaction, ConnectorObservation, DatabaseObservation, SlotObservation,
)
from cdcv2.control.parallel_requests import NOT_ASKED, Reply
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_probe import TopicEnds
from cdcv2.control.pipeline_status import JobRow
from tests.fake_connect import fake_connect

NOW = 1000.0
SLOT = SlotObservation("shop", True, 500, 900, "reserved")
OLDEST = AwaitedTransaction(7, user="lab", application="psql", database="other", since="2026-01-01 00:01:00")
MAKING = SlotObservation("shop", True, None, None, "reserved", being_made=True, oldest=OLDEST)
RUNS = ConnectorObservation("shop", "RUNNING", ("RUNNING",))
LAST = TransactionEnd(757, 500, 990.0, 8, 990.5)
ENDS = TopicEnds("shop.transaction", 9, LAST, {501: None})
CAPTURE = JobRow("shop", "capture", "running", 1.0, True, 1, [501], 990.0, 999.0, [], None, None, "capture.log")
VIEW = CAPTURE._replace(name="copy", kind="view", output="copy.log")
WELL = ChainObservation(
    "shop.yaml", NOW, "shop", "shop", "http://connect:8083/", Reply(DatabaseObservation(NOW, 900, SLOT)), Reply(RUNS),
    Reply(ENDS), JobActivity(CAPTURE, 900.0), LogObservation("logs", [501], 995.0), JobActivity(VIEW, 900.0),
    Reply([501]), None, "shop",
)
AWAY = Reply(error="it does not answer", away=True)
TORN = {"what": "rows", "text": "transaction 758 lacks 2 rows of public.orders",
        "place": {"topic": "shop.public.orders", "partition": 0, "offset": 17, "transaction": 758}}


def source(slot: SlotObservation | None) -> Reply:
    return Reply(DatabaseObservation(NOW, 900, slot))


def ended(at: float) -> Reply:
    """The transaction topic whose last END was written then."""
    return Reply(ENDS._replace(last=LAST._replace(written_at=at)))


def connector(**fields: Any) -> Reply:
    return Reply(RUNS._replace(**fields))


def capture(**fields: Any) -> JobActivity:
    return JobActivity(CAPTURE._replace(**fields), 900.0)


def view(**fields: Any) -> JobActivity:
    return JobActivity(VIEW._replace(**fields), 900.0)


#: Nothing was sent yet.
NEW = WELL._replace(topics=Reply(ENDS._replace(last=None)), capture=capture(frontier=None))
FAILED = connector(tasks=("FAILED",))
# What is seen of other links of a fault is planted, too: what stands behind it on the way.
DEAD = {"state": "waiting", "alive": False, "reason": "PostgreSQL does not answer"}
#: Logs that have not moved while the capture was silent.
OLD = LogObservation("logs", [501], 900.0)
TOPIC_LOST = MissingState(Kind.TOPIC, "shop.public.orders", "the topic was removed by others")
TOPIC_MOVED = MissingState(Kind.TOPIC, "shop.public.orders", "Kafka is another server now")
TABLE_LOST = MissingState(Kind.TARGET_TABLE, "orders", "the table was removed by others")
FAULTS: dict[str, tuple[ChainObservation, str, str, str]] = {
    "the server is away": (
        WELL._replace(database=AWAY, connector=connector(tasks=("FAILED",))), "server", "does not answer", "doctor"),
    "the server is another one": (
        WELL._replace(captured=901), "server", "another server, or a restored one", "start-over.md"),
    "the slot was dropped": (
        WELL._replace(database=source(None), connector=connector(tasks=("FAILED",))), "slot", "no replication slot",
        "resnapshots"),
    "the slot is lost": (
        WELL._replace(database=source(SLOT._replace(active=False, status="lost"))), "slot", "has removed WAL",
        "resnapshots"),
    "the slot is being made, and a transaction is open": (
        NEW._replace(database=source(MAKING), connector=connector(tasks=()), capture=capture(
            state="waiting", alive=False, frontier=None)), "slot",
        "ended. The oldest that is open: process 7 of lab (psql) in the database other, since 2026-01-01 00:01:00 UTC",
        "SELECT pg_terminate_backend(7)"),
    "the slot is being made, and a prepared transaction is open": (
        NEW._replace(database=source(MAKING._replace(oldest=AwaitedTransaction(prepared="one", database="other"))),
                     connector=connector(tasks=())), "slot", "the prepared transaction one in the database other",
        "in the database other: COMMIT PREPARED 'one' or ROLLBACK PREPARED 'one'"),
    "the slot is being made, and no transaction is seen": (
        NEW._replace(database=source(MAKING._replace(oldest=None)), connector=connector(tasks=())), "slot",
        "when the transactions that were open have ended", "look again, with cdcv2 explain"),
    "the slot was dropped, and is being made again": (
        WELL._replace(database=source(MAKING), connector=connector(tasks=())), "slot",
        "shop was dropped, and is being made again: what was committed since it was dropped is lost", "resnapshots"),
    "the same, of a capture whose topic has no END any more": (
        NEW._replace(database=source(MAKING), connector=connector(tasks=()), capture=capture(frontier=[501])), "slot",
        "was committed since it was dropped is lost", "resnapshots"),
    "the connector runs, and has no session": (
        WELL._replace(database=source(SLOT._replace(active=False))), "slot", "does not read", "log"),
    "the connector is paused": (
        WELL._replace(connector=connector(state="PAUSED", tasks=("PAUSED",))), "connector", "is paused",
        "curl -X PUT http://connect:8083/connectors/shop/resume"),
    "the connector is stopped": (
        WELL._replace(connector=connector(state="STOPPED", tasks=()), database=source(SLOT._replace(active=False))),
        "connector", "is stopped", "/resume"),
    "its task failed": (
        WELL._replace(connector=connector(tasks=("FAILED",), reason="ConnectException: disk full")), "connector",
        "disk full", "onlyFailed=true"),
    "it has no task": (WELL._replace(connector=connector(tasks=())), "connector", "no task", "restart"),
    "it was removed": (
        WELL._replace(connector=connector(state=MISSING, tasks=())), "connector", "no connector", "curl -X PUT"),
    "it runs, and cannot write": (
        WELL._replace(beat_at=NOW - 61, topics=Reply(ENDS._replace(last=TransactionEnd(757, 500, 900.0, 8, NOW - 70)))),
        "connector", "it runs, and for 61 s nothing of it has arrived in Kafka", "restart?includeTasks=true"),
    "it is silent for more than two of its long heartbeats": (
        WELL._replace(beat_at=NOW - 241, beat_every=120.0, topics=Reply(ENDS._replace(last=None))),
        "connector", "for 241 s nothing of it has arrived", "restart?includeTasks=true"),
    "no connector, and cdcv2 up makes it": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True), "connector", "cdcv2 up makes it",
        "cdcv2 up shop.yaml"),
    "no connector, as Kafka refuses its topics to cdcv2 up": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True,
                      owed=(MissingState(Kind.TOPIC, "shop.orders", "no right to it"),)), "connector",
        "cdcv2 up waits: no right to it", "cdcv2 external shop.yaml"),
    "no connector, as its Kafka is another cluster now": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True, moved=(TOPIC_MOVED,),
                      topics=Reply(error="there is no topic"), kept=True), "connector",
        "cdcv2 up waits: Kafka is another server now", "cdcv2 external shop.yaml; docs/operations/move-servers.md"),
    "its connector is there, and its Kafka is another cluster now": (
        WELL._replace(moved=(TOPIC_MOVED,)), "topic", "Kafka is another server now", "move-servers.md"),
    "Connect works for another cluster now": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True,
                      moved=(MissingState(Kind.CONNECTOR, "shop", "Connect is another server now"),)), "connector",
        "Connect is another server now", "move-servers.md"),
    "no connector, as its topic is lost": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True, lost=(TOPIC_LOST,), kept=True),
        "connector", "cdcv2 up waits: the topic was removed", "start-over.md#something-is-lost"),
    "a topic is lost": (
        WELL._replace(lost=(TOPIC_LOST,), capture=capture(**DEAD), kept=True), "topic", "the topic was removed",
        "start-over.md#something-is-lost"),
    "a target table is lost": (
        WELL._replace(lost=(TABLE_LOST,), of_reader=(TABLE_LOST,)), "target", "the table was removed",
        "start-over.md#something-is-lost"),
    "a folder of logs is on another disk now": (
        WELL._replace(moved=(MissingState(Kind.STATE_FOLDER, "logs", "it is another folder now"),)), "log",
        "another folder now", "cdcv2 external shop.yaml"),
    "the capture is silent, as the disk of the state folder is full": (
        WELL._replace(capture=capture(event_at=900.0), disk="the disk of s is full: make room there", view=view(
            event_at=900.0)), "capture", "stated nothing for 100 s, as it cannot: the disk of s is full",
        "mend that first"),
    "Connect refuses us": (
        WELL._replace(connector=Reply(error="it asks for a login")), "connector", "asks for a login", "doctor"),
    "the connector is paused, and Connect asks for a login": (
        WELL._replace(connector=connector(state="PAUSED", tasks=("PAUSED",)), login=Path("c.netrc")), "connector",
        "is paused", "curl --netrc-file c.netrc -X PUT http://connect:8083/connectors/shop/resume"),
    "Connect is away": (WELL._replace(connector=AWAY), "connector", "does not answer", "start Kafka Connect"),
    "its settings were changed by others": (
        WELL._replace(changed=(MissingState(Kind.CONNECTOR, "shop", "the connector was changed by others"),)),
        "connector", "was changed by others", "cdcv2 external shop.yaml"),
    "it sent less for a while, as others changed it": (
        WELL._replace(lost=(MissingState(Kind.CONNECTOR, "shop", "the connector was changed, and sends less"),)),
        "connector", "sends less", "start-over.md"),
    "no connector, and the file names none": (
        WELL._replace(connector=NOT_ASKED, url=None, database=source(SLOT._replace(active=False))), "connector",
        "no connector reads", "start the connector"),
    "Kafka is away": (
        WELL._replace(topics=AWAY, capture=capture(waits=[{"what": "unavailable", "text": "no broker"}])), "topic",
        "does not answer", "start Kafka"),
    "Kafka is away, and with it the connector's state": (
        WELL._replace(topics=AWAY, database=source(SLOT._replace(active=False)), connector=Reply(RUNS)), "topic",
        "does not answer", "start Kafka"),
    "Kafka is away, and its task failed for it": (
        WELL._replace(topics=AWAY, database=source(SLOT._replace(active=False)), connector=FAILED),
        "topic", "does not answer", "start Kafka"),
    "Kafka and Connect are away": (
        WELL._replace(topics=AWAY, database=source(SLOT._replace(active=False)), connector=AWAY), "topic",
        "does not answer", "start Kafka"),
    "Kafka and the server are away": (
        WELL._replace(topics=AWAY, database=AWAY, connector=AWAY), "server", "does not answer", "doctor"),
    "Kafka is away, and the connector was paused": (
        WELL._replace(topics=AWAY, connector=connector(state="PAUSED", tasks=("PAUSED",))), "connector", "is paused",
        "resume"),
    "the transaction topic is missing, as its task failed": (
        WELL._replace(topics=Reply(error="there is no topic"), connector=connector(tasks=("FAILED",))), "connector",
        "failed", "onlyFailed=true"),
    "the capture is held": (
        WELL._replace(capture=capture(state="held", alive=False, reason="a second snapshot", remedy="Drop the slot.")),
        "capture", "a second snapshot", "Drop the slot; then cdcv2 up shop.yaml --start-held shop"),
    "the capture was killed": (
        WELL._replace(capture=capture(state="waiting", alive=False, reason="it was killed")), "capture",
        "does not run", "cdcv2 up shop.yaml"),
    "the capture was killed, and cdcv2 up runs": (
        WELL._replace(capture=capture(state="waiting", alive=False, reason="it was killed"), kept=True), "capture",
        "does not run", "read capture.log; cdcv2 up, which runs, starts it again by itself"),
    "the capture is held, and cdcv2 up runs": (
        WELL._replace(capture=capture(state="held", alive=False, reason="a second snapshot"), kept=True), "capture",
        "a second snapshot", "cdcv2 pause shop.yaml shop, and cdcv2 resume shop.yaml shop"),
    "no connector, and cdcv2 up, which makes it, runs": (
        WELL._replace(connector=connector(state=MISSING, tasks=()), made_by_up=True, kept=True), "connector",
        "cdcv2 up makes it", "cdcv2 external shop.yaml"),
    "the reader runs again, and is no further": (
        WELL._replace(view=view(reason="no right to write t", remedy="Grant it."), kept=True), "reader",
        "come no further than when it ended: no right to write t", "Grant it; it continues by itself then"),
    "the reader runs again a moment ago, and is no further": (
        WELL._replace(view=JobActivity(VIEW._replace(reason="no right"), NOW - 1.0)), "reader", "no right", "copy.log"),
    "the capture runs again, and hangs": (
        WELL._replace(log=OLD, capture=capture(event_at=900.0, reason="no broker")), "capture",
        "it hangs, or is in one long step. When it ended last: no broker", "cdcv2 pause shop.yaml"),
    "the capture hangs": (
        WELL._replace(log=OLD, capture=capture(event_at=900.0)), "capture", "nothing for 100 s",
        "cdcv2 pause shop.yaml shop"),
    "the capture hangs, and its topic moves": (
        WELL._replace(log=OLD, capture=capture(event_at=979.0), topics=ended(980.0)), "capture",
        "nothing for 21 s, and its input has moved", "cdcv2 resume shop.yaml shop"),
    "the view hangs, and its log moves": (
        WELL._replace(view=view(event_at=979.0)), "reader", "nothing for 21 s, and its input has moved",
        "cdcv2 pause shop.yaml copy"),
    "a transaction is not whole": (
        WELL._replace(capture=capture(waits=[TORN])), "capture", "lacks 2 rows", "doctor"),
    "the logs have a stop": (
        WELL._replace(log=LogObservation("logs", [501], 9.0, ("a row is lacking", "begin with new logs"))), "log",
        "a row is lacking", "begin with new logs"),
    "the logs are damaged": (
        WELL._replace(log=LogObservation("logs", None, None, None, "it holds no _log.json")), "log", "_log.json",
        "cdcv2 verify logs"),
    "the reader is held": (
        WELL._replace(view=view(state="held", alive=False, reason="two facts exclude each other")), "reader",
        "exclude each other", "--start-held copy"),
    "the reader waits for a decision": (
        WELL._replace(view=view(waits=[{"what": "decision", "text": "time 7 is contested", "place": {"time": 7}}])),
        "reader", "time 7", "cdcv2 resolve"),
    "the reader is held, and its target is away, too": (
        WELL._replace(target=AWAY, view=view(state="held", alive=False, reason="two facts exclude each other")),
        "reader", "exclude each other", "--start-held copy"),
    "the target is away": (
        WELL._replace(target=AWAY, view=view(**DEAD)), "target", "does not answer", "doctor"),
    "its log is closed, and it takes no commit": (
        WELL._replace(log=LogObservation("logs", [], 995.0)), "target", "takes no commit", "copy.log"),
    "the table is locked": (
        WELL._replace(
            blocked=LockWait("process 7 waits for process 8", 8), target=Reply([301]), view=view(event_at=900.0)),
        "target", "process 8", "pg_terminate_backend(8)"),
    "the target takes no commit": (WELL._replace(target=Reply([301])), "target", "takes no commit", "copy.log"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_at_its_link(name: str) -> None:
    """The first that stands still is the cause, whatever stands behind it."""
    seen, kind, text, remedy = FAULTS[name]
    fault = first_fault(links(seen))

    assert fault is not None, name
    assert (fault.kind, text in str(fault.fault), remedy in str(fault.remedy)) == (kind, True, True), fault


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("things", "remedy"), [
    ({"lost": (TOPIC_LOST,)}, "start-over.md#something-is-lost"), ({"moved": (TOPIC_MOVED,)}, "move-servers.md"),
    ({"owed": (TOPIC_MOVED,)}, "cdcv2 external shop.yaml"),
])  # fmt: skip
def test_no_start_is_promised_of_a_job_that_waits_for_a_person(
    things: dict[str, Any], remedy: str, kept: bool
) -> None:
    """cdcv2 up runs, and starts it never before: of the capture, and of a reader what it needs itself."""
    waits = {"state": "waiting", "alive": False, "reason": "it waits for topic shop.public.orders (lost)"}
    both = WELL._replace(kept=kept, capture=capture(**waits), view=view(**waits), **things)
    of_reader = both._replace(of_reader=next(iter(things.values())))
    for seen, kind, other in ((both, "capture", "reader"), (of_reader, "reader", "capture")):
        remedies = {link.kind: link.remedy or "" for link in links(seen)}
        start = "by itself" if kept else "cdcv2 up shop.yaml"
        assert remedy in remedies[kind] and start not in remedies[kind] and start in remedies[other]


def test_while_the_slot_is_made_nothing_else_is_at_fault() -> None:
    """The connector has no task until then, and to start it again would begin that again. One that failed has."""
    seen = FAULTS["the slot is being made, and a transaction is open"][0]

    assert ["slot"] == [link.kind for link in links(seen) if link.fault is not None]
    for state in ("FAILED", "PAUSED"):
        found = links(seen._replace(connector=connector(tasks=(state,))))
        assert ["slot", "connector"] == [link.kind for link in found if link.fault is not None]
    held = links(seen._replace(capture=capture(state="held", alive=False)))
    assert ["slot", "capture"] == [link.kind for link in held if link.fault is not None]


@pytest.mark.parametrize(("name", "seen"), [
    ("all is well", WELL),
    ("nothing is named", ChainObservation("shop.yaml", NOW, view=JobActivity(VIEW), target=Reply([501]))),
    ("a transaction came a moment ago", WELL._replace(capture=JobActivity(CAPTURE._replace(waits=[TORN]), NOW - 5.0))),
    ("records are being read", WELL._replace(capture=capture(waits=[{"what": "records", "text": "9 records"}]))),
    ("a slot that the connector will make", WELL._replace(
        database=source(None), topics=Reply(TopicEnds("t", 0, None, {})), capture=capture(frontier=[0]))),
    ("a view that is being ended, and had ended before", WELL._replace(
        view=view(state="stopping", reason="no right to write t"))),
    ("a view that is finished", WELL._replace(view=view(state="finished", alive=False))),
    ("a capture is silent, and its log has moved", WELL._replace(capture=capture(event_at=900.0))),
    ("a capture is silent, and has printed something", WELL._replace(
        log=OLD, capture=capture(event_at=900.0)._replace(printed_at=NOW - 9))),
    ("a capture is silent, and so is its topic", WELL._replace(
        capture=capture(event_at=979.0), topics=ended(978.0))),
    ("a capture is in a step, and its topic moves", WELL._replace(
        capture=capture(event_at=981.0), topics=ended(999.0))),
    ("a target and its log are closed", WELL._replace(log=LogObservation("logs", [], 995.0), target=Reply([]))),
    ("a target that has just fallen behind", WELL._replace(
        target=Reply([301]), view=JobActivity(VIEW, NOW - 20.0))),
])  # fmt: skip
def test_what_goes_on_has_no_fault(name: str, seen: ChainObservation) -> None:
    """A look at a busy moment names nothing."""
    assert first_fault(links(seen)) is None, name


def test_the_way_is_in_its_order_and_each_link_has_its_measure() -> None:
    """LSN, offset, transaction, frontier."""
    found = links(WELL)

    assert [link.kind for link in found] == [
        "server", "slot", "connector", "topic", "capture", "log", "reader", "target",
    ]
    assert [link.measure for link in found] == [
        "WAL up to 0/384 (900)", "confirmed 0/1F4 (500), sent 0/384 (900), WAL reserved", "RUNNING; tasks: RUNNING",
        "END 0/1F4 (500) of transaction 757 at offset 8; ends at offset 9", "running; complete through 500",
        "stated through 500", "running; complete through 500", "complete through 500",
    ]
    assert [link.moved_at for link in found] == [NOW, NOW, None, 990.5, 900.0, 995.0, 900.0, 900.0]


@pytest.mark.parametrize(("kind", "link"), [
    (Kind.SLOT, "slot"), (Kind.PUBLICATION, "slot"), (Kind.CONNECTOR, "connector"),
])  # fmt: skip
def test_what_is_lost_is_not_called_a_slot_in_doubt(kind: Kind, link: str) -> None:
    """That may be of others, and its remedy is to drop it."""
    seen = links(WELL._replace(lost=(MissingState(kind, "shop", "it was lost"),)))

    assert ["changes may be missing"] == [one.measure for one in seen if one.kind == link]


def test_the_place_of_a_fault_is_data() -> None:
    """A program shows where: topic, partition, offset, transaction."""
    fault = first_fault(links(FAULTS["a transaction is not whole"][0]))

    assert fault is not None and fault.to_plain()["place"] == TORN["place"]


def test_when_a_job_moved_last_is_in_its_events(tmp_path: Path) -> None:
    """Its frontier stands since the first event that has it."""
    folder = JobFolder(tmp_path)
    assert folder.moved_at() is None
    frontiers: list[dict[str, object]] = [{"frontier": [5]}, {"frontier": [7]}, {}, {"frontier": [7]}]
    events = [{"version": 1, "event": "progress", "at": at, **more} for at, more in enumerate(frontiers, start=1)]
    folder.events.write_text("".join(f"{json.dumps(event)}\n" for event in events), "utf-8")

    assert folder.moved_at() == 2

    # The next run begins, and dies, where this one was.
    again = [{"event": "start"}, {"event": "progress", "frontier": [0]}, {"event": "progress", "frontier": [7]},
             {"event": "end", "frontier": [7]}]  # fmt: skip
    with open(folder.events, "a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps({'version': 1, 'at': at, **event})}\n" for at, event in enumerate(again, start=5))
    assert folder.moved_at() == 2


@pytest.mark.parametrize("changes", [
    {"beat_at": NOW - 60}, {"beat_at": NOW - 900, "topics": Reply(ENDS)}, {"beat_at": None},
    {"beat_at": NOW - 239, "beat_every": 120.0}, {"beat_at": NOW - 900, "beat_every": 0.0},
    {"beat_at": NOW - 900, "database": Reply(DatabaseObservation(NOW, 900, SLOT._replace(active=False)))},
])  # fmt: skip
def test_a_connector_that_writes_or_may_not_write_yet_is_no_fault(changes: dict[str, Any]) -> None:
    """It wrote a heartbeat or an END a moment ago; or these are not known, seldom or off; or it does not read yet."""
    last = TransactionEnd(757, 500, 900.0, 8, NOW - 900)
    seen = WELL._replace(topics=Reply(ENDS._replace(last=last)))._replace(**changes)
    (found,) = [link for link in links(seen) if link.kind == "connector"]

    assert found.fault is None


@pytest.mark.parametrize(("settings", "expected"), [
    ({"heartbeat.interval.ms": "120000"}, 120.0), ({}, 0.0), ({"heartbeat.interval.ms": "often"}, None), (None, None),
])
def test_how_often_a_connector_beats_is_asked_of_connect(
    settings: dict[str, str] | None, expected: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its settings there; not known where there is no such connector."""
    monkeypatch.setattr(explanation, "Client", lambda *where, **how: None)
    monkeypatch.setattr(explanation, "last_written_at", lambda client, topic: 7.0)
    with fake_connect() as worker:
        worker.configs = {} if settings is None else {"shop": settings}
        (tmp_path / "shop.yaml").write_text(f"""
pipeline: shop
kafka: {{bootstrap: "localhost:9092"}}
sources: {{shop: {{connector: {{url: "{worker.url}"}}}}}}
captures: {{shop: {{}}}}
""", "utf-8")
        pipeline = read_pipeline(str(tmp_path / "shop.yaml"))
        found = explanation._beats(pipeline, pipeline.captures["shop"])

    assert found == (7.0, expected)
