"""A database on a shared remap, on Spark, whose old rows are looked up: executors read and parse, the driver looks up.

What an update of such a table does depends on every change before it, and a TRUNCATE on all rows. So transactions go
through one place, in the order of their commits, as they do without Spark: this *is* the output of the capture without
it, :class:`~cdcv2.capture.run.database.Database`, with its state, its writers and its TEMP. Only its records come
parsed, from the executors. What it writes, where it may die and how it goes on is the same because it is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdcv2.capture.facts import Record
from cdcv2.capture.run.database import Database
from cdcv2.spark.remap_capture.classify import Reader
from cdcv2.spark.remap_capture.outputs import RangeShare, by_executors, take_facts


class BoundKeyedDatabase(Database):
    """One connector's topics; everything as of :class:`~cdcv2.capture.run.database.Database`.

    Memory, on the driver: every row of the tables, TEMP, and the facts of the records of a turn.
    """

    def readers(self) -> Mapping[str, Reader]:
        """The recipe reads all of them."""
        return dict.fromkeys(self.topics, self._recipe)

    def take(self, record: Record, into: int) -> None:
        """The executors take them. Raises RefusedError."""
        raise by_executors(record)

    def receive_share(self, share: RangeShare | None) -> None:
        """Take the facts of the records of a range."""
        if share is not None:
            take_facts(self, share)
