"""What the records of a shared remap are as bytes: earlier releases read those that need nothing newer."""

from __future__ import annotations

import json

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.timeline.records import HoldRecord, RecipeEpoch, Record, Summary, encode
from cdcv2.timeline.remap import Remap

RECIPES = (RecipeEpoch(0, 0, "v1"),)
REMAP = Remap(Antichain([0])).export()


@pytest.mark.parametrize("record, names", [
    (HoldRecord("a", 4), ["of", "since"]), (HoldRecord("a", 4, called="x"), ["of", "since", "called"]),
    (Summary(7, RECIPES, REMAP), ["position", "recipes", "remap"]),
    (Summary(7, RECIPES, REMAP, holds={"a": 3}), ["position", "recipes", "remap", "holds"]),
    (Summary(7, RECIPES, REMAP, called={"a": "x"}), ["position", "recipes", "remap", "called"]),
])  # fmt: skip
def test_a_record_names_what_is_newer_only_where_it_has_it(record: Record, names: list[str]) -> None:
    """In the order of its form, without a space."""
    raw = encode(record)

    assert ["cdcv2-remap", "kind", *names, "by", "digest"] == list(json.loads(raw))
    assert b" " not in raw


def test_a_record_that_other_programs_could_not_read_is_not_written() -> None:
    """JSON has no infinity."""
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(Summary(7, RECIPES, {"last": float("inf")}))
