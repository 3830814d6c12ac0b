"""Stream topics on Spark: what they hold is stated when it is complete, not before, whatever dies on the way."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.facts import Record
from cdcv2.capture.memory import StreamMemory, tails_of
from cdcv2.capture.memory_format import read_memory
from cdcv2.capture.stream_counts import StreamCounts
from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    Cdcv2Error, ForeignStateError, MalformedError, MissingLogError, ResumeError, SourceStop, UnsafeTopicError,
    UsageError,
)
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.spark.capture import stream, stream_job
from cdcv2.spark.capture.job import parser
from cdcv2.spark.capture.memory_folder import MemoryFolder
from cdcv2.spark.capture.report import CaptureReport
from tests.cli.conftest import Run, runs
from tests.spark.capturing import log_messages
from tests.spark.test_capture_kafka import produce
from tests.topics import make_topics
from tests.streams import TOPIC, StreamHistory, plain
from tests.test_events import Job

pytestmark = pytest.mark.spark

THING = {"type": "record", "name": "thing", "fields": [{"name": "id", "type": "long"}]}
ROWS = RowType(THING)
OTHER = "web.others"
#: What was kept in a job's state before all memories had one form.
GOLDEN = Path(__file__).parent.parent / "golden" / "captures" / "stream-on-spark.json"
#: Files of two partitions, whose bounds stand before what they count, and behind it.
FILES = [
    {0: [(1, 0, 1), (2, 5, 1), (6, 5)]}, {1: [(3, 3), (1, 1, 1), (1, 0, 1)]}, {0: [(2, 5, -1), (3, 8, 1)]},
]  # fmt: skip
HISTORY = StreamHistory([[*FILES[0][0], *FILES[2][0]], FILES[1][1]])
STEPS = [
    stream.KEPT, release_order.BEFORE_UPDATES, release_order.UPDATES_DURABLE, release_order.STATED,
    release_order.REMEMBERED,
]  # fmt: skip


class StreamRun:
    """Dumped topics in files, one of which is a micro-batch, and the job over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.logs = spark, folder, folder / "logs"
        self.people = io.StringIO()
        self.job = Job()
        self._offsets: dict[tuple[str, int], int] = {}
        (folder / "topics").mkdir()
        (folder / "rows").mkdir()
        for table in ("things", "others"):
            (folder / "rows" / f"{table}.avsc").write_text(json.dumps(THING), "utf-8")

    def put(self, *files: dict[int, list[Any]], topic: str = TOPIC) -> StreamRun:
        """More files: what each has of a partition."""
        for file in files:
            lines = []
            for part, records in file.items():
                for one in records:
                    offset = self._offsets[topic, part] = self._offsets.get((topic, part), -1) + 1
                    value = one if isinstance(one, str) else json.dumps(plain(one))
                    lines.append({"topic": topic, "partition": part, "offset": offset, "value": value})
            number = len(list((self.folder / "topics").iterdir()))
            path = self.folder / "topics" / f"{number:03d}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        return self

    def capture(self, *more: str, tables: tuple[str, ...] = (f"things={TOPIC}",)) -> Exit:
        """Run the job to the end of the files."""
        words = [word for one in tables for word in ("--stream", one)]
        plan = stream_job.planned(parser().parse_args([
            str(self.folder / "topics"), "--rows", str(self.folder / "rows"), "--into", str(self.logs),
            "--state", str(self.folder / "state"), "--max-files", "1", "--no-follow", *words, *more,
        ]))  # fmt: skip
        return stream_job.capture(self.spark, plan, CaptureReport(people=self.people, events=self.job.events))

    def found(self, table: str = "things") -> tuple[dict[tuple[int, int], int], Antichain]:
        """What a reader of the log has, and how far."""
        reader = Iter(log_messages(self.logs / table, ROWS))
        updates = [update for batch in reader for update in batch.updates]
        assert not reader.missing()
        return {(row.id, time): diff for row, time, diff in updates}, reader.frontier


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> StreamRun:
    """Without a file."""
    return StreamRun(spark, tmp_path)


