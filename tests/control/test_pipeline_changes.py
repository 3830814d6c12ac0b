"""What ``cdcv2 plan`` shows is what ``cdcv2 up`` does next, in words: by the same decisions, and with nothing done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdcv2.control.entries import CatalogueEntry, Kind, Reason
from cdcv2.control.intents import DesiredState
from cdcv2.control.pipeline_changes import PipelineChange, external_changes, job_changes, planned_entries
from cdcv2.control.reconcile import Reconciliation
from cdcv2.control.supervision import JobAct, JobObservation, JobState, JobStatus
from cdcv2.control.supervisor import JobPlan, JobReport
from tests.external_world import OTHERS, MemoryCatalogue, World, WorldObject

TOPIC = DesiredState(Kind.TOPIC, "cdc.orders", "k", {"partitions": 1}, True, "shop")
CONNECTOR = DesiredState(Kind.CONNECTOR, "shop", "c", {"slot": "shop", "password": "${env:P}"}, True, "shop",
                         needs=((Kind.SLOT, "c", "shop"),))  # fmt: skip
SLOT = DesiredState(Kind.SLOT, "shop", "c", {"plugin": "pgoutput"}, True, "shop", maker=(Kind.CONNECTOR, "c", "shop"))
TABLE = DesiredState(Kind.TARGET_TABLE, "orders", "db", {}, True, "copy")


class Setting:
    """Servers, a catalogue, and what would be done there."""

    def __init__(self) -> None:
        self.world, self.catalogue = World(), MemoryCatalogue()

    def shown(self, *desired: DesiredState) -> dict[str, tuple[str, str]]:
        """Kind -> what would be done, and why; nothing is."""
        before = (dict(self.catalogue.kept), repr(self.world.servers))
        kinds = self.world.kinds()
        entries = list(self.catalogue.kept.values())
        found = list(external_changes(
            entries, planned_entries(entries, desired, self.world.now),
            lambda entry: kinds[entry.kind].look(entry), self.world.now,
        ))  # fmt: skip
        assert before == (self.catalogue.kept, repr(self.world.servers))
        return {change.what.split(" (")[0]: (change.act, change.why) for change in found}

    def made(self, *desired: DesiredState) -> list[CatalogueEntry]:
        """What becomes of it when it is done."""
        owner: Any = self.catalogue.taken()
        control = Reconciliation(owner, self.world.kinds(), lambda: self.world.now)  # type: ignore[arg-type]
        numbers = iter(range(len(self.catalogue.kept), 99))
        control.desire(desired, lambda: f"n{next(numbers)}")
        for _ in range(3):
            control.round()
            self.world.deliver(late=False)
            self.world.now += 70
        return list(self.catalogue.kept.values())


def test_each_thing_that_would_be_done_is_named_with_its_reason() -> None:
    """Made, altered, removed; and what is as it should be is not shown."""
    setting = Setting()
    for address in ("k", "c", "db"):
        setting.world.server(address)
    assert {
        "topic cdc.orders": ("make", "for shop"), "connector shop": ("make", "for shop"),
        "slot shop": ("make", "for shop; its connector makes it at its first start"),
        "target table orders": ("make", "for copy"),
    } == setting.shown(TOPIC, SLOT, CONNECTOR, TABLE)  # fmt: skip

    setting.made(TOPIC, SLOT, CONNECTOR, TABLE)
    assert {} == setting.shown(TOPIC, SLOT, CONNECTOR, TABLE)
    more = replace(TOPIC, settings={"partitions": 1, "retention.ms": "-1"})
    assert {
        "topic cdc.orders": ("alter", "settings that differ from the file: retention.ms"),
        "target table orders": ("remove", "nothing in the file needs it"),
    } == setting.shown(more, SLOT, CONNECTOR)
    assert {"target table orders": ("keep", "the file does not state owned: yes any more: it stays")} == (
        setting.shown(TOPIC, SLOT, CONNECTOR, replace(TABLE, owned=False))
    )


def test_what_is_in_the_way_is_shown() -> None:
    """Another's, a change by hand, a server that is away, something that is missing."""
    setting = Setting()
    setting.made(TOPIC)
    setting.world.server("k").objects[Kind.TOPIC, "cdc.orders"].settings = {"partitions": 5}
    setting.world.put("db", Kind.TARGET_TABLE, "orders", WorldObject("id", OTHERS, {}, "theirs", empty=False))
    setting.world.server("c").hindered = Reason.UNREACHABLE
    found = setting.shown(TOPIC, TABLE, replace(CONNECTOR, owned=False, needs=(), settings={}))
    assert {"topic cdc.orders": "drift", "target table orders": "refused", "connector shop": "unreachable"} == {
        what: act for what, (act, _) in found.items()
    }
    assert "is of others: its mark is that of theirs" in found["target table orders"][1]


def test_a_change_in_the_file_is_named_and_restarts_its_job() -> None:
    """By its key: the same digests as those that were kept when the job was started."""
    before = JobPlan("copy", ("cdcv2",), settings={"target": "a", "kafka:": "k"})
    now = before._replace(settings={"target": "b", "kafka:": "k", "rows:": "r"})
    running = JobObservation(True, 1, before.digest, parts=before.parts)
    report = JobReport("copy", JobAct.NOTHING, JobStatus(JobState.RUNNING, run=1, command=before.digest), running)
    left = report._replace(name="old")
    held = JobReport("held", JobAct.NOTHING, JobStatus(JobState.HELD, run=1, command=now.digest, reason="no"),
                     JobObservation(False, 1, now.digest))  # fmt: skip

    assert [
        PipelineChange("restart", "job copy", "changed in the file: rows:, target"),
        PipelineChange("start", "job new", "it is new"),
        PipelineChange("end", "job old", "the file does not have it any more"),
    ] == list(job_changes([now, now._replace(name="new"), now._replace(name="held")], [report, left, held], 9.0))
    assert [] == list(job_changes([before], [report], 9.0))
