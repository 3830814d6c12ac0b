"""`cdcv2 orphans` removes what the dead have left, and nothing that a manifest or a transaction could need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.control.materialization_file import read_plan
from cdcv2.errors import FencedError
from cdcv2.materialize import Checkpoint, Runtime
from cdcv2.materialize.protocol.messages import StartCommit
from cdcv2.materialize.targets.delta.driver import open_delta
from cdcv2.materialize.targets.delta.manifest import DeltaFolder
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.timeline import Timeline
from tests.cli.conftest import Run, price, write

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
FILE = """
materialization: prices
logs: {prices: prices}
bindings:
  - {log: prices, target: now, key: id}
  - {log: prices, target: names, key: [name], reduce: {n: count}}
target: {driver: lake, folder: tables}
recovery_log: recovery
rows: 1
"""


def said(*times: int) -> list[Message]:
    """A row at each of these times."""
    messages: list[Message] = []
    for time in times:
        messages += [Updates([(price(time, time, "x"), time, 1)]), Progress([time], [time + 1], {time: 1})]
    return messages


def kept(folder: Path) -> list[int]:
    """The rows that the lake or the Delta tables show."""
    look: Any = open_lake if (folder / "now").exists() and not (folder / "now" / "_delta_log").exists() else open_delta
    return sorted(key[0] for key, _ in look(folder).rows("now"))


@pytest.mark.parametrize("driver", ["lake", "delta"])
def test_what_the_dead_have_left_goes_and_what_is_committed_stays(run: Run, tmp_path: Path, driver: str) -> None:
    """Looking changes nothing; a file that somebody else has put there is not looked at."""
    pytest.importorskip("pyarrow" if driver == "lake" else "deltalake")
    write(tmp_path / "prices", *said(*range(4)))
    path, tables = tmp_path / "prices.yaml", tmp_path / "tables"
    path.write_text(FILE.replace("driver: lake", f"driver: {driver}"), "utf-8")
    nothing = run("orphans", path)
    with failpoints.placed(f"{driver}.staged", 2), pytest.raises(failpoints.PlacedCrash):
        materialized(path)
    with failpoints.placed("materialize.after-commit"), pytest.raises(failpoints.PlacedCrash):
        materialized(path)
    (tables / "mine").mkdir()
    for foreign in (tables / "mine" / f"{'0' * 32}.parquet", tables / "now" / "mine.parquet"):
        foreign.write_bytes(b"")
    looked = json.loads(run("orphans", path, "--json").out)
    there = [Path(one["path"]) for one in looked["files"]]
    removed = run("orphans", path, "--remove")

    assert (2, True) == (nothing.code, "nothing was materialized into" in nothing.err), nothing.err
    assert (4, False, True) == (len(there), looked["removed"], looked["bytes"] > 0)
    assert (0, True) == (removed.code, removed.out.splitlines()[-1].startswith("2 files, ")), removed
    assert ([0, 1], [foreign, tables / "mine" / f"{'0' * 32}.parquet"]) == (
        kept(tables), [foreign, *tables.glob("mine/*.parquet")]
    )
    assert "0 files, 0 bytes" in run("orphans", path).out
    assert 0 == run("materialize", path).code
    assert (0, [0, 1, 2, 3]) == (run("compare", path).code, kept(tables))


def materialized(path: Path, runtime: Runtime | None = None) -> Runtime:
    """One run of the file, in this process, so that it can die."""
    runtime = runtime or made(path)
    runtime.run()
    return runtime


def made(path: Path) -> Runtime:
    """What such a run is made of."""
    plan = read_plan(str(path))

    def cuts(checkpoint: Checkpoint) -> Any:
        timeline = Timeline(["prices"], start=checkpoint.frontier, begins=[0])
        for entry in plan.logs[0].log.read():
            cut = None if entry is None else timeline.absorb("prices", entry)
            if cut is not None:
                yield cut

    return Runtime(plan.name, plan.bindings, plan.driver(), cuts, log=plan.recovery(), rows=1)


def test_an_instance_beside_it_is_fenced_off_and_loses_nothing(run: Run, tmp_path: Path) -> None:
    """It has staged files, and would commit them: its files go, and so does its right to name them."""
    write(tmp_path / "prices", *said(*range(4)))
    path = tmp_path / "prices.yaml"
    path.write_text(FILE, "utf-8")
    beside, steps_taken = made(path), 0
    running = beside.steps()
    for step in running:
        steps_taken += step is StartCommit
        if steps_taken == 2:
            next(running)
            break
    removed = run("orphans", path, "--remove")
    with pytest.raises(FencedError):
        for _ in running:
            continue
    beside.close()

    assert (0, True) == (removed.code, removed.out.splitlines()[-1].startswith("2 files, ")), removed
    assert 0 == run("materialize", path).code
    assert (0, [0, 1, 2, 3]) == (run("compare", path).code, kept(tmp_path / "tables"))


def test_who_is_overtaken_removes_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run begins between its taking over and its looking: what that has committed is among what it sees."""
    write(tmp_path / "prices", *said(*range(4)))
    path = tmp_path / "prices.yaml"
    path.write_text(FILE, "utf-8")
    with failpoints.placed("lake.staged", 2), pytest.raises(failpoints.PlacedCrash):
        materialized(path)
    looked = LakeFolder.orphans

    def late(folder: LakeFolder) -> list[Path]:
        monkeypatch.undo()
        with failpoints.placed("materialize.after-commit"), pytest.raises(failpoints.PlacedCrash):
            materialized(path)
        return looked(folder)

    monkeypatch.setattr(LakeFolder, "orphans", late)
    removed = run("orphans", path, "--remove")

    assert (4, True) == (removed.code, "fenced off by another" in removed.err), removed
    assert 4 == len(LakeFolder(tmp_path / "tables").orphans())
    assert 0 == run("materialize", path).code
    assert (0, [0, 1, 2, 3]) == (run("compare", path).code, kept(tmp_path / "tables"))


