"""The one reader of finished cuts: what it gives out does not depend on how the facts lie in logs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, MissingLogError, UnsafeTopicError, UsageError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, covered
from cdcv2.logs import read as read_module
from cdcv2.logs.read import LogReader, NullObserver
from cdcv2.logs.reading_state import ReadingState
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import GarbledMessage, Message, Progress
from cdcv2.rows.row_type import RowType
from tests.import_graph import sources
from tests.strategies import Chooser, beginning, build, choosers, histories, mangled, seeded

ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
TABLES = ("a", "b", "c")


def opened(*logs: tuple[str, list[Message | GarbledMessage]]) -> CoveredLogs:
    """Logs in memory, each with the table that it is a copy of."""
    return covered([
        NamedLog(table, MemoryLog(f"{table}-{number}", messages), ROW) for number, (table, messages) in enumerate(logs)
    ])


def drawn(choose: Chooser, dims: int) -> tuple[list[Any], dict[str, list[Message]]]:
    """Where some histories begin, and the messages of each, mangled."""
    found, start = dict[str, list[Message]](), None
    for table in TABLES[:choose.integer(1, 3)]:
        history = histories(choose, dims)
        start = beginning(history.start)
        found[table] = [build(message) for message in mangled(choose, history.log)]
    return start or [0], found


def split(choose: Chooser, messages: list[Message]) -> list[list[Message | GarbledMessage]]:
    """The messages over one to three copies, each of them in one at least."""
    copies: list[list[Message | GarbledMessage]] = [[] for _ in range(choose.integer(1, 3))]
    for message in messages:
        choose.pick(copies).append(message)
        if choose.chance(4):
            choose.pick(copies).append(message)
    return copies


def check(choose: Chooser, dims: int) -> None:
    """What the reader gives out of any split is what Iter gives out of each table."""
    start, of_tables = drawn(choose, dims)
    readers = {table: Iter(messages, start=start) for table, messages in of_tables.items()}
    truth = {table: [update for batch in reader for update in batch.updates] for table, reader in readers.items()}
    logs = [(table, copy) for table, messages in of_tables.items() for copy in split(choose, messages)]
    reading = LogReader(opened(*choose.shuffled(logs)), start=start, whole=choose.chance(2))

    reached = Antichain(start)
    for cut in reading:
        assert cut.lower == reached
        for table, history in truth.items():
            wanted = [one for one in history if cut.lower.less_equal(one[1]) and not cut.upper.less_equal(one[1])]
            assert set(wanted) == set(cut.updates.get(table, []))
            assert len(wanted) == len(cut.updates.get(table, []))
        reached = cut.upper

    meet = Antichain()
    for reader in readers.values():
        meet = meet.meet(reader.frontier)
    assert reached == reading.frontier == meet


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_any_split_of_the_facts_over_logs_gives_the_same_cuts(dims: int) -> None:
    """Over copies and tables, in any order, of total and partial orders."""
    for seed in range(150):
        check(seeded(seed), dims)


@settings(max_examples=40)
@given(choosers())
def test_any_split_gives_the_same_cuts_shrinking(choose: Chooser) -> None:
    """The same, with examples that shrink."""
    check(choose, choose.integer(1, 3))


def test_it_goes_on_from_any_marks_with_nothing_twice_and_nothing_left_out() -> None:
    """Whatever was appended to the logs meanwhile."""
    for seed in range(120):
        choose = seeded(seed)
        start, of_tables = drawn(choose, 1)
        logs = [
            (table, list(copy)) for table, messages in of_tables.items() for copy in split(choose, messages)
        ]
        known = choose.integer(0, 8)
        before = opened(*((table, messages[:known]) for table, messages in logs))
        first = LogReader(before, start=start, marks={}, whole=choose.chance(2))
        cuts = list(first)[:choose.integer(0, 3)] if choose.chance(3) else list(first)
        at = cuts[-1].upper if cuts else Antichain(start)
        marks = first.marks() if at == first.frontier else {}
        if not at:
            continue
        second = LogReader(opened(*logs), start=at, begins=start, marks=marks)
        cuts += list(second)

        whole = list(LogReader(opened(*logs), start=start))
        assert second.frontier == (whole[-1].upper if whole else Antichain(start))
        for table in of_tables:
            given_out = [one for cut in cuts for one in cut.updates.get(table, [])]
            assert sorted(map(repr, given_out)) == sorted(
                repr(one) for cut in whole for one in cut.updates.get(table, [])
            )


class Counted(MemoryLog):
    """A log in memory that counts what was read of it."""

    def __init__(self, name: str, messages: list[Message | GarbledMessage]) -> None:
        super().__init__(name, messages)
        self.read_messages = 0

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages, counted."""
        for entry in super().read(after, follow=follow):
            self.read_messages += entry is not None
            yield entry


