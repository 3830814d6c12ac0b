"""What a log comes to: the collection at one of its times, with a bar while it is added up."""

from __future__ import annotations

from cdcv2.cli.logs import bar_of
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time
from cdcv2.logs.contents import contents
from cdcv2.logs.named_logs import CoveredLogs
from cdcv2.logs.quarantine import Quarantine
from cdcv2.rows.row_type import Row


def collection(
    found: CoveredLogs, at: Time | None, start: list[Time], quarantine: Quarantine | None = None
) -> tuple[ChangeBatch[Row], Antichain, dict[str, dict[str, str]]]:
    """The rows of a table, or of its copies, at a finished time (None: the last one), how far the log is complete, and
    what is in dispute there.

    ``start`` is where the history begins, ``quarantine`` keeps what is in dispute. Raises what
    :func:`~cdcv2.logs.contents.contents` raises.
    """
    table = found.logs[0].table
    with bar_of(found.logs, "adding up") as bar:
        given = contents(found, at, start, quarantine=quarantine, observer=bar, tables=[table])
    return given.rows[table], given.frontier, given.disputed
