"""What to do next about a piece of external state: one function of its entry and of what a look found.

It has no clock and no connection, so that a test can try every case. Its caller keeps one order:

1. write the entry of the step durably: it is the intent;
2. do the act of the step;
3. look again, and decide again. An act that failed is a look without an answer.

So a crash between any two of these leaves an entry from which the next controller goes on. Nothing is recorded as
there because an act returned, and nothing as missing because one failed: only looks are believed.

When a thing that was there is lost is decided in ``_keeping``, and by the same rule in ``_since_last_fed`` for topics
that the file had left out; of a publication's tables, in ``_withdrawn`` and ``_rewritten``; of a connector that sends
less, in ``_sends_less``. They compare what looks have found: of a publication that is ``PublicationKind._found`` of
``kinds/postgres``. What differs by kind is in ``KINDS`` of ``entries``; what people are shown is in ``external_texts``,
and what they can do in the table of docs/operations/external-state.md#something-is-lost.

The file is long because it is one decision: what an entry becomes depends on its state and on all that a look can find.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from cdcv2.connectors.debezium.left_out import TABLES, Omission, less_sent, omissions
from cdcv2.control import external_texts as texts
from cdcv2.control.entries import (
    Answer, CatalogueEntry, Debt, EntryState, ExternalObject, Kind, Look, NoAnswer, Reason, missing_answer,
)  # fmt: skip
from cdcv2.control.slot_marks import (
    Continuity, SlotMark, accepted, branched_off, continuity, forked, made_behind_fork, renewed, went_back,
)  # fmt: skip
from cdcv2.control.unread_topics import awaited, settled

#: How long, in seconds, an act that got no answer may still come to pass in its server.
DOUBT = 60.0
#: How long, in seconds, a connector that was removed may still make its slot: one that was only starting does.
STARTING = 15.0


class Condition(StrEnum):
    """What a look found, for an entry."""

    ABSENT = "absent"
    OURS = "ours"
    FITTING = "empty and fitting"
    FOREIGN = "another's"
    UNMARKED = "without our mark"
    DRIFTED = "drifted"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    DENIED = "denied"
    INVALIDATED = "invalidated"
    MOVED = "moved"


class Act(StrEnum):
    """What is to be done in the other system.

    ``AWAIT``: its maker may make it now, and a later look will find it. ``STOP``: it makes nothing more, and stays.
    """

    NOTHING = "nothing"
    MAKE = "make"
    ALTER = "alter"
    STOP = "stop"
    DESTROY = "destroy"
    AWAIT = "await"


@dataclass(frozen=True)
class Step:
    """What comes next: the entry as it is to be written first, then the act, and what people are shown."""

    entry: CatalogueEntry
    act: Act
    condition: Condition

    @property
    def shown(self) -> str:
        """What hinders it, in a sentence; empty: nothing."""
        return self.entry.debt.text if self.entry.debt else ""


def condition_of(entry: CatalogueEntry, look: Look) -> Condition:
    """What was found, as seen by the entry. Cost: the settings of both.

    >>> from cdcv2.control.entries import Kind
    >>> entry = CatalogueEntry("7f", Kind.PUBLICATION, "shop", "PostgreSQL db/shop", {}, True, ("shop",))
    >>> condition_of(entry, Answer("730", None)).value
    'absent'
    >>> condition_of(entry, Answer("730", ExternalObject(mark="7f"))).value
    'ours'
    >>> condition_of(entry, Answer("730", ExternalObject(mark="81"))).value
    "another's"
    """
    if not isinstance(look, Answer):
        return Condition(look.reason.value)
    if entry.server is not None and entry.server != look.server:
        return Condition.MOVED
    thing = look.thing
    if thing is None:
        return Condition.ABSENT
    if not _is_ours(entry, thing):
        # Where no mark can be put on it, only what we have asked for: another catalogue may use what is still empty.
        may = entry.rules.takes_empty and (entry.rules.marked or entry.attempted is not None)
        takes = may and entry.identity is None and thing.mark is None and not _too_early(entry)
        if lacks_mark(entry, thing):
            return Condition.UNMARKED
        return Condition.FITTING if takes and thing.empty and _fits(entry, thing) else Condition.FOREIGN
    if entry.state is EntryState.UNWANTED and thing.holder:
        return Condition.BUSY
    if thing.invalid:
        return Condition.INVALIDATED
    return Condition.DRIFTED if misfits(entry, thing) else Condition.OURS


def _is_ours(entry: CatalogueEntry, thing: ExternalObject) -> bool:
    """Whether it is what the entry means: by its mark, its identity, the nonce in its name, or as it was absent."""
    if not entry.owned:
        return entry.identity in (None, thing.identity)
    if thing.mark is not None:
        return thing.mark == entry.nonce
    if entry.identity is not None:
        return entry.identity == thing.identity
    if entry.attempted is None or entry.rules.marked:
        return False
    if entry.maker is not None or entry.nonce in entry.name:
        return True
    # Of what is never taken over, making is allowed only after it was seen to be absent.
    return not entry.rules.takes_empty and _fits(entry, thing)


def lacks_mark(entry: CatalogueEntry, thing: ExternalObject) -> bool:
    """Whether it is a connector of ours whose settings others have sent again without our mark: it reads our slot."""
    given = entry.settings if entry.applied is None else entry.applied
    ours = entry.kind is Kind.CONNECTOR and entry.owned and entry.attempted is not None
    slot = given.get("slot.name")
    return ours and thing.mark is None and slot is not None and thing.settings.get("slot.name") == slot


def _too_early(entry: CatalogueEntry) -> bool:
    """Whether its maker cannot have made it, as it was not started yet."""
    return entry.maker is not None and entry.attempted is None


def _fits(entry: CatalogueEntry, thing: ExternalObject) -> bool:
    """Whether it is as it should be, or as it was requested before the file changed."""
    requested = entry.applied if entry.attempted is not None else None
    exact = entry.rules.exact
    return not misfits(entry, thing) or requested is not None and not _differences(requested, thing.settings, exact)


def misfits(entry: CatalogueEntry, thing: ExternalObject) -> list[str]:
    """The names of the settings that are not as the entry has them, sorted."""
    return _differences(entry.settings, thing.settings, entry.rules.exact and entry.owned)


def _differences(meant: Mapping[str, Any], found: Mapping[str, Any], exact: bool) -> list[str]:
    names = {*meant, *found} if exact else {*meant}
    return sorted(name for name in names if meant.get(name) != found.get(name))


def decide(entry: CatalogueEntry, look: Look, now: float, *, claimed: bool = False) -> Step:
    """The next step. ``now``: epoch seconds. Cost: the settings of both.

    ``claimed``: whether a connector of ours is there whose slot it is: what has the name then is the connector's.
    """
    found = condition_of(entry, look)
    if entry.attempted is not None and entry.attempted > now:
        # The clock was set back. A request may have been sent a moment ago: it is waited for from now on.
        entry = replace(entry, attempted=now)
    if entry.state is EntryState.GONE:
        return Step(entry, Act.NOTHING, found)
    if entry.state is EntryState.UNWANTED:
        return _removal(entry, look, found, now, claimed)
    if entry.state is EntryState.LOST:
        return Step(entry, Act.NOTHING, found)
    hindrance = _hindrance(entry, look, found)
    if hindrance is not None:
        return _owed(entry, *hindrance, found, now)
    if entry.server is None and isinstance(look, Answer):
        entry = replace(entry, server=look.server)
    entry, gap = _since_last_fed(entry, look, found, now, claimed)
    if gap is not None:
        return _lost(entry, gap, found, now)
    if entry.state is EntryState.WANTED:
        return _making(entry, look, found, now)
    return _keeping(entry, look, found, now, claimed)


def _since_last_fed(
    entry: CatalogueEntry, look: Look, found: Condition, now: float, claimed: bool
) -> tuple[CatalogueEntry, str | None]:
    """The entry, when it was compared with what it was when it last fed the topics that it feeds again; why these lack
    something, or None.

    It is judged as an entry that is in use since then. What fits is in use at once, as the topics go on.
    """
    thing = look.thing if isinstance(look, Answer) else None
    pasts = [past for past in awaited(entry) if isinstance(look, Answer) and past.server == look.server]
    for past in pasts:
        if past.lost:
            return settled(entry, awaited(entry)), texts.let_go_before(entry)
        tables = sorted({*past.feeds.values()})
        before = replace(
            entry, state=EntryState.IN_USE, identity=past.identity, applied=past.applied, slot=past.slot,
            settings={**entry.settings, "tables": tables} if "tables" in entry.settings else entry.settings,
        )  # fmt: skip
        judged = _keeping(before, look, condition_of(before, look), now, claimed).entry
        if judged.state is EntryState.LOST and judged.debt is not None:
            return settled(entry, awaited(entry)), judged.debt.text
    if thing is None or not pasts or found is Condition.FOREIGN:
        return entry, None
    if not entry.is_there:
        entry = replace(entry, identity=thing.identity, slot=pasts[-1].slot)
    return _became(settled(entry, pasts), EntryState.IN_USE, now), None


def _hindrance(entry: CatalogueEntry, look: Look, found: Condition) -> tuple[Reason, str] | None:
    """Why nothing is known of it, or nothing can be done, and in words."""
    unknown = missing_answer(look)
    if not isinstance(look, Answer):
        return look.reason, look.text
    if found is Condition.MOVED:
        return Reason.MOVED, (
            f"{entry.address} is another server now ({look.server}, where {entry.shown} was first seen on "
            f"{entry.server}): bring that one back, or name where it is now. Nothing is done to this one"
        )
    if found is Condition.BUSY and look.thing is not None:
        return Reason.BUSY, f"{entry.shown} cannot be removed while {look.thing.holder} uses it: end that"
    if unknown is not None and found not in (Condition.FOREIGN, Condition.INVALIDATED):
        return unknown.reason, unknown.text
    return None


def _making(entry: CatalogueEntry, look: Look, found: Condition, now: float) -> Step:
    """The step for what should exist, and is not recorded as there."""
    thing = look.thing if isinstance(look, Answer) else None
    if thing is None:
        if not entry.owned:
            text = f"{entry.shown} is missing, and it is of others: its owner must make it"
            return _owed(entry, Reason.MISSING, text, found, now)
        attempted = replace(entry, attempted=now, identity=None)
        if entry.maker is None and is_in_doubt(entry, now):
            return _owed(entry, Reason.AWAITED, texts.late_request(entry), found, now)
        if entry.maker is None:
            return Step(replace(attempted, applied=entry.settings), Act.MAKE, found)
        first = attempted if entry.attempted is None else entry
        text = f"{entry.shown} is made by its connector at its first start: that is waited for"
        return replace(_owed(first, Reason.AWAITED, text, found, now), act=Act.AWAIT)
    less = _sends_less(entry, thing)
    if less:
        return _lost(entry, texts.narrowing(entry, thing, less), found, now)
    if found is Condition.UNMARKED:
        return _owed(entry, Reason.REFUSED, texts.without_mark(entry), found, now)
    if found is Condition.FOREIGN:
        return _owed(entry, Reason.REFUSED, texts.refusal(entry, thing), found, now)
    if found is Condition.INVALIDATED:
        return _lost(entry, texts.invalidation(entry, thing), found, now)
    if thing.being_made:
        # It has held nothing yet: if its connector ends before it is made, nothing is lost.
        waits = _owed(entry, Reason.AWAITED, texts.being_made(entry), found, now)
        return replace(waits, act=Act.AWAIT) if entry.owned and entry.maker is not None else waits
    if found is Condition.FITTING and thing.identity is None:
        # It is taken over by a mark, which is put on as when it is made.
        return Step(replace(entry, attempted=now, applied=entry.settings), Act.MAKE, found)
    there = _recorded(entry, thing)
    return _compared(_became(there, EntryState.MADE, now), thing, found, now)


def _keeping(entry: CatalogueEntry, look: Look, found: Condition, now: float, claimed: bool) -> Step:
    """The step for what was recorded as there."""
    thing = look.thing if isinstance(look, Answer) else None
    less = [] if thing is None else _sends_less(entry, thing)
    if thing is not None and less:
        return _lost(entry, texts.narrowing(entry, thing, less), found, now)
    holds = entry.state is EntryState.IN_USE and not entry.rules.remade
    if found in (Condition.ABSENT, Condition.FOREIGN):
        if not entry.owned:
            # It was let go. What is made under its name from here on is of others.
            entry = replace(entry, attempted=None)
        if holds or (entry.maker is not None and entry.owned):
            text = texts.replacement(entry, thing) if thing is not None else texts.removal_by_others(entry)
            return _lost(entry, text, found, now)
        # What a connector of ours was given counts for one that others make in its place.
        kept = entry.applied if entry.kind is Kind.CONNECTOR and entry.owned else None
        again = replace(entry, identity=None, applied=kept)
        if thing is not None and not entry.rules.marked:
            # Without a mark, what comes under its name from here on is of others.
            again = replace(again, attempted=None)
        return _making(_became(again, EntryState.WANTED, now), look, condition_of(again, look), now)
    if thing is not None and found is Condition.INVALIDATED:
        return _lost(entry, texts.invalidation(entry, thing), found, now)
    known_to_send = entry.slot is not None and entry.slot.through is not None
    # One that has sent something was made long ago.
    begun_again = thing is not None and thing.being_made and known_to_send
    remade = begun_again or (thing is not None and continuity(entry.slot, thing.slot) is Continuity.REMADE)
    if remade and (holds or entry.owned):
        return _lost(entry, texts.remaking(entry, begun_again), found, now)
    if thing is not None and went_back(entry.slot, thing.slot) and (holds or entry.owned):
        return _lost(entry, texts.going_back(entry), found, now)
    if thing is not None and branched_off(entry.slot, thing.slot) and (holds or entry.owned):
        return _lost(entry, texts.branching_off(entry, thing), found, now, thing.slot)
    if thing is None:
        return Step(entry, Act.NOTHING, found)
    if thing.being_made:
        made = not (holds or entry.owned)
        waiting = _became(replace(entry, identity=None, slot=None), EntryState.WANTED, now) if made else entry
        return _owed(waiting, Reason.AWAITED, texts.being_made(entry), found, now)
    if found is Condition.UNMARKED and entry.applied is None:
        # A person has accepted it: it is given its settings again, with the mark.
        return Step(replace(entry, debt=None), Act.ALTER, found)
    if found is Condition.UNMARKED:
        return _owed(entry, Reason.DRIFT, texts.without_mark(entry), found, now)
    in_use = entry.state is EntryState.IN_USE
    gap, altered = (_withdrawn(entry, thing), _rewritten(entry, thing)) if in_use else ([], [])
    if gap or altered:
        return _lost(entry, texts.withdrawal(entry, thing, gap) if gap else texts.rewriting(entry, altered), found, now)
    return _compared(_recorded(entry, thing, claimed), thing, found, now)


def _sends_less(entry: CatalogueEntry, thing: ExternalObject) -> list[str]:
    """The settings of a connector of ours by which it sends less since others changed it. It reads from its first
    moment on, so it does not count whether its job has started.

    What the file has changed, and the connector has not yet, is not the work of others.
    """
    if entry.kind is not Kind.CONNECTOR or not entry.owned or entry.applied is None:
        return []
    if thing.mark != entry.nonce and not lacks_mark(entry, thing):
        return []
    since = less_sent(entry.applied, thing.settings)
    return [name for name in less_sent(entry.settings, thing.settings) if name in since]


def _left_out_by_others(entry: CatalogueEntry, thing: ExternalObject) -> list[Omission]:
    """The settings of a connector of others by which it sends less than there is, or other values."""
    of_debezium = str(thing.settings.get("connector.class", "")).endswith("PostgresConnector")
    if entry.kind is not Kind.CONNECTOR or entry.owned or not of_debezium:
        return []
    return list(omissions(thing.settings, {table: () for table in (entry.feeds or {}).values()}))


def _withdrawn(entry: CatalogueEntry, thing: ExternalObject) -> list[str]:
    """The tables of a publication that it has ceased to publish since it was seen last, even if only for a moment."""
    if entry.kind is not Kind.PUBLICATION or "members" not in thing.settings:
        return []
    applied = entry.applied or {}
    before, now = applied.get("members", {}), thing.settings["members"]
    meant = {*entry.settings["tables"]}
    # What others are to publish is not sent before they do; what we are to add was in no log yet.
    known = {*applied.get("tables", ())} if entry.owned else meant
    gone = known - {*now} if thing.settings["tables"] != ["*"] else set[str]()
    again = {name for name, member in before.items() if now.get(name, member) != member}
    version = thing.settings.get("version")
    if applied.get("version", version) != version:
        # What it publishes of its tables was changed, perhaps for a moment.
        again |= {*now}
    again |= {*now} & _no_longer_full(applied, thing.settings)
    return sorted((gone | again | _elsewhere(applied, thing.settings)) & meant)


def _no_longer_full(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """The tables of a publication of which old rows were whole in the records, and are not any more.

    From the envelope, one would be taken for a row with the defaults of its columns. A partition that is new has never
    had FULL: as long as a before-image is lacking in no change, nothing is lost, and a change that lacks it stops the
    capture.
    """
    leaves = now.get("leaves", {})
    found = {*before.get("full", ())} - {*now.get("full", before.get("full", ()))} - {*leaves}
    for table, those in before.get("leaves", {}).items():
        if any(full and leaves.get(table, {}).get(number) is False for number, full in those.items()):
            found.add(table)
    return found


def _elsewhere(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """The tables of a publication that had another name or place for a while, or a partition of which had."""
    above, named, stored = (now.get(key, {}) for key in ("above", "named", "stored"))
    found = {name for name, path in before.get("above", {}).items() if above.get(name, path) != path}
    for name, (version, owner) in before.get("named", {}).items():
        # Another owner is another version, too.
        if name in named and version != named[name][0] and owner == named[name][1]:
            found.add(name)
    for name in before.get("stored", {}).keys() & stored.keys():
        _, _, *more = before["stored"][name]
        parts = stored[name][3]
        if more and any(parts.get(part, [None])[0] != has[0] for part, has in more[1].items()):
            found.add(name)
    return found


def _rewritten(entry: CatalogueEntry, thing: ExternalObject) -> list[str]:
    """The tables of a publication whose rows have other values by DDL, of which a server sends nothing.

    - Rows were written again with another type of a column, or by an expression.
    - A column has the name that another one had: that was dropped, or two were renamed.
    - A value of an enum type has another name.
    """
    applied = entry.applied or {}
    before, labels = applied.get("stored", {}), applied.get("labels", {})
    now, found = thing.settings.get("stored", {}), set[str]()
    for table in before.keys() & now.keys():
        (_, columns, *more), (_, new_columns, *_) = before[table], now[table]
        both = [(columns[name], new_columns[name]) for name in columns.keys() & new_columns.keys()]
        if any(old[0] != new[0] for old, new in both) or (more and _has_other_values(before[table], now[table])):
            found.add(table)
    for table, those in thing.settings.get("labels", {}).items():
        if any(those.get(number, label) != label for number, label in labels.get(table, {}).items()):
            found.add(table)
    return sorted(found & {*entry.settings.get("tables", ())})


def _has_other_values(old: list[Any], new: list[Any]) -> bool:
    """Whether an ``ALTER TABLE`` has written rows again that were there: of the table, or of its partitions.

    A new file alone means nothing: ``VACUUM FULL`` writes a table again. Unlike that, ``ALTER TABLE`` makes another
    table for long values, and alters the column. Both write out what rows lack: that alters the column, too.
    """
    file, columns, toast, parts = old
    new_file, new_columns, new_toast, new_parts = new
    files = [((file, toast), (new_file, new_toast))]
    files += [(tuple(parts[one][1:]), tuple(new_parts[one][1:])) for one in parts.keys() & new_parts.keys()]
    again = [(was[1], now[1]) for was, now in files if was[0] != now[0]]
    both = [(columns[name], new_columns[name]) for name in columns.keys() & new_columns.keys()]
    altered = [(was, now) for was, now in both if was[1] != now[1]]
    only_written_out = all(was[3] and not now[3] and was[2] == now[2] for was, now in altered)
    added = {one[0] for one in new_columns.values()} - {one[0] for one in columns.values()}
    if any(was != now and "0" not in (was, now) for was, now in again):
        # An added column may have been the reason.
        return bool(altered) and not (added and only_written_out)
    # Without a table for long values, VACUUM FULL may have been.
    return any("0" in one for one in again) and not only_written_out


def _with_columns_of_before(stored: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored, with the columns that were dropped meanwhile: another one of the name is noticed as such."""
    return {
        table: [file, {**before.get(table, [None, {}])[1], **columns}, *more]
        for table, (file, columns, *more) in stored.items()
    }


