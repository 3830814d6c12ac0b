"""`cdcv2 rewrite` writes what logs hold up to a time into new logs; what is wrong later stays behind."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.description import description_of
from cdcv2.logs.stops import Stop, put_in_folder
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import APPLE, HISTORY, PRICES, Run, append_raw, write

#: Another statement about a time.
POISON = Progress([8], [10], {9: 4})
POISONED: tuple[Message, ...] = (*HISTORY[:5], POISON, HISTORY[5])


def history(run: Run, *logs: object) -> list[str]:
    """The updates, in order."""
    found = run("replay", *logs, "--json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    return [json.dumps([one["data"], one["time"], one["diff"]]) for one in lines if "diff" in one]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_right_up_to_a_time_is_written_wherever_the_poison_stands(run: Run, tmp_path: Path, seed: int) -> None:
    """A contradiction at 9, and bytes that are no message, somewhere between the messages."""
    draw = random.Random(seed)
    messages = list(POISONED)
    draw.shuffle(messages)
    log = write(tmp_path / "poisoned", *messages)
    append_raw(log, b"\xff\xff")
    good = write(tmp_path / "good", *HISTORY[:4])
    at = draw.choice([3, 4, 5, 7])
    before = {path: path.read_bytes() for path in log.iterdir()}
    done = run("rewrite", log, tmp_path / "new", "--at", at)

    assert 0 == done.code, done
    assert f"cdcv2 rewrite: complete through {at}" in done.err
    assert [one for one in history(run, good) if json.loads(one)[1] <= at] == history(run, tmp_path / "new")
    found = run("verify", "--full", tmp_path / "new")
    assert (0, True) == (found.code, f"complete through {at} " in found.out), found
    assert before == {path: path.read_bytes() for path in log.iterdir()}


def test_without_a_time_all_before_the_dispute_is_written_and_3(run: Run, tmp_path: Path) -> None:
    """The reason is named; more than that is not to be had: 1. Decisions lead on."""
    log = write(tmp_path / "poisoned", *POISONED)
    first, late = run("rewrite", log, tmp_path / "new"), run("rewrite", log, tmp_path / "late", "--at", 9)
    kept = run("verify", log, "--quarantine", tmp_path / "q")
    (case,) = [path.stem for path in (tmp_path / "q").glob("*.json")]
    decided = run("resolve", tmp_path / "q", case, "--count", 1)
    whole = run("rewrite", log, tmp_path / "whole", "--quarantine", tmp_path / "q")

    assert (3, 1, 3) == (first.code, late.code, kept.code), first
    assert "complete through 8" in first.err and "9 was asked for" in late.err, late
    assert (0, 0) == (decided.code, whole.code), whole
    assert history(run, write(tmp_path / "good", *HISTORY)) == history(run, tmp_path / "whole")


def test_the_new_logs_are_of_the_same_timeline_and_other_logs(run: Run, captured: Path, tmp_path: Path) -> None:
    """A capture goes on in them: nothing is lost, and nothing there twice."""
    new = tmp_path / "new"
    assert 0 == run("rewrite", captured / "logs", new, "--at", 101936016).code
    old, now = (description_of(DirectoryLog(one / "public.orders")) for one in (captured / "logs", new))
    cut = run("verify", new)
    on = run("capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows",
             "--into", new)  # fmt: skip

    assert old.timeline == now.timeline and old.identity != now.identity
    assert cut.out.splitlines()[-1].endswith("complete through 101936016"), cut
    assert (0, True) == (on.code, on.out.startswith("complete through 102462312")), on
    assert 0 == run("verify", "--full", new).code
    tables = sorted(path.stem for path in (captured / "rows").glob("*.avsc"))
    for table in tables:
        assert history(run, captured / "logs" / table) == history(run, new / table)


@pytest.mark.parametrize("way", [(), ("--before", "from-state")], ids=["from the envelope", "from state"])
def test_a_capture_continues_in_logs_that_are_cut_at_any_time(
    run: Run, captured: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """Behind the snapshot, and before a commit; also where it is started once more."""
    words = ("capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows", *way)
    whole = tmp_path / "whole"
    assert 0 == run(*words, "--into", whole).code
    history_of_all = history(run, whole)
    times = sorted({json.loads(one)[1] for one in history_of_all})
    for at in (times[0] + 1, 102124103, times[-1] - 1):
        new = tmp_path / str(at)
        done = run("rewrite", whole, new, "--at", at)
        on, again = (run(*words, "--into", new, *more) for more in (("--max-records", "3000"), ()))

        assert (0, 0) == (done.code, again.code), (at, done, on, again)
        assert f"complete through {times[-1]}" in again.out, (at, again)
        assert sorted(history_of_all) == sorted(history(run, new)), at


@pytest.mark.parametrize("at", [0, 2])
def test_a_time_before_the_history_is_refused_as_as_of_does(run: Run, prices: Path, tmp_path: Path, at: int) -> None:
    """Nothing is known of it, so no log is to state that nothing was there; and nothing is made."""
    refused, asked = run("rewrite", prices, tmp_path / "new", "--at", at), run("as-of", prices, "--at", at)

    assert (2, 2) == (refused.code, asked.code), refused
    assert f"nothing is known at time {at}: the history begins at 3" in refused.err
    assert refused.err.partition(": ")[2] == asked.err.partition(": ")[2]
    assert not (tmp_path / "new").exists()
    early = run("rewrite", prices, tmp_path / "new", "--at", 5, "--start", 6)
    assert (2, True) == (early.code, "the history begins later, at [6]" in early.err), early
    assert 0 == run("rewrite", prices, tmp_path / "new", "--at", 3).code


@pytest.mark.parametrize("words", [(), ("--at", 9)])
def test_with_the_first_time_in_dispute_the_new_logs_state_nothing(
    run: Run, tmp_path: Path, words: tuple[object, ...]
) -> None:
    """What was before that is not known, in the new logs neither."""
    log = write(tmp_path / "poisoned", Progress([0], [5], {3: 4}), *HISTORY)
    done = run("rewrite", log, tmp_path / "new", *words)
    asked = run("as-of", tmp_path / "new", "--at", 2)

    assert (1 if words else 3) == done.code and "nothing is complete yet" in done.err, done
    assert 1 == asked.code and not list(DirectoryLog(tmp_path / "new", PRICES).read()), asked


def test_what_was_decided_never_to_have_happened_hides_nothing_that_is_stated(run: Run, tmp_path: Path) -> None:
    """No update is left, and the times are finished all the same."""
    log = write(tmp_path / "poisoned", Updates([(APPLE, 3, 1)]), Updates([(APPLE, 3, 2)]), Progress([0], [5], {3: 1}))
    folder = tmp_path / "q"
    for decision in (("--diff", 0), ("--count", 0)):
        run("verify", "--full", log, "--quarantine", folder)
        (case,) = [path.stem for path in folder.glob("*.json") if not path.with_suffix(".decided").exists()]
        assert run("resolve", folder, case, *decision).code in (0, 3)
    done = run("rewrite", log, tmp_path / "new", "--quarantine", folder)

    assert (0, True) == (done.code, "complete through 4" in done.err), done


def test_logs_without_an_update_are_written_up_to_what_they_state(run: Run, tmp_path: Path) -> None:
    """They begin where they are stated from: there is no first time."""
    log = write(tmp_path / "empty", Progress([0], [10], {}))

    assert (0, 0) == (run("rewrite", log, tmp_path / "new").code, run("rewrite", log, tmp_path / "cut", "--at", 4).code)
    assert "complete through 9" in run("verify", tmp_path / "new").out
    assert "complete through 4" in run("verify", tmp_path / "cut").out


def test_a_permanent_stop_needs_a_time_and_stays_behind(run: Run, tmp_path: Path) -> None:
    """From its cause on, the log lacks rows: only the user can know where that is."""
    log = write(tmp_path / "stopped", *HISTORY)
    put_in_folder(log, Stop("transaction 7 lacks a row", "Begin with empty logs"))
    refused, done = run("rewrite", log, tmp_path / "new"), run("rewrite", log, tmp_path / "new", "--at", 5)

    assert (4, True) == (refused.code, "give the last time before it, with --at" in refused.err), refused
    assert (0, True) == (done.code, "5 must be before its cause" in done.err), done
    assert 0 == run("verify", tmp_path / "new").code


def test_two_copies_become_one_log(run: Run, tmp_path: Path) -> None:
    """What one lacks, the other has; a closed history is closed; a second run into the same place is refused."""
    one = write(tmp_path / "one", *HISTORY[:3], Progress([10], [], {}))
    two = write(tmp_path / "two", *HISTORY[3:])
    words = (f"p={one}", f"p={two}", tmp_path / "new")
    done, again = run("rewrite", *words, "--json"), run("rewrite", *words)

    assert (0, 2) == (done.code, again.code), done
    assert {"table": "p", "updates": 6, "frontier": [], "to": str(tmp_path / "new")} == json.loads(done.out)
    assert "holds messages already" in again.err
    assert 0 == run("verify", "--closed", tmp_path / "new").code
    assert history(run, f"p={one}", f"p={two}") == history(run, f"p={tmp_path / 'new'}")


def test_more_updates_than_become_durable_together(
    run: Run, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is stated when it is durable; times that are not whole numbers are not cut."""
    monkeypatch.setattr("cdcv2.cli.rewrite._TOGETHER", 2)
    assert 0 == run("rewrite", prices, tmp_path / "new").code
    statements = [one for entry in DirectoryLog(tmp_path / "new", PRICES).read()
                  if entry is not None and isinstance(one := entry.message, Progress)]  # fmt: skip
    assert [[5], [8], [10]] == [one.upper.to_plain() for one in statements]
    assert 2 == run("rewrite", prices, tmp_path / "other", "--at", "3,4").code