@pytest.mark.parametrize(("step", "lost"), [*((step, False) for step in STEPS), (release_order.UPDATES_DURABLE, True)])
def test_a_crash_at_any_step_leaves_the_same_facts(step: str, lost: bool, job: StreamRun) -> None:
    """With all that was kept lost as well, the source is read again, and the log knows what it has."""
    job.put(*FILES)
    with failpoints.placed(step, 2 if step == stream.KEPT else 1), pytest.raises(failpoints.PlacedCrash):
        job.capture()
    if lost:
        shutil.rmtree(job.folder / "state")

    assert Exit.MISSING == job.capture()
    assert (HISTORY.truth(), Antichain([6])) == job.found()
    lines = job.people.getvalue().splitlines()
    assert "capture: frontier 6; things: 1 updates at times from 8 on wait for a bound" == lines[-1]
    assert f"capture: things -> {job.logs / 'things'}; frontier 0" == lines[0]
    assert "capture: things: frontier 6; 1 updates at times from 8 on wait for a bound" in lines


def copied(job: StreamRun, *offsets: int) -> None:
    """One more file, which has these records of partition 0 as earlier files have them."""
    folder = job.folder / "topics"
    files = sorted(folder.iterdir())
    lines = {json.loads(line)["offset"]: line for file in files for line in file.read_text().splitlines()}
    path = folder / f"{len(files):03d}.jsonl"
    path.write_text("".join(lines[offset] + "\n" for offset in offsets))
    os.utime(path, (1_700_000_000 + len(files), 1_700_000_000 + len(files)))


def test_a_dump_that_begins_where_an_earlier_one_did_adds_what_it_has_more(job: StreamRun) -> None:
    """In a later micro-batch, and in a later run: a record that was read is one record."""
    job.put({0: [(1, 3, 1), (2, 3, 1), (3, 4, 1)]})
    copied(job, 0, 1, 2)
    job.put({0: [(5, None)]})
    assert Exit.DONE == job.capture()
    copied(job, 1)
    job.put({0: [(7, 8, 1), (9, None)]})
    copied(job, *range(6))

    assert Exit.DONE == job.capture()
    assert ({(1, 3): 1, (2, 3): 1, (3, 4): 1, (7, 8): 1}, Antichain([9])) == job.found()


def test_a_record_that_is_there_twice_is_not_the_one_that_is_missing(job: StreamRun) -> None:
    """Of a micro-batch as many records are there as offsets, and one offset is not."""
    job.put({0: [(1, 3, 1), (2, 3, 1), (3, 3, 1), (4, 3)]})
    (only,) = (job.folder / "topics").iterdir()
    lines = only.read_text().splitlines(keepends=True)
    only.write_text("".join([lines[0], lines[1], lines[1], lines[3]]))

    with pytest.raises(UnsafeTopicError, match="lacks 1 offsets between 0 and 3 in partition 0"):
        job.capture()