def may_be_accepted(entry: CatalogueEntry) -> bool:
    """Whether a person may have cdcv2 go on with it, although it is lost: all that matters of it can be put back.

    What others run is what they state it to be. Of ours, a slot and a topic that are lost have lost what they held;
    but a slot on another timeline may have all that it held.
    """
    whole = not entry.owned or (entry.slot is not None and entry.slot.fork is not None)
    kinds = (Kind.PUBLICATION, Kind.CONNECTOR, Kind.SLOT) if whole else (Kind.PUBLICATION, Kind.CONNECTOR)
    return entry.state is EntryState.LOST and entry.kind in kinds


def recovered(entry: CatalogueEntry, look: Look, now: float) -> CatalogueEntry | str:
    """What is lost, in use once more as it is now; or why not: of ours, it must be the one that was seen.

    A connector of ours need not be as it was.
    """
    if isinstance(look, NoAnswer):
        return look.text
    unknown = missing_answer(look)
    if unknown is not None:
        return unknown.text
    if entry.server not in (None, look.server):
        return f"{entry.address} is another server now: name where it is now"
    thing = look.thing
    sent_once_more = entry.owned and entry.kind is Kind.CONNECTOR
    if sent_once_more and thing is not None and (thing.mark == entry.nonce or lacks_mark(entry, thing)):
        # As nothing is known to be given to it, it is given its settings next.
        debt = Debt(Reason.AWAITED, texts.settings_sent(entry), now, 1)
        return replace(_became(entry, EntryState.IN_USE, now), applied=None, debt=debt)
    if thing is None or (entry.owned and thing.identity != entry.identity):
        return "it is missing, or another one has its name: start over (docs/operations/start-over.md)"
    if thing.invalid:
        return f"its server has invalidated it ({thing.invalid}): start over (docs/operations/start-over.md)"
    wrong = misfits(entry, thing)
    if wrong:
        return f"{texts.comparison(entry, thing, wrong)}. Put it back as it was; then accept it, and compare"
    applied = _seen(replace(entry, applied=None), thing)
    if entry.owned and made_behind_fork(entry.slot, thing.slot):
        return (
            "it keeps nothing of before the timeline of its server begins, as one that was made there does: what was "
            "committed up to then may be in no topic. Start over (docs/operations/start-over.md)"
        )
    if entry.owned and not _descends(entry.slot, thing.slot):
        return (
            "its server is not on a timeline that continues those on which it was seen: start over "
            "(docs/operations/start-over.md)"
        )
    identity = entry.identity if entry.owned else thing.identity
    return replace(
        _became(settled(entry, awaited(entry)), EntryState.IN_USE, now), applied=applied, identity=identity,
        slot=accepted(entry.slot, thing.slot), debt=None,
    )  # fmt: skip


