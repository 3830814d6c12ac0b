"""A broker that goes down under a job and comes back: the job waits, and goes on as if nothing had been."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.protocol import Progress
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.reader import BatchReport as Batch
from cdcv2.spark.replay import replay
from tests.spark.replaying import messages, replayed, truth, updates
from tests.spark.test_capture_kafka import KafkaRun, expected, first, produce, topics_of
from tests.spark.test_replay_kafka import over, write
from tests.topics import make_topics

pytestmark = [pytest.mark.spark, pytest.mark.integration]


class Outage:
    """At the ``at``-th call the broker is killed, and begins to come back while the job goes on without it."""

    def __init__(self, broker: KafkaBroker, at: int) -> None:
        self.broker, self.calls, self.at = broker, 0, at
        self.back = Thread(target=broker.start)

    def __call__(self) -> None:
        """Something was done; perhaps it was the last thing for a while."""
        self.calls += 1
        if self.calls == self.at:
            self.broker.kill9()
            assert not self.broker.running
            self.back.start()


class Lines(ProgressLines):
    """Calls ``done`` after each batch."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__()
        self.done = done

    def batch(self, report: Batch) -> None:
        """A batch is done."""
        self.done()


def test_replay_waits_for_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """Between two batches it is killed; to the end of the history, and each update once."""
    said = [*messages(updates(27), 12, seed=27), Progress([12], [])]
    with KafkaBroker() as broker:
        outage = Outage(broker, at=3)
        plan = over(broker, tmp_path, [write(broker, "things", said)], messages=4)
        plan = replace(plan, available_now=False)
        replay(spark, plan, Lines(outage), signals=False)
        outage.back.join()

    assert outage.calls > 3
    assert truth({"things": said}) == replayed(spark, plan)


class Said(CaptureReport):
    """Calls ``done`` after each release."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__(people=io.StringIO())
        self.done = done

    def write(self, what: str, text: str, **facts: Any) -> None:
        """Something happened."""
        if what == "released":
            self.done()


def test_capture_waits_for_the_broker_of_its_topics_and_logs(spark: SparkSession, tmp_path: Path) -> None:
    """Killed after a release, with more to read and to write; the facts are those of a run without it."""
    with KafkaBroker() as broker:
        make_topics(broker.bootstrap, topics_of("outage"))
        produce(broker, first(1500), "outage")
        outage = Outage(broker, at=1)
        run = KafkaRun(broker, "outage", tmp_path, records=500, report=Said(outage))
        run.run(spark)
        outage.back.join()
        found = run.found()

    assert outage.calls > 1
    assert expected(1500) == found
