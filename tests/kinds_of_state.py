"""What every kind of external state must do in its own system, whichever that is: the same stories for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2 import failpoints
from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.intents import DesiredState, used, used_by
from cdcv2.control.reconcile import ACT_DONE, INTENT_WRITTEN, ExternalKind, Reconciliation
from tests.external_world import MemoryCatalogue


@dataclass
class KindCase:
    """One kind, where it can be tried.

    ``theirs`` makes one that is not ours under the name, ``drop`` removes what is there by hand, ``exists`` looks
    without our code, ``steps`` are the crash points inside its acts.
    """

    kind: Kind
    how: ExternalKind
    address: str
    name: str
    settings: Mapping[str, Any]
    theirs: Callable[[], object]
    drop: Callable[[], object]
    exists: Callable[[], bool]
    steps: tuple[str, ...] = ()
    now: float = 1000.0
    catalogue: MemoryCatalogue = field(default_factory=MemoryCatalogue)

    def control(self) -> Reconciliation:
        """A new owner of the catalogue."""
        return Reconciliation(self.catalogue.taken(), {self.kind: self.how}, lambda: self.now)  # type: ignore[arg-type]

    def desired(self, **changes: Any) -> list[DesiredState]:
        """It, for a job."""
        plain = DesiredState(self.kind, self.name, self.address, self.settings, True, "capture shop")
        return [replace(plain, **changes)]

    def entry(self) -> CatalogueEntry:
        """The last one."""
        return list(self.catalogue.kept.values())[-1]

    def up(self, **changes: Any) -> CatalogueEntry:
        """What has become of it."""
        control = self.control()
        control.desire(self.desired(**changes), lambda: f"n{len(self.catalogue.kept)}{self.kind.value[:1]}x")
        return self.go_on(control)

    def down(self) -> CatalogueEntry:
        """The same, when no job needs it."""
        control = self.control()
        control.desire([], lambda: "never")
        return self.go_on(control)

    def use(self) -> None:
        """Its job starts."""
        owner = self.catalogue.taken()
        owner.write(used_by("capture shop", owner.entries(), self.now))

    def go_on(self, control: Reconciliation | None = None) -> CatalogueEntry:
        """Some rounds, with the time that doubts take between them."""
        control = control or self.control()
        for _ in range(3):
            control.round()
            self.now += DOUBT + 1
        return self.entry()


def make_and_remove(case: KindCase) -> None:
    """Made with its identity recorded, found again by the next owner, removed, and `gone`."""
    made = case.up()
    assert (EntryState.MADE, None, True) == (made.state, made.debt, case.exists()), made
    assert made.identity is not None and made.server is not None
    assert made == case.go_on()

    assert (EntryState.GONE, False) == (case.down().state, case.exists())


def crash_everywhere(case: KindCase) -> None:
    """Wherever a process dies on the way up or down, the next one ends where it should have."""
    for step in (INTENT_WRITTEN, ACT_DONE, *case.steps):
        for way, expected in ((case.up, EntryState.MADE), (case.down, EntryState.GONE)):
            with failpoints.placed(step):
                try:
                    way()
                except failpoints.PlacedCrash:
                    pass
            case.now += DOUBT + 1
            entry = case.go_on()

            assert (expected, expected is EntryState.MADE) == (entry.state, case.exists()), (step, entry)


def leave_others_alone(case: KindCase) -> None:
    """Another's is refused and stays; when it was removed, ours is made; and at the end theirs is not removed."""
    case.theirs()
    refused = case.up()
    assert refused.debt is not None
    assert (EntryState.WANTED, Reason.REFUSED, True) == (refused.state, refused.debt.reason, case.exists()), refused
    assert (EntryState.GONE, True) == (case.down().state, case.exists())

    case.up()
    case.drop()
    assert EntryState.MADE is case.go_on().state
    case.drop()
    case.theirs()
    assert (EntryState.GONE, True) == (case.down().state, case.exists())
    case.drop()


def already_missing(case: KindCase) -> None:
    """What was removed by hand is `gone` when unwanted, and lost while a job uses it, if it holds something."""
    case.up()
    case.drop()
    assert EntryState.GONE is case.down().state

    case.up()
    case.catalogue.kept[case.entry().nonce] = used(case.entry(), case.now)
    case.drop()
    entry = case.go_on()
    expected = EntryState.MADE if entry.rules.remade else EntryState.LOST
    assert (expected, entry.rules.remade) == (entry.state, case.exists())
    assert (EntryState.GONE, False) == (case.down().state, case.exists())


def moved(case: KindCase) -> None:
    """Another server at the same address: nothing is done to it, and it is owed until the right one is back."""
    made = case.up()
    case.catalogue.kept[made.nonce] = replace(made, server="another")
    entry = case.down()
    assert entry.debt is not None
    assert (EntryState.UNWANTED, Reason.MOVED, True) == (entry.state, entry.debt.reason, case.exists())

    case.catalogue.kept[made.nonce] = replace(entry, server=made.server)
    assert (EntryState.GONE, False) == (case.go_on().state, case.exists())


def undeclared(case: KindCase) -> None:
    """Without a connection any more: owed, and named."""
    made = case.up()
    # By another address that leads to its server it would be found.
    case.catalogue.kept[made.nonce] = replace(made, address="nowhere", server="another")
    entry = case.down()
    assert entry.debt is not None and "nowhere" in entry.debt.text
    assert (EntryState.UNWANTED, Reason.UNREACHABLE) == (entry.state, entry.debt.reason)

    case.catalogue.kept[made.nonce] = replace(entry, address=case.address, server=made.server)
    assert EntryState.GONE is case.go_on().state


def theirs_is_looked_at(case: KindCase) -> None:
    """`owned: no`: recorded, and there afterwards."""
    case.theirs()
    made = case.up(owned=False)
    assert EntryState.MADE is made.state
    assert isinstance(case.how.look(made), Answer)

    assert (EntryState.GONE, True) == (case.down().state, case.exists())
    case.drop()


STORIES = (
    make_and_remove, crash_everywhere, leave_others_alone, already_missing, moved, undeclared, theirs_is_looked_at,
)  # fmt: skip
