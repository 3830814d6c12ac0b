"""The recovery log: checkpoint and driver state change together or not at all, and only by who opened last."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import sleep
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


def test_what_was_opened_and_never_committed_may_begin_elsewhere(again: Again) -> None:
    """Where it was to begin is no checkpoint, in the whole range or a part of it, until a first transaction begins."""
    late, early = Antichain([120]), Antichain([3])
    again().open(Range(), late)
    again().open(Range(0, 99), late)

    assert (Checkpoint(early), {}, None) == found(again().open(Range(), early))
    assert [early] == [one.frontier for one in again().open(Range(), early).recovered.pieces]

    again().open(Range(), late).prepare(Antichain([121]), None)
    with pytest.raises(RefusedError, match=r"has begun that is from \[120\] on, and now the view is to begin at \[3\]"):
        again().open(Range(), early)
    again().open(Range(), late).commit(Checkpoint(Antichain([121])), None)
    assert (Checkpoint(Antichain([121])), {}, None) == found(again().open(Range(), early))


def test_an_older_checkpoint_that_shows_no_commit_is_no_reason_to_leave_anything_out(tmp_path: Path) -> None:
    """An older release wrote the start of a view that came to no commit like a checkpoint: with another one it asks."""
    path = tmp_path / "log"
    FileRecoveryLog("m", path).open(Range(), Antichain([120]))
    for file in path.glob("*.json"):
        plain = json.loads(file.read_text())
        del plain["holdings"][0]["checkpoint"]["committed"]
        plain.pop("digest", None)
        file.write_text(json.dumps(plain))

    with pytest.raises(RefusedError, match=r"\[120\] was written by an older release .* the start is now \[3\]"):
        FileRecoveryLog("m", path).open(Range(), Antichain([3]))
    same = FileRecoveryLog("m", path).open(Range(), Antichain([120]))
    assert Checkpoint(Antichain([120])) == same.recovered.checkpoint


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
        with pytest.raises(FencedError, match="this instance of 'm' was fenced off by an"):
            change()
    new.commit(Checkpoint(Antichain([3])), None)

    assert (Checkpoint(Antichain([3])), {}, None) == found(again().open(Range(), START))


def test_looking_on_fences_nobody_off(again: Again) -> None:
    """Each range's checkpoint, for who only asks; a log that was never opened has none."""
    assert [] == again().checkpoints()
    left, right = again().open(Range(0, 99), START), again().open(Range(100, 199), START)
    left.commit(Checkpoint(Antichain([5]), {"reader": 1}), None)

    assert [Checkpoint(Antichain([5]), {"reader": 1}), Checkpoint(START)] == again().checkpoints()

    right.commit(Checkpoint(Antichain([5])), None)
    left.commit(Checkpoint(Antichain([7])), None)


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


def test_transactions_that_have_begun_in_parts_are_finished_there(again: Again) -> None:
    """Two extents cannot be one transaction, also where both parts are at one frontier."""
    for half, extent in ((Range(0, 99), 4), (Range(100, 199), 5)):
        again().open(half, START).prepare(Antichain([extent]), None)

    with pytest.raises(RefusedError, match="open the old ranges again"):
        again().open(Range(0, 199), START)


def test_a_parent_that_comes_back_takes_the_checkpoint_of_its_halves(again: Again) -> None:
    """Its own is stale, and so is the reader's state in it; which views it is of, they know no better."""
    views = {"t": "mark"}
    again().open(Range(0, 199), START).commit(Checkpoint(Antichain([3]), "reader", views), None)
    for half in (Range(0, 99), Range(100, 199)):
        again().open(half, START).commit(Checkpoint(Antichain([7]), "reader", views), None)
    found = again().open(Range(0, 199), START).recovered

    assert Checkpoint(Antichain([7])) == found.checkpoint
    assert [Antichain([7])] == [piece.frontier for piece in found.pieces]
    assert views == found.checkpoint.views


def test_of_a_state_the_narrower_ranges_part_counts(again: Again) -> None:
    """It is the later one: halves take over what their parent has."""
    again().open(Range(0, 199), START).patch(Patch({"a": 1, "b": 1}))
    again().open(Range(0, 99), START).patch(Patch({"a": 2}))

    assert {"a": 2, "b": 1} == again().open(Range(0, 199), START).recovered.state


def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    """A transaction of a driver without a state costs no file more."""
    one = FileRecoveryLog("m", tmp_path).open(Range(), START)
    before = sorted(tmp_path.iterdir())

    assert one.patch(None) is None and {"a": 1} == one.patch(Patch({"a": 1}))
    assert len(before) + 1 == len(list(tmp_path.iterdir()))


