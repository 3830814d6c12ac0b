"""The decision about external state: every state of an entry against everything that a look can find, as one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdcv2.control.entries import (
    KINDS,
    Answer,
    CatalogueEntry,
    Debt,
    EntryState,
    ExternalObject,
    Kind,
    Look,
    NoAnswer,
    Reason,
)
from cdcv2.control.external_state import (
    DOUBT, Act, Condition, Step, after_its_connectors, condition_of, decide, left_alone,
)  # fmt: skip
from cdcv2.control.slot_marks import SlotMark

NOW = 1_000_000.0
#: found -> for each state of an entry that we own, and that was recorded where it can be: the act, the state
#: afterwards, and why something is owed. The order: wanted, made, in use, unwanted. "keep" is the state that it had.
TABLE: dict[str, tuple[str, str, str, str]] = {
    "absent": ("make wanted -", "make wanted -", "nothing lost lost", "nothing gone -"),
    "ours": ("nothing made -", "nothing made -", "nothing in-use -", "destroy unwanted -"),
    "another's": ("nothing wanted refused", "nothing wanted refused", "nothing lost lost", "nothing gone -"),
    "changed by hand": ("alter made -", "nothing made drift", "nothing in-use drift", "destroy unwanted -"),
    "file changed": ("alter made -", "alter made -", "alter in-use -", "destroy unwanted -"),
    "busy": ("nothing made -", "nothing made -", "nothing in-use -", "nothing unwanted busy"),
    "unreachable": ("nothing wanted unreachable", "nothing made unreachable", "nothing in-use unreachable",
                    "nothing unwanted unreachable"),
    "denied": ("nothing wanted denied", "nothing made denied", "nothing in-use denied", "nothing unwanted denied"),
    "act is busy": ("nothing wanted busy", "nothing made busy", "nothing in-use busy", "nothing unwanted busy"),
    "invalidated": ("nothing lost lost", "nothing lost lost", "nothing lost lost", "destroy unwanted -"),
    "moved": ("nothing wanted moved", "nothing made moved", "nothing in-use moved", "nothing unwanted moved"),
}  # fmt: skip
STATES = (EntryState.WANTED, EntryState.MADE, EntryState.IN_USE, EntryState.UNWANTED)
CHANGED = {"changed by hand", "file changed"}


def entry_of(kind: Kind, state: EntryState, *, owned: bool = True) -> CatalogueEntry:
    """An entry as it is when it has come to this state in the ordinary way."""
    known = state is not EntryState.WANTED
    return CatalogueEntry(
        "7f", kind, "shop_7f", "a server", {"size": 1, "form": "x"}, owned,
        () if state is EntryState.UNWANTED else ("job",),
        state=state, since=NOW - 900, attempted=NOW - 900 if owned else None, server="s1",
        identity="id-1" if known else None,
        applied={"size": 1, "form": "x"} if known and owned else None,
    )  # fmt: skip


def look_of(found: str, entry: CatalogueEntry) -> Look:
    """What a look gives in this situation."""
    ours = ExternalObject("id-1", "7f" if entry.rules.marked else None, settings=dict(entry.settings), empty=False)
    things = {
        "absent": None,
        "ours": ours,
        "another's": ExternalObject("id-2", "99" if entry.rules.marked else None, "lab", settings={}, empty=False),
        "changed by hand": replace(ours, settings={**entry.settings, "size": 7}),
        "file changed": replace(ours, settings={**entry.settings, "form": "old"}),
        "busy": replace(ours, holder="a session of lab"),
        "invalidated": replace(ours, invalid="wal_removed"),
    }
    if found in things:
        return Answer("s1", things[found])
    if found == "moved":
        return Answer("s2", ours)
    reason = {"unreachable": Reason.UNREACHABLE, "denied": Reason.DENIED, "act is busy": Reason.BUSY}[found]
    return NoAnswer(reason, "as the server has it")


def outcome(step: Step) -> str:
    """In the form of the table."""
    debt = step.entry.debt
    return f"{step.act} {step.entry.state.replace(' ', '-')} {debt.reason if debt else '-'}"


def expected_of(kind: Kind, found: str, state: EntryState) -> str:
    """The table's cell, with what is so for some kinds only."""
    rules = KINDS[kind]
    cell = TABLE[found][STATES.index(state)]
    if found == "absent" and state is EntryState.IN_USE and rules.remade:
        return "make wanted -"
    if found == "another's" and state is EntryState.IN_USE and rules.remade:
        return "nothing wanted refused"
    if found == "another's" and state is EntryState.WANTED and not rules.marked:
        # Only its name is known before it is recorded, and the nonce is in that.
        return "alter made -" if rules.altered else "nothing made drift"
    if found in CHANGED and cell.startswith("alter") and not rules.altered:
        return f"nothing {cell.split()[1]} drift"
    return cell


