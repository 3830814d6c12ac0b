"""A target's name without a schema: the view keeps the table that it began with, whatever else has the name later."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError, RefusedError
from cdcv2.materialize import Runtime
from cdcv2.materialize.intake import Cut
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.repair import TargetRepair
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.materialize.targets.postgres.view import PostgresView, committed
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.views.binding import ViewBinding

pytestmark = pytest.mark.integration
ENTRY = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "long"]}],
})  # fmt: skip
GUARD = [f"ALTER TABLE entries {what} ROW LEVEL SECURITY" for what in ("ENABLE", "FORCE")]
CREATE = "(id text PRIMARY KEY, amount bigint)"


class Place:
    """A database of its own, and a role whose search path is PostgreSQL's: its own schema, then public."""

    def __init__(self, server: Postgres) -> None:
        self._server, self.name = server, f"copy_{uuid.uuid4().hex[:12]}"
        with server.connect(autocommit=True) as session:
            session.execute(f"CREATE ROLE {self.name} LOGIN PASSWORD 'of-copy'".encode())
            session.execute(f"CREATE DATABASE {self.name} OWNER {self.name}".encode())

    def connect(self) -> Any:
        """As the role of the target."""
        return self._server.connect(dbname=self.name, user=self.name, password="of-copy")

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """As its administrator; the rows of the last one."""
        with self._server.connect(dbname=self.name, autocommit=True) as session:
            for statement in statements:
                found = session.execute(statement.encode())
            return list(found.fetchall()) if found.description else []

    def foreign(self, rows: str = "('theirs', 1)") -> None:
        """Others make a table of the same name in the schema of the role's name."""
        self.do(
            f"CREATE SCHEMA {self.name} AUTHORIZATION {self.name}", f"CREATE TABLE {self.name}.entries {CREATE}",
            f"INSERT INTO {self.name}.entries VALUES {rows}", f"ALTER TABLE {self.name}.entries OWNER TO {self.name}",
        )  # fmt: skip

    def keep(self, *ids: str, target: str = "entries") -> Checkpoint:
        """The view, up to these rows."""
        return self.runtime(*ids, target=target).run()

    def runtime(self, *ids: str, target: str = "entries") -> Runtime:
        """The same, to be taken step by step."""

        def source(checkpoint: Checkpoint) -> Iterator[Cut]:
            for time, one in enumerate(ids):
                yield Cut({"entries": [(ENTRY.row([one, 1]), time, 1)]}, Antichain([time]), Antichain([time + 1]))

        return Runtime("m", [binding(target)], PostgresDriver(connect=self.connect), source, rows=1)

    def view(self, target: str = "entries") -> PostgresView:
        """As `compare` reads it."""
        return PostgresView(
            "", "m", [binding(target).view().table], Antichain([0]), connect=lambda _: self.connect()
        )

    def ids(self, table: str) -> list[str]:
        """What a table has."""
        return [one for (one,) in self.do(f"SELECT id FROM {table} ORDER BY id")]


def binding(target: str) -> ViewBinding:
    """The view."""
    return ViewBinding("entries", ENTRY, target, ("id",))


@pytest.fixture
def place(server: Postgres) -> Place:
    """A database, and the role of a target."""
    return Place(server)


def test_a_name_that_leads_to_another_table_is_refused_before_anything_is_written(place: Place) -> None:
    """By who goes on, who repairs and who compares; the table of others keeps its rows, and the view its place."""
    place.keep("a")
    place.foreign()
    text = rf"entries of 'm' is public.entries, and its name leads to {place.name}.entries now: .* Nothing was written"
    driver = PostgresDriver(connect=place.connect)
    askers: list[Callable[[], Any]] = [
        lambda: place.keep("a", "b"), place.view, lambda: committed("", "m", ["entries"], connect=_of(place)),
        lambda: TargetRepair("m", [binding("entries").view().table], driver, None, Antichain([0])),
    ]
    for ask in askers:
        with pytest.raises(RefusedError, match=text) as refused:
            ask()
    driver.close()
    (statement,) = [one for one in str(refused.value).split(". ") if one.startswith("ALTER ROLE")]
    place.do(statement.split(";")[0])
    place.keep("a", "b")

    assert ["a", "b"] == place.ids("public.entries")
    assert ["theirs"] == place.ids(f"{place.name}.entries")


def _of(place: Place) -> Callable[[str], Any]:
    return lambda _: place.connect()


def test_the_same_table_may_be_named_with_its_schema_later(place: Place) -> None:
    """That is what the error recommends."""
    place.keep("a")
    place.foreign()
    place.keep("a", "b", target="public.entries")
    with closing(place.view("public.entries")) as view:
        assert [("a",), ("b",)] == sorted(key for key, _ in view.rows("public.entries"))

    assert ["theirs"] == place.ids(f"{place.name}.entries")


def test_a_table_that_comes_first_while_the_view_runs_gets_nothing(place: Place) -> None:
    """The session has found its tables when it opened."""
    runtime, steps = place.runtime("a", "b", "c"), 0
    for step in runtime.steps():
        if getattr(step, "__name__", "") == "StartCommit" and (steps := steps + 1) == 2:
            place.foreign()
    runtime.close()

    assert ["a", "b", "c"] == place.ids("public.entries")
    assert ["theirs"] == place.ids(f"{place.name}.entries")


