"""`cdcv2 repair` brings a damaged lake back to its logs; PostgreSQL is in test_command_compare.py, with a server."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.cli.repair import _Target
from cdcv2.control.materialization_file import read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.failpoints import PlacedCrash
from cdcv2.materialize import Checkpoint, Runtime
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import HISTORY, Run, price, write
from tests.cli.test_command_materialize import LAKE, PUSHED, written

pytest.importorskip("yaml")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
GOOD = [Updates([(price(1, 10, "apple"), 3, 1), (price(2), 3, 1), (price(5, 1, "fig"), 3, 1)]),
        Progress([0], [5], {3: 3}),
        Updates([(price(2), 6, -1), (price(1, 10, "apple"), 6, -1), (price(1, 12, "apple"), 6, 1)]),
        Progress([5], [8], {6: 3}), *HISTORY[4:]]  # fmt: skip
TABLES = ("now", "all", "names")


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> Path:
    """A lake in several files, by its file."""
    folder = tmp_path / "kept"
    folder.mkdir()
    write(folder / "prices", *GOOD)
    path = written(folder, LAKE)
    assert 0 == run("materialize", path).code
    return path


def content(folder: Path) -> dict[str, list[str]]:
    """The rows of each table, without those that were deleted softly."""
    view = open_lake(folder / "lake")
    return {
        table: sorted(repr(row) for row in view.read(table).to_pylist() if not row.get("cdcv2_deleted"))
        for table in TABLES
    }


def files(folder: Path, table: str) -> list[Path]:
    """The files of a table that count."""
    view = open_lake(folder / "lake")
    return [one.path for one in view.files(table)]


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def replace(path: Path) -> None:
    path.write_bytes(b"something else")


def change(path: Path) -> None:
    """Other numbers in each row, as if by hand: only a comparison shows it."""
    rows = pq.read_table(path)
    for at, field in enumerate(rows.schema):
        if field.name in ("price", "total"):
            more = [None if one is None else one + 5 for one in rows[at].to_pylist()]
            rows = rows.set_column(at, field, pa.array(more, field.type))
    pq.write_table(rows, path)


DAMAGE = {one.__name__: one for one in (lose, cut, replace, change)}


def grow(folder: Path) -> None:
    """The logs have more: a change of what was there, and something new."""
    write(folder / "more", Updates([(price(3, 7, 'pl"um, ripe'), 11, -1), (price(4, 9, "fig"), 11, 1)]),
          Progress([10], [12], {11: 2}))  # fmt: skip
    (folder / "prices.yaml").write_text(LAKE.replace("prices: prices\n", "prices: [prices, more]\n"), "utf-8")


def test_a_lake_is_as_its_logs_again_whatever_was_done_to_it(run: Run, kept: Path) -> None:
    """Random damage of random files; what was right before is right again, and the views go on from there."""
    before, number = content(kept.parent), open_lake(kept.parent / "lake").frontier
    for seed in range(8):
        draw, folder = random.Random(seed), kept.parent.with_name(f"copy{seed}")
        shutil.copytree(kept.parent, folder)
        damaged = set()
        for table in draw.sample(TABLES, draw.randint(1, 3)):
            DAMAGE[draw.choice(sorted(DAMAGE))](draw.choice(files(folder, table)))
            damaged.add(table)
        dry = run("repair", folder / kept.name, "--dry-run", "--json")
        seen = json.loads(dry.out)
        found = run("repair", folder / kept.name, "--json")

        assert (seen["tables"], 0) == (json.loads(found.out)["tables"], found.code), (seed, found)
        assert {3: True, 0: False}[dry.code] == bool(seen["tables"]) and set(seen["tables"]) <= damaged
        assert (before, number) == (content(folder), open_lake(folder / "lake").frontier), seed
        assert "nothing differs: prices, complete through 9\n" == run("repair", folder / kept.name).out
        grow(folder)
        assert (0, 0) == (run("materialize", folder / kept.name).code, run("compare", folder / kept.name).code), seed


def test_rows_that_differ_are_named(run: Run, kept: Path) -> None:
    """As by cdcv2 compare; a table that cannot be read is named with the reason."""
    change(files(kept.parent, "now")[0])
    lose(files(kept.parent, "names")[0])
    found = run("repair", kept)
    lines = found.out.splitlines()

    assert 0 == found.code, found
    fig = '  {"id": 5}: the logs state {"price": 1, "name": "fig"}, the target has {"price": 6, "name": "fig"}'
    assert fig in lines
    assert "now: 1 rows differ; the logs state 3, the target had 3" == lines[0]
    assert lines[2].startswith("names: the whole table, 3 rows: the lake's file ") and "cannot be read" in lines[2]
    assert "repaired: prices, complete through 9" == lines[-1]


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of the folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_is_taken_over_or_written_where_nothing_differs_or_nothing_is_to_be(run: Run, kept: Path) -> None:
    """An instance that runs goes on."""
    before = snapshot(kept.parent)
    same = run("repair", kept)
    assert (0, before) == (same.code, snapshot(kept.parent))
    change(files(kept.parent, "now")[0])
    before = snapshot(kept.parent)
    dry = run("repair", kept, "--dry-run")

    assert (3, before) == (dry.code, snapshot(kept.parent)), dry
    assert "1 tables differ: prices, complete through 9" == dry.out.splitlines()[-1]


@pytest.mark.parametrize(("step", "done"), [("lake.applied", False), ("lake.repair-staged", False),
                                            ("lake.repaired", True)])  # fmt: skip
def test_one_that_dies_is_run_again(run: Run, kept: Path, step: str, done: bool) -> None:
    """Before the manifest nothing has changed, behind it everything has. What is left over are orphans."""
    before = content(kept.parent)
    change(files(kept.parent, "now")[0])
    damaged = content(kept.parent)
    with failpoints.placed(step), pytest.raises(PlacedCrash):
        run("repair", kept)
    died = content(kept.parent)
    again = run("repair", kept)

    assert (before if done else damaged) == died
    assert (0, before) == (again.code, content(kept.parent))
    assert ("nothing differs" in again.out) == done
    assert 0 == run("orphans", kept, "--remove").code
    assert [] == LakeFolder(kept.parent / "lake").orphans()


def test_an_instance_that_takes_over_meanwhile_ends_the_repair(
    run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has changed nothing then; and one that runs when it begins is fenced off."""
    plan = read_plan(str(kept))
    log = plan.recovery()
    assert log is not None
    running = log.open(Range(), Antichain([0]))
    change(files(kept.parent, "now")[0])
    damaged = content(kept.parent)
    repair = LakeDriver.repair

    def overtaken(self: LakeDriver, *words: Any) -> None:
        log.open(Range(), Antichain([0]))
        repair(self, *words)

    with monkeypatch.context() as patched:
        patched.setattr(LakeDriver, "repair", overtaken)
        refused = run("repair", kept)

    assert (4, True) == (refused.code, "was fenced off by another" in refused.err), refused
    assert damaged == content(kept.parent)
    with pytest.raises(Exception, match="was fenced off by another"):
        running.demand()
    assert 0 == run("repair", kept).code


