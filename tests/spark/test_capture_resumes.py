"""What a capture by commit times on Spark resumes with, when other resnapshots are declared than before; no Spark."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.memory import CaptureMemory
from cdcv2.capture.memory_format import plain_memory, read_memory
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError
from cdcv2.logs.description import LogDescription
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture import query
from cdcv2.spark.capture.memory_folder import MemoryFolder
from cdcv2.spark.capture.query import CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec

T, TOPIC = "public.t", "p.public.t"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})


@pytest.mark.parametrize(("again", "start"), [((), {(TOPIC, 0): 9}), ((190,), {})])
def test_a_topic_that_was_made_again_is_refused_whatever_is_declared(
    again: tuple[int, ...], start: dict[Any, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the topics are read from their start, which is reported: only the positions are forgotten."""
    monkeypatch.setattr(query, "nameable", lambda spark, state: None)
    recipe = Recipe("p", {T: ROWS}, before=FROM_STATE, notification_topic="notes", resnapshots=again)
    specs = {T: LogSpec(T, ROWS, folder="logs")}
    found, report = {TOPIC: "7f"}, io.StringIO()
    topics: Any = SimpleNamespace(binding=lambda: "kafka", check=lambda spark, positions: dict(found))
    commits = CommitTransactions([T], notifications=True, known=101).export()
    memory = CaptureMemory(commits, {(TOPIC, 0): 9}, {TOPIC: "7f"}, {})
    MemoryFolder(tmp_path / "memory").save(plain_memory(memory, query._identity(recipe, topics, specs)))

    def begun() -> Any:
        made: Any = SimpleNamespace()
        spark: Any = None
        CaptureQuery.__init__(
            cast(CaptureQuery, made), recipe, topics, specs, tmp_path, spark, CaptureReport(people=report),
            LogDescription,
        )
        return made

    made = begun()
    assert (start, {TOPIC: "7f"}) == (made.start, made._identities)
    found[TOPIC] = "80"
    with pytest.raises(ForeignStateError, match=f"the topic {TOPIC} is another one"):
        begun()
    assert (not start) is ("from their start, as other snapshots are declared than before" in report.getvalue())


class OtherRecipe(Recipe):
    """The recipe of a connector of another kind, which differs from the first one in nothing else."""

    kind = "another"


@pytest.mark.parametrize(("before", "now"), [(Recipe, OtherRecipe), (OtherRecipe, Recipe)])
def test_a_memory_of_a_connector_of_another_kind_is_refused(before: type[Recipe], now: type[Recipe]) -> None:
    """With equal names and row types; one that does not state the kind is of the first one, and is still read."""
    specs, topics = {T: LogSpec(T, ROWS, folder="logs")}, cast(Any, SimpleNamespace(binding=lambda: "kafka"))
    kept, own = (query._identity(kind("p", {T: ROWS}), topics, specs) for kind in (before, now))
    plain = plain_memory(CaptureMemory.empty(), kept)

    assert CaptureMemory.empty() == read_memory(CaptureMemory, plain, kept)
    with pytest.raises(ForeignStateError, match=f"its connector is '{before.kind}', here it is '{now.kind}'"):
        read_memory(CaptureMemory, plain, own)
