"""Faults planted on real servers, one after another: ``cdcv2 explain`` names each at its link, and nothing afterwards.

What stands behind a fault on the way stands still, too: the first link is named all the same. Between two faults all is
mended, and the target has every row.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.pipeline_world import NAME, TABLE, PipelineWorld
from cdcv2.control.explanation import Explanation, explain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.stops import Stop
from cdcv2.servers.processes import poll_until
from tests.stress.summary import record

pytestmark = [pytest.mark.integration]
#: Seconds within which a fault is named: longer than a silent job is given.
PATIENCE = 150.0


@pytest.fixture(scope="module")
def world() -> Iterator[PipelineWorld]:
    """All servers, and a load that never ends."""
    opened = PipelineWorld.open()
    try:
        yield opened
    finally:
        opened.close()


def way(world: PipelineWorld) -> Explanation:
    (found,) = explain(world.pipeline, TABLE)
    return found


@contextmanager
def paused(world: PipelineWorld) -> Iterator[None]:
    world.ask_connect("PUT", "/pause")
    yield
    world.ask_connect("PUT", "/resume")


@contextmanager
def stopped(world: PipelineWorld) -> Iterator[None]:
    world.ask_connect("PUT", "/stop")
    yield
    world.ask_connect("PUT", "/resume")


@contextmanager
def removed(world: PipelineWorld) -> Iterator[None]:
    world.client.delete(NAME)
    yield
    world.client.create(NAME, world.config)


@contextmanager
def failed_task(world: PipelineWorld) -> Iterator[None]:
    """Its producer refuses every record."""
    world.client.alter(NAME, {**world.config, "producer.override.max.request.size": "100"})
    yield
    world.client.alter(NAME, world.config)


@contextmanager
def writes_nothing(world: PipelineWorld) -> Iterator[None]:
    """It runs, and its producer tries again and again."""
    world.gate.shut()
    yield
    world.gate.open()


@contextmanager
def no_connect(world: PipelineWorld) -> Iterator[None]:
    world.connect.stop()
    yield
    world.connect.start()


@contextmanager
def no_kafka(world: PipelineWorld) -> Iterator[None]:
    world.broker.stop()
    yield
    world.broker.start()


@contextmanager
def no_source(world: PipelineWorld) -> Iterator[None]:
    world.source.stop()
    yield
    world.source.start()
    world.ask_connect("POST", "/restart?includeTasks=true")


@contextmanager
def no_target(world: PipelineWorld) -> Iterator[None]:
    world.target.stop()
    yield
    world.target.start()


@contextmanager
def killed(world: PipelineWorld, name: str) -> Iterator[None]:
    """With what would start it again."""
    world.leave_jobs()
    world.job(name).kill()
    yield
    world.up()


@contextmanager
def suspended(world: PipelineWorld, name: str) -> Iterator[None]:
    held = world.job(name)._holders()
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in held:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def locked(world: PipelineWorld) -> Iterator[None]:
    with world.target.connect() as session:
        session.execute("LOCK TABLE orders IN SHARE MODE")
        yield


@contextmanager
def kept_stop(world: PipelineWorld) -> Iterator[None]:
    log = DirectoryLog(world.folder / "logs" / TABLE)
    log.put_stop(Stop("a row is lacking", "begin with new logs"))
    yield
    for path in log.path.glob("_stop.*"):
        path.unlink()


@contextmanager
def dropped_slot(world: PipelineWorld) -> Iterator[None]:
    """The last one: nothing mends it but a resnapshot."""
    world.ask_connect("PUT", "/stop")
    assert poll_until(lambda: not world.slot_is_read(), 60)
    with world.source.connect(autocommit=True) as session:
        session.execute("SELECT pg_drop_replication_slot(%s)", (NAME,))
    yield


FAULTS: list[tuple[str, str, Callable[[PipelineWorld], Any]]] = [
    ("a paused connector", "connector", paused),
    ("a stopped connector", "connector", stopped),
    ("a removed connector", "connector", removed),
    ("a failed task", "connector", failed_task),
    ("a connector that cannot write", "connector", writes_nothing),
    ("Connect away", "connector", no_connect),
    ("Kafka away", "topic", no_kafka),
    ("the source away", "server", no_source),
    ("a killed capture", "capture", lambda world: killed(world, "shop")),
    ("a suspended capture", "capture", lambda world: suspended(world, "shop")),
    ("a stop in the log", "log", kept_stop),
    ("a killed reader", "reader", lambda world: killed(world, "copy")),
    ("a suspended reader", "reader", lambda world: suspended(world, "copy")),
    ("the target away", "target", no_target),
    ("a locked table", "target", locked),
    ("a dropped slot", "slot", dropped_slot),
]


def test_every_planted_fault_is_named_at_its_link(world: PipelineWorld) -> None:
    """Sixteen faults, with a row committed in each, and a moment between two of them in which nothing stands still."""
    named: dict[str, float] = {}
    for name, kind, plant in FAULTS:
        assert poll_until(lambda: way(world).fault is None, PATIENCE), (name, "before", way(world).fault)
        world.demand_caught_up()
        with plant(world):
            begun = time.monotonic()
            if world.source.running:
                world.commit(1)

            def found() -> bool:
                fault = way(world).fault
                return fault is not None and fault.kind == kind

            assert poll_until(found, PATIENCE, pause=0.5), (name, kind, way(world).fault)
            named[name] = time.monotonic() - begun
            fault = way(world).fault
            assert fault is not None and fault.remedy, name
            print(f"{name}: {fault.kind} {fault.name}: {fault.fault} -> {fault.remedy} ({named[name]:.0f} s)")
    record("explain, faults planted on real servers", [0], {
        "faults": len(FAULTS), "named at their link": len(named), "seconds at most": round(max(named.values())),
    })
