"""What makes a transaction whole, and what contradicts that, rule by rule."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.released_transactions import ReleasedTransactions
from cdcv2.capture.transaction_contradictions import Commit, Contradiction
from cdcv2.capture.transactions import TransactionTracker


def tracker(*ends: tuple[int, int, dict[str, int]]) -> TransactionTracker[int]:
    """One without a snapshot, of the table a, that has released these."""
    made = TransactionTracker[int](["a"], 0, known=3)
    for tx, lsn, counts in ends:
        made.end(tx, lsn, counts)
        made.settle([Commit(tx, lsn)])
    return made


def reason(found: Contradiction | bool | None) -> str:
    """Why it stops."""
    assert isinstance(found, Contradiction)
    return found.reason


@pytest.mark.parametrize("distinct, highest, missing, wrong", [
    (1, 1, {"a": 1}, False), (2, 2, {}, False), (2, 3, {}, True), (1, 3, {"a": 1}, True), (3, 3, {}, True),
])
def test_a_transaction_is_whole_by_the_numbers_of_its_rows(
    distinct: int, highest: int, missing: dict[str, int], wrong: bool
) -> None:
    """As many rows as END counts, and none with a higher number."""
    made = tracker()
    made.rows_seen(7, "a", distinct, highest)
    made.end(7, 100, {"a": 2, "other": 9})

    assert (missing, wrong) == (made.missing(7), made.contradiction(7) is not None)
    assert not wrong or f"numbered up to {highest}, but its END 100 counts 2" in reason(made.contradiction(7))


def test_only_the_last_ones_are_known() -> None:
    """Older ones are not judged: they are duplicates; also where all there ever were are known."""
    made = tracker(*((tx, 10 * tx, {"a": tx}) for tx in range(1, 6)))

    assert 30 == made.released.since == made.released.certain == made.released.oldest
    assert made.released.row(99, 29, "a", 1) is None and made.released.end(2, 20, {}) is None
    assert "END of transaction 99 is missing" in reason(made.released.row(99, 30, "a", 1))
    assert "numbered 5, but its END 40 counts 4" in reason(made.released.row(4, 30, "a", 5))
    assert made.released.row(4, 39, "a", 4) is None


def test_a_start_judges_as_one_that_lives_on() -> None:
    """For each number of transactions before it, and each row and END that may come then."""
    for number in range(9):
        ends = [(tx, 10 * tx, {"a": tx}) for tx in range(1, number + 1)]
        alive, begun = tracker(*ends), TransactionTracker[int](["a"], 10 * number, known=3)
        begun.recall(ReleasedEnds(tuple((tx, lsn, {**counts, "other": 1}) for tx, lsn, counts in ends), True, None), 0)
        for after in range(10 * number):
            for tx in range(number + 2):
                rows = [one.released.row(tx, after, "a", tx) for one in (alive, begun)]
                assert rows[0] == rows[1], (number, after, tx)
                above = [one.released.row(tx, after, "a", tx + 1) for one in (alive, begun)]
                assert above[0] == above[1], (number, after, tx)
                was = [one.end(tx, after, {"a": tx}) for one in (alive, begun)]
                assert was[0] == was[1], (number, after, tx)


def test_with_too_few_ends_what_needs_an_older_one_is_not_judged() -> None:
    """What is known is judged as ever; enough of them, later on, are enough."""
    made = TransactionTracker[int](["a"], 50, known=3)
    made.recall(ReleasedEnds(((4, 40, {"a": 1}), (5, 50, {})), False, None), 0)

    assert None is made.released.certain
    assert "the first END that the transaction topic still holds" in reason(made.released.row(3, 30, "a", 1))
    assert made.released.row(4, 30, "a", 1) is None
    assert "numbered 2, but its END 40 counts 1" in reason(made.released.row(4, 30, "a", 2))
    assert "cannot be known" in reason(made.end(3, 30, {}))
    assert "came for the first time" in reason(made.end(9, 45, {}))
    made.end(6, 60, {})
    made.settle([Commit(6, 60)])
    assert 40 == made.released.certain
    assert "holds no END of what is released" in reason(ReleasedTransactions[int](50, whole=False).row(3, 30, "a", 1))


@pytest.mark.parametrize("through", range(20, 30))
@pytest.mark.parametrize("number, floor", [(2, 0), (0, 15)], ids=["behind an END", "behind the snapshot"])
def test_logs_that_were_cut_know_a_row_by_the_last_end(through: int, number: int, floor: int) -> None:
    """Wherever between two ENDs they were cut: by definition a row is of the first END after what it names."""
    ends = [(tx, 10 * tx, {"a": 1}) for tx in range(1, number + 1)]
    made = TransactionTracker[int](["a"], through, known=3)
    made.recall(ReleasedEnds(tuple(ends), True, None), floor)
    released = [lsn for _, lsn, _ in ends] or [floor]
    for after in range(30):
        tx = next((tx for tx, lsn, _ in ends if lsn > after), 3)
        assert made.is_repeat(tx, after, "a", 1) is any(lsn > after for lsn in released), after
    assert (True, released[-1]) == (made.end(3, 30, {"a": 1}), made.unended(4, 0, 30))


def test_where_the_last_end_is_not_known_all_that_is_stated_counts() -> None:
    """The topic has lost it: what names a commit before the end of the logs cannot be judged."""
    made = TransactionTracker[int](["a"], 25, known=3)
    made.recall(ReleasedEnds((), False, None), 0)

    assert "cannot be known" in reason(made.is_repeat(3, 20, "a", 1)) and made.is_repeat(3, 25, "a", 1) is False


def test_what_contradicts_a_duplicate_is_named_with_its_evidence() -> None:
    """The user finds the transaction and the commits in the topics."""
    made = tracker((7, 100, {"a": 1}), (8, 110, {}))
    trimmed = ReleasedTransactions[int](110, whole=False)
    trimmed.recall([(8, 110, {})], 100, whole=False)

    assert reason(made.released.row(6, 100, "a", 1)).startswith(
        "the END of transaction 6 is missing: it comes after the commit 100 and before the next one, and the next END "
        "is 110, of transaction 8;"
    )
    for found in (made.released.row(7, 90, "a", 2), made.released.numbered(7, "a", 2)):
        assert reason(found).startswith("transaction 7 has a row of a numbered 2, but its END 100 counts 1;")
    assert reason(made.released.numbered(7, "b", 1)).startswith(
        "transaction 7 has a row of b numbered 1, but its END 100 counts 0;"
    )
    known = (
        "is a duplicate cannot be known: the first END that the transaction topic still holds of what is released is"
    )
    assert f"whether a row of transaction 6, which comes after the commit 90, {known} 110" == reason(
        trimmed.row(6, 90, "a", 1)
    )
    assert f"whether END 90 of transaction 6 {known} 110" == reason(trimmed.end(6, 90, {}))


def test_without_another_word_all_that_is_released_is_known() -> None:
    """A snapshot ends what was lost, too: all before it is in it."""
    assert 50 == ReleasedTransactions[int](50).certain
    assert TransactionTracker[int](["a"], 50, whole=False).released.certain is None
    trimmed = ReleasedTransactions[int](50, whole=False)
    assert trimmed.certain is None
    trimmed.begin(90)
    assert 90 == trimmed.certain


def test_a_start_knows_what_was_released_after_the_snapshot() -> None:
    """Nothing before it; and everything, if only the snapshot is released."""
    made, fresh = TransactionTracker[int](["a"], 60, known=3), TransactionTracker[int](["a"], known=3)
    made.recall(ReleasedEnds(((5, 50, {}), (6, 60, {})), True, None), 50)
    fresh.recall(ReleasedEnds((), False, None), 0)

    assert (60, 0) == (made.released.oldest, fresh.released.certain)


def test_the_ends_that_are_in_up_to_one_of_them() -> None:
    """That one is among them."""
    made = tracker()
    for tx, lsn in ((7, 100), (8, 110), (9, 120)):
        made.end(tx, lsn, {})

    assert [7, 8] == [end.tx for end in made.up_to(110)] == [end.tx for end in made.up_to(119)]
    assert [7, 8, 9] == [end.tx for end in made.up_to(120)] and [] == made.up_to(99)


def test_transactions_with_rows_wait_for_their_end() -> None:
    """In the order in which they were first seen."""
    made = tracker()
    for tx in (9, 7, 8):
        made.rows_seen(tx, "a", 1, 1)
    made.end(7, 100, {"a": 2})
    made.end(6, 110, {"a": 2})

    assert ([9, 8], {6, 7, 8, 9}) == (made.without_end(), made.open())
    assert ({"a": 1}, {"a": 2}) == (made.missing(7), made.missing(6))


def test_an_end_is_late_behind_a_later_one_and_behind_another_of_its_transaction() -> None:
    """Of several that are taken at once, only those count that were in before."""
    made = tracker()
    made.end(7, 100, {})
    assert reason(made.end(8, 90, {})) == "END 90 of transaction 8 came for the first time after END 100"
    assert reason(made.end(7, 110, {})) == "END 110 of transaction 7 came for the first time after its END 100"
    assert reason(made.end(7, 105, {}, 105)).endswith("its END 100")
    assert reason(made.end(7, 95, {}, 96)).endswith("after END 96")
    assert made.end(8, 90, {}, 0) is True


def forgotten(how: str, made: TransactionTracker[int]) -> None:
    """Transaction 7 is open no longer."""
    if how == "its END was released":
        made.end(7, 100, {})
    elif how == "it has no rows":
        made.rows_seen(7, "a", 0, 0)
    elif how == "it is given out":
        made.mark_released(7)
    else:
        made.forget(7)


@pytest.mark.parametrize("how", ["its END was released", "it has no rows", "it is given out", "it is forgotten"])
def test_what_was_found_of_an_open_transaction_is_forgotten_with_it(how: str) -> None:
    """Another one may have its name: a connector counts from the start again on a new server."""
    released = [(7, 100, {})] if how == "its END was released" else []

    def known(*facts: str) -> TransactionTracker[int]:
        made = tracker(*released)  # type: ignore[arg-type]
        made.rows_seen(7, "a", 1, 1)
        for fact in facts:
            getattr(made, fact)(7)
        return made

    for one, other in (("restarted", "renumbered"), ("renumbered", "restarted")):
        made = known(one, other)
        assert made.contradiction(7) is not None
        forgotten(how, made)
        assert made.contradiction(7) is None
        made = known(one)
        forgotten(how, made)
        getattr(made, other)(7)
        assert made.contradiction(7) is None
    if not released:
        made = known("doubt")
        forgotten(how, made)
        made.renumbered(7)
        assert made.contradiction(7) is None
        made = known()
        made.unended(7, 100, 110)
        forgotten(how, made)
        made.end(8, 110, {})
        assert made.lost() is None
    made = known()
    made.comes_after(7, 110)
    forgotten(how, made)
    made.end(8, 120, {})
    assert made.lost() is None
    if how in ("it is given out", "it is forgotten"):
        assert {} == made.rows(7)


def test_only_an_open_transaction_is_in_doubt() -> None:
    """Of a released one it does not matter; of an open one no END is needed to show it."""
    made = tracker((7, 100, {}))
    for tx in (7, 8):
        made.doubt(tx)
        made.renumbered(tx)

    assert made.contradiction(7) is None
    assert reason(made.contradiction(8)).startswith("whether transaction 8 has two BEGINs")


@pytest.mark.parametrize("named, after", [([50, 90], 50), ([90, 50], 50), ([None], -1), ([50, None], -1)])
def test_an_end_is_lost_that_had_to_come_after_a_commit(named: list[int | None], after: int) -> None:
    """The least one that a row of the transaction names; -1: the transaction is the first one of all."""
    made = tracker()
    for one in named:
        made.comes_after(7, one)
    made.end(8, 100, {})

    assert (7, after) == made.lost()
    named_so = f"comes after the commit {after}" if after >= 0 else "comes before any other commit"
    assert made.lost_text((7, after)) == (
        f"the END of transaction 7 is missing: it {named_so} and before the next one, and the next END is 100, of "
        "transaction 8"
    )
    assert "the END of transaction 7 is missing" == made.lost_text((7, 100))


def test_no_end_is_lost_before_a_later_one_was_read() -> None:
    """The next one may be the one that is waited for."""
    made = tracker()
    made.comes_after(7, 0)
    assert made.lost() is None
    made.end(8, 100, {})
    made.comes_after(9, 100)
    made.forget(7)

    assert made.lost() is None


def test_of_two_lost_ends_after_one_commit_either_kind_of_name_will_do() -> None:
    """A source may name one transaction by a number, and another by a text."""
    made = TransactionTracker[object](["a"], 0)
    for tx in ("b", 7):
        made.comes_after(tx, 50)
    made.end(8, 100, {})

    assert (7, 50) == made.lost()


def test_the_end_of_a_transaction_without_rows_is_lost_behind_its_begin() -> None:
    """Not where it is in, or released, or may have been: behind an END through which all is released."""
    made = tracker((7, 100, {}))
    made.end(8, 110, {})

    assert [None, None, 100, 105] == [made.unended(9, after, lsn) for after, lsn in (
        (90, 95), (90, 100), (90, 101), (105, 120),
    )]
    assert made.unended(8, 110, 120) is None and made.unended(7, 100, 120) is None
    assert -1 == tracker().unended(7, 0, 100)


@pytest.mark.parametrize("read_first", [True, False])
def test_an_end_that_comes_behind_the_next_one_is_no_less_lost(read_first: bool) -> None:
    """Its BEGIN stood before END 110 of another: whether both ENDs were read together does not matter."""
    made = tracker((7, 100, {}))
    made.end(8, 110, {})
    if read_first:
        made.end(9, 120, {})
    assert 100 == made.unended(9, 100, 110)
    # Its BEGIN was sent again behind END 110.
    assert 110 == made.unended(9, 110, 130)
    made.end(9, 120, {})

    assert (9, 100) == made.lost() and "and the next END is 110, of transaction 8" in made.lost_text((9, 100))
    restored = tracker((7, 100, {}))
    lost = made.export_lost()
    assert [9, 100, 110] == lost
    restored.restore_lost(9, 100, 110)
    for tx, lsn in ((8, 110), (9, 120)):
        restored.end(tx, lsn, {})
    assert (9, 100) == restored.lost()
    made.begin(110)
    assert made.lost() is None


def test_an_end_that_the_topic_has_is_not_lost() -> None:
    """It is looked for by its transaction, up to the latest END before the one that shows that it is lost."""
    made, asked = tracker((7, 100, {})), list[tuple[int, int]]()

    def has_end(tx: int, through: int) -> bool:
        asked.append((tx, through))
        return tx == 9

    assert (None, 100) == (made.unended(9, 100, 110, has_end), made.unended(8, 100, 110, has_end))
    made.end(6, 110, {})
    assert ([(9, 100), (8, 100)], (8, 100)) == (asked, made.lost())


def test_what_the_end_of_one_other_transaction_shows_twice_counts_as_it_was_first() -> None:
    """A later run may find it again, and know another END before that one."""
    made = tracker((7, 100, {}))
    made.unended(9, 100, 110)
    made.unended(9, 105, 110)
    made.end(8, 110, {})

    assert (9, 100) == made.lost()


def test_commits_may_be_numbered_from_1() -> None:
    """An END at 1 shows that another one is lost, and is before those that come after any other commit."""
    made = tracker()
    assert -1 == made.unended(7, 0, 1)
    made.end(8, 1, {})
    made.end(9, 100, {})

    assert (7, -1) == made.lost()
    assert "and the next END is 1, of transaction 8" in made.lost_text((7, -1))
    assert "and the next END is 100, of transaction 9" in made.lost_text((6, 50))


def test_a_row_without_a_number_may_be_any_row_of_its_transaction() -> None:
    """It is a duplicate, however many rows the END counts."""
    assert tracker((7, 100, {"a": 1})).is_repeat(7, 90) is True


def test_a_lost_end_that_an_earlier_version_kept_is_read() -> None:
    """It kept no END that shows it."""
    made = tracker((7, 100, {}))
    made.restore_lost(9, 100)
    made.end(8, 110, {})

    assert (9, 100) == made.lost() and [9, 100] == made.export_lost()


def test_another_end_in_the_place_of_one_that_was_given_out_lacks_in_the_logs() -> None:
    """Some transactions are given out before an earlier one is: their ENDs stay until then."""
    made = tracker()
    for tx, lsn in ((7, 100), (8, 110), (9, 120)):
        made.end(tx, lsn, {})
    for tx in (7, 8, 66):
        made.mark_released(tx)

    def is_stated(lsn: int) -> bool:
        found = made.end(1, lsn, {})
        assert isinstance(found, Contradiction)
        return found.stated

    assert [True, True, False] == [is_stated(lsn) for lsn in (100, 110, 120)]
    made.forget(8)
    made.end(8, 130, {})
    assert not is_stated(130)


def test_a_transaction_without_an_end_can_be_forgotten() -> None:
    """Its rows are all that is known of it; read again it is open as before."""
    made = tracker()
    made.rows_seen(8, "a", 0, 0)
    made.rows_seen(7, "a", 1, 1)
    made.forget(7)

    assert set() == made.open()
    assert made.end(7, 100, {}) is True
    made.forget(7)
    assert made.end(7, 100, {}) is True


def test_a_connector_that_numbers_anew_and_was_restarted_inside_a_transaction() -> None:
    """Either alone is nothing: a later connector goes on with its numbers; END shows that the transaction is over."""
    made = tracker()
    made.rows_seen(7, "a", 1, 1)
    made.end(7, 100, {"a": 1})
    made.restarted(7)
    assert made.contradiction(7) is None
    made.renumbered(7)
    assert "transaction 7 (END 100) has two BEGINs" in reason(made.contradiction(7))
    made.settle([Commit(7, 100)])
    made.renumbered(8)

    assert made.contradiction(8) is None


@given(st.integers(1, 5), st.integers(0, 30))
def test_what_is_known_of_released_transactions_is_what_a_start_reads_again(known: int, count: int) -> None:
    """However many one process has released."""
    made = [(tx, 10 * tx, {"a": 1}) for tx in range(1, count + 1)]
    going, again = (ReleasedTransactions[int](0, known=known) for _ in range(2))
    for one in made:
        going.add([one])
    again.recall(made[-known:], 0, whole=True)

    assert {tx for tx, _, _ in made[-known:]} == {tx for tx, _, _ in made if going.has(tx)}
    for tx, end, _ in made:
        assert (going.has(tx), going.numbered(tx, "a", 2), going.row(tx, end - 5, "a", 2)) == (
            again.has(tx), again.numbered(tx, "a", 2), again.row(tx, end - 5, "a", 2)) or count <= known
