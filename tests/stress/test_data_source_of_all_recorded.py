"""`format("cdcv2")`, batch and stream, gives what `as_of` gives: every table of every recorded set, with odd types."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cdcv2
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import SourceStop
from cdcv2.rows.row_type import RowType
from tests.capture.run.test_keyed_recorded import SMALL, capture_rare
from tests.connectors.test_row_types import row_types_in
from tests.recorded import TABLES, dump
from tests.spark.test_data_source import added, held, logs_in, logs_of_runs, recorded, run_stream, source, summed
from tests.stress.summary import record

pytestmark = pytest.mark.spark
#: The fixture of the short test: logs of one run, and of all types.
recorded = recorded
#: The recorded set of odd types, whose records have their schemas; the set without is among those of the short test.
EDGES = ("edgeall",)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs of the other runs, and of small tables with rare changes."""
    folder = tmp_path_factory.mktemp("others")
    logs_of_runs(folder, "clean_full", "clean_default")
    capture_rare(SMALL, logs_in(folder / "rare", SMALL))
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs of the sets of odd types, as far as each can be captured; of the rest the capture stops by design."""
    folder, found = tmp_path_factory.mktemp("edges"), dict[str, Path]()
    for name in EDGES:
        topics = dump("edge", f"topics_{name}")
        types = {table: RowType(schema) for table, schema in row_types_in(topics.read(), name).items()}
        with Capture(Recipe(name, types, before="from-state"), logs_in(folder / name, types)) as capture:
            with suppress(SourceStop):
                for one in topics.read():
                    capture.absorb(one)
                    if capture.needs_ends:
                        capture.ends_read(topics.ends())
                capture.release()
        found[name] = folder / name
    return found


def test_every_table_of_every_set(
    spark: SparkSession, recorded: dict[str, Path], others: dict[str, Path], edges: dict[str, Path], tmp_path: Path
) -> None:
    """The same rows as often, by a batch and by a stream that is started on an empty checkpoint."""
    counts: Counter[str] = Counter()
    for name, folder in {**recorded, **others, **edges}.items():
        counts["sets"] += 1
        for table in cdcv2.open(str(folder)).tables:
            wanted, streamed = held(folder, table), list[pa.Table]()
            assert wanted == summed(source(spark, table).load(str(folder)).toArrow()), (name, table)
            run_stream(spark, folder, table, tmp_path / name / table, streamed)
            assert wanted == added(streamed), (name, table)
            counts["tables"] += 1
            counts["rows"] += wanted.total()

    assert set(TABLES) and counts["sets"] >= 6
    record("format cdcv2 of every recorded set", [0], {f"{what}, each as batch and as stream": counts[what]
                                                       for what in counts})
