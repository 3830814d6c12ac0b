"""`cdcv2 rewrite` writes what logs hold up to a time into new logs; what is wrong later stays behind."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.description import description_of
from cdcv2.logs.stops import Stop, put_in_folder
from cdcv2.protocol.messages import Message, Progress
from tests.cli.conftest import HISTORY, PRICES, Run, append_raw, write

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
    at = draw.choice([0, 3, 5, 7])
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
