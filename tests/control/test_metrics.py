"""The metrics of a pipeline: what they are made of, their text, their page, and the alerts that are set on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cdcv2.capture.topics import TopicExtents
from cdcv2.control.metrics.measure import measure, needs_of
from cdcv2.control.metrics.model import (
    METRICS, FolderSpace, HoldAge, Measurements, MetricSample, TopicBacklog, retained_share, samples_of,
)
from cdcv2.control.metrics.text import text_of
from cdcv2.control.observations import ConnectorObservation, SlotObservation
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_probe import PipelineObservation, SourceObservation
from cdcv2.control.pipeline_status import JobRow, PipelineStatus, TableRow
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.minting import agree, run as minted
from cdcv2.timeline.positions import frontier
from cdcv2.timeline.shared_remap import SharedRemap

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_800_000_000.0
DAY = 86400.0


def status(**changed: Any) -> dict[str, Any]:
    """A pipeline that is well; ``changed``: fields of its job, table, slot and connector, by name."""
    job = {
        "name": "orders", "kind": "capture", "state": "running", "since": NOW - 50, "alive": True, "run": 3,
        "frontier": [17], "committed_at": NOW - 2, "event_at": NOW - 1, "waits": [], "reason": None, "remedy": None,
        "output": "output.log", "deaths": 0, "rows_held": 12, "last_exit": None,
        "due": None,
    }  # fmt: skip
    table = {"table": "public.orders", "kind": "target", "job": "copy", "target": "orders", "frontier": [17],
             "committed_at": NOW - 2, "seconds_behind": 1.5, "basis": "exact", "text": "",
             "all_there_at": None}  # fmt: skip
    slot = {"name": "shop", "active": True, "confirmed": 7, "sent": 7, "status": "reserved", "retained": 25, "left": 75,
            "being_made": False, "oldest": None}
    connector = {"name": "shop-connector", "state": "RUNNING", "tasks": ["RUNNING"], "reason": None, "runs": True}
    job["last_exit"] = 0
    database = {"slot": None if changed.get("no_slot") else slot, "slot_name": "shop"}
    for part in (job, table, slot, connector):
        part.update({name: changed[name] for name in part if name in changed})
    errors = {name: changed.get(name) for name in ("database_error", "connector_error")}
    source = {
        "source": "shop", "database": None if errors["database_error"] else database,
        "connector": None if errors["connector_error"] else connector, **errors,
    }  # fmt: skip
    owner = changed.get("owner", "process 7 on host")
    return {"pipeline": "shop", "owner": owner, "owner_silent": changed.get("owner_silent"), "disk": None,
            "tables": [table], "jobs": [job], "sources": [source], "topics": [], "lost": [], "changed": [], "moved": []}


def measured(**changed: Any) -> Measurements:
    """The rest of it, well; ``changed``: fields of its topic, hold and disk."""
    topic = TopicBacklog("orders", "shop.orders", 4, 0, NOW - 60, 7 * DAY)
    hold, space = HoldAge("remap", "logs", "1f", NOW - 5), FolderSpace("logs", "logs of orders", 50, 100)
    one, other, third = (
        part._replace(**{name: changed[name] for name in part._fields if name in changed})
        for part in (topic, hold, space)
    )
    return Measurements(NOW, (one,), (other,), (third,), {("topics", "orders"): changed.get("answers", True)})


def entry(reason: str | None = None, since: float = NOW) -> dict[str, Any]:
    debt = None if reason is None else {"reason": reason, "text": "", "since": since, "tries": 1}
    return {"kind": "slot", "state": "made", "debt": debt}


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of a text, as Prometheus's own parser reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text) for sample in family.samples
    }


def test_a_whole_pipeline_in_numbers() -> None:
    """Every metric has a sample, each once, with the labels that it declares, and the numbers of the status."""
    samples = samples_of(status(), NOW, [entry(), entry("busy", NOW - 9), entry("busy", NOW - 4)], measured())
    found = parsed(text_of(samples))
    by_name = {(name, *sorted(value for _, value in labels)): value for (name, labels), value in found.items()}

    assert {sample.name for sample in samples} == {metric.name for metric in METRICS}
    assert len(samples) == len(found)
    names = {metric.name + "_total" * metric.total: metric for metric in METRICS}
    assert all({label for label, _ in labels} == set(names[name].labels) for name, labels in found)
    expected = {
        ("cdcv2_kept_running",): 1, ("cdcv2_job_state", "capture", "orders", "running"): 1,
        ("cdcv2_job_state", "capture", "held", "orders"): 0, ("cdcv2_job_runs_total", "capture", "orders"): 3,
        ("cdcv2_job_frontier", "capture", "orders"): 17, ("cdcv2_job_rows_held", "capture", "orders"): 12,
        ("cdcv2_job_committed_timestamp_seconds", "capture", "orders"): NOW - 2,
        ("cdcv2_table_seconds_behind", "copy", "orders", "public.orders", "target"): 1.5,
        ("cdcv2_server_reachable", "database", "shop"): 1, ("cdcv2_server_reachable", "connect", "shop"): 1,
        ("cdcv2_slot_retained_share", "shop", "shop"): 0.25, ("cdcv2_slot_retained_bytes", "shop", "shop"): 25,
        ("cdcv2_topic_forgets_timestamp_seconds", "orders", "shop.orders"): NOW - 60 + 7 * DAY,
        ("cdcv2_remap_hold_timestamp_seconds", "1f", "logs", "remap"): NOW - 5,
        ("cdcv2_external_entries", "made", "slot"): 3, ("cdcv2_external_owed", "busy"): 2,
        ("cdcv2_external_owed_since_timestamp_seconds", "busy"): NOW - 9, ("cdcv2_external_owed", "lost"): 0,
    }  # fmt: skip
    assert {key: by_name[key] for key in expected} == expected


def test_the_parts_of_a_status_are_those_that_it_has() -> None:
    """So the tests here are about the status that there is."""
    plain = status()
    slot, connector = plain["sources"][0]["database"]["slot"], plain["sources"][0]["connector"]
    empty = PipelineStatus("shop", None, [], [], PipelineObservation({"shop": SourceObservation()}, {}, {})).to_plain()

    assert plain.keys() == empty.keys() and plain["sources"][0].keys() == empty["sources"][0].keys()
    assert plain["jobs"][0].keys() == set(JobRow._fields) and plain["tables"][0].keys() == set(TableRow._fields)
    assert slot.keys() == set(SlotObservation._fields) and connector.keys() == {*ConnectorObservation._fields, "runs"}


def test_what_is_not_known_has_no_number() -> None:
    """A job that never ran, a server that is away, and a slot without a limit: no 0 that would be believed."""
    unknown = status(
        frontier=None, committed_at=None, event_at=None, rows_held=None, since=0, seconds_behind=None, last_exit=None,
        connector_error="away", left=None,
    )  # fmt: skip
    names = {sample.name for sample in samples_of(unknown, NOW, [], None)}
    away = samples_of(status(database_error="away", frontier=[1, 2]), NOW, [], measured(retention=None))

    assert not names & {
        "cdcv2_job_frontier", "cdcv2_job_committed_timestamp_seconds", "cdcv2_job_stated_timestamp_seconds",
        "cdcv2_job_rows_held", "cdcv2_table_seconds_behind", "cdcv2_slot_safe_bytes", "cdcv2_slot_retained_share",
        "cdcv2_connector_running", "cdcv2_job_state_since_timestamp_seconds",
        "cdcv2_job_last_exit",
    }  # fmt: skip
    assert MetricSample("cdcv2_server_reachable", ("database", "shop"), 0.0) in away
    missing = {"cdcv2_slot_there", "cdcv2_slot_active", "cdcv2_topic_forgets_timestamp_seconds", "cdcv2_job_frontier"}
    assert not missing & {sample.name for sample in away}


@settings(max_examples=30)
@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_name_survives_the_text(job: str, reason: str, value: float) -> None:
    """Blanks, quotes, line breaks and letters of any alphabet in a name; every number exactly."""
    samples = [MetricSample("cdcv2_slot_retained_bytes", (job, reason), value)]

    labels = frozenset({"source": job, "slot": reason}.items())
    assert parsed(text_of(samples)) == {("cdcv2_slot_retained_bytes", labels): value}


@given(st.integers(0, 100), st.integers(0, 100))
def test_the_share_of_a_slot_is_that_of_its_limit(limit: int, retained: int) -> None:
    """As the server counts: what is left is the limit less what is retained."""
    share = retained_share(retained, limit - retained)

    assert share == (1.0 if retained >= limit else retained / limit)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 12))), max_size=3))
def test_what_is_not_captured_is_counted_record_by_record(parts: list[tuple[int, int, int | None]]) -> None:
    """An oracle that has every record of the topic, one by one, with its time: offset 3 was written at 103."""
    spans = {("t", number): (low, low + size) for number, (low, size, _) in enumerate(parts)}
    captured = {("t", number): at for number, (_, _, at) in enumerate(parts) if at is not None}
    unread = [
        (number, offset) for (_, number), (low, high) in spans.items() for offset in range(low, high)
        if offset not in range(captured.get(("t", number), 0))
    ]
    lost = [
        (number, offset) for (_, number), (low, _) in spans.items() for offset in range(low)
        if ("t", number) in captured and offset not in range(captured["t", number])
    ]
    moments = {("t", number): 100.0 + min(at for part, at in unread if part == number) for number, _ in unread}

    found = needs_of("c", TopicExtents(spans, {}, {"t": {"retention.ms": "5000"}}), captured, moments)

    oldest = min((100.0 + offset for _, offset in unread), default=None)
    assert found == ([TopicBacklog("c", "t", len(unread), len(lost), oldest, 5.0)] if parts else [])


PIPELINE = """
pipeline: shop
kafka: {bootstrap: "127.0.0.1:1"}
captures:
  clicks: {plain: clicks=web.clicks, remap: remap, into: logs}
  dumped: {plain: clicks=web.clicks, remap: remap, into: other, from: dump.jsonl}
