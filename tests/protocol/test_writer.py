"""The writer: each identity once, never a zero; durable before it is counted; and it goes on where it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Product
from cdcv2.errors import LogFinishedError, MalformedError, ResumeError, UsageError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.writer import Writer, read_content
from tests.doubles import Crash, RecordingLog
from tests.strategies import Chooser, choosers

P = Product


def replay(messages: Iterable[Message], start: Any = None) -> tuple[dict[tuple[Any, Any], int], Antichain]:
    """The content of a log: each identity with its diff, and how far."""
    reader = Iter(messages, start=start)
    return {(data, time): diff for batch in reader for data, time, diff in batch.updates}, reader.frontier


def test_it_writes_the_sums_once_each_and_never_a_zero() -> None:
    """Changes to one identity add up; what cancels is not written, and is not counted."""
    log = RecordingLog()
    writer = Writer(log)
    writer.extend([("a", 3, 1), ("b", 2, 1), ("a", 3, 1), ("c", 2, 5), ("c", 2, -5), ("a", 4, -1), ("d", 4, 0)])
    writer.advance([5])

    assert [
        Updates([("b", 2, 1), ("a", 3, 2), ("a", 4, -1)]), "flush",
        Progress([0], [5], {2: 1, 3: 1, 4: 1}), "flush",
    ] == log.calls
    assert Antichain([5]) == writer.known


def test_sums_are_written_as_what_they_add_up() -> None:
    """Message by message, without what is durable; what was fed before or comes later at their time is added."""
    log = RecordingLog([Updates([("b", 3, 2)])])
    writer = Writer(log, updates_per_message=2)
    writer.extend([("a", 3, 1), ("d", 4, 1)])
    writer.extend_sums(3, ChangeBatch([("a", 1), ("b", 2), ("c", 1), ("e", 1)]))
    writer.extend([("c", 3, -1), ("f", 3, 1)])
    writer.advance([5])

    assert [
        Updates([("a", 3, 2), ("e", 3, 1)]), Updates([("f", 3, 1), ("d", 4, 1)]), "flush",
        Progress([0], [5], {3: 4, 4: 1}), "flush",
    ] == log.calls


def test_sums_of_a_time_that_is_stated_are_taken_as_written() -> None:
    """Where the log states it; those of a time that was advanced to are refused."""
    log = RecordingLog([Updates([("a", 3, 1)]), Progress([0], [5], {3: 1})])
    writer = Writer(log)
    writer.extend_sums(3, ChangeBatch([("a", 1)]))
    writer.advance([6])

    assert [Progress([5], [6], {}), "flush"] == log.calls
    with pytest.raises(MalformedError, match="updates are at time 5, but .6. was advanced to before"):
        writer.extend_sums(5, ChangeBatch([("a", 1)]))
    with pytest.raises(MalformedError):
        writer.extend_sums(True, ChangeBatch([("a", 1)]))


def test_nothing_is_written_before_its_time_is_finished() -> None:
    """Later changes to the same identity may still come."""
    log = RecordingLog()
    writer = Writer(log)
    writer.extend([("a", 3, 1), ("a", 7, 1)])
    assert [] == log.calls
    writer.advance([5])
    writer.update("a", 7, 1)
    writer.advance([8])

    assert [Updates([("a", 7, 2)]), "flush", Progress([5], [8], {7: 1}), "flush"] == log.calls[4:]


def test_without_updates_only_the_statement_is_written() -> None:
    """Time passes also when nothing happens; advancing to where one is states nothing."""
    log = RecordingLog()
    writer = Writer(log)
    writer.advance([3])
    writer.advance([3])

    assert [Progress([0], [3]), "flush"] == log.calls


def test_messages_are_cut_to_size() -> None:
    """No message holds more updates than asked."""
    log = RecordingLog()
    writer = Writer(log, updates_per_message=2)
    writer.extend([(number, 1, 1) for number in range(5)])
    writer.advance([2])

    assert [2, 2, 1] == [len(message) for message in log.durable if isinstance(message, Updates)]
    assert ({(number, 1): 1 for number in range(5)}, Antichain([2])) == replay(log.durable)
    many = RecordingLog()
    with Writer(many) as writer:
        writer.extend([(number, 1, 1) for number in range(1001)])
        writer.advance([2])
    assert [1000, 1] == [len(message) for message in many.durable if isinstance(message, Updates)]
    for size in (0, -1, 1.5, True, None):
        with pytest.raises(UsageError):
            Writer(RecordingLog(), updates_per_message=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("finish", [True, False])
def test_leaving_states_nothing(finish: bool) -> None:
    """That the history is complete is a fact about the history, and only `finish` states it."""
    log = RecordingLog()
    with Writer(log) as writer:
        writer.update("a", 3, 1)
        if finish:
            writer.finish()

    told = [Updates([("a", 3, 1)]), "flush", Progress([0], [], {3: 1}), "flush"]
    assert [*(told if finish else []), "close"] == log.calls


def test_leaving_by_an_exception_states_nothing() -> None:
    """And the exception goes on its way."""
    log = RecordingLog()
    with pytest.raises(KeyError):
        with Writer(log) as writer:
            writer.update("a", 3, 1)
            raise KeyError("a")

    assert ["close"] == log.calls


def test_a_finished_log_takes_no_more() -> None:
    """Neither from the writer that finished it, nor from the next."""
    log = RecordingLog()
    writer = Writer(log)
    writer.finish()

    assert Antichain() == writer.known
    for more in (writer.finish, lambda: writer.advance([9])):
        with pytest.raises(LogFinishedError):
            more()
    with pytest.raises(MalformedError):
        writer.update("a", 3, 1)
    with pytest.raises(LogFinishedError, match="recording"):
        Writer(log.again())
    with pytest.raises(LogFinishedError):
        Writer(RecordingLog([Progress([0], [], {3: 1})]))


def test_it_resumes_at_what_is_known() -> None:
    """Out of order and overlapping, as a reader computes it; what was stated is taken as written."""
    log = RecordingLog([Progress([3], [5], {4: 1}), Updates([("a", 4, 1)]), Progress([0], [4])])
    writer = Writer(log)
    assert Antichain([5]) == writer.known

    writer.extend([("a", 4, 1), ("b", 6, 1), ("z", 3, 1)])
    writer.advance([4])
    writer.advance([8])

    assert [Updates([("b", 6, 1)]), "flush", Progress([5], [8], {6: 1}), "flush"] == log.calls
    assert ({("a", 4): 1, ("b", 6): 1}, Antichain([8])) == replay(log.durable)


def test_the_sum_of_diffs_is_known_where_all_that_is_counted_is_there() -> None:
    """It is kept with the state, which spares the next writer reading; an older state does not have it."""
    updates = Updates([("a", 1, 5), ("b", 3, -2)])
    writer = Writer(RecordingLog([updates, Progress([0], [5], {1: 1, 3: 1})]))
    assert (3, Antichain([5])) == (writer.rows, writer.read_to)

    state = writer.export_state()
    log = RecordingLog([updates, Progress([0], [5], {1: 1, 3: 1}), Updates([("c", 6, 9)]), Progress([5], [8], {6: 1})])
    assert 12 == Writer(log, state=state).rows and 3 == state["rows"]
    assert Writer(log, state={name: value for name, value in state.items() if name != "rows"}).rows is None

    lacking = Writer(RecordingLog([updates, Progress([0], [5], {1: 1, 3: 2})]))
    assert (None, Antichain([5])) == (lacking.rows, lacking.read_to)


def test_the_state_knows_each_part_of_the_log() -> None:
    """The next position of each, also when a source gives an old message again."""
    class Parts(RecordingLog):
        def read(self, after: Any = None, *, follow: bool = False) -> Any:
            for part, offset in ((0, 0), (1, 7), (0, 1), (1, 6), (2, 0), (0, 0)):
                yield Entry(Position("log", part, offset), Updates())
                yield None

    assert {0: 2, 1: 8, 2: 1} == Writer(Parts()).export_state()["positions"]


def test_there_is_nothing_to_commit_before_a_stage() -> None:
    """Neither at the beginning, nor twice."""
    writer = Writer(RecordingLog())
    with pytest.raises(UsageError):
        writer.commit()


def test_it_resumes_where_statements_say_so_though_updates_lack() -> None:
    """A statement cannot be taken back; what it counts is somebody's to write."""
    assert Antichain([5]) == Writer(RecordingLog([Progress([0], [5], {3: 1})])).known


