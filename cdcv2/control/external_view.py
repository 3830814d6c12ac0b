"""The catalogue of external state, as programs see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdcv2.control.catalogue import read_catalogue
from cdcv2.control.entries import CatalogueEntry, EntryState
from cdcv2.control.intents import blocked_by


def external_of(state: Path, *, removed: bool = False) -> dict[str, Any]:
    """The owner and the entries of a state folder, plain; ``removed``: also what was removed.

    Raises UsageError where there is no catalogue, ForeignStateError for one that is damaged.
    """
    with read_catalogue(state) as catalogue:
        entries, owner = catalogue.entries(), catalogue.owner()
    shown = [entry for entry in entries if removed or entry.state is not EntryState.GONE]
    plain = [{**entry.to_plain(), "waits_for": awaited(entry, entries)} for entry in shown]
    return {"version": 1, "owner": owner, "entries": plain}


def awaited(entry: CatalogueEntry, entries: list[CatalogueEntry]) -> list[str]:
    """What is done before it, as sentences have it."""
    return [one.shown for one in blocked_by(entry, entries)]
