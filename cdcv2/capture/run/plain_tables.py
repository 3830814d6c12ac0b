"""Plain topics as an output of a capture on a shared remap: a record is a row as soon as it is there.

What that means for a capture is the same wherever the rows are written: nothing is held, nothing of what was written is
needed again, and no connector covers the tables or does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdcv2.capture.connector import RowConnector
from cdcv2.capture.facts import Record
from cdcv2.capture.run.on_remap import Span
from cdcv2.capture.topics import Ranges
from cdcv2.capture.updates_then_statements import Advance, WriterLogs, write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.protocol.log import Place
from cdcv2.protocol.writer import Writer


class PlainOutput:
    """The common part of all outputs of plain topics, with or without Spark."""

    def resume(
        self, frontier: Antichain, before: Mapping[Place, int], ranges: Ranges
    ) -> Mapping[Place, tuple[int, int]]:
        """Nothing that was written is needed."""
        return {}

    def restore(self, record: Record) -> None:
        """It asks for none."""

    def stopped(self) -> SourceStop | None:
        """None: a record of a plain topic is a row, or an error."""
        return None

    @property
    def has_started(self) -> bool:
        """Always: a plain topic is stated from the start."""
        return True

    @property
    def coverage(self) -> TableCoverage:
        """There is no connector that covers tables or does not."""
        return ALL

    def waits(self) -> str | None:
        """A record is a row as soon as it is there."""
        return None

    @property
    def held(self) -> int:
        """How many records are held: always 0, as each is written when it is read."""
        return 0


class PlainTables(PlainOutput):
    """Plain topics, each into a table's log. ``tables`` maps a table to topic, reader of its rows, and writer."""

    def __init__(self, tables: Mapping[str, tuple[str, RowConnector, Writer]]) -> None:
        self._writers = {table: writer for table, (_, _, writer) in sorted(tables.items())}
        self._of = {topic: (rows, writer) for topic, rows, writer in tables.values()}

    @property
    def topics(self) -> frozenset[str]:
        """Those of the tables."""
        return frozenset(self._of)

    def log_frontiers(self) -> Iterator[tuple[str, Antichain]]:
        """How far each log is stated."""
        yield from ((table, writer.known) for table, writer in self._writers.items())

    def spans(self) -> Iterator[tuple[str, Span]]:
        """When each log has updates."""
        yield from ((writer.log.name, writer.span) for writer in self._writers.values())

    def take(self, record: Record, into: int) -> None:
        """One more of the record's row."""
        rows, writer = self._of[record.topic]
        writer.update(rows.row(record), into, 1)

    def advance(self, frontier: Antichain) -> None:
        """Make what was taken durable, and state it."""
        write_release(WriterLogs(self._writers), Advance(frontier))

    def close(self) -> None:
        """Release the logs."""
        for writer in self._writers.values():
            writer.close()
