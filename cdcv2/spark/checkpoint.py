"""Spark's checkpoint of a query: its identity, and the last micro-batch that was done.

Spark marks a batch as done after its function has returned, so after the state has it. Then it never brings that batch
again. A checkpoint with more batches done than the state knows belongs to a state that was lost. Going on from it would
skip the missing batches silently, as long as nothing new comes.
"""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.errors import OutputError, RefusedError
from cdcv2.store.file_system import in_words

#: What to do about it.
REMEDY = (
    "The state was lost, or is older than the checkpoint: remove the checkpoint, and all that is needed is read again"
)


def check(checkpoint: Path, done: tuple[str, int], state: Path) -> None:
    """Raise RefusedError unless the state has all up to its last batch ``done`` (the query's identity and its number).

    If another query has moved the state on since (a fresh checkpoint, and now the old one again), the state shows
    nothing about this one: it is ahead, or the batches themselves will show it. Raises OutputError, too.
    """
    last = _last(checkpoint)
    query, batch = done
    if last is None or (query and query != _query(checkpoint)) or last <= batch:
        return
    had = f"has only what came through batch {batch}" if query else "has nothing"
    raise RefusedError(
        f"by Spark's checkpoint in {checkpoint} all through batch {last} is done, but the state in {state} {had}. "
        + REMEDY
    )


def _last(checkpoint: Path) -> int | None:
    """The number of the last batch that is done; None: there is none, or no checkpoint."""
    try:
        names = [path.name for path in (checkpoint / "commits").iterdir()]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"the checkpoint in {checkpoint} cannot be read: {in_words(error)}") from error
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _query(checkpoint: Path) -> str | None:
    """The identity of the query whose checkpoint it is; None: the checkpoint has none."""
    try:
        metadata = json.loads((checkpoint / "metadata").read_bytes())
    except (OSError, ValueError):
        return None
    return str(metadata.get("id")) if isinstance(metadata, dict) else None
