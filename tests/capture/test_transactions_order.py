"""In which order a timeline's logs become durable: a crash between any two finds nothing stated that is not there."""

from __future__ import annotations

from cdcv2.capture.temp import Row
from cdcv2.capture.transactions_on_timeline import Summary, write
from cdcv2.core.antichain import Antichain
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Progress
from cdcv2.protocol.writer import Writer

UPPER = Antichain([6])
HELD = Row("a", 1, 1, None, (("x", 1),))
SUMMARY = Summary({"a": [("x", 5, 1)], "b": [("y", 5, 1)]}, [(HELD, 5, 1)], UPPER, {}, {})

#: TEMP forgets what the tables have, so its statement waits until they have it; and the tables' wait for TEMP's.
ORDER = [
    {"updates of TEMP", "updates of a", "updates of b"}, {"statement of TEMP"}, {"statement of a", "statement of b"},
]  # fmt: skip


class Journaled(MemoryLog):
    """A log that notes what becomes durable, in a journal that several share."""

    def __init__(self, name: str, journal: list[str]) -> None:
        super().__init__(name)
        self._journal = journal

    def flush(self) -> None:
        """What was sent."""
        for message in self._sent:
            kind = "statement" if isinstance(message, Progress) else "updates"
            self._journal.append(f"{kind} of {self.name}")
        super().flush()


def ordered(journal: list[str]) -> list[set[str]]:
    """The journal, cut where the order must be cut."""
    assert len(set(journal)) == len(journal)
    first, last = len(ORDER[0]), len(ORDER[0]) + len(ORDER[1])
    return [set(journal[:first]), set(journal[first:last]), set(journal[last:])]


def test_updates_then_the_statement_of_temp_then_those_of_the_tables() -> None:
    """Each is durable before the next is written."""
    journal: list[str] = []
    temp = Writer(Journaled("TEMP", journal))
    write(SUMMARY, temp, {table: Writer(Journaled(table, journal)) for table in ("a", "b")})

    assert ORDER == ordered(journal)