def test_checkpoints_in_another_schema_do_not_let_a_view_begin_again(place: Place) -> None:
    """It would begin another copy, and the first one would stand still."""
    place.keep("a")
    place.do(f"CREATE SCHEMA {place.name} AUTHORIZATION {place.name}",
             f"ALTER ROLE {place.name} SET search_path = {place.name}")  # fmt: skip
    for ask in (lambda: place.keep("a", "b"), place.view):
        with pytest.raises(RefusedError, match="'m' has begun in this database with public.cdcv2_checkpoints"):
            ask()

    assert [] == place.do(f"SELECT FROM pg_class WHERE relnamespace = '{place.name}'::regnamespace")


def test_a_copy_of_the_checkpoints_is_no_place_of_a_view(place: Place) -> None:
    """As of a backup: it keeps that its tables are elsewhere, so the view may start over. Where tables and checkpoint
    are in one schema, the error names that a copy is in the way.
    """
    place.keep("a")
    place.do("CREATE SCHEMA backup", "CREATE TABLE backup.cdcv2_checkpoints AS TABLE public.cdcv2_checkpoints",
             f"GRANT USAGE ON SCHEMA backup TO {place.name}",
             f"GRANT SELECT ON backup.cdcv2_checkpoints TO {place.name}",
             "TRUNCATE entries", "DELETE FROM cdcv2_checkpoints")  # fmt: skip
    place.keep("b", "c")

    assert ["b", "c"] == place.ids("public.entries")

    there = '{"entries": ["backup", "entries", 1]}'
    place.do("TRUNCATE entries", "DELETE FROM cdcv2_checkpoints", "UPDATE backup.cdcv2_checkpoints SET checkpoint = "
             f"(jsonb_set(checkpoint::jsonb, '{{tables}}', '{there}'))::text")  # fmt: skip
    with pytest.raises(RefusedError, match="copy that nothing keeps up, as a backup, drop or rename it"):
        place.keep("b", "c")


def test_a_table_that_was_moved_or_restored_is_the_same(place: Place) -> None:
    """Moved to another schema it has its number, and dumped and restored its name."""
    place.keep("a")
    place.do("ALTER TABLE entries RENAME TO was", f"CREATE TABLE entries {CREATE}",
             "INSERT INTO entries TABLE was", "DROP TABLE was",
             f"ALTER TABLE entries OWNER TO {place.name}")  # fmt: skip
    place.keep("a", "b")
    place.do(f"CREATE SCHEMA {place.name} AUTHORIZATION {place.name}", f"ALTER TABLE entries SET SCHEMA {place.name}")
    place.keep("a", "b", "c")

    assert ["a", "b", "c"] == place.ids(f"{place.name}.entries")


def test_a_checkpoint_of_an_earlier_release_gets_its_tables_at_the_next_commit(place: Place) -> None:
    """Until then a name is what it leads to."""
    place.keep("a")
    ((text,),) = place.do("SELECT checkpoint FROM cdcv2_checkpoints")
    plain = json.loads(text)
    ((number,),) = place.do("SELECT 'public.entries'::regclass::oid::bigint")

    assert {"entries": ["public", "entries", number]} == plain.pop("tables")

    place.do(f"UPDATE cdcv2_checkpoints SET checkpoint = '{json.dumps(plain)}'")
    place.keep("a", "b")

    assert '"tables"' in place.do("SELECT checkpoint FROM cdcv2_checkpoints")[0][0]


@pytest.mark.parametrize("owned", [True, False])
def test_a_table_that_may_hide_rows_is_refused(place: Place, owned: bool) -> None:
    """By who goes on, repairs, compares and looks how far it is; the statement of the error mends it."""
    place.keep("a")
    place.do("INSERT INTO entries VALUES ('hidden', 1)", *GUARD, "CREATE POLICY p ON entries USING (id <> 'hidden')")
    if not owned:
        place.do("ALTER TABLE entries OWNER TO CURRENT_USER", f"GRANT ALL ON entries TO {place.name}")
    for ask in (lambda: place.keep("a", "b"), place.view, lambda: committed("", "m", ["entries"], connect=_of(place))):
        with pytest.raises(RefusedError, match="row-level security could hide rows of public.entries") as refused:
            ask()
    place.do(str(refused.value).split(". ")[1].split(";")[0])
    with closing(place.view()) as view:
        assert ["a", "hidden"] == sorted(key[0] for key, _ in view.rows("entries"))


def test_a_policy_that_comes_while_the_view_runs_hides_nothing(place: Place) -> None:
    """The session's queries are errors then."""
    runtime, steps = place.runtime("a", "b"), 0
    with pytest.raises(OutputError, match="row-level security"):
        for step in runtime.steps():
            if getattr(step, "__name__", "") == "StartCommit" and (steps := steps + 1) == 2:
                place.do(*GUARD)
    runtime.close()
