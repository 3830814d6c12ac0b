"""Logs in Kafka, on a real broker: what is acknowledged is there, and what would lose statements is refused."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.facts import End
from cdcv2.capture.run.commit_times import Capture
from cdcv2.cli.at_option import time_at
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import (
    DecodeError,
    ForeignStateError,
    LogFinishedError,
    MissingLogError,
    RefusedError,
    UnavailableError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.logs import kafka
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog, Topic
from cdcv2.logs.kafka_topics import check_keeps, check_positions, describe
from cdcv2.logs.named_logs import NamedLog, check_timeline
from cdcv2.logs.release_times import HEADER as RELEASE, ReleaseTime
from cdcv2.logs.stops import Stop
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position, Positions
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import free_port
from cdcv2.store.kafka_client import Client
from cdcv2.timeline.ordering import AS_COMPLETE
from tests.guarded_kafka import guarded_kafka
from tests.logs.polling import next_of, until

pytestmark = pytest.mark.integration

ROW = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": "string"}]})
FIRST, SECOND, LAST = Updates([(ROW.row([1, "a"]), 3, 1)]), Progress([0], [5], {3: 1}), Progress([5], [])
SAFE = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """One broker for all of this module's tests; each uses topics of its own."""
    with KafkaBroker() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic's name that no other test has."""
    return str(request.node.name).replace("[", ".").replace("]", "").replace("=", "-")


def made(broker: KafkaBroker, topic: str, partitions: int = 1, **settings: str) -> None:
    """A topic with these settings."""
    client = Client(broker.bootstrap)
    new = client.questions.NewTopic(topic, partitions, 1, config={**SAFE, **settings})
    client.admin.create_topics([new])[topic].result(60)


def put(broker: KafkaBroker, topic: str, *values: bytes | None) -> None:
    """Records that somebody else writes."""
    producer = Client(broker.bootstrap).producer()
    for value in values:
        producer.produce(topic, value=value)
    assert 0 == producer.flush(240)


def trim(broker: KafkaBroker, topic: str, before: int) -> None:
    """Records removed from the head of partition 0."""
    client = Client(broker.bootstrap)
    place = client.kafka.TopicPartition(topic, 0, before)
    client.admin.delete_records([place])[place].result(60)


def check_topic(topic: str, bootstrap: str, after: Positions | None = None) -> Topic:
    """The topic, which holds everything from the positions on, and keeps it. Raises what a log raises."""
    described = describe(Client(bootstrap), topic)
    check_keeps(described)
    check_positions(described, after or {})
    return described


def log_of(broker: KafkaBroker, topic: str, *messages: Message, **settings: Any) -> KafkaLog:
    """A new log with these messages."""
    log = KafkaLog(topic, broker.bootstrap, ROW, create=True, **settings)
    for message in messages:
        log.send(message)
    log.flush()
    return log


def messages(log: KafkaLog, after: dict[int, int] | None = None) -> list[Any]:
    """What is read from the log now."""
    return [entry.message for entry in log.read(after) if entry is not None]


def test_messages_come_back_with_their_positions(broker: KafkaBroker, topic: str) -> None:
    """In one partition they keep their order."""
    log = log_of(broker, topic, FIRST, SECOND, LAST)
    entries = [entry for entry in log.read() if entry is not None]

    assert [FIRST, SECOND, LAST] == [entry.message for entry in entries]
    assert [Position(topic, 0, offset) for offset in range(3)] == [entry.position for entry in entries]
    assert ({0: 3}, topic) == (log.ends(), log.name)
    assert [LAST] == messages(log, {0: 2}) and [] == messages(log, {0: 3})


def test_a_log_is_made_so_that_it_keeps_everything(broker: KafkaBroker, topic: str) -> None:
    """The topic has the settings that are demanded of every log, and as many partitions as were asked for."""
    log_of(broker, topic, partitions=3)
    described = check_topic(topic, broker.bootstrap)

    assert SAFE == {name: described.settings[name] for name in SAFE}
    assert [0, 1, 2] == sorted(described.spans)
    assert [0, 1, 2] == sorted(log_of(broker, topic, partitions=1).ends())


