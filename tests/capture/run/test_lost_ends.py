"""An END that is lost takes no rows with it unseen: whichever it is, the capture stops, and stops again."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings, strategies as st

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.facts import End, Fact, Record, RowFact, Truncate
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.topics import TopicExtents
from cdcv2.capture.connector import FROM_STATE
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType
from tests.connector import PREFIX, SNAPSHOT_LSN, histories, sent
from tests.doubles import KeptMemory, RecordingLog
from tests.envelopes import value
from tests.recorded import TABLES, dump, ends, facts, recipe

A, B = "public.a", "public.b"
PLACE = (f"{PREFIX}.transaction", 0)
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})


def model(**more: object) -> Recipe:
    """The two tables of the model."""
    return Recipe(PREFIX, {A: ROWS, B: ROWS}, **more)  # type: ignore[arg-type]


def stop_of(capture: Capture, read: object, ends_now: dict[tuple[str, int], int], chance: random.Random) -> SourceStop:
    """What stops it, at the latest at the end."""
    with pytest.raises(SourceStop) as caught:
        for fact, position in read:  # type: ignore[attr-defined]
            capture.absorb_fact(fact, position)
            if capture.needs_ends:
                capture.ends_read(ends_now)
            if chance.random() < 0.3:
                capture.release()
        capture.release()
    return caught.value


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["none", "marked", "notified"]))
def test_whichever_end_is_lost_it_is_missed(seed: int, snapshot: str) -> None:
    """Rows sent again, topics interleaved by chance: all before it is whole, if its rows came before what is after."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=snapshot != "none")
    number = history.endless(chance)
    assume(number is not None)
    assert number is not None
    if snapshot == "marked":
        history.snapshot[A] += 1
    tx = history.transactions[number].tx
    topics = sent(history, chance, notified=snapshot == "notified").without_end(tx)
    more = {"snapshot": "none"} if snapshot == "none" else {}
    more |= {"notification_topic": "notifications"} if snapshot == "notified" else {}
    if snapshot == "marked":
        more["empty"] = frozenset(table for table in (A, B) if not history.snapshot[table])
    logs, memory = {A: RecordingLog(), B: RecordingLog()}, KeptMemory()
    stops = []
    for _ in range(2):
        logs = {table: log.again() for table, log in logs.items()}
        capture = Capture(model(**more), logs, memory=memory)
        stops.append(stop_of(capture, topics.read(chance, capture.positions()), topics.ends(), chance))

    assert all(f"the END of transaction {tx} is missing" in stop.reason for stop in stops)
    assert stops[0].frontier == stops[1].frontier
    before = history.ends[number - 1] if number else SNAPSHOT_LSN if any(history.snapshot.values()) else 0
    if "stated beyond it" not in stops[0].reason:
        # Without a snapshot nothing is given out before the first one.
        assert (Antichain([before + 1]) if before or snapshot != "none" else None) == stops[0].frontier
    else:
        assert "Even if it can be had again, start over" in stops[0].remedy


@pytest.mark.parametrize("run", ["clean_full", "clean_default"])
def test_an_end_that_a_recorded_run_lost_is_missed(run: str) -> None:
    """In the order of arrival, and in any other; with old rows from the records, and from the state."""
    chance = random.Random(run)
    records = [record for record in dump(run).read() if record.topic.startswith(f"{run}.")]
    what = {record.position: fact for entries in facts(run).values() for record, fact in entries}
    how = recipe(run, before=FROM_STATE) if run == "clean_default" else recipe(run)
    if run == "clean_default":
        what = {record.position: how.fact(record) for record in records}
    rows = {fact.tx for fact in what.values() if hasattr(fact, "seq") and fact.tx is not None}
    lsns = sorted(lsn for lsn, tx in ends(run).items() if tx in rows)[:-50]
    for lsn in [lsns[0], lsns[1], *chance.sample(lsns, 3)]:
        tx = ends(run)[lsn]
        order: list[tuple[Fact, Position]] = [
            (what[record.position], record.position) for record in records
            if (what[record.position].__class__, what[record.position][0]) != (End, tx)
        ]
        capture = Capture(how, {table: RecordingLog() for table in TABLES})
        stop = stop_of(capture, order, dump(run).ends(), random.Random(1))

        before = max((other for other in ends(run) if other < lsn), default=None)
        assert f"the END of transaction {tx} is missing" in stop.reason
        assert before is None or Antichain([before + 1]) == stop.frontier


# -- one thing at a time


def place(table: str, offset: int) -> Position:
    """A position in a topic."""
    return Position(f"{PREFIX}.{table}", 0, offset)


def row(tx: int, seq: int | None, offset: int = 0) -> tuple[RowFact, Position]:
    """The only row of a transaction."""
    return RowFact(A, tx, 1, 1, seq, "c", ((f"row {tx}", 1),), place(A, offset)), place(A, offset)


