"""Whether topics of deltas end where they do in the recovery log; a consumer in memory gives out what they hold."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import RefusedError, UnavailableError
from cdcv2.logs.kafka_topics import Topic
from cdcv2.materialize.protocol.fence import Piece, Range
from cdcv2.materialize.protocol.messages import Open
from cdcv2.materialize.targets.kafka.ends import demand_ends

EOF, RETRIABLE, FATAL = -191, -195, -1
AT = Antichain([5])


class Message:
    """A record of a topic, or an error there."""

    def __init__(self, place: tuple[str, int, int], value: bytes | None, code: int | None = None) -> None:
        self._place, self._value, self._code = place, value, code

    def topic(self) -> str:
        """Where."""
        return self._place[0]

    def partition(self) -> int:
        """Where."""
        return self._place[1]

    def offset(self) -> int:
        """Where."""
        return self._place[2]

    def value(self) -> bytes | None:
        """What."""
        return self._value

    def error(self) -> Any:
        """None for a record."""
        if self._code is None:
            return None
        return SimpleNamespace(code=lambda: self._code, retriable=lambda: self._code == RETRIABLE)


class Client:
    """One that has only these records; each reception gives out as many as ``at_once``."""

    def __init__(self, *records: Message, at_once: int = 2, patience: float = 0.05) -> None:
        self.records, self.at_once, self.patience = [*records], at_once, patience
        self.kafka = SimpleNamespace(
            TopicPartition=lambda *place: place, KafkaError=SimpleNamespace(_PARTITION_EOF=EOF)
        )
        self.assigned: list[Any] = []
        self.closed = 0
        self.asked: set[tuple[int, float]] = set()
        self.options: dict[str, Any] = {}

    def consumer(self, **options: Any) -> Any:
        """The one."""
        self.options = options
        return self

    def assign(self, places: list[Any]) -> None:
        """From where on."""
        self.assigned = sorted(places)

    def close(self) -> None:
        """Note it."""
        self.closed += 1

    def received(self, consumer: Any, most: int, timeout: float) -> list[Message]:
        """The next ones of the partitions that are assigned."""
        assert consumer is self
        self.asked.add((most, timeout))
        found, self.records = self.records[: self.at_once], self.records[self.at_once:]
        begins = {(topic, part): offset for topic, part, offset in self.assigned}
        return [one for one in found if one.offset() >= begins[one.topic(), one.partition()]]

    def fail(self, what: str, error: Any) -> None:
        """As the real one."""
        raise UnavailableError(f"{what}: {error.code()}")

    def error(self, what: str, error: Any) -> Exception:
        """As the real one."""
        assert error is None
        return UnavailableError(f"no answer from {what}")


def plain(lower: int, upper: int | None, **more: Any) -> dict[str, Any]:
    """Deltas of times."""
    return {
        "version": 1, "materialization": "m", "lower": [lower], "upper": [] if upper is None else [upper], **more,
    }  # fmt: skip


def at(offset: int, value: Any, part: int = 0, topic: str = "t") -> Message:
    """A record there."""
    return Message((topic, part, offset), value if value is None else json.dumps(value).encode())


def topic(name: str = "t", **spans: tuple[int, int]) -> Topic:
    """One whose partitions have these spans: ``p0``, ``p1``."""
    return Topic(name, {int(part[1:]): span for part, span in spans.items()}, {})


def state(ends: Mapping[str, Mapping[str, int]], **stated: list[int]) -> dict[str, Any]:
    """What the recovery log has of the topics."""
    return {"ends": ends, **({"stated": stated} if stated else {})}


def message(kept: Any, extent: int | None = None, pieces: bool = True, start: int = 0) -> Open:
    """What is opened: the log is at 5, where it has pieces, and a transaction has begun."""
    known = (Piece(Range(), AT),) if pieces else ()
    begun = None if extent is None else Antichain([extent])
    return Open("m", (), Range(), kept, Antichain([start]), known, begun)


def judged(client: Client, *topics: Topic, opened: Open) -> list[Any]:
    """From where on the topics were read."""
    demand_ends(client, [*topics], opened)  # type: ignore[arg-type]
    return client.assigned


STATED = plain(4, 5, deltas=3)


def test_a_log_that_knows_no_ends_has_pushed_nothing() -> None:
    """Nothing is read."""
    for kept in (None, {}, {"stated": {"t": [0, 3]}}):
        assert [] == judged(Client(), topic(p0=(0, 9)), opened=message(kept))


def test_what_was_pushed_ends_with_the_last_statement() -> None:
    """It is read, and what is behind it: what was committed, again, or the one transaction that had begun."""
    client = Client(
        at(6, STATED), at(7, plain(3, 4)), at(8, plain(4, 5)), at(9, plain(5, 8)), at(3, plain(0, 1), 1),
        at(4, plain(5, 8, deltas=2), 1),
    )  # fmt: skip
    found = judged(client, topic(p0=(0, 10), p1=(2, 5)), opened=message(state({"t": {"0": 7, "1": 3}}, t=[0, 6]), 8))

    assert [("t", 0, 6), ("t", 1, 3)] == found
    assert (1, {(1000, 0.1)}, {"fetch_wait_max_ms": 20}) == (client.closed, client.asked, client.options)


def test_where_each_partition_is_read() -> None:
    """Behind what is ours; a head that was removed is no matter of the log's; nor is a topic that it does not know."""
    t, u = topic(p0=(4, 4), p1=(3, 9), p2=(0, 2)), topic("u", p0=(1, 2))
    kept = state({"t": {"0": 9, "1": 2, "2": 1}}, t=[0, 3])
    records = [at(offset, plain(0, 5), 1) for offset in range(3, 9)]
    records += [at(1, plain(0, 5), 2), at(1, plain(0, 5), 0, "u")]

    assert [("t", 1, 3), ("t", 2, 1), ("u", 0, 1)] == judged(Client(*records), t, u, opened=message(kept))
    whole = state({"t": {"0": 7}}, t=[0, 6])
    assert [] == judged(Client(), topic(p0=(7, 7)), opened=message(whole))
    edge = Client(at(6, STATED))
    assert [("t", 0, 6)] == judged(edge, topic(p0=(6, 7)), opened=message(whole))
    unknown = Client(at(0, plain(0, 5)))
    assert [("t", 0, 0)] == judged(unknown, topic(p0=(0, 1)), opened=message(state({"t": {}}, t=[1, 0])))


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (at(6, plain(4, 6, deltas=3)),
         "is at [6] where it should have the last statement that the log knows of, and the recovery log is at [5]"),
        (at(6, plain(3, 4, deltas=3)), "is at [4] where it should have the last statement"),
        (at(6, plain(4, 5)), "is at [5] where it should have the last statement"),
        (at(7, plain(5, 9)), "has deltas from [5] to [9], and the recovery log is at [5]: it is another log"),
        (at(7, plain(4, 8)), "has deltas from [4] to [8], and"), (at(7, plain(5, None)), "has deltas from [5] to []"),
        (at(7, plain(4, 5, materialization="n")), "the topic 't' has deltas of 'n', not of 'm': it is another log"),
    ],
)  # fmt: skip
def test_what_goes_on_elsewhere_is_refused(record: Message, text: str) -> None:
    """With the frontiers of both; a transaction up to 8 had begun."""
    client = Client(record)
    with pytest.raises(RefusedError) as caught:
        judged(client, topic(p0=(0, 8)), opened=message(state({"t": {"0": 7}}, t=[0, 6]), 8))

    assert text in str(caught.value)
    assert 1 == client.closed


