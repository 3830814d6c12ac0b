"""What is desired, compared with the catalogue: which entries are new, changed, or needed by no job any more.

A drop is committed when its entry is written as ``unwanted``. It is taken back if the same is desired again before its
removal was begun. Afterwards what is desired again is a new entry with a nonce of its own, which waits until the old
one is `gone`. So a removal that is half done cannot meet a job that has just started to write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2.control.entries import CatalogueEntry, EntryState, Kind
from cdcv2.control.past_knowledge import Feeds
from cdcv2.control.unread_topics import OF_SOURCES, feeding, resumed
from cdcv2.errors import UsageError


@dataclass(frozen=True)
class DesiredState:
    """One piece of external state that a job needs.

    Args:
        kind, name, address, settings, owned: see :class:`cdcv2.control.entries.CatalogueEntry`. ``{nonce}`` in a name
            becomes the nonce of the entry: so what carries no mark is known to be ours.
        user: the job that needs it.
        needs: what must be there first, by kind, address and name.
        maker: the connector that makes it at its first start, by kind, address and name; None: we do.
        feeds: of what a source has, the topics that the job reads, with their tables.
    """

    kind: Kind
    name: str
    address: str
    settings: Mapping[str, Any]
    owned: bool
    user: str
    needs: tuple[tuple[Kind, str, str], ...] = ()
    maker: tuple[Kind, str, str] | None = None
    feeds: Feeds = field(default_factory=dict)

    @property
    def key(self) -> tuple[Kind, str, str]:
        """As the entry's, with ``{nonce}`` as it is written."""
        return self.kind, self.address, self.name


def planned(
    entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState], now: float, nonce: Callable[[], str]
) -> list[CatalogueEntry]:
    """The entries that are new or differ, so that the catalogue has what is desired. ``nonce`` draws a new one.

    Raises UsageError where two jobs want one thing with other settings, or a need that is not desired itself.
    """
    known = list(entries)
    live, merged = [entry for entry in known if entry.is_live], _merged(desired)
    live += _returned(known, [wishes[0] for wishes in merged.values() if matching(live, wishes[0]) is None], now)
    matched = {key: matching(live, wishes[0]) or _drawn(wishes[0], now, nonce()) for key, wishes in merged.items()}
    after = [_updated(matched[key], wishes, matched, now) for key, wishes in merged.items()]
    kept = {entry.nonce for entry in after}
    before = {entry.nonce: entry for entry in known}
    dropped = [released(entry, now) for entry in live if entry.nonce not in kept]
    all_after = [*{**before, **{one.nonce: one for one in (*dropped, *after)}}.values()]
    after = [resumed(entry, before.get(entry.nonce), all_after) for entry in after]
    return [*dropped, *(entry for entry in after if before.get(entry.nonce) != entry)]


def released(entry: CatalogueEntry, now: float) -> CatalogueEntry:
    """The entry, when no job needs it any more; it keeps the names of those that did."""
    entry = entry if entry.owned or entry.feeds is None else feeding(entry, {}, now)
    return replace(entry, state=EntryState.UNWANTED, since=now, debt=None, before=entry.state, removal=False)


def returned(entry: CatalogueEntry, now: float) -> CatalogueEntry:
    """The entry of which nothing was removed, when it is wanted again: as it was before."""
    return replace(entry, state=entry.before or EntryState.WANTED, since=now, debt=None, before=None)


def _returned(entries: list[CatalogueEntry], missing: Iterable[DesiredState], now: float) -> list[CatalogueEntry]:
    """Those that are wanted again in time. A connector and its slots return together, or not at all.

    A connector that has lost its slot, or a slot its connector, would go on elsewhere than the other half has ended.
    """
    free = [entry for entry in entries if entry.may_return]
    found = [one for one in (matching(reversed(free), wish) for wish in missing) if one is not None]
    while True:
        there = {one.nonce for one in (*found, *(entry for entry in entries if entry.is_live))}
        whole = [one for one in found if _halves(one, entries) <= there]
        if len(whole) == len(found):
            return [returned(one, now) for one in whole]
        found = whole