def test_it_resumes_from_a_state_and_the_tail_after_it() -> None:
    """The log is not read from the start again."""
    log = RecordingLog()
    first = Writer(log)
    first.update("a", 1, 1)
    first.advance([3])
    state = Writer(log).export_state()
    first.update("b", 4, 1)
    first.advance([5])
    log.durable.append(Updates([("c", 6, 1)]))

    again = RecordingLog(log.durable)
    writer = Writer(again, state=state)

    # One before, to know the log again.
    assert [{0: 1}] == again.reads
    assert Antichain([5]) == writer.known
    with pytest.raises(ResumeError):
        writer.advance([7])
    writer.update("c", 6, 1)
    writer.advance([7])
    assert [Progress([5], [7], {6: 1}), "flush"] == again.calls


@pytest.mark.parametrize("fed", [
    [], [("b", 6, 1)], [("a", 6, 2)], [("a", 6, 1), ("a", 6, -1)], [("a", 7, 1)], [("a", 6, -1)],
])
def test_it_refuses_to_state_orphans_that_it_was_not_fed(fed: list[Any]) -> None:
    """They are facts already; a statement without them would contradict the log for ever."""
    log = RecordingLog([Progress([0], [5]), Updates([("a", 6, 1)])])
    writer = Writer(log)
    writer.extend(fed)

    text = "^log recording holds 'a' at time 6, which no statement counts, and 1 of 1 such updates are not among"
    with pytest.raises(ResumeError, match=text):
        writer.advance([8])

    assert [] == log.calls
    assert Antichain([5]) == writer.known


