"""What is desired becomes entries: new ones, changed ones, and those that no job needs any more."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from cdcv2.control.entries import CatalogueEntry, Debt, EntryState, Kind, Reason
from cdcv2.control.intents import DesiredState, blocked_by, planned, released, refused_replacements, used
from cdcv2.errors import UsageError

NOW = 50.0
SLOT, CONNECTOR, TOPIC = (Kind.SLOT, "db", "shop"), (Kind.CONNECTOR, "connect", "shop"), (Kind.TOPIC, "k", "t_{nonce}")


def desired(key: tuple[Kind, str, str], user: str = "a", **more: object) -> DesiredState:
    """One that a job needs."""
    kind, address, name = key
    plain = DesiredState(kind, name, address, {"size": 1}, True, user)
    return replace(plain, **more)  # type: ignore[arg-type]


class Drawn:
    """Nonces n1, n2, ..., and a catalogue that is changed by plans."""

    def __init__(self) -> None:
        self.entries: dict[str, CatalogueEntry] = {}
        self._numbers = count(1)

    def plan(self, *wishes: DesiredState, now: float = NOW) -> list[str]:
        """The nonces of the entries that are new or changed."""
        changed = planned(self.entries.values(), wishes, now, lambda: f"n{next(self._numbers)}")
        self.entries.update({entry.nonce: entry for entry in changed})
        return [entry.nonce for entry in changed]


def test_the_same_again_changes_nothing_and_less_releases() -> None:
    """The nonce is in the name; a drop is committed by its entry alone."""
    drawn = Drawn()
    assert ["n1", "n2"] == drawn.plan(desired(TOPIC), desired(SLOT))
    assert ("t_n1", EntryState.WANTED) == (drawn.entries["n1"].name, drawn.entries["n1"].state)
    assert [] == drawn.plan(desired(TOPIC), desired(SLOT), now=NOW + 9)

    assert ["n1"] == drawn.plan(desired(SLOT), now=NOW + 10)
    assert (EntryState.UNWANTED, ("a",), NOW + 10) == (
        drawn.entries["n1"].state, drawn.entries["n1"].users, drawn.entries["n1"].since
    )
    assert [] == drawn.plan(desired(SLOT), now=NOW + 11)


@pytest.mark.parametrize(("slot", "state", "other_slot", "lost"), [
    (True, EntryState.IN_USE, False, True), (True, EntryState.MADE, False, True),
    (True, EntryState.WANTED, False, False),
    (False, EntryState.IN_USE, False, False), (True, EntryState.IN_USE, True, False),
])
def test_a_publication_keeps_its_name_while_its_slot_goes_on(
    slot: bool, state: EntryState, other_slot: bool, lost: bool
) -> None:
    """Unless there is no slot yet, or the slot gets another name, too."""
    old, new = (Kind.PUBLICATION, "db", "old"), (Kind.PUBLICATION, "db", "new")
    drawn = Drawn()
    drawn.plan(desired(old), *([desired(SLOT)] if slot else []))
    entries = [replace(one, state=state) for one in drawn.entries.values()]
    after = [desired(new), desired((Kind.SLOT, "db", "other") if other_slot else SLOT)]

    found = refused_replacements(entries, after)
    assert [entries[0]] * lost == [one for one, _ in found]
    assert all("before another publication is made would be lost" in text for _, text in found)
    assert [] == refused_replacements(entries, [desired(old), desired(SLOT)])
    assert [] == refused_replacements(entries, [])


@pytest.mark.parametrize("slot", [SLOT, (Kind.SLOT, "localhost", SLOT[2])])
@pytest.mark.parametrize("others", [[], [desired((Kind.PUBLICATION, "localhost", "new"), user="b")]])
@pytest.mark.parametrize("owned", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("state", [EntryState.IN_USE, EntryState.LOST])
def test_it_keeps_its_name_whatever_else_changes_with_it(
    slot: tuple[Kind, str, str], others: list[DesiredState], owned: tuple[bool, bool], state: EntryState
) -> None:
    """The capture is renamed, or the server has another address in the file, or there is no publication any more."""
    drawn, old = Drawn(), (Kind.PUBLICATION, "db", "old")
    drawn.plan(desired(old, owned=owned[0]), desired(SLOT, owned=owned[1]))
    entries = [replace(one, state=EntryState.IN_USE) for one in drawn.entries.values()]
    entries[0] = replace(entries[0], state=state)
    found = refused_replacements(entries, [*others, desired(slot, user="b")])

    assert [entries[0]] * any(owned) == [one for one, _ in found]


def test_what_was_let_go_keeps_its_name_too_where_ours_would_take_its_place() -> None:
    """All were let go, and then another publication is to be made."""
    drawn, old, new = Drawn(), (Kind.PUBLICATION, "db", "old"), (Kind.PUBLICATION, "db", "new")
    drawn.plan(desired(old, owned=False), desired(SLOT, owned=False))
    entries = [replace(one, state=EntryState.IN_USE) for one in drawn.entries.values()]

    assert [] == refused_replacements(entries, [desired(new, owned=False), desired(SLOT, owned=False)])
    assert [entries[0]] == [one for one, _ in refused_replacements(entries, [desired(new), desired(SLOT, owned=False)])]


def test_what_is_lost_stays_so_when_the_file_calls_it_ours_and_back() -> None:
    """And nothing of others is taken for ours by that."""
    drawn, key = Drawn(), (Kind.PUBLICATION, "db", "shop")
    drawn.plan(desired(key, owned=False))
    (nonce, entry), = drawn.entries.items()
    debt = Debt(Reason.LOST, "it fell", 1.0, 1)
    drawn.entries[nonce] = replace(entry, state=EntryState.LOST, identity="7", debt=debt)
    for owned in (True, False):
        drawn.plan(desired(key, owned=owned))
        found = drawn.entries[nonce]
        assert (EntryState.LOST, debt, None) == (found.state, found.debt, found.identity)


@pytest.mark.parametrize("name", ["shop", "other", None])
@pytest.mark.parametrize("made_by_it", [True, False])
@pytest.mark.parametrize("slot", ["shop", "another"])
def test_a_connector_keeps_its_name_while_the_slot_that_it_has_made_goes_on(
    name: str | None, made_by_it: bool, slot: str
) -> None:
    """A slot that was made without a snapshot has the position in itself; and one may be removed for good."""
    drawn, maker = Drawn(), CONNECTOR if made_by_it else None
    drawn.plan(desired(CONNECTOR), desired(SLOT, maker=maker))
    entries = [replace(one, state=EntryState.IN_USE) for one in drawn.entries.values()]
    new = None if name is None else (Kind.CONNECTOR, "localhost", name)
    stays = desired((Kind.SLOT, "db", slot), maker=new if made_by_it else None)
    found = refused_replacements(entries, [stays, *([] if new is None else [desired(new)])])

    refused = name == "other" and made_by_it and slot == "shop"
    # The connector has no position in another slot.
    moved = name == "shop" and made_by_it and slot == "another"
    assert [Kind.CONNECTOR] * refused + [Kind.SLOT] * moved == [one.kind for one, _ in found]
    why = "takes a second snapshot" if refused else "has no position in another slot"
    assert all(why in text for _, text in found)


@pytest.mark.parametrize("slot_owned", [True, False])
@pytest.mark.parametrize("connector_owned", [True, False])
def test_a_slot_keeps_its_name_while_the_connector_that_reads_it_goes_on(
    slot_owned: bool, connector_owned: bool
) -> None:
    """Also one that was made without a snapshot. What others run, others may change."""
    drawn = Drawn()
    drawn.plan(desired(SLOT, owned=slot_owned), desired(CONNECTOR, owned=connector_owned, needs=(SLOT,)))
    entries = [replace(one, state=EntryState.IN_USE) for one in drawn.entries.values()]
    other = desired((Kind.SLOT, "db", "another"), owned=slot_owned)
    found = refused_replacements(entries, [other, desired(CONNECTOR, owned=connector_owned, needs=(other.key,))])
    gone = refused_replacements(entries, [other, desired((Kind.CONNECTOR, "localhost", "b"), owned=connector_owned)])

    assert [Kind.SLOT] * (slot_owned or connector_owned) == [one.kind for one, _ in found]
    assert [] == gone


@pytest.mark.parametrize("back", [
    {}, {"url": "by another name"}, {"maker": False}, {"let_go": True}, {"state": EntryState.WANTED},
    {"state": EntryState.LOST}, {"state": EntryState.UNWANTED}, {"applied": False},
])  # fmt: skip
def test_a_connector_keeps_its_prefix_while_it_goes_on_with_its_slot(back: dict[str, Any]) -> None:
    """Connect keeps positions by it: with another one a connector takes a second snapshot over the old slot."""
    def wished(slot: str, prefix: str, name: str = "shop", url: str = "connect") -> list[DesiredState]:
        key, made = (Kind.CONNECTOR, url, name), (Kind.SLOT, "db", slot)
        return [
            desired(made, maker=key if back.get("maker", True) else None),
            desired(key, needs=(made,), settings={"slot.name": slot, "topic.prefix": prefix}),
        ]

    drawn = Drawn()
    drawn.plan(*wished("shop", "shop"))
    if back.get("let_go"):
        drawn.plan(*[replace(one, owned=False) for one in wished("shop", "shop")])
    there, applied = back.get("state", EntryState.IN_USE), back.get("applied", True)
    entries = [
        replace(one, state=there, before=EntryState.IN_USE, attempted=1.0, applied=one.settings if applied else None)
        for one in drawn.entries.values()
    ]
    url = back.get("url", "connect")
    found = refused_replacements(entries, wished("shop", "other", url=url))

    assert [Kind.CONNECTOR] == [one.kind for one, _ in found] and "has topic.prefix=shop, and continues" in found[0][1]
    assert [] == refused_replacements(entries, wished("shop", "shop", url=url))
    assert [] == refused_replacements(entries, wished("slot 2", "other", "shop 2", url))
    # What was not requested yet has no position; one whose removal was begun is made again, with another slot.
    fresh = [replace(one, attempted=None, state=EntryState.WANTED) for one in entries]
    ended = [replace(one, state=EntryState.UNWANTED, removal=True) for one in entries]
    assert [] == refused_replacements(fresh, wished("shop", "other", url=url))
    assert [] == refused_replacements(ended, wished("shop", "other", url=url))


@pytest.mark.parametrize(("name", "old", "new", "is_refused"), [
    ("database.dbname", "shop", "other", True), ("notification.sink.topic.name", "shop.n", "n", True),
    ("database.dbname", "${env:PGDATABASE}", "shop", False), ("notification.sink.topic.name", None, "n", False),
    ("database.hostname", "db", "db2", False),
])
def test_a_connector_that_goes_on_with_its_slot_keeps_what_it_is_bound_to(
    name: str, old: str | None, new: str, is_refused: bool
) -> None:
    """Its database, and the topic in which its snapshot is stated. With another slot it begins anyway."""
    def wished(value: str | None, slot: str = "shop") -> DesiredState:
        more = {} if value is None else {name: value}
        return desired((Kind.CONNECTOR, "connect", slot), settings={"slot.name": slot, "topic.prefix": "shop", **more})

    drawn = Drawn()
    drawn.plan(wished(old))
    entries = [replace(one, state=EntryState.IN_USE, attempted=1.0) for one in drawn.entries.values()]
    found = refused_replacements(entries, [wished(new)])

    assert ([f"has {name}={old}, and continues"] if is_refused else []) == [
        text[text.index("has "):text.index(" with its slot")] for _, text in found
    ]
    assert [] == refused_replacements(entries, [wished(old)])
    assert [] == refused_replacements(entries, [wished(new, "slot_2")])


def test_a_connector_of_the_same_name_in_another_connect_has_a_prefix_of_its_own() -> None:
    """Two servers, each with a slot of that name. One of both is left out."""
    def wished(url: str, prefix: str) -> DesiredState:
        return desired((Kind.CONNECTOR, url, "shop"), settings={"slot.name": "shop", "topic.prefix": prefix})

    drawn, both = Drawn(), [wished("eu", "one"), wished("us", "two")]
    drawn.plan(*both)
    entries = [replace(one, state=EntryState.IN_USE, attempted=1.0) for one in drawn.entries.values()]
    assert [[]] * 3 == [refused_replacements(entries, one) for one in (both, both[:1], both[1:])]


def test_a_publication_keeps_its_name_where_its_slot_returns() -> None:
    """The file left all of it out, and has it again before anything was removed. A pair that ends may have another."""
    drawn, old, new = Drawn(), (Kind.PUBLICATION, "db", "old"), (Kind.PUBLICATION, "db", "new")
    drawn.plan(desired(old), desired(SLOT, maker=CONNECTOR), desired(CONNECTOR, needs=(SLOT,)))
    drawn.entries = {
        nonce: replace(one, state=EntryState.IN_USE, attempted=1.0) for nonce, one in drawn.entries.items()}
    drawn.plan()
    entries = list(drawn.entries.values())
    other = (Kind.CONNECTOR, "connect", "other")

    same = [desired(SLOT, maker=CONNECTOR), desired(CONNECTOR, needs=(SLOT,))]
    assert ["old"] == [one.name for one, _ in refused_replacements(entries, [desired(new), *same])]
    assert [] == refused_replacements(entries, [desired(old), *same])
    assert [] == refused_replacements(entries, [desired(old), desired(SLOT, maker=other), desired(other)])
    slot = (Kind.SLOT, "db", "another")
    assert [] == refused_replacements(entries, [
        desired(old), desired(slot, maker=CONNECTOR), desired(CONNECTOR, needs=(slot,))])  # fmt: skip


def test_what_is_shared_lists_its_users_and_goes_with_the_last() -> None:
    """One entry, whatever the order."""
    drawn = Drawn()
    drawn.plan(desired(CONNECTOR, "b"), desired(CONNECTOR, "a"))
    assert ("a", "b") == drawn.entries["n1"].users

    drawn.plan(desired(CONNECTOR, "b"))
    assert (("b",), EntryState.WANTED) == (drawn.entries["n1"].users, drawn.entries["n1"].state)
    drawn.plan()
    assert EntryState.UNWANTED is drawn.entries["n1"].state


def test_two_that_want_it_otherwise_are_refused() -> None:
    """Neither can have what it wants."""
    with pytest.raises(UsageError, match="a and b both use connector 'shop' .connect., each with settings of its own"):
        Drawn().plan(desired(CONNECTOR), desired(CONNECTOR, "b", settings={"size": 2}))


def test_what_is_dropped_is_taken_back_until_its_removal_is_begun() -> None:
    """As it was. Afterwards a new entry waits until the old one is `gone`: what was requested may come to pass."""
    drawn = Drawn()
    drawn.plan(desired(SLOT))
    drawn.entries["n1"] = whole = replace(drawn.entries["n1"], state=EntryState.IN_USE, identity="x", attempted=3.0)
    drawn.plan()
    assert (EntryState.UNWANTED, EntryState.IN_USE) == (drawn.entries["n1"].state, drawn.entries["n1"].before)
    assert ["n1"] == drawn.plan(desired(SLOT))
    assert whole == drawn.entries["n1"]

    drawn.plan()
    drawn.entries["n1"] = replace(drawn.entries["n1"], removal=True)
    assert ["n2"] == drawn.plan(desired(SLOT))
    old, fresh = drawn.entries["n1"], drawn.entries["n2"]
    assert [old] == blocked_by(fresh, drawn.entries.values())
    assert [] == blocked_by(fresh, [fresh, replace(old, state=EntryState.GONE)])
    assert [] == blocked_by(old, [old, fresh])


@pytest.mark.parametrize("state, removal, before", [
    (EntryState.LOST, False, EntryState.LOST), (EntryState.MADE, True, EntryState.MADE), (EntryState.MADE, False, None),
])  # fmt: skip
def test_what_is_not_known_to_be_whole_is_not_taken_back(
    state: EntryState, removal: bool, before: EntryState | None
) -> None:
    """Lost, half removed, or let go by an older release, which wrote nothing about that."""
    drawn = Drawn()
    drawn.plan(desired(SLOT))
    drawn.entries["n1"] = replace(drawn.entries["n1"], state=state)
    drawn.plan()
    assert state is drawn.entries["n1"].before
    drawn.entries["n1"] = replace(drawn.entries["n1"], removal=removal, before=before)
    assert ["n2"] == drawn.plan(desired(SLOT))


@pytest.mark.parametrize("begun, expected", [
    ((), ["n1", "n2"]), (("n1",), ["n3", "n4"]), (("n2",), ["n3", "n4"]), (("n1", "n2"), ["n3", "n4"]),
])  # fmt: skip
def test_a_connector_and_its_slot_are_taken_back_together(begun: tuple[str, ...], expected: list[str]) -> None:
    """Either with a new other half would go on where that has not ended."""
    drawn = Drawn()
    wishes = [desired(CONNECTOR, needs=(SLOT,)), desired(SLOT, maker=CONNECTOR)]
    drawn.plan(*wishes)
    drawn.entries = {nonce: replace(one, state=EntryState.MADE, attempted=1.0) for nonce, one in drawn.entries.items()}
    drawn.plan()
    for nonce in begun:
        drawn.entries[nonce] = replace(drawn.entries[nonce], removal=True)
    assert expected == drawn.plan(*wishes)


def test_needs_come_first_and_go_last() -> None:
    """A connector after its slot's intent and its publication; the slot is removed behind the connector."""
    drawn = Drawn()
    publication = (Kind.PUBLICATION, "db", "shop")
    drawn.plan(
        desired(CONNECTOR, needs=(SLOT, publication)), desired(SLOT, maker=CONNECTOR), desired(publication)
    )
    connector, slot, table = (drawn.entries[one] for one in ("n1", "n2", "n3"))
    assert (("n2", "n3"), "n1") == (connector.needs, slot.maker)

    assert [slot, table] == blocked_by(connector, drawn.entries.values())
    allowed, made = replace(slot, attempted=NOW), replace(table, state=EntryState.MADE)
    assert [] == blocked_by(connector, [connector, allowed, made])

    ended = [released(one, NOW) for one in (connector, allowed, made)]
    assert [[], [ended[0]], [ended[0]]] == [blocked_by(one, ended) for one in ended]


