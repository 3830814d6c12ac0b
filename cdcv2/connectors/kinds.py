"""The table of the connectors that there are: :data:`DATABASES` has one row for each.

A new database begins in :mod:`cdcv2.capture.connector`, which has the contract. Its row here comes last.

Nothing else of a capture names a kind of database. What looks at a server or keeps one knows PostgreSQL, and Debezium's
names (``debezium.config``), and a capture needs none of it: that is :mod:`cdcv2.control`, so ``cdcv2 up``, ``doctor``,
``init``, ``status`` and ``explain``, and it is ``cdcv2 compare --source``.

The folder fulfils :class:`~cdcv2.capture.connector.DatabaseConnector`; the row has how it is made, what remedies and
helps call its parts, how ``cdcv2 rows`` makes its row types, and which options of ``cdcv2 capture`` do not go with it.
With a second row the commands have an option that chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from cdcv2.capture.connector import FIRST_KIND, FROM_ENVELOPE, DatabaseConnector, RowConnector, RowTypeSource
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.debezium.row_type_source import PostgresRowTypes
from cdcv2.connectors.plain import PlainRows
from cdcv2.connectors.stream import StreamRecords
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType


class MakesConnector(Protocol):
    """Makes the connector of a database of what a capture is asked for. Raises UsageError for what cannot be."""

    def __call__(
        self, prefix: str, tables: Mapping[str, RowType], *, snapshot: str = "initial",
        notification_topic: str | None = None, transaction_topic: str = "", full_identity: frozenset[str] = frozenset(),
        before: str = FROM_ENVELOPE, resnapshots: tuple[int, ...] = (), empty: frozenset[str] = frozenset(),
    ) -> DatabaseConnector:
        """The connector; see its contract for what the names mean."""


class DatabaseKind(NamedTuple):
    """A row of the table.

    - ``connector`` makes the connector of what a capture is asked for.
    - ``words``: what helps of options call things of it, as the connector's own ``words`` in remedies.
    - ``row_types``: how ``cdcv2 rows`` makes row types; None: they are written by hand.
    - ``refused``: options of ``cdcv2 capture`` that do not go with it, each with the reason.
    """

    connector: MakesConnector
    words: SourceWords = ANY_SOURCE
    row_types: RowTypeSource | None = None
    refused: Mapping[str, str] = MappingProxyType({})


#: By the ``kind`` of each connector.
DATABASES: Mapping[str, DatabaseKind] = {Recipe.kind: DatabaseKind(Recipe, Recipe.words, PostgresRowTypes())}
#: Topics of rows, and topics of updates with times.
PLAIN_TOPIC: Callable[[RowType], RowConnector] = PlainRows
STREAM_TOPIC = StreamRecords


def database_kind(name: str | None) -> DatabaseKind:
    """The kind of this name; None: the one that was once the only one. Raises UsageError for one that is not there."""
    kind = DATABASES.get(FIRST_KIND if name is None else name)
    if kind is None:
        raise UsageError(f"there is no connector {name!r} in this release: it has {', '.join(sorted(DATABASES))}")
    return kind


def called_by_kinds(word: Callable[[SourceWords], str]) -> str:
    """What the kinds that there are call something, for the help of an option that all of them have.

    >>> called_by_kinds(lambda words: words.slot)
    'slot'
    """
    return " or ".join(dict.fromkeys(word(kind.words) for kind in DATABASES.values()))
