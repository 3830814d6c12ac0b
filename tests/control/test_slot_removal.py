"""A connector and its slot are removed in an order that leaves no slot behind, and takes none of others."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import count

import pytest

from cdcv2 import failpoints
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT, STARTING, left_alone
from cdcv2.control.intents import DesiredState
from cdcv2.control.kinds.marks import mark_of
from cdcv2.control.reconcile import ACT_DONE, INTENT_WRITTEN, Reconciliation
from cdcv2.control.slot_marks import accepted
from cdcv2.errors import Cdcv2Error, UnavailableError
from tests.external_world import OTHERS, MemoryCatalogue, World, WorldObject

SLOT, CONNECTOR = (Kind.SLOT, "a", "shop"), (Kind.CONNECTOR, "a", "shop")
PAIR = [
    DesiredState(Kind.SLOT, "shop", "a", {"plugin": "pgoutput"}, True, "job", maker=CONNECTOR),
    DesiredState(Kind.CONNECTOR, "shop", "a", {"slot": "shop"}, True, "job", needs=(SLOT,)),
]


class PairOfOurs:
    """The two, on a server that others use too. ``there``: what has the names, by kind."""

    def __init__(self) -> None:
        self.world, self.catalogue, self._numbers = World(), MemoryCatalogue(), count(1)
        self.world.slots_by_name = True
        self.there = self.world.server("a").objects
        #: up to where the transaction topic has what was committed, or why it cannot be read
        self.topic: int | Cdcv2Error | None = None
        self.start()

    def start(self) -> None:
        """Another process goes on."""
        owner = self.catalogue.taken()
        self.control = Reconciliation(
            owner, self.world.kinds(), lambda: self.world.now, sent=self._sent  # type: ignore[arg-type]
        )

    def _sent(self, *_: object) -> int | None:
        if isinstance(self.topic, Cdcv2Error):
            raise self.topic
        return self.topic

    def desire(self, up: bool) -> None:
        """Both, or none."""
        self.control.desire(PAIR if up else [], lambda: f"n{next(self._numbers)}")

    def go_on(self, seconds: float = 4 * DOUBT) -> None:
        """Rounds, a few seconds apart."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.control.round()
            self.world.now += 5
            self.world.deliver(late=True)

    def up(self) -> None:
        """Both are made, and the slot is recorded."""
        self.desire(up=True)
        self.go_on()
        assert {EntryState.MADE} == {one.state for one in self.catalogue.kept.values()}

    def entry(self, kind: Kind) -> CatalogueEntry:
        """The last one of the kind."""
        return [one for one in self.catalogue.kept.values() if one.kind is kind][-1]

    def others_make(self) -> WorldObject:
        """A slot of the same name and form."""
        theirs = WorldObject("shop", OTHERS, {"plugin": "pgoutput"}, empty=False)
        self.there.pop((Kind.SLOT, "shop"), None)
        self.world.put("a", Kind.SLOT, "shop", theirs)
        return theirs


def test_the_connector_is_stopped_then_the_slot_is_removed_and_waited_for_then_the_connector() -> None:
    """A slot that comes late is removed, too: the connector is there until none can come."""
    pair = PairOfOurs()
    pair.desire(up=True)
    pair.control.round()
    pair.desire(up=False)
    # The task that was only starting makes its slot 10 seconds later.
    pair.go_on(15)
    assert {(Kind.CONNECTOR, "shop")} == pair.there.keys()
    assert Reason.STOPPED is (pair.entry(Kind.CONNECTOR).debt or pytest.fail("no debt")).reason
    pair.go_on()
    assert ({}, {EntryState.GONE}) == (pair.there, {one.state for one in pair.catalogue.kept.values()})


@pytest.mark.parametrize("step", [INTENT_WRITTEN, ACT_DONE])
@pytest.mark.parametrize("nth", range(1, 5))
def test_killed_anywhere_on_the_way_down_it_takes_no_slot_of_others(step: str, nth: int) -> None:
    """The connector is there as long as its slot may be, so what others make when it is missing is theirs."""
    pair = PairOfOurs()
    pair.up()
    pair.desire(up=False)
    try:
        with failpoints.placed(step, nth):
            pair.go_on()
    except failpoints.PlacedCrash:
        pass
    theirs = None if (Kind.CONNECTOR, "shop") in pair.there else pair.others_make()
    pair.start()
    pair.go_on()

    assert {EntryState.GONE} == {one.state for one in pair.catalogue.kept.values()}
    assert [one for one in (theirs,) if one] == list(pair.there.values())


