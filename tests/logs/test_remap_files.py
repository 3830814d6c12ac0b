"""A shared remap in a directory: processes race for its numbers, die around a link, and all read the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, OutputError, RefusedError, UnavailableError, UsageError
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.minting import compact, follow, mint, run
from cdcv2.timeline.partitioned import offsets
from cdcv2.timeline.shared_remap import LogView, SharedRemap
from tests.minters import minted_in_threads

ROOT = Path(__file__).resolve().parents[2]
START = Antichain([0])


@pytest.fixture
def log(tmp_path: Path) -> DirectoryRemap:
    """An empty log."""
    return DirectoryRemap(tmp_path / "timelines" / "remap", create=True)


def files(log: DirectoryRemap) -> list[str]:
    """The names that are there, without their zeroes."""
    return sorted(entry.name.lstrip("0") for entry in log.path.iterdir())


def minted(log: DirectoryRemap, line: int, shared: SharedRemap | None = None) -> SharedRemap:
    """A minter that has bound a line."""
    shared = shared or SharedRemap(START, recipe="v1")
    run(log, mint(shared, Antichain([line]), lambda: 10 * line))
    return shared


def test_records_have_consecutive_numbers(log: DirectoryRemap) -> None:
    """From any number on they are read, whole."""
    assert LogView([], 0) == log.read(0) and "remap" == Path(log.name).name
    assert [0, 1, 2] == [log.append(raw, 0) for raw in (b"a", b"b", b"c")]

    assert (LogView([(1, b"b"), (2, b"c")], 3), LogView([], 3)) == (log.read(1), log.read(7))
    assert [".json", "1.json", "2.json"] == files(log)


def test_a_trimmed_number_is_free_again_and_what_is_put_there_decides_nothing(log: DirectoryRemap) -> None:
    """The sleeper reads on, finds the summary, and binds behind it."""
    sleeper = minted(log, 1)
    for line in (2, 3, 4):
        minted(log, line)
    run(log, compact(SharedRemap(), 35))
    assert ["5.json"] == files(log)
    won = run(log, mint(sleeper, Antichain([6]), lambda: 60))
    late = log.append(log.read(0).records[-1][1], 2)
    fresh = SharedRemap()
    run(log, follow(fresh))

    assert 2 == late and ["2.json", "5.json", "6.json"] == files(log)
    assert [Antichain([4]), Antichain([6])] == [one.binding.frontier for one in won[-2:]]
    assert (35, Antichain([4]), Antichain([6])) == (fresh.remap.since, fresh.remap.at(40), fresh.remap.at(60))
    run(log, compact(fresh, 60))
    assert ["7.json"] == files(log)


@pytest.mark.parametrize("step", ["remap.before-put", "remap.after-put"])
def test_a_minter_that_dies_around_its_put_is_begun_again(log: DirectoryRemap, step: str) -> None:
    """Whether its record is there or not, what it saw is bound once."""
    minted(log, 1)
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        minted(log, 2)
    again = minted(log, 2)

    assert [(0, START), (10, Antichain([1])), (20, Antichain([2]))] == list(again.remap.bindings())
    assert 3 == log.read(0).end


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_compaction_that_dies_while_it_trims_is_finished_by_the_next(log: DirectoryRemap, nth: int) -> None:
    """Readers begin at its summary meanwhile."""
    for line in (1, 2):
        minted(log, line)
    with failpoints.placed("remap.within-trim", nth), pytest.raises(failpoints.PlacedCrash):
        run(log, compact(SharedRemap(), 15))
    fresh = minted(log, 3)
    assert (15, Antichain([3])) == (fresh.remap.since, fresh.remap.current)
    run(log, compact(fresh, 15))

    assert ["5.json"] == files(log) and 6 == log.read(0).end


def test_threads_that_race_agree(log: DirectoryRemap) -> None:
    """On real files, with compactions in between; each binds its own partition."""
    readers = minted_in_threads(lambda: DirectoryRemap(log.path), 8)
    fresh = SharedRemap()
    for reader in (fresh, *readers):
        run(log, follow(reader))
    for reader in readers:
        reader.check(fresh)

    assert offsets({number: 8 for number in range(5)}) == fresh.remap.current
    assert 0 == sum(name.startswith(".") and name.endswith("tmp") for name in files(log))


def test_processes_that_are_killed_leave_a_remap_that_others_go_on_with(log: DirectoryRemap) -> None:
    """SIGKILL before the link, after it, and in a trim: what is there is whole."""
    program = (
        "import sys\n"
        "from cdcv2.core.antichain import Antichain\n"
        "from cdcv2.timeline.minting import compact, mint, run\n"
        "from cdcv2.timeline.shared_remap import SharedRemap\n"
        "from cdcv2.logs.remap_files import DirectoryRemap\n"
        "log, shared = DirectoryRemap(sys.argv[1]), SharedRemap(Antichain([0]), recipe='v1')\n"
        "run(log, mint(shared, Antichain([int(sys.argv[2])]), lambda: int(sys.argv[2])))\n"
        "run(log, compact(shared, shared.remap.last))\n"
    )
    for line, step in enumerate(("remap.before-put:2", "remap.after-put:2", "remap.within-trim:2"), 5):
        ran = subprocess.run(
            [sys.executable, "-c", program, str(log.path), str(line)],
            env={"CDCV2_CRASH": step, "CDCV2_CRASH_HOW": "kill", "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert -9 == ran.returncode
    fresh = minted(log, 8)

    assert Antichain([8]) == fresh.remap.current and fresh.remap.since >= 6


@pytest.mark.parametrize("make, error", [
    (lambda path: DirectoryRemap(path / "none"), MissingLogError),
    (lambda path: DirectoryRemap(path / "file"), MissingLogError),
    (lambda path: DirectoryRemap(path / "file", create=True), OutputError),
    (lambda path: DirectoryRemap(path), RefusedError), (lambda path: DirectoryRemap("s3://bucket/remap"), UsageError),
])  # fmt: skip
def test_what_is_no_place_for_a_remap_is_refused(tmp_path: Path, make: Any, error: type[Exception]) -> None:
    """Before anything is written."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(error):
        make(tmp_path)

    assert ["file"] == [entry.name for entry in tmp_path.iterdir()]


def test_trouble_with_the_disk_is_said(log: DirectoryRemap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading that fails can be tried again; writing may have been done."""
    log.append(b"a", 0)
    (log.path / f"{1:020d}.json").mkdir()
    with pytest.raises(UnavailableError, match="cannot be read"):
        log.read(0)
    with pytest.raises(OutputError, match="cannot be written"):
        log.trim(2)
    log.path.rename(log.path.with_name("moved"))
    with pytest.raises(MissingLogError):
        log.read(0)
    with pytest.raises(OutputError):
        log.append(b"b", 1)
