"""Capture over a model of the connector: any history, crash, restart and loss of memory gives the same logs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from cdcv2.capture.facts import End, Notification, RowFact, SnapshotRow, Truncate, UnfitRow
from cdcv2.capture.run.commit_times import Capture, ReleaseReport
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, LogFinishedError, RefusedError, SourceStop, UsageError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.capture.run.test_lost_ends import TransactionRecords
from tests.connector import PREFIX, History, Topics, histories, sent
from tests.doubles import Crash, KeptMemory, RecordingLog
from tests.steps import killed_anywhere

A, B = "public.a", "public.b"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})
Logs = dict[str, RecordingLog]


def recipe(**more: Any) -> Recipe:
    """Tables a and b; the model's rows are texts."""
    return Recipe(PREFIX, {A: ROWS, B: ROWS}, **more)


def new_logs() -> Logs:
    """One empty log per table."""
    return {A: RecordingLog(), B: RecordingLog()}


def feed(capture: Capture, topics: Topics, chance: random.Random, often: float = 0.3) -> None:
    """Read all topics from the capture's positions on, releasing now and then, and in the end."""
    for fact, position in topics.read(chance, capture.positions()):
        capture.absorb_fact(fact, position)
        if capture.needs_ends:
            capture.ends_read(topics.ends())
        if chance.random() < often:
            capture.release()
    capture.release()


def content(logs: Logs) -> dict[str, set[Any]]:
    """The updates that a reader of each log gets; none twice, none missing."""
    contents = {}
    for table, log in logs.items():
        reader = Iter(log.durable)
        updates = [update for batch in reader for update in batch.updates]
        assert len(updates) == len(set(updates))
        assert not reader.missing()
        contents[table] = set(updates)
    return contents


def frontiers(logs: Logs) -> set[Antichain]:
    """How far the readers of the logs come."""
    found = set()
    for log in logs.values():
        reader = Iter(log.durable)
        list(reader)
        found.add(reader.frontier)
    return found


def end_of(history: History, *, snapshot: bool = True) -> Antichain:
    """The frontier that the logs of a history reach."""
    if history.transactions:
        return Antichain([history.ends[-1] + 1])
    return Antichain([1001 if snapshot and any(history.snapshot.values()) else 1 if snapshot else 0])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["none", "marked", "notified"]))
def test_any_history_arrives_whole_and_once(seed: int, snapshot: str) -> None:
    """Whatever is sent again and however the topics are interleaved: the logs hold the history, and state it."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=snapshot != "none")
    if snapshot == "marked":
        history.snapshot[A] += 1  # An empty snapshot has no last row, and only a notification would show it.
    topics = sent(history, chance, notified=snapshot == "notified")
    logs = new_logs()
    more = {"snapshot": "none"} if snapshot == "none" else {}
    more |= {"notification_topic": "notifications"} if snapshot == "notified" else {}
    with Capture(recipe(**more), logs) as capture:
        feed(capture, topics, chance)
        assert 0 == capture.held_rows
        assert "nothing is open" == capture.waits().text
    assert history.truth() == content(logs)
    assert {end_of(history, snapshot=snapshot != "none")} == frontiers(logs)


@settings(max_examples=150, deadline=None)
@example(225777, "kept", True)
@given(st.integers(0, 2**32), st.sampled_from(["kept", "lost", "older"]), st.booleans())
def test_crashes_anywhere_lose_nothing_and_repeat_nothing(seed: int, memory: str, notified: bool) -> None:
    """At any step, any number of times, with the memory kept, lost or set back: the same logs.

    In the example the first memory is that of a life that found the logs, and had not read a partition at all: that its
    rows were released is in the transaction topic only.
    """
    chance = random.Random(seed)
    history = histories(chance)
    history.snapshot[A] += 1
    topics = sent(history, chance, notified=notified)
    how = recipe(notification_topic="notifications" if notified else None)
    kept = KeptMemory()

    def life(logs: Logs) -> None:
        capture = Capture(how, logs, memory=kept, updates_per_message=2)
        capture.recall(TransactionRecords(*topics.endings()))
        feed(capture, topics, chance)

    logs = killed_anywhere(chance, memory, new_logs(), kept, life)
    assert history.truth() == content(logs)
    assert {end_of(history)} == frontiers(logs)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_log_that_fails_in_the_middle_is_healed_by_the_next_run(seed: int) -> None:
    """Some messages became durable, others not; the failed capture is of no more use, the next one resumes."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=False)
    topics = sent(history, chance)
    how = recipe(snapshot="none")
    logs, kept = new_logs(), KeptMemory()
    for _ in range(6):
        for table, log in logs.items():
            call = f"{chance.choice(('send', 'flush'))} {chance.randint(1, 6)}"
            logs[table] = RecordingLog(log.durable, crash_at={call}, keep=chance.randint(0, 3))
        capture = Capture(how, logs, memory=kept, updates_per_message=1)
        try:
            feed(capture, topics, chance)
        except Crash:
            with pytest.raises(RefusedError, match="open it again"):
                capture.release()
    logs = {table: log.again() for table, log in logs.items()}
    feed(Capture(how, logs, memory=kept), topics, chance)
    assert history.truth() == content(logs)