CASES = [(kind, found, state) for kind in Kind for found in TABLE for state in STATES]


@pytest.mark.parametrize(("kind", "found", "state"), CASES, ids=lambda one: str(one))
def test_every_kind_in_every_state_meets_everything(kind: Kind, found: str, state: EntryState) -> None:
    """The whole of what we own: 8 kinds, 11 situations, 4 states."""
    entry = entry_of(kind, state)
    if found == "file changed" and state is not EntryState.WANTED:
        entry = replace(entry, applied={"size": 1, "form": "old"})

    assert expected_of(kind, found, state) == outcome(decide(entry, look_of(found, entry), NOW))


def test_only_a_slot_that_was_never_there_is_awaited_while_it_is_made() -> None:
    """If it is missing before it is made, nothing is lost. One that was there before is another one now, as ever."""
    kind = Kind.SLOT
    wanted = replace(entry_of(kind, EntryState.WANTED), maker="c")
    before, now = SlotMark(500, 1, 100, sent=7), SlotMark(900, 1, 800, sent=0)
    thing = ExternalObject("id-1", settings=dict(wanted.settings), slot=now, being_made=True)
    look = Answer("s1", thing)
    step = decide(wanted, look, NOW)

    assert "await wanted awaited" == outcome(step) and step.entry.identity is None and step.entry.slot is None
    assert "await wanted awaited" == outcome(decide(step.entry, Answer("s1", None), NOW + 9))
    assert "nothing made -" == outcome(decide(step.entry, Answer("s1", replace(thing, being_made=False)), NOW + 9))
    for state in (EntryState.MADE, EntryState.IN_USE):
        there = replace(entry_of(kind, state), maker="c", slot=before)
        assert "nothing lost lost" == outcome(decide(there, look, NOW))
    assert "nothing lost lost" == outcome(decide(wanted, Answer("s1", replace(thing, invalid="wal_removed")), NOW))
    assert "nothing wanted refused" == outcome(decide(replace(wanted, attempted=None), look, NOW))
    # One of others, too, whose connector begins with it once more when it is started again.
    theirs = replace(wanted, owned=False, attempted=None)
    for entry in (theirs, replace(theirs, state=EntryState.MADE, slot=replace(now, sent=None), identity="id-1")):
        step = decide(entry, look, NOW)
        assert "nothing wanted awaited" == outcome(step) and step.entry.identity is None and step.entry.slot is None
        assert "nothing wanted missing" == outcome(decide(step.entry, Answer("s1", None), NOW + 9))


@pytest.mark.parametrize("owned", [True, False])
def test_a_slot_that_has_sent_something_and_is_being_made_was_made_again(owned: bool) -> None:
    """Also where the server counts nothing: what was committed since it was dropped is missing."""
    mark = SlotMark(500, 1, 100, confirmed=470)
    thing = ExternalObject("id-1", settings={}, slot=SlotMark(900, 1, 800), being_made=True)
    for before, expected in ((mark, "lost lost"), (replace(mark, confirmed=None), "in-use awaited")):
        entry = replace(entry_of(Kind.SLOT, EntryState.IN_USE, owned=owned), settings={}, applied=None, slot=before)
        step = decide(entry, Answer("s1", thing), NOW)
        assert f"nothing {expected}" == outcome(step)
        assert expected != "lost lost" or "it is being made just now" in step.shown


