"""Capture on a shared remap, on Spark: the facts of the capture without it, whichever wrote what, wherever it died."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture.facts import End, Record, RowFact
from cdcv2.cli import main as cli
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import (
    DecodeError, ForeignStateError, LogFinishedError, MissingLogError, RefusedError, ResumeError, UnsafeTopicError,
    UsageError,
)
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.writer import Writer
from cdcv2.spark.capture.job import parser, planned
from cdcv2.spark.capture.logs import TableLogs, WriteCounts
from cdcv2.spark.remap_capture import job as bound_job
from cdcv2.timeline.minting import agree, follow, run as minted
from cdcv2.timeline.shared_remap import SharedRemap
from tests.recorded import TABLES, dump, facts
from tests.remap_in_memory import closing
from tests.spark.binding import Bound, dumped
from tests.timelines import notified

pytestmark = pytest.mark.spark

#: So much of a run's history as is small enough.
RUN, RECORDS = "crash_full", 2600
#: What the connector sends again: some at once, and some when others came.
AGAIN = (slice(1700, 1760), slice(1500, 1900))
CLICKS = {"type": "record", "name": "clicks", "fields": [
    {"name": "id", "type": "long"}, {"name": "page", "type": ["null", "string"]}]}  # fmt: skip


def clicks(*values: bytes) -> list[Record]:
    """A plain topic of two partitions; some of its rows are equal."""
    rows = [json.dumps({"id": number % 40}).encode() for number in range(120)]
    return [Record("web.clicks", at % 2, at // 2, None, value) for at, value in enumerate([*rows, *values])]


def history(run: str = RUN) -> list[Record]:
    """Records as they came, some twice, behind the notifications that there would be; it ends in a transaction."""
    found = [record for record in dump(RUN).read() if record.topic.split(".", 1)[1] in {*TABLES, "transaction"}]
    said = [("STARTED", None, None), *(
        ("TABLE_SCAN_COMPLETED", table, sum(
            record.topic.endswith(table) and b'"op":"r"' in (record.value or b"") for record in found
        )) for table in TABLES
    ), ("COMPLETED", None, None)]  # fmt: skip
    once, late = AGAIN
    came = found[:once.stop] + found[once] + found[once.stop:late.stop] + found[late] + found[late.stop:RECORDS]
    records = [notified(at, *one)._replace(topic=f"{RUN}.notes") for at, one in enumerate(said)]
    following = Counter[tuple[str, int]]()
    for record in came:
        records.append(record._replace(offset=following[record.topic, record.partition]))
        following[record.topic, record.partition] += 1
    return [_renamed(record, run) for record in records]


def _renamed(record: Record, run: str) -> Record:
    value = None if record.value is None else record.value.replace(RUN.encode(), run.encode())
    return record._replace(topic=record.topic.replace(RUN, run), value=value)


def words(folder: Path, *prefixes: str, plain: bool = False) -> list[str]:
    """What is captured, with its row types written into the folder."""
    rows = folder / "rows"
    for place in [rows] if len(prefixes) < 2 else [rows / prefix for prefix in prefixes]:
        place.mkdir(parents=True)
        for table, row_type in TABLES.items():
            (place / f"{table}.avsc").write_text(json.dumps(row_type.schema), "utf-8")
    (rows / "clicks.avsc").write_text(json.dumps(CLICKS), "utf-8")
    found = ["--rows", str(rows), *(["--plain", "clicks=web.clicks"] if plain else [])]
    for prefix in prefixes:
        named = f"{prefix}={prefix}.notes" if len(prefixes) > 1 else f"{prefix}.notes"
        found += ["--prefix", prefix, "--notifications", named]
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Bound:
    """A database and a plain topic, bound in many bindings, and carried by the capture without Spark: ``pure``."""
    folder = tmp_path_factory.mktemp("bound")
    dumped(folder / "topics" / "a.jsonl", [*history(), *clicks()])
    bound = Bound(folder, folder / "topics", words(folder, RUN, plain=True))
    assert Exit.MISSING == bound.pure("pure", "--bind-at-most", "150")
    return bound


def test_it_writes_what_the_capture_without_spark_writes(written: Bound, spark: SparkSession) -> None:
    """TEMP included, and an open transaction at the end of every few bindings; then there is nothing more to do."""
    came = written.spark(spark, "spark", "--max-records", "1200")
    again = written.spark(spark, "spark")

    assert written.facts("pure") == written.facts("spark")
    assert (len(history()) + 120, 0) == (came.records, again.records) and came.waiting == again.waiting != []
    # What each run states of itself, the last time: as the command does.
    *_, end = written.job.stream.events
    assert (came.frontier.to_plain(), (came.frontier.elements[0] - 1) / 1000) == (end["frontier"], end["committed_at"])
    assert came.waiting == [wait["text"] for wait in end["waits"]]
    assert {len(history()) + 120, 0} <= {one["counts"].get("records") for one in written.job.stream.events}


def test_a_log_tells_that_its_transactions_are_in_no_order(spark: SparkSession, tmp_path: Path) -> None:
    """Wherever it lies; TEMP, in which the order of transactions is no matter, does not."""
    dumped(tmp_path / "topics" / "a.jsonl", [*history(), *clicks()])
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, RUN, plain=True))
    bound.spark(spark, "logs/{table}", "--ordering", "complete")
    logs = {path.parent.name: DirectoryLog(path.parent) for path in (tmp_path / "logs").rglob("_log.json")}

    assert {*TABLES, "clicks", RUN} == {*logs}
    assert "commit" == logs.pop(RUN).description().ordering
    assert {"complete"} == {log.description().ordering for log in logs.values()}
    assert not list(tmp_path.rglob("_capture.json"))


def test_what_one_holds_the_other_goes_on_with(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the topics by one, the rest by the other, in turns, in the same logs: as one of them alone."""
    records = history()
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, RUN))
    for turn, share in enumerate((0.4, 0.6, 0.8, 1.0)):
        dumped(tmp_path / "topics" / "a.jsonl", records[:int(share * len(records))])
        if turn % 2:
            bound.spark(spark, "both", "--bind-at-most", "200")
        else:
            bound.pure("both", "--bind-at-most", "200")
    bound.pure("pure")

    assert bound.facts("pure") == bound.facts("both")
    assert 0 == cli.main(["verify", "--full", str(tmp_path / "both")])


