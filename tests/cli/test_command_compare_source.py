"""`cdcv2 compare --source`: a table of PostgreSQL, its log and its target, by fingerprints and by rows that differ."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.cli import compare_source
from cdcv2.cli.compare_sides import SourceRequest, _OtherSide, _part, with_logs
from cdcv2.cli.compare_source import LogHistory, SourceComparison, SourceSnapshot, compare_log
from cdcv2.store.source_address import source_address
from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.errors import LateTableError
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, covered
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.fingerprint import LocalRows, compare
from cdcv2.rows.postgres_texts import PostgresRows, TextColumn, TextTable
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.timeline.gauges import lsn_text
from tests.cli.conftest import Run, Said

pytestmark = pytest.mark.integration
#: Beyond every position that a test's server comes to.
LATE = 2**50
#: Where a log is whose history is finished: complete, whatever the source's position.
FINISHED: list[int] = []
ORDER = RowType({
    "type": "record", "name": "orders",
    "fields": [{"name": "id", "type": "int"}, {"name": "item", "type": ["null", "string"]}],
})  # fmt: skip
PLAN = """
materialization: shop
logs: logs
bindings:
  - {log: public.orders, target: orders, key: [id]}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One for this file."""
    with Postgres(database="shop") as started:
        yield started


@pytest.fixture
def database(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session; the command finds the server in the environment, and nothing is in its schema public."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CDCV2_POSTGRES", raising=False)
    with server.connect(autocommit=True) as session:
        session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        yield session


def log(
    folder: Path, name: str, row_type: RowType, *updates: tuple[Any, int, int], upper: int | None = None,
    description: LogDescription = LogDescription(),
) -> Path:
    """A log with these updates, complete up to there; None: its history is finished."""
    counts = Counter(time for _, time, _ in updates)
    made = DirectoryLog(folder / name, row_type, create=True, description=description)
    made.send(Updates([(row_type.row(row), time, diff) for row, time, diff in updates]))
    made.send(Progress([0], FINISHED if upper is None else [upper], dict(counts)))
    made.flush()
    made.close()
    return folder


@pytest.fixture
def orders(database: Any, tmp_path: Path) -> Path:
    """Three orders, in the table and in the log; where the logs are."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    database.execute("INSERT INTO orders VALUES (1, 'ape'), (2, NULL), (3, '')")
    updates = [([1, "ape"], 5, 1), ([2, "nut"], 5, 1), ([3, ""], 6, 1), ([2, "nut"], 7, -1), ([2, None], 7, 1)]
    return log(tmp_path / "logs", "public.orders", ORDER, *updates)


# --- every type

NAN, INF = float("nan"), float("inf")
#: type -> (literal, what the capture makes of it); then another literal, which differs
TYPES: dict[str, tuple[list[tuple[str, Any]], str]] = {
    "boolean": ([("true", True), ("false", False)], "NULL"),
    "smallint": ([("-32768", -32768)], "0"),
    "integer": ([("2147483647", 2147483647)], "0"),
    "bigint": ([("-9223372036854775808", -(2**63))], "0"),
    "real": ([("'1.1'", 1.1), ("'NaN'", NAN), ("'-0'", 0.0), ("'Infinity'", INF), ("'1e-45'", 1e-45)], "'1.1000001'"),
    "double precision": (
        [("'0.1'", 0.1), ("'NaN'", NAN), ("'-0'", 0.0), ("'-Infinity'", -INF), ("'5e-324'", 5e-324)],
        "'0.10000000000000002'",
    ),
    "numeric": (
        [("1.50", "1.50"), ("100", "100"), ("'NaN'", "NAN"), ("0.000", "0.000"), ("-1e30", "-1" + "0" * 30),
         ("'Infinity'", "POSITIVE_INFINITY")], "1.5001",
    ),
    "money": ([("'-1234.56'", "-1234.56")], "'1234.56'"),
    "numeric(12,2)": ([("1234.5", "1234.50"), ("-0.01", "-0.01"), ("'NaN'", "NaN")], "1234.51"),
    "text": (
        [("''", ""), ("E'a,2:n\\t\\\\'", "a,2:n\t\\"), ("'é\U0001f600\U0010ffff'", "é\U0001f600\U0010ffff")], "'n'",
    ),
    "varchar(10)": ([("'ab '", "ab ")], "'ab'"),
    "char(5)": ([("'ab'", "ab   ")], "'abc'"),
    "uuid": ([("'A0EEBC999C0B4EF8BB6D6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")], "NULL"),
    "json": ([("'{\"b\":1,  \"a\":[]}'", '{"b":1,  "a":[]}')], "'{\"b\":1, \"a\":[]}'"),
    "jsonb": ([("'{\"b\":1,  \"a\":1.50}'", '{"a": 1.50, "b": 1}')], "'{\"a\": 1.5, \"b\": 1}'"),
    "inet": ([("'127.0.0.1'", "127.0.0.1"), ("'10.0.0.0/8'", "10.0.0.0/8")], "'127.0.0.2'"),
    "int4range": ([("'[1,4]'", "[1,5)")], "'[1,5]'"),
    "bytea": ([("'\\x'", b""), ("'\\x00ff'", b"\x00\xff")], "'\\x00'"),
    "bit(1)": ([("B'1'", True), ("B'0'", False)], "NULL"),
    "bit(9)": ([("B'100000011'", b"\x03\x01"), ("B'000000000'", b"\x00\x00")], "B'100000010'"),
    "bit varying(20)": ([("B'00101'", b"\x05")], "B'00100'"),
    "date": ([("'2024-02-29'", 19782), ("'0001-01-01 BC'", -719528), ("'infinity'", 2146033979),
              ("'infinity'", -622191234)], "'2024-03-01'"),
    "time": ([("'12:34:56.123456'", 45296123456), ("'00:00'", 0)], "'12:34:56.123457'"),
    "time(3)": ([("'12:34:56.123'", 45296123)], "'12:34:56.124'"),
    "timetz": ([("'12:00:00.5+02'", "10:00:00.5Z"), ("'00:30+01'", "23:30:00Z"),
                ("'24:00+00'", "24:00:00Z")], "'12:00:00.5+01'"),
    "timestamp": ([("'2024-02-29 12:34:56.123456'", 1709210096123456), ("'infinity'", 2**63 - 1),
                   ("'-infinity'", -(2**63)), ("'0044-03-15 BC'", -63517824000000000)], "'2024-02-29 12:34:56.123457'"),
    "timestamp(3)": ([("'2024-02-29 12:34:56.123'", 1709210096123)], "'2024-02-29 12:34:56.124'"),
    "timestamptz": ([("'2024-02-29 12:34:56.123456+02'", "2024-02-29T10:34:56.123456Z"), ("'infinity'", "infinity"),
                     ("'1969-12-31 23:59:59Z'", "1969-12-31T23:59:59Z")], "'2024-02-29 12:34:56.123456+01'"),
    "interval": ([("'1 mon 2 days'", 2802600000000), ("'-1 year 00:00:00.000001'", -31557599999999)], "'1 mon'"),
    "integer[]": ([("'{1,NULL,3}'", (1, None, 3)), ("'{}'", ())], "'{1,3}'"),
    "text[]": (
        [("'{\"a,b\",\"NULL\",n,NULL,\"\"}'", ("a,b", "NULL", "n", None, ""))], "'{\"a,b\",\"NULL\",n,NULL,NULL}'",
    ),
    "double precision[]": ([("'{NaN,-0,0.1}'", (NAN, 0.0, 0.1))], "'{NaN,0,0.2}'"),
    "timestamptz[]": ([("'{2024-01-01 00:00Z,infinity}'", ("2024-01-01T00:00:00Z", "infinity"))], "'{infinity}'"),
    "mood": ([("'sad'", "sad")], "'glad'"),
    "positive": ([("7", 7)], "8"),
}  # fmt: skip