#: found -> the same for what somebody else owns. There is never an act.
THEIRS: dict[str, tuple[str, str, str, str]] = {
    "absent": ("wanted missing", "wanted missing", "lost lost", "gone -"),
    "ours": ("made -", "made -", "in-use -", "gone -"),
    "another's": ("made drift", "wanted refused", "lost lost", "gone -"),
    "changed by hand": ("made drift", "made drift", "in-use drift", "gone -"),
    "busy": ("made -", "made -", "in-use -", "gone -"),
    "unreachable": ("wanted unreachable", "made unreachable", "in-use unreachable", "gone -"),
    "denied": ("wanted denied", "made denied", "in-use denied", "gone -"),
    "invalidated": ("lost lost", "lost lost", "lost lost", "gone -"),
    "moved": ("wanted moved", "made moved", "in-use moved", "gone -"),
}


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("found", list(THEIRS))
@pytest.mark.parametrize("state", STATES)
def test_what_is_not_ours_is_checked_and_never_touched(kind: Kind, found: str, state: EntryState) -> None:
    """`owned: no`: settings, identity and presence are judged, and there is no act in any case."""
    entry = entry_of(kind, state, owned=False)
    expected = THEIRS[found][STATES.index(state)]
    if state is EntryState.IN_USE and KINDS[kind].remade:
        expected = {"absent": "wanted missing", "another's": "wanted refused"}.get(found, expected)
    if found == "another's" and state is not EntryState.WANTED and "refused" in expected:
        # It is looked at as for the first time: another one under that name, which has other settings.
        expected = "made drift"

    assert f"nothing {expected}" == outcome(decide(entry, look_of(found, entry), NOW))


def test_what_is_gone_stays_so_and_what_is_lost_too() -> None:
    """Whatever is found: a new entry is needed, which a person decides."""
    for state in (EntryState.GONE, EntryState.LOST):
        for found in TABLE:
            entry = entry_of(Kind.SLOT, state)
            step = decide(entry, look_of(found, entry), NOW)

            assert (entry, Act.NOTHING) == (step.entry, step.act)


@pytest.mark.parametrize("kind", [kind for kind, rules in KINDS.items() if rules.takes_empty])
def test_what_cannot_be_known_is_taken_over_only_if_it_is_empty_and_fits(kind: Kind) -> None:
    """Under a name that a user chose, what has no mark may be ours or another's."""
    entry = replace(entry_of(kind, EntryState.WANTED), name="shop")
    fits = ExternalObject("id-1", settings=dict(entry.settings), empty=True)
    others = [replace(fits, empty=False), replace(fits, empty=None), replace(fits, settings={"size": 3})]

    assert "nothing made -" == outcome(decide(entry, Answer("s1", fits), NOW))
    assert ["nothing wanted refused"] * 3 == [outcome(decide(entry, Answer("s1", one), NOW)) for one in others]


@pytest.mark.parametrize("kind", [kind for kind, rules in KINDS.items() if rules.marked and not rules.takes_empty])
def test_what_can_carry_a_mark_and_has_none_is_of_others(kind: Kind) -> None:
    """Empty and fitting or not: one of ours would have the mark, as it is made with it."""
    entry = replace(entry_of(kind, EntryState.WANTED), name="shop")
    fits = ExternalObject("id-1", settings=dict(entry.settings), empty=True)

    assert "nothing wanted refused" == outcome(decide(entry, Answer("s1", fits), NOW))


def test_a_refusal_names_both() -> None:
    """Ours, and whose it is; and three ways out."""
    entry = entry_of(Kind.PUBLICATION, EntryState.WANTED)
    text = decide(entry, look_of("another's", entry), NOW).shown

    assert (
        "the publication 'shop_7f' (a server) is of others: its mark is that of 99 of lab, and this entry is 7f. Name "
        "another in the file; or declare it with owned: no, if it is meant to be used as it is; or remove it"
    ) == text


def slot(**changes: object) -> CatalogueEntry:
    """The slot of an initial snapshot, which the connector makes."""
    plain = CatalogueEntry("7f", Kind.SLOT, "shop", "db", {"plugin": "pgoutput"}, True, ("shop",), maker="c1")
    return replace(plain, **changes)  # type: ignore[arg-type]


THERE = Answer("730", ExternalObject("shop", settings={"plugin": "pgoutput"}, empty=False))


def test_the_slot_of_a_snapshot_is_waited_for_and_recorded() -> None:
    """Its connector may start once it is known to be absent; that is the intent, and it comes first."""
    step = decide(slot(), Answer("730", None), NOW)
    assert ("await wanted awaited", NOW, "730") == (outcome(step), step.entry.attempted, step.entry.server)

    still = decide(step.entry, Answer("730", None), NOW + 5)
    debt = still.entry.debt
    assert ("await wanted awaited", NOW, 2) == (outcome(still), still.entry.attempted, debt.tries if debt else 0)

    made = decide(still.entry, THERE, NOW + 9)
    assert ("nothing made -", "shop") == (outcome(made), made.entry.identity)