# -- one thing at a time


def place(table: str, offset: int) -> Position:
    """A position in the only partition of a table's topic."""
    return Position(f"{PREFIX}.{table}", 0, offset)


def row(table: str, tx: int, order: int, offset: int, changes: Any, seq: int | None = None) -> tuple[RowFact, Position]:
    """A row fact with its position."""
    return RowFact(table, tx, order, order, seq, "c", changes, place(table, offset)), place(table, offset)


def end(tx: int, lsn: int, counts: dict[str, int], offset: int) -> tuple[End, Position]:
    """An END with its position."""
    return End(tx, lsn, counts), Position(f"{PREFIX}.transaction", 0, offset)


def test_what_cancels_in_a_transaction_counts_nothing() -> None:
    """A row that came and went, or was updated to itself, leaves no identity; every log has its statement."""
    logs = new_logs()
    capture = Capture(recipe(snapshot="none"), logs)
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    capture.absorb_fact(*row(A, 5, 2, 1, (("x", -1), ("y", 1))))
    capture.absorb_fact(*row(A, 5, 3, 2, (("y", 1),)))
    capture.absorb_fact(*row(A, 6, 1, 3, (("y", -1), ("y", 1))))
    capture.absorb_fact(*end(5, 70, {A: 3}, 0))
    capture.absorb_fact(*end(6, 80, {A: 1}, 1))
    capture.release()
    assert [Updates([("y", 70, 2)]), Progress([0], [81], {70: 1})] == logs[A].durable
    assert [Progress([0], [81])] == logs[B].durable


def test_all_updates_are_durable_before_the_first_statement() -> None:
    """A statement must never count what a crash may still take away, in any table."""
    order: list[tuple[str, str]] = []

    class Told(RecordingLog):
        def __init__(self, table: str) -> None:
            super().__init__()
            self._table = table

        def send(self, message: Any) -> None:
            order.append((self._table, type(message).__name__))
            super().send(message)

        def flush(self) -> None:
            order.append((self._table, "flush"))
            super().flush()

    capture = Capture(recipe(snapshot="none"), {A: Told("a"), B: Told("b")})
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    second, position = row(B, 5, 2, 0, (("y", 1),))
    capture.absorb_fact(second._replace(table_order=1), position)
    capture.absorb_fact(*end(5, 70, {A: 1, B: 1}, 0))
    capture.release()
    assert [
        ("a", "Updates"), ("a", "flush"), ("b", "Updates"), ("b", "flush"),
        ("a", "Progress"), ("a", "flush"), ("b", "Progress"), ("b", "flush"),
    ] == order