#: type -> how people see the other literal; of others it is the text by which equal values are found
SHOWN: dict[str, Any] = {
    "real": 1.100000023841858 + 2**-23, "double precision": 0.10000000000000002, "date": "2024-03-01",
    "time": "12:34:56.123457", "time(3)": "12:34:56.124", "timetz": "11:00:00.5Z",
    "timestamp": "2024-02-29T12:34:56.123457", "timestamp(3)": "2024-02-29T12:34:56.124",
    "timestamptz": "2024-02-29T11:34:56.123456Z", "integer[]": ["1", "3"],
    "text[]": ["a,b", "NULL", "n", None, None], "double precision[]": ["NaN", "0", 0.2], "timestamptz[]": ["infinity"],
}  # fmt: skip


def test_values_of_every_type_are_told_as_the_log_tells_them(database: Any, tmp_path: Path, run: Run) -> None:
    """NULL, NaN, -0.0, infinities, moments, JSON, arrays: equal; and one that is another is found by its column."""
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    database.execute(f"CREATE TABLE every (id int PRIMARY KEY, {columns})")
    row_type = RowType(row_type_from_postgres(database, "public.every"))
    rows: list[list[Any]] = []
    for place in range(6):
        literals, row = [str(place)], [place]
        for values, _ in TYPES.values():
            literal, value = values[place] if place < len(values) else ("NULL", None)
            literals.append(literal)
            row.append(value)
        database.execute(f"INSERT INTO every VALUES ({', '.join(literals)})".encode())
        rows.append(row)
    log(tmp_path, "public.every", row_type, *((row, 3, 1) for row in rows))
    said = run("compare", tmp_path / "public.every", "--source", "env")

    assert 0 == said.code, said.out + said.err
    assert said.out.startswith("public.every: 6 rows in the source, fingerprint ")

    for number, (_, other) in enumerate(TYPES.values()):
        with database.transaction(force_rollback=True):
            database.execute(f"UPDATE every SET c{number} = {other} WHERE id = 0".encode())
            found = seen(database, tmp_path, "public.every")

            assert [("0",)] == [one.key for one in found.differing], list(TYPES)[number]
            (ours,), (theirs,) = found.differing[0].one, found.differing[0].other
            assert [number + 1] == [at for at, (one, two) in enumerate(zip(ours, theirs)) if one != two]
            column, kind = found.table.columns[number + 1], list(TYPES)[number]
            assert SHOWN.get(kind, ours[number + 1]) == column.shown(ours[number + 1]), kind


def test_an_infinite_interval_is_no_interval_of_zero(database: Any, tmp_path: Path) -> None:
    """The connector sends 0 for it: a difference, in which the source's value is named."""
    database.execute("CREATE TABLE spans (id int PRIMARY KEY, lasts interval)")
    row_type = RowType(row_type_from_postgres(database, "public.spans"))
    database.execute("INSERT INTO spans VALUES (0, 'infinity'), (1, '0'), (2, '-infinity')")
    log(tmp_path, "public.spans", row_type, *(([number, 0], 3, 1) for number in range(3)))
    with database.transaction():
        found = seen(database, tmp_path, "public.spans")

    assert {("0",): "infinity", ("2",): "-infinity"} == {one.key: row[1] for one in found.differing for row in one.one}


def seen(session: Any, folder: Path, name: str) -> Any:
    """The comparison of one table by a session that is in a transaction of its own."""
    made = DirectoryLog(folder / name)
    source = SourceSnapshot.__new__(SourceSnapshot)
    source._session, source.low, source.high, source.open = session, LATE - 2, LATE - 2, 0
    read = LogHistory([NamedLog(name, made, made.row_type)])
    read.look(source.low, source.high)
    read.read_through(source.high)
    return compare_log(source, source.table(name, made.row_type, ()), read, name)