def test_two_databases_and_a_plain_topic_have_one_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Spark binds, too; both databases have had the same history, so their tables are equal."""
    dumped(tmp_path / "topics" / "a.jsonl", [*history(), *history("other"), *clicks()])
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, RUN, "other", plain=True))
    bound.spark(spark, "spark", "--bind-at-most", "2500")
    bound.pure("pure")
    facts = bound.facts("spark")

    assert bound.facts("pure") == facts
    for table in TABLES:
        one, other = (
            set(ChangeBatch((row, diff) for row, _, diff in facts[f"{run}.{table}"][0])) for run in (RUN, "other")
        )
        assert one == other != set()
    assert 1 == len({str(frontier) for _, frontier in facts.values()})


def test_it_stops_before_the_time_of_a_record_that_is_none(spark: SparkSession, tmp_path: Path) -> None:
    """Each time alike; all logs have what is before it, and nothing of it."""
    dumped(tmp_path / "topics" / "a.jsonl", clicks(b"nonsense", b'{"id": 1}'))
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, plain=True))
    assert Exit.WRONG == bound.pure("pure", "--bind-at-most", "30")
    for _ in range(2):
        with pytest.raises(DecodeError, match=r"web.clicks\[0\]@60: no row .* no JSON"):
            bound.spark(spark, "spark")

    assert bound.facts("pure") == bound.facts("spark") != {"clicks": (set(), None)}


def test_rows_that_come_again_when_their_transaction_is_out_are_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """In the same turn: two bindings, of which the second has the rows once more."""
    table = "public.pgbench_history"
    told = [entry for place, entries in facts(RUN).items() if place[0] == f"{RUN}.{table}" for entry in entries]
    tx = next(fact.tx for _, fact in told if isinstance(fact, RowFact))
    rows = [record for record, fact in told if isinstance(fact, RowFact) and fact.tx == tx]
    [end] = [record for record, fact in facts(RUN)[f"{RUN}.transaction", 0] if isinstance(fact, End) and fact.tx == tx]
    again = [row._replace(partition=0, offset=at) for at, row in enumerate(rows * 2)]
    dumped(tmp_path / "topics" / "a.jsonl", [*again, end._replace(offset=0)])
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / f"{table}.avsc").write_text(json.dumps(TABLES[table].schema), "utf-8")
    bound = Bound(tmp_path, tmp_path / "topics", [
        "--prefix", RUN, "--rows", str(tmp_path / "rows"), "--snapshot", "none"
    ])
    assert 0 == bound.pure("pure", "--bind-at-most", str(2 * len(rows)))
    bound.spark(spark, "spark")

    assert bound.facts("pure") == bound.facts("spark")
    assert {1} == {diff for _, _, diff in bound.facts("spark")[table][0]}


#: Of each turn the plain topics come first, with one table.
STEPS = [
    ("shared-capture.bound", 1), ("shared-capture.read", 2), ("release.table-written", 1),
    ("release.table-stated", 1), ("release.updates-durable", 2), ("release.temp-stated", 1),
    ("release.table-stated", 3), ("writer.updates-durable", 1),
]


@pytest.mark.parametrize(("step", "nth"), STEPS)
def test_died_anywhere_it_goes_on(
    step: str, nth: int, written: Bound, spark: SparkSession, tmp_path: Path
) -> None:
    """In the middle of what it does, in logs that are half written by another: the same facts in the end."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    if step == "shared-capture.bound":
        # Something that is not bound yet.
        more = Record("web.clicks", 0, 60, None, b'{"id": 7}')
        bound.topics = tmp_path / "topics"
        shutil.copytree(written.topics, bound.topics)
        dumped(bound.topics / "b.jsonl", [more])
    with failpoints.placed(step, nth):
        with pytest.raises(failpoints.PlacedCrash):
            bound.spark(spark, "logs", "--max-records", "1300")
    if step.startswith("release."):
        # Where a table is known, what it takes to go on is.
        assert bound.known(f"logs/_temp/{RUN}") >= max(bound.known(f"logs/{table}") for table in TABLES)
    bound.spark(spark, "logs")
    others = written
    if bound.topics != written.topics:
        bound.pure("pure")
        others = bound

    assert others.facts("pure") == bound.facts("logs")


