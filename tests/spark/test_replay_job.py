"""The job as its user meets it: arguments, one readable line, exit codes. Signals, and SIGKILL: test_replay_up.py."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from cdcv2.errors import (
    ContradictionError,
    MalformedError,
    MissingLogError,
    OutputError,
    UnavailableError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.spark.capture.job import parser as capture_parser
from cdcv2.spark.job import exit_code, one_line, run, translated, triggered
from cdcv2.spark.materialize import parser as materialize_parser
from cdcv2.spark.replay import main, parser, planned
from cdcv2.spark.sources import LogPlace, LogSources
from tests.spark.replaying import PLAIN, ROWS, put

pytestmark = pytest.mark.spark


def plan_of(*arguments: str):
    """The plan of a command line that has the rest of what it must have."""
    return planned(parser().parse_args(["--state", "/s", "--output", "/o", *arguments]))


def test_a_command_line_becomes_a_plan(tmp_path: Path) -> None:
    """Tables, their copies, their row types, and limits."""
    place = put(tmp_path / "things", [])
    (tmp_path / "notes.avsc").write_text(json.dumps(PLAIN.schema))
    (tmp_path / "kafka").write_text("# secret\nsecurity.protocol = SSL\n")

    plan = plan_of(
        f"things={place.name}", "notes=kafka:a.b", "notes=kafka:c",
        "--row", f"notes={tmp_path / 'notes.avsc'}", "--bootstrap", "h:1",
        "--kafka-config", str(tmp_path / "kafka"), "--max-records", "9", "--start", "5",
    )

    places = [place, LogPlace("notes", "topic", "a.b"), LogPlace("notes", "topic", "c")]
    assert LogSources(places, {"bootstrap.servers": "h:1", "security.protocol": "SSL"}, 9) == plan.logs
    assert ({"notes": PLAIN, "things": ROWS}, [5]) == (plan.tables, plan.start.to_plain())
    assert Path("/s/checkpoint") == plan.checkpoint
    assert "SSL" not in repr(plan)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["things="], "names nothing"),
     (["x=kafka:"], "names nothing"),
     (["x=s3://bucket/x"], "s3: is not supported"),
     (["file:///nowhere/x"], "file: is not supported"),
     (["x=kafka:{{table}}"], "name one of these"),
     (["..=kafka:t"], "the table '..' cannot be taken"),
     (["a\nb=kafka:t"], r"the table 'a\\nb' cannot be taken: .*'\\n'"),
     (["x=kafka:t"], "--bootstrap"),
     (["x=kafka:t", "--bootstrap", "h:1"], "give --row x=FILE.avsc"),
     (["x=kafka:t", "y=kafka:t"], "twice"),
     (["x={things}", "--row", "y=f"], "--row names y"),
     ([], "name the logs"),
     (["x={things}", "x={notes}"], "different row types"),
     (["x={things}", "--start", "-1"], "--start"),
     (["x={things}", "--output", "s3a://b/o"], "s3a")],
)
def test_wrong_arguments_are_refused_by_name(arguments: list[str], words: str, tmp_path: Path) -> None:
    """Before Spark is even started."""
    things = put(tmp_path / "things", []).name
    notes = put(tmp_path / "notes", [], row_type=PLAIN).name

    with pytest.raises(UsageError, match=words):
        plan_of(*(word.format(things=things, notes=notes) for word in arguments))


def test_a_log_without_its_table_s_name_is_called_as_it_is(tmp_path: Path) -> None:
    """As the command has it; so a table with a sign of equality in its name can be named, too."""
    odd = put(tmp_path / "public.My Tab=le, x", []).name

    plan = plan_of(odd, "größe.тест=kafka:a", "kafka:b", "--bootstrap", "h:1", *[
        word for table in ("größe.тест", "b") for word in ("--rows", f"{table}={row_file(tmp_path)}")])

    assert ["b", "größe.тест", "public.My Tab=le, x"] == sorted(plan.tables)
    assert LogPlace("public.My Tab=le, x", "directory", odd) == plan.logs.places[0]


def row_file(folder: Path) -> Path:
    """A row type in a file."""
    (folder / "plain.avsc").write_text(json.dumps(PLAIN.schema))
    return folder / "plain.avsc"


@pytest.mark.parametrize(("content", "words"), [("{", "is no JSON"), ('"long"', "an Avro record schema")])
def test_a_file_that_holds_no_row_type_is_wrong_usage(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for the command: the log is not at fault."""
    (tmp_path / "bad.avsc").write_text(content)
    arguments = ["x=kafka:t", "--bootstrap", "h:1", "--row", f"x={tmp_path / 'bad.avsc'}"]

    assert Exit.USAGE == main(["--state", "/s", "--output", "/o", *arguments])
    said = capsys.readouterr().err.splitlines()
    assert (1, True) == (len(said), words in said[0])


