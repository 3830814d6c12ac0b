"""What executors make of a row's changes is one rule, by commit times and on a remap; no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.connector import FROM_ENVELOPE
from cdcv2.capture.facts import Record, RowFact
from cdcv2.errors import Cdcv2Error
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture import classify
from cdcv2.spark.capture.batch_facts import BatchFacts, Screen
from cdcv2.spark.remap_capture import classify as remap_classify

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})
OLD, NEW = ROWS.row((1,)), ROWS.row((2,))
RECORD = Record("p.t", 0, 7, None, b"")


def recipe_of(changes: Any, renumbered: bool = False) -> Any:
    """A connector that finds these changes in any record."""
    fact = RowFact("t", 7, 1, 1, 3, "u", changes, RECORD.position, renumbered)
    return SimpleNamespace(tables={"t": ROWS}, fact=lambda record: fact, before=FROM_ENVELOPE)


def by_commit_times(recipe: Any) -> tuple[bytes | None, bytes | None, bool]:
    """The two images of a record, and whether it is of an old connector."""
    facts, rows = BatchFacts(("t",)), classify._Columns(recipe, ("t",))
    classify._take(RECORD, recipe, Screen({}), facts, rows)
    (row,) = rows.batch(None).to_pylist()
    return row["minus"], row["plus"], facts.old


def on_a_remap(recipe: Any) -> tuple[bytes | None, bytes | None, bool]:
    """The same."""
    facts, rows = remap_classify.ShareFacts(), list[tuple[Any, ...]]()
    remap_classify._DatabaseClassifier(0, recipe).take(RECORD, 5, 0, facts, rows)
    row = dict(zip(remap_classify._ARROW.names, *rows))
    return row["minus"], row["plus"], bool(facts.old)


WAYS = pytest.mark.parametrize("way", [by_commit_times, on_a_remap])


@WAYS
@pytest.mark.parametrize(("changes", "old", "new"), [
    (((OLD, -1),), OLD, None), (((NEW, 1),), None, NEW), (((OLD, -1), (NEW, 1)), OLD, NEW),
])
@pytest.mark.parametrize("renumbered", [True, False])
def test_a_row_goes_or_comes_or_both(way: Any, changes: Any, old: Any, new: Any, renumbered: bool) -> None:
    """Each as its bytes; and an old connector is noticed."""
    images = (None if row is None else ROWS.encode(row) for row in (old, new))
    assert (*images, renumbered) == way(recipe_of(changes, renumbered))


@WAYS
@pytest.mark.parametrize("changes", [
    (), ((NEW, 1), (OLD, -1)), ((OLD, -1), (OLD, -1)), ((NEW, 1), (NEW, 1)), ((NEW, 2),),
    ((OLD, -1), (NEW, 1), (NEW, 1)),
])
def test_what_the_contract_does_not_allow_is_refused(way: Any, changes: Any) -> None:
    """With its place and the diffs."""
    with pytest.raises(Cdcv2Error, match=r"p\.t\[0\]@7: a record takes away one row, or .*: correct the connector"):
        way(recipe_of(changes))
