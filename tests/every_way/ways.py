"""The ways to capture a history without Spark, and the check of each; what is refused, and where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest import mock

from cdcv2.capture import released_ends
from cdcv2.capture.released_transactions import ReleasedTransactions
from cdcv2.capture.transactions import TransactionTracker
from tests.every_way import pure
from tests.every_way.compare import Case
from tests.every_way.judge import Way
from tests.every_way.pure import Came
from tests.every_way.world import World, drawn


@contextmanager
def knowing(known: int | None) -> Iterator[None]:
    """Captures know so many of the ENDs that are released, so that a short history is longer than that."""
    with ExitStack() as stack:
        if known is not None:
            stack.enter_context(mock.patch.object(released_ends, "KNOWN", known))
            for one in (TransactionTracker.__init__, ReleasedTransactions.__init__, released_ends.recall):
                stack.enter_context(mock.patch.dict(one.__kwdefaults__, known=known))
        yield


def judged_by(world: World, way: Way) -> World:
    """The history as the judge sees it: in no order a table begins with whatever is given out first."""
    return world if way.ordering == "commit" else replace(world, late=False)


@dataclass(frozen=True)
class Road:
    """A kind of capture, and what is asked of it; ``bound``: on a remap."""

    name: str
    way: Way
    bound: bool
    run: Callable[[World, Way, int], Came]

    def takes(self, world: World) -> bool:
        """Whether such a history can be captured so.

        On a remap somebody must count the rows of a snapshot.
        """
        return not self.bound or world.snapshot != "marked"

    def check(self, world: World) -> Came:
        """Run it, and judge. Raises :class:`~tests.every_way.compare.Different`."""
        with knowing(world.known):
            came = self.run(world, self.way, world.seed)
        Case(self.name, judged_by(world, self.way), self.way, came, bound=self.bound).check()
        return came


#: Every one that is not refused; see ``test_every_way.py`` for those that are.
ROADS = (
    Road("commit times", Way(), False, pure.by_commits),
    Road("commit times, from state", Way(state=True), False, pure.by_commits),
    Road("commit times, spilled", Way(), False, pure.by_commits_spilled),
    Road("commit times, cut", Way(), False, pure.by_commits_cut),
    Road("commit times, cut, from state", Way(state=True), False, pure.by_commits_cut),
    Road("remap", Way(), True, pure.bound),
    Road("remap, from state", Way(state=True), True, pure.bound),
    Road("remap, as complete", Way("complete"), True, pure.bound),
)


def checked(seeds: Collection[int], features: Collection[str]) -> Iterator[tuple[World, Road, Came]]:
    """Every history of these seeds, every way: raises at the first difference."""
    for seed in seeds:
        world = drawn(seed, features)
        for road in ROADS:
            if road.takes(world):
                yield world, road, road.check(world)
