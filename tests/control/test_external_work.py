"""What jobs need is made beside them: a job starts when all of it is there, and what it needed is removed behind it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.control import external_work
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Look, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.external_work import ExternalWork
from cdcv2.control.intents import DesiredState
from cdcv2.control.reconcile import Reconciliation
from cdcv2.errors import FencedError, MalformedError, OutputError, RefusedError, UnavailableError, UsageError
from cdcv2.servers.processes import poll_until
from tests.external_world import MemoryCatalogue, World, WorldKind, WorldObject

SLOT = DesiredState(Kind.SLOT, "shop", "db", {"plugin": "pgoutput"}, True, "shop")
TABLE = DesiredState(Kind.TARGET_TABLE, "orders", "copy", {}, True, "copy")
THEIRS = DesiredState(Kind.CONNECTOR, "shop", "c", {}, False, "shop")


class Setting:
    """Servers, a catalogue, and the work on them."""

    def __init__(self, *desired: DesiredState) -> None:
        self.world, self.catalogue = World(), MemoryCatalogue()
        self.work = self.controller(*desired)

    def controller(self, *desired: DesiredState, at_work: tuple[str, ...] = ()) -> ExternalWork:
        """Another owner, for a file with these needs."""
        owner: Any = self.catalogue.taken()
        control = Reconciliation(owner, self.world.kinds(), lambda: self.world.now)  # type: ignore[arg-type]
        control.desire(desired, iter("abcdefgh").__next__ if not self.catalogue.kept else iter("ijklmnop").__next__)
        return ExternalWork(control, ["shop", "copy"], owner.entries, at_work=at_work)

    def turn(self, seconds: float = 70.0) -> None:
        """A round, and a look at what became of it."""
        self.world.now += seconds
        self.work.turn()
        self.work.look()

    def entry(self, kind: Kind) -> CatalogueEntry:
        """The last one of a kind."""
        return [one for one in self.catalogue.kept.values() if one.kind is kind][-1]


def test_a_job_waits_for_what_it_needs_and_not_for_what_another_needs() -> None:
    """The text has the reason and since when; what others run is not waited for, and is shown."""
    setting = Setting(SLOT, TABLE, THEIRS)
    setting.world.server("db").hindered = Reason.UNREACHABLE
    assert "slot shop (wanted)" == setting.work.waits("shop")
    setting.turn()

    assert "slot shop (unreachable since 1970-01-01 00:17:50 UTC: db is unreachable)" == setting.work.waits("shop")
    assert setting.work.waits("copy") is None
    assert EntryState.IN_USE is setting.entry(Kind.TARGET_TABLE).state
    assert (False, [Kind.SLOT]) == (setting.work.is_done(), [one.kind for one in setting.work.left()])

    setting.world.server("db").hindered = None
    setting.turn()
    assert (None, True) == (setting.work.waits("shop"), setting.work.is_done())
    assert EntryState.IN_USE is setting.entry(Kind.SLOT).state
    assert Reason.MISSING is setting.entry(Kind.CONNECTOR).debt.reason  # type: ignore[union-attr]


def test_no_job_starts_before_what_it_uses_was_looked_at() -> None:
    """What was in use when the last owner ended may be lost by now: nothing is done before that is known."""
    setting = Setting(TABLE)
    setting.turn()
    setting.world.server("copy").objects.clear()
    setting.work = setting.controller(TABLE)
    setting.work.look()
    assert ("a first look at what it needs", None) == (setting.work.waits("copy"), setting.work.waits("shop"))
    assert not setting.work.is_done()
    setting.turn()

    assert EntryState.LOST is setting.entry(Kind.TARGET_TABLE).state and setting.work.is_stuck()
    assert not setting.work.is_done() and [Kind.TARGET_TABLE] == [one.kind for one in setting.work.left()]


def test_a_server_that_is_away_delays_a_first_look_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that need another one start then."""
    setting = Setting(TABLE)
    setting.turn()
    setting.work = setting.controller(TABLE)
    setting.work.look()
    assert setting.work.waits("copy") is not None
    monkeypatch.setattr(external_work, "FIRST_LOOK", -1.0)

    assert setting.work.waits("copy") is None


