"""A connector of another database: its folder fulfils the contract, a row of ``kinds`` names it, and that is all."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cdcv2.capture import source_words
from cdcv2.capture.connector import FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.facts import End, Fact, IgnoredRecord, Record, RowFact
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.source_words import SourceWords
from cdcv2.connectors.kinds import DATABASES, DatabaseKind, database_kind
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
    words: SourceWords = SourceWords(slot="bookmark")

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
        # These records do not name the END before, so all that is read is released at once: see cdcv2.capture.facts.
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


class LinesRowTypes:
    """The type of all its rows; of no record."""

    schemas = "let the words have schemas"

    def of_source(
        self, where: str, table: str, excluded: Collection[str] = ()
    ) -> tuple[dict[str, Any], str | None]:
        """Wherever it is."""
        return ROWS.schema, f"asked {where} for {table}"

    def of_record(self, body: Mapping[str, Any], table: str) -> tuple[dict[str, Any], str | None] | None:
        """None has a schema."""
        return None


def lines(prefix: str, tables: Mapping[str, RowType], **how: Any) -> LinesConnector:
    """The kind."""
    return LinesConnector(tables, prefix, snapshot=how["snapshot"], transaction_topic=f"{prefix}.transaction")


#: The row of the table; everything that the tests below see of the other database is by it.
REFUSED = {"--full-identity": "its rows are never changed"}
KIND = DatabaseKind(lines, LinesConnector.words, LinesRowTypes(), REFUSED)
#: Words of one database, and of one connector.
FOREIGN = re.compile(
    r"postgres|debezium|replica identity|\bslot|publication|3\.7\.0|source\.lsn|topic\.prefix|table\.include|"
    r"snapshot\.mode|message\.key|provide\.trans", re.I,
)


@pytest.fixture
def dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the row type, where the kind is known; returns the dump, which is not there yet."""
    monkeypatch.setitem(cast(dict[str, Any], DATABASES), "words", KIND)
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("rows", "public.t.avsc").write_text(json.dumps(ROWS.schema), "utf-8")
    return tmp_path / "dump.jsonl"


def dump(path: Path, *records: tuple[str, str]) -> None:
    """Write records of one partition, each with its topic and value."""
    offsets: dict[str, int] = {}
    with path.open("w", encoding="utf-8") as file:
        for topic, value in records:
            offsets[topic] = offsets.get(topic, -1) + 1
            line = {"topic": topic, "partition": 0, "offset": offsets[topic], "value": value}
            file.write(json.dumps(line) + "\n")


WAYS = pytest.mark.parametrize("words", [[], ["--remap", "remap"]], ids=["commit times", "remap"])


