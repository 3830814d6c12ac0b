"""A capture of streams on Spark goes on with the topics that it began with; no Spark runs, and Kafka is a double."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.memory_format import BatchMemory
from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import ForeignStateError, UnsafeTopicError
from cdcv2.spark.capture import stream_job
from cdcv2.spark.capture.job import parser
from cdcv2.spark.capture.report import CaptureReport

THING = {"type": "record", "name": "thing", "fields": [{"name": "id", "type": "long"}]}
TABLES = {"things": "web.things", "others": "web.others"}
#: As the cluster has them at first.
IDS = {"web.things": "7f", "web.others": "80"}


class Cluster:
    """Topics of one partition with these identities, whose first offset is this; see KafkaRanges."""

    def __init__(self, ids: dict[str, str], first: int = 0) -> None:
        self._ids, self._first = ids, first

    def look(self) -> TopicExtents:
        """Each has nine records."""
        return TopicExtents({(topic, 0): (self._first, 9) for topic in IDS}, self._ids)


def begun(folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the captures as the job does, and have each keep its memory as behind a batch of five records."""
    monkeypatch.setattr(stream_job, "KafkaRanges", lambda *given: cluster)
    for table in TABLES:
        (folder / f"{table}.avsc").write_text(json.dumps(THING), "utf-8")
    plan = stream_job.planned(parser().parse_args([
        "kafka", "--bootstrap", "nowhere:9092", "--rows", str(folder), "--into", str(folder / "logs"), "--state",
        str(folder / "state"), *(word for table, topic in TABLES.items() for word in ("--stream", f"{table}={topic}")),
    ]))  # fmt: skip
    spark: Any = None
    plan.source.demand(spark)
    report = CaptureReport()
    progress = stream_job._StreamProgress(plan.tables, report)
    for table in TABLES:
        made = stream_job._opened(plan, table, report, threading.Event(), progress)
        try:
            made.read[0] = 5
            made._save(BatchMemory(query="4c", number=0))
        finally:
            made.logs.close()


@pytest.mark.parametrize("topic", IDS)
def test_a_topic_that_was_made_again_is_refused(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is longer than what was read of it. A memory of before, which has no identities, is read."""
    begun(tmp_path, Cluster({}), monkeypatch)
    begun(tmp_path, Cluster(IDS), monkeypatch)
    begun(tmp_path, Cluster(IDS), monkeypatch)
    with pytest.raises(ForeignStateError, match=f"the topic {topic} is another one.*it was made again"):
        begun(tmp_path, Cluster({**IDS, topic: "81"}), monkeypatch)


def test_a_topic_that_lacks_what_was_not_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may begin where it was read to."""
    begun(tmp_path, Cluster(IDS), monkeypatch)
    begun(tmp_path, Cluster(IDS, 5), monkeypatch)
    with pytest.raises(UnsafeTopicError, match="begins at 6, and 5 is wanted in partition 0"):
        begun(tmp_path, Cluster(IDS, 6), monkeypatch)
