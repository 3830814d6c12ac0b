"""What the tests share in which a column of every type arrives in every target, by whatever captures and materializes.

A real PostgreSQL, by Debezium and Kafka, into PostgreSQL, Delta tables and a lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from tests import every_type

#: One with all values, and one with those that files hold.
TABLES = ("public.every", "public.finite")
#: A user's queries, as they run on the source: in the target they are the same.
QUERIES = (
    "SELECT sum(price), avg(long), max(\"any\"), sum(cash::numeric) FROM {} WHERE price <> 'NaN'",
    "SELECT date_trunc('day', at), count(*) FROM {} WHERE isfinite(at) GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('hour', moment), at3 + interval '1 day', day + 1 FROM {} WHERE id = 0",
    "SELECT docb->>'a', docb @> '{{\"b\": 1}}', doc->>'b' FROM {} WHERE id = 0",
    "SELECT a.id, b.id FROM {0} a JOIN {0} b ON a.name = ANY (b.a_name)",
    "SELECT a_int[1], cardinality(a_text), 3 <@ ints, host << net, found @@ 'a'::tsquery FROM {} WHERE id = 0",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY clock), min(lasts) > interval '-2 years' FROM {}",
)
_FILE = """
materialization: {name}
logs: logs
bindings: [{binding}]
target: {{driver: {driver}, {where}}}
{more}
"""
_SHAPE = """
SELECT column_name, data_type, udt_name, character_maximum_length, numeric_precision, numeric_scale,
       datetime_precision, is_nullable
  FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'every' ORDER BY ordinal_position
"""


class Source(NamedTuple):
    """The database with a snapshot and a stream behind it, a session there, and the broker that has both."""

    server: Postgres
    session: Any
    bootstrap: str

    def position(self) -> int:
        """Where the database's log is now."""
        (found,), = self.session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchall()
        return int(found)

    def mark(self) -> None:
        """One transaction more, so that the connector states what was before it."""
        self.session.execute("SELECT pg_logical_emit_message(true, 'cdcv2', 'marker')")


class Target(NamedTuple):
    """Where a materialization goes: what its file has as the target."""

    driver: str
    table: str
    where: str
    more: str = ""

    @property
    def log(self) -> str:
        """The log of its table."""
        return f"public.{self.table}"

    def written(self, name: str, folder: Path) -> Path:
        """The file."""
        path = folder / f"{name}.yaml"
        binding = f"{{log: {self.log}, target: {self.table}, key: [id]}}"
        path.write_text(_FILE.format(
            name=name, binding=binding, driver=self.driver, where=self.where, more=self.more
        ), "utf-8")  # fmt: skip
        return path


def files(name: str, driver: str) -> Target:
    """Tables in files."""
    return Target(driver, "finite", f"folder: {name}", f"recovery_log: {name}-log")


@contextmanager
def arriving(broker: KafkaBroker) -> Iterator[Source]:
    """The source, streaming."""
    with Postgres() as server, server.connect(autocommit=True) as session:
        # What the form of values is in other sessions makes no difference.
        for setting in ("bytea_output = 'escape'", "intervalstyle = 'sql_standard'", "extra_float_digits = 0"):
            session.execute(f"ALTER DATABASE {server.database} SET {setting}")
        session.execute(every_type.TYPES)
        for name in ("every", "finite"):
            session.execute(every_type.create(name).encode())
            session.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
            session.execute(every_type.insert(0, name).encode())
        # The snapshot spells these otherwise than the stream does, in which they are changed.
        session.execute(
            "INSERT INTO every (id, day, a_day) VALUES (100, 'infinity', '{infinity}'), (101, '-infinity', '{}')"
        )
        # Rows that are there keep their NULLs, and a NULL is no default.
        for name in ("every", "finite"):
            for statement in every_type.defaults(name):
                session.execute(statement.encode())
        config = debezium_config(
            "src", TABLES, host=server.host, port=server.port, database=server.database, user=server.username
        )
        with Connect(broker.bootstrap, config, environment=server.environment) as connect:
            connect.wait_streaming()
            for number in range(1, every_type.ROWS):
                session.execute(every_type.insert(number).encode())
                session.execute(every_type.insert(number, "finite", finite=True).encode())
            session.execute("UPDATE finite SET price = price - 1, at = at + interval '1 day' WHERE id < 2")
            session.execute("DELETE FROM finite WHERE id = 2")
            session.execute("UPDATE every SET words = 'changed' WHERE id BETWEEN 6 AND 8")
            session.execute("UPDATE every SET words = 'changed' WHERE id = 100")
            session.execute("DELETE FROM every WHERE id = 101")
            yield Source(server, session, broker.bootstrap)


@contextmanager
def target_database(source: Source) -> Iterator[tuple[Target, Any]]:
    """A database beside the source: the target in it, and a session."""
    server = source.server
    source.session.execute("CREATE DATABASE target")
    place = f"host={server.host} port={server.port} dbname=target user={server.username}"
    with server.connect(dbname="target", autocommit=True) as session:
        session.execute(every_type.TYPES)
        yield Target("postgres", "every", f"conninfo: '{place}'"), session


def check_arrived(source: Any, target: Any) -> None:
    """The two sessions' tables have the same types, but for what the page lists, and a user's queries find the same."""
    here, there = (session.execute(_SHAPE).fetchall() for session in (source, target))
    assert every_type.OTHERS == [ours[0] for ours, theirs in zip(here, there, strict=True) if ours != theirs]
    for query in QUERIES:
        asked = f"SELECT q::text FROM ({query.format('every')}) q ORDER BY 1"
        ours, theirs = (session.execute(asked.encode()).fetchall() for session in (source, target))
        assert ours == theirs and ours, query


def check_equal(run: Callable[..., Any], path: Path, target: Target) -> None:
    """``cdcv2 compare --source`` finds source, log and target equal."""
    without = [word for name in every_type.UNCOMPARED for word in ("--without", f"{target.log}.{name}")]
    said = run("compare", path, "--source", "env", *without)
    assert (0, True) == (said.code, "equal" in said.out), said.out + said.err