@pytest.mark.parametrize("waiting, fed, time", [
    (Progress([10], [20], {12: 3}), [("a", 12, 1)], 12), (Progress([10], [20]), [("a", 12, 1)], 12),
    (Progress([10], [20], {12: 1}), [("a", 11, 1)], 11), (Progress([10], [], {12: 1, 30: 1}), [], 12),
])
def test_it_states_nothing_that_differs_from_a_statement_that_waits(waiting: Progress, fed: Any, time: int) -> None:
    """It is a fact already, though an earlier one lacks; each of the two would be wrong for ever."""
    log = RecordingLog([Progress([0], [5]), waiting])
    writer = Writer(log)
    writer.extend(fed)
    writer.advance([10])
    calls = list(log.calls)
    with pytest.raises(ResumeError, match=f"log {log.name} states .* updates at time {time}, "):
        writer.advance([15])

    assert calls == log.calls
    assert Antichain([10]) == writer.known


def test_what_agrees_with_a_statement_that_waits_is_stated() -> None:
    """Also where it covers that in part, and the log goes on behind it; and so for partial orders."""
    log = RecordingLog([Progress([0], [5]), Progress([10], [20], {12: 1, 17: 1})])
    writer = Writer(log)
    history = [("a", 7, 1), ("b", 12, 1), ("c", 17, 1), ("d", 25, 1)]
    writer.extend(history)
    for frontier in (8, 15, 30):
        writer.advance([frontier])
    products = RecordingLog([Progress([P(1, 1)], [P(2, 1), P(1, 2)], {P(1, 1): 2})])
    other = Writer(products, start=[P(0, 0)])
    other.update("a", P(0, 1), 1)
    other.advance([P(1, 0)])
    other.update("b", P(1, 1), 1)

    assert ({(data, at): diff for data, at, diff in history}, Antichain([30])) == replay(log.durable)
    with pytest.raises(ResumeError, match="states 2 updates"):
        other.finish()
    other.update("c", P(1, 1), 1)
    other.finish()
    assert 3 == len(replay(products.durable, [P(0, 0)])[0])


def test_the_first_update_and_the_span_are_of_what_the_log_has() -> None:
    """The first finished time with updates, and the sum of their diffs; not known where a state spares reading."""
    log = RecordingLog([
        Updates([("z", 9, 1), ("a", 4, 2), ("b", 4, -5), ("c", 6, 1)]), Progress([0], [5], {4: 2}),
        Progress([5], [8], {6: 1}),
    ])  # fmt: skip
    writer = Writer(log)

    assert ((4, -3), (4, 6)) == (writer.first, writer.span)
    again = Writer(log, state=writer.export_state())
    assert (None, None) == (again.first, again.span)
    empty = Writer(RecordingLog([Progress([0], [5])]))
    assert (None, None) == (empty.first, empty.span)


class Waiting(RecordingLog):
    """A log that has nothing new at times, between its messages too."""

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """Each message behind a moment without one."""
        for entry in super().read(after, follow=follow):
            yield from (None, entry)


def test_a_log_without_anything_new_for_a_moment_is_read_on() -> None:
    """That is no end of it."""
    found = read_content(Waiting([Updates([("a", 3, 1)]), Progress([0], [5], {3: 1})]), Resolver())

    assert (Antichain([5]), {0: 2}, 1) == (found.reader.known, found.positions, found.rows)


