"""What was ours, was let go by the file, and is stated as ours again: only what we made is taken back."""

from __future__ import annotations

from itertools import count

import pytest

from cdcv2.control.entries import CatalogueEntry, EntryState, Kind
from cdcv2.control.intents import DesiredState, used_by
from cdcv2.control.reconcile import Reconciliation
from tests.external_world import MARKED, OTHERS, MemoryCatalogue, World, WorldObject

NAME = "x"


class LetGo:
    """One thing of a job, which the file states as ours or not."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.world, self._numbers = kind, World(), count(1)
        self.control = Reconciliation(
            MemoryCatalogue().taken(), self.world.kinds(), lambda: self.world.now  # type: ignore[arg-type]
        )

    def state(self, owned: bool | None, *, rounds: int = 5) -> None:
        """The file has it, as ours or not; None: it is left out. Then it settles."""
        wish = DesiredState(self.kind, NAME, "s", {"size": 1}, bool(owned), "job")
        self.control.desire([] if owned is None else [wish], lambda: f"n{next(self._numbers)}")
        self.settle(rounds)

    def settle(self, rounds: int = 5) -> None:
        """Time passes."""
        for _ in range(rounds):
            self.world.now += 70
            self.control.round()

    def entry(self) -> CatalogueEntry:
        """The last one."""
        return self.control.catalogue.entries()[-1]

    def use(self) -> None:
        """The job was started."""
        self.control.catalogue.write(used_by("job", self.control.catalogue.entries(), self.world.now))

    def replaced_by_others(self) -> WorldObject:
        """They make one of the same name and form, with content."""
        theirs = WorldObject(self.world.identity(), OTHERS, {"size": 1}, empty=False)
        self.world.server("s").objects[self.kind, NAME] = theirs
        return theirs


@pytest.mark.parametrize("seen_absent", [True, False])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("kind", list(Kind))
def test_what_others_made_under_its_name_is_not_taken(kind: Kind, used: bool, seen_absent: bool) -> None:
    """It was ours, was dropped while the file had let it go, and was made again by others."""
    thing = LetGo(kind)
    thing.state(True)
    if used:
        thing.use()
    thing.state(False)
    if seen_absent:
        del thing.world.server("s").objects[kind, NAME]
        thing.settle()
    theirs = thing.replaced_by_others()
    thing.settle()
    thing.state(True)
    assert not thing.entry().is_there
    thing.state(None)

    assert {(kind, NAME): theirs} == thing.world.server("s").objects
    assert EntryState.GONE is thing.entry().state


@pytest.mark.parametrize("kind", sorted(set(Kind) - MARKED))
def test_what_others_made_first_is_not_taken_because_we_tried(kind: Kind) -> None:
    """Our request had no answer, and was let go; nothing of ours was ever seen."""
    thing = LetGo(kind)
    thing.world.losing = True
    thing.state(True, rounds=1)
    thing.world.pending.clear()
    theirs = thing.replaced_by_others()
    thing.state(False)
    thing.state(True)
    thing.state(None)

    assert {(kind, NAME): theirs} == thing.world.server("s").objects


@pytest.mark.parametrize("kind", list(Kind))
def test_what_we_made_is_ours_again(kind: Kind) -> None:
    """It was there all the time: nothing is lost by a word that was deleted and written again."""
    thing = LetGo(kind)
    thing.state(True)
    made = thing.world.server("s").objects[kind, NAME]
    thing.state(False)
    thing.state(True)
    assert (True, True, made) == (
        thing.entry().is_there, thing.entry().owned, thing.world.server("s").objects[kind, NAME]
    )
    thing.state(None)

    assert {} == thing.world.server("s").objects
