"""The common part of every streaming job: it ends between batches on a signal, and reports errors in one line.

- SIGTERM and SIGINT are wishes: the batch under way is finished, then the query is stopped, with exit code 0.
  ``spark-submit`` is a Java process with the Python driver as its child, and a signal may reach either; both listen.
- An error ends the job with one line on standard error and the exit code that the command ``cdcv2`` has for it
  (:mod:`cdcv2.exits`). An error inside a micro-batch, or of an executor, comes to us through Spark, wrapped twice; the
  line has the error itself, and so has the ``end`` event.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcv2 import errors
from cdcv2.cli.options.events import started_events
from cdcv2.connectors.dump_files import LINE_WITHOUT_VALUE, NEGATIVE
from cdcv2.errors import (
    Cdcv2Error,
    MalformedError,
    MissingLogError,
    OutputError,
    RefusedError,
    SparkEndedError,
    UnavailableError,
    UnsafeTopicError,
)
from cdcv2.event_stream import place_in
from cdcv2.events import JobEvents, ending_on_sigterm
from cdcv2.exits import Exit, exit_of
from cdcv2.spark.session import jvm
from cdcv2.spark_files import DRIVER_LOCK

#: A message of Spark, as a pattern, and which of our errors it is, with the remedy.
_TRANSLATIONS: tuple[tuple[str, type[Cdcv2Error], str], ...] = (
    (LINE_WITHOUT_VALUE, MalformedError, "not a dumped record: a line has no value; dump the topics again"),
    (NEGATIVE, MalformedError, "not a dumped record: a line has a negative offset; dump the topics again"),
    (r"Could not read records in offset|OffsetOutOfRange|data was aged out|offset.{0,80}was changed from",
     UnsafeTopicError, "messages that were asked for have been removed from a topic; what they stated is lost, and "
     "Kafka cannot put it back: begin a new log from the source (and set retention.ms=-1)"),
    (r"UnknownTopicOrPartition|Topic\(s\) .{0,200}not exist|[Pp]artitions .{0,200}have been (deleted|removed)",
     MissingLogError, "a topic that was read has been deleted, and a new one is another: start over with fresh state "
     "and output"),
    (r"Timed out waiting for a node assignment|TimeoutException|DisconnectException|No resolvable bootstrap",
     UnavailableError, "Kafka does not answer; start it, check the bootstrap address, and start the job again"),
    (r"No space left on device|Permission denied|AccessDenied|Read-only file system|Mkdirs failed|[Nn]ot a directory",
     OutputError, "a directory cannot be written; make room or grant the rights, and start the job again"),
)


#: How long a driver waits for the end of another one of its job, in seconds.
_PATIENCE = 10.0
#: How a job is started, in examples.
SUBMIT = "spark-submit --jars $(python -m cdcv2.servers.jars spark) --py-files cdcv2.zip"


class JobStop(Exception):
    """The batch was not started, since the job is to end."""


class BatchError(RuntimeError):
    """Replaces, for Spark, an error inside a batch; the error itself is kept by the :class:`Guard`."""


class Guard:
    """The function of a query's micro-batches, with the two things that its job wants to know of it.

    ``busy`` is held while a batch is under way; ``error`` is what ended the last one, if something did. ``turn`` is
    called after each batch, and now and then between two of them, never within one.
    """

    def __init__(
        self, function: Callable[[DataFrame, int], None], stopping: threading.Event | None = None,
        turn: Callable[[], object] = lambda: None,
    ) -> None:
        self.busy = threading.Lock()
        self.error: BaseException | None = None
        self.stopping = stopping or threading.Event()
        self._function, self._turn = function, turn

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run one batch. Raises BatchError: no other exception survives the way through Java."""
        with self.busy:
            try:
                if self.stopping.is_set():
                    raise JobStop("the job is ending")
                self._function(frame, batch)
                self._turn()
            except BaseException as error:
                self.error = error
                raise BatchError(one_line(error)) from None

    def idle(self) -> None:
        """No batch may be under way: then it is a turn. Raises what ``turn`` raises."""
        if self.busy.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self.busy.release()


def follow(query: StreamingQuery, guard: Guard, until: Callable[[], bool] = lambda: False) -> None:
    """Wait for the end of the query: its own, one that a signal or ``until`` asks for, or an error, which is raised."""
    try:
        while not query.awaitTermination(0.5):  # type: ignore[arg-type]
            guard.idle()
            if until():
                guard.stopping.set()
            if guard.stopping.is_set():
                with guard.busy:
                    pass  # the batch under way ends first, and no other begins
                query.stop()
                return
    except (PySparkException, Py4JError, OSError) as error:
        if isinstance(guard.error, JobStop):
            return
        if guard.stopping.is_set() and not isinstance(guard.error, Cdcv2Error):
            # A signal to the whole group also hits what Spark has running, such as the commands by which Hadoop sets
            # the rights of a file. Nothing is lost: a batch that did not end is what a next run begins with.
            print(f"the batch under way was broken off: {one_line(guard.error or error)}", file=sys.stderr, flush=True)
            return
        raise translated(guard.error or error) from error


def listen(spark: SparkSession, stopping: threading.Event) -> None:
    """Make SIGTERM and SIGINT, to this process or to its Java side, set ``stopping``. Main thread only."""
    from pyspark import java_gateway

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    java_gateway.ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    handler = _JavaHandler(stopping)
    signals = jvm(spark).sun.misc
    for name in ("TERM", "INT"):
        signals.Signal.handle(signals.Signal(name), handler)