def test_orphans_that_it_was_fed_are_stated_and_not_written_again() -> None:
    """With whatever else was fed; and those at later times can wait for theirs."""
    log = RecordingLog([Progress([0], [5]), Updates([("a", 6, 1), ("z", 9, 1)])])
    writer = Writer(log)
    writer.extend([("a", 6, 1), ("b", 6, 1)])
    writer.advance([8])

    assert [Updates([("b", 6, 1)]), "flush", Progress([5], [8], {6: 2}), "flush"] == log.calls
    with pytest.raises(ResumeError, match="'z'"):
        writer.finish()


def test_after_a_refusal_the_lacking_can_be_fed() -> None:
    """The writer has written nothing yet."""
    writer = Writer(RecordingLog([Updates([("a", 6, 1)])]))
    with pytest.raises(ResumeError):
        writer.advance([8])

    writer.update("a", 6, 1)
    writer.advance([8])

    assert Antichain([8]) == writer.known


def test_two_writers_that_are_fed_alike_may_write_one_log() -> None:
    """Each with its own intervals; a reader sees one history."""
    log = RecordingLog()
    one, two = Writer(log), Writer(log)
    history = [("a", 1, 1), ("b", 3, 2), ("c", 3, -1), ("a", 6, 1), ("d", 8, 1)]
    for writer, low, high in ((one, 0, 2), (one, 2, 5), (two, 0, 4), (two, 4, 7), (one, 5, 9)):
        writer.extend(update for update in history if low <= update[1] < high)
        writer.advance([high])
    two.extend(update for update in history if update[1] >= 7)
    two.finish()

    assert ({(data, time): diff for data, time, diff in history}, Antichain()) == replay(log.durable)


def test_what_was_advanced_past_takes_no_more() -> None:
    """The caller stated it; and frontiers do not go back."""
    writer = Writer(RecordingLog())
    writer.update("a", 7, 1)
    writer.advance([5])

    with pytest.raises(MalformedError, match="4"):
        writer.update("a", 4, 1)
    with pytest.raises(UsageError):
        writer.advance([4])
    writer.update("a", 5, 1)


def test_what_was_staged_takes_no_more() -> None:
    """Also at a time that has updates: they are durable, and another sum would contradict them."""
    log = RecordingLog()
    writer = Writer(log)
    writer.update("a", 3, 1)
    writer.stage([5])
    for data, time in (("a", 3), ("b", 3), ("b", 4)):
        with pytest.raises(MalformedError):
            writer.update(data, time, 1)
    writer.update("b", 5, 1)
    writer.commit()

    assert ({("a", 3): 1}, Antichain([5])) == replay(log.durable)
    with pytest.raises(UsageError, match="stage"):
        writer.commit()


@pytest.mark.parametrize("update", [
    ("a", -1, 1), ("a", True, 1), ("a", 1.0, 1), ("a", 2**63, 1), ("a", (1, 2), 1), ("a", P(1, 2), 1), ("a", None, 1),
    ("a", 1, 1.0), ("a", 1, True), ("a", 1, None), (["a"], 1, 1), ({}, 1, 1),
])
def test_it_refuses_what_is_no_update(update: Any) -> None:
    """Also at a time that already has updates: 1.0 and True are equal to 1, and still no times."""
    log = RecordingLog()
    writer = Writer(log)
    writer.update("a", 1, 1)

    with pytest.raises(MalformedError):
        writer.update(*update)

    writer.advance([2])
    assert ({("a", 1): 1}, Antichain([2])) == replay(log.durable)


@pytest.mark.parametrize("iterable", [list, tuple, Antichain, iter])
def test_a_history_may_begin_anywhere(iterable: Any) -> None:
    """At any frontier, given as any iterable."""
    log = RecordingLog()
    writer = Writer(log, start=iterable([5]))
    assert Antichain([5]) == writer.known
    with pytest.raises(MalformedError):
        writer.update("a", 4, 1)
    writer.update("a", 5, 1)
    writer.advance([6])

    assert [Updates([("a", 5, 1)]), "flush", Progress([5], [6], {5: 1}), "flush"] == log.calls


def test_products_are_written_as_well() -> None:
    """Frontiers of several elements; what was stated beside is not stated again."""
    log = RecordingLog()
    writer = Writer(log, start=[P(0, 0)])
    fed = [("a", P(0, 0), 1), ("b", P(0, 3), 1), ("c", P(3, 0), 1), ("d", P(2, 2), 1)]
    writer.extend(fed)
    writer.advance([P(0, 3), P(2, 0)])
    writer.advance([P(2, 2)])
    writer.finish()

    assert ({(data, time): diff for data, time, diff in fed}, Antichain()) == replay(log.durable, [P(0, 0)])
    assert Progress([P(0, 0)], [P(0, 3), P(2, 0)], {P(0, 0): 1}) == log.durable[1]