def _descends(before: SlotMark | None, now: SlotMark | None) -> bool:
    """Whether a slot of ours that was lost on another timeline is on one that goes on from both. Any other: it is."""
    if before is None or before.fork is None:
        return True
    if now is None or now.ancestors is None or continuity(before.fork.last, now) is Continuity.REMADE:
        return False
    known = {now.timeline, *now.ancestors}
    return now.timeline != before.timeline and {before.timeline, before.fork.last.timeline} <= known


def _seen(entry: CatalogueEntry, thing: ExternalObject) -> dict[str, Any] | None:
    """What is compared with later, of a thing that fits. Of what others made: only what it publishes."""
    kept = ("members", "above", "version", "named", "labels", "full", "leaves")
    seen = {name: thing.settings[name] for name in kept if name in thing.settings}
    if "stored" in thing.settings:
        before = (entry.applied or {}).get("stored", {})
        seen |= {"stored": _with_columns_of_before(thing.settings["stored"], before)}
    return {**entry.settings, **seen} if entry.owned or seen else None


def _compared(entry: CatalogueEntry, thing: ExternalObject, found: Condition, now: float) -> Step:
    """The step for what is there: as it should be, or changed by us in the file, or by others in their system."""
    if thing.unfinished and entry.owned:
        return Step(replace(entry, debt=None), Act.ALTER, found)
    wrong = misfits(entry, thing)
    left_out = _left_out_by_others(entry, thing)
    if left_out and not wrong:
        return _owed(entry, Reason.DRIFT, texts.leaving_out(entry, left_out), found, now)
    if not wrong:
        seen = replace(entry, applied=_seen(entry, thing))
        mixed = {table: leaves for table, leaves in thing.settings.get("mixed", {}).items()
                 if table in entry.settings.get("tables", ())}  # fmt: skip
        if mixed:
            return _owed(seen, Reason.DRIFT, texts.mixed_identities(entry, mixed), found, now)
        return Step(replace(seen, debt=None), Act.NOTHING, found)
    changed = _differences(entry.applied, thing.settings, entry.rules.exact) if entry.applied is not None else []
    by_hand = [name for name in wrong if name in changed]
    if not entry.owned:
        found_so = texts.comparison(entry, thing, wrong)
        text = f"{entry.shown} does not fit: {found_so}. It is of others: its owner must mend it"
    elif by_hand:
        text = texts.change_by_others(entry, thing, by_hand)
    elif not entry.rules.altered:
        text = (
            f"{entry.shown} cannot be changed in place: {texts.comparison(entry, thing, wrong)}. Change the file back, "
            "or give it another name there"
        )
    else:
        return Step(replace(entry, debt=None), Act.ALTER, found)
    return _owed(entry, Reason.DRIFT, text, found, now)


