"""The pipeline of the demonstration is an example that every command takes: it is judged here without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.connectors.debezium.config import JSON_CONVERTERS, debezium_config
from cdcv2.control.entries import Kind
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of
from cdcv2.demo.bank import TABLES
from cdcv2.demo.kept_pipeline import CAPTURE, COPY, FILE

for name in ("yaml", "psycopg", "confluent_kafka"):
    pytest.importorskip(name)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VARIABLES = {
    "PGHOST": "db", "PGPORT": "5432", "PGDATABASE": "bank", "PGUSER": "u", "PGPASSWORD": "hush", "BANK_FOLDER": "/data",
    "BANK_KAFKA": "k:9092", "BANK_CONNECT": "http://c:8083", "BANK_JARS": "a.jar,b.jar", "BANK_JAVA": "-Xshare:auto",
}  # fmt: skip


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The example, as somebody names it in a checkout."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return read_pipeline(str(EXAMPLES / "bank" / "bank.yaml"))


def test_the_demonstration_keeps_the_example(pipeline: Pipeline) -> None:
    """The file of ``examples`` is the one in the package: the command has it without a checkout."""
    assert (FILE.resolve(), {CAPTURE, COPY}) == (pipeline.path.resolve(), {plan.name for plan in jobs_of(pipeline)})
    assert pipeline.captures[CAPTURE].spark is not None and pipeline.views[COPY].spark is None


def test_cdcv2_up_makes_all_that_the_example_needs(pipeline: Pipeline) -> None:
    """Publication, slot, connector and topics, of the tables of the bank; and the topics of the logs."""
    stated = [one for one in external_needs(pipeline).needs.stated if one.user == CAPTURE]
    topics = {one.name for one in stated if one.kind is Kind.TOPIC}

    assert all(one.owned for one in stated)
    assert {Kind.PUBLICATION, Kind.SLOT, Kind.CONNECTOR, Kind.TOPIC} == {one.kind for one in stated}
    assert {f"log.{table}" for table in TABLES} | {f"bank.{table}" for table in TABLES} < topics


def test_the_connector_of_the_example_is_the_one_that_is_made_by_its_function() -> None:
    """With addresses by reference, as it is the same file on every machine."""
    config = json.loads((FILE.parent / "connector.json").read_text("utf-8"))
    port = config.pop("database.port")
    made = debezium_config(
        "bank", TABLES, host="${env:PGHOST}", port=1, database="${env:PGDATABASE}", user="${env:PGUSER}", partitions=3,
        publication="disabled", more=JSON_CONVERTERS,
    )  # fmt: skip

    assert ("${env:PGPORT}", {**made, "database.port": "1"}) == (port, {**config, "database.port": "1"})
