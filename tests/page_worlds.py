"""Pipelines as the page may have to show them: nothing there, all well, something stands still, ten tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control.chain import first_fault, links
from cdcv2.control.chain_observation import ChainObservation, JobActivity, LogObservation
from cdcv2.control.explanation import Explanation
from cdcv2.control.observations import ConnectorObservation, DatabaseObservation, SlotObservation
from cdcv2.control.page.content import page_content
from cdcv2.control.page.model import PageModel, page_model
from cdcv2.control.parallel_requests import Reply
from cdcv2.control.pipeline_probe import PipelineObservation, SourceObservation, TopicEnds
from cdcv2.control.pipeline_status import JobRow, PipelineStatus, TableRow

NOW = 1795703000.0
FILE = "/srv/cdc/shop/pipeline.yaml"
LSN = 101936016
OWNER = "process 4711 on db7 (cdcv2 up, since 2026-11-26 20:12:07)"
#: A table may be called so. It is text, wherever it is shown.
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


class PageWorld(NamedTuple):
    """All that a page is made of."""

    status: PipelineStatus
    ways: Sequence[Explanation]
    entries: Sequence[Mapping[str, Any]] = ()

    def model(self) -> PageModel:
        return page_model(self.status, self.ways, self.entries, FILE, NOW)

    def content(self, width: int) -> dict[str, Any]:
        return page_content(self.model(), width, 1.2)


def job(name: str, kind: str, **fields: Any) -> JobRow:
    row = JobRow(
        name, kind, "running", NOW - 7300, True, 3, [LSN + 1], NOW - 2, NOW - 1, [], None, None,
        f"/srv/cdc/shop/shop.state/jobs/{name}/output.log",
    )
    return row._replace(**fields)


def table(name: str, of: str, target: str | None = None, **fields: Any) -> TableRow:
    kind = "log" if target is None else "target"
    row = TableRow(name, kind, of, target, [LSN + 1], NOW - 2, 0.0, "exact", "nothing is missing", NOW)
    return row._replace(**fields)


def entry(kind: str, name: str, address: str, **fields: Any) -> dict[str, Any]:
    return {
        "nonce": "7f3a", "kind": kind, "name": name, "address": address, "owned": True, "users": ["shop"],
        "state": "in use", "since": NOW - 86400 * 3, "identity": None, "debt": None, "waits_for": [], **fields,
    }


SLOT = SlotObservation("shop", True, LSN + 800, LSN + 900, "reserved", 4_200_000, None)
DATABASE = Reply(DatabaseObservation(NOW, LSN + 900, SLOT, slot_name="shop"))
CONNECTOR = Reply(ConnectorObservation("shop", "RUNNING", ("RUNNING",)))
LAST = TransactionEnd(75707, LSN, NOW - 2, 9119, NOW - 1.5)
TOPIC = Reply(TopicEnds("shop.transaction", 9120, LAST, {LSN + 1: None}))
ENTRIES = (
    entry("connector", "shop", "Connect http://connect:8083", identity="ours"),
    entry("replication slot", "shop", "PostgreSQL db:5432/shop", identity="lsn 0/6136000"),
    entry("topic", "cdc.public.orders", "Kafka kafka:9092", identity="f2Qz7bV5Sx-0jM1y", users=["shop", "copy"]),
    entry("target table", "orders", "PostgreSQL copy:5432/copy", owned=False, users=["copy"], identity="16421"),
)


def world(
    tables: Sequence[str], jobs: Sequence[JobRow], rows: Sequence[TableRow], *, view: SourceObservation,
    topic: Reply = TOPIC, entries: Sequence[Mapping[str, Any]] = ENTRIES, target: Reply | None = None,
    pipeline: str = "shop",
) -> PageWorld:
    """With the ways as they are made of this."""
    named = {one.name: one for one in jobs}
    observation = PipelineObservation({"shop": view}, {"copy": target or Reply([LSN + 1])}, {"shop": topic})
    status = PipelineStatus(pipeline, OWNER, list(rows), list(jobs), observation)
    logs = [one for one in rows if one.kind == "log"]
    ways = []
    for reader in [one for one in jobs if one.kind == "view"]:
        found = links(ChainObservation(
            FILE, NOW, "shop", "shop", "http://connect:8083", view.database, view.connector, topic,
            JobActivity(named["shop"], NOW - 100), LogObservation("logs", logs[0].frontier if logs else None, NOW - 3),
            JobActivity(reader, NOW - 100), target or Reply([LSN + 1]), None, "shop",
            LSN if logs and logs[0].frontier else None,
        ))
        own = [one for one in rows if one.job in ("shop", reader.name)]
        ways.append(Explanation(reader.name, found, first_fault(found), own))
    return PageWorld(status, ways, entries)


def nothing_there() -> PageWorld:
    """Just started: no record has come, and no frontier was stated."""
    waits = [{"what": "topics", "text": "the topic shop.transaction, which the connector makes at the first commit",
              "place": {"topic": "shop.transaction"}}]
    jobs = [job("shop", "capture", frontier=None, committed_at=None, waits=waits, since=NOW - 4, run=1),
            job("copy", "view", frontier=None, committed_at=None, since=NOW - 3, run=1)]
    status = PipelineStatus("shop", OWNER, [], jobs, PipelineObservation({}, {}, {}))
    return PageWorld(status, ())


def all_well() -> PageWorld:
    """Two tables, a view, a timer."""
    names = ["public.customers", "public.orders"]
    rows = [row for name in names for row in (
        table(name, "shop"), table(name, "copy", name.removeprefix("public."), seconds_behind=0.8, basis="at most",
                                   text="the connector may not have written all of it yet"))]
    waits = [{"what": "records", "text": "records of shop.transaction behind offset 9119"}]
    jobs = [job("shop", "capture", waits=waits), job("copy", "view"),
            job("nightly", "timer", state="waiting", alive=False, frontier=None, event_at=NOW - 30000, last_exit=0)]
    return world(names, jobs, rows, view=SourceObservation(DATABASE, CONNECTOR))


def blocked() -> PageWorld:
    """The connector's task has failed; a slot is not taken over, and a timer has found a difference."""
    failed = Reply(ConnectorObservation(
        "shop", "RUNNING", ("FAILED",),
        "org.apache.kafka.connect.errors.ConnectException: could not write: No space left on device",
    ))
    database = Reply(DatabaseObservation(NOW, LSN + 90_000, SLOT._replace(active=False), slot_name="shop"))
    names = ["public.customers", "public.orders"]
    late = {"seconds_behind": 734.0, "basis": "at most", "text": "the connector does not run: commits may be missing"}
    rows = [row for name in names for row in (
        table(name, "shop", **late), table(name, "copy", name.removeprefix("public."), **late))]
    waits = [{"what": "records", "text": "records of shop.transaction behind offset 9119"}]
    held = "it ended 5 times without progress; the last time: the disk is full"
    jobs = [job("shop", "capture", waits=waits), job("copy", "view"),
            job("lake", "view", state="held", alive=False, reason=held, remedy="make room on the disk", deaths=5),
            job("nightly", "timer", state="waiting", alive=False, frontier=None, last_exit=3,
                reason="orders differs in 2 rows", remedy="cdcv2 repair copy.yaml --dry-run")]
    debt = {"reason": "refused", "text": "it has the mark of another pipeline: let the file name another slot, or drop "
            "it there first", "since": NOW - 400, "tries": 7}
    entries = (*ENTRIES[:1], {**ENTRIES[1], "state": "wanted", "identity": None, "debt": debt}, *ENTRIES[2:])
    made = world(names, jobs, rows, view=SourceObservation(database, failed), entries=entries)
    return made


def ten_tables() -> PageWorld:
    """With long names, a hostile one among them, two views, and a target of which nothing is known."""
    names = [HOSTILE, "public.a_table_whose_name_has_all_sixty_three_letters_of_postgresql_ab",
             *(f"public.{one}" for one in (
                 "customers", "inventory", "invoices", "orders", "order_items", "payments", "returns", "suppliers"))]
    rows = list[TableRow]()
    for number, name in enumerate(names):
        rows += [
            table(name, "shop"),
            table(name, "copy", name.removeprefix("public."), seconds_behind=number / 4, basis="exact"),
            table(name, "lake", f"lake_{number}", seconds_behind=None, basis="not known", frontier=None,
                  text="nothing is complete yet"),
        ]
    jobs = [job("shop", "capture"), job("copy", "view"), job("lake", "view", frontier=None)]
    topics = tuple(entry("topic", f"cdc.{name}", "Kafka kafka:9092", identity="f2Qz7bV5Sx") for name in names)
    return world(names, jobs, rows, view=SourceObservation(DATABASE, CONNECTOR), entries=(*ENTRIES, *topics))


WORLDS = {"nothing there": nothing_there, "all well": all_well, "blocked": blocked, "ten tables": ten_tables}
