"""A folder of this machine is the same by every path to it: by links, and with ``..``.

Its entry has the path of the file, as it is written there, and not where that leads: a link that later leads to another
folder shows that under the same name, and it is not touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from cdcv2.control.entries import THIS_MACHINE, CatalogueEntry, EntryState
from cdcv2.control.intents import DesiredState, planned


def by_path(entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState]) -> list[CatalogueEntry]:
    """The entries, those of folders by the path by which the file has them now."""
    paths = {(one.kind, os.path.realpath(one.name)): one.name for one in desired if one.address == THIS_MACHINE}
    return [
        replace(one, name=paths.get((one.kind, os.path.realpath(one.name)), one.name))
        if one.address == THIS_MACHINE and one.state is not EntryState.GONE else one
        for one in entries
    ]  # fmt: skip


def planned_by_path(
    entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState], now: float, nonce: Callable[[], str]
) -> list[CatalogueEntry]:
    """See :func:`cdcv2.control.intents.planned`; a folder that has another path now is no other one."""
    known, wishes = list(entries), list(desired)
    spelled = by_path(known, wishes)
    changed = {one.nonce: one for one in planned(spelled, wishes, now, nonce)}
    moved = [one for one, before in zip(spelled, known, strict=True) if one != before and one.nonce not in changed]
    return [*moved, *changed.values()]