def progress(*ends: int) -> list[Message | GarbledMessage]:
    """Statements from 0 on, each to the next end."""
    return [Progress([lower], [upper]) for lower, upper in zip((0, *ends), ends)]


@pytest.mark.parametrize("whole", [True, False])
def test_the_slowest_log_is_read_first(whole: bool) -> None:
    """What is ahead is read only as far as the others have come, and to its end only where that is asked for."""
    fast, slow = Counted("fast", progress(*range(1, 101))), Counted("slow", progress(*range(1, 31)))
    reading = LogReader(covered([NamedLog("fast", fast, ROW), NamedLog("slow", slow, ROW)]), whole=whole)
    ahead = 0
    for _ in reading:
        ahead = max(ahead, fast.read_messages - slow.read_messages)

    assert ahead <= 1
    assert (100 if whole else 31, 30) == (fast.read_messages, slow.read_messages)
    assert Antichain([30]) == reading.frontier


def test_what_is_missing_beyond_the_cut_is_found_where_all_is_read() -> None:
    """A log that is ahead is known to lack something only when it was read to its end."""
    logs = opened(("slow", progress(1)), ("fast", [*progress(1, 2), Progress([2], [5], {3: 1})]))

    for whole, missing in ((True, ["fast"]), (False, [])):
        reading = LogReader(logs, whole=whole)
        assert [Antichain([1])] == [cut.upper for cut in reading]
        assert missing == list(reading.missing())
    assert {} == reading.incomplete()


def test_a_log_that_lost_its_end_behind_a_mark_is_short() -> None:
    """It ends before what was given out of it."""
    reading = LogReader(opened(("a", progress(1, 2, 3))), marks={})
    assert 3 == len(list(reading))

    cut = LogReader(opened(("a", progress(1, 2))), start=[3], begins=[0], marks=reading.marks())
    assert [] == list(cut)

    assert {"a": Antichain([2])} == cut.short()
    assert ((Antichain([2]), Antichain([3])),) == cut.incomplete()["a"].statements


def test_a_finished_history_is_read_for_what_it_states() -> None:
    """It has no more updates to give out; whether it is still there can be known."""
    whole: list[Message | GarbledMessage] = [*progress(1), Progress([1], [])]
    for messages, short in ((whole, {}), (whole[:1], {"a": Antichain([1])})):
        reading = LogReader(opened(("a", messages)), start=[], begins=[0], marks={})
        assert [] == list(reading)
        assert (short, True) == (reading.short(), reading.closed)


def test_who_reads_has_caught_up_when_what_was_given_out_is_in_the_target() -> None:
    """Not while a message may be there, nor while one is being written; and again not when one has come."""
    log = MemoryLog("a", [Progress([0], [5], {})], idle_wait=0)
    reading = LogReader(covered([NamedLog("a", log, ROW)]), follow=True)
    state, cuts = ReadingState([log]), reading.cuts()
    found = [state.state([0]).caught_up]
    state.follow(reading)
    for at in ([0], [5]):
        # The first cut is there, then nothing; the target is at the start, and then where the cut is.
        next(cuts)
        found.append(state.state(at).caught_up)
    found.append(state.state([0]).caught_up)
    log.send(Progress([5], [7], {}))
    log.flush()
    next(cuts)
    found += [state.state(at).caught_up for at in ([5], [7])]

    assert [False, False, True, False, False, False] == found


def test_a_log_that_has_nothing_now_is_told_while_it_is_followed() -> None:
    """So that a caller can do something else, and leave."""
    log = MemoryLog("a", [Progress([0], [1])], idle_wait=0)
    cuts = LogReader(covered([NamedLog("a", log, ROW)]), follow=True).cuts()
    first, nothing = next(cuts), next(cuts)
    log.send(Progress([1], []))
    log.flush()

    assert first is not None and Antichain([1]) == first.upper
    assert nothing is None
    assert [Antichain()] == [cut.upper for cut in cuts if cut is not None]


class Losing(MemoryLog):
    """A log that has lost messages behind the first."""

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """One message, then the error."""
        yield Entry(Position("losing", 0, 0), Progress([0], [2]))
        raise UnsafeTopicError("messages are gone")