@pytest.mark.parametrize("table", ["clicks", "public.order_items"])
def test_updates_of_another_history_are_refused(
    table: str, written: Bound, spark: SparkSession, tmp_path: Path
) -> None:
    """An update that no statement counts, and that the topics do not have, is not counted, though nothing comes."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    (tmp_path / "logs").mkdir()
    shutil.copy(written.folder / "pure" / "_capture.json", tmp_path / "logs")
    log = DirectoryLog(tmp_path / "logs" / table, TABLES.get(table) or clicks_type(written), create=True)
    with Writer(log) as writer:
        writer.update({"clicks": (99, None), "public.order_items": (1, "tea", 1)}[table], 1, 1)
        writer.stage([10**15])
    with pytest.raises(ResumeError, match="another history"):
        bound.spark(spark, "logs", "--max-records", "1")

    assert 1 >= bound.known(f"logs/{table}")


def clicks_type(written: Bound) -> Any:
    return DirectoryLog(written.folder / "pure" / "clicks").row_type


def test_a_finished_log_takes_nothing(written: Bound, spark: SparkSession, tmp_path: Path) -> None:
    """As for every writer."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    with Writer(DirectoryLog(tmp_path / "logs" / "clicks", clicks_type(written), create=True)) as writer:
        writer.finish()
    shutil.copy(written.folder / "pure" / "_capture.json", tmp_path / "logs")
    with pytest.raises(LogFinishedError):
        bound.spark(spark, "logs")


@pytest.mark.parametrize("lost", ["clicks", "public.pgbench_history"])
def test_what_was_written_must_be_what_was_decided(
    lost: str, written: Bound, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an update is lost on the way to the log, none of its table is stated; a next run goes on."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    write = TableLogs.write

    def less(self: TableLogs, changes: Any, frontier: int) -> dict[tuple[str, int], WriteCounts]:
        done = write(self, changes, frontier)
        # Plain topics and databases are written one after the other.
        last = max((key for key in done if key[0] == lost), default=None)
        if last is None:
            return done
        return {**done, last: replace(done[last], identities=done[last].identities - 1, records=done[last].records - 1)}

    with monkeypatch.context() as patched:
        patched.setattr(TableLogs, "write", less)
        with pytest.raises(UnsafeTopicError, match=rf"of {lost} at time \d+ were read .* Nothing is stated"):
            bound.spark(spark, "logs")
    assert 0 == bound.known(f"logs/{lost}")
    bound.spark(spark, "logs")

    assert written.facts("pure") == bound.facts("logs")


def test_an_error_of_an_executor_ends_it(
    written: Bound, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that error, whatever Spark makes of it; nothing is stated."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    folder, write = tmp_path / "logs" / "clicks", TableLogs.write

    def spoiled(self: TableLogs, changes: Any, frontier: int) -> dict[tuple[str, int], WriteCounts]:
        shutil.rmtree(folder)
        folder.write_text("", "utf-8")
        return write(self, changes, frontier)

    monkeypatch.setattr(TableLogs, "write", spoiled)
    with pytest.raises(MissingLogError, match="^[^\n]*/clicks is no directory, so it is no log$"):
        bound.spark(spark, "logs")

    assert 0 == bound.known("logs/public.order_items")


def test_a_remap_that_was_closed_is_for_the_capture_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Which states that all is finished; the one on Spark refuses it, names the other, and states nothing."""
    dumped(tmp_path / "topics" / "a.jsonl", clicks())
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, plain=True))
    bound.pure("others")
    log, shared = DirectoryRemap(tmp_path / "remap"), SharedRemap()
    minted(log, follow(shared))
    shared.use_recipe(shared.recipe.text)
    minted(log, agree(shared, lambda: closing(shared)))
    with pytest.raises(RefusedError, match="the remap was closed.* Let cdcv2 capture do it"):
        bound.spark(spark, "logs")
    assert 0 == bound.known("logs/clicks")

    assert 0 == bound.pure("logs") == bound.pure("others")
    assert bound.facts("others") == bound.facts("logs")
    assert [True] == [not frontier for _, frontier in bound.facts("logs").values()]


def test_logs_of_another_remap_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Those of a table each in its own place carry no note; their times do not fit."""
    dumped(tmp_path / "topics" / "a.jsonl", clicks())
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, plain=True))
    bound.pure("logs")
    (tmp_path / "remap").rename(tmp_path / "lost")
    bound.pure("others")
    before = bound.known("logs/clicks")
    with pytest.raises(ForeignStateError, match="log clicks has updates at .* written with another remap"):
        bound.spark(spark, "logs/{table}")
    shutil.copy(tmp_path / "rows" / "clicks.avsc", tmp_path / "rows" / "views.avsc")
    dumped(tmp_path / "topics" / "b.jsonl", [Record("web.views", 0, 0, None, b'{"id": 7}')])
    with pytest.raises(ForeignStateError, match="log .*clicks is of the timeline .* written with another remap"):
        bound.spark(spark, "logs/{table}", "--plain", "views=web.views", "--propose-recipe")

    assert before == bound.known("logs/clicks")
    assert 0 == bound.pure("others"), "nothing was proposed"