def test_what_is_remembered_is_where_to_read_again() -> None:
    """The first record of each partition that is not released; everything before it need not be read."""
    logs, memory = new_logs(), KeptMemory()
    capture = Capture(recipe(snapshot="none"), logs, memory=memory)
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    capture.absorb_fact(*row(A, 6, 1, 1, (("y", 1),), 70))
    capture.absorb_fact(*row(A, 7, 1, 2, (("z", 1),), 80))
    capture.absorb_fact(*end(5, 70, {A: 1}, 0))
    capture.absorb_fact(*end(6, 80, {A: 2}, 1))
    capture.release()
    assert {f"{PREFIX}.{A}": {"0": 1}, f"{PREFIX}.transaction": {"0": 1}} == memory.plain["positions"]
    again = Capture(recipe(snapshot="none"), logs, memory=memory)
    assert {(f"{PREFIX}.{A}", 0): 1, (f"{PREFIX}.transaction", 0): 1} == again.positions()
    assert Antichain([71]) == again.frontier


def test_the_same_identity_with_another_row_stops_before_its_transaction() -> None:
    """A row sent again is the same row; another one under its number is a contradiction."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    capture.absorb_fact(*row(A, 5, 1, 1, (("x", 1),)))
    capture.absorb_fact(*row(A, 5, 1, 2, (("y", 1),)))
    capture.absorb_fact(*end(5, 70, {A: 1}, 0))
    with pytest.raises(SourceStop, match=r"different rows of public.a numbered 1, both .* one at src.public.a\[0\]@2"):
        capture.release()


def test_another_row_of_one_number_is_read_again() -> None:
    """Wherever it stands: a run that goes on with the memory stops as well."""
    memory, logs = KeptMemory(), new_logs()
    capture = Capture(recipe(snapshot="none"), logs, memory=memory)
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    elsewhere = Position(f"{PREFIX}.{A}", 1, 0)
    capture.absorb_fact(row(A, 5, 1, 0, (("y", 1),))[0]._replace(position=elsewhere), elsewhere)

    assert 0 == capture.positions()[f"{PREFIX}.{A}", 1]


def test_a_number_that_rows_of_two_tables_have_stops_before_their_transaction() -> None:
    """Their order in the transaction is one number over all tables; so one of them is numbered from 1 again."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    for fact in (row(A, 5, 1, 0, (("x", 1),)), row(B, 5, 1, 0, (("y", 1),)), end(5, 100, {A: 1, B: 1}, 0)):
        capture.absorb_fact(*fact)

    with pytest.raises(SourceStop, match="different rows with total_order 1, of public.a numbered 1 and of public.b"):
        capture.release()


def test_a_row_that_comes_again_is_read_again_too() -> None:
    """A run that began behind it would take another row of its number, which comes later, for the first one."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    for offset in (3, 4):
        elsewhere = Position(f"{PREFIX}.{A}", 1, offset)
        capture.absorb_fact(row(A, 5, 1, 0, (("x", 1),))[0]._replace(position=elsewhere), elsewhere)

    assert {(f"{PREFIX}.{A}", 0): 0, (f"{PREFIX}.{A}", 1): 3} == capture.positions()


def test_a_changed_row_stops_before_its_transaction_and_again_after_a_restart() -> None:
    """The logs are complete up to there; the memory does not go past it."""
    logs, memory = new_logs(), KeptMemory()
    topics = Topics()
    for fact, _ in (row(A, 5, 1, 0, (("x", 1),)), row(A, 6, 1, 1, (("y", 1),), 70)):
        topics.append((f"{PREFIX}.{A}", 0), fact)
    topics.append((f"{PREFIX}.{A}", 0), UnfitRow(A, 6, None, 70, place(A, 2), "the columns changed", "make a new log"))
    for tx, lsn, counts in ((5, 70, {A: 1}), (6, 80, {A: 2}), (7, 90, {})):
        topics.append((f"{PREFIX}.transaction", 0), End(tx, lsn, counts))
    for _ in range(3):
        with pytest.raises(SourceStop) as caught:
            feed(Capture(recipe(snapshot="none"), logs, memory=memory), topics, random.Random(1), often=0)
        assert ("the columns changed", "make a new log") == (caught.value.reason, caught.value.remedy)
        assert Antichain([71]) == caught.value.frontier
    assert {A: {("x", 70, 1)}, B: set()} == content(logs)
    assert {Antichain([71])} == frontiers(logs)


@pytest.mark.parametrize("stopping", [
    UnfitRow(A, None, None, 70, place(A, 1), "a row of public.a names no transaction", "start over"),
    UnfitRow(A, None, 95, None, place(A, 1), "an incremental snapshot of public.a was taken", "start over"),
    SnapshotRow(A, 95, "first", "y", place(A, 1)),
])
@pytest.mark.parametrize("early", [True, False])
def test_what_stops_and_is_of_no_transaction_stops_again_after_a_restart(
    stopping: UnfitRow | SnapshotRow, early: bool
) -> None:
    """Though what is whole beside it is released with it: its position must not be remembered as read."""
    logs, memory, topics = new_logs(), KeptMemory(), Topics()
    rows = (f"{PREFIX}.{A}", 0), (f"{PREFIX}.transaction", 0)
    topics.append(rows[0], row(A, 5, 1, 0, (("x", 1),))[0])
    topics.append(rows[0], stopping)
    topics.append(rows[0], row(A, 6, 1, 2, (("z", 1),), 70)[0])
    topics.append(rows[1], End(5, 70, {A: 1}))
    if not early:
        topics.append(rows[1], End(6, 80, {A: 1}))
    reasons = set()
    for _ in range(3):
        with pytest.raises(SourceStop) as caught:
            feed(Capture(recipe(snapshot="none"), logs, memory=memory), topics, random.Random(1), often=0)
        reasons.add(caught.value.reason)

    assert 1 == len(reasons)
    assert {A: {("x", 70, 1)} | (set() if early else {("z", 80, 1)}), B: set()} == content(logs)


def test_a_truncate_that_was_sent_again_from_the_past_is_a_repeat() -> None:
    """It is recognized as a row is."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),), 60))
    capture.absorb_fact(*end(5, 70, {A: 1}, 0))
    capture.release()
    capture.absorb_fact(Truncate(A, 5, 1, 1, 60, place(A, 1), "truncated", "start over"), place(A, 1))
    capture.absorb_fact(*end(6, 80, {}, 1))
    capture.release()
    assert Antichain([81]) == capture.frontier


