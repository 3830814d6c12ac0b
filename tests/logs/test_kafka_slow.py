"""A log in Kafka whose broker answers later than the reader waits: what is there is not taken for nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from cdcv2.logs import kafka
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.coverage import coverage
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog, Topic
from cdcv2.logs.named_logs import CoveredLogs, NamedLog
from cdcv2.logs.read import LogReader
from cdcv2.logs.reading_state import ReadingState
from cdcv2.protocol.messages import Message, Progress
from cdcv2.rows.row_type import RowType
from cdcv2.store.kafka_client import Client

ROW = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})


class Record:
    """A record with a message of the log; without one, that its partition was read to its end."""

    def __init__(self, offset: int, message: Message | None, error: Any = None) -> None:
        value = b"" if message is None else MessageCodec(ROW, "int").encode(message)
        self.error, self.offset, self.value = (lambda: error), (lambda: offset), (lambda: value)

    def partition(self) -> int:
        """The only one."""
        return 0

    def headers(self) -> None:
        """None."""

    def leader_epoch(self) -> int:
        """That of a broker that was elected some times."""
        return 4


class Consumer:
    """A consumer whose answers a test has written down, one for each wait; then nothing comes."""

    def __init__(self, answers: list[list[Record]]) -> None:
        self.answers = answers
        self.assigned: list[tuple[int, int | None]] = []

    def incremental_assign(self, places: list[Any]) -> None:
        """Note from where it reads."""
        self.assigned += [(place.offset, place.leader_epoch) for place in places]

    def consume(self, most: int, timeout: float) -> list[Record]:
        """The next answer; what comes with it is asked for without a wait."""
        return self.answers.pop(0) if timeout and self.answers else []

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """A log of two messages, of a cluster that is not there."""
    spans = {0: (0, 2)}
    monkeypatch.setattr(kafka, "describe", lambda client, topic: Topic(topic, spans, {}))
    monkeypatch.setattr(kafka, "spans", lambda client, topic: spans)
    monkeypatch.setattr(kafka, "_LOOK", float("inf"))
    made = KafkaLog("log", "127.0.0.1:1", ROW)
    monkeypatch.setattr(made, "description", LogDescription)
    return made


@pytest.mark.parametrize("last", ["message", "mark"])
def test_a_reader_has_not_caught_up_before_it_came_to_the_end(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """The first waits end before the first answer. Its last offset may be of no message, as marks of transactions."""
    ended = log._client.kafka.KafkaError(log._client.kafka.KafkaError._PARTITION_EOF)
    messages = [Record(0, Progress([0], [5])), Record(1, Progress([5], [9]))]
    answers: list[list[Record]] = [[], [], messages[:1], [], messages[1:] if last == "message" else [], []]
    if last == "mark":
        answers[4:] = [[Record(2, None, ended)], []]
    monkeypatch.setattr(log._client, "consumer", lambda: Consumer(answers))
    named = NamedLog("a", log, ROW)
    reading = LogReader(CoveredLogs([named], [named], coverage([("a", LogDescription())])), follow=True)
    state, cuts = ReadingState([log]), reading.cuts()
    state.follow(reading)

    done = [(None if cut is None else cut.upper.to_plain(), state.state().caught_up)
            for cut in (next(cuts) for _ in range(6 if last == "message" else 5))]  # fmt: skip
    end = [([9], False), (None, True)] if last == "message" else [(None, True)]
    assert [(None, False), (None, False), ([5], False), (None, False), *end] == done


def test_of_an_idle_log_little_is_asked_and_for_a_short_time(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads it has other logs to read. Where something came, it is not asked whether there is more."""
    asked: list[tuple[str, float]] = []

    def ends(client: Client, topic: str, parts: Collection[int]) -> dict[int, int]:
        asked.append((f"ends of {sorted(parts)}", client.patience))
        return {0: 1}

    def partitions(client: Client, topic: str) -> list[int]:
        asked.append(("partitions", client.patience))
        return [0]

    monkeypatch.setattr(kafka, "ends_of", ends)
    monkeypatch.setattr(kafka, "partitions_of", partitions)
    consumer = Consumer([[Record(0, Progress([0], [5]))], [], []])
    monkeypatch.setattr(log._client, "consumer", lambda: consumer)
    entries = log.read(follow=True)
    monkeypatch.setattr(kafka, "spans", lambda *_: pytest.fail("where it begins is not asked again"))
    monkeypatch.setattr(kafka, "_LOOK", -1.0)
    patience, _ = log._client.patience, [next(entries) for _ in range(4)]

    assert [("partitions", 2.5), ("partitions", 2.5), ("ends of [0]", 2.5)] == asked
    assert patience == log._client.patience == 30.0


@pytest.mark.parametrize(("marked", "place"), [(False, (1, 4)), (True, (2, None))])
def test_another_consumer_begins_by_the_epoch_of_what_was_read(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, marked: bool, place: tuple[int, int | None]
) -> None:
    """Else it would not notice that the topic was cut off and written over. Behind a mark the epoch is not known."""
    ended = Record(2, None, log._client.kafka.KafkaError(log._client.kafka.KafkaError._PARTITION_EOF))
    made = [Consumer([[Record(0, Progress([0], [5]))], [ended] if marked else []]), Consumer([])]
    left = list(made)
    monkeypatch.setattr(log._client, "consumer", lambda: left.pop(0))
    monkeypatch.setattr(kafka, "ends_of", lambda *_: {0: 9})
    monkeypatch.setattr(kafka, "partitions_of", lambda *_: [0])
    monkeypatch.setattr(kafka, "_LOOK", -1.0)
    entries = log.read(follow=True)
    while left:
        next(entries)
    next(entries)

    assert [[(0, None)], [place]] == [one.assigned for one in made]
