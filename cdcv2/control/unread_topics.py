"""What a source has, and topics that the file leaves out for a while: it is compared with what it was then.

What it did not send in between is in no topic, whichever capture reads that next, and into whichever logs. So for
topics that no job reads any more an entry keeps what was known of it, and that is compared when they are read again: by
whatever job, beside whatever others, by this entry or by a later one. Topics that are new have nothing to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cdcv2.control.entries import CatalogueEntry, EntryState, Kind
from cdcv2.control.past_knowledge import Feeds, PastKnowledge

#: What a source has: a capture reads only topics.
OF_SOURCES = (Kind.CONNECTOR, Kind.SLOT, Kind.PUBLICATION)


def feeding(entry: CatalogueEntry, feeds: Feeds, now: float) -> CatalogueEntry:
    """The entry, when it feeds these topics from now on. Cost: what is known of it."""
    if entry.kind not in OF_SOURCES:
        return entry
    # What was not compared since it came back was last known before.
    waiting = {topic for past in entry.past for topic in past.feeds}
    ended = {
        topic: table for topic, table in (entry.feeds or {}).items() if topic not in feeds and topic not in waiting
    }
    past = entry.past
    # A connector of ours is given other settings by that, and a slot of ours that is lost stays so.
    kept = entry.kind is Kind.PUBLICATION or not entry.owned
    if ended and kept and entry.state in (EntryState.IN_USE, EntryState.LOST):
        past += (_known(entry, ended, now),)
    return replace(entry, feeds=feeds, past=past)


def resumed(entry: CatalogueEntry, before: CatalogueEntry | None, entries: Iterable[CatalogueEntry]) -> CatalogueEntry:
    """The entry, with what was known when the topics were last read that are read now and were not before.

    Of what others run, by whatever entry: by another address, or of another time. Cost: a pass over the entries.
    """
    known, fed = list(entries), {} if before is None else before.feeds
    new = {*(entry.feeds or {})} - {*(fed or {})}
    if entry.kind not in OF_SOURCES or fed is None or not new:
        return entry
    pasts = [*entry.past]
    if not entry.owned:
        pasts += [past for one in known if one.nonce != entry.nonce for past in _pasts(one, entry)]
    newest = {topic: past for past in sorted(pasts, key=lambda one: one.since) for topic in new & {*past.feeds}}
    removed = removed_topics(known)
    kept = [past.of({*past.feeds} - new) for past in entry.past]
    kept += [
        past.of([topic for topic, last in newest.items() if last is past and removed.get(topic, -1) < past.since])
        for past in pasts
    ]
    return replace(entry, past=tuple(past for past in kept if past.feeds))


def awaited(entry: CatalogueEntry) -> list[PastKnowledge]:
    """What was known when the topics were last read that are read again, and was not compared since."""
    return [past for past in (one.of(entry.feeds or {}) for one in entry.past) if past.feeds]


def settled(entry: CatalogueEntry, pasts: Iterable[PastKnowledge]) -> CatalogueEntry:
    """The entry, when these were compared, or do not count any more."""
    done = {topic for past in pasts for topic in past.feeds}
    left = (past.of({*past.feeds} - done) for past in entry.past)
    return replace(entry, past=tuple(past for past in left if past.feeds))


def _known(entry: CatalogueEntry, feeds: Feeds, since: float) -> PastKnowledge:
    lost = EntryState.LOST in (entry.state, entry.before)
    past = PastKnowledge(since, feeds, lost, entry.server, entry.identity, entry.applied, entry.slot)
    return past.of(feeds)


def _pasts(one: CatalogueEntry, entry: CatalogueEntry) -> Iterator[PastKnowledge]:
    """What another entry of the same thing knows of topics that it feeds no more."""
    if one.owned or (one.kind, one.name) != (entry.kind, entry.name):
        return
    yield from one.past
    was_used = one.before in (EntryState.IN_USE, EntryState.LOST) and {*one.users} & {*entry.users}
    if one.feeds is None and was_used and entry.identity is None:
        # An older release has let it go. It knew jobs, and no topics.
        tables = one.settings.get("tables")
        feeds = {topic: of for topic, of in (entry.feeds or {}).items() if tables is None or of in tables}
        yield _known(one, feeds, one.since)


def removed_topics(entries: Iterable[CatalogueEntry]) -> dict[str, float]:
    """The topics of ours that were removed, and when (epoch seconds): one of that name is a new one."""
    found = dict[str, float]()
    for one in entries:
        if one.kind is Kind.TOPIC and one.owned and one.removal:
            found[one.name] = max(one.since, found.get(one.name, one.since))
    return found
