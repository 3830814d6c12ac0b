"""PostgreSQL as a target: every fault of the kit, the fence in SQL, every type, tables that somebody has changed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, ClassVar

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import FencedError, MalformedError, OutputError, RefusedError, UnavailableError, UsageError, ViewError
from cdcv2.materialize import (
    Checkpoint, Count, Driver, Last, Min, Range, RecoveryLog, Runtime, Sum, ThreadConnection, ViewBinding,
)
from cdcv2.materialize.protocol.fence import Holding, claim as claim_in_python
from cdcv2.materialize.targets.postgres import driver as postgres, fence as postgres_fence
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.testing import Scenario, Subject, conform, scenarios
from tests.faults import few
from tests.fence_vectors import ASKED, FOREIGN, VECTORS, Row, Vector
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import RowByRow

pytestmark = pytest.mark.integration
Connect = Callable[[], Any]


class PostgresSubject(Subject):
    """The driver on a schema of its own."""

    server: ClassVar[Postgres]
    columns = True

    def __init__(self) -> None:
        self.connect = new_schema(self.server)
        self._reader = self.connect()
        self._reader.autocommit = True

    def driver(self) -> Driver:
        """A new session."""
        return PostgresDriver(connect=self.connect)

    def log(self) -> RecoveryLog | None:
        """None: the store rules."""
        return None

    def view(self) -> dict[str, dict[Any, Any]]:
        """What is committed, in one snapshot."""
        found: dict[str, dict[Any, Any]] = {}
        with self._reader.transaction():
            self._reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            there = self._reader.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
            ).fetchall()
            for (name,) in there:
                if name.startswith("account") or name.startswith("entry"):
                    rows = self._reader.execute(f'SELECT * FROM "{name}"'.encode()).fetchall()
                    found[name] = {row[:1]: row[1:] for row in rows}
        return found

    def close(self) -> None:
        """The schema stays for the server's life."""
        self._reader.close()


@pytest.mark.parametrize("scenario", few(scenarios(PostgresSubject)), ids=str)
def test_it_comes_through_every_fault(server: Postgres, scenario: Scenario) -> None:
    """With sums and a log that is appended to, in which a repetition would show."""
    PostgresSubject.server = server
    conform(PostgresSubject, scenario)


# --- the fence


def plain(connection: Any) -> set[Row]:
    """The rows of the fence's table."""
    rows = connection.execute("SELECT key_begin, key_end, fence, checkpoint FROM cdcv2_checkpoints").fetchall()
    return {tuple(row) for row in rows}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_installing_does_what_the_known_cases_say(connect: Connect, vector: Vector) -> None:
    """And a commit with the fence changes its row alone, one with another fence none."""
    with connect() as connection:
        connection.execute(postgres_fence.CREATE)
        connection.execute("INSERT INTO cdcv2_checkpoints VALUES ('another', %s, %s, %s, %s)", FOREIGN)
        for number, wanted in enumerate(vector.fixtures, 1):
            postgres_fence.install(connection, "m", wanted, fence=ASKED, checkpoint=str(number))

        assert {FOREIGN, *vector.before} == plain(connection)

        given = postgres_fence.install(connection, "m", vector.install, fence=ASKED, checkpoint="new")

        assert vector.given == given
        assert {FOREIGN, *vector.after} == plain(connection)

        begin, end = vector.install.begin, vector.install.end
        held = postgres_fence.held(given[1])
        commit = {"name": "m", "begin": begin, "end": end, "fence": given[0], "held": held, "checkpoint": "changed"}
        changed = {(*row[:3], "changed") if row[:2] == (begin, end) else row for row in vector.after}

        other = {**commit, "held": postgres_fence.held("another")}

        assert 0 == connection.execute(postgres_fence.COMMIT, other).rowcount
        assert 1 == connection.execute(postgres_fence.COMMIT, commit).rowcount
        changed_since = {**commit, "held": postgres_fence.held("changed")}

        assert 0 == connection.execute(postgres_fence.COMMIT, {**changed_since, "fence": given[0] - 1}).rowcount
        assert {FOREIGN, *changed} == plain(connection)


