"""The contents of tables follow what is released, whichever way a capture has it; what cannot be known has a remedy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from cdcv2.capture.before_images import Content, Contents
from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.facts import PartialChange, PartialImage
from cdcv2.capture.open_records import SNAPSHOT, RowRecord
from cdcv2.capture.open_rows import OpenRows
from cdcv2.capture.release_answers import Release
from cdcv2.capture.table_content import UNRESOLVED, UnknownChange
from cdcv2.capture.transaction_contradictions import Commit
from cdcv2.errors import RefusedError
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.doubles import RecordingLog

T, U = "public.t", "public.u"
COLUMNS = ("id", "name")
ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]})


def row(number: int, name: str | None = None) -> Any:
    """A row."""
    return ROWS.row((number, name))


def insert(number: int, name: str | None = None) -> PartialChange:
    """With its key."""
    return PartialChange("c", key(number), None, PartialImage(COLUMNS, row(number, name)))


def key(number: int) -> PartialImage:
    """Which row it is."""
    return PartialImage(("id",), (number,))


def content(*rows: Any) -> Content:
    """A table that holds these."""
    return Content(T, ROWS, {one: rows.count(one) for one in rows})


def test_of_equal_rows_one_is_taken_away() -> None:
    """The others stay."""
    table = content(row(1), row(1), row(1))
    gone = PartialChange("d", None, PartialImage(COLUMNS, row(1)), None)

    assert [(row(1), -1)] == table.change([(1, gone)]) and {row(1): 2} == table.rows
    more = PartialChange("c", None, None, PartialImage(COLUMNS, row(1)))
    assert [(row(1), 1)] == table.change([(1, more)]) and {row(1): 3} == table.rows


def test_a_resnapshot_is_the_difference_to_what_there_was() -> None:
    """By rows that are equal, as many as there are; a key is then looked for among the new ones."""
    table = content(row(1), row(1), row(2), row(4))
    difference = table.become([row(1), row(3, "x"), row(4)])
    assert {(row(1), -1), (row(2), -1), (row(3, "x"), 1)} == set(difference) and 3 == len(difference)
    assert {row(1): 1, row(3, "x"): 1, row(4): 1} == table.rows
    assert [(row(3, "x"), -1)] == table.change([(1, PartialChange("d", key(3), None, None))])


BOTH = PartialImage(COLUMNS, (1, "a"))
UNKNOWN: list[tuple[list[PartialChange], str, str]] = [
    ([insert(1)], "a row of public.t with the key id=1 was inserted, and there is one already",
     "The key in the records"),
    ([PartialChange("d", key(7), None, None)], "a row of public.t was deleted that is not there, the key id=7",
     "The logs lack rows that the table had"),
    ([PartialChange("d", BOTH, None, None)], "a row of public.t was deleted that is not there, the key id=1, name=",
     "The logs lack rows that the table had"),
    ([PartialChange("u", None, PartialImage(COLUMNS, row(7)), PartialImage(COLUMNS, row(8)))],
     "a row of public.t was updated that is not there: ", "The logs lack rows that the table had"),
    ([PartialChange("d", None, None, None)], "a row of public.t was deleted that is not there: ",
     "The logs lack rows that the table had"),
    ([PartialChange("d", key(1), PartialImage(COLUMNS, (2, "b")), None)],
     "the old values of the row of public.t with the key id=1 are not what it had: 'id' was 1 before, and 2 in the "
     "record, 'name' was ", "Logs and topics do not hold one history"),
    ([PartialChange("c", None, None, PartialImage((), ()))],
     "a row of public.t was inserted without its large value of 'id', 'name'", "A changed key comes as a delete"),
]


@pytest.mark.parametrize("changes, reason, remedy", UNKNOWN)
def test_what_cannot_be_known_has_a_remedy(changes: list[PartialChange], reason: str, remedy: str) -> None:
    """The reason names the table, the key and the values; of a transaction, that as well."""
    with pytest.raises(UnknownChange) as caught:
        content(row(1, "x")).change(list(enumerate(changes, 1)))
    assert caught.value.reason.startswith(reason) and caught.value.remedy.startswith(remedy)
    records = [RowRecord(T, 7, order, None, ((one, UNRESOLVED),)) for order, one in enumerate(changes, 1)]
    with pytest.raises(UnknownChange) as caught:
        Contents({T: content(row(1, "x"))}).take(7, records)
    assert caught.value.reason.endswith(", in transaction 7") and caught.value.remedy.startswith(remedy)


def test_on_a_timeline_it_is_asked_for_each_transaction() -> None:
    """The rows of the snapshot first; then changes of each table in their order, whichever way they come."""
    contents = Contents({T: content(), U: Content(U, ROWS)})
    snapshot = [RowRecord(table, SNAPSHOT, at, 5, ((row(at), 1),)) for at, table in enumerate((T, U, T))]
    assert [(T, [(row(0), 1)]), (U, [(row(1), 1)]), (T, [(row(2), 1)])] == list(contents.take(SNAPSHOT, snapshot))
    assert ({row(0): 1, row(2): 1}, {row(1): 1}) == (contents.rows(T), contents.rows(U))
    records = [
        RowRecord(U, 7, 1, None, ((insert(9), UNRESOLVED),)),
        RowRecord(T, 7, 3, None, ((insert(0, "new"), UNRESOLVED),)),
        RowRecord(T, 7, 2, None, ((PartialChange("d", key(0), None, None), UNRESOLVED),)),
    ]
    assert [(T, [(row(0), -1), (row(0, "new"), 1)]), (U, [(row(9), 1)])] == list(contents.take(7, records))


class OpenRecord:
    """What is held of open transactions and snapshots."""

    def __init__(self, changes: dict[tuple[int, str], list[tuple[int, PartialChange]]]) -> None:
        self._changes = changes

    def snapshot_rows(self, table: str, again: int | None = None) -> Iterable[Any]:
        """Rows that name their table and their snapshot."""
        return [row(1 if again is None else again, table)]

    def partial_changes(self, tx: int, table: str) -> list[tuple[int, PartialChange]]:
        """As it was made."""
        return self._changes.get((tx, table), [])


def test_by_commit_times_it_follows_releases() -> None:
    """Snapshot, transactions and resnapshot, each at its time; a partial table is left alone."""
    contents = Contents({T: content(), U: Content(U, ROWS)})
    assert [] == contents.updates(T)
    held = cast(OpenRows, OpenRecord({(7, T): [(1, insert(5))], (8, T): [(1, insert(6))], (8, U): [(1, insert(7))]}))
    commits = CommitTransactions([T, U])
    release = Release(10, (Commit(7, 20), Commit(8, 30)), 90, again=90)
    assert release == contents.follow_release(release, held, commits)
    first, new = row(1, T), row(90, T)
    assert [(first, 10, 1), (row(5), 20, 1), (row(6), 30, 1)] == contents.updates(T)[:3]
    assert [(row(1, U), 10, 1), (row(7), 30, 1)] == contents.updates(U)[:2]
    assert [] == contents.updates(T) and {new: 1} == contents.rows(T)
    more = Release(None, (Commit(8, 130),), 130, partial=frozenset({U}))
    assert more == contents.follow_release(more, held, commits)
    assert ([(row(6), 130, 1)], []) == (contents.updates(T), contents.updates(U))
    last = Release(None, (), 190, again=190)
    contents.follow_release(last, held, commits)
    assert {(new, 190, -1), (row(6), 190, -1), (row(190, T), 190, 1)} == set(contents.updates(T))


def test_a_transaction_whose_change_cannot_be_known_halts() -> None:
    """What is released then ends before it; perhaps a row was lost with a slot."""
    contents = Contents({T: content()})
    held = cast(OpenRows, OpenRecord({(7, T): [(1, PartialChange("d", key(5), None, None))]}))
    commits = CommitTransactions([T], snapshot="none")
    commits.end(7, 20, {T: 1})
    commits.rows_seen(7, T, 1)
    release = commits.ready()
    assert release is not None and contents.follow_release(release, held, commits) is None
    stop = commits.stopped()
    assert stop is not None and stop.remedy.startswith("The logs lack rows") and commits.searches_resnapshot


def log(*messages: Updates | Progress) -> RecordingLog:
    """One that holds these."""
    return RecordingLog(messages)


def test_each_log_is_read_from_where_it_begins() -> None:
    """From the start by default; not at all where it does not state anything yet."""
    tables = {T: ROWS, U: ROWS}
    logs = {
        T: log(Updates([(row(1), 0, 1)]), Progress([0], [1], {0: 1})),
        U: log(Updates([(row(2), 60, 1)]), Progress([50], [61], {60: 1})),
    }
    contents = Contents.of(tables, logs, {T: 1, U: 61}, starts={U: 50})
    assert ({row(1): 1}, {row(2): 1}) == (contents.rows(T), contents.rows(U))
    with pytest.raises(UnknownChange, match="a row of public.u was deleted"):
        contents.take(7, [RowRecord(U, 7, 1, None, ((PartialChange("d", key(5), None, None), UNRESOLVED),))])
    assert {} == Contents.of({U: ROWS}, {}, {U: 50}, starts={U: 50}).rows(U)


@pytest.mark.parametrize("again, stated, ends", [
    ((90,), [91, 100], True), ((90,), [90, 100], False), ((90,), [92, 100], False), ((90,), [100], False),
    ((50,), [51, 100], True), ((50,), [100], False), ((49, 100, 120), [100], True),
])
def test_a_resnapshot_ends_a_statement_of_a_log_that_has_it(
    again: tuple[int, ...], stated: list[int], ends: bool
) -> None:
    """Where none ends there, it was declared too late; one before the log, or behind what is stated, is not asked."""
    statements = [Progress([lower], [upper], {}) for lower, upper in zip([50, *stated], stated)]
    if ends:
        assert {} == Contents.of({U: ROWS}, {U: log(*statements)}, {U: 100}, again, {U: 50}).rows(U)
        return
    with pytest.raises(RefusedError, match=f"the resnapshot at {again[0]}, "):
        Contents.of({U: ROWS}, {U: log(*statements)}, {U: 100}, again, {U: 50})