def test_a_slot_from_before_the_first_start_is_refused() -> None:
    """Its snapshot would begin at another moment than its changes: rows would be there twice."""
    step = decide(slot(), THERE, NOW)

    assert "nothing wanted refused" == outcome(step)
    assert "before the first start of its connector" in step.shown


@pytest.mark.parametrize("empty", [True, False, None])
def test_a_slot_that_is_there_before_ours_is_refused_and_never_removed(empty: bool | None) -> None:
    """Also one that no session reads: its reader is perhaps down for a moment, and it holds that reader's changes."""
    there = Answer("730", ExternalObject("shop", settings={"plugin": "pgoutput"}, empty=empty))
    entry = slot(maker=None)
    refused = decide(entry, there, NOW)
    assert ("nothing wanted refused", None) == (outcome(refused), refused.entry.attempted)

    unwanted = replace(refused.entry, state=EntryState.UNWANTED, users=())
    assert "nothing gone -" == outcome(decide(unwanted, there, NOW))


def test_a_slot_that_we_make_is_ours_because_it_was_absent() -> None:
    """So it is after a crash before it was recorded; one of another plugin was made by others meanwhile."""
    step = decide(slot(maker=None), Answer("730", None), NOW)
    assert "make wanted -" == outcome(step)
    theirs = Answer("730", ExternalObject("shop", settings={"plugin": "test_decoding"}))

    assert "nothing made -" == outcome(decide(step.entry, THERE, NOW + 1))
    assert "nothing wanted refused" == outcome(decide(step.entry, theirs, NOW + 1))
    unwanted = replace(step.entry, state=EntryState.UNWANTED, users=())
    assert "destroy unwanted -" == outcome(decide(unwanted, THERE, NOW + 1))
    assert "nothing gone -" == outcome(decide(unwanted, theirs, NOW + DOUBT + 1))


def test_a_slot_that_is_missing_later_is_lost() -> None:
    """Nothing makes it again: the connector would leave out all changes since its position without an error."""
    for state in (EntryState.MADE, EntryState.IN_USE):
        entry = slot(state=state, identity="shop", attempted=NOW, server="730")

        assert "nothing lost lost" == outcome(decide(entry, Answer("730", None), NOW))


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize(("flushed", "timeline", "lost"), [
    (469, 1, True), (470, 1, False), (None, 1, False), (100, 2, False),
])
def test_a_server_that_is_what_it_was_before_has_lost_what_is_captured(
    flushed: int | None, timeline: int, lost: bool, owned: bool
) -> None:
    """What it commits next has positions that were used, and is passed by. No crash takes away what was confirmed."""
    before = SlotMark(wal=500, timeline=1, kept=100, flushed=480, confirmed=470)
    entry = replace(entry_of(Kind.SLOT, EntryState.IN_USE, owned=owned), settings={}, applied=None, slot=before)
    now = SlotMark(wal=490, timeline=timeline, kept=100, flushed=flushed)
    step = decide(entry, Answer("s1", ExternalObject("id-1", slot=now)), NOW)

    assert lost is (EntryState.LOST is step.entry.state)
    assert not lost or "is what it was at an earlier moment" in step.shown
    if lost:
        # Also when it has come further than it was.
        later = replace(now, wal=900, flushed=900)
        assert EntryState.LOST is decide(step.entry, Answer("s1", ExternalObject("id-1", slot=later)), NOW).entry.state


MARK = SlotMark(wal=500, timeline=1, kept=100, sent=4)
#: What is found instead: ours, as it keeps what was there before; one that may be ours; one that was made since.
FOUND = {
    "same": replace(MARK, wal=900), "open": replace(MARK, wal=900, kept=700),
    "remade": replace(MARK, wal=900, kept=700, sent=0),
}  # fmt: skip


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize("found", list(FOUND))
def test_a_slot_is_removed_only_if_it_is_ours_for_certain(found: str, claimed: bool) -> None:
    """As it is seen to be the same, or as a connector of ours is there whose slot it is. Else a person decides."""
    entry = slot(state=EntryState.UNWANTED, users=(), attempted=NOW - 99, identity="shop", server="730", slot=MARK)
    there = Answer("730", ExternalObject("shop", settings={"plugin": "pgoutput"}, slot=FOUND[found]))
    step = decide(entry, there, NOW, claimed=claimed)

    certain = claimed or found == "same"
    assert ("destroy unwanted -" if certain else "nothing unwanted doubtful") == outcome(step)
    # What is removed is what was found, and nothing that comes in its place.
    assert (FOUND[found] if certain else MARK) == step.entry.slot
    if not certain:
        assert "SELECT pg_drop_replication_slot('shop')" in step.shown and "--leave-doubtful" in step.shown
        (left,) = left_alone([step.entry, entry], NOW)
        assert (EntryState.GONE, None) == (left.state, left.debt)
    # When its removal was begun, no connector of ours makes one any more.
    begun = decide(replace(entry, removal=True), there, NOW, claimed=claimed)
    assert ("destroy unwanted -" if found == "same" else "nothing unwanted doubtful") == outcome(begun)