@pytest.mark.parametrize("late", [
    Truncate(A, 5, 1, 1, 60, place(A, 0), "truncated", "start over"),
    UnfitRow(A, 5, None, 60, place(A, 0), "the columns changed", "start over", 1),
])
def test_what_cannot_be_captured_and_was_not_counted_stops_behind_its_released_transaction(
    late: Truncate | UnfitRow
) -> None:
    """As a row does: the logs are stated beyond it, and lack what it did."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    capture.absorb_fact(*end(5, 70, {}, 0))
    capture.release()
    capture.absorb_fact(late, place(A, 0))
    with pytest.raises(SourceStop, match="numbered 1, but its END 70 counts 0; the logs are stated beyond") as caught:
        capture.release()
    assert caught.value.lasting


@pytest.mark.parametrize("other", [SnapshotRow(A, 1000, "last", "y", place(A, 0)),
                                   UnfitRow(A, None, 1000, None, place(A, 0), "the columns changed", "remedy")])
def test_what_is_wrong_with_a_row_of_the_snapshot_stops_before_it(other: SnapshotRow | UnfitRow) -> None:
    """A position with two contents, or a row that does not fit: nothing is stated without it."""
    logs = new_logs()
    capture = Capture(recipe(), logs)
    row = SnapshotRow(A, 1000, "last", "x", place(A, 0))
    for fact in (row, row, other):
        capture.absorb_fact(fact, place(A, 0))
        if capture.needs_ends:
            capture.ends_read({(f"{PREFIX}.{A}", 0): 1})
    said = "two different rows of the snapshot at src.public.a" if isinstance(other, SnapshotRow) else "columns changed"
    with pytest.raises(SourceStop, match=said):
        capture.release()

    assert ([], []) == (logs[A].durable, logs[B].durable)


@pytest.mark.parametrize("lsn, stops", [(1000, False), (1001, True)])
def test_an_unfit_row_of_an_old_snapshot_is_a_repeat_too(lsn: int, stops: bool) -> None:
    """Read again from the start, an old snapshot may hold rows of an older type: they are long released."""
    of_a = [Updates([("x", 1000, 1)]), Progress([0], [1001], {1000: 1})]
    logs = {A: RecordingLog(of_a), B: RecordingLog([Progress([0], [1001])])}
    capture = Capture(recipe(), logs)
    capture.absorb_fact(UnfitRow(A, None, lsn, None, place(A, 0), "the columns changed", "remedy"), place(A, 0))
    if stops:
        with pytest.raises(SourceStop, match="rows of a second snapshot"):
            capture.release()
    else:
        assert capture.release() is None


def test_an_unfit_row_of_the_snapshot_stops_at_once() -> None:
    """Nothing can be released before the snapshot, so there is nothing to finish first."""
    capture = Capture(recipe(), new_logs())
    capture.absorb_fact(UnfitRow(A, None, 1000, None, place(A, 0), "the columns changed", "remedy"), place(A, 0))
    with pytest.raises(SourceStop, match="the columns changed. remedy"):
        capture.release()


def test_the_assumed_snapshot_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing stated how many rows it has: the log line and the report show it."""
    told: list[ReleaseReport] = []
    capture = Capture(recipe(), new_logs(), on_release=told.append)
    capture.absorb_fact(SnapshotRow(A, 1000, "last", "x", place(A, 0)), place(A, 0))
    assert capture.needs_ends
    capture.ends_read({(f"{PREFIX}.{A}", 0): 1, (f"{PREFIX}.{B}", 0): 0, (f"{PREFIX}.transaction", 0): 99})
    capture.release()
    assert told[0].release.assumed
    assert "snapshot completeness assumed" in caplog.text


