"""What the tests of Spark with Kafka share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcv2.servers.kafka import KafkaBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A broker that answers, for all tests that do not kill theirs; each has topics of its own."""
    with KafkaBroker(heap="384m") as started:
        yield started