@pytest.mark.parametrize("state", [EntryState.MADE, EntryState.IN_USE])
@pytest.mark.parametrize("found", list(FOUND))
def test_a_slot_that_was_made_again_is_lost(found: str, state: EntryState) -> None:
    """The changes between the two are missing. In doubt it goes on, and what it was known by stays."""
    known = {"attempted": NOW - 99, "identity": "shop", "server": "730", "applied": {"plugin": "pgoutput"}}
    entry = slot(state=state, slot=MARK, **known)
    there = Answer("730", ExternalObject("shop", settings={"plugin": "pgoutput"}, slot=FOUND[found]))
    step = decide(entry, there, NOW)
    goes_on = f"nothing {state.replace(' ', '-')} -"

    assert ("nothing lost lost" if found == "remade" else goes_on) == outcome(step)
    assert (FOUND[found] if found == "same" else MARK) == step.entry.slot
    if found == "open":
        assert FOUND[found] == decide(entry, there, NOW, claimed=True).entry.slot
    if found == "remade":
        assert "was dropped and made again" in step.shown


#: What a look at a publication finds of one table, and of a partition by what it is sent, and of one by its root.
PUBLISHED = {
    "tables": ["lab.sold"], "version": "7", "members": {"lab.sold": "3 of 5"}, "above": {"lab.sold": "8 in 5, 3 of 6"},
    "named": {"lab.sold": ["700", "10"]}, "labels": {"lab.sold": {"20": "sad", "21": "ok"}},
    "stored": {"lab.sold": ["5", {"id": [1, "700", "23/-1/0", False]}, "9", {"30": ["/8", "30", "31"]}]},
}  # fmt: skip


def seen_then(before: dict[str, object], now: dict[str, object]) -> str:
    """The state of a publication of others that is in use, for which this was recorded and that is found."""
    settings = {"tables": ["lab.sold"]}
    entry = CatalogueEntry(
        "7f", Kind.PUBLICATION, "shop", "db", settings, False, ("shop",), state=EntryState.IN_USE, since=NOW,
        identity="3", server="730", applied={**settings, **before},
    )  # fmt: skip
    return str(decide(entry, Answer("730", ExternalObject("3", settings=now)), NOW).entry.state)


@pytest.mark.parametrize(("name", "found", "lost"), [
    ("above", {"lab.sold": "9 in 5, 3 of 6"}, True), ("above", {}, False),
    ("named", {"lab.sold": ["701", "10"]}, True), ("named", {"lab.sold": ["701", "11"]}, False),
    ("labels", {"lab.sold": {"20": "bad", "21": "ok"}}, True), ("labels", {"lab.sold": {"21": "ok"}}, False),
    ("labels", {"lab.sold": {"20": "sad", "21": "ok", "22": "glad"}}, False),
    # As pg_repack leaves it: another file and another table of long values, and no column was altered.
    ("stored", {"lab.sold": ["6", {"id": [1, "700", "23/-1/0", False]}, "10", {"30": ["/8", "40", "41"]}]}, False),
    ("stored", {"lab.sold": ["6", {"id": [1, "701", "23/-1/0", False]}, "10", {"30": ["/8", "30", "31"]}]}, True),
    ("stored", {"lab.sold": ["5", {"id": [1, "701", "23/-1/0", False]}, "9", {"30": ["/8", "40", "41"]}]}, True),
    ("stored", {"lab.sold": ["5", {"id": [1, "701", "23/-1/0", False]}, "9", {"30": ["/8", "40", "31"]}]}, False),
    ("stored", {"lab.sold": ["5", {"id": [1, "700", "23/-1/0", False]}, "9", {"30": ["/9", "30", "31"]}]}, True),
    ("stored", {"lab.sold": ["5", {"id": [1, "700", "23/-1/0", False]}, "9", {}]}, True),
    ("stored", {"lab.sold": ["5", {"id": [2, "700", "23/-1/0", False]}, "9", {"30": ["/8", "30", "31"]}]}, True),
])
def test_a_publication_is_lost_by_what_a_look_finds_of_a_table(
    name: str, found: dict[str, object], lost: bool
) -> None:
    """What was recorded against what is found. For what was not recorded nothing is lost: an entry of before."""
    now = {**PUBLISHED, name: found}

    assert ("lost" if lost else "in use") == seen_then(PUBLISHED, now)
    assert "in use" == seen_then({key: value for key, value in PUBLISHED.items() if key != name}, now)


