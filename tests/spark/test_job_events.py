"""What a job on Spark states of itself: its end whatever that is, progress between batches, and a line for people."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from cdcv2.errors import MissingLogError, SourceStop, UsageError
from cdcv2.event_stream import read_events
from cdcv2.events import JobEvents, JobProgress, JobWait
from cdcv2.exits import Exit
from cdcv2.protocol import Progress, Updates
from cdcv2.spark.capture.job import main as capture_main
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.job import Guard, follow, run
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import replay
from cdcv2.spark.turn_report import TurnReport, far_text
from cdcv2.spark_files import DRIVER_LOCK
from tests.spark.replaying import PLAIN, plan, put
from tests.test_events import Job

pytestmark = pytest.mark.spark


class Query:
    """A query of which nothing is known but its batches: each is a call of the guard, and it ends with ``error``."""

    def __init__(self, batches: int, error: Callable[[BaseException | None], Exception] | None = None) -> None:
        self.guard: Guard | None = None
        self._left, self._error = batches, error

    def awaitTermination(self, _: float) -> bool:  # noqa: N802, as Spark calls it
        """A batch; after the last one it has ended."""
        assert self.guard is not None
        if self._left:
            self._left -= 1
            try:
                self.guard(None, 0)  # type: ignore[arg-type]
            except RuntimeError as error:
                raise self._error(error) if self._error else error
            return False
        if self._error is not None:
            raise self._error(None)
        return True


def ended(tmp_path: Path, body: Callable[[JobEvents], Exit]) -> dict[str, Any]:
    """The end of a job with this body."""
    events = tmp_path / "events.jsonl"
    code = run("replay", ["x", "--events", str(events)], body)
    *_, end = read_events(events)
    assert (code, "replay.py") == (end["exit"], end["job"])
    return end


def of_query(error: Callable[[BaseException | None], Exception], batch: BaseException | None = None) -> Any:
    """A job whose query ends with an error of Spark's, in a batch that raises ``batch``, or between two."""
    def body(events: JobEvents) -> Exit:
        def function(*_: object) -> None:
            if batch is not None:
                raise batch

        query, guard = Query(1, error), Guard(function)
        query.guard = guard
        follow(query, guard)  # type: ignore[arg-type]
        return Exit.DONE

    return body


TRACEBACK = "Traceback (most recent call last):\n  File x\n"
IN_EXECUTOR = f"[STREAM_FAILED] Query terminated\n{TRACEBACK}cdcv2.errors.FencedError: another runs\n SQLSTATE: 38000"


@pytest.mark.parametrize(("body", "expected"), [
    (of_query(lambda _: StreamingQueryException("x"), SourceStop("a TRUNCATE", "Give --before from-state")),
     (4, "SourceStop", "a TRUNCATE", "Give --before from-state", "mended")),
    (of_query(lambda _: StreamingQueryException("x"), SourceStop("an END is lost", "Start over", lasting=True)),
     (4, "SourceStop", "an END is lost", "Start over", "never")),
    (of_query(lambda _: StreamingQueryException(IN_EXECUTOR)), (4, "FencedError", "another runs", None, "never")),
    (of_query(lambda _: StreamingQueryException("[X] odd\n\tat org.apache.y password=hunter2")),
     (4, "StreamingQueryException", "StreamingQueryException: [X] odd", None, "mended")),
    (of_query(lambda _: Py4JNetworkError("Answer from Java side is empty")),
     (4, "SparkEndedError", "the Java side of Spark has ended; start the job again", None, "now")),
    (of_query(lambda _: StreamingQueryException("x"), KeyError("hunter2")), (70, "KeyError", None, None, "never")),
], ids=["stop", "stop that lasts", "executor", "of Spark", "Java was killed", "mistake"])  # fmt: skip
def test_an_end_has_the_error_itself_and_not_what_spark_makes_of_it(
    tmp_path: Path, body: Callable[[JobEvents], Exit], expected: tuple[Any, ...]
) -> None:
    """Whether it helps to start it again is the error's answer, in whatever Spark has wrapped it."""
    end = ended(tmp_path, body)

    shown = tuple(end[name] for name in ("exit", "error", "reason", "remedy", "retry"))
    assert expected == (*shown[:2], None if shown[1] == "KeyError" else shown[2], *shown[3:])
    assert "hunter2" not in (tmp_path / "events.jsonl").read_text("utf-8")


@pytest.mark.parametrize(("raised", "expected"), [
    (UsageError("no such option"), (2, "never")), (MissingLogError("no topic x"), (2, "mended")),
    (AnalysisException("[Y] odd"), (4, "mended")), (KeyboardInterrupt(), (130, "never")),
])  # fmt: skip
def test_an_error_before_there_is_a_query_has_its_end(
    tmp_path: Path, raised: BaseException, expected: tuple[int, str]
) -> None:
    """As wrong arguments, and a topic that is not there."""
    def body(events: JobEvents) -> Exit:
        raise raised

    end = ended(tmp_path, body)

    assert expected == (end["exit"], end["retry"])