CRASHES = ["send 1", "flush 1", "send 2", "flush 2", "send 3", "flush 3", "send 4", "flush 4"]


@pytest.mark.parametrize("keep", [0, 1, 9])
@pytest.mark.parametrize("crash", CRASHES)
def test_after_a_failure_the_same_advance_may_be_called_again(crash: str, keep: int) -> None:
    """After any part became durable: the same facts are written, and the log has each once."""
    log = RecordingLog(crash_at=[crash], keep=keep)
    writer = Writer(log, updates_per_message=2)
    for updates, frontier in (([("a", 1, 1), ("b", 1, 1), ("c", 2, 1)], [3]), ([("d", 4, 1)], [5])):
        writer.extend(updates)
        try:
            writer.advance(frontier)
        except Crash:
            with pytest.raises(MalformedError):
                writer.update("x", 0, 1)
            writer.advance(frontier)

    expected = {("a", 1): 1, ("b", 1): 1, ("c", 2): 1, ("d", 4): 1}
    assert (expected, Antichain([5])) == replay(log.durable)


@pytest.mark.parametrize("keep", [0, 1, 9])
@pytest.mark.parametrize("crash", CRASHES)
def test_after_a_crash_the_next_writer_goes_on(crash: str, keep: int) -> None:
    """It is fed the history again, finds what is durable, and states the rest; at no moment was the log wrong."""
    history = [("a", 1, 1), ("b", 1, 1), ("c", 2, 1), ("d", 4, 1)]
    log = RecordingLog(crash_at=[crash], keep=keep)
    with pytest.raises(Crash):
        writer = Writer(log, updates_per_message=2)
        for frontier in (3, 5):
            writer.extend(update for update in history if frontier - 3 < update[1] < frontier)
            writer.advance([frontier])
        raise Crash("none was placed here")

    stated = [message for message in log.durable if isinstance(message, Progress)]
    durable = [update for message in log.durable if isinstance(message, Updates) for update in message.updates]
    for time, count in [pair for statement in stated for pair in statement.counts]:
        assert count == len({data for data, at, _ in durable if at == time})

    again = log.again()
    with Writer(again, updates_per_message=2) as next_writer:
        next_writer.extend(history)
        next_writer.finish()
    assert ({(data, time): diff for data, time, diff in history}, Antichain()) == replay(again.durable)


@pytest.mark.parametrize("step", [name for name in failpoints.KNOWN if name.startswith("writer.")])
def test_a_crash_at_each_named_step_is_survived(step: str) -> None:
    """The steps by which kills are placed in real processes."""
    log = RecordingLog()
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        with Writer(log) as writer:
            writer.update("a", 3, 1)
            writer.advance([5])

    again = log.again()
    with Writer(again) as writer:
        writer.update("a", 3, 1)
        writer.advance([5])
    assert ({("a", 3): 1}, Antichain([5])) == replay(again.durable)


def test_the_writer_names_its_steps() -> None:
    """Before and after each of the two moments that matter."""
    assert 4 <= len([name for name in failpoints.KNOWN if name.startswith("writer.")])


@settings(max_examples=60)
@given(choosers(), st.sampled_from([1, 2]))
def test_any_writers_of_one_history_leave_one_log(choose: Chooser, dims: int) -> None:
    """Several, each crashing or leaving anywhere, each fed from the start in any order with its own frontiers."""
    def time() -> Any:
        return choose.integer(0, 6) if dims == 1 else P(choose.integer(0, 3), choose.integer(0, 3))

    fed = [(choose.pick("abc"), time(), choose.integer(-1, 1)) for _ in range(choose.integer(0, 8))]
    history: dict[tuple[Any, Any], int] = {}
    for data, at, diff in fed:
        history[data, at] = history.get((data, at), 0) + diff
    start = [0] if dims == 1 else [P(0, 0)]
    log = RecordingLog()
    for last in [False] * choose.integer(0, 3) + [True]:
        crash = f"{choose.pick(['send', 'flush'])} {choose.integer(1, 5)}"
        log = RecordingLog(log.durable, crash_at=[] if last else [crash], keep=choose.integer(0, 2))
        writer = Writer(log, start=start, updates_per_message=choose.integer(1, 3))
        writer.extend(choose.shuffled(fed))
        bound = Antichain(start)
        try:
            for _ in range(choose.integer(0, 3)):
                bound = bound.join(Antichain([time()]))
                writer.advance(bound)
            if last:
                writer.finish()
        except Crash:
            continue

    assert ({key: diff for key, diff in history.items() if diff}, Antichain()) == replay(log.durable, start)
