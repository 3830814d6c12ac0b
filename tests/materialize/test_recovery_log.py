"""The recovery log: checkpoint and driver state change together or not at all, and only by who opened last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import FencedError, ForeignStateError, OutputError, RefusedError
from cdcv2.materialize import (
    Checkpoint,
    FileRecoveryLog,
    MemoryRecoveryLog,
    Patch,
    Range,
    RecoveryLog,
    SqliteRecoveryLog,
)
from cdcv2.materialize.recovery_log import merge_patch

START = Antichain([0])
#: Opens the log of the test, as another process would.
Again: TypeAlias = Callable[[], RecoveryLog]


@pytest.fixture(params=["memory", "files", "sqlite"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Again:
    """Each kind of log."""
    memory = MemoryRecoveryLog("m")
    return {
        "memory": lambda: memory,
        "files": lambda: FileRecoveryLog("m", tmp_path / "log"),
        "sqlite": lambda: SqliteRecoveryLog("m", tmp_path / "log.db"),
    }[request.param]


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_are_those_of_the_standard(target: Any, patch: Any, result: Any) -> None:
    """The examples of RFC 7386, appendix A."""
    assert result == merge_patch(target, patch)


def test_what_was_committed_is_found_again(again: Again) -> None:
    """Checkpoint and state, both, by another process."""
    first = again().open(Range(), START)

    assert (Checkpoint(START), {}, None) == found(first)

    first.commit(Checkpoint(Antichain([5]), {"reader": 1}), Patch({"staged": "x", "deep": {"a": 1}}))
    first.commit(Checkpoint(Antichain([7])), Patch({"deep": {"b": 2}, "staged": None}))
    first.patch(Patch({"c": 3}))

    assert (Checkpoint(Antichain([7])), {"deep": {"a": 1, "b": 2}, "c": 3}, None) == found(again().open(Range(), START))


def found(claimed: Any) -> tuple[Any, ...]:
    """What an instance finds."""
    return claimed.recovered.checkpoint, claimed.recovered.state, claimed.recovered.extent


def test_a_state_can_be_replaced_as_a_whole(again: Again) -> None:
    """A patch that is no merge."""
    one = again().open(Range(), START)
    one.patch(Patch({"a": 1}))
    one.patch(Patch({"b": 1}, merge=False))

    assert {"b": 1} == again().open(Range(), START).recovered.state


def test_an_instance_that_was_replaced_changes_nothing(again: Again) -> None:
    """It may not know; the log does."""
    old = again().open(Range(), START)
    new = again().open(Range(), START)
    for change in (
        lambda: old.commit(Checkpoint(Antichain([5])), Patch({"mine": 1})),
        lambda: old.patch(Patch({"mine": 1})),
        lambda: old.prepare(Antichain([5]), None),
        old.demand,
    ):
        with pytest.raises(FencedError, match="this instance of 'm' for the keys 0-4294967295 was fenced off by an"):
            change()
    new.commit(Checkpoint(Antichain([3])), None)

    assert (Checkpoint(Antichain([3])), {}, None) == found(again().open(Range(), START))


def test_ranges_that_share_no_key_leave_each_other_alone(again: Again) -> None:
    """And one that takes over both reads from where the slower is, without a reader's state of either."""
    lower, upper = again().open(Range(0, 99), START), again().open(Range(100, 199), START)
    lower.commit(Checkpoint(Antichain([5]), "reader"), Patch({"l": 1}))
    upper.commit(Checkpoint(Antichain([9]), "reader"), Patch({"u": 1}))
    both = again().open(Range(0, 199), START).recovered

    assert Checkpoint(Antichain([5])) == both.checkpoint
    assert [(0, 99, 5), (100, 199, 9)] == [(p.range.begin, p.range.end, *p.frontier.elements) for p in both.pieces]
    assert {"l": 1, "u": 1} == both.state
    with pytest.raises(FencedError):
        upper.commit(Checkpoint(Antichain([11])), None)


