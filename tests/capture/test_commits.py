"""Which transactions are whole, judged by a truth that knows the whole history and looks at everything."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.facts import End, Fact, RowFact
from cdcv2.capture.release_answers import WaitReason
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.released_transactions import KNOWN
from cdcv2.capture.source_words import ANY_SOURCE, SLOT, SourceWords
from cdcv2.capture.transaction_contradictions import NEW_SOURCE, Commit
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MalformedError, UsageError
from tests.connector import SNAPSHOT_LSN, History, histories, sent

TABLE = "public.t"


def streaming(*tables: str, **more: object) -> CommitTransactions:
    """Commits of a source without a snapshot."""
    return CommitTransactions(tables or (TABLE,), snapshot="none", **more)  # type: ignore[arg-type]


def test_a_stop_before_anything_is_released_states_nothing() -> None:
    """Without a snapshot the logs begin at 0, and are not complete up to anything yet."""
    commits = streaming()
    commits.end(7, 100, {TABLE: 1})
    commits.rows_seen(7, TABLE, 1, 2)
    assert commits.ready() is None
    stop = commits.stopped()

    assert stop is not None and stop.frontier is None and "complete up to" not in str(stop)


# -- against the oracle


class Holder:
    """The least that a user of `CommitTransactions` does: it holds rows, and feeds numbers."""

    def __init__(self, commits: CommitTransactions) -> None:
        self.commits = commits
        self.rows: dict[tuple[int, str], dict[int, int]] = {}
        self.released: list[int] = []
        self.kept_repeats = 0

    def take(self, fact: Fact) -> None:
        if isinstance(fact, End):
            self.commits.end(fact.tx, fact.lsn, fact.counts)
        elif isinstance(fact, RowFact) and not self.commits.is_repeat(fact.seq, fact.tx):
            self.commits.comes_after(fact.tx, fact.seq)
            held = self.rows.setdefault((fact.tx, fact.table), {})
            held[fact.order] = fact.table_order
            self.commits.rows_seen(fact.tx, fact.table, len(held), max(held.values()))

    def release(self) -> None:
        release = self.commits.ready()
        if release is None:
            return
        for tx, _ in release.transactions:
            self.released.append(tx)
            self.rows = {key: held for key, held in self.rows.items() if key[0] != tx}
        self.commits.settle(release)


def whole_through(history: History, facts: list[Fact]) -> int:
    """How many transactions are whole, and so are all before them: by looking at all facts, each time again."""
    seen = {fact.lsn for fact in facts if isinstance(fact, End)}
    rows = {(fact.tx, fact.order) for fact in facts if isinstance(fact, RowFact)}
    for number, transaction in enumerate(history.transactions):
        wanted = {(transaction.tx, n) for n, table in enumerate(transaction.rows, 1) if table in history.captured}
        if transaction.lsn not in seen or not wanted <= rows:
            return number
    return len(history.transactions)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_a_transaction_is_released_as_soon_as_it_and_all_before_are_whole(seed: int, crashes: int) -> None:
    """Never earlier, never later, whatever the connector sends again and however the partitions are interleaved."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=False)
    holder = Holder(streaming(*history.captured))
    facts: list[Fact] = []
    for fact, _ in sent(history, chance, crashes=crashes).read(chance):
        facts.append(fact)
        holder.take(fact)
        holder.release()
        assert whole_through(history, facts) == len(holder.released)
    assert [transaction.tx for transaction in history.transactions] == holder.released
    assert {} == holder.rows, "a repeat of a released row was kept"
    assert holder.commits.stopped() is None
    assert 0 == holder.commits.open_transactions()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_asking_seldom_releases_the_same(seed: int) -> None:
    """When one asks changes how much comes at once, and nothing else."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=False)
    holder = Holder(streaming(*history.captured))
    for fact, _ in sent(history, chance).read(chance):
        holder.take(fact)
        if chance.random() < 0.1:
            holder.release()
    holder.release()
    assert [transaction.tx for transaction in history.transactions] == holder.released


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_with_the_state_lost_the_topics_repeat_and_nothing_is_released_twice(seed: int) -> None:
    """`known` of the logs is enough: it separates what is before it from the rest, from the start of the topics."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=False)
    topics = sent(history, chance)
    done = chance.randint(0, len(history.transactions))
    known = history.ends[done - 1] + 1 if done else 0
    holder = Holder(streaming(*history.captured, known=known))
    for fact, _ in topics.read(chance):
        holder.take(fact)
        holder.release()
    assert [transaction.tx for transaction in history.transactions[done:]] == holder.released
    assert {} == holder.rows


# -- one rule at a time


def test_an_end_that_counts_no_captured_row_is_released_at_once() -> None:
    """Transactions on other tables, and markers, move the frontier."""
    commits = streaming()
    assert commits.end(5, 70, {"public.other": 3, TABLE: 0})
    release = commits.ready()
    assert release is not None
    assert (Commit(5, 70),) == release.transactions
    assert Antichain([71]) == release.frontier


