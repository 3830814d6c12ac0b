"""Dumped topics: each partition in its order, and damage named with file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.facts import Record
from cdcv2.connectors.dump_files import DumpedTopics
from cdcv2.errors import (
    DecodeError, MalformedError, MissingLogError, UnavailableError, UnsafeTopicError, UsageError,
)


def line(topic: str, partition: int, offset: int, timestamp: int = 0, **more: Any) -> str:
    """A line of a dump."""
    plain = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp, "value": None}
    return json.dumps({**plain, **more})


def dumped(path: Path, *lines: str) -> Path:
    """A dump with these lines."""
    raw = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize("name", ["dump.jsonl", "dump.jsonl.gz"])
def test_a_record_is_what_stood_in_the_topic(tmp_path: Path, name: str) -> None:
    """Key and value as bytes, null as None; what else is there is passed over."""
    whole = line("t", 0, 4, key="k", value="é", headers={"h": "x"})
    path = dumped(tmp_path / name, whole, "", line("t", 0, 5, value=None))
    read = list(DumpedTopics(path).read({("t", 0): 4}))
    assert [Record("t", 0, 4, b"k", "é".encode()), Record("t", 0, 5, None, None)] == read


def test_what_kcat_writes_is_read(tmp_path: Path) -> None:
    """``kcat -C -J``: the value is called payload, the time ts; an absent key and a null payload are null."""
    plain = {"topic": "t", "partition": 0, "tstype": "create", "broker": 1, "headers": ["a", "b"]}
    path = dumped(
        tmp_path / "dump", json.dumps({**plain, "offset": 1, "ts": 30, "key": "k", "payload": None}),
        json.dumps({**plain, "offset": 0, "ts": 20, "key": None, "payload": "é"}), line("u", 0, 0, 25),
    )
    read = list(DumpedTopics(path).read())
    assert [Record("t", 0, 0, None, "é".encode()), Record("u", 0, 0, None, None), Record("t", 0, 1, b"k", None)] == read


def test_partitions_are_merged_by_timestamp_and_each_keeps_its_order(tmp_path: Path) -> None:
    """About the order of arrival, so that little is held open; a clock that steps back reorders nothing."""
    path = dumped(
        tmp_path / "dump", line("b", 0, 1, 15), line("b", 0, 0, 20), line("a", 0, 0, 10), line("a", 0, 1, 18),
        line("a", 0, 2, 30),
    )
    dump = DumpedTopics(path)
    assert [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2)] == [(r.topic, r.offset) for r in dump.read()]
    assert {("a", 0): 3, ("b", 0): 2} == dump.ends()
    assert ["a", "b"] == dump.topics()


def test_it_can_be_read_from_positions(tmp_path: Path) -> None:
    """Where a partition is not named, from its start."""
    path = dumped(tmp_path / "dump", *(line(topic, 0, offset) for topic in "ab" for offset in range(3)))
    read = [(r.topic, r.offset) for r in DumpedTopics(path).read({("a", 0): 2})]
    assert [("a", 2), ("b", 0), ("b", 1), ("b", 2)] == sorted(read)


def test_a_partition_that_begins_too_late_is_refused(tmp_path: Path) -> None:
    """With file, topic, partition and offset; not where it was read up to there, nor for a topic that is not needed."""
    path = dumped(tmp_path / "dump", line("a", 2, 3), line("b", 0, 0))
    said = r"in the dump .*dump the topic 'a' begins at 3 in partition 2, and 1 is wanted: .* Dump it from 1 on"
    with pytest.raises(UnsafeTopicError, match=said):
        DumpedTopics(path).read({("a", 2): 1})

    assert 2 == len(list(DumpedTopics(path).read({("a", 2): 3})))
    assert 2 == len(list(DumpedTopics(path, needed=["b"]).read()))


@pytest.mark.parametrize(("start", "gone"), [(0, "2 to 3"), (1, "2 to 3"), (3, "3"), (5, "6"), (6, "6")])
def test_a_gap_in_a_partition_is_refused(tmp_path: Path, start: int, gone: str) -> None:
    """With file, topic, partition and offsets; a record that is there twice is none."""
    path = dumped(tmp_path / "dump", *(line("a", 2, offset) for offset in (0, 1, 1, 4, 5, 7, 8)), line("b", 0, 0))
    said = rf"in the dump .*dump the topic 'a' lacks {gone} in partition 2: .* Dump them too, or"
    with pytest.raises(UnsafeTopicError, match=said):
        DumpedTopics(path).read({("a", 2): start})


def test_a_gap_that_was_passed_or_that_nobody_needs_is_none(tmp_path: Path) -> None:
    """Before the position it was judged before; and a topic that is not captured may be dumped in part."""
    path = dumped(tmp_path / "dump", *(line("a", 2, offset) for offset in (0, 2, 3)), line("b", 0, 0))

    assert [3, 1, 1] == [
        len(list(DumpedTopics(path).read({("a", 2): 2}))), len(list(DumpedTopics(path).read({("a", 2): 4}))),
        len([record for record in DumpedTopics(path, needed=["b"]).read() if record.topic == "b"]),
    ]


def test_several_dumps_are_one(tmp_path: Path) -> None:
    """A topic may be spread over files."""
    first = dumped(tmp_path / "1", line("a", 0, 1))
    second = dumped(tmp_path / "2", line("a", 0, 0))
    assert [0, 1] == [record.offset for record in DumpedTopics(first, second).read()]


def test_what_several_dumps_have_is_there_once(tmp_path: Path) -> None:
    """A copy of a dump adds no record: one BEGIN is not two."""
    first = dumped(tmp_path / "1", line("a", 0, 0, 5, value="x"), line("a", 0, 1, 6, value="y"))
    second = dumped(tmp_path / "2", line("a", 0, 1, 7, value="y"), line("a", 0, 2, 8, value="z"))
    read = [(record.offset, record.value) for record in DumpedTopics(first, second).read()]
    assert [(0, b"x"), (1, b"y"), (2, b"z")] == read


def test_two_different_records_at_one_offset_are_refused(tmp_path: Path) -> None:
    """Of a topic that is needed, whichever way it is read."""
    first = dumped(tmp_path / "1", line("a", 0, 4, value="x"))
    second = dumped(tmp_path / "2", line("a", 0, 4, value="y"))
    with pytest.raises(MalformedError, match=r"two different records stand at a\[0\]@4 in .*1, .*2: .*Dump the topics"):
        DumpedTopics(first, second, needed=["a"])

    assert ["a"] == DumpedTopics(first, second, needed=["b"]).topics()


# Deeper than Python can follow.
DEEP = "[" * 200_000


@pytest.mark.parametrize(("wrong", "reason"), [
    (DEEP, "it is nested too deep"),
    ("{", "Expecting"),
    ("[1]", "it is a list, not an object"),
    ('{"topic": "a"}', "it has no 'partition'"),
    ('{"topic": "a", "partition": 0, "offset": 1, "key": "k"}', "it has neither 'value' nor 'payload', as kcat"),
    (line("a", 0, 1, value=5), "the value is 5, not text or null"),
    (line("a", True, 1), "topic, partition and offset are"),
    (line("a", 0, -1), "partitions and offsets are from 0 on: the partition is 0, the offset -1"),
    (line("a", -2, 1), ".* the partition is -2, the offset 1"),
    *((line("a", 0, 1).replace('"timestamp": 0', f'"{name}": {wrong}'), f"the {name} is {shown}, not a number of milli")
      for name, wrong, shown in (("timestamp", "1e999", "Infinity"), ("ts", "NaN", "NaN"), ("ts", '"now"', '"now"'),
                                 ("timestamp", "[5]", r"\[5\]"))),
])  # fmt: skip
def test_a_line_that_is_no_record_is_named(tmp_path: Path, wrong: str, reason: str) -> None:
    """File, line, and what is wrong with it or missing."""
    path = dumped(tmp_path / "dump", line("a", 0, 0), wrong)
    said = rf"^not a dumped record at .*dump, line 2: {reason}.*\. The dump is at fault: dump the topics again"
    with pytest.raises(DecodeError, match=said):
        DumpedTopics(path)


def test_a_file_that_is_not_there_or_damaged_is_named(tmp_path: Path) -> None:
    """A wrong name is not an empty topic, nor is half a file."""
    with pytest.raises(MissingLogError, match="there is no dump"):
        DumpedTopics(tmp_path / "nowhere")
    whole = gzip.compress(line("a", 0, 0).encode())
    for damaged in (whole[:-9], whole[:12] + b"\xff\xff\xff" + whole[15:], b"no gzip"):
        (tmp_path / "half.gz").write_bytes(damaged)
        with pytest.raises(DecodeError, match="^not a dumped record at .*half.gz: the file is damaged"):
            DumpedTopics(tmp_path / "half.gz")


def test_a_directory_and_a_file_that_cannot_be_read_are_no_dumps(tmp_path: Path) -> None:
    """Each is named, with what to do."""
    with pytest.raises(UsageError, match="is a directory: name the files of the dump"):
        DumpedTopics(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnavailableError, match="the dump .*loop cannot be read"):
        DumpedTopics(tmp_path / "loop")