def test_the_database_tells_rows_as_python_does(database: Any) -> None:
    """The same buckets and the same sums, whatever the texts are; and then nothing is moved."""
    texts = ["", "n", "1:a", "a,1:b", "\x01\t\n\\'\"", "é", "\U0001f600\U0010ffff", "x" * 3000, None]
    rows = [(one, two) for one in texts if one is not None for two in texts]
    database.execute("CREATE TABLE texts (one text, two text)")
    with database.cursor().copy("COPY texts FROM STDIN") as copy:
        for row in rows * 2:
            copy.write_row(row)
    columns = tuple(TextColumn(name, "({x})", str) for name in ("one", "two"))
    for width in (1, 2):
        there, here = PostgresRows(database, columns, width, "public.texts"), LocalRows(
            [(row, 2) for row in rows], width
        )

        assert there.prints() == here.prints()

        with database.transaction():
            assert () == compare(there, here, width).differing
            assert 2 * len(rows) == sum(count for _, count in there.rows(list(there.prints())))


def test_of_a_numeric_as_bytes_not_a_number_is_null(database: Any, tmp_path: Path, run: Run) -> None:
    """As the connector has it with decimal.handling.mode=precise."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, price numeric(12, 2))")
    database.execute("INSERT INTO orders VALUES (1, 12.50), (2, 'NaN')")
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    fields = [{"name": "id", "type": "int"}, {"name": "price", "type": ["null", decimal]}]
    row_type = RowType({"type": "record", "name": "orders", "fields": fields})
    folder = log(tmp_path, "public.orders", row_type, ([1, b"\x04\xe2"], 5, 1), ([2, None], 5, 1)) / "public.orders"

    assert 0 == run("compare", folder, "--source", "env").code


# --- source and log


@pytest.mark.parametrize(("source", "log", "strangers"), [
    ([("1", "a"), ("2", "b")], [("1", "x"), ("7", "b")], True),
    ([("1", "a"), ("2", "b")], [("1", "x"), ("2", "b")], False),
    ([("1", "a"), ("1", "a")], [("1", "a"), ("2", "b")], False),
    ([("1", "a")], [], False),
    ([], [("1", "a")], False),
])  # fmt: skip
def test_a_source_without_one_row_in_common_may_be_another_database(
    source: list[tuple[str, str]], log: list[tuple[str, str]], strangers: bool
) -> None:
    """A log that only lags behind has most of its rows; and one without any row has nothing to judge by."""
    verdict = compare(LocalRows([(row, 1) for row in source], 1), LocalRows([(row, 1) for row in log], 1), 1)
    columns = tuple(TextColumn(name, "({x})", str) for name in ("id", "item"))
    told = SourceComparison(
        TextTable("public.orders", columns, 1, ()), verdict.one, verdict.other, list(verdict.differing)
    )
    for behind in (None, "of the logs nothing"):
        read: Any = SimpleNamespace(high=9, open=0)
        part = _part(read, {"orders": told}, _OtherSide("log", "the log states", "far", behind, None), {})
        assert strangers is any("this may be another database" in line for line in part.lines), part.lines


def test_equal_is_0_and_differing_rows_are_named_and_3(database: Any, orders: Path, run: Run) -> None:
    """A row changed, one deleted, one that the log does not know."""
    said = run("compare", orders, "--source", "env")

    assert 0 == said.code, said.err
    assert said.out.splitlines()[-1].startswith("equal: source at ")

    database.execute("UPDATE orders SET item = 'bee' WHERE id = 1; DELETE FROM orders WHERE id = 3")
    database.execute("INSERT INTO orders VALUES (9, 'new')")
    said, plain = run("compare", orders, "--source", "env"), run("compare", orders, "--source", "env", "--json")

    assert (3, 3) == (said.code, plain.code)
    assert said.out.splitlines()[0].startswith("public.orders: 3 keys differ; the source has 3 rows (")
    assert [
        '  {"id": "1"}: the source has {"item": "bee"}, the log states {"item": "ape"}',
        '  {"id": "3"}: the source has nothing, the log states {"item": ""}',
        '  {"id": "9"}: the source has {"item": "new"}, the log states nothing',
    ] == said.out.splitlines()[1:4]
    found = json.loads(plain.out)
    assert (False, 3) == (found["equal"], found["source"]["tables"]["public.orders"]["differing"])


def test_rows_of_a_table_that_inherits_are_rows_of_the_source(database: Any, orders: Path, run: Run) -> None:
    """A SELECT has them, and so has a snapshot: a log that lacks them is no copy."""
    database.execute("CREATE TABLE late () INHERITS (orders); INSERT INTO late VALUES (9, 'new')")
    said = run("compare", orders, "--source", "env")

    assert 3 == said.code, said
    assert '  {"id": "9"}: the source has {"item": "new"}, the log states nothing' in said.out.splitlines()


def test_rows_that_a_policy_hides_are_not_left_out(
    server: Postgres, database: Any, orders: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source and log would be equal, as the snapshot of the same role lacks these rows, too."""
    database.execute(f"CREATE ROLE \"R\" LOGIN PASSWORD '{server.password}'; GRANT USAGE ON SCHEMA public TO \"R\"")
    database.execute("GRANT SELECT ON orders TO \"R\"; CREATE POLICY few ON orders FOR SELECT USING (id < 9)")
    database.execute("INSERT INTO orders VALUES (9, 'new')")
    database.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    try:
        all_seen = run("compare", orders, "--source", "env")
        monkeypatch.setenv("PGUSER", "R")
        hidden = run("compare", orders, "--source", "env")
        monkeypatch.setattr(compare_source, "guarded_tables", lambda *_: ())
        enabled_meanwhile = run("compare", orders, "--source", "env")
        monkeypatch.undo()
        database.execute('ALTER ROLE "R" BYPASSRLS')
        for name, value in {**server.environment, "PGUSER": "R"}.items():
            monkeypatch.setenv(name, value)
        allowed = run("compare", orders, "--source", "env")
    finally:
        database.execute('DROP OWNED BY "R"; DROP ROLE "R"')

    assert [3, 2, 3] == [all_seen.code, hidden.code, allowed.code], hidden
    assert "row-level security may hide rows of public.orders from the role R" in hidden.err
    assert 'ALTER ROLE "R" BYPASSRLS' in hidden.err
    assert enabled_meanwhile.code not in (0, 3), enabled_meanwhile
    assert "row-level security policy for table" in enabled_meanwhile.err


