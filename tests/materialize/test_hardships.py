"""What may go wrong with a target, one row each: a clear error, or it works; and mended, the view is right.

On PostgreSQL and on a lake. Each hardship is put up at an empty target or behind a first transaction, and taken away
again; then whatever the target had, the view must be that of the history.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import Cdcv2Error, MalformedError, OutputError, RefusedError, UnavailableError, UsageError, ViewError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize import Checkpoint, FileRecoveryLog, Runtime, ThreadConnection, ViewBinding
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import RowByRow

pytest.importorskip("pyarrow")

ENTRY = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "id", "type": ["null", "string"]}, {"name": "amount", "type": ["null", "long"]}],
})  # fmt: skip
ENTRIES = ViewBinding("entries", ENTRY, "entries", ("id",))
Change = tuple[list[Any], int]
#: A history of two transactions: the second changes what the first has brought.
FIRST: list[Change] = [(["a", 1], 1), (["b", 2], 1)]
SECOND: list[Change] = [(["a", 1], -1), (["a", 10], 1), (["c", 3], 1)]
WHOLE = {("a",): (10,), ("b",): (2,), ("c",): (3,)}


class Place(ABC):
    """A target, to be materialized into, to be spoiled, and to be looked at."""

    name: str

    @abstractmethod
    def run(self, binding: ViewBinding, source: Callable[[Checkpoint], Iterator[Cut]]) -> Checkpoint:
        """Materialize to the end of the source, each cut a transaction, with the driver on a thread of its own."""

    @abstractmethod
    def rows(self, table: str) -> dict[Any, Any]:
        """What a reader sees: key -> values."""


class Database(Place):
    """A schema of its own in PostgreSQL."""

    name = "postgres"

    def __init__(self, server: Postgres) -> None:
        self.server, self.connect = server, new_schema(server)

    def run(self, binding: ViewBinding, source: Callable[[Checkpoint], Iterator[Cut]]) -> Checkpoint:
        """The store rules."""
        return Runtime("m", [binding], ThreadConnection(PostgresDriver(connect=self.connect)), source, rows=1).run()

    def rows(self, table: str) -> dict[Any, Any]:
        """The first column is the key."""
        with self.connect() as session:
            found = session.execute(f'SELECT * FROM "{table}"'.encode()).fetchall()
        return {row[:1]: row[1:] for row in found}

    def do(self, statement: str) -> None:
        """What somebody does by hand."""
        with self.connect() as session:
            session.execute(statement.encode())


class Lake(Place):
    """A folder, and a recovery log beside it."""

    name = "lake"

    def __init__(self, folder: Path) -> None:
        self.folder, self.recovery = folder / "lake", folder / "recovery"
        #: whether the driver works on the runtime's thread
        self.inline = False

    def run(self, binding: ViewBinding, source: Callable[[Checkpoint], Iterator[Cut]]) -> Checkpoint:
        """The recovery log rules."""
        log = FileRecoveryLog("m", self.recovery)
        try:
            driver = LakeDriver(self.folder)
            return Runtime(
                "m", [binding], driver if self.inline else ThreadConnection(driver), source, log=log, rows=1
            ).run()
        finally:
            log.close()

    def rows(self, table: str) -> dict[Any, Any]:
        """Of the last commit."""
        return dict(open_lake(self.folder).rows(table))


def history(*cuts: list[Change], row_type: RowType = ENTRY, between: Callable[[int], None] | None = None) -> Any:
    """A source; ``between`` is called before each cut is given out."""

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time, changes in enumerate(cuts):
            if between is not None:
                between(time)
            updates = [(row_type.row(row), time, diff) for row, diff in changes]
            yield Cut({"entries": updates}, Antichain([time]), Antichain([time + 1]))

    return source


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.integration), "lake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Either target, empty."""
    if request.param == "lake":
        return Lake(tmp_path)
    return Database(request.getfixturevalue("server"))


# --- what the rows are


@dataclass(frozen=True)
class Case:
    """Rows that are hard to keep. ``errors``: name of the target -> the error, and its text."""

    row: list[Any]
    row_type: RowType = ENTRY
    binding: ViewBinding = ENTRIES
    errors: dict[str, tuple[type[Cdcv2Error], str]] = field(default_factory=dict)
    #: a row that can be kept, in place of the other
    mended: list[Any] | None = None