def _halves(one: CatalogueEntry, entries: list[CatalogueEntry]) -> set[str]:
    """The nonces of the slots of a connector; of a slot, those of its connectors, and of the one that has made it."""
    if one.kind is Kind.CONNECTOR:
        return {slot.nonce for slot in slots_of(one, entries)}
    if one.kind is not Kind.SLOT:
        return set()
    return {other.nonce for other in entries if other.nonce == one.maker or has_slot(other, one)}


def missing_for(job: str, entries: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
    """What a job needs and has to wait for before it starts: what is ours, and what it opens itself.

    A connector, slot or publication that others run may be away for a while, and what it wrote can be read meanwhile.
    """
    return [
        one for one in entries
        if one.is_live and not one.is_there and job in one.users and (one.owned or one.kind not in OF_SOURCES)
    ]


def refused_replacements(
    entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState]
) -> list[tuple[CatalogueEntry, str]]:
    """What must not be replaced by another while the slot that belongs to it goes on, each with the reason.

    - The publication that the slot reads by, if one of both is ours, or the one that is made: what is committed before
      another one is made is sent by none, whichever capture that one is for.
    - The connector of ours that has made the slot: its positions go with it, so another one takes a second snapshot.
    - The slot itself, if the connector that reads it goes on: another one begins where it is made, behind the positions
      of the connector, which fails then, or passes over what was committed in between.
    - What a connector of ours that goes on with its slot is bound to: its prefix, by which Connect keeps its positions;
      its database, whose slot it is; its notification topic, as only its first snapshot is stated there.
    """
    entries, wanted = list(entries), list(desired)
    # What is lost is not forgotten, either, when another one takes its place; and what is unwanted may return.
    known = [one for one in entries if one.is_there or one.state is EntryState.LOST or one.may_return]
    # By name alone: the file may name the same server by another address from now on.
    names = {(one.kind, one.name) for one in wanted}
    makers = {one.name: one.maker[2] for one in wanted if one.kind is Kind.SLOT and one.maker is not None}
    found = _bound_otherwise([one for one in entries if one.is_live or one.may_return], wanted)
    for slot in known:
        if slot.kind is not Kind.SLOT:
            continue
        if (slot.kind, slot.name) not in names:
            reader = next((
                one for one in known if one.kind is Kind.CONNECTOR and (one.kind, one.name) in names
                and (one.owned or slot.owned) and (one.nonce == slot.maker or slot.nonce in one.needs)
                # Neither returns without the other.
                and (one.is_live or slot.is_live)
            ), None)
            if reader is not None:
                found.append((slot, (
                    f"{reader.shown} reads from {slot.shown}, and keeps running: it has no position in another slot. "
                    "Keep the name of the slot; or give the connector another one, too, and start over "
                    "(docs/operations/start-over.md)"
                )))
            continue
        for old in known:
            is_maker = old.kind is Kind.CONNECTOR and old.nonce == slot.maker and slot.is_live
            if is_maker and makers.get(slot.name, old.name) != old.name:
                found.append((old, (
                    f"{slot.shown} was made by {old.shown}, and keeps running: another connector has none of its "
                    f"positions, and takes a second snapshot, at which the capture stops. {_KEEP.format('connector')}"
                )))
            is_read_by = old.kind is Kind.PUBLICATION and old.address == slot.address and {*old.users} & {*slot.users}
            ours = old.owned or slot.owned or any(
                one.kind is Kind.PUBLICATION and one.owned and (one.address == old.address or one.user in old.users)
                for one in wanted
            )
            if is_read_by and (old.kind, old.name) not in names and ours:
                found.append((old, (
                    f"{slot.shown} reads by {old.shown}, and keeps running: what is committed before another "
                    f"publication is made would be lost. {_KEEP.format('publication')}"
                )))
    return found


#: Setting -> why a connector that goes on with its slot cannot have another one.
_BOUND_TO = {
    "topic.prefix":
        "Connect keeps its positions by it, so it begins again, where the changes do not meet what was sent before",
    "database.dbname": "the slot is one of that database",
    "notification.sink.topic.name":
        "only there it is stated how many rows its snapshot had, and it takes no second one: a new capture would wait "
        "without end",
}  # fmt: skip