def test_a_later_transaction_waits_for_an_earlier_one() -> None:
    """Commit order is the order of the log, so that each frontier is a consistent cut."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 1})
    commits.end(6, 80, {})
    assert commits.ready() is None
    waiting = commits.waits()
    assert ("rows", 5, 70, {TABLE: 1}) == (waiting.what, waiting.tx, waiting.lsn, waiting.missing)
    assert "transaction 5 (END 70) lacks 1 of 1 rows of public.t" == waiting.text


def test_counts_are_set_and_not_added() -> None:
    """A caller that reads a range again counts it again."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 2})
    for _ in range(3):
        commits.rows_seen(5, TABLE, 1)
    assert commits.ready() is None
    commits.rows_seen(5, TABLE, 2)
    assert commits.ready() is not None
    commits.rows_seen(5, TABLE, 0)
    assert commits.ready() is None


def test_the_order_numbers_must_be_without_a_gap() -> None:
    """Two distinct rows numbered 1 and 3 are not the two that END counts."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 2})
    commits.rows_seen(5, TABLE, 2, highest=3)
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and "numbered up to 3" in stop.reason


def test_more_rows_than_counted_stop_before_the_transaction() -> None:
    """A contradiction is loud, and what came before it is released."""
    commits = streaming()
    commits.end(5, 70, {})
    commits.end(6, 80, {TABLE: 1})
    commits.rows_seen(6, TABLE, 2)
    release = commits.ready()
    assert release is not None and 70 == release.through
    commits.settle(release)
    stop = commits.stopped()
    assert stop is not None
    assert "transaction 6 has 2 rows of public.t" in stop.reason
    assert Antichain([71]) == stop.frontier


def test_rows_of_a_table_that_the_end_does_not_name_stop_it() -> None:
    """Zero is a count like any other."""
    commits = streaming()
    commits.end(6, 80, {})
    commits.rows_seen(6, TABLE, 1)
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and "its END 80 counts 0" in stop.reason


def test_an_end_at_or_below_what_is_released_is_a_repeat() -> None:
    """The connector sends again from wherever its last acknowledged position was."""
    commits = streaming()
    assert commits.end(4, 60, {}) and commits.end(5, 70, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert not commits.end(5, 70, {})
    assert not commits.end(4, 60, {})
    assert commits.stopped() is None


@pytest.mark.parametrize("tx, lsn, counts, said", [
    (4, 60, {}, "END 60 of transaction 4 came for the first time after END 70"),
    (6, 70, {}, "END 70 states both that transaction 5 has {} rows, and 6 has {}"),
    (5, 70, {TABLE: 2}, "END 70 states both that transaction 5 has {} rows, and 5 has {'public.t': 2}"),
])
def test_an_end_that_contradicts_what_is_released_is_no_duplicate(
    tx: int, lsn: int, counts: dict[str, int], said: str
) -> None:
    """All ENDs that are released are known, so one of no such transaction, or of another, is of another history."""
    commits = streaming()
    commits.end(5, 70, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert not commits.end(tx, lsn, counts)
    stop = commits.stopped()
    assert stop is not None and f"{said}; the logs are stated beyond it" == stop.reason


def test_an_end_that_was_never_seen_below_the_highest_is_an_error() -> None:
    """The transaction topic has one partition: an END cannot overtake, so this is another history."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 1})
    commits.end(6, 80, {})
    assert not commits.end(5, 70, {TABLE: 1})
    assert commits.stopped() is None
    assert not commits.end(7, 75, {})
    stop = commits.stopped()
    assert stop is not None and "END 75 of transaction 7 came for the first time after END 80" in stop.reason
    commits.rows_seen(5, TABLE, 1)
    release = commits.ready()
    assert release is not None and 70 == release.through, "what lies before the strange END is sound"