def test_what_was_committed_and_not_applied_is_applied_first(run: Run, kept: Path) -> None:
    """Its files go with what the target was before; files that may be missing are not merged with it."""
    grow(kept.parent)
    kept.write_text(kept.read_text("utf-8").replace("folder: lake}", "folder: lake, files: 1}"), "utf-8")
    with failpoints.placed("materialize.after-commit"), pytest.raises(PlacedCrash):
        run("materialize", kept)
    lose(files(kept.parent, "now")[0])
    before = open_lake(kept.parent / "lake").frontier
    found = run("repair", kept)

    assert (Antichain([10]), 0) == (before, found.code), found
    assert "repaired: prices, complete through 11" == found.out.splitlines()[-1]
    assert [0, 0] == [run(command, kept).code for command in ("compare", "materialize")]


def test_rows_that_were_deleted_softly_stay(run: Run, kept: Path) -> None:
    """Where they can be read: the logs do not have them any more."""
    def rows() -> dict[str, bool]:
        return {row["name"]: row["cdcv2_deleted"] for row in open_lake(kept.parent / "lake").read("names").to_pylist()}

    before = rows()
    change(files(kept.parent, "names")[-1])

    assert 0 == run("repair", kept).code
    assert before == rows() and True in before.values()


def test_a_target_that_went_on_meanwhile_is_left_alone(
    run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not where it was taken over: so another instance is at work."""
    change(files(kept.parent, "now")[0])
    damaged, look, calls = content(kept.parent), _Target.damage, []

    def later(self: _Target) -> Any:
        found = look(self)
        calls.append(1)
        if len(calls) == 2:
            self.frontier = Antichain([11])
        return found

    monkeypatch.setattr(_Target, "damage", later)
    refused = run("repair", kept)

    assert (4, True) == (refused.code, "was fenced off by another" in refused.err), refused
    assert damaged == content(kept.parent)


def test_a_manifest_that_has_gone_on_is_not_replaced(kept: Path) -> None:
    """Whatever the recovery log has: the rows are of one frontier."""
    plan = read_plan(str(kept))
    driver, log = plan.driver(), plan.recovery()
    assert isinstance(driver, LakeDriver)
    runtime = Runtime(plan.name, plan.bindings, driver, lambda _: (), log=log, start=[0])
    runtime.run()
    before = LakeFolder(kept.parent / "lake").last()
    with pytest.raises(Exception, match="was fenced off by another"):
        driver.repair([], Checkpoint(Antichain([9])), lambda: None)
    assert before == LakeFolder(kept.parent / "lake").last()


def test_other_targets_are_refused_with_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta tables, and what was pushed."""
    write(tmp_path / "prices", *HISTORY)
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("PORT", "1")
    pushed = written(tmp_path, PUSHED)
    found = run("repair", pushed)
    assert (2, True) == (found.code, "its receiver has to ask for all of it again" in found.err), found
    file = written(tmp_path, LAKE.replace("driver: lake", "driver: delta"))
    pytest.importorskip("deltalake")
    found = run("repair", file)
    assert (2, True) == (found.code, "prices.yaml, line 15: cdcv2 repair writes into" in found.err), found
