"""The capture job as users start it, by spark-submit: killed, stopped and asked to end, with what it reports."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.facts import Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.event_stream import read_events
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimes
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit
from cdcv2.spark.capture.job import capture, main, outcome, parser, planned
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.job import listen
from cdcv2.spark.session import jvm
from tests.doubles import RecordingLog
from tests.recorded import HOME, TABLES, dump, recipe
from tests.spark.capturing import dump_into, facts_of, log_messages
from tests.spark.submitting import QUICK

pytestmark = pytest.mark.spark

RUN = "clean_full"
PATIENCE = 300.0


@cache
def expected() -> tuple[dict[str, tuple[set[object], object]], str]:
    """What the capture without Spark makes of the whole run, and why it stops."""
    logs: dict[str, RecordingLog] = {table: RecordingLog() for table in TABLES}
    with Capture(recipe(RUN), logs) as capture, pytest.raises(SourceStop) as caught:
        for record in dump(RUN).read():
            capture.absorb(record)
            if capture.needs_ends:
                capture.ends_read(dump(RUN).ends())
        capture.release()
    return facts_of({table: log.durable for table, log in logs.items()}), str(caught.value)


def arguments(folder: Path, *more: str) -> list[str]:
    """A capture from files, one of them in a batch."""
    return [
        str(folder / "topics"), "--prefix", RUN, "--rows", str(HOME / "rows"),
        "--into", str(folder / "logs"), "--state", str(folder / "state"), "--max-files", "1", *more,
    ]


@contextmanager
def submitted(folder: Path, *more: str) -> Iterator[Child]:
    """The running job; it is killed in the end."""
    job = spark_submit("capture", arguments(folder, *more), folder=folder / "job", settings=QUICK)
    try:
        yield job
    finally:
        job.kill9()


def told(job: Child) -> list[dict[str, Any]]:
    """Its structured lines."""
    return [json.loads(line) for line in job.log_since_start().splitlines() if line.startswith('{"job": "capture"')]


def releases(job: Child) -> int:
    """How many releases it has reported."""
    return sum(line["what"] == "released" for line in told(job))


@pytest.mark.xdist_group("jobs")
def test_killed_after_a_release_it_goes_on_and_stops_at_the_truncate(tmp_path: Path) -> None:
    """SIGKILL for the JVM and the Python driver; then the end that the topics have, in one line."""
    records = list(dump(RUN).read())
    dump_into(tmp_path / "topics", records, size=len(records) // 3 + 1)
    events = ("--events", str(tmp_path / "events.jsonl"))
    with submitted(tmp_path, *events) as job:
        job.wait_until(lambda: releases(job) > 0, "a release", PATIENCE)
        job.kill9()
        assert -signal.SIGKILL == job.returncode
    facts, reason = expected()
    before = max(frontier.elements[0] for frontier in frontiers(tmp_path))
    assert 0 < before < max(frontier.elements[0] for _, frontier in facts.values())
    with submitted(tmp_path, "--no-follow", *events) as job:
        assert Exit.UNABLE == job.wait(PATIENCE)
        lines = job.log_since_start().splitlines()
    assert reason in lines[-1]
    assert facts == facts_of({table: log_messages(tmp_path / "logs" / table, TABLES[table]) for table in TABLES})
    last = [line for line in told(job) if line["what"] == "released"][-1]
    assert {last["frontier"]} == {frontier.elements[0] for _, frontier in facts.values()}
    assert not [line for line in lines if "Traceback" in line or "ERROR" in line]
    stated = read_events(tmp_path / "events.jsonl")
    end = stated[-1]
    kinds = [one["event"] for one in stated]
    # The first life may be killed between its release and its statement of it.
    assert ["start", "progress", "end"] == [kind for kind, _ in groupby(kinds[-kinds[::-1].index("start") - 1:])]
    assert (2, 1) == (kinds.count("start"), kinds.count("end"))
    assert ("SourceStop", 4, "mended") == (end["error"], end["exit"], end["retry"])
    assert (True, True) == (end["reason"] in reason, end["remedy"] is not None)
    assert [last["frontier"]] == end["frontier"] == stated[-2]["frontier"]
    assert ReleaseTimes(tmp_path / "logs").read()[-1].ts_ms / 1000 == end["committed_at"]
    assert {"records", "updates", "transactions"} == set(stated[-2]["counts"]) and stated[-2]["rows_held"] > 0


def frontiers(folder: Path) -> list[Any]:
    """How far a reader of each log comes."""
    return [
        frontier for _, frontier in facts_of(
            {table: log_messages(folder / "logs" / table, TABLES[table]) for table in TABLES}
        ).values()
    ]


@pytest.fixture
def signals(spark: SparkSession) -> Iterator[None]:
    """What a job makes of signals, in this process and in Spark's Java, is undone in the end; unheard, they fail."""
    def unheard(*_: object) -> None:
        raise AssertionError("no job listens to signals")

    before = {number: signal.signal(number, unheard) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    java = jvm(spark).sun.misc
    for name in ("TERM", "INT"):
        java.Signal.handle(java.Signal(name), java.SignalHandler.SIG_DFL)


class Told(CaptureReport):
    """Keeps its lines; at the first release the process gets a SIGTERM."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def write(self, what: str, text: str, **facts: Any) -> None:
        """Something happened."""
        self.lines.append(what)
        if 1 == self.lines.count("released"):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("signals")
def test_told_to_end_it_ends_between_two_batches(spark: SparkSession, tmp_path: Path) -> None:
    """SIGTERM is a wish: exit code 0, and the logs are as complete as they are.

    What ``spark-submit`` makes of the signal is the same for all jobs: the tests of the others send it from outside.
    """
    dump_into(tmp_path / "topics", list(dump(RUN).read())[:1200], size=400)
    told, stopping = Told(), threading.Event()
    listen(spark, stopping)
    made = capture(spark, planned(parser().parse_args(arguments(tmp_path))), told, stopping)

    assert Exit.DONE == outcome(made)
    assert ("end", 1) == (told.lines[-1], told.lines.count("released"))
    assert "assumed" == manifest_of(tmp_path / "logs")["snapshot_completeness"]
    [reached] = set(frontiers(tmp_path))
    assert reached == made.frontier


@pytest.mark.parametrize(("more", "text"), [
    (["--tables", "public.nothing", "--max-records", "0"], "argument --max-records"),
    (["--tables", "public.nothing"], "the row type of public.nothing is missing"),
    (["--rows", "nowhere"], "there is no row type in nowhere"),
    (["--rows", "{bad}", "--tables", "public.bad"], "is no JSON"),
    (["--tables", ", ,"], "--tables ', ,' names nothing"),
    (["--into", "kafka:one"], "kafka:NAME.{table}"),
    (["--into", "kafka:one.{table}"], "need --bootstrap"),
    (["--into", "s3://bucket/logs"], "s3: is not supported"),
    (["--into", "file:///nowhere/logs"], "file: is not supported"),
    (["--tables", "public.orders", "--full-identity", "public.order_items"], "is not captured"),
])
def test_wrong_usage_is_one_line_and_code_2(
    more: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found before Spark is started."""
    (tmp_path / "public.bad.avsc").write_text("{")
    assert 2 == main(arguments(tmp_path, *(word.replace("{bad}", str(tmp_path)) for word in more)))
    said = capsys.readouterr().err.splitlines()
    assert 1 == len(said)
    assert text in said[0]


def test_help_shows_how_it_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    """With examples, and what the exit codes mean."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert 0 == caught.value.code
    shown = capsys.readouterr().out
    assert "streaming_jobs/capture.py" in shown
    assert "exit codes:\n  0    done" in shown


def test_the_right_row_type_goes_where_a_wrong_one_failed(spark: SparkSession, tmp_path: Path) -> None:
    """A folder and a state are begun by their first fact: the corrected try takes the same arguments."""
    fields = [{"name": "id", "type": "int"}]
    source = {"name": "src", "schema": "public", "table": "t", "lsn": 9, "snapshot": "last"}
    row = json.dumps({"op": "r", "after": {"id": 1}, "source": source}).encode()
    end = b'{"status": "END", "id": "1:20", "data_collections": [], "ts_ms": 1795251720505}'
    records = [Record("src.public.t", 0, 0, None, row), Record("src.transaction", 0, 0, None, end)]
    dump_into(tmp_path / "topics", records, size=9)
    (tmp_path / "rows").mkdir()
    words = [str(tmp_path / "topics"), "--prefix", "src", "--rows", str(tmp_path / "rows"),
             "--into", str(tmp_path / "logs"), "--state", str(tmp_path / "state"), "--no-follow"]  # fmt: skip

    def tried(columns: list[dict[str, str]], *more: str) -> Any:
        kind = {"type": "record", "name": "t", "fields": columns}
        (tmp_path / "rows" / "public.t.avsc").write_text(json.dumps(kind), "utf-8")
        plan = planned(parser().parse_args([*words, *more]))
        return capture(spark, plan, CaptureReport(people=io.StringIO()))

    with pytest.raises(SourceStop, match="colour"):
        tried([*fields, {"name": "colour", "type": "string"}])
    assert Antichain([21]) == tried(fields).frontier
    assert log_messages(tmp_path / "logs" / "public.t", RowType.load(tmp_path / "rows" / "public.t.avsc"))
    # Also when its last END was committed, by the source's clock; so does one that looks old rows up.
    # Logs without a directory in common have it each.
    apart, state = str(tmp_path / "keyed" / "{table}" / "log"), str(tmp_path / "keyed-state")
    assert Antichain([21]) == tried(fields, "--before", "from-state", "--into", apart, "--state", state).frontier
    for folder in ("logs", "keyed/public.t/log"):
        assert [ReleaseTime(20, 1795251720505)] == ReleaseTimes(tmp_path / folder).read()