def test_a_transaction_that_has_begun_is_repeated_by_whoever_comes(again: Again) -> None:
    """The extent is there from before the first store until the commit; halves inherit it."""
    one = again().open(Range(), START)
    one.prepare(Antichain([4]), Patch({"a": 1}))

    assert (Checkpoint(START), {"a": 1}, Antichain([4])) == found(again().open(Range(), START))

    half = again().open(Range(0, 99), START)

    assert Antichain([4]) == half.recovered.extent

    half.commit(Checkpoint(Antichain([4])), None)

    assert (Checkpoint(Antichain([4])), {"a": 1}, None) == found(again().open(Range(0, 99), START))
    with pytest.raises(RefusedError, match="open the old ranges again"):
        again().open(Range(), START)


def test_a_log_belongs_to_one_materialization(tmp_path: Path) -> None:
    """Two in one folder would give each other's checkpoints."""
    FileRecoveryLog("m", tmp_path).open(Range(), START)

    with pytest.raises(ForeignStateError, match="holds the recovery log of 'm', not of 'other'"):
        FileRecoveryLog("other", tmp_path).open(Range(), START)


def test_a_log_of_another_version_is_refused(tmp_path: Path) -> None:
    """Guessing what it means would be worse."""
    (tmp_path / f"{3:020d}.json").write_text('{"format": "cdcv2 recovery log", "version": 2}', "utf-8")

    with pytest.raises(ForeignStateError, match="holds no recovery log of version 1"):
        FileRecoveryLog("m", tmp_path).open(Range(), START)


def test_a_database_holds_several_logs(tmp_path: Path) -> None:
    """By name."""
    SqliteRecoveryLog("a", tmp_path / "log").open(Range(), START).commit(Checkpoint(Antichain([5])), None)
    other = SqliteRecoveryLog("b", tmp_path / "log")

    assert Checkpoint(START) == other.open(Range(), START).recovered.checkpoint
    other.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "file").write_text("not a folder", "utf-8")
    for make in (
        lambda: FileRecoveryLog("m", tmp_path / "file").open(Range(), START),
        lambda: SqliteRecoveryLog("m", tmp_path / "file").open(Range(), START),
        lambda: SqliteRecoveryLog("m", tmp_path / "none" / "log").open(Range(), START),
    ):
        with pytest.raises(OutputError, match="'m'"):
            make()


def test_old_numbers_are_removed(tmp_path: Path) -> None:
    """A log that commits every second for a year must not fill its folder."""
    one = FileRecoveryLog("m", tmp_path).open(Range(), START)
    for time in range(1, 40):
        one.commit(Checkpoint(Antichain([time])), None)

    assert FileRecoveryLog.KEPT == len(list(tmp_path.iterdir()))
    assert Checkpoint(Antichain([39])) == FileRecoveryLog("m", tmp_path).open(Range(), START).recovered.checkpoint


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_halves_that_commit_at_the_same_moment_both_do(kind: str, tmp_path: Path) -> None:
    """They share the table of holdings, not a holding: one waits for the other, and neither is lost."""

    def work(half: int) -> None:
        log: RecoveryLog = (
            FileRecoveryLog("m", tmp_path / "log") if kind == "files" else SqliteRecoveryLog("m", tmp_path / "log")
        )
        claimed = log.open(Range(100 * half, 100 * half + 99), START)
        for time in range(1, 21):
            claimed.commit(Checkpoint(Antichain([time + half])), Patch({f"{half}": time}))
        log.close()

    threads = [threading.Thread(target=work, args=[half]) for half in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = (FileRecoveryLog if kind == "files" else SqliteRecoveryLog)("m", tmp_path / "log").open(Range(0, 199), START)

    assert {"0": 20, "1": 20} == last.recovered.state
    assert [20, 21] == [piece.frontier.elements[0] for piece in last.recovered.pieces]
