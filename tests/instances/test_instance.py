"""What an instance responds, command by command and cut by cut; many at once are drawn in ``test_schedules.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError, MalformedError
from cdcv2.instances.arrangement import TableForm
from cdcv2.instances.commands import (
    CANCELED, AllowCompaction, Answer, CancelPeek, Command, CreateInstance, DroppedAt, Frontiers, IndexedTable,
    InitializationComplete, Peek, PeekResponse, RowChange, RowCount, Tail, TailResponse,
)
from cdcv2.instances.instance import IndexInstance
from tests.instance_schedules import FORM, index_of

MAIN, MORE = index_of("main", 2), index_of("more", 2)
PEEK = Peek("p", "main", {"orders": ((1,), (2,))}, 2)
TAIL = Tail("t", "main", "orders", since=2)
END = Antichain()


def at(frontier: int) -> Antichain:
    return Antichain([frontier])


def form_of(table: IndexedTable) -> TableForm:
    """Items have no key that is text."""
    def key_from_plain(key: Any) -> Any:
        if isinstance(key[0], str):
            raise MalformedError(f"{key[0]} is no key")
        return key[0]

    return FORM if table.name == "orders" else TableForm(lambda row: row[0], key_from_plain, lambda row: [*row, "item"])


def begin(instance: IndexInstance, *history: Command) -> list[Answer]:
    """A session with this history; what is responded when it is complete, and nothing before."""
    instance.connect()
    assert [] == [answer for command in (CreateInstance("a"), *history) for answer in instance.receive(command)]
    return instance.receive(InitializationComplete())


def made(*indexes: Any) -> IndexInstance:
    """An instance with these indexes, of whose logs it has read nothing."""
    instance = IndexInstance(form_of)
    assert [] == begin(instance, *(indexes or (MAIN,)))
    return instance


def since(instance: IndexInstance, name: str = "main") -> int:
    """Up to where an index is compacted."""
    return instance._indexes[name].arrangement.since


def orders(*values: str, time: int) -> dict[str, list[Any]]:
    """Rows that come at a time, all at one key."""
    return {"orders": [((1, value), time, 1) for value in values]}


def rows(*values: str) -> tuple[RowCount, ...]:
    """The same as a peek has them."""
    return tuple(RowCount([1, value], 1) for value in values)


def test_nothing_is_done_before_the_history_is_complete() -> None:
    instance = IndexInstance(form_of)
    assert instance.reconciliation is None and [] == instance.receive(CreateInstance("a")) == instance.receive(MAIN)
    assert {} == instance.indexes and [] == instance.receive(InitializationComplete())
    assert instance.reconciliation is not None and "created main" == instance.reconciliation.text
    assert {"main": MAIN} == instance.indexes and 2 == since(instance)
    assert (at(0), 0) == (instance.upper("main"), instance.size("main"))
    with pytest.raises(ConversationError, match="sent CreateInstance in the stage COMPUTATION"):
        instance.receive(CreateInstance("b"))


def test_a_cut_is_reported_and_answers_what_waits_each_once() -> None:
    """Nothing before the since is finished. What was before it stands at it in the first batch."""
    instance = made()
    assert [] == instance.receive(PEEK) == instance.receive(TAIL)
    assert [] == instance.apply("main", orders("a", time=1), at(2))
    assert [
        Frontiers("main", at(3)), PeekResponse("p", {"orders": (rows("a", "b"), ())}),
        TailResponse("t", at(0), at(3), (RowChange([1, "a"], 2, 1), RowChange([1, "b"], 2, 1))),
    ] == instance.apply("main", orders("b", time=2), at(3))
    assert [] == instance.apply("main", {}, at(3)) and (at(3), 2) == (instance.upper("main"), instance.size("main"))
    assert [Frontiers("main", at(5)), TailResponse("t", at(3), at(5), (RowChange([1, "c"], 4, 1),))] == instance.apply(
        "main", orders("c", time=4), at(5)
    )
    assert [Frontiers("main", END), TailResponse("t", at(5), END)] == instance.apply("main", {}, END)


def test_nothing_is_responded_of_an_index_whose_logs_are_not_read() -> None:
    """What they held is one cut then; another index, whose logs are read, answers meanwhile."""
    read = {"more"}
    instance = IndexInstance(form_of, lambda name: name in read)
    begin(instance, MAIN, MORE)
    for name in ("main", "more"):
        instance.receive(replace(PEEK, uuid=name, id=name))
        instance.receive(replace(TAIL, uuid=f"{name}.t", id=name))

    def responses(name: str) -> list[Answer]:
        return [
            Frontiers(name, at(4)), PeekResponse(name, {"orders": (rows("a"), ())}),
            TailResponse(f"{name}.t", at(0), at(4), (RowChange([1, "a"], 2, 1),)),
        ]  # fmt: skip

    assert [] == instance.apply("main", orders("a", time=1), at(4))
    assert responses("more") == instance.apply("more", orders("a", time=1), at(4))
    read.add("main")
    assert responses("main") == instance.report("main")


def test_what_is_finished_is_answered_at_once() -> None:
    """And again, if it is requested again; each table by its own form, a key that is none with the reason."""
    instance = made()
    instance.apply("main", {**orders("a", time=1), "items": [((7, "x"), 2, 3)]}, at(4))
    peek = Peek("p", "main", {"items": ((7,),), "orders": ()}, 3)
    answer = PeekResponse("p", {"items": ((RowCount([7, "x", "item"], 3),),), "orders": ()})

    assert [answer] == instance.receive(peek) == instance.receive(peek)
    assert [PeekResponse("q", error="many is no key")] == instance.receive(
        Peek("q", "main", {"orders": ((1,),), "items": (("many",),)}, 3)
    )
    assert [] == instance.receive(replace(peek, uuid="later", time=4))
    assert [TailResponse("t", at(0), at(4), (RowChange([1, "a"], 2, 1),))] == instance.receive(TAIL)
    assert [TailResponse("u", at(3), at(4))] == instance.receive(replace(TAIL, uuid="u", after=at(3)))
    assert [] == instance.receive(replace(TAIL, uuid="v", after=at(4)))
    assert [] == instance.receive(replace(TAIL, uuid="w", since=4))


def test_one_that_waits_keeps_no_other_from_its_answer() -> None:
    """Of the same index or of another."""
    instance = made(MAIN, MORE)
    for command in (
        replace(PEEK, uuid="other", id="more"), replace(PEEK, uuid="late", time=9), PEEK,
        replace(TAIL, uuid="other tail", id="more"), replace(TAIL, uuid="late tail", after=at(9)), TAIL,
    ):  # fmt: skip
        assert [] == instance.receive(command)
    assert [Frontiers("main", at(3)), PeekResponse("p", {"orders": ((), ())}), TailResponse("t", at(0), at(3))] == (
        instance.apply("main", {}, at(3))
    )
    assert ["Frontiers", "PeekResponse", "TailResponse"] == [
        type(one).__name__ for one in instance.apply("more", {}, at(3))
    ]


def test_a_peek_that_is_cancelled_is_answered_so_unless_it_was() -> None:
    instance = made()
    assert [] == instance.receive(PEEK) and [PeekResponse("p", error=CANCELED)] == instance.receive(CancelPeek("p"))
    assert [Frontiers("main", at(3))] == instance.apply("main", {}, at(3))
    assert 1 == len(instance.receive(PEEK)) and [] == instance.receive(CancelPeek("p"))
    assert [] == instance.receive(CancelPeek("p")) == instance.receive(CancelPeek("unknown"))
    assert set() == instance._answered


def test_what_is_needed_is_kept_and_no_more() -> None:
    """By peeks until they are cancelled, by tails from what their clients have; as far as it was allowed."""
    instance = made(MAIN, MORE)
    instance.apply("main", {}, at(9))
    found = []
    for command in (
        Peek("p", "main", {}, 3), Tail("t", "main", "orders", at(5)), AllowCompaction("main", at(7)),
        AllowCompaction("t", at(6)), CancelPeek("p"), AllowCompaction("t", at(7)), AllowCompaction("t", at(9)),
        AllowCompaction("main", at(8)), Tail("u", "main", "orders", at(9)), AllowCompaction("main", at(20)),
        Peek("q", "more", {}, 3), AllowCompaction("t", END), AllowCompaction("u", END),
    ):  # fmt: skip
        instance.receive(command)
        found.append(since(instance))
    assert [2, 2, 3, 3, 5, 6, 7, 8, 8, 8, 8, 8, 20] == found and 2 == since(instance, "more")


def test_of_an_index_that_is_dropped_everything_gets_its_last_answer() -> None:
    """Of no other; and what was answered is not answered again."""
    instance = made(MAIN, MORE)
    instance.apply("main", {}, at(4))
    for command in (
        PEEK, replace(PEEK, uuid="waits", time=9), replace(PEEK, uuid="stays", id="more"), TAIL,
        replace(TAIL, uuid="tail stays", id="more"),
    ):  # fmt: skip
        instance.receive(command)
    reason = "the index main was dropped"
    assert [PeekResponse("waits", error=reason), DroppedAt("t", at(4), reason)] == instance.receive(
        AllowCompaction("main", END)
    )
    assert {"more": MORE} == instance.indexes and set() == instance._answered
    assert ["Frontiers", "PeekResponse", "TailResponse"] == [
        type(one).__name__ for one in instance.apply("more", {}, at(3))
    ]


def test_an_index_may_come_later() -> None:
    instance = made()
    assert [] == instance.receive(MORE) and {"main": MAIN, "more": MORE} == instance.indexes
    assert 2 == since(instance, "more")
    assert [Frontiers("more", at(3))] == instance.apply("more", {}, at(3))


def test_a_new_session_finds_what_serves_and_forgets_what_was_requested() -> None:
    """Until its history is complete, cuts are taken in and nothing is responded; then all that is there is reported."""
    other = index_of("more", 2, log="2")
    instance = made(MAIN, MORE, index_of("old"))
    for name in ("main", "more"):
        instance.apply(name, orders("a", time=1), at(4))
    for command in (replace(PEEK, time=9), TAIL, replace(TAIL, uuid="more's", id="more")):
        instance.receive(command)

    instance.connect()
    assert [] == instance.receive(CreateInstance("b"))
    assert [] == instance.apply("main", orders("b", time=4), at(5))
    later = Tail("later", "main", "orders", at(4))
    for command in (MAIN, other, replace(PEEK, time=3), later, AllowCompaction("main", at(4))):
        assert [] == instance.receive(command)
    assert [
        Frontiers("main", at(5)), PeekResponse("p", {"orders": (rows("a"), ())}),
        TailResponse("later", at(4), at(5), (RowChange([1, "b"], 4, 1),)),
    ] == instance.receive(InitializationComplete())
    assert instance.reconciliation is not None
    why = "orders is read from the log orders 1, and orders 2 is requested"
    assert f"kept main; dropped old; replaced more ({why})" == instance.reconciliation.text
    assert (3, at(0), 0) == (since(instance), instance.upper("more"), instance.size("more"))
    assert [Frontiers("main", at(10)), TailResponse("later", at(5), at(10))] == instance.apply("main", {}, at(10))
    assert [Frontiers("more", at(5))] == instance.apply("more", {}, at(5))


def test_a_cut_that_is_none_changes_nothing() -> None:
    instance = made()
    instance.apply("main", {}, at(3))
    with pytest.raises(MalformedError, match="given to an index that is at"):
        instance.apply("main", {}, at(2))
    assert at(3) == instance.upper("main")
