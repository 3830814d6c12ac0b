"""Whether a directory log stands in its own place among the logs of a capture.

A capture finds its logs by the names of their directories, and so do those who read them. Two that have changed places,
or a copy of one in place of another, would pass for each other. So ``_log.json`` states the name (``table``) that the
directory had when a capture first wrote it. Where a capture's note lies beside it, the name must still be the same. A
copy of the directory elsewhere may have any name.
"""

from __future__ import annotations

from pathlib import Path

from cdcv2.errors import ForeignStateError, MissingLogError
from cdcv2.logs import log_json
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.description import LogDescription


def check_place(path: Path, stated: LogDescription) -> None:
    """Raise ForeignStateError unless the log in ``path``, which states this, is in its own place. Cost: one name.

    A log of before states no name: then no other log of the note may have its identity, which takes a look at each.

    The error has both names. Raises RefusedError for a damaged note, and what reading the others raises.
    """
    folder = path.absolute()
    if stated.table == folder.name:
        return
    note = manifest_of(folder.parent)
    if not note:
        return
    if stated.table is not None:
        raise ForeignStateError(
            f"the directory {path} holds the log of {stated.table}, and not that of {folder.name}: directories of a "
            "capture changed places, or one was copied over another. Give each of them its own name again"
        )
    others = [str(name) for name in note.get("tables", ()) if name != folder.name]
    for other in others if stated.identity is not None else ():
        if _identity(folder.parent / other) == stated.identity:
            raise ForeignStateError(
                f"the directories {path} and {path.parent / other} hold one and the same log: one was copied over the "
                "other. Bring back what was there"
            )


def _identity(path: Path) -> str | None:
    try:
        return log_json.read(path).description.identity
    except MissingLogError:
        return None
