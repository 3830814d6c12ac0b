"""A table of every type, from a real PostgreSQL by Debezium and Kafka into PostgreSQL, Delta tables and a lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.servers.kafka import KafkaBroker
from tests.arriving import TABLES, Source, arriving, check_arrived, check_equal, files, target_database
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration


def test_types_arrive_as_types(run: Run, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compare --source is equal, information_schema agrees, and a user's queries run on the target unchanged."""
    with arriving(broker) as source:
        for name, value in source.server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("CDCV2_POSTGRES", raising=False)
        with target_database(source) as (target, session):
            rows = tmp_path / "rows"
            for table in TABLES:
                assert 0 == run("rows", "--source", "env", "--table", table, "--output", rows / f"{table}.avsc").code
            captured(run, source, rows, tmp_path / "logs")
            targets = {"postgres": target, "lake": files("lake", "lake"), "delta": files("delta", "delta")}
            for name, one in targets.items():
                path = one.written(name, tmp_path)
                said = run("materialize", path)
                assert 0 == said.code, said.err
                check_equal(run, path, one)
            check_arrived(source.session, session)


def captured(run: Run, source: Source, rows: Path, into: Path) -> None:
    """Capture until all is there that was committed."""
    position = source.position()
    for _ in range(200):
        said = run(
            "capture", "kafka", "--bootstrap", source.bootstrap, "--prefix", "src", "--notifications",
            "src.notifications", "--rows", rows, "--into", into,
        )  # fmt: skip
        # The connector makes the topic of transactions with the first of them.
        assert said.code in (0, 1) or "there is no topic 'src.transaction'" in said.err, said.err
        through = [int(word) for word in said.out.replace(":", " ").split() if word.isdecimal()]
        if through and through[0] >= position:
            return
        source.mark()
    raise AssertionError(said.out + said.err)
