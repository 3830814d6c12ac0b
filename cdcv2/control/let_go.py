"""What others run, and the file left out for a while: it is compared with what it was then.

An entry of it ends at once, as nothing is to be removed. But what it did not send in between is in no topic, and the
capture that comes back goes on in front of that. So a new entry begins with what the last one knew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdcv2.control.entries import Answer, CatalogueEntry, Debt, EntryState, Kind, Look, Reason
from cdcv2.control.external_texts import let_go_before

_OF_SOURCES = (Kind.CONNECTOR, Kind.SLOT, Kind.PUBLICATION)


def restored(entry: CatalogueEntry, look: Look, entries: Iterable[CatalogueEntry], now: float) -> CatalogueEntry:
    """The entry of what others run, when it is found for the first time: as the last one of it was, if a job of it is
    back. By whatever address: the server is known by its identity. Cost: a pass over the entries.
    """
    new = entry.state is EntryState.WANTED and entry.identity is None and entry.kind in _OF_SOURCES
    if entry.owned or not new or not isinstance(look, Answer):
        return entry
    olds = [
        one for one in entries
        if one.state is EntryState.GONE and not one.owned and (one.kind, one.name) == (entry.kind, entry.name)
        and one.server == look.server and {*one.users} & {*entry.users}
    ]
    last = max(olds, key=lambda one: one.since, default=None)
    if last is None or last.before not in (EntryState.IN_USE, EntryState.LOST):
        return entry
    debt = Debt(Reason.LOST, let_go_before(last), now, 1) if last.before is EntryState.LOST else None
    return replace(
        entry, state=last.before, since=now, identity=last.identity, server=last.server, applied=last.applied,
        slot=last.slot, debt=debt,
    )  # fmt: skip
