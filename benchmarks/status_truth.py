"""How far is the number of ``cdcv2 status`` from what a reader of source and target measures?

A client commits rows at a steady rate, each with the next number; the truth is the age of the first commit whose number
the target lacks. Between two measurements of it the status is made, as ``cdcv2 status --watch`` does. A look is off by
the seconds between its number and the nearest value that the truth had in the meantime. The size is the seconds for
which a case is watched: while the source is idle (but for checkpoints and commits of a table that is not captured), the
same with a connector whose heartbeats commit, every second and every 10, under load, with a stopped connector, with one
that runs and cannot write to Kafka, with a locked table in the target, with a reader that is suspended, and with the
source away, where the number is the age of the last commit in the target. The baseline is the truth under load. A look
that states "exact" where the truth was another counts as a lie.

Expected: off by less than 2 seconds in every look. On an idle source only with heartbeats that commit every second;
else the number is "at most", and off by what passes between two of them, or since the last commit. Answer:
``results/status_truth.csv``, from ``python -m benchmarks status_truth``.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness import Case, Question
from benchmarks.pipeline_world import NAME, PipelineWorld
from cdcv2.connectors.debezium.config import IDLE_SETTINGS
from cdcv2.control.pipeline_status import PipelineStatus, status_of

#: Commits a second, and seconds between two looks.
RATE, PAUSE = 50.0, 0.5
#: Seconds by which a number may be off that is called exact: the looks at the truth take time themselves.
LIE = 1.0
Figures = dict[str, float]


class Stage:
    """The world, and for how many seconds a case is watched."""

    def __init__(self, seed: int, size: int) -> None:
        self.world, self.seconds = PipelineWorld.open(), size

    def close(self) -> None:
        """End it."""
        self.world.close()

    def settle(self) -> None:
        """The source is idle, all has arrived, and all runs."""
        self.world.idle()
        self.world.demand(self.world.runs, "the connector runs")
        self.world.demand_caught_up()

    def watch(self, truth: Callable[[], float] | None = None, every: Callable[[], object] | None = None) -> Figures:
        """Look for some seconds; what the looks were off by."""
        truth = truth or self.world.behind
        off: list[float] = []
        took: list[float] = []
        shown: list[float] = []
        status: PipelineStatus | None = None
        lies = 0
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            if every is not None:
                every()
            before, begun = truth(), time.perf_counter()
            status = status_of(self.world.pipeline, status)
            took.append(1000 * (time.perf_counter() - begun))
            after = truth()
            (row,) = [row for row in status.tables if row.kind == "target"]
            if row.seconds_behind is None:
                raise RuntimeError(f"the status has no number: {row.text}; {'; '.join(status.unanswered)}")
            low, high = min(before, after), max(before, after)
            off.append(max(0.0, low - row.seconds_behind, row.seconds_behind - high))
            lies += row.basis == "exact" and off[-1] > LIE
            shown.append(row.seconds_behind)
            time.sleep(PAUSE)
        return {
            "seconds off, median": statistics.median(off), "seconds off, greatest": max(off),
            "seconds behind, greatest": max(shown), "ms a look, median": statistics.median(took), "looks": len(off),
            "exact, and off": lies,
        }


def reader(stage: Stage) -> Figures:
    """The truth alone, under load."""
    stage.world.load(RATE)
    time.sleep(2)
    end, truths = time.monotonic() + stage.seconds, list[float]()
    while time.monotonic() < end:
        truths.append(stage.world.behind())
        time.sleep(PAUSE)
    return {"seconds behind, median": statistics.median(truths), "seconds behind, greatest": max(truths)}


def idle(stage: Stage) -> Figures:
    """Nothing is committed that is captured."""

    def elsewhere() -> None:
        with stage.world.source.connect(autocommit=True) as session:
            session.execute("INSERT INTO other VALUES (1)")
            session.execute("CHECKPOINT")

    return stage.watch(every=elsewhere)


def idle_with_heartbeats(stage: Stage, seconds: int) -> Figures:
    """The same, where the connector commits a message of its own now and then."""
    world = stage.world
    more = {**IDLE_SETTINGS, "heartbeat.interval.ms": str(1000 * seconds)}
    world.client.alter(NAME, {**world.config, **more})
    world.demand(lambda: world.runs() and world.slot_is_read(), "the connector runs")
    # The first of them comes when the connector has read something.
    world.commit(1)
    world.demand_caught_up()
    time.sleep(2 * seconds + 5)
    try:
        return idle(stage)
    finally:
        world.client.alter(NAME, world.config)
        world.demand(lambda: world.runs() and world.slot_is_read(), "the connector runs")


def load(stage: Stage) -> Figures:
    """All runs."""
    stage.world.load(RATE)
    time.sleep(2)
    return stage.watch()


def stopped_connector(stage: Stage) -> Figures:
    """The source commits, and nothing takes it."""
    stage.world.load(RATE)
    time.sleep(2)
    stage.world.ask_connect("PUT", "/stop")
    try:
        return stage.watch()
    finally:
        stage.world.ask_connect("PUT", "/resume")


def writes_nothing(stage: Stage) -> Figures:
    """The connector runs, and receives what is committed; nothing that it writes arrives."""
    stage.world.gate.shut()
    try:
        stage.world.load(RATE)
        time.sleep(2)
        figures = stage.watch()
        if not stage.world.runs():
            raise RuntimeError("the connector does not run, so this case shows nothing")
        return figures
    finally:
        stage.world.gate.open()


def written_nothing_more(stage: Stage) -> Figures:
    """The same; what it cannot write is one commit, and then the source is idle: the server has sent all its WAL."""
    stage.world.gate.shut()
    try:
        stage.world.commit(1)
        time.sleep(2)
        return stage.watch()
    finally:
        stage.world.gate.open()


def locked_table(stage: Stage) -> Figures:
    """Another session of the target holds the table."""
    stage.world.load(RATE)
    time.sleep(2)
    with stage.world.target.connect() as session:
        session.execute("LOCK TABLE orders IN SHARE MODE")
        return stage.watch()


def suspended_reader(stage: Stage) -> Figures:
    """The process of the view is suspended."""
    stage.world.load(RATE)
    time.sleep(2)
    with suspended(stage.world, "copy"):
        return stage.watch()


def server_away(stage: Stage) -> Figures:
    """The source does not answer: what is measured is the age of the last commit that is in the target."""
    world = stage.world
    world.load(RATE)
    time.sleep(2)
    stage.settle()
    world.source.stop()
    try:
        return stage.watch(lambda: time.time() - world.commits[world.arrived() - 1])
    finally:
        world.source.start()
        world.ask_connect("POST", "/restart?includeTasks=true")


@contextmanager
def suspended(world: PipelineWorld, name: str) -> Iterator[None]:
    """The processes of a job are suspended."""
    held = world.job(name)._holders()
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)


QUESTION: Question[Any] = Question(
    prepare=Stage,
    baseline=Case("a reader of source and target, under load", reader, reset=Stage.settle),
    cases=[
        Case(f"cdcv2 status, {name}", run, reset=Stage.settle) for name, run in (
            ("an idle source", idle),
            ("an idle source, heartbeats every second", lambda stage: idle_with_heartbeats(stage, 1)),
            ("an idle source, heartbeats every 10 seconds", lambda stage: idle_with_heartbeats(stage, 10)),
            ("under load", load), ("a stopped connector", stopped_connector),
            ("a connector that cannot write", writes_nothing),
            ("one commit that cannot be written", written_nothing_more), ("a locked table", locked_table),
            ("a suspended reader", suspended_reader), ("the source away", server_away),
        )
    ],
    size=20,
    unit="seconds",
    versions=("confluent-kafka", "psycopg"),
    close=Stage.close,
    rounds=1,
    warm_up=0,
)
