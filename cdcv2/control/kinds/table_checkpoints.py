"""What a view has committed beside its tables: the rows of ``cdcv2_checkpoints`` that bear its name.

They decide where the view goes on. So a table may not be made while they state more than it has, and they go with the
last table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdcv2.control.entries import CatalogueEntry
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.targets.postgres import fence
from cdcv2.materialize.targets.postgres.places import plain_checkpoint

if TYPE_CHECKING:
    from psycopg import Connection


def demand_not_started(session: Connection[Any], entry: CatalogueEntry) -> None:
    """Raise RefusedError if the view of this table has begun in the database: a new table would lack older rows.

    Raises ForeignStateError for a checkpoint that cannot be read.
    """
    for text in _kept(session, entry):
        checkpoint = Checkpoint.from_plain(plain_checkpoint(text))
        # None: of an older release, which perhaps has committed.
        if checkpoint.committed is not False:
            name = entry.settings["materialization"]
            raise RefusedError(
                f"{entry.shown} is not there, and its view {name!r} is at {checkpoint.frontier} in this database "
                "(cdcv2_checkpoints): a new table would lack what came before. Restore the table; or start over: run "
                "`cdcv2 down FILE --remove-external`, then `cdcv2 up FILE`; or, if that is the checkpoint of another "
                "pipeline, give the view another name"
            )


def own_checkpoints(session: Connection[Any], entry: CatalogueEntry) -> list[str]:
    """The checkpoints that state a table of this view, as they are kept. One of other tables is another pipeline's."""
    return [text for text in _kept(session, entry) if _targets(text) & {*entry.settings["tables"]}]


def _targets(text: str) -> set[str]:
    try:
        return {*(Checkpoint.from_plain(plain_checkpoint(text)).views or ())}
    except ForeignStateError:
        return set()  # of a newer release, perhaps: it cannot be read, and is not ours to remove


def _kept(session: Connection[Any], entry: CatalogueEntry) -> list[str]:
    name = entry.settings.get("materialization")
    there = session.execute("SELECT to_regclass('cdcv2_checkpoints') IS NOT NULL").fetchone()
    if name is None or not there or not there[0]:
        return []
    return [text for (text,) in session.execute(fence.ALL, {"name": name}).fetchall()]