def hindered(step: Step, look: NoAnswer, now: float) -> CatalogueEntry:
    """The entry, when the act of the step failed. One that was refused has made nothing, and none is on its way."""
    entry = decide(step.entry, look, now).entry
    refused = step.act is Act.MAKE and look.reason in (Reason.DENIED, Reason.BUSY)
    return replace(entry, attempted=None, applied=None) if refused else entry


def altered(entry: CatalogueEntry) -> CatalogueEntry:
    """The entry, when it was given its settings: what still differs is the work of others, or of the server."""
    return replace(entry, applied=entry.settings)


def _removal(entry: CatalogueEntry, look: Look, found: Condition, now: float, claimed: bool) -> Step:
    """The step for what no job needs."""
    if not entry.owned or (entry.attempted is None and entry.identity is None):
        # Nothing of ours was ever there, so it does not matter what is there now, or whether that can be known.
        return _ended(entry, found, now)
    hindrance = _hindrance(entry, look, found)
    if hindrance is not None:
        return _owed(entry, *hindrance, found, now)
    if found in (Condition.ABSENT, Condition.FOREIGN):
        if is_in_doubt(entry, now):
            return _owed(entry, Reason.AWAITED, texts.late_request(entry), found, now)
        if found is Condition.ABSENT and isinstance(look, Answer) and look.remains:
            return Step(replace(entry, removal=True), Act.DESTROY, found)
        return _ended(entry, found, now)
    if found is Condition.UNMARKED:
        return _owed(entry, Reason.DOUBTFUL, texts.unmarked_left(entry), found, now)
    thing = look.thing if isinstance(look, Answer) else None
    # When its removal was begun, its connector was stopped: what comes later is not the connector's.
    if (entry.removal or not claimed) and is_doubtful(entry, thing):
        return _owed(entry, Reason.DOUBTFUL, texts.either_owner(entry), found, now)
    identity = entry.identity if thing is None or thing.identity is None else thing.identity
    mark = entry.slot if thing is None or thing.slot is None else renewed(entry.slot, thing.slot)
    return Step(replace(entry, identity=identity, slot=mark, removal=True), Act.DESTROY, found)


