"""A table of every type, from a real PostgreSQL by Debezium and Kafka into PostgreSQL, Delta tables and a lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.embedded.connect import Connect, debezium_config
from cdcv2.embedded.kafka import KafkaBroker
from cdcv2.embedded.postgres import Postgres
from tests import every_type
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration

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
FILE = """
materialization: {driver}
logs: logs
bindings: {bindings}
target: {{driver: {driver}, {where}}}
{more}
"""
SHAPE = """
SELECT column_name, data_type, udt_name, character_maximum_length, numeric_precision, numeric_scale,
       datetime_precision, is_nullable
  FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '{}' ORDER BY ordinal_position
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Postgres, Any, str]]:
    """The source with a snapshot and a stream behind it, a session there, and the broker that has both."""
    with Postgres() as source, KafkaBroker() as broker, source.connect(autocommit=True) as session:
        session.execute(every_type.TYPES)
        for name in ("every", "finite"):
            session.execute(every_type.create(name).encode())
            session.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
            session.execute(every_type.insert(0, name).encode())
        config = debezium_config(
            "src", TABLES, host=source.host, port=source.port, database=source.database, user=source.username
        )
        with Connect(broker.bootstrap, config, environment=source.environment) as connect:
            connect.wait_streaming()
            for number in range(1, every_type.ROWS):
                session.execute(every_type.insert(number).encode())
                session.execute(every_type.insert(number, "finite", finite=True).encode())
            session.execute("UPDATE finite SET price = price - 1, at = at + interval '1 day' WHERE id < 2")
            session.execute("DELETE FROM finite WHERE id = 2")
            session.execute("UPDATE every SET words = 'changed' WHERE id BETWEEN 6 AND 8")
            yield source, session, broker.bootstrap


def test_types_arrive_as_types(
    run: Run, servers: tuple[Postgres, Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """compare --source is equal, information_schema says the same, and a user's queries run on the target unchanged."""
    source, session, bootstrap = servers
    for name, value in source.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CDCV2_POSTGRES", raising=False)
    session.execute("CREATE DATABASE target")
    place = f"host={source.host} port={source.port} dbname=target user={source.username}"
    with source.connect(dbname="target", autocommit=True) as target:
        target.execute(every_type.TYPES)
        rows = tmp_path / "rows"
        for table in TABLES:
            assert 0 == run("rows", "--from-postgres", "--table", table, "--output", rows / f"{table}.avsc").code
        (position,), = session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchall()
        captured(run, bootstrap, rows, tmp_path / "logs", session, position)
        files = {
            "postgres": ("{log: public.every, target: every, key: [id]}", f"conninfo: '{place}'", ""),
            "lake": ("{log: public.finite, target: finite, key: [id]}", "folder: lake", "recovery_log: lake-log"),
            "delta": ("{log: public.finite, target: finite, key: [id]}", "folder: delta", "recovery_log: delta-log"),
        }
        for driver, (binding, where, more) in files.items():
            path = tmp_path / f"{driver}.yaml"
            path.write_text(FILE.format(driver=driver, bindings=f"[{binding}]", where=where, more=more), "utf-8")
            said = run("materialize", path)
            assert 0 == said.code, said.err
            log = "public.every" if driver == "postgres" else "public.finite"
            # A range of moments has no text that does not depend on a zone; it is text in the target, too.
            said = run("compare", path, "--source", "env", "--without", f"{log}.whilez")
            assert (0, True) == (said.code, "equal" in said.out), said.out + said.err

        here, there = (one.execute(SHAPE.format("every").encode()).fetchall() for one in (session, target))
        assert ["cash", "whilez"] == [ours[0] for ours, theirs in zip(here, there, strict=True) if ours != theirs]
        for query in QUERIES:
            asked = f"SELECT q::text FROM ({query.format('every')}) q ORDER BY 1"
            ours, theirs = (one.execute(asked.encode()).fetchall() for one in (session, target))
            assert ours == theirs and ours, query


def captured(run: Run, bootstrap: str, rows: Path, into: Path, session: Any, position: int) -> None:
    """Capture until all is there that was committed."""
    for _ in range(200):
        said = run(
            "capture", "kafka", "--bootstrap", bootstrap, "--prefix", "src", "--notifications", "src.notifications",
            "--rows", rows, "--into", into,
        )  # fmt: skip
        # The connector makes the topic of transactions with the first of them.
        assert said.code in (0, 1) or "there is no topic 'src.transaction'" in said.err, said.err
        through = [int(word) for word in said.out.replace(":", " ").split() if word.isdecimal()]
        if through and through[0] >= position:
            return
        session.execute("SELECT pg_logical_emit_message(true, 'cdcv2', 'marker')")
    raise AssertionError(said.out + said.err)