@WAYS
def test_a_row_in_the_table_of_connectors_is_all_that_the_command_needs(
    words: list[str], dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then there is an option that names it, and the logs are of this kind only."""
    ends = "p.transaction"
    dump(dumped, ("public.t", "7 1 70"), (ends, "7 100 1"), ("public.t", "8 1 80"), (ends, "8 110 1"))
    run, asked = runs(capsys), ["capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--snapshot=none", *words]

    assert 0 == (done := run(*asked, "--connector", "words", "--into", "logs")).code, done.err
    assert 0 == run(*asked, "--connector", "words", "--into", "logs").code
    found = DirectoryLog("logs/public.t")
    assert {70, 80} == {row.id for batch in Iter(found.read()) for row, *_ in batch.updates}
    other = run(*asked, "--into", "logs")
    assert 0 != other.code and "words" in other.err


@WAYS
@pytest.mark.parametrize(
    "records",
    [
        [("public.t", "7 1 70"), ("public.t", "7 2 71"), ("p.transaction", "7 100 1")],
        [("p.transaction", "7 100 1"), ("p.transaction", "8 100 1"), ("public.t", "7 1 70")],
        [("public.t", "7 1 70"), ("public.t", "7 1 71"), ("p.transaction", "7 100 1")],
    ],
    ids=["more rows than its END counts", "two ENDs at one commit", "two rows with one number"],
)
def test_what_stops_it_is_stated_in_no_words_of_another_database(
    records: list[tuple[str, str]], words: list[str], dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reason and remedy are the same rules for all; the words of one database come from its connector."""
    dump(dumped, *records)
    asked = ["capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--snapshot=none", "--into", "logs", *words]

    stopped = runs(capsys)(*asked, "--connector", "words")
    assert 0 != stopped.code and "do not hold one history" in stopped.err
    assert "was the bookmark, the database or a topic made again" in stopped.err
    assert [] == FOREIGN.findall(stopped.err), stopped.err


def texts(path: Path) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    docs = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


PACKAGE = Path(__file__).resolve().parents[3] / "cdcv2"
GENERIC = [
    *(PACKAGE / "capture").rglob("*.py"), *(PACKAGE / "connectors").glob("*.py"),
    *(PACKAGE / "cli" / "options").glob("capture*.py"), PACKAGE / "cli" / "options" / "remap_arguments.py",
    PACKAGE / "logs" / "coverage.py", *(PACKAGE / "spark" / "capture").glob("*.py"),
]  # fmt: skip


def test_code_for_every_database_has_no_words_of_one() -> None:
    """They would be wrong of the next; its name in what is kept was once the only one."""
    found = {(path.name, text) for path in GENERIC for text in texts(path) if FOREIGN.search(text)}

    # Names of the fields of words, and of the kind that is meant where none is named.
    allowed = {("connector.py", "debezium-postgresql"), ("source_words.py", "slot")}
    assert len(GENERIC) > 80 and found <= allowed


@pytest.mark.parametrize("name", [*DATABASES, "words"])
def test_every_mark_has_words(name: str) -> None:
    """A text that is filled has none left."""
    marks = [mark for mark in vars(source_words).values() if isinstance(mark, str) and mark.startswith("\u300a")]
    words = KIND.words if name == "words" else DATABASES[name].words
    filled = [words.fill(mark) for mark in marks if len(mark) > 1]

    assert len(filled) == len(SourceWords._fields) and all("\u300a" not in text for text in filled)


def test_its_row_types_are_made_by_its_row_of_the_table(
    dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cdcv2 rows`` knows no database itself."""
    run = runs(capsys)
    made = run("rows", "--connector", "words", "--source", "there", "--table", "public.t")
    assert (0, ROWS.schema) == (made.code, json.loads(made.out)) and "asked there for public.t" in made.err

    dumped.write_text('{"payload": {}}\n', "utf-8")
    none = run("rows", "--connector", "words", "--from-envelope", str(dumped), "--table", "public.t")
    assert 2 == none.code and "let the words have schemas" in none.err and not FOREIGN.search(none.err)


def test_an_option_that_it_has_not_is_refused(dumped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, before anything is read."""
    asked = ["capture", "d.jsonl", "--prefix", "p", "--rows", "rows", "--into", "logs", "--full-identity", "public.t"]
    refused = runs(capsys)(*asked, "--connector", "words")

    assert 2 == refused.code and "does not go with --connector words: its rows are never changed" in refused.err


def test_a_kind_that_is_not_there_is_named() -> None:
    """As one that a later release has captured with."""
    with pytest.raises(UsageError, match="no connector 'words' in this release: it has debezium-postgresql"):
        database_kind("words")


@pytest.mark.parametrize("name", DATABASES)
def test_executors_can_be_given_a_connector(name: str) -> None:
    """It is the same one after the way there, and reads."""
    assert name == DATABASES[name].connector("p", {"public.t": ROWS}).kind
    made = DATABASES[name].connector("p", {"public.t": ROWS}, snapshot="none")
    sent = pickle.loads(pickle.dumps(made))

    assert (made.tables, made.topics()) == (sent.tables, sent.topics())
    assert IgnoredRecord("topic of no captured table") == sent.fact(Record("q.t", 0, 0, None, b"{}"))