"""


def test_a_pipeline_is_measured_though_its_servers_are_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its remap is read once, with what holds it; Kafka's absence is a number, and no error."""
    monkeypatch.setattr("cdcv2.control.metrics.measure.PATIENCE", 0.3)
    path = tmp_path / "shop.yaml"
    path.write_text(PIPELINE, "utf-8")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "clicks.avsc").write_text(
        '{"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}', "utf-8"
    )
    before = measure(read_pipeline(str(path)))
    remap, shared = DirectoryRemap(tmp_path / "remap", create=True), SharedRemap(frontier({}), recipe="r", name="x")
    for at, now in ((0, 1000), (5, 2000)):
        minted(remap, agree(shared, iter([shared.propose(frontier({("web.clicks", 0): at}), now=now), None]).__next__))
    minted(remap, agree(shared, iter([shared.propose_hold("1f", 1000, "logs"), None]).__next__))
    after = measure(read_pipeline(str(path)))

    place = str(tmp_path / "remap")
    assert (before.holds, after.holds) == ((), (HoldAge(place, "logs", "1f", 1.0),))
    assert before.reachable == {("topics", "clicks"): False}
    assert after.reachable == {("topics", "clicks"): False, ("remap", place): True}
    assert [(space.content, 0 < space.free < space.size) for space in after.folders] == [
        ("state", True), ("logs of clicks", True), ("logs of dumped", True),
    ]  # fmt: skip