def _bound_otherwise(
    known: list[CatalogueEntry], desired: list[DesiredState]
) -> list[tuple[CatalogueEntry, str]]:
    """The connectors of ours that would go on with their slot, bound to something else, each with the reason.

    It may have made its slot, and read by it, since it was requested: whether that was seen does not matter.
    """
    keys, found = {one.key for one in desired}, []
    for wish in {one.key: one for one in desired if one.kind is Kind.CONNECTOR and one.owned}.values():
        # What was let go in between is what we made all the same.
        same = requested_as(known, wish, keys)
        if same is None:
            continue
        before = same.settings if same.applied is None else same.applied
        slot = before.get("slot.name")
        for name, why in _BOUND_TO.items() if slot == wish.settings.get("slot.name") else ():
            old, new = (None if one is None else str(one) for one in (before.get(name), wish.settings.get(name)))
            if old != new and not any(one is None or "${" in one for one in (old, new)):
                found.append((same, (
                    f"{same.shown} has {name}={old}, and continues with its slot {slot!r}: {why}. Keep it, not {new}; "
                    "or give connector and slot other names, too, and start over (docs/operations/start-over.md)"
                )))
    return found


_KEEP = (
    "Keep the name of the {}; or give the slot another name, too, and start over (docs/operations/start-over.md)"
)


def used_by(job: str, entries: Iterable[CatalogueEntry], now: float) -> list[CatalogueEntry]:
    """The entries that change when the job is about to start: all that it needs and that are there are in use."""
    return [used(one, now) for one in entries if one.state is EntryState.MADE and job in one.users]


def used(entry: CatalogueEntry, now: float) -> CatalogueEntry:
    """The entry, when a job that needs it is about to start. Raises UsageError unless it is there."""
    if not entry.is_there:
        raise UsageError(f"{entry.shown} is {entry.state}, so no job that needs it can start: cdcv2 external shows why")
    return entry if entry.state is EntryState.IN_USE else replace(entry, state=EntryState.IN_USE, since=now)


def has_slot(one: CatalogueEntry, slot: CatalogueEntry) -> bool:
    """Whether it is a connector of ours, not removed, that reads the slot or makes it."""
    ours = one.kind is Kind.CONNECTOR and one.owned and one.state is not EntryState.GONE
    return ours and (one.nonce == slot.maker or slot.nonce in one.needs)