def test_a_table_about_which_nothing_is_stated_is_not_equal(
    database: Any, orders: Path, tmp_path: Path, run: Run
) -> None:
    """The others are compared, and it is named; where the others alone are asked about, they are equal."""
    database.execute("CREATE TABLE items (id int PRIMARY KEY, item text)")
    for table, start in ("orders", None), ("items", "none"):
        made = DirectoryLog(orders / f"public.{table}", ORDER, create=True)
        made.describe(LogDescription(timeline="both", log_set="both", start=start))
        made.close()
    said, plain = run("compare", orders, "--source", "env"), run("compare", orders, "--source", "env", "--json")

    why = "public.items is not covered by the connector: nothing is stated of it"
    assert (1, 1) == (said.code, plain.code), said
    orders_line, items_line, last = said.out.splitlines()
    assert orders_line.startswith("public.orders: 3 rows in the source, fingerprint ")
    assert (f"public.items: not compared: {why}", True) == (items_line, last.startswith("not all compared: source at "))
    found = json.loads(plain.out)
    assert (False, {"public.items": why}) == (found["equal"], found["not_compared"])
    assert ["public.orders"] == list(found["source"]["tables"])
    assert 0 == run("compare", orders / "public.orders", "--source", "env").code
    database.execute("DELETE FROM orders WHERE id = 3")
    assert 3 == run("compare", orders, "--source", "env").code


def test_rows_from_before_a_table_was_covered_differ(database: Any, tmp_path: Path, run: Run) -> None:
    """The log begins with the first insert that a record brought, and this is found here only."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    database.execute("INSERT INTO orders VALUES (2, 'nut')")
    folder = log(tmp_path, "public.orders", ORDER, ([2, "nut"], 5, 1)) / "public.orders"
    late = DirectoryLog(folder)
    late.describe(LogDescription(start="5"))
    late.close()
    assert 0 == run("compare", folder, "--source", "env").code
    database.execute("INSERT INTO orders VALUES (1, 'ape')")
    said = run("compare", folder, "--source", "env")

    assert 3 == said.code, said
    assert '  {"id": "1"}: the source has {"item": "ape"}, the log states nothing' in said.out.splitlines()


def test_equal_tables_are_not_moved(database: Any, orders: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database computes their fingerprints, and sends no row."""

    def moved(*_: Any) -> Any:
        raise AssertionError("rows were asked for")

    monkeypatch.setattr(PostgresRows, "rows", moved)

    assert 0 == run("compare", orders, "--source", "env").code


def test_rows_without_a_key_are_compared_with_how_often_they_are_there(
    database: Any, tmp_path: Path, run: Run
) -> None:
    """Three of one row are not two of it."""
    database.execute("CREATE TABLE orders (id int, item text)")
    database.execute("INSERT INTO orders VALUES (1, 'ape'), (1, 'ape'), (1, 'ape'), (1, 'bee')")
    log(tmp_path, "public.orders", ORDER, ([1, "ape"], 5, 2), ([1, "bee"], 5, 1))
    said = run("compare", tmp_path / "public.orders", "--source", "env")

    assert 3 == said.code
    ape = '{"id": "1", "item": "ape"}'
    assert f"  {ape}: the source has {ape}, {ape}, {ape}, the log states {ape}, {ape}" == said.out.splitlines()[1]


def test_a_log_that_is_not_there_yet_is_1_until_it_is(database: Any, tmp_path: Path, run: Run) -> None:
    """What differs may be on its way: that is reported. With --wait it is given time."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    folder = log(tmp_path, "public.orders", ORDER, upper=10) / "public.orders"
    early = run("compare", folder, "--source", "env")

    assert 1 == early.code
    assert "cannot be compared yet: the source was read at " in early.out
    assert "of the logs complete through 9 only" in early.out
    assert "not comparable: source at" in early.out

    def later() -> None:
        made = DirectoryLog(folder)
        made.send(Updates([(ORDER.row([1, "ape"]), 12, 1)]))
        made.send(Progress([10], FINISHED, {12: 1}))
        made.flush()
        made.close()

    reading = threading.Timer(0.5, later)
    reading.start()
    said = run("compare", folder, "--source", "env", "--wait", 60)
    reading.join()

    assert 0 == said.code, said.out


def test_the_times_of_a_remap_are_no_positions_of_the_source(database: Any, tmp_path: Path, run: Run) -> None:
    """They are milliseconds, beyond every LSN: an empty table would be equal to a log with rows."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    folder = log(tmp_path, "public.orders", ORDER, ([1, "ape"], LATE - 2, 1)) / "public.orders"
    alone = DirectoryLog(folder)
    alone.describe(LogDescription(timeline="a remap", log_set="its logs"))
    alone.close()

    said = run("compare", folder, "--source", "env")

    assert 2 == said.code
    assert f"the times of the log {folder} are no positions of a source" in said.err and "--without-log" in said.err