def test_a_need_that_is_not_declared_is_refused() -> None:
    """No one would make it."""
    with pytest.raises(UsageError, match="needs slot db shop, which is not declared"):
        Drawn().plan(desired(CONNECTOR, needs=(SLOT,)))


def test_what_becomes_ours_is_judged_from_nothing_and_what_becomes_theirs_stays() -> None:
    """Nothing is removed because a word in the file changed, and nothing is taken over; what we made is ours again."""
    drawn = Drawn()
    drawn.plan(desired(CONNECTOR))
    drawn.entries["n1"] = replace(drawn.entries["n1"], state=EntryState.IN_USE, identity="x", attempted=3.0, server="c")
    drawn.plan(desired(CONNECTOR, owned=False))
    assert (EntryState.IN_USE, "x", False) == (
        drawn.entries["n1"].state, drawn.entries["n1"].identity, drawn.entries["n1"].owned
    )

    back = dict(drawn.entries)
    drawn.plan(desired(CONNECTOR))
    assert (EntryState.IN_USE, "x", True) == (
        drawn.entries["n1"].state, drawn.entries["n1"].identity, drawn.entries["n1"].owned
    )
    drawn.entries = {"n1": replace(back["n1"], attempted=None)}
    drawn.plan(desired(CONNECTOR))
    entry = drawn.entries["n1"]
    assert (EntryState.WANTED, None, None, "c") == (entry.state, entry.identity, entry.attempted, entry.server)


def test_only_what_is_there_can_be_used() -> None:
    """A job is started when all that it needs is recorded."""
    made = CatalogueEntry("n1", Kind.SLOT, "shop", "db", {}, True, ("a",), state=EntryState.MADE)

    assert used(used(made, NOW), NOW + 1) == replace(made, state=EntryState.IN_USE, since=NOW)
    with pytest.raises(UsageError, match="is wanted, so no job that needs it can start"):
        used(replace(made, state=EntryState.WANTED), NOW)


def test_a_connector_that_was_started_may_still_make_its_slot() -> None:
    """The file changed to one without a snapshot meanwhile: the slot that comes is ours all the same."""
    for attempted, maker in ((None, None), (NOW, "n1")):
        drawn = Drawn()
        drawn.plan(desired(CONNECTOR, needs=(SLOT,)), desired(SLOT, maker=CONNECTOR))
        drawn.entries["n2"] = replace(drawn.entries["n2"], attempted=attempted)
        drawn.plan(desired(CONNECTOR, needs=(SLOT,)), desired(SLOT))
        assert maker == drawn.entries["n2"].maker
