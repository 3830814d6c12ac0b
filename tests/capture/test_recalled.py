"""What a start reads again is what was released last, whatever the connector sent again."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given, settings, strategies as st

from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.released_ends import ReleasedEnds, TransactionRecord, has_end, read_on, recall

KNOWN = 4


@st.composite
def topics(draw: st.DrawFn) -> list[TransactionRecord[int]]:
    """A transaction topic: the connector is started again some times, and goes back to some record that it had sent.

    Transaction n has its END at 10 * n. Each run sends from where it goes back on; what it sent before a kill may lack
    its end.
    """
    sent = [(tx, kind) for tx in range(1, draw(st.integers(1, 14)) + 1) for kind in ("BEGIN", "END")]
    records: list[TransactionRecord[int]] = []
    kept = 0
    for _ in range(draw(st.integers(0, 4))):
        reached = draw(st.integers(kept, len(sent)))
        records += [record(len(records) + at, *one) for at, one in enumerate(sent[kept:reached])]
        kept = draw(st.integers(kept, reached))
    return records + [record(len(records) + at, *one) for at, one in enumerate(sent[kept:])]


def record(offset: int, tx: int, kind: str) -> TransactionRecord[int]:
    """A BEGIN or an END."""
    return TransactionRecord(offset, tx, 10 * tx if kind == "END" else None, {"a": tx} if kind == "END" else {})


def recalled(topic: list[TransactionRecord[int]], first: int, at: int, through: int | None) -> ReleasedEnds[int]:
    """What is read again of a topic that was trimmed to ``first``."""
    return recall(lambda low, high: topic[low:high], first, at, through, known=KNOWN)


@settings(max_examples=200, deadline=None)
@given(topics(), st.data())
def test_the_ends_released_last_are_read_again(topic: list[TransactionRecord[int]], data: st.DataObject) -> None:
    """The last ones up to H, without gaps, if the topic has them; and all that came after H."""
    at = data.draw(st.integers(0, len(topic)))
    there = sorted({one.end for one in topic[:at] if one.end is not None})
    through = data.draw(st.sampled_from([0, *there]))
    first = data.draw(st.integers(0, at))
    found = recalled(topic, first, at, through)
    released = [end for _, end, _ in found.ends if end <= through]
    later = [end for _, end, _ in found.after(through)]

    assert all(found.ends[at] == (end // 10, end, {"a": end // 10}) for at, end in enumerate([*released, *later]))
    wanted = there[:bisect_right(there, through)]
    assert wanted[len(wanted) - len(released):] == released, "the last ones, without gaps"
    assert found.whole == (first == 0 or len(released) >= KNOWN)
    if first == 0:
        assert wanted[-KNOWN:] == released[-KNOWN:]
        # What was sent again so often that it fills the chunk is all that can hide what came after H.
        assert set(later) <= set(there)
    begin = topic[at - 1] if at else None
    assert found.last == (begin.tx if begin is not None and begin.end is None and at > first else None)


def test_what_stands_behind_the_last_one_does_not_count() -> None:
    """A connector that was killed soon after it was started again left some old ENDs at the end of the topic."""
    for old in ([3, 4], 4 * [1, 2, 3, 4]):
        topic = [record(at, tx, "END") for at, tx in enumerate([*range(1, 31), *old])]
        found = recalled(topic, 1, len(topic), 300)

        assert [270, 280, 290, 300] == [end for _, end, _ in found.up_to(300)][-KNOWN:]
        assert found.whole


def ends(*lsns: int) -> list[TransactionRecord[int]]:
    """A topic of these ENDs."""
    return [TransactionRecord(at, lsn // 10, lsn, {}) for at, lsn in enumerate(lsns)]


@pytest.mark.parametrize("through, read, whole", [
    (None, [(14, 30)], False), (180, [(14, 30)], True), (170, [(14, 30), (1, 14)], True),
    (10, [(14, 30), (1, 14)], False),
])
def test_a_start_reads_no_more_than_shows_what_is_released(
    through: int | None, read: list[tuple[int, int]], whole: bool
) -> None:
    """In chunks, each twice as long, until as many ENDs are there as are needed; none where nothing is released."""
    topic, chunks = ends(*range(10, 310, 10)), list[tuple[int, int]]()

    def chunk(low: int, high: int) -> list[TransactionRecord[int]]:
        chunks.append((low, high))
        return topic[low:high]

    found = recall(chunk, 1, 30, through, known=KNOWN)

    assert (read, whole) == (chunks, found.whole)


def test_one_end_may_be_all_that_is_needed() -> None:
    """As many as the capture knows, however few these are."""
    topic = ends(*range(10, 310, 10))

    assert recall(lambda low, high: topic[low:high], 1, 30, 270, known=1).whole


def test_where_neither_the_last_end_nor_a_later_one_is_there_none_is_released() -> None:
    """Between those that are there and H others may be lost."""
    found = recalled(ends(90, 100, 110), 1, 3, 200)

    assert ((), False) == (found.ends, found.whole)


def test_what_is_read_ahead_of_where_the_capture_begins_is_no_record_before_it() -> None:
    """Only the ENDs count of it: they show what was released."""
    topic = [record(0, 7, "END"), record(1, 8, "BEGIN"), record(2, 9, "BEGIN"), record(3, 9, "END")]
    found = recall(lambda low, high: topic[low:high], 0, 4, 90, start=2, known=KNOWN)

    assert (8, frozenset({8}), 70) == (found.last, found.unended, found.highest)
    assert [70, 90] == [end for _, end, _ in found.ends]


def test_a_topic_without_its_beginning_does_not_show_which_begins_have_no_end() -> None:
    """The END may have been before the first record, and the connector have sent the BEGIN again."""
    topic = [record(0, 6, "END"), record(1, 7, "BEGIN"), record(2, 8, "BEGIN")]

    assert (frozenset(), None) == recalled(topic, 1, 3, None)[-2:]
    assert (frozenset({7, 8}), 60) == recalled(topic, 0, 3, None)[-2:]


@pytest.mark.parametrize("first, lsns, kept", [
    (0, (120, 110), (120,)),
    (1, (10, 120, 110), (110, 120)),
    (1, (10, 100, 130, 100, 110), (100, 130)),
    (0, (100, 110, 100, 150, 130), (100, 110, 150)),
    (0, (100, 120, 120, 140, 120, 130), (100, 120, 140)),
])
def test_an_end_inside_an_earlier_run_that_lacks_it_is_late(
    first: int, lsns: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    """What a connector sends in one run has no gaps; the first run has all before it, if the topic has its start."""
    found = recalled(ends(*lsns), first, len(lsns), 90)

    assert kept == tuple(end for _, end, _ in found.ends)


def test_a_start_reads_on_in_chunks() -> None:
    """It needs only the first record that is not before H."""
    topic, chunks = ends(*range(10, 110, 10)), list[tuple[int, int]]()

    def chunk(low: int, high: int) -> list[TransactionRecord[int]]:
        chunks.append((low, high))
        return topic[low:high]

    assert (6, [(1, 4), (4, 7)]) == (read_on(chunk, 1, 10, 60, size=3), chunks)


@pytest.mark.parametrize("tx, through, found, read", [
    pytest.param(6, 60, True, [(9, 12)], id="at that commit"),
    pytest.param(6, 59, False, [(9, 12), (3, 9), (2, 3)], id="of a later commit"),
    pytest.param(5, 100, True, [(9, 12)], id="at the first offset of a chunk"),
    pytest.param(4, 100, True, [(9, 12), (3, 9)], id="in another chunk"),
    pytest.param(1, 100, False, [(9, 12), (3, 9), (2, 3)], id="before the first offset"),
    pytest.param(7, 100, False, [(9, 12), (3, 9), (2, 3)], id="behind the last one"),
])
def test_an_end_is_looked_for_from_the_last_record_back(
    tx: int, through: int, found: bool, read: list[tuple[int, int]]
) -> None:
    """In chunks, each twice as long, until it is there: those that are asked for are mostly the latest ones."""
    topic = [record(2 * (one - 1) + at, one, kind) for one in range(1, 8) for at, kind in enumerate(["BEGIN", "END"])]
    chunks = list[tuple[int, int]]()

    def chunk(low: int, high: int) -> list[TransactionRecord[int]]:
        assert low < high
        chunks.append((low, high))
        return topic[low:high]

    assert (found, read) == (has_end(chunk, 2, 12, tx, through, size=3), chunks)


@pytest.mark.parametrize("kinds, restarted, last", [
    ("B7", set(), 7), ("B7 B7", {7}, 7), ("B7 B8 B7", set(), 7), ("B7 B7 E7", set(), None), ("B7 E7 B7", set(), 7),
    ("B7 B7 B8", {7}, 8),
])
def test_two_begins_with_nothing_between_are_known_again(kinds: str, restarted: set[int], last: int | None) -> None:
    """Of transactions whose END has not come since."""
    names = {"B": "BEGIN", "E": "END"}
    topic = [record(at, int(one[1]), names[one[0]]) for at, one in enumerate(kinds.split())]
    found = recalled(topic, 0, len(topic), None)

    assert (restarted, last) == (set(found.restarted), found.last)


@pytest.mark.parametrize("first, start, doubted, gone", [
    (0, 2, None, False), (1, 2, 7, False), (2, 2, None, True), (2, 3, 7, False), (3, 3, None, True),
])
def test_of_the_first_record_that_a_topic_still_holds_the_transaction_is_in_doubt(
    first: int, start: int, doubted: int | None, gone: bool
) -> None:
    """It may have been begun by what is lost."""
    topic = [record(0, 7, "BEGIN"), record(1, 7, "BEGIN"), record(2, 7, "END"), record(3, 8, "BEGIN")]
    found = recalled(topic, first, start, None)

    assert (doubted, gone) == (found.doubted, found.gone)


@given(topics(), st.data())
def test_a_start_reads_on_to_the_last_end_that_is_released(
    topic: list[TransactionRecord[int]], data: st.DataObject
) -> None:
    """The logs may be ahead of the positions; where that END is not to be found, the next one after it does."""
    start, through = data.draw(st.integers(0, len(topic))), data.draw(st.integers(0, 145))
    behind = read_on(lambda low, high: topic[low:high], start, len(topic), through, size=3)

    later = [one for one in topic[start:] if one.end is not None and one.end >= through]
    assert behind == (later[0].offset + 1 if later else len(topic))


@settings(max_examples=200, deadline=None)
@given(topics(), st.data())
def test_logs_that_were_cut_between_two_ends_begin_behind_the_first_of_them(
    topic: list[TransactionRecord[int]], data: st.DataObject
) -> None:
    """The last END before the cut is what the next rows name: it is read again, whatever the topic lost before it."""
    there = sorted({one.end for one in topic if one.end is not None})
    through = data.draw(st.integers(0, max(there) - 1))
    at = next(one.offset for one in topic if (one.end or 0) > through)
    first, start = data.draw(st.integers(0, at)), data.draw(st.integers(0, at))
    behind = read_on(lambda low, high: topic[low:high], start, len(topic), through, size=3)
    found = recalled(topic, first, behind, through)

    known = [one.end for one in topic[first:behind] if one.end is not None and one.end <= through]
    assert found.up_to(through)[-1:] == [(end // 10, end, {"a": end // 10}) for end in sorted(known)[-1:]]


@settings(max_examples=150, deadline=None)
@given(topics(), st.data())
def test_no_end_vouches_for_itself(topic: list[TransactionRecord[int]], data: st.DataObject) -> None:
    """One that was never sent before comes behind a later one, or one comes with other counts: neither was released."""
    ends = [one.end for one in topic if one.end is not None]
    after = data.draw(st.integers(1, len(ends)), label="so many ENDs stand before it")
    place = [at for at, one in enumerate(topic) if one.end is not None][after - 1] + 1
    late = data.draw(st.integers(1, max(ends[:after]) - 1).filter(lambda end: end % 10 > 0))
    two = data.draw(st.sampled_from(ends[:after]))
    wrong = [TransactionRecord(0, 99, late, {}), TransactionRecord(0, two // 10, two, {"a": 0})]
    altered = [*topic[:place], *wrong, *topic[place:]]
    altered = [one._replace(offset=at) for at, one in enumerate(altered)]
    through = data.draw(st.sampled_from(sorted({*ends})))
    found = recall(lambda low, high: altered[low:high], 0, len(altered), through, known=len(ends) + 2)

    assert [(end // 10, end, {"a": end // 10}) for end in sorted({*ends})] == list(found.ends)


def lost_in(topic: list[TransactionRecord[int]], first: int, at: int) -> list[tuple[int, int]]:
    """Of which transactions a capture finds that the END is lost, that reads from there on a topic trimmed so."""
    begins, found = BeginRecords[int](), recalled(topic, first, at, 0)
    begins.recall(found.last, gone=found.gone, unended=found.unended, highest=found.highest)
    lost = list[tuple[int, int]]()
    for one in topic[at:]:
        if one.end is None:
            begins.begin(one.tx)
        else:
            lost += begins.end(one.tx, one.end)
    return lost


@settings(max_examples=300, deadline=None)
@given(topics(), st.data())
def test_no_restart_of_a_connector_looks_like_a_lost_end(
    topic: list[TransactionRecord[int]], data: st.DataObject
) -> None:
    """Wherever a capture begins to read, and whatever the topic has lost before that."""
    at = data.draw(st.integers(0, len(topic)))
    assert lost_in(topic, data.draw(st.integers(0, at)), at) == []


@settings(max_examples=200, deadline=None)
@given(topics(), st.data())
def test_a_lost_end_is_found_at_the_next_one(topic: list[TransactionRecord[int]], data: st.DataObject) -> None:
    """Also by a start that does not read the BEGIN."""
    gone = data.draw(st.sampled_from(sorted({one.tx for one in topic})))
    left = [one for one in topic if (one.tx, one.end is None) != (gone, False)]
    left = [one._replace(offset=at) for at, one in enumerate(left)]
    later = [at for at, one in enumerate(left) if (one.end or 0) > 10 * gone]
    at = data.draw(st.integers(0, later[0] if later else len(left)))

    assert lost_in(left, 0, at)[:1] == ([(gone, 10 * (gone - 1))] if later else [])


def test_before_its_first_record_a_topic_shows_nothing() -> None:
    """Neither that a connector was restarted, nor that a record is lost."""
    begins = BeginRecords[int]()
    assert (False, False) == (begins.doubts(), begins.begin(7))
    begins.recall(None)
    assert (False, False) == (begins.doubts(), begins.begin(7))


def test_no_end_is_lost_where_none_is_known_before_it() -> None:
    """Perhaps it was there before the records that are read."""
    begins = BeginRecords[int]()
    begins.recall(None, unended={8})

    assert ([], frozenset()) == (begins.end(9, 90), begins.unended)


def test_lost_ends_are_reported_in_an_order_that_does_not_depend_on_the_records() -> None:
    """A source may name one transaction by a number, and another by a text."""
    begins = BeginRecords[object]()
    begins.recall(None, highest=0)
    for tx in ("b", 7):
        begins.begin(tx)

    assert [(7, 0), ("b", 0)] == begins.end(8, 100)