@pytest.mark.parametrize(("number", "lost"), [(1, False), (2, True)])
def test_columns_that_were_recorded_without_a_table_of_long_values_are_compared_by_number(
    number: int, lost: bool
) -> None:
    """As entries of before have them: the file and the version of a column state nothing there."""
    before = {**PUBLISHED, "stored": {"lab.sold": ["4", {"id": [number, "699", "23/-1/0", "c81e7"]}]}}

    assert ("lost" if lost else "in use") == seen_then(before, PUBLISHED)


SENT = {"slot.name": "shop", "table.include.list": r"public\.orders,public\.items", "heartbeat.interval.ms": "10000"}
FEWER = {**SENT, "table.include.list": r"public\.orders"}


def connector(state: EntryState = EntryState.IN_USE, **changes: object) -> CatalogueEntry:
    """One of ours, with the settings that it was given last."""
    return replace(entry_of(Kind.CONNECTOR, state), settings=SENT, applied=SENT, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [EntryState.WANTED, EntryState.MADE, EntryState.IN_USE])
def test_a_connector_of_others_that_sends_less_does_not_fit(state: EntryState) -> None:
    """All that can be done is to show it. Of one that is not Debezium's for PostgreSQL nothing is known."""
    entry = replace(
        connector(state), owned=False, settings={}, applied=None, attempted=None, identity=None,
        feeds={"shop.public.orders": "public.orders"},
    )  # fmt: skip
    kind = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput"}
    kind["event.converting.failure.handling.mode"] = "fail"
    right = {**kind, "decimal.handling.mode": "string", "skipped.operations": "none"}
    listed = "snapshot.include.collection.list"
    for more in ({"errors.tolerance": "all"}, {listed: "public.items"}, {"skipped.operations": "t"}):
        step = decide(entry, changed_to({**right, **more}, None), NOW)
        assert "drift" in outcome(step) and "its owner must mend it" in step.shown, more
        assert f"{next(iter(more))}" in step.shown
        assert step.entry.debt is not None and decide(step.entry, changed_to(right, None), NOW).entry.debt is None
    for fits in (right, {**right, listed: "public.orders"}, {"connector.class": "a.MySqlConnector"}, {}):
        assert "drift" not in outcome(decide(entry, changed_to(fits, None), NOW))


def test_a_publication_is_altered_after_the_connectors_that_read_by_it() -> None:
    """One that does not know a table would pass by what is committed to it. Without such a reader it is altered."""
    one = replace(entry_of(Kind.PUBLICATION, EntryState.IN_USE), nonce="p")
    step = Step(one, Act.ALTER, Condition.DRIFTED)
    late = replace(connector(needs=("p",)), applied=FEWER)

    waits = after_its_connectors(step, [one, late], 7.0)
    assert waits.entry.debt is not None
    assert (Act.NOTHING, Reason.AWAITED) == (waits.act, waits.entry.debt.reason)
    assert "is altered after the connector" in waits.entry.debt.text
    for as_well in (replace(late, state=EntryState.LOST), replace(late, state=EntryState.WANTED),
                    replace(late, applied=None)):  # fmt: skip
        assert Act.NOTHING is after_its_connectors(step, [one, as_well], 7.0).act
    for others in ([connector(needs=("p",))], [replace(late, needs=("q",))], [replace(late, owned=False)],
                   [replace(late, state=EntryState.GONE)], [replace(late, state=EntryState.UNWANTED)],
                   [replace(late, state=EntryState.WANTED, attempted=None)]):  # fmt: skip
        assert step == after_its_connectors(step, [one, *others], 7.0)
    nothing = replace(step, act=Act.NOTHING)
    assert nothing == after_its_connectors(nothing, [one, late], 7.0)


def changed_to(settings: dict[str, str], mark: str | None = "7f") -> Answer:
    """What a look gives when somebody has changed it through Connect."""
    return Answer("s1", ExternalObject("id-1" if mark else None, mark, settings=settings, empty=False))


