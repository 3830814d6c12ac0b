"""Which table of PostgreSQL the name of a target leads to.

A name without a schema is looked up along the session's ``search_path``. Others can change that, or make a table of
this name in a schema that comes earlier. So a session looks once, when it opens, and its statements name the schemas;
and each commit keeps beside the checkpoint which tables its targets are. Who opens the view again, to go on, to repair
or to compare, refuses a name that leads to another table.

A table is known by its schema and name, since one that was dumped and restored has another number. One that was moved
to another schema is known by its number, while nothing has the name that it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cdcv2.core.own_json import checked, reading
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.sql_names import parts_of, sql_name

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Identifier

_PLACES = """
SELECT coalesce(n.nspname, current_schema())::text, c.relname::text, c.oid::bigint
  FROM unnest(%s::text[]) WITH ORDINALITY AS p (place, at)
  LEFT JOIN pg_class c ON c.oid = to_regclass(p.place) LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
 ORDER BY p.at
"""
_NUMBERS = "SELECT to_regclass(p)::oid::bigint FROM unnest(%s::text[]) p"
_SESSION = "SELECT quote_ident(current_user), quote_ident(current_database()), current_setting('search_path')"
#: Of these tables, those of which policies could hide rows from the role; and whether it owns them: forced on it then.
_GUARDED = """
SELECT c.oid::bigint, pg_has_role(c.relowner, 'USAGE'), quote_ident(current_user) FROM pg_class c
 WHERE c.oid = ANY (%s::oid[]) AND row_security_active(c.oid) ORDER BY c.oid
"""
#: Other tables called ``cdcv2_checkpoints`` that the role may read, unless the session has its path from its address or
#: environment: then who runs it has decided where it begins.
_OTHERS = """
SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = 'cdcv2_checkpoints' AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
   AND c.oid IS DISTINCT FROM to_regclass('cdcv2_checkpoints')
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid)
   AND 2 = (SELECT count(*) FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attname IN ('materialization', 'checkpoint') AND NOT a.attisdropped)
   AND NOT EXISTS (SELECT FROM pg_settings WHERE name = 'search_path' AND source = 'client')
 ORDER BY 1
"""


class TablePlace(NamedTuple):
    """A table by schema and name, and PostgreSQL's number of it; None: it is not there.

    ``schema`` is None where the search path has no schema in which it could be made.
    """

    schema: str | None
    name: str
    number: int | None = None

    @property
    def parts(self) -> list[str]:
        """Schema and name."""
        return [self.name] if self.schema is None else [self.schema, self.name]

    @property
    def identifier(self) -> Identifier:
        """As a statement names it."""
        from psycopg import sql

        return sql.Identifier(*self.parts)

    def __str__(self) -> str:
        return ".".join(map(sql_name, self.parts))

    def same(self, other: TablePlace) -> bool:
        """Whether they have the same schema and name."""
        return self.parts == other.parts


def identifier(name: str) -> Identifier:
    """A target's name, as SQL takes it."""
    from psycopg import sql

    return sql.Identifier(*parts_of(name))


def places_of(session: Connection[Any], targets: Iterable[str]) -> dict[str, TablePlace]:
    """Where these targets are, or would be made. Cost: one query."""
    names = list(targets)
    rows = session.execute(_PLACES, [[identifier(name).as_string(session) for name in names]]).fetchall()
    return {
        target: _missing(target, schema) if number is None else TablePlace(schema, name, number)
        for target, (schema, name, number) in zip(names, rows)
    }


def _missing(target: str, schema: str | None) -> TablePlace:
    *given, name = parts_of(target)
    return TablePlace(given[0] if given else schema, name)


def numbers_of(session: Connection[Any], places: Mapping[str, TablePlace]) -> dict[str, int]:
    """PostgreSQL's numbers of those of these targets that are there now."""
    asked = [place.identifier.as_string(session) for place in places.values()]
    rows = session.execute(_NUMBERS, [asked]).fetchall()
    return {target: number for target, (number,) in zip(places, rows) if number is not None}


def to_plain(places: Mapping[str, TablePlace]) -> dict[str, Any]:
    """As a checkpoint keeps it."""
    return {target: list(place) for target, place in places.items()}


def kept_places(plain: Any) -> dict[str, TablePlace]:
    """The tables that a checkpoint keeps, given as plain JSON; none where an earlier release wrote it.

    >>> kept_places({"version": 1, "frontier": [7], "tables": {"t": ["public", "t", 16400]}})
    {'t': TablePlace(schema='public', name='t', number=16400)}
    """
    kept = plain.get("tables") if isinstance(plain, Mapping) else None
    if kept is None:
        return {}
    with reading("cdcv2_checkpoints"):
        return {
            target: TablePlace(checked(schema, str, type(None)), checked(name, str), checked(number, int, type(None)))
            for target, (schema, name, number) in kept.items()
        }