def test_what_others_run_and_is_lost_is_left_to_be_done() -> None:
    """A timer that runs cdcv2 up --once fails by it."""
    setting = Setting(replace(SLOT, owned=False))
    setting.world.put("db", Kind.SLOT, "shop", WorldObject("7", "others", dict(SLOT.settings)))
    setting.turn()
    assert EntryState.IN_USE is setting.entry(Kind.SLOT).state and setting.work.is_done()
    setting.world.server("db").objects.clear()
    setting.world.put("db", Kind.SLOT, "shop", WorldObject("8", "others", dict(SLOT.settings)))
    setting.turn()

    assert EntryState.LOST is setting.entry(Kind.SLOT).state
    assert (False, [Kind.SLOT]) == (setting.work.is_done(), [one.kind for one in setting.work.left()])


def test_nothing_is_in_use_before_the_job_may_start() -> None:
    """What is missing while it is in use is lost; before, it is made again."""
    another = DesiredState(Kind.TOPIC, "t", "away", {}, True, "copy")
    setting = Setting(TABLE, another)
    setting.world.server("away").hindered = Reason.UNREACHABLE
    setting.turn()

    found = [setting.entry(kind).state for kind in (Kind.TARGET_TABLE, Kind.TOPIC)]
    assert [EntryState.MADE, EntryState.WANTED] == found
    assert setting.work.waits("copy")


def test_what_a_job_needed_is_removed_when_that_job_has_ended() -> None:
    """It was dropped from the file, and still runs: it would write into what is missing."""
    setting = Setting(SLOT, TABLE)
    setting.turn()
    setting.work = setting.controller(SLOT, at_work=("copy",))
    setting.turn()
    assert EntryState.UNWANTED is setting.entry(Kind.TARGET_TABLE).state
    assert (Kind.TARGET_TABLE, "orders") in setting.world.server("copy").objects
    assert not setting.work.is_done()

    setting.work.at_work = frozenset()
    setting.turn()
    assert (EntryState.GONE, True) == (setting.entry(Kind.TARGET_TABLE).state, setting.work.is_done())
    assert not setting.world.server("copy").objects