@pytest.mark.parametrize("jobs_parser", [parser, capture_parser, materialize_parser])
@pytest.mark.parametrize("number", ["nan", "inf", "-1", "0", "1e300", "soon"])
def test_an_interval_that_is_none_is_wrong_usage(
    jobs_parser: Callable[[], argparse.ArgumentParser], number: str
) -> None:
    """Spark would fail at it much later, or never begin a batch."""
    with pytest.raises(UsageError, match="argument --interval"):
        jobs_parser().parse_args(["--interval", number])


def test_an_interval_is_told_to_spark_without_exponents() -> None:
    """It reads none."""
    told = []
    for interval in (0.25, 1e-7, 1e6):
        writer = Mock()
        triggered(writer, available_now=False, interval=interval)
        told.append(writer.trigger.call_args.kwargs["processingTime"])
    assert ["250 milliseconds", "1 milliseconds", f"{10**9} milliseconds"] == told


def test_a_directory_that_is_no_log_is_said_to_be_missing(tmp_path: Path) -> None:
    """As a topic would be."""
    with pytest.raises(MissingLogError, match="no directory"):
        plan_of(f"x={tmp_path / 'nothing'}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Caused by: KafkaIllegalStateException: Could not read records in offset [175, 225)", UnsafeTopicError),
     ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: gone", MissingLogError),
     ("KafkaException: TimeoutException: Timed out waiting for a node assignment", UnavailableError),
     ("java.io.IOException: No space left on device", OutputError)],
)
def test_what_spark_says_becomes_an_error_of_ours(text: str, kind: type[Exception]) -> None:
    """With the remedy, and with Spark's own text."""
    told = translated(RuntimeError(f"[STREAM_FAILED] Query terminated\nat x\n{text}\n\tat y"))

    assert kind is type(told)
    assert text.partition(": ")[2] in str(told)


def test_an_error_of_an_executor_is_that_error() -> None:
    """Out of the traceback that Spark reports; without its evidence, so as the next kind that needs none."""
    def told(last: str) -> BaseException:
        begin = "Traceback (most recent call last):\n  File x\n"
        text = f"[UDF_ERROR] {begin}cdcv2.errors.UsageError: first\n\nDuring that, another:\n\n{begin}{last}"
        return translated(RuntimeError(f"{text}\n SQLSTATE: 38000\n\tat org.apache.spark.x(y)"))

    gone = told("cdcv2.errors.MissingLogError: /logs/a is no directory")
    assert (MissingLogError, "/logs/a is no directory", 2) == (type(gone), str(gone), exit_code(gone))
    garbled = told("cdcv2.errors.DecodeError: not a message at a[0]@3: empty")
    assert (MalformedError, "not a message at a[0]@3: empty", 3) == (type(garbled), str(garbled), exit_code(garbled))
    others = told("ValueError: x"), told("cdcv2.errors.Later: of a new version")
    assert [RuntimeError] * 2 == [type(other) for other in others]


def test_an_error_is_one_line_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The codes are the command's; what is no error of ours and none of Spark's is a mistake, with its traceback."""
    def failing(events: JobEvents) -> Exit:
        raise UsageError("the text\n  goes on")

    def mistaken(events: JobEvents) -> Exit:
        raise ValueError("x")

    assert 2 == run("replay", [], failing)
    assert "replay: the text goes on\n" == capsys.readouterr().err
    assert [0, 1] == [run("replay", [], lambda events: code) for code in (Exit.DONE, Exit.MISSING)]
    raised = [
        ContradictionError("diff", 1, 1, 2), MissingLogError("x"), OutputError("x"), Py4JNetworkError("x"),
        OSError("x"),
    ]
    assert [3, 2, 4, 4, 4] == [exit_code(error) for error in raised]
    assert 70 == run("replay", [], mistaken)
    told = capsys.readouterr().err
    assert told.startswith("Traceback") and told.endswith("\nreplay: ValueError: x\n")
    assert "Java side" in one_line(Py4JNetworkError("x"))
