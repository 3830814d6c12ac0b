"""Two catalogues that want the same names: what one has, the other neither takes nor removes."""

from __future__ import annotations

from itertools import count

from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.intents import DesiredState
from cdcv2.control.reconcile import Reconciliation
from tests.external_world import MemoryCatalogue, World

SLOT, CONNECTOR = (Kind.SLOT, "a", "shop"), (Kind.CONNECTOR, "a", "shop")
PAIR = [
    DesiredState(Kind.SLOT, "shop", "a", {"plugin": "pgoutput"}, True, "job", maker=CONNECTOR),
    DesiredState(Kind.CONNECTOR, "shop", "a", {"slot": "shop"}, True, "job", needs=(SLOT,)),
]


class OneOfTwo:
    """A catalogue of its own, on servers that another one uses too."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._numbers, self._name = world, count(1), name
        kinds = world.kinds()
        self.control = Reconciliation(MemoryCatalogue().taken(), kinds, lambda: world.now)  # type: ignore[arg-type]

    def desire(self, *wishes: DesiredState) -> None:
        """These, and nothing else."""
        self.control.desire(wishes, lambda: f"{self._name}{next(self._numbers)}")

    def settle(self) -> None:
        """All arrives, and the time of doubts passes."""
        for _ in range(4):
            self.control.round()
            self._world.deliver(late=False)
            self._world.now += DOUBT + 1

    def entry(self, kind: Kind) -> CatalogueEntry:
        """The last one of the kind."""
        return [one for one in self.control.catalogue.entries() if one.kind is kind][-1]


def test_the_slot_of_anothers_connector_is_not_ours() -> None:
    """Both saw that there was none, and one made the connector that makes it."""
    world = World()
    first, second = OneOfTwo(world, "a"), OneOfTwo(world, "b")
    second.desire(PAIR[0], PAIR[1])
    world.server("a").hindered = Reason.UNREACHABLE
    second.control.round()
    world.server("a").hindered, world.now = None, world.now + 70
    # The look of the second at the slot comes before the connector of the first, and its own connector after it.
    second.control._advance(second.entry(Kind.SLOT))
    first.desire(*PAIR)
    first.settle()
    second.settle()
    assert EntryState.MADE is first.entry(Kind.SLOT).state
    assert (EntryState.WANTED, None) == (second.entry(Kind.SLOT).state, second.entry(Kind.SLOT).identity)
    refused = second.entry(Kind.CONNECTOR).debt
    assert refused is not None and Reason.REFUSED is refused.reason

    second.desire()
    second.settle()
    assert {EntryState.GONE} == {one.state for one in second.control.catalogue.entries()}
    first.settle()
    assert EntryState.MADE is first.entry(Kind.SLOT).state
    first.desire()
    first.settle()
    assert {} == world.server("a").objects


def test_a_topic_that_another_has_is_not_taken_while_it_is_empty() -> None:
    """Its pipeline may be about to write into it."""
    world = World()
    first, second = OneOfTwo(world, "a"), OneOfTwo(world, "b")
    topic = DesiredState(Kind.TOPIC, "orders", "a", {"partitions": 1}, True, "job")
    first.desire(topic)
    first.settle()
    second.desire(topic)
    second.settle()
    debt = second.entry(Kind.TOPIC).debt
    assert debt is not None and (EntryState.WANTED, Reason.REFUSED) == (second.entry(Kind.TOPIC).state, debt.reason)

    second.desire()
    second.settle()
    first.settle()
    assert EntryState.MADE is first.entry(Kind.TOPIC).state