def slots_of(connector: CatalogueEntry, entries: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
    """The slots that a connector reads or makes, and that are ours and not removed."""
    return [
        one for one in entries
        if one.kind is Kind.SLOT and one.owned and one.state is not EntryState.GONE and has_slot(connector, one)
    ]


def after_removal(maker: CatalogueEntry, entries: Iterable[CatalogueEntry], now: float) -> list[CatalogueEntry]:
    """What its maker may have made up to the moment in which it was stopped, or removed: in doubt from here on.

    A connector makes the slot that it needs whenever it starts and finds none, even if the first was ours. One that was
    never requested, as others had its name, has made none: a slot that is there is theirs, unless we requested it
    ourselves before the connector was ours.
    """
    never = maker.attempted is None and maker.identity is None

    def is_theirs(one: CatalogueEntry) -> bool:
        # What we request ourselves has the settings of the request.
        return never and one.identity is None and one.applied is None and one.maker == maker.nonce

    return [
        replace(one, attempted=None if is_theirs(one) else now)
        for one in entries
        if (one.maker == maker.nonce or (one.kind is Kind.SLOT and one.nonce in maker.needs))
        and one.attempted is not None and one.state is not EntryState.GONE
    ]


def blocked_by(
    entry: CatalogueEntry, entries: Iterable[CatalogueEntry], stopped: Collection[str] = ()
) -> list[CatalogueEntry]:
    """The entries that come first: needs before what needs them, and in the other order when they are removed.

    An entry that is to be made also waits for one of the same name that is still to be removed. ``stopped``: nonces of
    connectors that are stopped, and stay until their slots are removed.
    """
    others = [one for one in entries if one.nonce != entry.nonce and one.state is not EntryState.GONE]
    if entry.state is EntryState.UNWANTED:
        rests = stopped if entry.kind is Kind.SLOT else ()
        return [one for one in others if entry.nonce in one.needs and one.owned and one.nonce not in rests]
    if entry.state is not EntryState.WANTED:
        return []
    if entry.maker is not None and entry.attempted is not None and entry.owned:
        # What appears is our connector's only if there is one: where others have its name, theirs made the slot.
        return [one for one in others if one.nonce == entry.maker and one.owned and not one.is_there]
    old = [one for one in others if one.state is EntryState.UNWANTED and one.key == entry.key and one.owned]
    return old + [one for one in others if one.nonce in entry.needs and not _allows(one)]


def _allows(need: CatalogueEntry) -> bool:
    """Whether what needs it may be made: it is there, or its maker may make it."""
    return need.is_there or (need.maker is not None and need.attempted is not None and need.state is EntryState.WANTED)


def matching(live: Iterable[CatalogueEntry], one: DesiredState) -> CatalogueEntry | None:
    """The entry that is meant, if there is one."""
    named = ((entry, (one.kind, one.address, one.name.replace("{nonce}", entry.nonce))) for entry in live)
    return next((entry for entry, key in named if entry.key == key), None)


def requested_as(
    known: Collection[CatalogueEntry], one: DesiredState, keys: Collection[tuple[Kind, str, str]]
) -> CatalogueEntry | None:
    """The entry that is meant and was requested, or that has its name at an address that the file has not any more: it
    may be the same by another one.

    ``keys``: of all that is desired.
    """
    requested = [entry for entry in reversed([*known]) if entry.attempted is not None]
    elsewhere = (
        entry for entry in requested if (entry.kind, entry.name) == (one.kind, one.name) and entry.key not in keys
    )
    return matching(requested, one) or next(elsewhere, None)


def _drawn(one: DesiredState, now: float, nonce: str) -> CatalogueEntry:
    name = one.name.replace("{nonce}", nonce)
    return CatalogueEntry(nonce, one.kind, name, one.address, one.settings, one.owned, (), since=now, feeds={})


def _updated(
    entry: CatalogueEntry,
    wishes: list[DesiredState],
    matched: Mapping[tuple[Kind, str, str], CatalogueEntry],
    now: float,
) -> CatalogueEntry:
    """The entry, as it is desired now."""
    one = wishes[0]
    unknown = [key for key in (*one.needs, *((one.maker,) if one.maker else ())) if key not in matched]
    if unknown:
        raise UsageError(f"{entry.shown} needs {' '.join(unknown[0])}, which is not declared: declare it")
    feeds = {topic: table for wish in wishes for topic, table in wish.feeds.items()}
    entry = feeding(entry, feeds, now)
    if one.owned and not entry.owned and (entry.attempted is None or entry.identity is None):
        # It was of others until now: it is judged again, from nothing. What we made once, and is the same, is ours.
        entry = replace(entry, attempted=None, identity=None, applied=None)
        if entry.state is not EntryState.LOST:
            entry = replace(entry, state=EntryState.WANTED, since=now, debt=None)
    return replace(
        entry,
        settings=one.settings,
        owned=one.owned,
        users=tuple(sorted({wish.user for wish in wishes})),
        needs=tuple(sorted(matched[key].nonce for key in one.needs)),
        maker=matched[one.maker].nonce if one.maker is not None else _started_maker(entry),
    )


def _started_maker(entry: CatalogueEntry) -> str | None:
    """The maker of an entry that the file has none for any more: one that was started may still make it."""
    return entry.maker if entry.attempted is not None else None


def _merged(desired: Iterable[DesiredState]) -> dict[tuple[Kind, str, str], list[DesiredState]]:
    """By key, all that want the same; they agree."""
    merged: dict[tuple[Kind, str, str], list[DesiredState]] = {}
    for one in desired:
        others = merged.setdefault(one.key, [])
        if others and replace(others[0], user=one.user, feeds=one.feeds) != one:
            raise UsageError(
                f"{others[0].user} and {one.user} both use {one.kind} {one.name!r} ({one.address}), each with settings "
                "of its own: give both the same, or one of them another name"
            )
        others.append(one)
    return merged
