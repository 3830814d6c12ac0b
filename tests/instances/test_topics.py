"""An instance over logs in Kafka: it has read what the topics hold before it answers, and follows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdcv2
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.named_logs import NamedLog
from cdcv2.logs.release_times import ReleaseTime
from tests.market import PRICES
from tests.serving import served

if TYPE_CHECKING:
    from cdcv2.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration
PATIENCE = 120.0
NAMES = ("instance-prices", "instance-totals")


def test_an_instance_follows_topics(broker: KafkaBroker, tmp_path: Path) -> None:
    logs = {
        name: KafkaLog(name, broker.bootstrap, PRICES, create=True,
                       description=LogDescription(timeline="m", log_set="m"))
        for name in NAMES
    }  # fmt: skip
    writers = {name: cdcv2.Writer(log) for name, log in logs.items()}

    def put(at: int) -> None:
        for name, writer in writers.items():
            writer.extend([(PRICES.row(["pear", at]), at, 1)])
            logs[name].keep_release(ReleaseTime(at, at * 1000))
            writer.advance([at + 1])
            logs[name].flush()

    put(1)
    opened = [NamedLog(name, KafkaLog(name, broker.bootstrap, PRICES), PRICES) for name in NAMES]
    with served(LoneInstance(opened, {name: ["name"] for name in NAMES}), tmp_path / "m.sock") as place:
        client = cdcv2.connect(place)
        first = client.peek({NAMES[0]: "pear"}, timeout=PATIENCE)
        # Releases are kept in headers of topics.
        assert (first.at, first.committed_at) == (1, 1.0)
        put(2)
        found = client.peek(dict.fromkeys(NAMES, "pear"), after=2, timeout=PATIENCE)
        assert (found.at, found.committed_at) == (2, 2.0)
        assert all([row.price for row in found[name]] == [1, 2] for name in NAMES)
        with client.tail(NAMES[1], after=2, timeout=PATIENCE) as tail:
            assert next(tail).changes == [(PRICES.row(["pear", 2]), 2, 1)]
