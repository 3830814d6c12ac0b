"""What is captured of one database, of the topics of Debezium's connector for PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from cdcv2.capture.connector import FIRST_KIND, FROM_ENVELOPE, FROM_STATE
from cdcv2.capture.source_words import SourceWords
from cdcv2.capture.topics_check import listed, shown
from cdcv2.connectors.debezium.envelope import FAULT, WHAT, classify
from cdcv2.connectors.debezium.images import ImageReader
from cdcv2.connectors.debezium.source_words import POSTGRES_WORDS
from cdcv2.errors import DecodeError, UsageError
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType
from cdcv2.suggestions import meant

_UNFIT_FOR_TOPIC = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class Recipe:
    """What is captured, and how its records are to be read.

    ``prefix`` is the connector's ``topic.prefix``; ``tables`` maps ``schema.table`` to the row type. ``snapshot`` is
    "initial" (nothing is released before the connector's initial snapshot) or "none" (there is none).
    ``notification_topic`` is the connector's ``notification.sink.topic.name``, if it has one. ``full_identity`` names
    tables that are known, from the database, to have REPLICA IDENTITY FULL. ``before`` decides where before-images come
    from: "from-envelope" (the records; they must be whole) or "from-state" (the logs). ``resnapshots`` has the LSNs of
    all snapshots that the connector took after its first one, each with a new slot; from-state only, and with
    notifications. ``empty`` names tables that the user declares to have been empty at the snapshot, if the connector
    reports nothing of them.

    It is what a capture needs of this connector (:class:`~cdcv2.capture.connector.DatabaseConnector`). Raises
    UsageError for no tables, and for a table that is not written ``schema.table``.
    """

    kind: ClassVar[str] = FIRST_KIND
    words: ClassVar[SourceWords] = POSTGRES_WORDS
    prefix: str
    tables: Mapping[str, RowType]
    snapshot: str = "initial"
    notification_topic: str | None = None
    transaction_topic: str = ""
    full_identity: frozenset[str] = frozenset()
    before: str = FROM_ENVELOPE
    resnapshots: tuple[int, ...] = ()
    empty: frozenset[str] = frozenset()
    _topics: dict[str, str] = field(init=False, repr=False, compare=False)
    readers: dict[str, ImageReader] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.prefix:
            raise UsageError("the prefix '' names nothing: it is the connector's topic.prefix")
        if not self.tables:
            raise UsageError("a capture needs at least one table")
        for table in self.tables:
            if "." not in table:
                raise UsageError(f"the table {table!r} lacks its schema: write public.{table}")
        for name, named in (("full_identity", self.full_identity), ("empty", self.empty)):
            unknown = named - self.tables.keys()
            if unknown:
                raise UsageError(f"{name} names {', '.join(sorted(unknown))}, which is not captured")
        if self.snapshot not in ("initial", "none"):
            raise UsageError(f"snapshot is 'initial' or 'none', not {self.snapshot!r}")
        if self.before not in (FROM_ENVELOPE, FROM_STATE):
            raise UsageError(f"before is {FROM_ENVELOPE!r} or {FROM_STATE!r}, not {self.before!r}")
        if self.resnapshots and (self.before, self.snapshot) != (FROM_STATE, "initial"):
            raise UsageError("a resnapshot is carried over with before-images from-state, snapshot initial")
        if self.resnapshots and self.notification_topic is None:
            raise UsageError("a resnapshot needs the notification topic, which states how many rows it has")
        if list(self.resnapshots) != sorted(set(self.resnapshots)) or self.resnapshots[:1] < (1,) and self.resnapshots:
            raise UsageError(f"the LSNs of resnapshots are positive and grow, which {self.resnapshots} do not")
        object.__setattr__(self, "transaction_topic", self.transaction_topic or f"{self.prefix}.transaction")
        if len({self.topic(table) for table in self.tables}) < len(self.tables):
            raise UsageError("two of the tables have one topic; let the connector route one of them to another")
        object.__setattr__(self, "_topics", {self.topic(table): table for table in self.tables})
        object.__setattr__(self, "readers", {table: ImageReader(kind) for table, kind in self.tables.items()})

    def topic(self, table: str) -> str:
        """The topic of a table: what a topic's name cannot hold is an underscore in it, as the connector does it."""
        return _UNFIT_FOR_TOPIC.sub("_", f"{self.prefix}.{table}")

    def table(self, topic: str) -> str | None:
        """The captured table whose topic this is, or None."""
        return self._topics.get(topic)

    def topics(self) -> list[str]:
        """Every topic that the capture reads; the tables' own may not exist yet."""
        own = [self.transaction_topic] + ([self.notification_topic] if self.notification_topic else [])
        return own + sorted(self._topics)

    #: The fact of a record: the function itself, as each record passes here.
    fact = classify

    def malformed(self, reason: str, position: Position) -> DecodeError:
        """The error for the record there, which is none of the connector."""
        return DecodeError(reason, position=position, fault=FAULT, what=WHAT)

    def unmet(self, topics: Collection[str]) -> str | None:
        """A text if no table has a topic, and others do, with both sides; None: some table has one.

        ``topics`` are all that there are. If no table at all has a topic there is no text: the connector makes one with
        the first row of its table.
        """
        if any(self.topic(table) in topics for table in self.tables):
            return None
        # prefix.schema.table; a topic of the prefix with one part more is the connector's own, as prefix.transaction.
        start = f"{self.prefix}."
        others = {topic.removeprefix(start) for topic in topics if topic.startswith(start)}
        others = {name for name in others if "." in name and start + name not in self.topics()}
        if not others:
            return None
        return (
            f"none of the captured tables has a topic: the row types are of {shown(self.tables)}, and the topics of "
            f"the prefix {self.prefix} are of {shown(others)}. Make row types of these (cdcv2 rows), or have the "
            "connector capture those tables (table.include.list)"
        )

    def unnotified(self, topics: Collection[str]) -> str | None:
        """That the topic of notifications is not there, which the snapshot needs, with what there is; None: it is."""
        named = self.notification_topic
        if named is None or named in topics or self.snapshot == "none":
            return None
        return (
            f"there is no topic {named!r}, and without its notifications the snapshot is not known to be whole: it is "
            f"the connector's notification.sink.topic.name, or the connector has sent none yet"
            f"{meant(named, topics) or '.'} {listed(self.prefix, topics)}"
        )

    @property
    def first_transaction(self) -> str:
        """What makes the transaction topic, in words."""
        return (
            "The connector makes it with the first transaction after its start, if it has "
            "provide.transaction.metadata=true; or the prefix is wrong"
        )

    @property
    def renumbering(self) -> str:
        """The warning about a connector that renumbers a transaction's rows when it is restarted inside it."""
        return (
            f"the connector of {self.prefix} is older than Debezium 3.7.0: restarted inside a transaction, it numbers "
            "the rest of it again and may lose rows, and the capture stops there for good. Use 3.7.0 or later"
        )