def test_several_logs_go_into_a_directory_each_under_its_name(run: Run, tmp_path: Path) -> None:
    """They are never mixed: no two of them have one place, not even by a link."""
    one, two = write(tmp_path / "a", *HISTORY), write(tmp_path / "b", Progress([0], [10], {}))
    done = run("rewrite", f"first={one}", f"second={two}", tmp_path / "new")
    (tmp_path / "linked" / "first").mkdir(parents=True)
    (tmp_path / "linked" / "second").symlink_to(tmp_path / "linked" / "first")
    mixed = run("rewrite", f"first={one}", f"second={two}", tmp_path / "linked")

    assert 0 == done.code, done
    assert (history(run, one), history(run, two)) == tuple(
        history(run, tmp_path / "new" / name) for name in ("first", "second")
    )
    assert not list((tmp_path / "new").glob("_*"))
    assert (2, True) == (mixed.code, "the copies of first and second would both go there" in mixed.err), mixed
    assert not list((tmp_path / "linked" / "first").iterdir())


def test_a_copy_is_neither_within_what_is_copied_nor_around_it(run: Run, tmp_path: Path) -> None:
    """A folder within a log, one within the directory of a capture, and one that has the log in it: also by a link."""
    log = write(tmp_path / "logs" / "orders", *HISTORY)
    (tmp_path / "link").symlink_to(log)
    for command in ("rewrite", "mangle"):
        for source, target in (
            (log, log / "new"), (log, tmp_path / "link" / "new"), (log.parent, log.parent / "new"), (log, log.parent),
        ):
            refused = run(command, source, target)
            assert (2, True) == (refused.code, "is within the other" in refused.err), (command, target, refused)
    assert not [path for path in tmp_path.rglob("new")]
