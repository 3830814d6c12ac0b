"""Topics in a real Kafka: the stories of every kind, and what is Kafka's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, NoAnswer, Reason
from cdcv2.control.intents import used
from cdcv2.control.kinds.folders import StateFolderKind
from cdcv2.control.kinds.remaps import RemapKind
from cdcv2.control.kinds.topics import BEFORE_DELETE, TopicKind
from cdcv2.errors import MissingLogError
from cdcv2.logs.kafka_topics import KEEPING, create_topic
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.store.kafka_client import Client
from tests.kinds_of_state import STORIES, KindCase
from tests.topics import delete_topic

pytestmark = pytest.mark.integration

SETTINGS = {"partitions": 2, "retention.ms": "-1"}


def write(client: Client, topic: str) -> None:
    """A record."""
    producer = client.producer()
    producer.produce(topic, b"x")
    producer.flush(30)


def there(client: Client, topic: str) -> bool:
    """Whether there is such a topic."""
    try:
        return bool(client.topic_id(topic))
    except MissingLogError:
        return False


def case_at(broker: KafkaBroker, name: str, kind: Kind = Kind.TOPIC) -> KindCase:
    """A topic."""
    client = Client(broker.bootstrap, patience=20)

    def theirs() -> None:
        create_topic(client, name, partitions=1)
        write(client, name)

    how = TopicKind({"Kafka": client})
    return KindCase(
        kind, how if kind is Kind.TOPIC else RemapKind(how, StateFolderKind()), "Kafka", name,
        SETTINGS if kind is Kind.TOPIC else {"partitions": 1}, theirs,
        lambda: delete_topic(broker.bootstrap, name), lambda: there(client, name), (BEFORE_DELETE,),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.REMAP])
@pytest.mark.parametrize("story", STORIES)
def test_topics_do_as_every_kind_does(story: Callable[[KindCase], None], kind: Kind, broker: KafkaBroker) -> None:
    """Under a name that a user chose, so that only id and content show whose it is."""
    case = case_at(broker, f"{story.__name__}-{kind}", kind)
    story(case)

    assert not case.exists()


def test_a_topic_that_was_made_again_under_its_name_is_another(broker: KafkaBroker) -> None:
    """It is empty, so all records are lost: its id is another."""
    case = case_at(broker, "made-again")
    made = case.up()
    case.catalogue.kept[made.nonce] = used(made, case.now)
    case.drop()
    case.theirs()
    entry = case.go_on()
    assert entry.debt is not None and EntryState.LOST is entry.state
    assert f"that one has the identity {made.identity}" in entry.debt.text

    assert (EntryState.GONE, True) == (case.down().state, case.exists())


def test_what_a_cluster_has_is_removed_by_whatever_address_leads_to_it(broker: KafkaBroker) -> None:
    """The file has another address of it by now. One of another cluster leads to nothing of ours."""
    case = case_at(broker, "moved")
    made = case.up()
    away = Client("127.0.0.1:1", patience=0.5)
    case.how = TopicKind({"away": away})
    owed = case.down()
    assert owed.debt is not None and "no cluster Kafka is declared any more" in owed.debt.text and case.exists()
    case.how = TopicKind({"away": away, "localhost": Client(broker.bootstrap, patience=20)})
    case.catalogue.kept[made.nonce] = replace(owed, server="another")
    owed = case.go_on()
    assert owed.debt is not None and "no cluster Kafka is declared any more" in owed.debt.text and case.exists()
    case.catalogue.kept[made.nonce] = replace(owed, server=made.server)

    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_settings_follow_the_file_and_partitions_stay(broker: KafkaBroker) -> None:
    """A changed setting is applied; what others changed is shown; more partitions are refused in words."""
    case = case_at(broker, "settings")
    case.up()
    changed = {**SETTINGS, "max.message.bytes": "2000000"}
    assert case.up(settings=changed).debt is None

    client = Client(broker.bootstrap)
    kind = client.questions.ConfigResource
    entry = client.questions.ConfigEntry(
        "retention.ms", "60000", incremental_operation=client.questions.AlterConfigOpType.SET
    )
    resource = kind(kind.Type.TOPIC, "settings", incremental_configs=[entry])
    client.admin.incremental_alter_configs([resource])[resource].result(20)
    drifted = case.up(settings=changed)
    assert drifted.debt is not None and Reason.DRIFT is drifted.debt.reason
    assert "retention.ms is '60000', not '-1'" in drifted.debt.text
    assert KEEPING["retention.ms"] == "-1"

    assert EntryState.GONE is case.down().state


def test_a_broker_that_is_away_is_waited_for() -> None:
    """On the way up and on the way down."""
    with KafkaBroker() as broker:
        case = case_at(broker, "away")
        case.how = TopicKind({"Kafka": Client(broker.bootstrap, patience=2)})
        broker.stop()
        entry = case.up()
        assert entry.debt is not None and Reason.UNREACHABLE is entry.debt.reason
        broker.start()
        case.how = TopicKind({"Kafka": Client(broker.bootstrap)})
        assert EntryState.MADE is case.go_on().state
        broker.stop()
        case.how = TopicKind({"Kafka": Client(broker.bootstrap, patience=2)})
        entry = case.down()
        assert entry.debt is not None and (EntryState.UNWANTED, Reason.UNREACHABLE) == (entry.state, entry.debt.reason)
        broker.start()
        case.how = TopicKind({"Kafka": Client(broker.bootstrap)})

        assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_a_topic_that_others_make_a_moment_before_us_is_refused(broker: KafkaBroker) -> None:
    """Between our look and our request: it is empty and fits, and it is not ours."""
    case = case_at(broker, "a-moment-before")
    plain = case.how.make

    def make(entry: CatalogueEntry) -> NoAnswer | None:
        create_topic(Client(broker.bootstrap), entry.name, partitions=2)
        return plain(entry)

    case.how.make = make  # type: ignore[method-assign]
    entry = case.up()
    assert entry.debt is not None and (EntryState.WANTED, Reason.REFUSED) == (entry.state, entry.debt.reason)
    assert (EntryState.GONE, True) == (case.down().state, case.exists())
    case.drop()
