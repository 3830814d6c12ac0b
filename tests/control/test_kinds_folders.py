"""Folders of states, and remaps in them, on this machine's file system."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdcv2.control.entries import EntryState, Kind, Reason
from cdcv2.control.kinds.folders import FOLDER_ASIDE, FOLDER_EMPTIED, FOLDER_MADE, MARK, StateFolderKind
from cdcv2.control.kinds.remaps import THIS_MACHINE, RemapKind
from cdcv2.control.kinds.topics import TopicKind
from tests.denied import deny
from tests.kinds_of_state import STORIES, KindCase, undeclared


def case_in(folder: Path, kind: Kind = Kind.STATE_FOLDER) -> KindCase:
    """A folder that is not there yet."""
    path = folder / "state"

    def theirs() -> None:
        path.mkdir()
        (path / "notes.txt").write_text("theirs")

    how = StateFolderKind() if kind is Kind.STATE_FOLDER else RemapKind(TopicKind({}), StateFolderKind())
    steps = FOLDER_MADE, FOLDER_ASIDE, FOLDER_EMPTIED
    return KindCase(
        kind, how, THIS_MACHINE, str(path), {}, theirs, lambda: shutil.rmtree(path), path.exists, steps
    )


@pytest.mark.parametrize("kind", [Kind.STATE_FOLDER, Kind.REMAP])
@pytest.mark.parametrize("story", [story for story in STORIES if story is not undeclared])
def test_folders_do_as_every_kind_does(story: Callable[[KindCase], None], kind: Kind, tmp_path: Path) -> None:
    """Nothing is left beside them either."""
    story(case_in(tmp_path, kind))

    assert [] == list(tmp_path.iterdir())


def test_what_is_in_a_folder_of_ours_goes_with_it(tmp_path: Path) -> None:
    """And not what its links lead to."""
    case = case_in(tmp_path / "one")
    (tmp_path / "one").mkdir()
    (tmp_path / "theirs").mkdir()
    case.up()
    (tmp_path / "one" / "state" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "one" / "state" / "link").symlink_to(tmp_path / "theirs")
    case.down()

    assert [] == list((tmp_path / "one").iterdir())
    assert (tmp_path / "theirs").is_dir()


def test_an_empty_folder_gets_a_mark(tmp_path: Path) -> None:
    """As somebody with more rights made it; and a mark that was not written whole is written again."""
    case = case_in(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / MARK).write_text('{"vers')

    assert EntryState.MADE is case.up().state
    assert case.entry().nonce in (tmp_path / "state" / MARK).read_text()


def test_a_folder_of_another_catalogue_is_refused_even_when_it_is_empty(tmp_path: Path) -> None:
    """Both are named."""
    first, second = case_in(tmp_path), case_in(tmp_path)
    first.up()
    control = second.control()
    control.desire(second.desired(), lambda: "m1")
    entry = second.go_on(control)

    assert entry.debt is not None and Reason.REFUSED is entry.debt.reason
    assert f"its mark is that of {first.entry().nonce} of capture shop, and this entry is m1" in entry.debt.text


def test_a_folder_that_others_replaced_is_not_removed(tmp_path: Path) -> None:
    """Between our look and our act: what is there is looked at once more."""
    case = case_in(tmp_path)
    made = case.up()
    case.drop()
    case.theirs()
    case.how.destroy(made)

    assert ["notes.txt"] == [path.name for path in (tmp_path / "state").iterdir()]


def test_a_folder_that_is_not_mounted_is_not_missing(tmp_path: Path) -> None:
    """Nothing counts as removed then: it is another folder at the same place."""
    (tmp_path / "disk").mkdir()
    case = case_in(tmp_path / "disk")
    case.up()
    (tmp_path / "disk").rename(tmp_path / "away")
    entry = case.down()
    assert entry.debt is not None and Reason.UNREACHABLE is entry.debt.reason
    (tmp_path / "disk").mkdir()
    entry = case.go_on()
    assert entry.debt is not None and Reason.MOVED is entry.debt.reason

    (tmp_path / "disk").rmdir()
    (tmp_path / "away").rename(tmp_path / "disk")
    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_what_we_may_not_look_at_is_owed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is neither missing nor another's."""
    case = case_in(tmp_path)
    case.up()
    with monkeypatch.context() as patched:
        deny(patched, tmp_path / "state")
        entry = case.down()
        assert entry.debt is not None and Reason.DENIED is entry.debt.reason

    assert EntryState.GONE is case.go_on().state


def test_a_folder_whose_parent_was_restored_is_there_and_is_not_removed(tmp_path: Path) -> None:
    """It has our mark, so jobs go on; it may be a copy of the one that we made, so it is not ours to remove."""
    case = case_in(tmp_path / "one")
    (tmp_path / "one").mkdir()
    case.up()
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "one").rename(tmp_path / "old")
    (tmp_path / "copy").rename(tmp_path / "one")
    restored = case.up()
    left = case.down()

    assert (restored.state, restored.debt) == (EntryState.MADE, None)
    assert left.debt is not None and (left.state, left.debt.reason) == (EntryState.UNWANTED, Reason.MOVED)
    assert case.exists()


def test_a_link_in_its_place_is_not_taken_for_the_folder(tmp_path: Path) -> None:
    """What it leads to is not emptied."""
    case = case_in(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "theirs")
    entry = case.up()

    assert entry.debt is not None and "symbolic link" in entry.debt.text
    assert [] == list((tmp_path / "theirs").iterdir())
