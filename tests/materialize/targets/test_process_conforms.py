"""Connectors as drivers, real subprocesses: every fault of the kit, for a store that rules and for a recovery log."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import ViewError
from cdcv2.materialize import Driver, MemoryRecoveryLog, RecoveryLog, Table
from cdcv2.materialize.protocol.deltas import value_from_plain
from cdcv2.materialize.protocol.messages import Store
from cdcv2.materialize.targets.process.driver import ProcessDriver
from cdcv2.testing import ConformanceError, Scenario, Subject, Workload, conform, scenarios
from tests.faults import few
from tests.toys import Rows, add

ROOT = Path(__file__).resolve().parents[3]
PYTHON = [sys.executable, "-S", "-E"]
EXAMPLE, STAGING = ROOT / "examples" / "sqlite_connector.py", ROOT / "tests" / "staging_connector.py"


def tables_of(kind: str) -> dict[str, Table]:
    """The tables of a workload, by name."""
    return {binding.target: binding.view().table for binding in Workload(kind).bindings}


def row(table: Table, document: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Key and values of a document."""
    values = tuple(value_from_plain(one, document[one.name]) for one in table.fields)
    return values[: len(table.key)], values[len(table.key):]


class ConnectorSubject(Subject):
    """A program, and a folder that is its store."""

    def __init__(self) -> None:
        self.folder, self.recovery = Path(tempfile.mkdtemp()), MemoryRecoveryLog("conformance")

    def log(self) -> RecoveryLog | None:
        """For its state."""
        return self.recovery

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


class ExampleSubject(ConnectorSubject):
    """The example connector: SQLite rules, for all keys."""

    splits = False

    def driver(self) -> Driver:
        """A new process on the same database."""
        return ProcessDriver([*PYTHON, str(EXAMPLE)], {"path": "view.db", "durable": False}, folder=self.folder)

    def view(self) -> Rows:
        """What the tables have."""
        seen: Rows = {}
        with closing(sqlite3.connect(self.folder / "view.db")) as database:
            there = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'account_%' OR name = 'entry_log'")
            names = {name for (name,) in there}
            for name, table in tables_of("full").items():
                found = database.execute(f"SELECT flow_document FROM {name}") if name in names else []
                seen[name] = dict(row(table, json.loads(document)) for (document,) in found)
        return seen


class StagingSubject(ConnectorSubject):
    """The recovery log rules."""

    def driver(self) -> Driver:
        """A new process on the same folder."""
        config = {"folder": str(self.folder), "delta": self.delta}
        return ProcessDriver([*PYTHON, str(STAGING)], config)

    def shown(self) -> dict[str, Any]:
        """The tables."""
        path = self.folder / "view.json"
        return dict(json.loads(path.read_text("utf-8"))["tables"]) if path.exists() else {}

    def view(self) -> Rows:
        """Table by table."""
        shown = self.shown()
        return {
            name: dict(row(table, document) for document in shown.get(name, {}).values())
            for name, table in tables_of("full").items()
        }


class StagingChangesSubject(StagingSubject):
    """The same, of changes, which its reader adds up."""

    delta = True
    splits = False

    def view(self) -> Rows:
        """Added up."""
        seen: Rows = {}
        for name, table in tables_of("delta").items():
            add(seen, (table,), [Store(0, *row(table, document)) for document in self.shown().get(name, [])])
        return seen


@pytest.mark.parametrize("scenario", few(scenarios(ExampleSubject)), ids=str)
def test_the_example_conforms(scenario: Scenario) -> None:
    """A store that rules and fences."""
    conform(ExampleSubject, scenario)


@pytest.mark.parametrize("scenario", few(scenarios(StagingSubject)), ids=str)
def test_a_connector_that_stages_conforms(scenario: Scenario) -> None:
    """The recovery log rules; ranges of keys are split and joined."""
    conform(StagingSubject, scenario)


# What repeats or loses changes is a crash; stalls and zombies are tried above.
CRASHES = [one for one in scenarios(StagingChangesSubject) if not one.name.startswith(("stall", "zombie"))]


@pytest.mark.parametrize("scenario", CRASHES, ids=str)
def test_a_connector_that_takes_changes_conforms(scenario: Scenario) -> None:
    """Each change once."""
    conform(StagingChangesSubject, scenario)


PLANTED = [
    (ExampleSubject, "if found != (self.fence,):", "if False:", "zombie-at-StartCommit-2"),
    (ExampleSubject, "for store in self.stores:", "for store in self.stores[1:]:", "baseline"),
    (StagingChangesSubject, "if one not in view[\"applied\"]:", "if True:", "crash-at-Acknowledged-2"),
    (StagingSubject, "opening[\"state\"].get(\"pending\", {})", "{}", "crash-at-Acknowledge-4"),
]


@pytest.mark.parametrize(("kind", "old", "new", "scenario"), PLANTED, ids=[f"{one[3]} {one[2][:9]}" for one in PLANTED])
def test_planted_defects_are_caught(
    kind: type[ConnectorSubject], old: str, new: str, scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector with one mistake does not come through."""
    name = "EXAMPLE" if kind is ExampleSubject else "STAGING"
    text = globals()[name].read_text("utf-8")
    assert 1 == text.count(old)
    (tmp_path / "connector.py").write_text(text.replace(old, new), "utf-8")
    monkeypatch.setitem(globals(), name, tmp_path / "connector.py")
    [planted] = [one for one in scenarios(kind) if one.name == scenario]
    with pytest.raises((ConformanceError, ViewError)):
        conform(kind, planted)
