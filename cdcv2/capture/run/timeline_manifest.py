"""What captures of a timeline note beside their directory logs: of which timeline these are, and which tables.

Several captures may begin in one directory at once, so the note is put if absent; tables that a recipe adds later are
added to it in a file of their own (:mod:`cdcv2.logs.capture_manifest`).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from cdcv2.errors import ForeignStateError, OutputError
from cdcv2.logs.capture_manifest import (
    CAPTURE_FILE, VERSION, add_to_manifest, manifest_of, put_manifest, read_manifest,
)
from cdcv2.store.file_system import is_there
from cdcv2.timeline.ordering import AS_COMPLETE


def write_timeline(into: Path, timeline: str, tables: Collection[str], *, ordering: str) -> None:
    """Write the manifest ``into`` the folder: its logs are of this timeline; or check that the one there is the same.

    ``ordering`` is that of transactions, for readers who need a consistent cut; an order without cuts is kept for ever.

    Raises ForeignStateError for the directory of another timeline or capture, OutputError if it cannot be written,
    and as :func:`~cdcv2.logs.capture_manifest.read_manifest`.
    """
    begun: dict[str, Any] = {
        "version": VERSION, "timeline": timeline, "tables": sorted(tables), "snapshot_completeness": "known",
        "ordering": ordering,
    }
    try:
        put_manifest(into, begun)
        _check_same(into, timeline)
        there = manifest_of(into)
        fresh = sorted({*tables} - {*there.get("tables", [])})
        if fresh or (ordering == AS_COMPLETE != there.get("ordering")):
            add_to_manifest(into, {"tables": fresh, "ordering": ordering})
    except OSError as error:
        raise OutputError(f"{into} cannot be written: {error.strerror or error}; give another --into") from error


def check_timeline(into: Path, timeline: str) -> None:
    """Raise as :func:`write_timeline` unless the logs in ``into``, if there are any, are of this timeline."""
    if is_there(into / CAPTURE_FILE):
        _check_same(into, timeline)


def _check_same(into: Path, timeline: str) -> None:
    other = read_manifest(into / CAPTURE_FILE).get("timeline")
    if other != timeline:
        raise ForeignStateError(
            f"{into} holds the logs of {'the timeline ' + str(other) if other else 'another capture'}, not of "
            f"{timeline}, which is this remap's: give another --into, or the remap that they were written with"
        )