def test_a_server_that_is_away_is_asked_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its entries would wait as long as the first."""
    topics = [DesiredState(Kind.TOPIC, f"t{number}", "k", {}, True, "copy") for number in range(5)]
    setting = Setting(*topics)
    setting.world.server("k").hindered = Reason.UNREACHABLE
    asked = []
    look = WorldKind.look

    def watched(self: WorldKind, entry: CatalogueEntry) -> Look:
        asked.append(entry.name)
        return look(self, entry)

    monkeypatch.setattr(WorldKind, "look", watched)
    setting.turn()

    assert ["t0"] == asked
    assert [Reason.UNREACHABLE] * 5 == [one.debt.reason for one in setting.catalogue.kept.values() if one.debt]


@pytest.mark.parametrize("error, reason", [
    (UnavailableError("db answers nonsense"), Reason.UNREACHABLE), (RefusedError("db is locked"), Reason.BUSY),
    (UsageError("db has another form"), Reason.DENIED), (MalformedError("db has another form"), Reason.DENIED),
])
@pytest.mark.parametrize("act", ["look", "make"])
def test_an_error_about_one_thing_delays_no_other(
    monkeypatch: pytest.MonkeyPatch, act: str, error: Exception, reason: Reason
) -> None:
    """It is owed by that entry; and it is made when the error is over."""
    usual = getattr(WorldKind, act)

    def failing(self: WorldKind, entry: CatalogueEntry) -> Any:
        if entry.kind is Kind.SLOT:
            raise error
        return usual(self, entry)

    setting = Setting(SLOT, TABLE)
    with monkeypatch.context() as wrong:
        wrong.setattr(WorldKind, act, failing)
        setting.turn()
    debt = setting.entry(Kind.SLOT).debt
    assert debt is not None and (reason, str(error)) == (debt.reason, debt.text)
    assert EntryState.IN_USE is setting.entry(Kind.TARGET_TABLE).state

    setting.turn()
    assert EntryState.IN_USE is setting.entry(Kind.SLOT).state


@pytest.mark.parametrize("error", [FencedError("taken over"), OutputError("the disk is full")])
def test_what_ends_the_owner_is_no_answer_of_a_server(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """After these, nothing may go on."""

    def failing(self: WorldKind, entry: CatalogueEntry) -> Look:
        raise error

    setting = Setting(SLOT)
    monkeypatch.setattr(WorldKind, "look", failing)
    with pytest.raises(type(error)):
        setting.turn()


def test_in_a_thread_it_works_until_it_is_taken_over_from() -> None:
    """The thread that looks after the jobs learns of it, and ends."""
    setting = Setting(SLOT)
    with setting.work as work:
        assert poll_until(lambda: setting.entry(Kind.SLOT).state is EntryState.IN_USE, 30)
        work.look()
        assert work.waits("shop") is None
        setting.catalogue.taken()
        # Something that would be written.
        setting.world.server("db").objects.clear()

        def fenced() -> bool:
            try:
                work.look()
            except FencedError:
                return True
            setting.world.now += 60
            return False

        assert poll_until(fenced, 30)
    with pytest.raises(FencedError):
        work.look()
    assert "external state" not in [one.name for one in threading.enumerate()]


@pytest.mark.parametrize("back", [61.0, 3600.0, 10**9])
def test_a_clock_that_is_set_back_delays_nothing_for_longer(back: float) -> None:
    """What is owed is tried again at once, and a server that was away is asked."""
    setting = Setting(TABLE)
    setting.world.server("copy").hindered = Reason.UNREACHABLE
    for _ in range(8):
        setting.turn()
    setting.world.server("copy").hindered = None
    setting.turn(-back)

    assert EntryState.IN_USE is setting.entry(Kind.TARGET_TABLE).state


def test_a_clock_that_is_set_back_leaves_a_request_in_doubt_for_as_long_as_ever() -> None:
    """It may have been sent a moment ago: that is counted from the new time on."""
    setting = Setting(TABLE)
    setting.world.losing = True
    setting.turn()
    setting.world.pending.clear()
    assert EntryState.WANTED is setting.entry(Kind.TARGET_TABLE).state
    setting.turn(-3600.0)
    setting.turn(DOUBT - 5)
    assert EntryState.WANTED is setting.entry(Kind.TARGET_TABLE).state
    setting.turn(6)
    assert EntryState.IN_USE is setting.entry(Kind.TARGET_TABLE).state


@pytest.mark.parametrize("hindered", [True, False])
def test_a_publication_is_in_use_from_the_request_of_its_connector_on(hindered: bool) -> None:
    """The connector reads by it at once, and its job may be started later, or never."""
    publication = DesiredState(Kind.PUBLICATION, "shop", "db", {"tables": ["a.b"]}, True, "job")
    connector = DesiredState(Kind.CONNECTOR, "shop", "connect", {}, True, "job", needs=(publication.key,))
    world, catalogue, nonces = World(), MemoryCatalogue(), iter("ab")
    owner = catalogue.taken()
    control = Reconciliation(owner, world.kinds(), lambda: world.now)  # type: ignore[arg-type]
    world.server("connect").hindered = Reason.UNREACHABLE if hindered else None
    control.desire([publication, connector], nonces.__next__)
    control.round()
    states = {one.kind: one.state for one in owner.entries()}

    assert states == (
        {Kind.PUBLICATION: EntryState.MADE, Kind.CONNECTOR: EntryState.WANTED} if hindered
        else {Kind.PUBLICATION: EntryState.IN_USE, Kind.CONNECTOR: EntryState.MADE}
    )


def test_what_was_captured_since_a_look_shows_that_a_server_was_put_back() -> None:
    """Its slot had confirmed less at the last look, as looks are seconds apart. What an earlier job had counts not."""
    setting = Setting(SLOT)
    setting.turn()
    slot = setting.entry(Kind.SLOT)
    assert EntryState.IN_USE is slot.state and slot.slot is not None
    flushed = slot.slot.wal
    mark = replace(slot.slot, flushed=flushed, confirmed=flushed - 9)
    for captured, expected in ((flushed, EntryState.IN_USE), (flushed + 1, EntryState.LOST), (None, EntryState.IN_USE)):
        setting.catalogue.kept[slot.nonce] = replace(slot, slot=mark)
        asked = list[tuple[str, float]]()

        def ask(job: str, since: float, captured: int | None = captured) -> int | None:
            asked.append((job, since))
            return captured

        owner: Any = setting.catalogue.taken()
        kinds: Any = setting.world.kinds()
        look = kinds[Kind.SLOT].look

        class Flushed:
            """The slots of this world, whose server states what is safe."""

            def look(self, entry: CatalogueEntry) -> Any:
                found = look(entry)
                return replace(found, thing=replace(found.thing, slot=replace(found.thing.slot, flushed=flushed)))

        Reconciliation(owner, {**kinds, Kind.SLOT: Flushed()}, lambda: setting.world.now + 90, ask).round()
        assert (expected, [("shop", slot.since)]) == (setting.entry(Kind.SLOT).state, asked[:1])