class Noted(NullObserver):
    """An observer that goes on without logs that have lost something."""

    def __init__(self) -> None:
        self.losses: list[str] = []

    def lost(self, named: NamedLog, error: UnsafeTopicError) -> None:
        """Keep it."""
        self.losses.append(f"{named.table}: {error}")


def test_a_log_that_has_lost_messages_raises_unless_the_caller_goes_on_without() -> None:
    """Then the other logs are read on."""
    logs = covered([NamedLog("a", Losing("losing"), ROW), NamedLog("b", MemoryLog("b", progress(1, 2, 3)), ROW)])
    with pytest.raises(UnsafeTopicError, match="messages are gone"):
        list(LogReader(logs))
    noted = Noted()
    reading = LogReader(logs, observer=noted)

    assert Antichain([2]) == list(reading)[-1].upper
    assert ["a: messages are gone"] == noted.losses
    assert Antichain([3]) == reading.readers["b"].frontier


# -- the front door -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two directory logs, which state no timeline."""
    for table, end in (("orders", 3), ("items", 5)):
        with cdcv2.Writer(DirectoryLog(tmp_path / table, ROW, create=True)) as writer:
            writer.extend([(ROW.row([1]), 1, 1), (ROW.row([end]), end - 1, 1)])
            writer.advance([end])
    return tmp_path


def test_a_folder_of_logs_is_read_as_one_timeline(folder: Path) -> None:
    """By its address, as the command reads it."""
    with cdcv2.read(str(folder), timeline="shop") as reading:
        cuts = [(cut.updates, cut.upper) for cut in reading]

    rows = {table: [(row[0], time) for updates, _ in cuts for row, time, _ in updates.get(table, [])]
            for table in ("orders", "items")}
    assert {"orders": [(1, 1), (3, 2)], "items": [(1, 1)]} == rows
    assert Antichain([3]) == cuts[-1][1]


def test_logs_are_named_as_on_the_command_line(folder: Path) -> None:
    """With the table that one is a copy of; one that stands alone needs no timeline."""
    (cut,) = [cut for cut in cdcv2.read(f"sold={folder / 'orders'}") if cut.updates]
    assert ["sold"] == list(cut.updates)
    copies = [f"sold={folder / 'orders'}", f"sold={folder / 'items'}"]
    assert ["sold"] == cdcv2.read(copies, timeline="shop", start=[0]).parts
    assert "items" == Path(cdcv2.open(str(folder / "items")).log().name).name


def test_the_front_door_names_what_is_wrong_with_an_address(folder: Path) -> None:
    """Several logs where one is opened, several timelines, a topic without row type, and nothing there."""
    with pytest.raises(UsageError, match="name one of the tables items, orders"):
        cdcv2.open(str(folder), timeline="shop").log()
    with pytest.raises(UsageError, match="does not state of which timeline"):
        cdcv2.read(str(folder))
    with pytest.raises(UsageError, match="the row type of orders is not given"):
        cdcv2.read("kafka:orders", bootstrap="localhost:1")
    with pytest.raises(MissingLogError):
        cdcv2.open(str(folder / "nothing"))


def test_a_log_that_its_capture_wrote_and_that_is_gone_is_missing(folder: Path) -> None:
    """The others alone would be half of each transaction."""
    from cdcv2.logs.capture_manifest import put_manifest

    put_manifest(folder, {"tables": ["orders", "items", "gone"]})
    with pytest.raises(IncompleteError, match="gone"):
        cdcv2.read(str(folder))


#: By a call of one of these a module decides itself what a log holds as finished.
DECIDES = {"Iter", "Ledger", "Resolver", "Timeline", "read_content"}


def calls(path: Path) -> set[str]:
    """What a file calls: names, and of attributes the first name and the last one."""
    names = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {part for name in names for part in (name.partition(".")[0], name.rpartition(".")[2])}


def test_the_list_of_who_reads_logs_otherwise_is_whole() -> None:
    """Beside the protocol itself. Who is on it reads logs: a module that no longer does is taken off."""
    package = Path(cdcv2.__file__).parent
    ours = [path for path in sources(package) if path.relative_to(package).parts[0] != "protocol"]
    called = {path.relative_to(package).with_suffix("").as_posix(): calls(path) for path in ours}
    named = {*re.findall("``([a-z_]+(?:/[a-z_]+)+)``", read_module.__doc__ or "")}

    assert {name for name, found in called.items() if found & DECIDES} - {"logs/read"} <= named
    assert {name for name in named if not called[name] & (DECIDES | {"read"})} == set()