def test_a_log_that_was_taken_away_is_not_begun_anew(tmp_path: Path) -> None:
    """The holding of the one that runs is lost: it has to stop."""
    one = FileRecoveryLog("m", tmp_path).open(Range(), START)
    for path in tmp_path.iterdir():
        path.unlink()

    with pytest.raises(FencedError, match="this instance of 'm' was fenced off"):
        one.commit(Checkpoint(Antichain([5])), None)
    assert not list(tmp_path.iterdir())


def test_a_number_that_is_gone_when_it_is_read_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have removed it meanwhile; one that is there and cannot be read is an error."""
    log = FileRecoveryLog("m", tmp_path)
    claimed, read, lower = log.open(Range(100, 199), START), log._files.read, []

    def late(number: int) -> Any:
        if not lower:
            lower.append(FileRecoveryLog("m", tmp_path).open(Range(0, 99), START))
            raise OutputError("it is gone")
        return read(number)

    monkeypatch.setattr(log._files, "read", late)
    claimed.commit(Checkpoint(Antichain([5])), None)
    lower[0].commit(Checkpoint(Antichain([5])), None)

    def never(number: int) -> Any:
        raise OutputError("no rights")

    monkeypatch.setattr(log._files, "read", never)
    with pytest.raises(OutputError, match="no rights"):
        claimed.demand()


@pytest.mark.parametrize("kind", [FileRecoveryLog, SqliteRecoveryLog])
def test_a_log_belongs_to_one_materialization(kind: Any, tmp_path: Path) -> None:
    """Two in one place would give each other's checkpoints; a database has a place for each."""
    place = tmp_path / "log"
    kind("m", place).open(Range(), START)
    if kind is FileRecoveryLog:
        with pytest.raises(ForeignStateError, match=f"^{place} holds the recovery log of 'm', not of 'other'"):
            kind("other", place).open(Range(), START)
    else:
        with sqlite3.connect(place) as database:
            database.execute("UPDATE cdcv2_recovery_log SET materialization = 'other'")
        with pytest.raises(ForeignStateError, match=f"^{place} holds the recovery log of 'm', not of 'other'"):
            kind("other", place).open(Range(), START)


@pytest.mark.parametrize("text", [
    '{"format": "cdcv2 recovery log", "version": 2}', '{"format": "another", "version": 1}',
])  # fmt: skip
def test_a_log_of_another_version_is_refused(tmp_path: Path, text: str) -> None:
    """Guessing what it means would be worse."""
    (tmp_path / f"{3:020d}.json").write_text(text, "utf-8")

    with pytest.raises(ForeignStateError, match="holds no recovery log of version 1"):
        FileRecoveryLog("m", tmp_path).open(Range(), START)


def test_a_damaged_file_is_named_by_its_folder(tmp_path: Path) -> None:
    """One from before there were digests, that lacks something."""
    text = '{"format": "cdcv2 recovery log", "version": 1, "materialization": "m"}'
    (tmp_path / f"{3:020d}.json").write_text(text, "utf-8")

    with pytest.raises(ForeignStateError, match=f"^{tmp_path} is damaged .*'holdings' is missing"):
        FileRecoveryLog("m", tmp_path).holdings()


@pytest.mark.parametrize(("kept", "what"), [('{"version": 1, "digest": "0"}', "digest"), ("3", "pop|items|object")])
def test_a_damaged_database_is_named_by_its_path(tmp_path: Path, kept: str, what: str) -> None:
    """Whether it is JSON of something else, or was changed."""
    log = SqliteRecoveryLog("m", tmp_path / "log")
    log.open(Range(), START)
    log._file.rows("UPDATE cdcv2_recovery_log SET log = ?", [kept])
    with closing(log), pytest.raises(ForeignStateError, match=f"^{tmp_path / 'log'} is damaged .*(?:{what})"):
        log.holdings()


def test_a_database_may_be_used_from_another_thread_than_its_makers(tmp_path: Path) -> None:
    """By one at a time."""
    log = SqliteRecoveryLog("m", tmp_path / "log")
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(log.open(Range(), START)))
    thread.start()
    thread.join()

    assert Checkpoint(START) == done[0].recovered.checkpoint