@cache
def wide(columns: int, kind: str = '["null", "string"]', name: str = "c{}") -> RowType:
    """A row type with so many columns beside the key; their type as JSON."""
    return RowType({
        "type": "record", "name": "w",
        "fields": [{"name": "id", "type": "string"},
                   *({"name": name.format(number), "type": json.loads(kind)} for number in range(columns))],
    })  # fmt: skip


def entries(row_type: RowType) -> ViewBinding:
    """Rows by key."""
    return ViewBinding("entries", row_type, "entries", ("id",))


PLANES = "".join(chr(plane * 0x10000 + 0x61) for plane in range(17))
DECIMAL = '{"type": "bytes", "logicalType": "decimal", "precision": 80, "scale": 2}'
LONG = "a column whose name is far longer than the sixty-three bytes that a name may have {}"
BOTH = ("postgres", "lake")
#: Made where they are asked for: a row type of a thousand columns takes its time.
CASES: dict[str, Callable[[], Case]] = {
    "a null key": lambda: Case(
        [None, 5], mended=["n", 5],
        errors=dict.fromkeys(BOTH, (MalformedError, "entries: the key column 'id' is null in .*key columns")),
    ),
    "a key of every plane": lambda: Case([PLANES, 1]),
    "a key with U+0000": lambda: Case(
        ["a\0b", 1], errors={"postgres": (MalformedError, "cannot hold a value of entries: .*Mend the source's row")},
        mended=["ab", 1],
    ),
    "a key that fits no index": lambda: Case(
        ["".join(map(chr, range(0x4E00, 0x9000))), 1],
        errors={"postgres": (OutputError, "refuses to write entries: index row .*Nothing of the")},
        mended=["short", 1],
    ),
    "a row of 10 MB": lambda: Case(["big", "x" * 10_000_000], wide(1), entries(wide(1))),
    "a thousand columns": lambda: Case(["wide", *["y"] * 1000], wide(1000), entries(wide(1000))),
    "two thousand columns": lambda: Case(
        ["wide", *["y"] * 2000], wide(2000), entries(wide(2000)),
        errors={"postgres": (OutputError, "refuses to make entries: tables can have at most 1600 columns")},
    ),
    "names that are cut off": lambda: Case(
        ["long", 1, 2], wide(2, '"int"', LONG), entries(wide(2, '"int"', LONG)),
        errors={"postgres": (UsageError, "'a column whose .*longer than the 63 bytes")},
    ),
    "more digits than a decimal has": lambda: Case(
        ["d", b"\x01"], wide(1, DECIMAL), entries(wide(1, DECIMAL)),
        errors={"lake": (UsageError, "column 'c0' has 80 digits, and Parquet's decimals at most 76")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_hard_to_keep(place: Place, name: str) -> None:
    """They are kept, or the error names the table, the column, and what to do; then other rows are right."""
    case = CASES[name]()
    good: list[Change] = [([f"good {case.row_type.columns[0]}", *[None] * (len(case.row) - 1)], 1)]
    if case.row_type is not ENTRY and case.row_type.shape.columns[-1].shape.kind != "optional":
        good = []
    rows: list[Change] = [(case.row, 1)]
    if place.name not in case.errors:
        place.run(case.binding, history(good, rows, row_type=case.row_type))
        place.run(case.binding, history(good, rows, [(case.row, -1)], row_type=case.row_type))

        assert len(good) == len(place.rows("entries"))
        return
    error, text = case.errors[place.name]
    with pytest.raises(error, match=text) as caught:
        place.run(case.binding, history(good, rows, row_type=case.row_type))

    assert len(str(caught.value)) < 2000
    if case.mended is not None:
        place.run(case.binding, history(good, row_type=case.row_type))

        assert [(row[0],) for row, _ in good] == list(place.rows("entries"))

        place.run(case.binding, history(good, [(case.mended, 1)], row_type=case.row_type))

        assert {(case.mended[0],): tuple(case.mended[1:])}.items() <= place.rows("entries").items()


# --- what becomes of the target


def demand_whole(place: Place) -> None:
    """Run once more, undisturbed: the view is the history's."""
    place.run(ENTRIES, history(FIRST, SECOND))

    assert WHOLE == place.rows("entries")


def by_sql(name: str, does: str, mended: str) -> Callable[[Place], Iterator[None]]:
    """Somebody alters the target's database by hand; mended: what undoes it."""

    def spoil(place: Place) -> Iterator[None]:
        assert isinstance(place, Database)
        place.do(does)
        yield
        place.do(mended)

    spoil.__name__ = name
    return spoil


@contextmanager
def away(path: Path, put: Callable[[Path], object] = lambda path: None) -> Iterator[None]:
    """A file or folder is not there, or something else is."""
    kept = path.with_name(f".{path.name}.kept")
    path.rename(kept)
    put(path)
    yield
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kept.rename(path)


def the_file(place: Place) -> Path:
    """The one file of the table."""
    assert isinstance(place, Lake)
    (found,) = (place.folder / "entries").glob("*.parquet")
    return found


def lost_file(place: Place) -> Iterator[None]:
    """A file of the table was deleted by hand."""
    with away(the_file(place)):
        yield


def torn_file(place: Place) -> Iterator[None]:
    """A file was cut off."""
    with away(the_file(place), lambda path: path.write_bytes(b"PAR1 and no more")):
        yield


def emptied_lake(place: Place) -> Iterator[None]:
    """The folder was emptied; the recovery log knows of commits in it."""
    assert isinstance(place, Lake)
    with away(place.folder, Path.mkdir):
        yield


def no_folder(place: Place) -> Iterator[None]:
    """A file stands where the folder was."""
    assert isinstance(place, Lake)
    with away(place.folder, lambda path: path.write_text("", "utf-8")):
        yield


def torn_manifest(place: Place) -> Iterator[None]:
    """The last manifest was edited by hand."""
    assert isinstance(place, Lake)
    last = max((place.folder / "_manifests").glob("*.json"))
    with away(last, lambda path: path.write_text('{"format": "cdcv2', "utf-8")):
        yield


def lost_recovery(place: Place) -> Iterator[None]:
    """The recovery log is missing, and the lake is not."""
    assert isinstance(place, Lake)
    with away(place.recovery):
        yield


#: Hardship -> the target, the error, its text. Put up behind the first transaction.
SPOILED: dict[Callable[[Place], Iterator[None]], tuple[str, type[Cdcv2Error], str]] = {
    by_sql(
        "dropped_column",
        "ALTER TABLE entries RENAME amount TO gone",
        "ALTER TABLE entries RENAME gone TO amount",
    ): ("postgres", RefusedError, "the column 'amount' is missing and should have the type bigint"),
    by_sql(
        "other_type",
        "ALTER TABLE entries ALTER amount TYPE text",
        "ALTER TABLE entries ALTER amount TYPE bigint USING amount::bigint",
    ): ("postgres", RefusedError, "the column 'amount' has the type text and should have the type bigint"),
    by_sql(
        "no_index",
        "ALTER TABLE entries DROP CONSTRAINT entries_pkey",
        "ALTER TABLE entries ADD PRIMARY KEY (id)",
    ): ("postgres", RefusedError, "no primary key or unique index over id: add one"),
    # An empty one in its place would lack what is not changed again.
    by_sql(
        "dropped_table",
        "ALTER TABLE entries RENAME TO kept",
        "ALTER TABLE kept RENAME TO entries",
    ): ("postgres", RefusedError, r"'m' is at \[1\], and its table entries is not there: .*Restore it"),
    # Faster; and emptied by PostgreSQL after a crash.
    by_sql(
        "unlogged",
        "ALTER TABLE entries SET UNLOGGED",
        "ALTER TABLE entries SET LOGGED",
    ): ("postgres", RefusedError, "the table entries is unlogged: .*SET LOGGED"),
    # A row that the next transaction changes.
    by_sql(
        "other_row",
        "UPDATE entries SET amount = 99 WHERE id = 'a'",
        "UPDATE entries SET amount = 1 WHERE id = 'a'",
    ): ("postgres", ViewError, r"entries, key \('a',\): .*would be there -1 times"),
    by_sql(
        "no_row",
        "DELETE FROM entries WHERE id = 'a'",
        "INSERT INTO entries VALUES ('a', 1)",
    ): ("postgres", ViewError, r"entries, key \('a',\): .*would be there -1 times"),
    # A row where one comes.
    by_sql(
        "added_row",
        "INSERT INTO entries VALUES ('c', 7)",
        "DELETE FROM entries WHERE id = 'c'",
    ): ("postgres", ViewError, r"entries, key \('c',\): it would have 2 current rows"),
    # A trigger refuses, as a right or a constraint would.
    by_sql(
        "no_right",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not on Saturdays'; END $$; "
        "CREATE TRIGGER no BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION no()",
        "DROP TRIGGER no ON entries",
    ): ("postgres", OutputError, "refuses to write entries: not on Saturdays. Nothing of the"),
    # The table of checkpoints.
    by_sql(
        "lost_fence",
        "CREATE TABLE was AS TABLE cdcv2_checkpoints; UPDATE cdcv2_checkpoints SET checkpoint = 'what is this?'",
        "DELETE FROM cdcv2_checkpoints; INSERT INTO cdcv2_checkpoints TABLE was",
    ): ("postgres", Cdcv2Error, "'what is this\\?' is no checkpoint of version 1"),
    lost_file: ("lake", RefusedError, r"has lost files: .*\.parquet, which is not there .*Restore the folder"),
    torn_file: ("lake", OutputError, r"\.parquet cannot be read: .*restore the file"),
    emptied_lake: ("lake", RefusedError, "has lost commits: .*Restore the folder"),
    no_folder: ("lake", OutputError, "Not a directory"),
    torn_manifest: ("lake", RefusedError, "is damaged .*restore it"),
    lost_recovery: ("lake", RefusedError, r"is at \[1\], and the recovery log at \[0\]: .*Name the log that the"),
}  # fmt: skip


def marked(spoil: Any) -> Any:
    """PostgreSQL is a server."""
    marks = [pytest.mark.integration] if SPOILED[spoil][0] == "postgres" else []
    return pytest.param(spoil, marks=marks, id=spoil.__name__)


@pytest.mark.parametrize("spoil", [marked(spoil) for spoil in SPOILED])
def test_a_target_that_somebody_has_spoiled(request: pytest.FixtureRequest, tmp_path: Path, spoil: Any) -> None:
    """The error names the place and the remedy, nothing of the transaction is there; and mended, it goes on."""
    kind, error, text = SPOILED[spoil]
    place: Place = Database(request.getfixturevalue("server")) if kind == "postgres" else Lake(tmp_path)
    place.run(ENTRIES, history(FIRST))
    hardship = spoil(place)
    next(hardship)
    with pytest.raises(error, match=text):
        place.run(ENTRIES, history(FIRST, SECOND))
    next(hardship, None)

    assert {("a",): (1,), ("b",): (2,)} == place.rows("entries")
    demand_whole(place)


PRICE = RowType({
    "type": "record", "name": "p",
    "fields": [{"name": "id", "type": "string"},
               {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}},
               {"name": "n", "type": "long"}],
})  # fmt: skip
#: price in units of 0.0001, as Avro has it
PRICES: list[list[Change]] = [
    [(["a", (10_0000).to_bytes(4, "big"), 1], 1)], [(["b", (1_2345).to_bytes(4, "big"), 2], 1)],
    [(["b", (1_2345).to_bytes(4, "big"), 2], -1), (["b", (3_4567).to_bytes(4, "big"), 3], 1)],
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("moment", ["Load", "Flush", "Store", "Changes", "StartCommit"])
@pytest.mark.parametrize(
    ("alter", "back", "text"),
    [
        ("price TYPE numeric(10,2)", "price TYPE numeric(12,4)", r"'price' has the type numeric\(10,2\) and should"),
        ("n TYPE smallint", "n TYPE bigint", "'n' has the type smallint and should have the type bigint. Alter it"),
    ],
)  # fmt: skip
def test_a_column_that_is_altered_in_mid_run(
    server: Postgres, moment: str, alter: str, back: str, text: str
) -> None:
    """PostgreSQL would round: nothing of the transaction counts, and mended, every digit is there."""
    place, binding = Database(server), entries(PRICE)
    driver = (RowByRow if moment in ("Load", "Store") else PostgresDriver)(connect=place.connect)
    runtime = Runtime("m", [binding], driver, history(*PRICES, row_type=PRICE), rows=1)
    with pytest.raises(RefusedError, match=text):
        for step in runtime.steps():
            if runtime.transactions == 1 and step.__name__ == moment:  # type: ignore[union-attr]
                place.do(f"ALTER TABLE entries ALTER {alter}")
    runtime.close()

    assert [("a",)] == list(place.rows("entries"))
    place.do(f"ALTER TABLE entries ALTER {back}")
    place.run(binding, history(*PRICES, row_type=PRICE))
    found = {key: tuple(map(str, values)) for key, values in place.rows("entries").items()}
    assert {("a",): ("10.0000", "1"), ("b",): ("3.4567", "3")} == found


@pytest.mark.integration
@pytest.mark.parametrize("moment", ["Load", "Flush", "Changes"])
def test_what_altering_has_rounded_is_not_taken_for_a_wrong_row(server: Postgres, moment: str) -> None:
    """A row that is looked up has changed in the meantime; the error is of the column all the same."""
    place, binding = Database(server), entries(PRICE)
    driver = (RowByRow if moment in ("Load", "Store") else PostgresDriver)(connect=place.connect)
    runtime = Runtime("m", [binding], driver, history(*PRICES, row_type=PRICE), rows=1)
    with pytest.raises(RefusedError, match=r"'price' has the type numeric\(10,2\) and should"):
        for step in runtime.steps():
            if runtime.transactions == 2 and step.__name__ == moment:  # type: ignore[union-attr]
                place.do("ALTER TABLE entries ALTER price TYPE numeric(10,2)")
    runtime.close()
    place.do("ALTER TABLE entries ALTER price TYPE numeric(12,4); UPDATE entries SET price = 1.2345 WHERE id = 'b'")
    place.run(binding, history(*PRICES, row_type=PRICE))

    assert "3.4567" == str(place.rows("entries")["b",][0])


# --- a target that is not there, or full


@pytest.mark.integration
def test_a_database_that_is_down_at_the_start_and_in_mid_run(server: Postgres) -> None:
    """Each time the error reports that it does not answer; when it does again, the next run goes on."""
    place = Database(server)
    server.stop()
    try:
        with pytest.raises(UnavailableError, match="PostgreSQL does not answer.*when asked to open m: .*start again"):
            place.run(ENTRIES, history(FIRST))
    finally:
        server.start()

    def down(time: int) -> None:
        if time == 1:
            server.kill9()

    try:
        with pytest.raises(UnavailableError, match="does not answer, or ends the session"):
            place.run(ENTRIES, history(FIRST, SECOND, between=down))
    finally:
        server.start()
    demand_whole(place)


@pytest.mark.parametrize("instead", ["a file", "nothing"])
def test_a_folder_that_goes_away_in_mid_run(tmp_path: Path, instead: str) -> None:
    """As a share that is not mounted any more does; what comes back is taken up.

    Nothing is acknowledged that was not applied, though a missing folder could be recreated.
    """
    place = Lake(tmp_path)
    kept = tmp_path / "kept"

    def gone(time: int) -> None:
        if time == 1:
            assert_committed(place)
            place.folder.rename(kept)
            if instead == "a file":
                place.folder.write_text("", "utf-8")

    with pytest.raises(OutputError, match=str(place.folder)):
        place.run(ENTRIES, history(FIRST, SECOND, between=gone))
    if instead == "a file":
        place.folder.unlink()
    else:
        shutil.rmtree(place.folder, ignore_errors=True)
    kept.rename(place.folder)
    demand_whole(place)


def assert_committed(place: Lake) -> None:
    """The first transaction is staged and named."""
    assert poll_until(lambda: any(place.folder.glob("entries/*.parquet")), 60)


@contextmanager
def small_disk(owner: int) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A file system of two megabytes, and what makes it larger. Skips where we may not mount one."""
    folder = Path(tempfile.mkdtemp(prefix="cdcv2-small-", dir="/tmp"))
    try:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size=2m,uid={owner},mode=0700", "tmpfs", str(folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
        try:
            yield folder, lambda: run_to_its_end("mount", "-o", "remount,size=64m", str(folder))
        finally:
            run_to_its_end("umount", "-l", str(folder))
    finally:
        folder.rmdir()


def run_to_its_end(*words: str) -> None:
    """A command that must work."""
    subprocess.run(words, check=True, capture_output=True)


def large(first: int) -> list[Change]:
    """A megabyte that does not compress."""
    return [([f"{number}", os.urandom(5000).hex()], 1) for number in range(first, first + 200)]


TEXTS = RowType({
    "type": "record", "name": "t",
    "fields": [{"name": "id", "type": "string"}, {"name": "text", "type": "string"}],
})  # fmt: skip


@pytest.mark.integration
def test_a_database_whose_disk_is_full(server: Postgres) -> None:
    """The error reports it, the transaction is not there, and with more room the next run goes on."""
    place = Database(server)
    with small_disk((server.folder / "data").stat().st_uid) as (folder, enlarge):
        (folder / "space").mkdir()
        os.chown(folder / "space", (server.folder / "data").stat().st_uid, -1)
        with server.connect(autocommit=True) as session:
            session.execute(f"CREATE TABLESPACE small LOCATION '{folder / 'space'}'".encode())
        plain = place.connect
        place.connect = lambda: with_space(plain())
        rows = [large(0), large(200), large(400)]
        with pytest.raises(OutputError, match="PostgreSQL refuses to write .*No space left on device.*the room on the"):
            place.run(entries(TEXTS), history(*rows, row_type=TEXTS))
        whole = [row[0] for changes in rows for row, _ in changes]

        assert [(one,) for one in whole[: len(place.rows("entries"))]] == list(place.rows("entries"))
        assert len(place.rows("entries")) in (0, 200, 400)

        enlarge()
        place.run(entries(TEXTS), history(*rows, row_type=TEXTS))

        assert {(row[0],): (row[1],) for changes in rows for row, _ in changes} == place.rows("entries")

        place.do("DROP TABLE entries, cdcv2_checkpoints")
        with server.connect(autocommit=True) as session:
            session.execute("DROP TABLESPACE small")


def with_space(session: Any) -> Any:
    """A session whose tables, the temporary ones too, are on the small disk."""
    session.execute("SET default_tablespace = small; SET temp_tablespaces = small")
    session.commit()
    return session


@pytest.mark.integration
@pytest.mark.parametrize("inline", [False, True])
def test_a_lake_whose_disk_is_full(tmp_path: Path, inline: bool) -> None:
    """The same; recovery log and lake are both on it."""
    with small_disk(os.getuid()) as (folder, enlarge):
        place = Lake(folder)
        place.inline = inline
        rows = [large(0), large(200), large(400)]
        with pytest.raises(OutputError, match="cannot be written: .*No space left on device.*make room"):
            place.run(entries(TEXTS), history(*rows, row_type=TEXTS))
        enlarge()
        place.run(entries(TEXTS), history(*rows, row_type=TEXTS))

        assert {(row[0],): (row[1],) for changes in rows for row, _ in changes} == place.rows("entries")


def test_a_lake_whose_files_may_not_grow(tmp_path: Path) -> None:
    """A limit on the size of files, as everybody may set one: the command ends with 4, and goes on without it."""
    with Writer(DirectoryLog(tmp_path / "logs" / "public.texts", TEXTS, create=True)) as writer:
        for time, changes in enumerate([large(0)[:10], large(200)]):
            for row, diff in changes:
                writer.update(TEXTS.row(row), time, diff)
            writer.advance([time + 1])
    (tmp_path / "plan.yaml").write_text(
        "materialization: m\nlogs: logs\nbindings: [{log: public.texts, target: entries, key: [id]}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\nrows: 1\n", "utf-8",
    )  # fmt: skip
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (200_000, 200_000))"
    run = "import sys; from cdcv2.cli.main import main; sys.exit(main(['materialize', sys.argv[1]]))"
    said = [
        subprocess.run(
            [sys.executable, "-c", f"{before}; {run}", str(tmp_path / "plan.yaml")],
            capture_output=True, text=True, check=False, timeout=120,
        )
        for before in (limit, "pass")
    ]  # fmt: skip

    assert [4, 0] == [one.returncode for one in said], said
    assert "cannot be written: " in said[0].stderr and "File too large" in said[0].stderr
    assert "Traceback" not in said[0].stderr
    assert 210 == open_lake(tmp_path / "lake").read("entries").num_rows
