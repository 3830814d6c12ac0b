"""A remap gives one answer to each read, published values among them; compaction changes none that may be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import consolidate
from cdcv2.errors import MalformedError, RefusedError
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, offsets
from cdcv2.timeline.remap import Remap
from tests.reclock_oracle import KINDS, Kind, Steps, complete, happens, steps
from tests.strategies import Chooser, choosers

of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)


def remap_of(start: Antichain, *bound: tuple[int, Antichain]) -> Remap:
    """A remap with these frontiers, each from its time on; its upper is one more than the last time."""
    remap = Remap(start)
    for into, frontier in bound:
        assert remap.mint(frontier, into) is not None and into == remap.last
    return remap


def drawn(choose: Chooser, kind: Kind) -> tuple[Steps, Remap, int]:
    """Steps as the oracle has them, the same as a remap, and its upper."""
    plain = steps(choose, kind)
    remap = Remap(kind.start)
    for into, place in plain[1:]:
        # A time at which nothing is new is one at which the clock went on.
        frontier = kind.frontier(place)
        binding = Binding(remap.last + 1, into + 1, frontier)
        assert remap.follow(binding)
    idle = remap.idle(remap.last + choose.integer(0, 3))
    if idle is not None:
        remap.follow(idle)
    remap.check()
    return plain, remap, remap.last + 1


# -- published values -------------------------------------------------------------------------------------------------
# From the tests of Materialize's src/storage/src/source/reclock.rs and src/timely-util/src/reclock.rs.


def test_published_frontiers() -> None:
    """`test_reclock_frontier`: how far the timeline is complete with the sources at some frontier."""
    remap = remap_of(NOT_STARTED, (1000, offsets({1: 10})), (2000, offsets({1: 10, 2: 10})))

    def comes_to(at: Antichain) -> Antichain:
        return remap.reclock_frontier(at)

    assert Antichain([2001]) == remap.upper
    assert Antichain([1000]) == comes_to(NOT_STARTED) == comes_to(offsets({1: 9, 2: 0}))
    assert Antichain([2000]) == comes_to(offsets({1: 10, 2: 0}))
    assert Antichain([2001]) == comes_to(offsets({1: 10, 2: 10})) == comes_to(Antichain())
    remap.follow(Binding(2001, 3001, remap.current))
    assert Antichain([3001]) == comes_to(offsets({1: 10, 2: 10}))
    remap.compact(1500)
    assert (Antichain([1500]), Antichain([2000])) == (comes_to(offsets({1: 9})), comes_to(offsets({1: 10})))


def test_published_gh16318() -> None:
    """An offset of one partition is not covered by what another one has come to."""
    remap = remap_of(
        NOT_STARTED, (1000, offsets({0: 50})), (2000, offsets({0: 50, 1: 50})), (3000, offsets({0: 100, 1: 50}))
    )

    assert (1000, 2000, 3000) == tuple(
        remap.into_of(Partitioned.at(*at)) for at in ((0, 49), (1, 49), (0, 50))
    )


def test_published_compaction() -> None:
    """What was bound before `since` is bound at it."""
    remap = remap_of(NOT_STARTED, (1000, offsets({0: 3})), (2000, offsets({0: 5})))
    remap.compact(1500)

    assert [1500, 1500, 2000, 2000, None] == [remap.into_of(Partitioned.at(0, offset)) for offset in (1, 2, 3, 4, 5)]


def test_published_inversion() -> None:
    """`test_inversion`: where to read from, for an output that has come so far."""
    remap = remap_of(NOT_STARTED, (1000, offsets({0: 3})), (2000, offsets({0: 5})), (3000, offsets({0: 7})))

    def comes_from(time: int) -> Antichain:
        return remap.source_frontier_at(Antichain([time]))

    assert [offsets({0: offset}) for offset in (7, 5, 5, 5, 3, 0, 0)] == list(
        map(comes_from, (3001, 3000, 2500, 2001, 2000, 1000, 0))
    )
    remap.compact(2001)
    assert NOT_STARTED == comes_from(2001) and offsets({0: 5}) == comes_from(2002)
    assert Antichain() == remap.source_frontier_at(Antichain())


def test_published_concurrency() -> None:
    """Two minters: who comes second gets only what is still missing, and both read the same mapping."""
    one, other = Remap(NOT_STARTED), Remap(NOT_STARTED)
    first = one.mint(offsets({0: 3}), 1000)
    late = other.propose(offsets({0: 5}), 1000)
    assert first is not None and late is not None and other.follow(first)
    assert not one.follow(late) and not other.follow(late)
    second = other.propose(offsets({0: 5}), 1000)
    assert second is not None and one.follow(second) and other.follow(second)

    assert Binding(1001, 1002, offsets({0: 5})) == second and one.export() == other.export()
    assert [1000, 1001, None] == [one.into_of(Partitioned.at(0, offset)) for offset in (2, 3, 5)]


def test_published_sharing() -> None:
    """Compaction waits for the slowest reader, and goes on when that has ended (#19765)."""
    remap = remap_of(Antichain([0]), (1000, Antichain([3])), (2000, Antichain([5])))
    slow, slower = remap.hold(), remap.hold(0)
    remap.compact(1500)
    slow.move(1700)
    assert (0, 1700, 0) == (remap.since, slow.since, slower.since)
    slower.move(1000)
    assert 1000 == remap.since
    slower.release()
    slower.release()
    slower.move(1600)
    assert (1500, None) == (remap.since, slower.since)
    slow.move(10)
    assert 1700 == slow.since


# -- laws -------------------------------------------------------------------------------------------------------------


@of_each_kind
@given(choose=choosers())
def test_every_read_is_what_the_definition_says(kind: Kind, choose: Any) -> None:
    """Each point at each time, each frontier that a source may be at, and back."""
    plain, remap, upper = drawn(choose, kind)
    place = kind.later(choose, kind.later(choose, kind.first))

    assert [happens(kind, plain, upper, point) for point in kind.points()] == [
        remap.into_of(kind.point(point)) for point in kind.points()
    ]
    assert Antichain([complete(kind, plain, upper, place)]) == remap.reclock_frontier(kind.frontier(place))
    for time in range(upper):
        now = kind.frontier([at for into, at in plain if into <= time][-1])
        assert (now, now) == (remap.at(time), remap.source_frontier_at(Antichain([time + 1])))


@of_each_kind
@given(choose=choosers())
def test_compaction_commutes_with_every_read(kind: Kind, choose: Any) -> None:
    """What happened before `since` happens at it; nothing else is another, however often it is compacted."""
    _, whole, upper = drawn(choose, kind)
    remap = Remap.restore(json.loads(json.dumps(whole.export())))
    since = choose.integer(0, upper - 1)
    remap.compact(choose.integer(0, since))
    remap.compact(since)
    remap.check()
    source = kind.frontier(kind.later(choose, kind.later(choose, kind.first)))

    def told(time: int | None) -> int | None:
        return None if time is None else max(time, since)

    assert [told(whole.into_of(kind.point(point))) for point in kind.points()] == [
        remap.into_of(kind.point(point)) for point in kind.points()
    ]
    assert whole.reclock_frontier(source).join(Antichain([since])) == remap.reclock_frontier(source)
    assert [whole.at(time) for time in range(since, upper)] == [remap.at(time) for time in range(since, upper)]
    assert [kind.start if time <= since else whole.at(time - 1) for time in range(upper + 1)] == [
        remap.source_frontier_at(Antichain([time])) for time in range(upper + 1)
    ]
    assert len(remap) <= 1 + sum(into > since for into, _ in whole.bindings())


@of_each_kind
@given(choose=choosers())
def test_a_remap_is_a_collection_of_from_times(kind: Kind, choose: Any) -> None:
    """The sum of its changes up to a time is the frontier there, each element once: it can be a log of its own."""
    _, whole, upper = drawn(choose, kind)
    remap, changed = Remap(kind.start), [(time, 0, 1) for time in kind.start]
    for into, frontier in list(whole.bindings())[1:]:
        binding = Binding(remap.last + 1, into + 1, frontier)
        changed += binding.changes(remap.current)
        assert remap.follow(binding)

    for into in range(remap.last + 1):
        held = consolidate((time, 0, diff) for time, at, diff in changed if at <= into)
        assert sorted(map(repr, remap.at(into))) == sorted(repr(time) for time, _, _ in held)
        assert {1} >= {diff for _, _, diff in held}


@of_each_kind
@given(choose=choosers())
def test_minting_binds_what_was_observed_and_never_goes_back(kind: Kind, choose: Any) -> None:
    """With any clock, and however old, in parts, the observation is."""
    remap, now, seen = Remap(kind.start), 0, [kind.first]
    for _ in range(choose.integer(1, 6)):
        place = kind.later(choose, choose.pick(seen))
        seen.append(place)
        now = max(0, now + choose.integer(-2, 3))
        before, upper = remap.current, remap.upper
        binding = remap.mint(kind.frontier(place), now)
        remap.check()
        assert remap.current == before.join(kind.frontier(place))
        assert (binding is None) == (remap.current == before)
        if binding is None:
            assert upper == remap.upper
        elif binding.upper is not None:
            assert Antichain([binding.lower]) == upper and binding.into == max(now, binding.lower)
        else:
            assert not remap.current and not remap.upper
            break


def test_a_void_binding_changes_nothing() -> None:
    """Void: it begins elsewhere than the remap ends, or goes back, or comes after the end of all times."""
    remap = remap_of(Antichain([0]), (10, Antichain([5])))
    before = remap.export()
    for void in (Binding(10, 20, Antichain([7])), Binding(12, 20, Antichain([7])), Binding(11, 20, Antichain([4]))):
        assert not remap.follow(void)
    assert before == remap.export()
    close = remap.close()
    assert close == Binding(11, None, Antichain([5])) and remap.follow(close)

    assert not remap.follow(Binding(11, 20, Antichain([7]))) and remap.close() is remap.idle(99) is None


def test_catching_up_forgets_nothing_that_both_can_say() -> None:
    """With a remap that was compacted to just where this one ends, too; behind that, times in between are unknown."""
    for since, known, lower in ((4, 0, 11), (11, 0, 11), (12, 12, 13)):
        ahead = remap_of(Antichain([0]), (10, Antichain([5])), (11, Antichain([7])), (20, Antichain([9])))
        behind = remap_of(Antichain([0]), (10, Antichain([5])))
        ahead.compact(since)
        bindings = behind.catch_up(ahead)
        behind.check()
        assert [] == behind.catch_up(ahead) == ahead.catch_up(behind)
        assert (known, 20, ahead.at(20)) == (behind.since, behind.last, behind.current)
        assert [ahead.at(time) for time in range(since, 21)] == [behind.at(time) for time in range(since, 21)]
        assert lower == bindings[0].lower


def test_a_remap_that_is_closed_is_caught_up_with() -> None:
    """Whether something changed at its last time or not; and a held one is refused only where it would lose."""
    ahead, behind = closed(), Remap(Antichain([0]))
    assert [Binding(1, 11, Antichain([5])), Binding(11, None, Antichain([5]))] == behind.catch_up(ahead)
    finished, late = remap_of(Antichain([0]), (10, Antichain([5]))), remap_of(Antichain([0]), (10, Antichain([5])))
    finished.mint(Antichain(), 20)
    late.catch_up(finished)
    assert finished.export() == late.export() and [] == late.catch_up(finished)
    finished.compact(90)
    held, safe = Remap(Antichain([0])), Remap(Antichain([0]))
    held.hold(0)
    safe.hold(0).move(90)
    safe.catch_up(finished)
    with pytest.raises(RefusedError, match="compacted to 90"):
        held.catch_up(finished)

    assert (90, Antichain()) == (safe.since, safe.current) and (0, Antichain([0])) == (held.since, held.current)


def test_an_idle_clock_moves_the_upper_alone() -> None:
    """So that a silent source does not hold the timeline; a clock that goes back does nothing."""
    remap = remap_of(Antichain([0]), (10, Antichain([5])))

    assert remap.idle(10) is None and (idle := remap.idle(11)) == Binding(11, 12, Antichain([5]))
    assert idle is not None and remap.follow(idle) and (2, 11) == (len(remap), remap.last)


def test_a_source_that_is_finished_closes_its_remap() -> None:
    """Then every from-time has its time, and all times are decided."""
    remap = remap_of(Antichain([0]), (10, Antichain([5])))
    binding = remap.mint(Antichain(), 30)

    assert Binding(11, None, Antichain()) == binding and Antichain() == remap.upper == remap.current
    assert (11, Antichain([5]), Antichain()) == (remap.into_of(99), remap.at(10), remap.at(2**40))
    assert (Antichain([11]), Antichain()) == (
        remap.reclock_frontier(Antichain([7])), remap.reclock_frontier(Antichain())
    )
    assert remap.mint(Antichain(), 31) is None
    assert [Antichain([5]), Antichain(), Antichain()] == [
        remap.source_frontier_at(Antichain(at)) for at in ([11], [12], [])
    ]
    remap.compact(50)
    assert (50, 50) == (remap.into_of(0), remap.since) and Remap.restore(remap.export()).export() == remap.export()


def closed() -> Remap:
    """A remap that is closed before its source was finished."""
    remap = remap_of(Antichain([0]), (10, Antichain([5])))
    remap.follow(Binding(11, None, Antichain([5])))
    return remap


def compacted() -> Remap:
    """A remap that begins at 7."""
    remap = remap_of(Antichain([0]), (5, Antichain([1])), (10, Antichain([5])))
    remap.compact(7)
    return remap


@pytest.mark.parametrize("asked", [
    lambda: compacted().at(6), lambda: compacted().at(11), lambda: compacted().compact(6),
    lambda: compacted().compact(11), lambda: compacted().hold(6), lambda: closed().mint(Antichain([6]), 20),
    lambda: compacted().source_frontier_at(Antichain([12])),
])  # fmt: skip
def test_what_would_need_the_forgotten_or_the_undecided_is_refused(asked: Callable[[], Any]) -> None:
    """With the time that is known, so that the caller can ask again."""
    with pytest.raises(RefusedError, match="5|7|11"):
        asked()


@pytest.mark.parametrize("wrong", [
    lambda: Remap(Antichain()), lambda: Binding(5, 5, Antichain()), lambda: Binding(5, 4, Antichain()),
    lambda: Binding(-1, 4, Antichain()), lambda: Binding(1, True, Antichain()),
    lambda: compacted().at(True), lambda: compacted().into_of(Partitioned.at(0, 1)),
    lambda: compacted().mint(NOT_STARTED, 20), lambda: compacted().mint(Antichain([9]), 2**63),
    lambda: Remap.restore({}), lambda: Remap.restore({**compacted().export(), "version": 2}),
    lambda: Remap.restore({**compacted().export(), "bindings": []}),
    lambda: Remap.restore({**compacted().export(), "bindings": [[7, [3]], [10, [2]]]}),
    lambda: Remap.restore({**compacted().export(), "bindings": [[7, [3]], [7, [4]]]}),
    lambda: Remap.restore({**compacted().export(), "upper": 10}), lambda: Remap.restore({"version": 1, "start": [0]}),
    lambda: Remap.restore({**compacted().export(), "bindings": [[7]]}),
])  # fmt: skip
def test_what_can_never_be_right_is_refused(wrong: Callable[[], Any]) -> None:
    """Also a damaged export."""
    with pytest.raises(MalformedError):
        wrong()


def test_a_hold_that_is_released_forgets_nothing_that_nobody_compacted() -> None:
    """Not even the first time."""
    remap = remap_of(Antichain([0]), (1000, Antichain([3])))
    with remap.hold():
        pass

    assert (0, Antichain([0])) == (remap.since, remap.at(0))


def test_who_catches_up_has_come_as_far_and_is_as_open() -> None:
    """Also where nothing has happened since; and two that differ where they meet are refused."""
    behind, ahead = remap_of(Antichain([0]), (1000, Antichain([3]))), remap_of(Antichain([0]), (1000, Antichain([3])))
    idle = ahead.idle(2000)
    assert idle is not None and ahead.follow(idle)

    assert [idle] == behind.catch_up(ahead)
    assert Antichain([2001]) == behind.upper == ahead.upper

    other = remap_of(Antichain([0]), (2000, Antichain([4])), (3000, Antichain([5])))
    other.compact(2000)
    with pytest.raises(RefusedError, match="at 2000 the sources were at .*one of them was read from another place"):
        behind.catch_up(other)