def test_the_fence_in_sql_is_the_rule_in_python(connect: Connect) -> None:
    """For any ranges in any order, the known hole included: the same rows, fences and checkpoints."""
    lottery = random.Random(1)
    with connect() as connection:
        connection.execute(postgres_fence.CREATE)
        for trial in range(15):
            holdings: list[Holding] = []
            connection.execute("DELETE FROM cdcv2_checkpoints")
            for number in range(5):
                begin = lottery.randrange(20)
                wanted = Range(begin, lottery.randrange(begin, 20))
                holdings = claim_in_python(holdings, wanted, value=str(number))
                fence, near = postgres_fence.claim(connection, "m", wanted, str(number))

                assert {(one.range.begin, one.range.end, one.fence, one.value) for one in holdings} == plain(connection)
                assert [fence] == [one.fence for one in holdings if one.range == wanted]
                assert {one.range for one in holdings if one.range.overlaps(wanted)} == {one.range for one in near}


# --- what a table is


ENTRY = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "long"]}],
})  # fmt: skip
ENTRIES, BAG = ViewBinding("entries", ENTRY, "entries", ("id",)), ViewBinding("entries", ENTRY, "bag")


def cuts(*rows: Any, row_type: RowType = ENTRY, start: int = 0) -> Callable[[Checkpoint], Iterator[Cut]]:
    """Each row comes with a cut of its own; a list of rows with one."""

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time, row in enumerate(rows, start):
            changes = row if row and isinstance(row[0], tuple) else [(row, 1)]
            updates = [(row_type.row(one), time, diff) for one, diff in changes]
            yield Cut({"entries": updates}, Antichain([time]), Antichain([time + 1]))

    return source


def run(connect: Connect, bindings: list[ViewBinding], source: Any, **options: Any) -> Checkpoint:
    """A materialization to the end of its source."""
    return Runtime("m", bindings, PostgresDriver(connect=connect), source, **options).run()


def shown(connect: Connect, query: str) -> list[tuple[Any, ...]]:
    """What a reader sees."""
    with connect() as connection:
        return list(connection.execute(query.encode()).fetchall())


def change(connect: Connect, statement: str) -> None:
    """What somebody does by hand."""
    with connect() as connection:
        connection.execute(statement.encode())


EVERY: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [-(2**31), 2**31 - 1]),
    "long": ("long", [-(2**63), 2**63 - 1]),
    "float": ("float", [1.1, float("nan"), float("-inf"), 1e-45]),
    "double": ("double", [1.1, float("nan"), float("inf"), 5e-324]),
    "string": ("string", ["", "a\\b\t\n'\"", "\u00e9\u4e16\U0001f600\U0010ffff"]),
    "bytes": ("bytes", [b"", bytes(range(256))]),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, [b"\x00\xff"]),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B"]),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, [b"\x04\xd2", b"\xff" * 8]),
    "array": ({"type": "array", "items": ["null", "double"]}, [[], [1.0, None, float("nan"), 1e300, -1.23456789e22]]),
    "map": ({"type": "map", "values": "long"}, [{}, {"b": 2**60, "a": 1, "c": 1 - 2**53}]),
    "record": ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "bytes"}]}, [{"x": b"\x00"}]),
}


@pytest.mark.parametrize("kind", EVERY)
def test_values_of_every_type_come_back_as_they_were(connect: Connect, kind: str) -> None:
    """A row that was stored is found again by its retraction: it is loaded, and is the same."""
    avro, values = EVERY[kind]
    row_type = RowType({
        "type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", avro]}],
    })  # fmt: skip
    binding = ViewBinding("entries", row_type, "values_of", ("id",))
    come = [([number, value], 1) for number, value in enumerate([None, *values])]
    go = [(row, -1) for row, _ in come]
    run(connect, [binding], cuts(come, row_type=row_type))

    assert len(come) == len(shown(connect, "SELECT * FROM values_of"))

    run(connect, [binding], cuts(come, go, row_type=row_type))

    assert [] == shown(connect, "SELECT * FROM values_of")