def test_a_database_that_is_locked_is_named_with_the_cause(tmp_path: Path) -> None:
    """When the patience is over."""
    log = SqliteRecoveryLog("m", tmp_path / "log", patience=0.01)
    assert [(10,)] == log._file.rows("PRAGMA busy_timeout", []), "in milliseconds"
    with closing(sqlite3.connect(tmp_path / "log", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match=f"of 'm' in {tmp_path / 'log'} cannot be used: database is locked; "):
            log.open(Range(), START)


def test_one_that_begins_a_database_waits_for_another_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite refuses it at once, whatever patience it was given: it tries again until that is over."""
    with closing(sqlite3.connect(tmp_path / "log", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE other (one INTEGER)")

        def ended(seconds: float) -> None:
            sleep(seconds)
            if other.in_transaction:
                other.execute("COMMIT")

        with pytest.raises(OutputError, match="database is locked"):
            SqliteRecoveryLog("m", tmp_path / "log", patience=0)
        monkeypatch.setattr("cdcv2.store.sqlite_file.sleep", ended)
        with closing(SqliteRecoveryLog("m", tmp_path / "log")) as log:
            assert Checkpoint(START) == log.open(Range(), START).recovered.checkpoint


def test_a_database_that_cannot_be_read_is_named_with_the_cause(tmp_path: Path) -> None:
    """Also by who only looks."""
    log = SqliteRecoveryLog("m", tmp_path / "log.db")
    log.close()
    with pytest.raises(OutputError, match="recovery log of 'm' in .*log.db .*: Cannot operate on a closed database"):
        log.checkpoints()


def test_a_database_holds_several_logs(tmp_path: Path) -> None:
    """By name."""
    SqliteRecoveryLog("a", tmp_path / "log").open(Range(), START).commit(Checkpoint(Antichain([5])), None)
    other = SqliteRecoveryLog("b", tmp_path / "log")

    assert Checkpoint(START) == other.open(Range(), START).recovered.checkpoint
    other.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "file").write_text("not a folder", "utf-8")
    for make, why in (
        (lambda: FileRecoveryLog("m", tmp_path / "file").open(Range(), START), "'m'"),
        (lambda: SqliteRecoveryLog("m", tmp_path / "none" / "log"), "'m'.*: unable to open database file; "),
    ):
        with pytest.raises(OutputError, match=why):
            make()
    with pytest.raises(ForeignStateError, match="'m'.*: file is not a database: it is damaged"):
        SqliteRecoveryLog("m", tmp_path / "file")


def test_old_numbers_are_removed(tmp_path: Path) -> None:
    """A log that commits every second for a year must not fill its folder."""
    one = FileRecoveryLog("m", tmp_path).open(Range(), START)
    for time in range(1, 40):
        one.commit(Checkpoint(Antichain([time])), None)

    assert FileRecoveryLog.KEPT == len(list(tmp_path.iterdir()))
    assert Checkpoint(Antichain([39])) == FileRecoveryLog("m", tmp_path).open(Range(), START).recovered.checkpoint


def test_one_that_begins_the_same_database_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses at once, and not after its patience, who changes the journal while another writes."""
    other = sqlite3.connect(tmp_path / "log", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("cdcv2.store.sqlite_file.sleep", lambda _seconds: other.execute("COMMIT"))
    log = SqliteRecoveryLog("m", tmp_path / "log")

    assert [] == log.holdings()
    log.close()
    other.close()


def test_one_that_was_faster_is_asked_about(tmp_path: Path) -> None:
    """Of two that write a number one has it; the other decides again, on what that one has left."""
    log, seen = FileRecoveryLog("m", tmp_path), list[list[Any]]()

    def decide(holdings: list[Any]) -> tuple[list[Any], str]:
        seen.append(holdings)
        if len(seen) == 1:
            FileRecoveryLog("m", tmp_path).open(Range(), START)
        return holdings, "decided"

    assert "decided" == log.change(decide)
    assert [0, 1] == [len(holdings) for holdings in seen] and seen[1] == log.holdings()


def test_what_an_instance_has_put_itself_is_its_own_before_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one wrote the next number behind it at once: it decides again, on its own commit."""
    log = FileRecoveryLog("m", tmp_path)
    claimed, put, refused = log.open(Range(), START), log._files.put, list[int]()

    def unknown(number: int, plain: Any) -> None:
        put(number, plain)
        if not refused:
            refused.append(number)
            raise RefusedError("there is one of this number")

    monkeypatch.setattr(log._files, "put", unknown)
    claimed.commit(Checkpoint(Antichain([5])), Patch({"a": 1}))
    claimed.commit(Checkpoint(Antichain([6])), None)

    assert 1 == len(refused)
    assert (Checkpoint(Antichain([6])), {"a": 1}, None) == found(FileRecoveryLog("m", tmp_path).open(Range(), START))


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