def stopping(step: Step, slots: list[CatalogueEntry], now: float) -> Step:
    """The step, for a connector that is to be removed, and whose slots are still there or may still come.

    It is stopped, and stays until they are removed: as long as it is there, a slot of that name is its own.
    """
    waits = _owed(step.entry, Reason.STOPPED, texts.rest(step.entry, slots), step.condition, now)
    return replace(waits, act=Act.STOP)


def too_early(entry: CatalogueEntry, slots: list[CatalogueEntry], now: float) -> Step:
    """The step, for a connector that is not made, as slots have the names of those that it would make or read."""
    return _owed(entry, Reason.REFUSED, texts.slots_of_others(entry, slots), Condition.ABSENT, now)


def delayed(entry: CatalogueEntry, found: Condition, now: float) -> Step:
    """The step for what is not made yet, as it was requested a moment ago by another name of its server."""
    return _owed(entry, Reason.AWAITED, texts.late_request(entry), found, now)


def after_its_connectors(step: Step, entries: Iterable[CatalogueEntry], now: float) -> Step:
    """The step, of a publication: it is given other tables after each connector that reads by it was.

    A connector that does not know a table yet would pass by what is committed to it. What one was given is not known
    when it was accepted a moment ago, and one that is lost is given nothing.
    """
    late = [
        one for one in entries if one.kind is Kind.CONNECTOR and one.owned and one.is_live
        and step.entry.nonce in one.needs and one.attempted is not None
        and (one.applied is None or one.applied.get(TABLES) != one.settings.get(TABLES))
    ]
    if step.act is not Act.ALTER or not late:
        return step
    return _owed(step.entry, Reason.AWAITED, texts.connector_first(step.entry, late), step.condition, now)


