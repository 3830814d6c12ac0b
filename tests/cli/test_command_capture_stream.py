"""`cdcv2 capture --stream`: topics whose records have times of their own, as docs/operations/streams.md states it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.cli import stream_capture
from cdcv2.connectors import kafka_ranges
from tests.cli.conftest import Run
from tests.doubles import GivenRanges
from tests.streams import plain

PAGE = (Path(__file__).resolve().parents[2] / "docs/operations/streams.md").read_text("utf-8")
ROWS = {"type": "record", "name": "things", "fields": [{"name": "id", "type": "long"}]}


def test_the_example_of_the_page_gives_what_the_page_shows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row type, its dump, its commands, one after the other."""
    monkeypatch.chdir(tmp_path)
    blocks = dict(reversed(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)))
    Path("market").mkdir()
    Path("market/prices.avsc").write_text(blocks["json"], "utf-8")
    Path("prices.jsonl").write_text(blocks["jsonl"], "utf-8")
    lines = blocks["text"].splitlines()
    results = {line: run(*shlex.split(line)[2:]) for line in lines if line.startswith("$ ")}

    assert 3 == len(results) and {0} == {result.code for result in results.values()}
    assert lines == [shown for line, result in results.items() for shown in (line, *result.out.splitlines())]


class Dump:
    """A dumped topic, and the command that captures it."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run, self.folder = run, folder
        self.offsets: dict[tuple[str, int], int] = {}
        (folder / "rows").mkdir()
        for table in ("things", "others"):
            (folder / "rows" / f"{table}.avsc").write_text(json.dumps({**ROWS, "name": table}), "utf-8")

    def put(self, *records: Any, topic: str = "web.things", part: int = 0) -> Dump:
        """More records."""
        with open(self.folder / "dump.jsonl", "a", encoding="utf-8") as file:
            for one in records:
                offset = self.offsets[topic, part] = self.offsets.get((topic, part), -1) + 1
                value = one if isinstance(one, str) else json.dumps(plain(one))
                print(json.dumps({"topic": topic, "partition": part, "offset": offset, "value": value}), file=file)
        return self

    def capture(self, *more: str, stream: tuple[str, ...] = ("things=web.things",)) -> Any:
        """What the command gives."""
        words = [word for one in stream for word in ("--stream", one)]
        return self._run("capture", self.folder / "dump.jsonl", *words, "--rows", self.folder / "rows", "--into",
                         self.folder / "logs", *more)  # fmt: skip

    def rows(self, table: str = "things") -> list[str]:
        """The rows of a table as it is."""
        return self._run("as-of", self.folder / "logs", "--table", table).out.splitlines()[1:]


@pytest.fixture
def dump(run: Run, tmp_path: Path) -> Dump:
    """Without a record."""
    return Dump(run, tmp_path)


def test_each_table_is_stated_as_far_as_its_own_topic_is_complete(dump: Dump) -> None:
    """A reader of both has the meet; what is missing is named, with exit code 1, until it is there."""
    two = ("things=web.things", "others=web.others")
    dump.put((1, 3, 1), (5, 1)).put((7, 2, 1), (9, 2), topic="web.others")
    first = dump.capture("--json", stream=two)
    plainly = json.loads(first.out)

    assert (1, {"things": 5, "others": 0}, [0]) == (first.code, plainly["tables"], plainly["frontier"])
    assert "cdcv2 capture: others: 1 of 2 updates before time 9 are missing" in first.err
    second = dump.put((8, 2, 1), topic="web.others", part=1).capture(stream=two)
    assert 0 == second.code and "complete through 4: 3 records" == second.out.splitlines()[0]
    assert ["1"] == dump.rows() and ["7", "8"] == dump.rows("others")


def test_a_log_of_a_stream_ends_where_its_own_topic_does_and_verify_finds_nothing_wrong(dump: Dump, run: Run) -> None:
    """A capture of a database brings its logs to one end; that of a stream has none to bring them to."""
    dump.put((1, 3, 1), (5, 1)).put((7, 2, 1), (9, 1), topic="web.others")
    assert 0 == dump.capture(stream=("things=web.things", "others=web.others")).code
    said = run("verify", dump.folder / "logs")

    assert (0, "complete through 4") == (said.code, said.out.splitlines()[-1])
    assert "behind the others" not in said.out


def test_a_moment_is_no_time_of_a_stream(dump: Dump, run: Run) -> None:
    """What may be asked for is named: no LSN, which a stream does not have."""
    dump.put((1, 3, 1), (5, 1))
    assert 0 == dump.capture().code
    said = run("as-of", dump.folder / "logs", "--table", "things", "--at", "2026-11-21T09:02:06Z")

    assert (2, "") == (said.code, said.out)
    assert "give a time of the stream, as a whole number" in said.err and "LSN" not in said.err


@pytest.mark.parametrize("records", [[], [(0, None)]], ids=["no bound", "a bound at 0"])
def test_each_table_of_two_is_reported(dump: Dump, records: list[Any]) -> None:
    """A reader of both sees nothing, and one of them is complete; the other has stated nothing, which is missing."""
    two = ("things=web.things", "others=web.others")
    dump.put((1, 3, 1), (5, 1)).put((0, 0), *records, topic="web.others")
    first = dump.capture(stream=two)

    assert ["nothing is complete yet: 3 records", "  others: nothing is complete yet",
            "  things: complete through 4"] == first.out.replace(f"{3 + len(records)} rec", "3 rec").splitlines()
    assert 1 == first.code and "cdcv2 capture: others: nothing is complete: no bound is beyond time 0" in first.err


NO_ROW = "web.things[0]@2: no row of the topic's table: "
STATED = "the topic web.things was stated to "


@pytest.mark.parametrize(("records", "code", "text"), [
    (['{"id": 1, "time": 1, "diff": 0}'], 3, f"{NO_ROW}column 'diff': 0 is no diff"),
    (['{"id": 1, "time": 1, "more": 1}'], 3, f"{NO_ROW}the row: there is no column 'more'"),
    ([(1, 3, 1)], 4, f"an update at time 3 (web.things[0]@2) came after {STATED}be complete before 5"),
    ([(4, None)], 4, f"the bound 4 (web.things[0]@2) goes back: {STATED}be complete before 5 already"),
    ([(6, 0)], 4, f"{STATED}have 0 rows before time 6, and 1 have come; the logs are complete through 4"),
])  # fmt: skip
def test_wrong_input_is_an_error_with_its_place_in_every_run(
    dump: Dump, records: list[Any], code: int, text: str
) -> None:
    """What is complete before it is written."""
    dump.put((1, 3, 1), (5, None), *records)
    for _ in range(2):
        stopped = dump.capture("--max-records", "1")
        assert code == stopped.code and text in stopped.err, stopped.err
    assert ["1"] == dump.rows()


def test_a_lost_memory_costs_time_and_no_update_comes_twice(dump: Dump) -> None:
    """And a state whose logs are missing is refused."""
    dump.put((1, 3, 1), (5, None), (2, 7, 1))
    assert 1 == dump.capture().code
    (dump.folder / "logs/_memory.json").unlink()
    dump.put((8, None))

    assert (0, "complete through 7: 4 records\n") == dump.capture()[:2]
    assert ["1", "2"] == dump.rows()
    for path in (dump.folder / "logs/things").iterdir():
        path.unlink()
    (dump.folder / "logs/things").rmdir()
    refused = dump.capture()
    assert 4 == refused.code and "of a log that is missing" in refused.err


@pytest.mark.parametrize(("more", "stream", "text"), [
    (["--prefix", "shop"], ("things=web.things",), "--prefix does not go with --stream"),
    (["--remap", "remap"], ("things=web.things",), "--remap does not go with --stream"),
    (["--before", "from-state"], ("things=web.things",), "--before does not go with --stream"),
    ([], ("things",), "--stream 'things': write TABLE=TOPIC"),
    ([], ("things=web.things", "others=web.things"), "each table has one topic"),
    ([], ("nothing=web.things",), "the row type of nothing is missing"),
    ([], ("things=web.nothing",), "there is no topic 'web.nothing' in"),
    (["--time-column", "id"], ("things=web.things",), "name other columns with --time-column"),
    (["--follow"], ("things=web.things",), "--follow goes with kafka"),
    (["--into", "kafka:cdc.{table}"], ("things=web.things",), "the logs of --stream are in one directory"),
])  # fmt: skip
def test_what_does_not_fit_is_wrong_usage_and_leaves_nothing(
    dump: Dump, more: list[str], stream: tuple[str, ...], text: str
) -> None:
    """Before anything is written."""
    refused = dump.put((1, 3, 1)).capture(*more, stream=stream)

    assert 2 == refused.code and text in refused.err, refused.err
    assert not (dump.folder / "logs").exists()


def test_a_directory_is_that_of_one_capture(dump: Dump) -> None:
    """Other topics are another one; it names both."""
    dump.put((1, 3, 1), (5, None)).put((1, 3, 1), topic="web.others").capture()
    refused = dump.capture(stream=("things=web.others",))

    assert 4 == refused.code
    assert "holds another capture, --stream things=web.things, and not --stream things=web.others" in refused.err


def test_a_first_try_that_stated_nothing_is_corrected_in_its_directory(dump: Dump) -> None:
    """Rows that wait for a bound are in no log yet: they are read again."""
    assert 1 == dump.put((1, 3, 1)).put((2, 3, 1), (5, 1), topic="web.others").capture().code
    assert 0 == dump.capture(stream=("things=web.others",)).code
    assert ["2"] == dump.rows()


def test_the_columns_of_a_first_try_that_stated_nothing_are_corrected(dump: Dump) -> None:
    """Whether it stopped at its first record, or rows wait for a bound."""
    dump.put('{"id": 1, "at": 3, "change": 2}')
    assert 3 == dump.capture().code
    assert 3 == dump.capture("--time-column", "at").code
    assert 1 == dump.capture("--time-column", "at", "--diff-column", "change").code
    dump.put('{"id": 2, "at": 3}', (5, 2))
    assert 0 == dump.capture("--time-column", "at", "--diff-column", "change").code
    assert ["1", "1", "2"] == dump.rows()


@pytest.mark.parametrize("lost", [False, True], ids=["memory kept", "memory lost"])
def test_other_columns_are_another_capture(dump: Dump, lost: bool) -> None:
    """They decide how a record is read; it names both. A directory of before does not state them."""
    dump.put('{"id": 1, "time": 3, "at": 4}').put((5, None))
    row = {**ROWS, "fields": [*ROWS["fields"], *({"name": name, "type": ["null", "long"]} for name in ("at", "n"))]}
    (dump.folder / "rows/things.avsc").write_text(json.dumps(row), "utf-8")
    assert 0 == dump.capture().code
    if lost:
        (dump.folder / "logs/_memory.json").unlink()
    refused = dump.capture("--diff-column", "n2")

    assert 4 == refused.code
    assert "holds another capture, with --diff-column diff, and not with --diff-column n2" in refused.err
    manifest = dump.folder / "logs/_capture.json"
    plainly = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps({name: plainly[name] for name in plainly if "column" not in name}), "utf-8")
    assert 0 == dump.capture().code


def test_a_partition_that_a_later_dump_lacks_is_named(dump: Dump) -> None:
    """Nothing new of it is known; the first dump had all of it."""
    first = dump.put((1, 3, 1), (5, 2)).put((2, 4, 1), part=1).capture()
    assert (0, "") == (first.code, first.err)
    lines = (dump.folder / "dump.jsonl").read_text("utf-8").splitlines(keepends=True)
    (dump.folder / "dump.jsonl").write_text("".join(line for line in lines if '"partition": 0' in line), "utf-8")
    second = dump.capture()

    assert 0 == second.code and ["1", "2"] == dump.rows()
    assert ("cdcv2 capture: the dump has no record of 'web.things' in partition 1, which was read up to 1 before: "
            "nothing new of it is known\n") == second.err  # fmt: skip


@pytest.mark.parametrize("name", ["_more.jsonl", ".more.jsonl.gz"])
def test_files_that_are_not_read_are_named(run: Run, dump: Dump, name: str) -> None:
    """Those of a directory that look like dumps; others are of programs, as Spark leaves them."""
    dump.put((1, 3, 1), (5, None))
    (dump.folder / "dumps").mkdir()
    (dump.folder / "dump.jsonl").rename(dump.folder / "dumps/a.jsonl")
    for other in (name, "_SUCCESS", ".a.jsonl.crc"):
        (dump.folder / "dumps" / other).write_text("no dump", "utf-8")
    said = run("capture", dump.folder / "dumps", "--stream", "things=web.things", "--rows", dump.folder / "rows",
               "--into", dump.folder / "logs")  # fmt: skip

    assert (0, ["1"]) == (said.code, dump.rows())
    assert (f"cdcv2 capture: not read, as their names begin like those of unfinished files, with _ or a dot: "
            f"{dump.folder / 'dumps' / name}\n") == said.err  # fmt: skip


def test_from_kafka_it_follows_until_it_is_told_to_end(
    run: Run, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a topic that is not there, reports how far it is, and ends well though updates wait."""
    records = [Record("web.things", 0, at, None, json.dumps(plain(one)).encode())
               for at, one in enumerate([(1, 3, 1), (5, None), (2, 7, 1)])]  # fmt: skip

    class Cluster(GivenRanges):
        looks = 0

        def look(self) -> TopicExtents:
            self.looks += 1
            if self.looks == 2:
                GivenRanges.__init__(self, records)
            if self.looks == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().look()

    monkeypatch.setattr(kafka_ranges, "KafkaRanges", lambda *_: Cluster())
    monkeypatch.setattr(stream_capture, "kafka_client", lambda args: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    ended = run("capture", "kafka", "--bootstrap", "none:1", "--stream", "things=web.things", "--follow",
                "--rows", dump.folder / "rows", "--into", dump.folder / "logs")  # fmt: skip

    assert (0, "complete through 4: 3 records\n") == ended[:2], ended.err
    assert "cdcv2 capture: waiting: there is no topic 'web.things'" in ended.err
    assert "cdcv2 capture: nothing is complete yet: 1 records; things: 1 updates at times from 3 on" in ended.err


def test_the_help_names_it(run: Run) -> None:
    """With an example."""
    assert "--stream prices=market.prices" in run("capture", "--help").out