@pytest.mark.parametrize("setting", [
    "array_nulls = off", "quote_all_identifiers = on", "IntervalStyle = sql_standard", "bytea_output = escape",
    "DateStyle = 'SQL, DMY'", "extra_float_digits = -15", "transform_null_equals = on",
])  # fmt: skip
def test_what_a_user_has_set_changes_no_value(connect: Connect, setting: str) -> None:
    """A role's settings are those of its sessions, and of what they print."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "id", "type": "int"},
        {"name": "Many", "type": ["null", {"type": "array", "items": ["null", "int"]}],
         "cdcv2.source": {"type": "array", "items": {"type": "int4"}}},
        {"name": "raw", "type": ["null", "bytes"], "cdcv2.source": {"type": "bytea"}},
        {"name": "real", "type": ["null", "double"], "cdcv2.source": {"type": "float8"}},
        {"name": "text", "type": ["null", "string"], "cdcv2.source": {"type": "text"}},
    ]})  # fmt: skip
    binding = ViewBinding("entries", row_type, "settings_of", ("id",))

    def set_otherwise() -> Any:
        session = connect()
        session.execute(f"SET {setting}".encode())
        session.commit()
        return session

    come = [([1, [1, None], b"\\x\xff", 0.1 + 0.2, "NULL"], 1), ([2, None, None, None, None], 1)]
    run(set_otherwise, [binding], cuts(come, row_type=row_type))
    run(set_otherwise, [binding], cuts(come, [(row, -1) for row, _ in come[1:]], row_type=row_type))

    assert [(1, [1, None], b"\\x\xff", 0.1 + 0.2, "NULL")] == shown(connect, "SELECT * FROM settings_of")


def test_views_are_what_the_log_says(connect: Connect) -> None:
    """Rows by key, a multiset and reductions of one log, in one transaction each, hard and soft."""
    bindings = [
        ENTRIES,
        ViewBinding("entries", ENTRY, "kept", ("id",), deletes="soft"),
        ViewBinding("entries", ENTRY, "all_rows"),
        ViewBinding("entries", ENTRY, "total", ("id",), {"n": Count(), "sum": Sum("amount"), "least": Min("amount")}),
        ViewBinding("entries", ENTRY, "latest", ("id",), {"last": Last("amount")}, deletes="soft"),
    ]
    gone = [(["b", 7], -1)]
    run(connect, bindings, cuts([(["a", 5], 1), (["b", 7], 1)], [(["a", 5], -1), (["a", None], 1)], gone), rows=1)

    assert [("a", None)] == shown(connect, "SELECT * FROM entries")
    assert [("a", None, False), ("b", 7, True)] == shown(connect, "SELECT * FROM kept ORDER BY id")
    assert [("a", None, 1)] == shown(connect, "SELECT id, amount, cdcv2_count FROM all_rows")
    assert [("a", 1, 0, None, {})] == shown(connect, "SELECT * FROM total")
    assert [("a", None, 1), ("b", None, 0)] == shown(connect, "SELECT id, last, cdcv2_count FROM latest ORDER BY id")


def test_the_last_write_is_found_again_when_a_later_one_goes(connect: Connect) -> None:
    """What it keeps comes back from jsonb as it was; of a deleted row nothing is shown."""
    latest = ViewBinding("entries", ENTRY, "latest", ("id",), {"last": Last("amount")})
    history = [[(["a", 2**62], 2)], [(["a", 7], 1)], [(["a", 7], -1)], [(["a", 2**62], -2), (["a", None], 1)]]
    wanted = [(2**62, 2), (7, 3), (2**62, 2), (None, 1)]
    for number, row in enumerate(wanted, 1):
        run(connect, [latest], cuts(*history[:number]), rows=1)
        assert [row] == shown(connect, "SELECT last, cdcv2_count FROM latest")


def test_large_things_fit(connect: Connect) -> None:
    """A row of 10 MB, a thousand columns, a key with characters of every plane, names that need quotes."""
    names = [f'Column "{number}"' for number in range(1000)]
    wide = RowType({
        "type": "record", "name": "w",
        "fields": [{"name": "id", "type": "string"}, *(
            {"name": f"c{number}", "type": ["null", "string"]} for number in range(len(names))
        )],
    })  # fmt: skip
    key = "".join(chr(plane * 0x10000 + 0x61) for plane in range(17))
    row = [key, "x" * 10_000_000, *["y"] * 999]
    binding = ViewBinding("entries", wide, 'A "wide" table', ("id",))
    run(connect, [binding], cuts([(row, 1)], row_type=wide))
    run(connect, [binding], cuts([(row, 1)], [(row, -1), ([key, "z", *[None] * 999], 1)], row_type=wide))

    assert [(key, "z", None)] == shown(connect, 'SELECT id, c0, c999 FROM "A ""wide"" table"')


def test_many_keys_are_looked_up_and_merged_at_once(connect: Connect) -> None:
    """One query and one statement for all of them."""
    rows = [([f"{number}", number], 1) for number in range(3000)]
    run(connect, [ENTRIES], cuts(rows))
    run(connect, [ENTRIES], cuts(rows, [([f"{number}", number], -1) for number in range(1, 3000)]))

    assert [("0", 0)] == shown(connect, "SELECT * FROM entries")


def test_it_works_on_a_thread_of_its_own(connect: Connect) -> None:
    """The runtime reduces the next transaction while this one is committed."""
    source = cuts(*([f"{number % 7}-{number}", number] for number in range(50)))
    runtime = Runtime("m", [ENTRIES], ThreadConnection(PostgresDriver(connect=connect)), source, rows=1)

    assert Checkpoint(Antichain([50])) == runtime.run()
    assert [(50, 1225)] == shown(connect, "SELECT count(*), sum(amount)::int FROM entries")


# --- what can go wrong


@pytest.mark.parametrize(("step", "rows"), [(postgres.BEFORE_COMMIT, 1), (postgres.AFTER_COMMIT, 2)])
def test_a_crash_around_the_commit_repeats_nothing(connect: Connect, step: str, rows: int) -> None:
    """Before it, nothing of the transaction is there; behind it, all, and its checkpoint: of sums, and of counts."""
    views = [ViewBinding("entries", ENTRY, "total", ("id",), {"sum": Sum("amount")}), BAG]
    source = cuts(*([(["a", amount], 1), (["a", 0], 1)] for amount in (1, 10, 100)))
    with pytest.raises(failpoints.PlacedCrash), failpoints.placed(step, nth=2):
        run(connect, views, source, rows=1)

    there = "SELECT amount, cdcv2_count FROM bag ORDER BY amount"
    assert [(1 if rows == 1 else 11, 2 * rows)] == shown(connect, 'SELECT "sum"::int, cdcv2_count::int FROM total')
    assert [(0, rows), (1, 1), (10, 1)][: rows + 1] == shown(connect, there)

    run(connect, views, source, rows=1)

    assert [(111, 6)] == shown(connect, 'SELECT "sum"::int, cdcv2_count::int FROM total')
    assert [(0, 3), (1, 1), (10, 1), (100, 1)] == shown(connect, there)


def test_a_server_that_dies_is_unavailable_and_nothing_is_lost(server: Postgres, connect: Connect) -> None:
    """The error reports it and shows no password; a new instance goes on."""

    def dying(checkpoint: Checkpoint) -> Iterator[Cut]:
        for number, one in enumerate(cuts(["a", 1], ["b", 2], ["c", 3])(checkpoint)):
            if number == 2 and server.pid is not None and not restarted:
                server.kill9()
            yield one

    restarted: list[bool] = []
    with pytest.raises(UnavailableError, match="PostgreSQL does not answer, or ends the session") as caught:
        run(connect, [ENTRIES], dying, rows=1)
    server.restart()
    restarted.append(True)
    run(connect, [ENTRIES], dying, rows=1)

    assert server.password not in str(caught.value)
    assert [("a", 1), ("b", 2), ("c", 3)] == shown(connect, "SELECT * FROM entries ORDER BY id")


def test_a_session_that_was_replaced_is_told_so(connect: Connect) -> None:
    """By name and range; not by a deadlock or a wrong row."""
    with closing(PostgresDriver(connect=connect)) as old:
        runtime = Runtime("m", [ENTRIES], old, cuts(["a", 1]))
        walk = runtime.steps()
        for step in walk:
            if step.__name__ == "Flush":  # type: ignore[union-attr]
                break
        run(connect, [ENTRIES], cuts(["a", 1]))
        with pytest.raises(FencedError, match="this instance of 'm' was fenced off"):
            for step in walk:
                pass

    assert [("a", 1)] == shown(connect, "SELECT * FROM entries")


def test_one_that_is_closed_in_a_copy_logs_nothing(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """psycopg would, of a COPY that it has to end itself."""
    driver = PostgresDriver(connect=connect)
    total = ViewBinding("entries", ENTRY, "entries", ("id",), {"sum": Sum("amount")})
    walk = Runtime("m", [total], driver, cuts(["a", 1])).steps()
    assert any(step.__name__ == "Store" for step in walk) and next(walk)  # type: ignore[union-attr]
    driver.close()

    assert [] == caplog.messages and [] == shown(connect, "SELECT * FROM entries")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("ALTER TABLE entries DROP COLUMN amount", "the column 'amount' is missing and should have the type bigint"),
        ("ALTER TABLE entries ALTER amount TYPE integer", "the column 'amount' has the type integer and should have"),
        ("ALTER TABLE entries DROP CONSTRAINT entries_pkey", "has no primary key or unique index over id: add one"),
    ],
)
def test_a_table_that_was_altered_is_refused_until_it_is_mended(connect: Connect, statement: str, text: str) -> None:
    """At opening, with the column, both types and what to do."""
    run(connect, [ENTRIES], cuts(["a", 1]))
    change(connect, statement)
    with pytest.raises(RefusedError) as caught:
        run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert text in str(caught.value)

    change(connect, "DROP TABLE entries; CREATE TABLE entries (id text PRIMARY KEY, extra int, amount bigint)")
    change(connect, "INSERT INTO entries (id, amount) VALUES ('a', 1)")
    run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert [("a", 1), ("b", 2)] == shown(connect, "SELECT id, amount FROM entries ORDER BY id")


def test_a_table_that_is_new_in_a_view_that_has_begun_is_refused(connect: Connect) -> None:
    """It would lack what came before; nothing of it is made, and without it the view goes on."""
    run(connect, [ENTRIES], cuts(["a", 1]))
    new = ViewBinding("entries", ENTRY, "total", ("id",), {"n": Count()})
    with pytest.raises(RefusedError, match=r"'m' is at \[1\], and its view 'total' is new: .* Leave it out"):
        run(connect, [ENTRIES, new], cuts(["a", 1], ["b", 2]))
    run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert [("a", 1), ("b", 2)] == shown(connect, "SELECT * FROM entries ORDER BY id")
    assert [(None,)] == shown(connect, "SELECT to_regclass('total')::text")
    change(connect, "DROP TABLE entries")
    with pytest.raises(RefusedError, match="and its table entries is not there: .* Restore it"):
        run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))


def test_where_a_view_was_to_begin_is_no_checkpoint(connect: Connect) -> None:
    """A first run that came to no commit leaves the next one its own start."""

    def none(checkpoint: Checkpoint) -> Iterator[Cut]:
        raise MalformedError(f"the log has updates before {checkpoint.frontier}")
        yield

    for start in (7, 3):
        late = Runtime("m", [ENTRIES], PostgresDriver(connect=connect), none, start=[start])
        with pytest.raises(MalformedError, match=rf"before \[{start}\]"):
            late.run()
        late.close()
    run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert [("a", 1), ("b", 2)] == shown(connect, "SELECT id, amount FROM entries ORDER BY id")


def test_rows_that_were_there_before_the_view_began_are_not_added_to(connect: Connect) -> None:
    """Another's, or its own under another name or with a lost checkpoint: sums would be twice what they are."""
    total = ViewBinding("entries", ENTRY, "total", ("id",), {"sum": Sum("amount")})
    run(connect, [total], cuts(["a", 1], ["a", 2]))
    with pytest.raises(RefusedError, match="the table total is kept by the materialization 'm', which is at .2."):
        Runtime("n", [total], PostgresDriver(connect=connect), cuts(["a", 1])).run()
    change(connect, "DELETE FROM cdcv2_checkpoints")
    with pytest.raises(RefusedError, match="'m' has not begun .*Empty it"):
        run(connect, [total], cuts(["a", 1], ["a", 2]))

    assert [("a", 3, 2)] == shown(connect, 'SELECT id, "sum"::int, cdcv2_count::int FROM total')

    change(connect, "TRUNCATE total")
    run(connect, [total], cuts(["a", 1], ["a", 2], ["a", 3]))

    assert [("a", 6, 3)] == shown(connect, 'SELECT id, "sum"::int, cdcv2_count::int FROM total')