def test_the_page_has_every_metric() -> None:
    """With its labels and its sentence; it is what this renders."""
    page = (ROOT / "docs" / "operations" / "metrics.md").read_text("utf-8")
    names = {metric: metric.name + "_total" * metric.total for metric in METRICS}
    rows = [f"| `{name}` | {', '.join(metric.labels)} | {metric.text} |" for metric, name in names.items()]

    assert rows == [line for line in page.splitlines() if line.startswith("| `cdcv2_")]


# -- alerts

ALERTS = {
    alert["alert"]: alert
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus-alerts.yaml").read_text("utf-8"))["groups"]
    for alert in group["rules"]
}
_METRIC = r"(cdcv2_\w+|up)(?:\{(\w+)=\"(\w+)\"\})?"
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda one, other: one > other, "<": lambda one, other: one < other, "==": lambda one, other: one == other,
}
Labels = Mapping[str, str]


def values(samples: list[MetricSample], text: str) -> Iterator[tuple[Labels, float]]:
    """What a metric, perhaps with one label, has; as PromQL selects it."""
    match = re.fullmatch(_METRIC, text.strip())
    assert match is not None, text
    labels = {"up": ("job",), **{metric.name: metric.labels for metric in METRICS}}[match[1]]
    assert match[2] is None or match[2] in labels, text
    for sample in samples:
        named = dict(zip(labels, sample.labels))
        if sample.name == match[1] and (match[2] is None or named[match[2]] == match[3]):
            yield named, sample.value