@pytest.mark.parametrize(("state", "mark"), [
    (EntryState.MADE, "7f"), (EntryState.IN_USE, "7f"), (EntryState.IN_USE, None),
])
def test_a_connector_that_was_made_to_send_less_is_lost_also_when_it_is_put_back(
    state: EntryState, mark: str | None
) -> None:
    """What was committed meanwhile is in no topic. So it is if its settings were written again without our mark."""
    step = decide(connector(state), changed_to(FEWER, mark), NOW)
    again = decide(step.entry, changed_to(SENT), NOW)

    assert ("nothing lost lost", EntryState.LOST) == (outcome(step), again.entry.state)
    assert "table.include.list is" in step.shown and "heartbeat" not in step.shown
    assert ("cdcv2: entry 7f" in step.shown) is (mark is None)
    assert "--accept-lost 7f" in step.shown and "compare" in step.shown


@pytest.mark.parametrize("state", list(EntryState))
@pytest.mark.parametrize("applied", [SENT, None])
def test_a_connector_without_our_mark_that_reads_our_slot_is_ours(
    state: EntryState, applied: dict[str, str] | None
) -> None:
    """It is not taken for removed, and nothing is done to it unless a person has accepted it: then none that it was
    given are known. One that reads another slot, or was never requested, is of others.
    """
    entry = replace(connector(state, attempted=1.0), applied=applied, users=())
    beat, found = {**SENT, "heartbeat.interval.ms": "1"}, outcome(decide(entry, changed_to(SENT, None), NOW))
    expected = {
        EntryState.WANTED: "nothing wanted refused", EntryState.UNWANTED: "nothing unwanted doubtful",
        EntryState.GONE: "nothing gone -", EntryState.LOST: "nothing lost lost",
    }  # fmt: skip
    there = "nothing {} drift" if applied else "alter {} -"
    assert expected.get(state, there.format(state.replace(" ", "-"))) == found.replace("lost -", "lost lost")
    assert found == outcome(decide(entry, changed_to(beat, None), NOW))
    if state not in (EntryState.GONE, EntryState.LOST) and "alter" not in found:
        assert "'cdcv2: entry 7f'" in decide(entry, changed_to(SENT, None), NOW).shown
    if state is EntryState.UNWANTED:
        assert "nothing gone -" == outcome(decide(entry, changed_to({**SENT, "slot.name": "x"}, None), NOW))
        never = replace(entry, attempted=None)
        assert "nothing gone -" == outcome(decide(never, changed_to(SENT, None), NOW))


def test_what_a_connector_was_given_counts_for_one_that_others_make_in_its_place() -> None:
    """It was deleted, and made again with fewer tables, perhaps with our mark: it was away and sent less, or does."""
    away = decide(connector(attempted=1.0), Answer("s1", None), NOW)
    assert "make wanted -" == outcome(away)
    for mark in ("7f", None):
        assert "nothing lost lost" == outcome(decide(away.entry, changed_to(FEWER, mark), NOW))
    theirs = decide(connector(attempted=1.0), changed_to(SENT, "99"), NOW)
    assert "nothing lost lost" == outcome(decide(theirs.entry, changed_to(FEWER), NOW))


def test_a_connector_whose_server_was_told_to_leave_out_changes_is_lost() -> None:
    """Those of sessions with a replication origin."""
    step = decide(connector(), changed_to({**SENT, "slot.stream.params": "origin=none"}), NOW)

    assert "nothing lost lost" == outcome(step)
    assert "slot.stream.params is" in step.shown


@pytest.mark.parametrize("more", [
    {"heartbeat.interval.ms": "1"}, {"slot.stream.params": "origin=any"},
    {"table.include.list": SENT["table.include.list"] + r",public\.more"},
    {"table.include.list": "PUBLIC.(items|orders)"}, {"errors.tolerance": "none"}, {"slot.drop.on.stop": "true"},
])
def test_a_connector_that_sends_as_much_is_changed_only(more: dict[str, str]) -> None:
    """Others may give it another interval, or more tables: that is shown, and nothing is lost."""
    assert "nothing in-use drift" == outcome(decide(connector(), changed_to({**SENT, **more}), NOW))


