"""The files of a first pipeline, made of what a database states of its tables."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdcv2.connectors.debezium.config import (
    IDLE_SETTINGS, JSON_CONVERTERS, debezium_config, exact_pattern, slot_name,
)
from cdcv2.connectors.debezium.left_out import unsent_columns
from cdcv2.connectors.debezium.postgres_catalogue import (
    children, columns_of, deferrable_keys, full_identity, generated_columns, indexed_identities, primary_key,
    row_type_from_postgres, tables_like, unidentified_tables,
)
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import check_table
from cdcv2.materialize.targets.postgres.tables import LONGEST_NAME
from cdcv2.rows.row_type import RowType
from cdcv2.sql_names import name_list, parts_of, sql_name, sql_table
from cdcv2.store.postgres_session import guarded_tables
from cdcv2.views.columns import column_of
from cdcv2.views.binding import no_key_reason

#: The target of a file for which none is given.
_TARGET = "host=localhost port=5432 dbname=copy user=copy"
_COPY_SECRET = " password=${COPY_PASSWORD}"
#: What the file states about the connector's owner, by whether it is cdcv2 up.
_OWNED = {
    False: ["    # owned: no: cdcv2 looks at it, and never changes it."],
    True: [
        "    # owned: yes: cdcv2 up makes it, its publication and topics. It makes its slot. cdcv2 up removes all of",
        "    # them, with the data, when this file does not need them any more.",
    ],
}
#: How the files are called, from their folder.
PIPELINE_FILE, CONNECTOR_FILE = "pipeline.yaml", "connector.json"


@dataclass(frozen=True)
class SourceTable:
    """A table: its row type, the columns of its primary key, and whether it has REPLICA IDENTITY FULL.

    ``unsent``: the columns that the connector is to leave out: generated ones, and those that are not wanted.

    ``by_key``: whether old rows can be looked up, as the key in a record, if there is one, names a row.
    """

    name: str
    row_type: Mapping[str, Any] = field(repr=False)
    key: tuple[str, ...]
    full: bool
    unsent: tuple[str, ...] = ()
    by_key: bool = True

    def view_key(self) -> tuple[str, ...]:
        """The key of its target table: its own, and none where a column of it cannot be part of a view's key.

        Nor can one that the log's rows do not have, as a generated column.
        """
        row_type = RowType(self.row_type)
        odd = any(
            name not in row_type.columns or no_key_reason(column_of(row_type, name).field) for name in self.key
        )
        return () if odd else self.key


@dataclass(frozen=True)
class DatabaseAddress:
    """Where the database is, as Connect reaches it. ``password``: whether a session needs one."""

    host: str
    port: int
    name: str
    user: str
    password: bool


@dataclass(frozen=True)
class FirstPipeline:
    """What the files are made of.

    ``connector`` is the configuration of a connector that is there; None: one is made, with ``replication`` as the
    replication factor of its topics. ``owned``: cdcv2 up makes it, with its publication and topics. ``target``:
    the connection string of the copy's database, without a password; None: it is still to be filled in. ``login``: a
    file with the login at Connect.
    """

    name: str
    database: DatabaseAddress
    tables: Sequence[SourceTable]
    bootstrap: str
    connect: str
    replication: int = -1
    connector: Mapping[str, str] | None = None
    owned: bool = False
    target: str | None = None
    login: Path | None = None

    @property
    def slot(self) -> str:
        """The slot and the publication of the connector that is made."""
        return slot_name(self.name)

    def files(self) -> dict[str, str]:
        """Path -> text, all of them."""
        texts = {f"rows/{table.name}.avsc": _json(table.row_type) for table in self.tables}
        if self.connector is None:
            texts[CONNECTOR_FILE] = _json(self._config())
        return {**texts, PIPELINE_FILE: self._pipeline()}

    def from_state(self) -> bool:
        """Whether before-images are looked up: not every table has FULL, and each that has not is known by its key."""
        lacking = [table for table in self.tables if not table.full]
        return bool(lacking) and all(table.key for table in lacking) and all(table.by_key for table in self.tables)

    def statements(self) -> list[str]:
        """The SQL statements that the owner of the tables has to run before the connector starts."""
        names = ", ".join(sql_table(table.name) for table in self.tables)
        theirs = self.connector is None and not self.owned
        made = [f"CREATE PUBLICATION {sql_name(self.slot)} FOR TABLE {names};"] if theirs else []
        if self.from_state():
            return made
        return made + [
            f"ALTER TABLE {sql_table(table.name)} REPLICA IDENTITY FULL;" for table in self.tables if not table.full
        ]

    def _config(self) -> dict[str, str]:
        hidden = [exact_pattern(f"{table.name}.{column}") for table in self.tables for column in table.unsent]
        more = {"column.exclude.list": ",".join(hidden)} if hidden else {}
        return debezium_config(
            self.name, [table.name for table in self.tables], host=self.database.host, port=self.database.port,
            database=self.database.name, user=self.database.user, replication=self.replication,
            publication="disabled", more={**JSON_CONVERTERS, **IDLE_SETTINGS, **more},
        )

    def _pipeline(self) -> str:
        found = self.connector or {}
        login = "" if self.login is None else f"login: {json.dumps(str(self.login))}, "
        prefix = found.get("topic.prefix", self.name)
        notifications = found.get("notification.sink.topic.name") if found else f"{self.name}.notifications"
        place = self.database
        conninfo = f"host={place.host} port={place.port} dbname={place.name} user={place.user}"
        secret = " password=${PGPASSWORD}" if place.password else ""
        lines = [
            "# From a database to its copy. Each key is explained in docs/operations/pipeline-file.md.",
            "#   cdcv2 doctor pipeline.yaml          is everything as it has to be?",
            "#   cdcv2 up pipeline.yaml              make what is owned: yes, capture, and keep the copy",
            f"pipeline: {self.name}",
            f"kafka: {{bootstrap: {json.dumps(self.bootstrap)}}}",
            "# The row types of the tables: rows/SCHEMA.TABLE.avsc.",
            "rows: rows",
            "sources:",
            f"  {self.name}:",
            "    # ${NAME} is the environment's: no password stands in this file.",
            f"    postgres: {{conninfo: {json.dumps(conninfo + secret)}}}",
            f"    prefix: {json.dumps(prefix)}",
            *([f"    notifications: {json.dumps(notifications)}"] if notifications else []),
            *_OWNED[self.owned],
            f"    connector: {{name: {json.dumps(found.get('name', self.name))}, url: {json.dumps(self.connect)}, "
            f"{login}owned: {f'yes, config: {CONNECTOR_FILE}' if self.owned else 'no'}}}",
            f"    slot: {{name: {json.dumps(found.get('slot.name', self.slot))}}}",
            f"    publication: {{name: {json.dumps(found.get('publication.name', self.slot))}}}",
            "captures:",
            f"  {self.name}:",
            f"    tables: [{', '.join(json.dumps(table.name) for table in self.tables)}]",
            "    # One log per table goes into this folder. It is kept for ever.",
            "    into: logs",
            *self._before(),
            "views:",
            "  copy:",
            "    # A target table for each log; key: its primary key. Without one, rows are kept with their counts.",
            "    bindings:",
            *map(self._binding, self.tables, target_names([table.name for table in self.tables])),
            "    # PostgreSQL 15 or later. Files instead: {driver: lake, folder: lake}, and recovery_log: recovery",
            "    target:",
            "      driver: postgres",
            f"      conninfo: {json.dumps((self.target or _TARGET) + _COPY_SECRET, ensure_ascii=False)}",
        ]
        return "\n".join(lines) + "\n"

    def _before(self) -> list[str]:
        lacking = [table.name for table in self.tables if not table.full]
        if not self.from_state():
            return []
        return [
            f"    # Without REPLICA IDENTITY FULL: {', '.join(lacking)}. So before-images are looked up by their keys,",
            "    # and all rows are in memory. With FULL on all tables this line may go before the first start.",
            "    before: from-state",
        ]

    @staticmethod
    def _binding(table: SourceTable, target: str) -> str:
        columns = table.view_key()
        key = f", key: [{', '.join(map(json.dumps, columns))}]" if columns else ""
        return f"      - {{log: {json.dumps(table.name)}, target: {json.dumps(target)}{key}}}"


def target_names(tables: Sequence[str]) -> list[str]:
    """A name for the target of each table, each another one and none longer than PostgreSQL keeps.

    >>> target_names(["public.odd_part", "odd.part", "public.odd.items"])
    ['odd_part', 'odd_part_2', 'odd_items']
    """
    names: list[str] = []
    for table in tables:
        # With a dot, the name would begin with a schema of the target.
        *schema, own = (part.replace(".", "_") for part in parts_of(table))
        whole = own if schema in ([], ["public"]) else f"{schema[0]}_{own}"
        for number in itertools.count(1):
            ending = "" if number == 1 else f"_{number}"
            name = _shortened(whole, LONGEST_NAME - len(ending)) + ending
            if name not in names:
                names.append(name)
                break
    return names


def _shortened(name: str, most: int) -> str:
    """The beginning of a name that has at most so many bytes in UTF-8."""
    return name.encode()[:most].decode(errors="ignore")


def source_tables(
    connection: Any, patterns: Sequence[str], reader: str | None = None, *, excluded: Sequence[str] = (),
    config: Mapping[str, str] | None = None,
) -> list[SourceTable]:
    """What the database states of the tables that fit the patterns.

    ``reader``: the role of the connector; None: that of the session, which is asked for in any case. ``excluded``:
    ``SCHEMA.TABLE.COLUMN``, to be left out. ``config``: a connector that is there, whose filters leave out columns.

    Raises UsageError for patterns that fit none, for a column to be left out that is not there or is of the primary
    key, for a table from which others inherit, and for one of which a role may not see all rows; MalformedError for a
    column of a type that has no row type.
    """
    names = [check_table(name) for name in tables_like(connection, patterns)]
    parents = children(connection, names, partitions=True)
    if parents:
        shown = "; ".join(f"{table} has {', '.join(heirs)}" for table, heirs in parents.items())
        others = name_list(name for name in names if name not in parents)
        raise UsageError(
            f"a table from which others inherit cannot be captured: {shown}. A SELECT of it has their rows, too, and "
            "so has the connector's snapshot; their changes are not among its own. Capture the children, and not itself"
            + (f": --tables {shlex.quote(others)}" if others else
               "; or end the inheritance: ALTER TABLE ... NO INHERIT ...")
        )
    for role in (None, reader):
        guarded = guarded_tables(connection, names, role)
        if guarded:
            who = role or connection.info.user
            raise UsageError(
                f"row-level security may hide rows of {', '.join(guarded)} from the role {who}, so a snapshot by it "
                f"may lack them. As a superuser: ALTER ROLE {sql_name(who)} BYPASSRLS; or name a role that has it, or "
                "owns the tables; or leave these tables out (--tables)"
            )
    there = {name: columns_of(connection, name) for name in names}
    every = {f"{name}.{column}" for name, columns in there.items() for column in columns}
    for one in excluded:
        if one not in every:
            raise UsageError(
                f"--exclude-columns {one}: it is no column of the tables. Write SCHEMA.TABLE.COLUMN, with \\, for a "
                "comma in it, of "
                f"{', '.join(names[:10])}"
                f"{', ...' if len(names) > 10 else ''}"
            )
    generated = {name: generated_columns(connection, name) for name in names}
    filtered = {name: set(unsent_columns(config, name, columns)) if config else () for name, columns in there.items()}
    unsent = {
        name: [
            column for column in columns if column not in generated[name]
            and (f"{name}.{column}" in excluded or column in filtered[name])
        ]
        for name, columns in there.items()
    }
    full, indexed = full_identity(connection, names), indexed_identities(connection, names)
    keys = {name: primary_key(connection, name) for name in names}
    # The changes have no generated column: no key of one finds a row.
    unkeyed = {name for name in names if set(keys[name]) & set(generated[name])}
    doubtful = {*indexed, *unidentified_tables(connection, names), *deferrable_keys(connection, names), *unkeyed}
    return [
        SourceTable(
            name, row_type_from_postgres(connection, name, unsent[name]), keys[name], name in full,
            (*generated[name], *unsent[name]), name not in doubtful,
        )
        for name in names
    ]


def connector_of(plain: object, origin: str) -> dict[str, str]:
    """The configuration of a connector: a JSON object of settings, or one that has them as ``config``.

    Raises UsageError for another connector than Debezium's of PostgreSQL.
    """
    found = plain if isinstance(plain, dict) else {}
    if isinstance(found.get("config"), dict):
        found = {**found["config"], **({"name": found["name"]} if "name" in found else {})}
    if "topic.prefix" not in found:
        raise UsageError(f"{origin} is no connector's configuration: it has no topic.prefix")
    kind = str(found.get("connector.class", ""))
    if not kind.endswith("PostgresConnector"):
        raise UsageError(f"{origin} is of {kind or 'no connector.class'}: only Debezium's PostgresConnector is read")
    return {str(name): str(value) for name, value in found.items()}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
