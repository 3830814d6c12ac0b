"""`cdcv2 capture --remap`: plain topics on a timeline, by one capture or several, and every question about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.run.remap_capture import CaptureTopics
from cdcv2.capture.topics import TopicExtents
from cdcv2.cli import shared_capture
from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics
from cdcv2.errors import UnavailableError, UsageError
from cdcv2.logs.capture_manifest import CAPTURE_FILE, manifest_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.log import Place
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run, Said

CLICKS = {"type": "record", "name": "clicks", "fields": [
    {"name": "user", "type": "string"}, {"name": "page", "type": ["null", "string"]}]}  # fmt: skip


def dump(path: Path, number: int, *, first: int = 0, topic: str = "web.clicks") -> Path:
    """A topic of three partitions with clicks."""
    lines = [
        {"topic": topic, "partition": at % 3, "offset": at // 3, "value": json.dumps({"user": f"u{at % 5}"})}
        for at in range(first, number)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump of 90 clicks, and their row type."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "clicks.avsc").write_text(json.dumps(CLICKS), "utf-8")
    dump(tmp_path / "clicks.jsonl", 90)
    return tmp_path


def words(folder: Path, *more: object, into: str = "logs") -> list[object]:
    """The capture of the clicks."""
    return ["capture", folder / "clicks.jsonl", "--remap", folder / "remap", "--plain", "clicks=web.clicks",
            "--rows", folder / "rows", "--into", folder / into, "--bind-as", "a", *more]  # fmt: skip


def users(run: Run, folder: Path, into: str = "logs") -> Counter[str]:
    """How many clicks each user has, by the logs."""
    out = run("as-of", folder / into, "--table", "clicks").out.splitlines()
    return Counter(line.partition(",")[0] for line in out[1:])


def test_a_walk_along_everything_that_can_be_asked(run: Run, folder: Path) -> None:
    """Captured in parts; verified; looked at as of a time; when something happened, and where the topics were."""
    said = run(*words(folder, "--bind-at-most", 30))
    assert (0, True) == (said.code, said.out.endswith(": 90 records\n"))
    last = int(said.out.split()[2].rstrip(":"))
    verified = run("verify", "--full", folder / "logs")
    assert (0, f"complete through {last}") == (verified.code, verified.out.splitlines()[-1])
    assert dict.fromkeys(["u0", "u1", "u2", "u3", "u4"], 18) == users(run, folder)
    assert [f"web.clicks={part}@30" for part in range(3)] == run("where", folder / "remap").out.splitlines()
    bindings = run("inspect", folder / "remap", "--brief").out.splitlines()
    assert 4 == len(bindings) and bindings[1].endswith("by a")
    first = int(run("when", folder / "remap", "web.clicks=2@9").out.split()[-1])
    assert first < int(run("when", folder / "remap", "web.clicks=2@10").out.split()[-1]) < last
    other = run("when", folder / "remap", "clicks=0@17")
    assert (2, True) == (other.code, "there is no source 'clicks' in this remap; there are" in other.err), other.err
    nameless = run("when", folder / "remap", "0@17")
    assert (2, True) == (nameless.code, "0@17 names no source of this remap" in nameless.err), nameless.err
    early = run("as-of", folder / "logs", "--table", "clicks", "--at", first)
    assert (0, 31) == (early.code, len(early.out.splitlines()))
    dump(folder / "clicks.jsonl", 120)
    again = run(*words(folder, "--json"))

    assert (0, 30) == (again.code, json.loads(again.out)["records"])
    assert dict.fromkeys(["u0", "u1", "u2", "u3", "u4"], 24) == users(run, folder)


def test_a_partition_that_is_added_and_one_that_is_silent(run: Run, folder: Path) -> None:
    """Neither holds anything up."""
    run(*words(folder))
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.clicks", "partition": 7, "offset": 0, "value": '{"user": "new"}'}) + "\n")
    said = run(*words(folder))

    assert (0, True) == (said.code, said.out.endswith(": 1 records\n"))
    assert 1 == users(run, folder)["new"]
    assert "web.clicks=7@1" in run("where", folder / "remap").out


def test_logs_are_moved_by_writing_them_twice(run: Run, folder: Path) -> None:
    """A second set of logs under the same remap has the same at the same times, so readers may change over."""
    run(*words(folder, "--bind-at-most", 20))
    said = run(*words(folder, into="moved"))

    assert 0 == said.code
    one, other = (json.loads(run("verify", "--json", folder / into).out)["frontier"] for into in ("logs", "moved"))
    assert one == other
    both = run("verify", "--full", f"clicks={folder / 'logs' / 'clicks'}", f"clicks={folder / 'moved' / 'clicks'}")
    assert (0, True) == (both.code, "25 repeats" in both.out)


def test_a_changed_recipe_is_proposed_and_the_old_one_stops(run: Run, folder: Path) -> None:
    """Exit 4 with what differs; with the option, the new table begins with its time, and the old arguments stop."""
    run(*words(folder))
    (folder / "rows" / "views.avsc").write_text(json.dumps(CLICKS), "utf-8")
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.views", "partition": 0, "offset": 0, "value": '{"user": "v"}'}) + "\n")
    more = ["--plain", "views=web.views"]
    refused = run(*words(folder, *more))
    proposed = run(*words(folder, *more, "--propose-recipe"))
    old = run(*words(folder))

    assert (4, True) == (refused.code, "'views' is captured here, and not bound" in refused.err)
    assert (0, True) == (proposed.code, proposed.out.endswith(": 1 records\n"))
    assert (4, True) == (old.code, "'views' is bound, and not captured here" in old.err)
    assert 2 == len(run("as-of", folder / "logs", "--table", "views").out.splitlines())
    assert ["clicks", "views"] == manifest_of(folder / "logs")["tables"]
    assert 0 == run("verify", folder / "logs").code


def test_logs_of_another_timeline_or_capture_are_refused(run: Run, captured: Path, folder: Path) -> None:
    """Their times mean something else."""
    run(*words(folder))
    shutil.rmtree(folder / "remap")
    other = run(*words(folder))
    debezium = run(*words(folder)[:-4], "--into", captured / "logs")
    (folder / "logs" / CAPTURE_FILE).write_text("[", "utf-8")
    damaged = run(*words(folder))

    assert (4, True) == (other.code, "holds the logs of the timeline" in other.err)
    assert (4, True) == (debezium.code, "holds the logs of another capture" in debezium.err)
    assert (4, True) == (damaged.code, "is not what a capture writes" in damaged.err)


@pytest.mark.parametrize("text", ["", "[", '{"cdcv2-remap": 1, "kind": "proposal"}'])
def test_a_damaged_record_of_the_remap_is_4_with_its_path(run: Run, folder: Path, text: str) -> None:
    """As all that cannot be read; brought back, everything goes on."""
    run(*words(folder))
    path = max((folder / "remap").glob("*.json"))
    whole = path.read_bytes()
    path.write_text(text, "utf-8")
    remap = folder / "remap"
    for asked in (words(folder), ["where", remap], ["inspect", remap], ["compact-remap", remap],
                  ["when", remap, "web.clicks=0@1"]):  # fmt: skip
        said = run(*asked)
        assert 4 == said.code, said.err
        assert f"{path} is no record of a shared remap, or was damaged: " in said.err and "Restore it" in said.err
    path.write_bytes(whole)

    assert 0 == run(*words(folder)).code


def test_a_recipe_whose_logs_are_foreign_is_not_proposed(run: Run, folder: Path) -> None:
    """Of another timeline by their note or by their times, of other rows, or too far behind: the old one goes on."""
    run(*words(folder))
    run(*words(folder, "--remap", folder / "other", into="theirs"))
    shutil.copytree(folder / "theirs", folder / "unnoted")
    (folder / "unnoted" / CAPTURE_FILE).unlink()
    for table, row in ("views", CLICKS), ("odd", {**CLICKS, "fields": [{"name": "at", "type": "long"}]}):
        (folder / "rows" / f"{table}.avsc").write_text(json.dumps(row), "utf-8")
    DirectoryLog(folder / "typed" / "views", RowType.load(folder / "rows" / "odd.avsc"), create=True)
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.views", "partition": 0, "offset": 0, "value": '{"user": "v"}'}) + "\n")
    assert 0 == run("compact-remap", folder / "remap", "--keep", 0).code
    more = ["--plain", "views=web.views", "--propose-recipe"]
    refused = [run(*words(folder, *more, into=into)) for into in ("theirs", "unnoted", "typed", "new")]
    old = run(*words(folder))

    assert [4] * 4 == [said.code for said in refused], [said.err for said in refused]
    for said, text in zip(refused, ("of the timeline", "another remap", "typed/views", "is forgotten")):
        assert text in said.err
    assert (0, False) == (old.code, (folder / "new").exists()), old.err


@pytest.mark.parametrize("first, row, code, text", [
    (5, CLICKS, 4, "begins at 5, and 0 is wanted"),
    (0, {**CLICKS, "fields": [{"name": "at", "type": "long"}]}, 3, "at web.views[0]@0: no row of the topic's table"),
])  # fmt: skip
def test_a_recipe_whose_new_topic_cannot_be_captured_is_not_proposed(
    run: Run, folder: Path, first: int, row: dict[str, object], code: int, text: str
) -> None:
    """Its first records are missing, or its rows are others: bound, the timeline would end there; the old goes on."""
    run(*words(folder))
    (folder / "rows" / "views.avsc").write_text(json.dumps(row), "utf-8")
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.views", "partition": 0, "offset": first, "value": '{"user": "v"}'}) + "\n")
    more = ["--plain", "views=web.views", "--propose-recipe"]
    refused, old = run(*words(folder, *more)), run(*words(folder))
    (folder / "rows" / "views.avsc").write_text(json.dumps(CLICKS), "utf-8")
    right = run(*words(folder, *more, "--begin-at-first"))

    assert (code, True) == (refused.code, text in refused.err), refused.err
    assert (0, 0) == (old.code, right.code), old.err + right.err
    assert 2 == len(run("as-of", folder / "logs", "--table", "views").out.splitlines())


def test_plain_topics_have_no_transactions_that_could_be_in_no_order(run: Run, folder: Path) -> None:
    """The option does not matter to them: views may be made of their logs as before."""
    run(*words(folder))
    dump(folder / "clicks.jsonl", 120)
    said = run(*words(folder, "--ordering", "complete"))

    assert (0, True) == (said.code, said.out.endswith(": 30 records\n"))
    log = DirectoryLog(folder / "logs" / "clicks")
    assert "commit" == log.description().ordering == manifest_of(folder / "logs")["ordering"]


def test_logs_of_others_get_no_note(run: Run, folder: Path) -> None:
    """A capture with the wrong remap is refused, and the one with theirs goes on."""
    run(*words(folder))
    (folder / "logs" / CAPTURE_FILE).unlink()
    other = run(*words(folder, "--remap", folder / "other"))
    right = run(*words(folder))

    assert (4, True) == (other.code, "was written with another remap" in other.err), other.err
    assert (0, ["clicks"]) == (right.code, manifest_of(folder / "logs")["tables"]), right.err


def test_what_is_gone_from_the_topics_is_named_by_its_times(run: Run, folder: Path) -> None:
    """Where the logs have it, nothing is lost; a new set of logs cannot be written any more."""
    run(*words(folder))
    dump(folder / "clicks.jsonl", 90, first=30)
    here = run(*words(folder))
    elsewhere = run(*words(folder, into="moved"))
    dump(folder / "clicks.jsonl", 30)
    shorter = run(*words(folder))

    assert 0 == here.code
    assert (4, True) == (elsewhere.code, "begins at 10, and 0 is wanted" in elsewhere.err)
    assert "Lost are rows of the time" in elsewhere.err
    assert (4, True) == (shorter.code, "the logs have everything" in shorter.err)


def test_a_record_that_is_no_row_is_an_error_with_its_place(run: Run, folder: Path) -> None:
    """Exit 3; everything before it is written."""
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.clicks", "partition": 0, "offset": 30, "value": None}) + "\n")
    said = run(*words(folder, "--bind-at-most", 30))

    assert (3, True) == (said.code, "at web.clicks[0]@30: no row of the topic's table: a tombstone" in said.err)
    assert 60 <= sum(users(run, folder).values()) <= 90


@pytest.mark.parametrize("change, said", [
    (["--plain", "clicks"], "write TABLE=TOPIC"),
    (["--plain", "clicks=web.other"], "each table has one topic"),
    (["--plain", "views=web.clicks"], "each topic one table"),
    (["--plain", "views=web.views"], "the row type of views is missing"),
    (["--follow"], "a dump does not grow"),
    (["--bind-at-most", "0"], "argument --bind-at-most: 0 is not above 0"),
    (["--bind-every", "nan"], "--bind-every nan: it takes seconds, 0 to 1000000000"),
    (["--bind-idle", "-1"], "--bind-idle -1.0: it takes seconds"),
    (["--bind-idle", "inf"], "--bind-idle inf: it takes seconds"),
    (["--plain", "clicks2=web.none"], "the row type of clicks2 is missing"),
])  # fmt: skip
def test_wrong_arguments_leave_nothing_behind(run: Run, folder: Path, change: list[str], said: str) -> None:
    """Exit 2 and what it takes."""
    result = run(*words(folder, *change))

    assert (2, True) == (result.code, said in result.err)
    assert {"rows", "clicks.jsonl"} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("remap, into", [
    ("{}/x", "{}/x"), ("{}/x/../x/", "{}/x"), ("{}/x/clicks", "{}/x"), ("kafka:x.clicks", "kafka:x.{{table}}"),
])  # fmt: skip
def test_a_remap_in_the_place_of_the_logs_is_refused(run: Run, folder: Path, remap: str, into: str) -> None:
    """Exit 2 and both names, before anything is made or reached."""
    given = ["--remap", remap.format(folder), "--into", into.format(folder)]
    said = run(*words(folder, *given))
    options = [str(folder), "--plain", "clicks=web.clicks", "--rows", str(folder / "rows")]

    assert (2, True) == (said.code, "are in one place: give the remap one of its own" in said.err), said.err
    assert {"rows", "clicks.jsonl"} == {path.name for path in folder.iterdir()}
    planned = pytest.importorskip("cdcv2.spark.remap_capture.job")
    parser = pytest.importorskip("cdcv2.spark.capture.job").parser
    reached = ["--log-bootstrap", "nobody:1"] if "kafka:" in f"{given}" else []
    line = [*options, "--no-follow", *reached, "--remap", given[1], "--into", given[3]]
    with pytest.raises(UsageError, match="are in one place"):
        planned.planned(parser().parse_args(line))


def test_a_topic_that_is_not_there_leaves_nothing_behind(run: Run, folder: Path) -> None:
    """Exit 2 and its name."""
    (folder / "rows" / "views.avsc").write_text(json.dumps(CLICKS), "utf-8")
    said = run(*words(folder, "--plain", "views=web.views"))

    assert (2, True) == (said.code, "there is no topic 'web.views'" in said.err)
    assert not (folder / "remap").exists() and not (folder / "logs").exists()


def test_without_a_remap_plain_topics_have_no_times(run: Run, folder: Path) -> None:
    """Exit 2; so has a capture of nothing."""
    plain = ["--plain", "clicks=web.clicks"]
    said = [
        run("capture", folder / "clicks.jsonl", "--rows", folder / "rows", "--into", folder / "logs", *more)
        for more in (plain, [])
    ]
    nothing = run("capture", folder / "clicks.jsonl", "--remap", folder / "remap", "--rows", folder / "rows",
                  "--into", folder / "logs")  # fmt: skip

    remedies = "--plain goes with --remap, and without it", "or --remap REMAP, for plain topics and databases"
    assert [(2, True)] * 2 == [(one.code, remedy in one.err) for one, remedy in zip(said, remedies)]
    assert (2, True) == (nothing.code, "--remap needs topics to bind" in nothing.err)


# -- two processes


def started(folder: Path, name: str, crash: str = "") -> subprocess.Popen[str]:
    """A capture as a process of its own; it is killed at a step, if one is named."""
    environment = {**os.environ, "CDCV2_CRASH": crash, "CDCV2_CRASH_HOW": "kill"}
    line = [*map(str, words(folder, "--bind-at-most", 9, "--max-records", 11)), "--bind-as", name]
    return subprocess.Popen(
        [sys.executable, "-m", "cdcv2", *line], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.xdist_group("jobs")
@pytest.mark.parametrize("step", ["shared-capture.read:3", "files.after-link:4"])
def test_two_processes_one_killed_and_started_again(
    run: Run, folder: Path, step: str, ended: list[subprocess.Popen[str]]
) -> None:
    """One is killed; then both bind and write at once, and the result is one history."""
    dump(folder / "clicks.jsonl", 600)
    ended.append(started(folder, "a", step))
    ended[0].communicate(timeout=120)
    ended += [started(folder, "a"), started(folder, "b")]
    said = [process.communicate(timeout=120) for process in ended[1:]]

    assert ([-9, 0, 0], ["", ""]) == ([process.returncode for process in ended], [text[1] for text in said])
    assert said[0][0].rpartition(":")[0] == said[1][0].rpartition(":")[0]
    assert 0 == run("verify", "--full", folder / "logs").code
    assert dict.fromkeys(["u0", "u1", "u2", "u3", "u4"], 120) == users(run, folder)


# -- following, with topics that do as a test likes


class Flaky(DumpedRanges):
    """Dumped topics that do not answer now and then; when they were looked at often enough, the process is stopped."""

    def __init__(self, dumped: DumpedTopics, looks: int) -> None:
        super().__init__(dumped)
        self.looks, self.failures = looks, 0

    def look(self) -> TopicExtents:
        """As they are."""
        self.looks -= 1
        if not self.looks:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().look()

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """Half of it at first, also when it is looked whether the first records fit."""
        records = list(super().read(ranges))
        self.failures += bool(records)
        if records and self.failures in (1, 2, 4):
            yield from records[: len(records) // 2]
            raise UnavailableError("Kafka does not answer")
        yield from records


def follow(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: object, looks: int = 40) -> Said:
    """The capture, following."""
    flaky = Flaky(DumpedTopics(folder / "clicks.jsonl"), looks)
    with monkeypatch.context() as patched:
        patched.setattr(shared_capture, "_topics", lambda args: CaptureTopics(flaky, lambda: None, "a dump"))
        patched.setattr(time, "sleep", lambda seconds: None)
        return run(*words(folder, "--follow", "--bind-every", 0, "--bind-idle", 0, "--bind-at-most", 30, *more))


def test_topics_that_do_not_answer_are_waited_for(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken of them before is not taken twice; each reason is reported once, and SIGTERM ends it well."""
    said = follow(run, folder, monkeypatch)

    assert (0, 1) == (said.code, said.err.count("waiting: Kafka does not answer"))
    assert dict.fromkeys(["u0", "u1", "u2", "u3", "u4"], 18) == users(run, folder)
    assert 0 == run("verify", "--full", folder / "logs").code