def test_wrong_arguments_of_a_job_and_its_help_have_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are found before Spark is started; the events are looked for before that."""
    events = tmp_path / "events.jsonl"
    codes = [capture_main(["--no-such", "--events", str(events)])]
    with pytest.raises(SystemExit) as left:
        capture_main(["--help", f"--events={events}"])
    codes += [left.value.code, capture_main(["--events", "fd:1234"])]

    assert [2, 0, 2] == codes
    assert [("start", None), ("end", "UsageError"), ("start", None), ("end", None)] == [
        (event["event"], event.get("error")) for event in read_events(events)
    ]
    assert "spark-submit gives none on" in capsys.readouterr().err


def test_progress_is_stated_after_a_batch_and_between_two_but_never_within_one() -> None:
    """What decides changes while a batch is under way: nothing may look at it then."""
    turns, inside = [], threading.Event()

    def batch(*_: object) -> None:
        guard.idle()
        inside.set()

    guard = Guard(batch, turn=lambda: turns.append(inside.is_set()))
    guard.idle()
    query = Query(2)
    query.guard = guard
    follow(query, guard)  # type: ignore[arg-type]

    # Of each batch its end, and the look between it and the next.
    assert [False, True, True, True, True] == turns


def test_a_person_gets_a_line_now_and_then_of_what_programs_get() -> None:
    """At once, then when it changed and five seconds have passed; the state is made once for both."""
    job, said, made = Job(), list[str](), list[int]()
    turns = TurnReport(job.events, said.append, clock=lambda: 1003.0)

    def state() -> JobProgress:
        made.append(1)
        return JobProgress([8], 1000.0, [JobWait("end", "transaction 5 has no END")], 3, {"records": 12})

    turns.turn(state)
    turns.turn(state)
    turns.turn(state, last=True)

    assert ["complete through 7: 12 records; transaction 5 has no END; committed 3 s ago"] == said
    assert (2, 2) == (len(made), len(job.stream.events))


def test_a_line_names_a_few_of_the_things_that_a_job_waits_for() -> None:
    """And each once."""
    waits = [JobWait("updates", text) for text in ("a", "a", "b", "c", "d", "e")]

    assert "complete through the end: the history is finished; a; b; c; and 2 more" == far_text(
        JobProgress([], waits=waits)
    )
    assert "nothing is complete yet; nothing is open" == far_text(JobProgress())


def test_lines_of_every_batch_are_for_programs_where_people_get_calm_ones() -> None:
    """What happens once is for both."""
    people, machines = io.StringIO(), io.StringIO()
    calm = CaptureReport(people, machines, calm=True)
    for report in (calm, CaptureReport(people, machines)):
        report.write("released", "released 3 transactions", often=True)
        report.write("not-covered", "t is not covered")

    assert ["t is not covered", "released 3 transactions", "t is not covered"] == [
        line.removeprefix("capture: ") for line in people.getvalue().splitlines()
    ]
    assert 4 == len(machines.getvalue().splitlines())


def test_what_a_replay_lacks_is_stated_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    """Table, time and number; the rows that are held; and how far it is."""
    job = Job()
    place = put(tmp_path / "things", [
        Updates([(PLAIN.row([1, "a"]), 0, 1), (PLAIN.row([1, "a"]), 1, 1)]), Progress([0], [2], {0: 1, 1: 3}),
    ], row_type=PLAIN)  # fmt: skip
    wanted = plan(tmp_path, [place], tables={"things": PLAIN})
    replay(spark, wanted, ProgressLines(events=job.events), signals=False)
    state = job.stream.events[-1]

    assert ([1], 1, {"rows": 1}) == (state["frontier"], state["rows_held"], state["counts"])
    assert [{"table": "things", "time": 1, "updates": 2}] == [wait["place"] for wait in state["waits"]]


class NoReader(io.StringIO):
    """A stream whose reader has ended."""

    def write(self, text: str) -> int:
        """It cannot."""
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_driver_whose_java_was_killed_states_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints goes through Java; the events do not."""
    monkeypatch.setattr("sys.stderr", NoReader())
    end = ended(tmp_path, of_query(lambda _: Py4JNetworkError("Answer from Java side is empty")))

    assert ("SparkEndedError", 4, "now") == (end["error"], end["exit"], end["retry"])


def test_a_driver_waits_for_another_of_its_job_and_refuses_to_work_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has the lock: nothing is done; without it, the job holds it until its process ends."""
    lock = tmp_path / "driver.lock"
    monkeypatch.setenv(DRIVER_LOCK, str(lock))
    monkeypatch.setattr("cdcv2.spark.job._PATIENCE", 0.0)
    worked: list[JobEvents] = []
    with open(lock, "w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = ended(tmp_path, lambda events: worked.append(events) or Exit.DONE)
    there = set(os.listdir("/proc/self/fd"))
    done = ended(tmp_path, lambda events: worked.append(events) or Exit.DONE)
    with open(lock, "w", encoding="utf-8") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for number in set(os.listdir("/proc/self/fd")) - there:
        with suppress(OSError):
            os.close(int(number))

    assert ("RefusedError", 4, "mended", 0, 1) == (
        refused["error"], refused["exit"], refused["retry"], done["exit"], len(worked),
    )
