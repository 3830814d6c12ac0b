"""A log in Kafka whose broker answers later than the reader waits: what is there is not taken for nothing."""

from __future__ import annotations

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


class Consumer:
    """A consumer whose answers a test has written down, one for each wait; then nothing comes."""

    def __init__(self, answers: list[list[Record]]) -> None:
        self.answers = answers

    def incremental_assign(self, places: object) -> None:
        """It does nothing."""

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