def test_several_partitions_are_one_log(broker: KafkaBroker, topic: str) -> None:
    """All of it is read, from each partition's own position."""
    many = [Updates([(ROW.row([number, "x" * 200]), 3, 1)]) for number in range(300)]
    log = log_of(broker, topic, partitions=3)
    for message in many:
        log.send(message)
        log.flush()
    half = {part: end // 2 for part, end in log.ends().items()}

    assert sorted(message.updates[0][0].id for message in messages(log)) == list(range(300))
    assert 1 < sum(end > 0 for end in log.ends().values())
    assert 300 - sum(half.values()) == len(messages(log, half))


def test_a_mangled_history_is_replayed_from_a_topic(broker: KafkaBroker, topic: str) -> None:
    """The whole road: a writer that resumes, duplicates and disorder, three partitions, one history."""
    log = log_of(broker, topic)
    for time in (1, 2, 3):
        with Writer(log) as writer:
            writer.extend([(ROW.row([number, "a"]), time, 1 if time == 1 else -1) for number in range(time, 9)])
            writer.advance([time + 1])
    with Writer(log) as writer:
        writer.finish()
    with pytest.raises(LogFinishedError):
        Writer(log)
    other = log_of(broker, f"{topic}.mangled", partitions=3)
    for message in mangle(messages(log), seed=1, copies=3):
        other.send(message)
    other.flush()
    straight, mangled = Iter(log.read()), Iter(other.read())

    assert sorted(u for updates, _ in straight for u in updates) == sorted(u for updates, _ in mangled for u in updates)
    assert straight.closed and mangled.closed and not mangled.missing()


def test_a_missing_topic_is_named_and_not_made(broker: KafkaBroker, topic: str) -> None:
    """Reading a misspelt name must not make the topic that it names."""
    for _ in range(2):
        with pytest.raises(MissingLogError, match=topic):
            KafkaLog(topic, broker.bootstrap, ROW)
    with pytest.raises(MissingLogError, match="no such name"):
        check_topic("no such name", broker.bootstrap)
    with pytest.raises(UsageError):
        KafkaLog("", broker.bootstrap, ROW)


@pytest.mark.parametrize("setting", ["cleanup.policy=compact", "retention.ms=1000", "retention.bytes=100000"])
def test_a_topic_that_would_lose_statements_is_refused(broker: KafkaBroker, topic: str, setting: str) -> None:
    """By the writer or the reader, before the first message."""
    name, _, value = setting.partition("=")
    made(broker, topic, **{name: value})
    for create in (False, True):
        with pytest.raises(UnsafeTopicError, match=f"{name}={value}"):
            KafkaLog(topic, broker.bootstrap, ROW, create=create)
    with pytest.raises(UnsafeTopicError):
        check_topic(topic, broker.bootstrap)


def test_a_topic_that_is_no_log_is_named_so_whatever_its_settings_are(broker: KafkaBroker, topic: str) -> None:
    """A connector's own topic forgets by right, and altering its settings would be wrong. A log's are looked at."""
    made(broker, topic, 2, **{"retention.ms": "604800000"})
    put(broker, topic, b'{"op": "c"}', b'{"op": "c"}')
    for create in (False, True):
        with pytest.raises(DecodeError, match=r"@0: these are JSON.*a connector's own topic is captured first"):
            KafkaLog(topic, broker.bootstrap, ROW, create=create)
    made(broker, f"{topic}.log", **{"retention.ms": "604800000"})
    put(broker, f"{topic}.log", MessageCodec(ROW).encode(FIRST))
    with pytest.raises(UnsafeTopicError, match="retention.ms=604800000"):
        KafkaLog(f"{topic}.log", broker.bootstrap, ROW)


def test_a_topic_trimmed_at_its_head_is_refused(broker: KafkaBroker, topic: str) -> None:
    """From the start it cannot be read any more; from behind the gap it can."""
    log = log_of(broker, topic, FIRST, SECOND, LAST)
    trim(broker, topic, 2)

    with pytest.raises(UnsafeTopicError, match="begins at offset 2"):
        log.read()
    with pytest.raises(UnsafeTopicError, match="begins at offset 2"):
        check_topic(topic, broker.bootstrap)
    assert [LAST] == messages(log, {0: 2})
    check_topic(topic, broker.bootstrap, after={0: 2})


@pytest.mark.parametrize("follow", [False, True])
def test_a_topic_trimmed_while_it_is_read_is_an_error(broker: KafkaBroker, topic: str, follow: bool) -> None:
    """Never passed over in silence: what was removed may have been the statement that everyone waits for."""
    log = log_of(broker, topic, FIRST, SECOND, LAST)
    reading = log.read(follow=follow)
    trim(broker, topic, 2)
    with pytest.raises(UnsafeTopicError, match="missing that were to be read"):
        next_of(reading)


def test_a_topic_made_anew_is_not_read_on(broker: KafkaBroker, topic: str) -> None:
    """Positions beyond its end, or in partitions that it has not, are another topic's."""
    log = log_of(broker, topic, FIRST)
    with pytest.raises(UnsafeTopicError, match="made again"):
        log.read({0: 2})
    with pytest.raises(UnsafeTopicError, match="no partition 1"):
        log.read({0: 1, 1: 5})


def test_foreign_records_are_given_as_such(broker: KafkaBroker, topic: str) -> None:
    """With their position and the reason, between the messages of the log; the consumer judges."""
    log = log_of(broker, topic, FIRST)
    torn = MessageCodec(ROW).encode(SECOND)[:-1]
    put(broker, topic, b'{"hello": "world"}', torn, None, b"")
    log.send(SECOND)
    log.flush()
    entries = [entry for entry in log.read() if entry]
    garbled = [entry.message for entry in entries if isinstance(entry.message, GarbledMessage)]

    assert [FIRST, SECOND] == [entries[0].message, entries[-1].message]
    assert [b'{"hello": "world"}', torn, b"", b""] == [item.raw for item in garbled]
    assert all(item.reason for item in garbled) and "without a value" in garbled[2].reason
    assert f"{topic}[0]@1" == str(entries[1].position)


def test_large_messages_are_split_to_fit_the_topic(broker: KafkaBroker, topic: str) -> None:
    """Updates into smaller messages, statements into sub-intervals: the history is the same."""
    made(broker, topic, **{"max.message.bytes": "2000"})
    log = KafkaLog(topic, broker.bootstrap, ROW)
    updates = [(ROW.row([number, "x" * 50]), number, 1) for number in range(1000)]
    log.send(Updates(updates))
    log.send(Progress([0], [], {number: 1 for number in range(1000)}))
    log.flush()
    reader = Iter(log.read())

    assert updates == [update for given, _ in reader for update in given]
    assert reader.closed
    with pytest.raises(RefusedError, match="max.message.bytes"):
        log.send(Updates([(ROW.row([1, "x" * 3000]), 1, 1)]))


def test_a_limit_that_was_lowered_later_is_refused_clearly(broker: KafkaBroker, topic: str) -> None:
    """The broker refuses the message, and flush reports it with the remedy, as soon as the new limit is in force."""
    log = log_of(broker, topic, patience=60)
    client = Client(broker.bootstrap)
    kind = client.questions
    entry = kind.ConfigEntry("max.message.bytes", "1000", incremental_operation=kind.AlterConfigOpType.SET)
    resource = kind.ConfigResource(kind.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client.admin.incremental_alter_configs([resource])[resource].result(60)
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=20000))
    with pytest.raises(RefusedError, match="max.message.bytes"):
        for number in range(1, 10000):
            log.send(Updates([(ROW.row([number, noise]), 1, 1)]))
            log.flush()


