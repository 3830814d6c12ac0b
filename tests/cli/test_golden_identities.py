"""What an earlier release stated of the logs that a copy was made of is compared: see tests/golden/identities.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cdcv2 import read_lake
from cdcv2.materialize.targets.lake.view import open_lake
from tests.cli.conftest import Run
from tests.golden import identities

pytest.importorskip("yaml")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "identities"
COPIES = ["history", "view"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A log and its copies, which may be written to."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "old"))


def rows(folder: Path, copy: str) -> list[int]:
    """Those of a copy."""
    return sorted(read_lake(folder / copy, "items").column("id").to_pylist())


def test_a_lake_of_histories_states_the_timeline_and_the_identity_of_its_log() -> None:
    """In the manifest's key ``reader``, whose words are those of today."""
    reader = open_lake(GOLDEN / "history").manifest.reader

    assert (reader["timeline"], reader["logs"]) == ("shop", {"items": ["5a975c67ab964f1c9649d3d3b754acb5"]})
    assert reader.keys() == {"bookmarks", "timeline", "logs"}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_an_earlier_release_goes_on_with_its_log(run: Run, old: Path, copy: str) -> None:
    """Also elsewhere: the log is known by its identity, not by its place."""
    before = rows(old, copy)
    identities.log(old, 5)
    ended = run(*identities.words(old)[copy])

    assert (ended.code, before, rows(old, copy)) == (0, [0, 1, 2], [0, 1, 2, 3, 4]), ended.err


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_an_earlier_release_takes_no_rows_of_another_log(run: Run, old: Path, copy: str) -> None:
    """One that was made again in its place, with the same rows and more, and another identity."""
    shutil.rmtree(old / "items")
    identities.log(old, 5)
    ended = run(*identities.words(old)[copy])

    assert (ended.code, rows(old, copy)) == (4, [0, 1, 2])
    assert "was made of another log 'items': of 5a975c67ab964f1c9649d3d3b754acb5, and it is" in ended.err
