"""`cdcv2 rows` makes a row type of what describes a table; never of its values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.rows.row_type import RowType
from cdcv2.store import postgres_session
from tests.cli.conftest import Run

# Deeper than Python can follow.
DEEP = "[" * 200_000
IMAGE = {"type": "struct", "optional": True, "fields": [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "day", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
]}  # fmt: skip
ENVELOPE = {
    "schema": {"type": "struct", "fields": [{**IMAGE, "field": "before"}, {**IMAGE, "field": "after"}]},
    "payload": {"after": {"id": 1, "day": None}, "op": "c", "source": {"schema": "public", "table": "t"}},
}


@pytest.mark.parametrize("shape", ["record", "lines", "dump", "kcat"])
def test_a_record_that_carries_its_schema_is_enough(run: Run, tmp_path: Path, shape: str) -> None:
    """Alone, among others, or as it stands in a dump of its topic."""
    text = {
        "record": json.dumps(ENVELOPE, indent=1),
        "lines": json.dumps({"schema": None, "payload": {}}) + "\n" + json.dumps(ENVELOPE),
        "kcat": json.dumps({"topic": "x", "payload": None}) + "\n" + json.dumps({"payload": json.dumps(ENVELOPE)}),
        "dump": json.dumps({"topic": "x", "value": None}) + "\n" + json.dumps({"value": json.dumps(ENVELOPE)}),
    }[shape]
    (tmp_path / "record.json").write_text(text, "utf-8")
    said = run("rows", "--from-envelope", tmp_path / "record.json", "--table", "public.t")

    assert 0 == said.code
    # What a target's columns are to be is not in this record.
    assert "does not state the types that id, day of public.t have" in said.err
    assert "datatype.propagate.source.type" in said.err
    assert ("id", "day") == RowType(json.loads(said.out)).columns
    assert {"name": "day", "type": ["null", "int"], "doc": "days since 1970-01-01"} == json.loads(said.out)["fields"][1]


def test_the_schema_goes_into_a_file(run: Run, tmp_path: Path) -> None:
    """Which capture can read; the folder is made."""
    (tmp_path / "record.json").write_text(json.dumps(ENVELOPE), "utf-8")
    target = tmp_path / "new" / "rows" / "public.t.avsc"

    assert 0 == run("rows", "--from-envelope", tmp_path / "record.json", "--table", "public.t", "--output", target).code
    assert ("id", "day") == RowType.load(target).columns


def test_records_without_a_schema_say_nothing_about_types(run: Run, captured: Path) -> None:
    """Values are no types: the remedy is printed."""
    said = run("rows", "--from-envelope", captured / "topics.jsonl.gz", "--table", "public.orders")

    assert (2, True) == (said.code, "schemas.enable=true" in said.err)


@pytest.mark.parametrize("content", [DEEP, json.dumps({"value": DEEP})])
def test_what_is_nested_too_deep_is_no_record(run: Run, tmp_path: Path, content: str) -> None:
    """In a file, and in the value of a dumped record. Exit 3."""
    (tmp_path / "record.json").write_text(content, "utf-8")
    said = run("rows", "--from-envelope", tmp_path / "record.json", "--table", "public.t")

    assert (3, "", True) == (said.code, said.out, "is no JSON: it is nested too deep" in said.err)


class Catalogue:
    """A connection to a database with one table; ``identity`` is its replica identity."""

    def __init__(self, identity: str) -> None:
        self.identity, self.rows = identity, list[tuple[object, ...]]()
        self.closed = False

    def cursor(self) -> Catalogue:
        """It is its own cursor."""
        return self

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def execute(self, query: str, _: object) -> None:
        """PostgreSQL's answer about its table."""
        columns: list[tuple[object, ...]] = [("id", True, False, 20, -1)]
        kind: list[tuple[object, ...]] = [("int8", "b", "N", 0, 0, -1, "pg_catalog")]
        identity: list[tuple[object, ...]] = [("public.t", True, "1", "public.t", True, self.identity == "f")]
        self.rows = (identity if "pg_inherits" in query else [(1, self.identity)] if "pg_class" in query
                     else columns if "pg_attribute" in query else kind)  # fmt: skip

    def fetchone(self) -> tuple[object, ...]:
        """The first row."""
        return self.rows[0]

    def fetchall(self) -> list[tuple[object, ...]]:
        """All of them."""
        return self.rows

    def close(self) -> None:
        """Done."""
        self.closed = True


@pytest.mark.parametrize(("identity", "warned"), [("d", True), ("n", True), ("i", True), ("f", False)])
def test_a_table_without_whole_old_rows_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, identity: str, warned: bool
) -> None:
    """On standard error, beside its row type: the capture would stop at the first update."""
    there = Catalogue(identity)
    monkeypatch.setattr(postgres_session, "connect", lambda *_, **__: there)
    said = run("rows", "--source", "env", "--table", "public.t")

    assert (0, True, True) == (said.code, there.closed, '"name": "id"' in said.out)
    assert warned is ("public.t has not REPLICA IDENTITY FULL" in said.err and "--before from-state" in said.err)
    assert warned or not said.err


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--table", "public.t"], 2, "one of the arguments --source --from-envelope is required"),
        (["--source", "env", "--table", "t"], 2, "write public.t"),
        (["--from-envelope", "x.json", "--source", "env", "--table", "public.t"], 2, "not allowed with argument"),
        (["--from-envelope", "/nowhere.json", "--table", "public.t"], 2, "there is no file /nowhere.json"),
        (["--source", "/nowhere.dsn", "--table", "public.t"], 2, "/nowhere.dsn"),
    ],
)
def test_wrong_usage_is_told(run: Run, words: list[str], code: int, what: str) -> None:
    """In one line."""
    said = run("rows", *words)

    assert (code, "", True) == (said.code, said.out, what in said.err)


@pytest.mark.parametrize("words", [["--source", "file:env"], ["--from-postgres", "--dsn-file", "env"]])
def test_a_file_is_a_file_whatever_it_is_called(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The environment is asked for the word alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDCV2_POSTGRES", "postgresql://127.0.0.1:1/environment")
    missing = run("rows", *words, "--table", "public.t")
    assert 2 == missing.code and "env with the source's connection string" in missing.err
    Path("env").write_text("postgresql://127.0.0.1:1/file", "utf-8")

    said = run("rows", *words, "--table", "public.t")
    assert 4 == said.code and "the file env" in said.err


def test_a_database_that_is_not_there_is_told_without_its_password(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed port, exit 4; the connection string is a secret wherever it comes from."""
    dsn = "postgresql://user:hunter2@127.0.0.1:1/shop"
    (tmp_path / "shop.dsn").write_text(f"{dsn}\n", "utf-8")
    from_file = run("rows", "--source", tmp_path / "shop.dsn", "--table", "public.t")
    monkeypatch.setenv("CDCV2_POSTGRES", dsn)
    from_environment = run("rows", "--source", "env", "--table", "public.t")

    for said in (from_file, from_environment):
        assert (4, True, False) == (said.code, "PostgreSQL" in said.err, "hunter2" in said.err)