def end(tx: int, lsn: int, counts: dict[str, int]) -> tuple[End, Position]:
    """An END."""
    return End(tx, lsn, counts), place("transaction", lsn)


def streaming(memory: KeptMemory | None = None) -> Capture:
    """A capture without a snapshot."""
    return Capture(model(snapshot="none"), {A: RecordingLog(), B: RecordingLog()}, memory=memory)


def test_reason_and_remedy_name_both_transactions_and_what_to_do() -> None:
    """Which END, between which commits, and what it means for the logs."""
    capture = streaming()
    for fact in (row(5, None), end(5, 70, {A: 1}), row(6, 70, 1), end(7, 90, {})):
        capture.absorb_fact(*fact)
    with pytest.raises(SourceStop) as caught:
        capture.release()

    assert Antichain([71]) == caught.value.frontier
    assert (
        "the END of transaction 6 is missing: it comes after the commit 70 and before the next one, and the next "
        "END is 90, of transaction 7"
    ) == caught.value.reason
    assert "The transaction topic lacks a record" in caught.value.remedy


def test_what_was_found_is_not_found_too_late_by_the_next_run() -> None:
    """It may read the rows later than the ENDs behind; with the END there after all, it goes on."""
    memory = KeptMemory()
    logs = {A: RecordingLog(), B: RecordingLog()}
    capture = Capture(model(snapshot="none"), logs, memory=memory)
    for fact in (end(5, 70, {}), row(6, 70), end(7, 90, {})):
        capture.absorb_fact(*fact)
    with pytest.raises(SourceStop):
        capture.release()
    again, mended = (Capture(model(snapshot="none"), logs, memory=memory) for _ in range(2))
    again.absorb_fact(*end(7, 90, {}))
    with pytest.raises(SourceStop, match="the END of transaction 6 is missing"):
        again.release()
    for fact in (end(6, 80, {A: 1}), end(7, 90, {}), row(6, 70)):
        mended.absorb_fact(*fact)
    mended.release()

    assert (Antichain([71]), Antichain([91])) == (again.frontier, mended.frontier)


def test_it_waits_for_what_was_committed_before_and_for_the_next_end() -> None:
    """Without an END behind it, the END may still come; and what is before it is captured first."""
    capture = streaming()
    for fact in (row(6, 70, 1), end(5, 70, {A: 1})):
        capture.absorb_fact(*fact)
    assert capture.release() is None and "rows" == capture.waits().what
    capture.absorb_fact(*end(7, 90, {}))
    assert capture.release() is None and "rows" == capture.waits().what
    capture.absorb_fact(*row(5, 0))
    with pytest.raises(SourceStop, match="the END of transaction 6 is missing"):
        capture.release()
    assert Antichain([71]) == capture.frontier


def test_the_end_of_a_transaction_that_truncates_is_missed_too() -> None:
    """It has no row, and what it did is no less lost."""
    capture = streaming()
    capture.absorb_fact(Truncate(A, 6, 1, 1, 70, place(A, 0), "truncated", "start over"), place(A, 0))
    for fact in (end(5, 70, {}), end(7, 90, {})):
        capture.absorb_fact(*fact)
    with pytest.raises(SourceStop, match="the END of transaction 6 is missing"):
        capture.release()


def test_the_first_end_is_missed_as_well() -> None:
    """Its rows name no commit before theirs."""
    capture = streaming()
    for fact in (row(5, None), end(6, 70, {})):
        capture.absorb_fact(*fact)
    with pytest.raises(SourceStop, match="transaction 5 is missing: it comes before any other commit"):
        capture.release()


def test_rows_that_come_when_others_are_released_look_like_repeats_and_are_none() -> None:
    """Nothing can mend the logs, so no run goes on with that memory, even past what showed it."""
    memory = KeptMemory()
    capture = streaming(memory)
    for fact in (end(5, 70, {}), end(7, 90, {})):
        capture.absorb_fact(*fact)
    capture.release()
    capture.absorb_fact(*row(6, 70))
    with pytest.raises(SourceStop, match="transaction 6 is missing: .*; the logs are stated beyond it"):
        capture.release()
    plain = memory.plain
    assert plain is not None
    commits = CommitTransactions.restore(plain["commits"], [A, B], snapshot="none", known=91)  # type: ignore[arg-type]

    again = commits.stopped()
    assert (True, None) == (commits.lost, commits.ready())
    assert again is not None and "transaction 6 is missing" in again.reason


