"""What Kafka does not let us do, on a real one: which rights writing and reading need, and what a missing one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.kafka_rights import may_create, rights_to
from cdcv2.logs.kafka_topics import create_topic
from cdcv2.logs.remap_kafka import KafkaRemap
from cdcv2.protocol.messages import Message, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from cdcv2.store.kafka_client import Client
from tests.guarded_kafka import GuardedKafka, guarded_kafka

pytestmark = pytest.mark.integration
ROW = RowType({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
MESSAGES: list[Message] = [Updates([(ROW.row([number]), number, 1)]) for number in range(3)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[GuardedKafka]:
    """In which alice may do nothing."""
    with guarded_kafka("correct horse", rights=True) as running:
        yield running


@pytest.fixture
def topic(kafka: GuardedKafka, request: pytest.FixtureRequest) -> str:
    """One that is there, without a record."""
    name = f"log-{request.node.name}"
    create_topic(Client(kafka.broker.bootstrap), name, partitions=1)
    return name


def opened(kafka: GuardedKafka, topic: str, folder: Path) -> KafkaLog:
    """The log, for alice."""
    return KafkaLog(topic, kafka.address, ROW, config_file=kafka.login(folder), patience=10)


def refused(act: Callable[[], object]) -> UnavailableError:
    """The error of what is refused, when the cluster knows of it: rights that are taken come a moment later."""
    errors: list[UnavailableError] = []

    def there() -> bool:
        try:
            act()
        except UnavailableError as error:
            errors.append(error)
        return bool(errors)

    assert poll_until(there, 20, pause=0.2)
    assert errors[0].forbidden, errors[0]
    return errors[0]


def held(log: KafkaLog) -> list[Message]:
    """What it holds."""
    return [entry.message for entry in log.read() if entry is not None]


def done(act: Callable[[], object]) -> bool:
    """Whether it is done at last."""

    def there() -> bool:
        try:
            act()
        except UnavailableError:
            return False
        return True

    return poll_until(there, 20, pause=0.2)


def test_the_rights_of_its_topic_are_enough_for_a_log(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """To write: WRITE. To read: READ. No right to a group, or to the cluster."""
    assert f"does not let us use topic '{topic}'" in str(refused(lambda: opened(kafka, topic, tmp_path)))
    kafka.grant(topic, "READ", "WRITE")
    assert done(lambda: opened(kafka, topic, tmp_path))
    log = opened(kafka, topic, tmp_path)
    for message in MESSAGES:
        log.send(message)
    log.flush()

    assert MESSAGES == held(log)


def test_what_may_not_be_written_is_kept_and_sent_later(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """The producer ends for good, as it gets no identity; another one sends what it had, all of it."""
    kafka.grant(topic, "READ")
    assert done(lambda: opened(kafka, topic, tmp_path))
    log = opened(kafka, topic, tmp_path)
    for message in MESSAGES[:2]:
        log.send(message)
    assert "authorization failed" in str(refused(log.flush)).lower()
    assert "authorization failed" in str(refused(log.flush)).lower()
    kafka.grant(topic, "WRITE")
    assert done(log.flush)
    log.send(MESSAGES[2])
    log.flush()

    assert {str(message) for message in MESSAGES} == {str(message) for message in held(log)}


def test_a_right_that_is_taken_while_a_log_is_written(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """What was sent meanwhile is there when the right is back."""
    kafka.grant(topic, "READ", "WRITE")
    assert done(lambda: opened(kafka, topic, tmp_path))
    log = opened(kafka, topic, tmp_path)
    log.send(MESSAGES[0])
    log.flush()
    kafka.revoke(topic, "WRITE")

    def write() -> None:
        log.send(MESSAGES[1])
        log.flush()

    refused(write)
    kafka.grant(topic, "WRITE")
    assert done(log.flush)
    assert {str(message) for message in MESSAGES[:2]} == {str(message) for message in held(log)}


def test_what_may_not_be_read_is_no_end(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """Without READ a log that may be seen is not an empty one."""
    whole = KafkaLog(topic, kafka.broker.bootstrap, ROW)
    whole.send(MESSAGES[0])
    whole.flush()
    kafka.grant(topic, "DESCRIBE")
    assert done(lambda: Client(kafka.address, kafka.login(tmp_path)).topic_id(topic))

    refused(lambda: held(opened(kafka, topic, tmp_path)))


def test_a_remap_needs_no_more(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """And what may not be appended is not there."""
    kafka.grant(topic, "READ")
    login = kafka.login(tmp_path)
    assert done(lambda: KafkaRemap(topic, kafka.address, config_file=login, patience=10))
    remap = KafkaRemap(topic, kafka.address, config_file=login, patience=10)
    refused(lambda: remap.append(b"a", 0))
    assert [] == list(remap.read(0).records)
    kafka.grant(topic, "WRITE")
    assert done(lambda: remap.append(b"b", 0))

    assert [b"b"] == [raw for _, raw in remap.read(0).records]


def test_rights_are_asked_for_and_nothing_is_made(kafka: GuardedKafka, topic: str, tmp_path: Path) -> None:
    """Of topics that are there, that we may not see, and that are not there; also without an authorizer in between."""
    client, missing = Client(kafka.address, kafka.login(tmp_path)), f"{topic}-missing"
    assert {topic: frozenset(), missing: frozenset()} == rights_to(client, [topic, missing])
    assert not may_create(client, missing)
    kafka.grant(topic, "READ")
    kafka.grant(missing, "CREATE", "DESCRIBE")
    assert poll_until(lambda: {topic: frozenset({"READ", "DESCRIBE"}), missing: None} == rights_to(
        client, [topic, missing]), 20, pause=0.2)
    assert may_create(client, missing)
    of_all = rights_to(Client(kafka.broker.bootstrap), [topic, missing])

    assert of_all[missing] is None and {"READ", "WRITE", "DELETE"} <= (of_all[topic] or frozenset())
    assert {} == rights_to(client, [])