def test_what_is_told_after_a_release() -> None:
    """For progress: what came, what is open, and why it waits."""
    told: list[ReleaseReport] = []
    capture = Capture(recipe(snapshot="none"), new_logs(), on_release=told.append)
    capture.absorb_fact(*row(A, 5, 1, 0, (("x", 1),)))
    capture.absorb_fact(*end(5, 70, {A: 1}, 0))
    capture.absorb_fact(*end(6, 80, {B: 2}, 1))
    capture.release()
    (captured,) = told
    assert "transaction 6 (END 80) lacks 2 of 2 rows of public.b" == captured.waiting.text
    assert (0, 1, 3, 1) == (
        captured.held_rows, captured.open_transactions, captured.counters.records, captured.counters.transactions
    )


def test_a_partition_is_ahead_when_the_next_transaction_needs_nothing_of_it() -> None:
    """So that a reader may let it wait; only a hint."""
    capture = Capture(recipe(snapshot="none"), new_logs())
    capture.absorb_fact(*end(5, 70, {B: 2}, 0))
    capture.absorb_fact(*row(A, 6, 1, 0, (("x", 1),), 70))
    capture.absorb_fact(*row(B, 5, 1, 0, (("x", 1),), 60))
    ahead = {name: capture.is_ahead((f"{PREFIX}.{name}", 0)) for name in (A, B, "transaction")}
    assert {A: True, B: False, "transaction": False} == ahead


@pytest.mark.parametrize("messages, error, text", [
    ([Progress([0], [])], LogFinishedError, "complete"),
])
def test_a_finished_log_is_refused(messages: list[Any], error: type[Exception], text: str) -> None:
    """Its history is complete; nothing can come after it."""
    with pytest.raises(error, match=text):
        Capture(recipe(snapshot="none"), {A: RecordingLog(messages), B: RecordingLog()})


def test_logs_of_other_tables_are_refused() -> None:
    """Each table has a log, and each log a table."""
    with pytest.raises(UsageError, match="the logs are of"):
        Capture(recipe(), {A: RecordingLog()})


def test_a_log_is_read_only_from_where_the_memory_was_made() -> None:
    """A long log is not read whole at each start; a shorter one, or the memory of another release, makes it so."""
    memory = KeptMemory()
    logs = {table: RecordingLog([Progress([0], [61])]) for table in (A, B)}
    for tx, lsn, reads in ((5, 70, [None]), (6, 80, [{0: 0}]), (7, 90, [{0: 1}])):
        logs = {table: log.again() for table, log in logs.items()}
        capture = Capture(recipe(snapshot="none"), logs, memory=memory)
        capture.absorb_fact(*end(tx, lsn, {}, tx))
        capture.release()
        assert reads == logs[A].reads
    memory.plain["logs"][A]["reader"]["version"] = 0
    memory.plain["logs"][B]["positions"]["0"] = 99
    again = {table: log.again() for table, log in logs.items()}
    assert Antichain([91]) == Capture(recipe(snapshot="none"), again, memory=memory).frontier
    assert [[None], [None]] == [again[A].reads, again[B].reads]


