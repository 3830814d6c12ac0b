"""A connector, its publication, and the slot that it makes itself: on a real Kafka, Connect and PostgreSQL."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.entries import EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.intents import DesiredState
from cdcv2.control.kinds.connectors import ConnectorKind
from cdcv2.control.kinds.postgres import PublicationKind
from cdcv2.control.kinds.slots import SlotKind
from cdcv2.control.reconcile import ACT_DONE, Reconciliation
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from cdcv2.store.connect_client import ConnectClient
from tests.connectors.debezium_settings import known_settings
from tests.external_sequence import ExternalSequence
from tests.external_servers import RealServers
from tests.external_world import MemoryCatalogue

pytestmark = pytest.mark.integration
SLOT, PUBLICATION = (Kind.SLOT, "db", "shop"), (Kind.PUBLICATION, "db", "shop")
CONNECTOR = (Kind.CONNECTOR, "c", "shop")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """With one table that has a row."""
    with Postgres() as running:
        with running.connect(autocommit=True) as session:
            session.execute("CREATE TABLE orders (id bigint PRIMARY KEY); INSERT INTO orders VALUES (1)")
        yield running


@pytest.fixture(scope="module")
def connect(postgres: Postgres, broker: KafkaBroker) -> Iterator[DistributedConnect]:
    """A worker that finds the password in its environment."""
    with DistributedConnect(broker.bootstrap, environment=postgres.environment) as running:
        yield running


def test_every_setting_of_the_connector_is_judged(connect: DistributedConnect) -> None:
    """What a later Debezium adds may leave out rows: it is judged before that one is used here."""
    kind = "PostgresConnector"
    request = urllib.request.Request(
        f"{connect.url}/connector-plugins/{kind}/config/validate", method="PUT",
        data=json.dumps({"connector.class": kind, "name": "a", "topic.prefix": "a", "tasks.max": "1"}).encode(),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = [one["definition"] for one in json.load(answer)["configs"]]
    # Connect's own settings, which each connector has, are in groups of other names.
    own = {one["name"] for one in found if one["group"] not in ("Common", "Transforms", "Predicates", "Error Handling",
           "Topic Creation", "Exactly Once Support", "offsets.topic", None)}  # fmt: skip

    assert own == {*known_settings()} and len(own) == len(known_settings())


class Pipeline:
    """The three, and a clock that the test moves."""

    def __init__(self, postgres: Postgres, connect: DistributedConnect) -> None:
        servers = {"db": " ".join(
            f"{name}={value}" for name, value in (
                ("host", postgres.host), ("port", postgres.port), ("dbname", "bank"), ("user", postgres.username),
                ("password", postgres.password),
            )
        )}
        self.now, self.catalogue, self._numbers = 1000.0, MemoryCatalogue(), count(1)
        self.config = debezium_config(
            "shop", ["public.orders"], host=postgres.host, port=postgres.port, database="bank", user=postgres.username,
            more={"publication.name": "shop", "publication.autocreate.mode": "disabled", "slot.name": "shop"},
        )
        self.client = ConnectClient(connect.url)
        kinds = {
            Kind.PUBLICATION: PublicationKind(servers), Kind.SLOT: SlotKind(servers),
            Kind.CONNECTOR: ConnectorKind({"c": self.client}),
        }
        owner = self.catalogue.taken()
        self.control = Reconciliation(owner, kinds, lambda: self.now)  # type: ignore[arg-type]

    def desire(self, up: bool) -> None:
        """All three, or none."""
        config = {name: value for name, value in self.config.items() if name != "name"}
        wishes = [
            DesiredState(Kind.PUBLICATION, "shop", "db", {"tables": ["public.orders"]}, True, "capture"),
            DesiredState(Kind.SLOT, "shop", "db", {"plugin": "pgoutput", "database": "bank"}, True, "capture",
                         maker=CONNECTOR),
            DesiredState(Kind.CONNECTOR, "shop", "c", config, True, "capture", needs=(SLOT, PUBLICATION)),
        ]  # fmt: skip
        self.control.desire(wishes if up else [], lambda: f"n{next(self._numbers)}")

    def come_to(self, state: EntryState) -> bool:
        """Whether all entries are in this state at last."""

        def there() -> bool:
            self.control.round()
            self.now += DOUBT / 4
            # The connector reads by the publication from its first moment on.
            states = {entry.state for entry in self.catalogue.kept.values() if entry.state is not EntryState.IN_USE}
            return {state} == states

        return poll_until(there, 400, pause=0.5)


def test_a_connector_makes_its_own_slot_and_nothing_of_it_is_left(
    postgres: Postgres, connect: DistributedConnect
) -> None:
    """The publication first, then the connector, then its slot; and removed in the other order."""
    pipeline = Pipeline(postgres, connect)
    pipeline.desire(up=True)
    assert pipeline.come_to(EntryState.MADE), pipeline.catalogue.kept
    assert [None] * 3 == [entry.debt for entry in pipeline.catalogue.kept.values()]
    assert [Kind.PUBLICATION] == [
        entry.kind for entry in pipeline.catalogue.kept.values() if entry.state is EntryState.IN_USE]
    with postgres.connect() as session:
        assert [("shop",)] == session.execute("SELECT slot_name::text FROM pg_replication_slots").fetchall()
    # Connect keeps a configuration as it was given, so that a drift is of others.
    pipeline.control.round()
    assert [None] * 3 == [entry.debt for entry in pipeline.catalogue.kept.values()]

    pipeline.desire(up=False)
    assert pipeline.come_to(EntryState.GONE), pipeline.catalogue.kept
    with postgres.connect() as session:
        assert [] == session.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
        assert [] == session.execute("SELECT pubname FROM pg_publication").fetchall()
    assert pipeline.client.config("shop") is None


def test_a_slot_from_before_holds_the_connector_back(postgres: Postgres, connect: DistributedConnect) -> None:
    """It is not started, so it takes no snapshot with an inexact seam; what was there stays."""
    with postgres.connect(autocommit=True) as session:
        session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        pipeline = Pipeline(postgres, connect)
        pipeline.desire(up=True)
        pipeline.control.round()
        slot = next(entry for entry in pipeline.catalogue.kept.values() if entry.kind is Kind.SLOT)
        assert slot.debt is not None and Reason.REFUSED is slot.debt.reason
        assert pipeline.client.config("shop") is None

        pipeline.desire(up=False)
        assert pipeline.come_to(EntryState.GONE), pipeline.catalogue.kept
        session.execute("SELECT pg_drop_replication_slot('shop')")


def test_commands_that_are_killed_leave_nothing_behind(
    postgres: Postgres, connect: DistributedConnect, broker: KafkaBroker, tmp_path: Path
) -> None:
    """From a file: killed when the connector is made, then up, killed while it is removed; tests/stress has many."""
    sequence = ExternalSequence(RealServers(postgres, broker, connect), 1, tmp_path / "files", Counter())
    assert sequence.kill_at(ACT_DONE, 6, "up", "--once")
    sequence.demand_as_stated()
    sequence.up()
    sequence.demand_as_stated()
    assert sequence.kill_at(ACT_DONE, 2, "down", "--remove-external")
    sequence.demand_as_stated()
    sequence.end(patience=3)
    assert {} == sequence.servers.seen(sequence.prefix)
