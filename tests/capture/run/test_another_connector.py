"""A connector of another database: what the contract declares is all that a capture needs of it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cdcv2.capture.connector import FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.facts import End, Fact, IgnoredRecord, Record, RowFact
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.kinds import DATABASES, database_kind
from cdcv2.errors import DecodeError, UsageError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import runs

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
    kind: str = "words"

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
            return End(tx, number, {table: last for table in self.tables if last})
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


def lines(prefix: str, tables: Mapping[str, RowType], **how: Any) -> LinesConnector:
    """The kind."""
    return LinesConnector(tables, prefix, snapshot=how["snapshot"], transaction_topic=f"{prefix}.transaction")


@pytest.mark.parametrize("words", [[], ["--remap", "remap"]], ids=["commit times", "remap"])
def test_a_row_in_the_table_of_connectors_is_all_that_the_command_needs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then there is an option that names it, and the logs are of this kind only."""
    monkeypatch.setitem(cast(dict[str, Any], DATABASES), "words", lines)
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("rows", "public.t.avsc").write_text(json.dumps(ROWS.schema), "utf-8")
    ends = "p.transaction"
    records = [("public.t", "7 1 70"), (ends, "7 100 1"), ("public.t", "8 1 80"), (ends, "8 110 1")]
    offsets: dict[str, int] = {}
    with open("dump.jsonl", "w", encoding="utf-8") as file:
        for topic, value in records:
            offsets[topic] = offsets.get(topic, -1) + 1
            line = {"topic": topic, "partition": 0, "offset": offsets[topic], "value": value}
            file.write(json.dumps(line) + "\n")
    run, asked = runs(capsys), ["capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--snapshot=none", *words]

    assert 0 == (done := run(*asked, "--connector", "words", "--into", "logs")).code, done.err
    assert 0 == run(*asked, "--connector", "words", "--into", "logs").code
    found = DirectoryLog("logs/public.t")
    assert {70, 80} == {row.id for batch in Iter(found.read()) for row, *_ in batch.updates}
    other = run(*asked, "--into", "logs")
    assert 0 != other.code and "words" in other.err


def test_a_kind_that_is_not_there_is_named() -> None:
    """As one that a later release has captured with."""
    with pytest.raises(UsageError, match="no connector 'words' in this release: it has debezium-postgresql"):
        database_kind("words")


@pytest.mark.parametrize("name", DATABASES)
def test_executors_can_be_given_a_connector(name: str) -> None:
    """It is the same one after the way there, and reads."""
    assert name == DATABASES[name]("p", {"public.t": ROWS}).kind
    made = DATABASES[name]("p", {"public.t": ROWS}, snapshot="none")
    sent = pickle.loads(pickle.dumps(made))

    assert (made.identity, made.topics()) == (sent.identity, sent.topics())
    assert IgnoredRecord("topic of no captured table") == sent.fact(Record("q.t", 0, 0, None, b"{}"))
