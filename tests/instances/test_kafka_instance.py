"""An instance over topics of a real Kafka: killed and started again, it first reads what they hold."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from tests.children import CDCV2, started

pytestmark = pytest.mark.integration

SCHEMA = {"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "state", "type": "string"}]}  # fmt: skip
ROW = RowType(SCHEMA)
PATIENCE = 60.0


def test_topics_are_asked_and_followed_while_the_instance_is_killed(broker: KafkaBroker, tmp_path: Path) -> None:
    """Two tables, of which one has no change in most transactions. An answer is never older than one before."""
    for table in ("orders", "returns"):
        (tmp_path / f"{table}.avsc").write_text(json.dumps(SCHEMA), "utf-8")
    place, name = tmp_path / "shop.sock", uuid.uuid4().hex
    topics = {table: f"{name}.{table}" for table in ("orders", "returns")}
    writers = {
        table: cdcv2.Writer(KafkaLog(topic, broker.bootstrap, ROW, create=True, partitions=2,
                                     description=LogDescription(timeline=name)))
        for table, topic in topics.items()
    }  # fmt: skip

    def commit(time: int) -> None:
        gone = [(ROW.row([7, str(time - 1)]), time, -1)] if time > 1 else []
        writers["orders"].extend([*gone, (ROW.row([7, str(time)]), time, 1)])
        if time % 50 == 1:
            writers["returns"].extend([(ROW.row([time, "back"]), time, 1)])
        for writer in writers.values():
            writer.advance([time + 1])

    command = ["instance", *(f"{table}=kafka:{topic}" for table, topic in topics.items()), "--bootstrap",
               broker.bootstrap, "--rows", str(tmp_path), "--index", "orders=id", "--index", "returns=id",
               "--instance", str(place)]  # fmt: skip
    for time in range(1, 301):
        commit(time)
    after: Antichain | None = None
    changes = 0
    for life, last in enumerate((300, 302, 304)):
        with started(*CDCV2, *command) as process:
            # A client of its own, which has seen nothing yet.
            answer = cdcv2.connect(place).peek({"orders": 7, "returns": [1, 51, 52]}, timeout=PATIENCE)
            assert answer.at == last and [row.state for row in answer["orders"]] == [str(last)]
            assert sorted(row.id for row in answer["returns"]) == [1, 51]
            for time in (last + 1, last + 2):
                commit(time)
            with cdcv2.connect(place).tail("orders", after=after, since=None if life else 0) as tail:
                for batch in tail.until(last + 2):
                    after, changes = batch.upper, changes + len(batch.changes)
            process.kill()
    assert changes == 2 * 306 - 1
