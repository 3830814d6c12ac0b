"""Every scenario of the conformance kit, and races of many seeds, against the drivers whose stores are slow."""

from __future__ import annotations

import random

import pytest

from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.testing import Stage, Subject, Workload, conform, scenarios
from tests.lakes import DeltaSubject, LakeSubject
from tests.materialize.targets.test_kafka_driver import KafkaSubject
from tests.materialize.targets.test_postgres_driver import PostgresSubject
from tests.materialize.targets.test_process_conforms import ExampleSubject, StagingSubject
from tests.stress.summary import record

pytestmark = pytest.mark.integration
SEEDS = range(40)


def play(name: str, subject: type[Subject]) -> None:
    """Each scenario once."""
    played = scenarios(subject)
    for scenario in played:
        conform(subject, scenario)
    record(name, [0], {"scenarios": len(played)})


def race(name: str, subject: type[Subject]) -> None:
    """Two instances in random turns, then one for what is left."""
    for seed in SEEDS:
        lottery, stage = random.Random(seed), Stage(subject(), Workload(seed=seed, cuts=3))
        running = [stage.instance(), stage.instance()]
        while running:
            one = lottery.choice(running)
            if not all(one.step() for _ in range(lottery.choice([1, 5, 20]))):
                running.remove(one)

        assert "done" == stage.instance().finish(), f"seed {seed}"
        stage.demand_whole()
        stage.close()
    record(f"{name}-races", list(SEEDS), {"races": len(SEEDS)})


def test_postgres() -> None:
    """Crashes, stalls, zombies and splits at every message."""
    with Postgres() as server:
        PostgresSubject.server = server
        play("materialize-postgres", PostgresSubject)
        race("materialize-postgres", PostgresSubject)


def test_lake() -> None:
    """The same, on files."""
    play("materialize-lake", LakeSubject)
    race("materialize-lake", LakeSubject)


def test_delta() -> None:
    """The same, on Delta tables."""
    play("materialize-delta", DeltaSubject)
    race("materialize-delta", DeltaSubject)


def test_programs() -> None:
    """The same, by connectors that are programs: a store that rules, and one beside the recovery log."""
    play("materialize-program", ExampleSubject)
    play("materialize-program-staging", StagingSubject)


def test_kafka() -> None:
    """Pushes, on a broker."""
    with KafkaBroker() as broker:
        KafkaSubject.broker = broker
        play("materialize-kafka", KafkaSubject)