def test_confluent_framing_goes_through_a_topic(broker: KafkaBroker, topic: str) -> None:
    """For topics that are shared with tools that need a registry."""
    log = log_of(broker, topic, FIRST, confluent_schema_id=7)
    (bare,) = [entry.message for entry in KafkaLog(topic, broker.bootstrap, ROW).read() if entry]

    assert [FIRST] == messages(log)
    assert isinstance(bare, GarbledMessage) and bare.raw.startswith(bytes([0, 0, 0, 0, 7]))


def test_a_followed_log_goes_on(broker: KafkaBroker, topic: str) -> None:
    """Nothing now is yielded as None; what comes later is given, and so are partitions that are added."""
    log = log_of(broker, topic, FIRST)
    followed = log.read(follow=True)
    assert FIRST == next_of(followed).message
    assert next(followed) is None
    log.send(SECOND)
    log.flush()
    assert SECOND == next_of(followed).message

    client = Client(broker.bootstrap)
    client.admin.create_partitions([client.questions.NewPartitions(topic, 2)])[topic].result(60)
    until(lambda: [0, 1] == sorted(log.ends()), "the second partition is there")
    producer = client.producer()
    producer.produce(topic, partition=1, value=MessageCodec(ROW).encode(LAST))
    assert 0 == producer.flush(240)
    assert Position(topic, 1, 0) == next_of(followed).position


