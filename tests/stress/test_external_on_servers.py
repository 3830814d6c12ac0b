"""Random sequences of up, down, change, kill and two controllers on a real Kafka, Connect and PostgreSQL."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from tests.external_sequence import ExternalSequence
from tests.external_servers import CONNECTOR, PUBLICATION, SLOT, TABLE, TOPIC, RealServers, SeenObject, real_servers
from tests.stress.summary import record

pytestmark = pytest.mark.integration
#: The first seed, and how many: a failure is repeated by its seed alone.
FIRST, MANY = int(os.environ.get("CDCV2_SEED", 1000)), int(os.environ.get("CDCV2_SEQUENCES", 54))
SEEDS = range(FIRST, FIRST + MANY)
#: Sequences at a time: most of their time they wait for a server.
AT_ONCE = 5
#: Steps of each, and what is there before them all, is of others, and is compared in the end.
STEPS = 8
OTHERS = [(kind, f"{kind.replace(' ', '_')}_of_others") for kind in (TOPIC, SLOT, PUBLICATION, CONNECTOR, TABLE)]


@pytest.fixture(scope="module")
def servers() -> Iterator[RealServers]:
    """One of each, for all sequences."""
    with real_servers() as running:
        yield running


def test_on_real_servers_nothing_leaks_and_nothing_is_taken(servers: RealServers, tmp_path: Path) -> None:
    """After each step what exists is what the catalogues state; at the end nothing of ours is left."""
    for kind, name in OTHERS:
        servers.give(kind, name)
    before = of_others(servers)
    counts = Counter[str]()

    def tell(seed: int) -> None:
        sequence = ExternalSequence(servers, seed, tmp_path / str(seed), counts)
        try:
            sequence.play(STEPS)
        except BaseException as error:
            error.add_note(f"seed {seed}, its steps:\n" + "\n".join(sequence.log))
            raise

    failed = list[BaseException]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in as_completed([pool.submit(tell, seed) for seed in SEEDS]):
            error = done.exception()
            failed += [error] if error is not None else []
            counts["sequences"] += error is None
            print(f"{counts['sequences']} sequences, {len(failed)} failed", flush=True)
    if failed:
        raise BaseExceptionGroup("sequences on real servers", failed)
    assert before == of_others(servers)
    record("external state on a real Kafka, Connect and PostgreSQL", SEEDS, dict(sorted(counts.items())))


def of_others(servers: RealServers) -> dict[tuple[str, str], SeenObject]:
    """What was there before all sequences."""
    return {key: servers.seen(key[1])[key] for key in OTHERS}