def test_two_topics_and_the_command_give_the_same_logs(
    job: StreamRun, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The job goes on where it was; the command goes on in the job's logs, and writes the same into its own."""
    tables = (f"things={TOPIC}", f"others={OTHER}")
    job.put({0: [(1, 3, 1), (4, None)]}).put({0: [(7, 2, 1), (9, 1)]}, topic=OTHER).capture(tables=tables)
    job.put({0: [(2, 5, 2), (6, None)]})
    as_version_2(job.folder / "state" / "things")
    assert Exit.DONE == job.capture(tables=tables)
    words = ["capture", *sorted((job.folder / "topics").iterdir()), "--rows", job.folder / "rows",
             *(word for one in tables for word in ("--stream", one)), "--into"]  # fmt: skip
    run: Run = runs(capsys)

    *_, stated = job.job.stream.events
    assert ([6], 0, [], {"records": 2}) == tuple(stated[name] for name in ("frontier", "rows_held", "waits", "counts"))
    assert ({(1, 3): 1, (2, 5): 2}, Antichain([6])) == job.found()
    assert ({(7, 2): 1}, Antichain([9])) == job.found("others")
    for logs in (job.logs, tmp_path / "own"):
        assert (0, "complete through 5: 6 records") == ((done := run(*words, logs)).code, done.out.splitlines()[0])
        assert 0 == run("verify", logs, "--full").code
    on_spark = job.found(), job.found("others")
    job.logs = tmp_path / "own"
    assert on_spark == (job.found(), job.found("others"))


def as_version_2(state: Path) -> None:
    """The memory as it was kept before it had the names of all others."""
    memory = MemoryFolder(state / "manifest")
    now: Any = memory.load()
    memory.save({
        "version": 2, "source": now["capture"]["things"], "query": now["batch"]["query"],
        "batch": now["batch"]["number"], "counts": now["counts"]["things"], "read": now["read"][TOPIC],
        "log": now["logs"]["things"],
    })
    assert json.loads(GOLDEN.read_text("utf-8")).keys() == {*(memory.load() or {}), "digest"}


def test_a_memory_of_version_2_is_read() -> None:
    """As a release before wrote it; version 1 had other columns beside it."""
    plain = json.loads(GOLDEN.read_text("utf-8"))
    kept = read_memory(StreamMemory, stream.as_now(plain, TOPIC, "things"), {"things": plain["source"]})

    counts, [tail] = StreamCounts(kept.counts["things"], 6), tails_of(kept.logs).values()
    assert (6, True, {(TOPIC, 0): 1}, 6, {0: 2}) == (
        counts.released, counts.compares, kept.read, tail.known, tail.positions
    )
    assert kept.batch == {"query": plain["query"], "number": 0}
    with pytest.raises(ForeignStateError, match="version '1 of streams', and this release reads 1: remove the memory"):
        read_memory(StreamMemory, stream.as_now({**plain, "version": 1}, TOPIC, "things"), {})


def stops(job: StreamRun, kind: type[Cdcv2Error], text: str) -> None:
    """The capture ends with this."""
    with pytest.raises(kind, match=text):
        job.capture()


@pytest.mark.parametrize(("files", "kind", "text"), [
    ([{0: [(1, 3, 1), (4, None), (1, 3, 1)]}], SourceStop, r"an update at time 3 \(web.things\[0\]@2\) came after"),
    ([{0: [(5, None), (4, None), (5, None)]}], SourceStop, r"the bound 4 \(web.things\[0\]@1\) goes back"),
    ([{0: [(5, None)], 1: [(1, 7, 1)]}], MalformedError, r"web.things\[0\]@0: .* several partitions"),
    ([{0: [(1, 3, 1), (1, 2, 1), (4, 1)]}], SourceStop, "stated to have 1 rows before time 4, and 2 have come"),
    ([{0: [(1, 3, 1), '{"id": 1, "time": 3, "diff": 0}']}], MalformedError, r"web.things\[0\]@1: .*0 is no diff"),
], ids=["late", "back", "partitions", "count", "diff"])  # fmt: skip
def test_what_is_wrong_stops_it_at_its_place(
    job: StreamRun, files: list[Any], kind: type[Cdcv2Error], text: str
) -> None:
    """As the command does."""
    stops(job.put(*files), kind, text)


def test_a_record_that_is_missing_and_a_state_without_its_checkpoint_are_refused(job: StreamRun) -> None:
    """And updates that the log has and the topic has not: stated as none they would contradict it for ever."""
    log = DirectoryLog(job.logs / "things", ROWS, create=True)
    log.send(Updates([(ROWS.row((9,)), 2, 1)]))
    log.flush()
    log.close()
    stops(job.put({0: [(1, 7, 1), (5, None)]}), ResumeError, "another history")
    assert not [message for message in log_messages(job.logs / "things", ROWS) if isinstance(message, Progress)]
    shutil.rmtree(job.logs)
    shutil.rmtree(job.folder / "state")
    job.capture()
    job._offsets[TOPIC, 0] += 1
    stops(job.put({0: [(1, 8, 1)]}), UnsafeTopicError, "'web.things' lacks 2 in partition 0")
    shutil.rmtree(job.folder / "state" / "things" / "checkpoint")
    stops(job, ForeignStateError, "not that of this checkpoint")


@pytest.mark.parametrize(("first", "text"), [((1, 3, 1), None), ((1, 3, 2), "other updates at time 3 than the log")])
def test_without_state_what_the_log_has_is_compared(first: Any, text: str | None, job: StreamRun) -> None:
    """By digests of the executors: nothing is added to a log of another history."""
    job.put({0: [(1, 3, 1), (2, 4, 1), (6, None)]}).capture()
    shutil.rmtree(job.folder / "state")
    shutil.rmtree(job.folder / "topics")
    (job.folder / "topics").mkdir()
    job._offsets.clear()
    job.put({0: [first]}, {0: [(2, 4, 3), (2, 4, -2), (6, None), (3, 7, 1), (8, None)]})
    if text is not None:
        stops(job, SourceStop, text)
        assert ({(1, 3): 1, (2, 4): 1}, Antichain([6])) == job.found()
        return
    assert Exit.DONE == job.capture()
    assert ({(1, 3): 1, (2, 4): 1, (3, 7): 1}, Antichain([8])) == job.found()


@pytest.mark.parametrize(("words", "text"), [
    (["f", "g", "--state", "s"], "one directory of dumps"),
    (["f"], "--state DIR is missing"),
    (["f", "--state", "s", "--prefix", "shop"], "--prefix does not go with --stream"),
])  # fmt: skip
def test_wrong_usage_is_found_before_spark_begins(words: list[str], text: str, tmp_path: Path) -> None:
    """By the plan."""
    (tmp_path / "things.avsc").write_text(json.dumps(THING), "utf-8")
    given = ["--stream", "things=t", "--rows", str(tmp_path), "--into", str(tmp_path / "logs"), *words]
    with pytest.raises(UsageError, match=text):
        stream_job.planned(parser().parse_args(given))


def test_topics_that_are_not_there_are_named(job: StreamRun) -> None:
    """One that does not follow waits for none."""
    job.put({0: [(1, 3, 1), (5, None)]}, topic=OTHER)
    stops(job, MissingLogError, rf"there is no topic '{TOPIC}' in {job.folder / 'topics'}: its name is wrong")
    assert not job.logs.exists()
    shutil.rmtree(job.folder / "topics")
    stops(job, MissingLogError, "there is no directory")


def test_a_topic_that_was_begun_may_have_no_file_any_more(job: StreamRun) -> None:
    """Files that were read may be removed."""
    assert Exit.DONE == job.put({0: [(1, 3, 1), (5, None)]}).capture()
    (job.folder / "topics/000.jsonl").unlink()
    assert Exit.DONE == job.capture()
    assert ({(1, 3): 1}, Antichain([5])) == job.found()


@pytest.mark.integration
def test_from_kafka_into_logs_in_kafka(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job and the command read the same topic of two partitions, where only a count can be a bound."""
    topic = "streams.things"
    make_topics(broker.bootstrap, {topic: 2, "streams.others": 1})
    (tmp_path / "things.avsc").write_text(json.dumps(THING), "utf-8")
    produce(broker, [record._replace(topic=topic) for record in HISTORY.records()], "")
    words = ["--bootstrap", broker.bootstrap, "--stream", f"things={topic}", "--rows", str(tmp_path)]
    with pytest.raises(MissingLogError, match="there is no topic 'streams.nothing'"):
        job_over(spark, [*words[:2], "--stream", "things=streams.nothing", *words[4:]], tmp_path / "none")
    people = job_over(spark, words, tmp_path / "state")
    run = runs(capsys)

    assert people.endswith("capture: frontier 6; things: 1 updates at times from 8 on wait for a bound\n")
    log = KafkaLog("streams.log.things", broker.bootstrap, ROWS)
    reader = Iter([entry.message for entry in log.read() if entry is not None])
    updates = {(row.id, time): diff for batch in reader for row, time, diff in batch.updates}
    assert (HISTORY.truth(), Antichain([6])) == (updates, reader.frontier)
    assert (1, "complete through 5: 8 records\n") == run("capture", "kafka", *words, "--into", tmp_path / "logs")[:2]
    produce(broker, [Record(topic, 0, 0, None, b'{"complete_before": 9}')], "")
    stopped = run("capture", "kafka", *words, "--into", tmp_path / "logs")
    assert 3 == stopped.code and "streams.things[0]@5: no row of the topic's table: a bound without" in stopped.err
    with pytest.raises(MalformedError, match="several partitions"):
        job_over(spark, words, tmp_path / "state")


def job_over(spark: SparkSession, words: list[str], state: Path) -> str:
    """The lines that the job prints for people, from a topic into a topic."""
    people = io.StringIO()
    plan = stream_job.planned(parser().parse_args([
        *words, "--into", "kafka:streams.log.{table}", "--state", str(state), "--no-follow",
    ]))  # fmt: skip
    stream_job.capture(spark, plan, CaptureReport(people=people))
    return people.getvalue()
