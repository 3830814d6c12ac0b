"""A real Kafka, a real Kafka Connect and a real folder that refuse a right, and a Connect that is another one.

PostgreSQL's rights are in test_kinds_postgres. What is refused is owed, and done as soon as the right is there; nothing
of it counts as missing, lost, or another's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.entries import EntryState, Kind, NoAnswer, Reason
from cdcv2.control.kinds.connectors import ConnectorKind
from cdcv2.control.kinds.folders import StateFolderKind
from cdcv2.control.kinds.remaps import RemapKind
from cdcv2.control.kinds.topics import TopicKind
from cdcv2.errors import UnavailableError
from cdcv2.logs.kafka_topics import create_topic
from cdcv2.servers import jars
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from cdcv2.store.connect_client import ConnectClient
from cdcv2.store.kafka_client import Client
from tests.guarded_kafka import GuardedKafka, guarded_kafka
from tests.kinds_of_state import KindCase

pytestmark = pytest.mark.integration
_LOGIN = "org.apache.kafka.connect.rest.basic.auth.extension"


@pytest.fixture(scope="module")
def kafka() -> Iterator[GuardedKafka]:
    """In which alice may do nothing."""
    with guarded_kafka("correct horse", rights=True) as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """With one table and a publication of it."""
    with Postgres() as running:
        with running.connect(autocommit=True) as session:
            session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); CREATE PUBLICATION shop FOR TABLE orders")
        yield running


@contextmanager
def connect_with_login(broker: KafkaBroker, postgres: Postgres, folder: Path) -> Iterator[DistributedConnect]:
    """It asks for the login of alice, as Connect's own extension does."""
    try:
        extension = jars.paths("connect-login")
    except UnavailableError as error:
        pytest.skip(f"Connect's extension for logins cannot be fetched: {error}")
    users, login = folder / "users", folder / "login.conf"
    users.write_text("alice=correct horse\n")
    login.write_text(f'KafkaConnect {{ {_LOGIN}.PropertyFileLoginModule required file="{users}"; }};\n')
    with DistributedConnect(
        broker.bootstrap,
        environment={**postgres.environment, "JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={login}"},
        settings={"rest.extension.classes": f"{_LOGIN}.BasicAuthSecurityRestExtension"},
        jars=extension,
    ) as worker:
        yield worker


def exists(kafka: GuardedKafka, name: str) -> bool:
    """Whether there is such a topic, with all rights and without our code."""
    return name in Client(kafka.broker.bootstrap).admin.list_topics(timeout=20).topics


def topic_case(kafka: GuardedKafka, kind: Kind, name: str, login: Path) -> KindCase:
    """A topic or a remap of alice."""
    how = TopicKind({"Kafka": Client(kafka.address, login, patience=20)})
    return KindCase(
        kind, how if kind is Kind.TOPIC else RemapKind(how, StateFolderKind()), "Kafka", name, {"partitions": 1},
        lambda: None, lambda: None, lambda: exists(kafka, name),
    )  # fmt: skip


def connector_case(connect: DistributedConnect, postgres: Postgres, login: Path | None) -> KindCase:
    """A connector of a publication that is there."""
    made = debezium_config("shop", ["public.orders"], host=postgres.host, port=postgres.port, database="bank",
                           user=postgres.username, publication="disabled",
                           more={"slot.name": "shop", "publication.name": "shop"})  # fmt: skip
    config = {name: value for name, value in made.items() if name != "name"}
    return KindCase(
        Kind.CONNECTOR, ConnectorKind({"Connect": ConnectClient(connect.url, login)}), "Connect", "shop", config,
        lambda: None, lambda: None, lambda: ConnectClient(connect.url, login).config("shop") is not None,
    )  # fmt: skip