@pytest.mark.parametrize("when", ["before it is said", "before it is done", "behind it"])
def test_a_merge_that_was_frozen_names_no_file_that_goes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """No fence stops one who merges, as that commits nothing: its file may be an orphan for as long as it is frozen."""
    write(tmp_path / "prices", *said(*range(4)))
    path, folder = tmp_path / "prices.yaml", LakeFolder(tmp_path / "tables")
    path.write_text(FILE.replace("folder: tables", "folder: tables, files: 2"), "utf-8")
    change, merge, unlink = LakeFolder.change, LakeDriver._merge, Path.unlink
    thawed: list[Any] = []

    def frozen(self: LakeFolder, decide: Any) -> int:
        if decide.__qualname__.startswith("LakeDriver._merge"):
            thawed.append(lambda: change(self, decide))
            raise failpoints.PlacedCrash("frozen")
        return change(self, decide)

    with monkeypatch.context() as patched:
        patched.setattr(LakeFolder, "change", frozen)
        with pytest.raises(failpoints.PlacedCrash):
            materialized(path)
    monkeypatch.setattr(LakeDriver, "_merge", lambda *_: None)
    (merged,) = folder.orphans()

    def thaw(*_: Any, **__: Any) -> None:
        while thawed:
            thawed.pop()()

    def going(file: Path, **options: Any) -> None:
        if when == "before it is done" and file == merged:
            thaw()
        unlink(file, **options)

    def said_so(self: LakeFolder, decide: Any) -> int:
        if when == "before it is said" and decide.__qualname__.startswith("Folder.remove"):
            thaw()
        return change(self, decide)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", going)
        patched.setattr(LakeFolder, "change", said_so)
        run("orphans", path, "--remove")
    thaw()
    monkeypatch.setattr(LakeDriver, "_merge", merge)

    assert kept(tmp_path / "tables")
    assert 0 == run("materialize", path).code
    assert (0, [0, 1, 2, 3]) == (run("compare", path).code, kept(tmp_path / "tables"))
    assert DeltaFolder.KEPT == folder.KEPT and not folder.last()[1].removing  # type: ignore[union-attr]


def test_others_than_lakes_leave_no_files(run: Run, tmp_path: Path) -> None:
    """2, with the line."""
    write(tmp_path / "prices", *said(0))
    path = tmp_path / "prices.yaml"
    lake = "{driver: lake, folder: tables}\nrecovery_log: recovery"
    path.write_text(FILE.replace(lake, "{driver: postgres}"), "utf-8")
    refused = run("orphans", path)

    assert (2, True) == (refused.code, "line 7: this driver leaves no files" in refused.err), refused
