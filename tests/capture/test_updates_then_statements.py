"""In which order a release becomes durable: a crash between any two steps finds nothing stated that is not there."""

from __future__ import annotations

import pytest

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.updates_then_statements import Advance, WriterLogs
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Product
from cdcv2.failpoints import PlacedCrash
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.writer import Writer

ADVANCE = Advance(Antichain([6]), begins={"b": 5})
#: TEMP forgets what the tables have, so its statement waits until they have it; and the tables' wait for TEMP's. A
#: table that begins now is stated before the others.
ORDER = [
    "coverage", "updates of TEMP", "updates of a", "updates of b", "clock", "statement of TEMP", "statement of b",
    "statement of a", "memory",
]
#: After which of these each step of a crash lies.
STEPS = [
    (release_order.BEFORE_UPDATES, 1, 0), (release_order.TABLE_WRITTEN, 1, 3), (release_order.TABLE_WRITTEN, 2, 4),
    (release_order.UPDATES_DURABLE, 1, 4), (release_order.TEMP_STATED, 1, 6), (release_order.TABLE_STATED, 1, 7),
    (release_order.TABLE_STATED, 2, 8), (release_order.STATED, 1, 8), (release_order.REMEMBERED, 1, 9),
]


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


class Covered(WriterLogs):
    """Logs that record when they learn which of them are covered."""

    journal: list[str]

    def cover(self, advance: Advance) -> None:
        """Of the release."""
        assert Antichain([6]) == advance.frontier
        self.journal.append("coverage")

    def begin(self, table: str) -> int:
        """Of one of them."""
        assert table in ("a", "b")
        return super().begin(table)

    def state(self, table: str, advance: Advance) -> bool:
        """Of the release."""
        assert Antichain([6]) == advance.frontier
        return super().state(table, advance)


def write(journal: list[str], advance: Advance = ADVANCE) -> None:
    """Two tables and TEMP, each with an update."""
    temp = Writer(Journaled("TEMP", journal))
    temp.update("held", 5, 1)
    updates = {of: [("x", 5, 1)] for of in "ab"}
    logs = Covered({of: Writer(Journaled(of, journal)) for of in "ab"}, lambda table: updates[table])
    logs.journal = journal
    release_order.write_release(
        logs, advance, temp=temp, keep=lambda: journal.append("clock"), save=lambda: journal.append("memory")
    )


def test_updates_then_the_clock_then_statements_then_the_memory() -> None:
    """Each is durable before the next is written."""
    journal: list[str] = []
    write(journal)

    assert ORDER == journal


@pytest.mark.parametrize("step, nth, done", STEPS)
def test_each_step_of_a_crash_is_where_its_name_says(step: str, nth: int, done: int) -> None:
    """So that what is tried by it is what is meant."""
    journal: list[str] = []
    with failpoints.placed(step, nth), pytest.raises(PlacedCrash):
        write(journal)

    assert ORDER[:done] == journal


def test_before_there_is_an_output_only_temp_is_stated() -> None:
    """What came is held, and of no table anything is known."""
    journal: list[str] = []
    write(journal, Advance(Antichain([6]), begun=False))

    assert ["coverage", "updates of TEMP", "clock", "statement of TEMP", "memory"] == journal


def test_a_table_that_is_stated_already_gets_no_statement() -> None:
    """Another run was killed behind its statement: what it has is not written again."""
    journal: list[str] = []
    ahead, behind = Journaled("ahead", journal), Journaled("behind", journal)
    for log, upper in ((ahead, 9), (behind, 3)):
        with Writer(log) as writer:
            writer.advance([upper])
    journal.clear()
    with failpoints.placed(release_order.TABLE_STATED, 2):
        release_order.write_release(WriterLogs({"ahead": Writer(ahead), "behind": Writer(behind)}), ADVANCE)

    assert ["statement of behind"] == journal


class Later(WriterLogs):
    """Logs that begin at 5."""

    def begin(self, table: str) -> int:
        """All of them."""
        return 5


@pytest.mark.parametrize("frontier, upper", [(3, 5), (5, 5), (8, 8)])
def test_a_log_that_begins_later_is_stated_up_to_there_at_least(frontier: int, upper: int) -> None:
    """Before its beginning it has nothing, so that it holds back no reader."""
    log = MemoryLog("a")
    release_order.write_release(Later({"a": Writer(log)}), Advance(Antichain([frontier])))

    assert [Progress([0], [upper], {})] == [entry.message for entry in log.read()]


def test_times_that_are_no_numbers_begin_at_their_own_start() -> None:
    """Nothing is joined to them."""
    start, upper = [Product(0, 0)], Antichain([Product(0, 3)])
    log = MemoryLog("a")
    release_order.write_release(WriterLogs({"a": Writer(log, start=start)}), Advance(upper))

    assert [Progress(start, upper, {})] == [entry.message for entry in log.read()]


def test_a_log_whose_beginning_is_not_stated_begins_at_the_start() -> None:
    """What is before its first update is complete, and empty."""
    log = Journaled("a", [])
    release_order.write_release(WriterLogs({"a": Writer(log)}), Advance(Antichain([1])))

    assert 0 == WriterLogs({}).begin("a")
    assert [Progress([0], [1], {})] == [entry.message for entry in log.read()]


def test_sums_are_written_at_their_times() -> None:
    """Beside the updates of their table, and of no other one."""
    logs = {name: MemoryLog(name) for name in "ab"}
    sums = {"a": [(3, ChangeBatch([("x", 2)])), (4, ChangeBatch([("y", -1)]))]}
    written = WriterLogs({name: Writer(log) for name, log in logs.items()}, lambda table: [(table, 2, 1)], sums)
    release_order.write_release(written, ADVANCE)

    found = {name: [entry.message for entry in log.read()] for name, log in logs.items()}
    assert {
        name: [update for one in messages if isinstance(one, Updates) for update in one.updates]
        for name, messages in found.items()
    } == {"a": [("a", 2, 1), ("x", 3, 2), ("y", 4, -1)], "b": [("b", 2, 1)]}