def test_what_is_equal_is_so_although_the_log_is_not_there_yet(database: Any, tmp_path: Path, run: Run) -> None:
    """The log of an idle source ends at its last change; a marker lets it come past, if somebody captures it."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    folder = log(tmp_path, "public.orders", ORDER, ([1, "ape"], 5, 1), upper=10) / "public.orders"

    assert 0 == run("compare", folder, "--source", "env").code

    before = database.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]
    with closing(SourceSnapshot(source_address("env"))) as source:
        marked = source.mark()

        assert before <= source.low <= source.high < marked
        assert marked < database.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]
    plain = json.loads(run("compare", folder, "--source", "env", "--marker", "--json").out)

    assert (True, False) == (plain["equal"], plain["source"]["complete"])


def test_keys_that_change_while_the_snapshot_is_taken_may_be_as_they_were_in_between(
    database: Any, tmp_path: Path
) -> None:
    """Before, after, or after each of the changes; nothing else, and no other key."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    database.execute("INSERT INTO orders VALUES (1, 'after'), (2, 'between'), (3, 'never'), (4, 'wrong'), (6, 'late')")
    changes = [
        ([1, "before"], 5, 1), ([1, "before"], 20, -1), ([1, "after"], 20, 1),
        ([2, "before"], 5, 1), ([2, "before"], 20, -1), ([2, "between"], 20, 1), ([2, "between"], 22, -1),
        ([3, "before"], 5, 1), ([3, "before"], 20, -1), ([3, "after"], 20, 1),
        ([4, "right"], 5, 1), ([5, "late"], 40, 1), ([6, "late"], 40, 1),
    ]  # fmt: skip
    log(tmp_path, "public.orders", ORDER, *changes)
    made = DirectoryLog(tmp_path / "public.orders")
    with closing(SourceSnapshot(source_address("env"))) as source:
        source.low, source.high = 10, 30
        read = LogHistory([NamedLog("public.orders", made, ORDER)])
        read.look(10, 30)

        assert read.read_through(30)

        found = compare_log(source, source.table("public.orders", ORDER, ()), read, "public.orders")

    assert [("3",), ("4",), ("6",)] == [one.key for one in found.differing]
    assert 2 == found.between


def test_a_time_of_the_past_is_compared_only_while_nothing_has_changed(database: Any, orders: Path, run: Run) -> None:
    """A source shows no past; where nothing has moved it need not."""
    assert 0 == run("compare", orders, "--source", "env", "--at", 7).code
    said = run("compare", orders, "--source", "env", "--at", 6)

    assert 1 == said.code
    assert "the source has moved on since, by 2 updates" in said.err
    assert 1 == run("compare", orders, "--source", "env", "--at", LATE).code


# --- a source that lacks commits


#: By commit times, and on a remap.
BY_COMMITS, ON_REMAP = LogDescription(timeline="t", log_set="t"), LogDescription(timeline="r", log_set="t")


class FakeSource:
    """A source with these rows, which is at other positions at each look."""

    open = 0

    def __init__(self, rows: list[tuple[str, str]], *positions: int, end: int, at_look: Callable[[], object]) -> None:
        self.rows, self._positions, self._end, self._at_look = rows, list(positions), end, at_look
        self.low = self.high = 0
        self.marked = False

    def look(self) -> None:
        """The next position; and what happens right behind it."""
        self.low = self.high = self._positions.pop(0)
        self._at_look()

    def end(self) -> int:
        """Behind the last of them."""
        return self._end

    def mark(self) -> int:
        """Nothing is written."""
        self.marked = True
        return self.high

    def table(self, name: str, _: RowType, without: Any) -> TextTable:
        """Of two columns, as texts."""
        columns = tuple(TextColumn(one, "({x})", str, number) for number, one in enumerate(("id", "item")))
        return TextTable(name, columns, 1, tuple(without))

    def compare(self, table: TextTable, rows: Any) -> Any:
        """Its rows with others."""
        return compare(LocalRows([(row, 1) for row in self.rows], 1), LocalRows(rows, 1), table.width)


def fetched(folder: Path, *updates: tuple[Any, int, int], lower: int, upper: int) -> None:
    """More comes into the log of the orders."""
    with closing(DirectoryLog(folder / "public.orders")) as made:
        made.send(Updates([(ORDER.row(row), time, diff) for row, time, diff in updates]))
        made.send(Progress([lower], [upper], dict(Counter(time for _, time, _ in updates))))
        made.flush()


@pytest.mark.parametrize(("upper", "high", "later", "end", "code"), [
    # The last END is where the WAL ends, or before that.
    (31, 30, None, 30, 0), (31, 35, None, 35, 0),
    # The logs had something beyond it, be it a commit of no row.
    (32, 30, None, 30, 3), (51, 30, None, 90, 3),
    # The capture goes on while the source is read: what comes then was committed then.
    (31, 35, 80, 79, 0), (31, 35, 80, 99, 0), (31, 35, 81, 79, 3),
    # Nothing is complete yet.
    (1, 0, None, 0, 0),
])  # fmt: skip
def test_a_source_lacks_what_was_complete_before_it_was_looked_at(
    upper: int, high: int, later: int | None, end: int, code: int, tmp_path: Path
) -> None:
    """And only that: logs are ahead of a snapshot while they are captured. A marker is left to honest sources."""
    row = [([1, "ape"], 7, 1)] if upper > 7 else []
    folder = log(tmp_path, "public.orders", ORDER, *row, upper=upper)
    source: Any = FakeSource(
        [("1", "ape")] if row else [], high, end=end,
        at_look=lambda: later and fetched(folder, ([2, "nut"], later - 1, 1), lower=upper, upper=later),
    )
    logs = [NamedLog("public.orders", DirectoryLog(folder / "public.orders"), ORDER)]
    wanted = SourceRequest({}, (), 0.0, True, None, None)
    part = with_logs(source, covered(logs), 0, wanted)

    assert code == part.exit, part.lines
    lacks = "the source's WAL ends before what was captured: another server, or a restored one. It ends at "
    assert (code == 3) is any(line.startswith(lacks) for line in part.lines), part.lines
    assert part.lines[-1].startswith(f"{'different' if code else 'equal'}: source at {high}, log "), part.lines
    assert (code == 3) is part.plain["source"]["lacks_commits"]
    assert source.marked is (code == 0 or later is not None)