def test_times_of_the_recipe_that_was_are_waited_for(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture that proposes beside one that is behind: it reports that, and goes on when the other is through."""
    run(*words(folder))
    shutil.rmtree(folder / "logs")
    (folder / "rows" / "views.avsc").write_text(json.dumps(CLICKS), "utf-8")
    with open(folder / "clicks.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"topic": "web.views", "partition": 0, "offset": 0, "value": '{"user": "v"}'}) + "\n")
    more = ["--plain", "views=web.views", "--propose-recipe"]
    alone = run(*words(folder, *more))
    waits = follow(run, folder, monkeypatch, *more, looks=10)
    old = run(*words(folder))
    new = run(*words(folder, *more))

    assert (1, True) == (alone.code, "a capture with that one writes them, and stops there" in alone.err)
    assert (0, 1) == (waits.code, waits.err.count("waiting: the log is incomplete"))
    assert (4, True) == (old.code, "'views' is bound, and not captured here" in old.err)
    assert (0, 90) == (new.code, sum(users(run, folder).values()))


def test_directories_that_changed_places_are_not_written(run: Run, folder: Path) -> None:
    """Nor read, by any command: each would be taken for the other, and the next rows go into the wrong one."""
    (folder / "rows" / "views.avsc").write_text(json.dumps(CLICKS), "utf-8")
    views = [json.dumps({"topic": "web.views", "partition": 0, "offset": 0, "value": '{"user": "v"}'})]
    (folder / "views.jsonl").write_text("\n".join(views), "utf-8")
    again = words(folder, folder / "views.jsonl", "--plain", "views=web.views")
    again[2:2] = [again.pop(12)]
    assert 0 == run(*again).code
    logs = folder / "logs"
    for old, new in (("clicks", "x"), ("views", "clicks"), ("x", "views")):
        (logs / old).rename(logs / new)
    dump(folder / "clicks.jsonl", 120)
    before = sorted(path.name for path in logs.glob("*/*"))
    said = [run("as-of", logs, "--table", "clicks"), run("verify", logs), run(*again)]

    assert [4, 4, 4] == [one.code for one in said]
    assert all("clicks holds the log of views, and not that of clicks" in one.err for one in said), said
    assert before == sorted(path.name for path in logs.glob("*/*"))
