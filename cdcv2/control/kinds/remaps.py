"""Remaps: a topic or a folder, as their address states."""

from __future__ import annotations

from cdcv2.control.entries import THIS_MACHINE, CatalogueEntry, Look, NoAnswer
from cdcv2.control.kinds.folders import StateFolderKind
from cdcv2.control.kinds.topics import TopicKind


class RemapKind:
    """A remap is looked at, made and removed as the topic or the folder that it is in."""

    def __init__(self, topics: TopicKind, folders: StateFolderKind) -> None:
        self._topics, self._folders = topics, folders

    def _kind(self, entry: CatalogueEntry) -> TopicKind | StateFolderKind:
        return self._folders if entry.address == THIS_MACHINE else self._topics

    def look(self, entry: CatalogueEntry) -> Look:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._kind(entry).look(entry)

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._kind(entry).make(entry)

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._kind(entry).alter(entry)

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._kind(entry).destroy(entry)