def spared(entry: CatalogueEntry, look: NoAnswer, now: float) -> CatalogueEntry:
    """The entry that is not removed yet, as what is wanted at another address may be the same thing."""
    text = texts.maybe_elsewhere(entry, look.text)
    return _owed(entry, look.reason, text, Condition(look.reason.value), now).entry


def twofold(step: Step, other: CatalogueEntry, now: float) -> Step:
    """The step for what is refused, as the file has the same under another address, too."""
    text = texts.two_addresses(step.entry, other)
    return _owed(step.entry, Reason.REFUSED, text, step.condition, now)


def left_alone(entries: Iterable[CatalogueEntry], now: float) -> list[CatalogueEntry]:
    """Those in doubt, as they are when a person has stated that they are of others."""
    return [
        replace(_became(one, EntryState.GONE, now), debt=None)
        for one in entries if has_doubt(one)
    ]


def has_doubt(entry: CatalogueEntry) -> bool:
    """Whether a person has to state whose it is."""
    return entry.debt is not None and entry.debt.reason is Reason.DOUBTFUL


def is_doubtful(entry: CatalogueEntry, thing: ExternalObject | None) -> bool:
    """Whether it may be of others: a slot that is not seen to be the one that was ours, and has no nonce of ours."""
    if entry.kind is not Kind.SLOT or entry.nonce in entry.name or thing is None:
        return False
    # One that we make ourselves was requested when it was seen to be absent.
    unanswered = entry.identity is None and entry.maker is None
    return not unanswered and continuity(entry.slot, thing.slot) is not Continuity.SAME


