"""A peek after one's own commit, at a real source that is idle: Debezium, a capture and an instance, each a process."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

import cdcv2
from cdcv2.connectors.debezium import postgres_catalogue
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.errors import IncompleteError
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2, started

pytestmark = pytest.mark.integration

TABLE, PREFIX, PATIENCE = "public.marked", "marked", 120.0


def test_a_peek_after_ones_commit_ends_by_a_marker(broker: KafkaBroker, tmp_path: Path) -> None:
    """Without one it waits for a commit that does not come; what the marker commits comes into no log."""
    with Postgres() as server, server.connect(autocommit=True) as session, ExitStack() as stack:
        session.execute("CREATE TABLE marked (id int PRIMARY KEY)")
        session.execute("ALTER TABLE marked REPLICA IDENTITY FULL")
        session.execute("INSERT INTO marked VALUES (0)")
        row_type = postgres_catalogue.row_type_from_postgres(session, TABLE)
        (tmp_path / f"{TABLE}.avsc").write_text(json.dumps(row_type), "utf-8")
        dsn = " ".join(f"{name}='{value}'" for name, value in (
            ("host", server.host), ("port", server.port), ("user", server.username), ("password", server.password),
            ("dbname", server.database)))  # fmt: skip
        (tmp_path / "source.dsn").write_text(dsn, "utf-8")
        config = debezium_config(
            PREFIX, [TABLE], host=server.host, port=server.port, database=server.database, user=server.username)
        connect = stack.enter_context(Connect(broker.bootstrap, config, environment=server.environment))
        connect.wait_streaming()
        session.execute("INSERT INTO marked VALUES (1)")
        session.execute("SELECT pg_logical_emit_message(true, 'cdcv2', 'marker')")
        logs, quiet, marking = tmp_path / "logs", tmp_path / "quiet.sock", tmp_path / "marking.sock"
        stack.enter_context(started(
            *CDCV2, "capture", "kafka", "--bootstrap", broker.bootstrap, "--prefix", PREFIX, "--notifications",
            f"{PREFIX}.notifications", "--rows", str(tmp_path), "--full-identity", TABLE, "--into", str(logs),
            "--follow"))
        assert poll_until(lambda: (logs / TABLE / "_log.json").exists() or any(logs.glob(f"{TABLE}/*")), PATIENCE)
        index = ("--index", f"{TABLE}=id")
        for place, more in ((quiet, ()), (marking, ("--marker", "--source", str(tmp_path / "source.dsn")))):
            stack.enter_context(started(*CDCV2, "instance", str(logs), *index, "--instance", str(place), *more))
        first = cdcv2.connect(quiet).peek({TABLE: 1}, timeout=PATIENCE)

        session.execute("INSERT INTO marked VALUES (2)")
        # The server goes on in its WAL without a transaction: so the LSN is beyond the commit.
        session.execute("CHECKPOINT")
        ((mine,),) = session.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchall()
        with pytest.raises(IncompleteError, match="unless --marker"):
            cdcv2.connect(quiet).peek({TABLE: 2}, after=mine, timeout=3)
        found = cdcv2.connect(marking).peek({TABLE: [1, 2]}, after=mine, timeout=PATIENCE)
        seen = cdcv2.connect(quiet).peek({TABLE: [0, 1, 2, 3]}, after=mine, timeout=PATIENCE)
    assert first.at is not None
    assert sorted(row.id for row in found[TABLE]) == [1, 2]
    assert sorted(row.id for row in seen[TABLE]) == [0, 1, 2]
