"""`cdcv2 verify` reports from the log alone what is complete, missing or wrong; its exit code repeats it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import APPLE, HISTORY, PEAR, PLUM, Run, append_raw, price, write


def test_a_good_log_is_complete_through_its_last_stated_time(run: Run, prices: Path) -> None:
    """Exit 0, and the words that scripts look for."""
    said = run("verify", prices)

    assert (0, "complete through 9", "") == (said.code, said.out.splitlines()[-1], said.err)
    assert 0 == run("verify", "--full", prices).code


def test_closed_demands_the_end(run: Run, prices: Path, tmp_path: Path) -> None:
    """A history that goes on is complete so far, and not complete."""
    said = run("verify", "--closed", prices)
    finished = write(tmp_path / "finished", *HISTORY, Progress([10], []))

    assert (1, True) == (said.code, "the statement that the history is finished" in said.out)
    assert "incomplete: so far complete through 9" in said.out
    end = run("verify", "--closed", finished)
    assert (0, "complete through the end: the history is finished") == (end.code, end.out.splitlines()[-1])


def test_where_nothing_is_complete_yet_it_is_1(run: Run, tmp_path: Path, prices: Path) -> None:
    """Nothing that was stated is missing, but there is nothing to read; one such log of two is enough."""
    empty = write(tmp_path / "empty")
    for words in ([empty], [empty, prices], [write(tmp_path / "sent", HISTORY[0])]):
        said, plain = run("verify", *words), json.loads(run("verify", *words, "--json").out)

        assert (1, "incomplete: so far nothing is complete yet") == (said.code, said.out.splitlines()[-1])
        assert (1, [0]) == (plain["exit"], plain["frontier"])


@pytest.mark.parametrize(
    ("removed", "what", "through"),
    [
        (2, "3 updates missing at time 6", 5),
        (3, "no statement covers the times from 5 to before 8", 4),
        (0, "2 updates missing at time 3", 2),
    ],
)
def test_what_is_removed_is_missed(run: Run, tmp_path: Path, removed: int, what: str, through: int) -> None:
    """Exit 1, what is missing, and how far the log is good all the same."""
    lacking = [message for number, message in enumerate(HISTORY) if number != removed]
    said = run("verify", write(tmp_path / "log", *lacking))

    assert 1 == said.code
    assert what in said.out
    assert f"incomplete: so far complete through {through}" == said.out.splitlines()[-1]


CONTRADICTIONS: dict[str, tuple[Message, ...]] = {
    "diff": (Updates([(APPLE, 3, 1)]), Updates([(APPLE, 3, 2)]), Progress([0], [5], {3: 1})),
    "count": (Progress([0], [5], {3: 2}), Progress([0], [5], {3: 1})),
    "surplus": (Progress([0], [5], {3: 1, 4: 1}), Updates([(APPLE, 3, 1), (PEAR, 3, 1)])),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradiction_is_shown_with_both_positions(run: Run, tmp_path: Path, what: str) -> None:
    """Exit 3, and where to look; as JSON, too."""
    log = write(tmp_path / "log", *CONTRADICTIONS[what])
    said, plain = run("verify", log), json.loads(run("verify", "--json", log).out)

    assert 3 == said.code
    assert "wrong: the log" in said.out and f"{log}[0]@0" in said.out
    (found,) = plain["tables"]["log"]["contradictions"]
    assert (3, what, 3) == (plain["exit"], found["what"], found["time"])
    known = [position["offset"] for position in found["positions"] if position]
    assert ([0] if what == "surplus" else [0, 1]) == known


def test_every_contradiction_is_found_not_only_the_first(run: Run, tmp_path: Path) -> None:
    """To mend a log, one needs to know all that is wrong with it."""
    many = [Updates([(price(number), 3, diff)]) for number in range(14) for diff in (1, 2)]
    log = write(tmp_path / "log", *many, Progress([0], [9], {3: 14}))
    said, plain = run("verify", log), json.loads(run("verify", "--json", log).out)

    assert 14 == len(plain["tables"]["log"]["contradictions"])
    assert (10, True) == (said.out.count("wrong: the log"), "and 4 more; --json names them all" in said.out)
    assert {"id": 0, "price": None, "name": ""} == plain["tables"]["log"]["contradictions"][0]["data"]


def test_only_full_finds_a_contradiction_at_a_finished_time(run: Run, tmp_path: Path) -> None:
    """A reader forgets what it has given out; without --full it counts what came later, and reports that."""
    log = write(tmp_path / "log", *HISTORY, Updates([(PLUM, 9, 5)]))
    quick, full = run("verify", log), run("verify", "--full", log)

    assert (0, True) == (quick.code, "1 updates came at finished times" in quick.out)
    assert (3, True) == (full.code, "the diff 1 and also 5" in full.out)
    assert f"{log}[0]@4 and {log}[0]@6" in full.out


def test_of_bytes_that_are_no_messages_only_so_much_is_held(run: Run, tmp_path: Path) -> None:
    """A topic may hold nothing else, and be larger than the memory: all are counted, the first are shown."""
    log = write(tmp_path / "log", *HISTORY)
    garbled = b"\xff" * 20_000
    append_raw(log, *[garbled] * 3000)
    said = run("verify", log, "--json")
    found = json.loads(said.out)["tables"]["log"]
    text = run("verify", log)

    assert (3, 3000, 1000, 3000) == (
        said.code, found["malformed_number"], len(found["malformed"]), found["counters"]["parked"]
    )
    assert (20_000, "ff" * 1024) == (found["malformed"][0]["bytes"], found["malformed"][0]["raw"])
    assert "ff ... (20000 bytes)" in text.out and "and 2999 more; --json names 1000 of all" in text.out


def test_a_topic_that_is_no_log_is_named_in_one_line(run: Run, tmp_path: Path) -> None:
    """A connector's own topic, given for the log: what it holds, once, and how many more there are."""
    log = write(tmp_path / "log")
    records = [b'{"before": null, "op": "c", "after": {"id": %d}}' % number for number in range(40)]
    append_raw(log, *records[:20])
    append_raw(log, *records[20:])
    said = run("verify", log)
    wrong = [line for line in said.out.splitlines() if "wrong: not" in line]

    assert (3, 1) == (said.code, len(wrong))
    assert "these are JSON records, not messages of a log" in wrong[0] and "captured first" in wrong[0]
    assert "and 39 more; --json names them all" in said.out