def may_be_of_others(slot: CatalogueEntry, thing: ExternalObject | None) -> bool:
    """Whether what a look found may not be the slot of a connector that is missing: it would be read by ours."""
    return (slot.identity is None or slot.slot is not None) and is_doubtful(slot, thing)


def is_in_doubt(entry: CatalogueEntry, now: float) -> bool:
    """Whether a request for it may still be carried out, or its maker, removed a moment ago, may still make it."""
    if entry.attempted is None:
        return False
    if entry.identity is not None:
        return entry.kind is Kind.SLOT and now < entry.attempted + STARTING
    return now < entry.attempted + DOUBT


def _recorded(entry: CatalogueEntry, thing: ExternalObject, claimed: bool = True) -> CatalogueEntry:
    """The entry, with what is known of the thing now; settings that were never applied are as they are found."""
    same = claimed or entry.slot is None or continuity(entry.slot, thing.slot) is Continuity.SAME
    applied = entry.applied if entry.applied is not None or not entry.owned else dict(thing.settings)
    # What was found while it is not ours was made by others: only an identity that was recorded before states more.
    attempted = entry.attempted if entry.owned or entry.identity is not None else None
    return replace(
        entry, identity=thing.identity or entry.identity, applied=applied, attempted=attempted,
        slot=renewed(entry.slot, thing.slot) if same else entry.slot,
    )  # fmt: skip