def test_a_log_of_which_nothing_comes_is_read_by_another_consumer(
    broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a client ceases to fetch a partition: no error comes, and the broker has more."""
    monkeypatch.setattr(kafka, "_LOOK", 0.05)
    log, consumers = log_of(broker, topic, FIRST), list[Any]()
    make = log._client.consumer

    def noted(**more: Any) -> Any:
        consumers.append(make(**more))
        return consumers[-1]

    monkeypatch.setattr(log._client, "consumer", noted)
    followed = log.read(follow=True)
    assert FIRST == next_of(followed).message
    assert next(followed) is None
    consumers[0].pause([log._client.kafka.TopicPartition(topic, 0)])
    for message in (SECOND, LAST):
        log.send(message)
    log.flush()

    assert [SECOND, LAST, 2] == [next_of(followed).message, next_of(followed).message, len(consumers)]


def test_a_broker_that_is_down_is_unavailable_in_bounded_time() -> None:
    """With its address and the client's last message, for every way to ask."""
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=nobody) as caught:
        KafkaLog("orders", nobody, ROW, patience=1)
    assert "refused" in str(caught.value)
    with pytest.raises(UnavailableError, match=nobody):
        KafkaLog("orders", nobody, ROW, create=True, patience=1)


def test_a_broker_that_goes_away_and_comes_back(
    broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower waits for it, who reads to the end gives up; a flush fails, and done again it loses nothing."""
    caplog.set_level(logging.WARNING)
    log_of(broker, topic, FIRST)
    log, follower = (KafkaLog(topic, broker.bootstrap, ROW) for _ in range(2))
    followed = follower.read(follow=True)
    assert FIRST == next_of(followed).message
    until(lambda: next(followed) is None, "nothing more is there")
    to_the_end = log.read()
    broker.kill9()
    log._client.patience, follower._client.patience = 2, 3

    with pytest.raises(UnavailableError):
        next(to_the_end)
    log.send(SECOND)
    with pytest.raises(UnavailableError):
        log.flush()
    with pytest.raises(UnavailableError):
        log.read()
    # A buffer that is full makes the sender wait, not fail.
    small = KafkaLog.__new__(KafkaLog)
    small.__dict__.update(log.__dict__, _producer=log._client.producer(queue_buffering_max_messages=1))
    small._unacknowledged, small._failed = {}, []
    for message in (SECOND, SECOND):
        small.send(message)
    with pytest.raises(UnavailableError):
        small.flush()
    small.close()
    until(lambda: next(followed) is None and "does not answer" in caplog.text, "the follower notices")
    broker.restart()
    log._client.patience = 60
    log.flush()

    assert SECOND == next_of(followed).message
    assert [FIRST, SECOND] == list(dict.fromkeys(messages(log)))


def test_a_closed_log_can_be_used_again(broker: KafkaBroker, topic: str) -> None:
    """Closing releases connections, and has no effect on the log."""
    log = log_of(broker, topic, FIRST)
    log.close()
    log.send(SECOND)
    log.flush()

    assert [FIRST, SECOND] == messages(log)


def test_settings_come_from_a_file_and_stay_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Java's own file logs us in; a wrong password is reported, and shown nowhere."""
    with guarded_kafka(PASSWORD) as guarded:
        path, address = guarded.login(tmp_path), guarded.address
        log = KafkaLog("orders", address, ROW, config_file=path, create=True)
        log.send(FIRST)
        log.flush()
        assert [FIRST] == messages(log)

        path.write_text(path.read_text().replace(PASSWORD, "wrong horse"))
        with pytest.raises(UnavailableError, match=address) as caught:
            KafkaLog("orders", address, ROW, config_file=path, patience=2)
        assert "uthentication" in str(caught.value)
        assert "horse" not in str(caught.value) + caplog.text + repr(log)


def test_a_log_is_marked_with_another_ordering_than_that_of_commits(broker: KafkaBroker, topic: str) -> None:
    """Before anything is in it, by every message, and after messages without; a reader needs to know nothing."""
    log_of(broker, f"{topic}.old", FIRST).close()
    eager, commit = LogDescription(AS_COMPLETE), f"{topic}.commit"
    logs = [log_of(broker, name, description=eager, partitions=3) for name in (topic, f"{topic}.old")]
    empty = log_of(broker, commit)
    there = [KafkaLog(log.name, broker.bootstrap, ROW) for log in logs]

    assert [AS_COMPLETE] * 2 == [log.description().ordering for log in there]
    assert ([Updates([])], [FIRST, Updates([])]) == (messages(logs[0]), messages(logs[1]))
    # A log that is marked is not marked again.
    assert {1, 2} == {sum(log_of(broker, log.name, description=eager).ends().values()) for log in logs}
    unmarked = [empty.description(), log_of(broker, commit, SECOND).description()]
    assert [LogDescription(identity=unmarked[0].identity)] * 2 == unmarked
    # Every message has the mark, so that it is there whatever of the log is read or copied.
    late = KafkaLog(f"{topic}.old", broker.bootstrap, ROW, description=eager)
    late.send(SECOND)
    late.flush()
    reader = KafkaLog(f"{topic}.old", broker.bootstrap, ROW)
    assert [(SECOND, eager.headers())] == [one[1:] for one in reader.read({0: 2}) if one]


def test_a_stop_stands_beside_an_empty_message(broker: KafkaBroker, topic: str) -> None:
    """A reader finds it at the end of the topic, or where it has read it; it is no fact."""
    log = log_of(broker, topic)
    log.send(FIRST)
    log.flush()
    assert [] == log.stops()
    stop = Stop("the END of transaction 5 is missing", "start over")
    log.put_stop(stop)
    assert [stop] == KafkaLog(topic, broker.bootstrap, ROW).stops()
    log.send(SECOND)
    log.flush()
    reader = KafkaLog(topic, broker.bootstrap, ROW)
    assert [FIRST, Updates([]), SECOND] == [one.message for one in reader.read() if one]
    assert [stop] == reader.stops()


def test_what_a_log_stated_before_stands_beside_what_comes_later(broker: KafkaBroker, topic: str) -> None:
    """A reader looks at the last message; a writer that opens the log again need not know where it begins."""
    log = log_of(broker, topic, description=LogDescription(timeline="x"))
    for start in ("none", "70"):
        log.describe(LogDescription(start=start))
        assert start == KafkaLog(topic, broker.bootstrap, ROW).description().start
    again = log_of(broker, topic, description=LogDescription(timeline="x"))
    # One that has not come to where it begins.
    again.describe(LogDescription(start="none"))
    again.send(FIRST)
    again.flush()
    stated = KafkaLog(topic, broker.bootstrap, ROW).description()
    assert ("70", "x") == (stated.start, stated.timeline)


def test_a_log_states_its_timeline_in_every_message_and_takes_no_other(broker: KafkaBroker, topic: str) -> None:
    """Attributes of one message stand beside that one only, also when it is sent again; two timelines are an error."""
    mine = LogDescription(timeline="x")
    log = log_of(broker, topic, description=mine)
    log.send(FIRST, (("cdcv2-other", b"1"),))
    log.flush()
    log.send(SECOND)
    log.flush()
    beside = [one.headers for one in KafkaLog(topic, broker.bootstrap, ROW).read() if one]
    assert [mine.headers(), (*mine.headers(), ("cdcv2-other", b"1")), mine.headers()] == beside

    with pytest.raises(ForeignStateError, match=f"{topic} is of the timeline x, and of the timeline y"):
        log_of(broker, topic, description=LogDescription(timeline="y"))
    # One that does not look before it writes.
    other = KafkaLog(topic, broker.bootstrap, ROW, description=LogDescription(timeline="y"))
    other.send(FIRST)
    other.flush()
    with pytest.raises(ForeignStateError, match=f"{topic} is of the timeline y, and of the timeline x"):
        messages(KafkaLog(topic, broker.bootstrap, ROW))


def test_an_empty_topic_that_is_read_with_a_log_is_of_its_timeline(broker: KafkaBroker, topic: str) -> None:
    """It states nothing before its first message; of another timeline, that is an error where it is read."""
    log = log_of(broker, topic, FIRST, description=LogDescription(timeline="x"))
    empty = f"{topic}-empty"
    log_of(broker, empty)
    later = KafkaLog(empty, broker.bootstrap, ROW)
    assert "x" == check_timeline([NamedLog("a", log, ROW), NamedLog("b", later, ROW)], None)
    other = KafkaLog(empty, broker.bootstrap, ROW, description=LogDescription(timeline="y"))
    other.send(FIRST)
    other.flush()

    assert [FIRST] == messages(KafkaLog(empty, broker.bootstrap, ROW))
    with pytest.raises(ForeignStateError, match=f"{empty} is of the timeline y, and of the timeline x"):
        messages(later)


def test_where_a_log_begins_is_stated_by_all_that_write_it(broker: KafkaBroker, topic: str) -> None:
    """Also by one that opens it later without the attribute: its last message stands for all."""
    mine = LogDescription(timeline="x")
    first = log_of(broker, topic, description=mine)
    first.describe(LogDescription(start="none"))
    first.describe(LogDescription(start="140"))
    later = log_of(broker, topic, description=mine)
    later.send(SECOND)
    later.flush()
    assert "140" == KafkaLog(topic, broker.bootstrap, ROW).description().start


def test_a_statement_has_the_clock_of_its_release(broker: KafkaBroker, topic: str) -> None:
    """In its header, in any log of the set, also where it is split; a moment of the clock is asked for by it."""
    tables = {name: ROW for name in ("public.a", "public.b")}
    logs = {name: KafkaLog(f"{topic}.{name}", broker.bootstrap, ROW, create=True) for name in tables}
    with Capture(Recipe("shop", tables, snapshot="none"), logs) as capture:
        for number, (lsn, ts_ms) in enumerate([(20, 1795251720505), (30, 1795251720905), (40, None)]):
            capture.absorb_fact(End(number, lsn, {}, ts_ms), Position("shop.transaction", 0, number))
            capture.release()

    kept = [ReleaseTime(20, 1795251720505), ReleaseTime(30, 1795251720905)]
    for name, log in logs.items():
        seen = [entry.message.upper.elements[0] for entry in log.read()
                if entry and RELEASE in dict(entry.headers) and isinstance(entry.message, Progress)]
        assert (kept, [21, 31]) == (log.release_times(), seen), name
    log = KafkaLog(f"{topic}.public.b", broker.bootstrap, ROW)
    assert 20 == time_at("2026-11-21T09:02:00.904Z", [NamedLog("public.b", log, ROW)], "as-of")
    with pytest.raises(UsageError, match="the first time known is 2026-11-21T09:02:00.505Z"):
        time_at("2026-11-21T09:02:00Z", [NamedLog("public.b", log, ROW)], "as-of")
    # Of a large statement each part has it.
    made(broker, f"{topic}.small", **SAFE, **{"max.message.bytes": "1200"})
    small = KafkaLog(f"{topic}.small", broker.bootstrap, ROW, writing=True)
    small.keep_release(ReleaseTime(2000, 5))
    small.send(Progress([0], [2001], {time: 1 for time in range(2000)}))
    small.flush()
    assert [ReleaseTime(2000, 5)] == KafkaLog(f"{topic}.small", broker.bootstrap, ROW).release_times()
