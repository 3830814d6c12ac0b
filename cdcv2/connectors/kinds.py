"""The connectors that there are, each by the contract that it fulfils (:mod:`cdcv2.capture.connector`).

Captures take their connectors from here, and know nothing else of them. The connector of another database is a folder
beside this file, and a row in the table of them: nothing else names a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cdcv2.capture.connector import FIRST_KIND, FROM_ENVELOPE, DatabaseConnector, RowConnector
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.plain import PlainRows
from cdcv2.connectors.stream import StreamRecords
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType


class DatabaseKind(Protocol):
    """Makes the connector of a database of what a capture is asked for. Raises UsageError for what cannot be."""

    def __call__(
        self, prefix: str, tables: Mapping[str, RowType], *, snapshot: str = "initial",
        notification_topic: str | None = None, transaction_topic: str = "", full_identity: frozenset[str] = frozenset(),
        before: str = FROM_ENVELOPE, resnapshots: tuple[int, ...] = (), empty: frozenset[str] = frozenset(),
    ) -> DatabaseConnector:
        """The connector; see its contract for what the names mean."""


#: By the ``kind`` of each connector. With a second row ``cdcv2 capture`` has an option that chooses.
DATABASES: Mapping[str, DatabaseKind] = {Recipe.kind: Recipe}
#: Topics of rows, and topics of updates with times.
PLAIN_TOPIC: Callable[[RowType], RowConnector] = PlainRows
STREAM_TOPIC = StreamRecords


def database_kind(name: str | None) -> DatabaseKind:
    """The kind of this name; None: the one that was once the only one. Raises UsageError for one that is not there."""
    kind = DATABASES.get(FIRST_KIND if name is None else name)
    if kind is None:
        raise UsageError(f"there is no connector {name!r} in this release: it has {', '.join(sorted(DATABASES))}")
    return kind
