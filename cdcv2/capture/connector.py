"""The contract of a database: to capture another one, begin here, with :class:`DatabaseConnector`.

A new database is one folder beside ``cdcv2/connectors/debezium``, which fulfils the contract, and then one row in the
table of :mod:`cdcv2.connectors.kinds`. Nothing else of a capture knows a database: its formats, what remedies state of
it, and its row types are behind this contract, and what is not in it is the same for all.

A connector turns the records of a source into facts, one by one, and keeps no state of them. What it decides a capture
by is when a time is complete:

================================  ==============================================  =======================
contract                          a time is complete                              facts
================================  ==============================================  =======================
:class:`DatabaseConnector`        when there is all that END counted              :data:`~.facts.Fact`
:class:`StreamConnector`          when the topic states so, in a bound            :data:`~.facts.StreamFact`
:class:`RowConnector`             when the remap binds offsets to it              rows
================================  ==============================================  =======================

Some of the contract is as the first connector has it, and another one translates its own to that:

- The markers of a snapshot's rows (:class:`~.facts.SnapshotRow`) are Debezium's. Column types in the annotations of row
  types are PostgreSQL's names.
- ``tx``, ``lsn`` and ``seq`` are whole numbers; :mod:`~.facts` states what of. A position of two parts becomes one
  number, alike in every record: of a binlog ``(number of its file << 32) + position``. A GTID is its last number if all
  are of one server; those of several are in no order: take the position in the binlog of the one that is read. Another
  server has other positions, and is another source.
- ``order`` and ``table_order`` must be in the records, as a connector keeps no count. Topics whose records lack one of
  these numbers can be captured as plain topics at most.

Where a record stands is in the record; which positions are read next is known to the capture, not to a connector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from cdcv2.capture.facts import Fact, Record, StreamFact
from cdcv2.capture.source_words import SourceWords
from cdcv2.errors import DecodeError
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import Row, RowType

#: Where the old rows of updates and deletes come from: the records; or the logs, where the records lack them.
FROM_ENVELOPE, FROM_STATE = "from-envelope", "from-state"
#: The kind of a connector where nothing names one: it was once the only one.
FIRST_KIND = "debezium-postgresql"


class RowTypeSource(Protocol):
    """Makes the row types of a database's tables, for ``cdcv2 rows``: each a parsed ``.avsc``, and a remark or None."""

    @property
    def schemas(self) -> str:
        """What to do for records that carry their schema, in words."""

    def of_source(
        self, where: str, table: str, excluded: Collection[str] = ()
    ) -> tuple[dict[str, Any], str | None]:
        """Of the database that ``--source`` names, without these columns, which the connector leaves out.

        Raises UsageError for a database or a column that it does not know, and what it meets.
        """

    def of_record(self, body: Mapping[str, Any], table: str) -> tuple[dict[str, Any], str | None] | None:
        """Of a record, which is JSON; None: it is not of this table, or carries no schema. Raises MalformedError."""


class RowConnector(Protocol):
    """Reads a topic of rows."""

    def row(self, record: Record) -> Row:
        """The row. Raises DecodeError with the position for a record that is none."""


class StreamConnector(Protocol):
    """Reads a topic of updates with times of their own, and of bounds; it can be pickled, as executors read by it."""

    @property
    def row_type(self) -> RowType:
        """The type of the rows."""

    @property
    def names(self) -> tuple[str, str]:
        """The columns that have the time and the diff."""

    def fact(self, record: Record) -> StreamFact:
        """What the record states. Raises DecodeError with the position for a record that is neither."""

    def several_partitions(self, record: Record) -> DecodeError:
        """The error for a bound without rows in a topic that has more than one partition."""


class CaptureRecipe(Protocol):
    """What is captured of a database, as far as the engine asks: tables and snapshot."""

    @property
    def tables(self) -> Mapping[str, object]:
        """Those to capture."""

    @property
    def snapshot(self) -> str:
        """``initial`` or ``none``."""

    @property
    def notification_topic(self) -> str | None:
        """The topic that states how many rows a snapshot has; None: there is none."""

    @property
    def resnapshots(self) -> tuple[int, ...]:
        """The LSNs of declared resnapshots."""

    @property
    def empty(self) -> frozenset[str]:
        """Tables that were empty at the snapshot, as the user states."""

    @property
    def words(self) -> SourceWords:
        """What remedies state of this database."""

    def table(self, topic: str) -> str | None:
        """The table whose rows the topic has; None: it is another topic."""

    def topics(self) -> Iterable[str]:
        """All that are read."""


class DatabaseConnector(CaptureRecipe, Protocol):
    """Reads the topics of one database; it can be pickled, as executors read by it."""

    @property
    def kind(self) -> str:
        """Its name in the table of connectors (:mod:`cdcv2.connectors.kinds`), and in what captures keep."""

    @property
    def prefix(self) -> str:
        """The name of the source, which is that of its topics, too."""

    @property
    def tables(self) -> Mapping[str, RowType]:
        """Those to capture, with their row types."""

    @property
    def transaction_topic(self) -> str:
        """The topic that has the ENDs."""

    @property
    def full_identity(self) -> frozenset[str]:
        """Tables whose records are known to have whole before-images."""

    @property
    def before(self) -> str:
        """FROM_ENVELOPE or FROM_STATE."""

    def topics(self) -> Collection[str]:
        """All that are read; the tables' own may not exist yet."""

    def topic(self, table: str) -> str:
        """The topic of a table."""

    def fact(self, record: Record) -> Fact:
        """The fact of a record. Pure.

        Raises DecodeError, with the position, for what is no record of the connector. A row that is one but cannot be
        captured is a fact, too: it stops the capture only when its transaction is due.
        """

    def malformed(self, reason: str, position: Position) -> DecodeError:
        """The error for the record there, which is none of the connector's."""

    def unmet(self, topics: Collection[str]) -> str | None:
        """Why the tables are not those of the topics that are there, in words; None: they may be."""

    def unnotified(self, topics: Collection[str]) -> str | None:
        """That the topic of notifications is not there, which the snapshot needs, with what there is; None: it is."""

    @property
    def first_transaction(self) -> str:
        """What makes the transaction topic, in words."""

    @property
    def renumbering(self) -> str:
        """The warning about one that renumbers a transaction's rows when it is restarted inside it."""