def fires(samples: list[MetricSample], expression: str, now: float) -> list[Labels]:
    """For which labels the expression of an alert holds: that part of PromQL that the file uses."""
    if absent := re.fullmatch(r"absent\((\w+)\)", expression):
        return [] if list(values(samples, absent[1])) else [{}]
    first, both, second = expression.partition(" and on (job, kind) ")
    match = re.fullmatch(r"(.*) (==|<|>) ([0-9.]+)", first.strip())
    assert match is not None, expression
    term, sign, limit = match.groups()
    if term.startswith("time() - "):
        found = [(labels, now - value) for labels, value in values(samples, term.removeprefix("time() - "))]
    elif term.endswith(" - time()"):
        found = [(labels, value - now) for labels, value in values(samples, term.removesuffix(" - time()"))]
    elif " / " in term:
        one, other = (list(values(samples, part)) for part in term.split(" / "))
        found = [(labels, value / number) for labels, value in one for same, number in other if labels == same]
    else:
        found = list(values(samples, term))
    hold = [labels for labels, value in found if _COMPARE[sign](value, float(limit))]
    if not both:
        return hold
    others = [(labels["job"], labels["kind"]) for labels in fires(samples, second, now)]
    return [labels for labels in hold if (labels["job"], labels["kind"]) in others]


def firing(changed: dict[str, Any], entries: tuple[str, ...] = (), later: float = 0.0) -> set[str]:
    """The alerts that fire at a pipeline that is well but for this."""
    owed = [entry(reason) for reason in entries]
    scraped = MetricSample("up", ("cdcv2",), 1.0)
    samples = [scraped, *samples_of(status(**changed), NOW, owed, measured(**changed))]
    return {name for name, alert in ALERTS.items() if fires(samples, alert["expr"], NOW + later)}


