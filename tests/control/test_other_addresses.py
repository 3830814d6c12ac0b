"""A server may have several addresses: what is still wanted by another one is the same thing, and is not removed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.cli.down import remove_all
from cdcv2.cli.up import show_entries
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.intents import DesiredState, used
from cdcv2.control.pipeline_changes import external_changes, planned_entries
from cdcv2.control.reconcile import Reconciliation
from cdcv2.errors import Cdcv2Error
from cdcv2.exits import Exit
from tests.external_world import OTHERS, MemoryCatalogue, World, WorldObject, WorldServer

#: Each kind that has an identity of its own, and is no half of a pair.
ALONE = (Kind.TOPIC, Kind.REMAP, Kind.PUBLICATION, Kind.CONNECTOR, Kind.TARGET_TABLE, Kind.STAGING)


class Renamed:
    """A server with the addresses h and localhost, another one, and a catalogue."""

    def __init__(self) -> None:
        self.world, self.catalogue, self._numbers = World(), MemoryCatalogue(), count(1)
        self.world.slots_by_name = True
        self.world.name("h", "localhost")
        self.control = Reconciliation(
            self.catalogue.taken(), self.world.kinds(), lambda: self.world.now  # type: ignore[arg-type]
        )

    def up(self, *desired: DesiredState, rounds: int = 3) -> dict[tuple[Kind, str], CatalogueEntry]:
        """What is left then, by kind and address; what is there is in use."""
        self.control.desire(desired, lambda: f"n{next(self._numbers)}")
        for _ in range(rounds):
            self.control.round()
            self.world.deliver(late=False)
            self.world.now += DOUBT + 1
        for entry in self.catalogue.kept.values():
            if entry.is_there:
                self.catalogue.kept[entry.nonce] = used(entry, self.world.now)
        live = [one for one in self.catalogue.kept.values() if one.state is not EntryState.GONE]
        return {(one.kind, one.address): one for one in live}

    def plan(self, *desired: DesiredState) -> list[tuple[str, str]]:
        """What would be done, and to what."""
        entries, kinds = list(self.catalogue.kept.values()), self.world.kinds()
        after = planned_entries(entries, desired, self.world.now)
        found = external_changes(entries, after, lambda one: kinds[one.kind].look(one), self.world.now)
        return [(change.act, change.what) for change in found]


def wish(kind: Kind, address: str = "h", **more: object) -> DesiredState:
    return replace(DesiredState(kind, "shop", address, {"size": 1}, True, "job"), **more)  # type: ignore[arg-type]


PAIR = (
    wish(Kind.SLOT, settings={"plugin": "pgoutput"}, maker=(Kind.CONNECTOR, "h", "shop")),
    wish(Kind.CONNECTOR, settings={"slot": "shop"}, needs=((Kind.SLOT, "h", "shop"),)),
)


def by_address(pair: tuple[DesiredState, ...], address: str) -> list[DesiredState]:
    return [
        replace(one, address=address, needs=tuple((kind, address, name) for kind, _, name in one.needs),
                maker=one.maker and (one.maker[0], address, one.maker[2]))
        for one in pair
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
def test_what_is_wanted_by_another_address_is_the_same(kind: Kind) -> None:
    """It goes on there, with its nonce and its identity; and back again."""
    case = Renamed()
    before = case.up(wish(kind))[kind, "h"]
    for address, old in (("localhost", "h"), ("h", "localhost")):
        assert [("keep", f"{kind} shop ({address})")] == case.plan(wish(kind, address))
        after = case.up(wish(kind, address))
        assert {(kind, address)} == after.keys()
        found = after[kind, address]
        assert (before.nonce, before.identity, EntryState.IN_USE, None) == (
            found.nonce, found.identity, found.state, found.debt), old
        assert [] == case.plan(wish(kind, address))


@pytest.mark.parametrize("kind", ALONE)
def test_what_an_older_release_let_go_does_not_go_on(kind: Kind) -> None:
    """It did not record what was there before, nor whether a removal was begun."""
    case = Renamed()
    before = case.up(wish(kind))[kind, "h"]
    old = replace(before, state=EntryState.UNWANTED, before=None, removal=False)
    case.catalogue.kept[before.nonce] = old
    after = case.up(wish(kind, "localhost"))
    assert before.nonce not in {one.nonce for one in after.values() if one.is_live}


def test_a_slot_goes_on_with_its_connector() -> None:
    """Both by the other address; what needs them names those that went on."""
    case = Renamed()
    before = case.up(*PAIR)
    after = case.up(*by_address(PAIR, "localhost"))

    assert {(Kind.SLOT, "localhost"), (Kind.CONNECTOR, "localhost")} == after.keys()
    for kind in (Kind.SLOT, Kind.CONNECTOR):
        old, new = before[kind, "h"], after[kind, "localhost"]
        assert (old.nonce, old.identity, old.needs, old.maker) == (new.nonce, new.identity, new.needs, new.maker)


def test_a_slot_does_not_go_on_with_another_connector() -> None:
    """That of another Kafka Connect would take its snapshot at another moment: it is refused, as before."""
    case = Renamed()
    case.up(*PAIR)
    slot = replace(PAIR[0], address="localhost", maker=(Kind.CONNECTOR, "other", "shop"))
    connector = replace(PAIR[1], address="other", needs=((Kind.SLOT, "localhost", "shop"),))
    case.world.server("h").hindered = None
    after = case.up(slot, connector, rounds=1)

    assert Reason.REFUSED is (after[Kind.SLOT, "localhost"].debt or pytest.fail("nothing is owed")).reason


@pytest.mark.parametrize("kind", ALONE)
def test_nothing_is_removed_before_what_is_wanted_was_looked_at(kind: Kind) -> None:
    """The new address does not answer yet; when it does, it is another server, or the same."""
    for other, expected in (("other", 1), ("late", 0)):
        case = Renamed()
        case.up(wish(kind))
        case.world.name("h", "late")
        case.world.servers[other] = replace(case.world.servers[other]) if other in case.world.servers else (
            case.world.server(other))  # fmt: skip
        case.world.servers[other].hindered = Reason.UNREACHABLE
        owed = case.up(wish(kind, other))[kind, "h"]
        assert (EntryState.UNWANTED, Reason.UNREACHABLE) == (owed.state, owed.debt and owed.debt.reason)
        assert owed.debt and f"{owed.shown} may be what the file has at another address now" in owed.debt.text
        assert ("unreachable", f"{kind} shop ({other})") in case.plan(wish(kind, other))

        case.world.servers[other] = case.world.server("h") if other == "late" else case.world.server(other)
        case.world.servers[other].hindered = None
        after = case.up(wish(kind, other))
        assert {(kind, other)} == after.keys()
        assert expected == (after[kind, other].identity != owed.identity)


@pytest.mark.parametrize("kind", ALONE)
def test_the_file_is_put_back_before_anything_was_removed(kind: Kind) -> None:
    """The server was away under its new address, or another one had the name there: it is as it was."""
    case = Renamed()
    before = case.up(wish(kind))[kind, "h"]
    case.world.server("other").hindered = Reason.UNREACHABLE
    case.up(wish(kind, "other"))
    assert [] == [one for one in case.plan(wish(kind)) if one[0] in ("make", "remove", "refused", "take over")]
    after = case.up(wish(kind))

    assert {(kind, "h")} == after.keys()
    assert (before.nonce, before.identity, EntryState.IN_USE) == (
        after[kind, "h"].nonce, after[kind, "h"].identity, after[kind, "h"].state)


def test_one_thing_under_two_addresses_in_one_file_is_named() -> None:
    """Neither is removed, also when one of the two is left out."""
    case = Renamed()
    both = case.up(wish(Kind.TOPIC), wish(Kind.TOPIC, "localhost", user="other job"))
    debt = both[Kind.TOPIC, "localhost"].debt
    assert debt is not None and Reason.REFUSED is debt.reason
    assert "the file has, too: one server, by two addresses" in debt.text
    identity = both[Kind.TOPIC, "h"].identity
    after = case.up(wish(Kind.TOPIC, "localhost", user="other job"))
    assert [identity] == [one.identity for one in after.values()]


def test_a_copy_of_a_database_has_the_same_marks_and_is_another() -> None:
    """Its number there is another one: the entry stays where it is, and what has its mark is refused."""
    case = Renamed()
    first = case.up(wish(Kind.TARGET_TABLE))[Kind.TARGET_TABLE, "h"]
    case.world.put("other", Kind.TARGET_TABLE, "shop", WorldObject("copied", OTHERS, {"size": 1}, first.nonce))
    case.world.server("other").identity = case.world.server("h").identity
    after = case.up(wish(Kind.TARGET_TABLE, "other"), rounds=1)
    assert Reason.REFUSED is (after[Kind.TARGET_TABLE, "other"].debt or pytest.fail("nothing is owed")).reason
    assert OTHERS == case.world.server("other").objects[Kind.TARGET_TABLE, "shop"].maker


def test_what_was_requested_by_one_address_may_still_come_by_another() -> None:
    """The answer was lost: nothing is made twice, and what comes is ours."""
    case = Renamed()
    case.world.losing = True
    case.control.desire([wish(Kind.TARGET_TABLE)], lambda: "n1")
    case.control.round()
    case.control.desire([wish(Kind.TARGET_TABLE, "localhost")], lambda: "n2")
    case.control.round()
    (owed,) = [one for one in case.catalogue.kept.values() if one.address == "localhost"]
    assert (None, Reason.AWAITED) == (owed.attempted, owed.debt and owed.debt.reason)
    case.world.deliver(late=False)
    case.world.now += 5
    case.control.round()
    there = case.world.server("h").objects[Kind.TARGET_TABLE, "shop"]
    assert {"n1": EntryState.MADE, "n2": EntryState.GONE} == {
        one.nonce: one.state for one in case.catalogue.kept.values()
    }
    assert "n1" == there.maker


def test_no_error_stops_a_round() -> None:
    """Also where an entry of another address is looked at."""
    case = Renamed()
    case.up(wish(Kind.TOPIC))
    kind = case.world.kinds()[Kind.TOPIC]
    look = kind.look

    def failing(entry: CatalogueEntry) -> object:
        if entry.address == "other":
            raise Cdcv2Error("odd")
        return look(entry)

    kind.look = failing  # type: ignore[assignment,method-assign]
    case.control = Reconciliation(
        case.catalogue.taken(), {Kind.TOPIC: kind}, lambda: case.world.now  # type: ignore[arg-type, dict-item]
    )
    after = case.up(wish(Kind.TOPIC, "other"))
    assert Reason.DENIED is (after[Kind.TOPIC, "h"].debt or pytest.fail("nothing is owed")).reason


def test_all_is_removed_by_the_address_that_the_file_has_now() -> None:
    """No ``cdcv2 up`` ran since the address was changed, and the old one is not in the file."""
    case = Renamed()
    case.up(wish(Kind.TOPIC))
    case.world.servers["h"] = WorldServer("server-h", hindered=Reason.UNREACHABLE)
    external: Any = SimpleNamespace(needs=SimpleNamespace(desired=lambda entries: [wish(Kind.TOPIC, "localhost")]))

    assert Exit.DONE == remove_all(case.control, external, 0.0)
    assert {} == case.world.server("localhost").objects


def test_a_job_is_started_on_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first round: so it is not restarted later as one that needs another thing. No line reads as a loss."""
    case = Renamed()
    nonce = case.up(wish(Kind.TOPIC))[Kind.TOPIC, "h"].nonce
    case.control.desire([wish(Kind.TOPIC, "localhost")], lambda: "new")
    shown = dict[str, str]()
    show_entries("up", case.catalogue.kept.values(), shown)
    case.control.find_known()
    capsys.readouterr()
    show_entries("up", case.catalogue.kept.values(), shown)
    assert [
        "cdcv2 up: the topic 'shop' (localhost): in use",
        f"cdcv2 up: the topic 'shop' (localhost): it is there already, and continues as entry {nonce}",
    ] == capsys.readouterr().err.splitlines()
    assert [(nonce, "localhost")] == [(one.nonce, one.address) for one in case.catalogue.kept.values() if one.is_live]