def test_old_snapshot_rows_are_counted_as_repeats() -> None:
    """Read again from the start of the topics, after the memory was lost."""
    told = [Updates([("x", 1000, 1)]), Progress([0], [1001], {1000: 1})]
    logs = {A: RecordingLog(told), B: RecordingLog([Progress([0], [1001])])}
    capture = Capture(recipe(), logs)
    capture.absorb_fact(SnapshotRow(A, 1000, "last", "x", place(A, 0)), place(A, 0))
    assert (1, 0, 0) == (capture.counters.repeats, capture.counters.rows, capture.held_rows)
    assert capture.release() is None


def test_the_memory_of_another_capture_is_refused() -> None:
    """Another prefix, other tables, other row types: other facts."""
    memory = KeptMemory()
    logs = new_logs()
    Capture(recipe(snapshot="none"), logs, memory=memory).save()
    Capture(recipe(snapshot="none"), logs, memory=memory)
    other = Recipe("other", {A: ROWS, B: ROWS}, snapshot="none")
    with pytest.raises(ForeignStateError, match="a memory and logs of its own"):
        Capture(other, logs, memory=memory)


def test_the_memory_of_logs_that_are_gone_is_refused() -> None:
    """It would skip what the new logs lack."""
    logs, memory = new_logs(), KeptMemory()
    capture = Capture(recipe(snapshot="none"), logs, memory=memory)
    capture.absorb_fact(*end(5, 70, {}, 0))
    capture.release()
    with pytest.raises(ForeignStateError, match="by the memory the log that is furthest behind is complete before 71,"):
        Capture(recipe(snapshot="none"), new_logs(), memory=memory)


def test_the_memory_of_logs_that_hold_something_else_is_refused() -> None:
    """As many messages, and another history: the state of it is not taken for what the logs state."""
    memory = KeptMemory()
    logs = {table: RecordingLog([Progress([0], [61])]) for table in (A, B)}
    Capture(recipe(snapshot="none"), logs, memory=memory).save()
    others = {table: RecordingLog([Progress([0], [51]), Progress([51], [99])]) for table in (A, B)}
    with pytest.raises(ForeignStateError, match="the log recording, .* before 1 in part 0: .* remove the memory"):
        Capture(recipe(snapshot="none"), others, memory=memory)
    grown = {table: RecordingLog([Progress([0], [61]), Progress([61], [99])]) for table in (A, B)}

    assert Antichain([99]) == Capture(recipe(snapshot="none"), grown, memory=memory).frontier


@pytest.mark.parametrize("runs", [1, 2])
def test_of_a_snapshot_that_was_begun_twice_nothing_is_released(runs: int) -> None:
    """As many rows as it has, at its LSN, none of them twice: they may be those of the second run all the same."""
    logs = new_logs()
    capture = Capture(recipe(notification_topic="notes"), logs)
    counted = [("TABLE_SCAN_COMPLETED", A, 3), ("TABLE_SCAN_COMPLETED", B, 0), ("COMPLETED", None, None)]
    for at, said in enumerate([("STARTED", None, None)] * runs + counted):
        capture.absorb_fact(Notification(*said, at), Position("notes", 0, at))
    for at, text in enumerate("xyz"):
        position = Position(f"{PREFIX}.{A}", 0, at)
        capture.absorb_fact(SnapshotRow(A, 1000, "true", text, position), position)
    if runs == 1:
        capture.release()
        assert [3] == [sum(diff for batch in Iter(logs[A].durable) for _, _, diff in batch.updates)]
        return
    with pytest.raises(SourceStop, match="began its snapshot twice"):
        capture.release()
    assert [] == list(logs[A].durable) == list(logs[B].durable)