class TransactionRecords:
    """The transaction topic as ranges of records: what ``endings`` wrote, from the offset ``first`` on."""

    def __init__(self, *endings: tuple[End, Position], first: int = 0) -> None:
        values = [value(fact, PREFIX) for fact, _ in endings]
        self.records = [Record(*PLACE, offset, None, text) for offset, text in enumerate(values)][first:]

    def look(self) -> TopicExtents:
        """From the first to the last."""
        offsets = [record.offset for record in self.records]
        return TopicExtents({PLACE: (offsets[0], offsets[-1] + 1)} if offsets else {})

    def read(self, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> list[Record]:
        """Those in the range."""
        ((low, high),) = ranges.values()
        return [record for record in self.records if low <= record.offset < high]


def released(*endings: tuple[End, Position], first: int = 0, memory: bool = True) -> Capture:
    """A capture that is begun when a first one has released the row of 5 and these ENDs."""
    kept, logs = KeptMemory(), {A: RecordingLog(), B: RecordingLog()}
    first_one = Capture(model(snapshot="none"), logs, memory=kept)
    for ending in endings:
        first_one.absorb_fact(*ending)
    first_one.absorb_fact(*row(5, 60))
    assert first_one.release() is not None
    if not memory:
        kept.plain = None
    second = Capture(model(snapshot="none"), {table: log.again() for table, log in logs.items()}, memory=kept)
    second.recall(TransactionRecords(*endings, first=first))
    return second


ENDINGS = end(4, 60, {}), end(5, 70, {A: 1}), end(7, 90, {})
LATE = [
    (row(6, 70), "the END of transaction 6 is missing: .* next END is 90, of transaction 7; the logs are stated"),
    ((RowFact(A, 7, 1, 1, 70, "c", (("x", 1),), place(A, 0)), place(A, 0)), "transaction 7 has a row .* END 90 counts"),
]


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("fact, said", LATE)
def test_the_next_run_tells_them_from_duplicates_as_well(
    fact: tuple[RowFact, Position], said: str, memory: bool
) -> None:
    """What was released next after which commit is in the transaction topic, whatever is remembered beside it."""
    second = released(*ENDINGS, memory=memory)
    second.absorb_fact(*row(5, 60))
    second.release()
    second.absorb_fact(*fact)
    # Without the memory it is known at the ends of the topics at the latest that they are those of the logs.
    second.ended()
    with pytest.raises(SourceStop, match=said):
        second.release()


@pytest.mark.parametrize("fact, said", [
    (row(5, 60), None), LATE[0], LATE[1],
    (row(3, 50), "whether a row of transaction 3, which comes after the commit 50, .* still holds .* is 70"),
    (end(3, 60, {}), "whether END 60 of transaction 3 is a duplicate cannot be known"),
])
def test_a_start_that_knows_too_few_ends_stops_at_what_needs_an_older_one(
    fact: tuple[RowFact | End, Position], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What it knows it judges; it warns at the start, and the stop is seen again by the next run."""
    second = released(*ENDINGS, first=1)
    assert "holds 2 of the last 1024 transactions" in caplog.text and "from END 70 on" in caplog.text
    second.absorb_fact(*fact)
    if said is None:
        second.release()
        return
    with pytest.raises(SourceStop, match=said):
        second.release()


@pytest.mark.parametrize("early", [0, 1, 2])
def test_rows_that_their_end_does_not_count_are_not_lost(early: int) -> None:
    """A connector that was killed inside a transaction may count only what it sent since: it stops, early or late."""
    memory = KeptMemory()
    capture = streaming(memory)
    rows = [(RowFact(A, 7, number, number, 70, "c", ((f"row {number}", 1),), place(A, number)), place(A, number))
            for number in (1, 2)]
    with pytest.raises(SourceStop) as caught:
        for fact in (end(5, 70, {}), *rows[:early], end(7, 90, {A: 1}), *rows[early:]):
            capture.absorb_fact(*fact)
            capture.release()
    late = memory.plain is not None and memory.plain["commits"]["spoilt"] is not None  # type: ignore[index]

    assert "transaction 7 has" in caught.value.reason and "END 90 counts 1" in caught.value.reason
    assert (early < 2, early < 2) == (late, "stated beyond it, and lack it" in caught.value.reason)


def test_a_repeat_is_a_repeat() -> None:
    """Rows of what was released, in this run or before it, stop nothing."""
    commits = CommitTransactions([A], snapshot="none", known=71)
    commits.rows_seen(8, A, 2)
    for tx, lsn, number in ((7, 90, 0), (8, 95, 2)):
        commits.end(tx, lsn, {A: number})
    commits.settle(commits.ready())  # type: ignore[arg-type]

    assert all([commits.is_repeat(90, 8, A, 2), commits.is_repeat(60, 5, A, 99)])
    assert all([commits.is_repeat(seq, tx) for seq, tx in ((60, 5), (69, 6), (70, 7), (89, 7), (90, 8), (94, 8))])
    assert (None, False) == (commits.stopped(), commits.lost)