@pytest.mark.parametrize("rows", [[], [["a", 10]]], ids=["with no rows of it yet", "with rows"])
def test_a_table_is_kept_by_one_materialization(connect: Connect, rows: list[Any]) -> None:
    """Two that begin at once find it empty, both; the second to commit is refused, as its rows would be added."""
    total = ViewBinding("entries", ENTRY, "total", ("id",), {"sum": Sum("amount")})
    ((schema,),) = shown(connect, "SELECT current_schema()::text")
    other = ViewBinding("entries", ENTRY, f"{schema}.total", ("id",), {"sum": Sum("amount")})
    second = Runtime("n", [other], PostgresDriver(connect=connect), cuts(["a", 1], ["a", 2]), rows=1)
    walk = second.steps()
    for step in walk:
        if step.__name__ == "Load":  # type: ignore[union-attr]
            break
    first = rows or [[(["a", 10], 1), (["a", 10], -1)]]
    run(connect, [total], cuts(*first))
    with pytest.raises(RefusedError, match=r"total is kept by the materialization 'm', which is at .1.: two would"):
        for step in walk:
            continue
    second.close()
    run(connect, [total], cuts(*first, ["a", 5]))
    there = 5 + sum(amount for _, amount in rows)

    assert [("a", there, 1 + len(rows))] == shown(connect, 'SELECT id, "sum"::int, cdcv2_count::int FROM total')

    change(connect, "TRUNCATE total")
    with pytest.raises(RefusedError, match="total is kept by the materialization 'm'"):
        Runtime("n", [total], PostgresDriver(connect=connect), cuts(["a", 1])).run()
    change(connect, "DELETE FROM cdcv2_checkpoints WHERE materialization = 'm'")
    Runtime("n", [total], PostgresDriver(connect=connect), cuts(["a", 1])).run()

    assert [("a", 1, 1)] == shown(connect, 'SELECT id, "sum"::int, cdcv2_count::int FROM total')


