"""Every type of the source by the materialize job, in this process: PostgreSQL, a lake, Delta merged on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.cli.main import main as command
from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from cdcv2.spark.replay import outcome
from tests import every_type
from tests.spark.materializing import materialized
from tests.spark.test_materialize_job import DELTA, KINDS, LAKE, server

__all__ = ["server"]

pytestmark = [pytest.mark.spark]

_SHAPE = (
    "SELECT column_name, data_type, udt_name, character_maximum_length, numeric_precision, numeric_scale FROM "
    "information_schema.columns WHERE table_name = '{}' ORDER BY ordinal_position"
)


@pytest.mark.integration
def test_types_of_the_source_arrive(spark: SparkSession, tmp_path: Path, server: Postgres) -> None:
    """Executors put every type there as the command does; what they stored is found again, and compared as equal."""
    password = tmp_path / "pgpass"
    password.write_text(f"*:*:*:*:{server.environment['PGPASSWORD']}\n", "utf-8")
    password.chmod(0o600)
    place = (
        f"host={server.host} port={server.port} dbname={server.database} user={server.username} passfile={password}"
    )
    with server.connect(autocommit=True) as session:
        session.execute(every_type.TYPES)
        session.execute(every_type.create())
        row_type = RowType(row_type_from_postgres(session, "public.every"))
        for name, target, more in [
            ("postgres", f"{{driver: postgres, conninfo: '{place}'}}", ""),
            ("lake", LAKE, "recovery_log: recovery"), ("merged", DELTA, "recovery_log: recovery"),
        ]:  # fmt: skip
            path = tmp_path / name / "shop.yaml"
            path.parent.mkdir()
            path.write_text(
                f"materialization: shop\nlogs: {{t: logs/t}}\nbindings: [{{log: t, target: t, key: [id]}}]\n"
                f"target: {target}\n{more}\n", "utf-8",
            )  # fmt: skip
            rows = [every_type.row(number, finite=name != "postgres") for number in range(every_type.ROWS)]
            cuts = [[(row, 1) for row in rows], [(rows[0], -1), ({**rows[1], "id": 0}, 1), (rows[1], -1)]]
            log = DirectoryLog(path.parent / "logs" / "t", row_type, create=True)
            for time, changes in enumerate(cuts):
                log.send(Updates([(row_type.row(row), time, diff) for row, diff in changes]))
                log.send(Progress([time], [time + 1], {time: len(changes)}))
                log.flush()
            assert Exit.DONE is outcome(materialized(spark, path, "--max-files", "1", merge=name == "merged")), name
            assert 0 == command(["compare", str(path)]), name
            if name != "postgres":
                schema = KINDS[name if name == "lake" else "delta"][1](path.parent / "tables").read("t").schema
                assert ["decimal128(12, 2)", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "int32"] == [
                    *(str(schema.field(one).type) for one in ("price", "day", "at", "moment")),
                    str(schema.field("a_int").type.value_type),
                ]  # fmt: skip
        here, there = (session.execute(_SHAPE.format(table).encode()).fetchall() for table in ("every", "t"))
        assert every_type.OTHERS == [ours[0] for ours, theirs in zip(here, there, strict=True) if ours != theirs]