@pytest.mark.parametrize("killed", [True, False])
def test_a_slot_that_others_make_in_the_middle_of_a_removal_stays(killed: bool) -> None:
    """Ours was dropped a moment ago, and its connector is stopped, and still there: it can have made none."""
    pair = PairOfOurs()
    pair.up()
    pair.desire(up=False)
    while pair.there.get((Kind.SLOT, "shop")) is not None:
        try:
            # The first step on the way down stops the connector, the second drops the slot.
            with failpoints.placed(ACT_DONE, 2):
                pair.go_on(5)
        except failpoints.PlacedCrash:
            break
    assert {(Kind.CONNECTOR, "shop")} == pair.there.keys()
    theirs = pair.others_make()
    if killed:
        pair.start()
    pair.go_on()
    assert theirs in pair.there.values()
    assert Reason.DOUBTFUL is (pair.entry(Kind.SLOT).debt or pytest.fail("no debt")).reason

    del pair.there[Kind.SLOT, "shop"]
    pair.go_on()
    assert ({}, {EntryState.GONE}) == (pair.there, {one.state for one in pair.catalogue.kept.values()})


def test_a_slot_that_we_requested_before_its_connector_was_ours_is_not_forgotten() -> None:
    """It came after we were killed. Then the file got the connector, and lost it before that was requested."""
    pair = PairOfOurs()
    pair.control.desire([replace(PAIR[0], maker=None)], lambda: "own")
    with pytest.raises(failpoints.PlacedCrash), failpoints.placed(INTENT_WRITTEN):
        pair.control.round()
    late = WorldObject("shop", "own", {"plugin": "pgoutput"}, empty=True)
    pair.world.put("a", Kind.SLOT, "shop", late)
    pair.start()
    pair.desire(up=True)
    assert pair.entry(Kind.SLOT).maker is not None
    pair.desire(up=False)
    pair.go_on()
    assert [late] == list(pair.there.values())
    assert Reason.DOUBTFUL is (pair.entry(Kind.SLOT).debt or pytest.fail("no debt")).reason


def test_short_commands_come_to_an_end() -> None:
    """Each continues where the one before ended: the time since the connector was stopped is not counted from 0."""
    pair = PairOfOurs()
    pair.up()
    pair.desire(up=False)
    for _ in range(int(STARTING / 5) + 3):
        pair.start()
        pair.go_on(5)
    assert {EntryState.GONE} == {one.state for one in pair.catalogue.kept.values()}


def test_a_slot_in_place_of_ours_is_left_when_our_connector_is_missing() -> None:
    """Others removed both, and made one of the name. The slot is in doubt, until one knows more."""
    pair = PairOfOurs()
    pair.up()
    pair.there.clear()
    theirs = pair.others_make()
    pair.desire(up=False)
    pair.go_on()
    assert [theirs] == list(pair.there.values())
    assert Reason.DOUBTFUL is (pair.entry(Kind.SLOT).debt or pytest.fail("no debt")).reason

    pair.there.clear()
    pair.go_on()
    assert EntryState.GONE is pair.entry(Kind.SLOT).state


def test_ours_is_removed_also_when_its_connector_is_missing() -> None:
    """It keeps what was there before it was seen last."""
    pair = PairOfOurs()
    pair.up()
    del pair.there[Kind.CONNECTOR, "shop"]
    pair.desire(up=False)
    pair.go_on()
    assert ({}, EntryState.GONE) == (pair.there, pair.entry(Kind.SLOT).state)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_connector_is_not_made_on_a_slot_of_others(recorded: bool) -> None:
    """They came when it was missing, or before its first start: it would read what is theirs."""
    pair = PairOfOurs()
    if recorded:
        pair.up()
        pair.there.clear()
    else:
        pair.desire(up=True)
        with pytest.raises(failpoints.PlacedCrash), failpoints.placed(INTENT_WRITTEN):
            pair.control.round()
        pair.start()
    theirs = pair.others_make()
    pair.go_on()
    assert [theirs] == list(pair.there.values())
    refused = pair.entry(Kind.CONNECTOR).debt
    assert refused is not None and Reason.REFUSED is refused.reason
    assert ("Do not drop it" if recorded else "it would read what others may have made") in refused.text

    pair.there.clear()
    pair.go_on()
    # One whose slot was recorded has lost it.
    assert recorded is ((Kind.CONNECTOR, "shop") not in pair.there)
    assert (EntryState.LOST if recorded else EntryState.MADE) is pair.entry(Kind.SLOT).state


def read_on(pair: PairOfOurs) -> int:
    """The connector reads on after the last look, and is removed by others; what it has confirmed."""
    server, slot = pair.world.server("a"), pair.there[Kind.SLOT, "shop"]
    server.wal += 100
    slot.kept, slot.confirmed = server.wal - 20, server.wal - 10
    del pair.there[Kind.CONNECTOR, "shop"]
    return slot.confirmed


def test_a_connector_that_others_removed_is_made_again_on_the_slot_that_it_has_read() -> None:
    """The slot keeps no WAL of before the last look, and the topic has all that it has passed by."""
    pair = PairOfOurs()
    pair.up()
    pair.topic = read_on(pair)
    pair.go_on(20)
    assert {(Kind.CONNECTOR, "shop"), (Kind.SLOT, "shop")} == pair.there.keys()
    assert {(EntryState.MADE, None)} == {(one.state, one.debt) for one in pair.catalogue.kept.values()}