@pytest.mark.parametrize("trial", range(5))
def test_of_two_that_begin_at_once_one_has_the_table(connect: Connect, trial: int) -> None:
    """However they meet; the other gets an error, and nothing of it is there."""
    total = ViewBinding("entries", ENTRY, "total", ("id",), {"sum": Sum("amount")})
    start, found = threading.Barrier(2), dict[str, str]()

    def begin(name: str) -> None:
        start.wait(60)
        try:
            source = cuts([name, 1], ["both", 2], ["both", 3])
            Runtime(name, [total], ThreadConnection(PostgresDriver(connect=connect)), source, rows=1).run()
            found[name] = "done"
        except RefusedError as cause:
            found[name] = "refused" if "is kept by" in str(cause) or "has rows" in str(cause) else str(cause)

    threads = [threading.Thread(target=begin, args=[name]) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    (one,) = [name for name, outcome in found.items() if outcome == "done"]

    assert ["done", "refused"] == sorted(found.values())
    assert [(one, 1), ("both", 5)] == shown(connect, 'SELECT id, "sum"::int FROM total ORDER BY id')


def test_tables_that_are_there_take_no_right_to_make_any(server: Postgres, connect: Connect) -> None:
    """An owner makes them, and the user who keeps the view may write rows, and no more."""
    ((schema,),) = shown(connect, "SELECT current_schema()::text")
    role = f"clerk_{schema[-12:]}"
    run(connect, [ENTRIES], cuts(["a", 1]))
    change(connect, f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; "
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")

    def clerk() -> Any:
        connection = connect()
        connection.execute(f"SET ROLE {role}".encode())
        connection.commit()
        return connection

    run(clerk, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert [("a", 1), ("b", 2)] == shown(connect, "SELECT * FROM entries ORDER BY id")


def test_two_names_of_one_table_are_refused(connect: Connect) -> None:
    """With and without its schema: both logs would write it."""
    ((schema,),) = shown(connect, "SELECT current_schema()::text")
    with pytest.raises(UsageError, match="entries are one table in PostgreSQL"):
        run(connect, [ENTRIES, ViewBinding("more", ENTRY, f"{schema}.entries", ("id",))], cuts())


def test_a_trigger_that_keeps_a_row_out_is_named_with_its_key(connect: Connect) -> None:
    """The table is as the log has it, and stays so: the key is that of the row which was to come."""
    run(connect, [ENTRIES], cuts(["a", 1]))
    change(connect, "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    change(connect, "CREATE TRIGGER keeps_out BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION nothing()")
    text = r"entries, key \('b',\): PostgreSQL wrote fewer rows .* triggers are keeps_out\. .*run cdcv2 repair"
    with pytest.raises(ViewError, match=text):
        run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))


def test_a_row_that_comes_between_look_and_commit_is_an_error(connect: Connect) -> None:
    """Somebody else writes to the table: nothing is merged, and the key is named."""
    runtime = Runtime("m", [ENTRIES], PostgresDriver(connect=connect), cuts(["a", 1], ["b", 2]), rows=1)
    with pytest.raises(ViewError, match=r"entries, key \('b',\): it would have 2 current rows") as caught:
        for step in runtime.steps():
            if runtime.transactions == 1 and step.__name__ == "Changes":  # type: ignore[union-attr]
                change(connect, "INSERT INTO entries VALUES ('b', 99)")
    runtime.close()
    assert "Row(id='b', amount=2); Row(id='b', amount=99)" == caught.value.rows
    change(connect, "DELETE FROM entries WHERE id = 'b'")
    run(connect, [ENTRIES], cuts(["a", 1], ["b", 2]))

    assert [("a", 1), ("b", 2)] == shown(connect, "SELECT * FROM entries ORDER BY id")


@pytest.mark.parametrize(
    ("bindings", "rows", "error", "text"),
    [
        ([ENTRIES], [["a\x00b", 1]], MalformedError, "PostgreSQL cannot hold a value of entries"),
        ([ViewBinding("entries", ENTRY, "no_such.entries", ("id",))], [], OutputError,
         'schema "no_such" does not exist'),
        ([ViewBinding("entries", ENTRY, "entries", delta=True)], [], UsageError, "PostgreSQL keeps views, not changes"),
        ([ENTRIES], [["".join(map(chr, range(0x4E00, 0x9000))), 1]], OutputError, "index row"),
    ],
)
def test_what_does_not_fit_is_named(
    connect: Connect, bindings: list[ViewBinding], rows: list[Any], error: type[Exception], text: str
) -> None:
    """With the table, and nothing of the transaction is there."""
    with pytest.raises(error, match=text):
        run(connect, bindings, cuts(*rows))

    there = "SELECT FROM pg_class WHERE relname = 'entries' AND relnamespace = current_schema()::regnamespace"

    assert [] == (shown(connect, "SELECT * FROM entries") if shown(connect, there) else [])


def test_what_a_copy_refuses_in_the_end_is_named_with_its_table(connect: Connect) -> None:
    """The rows of another table, or the checkpoint, are only what is written next."""
    views = [ViewBinding("entries", ENTRY, "bag"), ViewBinding("entries", ENTRY, "other", ("id",), {"n": Count()})]
    for bindings in (views, views[:1]):
        runtime = Runtime("m", bindings, RowByRow(connect=connect), cuts([(["a", 1], 2**63)]))
        with pytest.raises(MalformedError, match="^PostgreSQL cannot hold a value of bag: value .* is out of range"):
            runtime.run()


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    """A wrong port is the commonest mistake of a first day."""
    driver = PostgresDriver("host=127.0.0.1 port=1 user=u password=secret dbname=d connect_timeout=2")
    with pytest.raises(UnavailableError, match="PostgreSQL does not answer .*port 1 failed") as caught:
        Runtime("m", [ENTRIES], driver, cuts()).run()

    assert "secret" not in str(caught.value)