#: Alert -> what is so, while nothing is lost yet.
BEFORE_A_LOSS: dict[str, dict[str, Any]] = {
    "Cdcv2NotKeptRunning": {"owner": None},
    "Cdcv2UpHangs": {"owner_silent": 31.0},
    "Cdcv2JobHeld": {"state": "held", "alive": False},
    "Cdcv2JobDies": {"deaths": 3},
    "Cdcv2JobSilent": {"event_at": NOW - 601},
    "Cdcv2Behind": {"seconds_behind": 301.0},
    "Cdcv2RowsHeld": {"rows_held": 1_000_001},
    "Cdcv2ServerAway": {"answers": False},
    "Cdcv2ConnectorStands": {"runs": False},
    "Cdcv2SlotNotRead": {"active": False},
    "Cdcv2SlotNearItsLimit": {"retained": 51, "left": 49},
    "Cdcv2TopicForgets": {"oldest": NOW - 6 * DAY - 1},
    "Cdcv2OldHold": {"since": NOW - 7 * DAY - 1},
    "Cdcv2DiskFills": {"free": 9},
}
#: The same, when it has happened.
AFTER_A_LOSS: dict[str, dict[str, Any]] = {
    "Cdcv2SlotLost": {"status": "lost", "left": None}, "Cdcv2TopicForgot": {"lost": 1},
    "Cdcv2SlotMissing": {"no_slot": True}, "Cdcv2BehindNotKnown": {"seconds_behind": None},
    "Cdcv2DifferenceFound": {"kind": "timer", "last_exit": 3}, "Cdcv2NotJudged": {"kind": "timer", "last_exit": 1},
}  # fmt: skip


def test_no_alert_fires_at_a_pipeline_that_is_well() -> None:
    """Nor at one of which servers are not known, or at one that is stopped on purpose for a moment."""
    assert firing({}) == set() and fires(samples_of(status(), NOW, [], None), "cdcv2_kept_running == 1", NOW) == [{}]
    assert firing({"state": "waiting", "event_at": NOW - 601, "deaths": 2}) == set()
    assert firing({"oldest": None, "left": None, "committed_at": None, "last_exit": None}) == set()
    assert firing({"last_exit": 3}) == firing({"kind": "timer", "last_exit": 4}) == set()


def test_a_dead_up_fires_though_its_metrics_are_missing() -> None:
    """Prometheus knows no value of it any more: only what Prometheus itself states, and what is absent, can fire."""
    dead = [MetricSample("up", ("cdcv2",), 0.0), MetricSample("up", ("other",), 0.0)]

    found = {name: fires(dead, alert["expr"], NOW) for name, alert in ALERTS.items()}
    assert {name: labels for name, labels in found.items() if labels} == {
        "Cdcv2NotScraped": [{"job": "cdcv2"}], "Cdcv2NoMetrics": [{}],
    }


@pytest.mark.parametrize("name", [*BEFORE_A_LOSS, *AFTER_A_LOSS])
def test_each_alert_fires_at_what_it_is_for(name: str) -> None:
    """At that alone: the numbers that it is about are its own."""
    changed = {**BEFORE_A_LOSS, **AFTER_A_LOSS}[name]

    assert firing(changed) == {name}


def test_the_others_fire_and_every_alert_is_tried() -> None:
    """What is owed, and metrics that are old; every rule names what it is about and what to do."""
    assert firing({}, ("denied",)) == {"Cdcv2ExternalOwed"}
    assert firing({}, ("lost",)) == {"Cdcv2ExternalOwed", "Cdcv2ExternalLost"}
    assert "Cdcv2MetricsOld" in firing({}, later=301.0)
    of_prometheus = {"Cdcv2NotScraped", "Cdcv2NoMetrics"}
    of_external = {"Cdcv2ExternalOwed", "Cdcv2ExternalLost"}
    assert {*BEFORE_A_LOSS, *AFTER_A_LOSS, "Cdcv2MetricsOld"} | of_external | of_prometheus == set(ALERTS)
    for alert in ALERTS.values():
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["annotations"].keys() == {"summary", "remedy"}
        used = re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))
        name = re.search(r"cdcv2_\w+|up\b", alert["expr"])
        assert name is not None
        known = {"up": ("job", "instance"), **{metric.name: metric.labels for metric in METRICS}}
        assert set(used) <= set(known[name[0]])
        for page in re.findall(r"docs/[\w/.-]+\.md", str(alert)):
            assert (ROOT / page).exists()