def test_copies_of_a_log_are_judged_as_one(run: Run, tmp_path: Path) -> None:
    """What the one lacks the other has; where they differ is a contradiction."""
    left = write(tmp_path / "left", *HISTORY[:4])
    right = write(tmp_path / "right", *HISTORY[1:])
    other = write(tmp_path / "other", Updates([(APPLE, 3, 7)]), *HISTORY[1:])

    assert [0, 1] == [run("verify", left).code, run("verify", right).code]
    said = run("verify", f"prices={left}", f"prices={right}")
    assert (0, "complete through 9") == (said.code, said.out.splitlines()[-1])
    assert 3 == run("verify", "--full", f"prices={left}", f"prices={other}").code


def test_parts_are_complete_up_to_the_meet(run: Run, tmp_path: Path) -> None:
    """Each table is judged by itself; all are complete through what each of them is."""
    ahead = write(tmp_path / "ahead", *HISTORY)
    behind = write(tmp_path / "behind", Progress([0], [7]))
    said = run("verify", ahead, behind)

    assert 0 == said.code
    assert ["ahead: complete through 9", "behind: complete through 6"] == [
        line.partition(" (")[0] for line in said.out.splitlines()[:2]
    ]
    assert "complete through 6" == said.out.splitlines()[-1]


def test_updates_that_nobody_counts_yet_are_told(run: Run, tmp_path: Path) -> None:
    """A writer that died, or is at work: nothing is wrong, and nothing is hidden."""
    said = run("verify", write(tmp_path / "log", *HISTORY, Updates([(PLUM, 12, 1), (PEAR, 13, 1)])))

    assert (0, True) == (said.code, "2 updates are there that no statement counts yet" in said.out)


