"""Progress asked for in both directions: the answers fit each other, and what cannot be answered is an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import IncompleteError, MissingLogError, RefusedError, UsageError
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.minting import mint, run
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, offsets
from cdcv2.timeline.remap import Remap
from cdcv2.timeline.remap_queries import TimeAnswer, known, when, where
from cdcv2.timeline.shared_remap import SharedRemap
from tests.reclock_oracle import KINDS, Kind, happens, steps
from tests.strategies import Chooser, choosers


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(choose=choosers())
def test_both_directions_are_the_definition(kind: Kind, choose: Chooser) -> None:
    """What is at a position is in at the time that is answered, and not before; also of a compacted remap."""
    plain = steps(choose, kind)
    remap, upper = Remap(kind.start), plain[-1][0] + 1
    for (before, _), (into, place) in zip(plain, plain[1:]):
        assert remap.follow(Binding(before + 1, into + 1, kind.frontier(place)))
    since = choose.integer(0, remap.last)
    remap.compact(since)
    for point in kind.points():
        answer, truth = when(remap, kind.point(point)), happens(kind, plain, upper, point)

        assert (None if truth is None else TimeAnswer(max(truth, since), truth <= since > 0)) == answer
        if answer is not None:
            assert not where(remap, answer.time).less_equal(kind.point(point))
            assert answer.earlier or where(remap, answer.time - 1).less_equal(kind.point(point))


@pytest.mark.parametrize("start, position", [
    (Antichain([0]), Partitioned.at(0, 4)), (NOT_STARTED, 4), (Antichain([5]), 4), (Antichain([0]), Product(1, 2)),
])  # fmt: skip
def test_a_position_of_another_gauge_is_wrong_usage(start: Antichain, position: Any) -> None:
    """Or one from before the source began."""
    with pytest.raises(UsageError, match="position|begin"):
        when(Remap(start), position)


def test_a_time_that_is_not_decided_is_missing_and_one_that_is_forgotten_refused() -> None:
    """What is missing may come; what is forgotten will not."""
    remap = Remap(Antichain([0]))
    remap.mint(Antichain([3]), 1000)
    remap.compact(500)
    with pytest.raises(IncompleteError, match="1001 is not decided, the remap has come to 1000"):
        where(remap, 1001)
    with pytest.raises(RefusedError, match="forgotten"):
        where(remap, 499)

    assert Antichain([3]) == where(remap) == where(remap, 1000) != where(remap, 999)


def test_a_shared_remap_is_read_without_taking_part(tmp_path: Any) -> None:
    """Everything that has been decided by now; an error, if it has not been begun."""
    log = DirectoryRemap(tmp_path / "remap", create=True)
    with pytest.raises(MissingLogError):
        known(log)
    run(log, mint(SharedRemap(NOT_STARTED, recipe="v1"), offsets({0: 4}), lambda: 1000))

    assert (offsets({0: 4}), TimeAnswer(1000, False)) == (where(known(log)), when(known(log), Partitioned.at(0, 3)))
