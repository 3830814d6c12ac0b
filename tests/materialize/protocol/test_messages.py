"""What the messages know of themselves: columns of a table, and a checkpoint as JSON, also of earlier releases."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MalformedError, RefusedError
from cdcv2.materialize.protocol.messages import DELETED, KINDS, Checkpoint, ConflictError, Field, Table

KEY, VALUE, MARK, COUNT = Field("id", "int"), Field("v", "string"), Field(DELETED, "boolean"), Field("n", "long")
AT, ZERO = Antichain([7]), Antichain([0])


def test_a_table_knows_which_columns_are_stored_and_marked() -> None:
    """Of a multiset without digest and count."""
    plain, soft = Table("t", (KEY,), (VALUE, COUNT)), Table("t", (KEY,), (VALUE, MARK), soft=True)
    multiset, pushed = Table("t", (KEY,), (VALUE, COUNT), multiset=True), Table("t", (KEY,), (VALUE,), delta=True)

    assert [(KEY, VALUE, COUNT), (KEY, VALUE, MARK), (VALUE,), (KEY, VALUE)] == [
        table.stored for table in (plain, soft, multiset, pushed)
    ]
    assert [True, False, True, False] == [table.erased for table in (plain, soft, multiset, pushed)]
    assert [False, True, False, False] == [table.marked for table in (plain, soft, multiset, pushed)]
    others = (Table("t", (KEY,), (), soft=True), Table("t", (KEY,), (MARK, VALUE), soft=True), Table("t", (), (MARK,)))
    assert [False, False, False] == [table.marked for table in others] and (KEY, VALUE, COUNT) == multiset.fields


def test_a_column_of_a_kind_that_is_none_is_refused() -> None:
    """With those that are known."""
    assert all(Field("c", kind).kind == kind for kind in KINDS)
    with pytest.raises(MalformedError, match="column 'c' has the kind 'text': known are boolean, int, long"):
        Field("c", "text")


@pytest.mark.parametrize("checkpoint, plain", [
    (Checkpoint(AT), {"committed": True}), (Checkpoint(AT, committed=False), {"committed": False}),
    (Checkpoint(AT, committed=None), {}), (Checkpoint(AT, {"s": 1}), {"state": {"s": 1}}),
    (Checkpoint(AT, None, {"t": "m"}), {"views": {"t": "m"}}),
    (Checkpoint(AT, {"s": 1}, {"t": "m"}), {"state": {"s": 1}, "views": {"t": "m"}}),
    (Checkpoint(AT, {"s": 1}, committed=False), {"state": {"s": 1}, "committed": False}),
], ids=str)  # fmt: skip
def test_a_checkpoint_is_plain_as_earlier_releases_have_it(checkpoint: Checkpoint, plain: dict[str, Any]) -> None:
    """It names a commit only where nothing else in it shows one."""
    whole = {"version": 1, "frontier": [7], "state": None, **plain}
    back = Checkpoint.from_plain(whole)

    assert whole == checkpoint.to_plain()
    assert (checkpoint.frontier, checkpoint.state, checkpoint.views, checkpoint.committed) == (
        back.frontier, back.state, back.views, back.committed
    )


def test_a_checkpoint_without_a_state_has_none() -> None:
    """Nor marks of views; and then nothing shows a commit."""
    found = Checkpoint.from_plain({"version": 1, "frontier": [7]})

    assert (AT, None, None, None) == (found.frontier, found.state, found.views, found.committed)


@pytest.mark.parametrize("plain", [
    None, [], {}, {"version": 1}, {"version": 2, "frontier": [7]}, {"frontier": [7]}, {"version": 1, "frontier": 7},
], ids=str)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(plain: Any) -> None:
    """Somebody else wrote it."""
    with pytest.raises(ForeignStateError, match="is no checkpoint of version 1"):
        Checkpoint.from_plain(plain)


def test_a_view_begins_at_the_start_that_is_asked_for_until_something_is_committed() -> None:
    """Where it is not known whether there was a commit, only the same start goes on."""
    done, fresh, old = (Checkpoint(AT, {"s": 1}, committed=committed) for committed in (True, False, None))

    assert done is done.started_at(ZERO) and old is old.started_at(AT)
    assert (Checkpoint(ZERO), True) == (fresh.started_at(ZERO), fresh.started_at(ZERO).committed)
    with pytest.raises(RefusedError, match=r"the checkpoint \[7\] was written by an older release.*start is now \[0\]"):
        old.started_at(ZERO)


def test_a_conflict_comes_whole_from_an_executor() -> None:
    """By pickle: the driver names the row by what it has."""
    error = ConflictError("t", 3, ("a", 1), ("x",))
    again = pickle.loads(pickle.dumps(error))

    assert ("t", 3, ("a", 1), ("x",), str(error)) == (again.target, again.binding, again.key, again.there, str(again))
    assert " it has not the row there that the log's changes go with" in str(error) and "'a'" in str(error)
