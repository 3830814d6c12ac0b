"""Instances in what a pipeline is asked: explain, doctor, draw, run, and how its jobs stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.chain import first_fault, links
from cdcv2.control.chain_observation import ChainObservation, InstanceObservation, JobActivity, LogObservation
from cdcv2.control.kept_value import keep
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_status import JobRow, job_rows
from cdcv2.control.supervision import JobState, JobStatus
from cdcv2.control.supervisor import STATUS

FILE = """
pipeline: shop
state: s
rows: rows
sources: {shop: {}}
captures:
  shop: {from: topics.jsonl, tables: [public.items]}
instances:
  rows: {capture: shop, index: {public.items: [id]}, replicas: 2}
  away: {logs: {there: there}, index: {there: id}}
"""
SCHEMA = {"type": "record", "name": "items", "fields": [{"name": "id", "type": "long"}]}
NOW = 1000.0
ROW = JobRow("rows", "instance", "running", 1.0, True, 1, [501], 990.0, 999.0, [], None, None, "rows.log")
AWAY = {"what": "replica", "text": "the replica s/rows-1.sock does not respond", "place": {"replica": "s/rows-1.sock"}}
ALONE = {"what": "controller", "text": "its controller, which is not connected: start cdcv2 replicas"}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline's folder, by a short path."""
    path = tmp_path_factory.mktemp("w")
    (path / "shop.yaml").write_text(FILE, "utf-8")
    (path / "rows").mkdir()
    (path / "rows" / "public.items.avsc").write_text(json.dumps(SCHEMA), "utf-8")
    return path


def observation(controller: dict[str, Any], first: dict[str, Any], fault: str | None = None) -> ChainObservation:
    """What is seen of an instance with two replicas behind a log."""
    rows = [ROW._replace(**controller), ROW._replace(name="rows-1", **first), ROW._replace(name="rows-2")]
    one, *others = (JobActivity(row, 900.0) for row in rows)
    return ChainObservation("shop.yaml", NOW, log=LogObservation("logs", [501], 995.0),
                            instance=InstanceObservation("s/rows.sock", fault, one, tuple(others)))


@pytest.mark.parametrize("controller, first, fault, kind, text, remedy", [
    ({"waits": [AWAY]}, {"state": "held", "reason": "no log"}, None, "replica", "held: no log", "--start-held rows-1"),
    ({"waits": [AWAY]}, {}, None, "instance", "rows-1.sock does not respond", "cdcv2 output shop.yaml rows-1"),
    ({"state": "held", "reason": "no state"}, {"waits": [ALONE]}, None, "instance", "no state", "--start-held rows"),
    ({}, {"event_at": 900.0}, None, "replica", "stated nothing for 100 s", "cdcv2 pause shop.yaml rows-1"),
    ({}, {}, "s/rows.sock is there, and is no socket", "instance", "is no socket", "cdcv2 up shop.yaml"),
])  # fmt: skip
def test_the_first_link_of_an_instance_that_stands_still_is_named(
    controller: dict[str, Any], first: dict[str, Any], fault: str | None, kind: str, text: str, remedy: str
) -> None:
    found = links(observation(controller, first, fault))
    assert [link.kind for link in found] == ["log", "replica", "replica", "instance"]
    stands = first_fault(found)
    assert stands is not None and stands.kind == kind
    assert text in str(stands.fault) and remedy in str(stands.remedy)
    assert first_fault(links(observation({}, {}))) is None


def test_explain_knows_instances_by_name_by_job_and_by_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(folder / "shop.yaml")
    for name, wanted in (("rows", ["rows"]), ("rows-2", ["rows"]), ("public.items", ["rows"]), ("there", ["away"]),
                         ("shop", ["shop"])):  # fmt: skip
        assert main(["explain", file, name, "--json"]) == 1
        ways = json.loads(capsys.readouterr().out)
        assert [way["name"] for way in ways] == wanted
    assert main(["explain", file, "rows"]) == 1
    shown = capsys.readouterr().out
    assert "  replica    rows-1" in shown and "  instance   rows " in shown and "rows.sock" in shown
    assert main(["explain", file, "none"]) == 2
    assert "there are away, public.items, rows, shop, there" in capsys.readouterr().err


def test_doctor_looks_at_the_place_and_the_keys(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "shop.yaml"
    text = FILE.replace("replicas: 2", "place: rows.sock")
    text = text.replace("public.items: [id]", "public.items: [no], other: [id]")
    file.write_text(text, "utf-8")
    (folder / "rows.sock").touch()
    assert main(["doctor", str(file)]) == 4
    assert "wrong        instance rows: " in (shown := capsys.readouterr().out) and "is no socket" in shown
    (folder / "rows.sock").unlink()
    assert main(["doctor", str(file)]) == 4
    shown = capsys.readouterr().out
    assert f"instance rows: clients ask at {folder / 'rows.sock'}" in shown
    assert "public.items has no column no" in shown and "has no table other" in shown
    assert "not checked  instance away: " in shown


def test_draw_shows_instances_where_targets_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", str(folder / "shop.yaml")]) == 0
    svg = capsys.readouterr().out
    assert svg.count("rows: instance") >= 1 and svg.count("away: instance") >= 1


def test_run_starts_no_instance_and_states_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", str(folder / "shop.yaml")])
    assert "instances are not started here (rows, away): cdcv2 up does that" in capsys.readouterr().err
    (folder / "shop.yaml").write_text(
        "pipeline: shop\ninstances:\n  away: {logs: {there: there}, index: {there: id}}\n", "utf-8")
    assert main(["run", str(folder / "shop.yaml")]) == 2
    assert "cdcv2 run starts nothing else: use cdcv2 up" in capsys.readouterr().err


def test_a_replica_behind_a_held_controller_states_that(folder: Path) -> None:
    pipeline = read_pipeline(str(folder / "shop.yaml"))
    jobs = folder / "s" / "jobs"
    for name, status in (("rows", JobStatus(JobState.HELD, 1.0, reason="another process has its state")),
                         ("rows-1", JobStatus(JobState.RUNNING, 1.0))):  # fmt: skip
        (jobs / name).mkdir(parents=True)
        keep(jobs / name / STATUS, status.to_plain())
    (jobs / "rows-1" / "events.jsonl").write_text(json.dumps({
        "event": "progress", "version": 1, "at": 2.0, "job": "rows-1", "frontier": None, "waits": [ALONE]}) + "\n")
    rows = {row.name: row for row in job_rows(pipeline)}
    assert rows["rows-1"].awaited == ["its controller rows, which is held: another process has its state"]
