"""What is still wanted, and is found under another address or spelling of its server, is the same thing.

A server may have many names: ``localhost`` and ``127.0.0.1``, one broker of a cluster and another. An entry has the one
of the file. When the file has another, the old entry is unwanted and a new one wanted; what the new one finds shows
whether it is the same thing: by the identity of the server, and its own. Then the old entry goes on at the new address.
And nothing is removed before what is wanted in its place was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cdcv2.control.entries import Answer, CatalogueEntry, Debt, EntryState, Kind, Look, NoAnswer, Reason
from cdcv2.control.external_state import Condition, condition_of, is_in_doubt
from cdcv2.control.external_texts import lost_before
from cdcv2.control.intents import has_slot, returned, slots_of
from cdcv2.control.unread_topics import feeding

#: Kinds of which a server has only one of a name. A remap at another address is a topic. PostgreSQL has publications
#: and tables of one name in several databases; what a server of Kafka Connect is known by is that of its Kafka.
_WIDE = (Kind.TOPIC, Kind.REMAP, Kind.SLOT)
#: What is found is, or would become, what the entry means.
_OWN = (Condition.OURS, Condition.DRIFTED, Condition.INVALIDATED, Condition.FITTING)
LookAt = Callable[[CatalogueEntry], Look]


class _Together(NamedTuple):
    """Wanted entries, each with the unwanted one that is the same; and whether these are whole, and may go on."""

    pairs: list[tuple[CatalogueEntry, CatalogueEntry]]
    whole: bool


def continued(
    wanted: CatalogueEntry, found: Look, entries: Iterable[CatalogueEntry], look: LookAt, now: float
) -> list[CatalogueEntry] | NoAnswer:
    """The entries that change when what was found for a wanted one is what an unwanted one means; none: it is not.

    The unwanted one goes on at the new address, with its nonce and what is known of it; the wanted one ends without an
    act. One whose removal was begun goes on with that there. NoAnswer: it cannot be known yet.
    """
    known = list(entries)
    if wanted.state is not EntryState.WANTED or wanted.identity is not None:
        return []
    for older in _elsewhere(wanted, known):
        if not older.owned or not _is_same(older, found):
            continue
        together = _together(wanted, older, known, look)
        if isinstance(together, NoAnswer):
            return together
        if together is not None:
            return _changed(together, known, now)
    return []


def after_looks(entries: Iterable[CatalogueEntry], look: LookAt, now: float) -> list[CatalogueEntry]:
    """All entries, when what is wanted was looked at, if an unwanted one may be the same."""
    after = {one.nonce: one for one in entries}
    for nonce in list(after):
        wanted, known = after[nonce], list(after.values())
        if wanted.state is EntryState.WANTED and any(one.before for one in _elsewhere(wanted, known)):
            changed = continued(wanted, look(wanted), known, look, now)
            after |= {one.nonce: one for one in changed} if isinstance(changed, list) else {}
    return list(after.values())


def withheld(
    unwanted: CatalogueEntry, entries: Iterable[CatalogueEntry], look: LookAt, now: float
) -> list[CatalogueEntry] | NoAnswer | None:
    """Why an entry is not removed now: the entries that change instead, or that one wanted cannot be looked at.

    None: nothing that is wanted is the same.
    """
    known = list(entries)
    for one in _elsewhere(unwanted, known):
        if not one.is_live or one.server not in (None, unwanted.server):
            continue
        if one.identity is not None and one.identity == unwanted.identity:
            # It is recorded as another one's by now.
            return [replace(unwanted, state=EntryState.GONE, since=now, debt=None)]
        found = look(one)
        changed = found if isinstance(found, NoAnswer) else continued(one, found, known, look, now)
        if changed:
            return changed
    return None


def awaited_elsewhere(wanted: CatalogueEntry, found: Look, entries: Iterable[CatalogueEntry], now: float) -> bool:
    """Whether the same was requested at this server a moment ago, by another name of it, and may still come."""
    olds = (one for one in _elsewhere(wanted, entries) if one.state is EntryState.UNWANTED and one.identity is None)
    return isinstance(found, Answer) and any(one.server == found.server and is_in_doubt(one, now) for one in olds)


def same_at_another(wanted: CatalogueEntry, found: Look, entries: Iterable[CatalogueEntry]) -> CatalogueEntry | None:
    """The entry of the same thing, that is wanted too, at another address of its server."""
    if not isinstance(found, Answer) or found.thing is None or found.thing.identity is None:
        return None
    same = (one for one in _elsewhere(wanted, entries) if one.is_live and one.server == found.server)
    return next((one for one in same if one.identity == found.thing.identity), None)


def _elsewhere(entry: CatalogueEntry, entries: Iterable[CatalogueEntry]) -> Iterator[CatalogueEntry]:
    """Those of the same kind and name at other addresses."""
    for one in entries:
        if (one.kind, one.name) == (entry.kind, entry.name) and one.address != entry.address:
            if one.state is not EntryState.GONE:
                yield one


def _is_same(older: CatalogueEntry, found: Look) -> bool:
    """Whether what was found is what an unwanted entry means. What an older release let go is not taken back."""
    if older.state is not EntryState.UNWANTED or older.before is None or not isinstance(found, Answer):
        return False
    if older.server is None or older.server != found.server:
        return False
    if older.kind in _WIDE or found.thing is None:
        return older.kind in _WIDE
    # A copy of a database has the same marks.
    same = older.identity in (None, found.thing.identity)
    return same and condition_of(replace(older, state=EntryState.WANTED), found) in _OWN


def _together(
    wanted: CatalogueEntry, older: CatalogueEntry, entries: list[CatalogueEntry], look: LookAt
) -> _Together | NoAnswer | None:
    """What goes on with an entry: a slot with its connector, and a connector with its slots. None: it does not go on.

    Another connector would take its first snapshot at another moment than the one from which the slot has the changes.
    """
    maker = next((one for one in entries if one.nonce == wanted.maker), None)
    if wanted.kind is Kind.SLOT and maker is not None and not has_slot(maker, older):
        found = look(maker)
        olds = (one for one in _elsewhere(maker, entries) if has_slot(one, older) and _is_same(one, found))
        connector = next(olds, None)
        if isinstance(found, NoAnswer) or connector is None:
            return found if isinstance(found, NoAnswer) else None
        wanted, older = maker, connector
    whole, pairs = True, [(wanted, older)]
    for slot in slots_of(older, entries) if older.kind is Kind.CONNECTOR else ():
        if slot.state is not EntryState.UNWANTED:
            continue
        new = next((one for one in _elsewhere(slot, entries) if one.is_live and has_slot(wanted, one)), None)
        seen = look(new) if new is not None else None
        if isinstance(seen, NoAnswer):
            return seen
        if new is not None and seen is not None and _is_same(slot, seen):
            pairs.append((new, slot))
        else:
            whole = False
    return _Together(pairs, whole and not any(one.removal for _, one in pairs))


def _changed(together: _Together, entries: list[CatalogueEntry], now: float) -> list[CatalogueEntry]:
    """The entries that change when the older ones go on in place of the wanted ones."""
    pairs = together.pairs
    if not together.whole:
        # They are removed there, and the wanted ones wait for that.
        return [replace(older, address=wanted.address) for wanted, older in pairs]
    names = {wanted.nonce: older.nonce for wanted, older in pairs}
    after = {one.nonce: one for one in entries if one.state is not EntryState.GONE}
    for wanted, older in pairs:
        again = feeding(returned(older, now), wanted.feeds or {}, now)
        after[older.nonce] = replace(
            again, address=wanted.address, settings=wanted.settings, owned=wanted.owned, users=wanted.users,
            needs=wanted.needs, maker=wanted.maker,
            debt=Debt(Reason.LOST, lost_before(wanted), now, 1) if older.before is EntryState.LOST else None,
        )  # fmt: skip
        after[wanted.nonce] = replace(wanted, state=EntryState.GONE, since=now, debt=None, needs=(), maker=None)
    renamed = [
        replace(
            one, needs=tuple(sorted(names.get(need, need) for need in one.needs)),
            maker=one.maker and names.get(one.maker, one.maker),
        )
        for one in after.values()
    ]  # fmt: skip
    before = {one.nonce: one for one in entries}
    return [one for one in renamed if before[one.nonce] != one]