def test_a_source_lacks_what_one_of_the_logs_had(tmp_path: Path) -> None:
    """Another one is behind, so what it had is not complete in both. One that is finished had all of its updates."""
    log(tmp_path, "public.orders", ORDER, ([1, "ape"], 7, 1), upper=20)
    log(tmp_path, "public.items", ORDER, ([1, "ape"], 7, 1), ([2, "nut"], 40, 1), upper=50)
    log(tmp_path, "public.finished", ORDER, ([1, "ape"], 7, 1), ([2, "nut"], 8, 1))

    def stated(*tables: str, start: int = 0) -> int | None:
        logs = [NamedLog(name, DirectoryLog(tmp_path / f"public.{name}"), ORDER) for name in tables]
        read = LogHistory(logs, start=start)
        read.read_all()
        return read.stated

    assert [19, 49, 8, 49] == [stated(*one) for one in (
        ["orders"], ["orders", "items"], ["finished"], ["orders", "items", "finished"])]  # fmt: skip


def test_of_a_long_log_the_rest_is_read_behind_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is not taken twice, and what it came to is the same."""
    monkeypatch.setattr(compare_source, "_CUTS_HELD", 2)
    log(tmp_path, "public.orders", ORDER, ([0, "ape"], 1, 1), upper=2)
    for time_ in range(2, 9):
        fetched(tmp_path, ([time_, "nut"], time_, 1), lower=time_, upper=time_ + 1)
    read = LogHistory([NamedLog("public.orders", DirectoryLog(tmp_path / "public.orders"), ORDER)])
    read.read_all()
    read.look(10, 12)
    fetched(tmp_path, ([9, "nut"], 9, 1), ([11, "nut"], 11, 1), ([13, "nut"], 13, 1), lower=9, upper=14)

    assert (True, 13) == (read.read_through(12), read.stated)
    assert {0, *range(2, 10)} == {row[0] for row, count in read.rows["public.orders"] if count == 1}
    assert [11] == [at for _, at, _ in read.window["public.orders"]]


def position(session: Any) -> int:
    """Where the WAL of the source ends."""
    return int(session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0])


@pytest.mark.parametrize("lost", [[([2, "nut"], 1)], []])
def test_a_source_that_lost_commits_is_not_equal(
    lost: list[tuple[Any, int]], database: Any, tmp_path: Path, run: Run
) -> None:
    """Its WAL ends before what the logs have; also if that changes no row. Both positions are named, at once."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    beyond = position(database) + 10_000_000
    updates = [([1, "ape"], 5, 1), *((row, beyond - 9, diff) for row, diff in lost)]
    folder = log(tmp_path, "public.orders", ORDER, *updates, upper=beyond + 1) / "public.orders"
    began = time.monotonic()
    words = ["compare", folder, "--source", "env", "--wait", 60, "--marker"]
    said, plain = run(*words), json.loads(run(*words, "--json").out)

    assert (3, True) == (said.code, time.monotonic() - began < 30), said
    last = said.out.splitlines()[-1]
    at = int(last.split()[3].rstrip(","))
    assert last == f"different: source at {at}, log complete through {beyond}"
    assert f"It ends at {at} ({lsn_text(at)}), and the logs had all through {beyond} ({lsn_text(beyond)})" in said.out
    row = '  {"id": "2"}: the source has nothing, the log states {"item": "nut"}'
    assert bool(lost) is (row in said.out.splitlines()), said.out
    assert (False, True) == (plain["equal"], plain["source"]["lacks_commits"])