@pytest.mark.parametrize(
    "value",
    [
        None, 7, [], {}, plain(4, 5) | {"version": 2}, plain(4, 5) | {"lower": 7}, plain(4, 5) | {"upper": ["x", {}]},
        {name: one for name, one in plain(4, 5).items() if name != "materialization"},
    ],
)
def test_what_is_no_delta_is_anothers(value: Any) -> None:
    """With its place."""
    text = "the topic 't' has at offset 7 of partition 1 what is no delta of version 1"
    with pytest.raises(RefusedError, match=text):
        judged(Client(at(7, value, 1)), topic(p1=(0, 8)), opened=message(state({"t": {"1": 7}})))


def test_a_view_that_has_begun_nothing_is_at_its_start() -> None:
    """The log has no pieces then."""
    kept = state({"t": {"0": 0}})
    judged(Client(at(0, plain(2, 3))), topic(p0=(0, 1)), opened=message(kept, 3, pieces=False, start=2))
    with pytest.raises(RefusedError, match=r"the recovery log is at \[2\]"):
        judged(Client(at(0, plain(5, 6))), topic(p0=(0, 1)), opened=message(kept, pieces=False, start=2))


def test_a_partition_ends_where_it_did_when_it_was_looked_at() -> None:
    """What comes behind is not judged; a gap before the end (a marker) is seen by the end of the partition."""
    ending = Message(("t", 0, 9), None, EOF)
    client = Client(at(7, plain(0, 5)), Message(("t", 0, 8), None, RETRIABLE), ending, at(5, plain(0, 5), 1),
                    at(6, plain(0, 5), 1), at(7, {}, 1))  # fmt: skip
    judged(client, topic(p0=(0, 9), p1=(0, 7)), opened=message(state({"t": {"0": 7, "1": 5}})))

    assert [] == client.records