@pytest.mark.parametrize("tx, counts", [(6, {TABLE: 1}), (5, {TABLE: 2})])
def test_one_end_with_two_meanings_is_an_error(tx: int, counts: dict[str, int]) -> None:
    """The same commit LSN with other counts, or of another transaction, contradicts."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 1})
    commits.end(tx, 70, counts)
    stop = commits.stopped()
    assert stop is not None and "END 70 states both" in stop.reason


def test_counts_of_tables_that_are_not_captured_may_differ() -> None:
    """A message's data collection is called by a Java object's hash, another one in each process."""
    commits = streaming()
    commits.end(5, 70, {TABLE: 1, "LogicalDecodingMessageId@55693b70": 1})
    commits.end(5, 70, {TABLE: 1, "LogicalDecodingMessageId@1b2c3d4e": 1})
    assert commits.stopped() is None


def test_a_halted_transaction_stops_when_it_is_due() -> None:
    """TRUNCATE: everything before it is released first; its END shows when that is."""
    commits = streaming()
    commits.halt(6, "a table was truncated", "start over")
    commits.end(5, 70, {TABLE: 1})
    assert commits.stopped() is None
    commits.end(6, 80, {TABLE: 1})
    commits.end(7, 90, {})
    assert commits.ready() is None and commits.stopped() is None
    commits.rows_seen(5, TABLE, 1)
    release = commits.ready()
    assert release is not None and 70 == release.through
    commits.settle(release)
    stop = commits.stopped()
    assert stop is not None
    assert ("a table was truncated", "start over", Antichain([71])) == (stop.reason, stop.remedy, stop.frontier)
    assert commits.ready() is None
    assert "stop" == commits.waits().what


def test_what_it_waits_for_is_reported_for_programs_and_for_people() -> None:
    """One reason after the other, as they go away."""
    commits = CommitTransactions([TABLE, "public.u"], notifications=True)
    text = "the initial snapshot has not been completed (no notification COMPLETED yet)"
    assert WaitReason("snapshot", text) == commits.waits()
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, TABLE, 0, offset)
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert WaitReason("end", "nothing is open") == commits.waits()
    commits.rows_seen(5, TABLE, 1)
    assert WaitReason("end", "transaction 5: rows are in, and no END yet", 5) == commits.waits()
    commits.end(4, 40, {})
    commits.end(5, 50, {TABLE: 3, "public.u": 1})
    text = "transaction 5 (END 50) lacks 2 of 3 rows of public.t, 1 of 1 rows of public.u"
    assert WaitReason("rows", text, 5, 50, {TABLE: 2, "public.u": 1}) == commits.waits()
    commits.stop("it does not fit", "mend it")
    assert WaitReason("stop", "it does not fit") == commits.waits()


@pytest.mark.parametrize("begun", [False, True])
def test_a_stop_of_no_transaction_lets_out_what_is_whole_and_no_snapshot(begun: bool) -> None:
    """A snapshot counts as whole only once it is released: the record that stops it may be one of its own."""
    commits = CommitTransactions([TABLE], notifications=True, known=1001 if begun else 0)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, TABLE, 0, offset)
    commits.end(5, 1050, {})
    commits.stop("it does not fit", "mend it")
    commits.stop("neither does this", "mend that")
    stop = commits.stopped()

    assert (1050 if begun else None) == through(commits)
    assert stop is not None and ("it does not fit", "mend it", False) == (stop.reason, stop.remedy, stop.lasting)


def test_the_first_of_several_places_is_where_it_stops() -> None:
    """Whichever is found first."""
    for facts in ([(7, 75), (8, 65)], [(8, 65), (7, 75)]):
        commits = streaming()
        for tx, lsn in ((4, 64), (5, 66), (6, 80)):
            commits.end(tx, lsn, {})
        for tx, lsn in facts:
            assert not commits.end(tx, lsn, {})

        assert 64 == through(commits)


@pytest.mark.parametrize("tx, last", [(5, 60), (6, 64), (7, 65)])
def test_a_contradiction_stops_right_before_its_commit(tx: int, last: int) -> None:
    """Not one commit earlier, and none later."""
    commits = streaming()
    commits.end(4, 60, {})
    commits.end(5, 64, {TABLE: 0})
    commits.end(6, 65, {TABLE: 1})
    commits.end(7, 66, {TABLE: 1})
    commits.rows_seen(6, TABLE, 1)
    commits.rows_seen(7, TABLE, 1)
    commits.rows_seen(tx, TABLE, 2)
    release = commits.ready()

    assert release is not None and last == release.through and release == commits.ready()
    commits.settle(release)
    stop = commits.stopped()
    assert stop is not None and ANY_SOURCE.fill(NEW_SOURCE) == stop.remedy and commits.ready() is None


def test_a_row_of_a_table_that_the_end_of_its_released_transaction_does_not_count_is_judged_by_its_number() -> None:
    """Without a number it is a duplicate, as nothing shows that it is none."""
    commits = streaming()
    commits.end(7, 100, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]

    assert commits.is_repeat(50, 7) and commits.is_repeat(50, 7, TABLE) and commits.stopped() is None


def test_a_null_sequence_reads_as_the_snapshot() -> None:
    """The first transaction after the snapshot has no END before it: not a repeat until it is released itself."""
    commits = CommitTransactions([TABLE], notifications=True)
    assert not commits.is_repeat(None, 5), "nothing is a repeat before the snapshot is released"
    commits.snapshot_rows(TABLE, 1000, 1)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, TABLE, 1, offset)
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert 1000 == commits.through
    assert not commits.is_repeat(None, 5)
    commits.end(5, 1050, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert commits.is_repeat(None, 5)
    assert commits.is_repeat(1049, 6) and not commits.is_repeat(1050, 6)


# -- lost state, with a snapshot


def test_without_its_base_a_null_row_is_judged_by_its_end() -> None:
    """State lost after the snapshot: until its LSN is known again, only the END of the transaction can show it."""
    commits = CommitTransactions([TABLE], known=1051)
    assert commits.snapshots.lsn is None
    assert not commits.is_repeat(None, 5)
    assert not commits.end(5, 1050, {TABLE: 1})
    assert commits.is_repeat(None, 5)
    assert not commits.is_repeat(None, 6)


def test_without_its_base_a_null_row_that_its_end_does_not_count_stops_it() -> None:
    """The END was released, and has their number: with the state lost, too."""
    commits = CommitTransactions(["public.a"], known=1051)
    commits.recall(ReleasedEnds(((7, 1050, {"public.a": 1}),), True, None))
    commits.end(7, 1050, {"public.a": 1})

    assert commits.is_repeat(None, 7, "public.a", 1) and commits.stopped() is None
    assert commits.is_repeat(None, 7, "public.a", 2)
    stop = commits.stopped()
    assert stop is not None and "a row of public.a numbered 2, but its END 1050 counts 1" in stop.reason


@pytest.mark.parametrize("last, restarted", [(7, []), (None, [7])], ids=["inside", "before"])
def test_a_start_knows_of_a_begin_before_the_record_that_it_begins_at(last: int | None, restarted: list[int]) -> None:
    """The connector was restarted inside the transaction: the other BEGIN is read now, or was read before, too."""
    commits = streaming()
    commits.recall(ReleasedEnds((), True, last, frozenset(restarted)))
    if last is not None:
        commits.begin(last)
    commits.renumbered(7)
    commits.rows_seen(7, TABLE, 1, 1)
    commits.end(7, 100, {TABLE: 1})
    assert commits.ready() is None
    stop = commits.stopped()

    assert stop is not None and "transaction 7 (END 100) has two BEGINs" in stop.reason


@pytest.mark.parametrize("first", ["begin", "end", "before"])
@pytest.mark.parametrize("anew", [True, False], ids=["3.4", "3.7"])
def test_whether_a_transaction_was_begun_twice_cannot_be_known(first: str, anew: bool) -> None:
    """The transaction topic has lost the record before: a stop, if the connector is one that renumbers."""
    commits = streaming()
    if first == "before":
        commits.recall(ReleasedEnds((), False, None, doubted=7))
    else:
        commits.recall(ReleasedEnds((), False, None, gone=True))
    if first == "begin":
        commits.begin(7)
    if anew:
        commits.renumbered(7)
    commits.rows_seen(7, TABLE, 1, 1)
    commits.end(7, 100, {TABLE: 1})
    release, stop = commits.ready(), commits.stopped()

    assert (release is None) == (stop is not None) == anew
    assert stop is None or "transaction 7 (END 100) has two BEGINs, one directly after the other, cannot be known" in (
        stop.reason
    )


def test_only_the_first_transaction_behind_what_is_lost_is_in_doubt() -> None:
    """What follows it is judged as ever."""
    commits = streaming()
    commits.recall(ReleasedEnds((), False, None, gone=True))
    commits.end(7, 100, {})
    commits.begin(8)
    commits.renumbered(8)
    commits.rows_seen(8, TABLE, 1, 1)
    commits.end(8, 110, {TABLE: 1})
    release = commits.ready()

    assert release is not None and release.through == 110


def test_a_start_finds_an_end_from_before_the_snapshot_behind_where_it_begins() -> None:
    """It was read when the snapshot was released, and the run that read it could not state its stop any more."""
    commits = begun(1000)
    commits.recall(ReleasedEnds(((4, 900, {}),), True, None))
    stop = commits.stopped()

    assert stop is not None and "transaction 4 was committed at 900, not after the snapshot at 1000" in stop.reason


def begun(through: int, *told: int) -> CommitTransactions:
    """One that was begun when a snapshot at 1000, perhaps others, and all through an END were released."""
    first = CommitTransactions([TABLE])
    first.snapshot_rows(TABLE, 1000, 1)
    first.snapshot_marked("last", ("t", 0, 0))
    first.ends_read({("t", 0): 1})
    first.snapshots.consumed({("t", 0): 1})
    first.settle(first.ready())  # type: ignore[arg-type]
    more = {"again": {"told": list(told), "runs": len(told), "notified": 0}, "first": []} if told else {}
    plain = {**first.export(), "through": through, **more}
    return CommitTransactions.restore(plain, [TABLE], known=through + 1, again=told)


def test_a_start_takes_for_a_duplicate_what_names_a_commit_from_before_the_snapshot() -> None:
    """As a capture does that was not restarted: no known END shows what follows it."""
    commits = begun(1060)
    commits.recall(ReleasedEnds(((5, 1050, {}), (6, 1060, {})), True, None))

    assert commits.is_repeat(950, 9) and commits.stopped() is None
    assert commits.is_repeat(1000, 9) and commits.stopped() is not None


def test_an_end_from_before_the_snapshot_need_not_be_read_again() -> None:
    """It stops the capture, and is of no open transaction."""
    commits = begun(1000)

    assert commits.end(4, 900, {}) is False and commits.stopped() is not None


def test_a_start_knows_the_very_first_commit() -> None:
    """Without a snapshot all begins at 0."""
    commits = streaming(known=3)
    commits.recall(ReleasedEnds(((5, 1, {}), (6, 2, {})), True, None))

    assert not commits.end(5, 1, {}) and commits.stopped() is None
    assert not commits.end(5, 1, {TABLE: 1}) and commits.stopped() is not None


def test_behind_the_snapshot_alone_a_start_needs_no_end() -> None:
    """Only the snapshot is released, so it does not matter that the transaction topic has lost its beginning."""
    commits = begun(1000)
    commits.recall(ReleasedEnds((), False, None))

    assert commits.is_repeat(950, 9) and commits.stopped() is None


@pytest.mark.parametrize("ends, through", [((), 1000), ((), 1020), ((1050, 1060), 1060), ((1050, 1060), 1055)])
def test_with_the_state_lost_the_logs_show_where_the_snapshot_was(ends: tuple[int, ...], through: int) -> None:
    """They begin with its rows: what names a commit from before it is a duplicate, as with the state."""
    commits = CommitTransactions([TABLE], known=through + 1, held={TABLE: (1000, 1)})
    commits.recall(ReleasedEnds(tuple((tx, lsn, {}) for tx, lsn in enumerate(ends, 5)), True, None))

    assert commits.is_repeat(950, 9) and commits.stopped() is None
    assert commits.is_repeat(1000, 9) == bool(ends) == (commits.stopped() is not None)


def test_logs_that_begin_with_a_transaction_show_no_snapshot() -> None:
    """It was empty: the first row of the logs is of an END, which is judged as every other one."""
    commits = CommitTransactions([TABLE], known=1056, held={TABLE: (1050, 1)})
    commits.recall(ReleasedEnds(((5, 1050, {TABLE: 1}), (6, 1060, {})), True, None))

    assert not commits.end(5, 1050, {TABLE: 2}) and commits.stopped() is not None


def test_a_start_right_behind_a_resnapshot_judges_nothing_by_what_came_before_it() -> None:
    """What that snapshot makes up for is superseded."""
    commits = begun(1100, 1100)
    commits.recall(ReleasedEnds(((5, 1050, {TABLE: 1}),), True, None))

    assert not commits.end(5, 1050, {TABLE: 2}) and commits.stopped() is None


def test_a_start_knows_no_end_from_before_a_snapshot_that_was_declared() -> None:
    """What that snapshot makes up for is superseded, so nothing is judged by it."""
    commits = begun(1160, 1100)
    commits.recall(ReleasedEnds(((5, 1050, {TABLE: 1}), (6, 1160, {})), True, None))

    assert not commits.end(5, 1050, {TABLE: 2}) and commits.stopped() is None
    assert not commits.end(6, 1160, {TABLE: 2}) and commits.stopped() is not None


@pytest.mark.parametrize("named", [None, 0])
def test_a_row_that_its_end_does_not_count_is_a_stop_that_lasts(named: int | None) -> None:
    """Also where it names no commit: it is of that transaction, and not the first one of a recreated slot."""
    commits = streaming()
    commits.end(7, 100, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert commits.is_repeat(named, 7, TABLE, 1)
    stop = commits.stopped()

    assert stop is not None and stop.lasting and "but its END 100 counts 0" in stop.reason


def test_without_its_base_what_is_released_now_is_remembered() -> None:
    """The first transaction may be the next to be released: its null rows are repeats from then on."""
    commits = CommitTransactions([TABLE], known=1001)
    commits.end(5, 1050, {})
    assert not commits.is_repeat(None, 5)
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert commits.is_repeat(None, 5)


def test_without_its_base_a_start_knows_what_it_read_again() -> None:
    """Before the ENDs come to it once more."""
    commits = CommitTransactions([TABLE], known=1051)
    commits.recall(ReleasedEnds(((7, 1050, {TABLE: 1}),), True, None))

    assert commits.is_repeat(None, 7) and not commits.is_repeat(None, 8)


def test_without_its_base_the_first_transaction_stays_known() -> None:
    """However many are released behind it."""
    commits = CommitTransactions([TABLE], known=1001)
    for at in range(2 * KNOWN + 2):
        commits.end(at, 1050 + at, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]

    assert commits.is_repeat(None, 0)


def test_the_base_is_learned_again_from_a_row_of_the_snapshot() -> None:
    """The topics still hold the snapshot, which shows what a null sequence reads as."""
    commits = CommitTransactions([TABLE], known=1051)
    commits.snapshot_read(TABLE, 1000, ("t", 0), 0)
    assert 1000 == commits.snapshots.lsn
    assert commits.is_repeat(None, 5)


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("lsns", [(1000, 2000), (2000, 1000)])
def test_rows_of_another_snapshot_are_no_repeats_though_released_ends_are_behind_it(
    lsns: tuple[int, int], remembered: bool
) -> None:
    """ENDs of transactions without rows wait for no table, so they may be read, and released, before such rows are."""
    commits = CommitTransactions([TABLE], known=2011)
    if remembered:
        commits = CommitTransactions([TABLE], notifications=True)
        commits.snapshot_rows(TABLE, lsns[0], 1)
        for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
            commits.notification(kind, TABLE, 1, offset)
        commits.settle(commits.ready())  # type: ignore[arg-type]
        commits.end(9, 2010, {})
        commits.settle(commits.ready())  # type: ignore[arg-type]
    commits.snapshot_read(TABLE, lsns[0], ("t", 0), 0)
    assert commits.stopped() is None
    commits.snapshot_read(TABLE, lsns[1], ("t", 0), 1)
    stop = commits.stopped()

    assert stop is not None and f"second snapshot of public.t, at {lsns[1]}" in stop.reason


def test_the_base_of_an_empty_snapshot_is_learned_from_its_notifications() -> None:
    """No row has its LSN; the notifications state that there is none."""
    commits = CommitTransactions([TABLE], notifications=True, known=51)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        assert commits.snapshots.lsn is None
        commits.notification(kind, TABLE, 0, offset)
    assert 0 == commits.snapshots.lsn


def test_right_after_an_empty_snapshot_nothing_else_is_needed() -> None:
    """Only an empty snapshot is released through 0."""
    assert 0 == CommitTransactions([TABLE], known=1).snapshots.lsn


# -- memory


def test_restored_it_decides_as_before() -> None:
    """H and the snapshot are remembered; open transactions are read again."""
    commits = CommitTransactions([TABLE], notifications=True)
    commits.snapshot_rows(TABLE, 1000, 1)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, TABLE, 1, offset)
    commits.settle(commits.ready())  # type: ignore[arg-type]
    commits.end(5, 1050, {TABLE: 1})
    again = CommitTransactions.restore(commits.export(), [TABLE], notifications=True, known=1001)
    assert (1000, 1000) == (again.through, again.snapshots.lsn)
    assert again.end(5, 1050, {TABLE: 1})
    again.notification("STARTED", None, None, 7)
    stop = again.stopped()
    assert stop is not None and "second snapshot" in stop.reason


@pytest.mark.parametrize("restored", [False, True])
def test_what_stops_it_has_the_words_of_its_database(restored: bool) -> None:
    """After a restart, too."""
    words = SourceWords(slot="bookmark")
    commits = streaming(words=words)
    if restored:
        commits = CommitTransactions.restore(commits.export(), [TABLE], snapshot="none", words=words)
    commits.stop("a row is lacking", f"make another {SLOT}")
    stop = commits.stopped()

    assert stop is not None and "make another bookmark" == stop.remedy


def test_logs_ahead_of_the_memory_are_believed() -> None:
    """A crash between the statements and the memory: what is stated is released."""
    commits = streaming()
    plain = commits.export()
    again = CommitTransactions.restore(plain, [TABLE], snapshot="none", known=71)
    assert 70 == again.through
    assert not again.end(5, 70, {})


def test_a_memory_of_before_the_snapshot_goes_with_logs_that_have_it_or_have_nothing() -> None:
    """A crash may come between; an empty snapshot is stated through 0."""
    plain = CommitTransactions([TABLE]).export()
    first = CommitTransactions.restore(plain, [TABLE])
    assert (None, False, True) == (first.through, first.snapshots.released, first.snapshots.assumed)
    beyond = CommitTransactions.restore(plain, [TABLE], known=1)
    assert (0, True, 0) == (beyond.through, beyond.snapshots.released, beyond.snapshots.lsn)


def test_a_restart_knows_what_the_logs_and_the_user_state() -> None:
    """As one without a memory does."""
    other = "public.u"
    commits = CommitTransactions([TABLE, other], notifications=True)
    notes = [("STARTED", None, None), ("TABLE_SCAN_COMPLETED", TABLE, 0), ("COMPLETED", None, None)]
    for leaves_out, empty in ((True, ()), (True, (other,)), (False, ())):
        again = CommitTransactions.restore(
            commits.export(), [TABLE, other], notifications=True, empty=empty,
            **({} if leaves_out else {"leaves_out": False}),
        )
        for offset, note in enumerate(notes):
            again.notification(*note, offset)
        release = again.ready()
        assert (release is None) == (not leaves_out)
        assert release is None or set(empty) == release.empty != release.uncovered
    again = CommitTransactions.restore(streaming().export(), [TABLE], snapshot="none", partial=[TABLE])
    assert ({TABLE}, {TABLE}, "none") == (again.uncovered, again.partial, again.export()["mode"])


def test_a_restart_with_a_memory_of_before_the_snapshot_counts_its_rows_as_the_logs_do() -> None:
    """Each position is read once, so one more row than they hold lacks there."""
    plain = CommitTransactions([TABLE]).export()
    again = CommitTransactions.restore(plain, [TABLE], known=1001, held={TABLE: (1000, 1)})
    again.snapshot_read(TABLE, 1000, ("t", 0), 0)
    assert again.stopped() is None
    again.snapshot_read(TABLE, 1000, ("t", 0), 1)
    assert again.stopped() is not None


@pytest.mark.parametrize("through, lasting", [(0, False), (999, False), (1000, True)])
def test_rows_of_a_snapshot_that_is_not_wanted_stop_what_comes_after_them(through: int, lasting: bool) -> None:
    """For good, where the logs are stated beyond it."""
    commits = streaming(known=through + 1)
    commits.snapshot_rows(TABLE, 1000, 1)
    stop = commits.stopped()

    assert stop is not None and "no snapshot is wanted" in stop.reason and lasting == stop.lasting


def test_which_tables_lack_a_topic_adds_to_those_that_the_logs_leave_out() -> None:
    """A partial one has a topic."""
    commits = streaming(TABLE, "public.u", "public.v", partial=["public.u"])
    commits.ends_read({("t", 0): 1}, [TABLE, "public.u"])

    assert ({"public.u", "public.v"}, {"public.u"}) == (commits.uncovered, commits.partial)


def test_a_lost_end_stays_lost_after_a_restart() -> None:
    """The rows that showed it may be behind the positions of the next run, unless the logs are ahead of its memory."""
    commits = streaming()
    commits.end(7, 60, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    commits.comes_after(8, 60)
    commits.rows_seen(8, TABLE, 1)
    commits.end(9, 70, {})
    assert commits.lost
    for known, stops in ((61, True), (66, False)):
        again = CommitTransactions.restore(commits.export(), [TABLE], snapshot="none", known=known)
        again.end(9, 70, {})
        assert stops == (through(again) is None)
        assert not stops or "the END of transaction 8 is missing" in str(again.stopped())


def test_a_stop_that_lasts_is_kept_as_it_is() -> None:
    """The logs keep it, and so does the memory: with its reason, and what to do about it."""
    commits = streaming()
    commits.keep("a row is lacking", "start over")
    again = CommitTransactions.restore(commits.export(), [TABLE], snapshot="none")
    for one in (commits, again):
        one.end(7, 60, {})
        stop = one.stopped()
        assert through(one) is None and stop is not None
        assert ("a row is lacking", "start over", True) == (stop.reason, stop.remedy, stop.lasting)


def test_a_memory_ahead_of_the_logs_is_refused() -> None:
    """Its positions would skip facts that the logs lack."""
    commits = streaming()
    commits.end(5, 70, {})
    commits.settle(commits.ready())  # type: ignore[arg-type]
    with pytest.raises(ForeignStateError, match="complete before 71, and it is complete before 70 only"):
        CommitTransactions.restore(commits.export(), [TABLE], snapshot="none", known=70)


@pytest.mark.parametrize("change", [{"version": 2}, {"tables": ["public.u"]}, {"mode": "initial"}])
def test_the_memory_of_another_capture_is_refused(change: dict[str, object]) -> None:
    """Other tables or another mode mean other facts."""
    with pytest.raises(ForeignStateError):
        CommitTransactions.restore({**streaming().export(), **change}, [TABLE], snapshot="none")


def test_wrong_arguments_are_named() -> None:
    """The caller learns what is taken."""
    with pytest.raises(UsageError, match="'initial' or 'none', not 'always'"):
        CommitTransactions([TABLE], snapshot="always")
    with pytest.raises(MalformedError, match="3 distinct rows"):
        streaming().rows_seen(5, TABLE, 3, highest=2)


def test_the_model_has_what_it_is_for() -> None:
    """Repeats, rows behind their END, rows sent to another partition: without them the tests above prove little."""
    chance = random.Random(7)
    repeats = behind = moved = 0
    for _ in range(100):
        history = histories(chance, snapshot=False)
        seen: dict[tuple[int, int], str] = {}
        ended: set[int] = set()
        for fact, position in sent(history, chance).read(chance):
            if isinstance(fact, End):
                ended.add(fact.tx)
            elif isinstance(fact, RowFact):
                repeats += (fact.tx, fact.order) in seen
                behind += fact.tx in ended
                moved += seen.get((fact.tx, fact.order), str(position.part)) != str(position.part)
                seen[fact.tx, fact.order] = str(position.part)
    assert min(repeats, behind, moved) > 50
    assert SNAPSHOT_LSN == 1000


def test_tables_that_the_user_calls_empty_are_named_with_the_first_release() -> None:
    """And with no other."""
    none, initial, scanned = (
        streaming(empty=[TABLE]), CommitTransactions([TABLE], notifications=True, empty=[TABLE]),
        CommitTransactions([TABLE], notifications=True, empty=[TABLE], known=1001),
    )
    for commits, empty in ((none, {TABLE}), (initial, {TABLE}), (scanned, set())):
        for offset, kind in enumerate(["STARTED", "COMPLETED"]):
            commits.notification(kind, None, None, offset)
        for lsn, named in ((1050, empty), (1060, set())):
            commits.end(lsn, lsn, {})
            release = commits.ready()
            assert release is not None and (lsn, named) == (release.through, release.empty)
            commits.settle(release)
    nothing = CommitTransactions([TABLE], notifications=True, empty=[TABLE])
    for offset, kind in enumerate(["STARTED", "COMPLETED"]):
        nothing.notification(kind, None, None, offset)
    nothing.settle(nothing.ready())  # type: ignore[arg-type]
    nothing.end(5, 1050, {})
    release = nothing.ready()
    assert release is not None and (1050, set()) == (release.through, release.empty)


def test_a_stop_right_behind_the_snapshot_lets_it_out() -> None:
    """And nothing else."""
    commits = CommitTransactions([TABLE], notifications=True)
    commits.snapshot_rows(TABLE, 1000, 1)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, TABLE, 1, offset)
    commits.end(5, 1001, {})
    commits.end(6, 1001, {})

    assert 1000 == through(commits)


# -- a BEGIN without an END


def said(commits: CommitTransactions, *records: tuple[int, int] | int) -> None:
    """Records of the transaction topic, in order: a BEGIN is a transaction, an END that and its commit."""
    for one in records:
        if isinstance(one, int):
            commits.begin(one)
        else:
            commits.end(*one, {})


def whole() -> CommitTransactions:
    """A capture without a snapshot that reads a transaction topic from its beginning."""
    commits = streaming()
    commits.recall(ReleasedEnds((), True, None, highest=0))
    return commits


def through(commits: CommitTransactions) -> int | None:
    """Up to where it releases."""
    release = commits.ready()
    return None if release is None else release.through


@pytest.mark.parametrize("known", [(), (5, (5, 90))], ids=["first", "later"])
def test_a_transaction_of_which_there_is_only_a_begin_is_not_passed_by(known: Sequence[tuple[int, int] | int]) -> None:
    """Its rows are lost with its END: the END of the next one shows that."""
    commits = whole()
    said(commits, *known, 7, 8, (8, 120))
    before = 90 if known else None

    assert through(commits) == before
    stop = commits.stopped()
    named = "comes after the commit 90" if known else "comes before any other commit"
    assert stop is not None
    assert f"the END of transaction 7 is missing: it {named} and before the next one" in stop.reason
    assert "the next END is 120, of transaction 8" in stop.reason
    kept = CommitTransactions.restore(commits.export(), [TABLE], snapshot="none")
    assert through(kept) is None


@pytest.mark.parametrize("records", [
    pytest.param((7, (7, 100), 8, 7, (7, 100), 8, (8, 120)), id="from an earlier one on"),
    pytest.param((7, (7, 100), 8, (7, 100), 8, (8, 120)), id="from inside an earlier one on"),
    pytest.param((7, (7, 100), 8, 8, (8, 120)), id="from its start on"),
    pytest.param((7, (7, 100), 8, (8, 120)), id="from inside it on"),
    pytest.param((7, (7, 100), 8, 7, 7, (7, 100), 8, 7, (7, 100), 8, (8, 120)), id="again and again"),
    pytest.param((7, (7, 100), 8, (8, 120), 7, (7, 100), 7, (7, 100), 8, (8, 120)), id="behind its END"),
])  # fmt: skip
def test_a_connector_that_is_restarted_leaves_begins_without_an_end(records: tuple[tuple[int, int] | int, ...]) -> None:
    """It goes on behind some record that it sent, or at one, and sends all that follows."""
    commits = whole()
    said(commits, *records, 9, (9, 130))

    assert (through(commits), commits.stopped()) == (130, None)


def test_a_begin_before_all_known_ends_shows_nothing() -> None:
    """The topic has lost its beginning: perhaps the END that follows was before the BEGIN, and is sent again."""
    commits = streaming()
    commits.recall(ReleasedEnds((), True, None))
    said(commits, 9, 7, (7, 100))
    assert (through(commits), commits.stopped()) == (100, None)
    said(commits, 8, (8, 110), 9, (9, 120))
    assert (through(commits), commits.stopped()) == (120, None)

    said(commits, 10, 11, (11, 140))
    assert through(commits) == 120 and commits.stopped() is not None


def test_a_copy_of_a_begin_that_another_task_sent_late_shows_nothing() -> None:
    """The transaction is released: its END was there."""
    commits = whole()
    said(commits, 7, (7, 100))
    commits.settle(commits.ready())  # type: ignore[arg-type]
    said(commits, 7, 8, (8, 120))

    assert (through(commits), commits.stopped()) == (120, None)


@pytest.mark.parametrize("there", [True, False])
def test_a_lost_end_that_is_remembered_is_looked_for_in_the_topic(there: bool) -> None:
    """An earlier run may not have looked for it."""
    commits = whole()
    said(commits, 7, (7, 100), 8, 9, (9, 120))
    again = CommitTransactions.restore(commits.export(), (TABLE,), snapshot="none")
    again.recall(ReleasedEnds((), True, None, highest=120), lambda tx, through: there and (8, 100) == (tx, through))
    said(again, (7, 100), (9, 120))

    released, stop = through(again), again.stopped()
    assert (120 if there else 100, there) == (released, stop is None)


@pytest.mark.parametrize("there", [True, False])
def test_the_topic_may_have_an_end_from_before_what_a_start_reads_again(there: bool) -> None:
    """A task that was replaced sends a BEGIN of long ago: its END was there, and is looked for where one seems lost."""
    commits = streaming()
    commits.recall(ReleasedEnds((), True, None, highest=100), lambda tx, through: there and (8, 100) == (tx, through))
    said(commits, 8, 9, (9, 120))

    released, stop = through(commits), commits.stopped()
    assert (120 if there else None, there) == (released, stop is None)


def test_a_lost_end_is_found_without_what_a_start_reads_again() -> None:
    """No topic is there to look for it."""
    commits = streaming()
    said(commits, 7, (7, 100), 8, 9, (9, 120))

    assert (through(commits), commits.lost) == (100, True)


@pytest.mark.parametrize("records, lost", [((9, (9, 120)), True), ((8, (8, 110), 9, (9, 120)), False)])
def test_a_start_knows_of_begins_without_an_end(records: tuple[tuple[int, int] | int, ...], lost: bool) -> None:
    """Those before the record that it begins at."""
    commits = streaming()
    commits.recall(ReleasedEnds((), True, 8, unended=frozenset({8}), highest=100))
    said(commits, *records)

    assert (through(commits) is None) == (commits.stopped() is not None) == lost


@pytest.mark.parametrize("declared, stops", [((), True), ((1110,), False)])
def test_a_snapshot_taken_anew_makes_up_for_the_end_of_a_lost_slot(declared: tuple[int, ...], stops: bool) -> None:
    """The slot was lost inside its last transaction."""
    commits = CommitTransactions([TABLE], again=declared)
    commits.recall(ReleasedEnds((), True, None, highest=0))
    said(commits, 7, (7, 1100), 8, 9, (9, 1120))

    assert (commits.lost is True) == stops