def test_the_directory_of_a_capture_is_verified_log_by_log(run: Run, captured: Path) -> None:
    """A log per table; and whether notifications stated how many rows the snapshot had."""
    said = run("verify", captured / "logs")
    plain = json.loads(run("verify", "--json", captured / "logs").out)

    assert (0, "complete through 102462312") == (said.code, said.out.splitlines()[-1])
    assert "snapshot completeness assumed" in said.out
    assert "snapshot completeness assumed" in run("verify", captured / "logs" / "public.orders").out
    assert (6, True, [102462313]) == (len(plain["tables"]), plain["snapshot_assumed"], plain["frontier"])


def test_a_log_of_a_capture_that_is_gone_is_missed(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 1, and which; nothing is complete in all tables then."""
    logs = tmp_path / "logs"
    shutil.copytree(captured / "logs", logs)
    shutil.rmtree(logs / "public.orders")
    said, plain = run("verify", logs), json.loads(run("verify", "--json", logs).out)

    assert (1, "incomplete: so far nothing is complete yet") == (said.code, said.out.splitlines()[-1])
    assert f"public.orders: missing: the whole log {logs / 'public.orders'}, which the capture wrote" in said.out
    assert (1, [str(logs / "public.orders")], [0]) == (plain["exit"], plain["gone"], plain["frontier"])
    assert 0 == run("verify", logs / "public.order_items").code
    for words in (["replay", logs], ["mangle", logs, tmp_path / "mangled"]):
        refused = run(*words)
        assert (1, True) == (refused.code, f"the whole log {logs / 'public.orders'}, which the" in refused.err)
    assert not (tmp_path / "mangled").exists()
    assert 0 == run("replay", logs, captured / "logs" / "public.orders", "--output", tmp_path / "out").code
    assert 0 == run("verify", logs, captured / "logs" / "public.orders").code

    pytest.importorskip("yaml")
    view = tmp_path / "m.yaml"
    view.write_text(
        "materialization: m\nlogs: logs\nbindings: [{log: public.orders, target: t}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n"
    )
    missed = run("materialize", view)
    assert (1, True) == (missed.code, f"the whole log {logs / 'public.orders'}, which" in missed.err), missed
    for log in [path for path in logs.iterdir() if path.is_dir()]:
        shutil.rmtree(log)
    for words in (["materialize", view], ["verify", logs], ["replay", logs]):
        refused = run(*words)
        assert (1, True) == (refused.code, f"the whole log {logs}/public." in refused.err), refused
    view.write_text(view.read_text().replace("recovery_log: ", "recovery_log: kafka:"))
    shutil.copytree(captured / "logs" / "public.orders", logs / "public.orders")
    topic = run("materialize", view)
    assert (2, True) == (topic.code, "a path is wanted here, and kafka:recovery is a topic" in topic.err), topic.err
    assert not list(tmp_path.glob("kafka*"))


@pytest.mark.parametrize("raw", ["{", "[]", ""])
@pytest.mark.parametrize("command", ["verify", "replay", "mangle"])
def test_a_damaged_note_of_a_capture_is_refused(
    run: Run, captured: Path, tmp_path: Path, command: str, raw: str
) -> None:
    """It names the logs that there must be: without it, a missing one would not be noticed."""
    logs = tmp_path / "logs"
    shutil.copytree(captured / "logs", logs)
    shutil.rmtree(logs / "public.orders")
    (logs / CAPTURE_FILE).write_text(raw, "utf-8")
    said = run(command, logs, *([tmp_path / "to"] if command == "mangle" else []))

    assert (4, True) == (said.code, "_capture.json is not what a capture writes" in said.err)


def test_a_start_beyond_all_that_is_stated_is_no_completeness(run: Run, tmp_path: Path) -> None:
    """Nothing is stated about what comes from there on."""
    said = run("verify", write(tmp_path / "empty", Progress([0], [10])), "--start", "1999")

    assert (1, "incomplete: so far nothing is complete yet from [1999] on") == (said.code, said.out.splitlines()[-1])


def test_files_that_are_gone_are_missing_and_other_tables_are_judged(
    run: Run, captured: Path, tmp_path: Path
) -> None:
    """Up to where the log can be read, and why no further; with a copy it is complete, but the copy is not whole."""
    logs = tmp_path / "logs"
    shutil.copytree(captured / "logs", logs)
    gone = sorted((logs / "public.orders").glob("*.avro"))[1]
    gone.unlink()
    said, plain = run("verify", logs), json.loads(run("verify", "--json", logs).out)

    lacks = "a part of it is missing, so nothing is known to be complete"
    assert (1, f"incomplete: {lacks}") == (said.code, said.out.splitlines()[-1])
    assert [f"public.orders: {lacks}"] == [one.partition(" (")[0] for one in said.out.splitlines() if lacks in one][:1]
    assert f"  missing: the log {logs / 'public.orders'} has no file {gone.name}" in said.out
    assert "public.order_items: complete through 102462312" in said.out
    found = {name: (table["exit"], len(table["lost"])) for name, table in plain["tables"].items()}
    assert {name: (0, 0) for name in plain["tables"]} | {"public.orders": (1, 1)} == found
    both = json.loads(run("verify", "--json", logs, captured / "logs" / "public.orders").out)
    assert (1, [102462313], [0]) == (both["exit"], both["frontier"], plain["frontier"])


def test_a_log_that_ends_before_the_others_is_named(run: Run, captured: Path, tmp_path: Path) -> None:
    """Its last file is missing: only the rule shows that, by which a capture brings all logs to one end."""
    logs = tmp_path / "logs"
    shutil.copytree(captured / "logs", logs)
    sorted((logs / "public.orders").glob("*.avro"))[-1].unlink()
    said, whole = run("verify", logs), run("verify", captured / "logs")

    behind = "public.orders: behind the others, which are complete through 102462312: "
    assert [behind] == [line[:len(behind)] for line in said.out.splitlines() if ": behind" in line]
    assert ": behind" not in whole.out


def test_files_that_changed_places_are_no_files_of_their_logs(run: Run, captured: Path, tmp_path: Path) -> None:
    """Two logs of like row types, each with a file of the other: both are named, and nothing is complete."""
    logs = tmp_path / "logs"
    shutil.copytree(captured / "logs", logs)
    one, other = (sorted((logs / f"public.pgbench_{name}").glob("*.avro"))[1] for name in ("accounts", "tellers"))
    one.rename(logs / "held")
    other.rename(one)
    (logs / "held").rename(other)
    said = run("verify", "--full", one.parent, other.parent)
    ids = [str(DirectoryLog(path.parent).description().identity) for path in (one, other)]

    assert (1, 2) == (said.code, said.out.count("has not its own file"))
    assert said.out.count(ids[0]) == said.out.count(ids[1]) == 2
    assert "complete through" not in said.out
    assert 4 == run("replay", one.parent).code


def test_a_copy_of_a_directory_is_the_same_log(run: Run, captured: Path, tmp_path: Path) -> None:
    """A file of it that stands under another number is none of its own: what stood there is missing."""
    copy = tmp_path / "public.orders"
    shutil.copytree(captured / "logs" / "public.orders", copy)
    assert 0 == run("verify", captured / "logs" / "public.orders", copy).code
    files = sorted(copy.glob("*.avro"))
    shutil.copy(files[0], files[-1])
    said = run("verify", copy)

    assert (1, True) == (said.code, f"has not its own file {files[-1].name}: it is file 0 of" in said.out)


def test_the_start_of_a_history_can_be_given(run: Run, tmp_path: Path) -> None:
    """A log that was begun in the middle lacks nothing from there on."""
    log = write(tmp_path / "log", *HISTORY[2:])

    assert [1, 0] == [run("verify", log).code, run("verify", "--start", "5", log).code]


def test_a_directory_that_is_not_there_is_asked_after(run: Run, tmp_path: Path) -> None:
    """A wrong path is likelier than a capture that has not begun."""
    said = run("verify", tmp_path / "nothing")

    assert (2, "") == (said.code, said.out)
    assert f"there is no directory {tmp_path / 'nothing'}: is the path right, and has the writer started?" in said.err
