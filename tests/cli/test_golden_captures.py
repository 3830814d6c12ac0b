"""What captures and materializations of earlier versions left is continued: see tests/golden/captures.py."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cdcv2.control.materialization_file import read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize import FileRecoveryLog, Range, RecoveryLog, SqliteRecoveryLog
from cdcv2.protocol.messages import Updates
from cdcv2.views.identity import demand_same
from tests.cli.conftest import Run, Said
from tests.golden import captures

pytest.importorskip("yaml")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "captures"
#: Where the recorded topics end for a capture: a TRUNCATE stops it, unless it holds the state.
STOPS = {"clean_full": "public.order_items was truncated in transaction 2911", "clean_default": ""}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All records of each run."""
    folder = tmp_path_factory.mktemp("dumps")
    return {run: captures.dump(folder / f"{run}.jsonl", run) for run in STOPS}


def captured(run: Run, folder: Path, dumps: dict[str, Path], name: str, *more: str) -> Said:
    """The capture, into a folder; it ends as the recorded run does."""
    recorded, options = captures.CAPTURES[name]
    said = run(*captures.words(folder, dumps[recorded], recorded, options), "--json", *more)
    assert (4 if STOPS[recorded] else 0) == said.code and STOPS[recorded] in said.err, said.err
    return said


def updates(folder: Path, table: str) -> Counter[tuple[Any, Any, int]]:
    """What a log holds."""
    read = [entry.message for entry in DirectoryLog(folder / "logs" / table).read() if entry is not None]
    return Counter(one for message in read if isinstance(message, Updates) for one in message.updates)


def rows(run: Run, folder: Path, table: str) -> str:
    """A table as it is in the end."""
    said = run("as-of", folder / "logs", "--table", table)
    assert 0 == said.code, said.err
    return said.out


@pytest.mark.parametrize("name", ["commit-times", "from-state"])
def test_a_capture_by_commit_times_goes_on(run: Run, dumps: dict[str, Path], tmp_path: Path, name: str) -> None:
    """From what it remembers: no fact twice, none that is missing, the same stop; the first part is not read again."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(GOLDEN / name, old)
    before = sum((updates(old, table) for table in captures.TABLES), Counter[Any]())
    said = [captured(run, folder, dumps, name) for folder in (old, new)]

    assert said[0].err == said[1].err
    for table in captures.TABLES:
        assert updates(old, table) == updates(new, table)
        assert rows(run, old, table) == rows(run, new, table)
    assert sum(before.values()) > 300 and 0 == run("verify", "--full", old / "logs").code
    if said[0].out:
        first, whole = (json.loads(one.out)["records"] for one in said)
        assert first < whole, "what it remembers is where it read on"
    identity = json.loads((GOLDEN / name / "logs" / CAPTURE_FILE).read_text("utf-8"))["id"]
    assert identity == json.loads((old / "logs" / CAPTURE_FILE).read_text("utf-8"))["id"]


@pytest.mark.parametrize("name", ["commit-times", "from-state"])
def test_a_capture_by_commit_times_that_lost_its_memory_goes_on(
    run: Run, dumps: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """By the logs alone: what they have is recognized."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(GOLDEN / name, old)
    (old / "logs" / "_memory.json").unlink()
    said = [captured(run, folder, dumps, name) for folder in (old, new)]

    assert said[0].err == said[1].err
    assert [updates(old, table) for table in captures.TABLES] == [updates(new, table) for table in captures.TABLES]


@pytest.mark.parametrize("name", ["remap", "remap-from-state"])
def test_a_capture_on_a_remap_goes_on_under_a_recipe_that_is_proposed(
    run: Run, dumps: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """Its TEMP has rows of the old type: it reports that and writes nothing; with the option it goes on."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(GOLDEN / name, old)
    recorded, options = captures.CAPTURES[name]
    said = run(*captures.words(old, dumps[recorded], recorded, options))
    assert (4, True) == (said.code, "or propose this one with --propose-recipe: start, once: cdcv2 capture" in said.err)
    before = {table: updates(old, table) for table in captures.TABLES}
    assert before == {table: updates(GOLDEN / name, table) for table in captures.TABLES}

    captured(run, old, dumps, name, "--propose-recipe")
    captured(run, old, dumps, name)
    captured(run, new, dumps, name)
    for table in captures.TABLES:
        assert before[table] <= updates(old, table)
        assert rows(run, old, table) == rows(run, new, table)
    assert 0 == run("verify", "--full", old / "logs").code


def kept(place: Path) -> Any:
    """What the reader of a materialization has left in the checkpoint."""
    log: RecoveryLog = FileRecoveryLog("shop", place / "recovery")
    if (place / "recovery.sqlite").exists():
        log = SqliteRecoveryLog("shop", place / "recovery.sqlite")
    (checkpoint,) = log.checkpoints()
    log.close()
    return checkpoint.state


@pytest.mark.parametrize("name", ["lake", "counts", "delta"])
def test_a_materialization_goes_on(run: Run, dumps: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Its tables, manifests, and recovery log, a folder and an SQLite file; over logs that are continued, too."""
    pytest.importorskip("deltalake" if name == "delta" else "pyarrow")
    place, logs = tmp_path / name, tmp_path / "commit-times"
    shutil.copytree(GOLDEN / name, place)
    shutil.copytree(GOLDEN / "commit-times", logs)
    file = captures.views(place, logs / "logs", name)
    # The youngest states its timeline.
    assert {"bookmarks"} == set(kept(place)) - ({"timeline"} if name == "counts" else set())
    compared, again = run("compare", file), run("materialize", file, "--json")
    assert (0, 0, 0) == (compared.code, again.code, json.loads(again.out)["transactions"]), compared.err + again.err
    captured(run, logs, dumps, "commit-times")
    more = run("materialize", file, "--json")
    assert 0 == more.code and json.loads(more.out)["updates"] > 300, more.err
    # Its logs have no identity; by now they are of a timeline, and known by their places in their log set.
    assert {"bookmarks", "timeline", "logs"} == set(kept(place))
    assert 0 == run("compare", file).code


def test_a_view_whose_last_value_may_be_of_a_row_that_is_gone_is_not_gone_on_with(run: Run, tmp_path: Path) -> None:
    """What it would have to know, which rows are there, is not in the table; a new one has it. The others go on."""
    pytest.importorskip("pyarrow")
    place, logs = tmp_path / "last", GOLDEN / "commit-times" / "logs"
    shutil.copytree(GOLDEN / "last", place)
    file = captures.views(place, logs, "last")
    said = run("materialize", file)
    assert (4, True) == (said.code, "its view 'per_order' was begun by an earlier release, whose last" in said.err)
    # The checkpoint's mark of the view shows it; nothing was taken over to see it.
    claimed = FileRecoveryLog("shop", place / "recovery").open(Range(), Antichain([0]))
    bindings = {one.target: one for one in read_plan(str(file)).bindings}
    demand_same("shop", [bindings["orders"], bindings["items"]], claimed.recovered.checkpoint)
    with pytest.raises(RefusedError, match="its view 'per_order' was begun by an earlier release, whose last value"):
        demand_same("shop", bindings.values(), claimed.recovered.checkpoint)
    shutil.rmtree(place)
    place.mkdir()
    file = captures.views(place, logs, "last")
    assert (0, 0) == (run("materialize", file).code, run("compare", file).code)