def test_a_table_that_is_left_out_comes_to_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """With what was bound before, which the logs of another capture have already."""
    dumped(tmp_path / "topics" / "a.jsonl", clicks())
    bound = Bound(tmp_path, tmp_path / "topics", words(tmp_path, plain=True))
    shutil.copy(tmp_path / "rows" / "clicks.avsc", tmp_path / "rows" / "views.avsc")
    views = [Record("web.views", 0, at, None, b'{"id": %d}' % at) for at in range(4)]
    for number, into in ((2, "logs"), (4, "others")):
        dumped(tmp_path / "topics" / "b.jsonl", views[:number])
        assert 0 == bound.pure(into, "--plain", "views=web.views")
    until = bound.known("others/views")
    assert bound.known("logs/views") < until
    bound.spark(spark, "logs", "--propose-recipe")

    assert until == bound.known("logs/views") < bound.known("logs/clicks")
    assert bound.facts("others")["views"] == bound.facts("logs")["views"]


@pytest.mark.parametrize(("more", "said"), [
    (["--state", "there"], "the logs are the only memory"),
    (["--remap", "kafka:remap"], "a remap in Kafka needs --bootstrap"),
    (["--into", "kafka:all"], "need names"),
    (["--into", "file:///nowhere/logs"], "file: is not supported"),
    (["--remap", "s3://bucket/remap"], "s3: is not supported"),
    (["--remap", "kafka:{table}"], "name one of these"),
    (["--bind-at-most", "0"], "argument --bind-at-most: 0 is not above 0"),
    (["--follow"], "not allowed with argument --no-follow"),
])  # fmt: skip
def test_arguments_that_make_no_sense_are_told(more: list[str], said: str, written: Bound) -> None:
    """Before Spark is asked for anything."""
    words = [str(written.topics), "--remap", "remap", "--into", "logs", "--no-follow", *written.words]
    with pytest.raises(UsageError, match=said):
        bound_job.planned(parser().parse_args([*words, *more]))


def test_what_is_for_a_shared_remap_is_refused_without_one(written: Bound) -> None:
    """And what a capture by commit times needs is asked for."""
    words = [str(written.topics), "--into", "logs"]
    with pytest.raises(UsageError, match="--plain goes with --remap"):
        parser().parse_args([*words, *written.words, "--state", "state"])
    with pytest.raises(UsageError, match="--state DIR is missing"):
        planned(parser().parse_args([*words, "--rows", "rows", "--prefix", "shop"]))
    with pytest.raises(UsageError, match="or --remap REMAP"):
        planned(parser().parse_args([*words, "--rows", "rows", "--state", "state"]))


@pytest.fixture(autouse=True)
def let_go(spark: SparkSession) -> Iterator[None]:
    """Whatever happens, nothing stays in the executors' memory."""
    yield
    assert 0 == spark.sparkContext._jsc.getPersistentRDDs().size()  # type: ignore[attr-defined]