class _JavaHandler:
    """A ``sun.misc.SignalHandler``, called by Java."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def handle(self, _signal: Any) -> None:
        """What Java calls."""
        self._stopping.set()

    class Java:
        """How py4j learns what this is."""

        implements = ["sun.misc.SignalHandler"]


def run(name: str, arguments: Sequence[str] | None, body: Callable[[JobEvents], Exit]) -> int:
    """Run a job's body with its events (None: the arguments are the process's), and state its end: in this one place.

    Returns its exit code, after one line on standard error if it failed. A mistake of ours shows its traceback before
    that line, and with CDCV2_TRACEBACK in the environment any error does.
    """
    # py4j logs every error that passes through it, with traceback: the one line below is enough.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    events, code = JobEvents(f"{name}.py"), int(Exit.BUG)
    error: BaseException | None = None
    reason: str | None = None
    try:
        place = place_in(sys.argv[1:] if arguments is None else arguments)
        if place is not None:
            events = started_events(f"{name}.py", place)
        with ending_on_sigterm(events):
            _hold_driver_lock()
            code = int(body(events))
    except SystemExit as left:
        # Only --help leaves: an error raises UsageError.
        events.end(int(left.code or 0))
        raise
    except KeyboardInterrupt as caught:
        _print_line(f"{name}: interrupted")
        code, error = Exit.INTERRUPTED, caught
    except Exception as caught:
        code, error = exit_code(caught), translated(caught)
        shown = traceback.format_exc() if code is Exit.BUG or os.environ.get("CDCV2_TRACEBACK") else ""
        _print_line(f"{shown}{name}: {one_line(caught)}")
        if isinstance(error, (PySparkException, Py4JError)):
            reason = one_line(error)
    events.end(code, error, reason)
    return int(code)


def _print_line(text: str) -> None:
    """On standard error. That goes through Java, which may have been killed: then it is lost, and the end is not."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _hold_driver_lock() -> None:
    """Under a supervisor, hold the lock of this job's drivers until the process ends.

    The supervisor sees by it that the driver lives: Java, which started it, may have been killed before it. Raises
    RefusedError where another driver holds it; who looks whether it is held holds it for a moment.
    """
    path = os.environ.get(DRIVER_LOCK)
    if path is None:
        return
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            # Never closed: the end of the process frees it.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(lock)
                raise RefusedError(f"another driver of this job is at work: it holds {path}; wait for it") from None
            time.sleep(0.1)


def exit_code(error: BaseException) -> Exit:
    """The exit code of an error: of one of ours as the command has it; of Spark's and the system's UNABLE; else BUG."""
    known = translated(error)
    if isinstance(known, Cdcv2Error):
        return exit_of(known)
    return Exit.UNABLE if isinstance(known, (PySparkException, Py4JError, OSError)) else Exit.BUG


def one_line(error: BaseException) -> str:
    """The error as one readable line."""
    known = translated(error)
    text = str(known) if isinstance(known, Cdcv2Error) else f"{type(known).__name__}: {known}"
    # Java's stack traces come within the message; their first lines have the reason.
    text = re.split(r"\n\s+at |\nJVM stacktrace|\n=== Streaming Query ===", text)[0]
    line = " ".join(re.sub(r"An error occurred while calling o\d+\.\w+\.\s*: ", "", text).split())
    return line if len(line) <= 1000 else f"{line[:997]}..."


def translated(error: BaseException) -> BaseException:
    """The error of ours that Spark's stands for, where we know it; else the error itself."""
    if isinstance(error, Cdcv2Error):
        return error
    text = str(error)
    ours = _of_executor(text)
    if ours is not None:
        return ours
    for pattern, kind, remedy in _TRANSLATIONS:
        found = re.search(pattern, text)
        if found is not None:
            return kind(f"{remedy} (Spark reports: {_around(text, found)})")
    if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
        return SparkEndedError("the Java side of Spark has ended; start the job again")
    return error


def _of_executor(text: str) -> Cdcv2Error | None:
    """The error of ours that a Python worker ended with, from its traceback in Spark's message."""
    _, traced, last = text.rpartition("Traceback (most recent call last)")
    found = re.search(r"^cdcv2\.errors\.(\w+): (.*)$", last, re.MULTILINE) if traced else None
    kind = None if found is None else getattr(errors, found[1], None)
    if found is None or not isinstance(kind, type) or not issubclass(kind, Cdcv2Error):
        return None
    # Its evidence does not come along: the next kind above it that is made of words alone.
    made: type[Cdcv2Error] = next(base for base in kind.__mro__ if "__init__" not in vars(base))
    return made(found[2])


def _around(text: str, found: re.Match[str]) -> str:
    line = next(line for line in text.splitlines(keepends=True) if found.group().splitlines()[0] in line)
    return " ".join(line.split())[:300]


def triggered(writer: DataStreamWriter, *, available_now: bool, interval: float | None) -> DataStreamWriter:
    """With micro-batches to the end of what is there, or so many seconds after one another; None: as they come."""
    if available_now:
        return writer.trigger(availableNow=True)
    return writer if interval is None else writer.trigger(processingTime=_every(interval))


def _every(seconds: float) -> str:
    """The interval of micro-batches as Spark takes it: it reads no exponents, and knows no shorter time.

    >>> _every(1.5), _every(0.00001)
    ('1500 milliseconds', '1 milliseconds')
    """
    return f"{max(1, round(seconds * 1000))} milliseconds"
