"""Settings for Kafka come from a file, serve Java's clients and ours, and are never shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cdcv2.connectors.kafka_ranges import judge
from cdcv2.core.order import Product
from cdcv2.errors import MalformedError, MissingExtraError, RefusedError, UnsafeTopicError, UsageError
from cdcv2.logs.kafka import split
from cdcv2.logs.kafka_topics import Topic, check_keeps
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.store.kafka_client import Client, read_properties, translated

SECRET = "hunter2"


def written(tmp_path: Path, text: str) -> Path:
    """A settings file."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    return path


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """Comments, blanks around the sign, values with signs in them, lines that go on."""
    path = written(tmp_path, "# ours\n! theirs\n\nsecurity.protocol = SSL\na=b=c\nlong=one,\\\n  two\nempty=\n")

    assert {"security.protocol": "SSL", "a": "b=c", "long": "one,two", "empty": ""} == read_properties(path)


def test_a_line_that_is_no_setting_is_named_and_not_shown(tmp_path: Path) -> None:
    """It may be a password that lost its key."""
    with pytest.raises(UsageError, match="line 2") as caught:
        read_properties(written(tmp_path, f"a=b\n{SECRET}\n"))

    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A typing error in a path."""
    with pytest.raises(UsageError, match="none.properties"):
        Client("localhost:1", tmp_path / "none.properties")


def test_one_file_serves_javas_clients_and_ours() -> None:
    """What Java alone has is translated; what both have stays."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password={SECRET};'
    properties = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.endpoint.identification.algorithm": "",
    }

    assert {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": 'al"ice', "sasl.password": SECRET,
        "ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem",
        "ssl.endpoint.identification.algorithm": "none",
    } == translated(properties)
    assert {"sasl.username": "bob"} == translated({"sasl.username": "bob"})


def test_stores_that_only_java_reads_are_refused() -> None:
    """With the remedy, rather than by a failing handshake."""
    with pytest.raises(UsageError, match="PEM"):
        translated({"ssl.truststore.location": "/ca.jks"})


def test_brokers_are_given_or_in_the_file(tmp_path: Path) -> None:
    """The argument wins."""
    path = written(tmp_path, "bootstrap.servers=file:1\n")

    assert ("file:1", "given:1") == (Client(None, path).bootstrap, Client("given:1", path).bootstrap)
    with pytest.raises(UsageError, match="bootstrap"):
        Client(None)


@pytest.mark.parametrize(("name", "removed"), [
    ("_AUTO_OFFSET_RESET", True), ("OFFSET_OUT_OF_RANGE", True), ("_LOG_TRUNCATION", True), ("_TRANSPORT", False),
])
def test_a_topic_that_was_cut_off_lacks_records(name: str, removed: bool) -> None:
    """Behind what was read, too: others may have their offsets by now, and no start would notice it."""
    client = Client("127.0.0.1:1")
    error = client.kafka.KafkaError(getattr(client.kafka.KafkaError, name))

    assert removed is client.removed(error)
    if removed:
        with pytest.raises(UnsafeTopicError, match="are missing that were to be read .*start over"):
            judge(client, ("t", 0), error, "start over")


def test_no_setting_is_shown(tmp_path: Path) -> None:
    """Neither by repr nor by the error about a wrong one; an unknown name may be."""
    client = Client("localhost:1", written(tmp_path, f"sasl.password={SECRET}\nsecurity.protocol={SECRET}\n"))
    with pytest.raises(UsageError, match="client.properties") as caught:
        client.consumer()
    assert SECRET not in str(caught.value) + repr(client)
    assert caught.value.__cause__ is None

    with pytest.raises(UsageError, match="no.such.setting"):
        Client("localhost:1", written(tmp_path, "no.such.setting=1\n")).producer()


def test_without_the_client_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has no Kafka; importing the module is not yet using it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[kafka\]'"):
        Client("localhost:1")


@pytest.mark.parametrize(("settings", "said"), [
    ({"cleanup.policy": "compact"}, "cleanup.policy=delete"),
    ({"cleanup.policy": "compact,delete"}, "cleanup.policy=delete"),
    ({"retention.ms": "604800000"}, "retention.ms=-1"), ({"retention.bytes": "1000"}, "retention.bytes=-1"),
])
def test_a_topic_that_would_lose_statements_is_refused_with_the_remedy(settings: dict[str, str], said: str) -> None:
    """The command that cures it is in the text."""
    safe = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    check_keeps(Topic("t", {}, safe))
    with pytest.raises(RefusedError, match=said):
        check_keeps(Topic("t", {}, {**safe, **settings}))


def test_settings_that_cannot_be_read_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A reader without the right to describe topics still reads."""
    check_keeps(Topic("orders", {}, {}))

    assert "orders" in caplog.text and 1_000_000 == Topic("orders", {}, {}).message_bytes


def test_a_split_message_says_the_same() -> None:
    """In any order and number of parts: the same batches come out."""
    updates = Updates([(f"row {number}", number % 7, 1) for number in range(20)])
    statement = Progress([0], [9], {time: len(range(time, 20, 7)) for time in range(7)})
    whole = list(Iter([updates, statement]))
    for parts in range(1, 30):
        pieces = [*split(statement, parts), *split(updates, parts)]
        assert 4 <= len(pieces)
        reader = Iter(reversed(pieces))
        history = [update for given, _ in reader for update in given]

        assert sorted(history) == sorted(whole[0].updates) and reader.frontier == whole[0].upper


def test_a_statement_that_finishes_is_split_so_that_it_still_does() -> None:
    """Only the last piece is without end."""
    pieces = split(Progress([3], [], {3: 1, 5: 1, 2**63 - 1: 1}), 3)

    assert [([3], [5]), ([5], [2**63 - 1]), ([2**63 - 1], [])] == [
        (piece.lower.to_plain(), piece.upper.to_plain()) for piece in pieces if isinstance(piece, Progress)
    ]


@pytest.mark.parametrize(("message", "error"), [
    (Updates([("a", 1, 1)]), RefusedError), (Progress([0], [5], {1: 1}), RefusedError),
    (Progress([Product(0, 0)], [], {Product(0, 1): 1, Product(1, 0): 1}), RefusedError), ("text", MalformedError),
])
def test_what_cannot_be_split_is_refused(message: object, error: type[Exception]) -> None:
    """With what to do: nothing is cut in two that belongs together."""
    with pytest.raises(error):
        split(message, 2)  # type: ignore[arg-type]