def as_named(plain: Any, places: Mapping[str, TablePlace]) -> Any:
    """A checkpoint with the names that its targets have now: the same table may be written with or without its schema.

    >>> plain = {"views": {"t": "7f"}, "tables": {"t": ["public", "t", 16400]}}
    >>> as_named(plain, {"public.t": TablePlace("public", "t", 16400)})["views"]
    {'public.t': '7f'}
    """
    kept = kept_places(plain)
    names = {
        target: next((now for now, place in places.items() if now not in kept and place.same(was)), target)
        for target, was in kept.items() if target not in places
    }  # fmt: skip
    if not names:
        return plain
    changed = {part: {names.get(one, one): value for one, value in plain[part].items()}
               for part in ("views", "tables") if plain.get(part) is not None}  # fmt: skip
    return {**plain, **changed}


def demand_same_places(
    session: Connection[Any], materialization: str, places: Mapping[str, TablePlace], checkpoints: Iterable[Any]
) -> None:
    """Raise RefusedError if a target is another table than the one of these checkpoints, given as plain JSON."""
    for plain in checkpoints:
        for target, was in kept_places(as_named(plain, places)).items():
            now = places.get(target)
            if now is None or now.same(was) or _moved(session, was, now):
                continue
            role, database, path = session.execute(_SESSION).fetchone() or ("", "", "")
            there = f"leads to {now}" if now.number is not None else "leads to no table"
            raise RefusedError(
                f"the table {target} of {materialization!r} is {was}, and its name {there} now: the search_path of the "
                f"role ({path}) was changed, or a table or schema was made that comes first. Nothing was written. "
                f"ALTER ROLE {role} IN DATABASE {database} SET search_path = {sql_name(was.schema or 'public')}; leads "
                f"there again; or write the schema in the file, target: {was}"
            )


def _moved(session: Connection[Any], was: TablePlace, now: TablePlace) -> bool:
    """Whether it is the same table in another schema."""
    return now.number is not None and now.number == was.number and not numbers_of(session, {"": was})


def demand_visible(session: Connection[Any], materialization: str, places: Iterable[TablePlace]) -> None:
    """Raise RefusedError if policies of row-level security could hide rows of a table from the role.

    Rows that are hidden would be taken for rows that are not there.
    """
    numbers = {place.number: place for place in places if place.number is not None}
    for number, owns, role in session.execute(_GUARDED, [list(numbers)]).fetchall():
        table = numbers[number]
        mend = f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" if owns else f"ALTER ROLE {role} BYPASSRLS"
        raise RefusedError(
            f"row-level security could hide rows of {table}, a table of {materialization!r}, from the role {role}: "
            f"they would be taken for rows that are missing. {mend}; mends it"
        )


def demand_started_here(session: Connection[Any], materialization: str, targets: Iterable[str]) -> None:
    """Raise RefusedError if a view that has not begun here has begun with other checkpoints in the database."""
    from psycopg import sql

    own = {parts_of(target)[-1] for target in targets}
    for (schema,) in session.execute(_OTHERS).fetchall():
        place = sql.Identifier(schema, "cdcv2_checkpoints")
        query = sql.SQL("SELECT checkpoint FROM {} WHERE materialization = %s").format(place)
        texts = session.execute(query, [materialization]).fetchall()
        if any(_has_started(plain_checkpoint(text), schema, own) for (text,) in texts):
            role, database, path = session.execute(_SESSION).fetchone() or ("", "", "")
            raise RefusedError(
                f"{materialization!r} has begun in this database with {sql_name(schema)}.cdcv2_checkpoints, to which "
                f"the search_path of the role ({path}) does not lead now: another copy would begin, and the first one "
                f"stand still. Nothing was written. ALTER ROLE {role} IN DATABASE {database} SET search_path = "
                f"{sql_name(schema)}; leads there again. If those are a copy that nothing keeps up, as a backup, drop "
                "or rename it. If another copy is to begin, give it another name, or the search_path in its conninfo: "
                "options='-c search_path=...'"
            )


def _has_started(plain: Any, schema: str, own: set[str]) -> bool:
    """Whether a checkpoint in this schema is of a view that has committed there, with one of these tables.

    Of a view whose targets are named without a schema, tables and checkpoint are made in one. Where it keeps that these
    tables are all in another one, it is a copy of a checkpoint, as of a backup. Targets with a schema show no place.
    """
    try:
        checkpoint = Checkpoint.from_plain(plain)
        kept = kept_places(plain)
    except ForeignStateError:
        return False  # of another program, or a newer release: it is not ours to judge
    found = [place for target, place in kept.items() if len(parts_of(target)) == 1]
    if found and all(place.schema != schema for place in found):
        return False
    tables = {parts_of(target)[-1] for target in checkpoint.views or own}
    return checkpoint.committed is not False and bool(tables & own)


def plain_checkpoint(text: str) -> Any:
    """What stands in ``cdcv2_checkpoints``, as ``Checkpoint.from_plain`` takes it, and refuses it where it is damaged.
    """
    try:
        return json.loads(text)
    except ValueError:
        return text