def test_what_the_topic_has_of_a_timeline_that_the_server_has_left_shows_no_slot() -> None:
    """A loss there was accepted: its ENDs may lie behind what another slot has confirmed, which others made since. One
    that is behind all of these is of the new timeline.
    """
    pair = PairOfOurs()
    pair.up()
    slot = pair.entry(Kind.SLOT)
    assert slot.slot is not None
    left = pair.world.server("a").wal + 1000
    pair.catalogue.kept[slot.nonce] = replace(slot, slot=accepted(replace(slot.slot, captured=left), slot.slot))
    pair.go_on(20)
    read_on(pair)
    pair.topic = left
    pair.go_on(20)
    refused = pair.entry(Kind.CONNECTOR).debt or pytest.fail("no debt")
    assert Reason.REFUSED is refused.reason and {(Kind.SLOT, "shop")} == pair.there.keys()
    assert "of a timeline that the server has left" in refused.text

    pair.topic = left + 1
    pair.go_on(2 * DOUBT)
    assert {(Kind.CONNECTOR, "shop"), (Kind.SLOT, "shop")} == pair.there.keys()


def test_a_slot_of_ours_that_may_be_of_others_is_never_to_be_dropped() -> None:
    """It was confirmed further than the topic shows: the text has the command that makes the connector again."""
    pair = PairOfOurs()
    pair.up()
    pair.topic = read_on(pair) - 1
    pair.go_on(20)
    refused = pair.entry(Kind.CONNECTOR).debt or pytest.fail("no debt")
    assert Reason.REFUSED is refused.reason and {(Kind.SLOT, "shop")} == pair.there.keys()
    assert "Drop the slot" not in refused.text and "pg_drop" not in refused.text
    command = shlex.split(refused.text.partition(" continues with it: ")[2].partition(" . ")[0])
    mark = mark_of(pair.entry(Kind.CONNECTOR))
    assert ["curl", "-X", "PUT"] == command[:3] and "a/connectors/shop/config" == command[-1]
    assert {"slot": "shop", "cdcv2.entry": mark} == json.loads(command[-2])


def test_a_missing_connector_waits_for_the_topic_that_shows_whether_its_slot_is_the_one() -> None:
    """While Kafka is away, nothing is known: then it is made."""
    pair = PairOfOurs()
    pair.up()
    through = read_on(pair)
    pair.topic = UnavailableError("Kafka is away")
    pair.go_on(20)
    waits = pair.entry(Kind.CONNECTOR).debt or pytest.fail("no debt")
    assert Reason.UNREACHABLE is waits.reason and "Kafka is away" in waits.text
    pair.topic = through
    pair.go_on()
    assert (Kind.CONNECTOR, "shop") in pair.there


@pytest.mark.parametrize("left", [True, False])
def test_nothing_is_removed_before_a_connector_of_ours_without_its_mark(left: bool) -> None:
    """It runs, and reads the slot by the publication. ``left``: a person states that it is of others."""
    pair = PairOfOurs()
    publication = DesiredState(Kind.PUBLICATION, "shop", "a", {"tables": []}, True, "job")
    whole = [
        PAIR[0], publication,
        replace(PAIR[1], settings={"slot": "shop", "slot.name": "shop"}, needs=(SLOT, publication.key)),
    ]
    pair.control.desire(whole, lambda: f"n{next(pair._numbers)}")
    pair.go_on()
    there = pair.there[CONNECTOR[0], "shop"]
    ours = there.identity, there.mark
    there.identity, there.mark = "another", None
    pair.desire(up=False)
    pair.go_on()
    debt = pair.entry(Kind.CONNECTOR).debt
    assert {Kind.CONNECTOR, Kind.SLOT, Kind.PUBLICATION} == {kind for kind, _ in pair.there}
    assert debt is not None and Reason.DOUBTFUL is debt.reason and "nothing is that it uses" in debt.text

    if left:
        pair.control.catalogue.write(left_alone(pair.catalogue.kept.values(), pair.world.now))
    else:
        there.identity, there.mark = ours
    pair.go_on()
    assert {EntryState.GONE} == {one.state for one in pair.catalogue.kept.values()}
    assert ({Kind.CONNECTOR} if left else set()) == {kind for kind, _ in pair.there}


def test_a_connector_that_others_changed_still_has_its_slot() -> None:
    """The slot was read further than it was seen, by another session: it is ours, as its connector is there."""
    pair = PairOfOurs()
    pair.up()
    pair.there[Kind.CONNECTOR, "shop"].settings["x"] = "y"
    server, slot = pair.world.server("a"), pair.there[Kind.SLOT, "shop"]
    server.wal, slot.kept = server.wal + 100, server.wal + 50
    pair.desire(up=False)
    pair.go_on()
    assert ({}, {EntryState.GONE}) == (pair.there, {one.state for one in pair.catalogue.kept.values()})
