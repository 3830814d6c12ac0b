"""A dump that lacks a record, or has one twice, is refused: what lacks may be a fact that nothing else shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE
from cdcv2.capture.facts import Record
from cdcv2.errors import MalformedError, UnsafeTopicError
from cdcv2.protocol.log import Place
from cdcv2.spark.capture.batch_facts import BatchFacts, PartitionSpan, Screen, merged, ranges
from cdcv2.spark.capture.topics import FileTopics
from cdcv2.spark.job import translated
from tests.recorded import recipe
from tests.spark.capturing import CaptureRun, dump_into

PLACE: Place = ("clean_full.transaction", 0)


@pytest.mark.parametrize(("counted", "seen", "said"), [
    (0, PartitionSpan(2, 9, 8, 8), "lacks 0 to 1 in partition 0"),
    (4, PartitionSpan(5, 9, 5, 5), "lacks 4 in partition 0"),
    (4, PartitionSpan(4, 9, 5, 5), "lacks 1 offsets between 4 and 9 in partition 0"),
    (4, PartitionSpan(4, 9, 7, 6), "has offsets between 4 and 9 more than once in partition 0"),
    (4, PartitionSpan(4, 9, 6, 5), "lacks 1 offsets between 4 and 9 in partition 0"),
    (4, PartitionSpan(4, 9, 6, 6), None),
])  # fmt: skip
def test_each_record_comes_once(tmp_path: Path, counted: int, seen: PartitionSpan, said: str | None) -> None:
    """Of the topics that the capture needs; of others it does not matter."""
    topics = FileTopics(tmp_path, recipe("clean_full"))
    topics.is_complete({PLACE: counted}, {("another", 0): seen})
    if said is None:
        topics.is_complete({PLACE: counted}, {PLACE: seen})
        return
    with pytest.raises((UnsafeTopicError, MalformedError), match=said):
        topics.is_complete({PLACE: counted}, {PLACE: seen})


def test_what_executors_read_adds_up() -> None:
    """Each reads a share of a partition, and passes over what was counted before. One that is read twice is one."""
    shares = [BatchFacts(("public.orders",)) for _ in range(2)]
    for offset in range(2, 9):
        shares[offset % 2].read(PLACE, offset)
    screen = Screen({PLACE: 2})

    assert {PLACE: PartitionSpan(2, 8, 7, 7)} == ranges(merged([share.to_json() for share in shares]))
    for offset in (4, 5, 5, 11, 10, 12):
        shares[0].read(PLACE, offset)
    shares[1].read(("another", 0), 7)
    both = {PLACE: PartitionSpan(2, 12, 13, 10), ("another", 0): PartitionSpan(7, 7, 1, 1)}
    assert both == ranges(merged([share.to_json() for share in shares]))
    assert [False, True] == [screen.is_new(PLACE, offset) for offset in (1, 2)]


@pytest.mark.spark
def test_a_record_that_was_taken_out_of_the_files_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """The job ends with the topic, the offset and the remedy; what is complete before it may be stated."""
    records = [Record("clean_full.transaction", 0, offset, None, None) for offset in (0, 1, 3)]
    dump_into(tmp_path / "topics", records, size=99)
    with pytest.raises(UnsafeTopicError, match=r"'clean_full.transaction' lacks 1 offsets between 0 and 3"):
        CaptureRun(tmp_path, recipe("clean_full")).run(spark)


@pytest.mark.spark
@pytest.mark.parametrize("before", [FROM_ENVELOPE, FROM_STATE])
def test_a_record_that_is_there_twice_does_not_stand_for_one_that_is_missing(
    spark: SparkSession, tmp_path: Path, before: str
) -> None:
    """Whatever the job does with its rows: as many records as offsets are no proof."""
    records = [Record("clean_full.transaction", 0, offset, None, None) for offset in (0, 1, 1, 3)]
    dump_into(tmp_path / "topics", records, size=99)
    with pytest.raises(UnsafeTopicError, match=r"'clean_full.transaction' lacks 1 offsets between 0 and 3"):
        CaptureRun(tmp_path, recipe("clean_full", before=before)).run(spark)


@pytest.mark.spark
def test_lines_of_kcat_are_read_and_a_line_without_a_value_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """As without Spark: an absent value is not a null one, which is a tombstone."""
    plain = {"topic": "clean_full.transaction", "partition": 0}
    lines = [{**plain, "offset": 0, "payload": "{}", "ts": 5}, {**plain, "offset": 1, "value": None}]
    (tmp_path / "good.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n", "utf-8")
    everything = {PLACE: (0, 9)}
    read = FileTopics(tmp_path, recipe("clean_full")).ranges(spark, everything).collect()
    assert [(0, b"{}"), (1, None)] == sorted((row["offset"], row["value"] and bytes(row["value"])) for row in read)

    bad = {"neither 'value' nor 'payload'": {"offset": 2, "key": "k"},
           "partitions and offsets are from 0 on: .*2.jsonl: {.*-1": {"offset": -1, "value": "{}"}}
    for number, (reason, more) in enumerate(bad.items(), 1):
        folder = tmp_path / f"bad {number}"
        folder.mkdir()
        (folder / f"{number}.jsonl").write_text(json.dumps({**plain, **more}), "utf-8")
        with pytest.raises(Exception, match=reason) as refused:
            FileTopics(folder, recipe("clean_full")).ranges(spark, {PLACE: (-1, 9)}).collect()
        assert isinstance(translated(refused.value), MalformedError)