def test_a_record_behind_the_end_shows_that_it_was_passed() -> None:
    """What was the last before it is no record, and others go on writing."""
    client = Client(at(5, plain(0, 5)), at(7, {}), at(8, {}))
    judged(client, topic(p0=(0, 7)), opened=message(state({"t": {"0": 5}})))

    assert 1 == len(client.records)


def test_what_comes_after_the_end_of_another_partition_is_passed_over() -> None:
    """It is done already."""
    client = Client(at(7, plain(0, 5)), at(8, {}), Message(("t", 0, 9), None, EOF), at(5, plain(0, 5), 1), at_once=4)
    judged(client, topic(p0=(0, 8), p1=(0, 6)), opened=message(state({"t": {"0": 7, "1": 5}})))


def test_an_error_that_does_not_pass_is_an_error() -> None:
    """With the topic."""
    client = Client(Message(("t", 0, -1), None, FATAL))
    client.received = lambda *_, **more: [client.records[0]]  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match="topic 't': -1"):
        judged(client, topic(p0=(0, 8)), opened=message(state({"t": {"0": 7}})))

    assert 1 == client.closed


@pytest.mark.parametrize(("patience", "looks"), [(12, 3), (11, 2)])
def test_a_kafka_that_does_not_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch, patience: float, looks: int
) -> None:
    """When our patience is over, and not before."""
    clock, client = [0.0], Client(patience=patience)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def received(*_: Any, **more: Any) -> list[Message]:
        clock[0] += 6
        return []

    client.received = received  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match="no answer from its topics"):
        judged(client, topic(p0=(0, 8)), opened=message(state({"t": {"0": 7}})))

    assert (6 * looks, 1) == (clock[0], client.closed)


def test_patience_begins_with_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slow ones are no failure, as long as some come."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    client = Client(patience=10)
    slow: list[list[Message]] = [
        [], [at(5, plain(0, 5))], [], [Message(("t", 0, 6), None, RETRIABLE)], [], [at(6, plain(0, 5))],
    ]  # fmt: skip

    def received(*_: Any, **more: Any) -> list[Message]:
        clock[0] += 6
        return slow.pop(0)

    client.received = received  # type: ignore[method-assign]
    judged(client, topic(p0=(0, 7)), opened=message(state({"t": {"0": 5}})))

    assert [] == slow