def test_logs_that_are_ahead_of_the_look_as_their_capture_goes_on_are_equal(
    database: Any, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit right behind each look is in the logs when they are read on, and is not in the snapshot."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    upper = [position(database) + 1]
    folder = log(tmp_path, "public.orders", ORDER, ([1, "ape"], 5, 1), upper=upper[0])
    looked, look = [1], SourceSnapshot.look

    def looking(source: SourceSnapshot) -> None:
        look(source)
        looked.append(looked[-1] + 1)
        database.execute("INSERT INTO orders VALUES (%s, 'new')", (looked[-1],))
        upper.append(position(database) + 1)
        fetched(folder, ([looked[-1], "new"], upper[-1] - 1, 1), lower=upper[-2], upper=upper[-1])

    monkeypatch.setattr(SourceSnapshot, "look", looking)
    said = run("compare", folder / "public.orders", "--source", "env", "--marker")

    assert 0 == said.code, said
    first, last = said.out.splitlines()
    assert first.startswith("public.orders: 2 rows in the source, fingerprint ") and [1, 2, 3] == looked
    assert last.endswith(f", log complete through {upper[-1] - 1}") and int(last.split()[3].rstrip(",")) < upper[-1] - 1


@pytest.mark.parametrize(("description", "code"), [(BY_COMMITS, 3), (ON_REMAP, 0), (LogDescription(timeline="t"), 0)])
def test_a_source_that_lacks_what_the_target_had_is_not_equal(
    description: LogDescription, code: int, database: Any, tmp_path: Path, run: Run
) -> None:
    """By commit times; on a remap, and where that is not known, rows alone decide."""
    pytest.importorskip("pyarrow")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    log(tmp_path / "logs", "public.orders", ORDER, ([1, "ape"], 5, 1), upper=LATE, description=description)
    (tmp_path / "shop.yaml").write_text(PLAN, "utf-8")
    assert 0 == run("materialize", tmp_path / "shop.yaml").code
    said = run("compare", tmp_path / "shop.yaml", "--source", "env", "--without-log")

    assert code == said.code, said
    assert (code == 3) is (f"and the target had all through {LATE - 1} ({lsn_text(LATE - 1)})" in said.out)
    assert said.out.startswith("orders: 1 rows in the source, fingerprint ")


# --- with the target


def test_source_log_and_target(database: Any, orders: Path, run: Run) -> None:
    """All three; each pair alone; and which of them is the wrong one."""
    pytest.importorskip("pyarrow")
    plan = orders.parent / "shop.yaml"
    plan.write_text(PLAN, "utf-8")
    assert 0 == run("materialize", plan).code
    three, pair = run("compare", plan, "--source", "env"), run("compare", plan, "--source", "env", "--without-log")

    assert (0, 0) == (three.code, pair.code), three.out + pair.out + three.err + pair.err
    assert ["public.orders", "equal", "orders", "equal"] == [line.split(":")[0] for line in three.out.splitlines()]
    assert ["orders", "equal"] == [line.split(":")[0] for line in pair.out.splitlines()]

    database.execute("UPDATE orders SET item = 'bee' WHERE id = 1")
    three, pair = run("compare", plan, "--source", "env"), run("compare", plan, "--source", "env", "--without-log")

    assert (3, 3) == (three.code, pair.code)
    assert '  {"id": "1"}: the source has {"item": "bee"}, the log states {"item": "ape"}' in three.out.splitlines()
    assert "equal: shop, complete through" in three.out.splitlines()[-1]
    assert '  {"id": "1"}: the source has {"item": "bee"}, the target has {"item": "ape"}' in pair.out.splitlines()


def test_a_table_with_a_dot_in_its_name_is_found(database: Any, tmp_path: Path, run: Run) -> None:
    """The schema ends at the first dot."""
    database.execute('CREATE TABLE "we.ird" (id int PRIMARY KEY, item text)')
    database.execute("""INSERT INTO "we.ird" VALUES (1, 'ape')""")
    folder = log(tmp_path, "public.we.ird", ORDER, ([1, "ape"], 5, 1)) / "public.we.ird"

    found = run("compare", folder, "--source", "env")
    assert (0, True) == (found.code, found.out.startswith("public.we.ird: 1 rows in the source")), found


def test_a_target_that_is_ahead_of_the_snapshot_is_not_wrong(
    database: Any, orders: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has changed in a later snapshot had only come to the target first; what has not is a difference."""
    pytest.importorskip("pyarrow")
    plan = orders.parent / "shop.yaml"
    plan.write_text(PLAN, "utf-8")
    assert 0 == run("materialize", plan).code
    database.execute("UPDATE orders SET item = 'old' WHERE id = 1")
    later = SourceSnapshot.later

    def moving(source: SourceSnapshot) -> SourceSnapshot:
        database.execute("UPDATE orders SET item = 'ape' WHERE id = 1")
        return later(source)

    monkeypatch.setattr(SourceSnapshot, "later", moving)
    said = run("compare", plan, "--source", "env", "--without-log")

    assert (0, True) == (said.code, "orders: 1 keys changed while they were read" in said.out), said.out

    database.execute("UPDATE orders SET item = 'old' WHERE id IN (1, 2)")
    said = run("compare", plan, "--source", "env", "--without-log")

    assert 3 == said.code
    assert "orders: 1 keys differ" in said.out and '  {"id": "2"}: the source has {"item": "old"}' in said.out


def test_a_table_that_comes_to_be_covered_is_compared_when_there_is_time(
    database: Any, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the logs are read, the capture comes to a table that it did not cover."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    log(tmp_path, "public.orders", ORDER, (ORDER.row([1, "ape"]), 5, 1))
    words = ["compare", tmp_path / "public.orders", "--source", "env"]
    late, demand = list[str](), CoveredLogs.demand_still

    def meanwhile(logs: CoveredLogs) -> None:
        if not late:
            late.append("public.orders")
            raise LateTableError("the connector covers public.orders by now")
        demand(logs)

    monkeypatch.setattr(CoveredLogs, "demand_still", meanwhile)
    early = run(*words)
    late.clear()
    monkeypatch.setattr("cdcv2.cli.compare._AGAIN", 0)

    assert (4, True) == (early.code, "covers public.orders by now" in early.err)
    assert (0, 1) == (run(*words, "--wait", 60).code, len(late))


def test_a_pipeline_that_just_begins_is_waited_for(
    database: Any, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logs are not there at first, and then the target is behind; without --wait both are reported at once."""
    pytest.importorskip("pyarrow")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    plan, folder = tmp_path / "shop.yaml", tmp_path / "logs" / "public.orders"
    plan.write_text(PLAN, "utf-8")

    def begin() -> None:
        log(tmp_path / "logs", "public.orders", ORDER, upper=10)
        assert 0 == run("materialize", plan).code
        made = DirectoryLog(folder)
        made.send(Updates([(ORDER.row([1, "ape"]), 12, 1)]))
        made.send(Progress([10], FINISHED, {12: 1}))
        made.flush()
        made.close()

    at_pauses = [begin, lambda: run("materialize", plan)]
    early = run("compare", plan, "--source", "env")
    waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: at_pauses.pop(0)())
    monkeypatch.setattr("cdcv2.cli.compare.clock", waiting)
    said = run("compare", plan, "--source", "env", "--wait", 60)

    assert (2, True) == (early.code, "there is no directory" in early.err), early
    assert (0, True, []) == (said.code, "equal: shop, complete through the end" in said.out, at_pauses), said


@pytest.mark.parametrize("equal", [True, False])
def test_a_target_that_stands_still_is_not_equal(equal: bool, database: Any, tmp_path: Path, run: Run) -> None:
    """Its logs have what it lacks, and so has the source: also if it is equal to its logs as far as it is. A difference
    of source and log is named all the same.
    """
    pytest.importorskip("pyarrow")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    made = log(tmp_path / "logs", "public.orders", ORDER, ([1, "ape"], 5, 1), upper=10) / "public.orders"
    (tmp_path / "shop.yaml").write_text(PLAN, "utf-8")
    assert 0 == run("materialize", tmp_path / "shop.yaml").code
    assert 0 == run("compare", tmp_path / "shop.yaml", "--source", "env").code
    database.execute("INSERT INTO orders VALUES (2, 'nut')")
    with closing(DirectoryLog(made)) as more:
        more.send(Updates([(ORDER.row([2, "nut" if equal else "net"]), 12, 1)]))
        more.send(Progress([10], FINISHED, {12: 1}))
        more.flush()
    said = run("compare", tmp_path / "shop.yaml", "--source", "env", "--wait", 0.3)

    assert (1 if equal else 3) == said.code, said
    text = "the target is behind: it is complete through 9, and its logs have 1 updates behind that, as the source has"
    assert text in said.err + said.out
    assert equal or '  {"id": "2"}: the source has {"item": "nut"}' in said.out
    assert 0 == run("materialize", tmp_path / "shop.yaml").code
    assert (0 if equal else 3) == run("compare", tmp_path / "shop.yaml", "--source", "env").code


def test_a_target_that_is_behind_the_source_is_1(database: Any, tmp_path: Path, run: Run) -> None:
    """Without the log, what differs may be on its way."""
    pytest.importorskip("pyarrow")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    log(tmp_path / "logs", "public.orders", ORDER, ([2, "nut"], 5, 1), upper=10)
    (tmp_path / "shop.yaml").write_text(PLAN, "utf-8")
    assert 0 == run("materialize", tmp_path / "shop.yaml").code
    said = run("compare", tmp_path / "shop.yaml", "--source", "env", "--without-log", "--wait", 0.3)

    assert 1 == said.code
    assert "of the target complete through 9 only: what differs may be on its way" in said.out


# --- the report on what is wrong


def refusals() -> dict[str, Callable[[Run, Path], Said]]:
    """Text of the error -> what somebody does."""
    return {
        "--source takes no connection string": lambda run, logs: run(
            "compare", logs, "--source", "postgresql://u:hidden@h/d"
        ),
        "the file no.dsn with the source's connection string cannot be read": lambda run, logs: run(
            "compare", logs, "--source", "no.dsn"
        ),
        "no table 'public.gone' in this database": lambda run, logs: run(
            "compare", logs, "--source", "env", "--source-table", "public.orders=public.gone"
        ),
        "--source-table x=...: there is no such log": lambda run, logs: run(
            "compare", logs, "--source", "env", "--source-table", "x=public.orders"
        ),
        "--source-table orders: write LOG=SCHEMA.TABLE": lambda run, logs: run(
            "compare", logs, "--source", "env", "--source-table", "orders"
        ),
        "there is no such column": lambda run, logs: run("compare", logs, "--source", "env", "--without", "orders.x"),
        "is no YAML file": lambda run, logs: run("compare", logs),
        "--marker goes with --source": lambda run, logs: run("compare", "shop.yaml", "--marker"),
        "--without-log compares source and target": lambda run, logs: run(
            "compare", logs, "--source", "env", "--without-log"
        ),
        "stand in its file": lambda run, logs: run("compare", "shop.yaml", logs, "--source", "env"),
        "it takes a number of seconds": lambda run, logs: run("compare", logs, "--source", "env", "--wait", -1),
    }


@pytest.mark.parametrize("text", refusals())
def test_wrong_usage_is_2(database: Any, orders: Path, run: Run, text: str) -> None:
    """With what to write instead; and no password is repeated."""
    said = refusals()[text](run, orders)

    assert 2 == said.code, said.err
    assert text in said.err and "hidden" not in said.err


def test_a_column_that_cannot_be_compared_is_left_out_by_name(database: Any, tmp_path: Path, run: Run) -> None:
    """Never silently: the answer names those that were not compared."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item tstzrange, extra int)")
    database.execute("INSERT INTO orders VALUES (1, '[2024-01-01 00:00Z,)', 7)")
    folder = log(tmp_path, "public.orders", ORDER, ([1, '["2024-01-01 00:00:00+00",)'], 5, 1)) / "public.orders"
    said = run("compare", folder, "--source", "env")
    without = run("compare", folder, "--source", "env", "--without", "public.orders.item")

    assert (2, 0) == (said.code, without.code), without.err
    assert "public.orders.item has the type 'tstzrange'" in said.err
    assert "public.orders: not compared: item, extra of public.orders" in without.out.splitlines()

    database.execute("ALTER TABLE orders DROP COLUMN item")
    said = run("compare", folder, "--source", "env")

    assert (2, True) == (said.code, "has no column 'item', which its log has" in said.err)


def test_a_connection_string_may_be_in_a_file(
    database: Any, orders: Path, run: Run, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the password, which is not shown when the server is not there."""
    for name in server.environment:
        monkeypatch.delenv(name)
    where = f"host={server.host} user={server.username} password={server.password} dbname=shop"
    file = orders.parent / "shop.dsn"
    file.write_text(f"{where} port={server.port}\n", "utf-8")

    assert 0 == run("compare", orders, "--source", file).code

    file.write_text(f"{where} port=1 connect_timeout=2\n", "utf-8")
    said = run("compare", orders, "--source", file)

    assert 4 == said.code
    assert server.password not in said.err + said.out


def test_open_transactions_are_told_beside_a_difference(
    database: Any, orders: Path, run: Run, server: Postgres
) -> None:
    """One that waits for a standby is in the log before anybody sees it."""
    with server.connect() as other:
        other.execute("INSERT INTO orders VALUES (10, 'open')")
        database.execute("DELETE FROM orders WHERE id = 3")
        said = run("compare", orders, "--source", "env")

    assert 3 == said.code
    assert "1 transactions were open in the source" in said.out


def test_the_position_and_the_snapshot_are_of_one_moment(database: Any) -> None:
    """What commits behind it is not seen, and lies beyond."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'ape')")
    with closing(SourceSnapshot(source_address("env"))) as source:
        database.execute("INSERT INTO orders VALUES (2, 'nut')")
        now = database.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]
        table = source.table("public.orders", ORDER, ())

        assert 1 == sum(one.rows for one in source.side(table).prints().values())
        assert source.low <= source.high < now