def test_a_connector_that_sends_less_by_the_file_or_is_not_ours_is_not_lost() -> None:
    """What the file wants more, or less, is not the work of others; one with another slot leaves ours as it is."""
    more = replace(connector(), applied=FEWER)
    assert "alter in-use -" == outcome(decide(more, changed_to(FEWER), NOW))
    beat = {**FEWER, "heartbeat.interval.ms": "1"}
    assert "nothing in-use drift" == outcome(decide(more, changed_to(beat), NOW))
    assert "alter in-use -" == outcome(decide(replace(connector(), settings=FEWER), changed_to(SENT), NOW))

    # What we have sent, and not recorded.
    assert "nothing in-use -" == outcome(decide(replace(connector(), settings=FEWER), changed_to(FEWER), NOW))

    assert "nothing wanted refused" == outcome(decide(connector(), changed_to({**FEWER, "slot.name": "x"}, None), NOW))
    assert "nothing wanted refused" == outcome(decide(connector(), changed_to(FEWER, "99"), NOW))
    theirs = replace(connector(), owned=False)
    assert EntryState.LOST is not decide(theirs, changed_to(FEWER), NOW).entry.state
    assert EntryState.LOST is not decide(replace(connector(), applied=None), changed_to(FEWER), NOW).entry.state


def test_what_was_requested_a_moment_ago_may_still_come() -> None:
    """A request that got no answer may be carried out later: what is missing then is not `gone`."""
    entry = replace(entry_of(Kind.TOPIC, EntryState.UNWANTED), identity=None, applied=None, attempted=NOW)

    assert "nothing unwanted awaited" == outcome(decide(entry, Answer("s1", None), NOW + DOUBT - 1))
    assert "nothing gone -" == outcome(decide(entry, Answer("s1", None), NOW + DOUBT))


def test_what_is_left_beside_a_missing_thing_is_removed_before_it_is_gone() -> None:
    """As the checkpoint of a view whose table was dropped by hand: while a look finds it, removing goes on."""
    entry = entry_of(Kind.TARGET_TABLE, EntryState.UNWANTED)
    step = decide(entry, Answer("s1", None, remains=True), NOW)

    assert ("destroy unwanted -", Condition.ABSENT) == (outcome(step), step.condition)
    assert "nothing gone -" == outcome(decide(step.entry, Answer("s1", None), NOW))
    theirs = replace(entry, owned=False)
    assert "nothing gone -" == outcome(decide(theirs, Answer("s1", None, remains=True), NOW))


def test_what_was_never_tried_needs_no_server_to_be_removed() -> None:
    """Nothing of ours can be there, so `down` does not wait for a server that is away, and touches nothing."""
    entry = replace(entry_of(Kind.TOPIC, EntryState.UNWANTED), identity=None, applied=None, attempted=None)

    for found in TABLE:
        assert "nothing gone -" == outcome(decide(entry, look_of(found, entry), NOW))


def test_a_debt_is_as_old_as_its_reason() -> None:
    """Each try is counted; another reason begins again; and what is done is owed no more."""
    entry = entry_of(Kind.TOPIC, EntryState.IN_USE)
    first = decide(entry, look_of("unreachable", entry), NOW).entry
    second = decide(first, look_of("unreachable", entry), NOW + 1).entry
    denied = decide(second, look_of("denied", entry), NOW + 2).entry

    assert Debt(Reason.UNREACHABLE, "as the server has it", NOW, 2) == second.debt
    assert Debt(Reason.DENIED, "as the server has it", NOW + 2, 1) == denied.debt
    assert decide(denied, look_of("ours", entry), NOW + 3).entry.debt is None


def test_an_entry_is_read_as_it_was_written() -> None:
    """Whatever it has; anything else is an error."""
    for entry in some():
        assert entry == CatalogueEntry.from_plain(entry.to_plain())
        for name in entry.to_plain():
            with pytest.raises((TypeError, ValueError, KeyError)):
                CatalogueEntry.from_plain({**entry.to_plain(), name: b"?"})


def some() -> Iterator[CatalogueEntry]:
    """Entries of every kind and state."""
    for kind in Kind:
        for state in EntryState:
            yield entry_of(kind, state)
    yield slot(slot=MARK)
    entry = slot(needs=("p1",), attempted=NOW)
    yield decide(entry, look_of("denied", entry), NOW).entry


def test_every_condition_is_met() -> None:
    """The table leaves none out; what is empty and fits, and a connector without our mark, have tests of their own."""
    met = {condition_of(entry_of(kind, state), look_of(found, entry_of(kind, state))) for kind, found, state in CASES}

    assert set(Condition) - {Condition.FITTING, Condition.UNMARKED} == met
