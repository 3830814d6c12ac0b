"""A connector of another database: what the contract declares is all that a capture needs of it."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdcv2.capture.connector import FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.facts import End, Fact, IgnoredRecord, Record, RowFact
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.kinds import DATABASES
from cdcv2.errors import DecodeError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})


@dataclass(frozen=True)
class LinesConnector:
    """Reads topics of words: in the topic of a table TX NUMBER ID is a row, in the topic ends TX LSN ROWS an END."""

    tables: Mapping[str, RowType] = field(default_factory=lambda: {"t": ROWS})
    prefix: str = "words"
    snapshot: str = "none"
    notification_topic: str | None = None
    transaction_topic: str = "ends"
    full_identity: frozenset[str] = frozenset()
    before: str = FROM_ENVELOPE
    resnapshots: tuple[int, ...] = ()
    empty: frozenset[str] = frozenset()
    first_transaction: str = "The first END makes it"
    renumbering: str = "it renumbers"

    @property
    def identity(self) -> dict[str, Any]:
        """Of prefix and tables."""
        return {"prefix": self.prefix, "tables": {name: kind.fingerprint for name, kind in self.tables.items()}}

    def topic(self, table: str) -> str:
        """As the table."""
        return table

    def table(self, topic: str) -> str | None:
        """As the topic."""
        return topic if topic in self.tables else None

    def topics(self) -> Collection[str]:
        """Tables and ends."""
        return [*self.tables, self.transaction_topic]

    def fact(self, record: Record) -> Fact:
        """Three numbers."""
        if record.topic not in self.topics():
            return IgnoredRecord("another topic")
        try:
            tx, number, last = map(int, (record.value or b"").split())
        except ValueError:
            raise self.malformed("no three numbers", record.position) from None
        if record.topic == self.transaction_topic:
            return End(tx, number, {"t": last} if last else {})
        row = ROWS.from_plain({"id": last})
        return RowFact(record.topic, tx, number, number, None, "c", ((row, 1),), record.position)

    def malformed(self, reason: str, position: Position) -> DecodeError:
        """Of the words."""
        return DecodeError(reason, position=position, fault="Whoever writes the words", what="words")

    def unmet(self, topics: Collection[str]) -> str | None:
        """They meet."""
        return None

    def unnotified(self, topics: Collection[str]) -> str | None:
        """There are none."""
        return None


def test_a_capture_takes_any_connector_that_fulfils_the_contract() -> None:
    """Its rows are in the log at the times of their ENDs, whole transactions only."""
    connector: DatabaseConnector = LinesConnector()
    log = MemoryLog(ROWS)
    with Capture(connector, {"t": log}) as capture:
        for offset, (topic, words) in enumerate([
            ("t", b"7 1 70"), ("t", b"8 1 80"), ("ends", b"7 100 2"), ("t", b"7 2 71"), ("other", b"?"),
            ("ends", b"8 110 2"),
        ]):
            capture.absorb(Record(topic, 0, offset, None, words))
        capture.release()
        with pytest.raises(DecodeError, match="words"):
            capture.absorb(Record("t", 0, 9, None, b"?"))

    found = {(row.id, time, diff) for batch in Iter(log.read()) for row, time, diff in batch.updates}
    assert {(70, 100, 1), (71, 100, 1)} == found


@pytest.mark.parametrize("name", DATABASES)
def test_executors_can_be_given_a_connector(name: str) -> None:
    """It is the same one after the way there, and reads."""
    made = DATABASES[name]("p", {"public.t": ROWS}, snapshot="none")
    sent = pickle.loads(pickle.dumps(made))

    assert (made.identity, made.topics()) == (sent.identity, sent.topics())
    assert IgnoredRecord("topic of no captured table") == sent.fact(Record("q.t", 0, 0, None, b"{}"))