def _became(entry: CatalogueEntry, state: EntryState, now: float) -> CatalogueEntry:
    return entry if entry.state is state else replace(entry, state=state, since=now)


def _owed(entry: CatalogueEntry, reason: Reason, text: str, found: Condition, now: float) -> Step:
    """A step that waits; the debt is as old as its reason."""
    before = entry.debt
    same = before is not None and before.reason is reason
    debt = Debt(reason, text, before.since if before and same else now, before.tries + 1 if before and same else 1)
    return Step(replace(entry, debt=debt), Act.NOTHING, found)


def _lost(
    entry: CatalogueEntry, text: str, found: Condition, now: float, elsewhere: SlotMark | None = None
) -> Step:
    """A step that ends in a loss. ``elsewhere``: what a slot is on another timeline, if it is lost for that."""
    mark = entry.slot
    if mark is not None:
        mark = replace(mark, fork=None) if elsewhere is None else forked(mark, elsewhere)
    lost = replace(_became(entry, EntryState.LOST, now), debt=Debt(Reason.LOST, text, now, 1), slot=mark)
    return Step(lost, Act.NOTHING, found)


def _ended(entry: CatalogueEntry, found: Condition, now: float) -> Step:
    return Step(replace(_became(entry, EntryState.GONE, now), debt=None), Act.NOTHING, found)