def come_to(case: KindCase, state: EntryState, debt: Reason | None) -> bool:
    """Whether its entry is so at last: servers take a moment for a right that was given or taken."""

    def there() -> bool:
        entry = case.go_on()
        return (state, debt) == (entry.state, None if entry.debt is None else entry.debt.reason)

    return poll_until(there, 60, pause=0.2)


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.REMAP])
def test_what_kafka_refuses_is_owed_and_done_when_it_is_granted(
    kafka: GuardedKafka, kind: Kind, tmp_path: Path
) -> None:
    """To see, to make, to alter and to delete it, one right after the other, also while a job uses it."""
    name = f"rights-{kind}"
    case = topic_case(kafka, kind, name, kafka.login(tmp_path))
    entry = case.up()
    assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
    assert f"does not let us use topic '{name}'" in entry.debt.text and "correct horse" not in entry.debt.text
    kafka.grant(name, "DESCRIBE")
    assert come_to(case, EntryState.WANTED, Reason.DENIED)
    assert not exists(kafka, name)
    kafka.grant(name, "CREATE")
    assert come_to(case, EntryState.MADE, None)
    identity = case.entry().identity

    case.use()
    kafka.revoke(name, "DESCRIBE", "CREATE")
    assert come_to(case, EntryState.IN_USE, Reason.DENIED)
    kafka.grant(name, "DESCRIBE", "DESCRIBE_CONFIGS")
    assert come_to(case, EntryState.IN_USE, None) and identity == case.entry().identity

    if kind is Kind.TOPIC:
        # A remap is never altered.
        entry = case.up(settings={"partitions": 1, "max.message.bytes": "2000000"})
        assert entry.debt is not None and (EntryState.IN_USE, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        kafka.grant(name, "ALTER_CONFIGS")
        assert come_to(case, EntryState.IN_USE, None)

    entry = case.down()
    assert entry.debt is not None and (EntryState.UNWANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
    kafka.grant(name, "DELETE")
    assert come_to(case, EntryState.GONE, None)
    assert poll_until(lambda: not case.exists(), 20)


def test_one_of_others_that_we_may_not_see_is_not_made_and_not_removed(kafka: GuardedKafka, tmp_path: Path) -> None:
    """It looks as if it were not there; what is there under the name stays."""
    create_topic(Client(kafka.broker.bootstrap), "hidden", partitions=1)
    case = topic_case(kafka, Kind.TOPIC, "hidden", kafka.login(tmp_path))
    kafka.grant("hidden", "CREATE")
    entry = case.up()
    assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
    case.down()
    # Who may delete a topic may see it.
    kafka.grant("hidden", "DELETE")
    assert come_to(case, EntryState.GONE, None) and exists(kafka, "hidden")


def test_what_connect_refuses_is_owed_and_done_with_a_login(
    kafka: GuardedKafka, postgres: Postgres, tmp_path: Path
) -> None:
    """Without one, with a wrong one, with the right one; on the way up, while it is used, and on the way down."""
    login = tmp_path / "connect.netrc"
    with connect_with_login(kafka.broker, postgres, tmp_path) as connect:
        entry = connector_case(connect, postgres, None).up()
        assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        assert "asks for a login" in entry.debt.text
        login.write_text("machine 127.0.0.1 login alice password wrong\n")
        case = connector_case(connect, postgres, login)
        entry = case.up()
        assert entry.debt is not None and (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        right = 'machine 127.0.0.1 login alice password "correct horse"\n'
        login.write_text(right)
        assert come_to(case, EntryState.MADE, None) and case.exists()

        case.use()
        login.write_text("machine 127.0.0.1 login bob password hush\n")
        assert come_to(case, EntryState.IN_USE, Reason.DENIED)
        login.write_text(right)
        assert come_to(case, EntryState.IN_USE, None)
        login.write_text("machine 127.0.0.1 login bob password hush\n")
        entry = case.down()
        assert entry.debt is not None
        assert (EntryState.UNWANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        assert "hush" not in entry.debt.text and "horse" not in entry.debt.text
        login.write_text(right)
        assert come_to(case, EntryState.GONE, None) and not case.exists()


def test_another_connect_at_the_address_has_nothing_of_ours(
    kafka: GuardedKafka, postgres: Postgres, broker: KafkaBroker
) -> None:
    """It works for another Kafka. Nothing is made there, and nothing removed; ours is found when it is back."""
    with DistributedConnect(kafka.broker.bootstrap, environment=postgres.environment) as connect:
        case = connector_case(connect, postgres, None)
        case.up()
        assert come_to(case, EntryState.MADE, None)
        case.use()
        connect.stop()
        port = int(connect.url.rpartition(":")[2])
        with DistributedConnect(broker.bootstrap, environment=postgres.environment, port=port):
            theirs = ConnectClient(connect.url)
            config = {name: str(value) for name, value in case.entry().settings.items()}
            theirs.create("shop", config)
            assert come_to(case, EntryState.IN_USE, Reason.MOVED)
            entry = case.down()
            assert entry.debt is not None
            assert (EntryState.UNWANTED, Reason.MOVED) == (entry.state, entry.debt.reason), entry
            assert theirs.config("shop") is not None
            # Its Kafka is that of other tests.
            theirs.delete("shop")
            assert poll_until(lambda: theirs.config("shop") is None, 60)
        connect.start()
        assert come_to(case, EntryState.GONE, None)


def test_a_folder_that_we_may_not_look_into_is_owed() -> None:
    """By the rights of the file system, and not by an error that is placed."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = KindCase(Kind.STATE_FOLDER, StateFolderKind(), str(folder), str(folder / "state"), {}, lambda: None,
                        lambda: None, (folder / "state").exists)  # fmt: skip
        assert EntryState.MADE is case.up().state
        case.use()
        folder.chmod(0o700)
        try:
            os.seteuid(65534)
            entry = case.go_on()
            assert entry.debt is not None
            assert (EntryState.IN_USE, Reason.DENIED) == (entry.state, entry.debt.reason), entry
            entry = case.down()
            assert entry.debt is not None
            assert (EntryState.UNWANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        finally:
            os.seteuid(0)
        assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def test_a_folder_that_we_may_not_make_is_owed() -> None:
    """The same on the way up."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        case = KindCase(Kind.STATE_FOLDER, StateFolderKind(), str(folder), str(folder / "state"), {}, lambda: None,
                        lambda: None, (folder / "state").exists)  # fmt: skip
        try:
            os.seteuid(65534)
            entry = case.up()
            assert entry.debt is not None
            assert (EntryState.WANTED, Reason.DENIED) == (entry.state, entry.debt.reason), entry
        finally:
            os.seteuid(0)
        assert EntryState.MADE is case.go_on().state
        assert EntryState.GONE is case.down().state


def test_a_connector_whose_task_still_ends_is_waited_for(kafka: GuardedKafka, postgres: Postgres) -> None:
    """Connect takes the request to stop, and ends the task later. Before that its slot is not removed."""
    with DistributedConnect(kafka.broker.bootstrap, environment=postgres.environment) as connect:
        case = connector_case(connect, postgres, None)
        case.up()
        assert come_to(case, EntryState.MADE, None)
        client, kind = ConnectClient(connect.url), case.how
        assert isinstance(kind, ConnectorKind)
        answers: list[NoAnswer] = []

        def still_ends() -> bool:
            """Started again each time: a task may end before Connect is asked about it."""
            client._ask("PUT", "/connectors/shop/resume")
            assert poll_until(lambda: bool((client.status("shop") or {}).get("tasks")), 60)
            answer = kind.stop(case.entry())
            answers.extend([] if answer is None else [answer])
            return answer is not None

        assert poll_until(still_ends, 120)
        assert Reason.BUSY is answers[-1].reason and "its tasks still end" in answers[-1].text
        assert poll_until(lambda: kind.stop(case.entry()) is None, 60)
        assert [] == (client.status("shop") or {})["tasks"]

        case.down()
        assert come_to(case, EntryState.GONE, None) and not case.exists()
