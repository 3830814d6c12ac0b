"""A shared remap in Kafka, on a real broker: minters race without transactions, and a trimmed head is no loss."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, RefusedError, UnavailableError, UnsafeTopicError
from cdcv2.logs.kafka_topics import KEEPING, create_topic
from cdcv2.logs.remap_kafka import KafkaRemap
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import free_port
from cdcv2.store.kafka_client import Client
from cdcv2.timeline.minting import follow, mint, run
from cdcv2.timeline.partitioned import offsets
from cdcv2.timeline.shared_remap import LogView, SharedRemap
from tests.minters import minted_in_threads

pytestmark = pytest.mark.integration


def test_records_are_read_at_their_offsets(broker: KafkaBroker) -> None:
    """From any one on; also those that another process has written."""
    log, other = (KafkaRemap("records", broker.bootstrap, create=True) for _ in range(2))
    assert LogView([], 0) == log.read(0) and "records" == log.name
    assert [0, 1, 2] == [log.append(b"a", 0), other.append(b"b", 0), log.append(b"c", 7)]

    assert [LogView([(0, b"a"), (1, b"b"), (2, b"c")], 3), LogView([(2, b"c")], 3), LogView([], 3)] == [
        other.read(after) for after in (0, 2, 9)
    ]
    log.trim(2)
    log.trim(1)
    assert LogView([(2, b"c")], 3) == other.read(0)
    log.close()
    assert 3 == log.append(b"d", 0) and [(3, b"d")] == log.read(3).records
    log.close()
    other.close()


def test_minters_that_race_agree(broker: KafkaBroker) -> None:
    """Each binds its own partition, one compacts on the way; a reader that comes later knows the same."""
    with ExitStack() as opened:

        def log_of_one() -> KafkaRemap:
            one = KafkaRemap("race", broker.bootstrap, create=True)
            opened.callback(one.close)
            return one

        readers = minted_in_threads(log_of_one, 6)
    log, fresh = KafkaRemap("race", broker.bootstrap), SharedRemap()
    for reader in (fresh, *readers):
        run(log, follow(reader))
        reader.check(fresh)
    log.close()

    assert offsets({number: 6 for number in range(5)}) == fresh.remap.current and fresh.remap.since > 0


def test_topics_that_are_no_place_for_a_remap_are_refused(broker: KafkaBroker) -> None:
    """Two partitions have no order, retention loses decisions, and an unknown topic is not made by asking."""
    client = Client(broker.bootstrap)
    create_topic(client, "wide", partitions=2)
    new: Any = client.questions.NewTopic("short", 1, 1, config={"retention.ms": "1000"})
    client.admin.create_topics([new])["short"].result(60)
    for topic, error in (("wide", UnsafeTopicError), ("short", UnsafeTopicError), ("none", MissingLogError)):
        with pytest.raises(error):
            KafkaRemap(topic, broker.bootstrap)


def test_a_record_that_is_too_large_is_refused_and_the_next_one_is_not(broker: KafkaBroker) -> None:
    """With what to do about it."""
    client = Client(broker.bootstrap)
    client.admin.create_topics([client.questions.NewTopic("large", 1, 1, config=KEEPING)])["large"].result(60)
    log, ours = KafkaRemap("large", broker.bootstrap), KafkaRemap("larger", broker.bootstrap, create=True)
    raw = bytes(range(256)) * 8192
    with pytest.raises(RefusedError, match="raise its max.message.bytes, or compact"):
        log.append(raw, 0)

    assert 0 == log.append(b"a", 0)
    assert (0, raw) == (ours.append(raw, 0), ours.read(0).records[0][1]), "a summary of many bindings"
    log.close()
    ours.close()


def test_a_reader_that_lost_the_head_without_a_summary_is_refused(broker: KafkaBroker) -> None:
    """Somebody trimmed by hand."""
    log, shared = KafkaRemap("trimmed", broker.bootstrap, create=True), SharedRemap(Antichain([0]), recipe="v1")
    for line in (1, 2):
        run(log, mint(shared, Antichain([line]), lambda: line))
    log.trim(1)
    with pytest.raises(UnsafeTopicError):
        run(log, follow(SharedRemap()))
    assert [] == run(log, follow(shared))
    log.close()


def test_a_broker_that_is_gone_is_said(broker: KafkaBroker) -> None:
    """At the latest when our patience ends."""
    with pytest.raises(UnavailableError):
        KafkaRemap("none", f"127.0.0.1:{free_port()}", patience=1)
