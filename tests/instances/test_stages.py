"""What may be sent when: the tables, and a fault of each side for each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances import stages
from cdcv2.instances.commands import (
    ANSWERS, COMMANDS, AllowCompaction, CancelPeek, CreateInstance, DroppedAt, Frontiers, InitializationComplete, Peek,
    PeekResponse, RowChange, Tail, TailResponse,
)
from cdcv2.instances.stages import ANSWERS_IN, COMMANDS_IN, RULES, Session, SessionStage
from tests.instance_schedules import index_of

BEGIN = [CreateInstance("a"), index_of(since=3), InitializationComplete()]
PEEK = Peek("p", "main", {"orders": ((1,),)}, 3)
TAIL = Tail("t", "main", "orders", since=3)


def at(frontier: int) -> Antichain:
    return Antichain([frontier])


def test_every_kind_has_a_stage_and_rules() -> None:
    assert {kind for moves in COMMANDS_IN.values() for kind in moves} == set(COMMANDS)
    assert set().union(*ANSWERS_IN.values()) == set(ANSWERS)
    assert set(RULES) == {*COMMANDS, *ANSWERS}
    assert set(COMMANDS_IN) == set(ANSWERS_IN) == set(SessionStage)


CONTROLLER: list[tuple[list[Any], str]] = [
    ([*BEGIN, index_of()], "CreateIndex that names 'main', which exists, or was dropped: a name is of one thing for"),
    ([*BEGIN, AllowCompaction("main", Antichain()), index_of()], "CreateIndex that names 'main', which exists, or was"),
    ([*BEGIN, TAIL, index_of("t")], "CreateIndex that names 't', which exists, or was dropped"),
    ([*BEGIN, AllowCompaction("main", at(2))], f"AllowCompaction that goes back from {at(3)}"),
    ([*BEGIN, AllowCompaction("main", at(5)), AllowCompaction("main", at(4))], f"that goes back from {at(5)}"),
    ([*BEGIN, AllowCompaction("other", at(9))], "AllowCompaction that names 'other', which is neither an index nor a"),
    ([*BEGIN, AllowCompaction("main", Antichain()), AllowCompaction("main", Antichain())], "'main', which is nei"),
    ([*BEGIN, TAIL, AllowCompaction("t", at(9)), AllowCompaction("t", at(8))], f"that goes back from {at(9)}"),
    ([*BEGIN, TAIL, AllowCompaction("t", Antichain()), AllowCompaction("t", at(9))], "names 't', which is neither"),
    ([*BEGIN, PEEK, PEEK], "Peek that repeats a uuid that waits"),
    ([*BEGIN, Peek("p", "main", {}, 2)], f"Peek that is at 2, before what was allowed, {at(3)}"),
    ([*BEGIN, AllowCompaction("main", at(4)), PEEK], f"Peek that is at 3, before what was allowed, {at(4)}"),
    ([*BEGIN, Peek("p", "main", {"others": ()}, 3)], "Peek that names the table 'others', which the index has not"),
    ([*BEGIN, Peek("p", "main", {"items": ((1,),), "orders": ((1,), (1, 2))}, 3)],
     "Peek that has a key of 'orders' that has not 1 values"),
    ([*BEGIN, Peek("p", "other", {}, 3)], "Peek that names the index 'other', which is not known"),
    ([*BEGIN, AllowCompaction("main", Antichain()), PEEK], "Peek that names the index 'main', which is not known"),
    ([*BEGIN, TAIL, TAIL], "Tail that names 't', which exists, or was dropped"),
    ([*BEGIN, TAIL, AllowCompaction("t", Antichain()), TAIL], "Tail that names 't', which exists, or was dropped"),
    ([*BEGIN, replace(TAIL, uuid="main")], "Tail that names 'main', which exists, or was dropped"),
    ([*BEGIN, replace(TAIL, id="other")], "Tail that names the index 'other', which is not known"),
    ([*BEGIN, Tail("t", "main", "orders", at(3))], f"Tail that needs the time 2, before what was allowed, {at(3)}"),
    ([*BEGIN, Tail("t", "main", "orders", since=2)], f"Tail that needs the time 2, before what was allowed, {at(3)}"),
    ([*BEGIN, Tail("t", "main", "others", since=3)], "Tail that names a table the index has not"),
]
INSTANCE: list[tuple[list[Any], str]] = [
    ([*BEGIN, Frontiers("other", at(4))], "Frontiers that names the index 'other', which is not known"),
    ([*BEGIN, Frontiers("main", at(3))], f"Frontiers that reports {at(3)}, which is not beyond 3"),
    ([*BEGIN, Frontiers("main", at(5)), Frontiers("main", at(4))], f"Frontiers that goes back from {at(5)}"),
    ([*BEGIN, PeekResponse("p")], "PeekResponse that answers 'p', which does not wait"),
    ([*BEGIN, CancelPeek("p"), PeekResponse("p")], "PeekResponse that answers 'p', which does not wait"),
    ([*BEGIN, PEEK, PeekResponse("p"), PeekResponse("p")], "PeekResponse that answers 'p', which does not wait"),
    ([*BEGIN, PEEK, CancelPeek("p"), PeekResponse("p"), PeekResponse("p")], "answers 'p', which does not wait"),
    ([*BEGIN, TailResponse("t", at(0), at(4))], "TailResponse that names the tail 't', which is not known"),
    ([*BEGIN, TAIL, TailResponse("t", at(1), at(4))], f"that begins at {at(1)}, and the one before ended at {at(0)}"),
    ([*BEGIN, TAIL, TailResponse("t", at(0), at(4)), TailResponse("t", at(0), at(5))], f"ended at {at(4)}"),
    ([*BEGIN, TAIL, TailResponse("t", at(0), at(0))], "TailResponse that has no time"),
    ([*BEGIN, TAIL, TailResponse("t", at(0), at(4)), TailResponse("t", at(4), at(3))], "that has no time"),
    ([*BEGIN, TAIL, TailResponse("t", at(0), at(4), (RowChange([1, 1], 4, 1),))],
     f"TailResponse that has a change that is not in [{at(0)}, {at(4)})"),
    ([*BEGIN, replace(TAIL, after=at(5)), TailResponse("t", at(5), at(7), (RowChange([1], 5, 1), RowChange([], 4, 1)))],
     f"has a change that is not in [{at(5)}, {at(7)})"),
    ([*BEGIN, TAIL, AllowCompaction("main", Antichain()), DroppedAt("t", at(4), "")],
     f"that is at {at(4)}, and the last batch ended at {at(0)}"),
    ([*BEGIN, TAIL, DroppedAt("t", at(0), "")], "DroppedAt that ends a tail of the index 'main', which was not"),
    ([*BEGIN, DroppedAt("t", at(0), "")], "DroppedAt that names the tail 't', which is not known"),
]


@pytest.mark.parametrize("side, messages, words", [
    ("controller", [PEEK], "sent Peek in the stage CREATION"),
    ("controller", [*BEGIN, CreateInstance("b")], "sent CreateInstance in the stage COMPUTATION"),
    ("controller", [*BEGIN, InitializationComplete()], "sent InitializationComplete in the stage COMPUTATION"),
    ("instance", [*BEGIN[:2], Frontiers("main", at(4))], "sent Frontiers in the stage INITIALIZATION"),
    *(("controller", messages, words) for messages, words in CONTROLLER),
    *(("instance", messages, words) for messages, words in INSTANCE),
])  # fmt: skip
def test_the_side_that_breaks_a_rule_is_named_and_nothing_changes(side: str, messages: list[Any], words: str) -> None:
    session = Session()
    for message in messages[:-1]:
        session.record(message)

    for _ in range(2):
        with pytest.raises(ConversationError) as caught:
            session.record(messages[-1])
        assert side == caught.value.side and words in caught.value.reason


def test_a_whole_conversation_breaks_no_rule() -> None:
    """Each at the very edge of what its rule allows."""
    session = Session()
    later = replace(TAIL, uuid="u", after=at(6))
    for message in [
        *BEGIN[:2], PEEK, InitializationComplete(), Frontiers("main", at(4)), Frontiers("main", at(4)), TAIL, later,
        PeekResponse("p"), PEEK, CancelPeek("p"), PEEK, PeekResponse("p"), CancelPeek("p"), CancelPeek("unknown"),
        TailResponse("t", at(0), at(4), (RowChange([1], 0, 1), RowChange([1], 3, 1))),
        TailResponse("t", at(4), at(5), (RowChange([1], 4, 1),)), TailResponse("u", at(6), at(7)),
        AllowCompaction("t", at(5)), AllowCompaction("t", at(5)), AllowCompaction("main", at(5)),
        AllowCompaction("main", at(5)), Peek("q", "main", {"items": (), "orders": ((1,),)}, 5),
        Tail("v", "main", "items", at(6)), TailResponse("u", at(7), Antichain()), Frontiers("main", Antichain()),
        AllowCompaction("main", Antichain()), DroppedAt("t", at(5), ""), TailResponse("t", at(9), at(8)),
        DroppedAt("u", Antichain(), ""),
    ]:  # fmt: skip
        session.record(message)
    assert SessionStage.COMPUTATION is session.stage and {} == session.indexes


def test_an_answer_about_what_was_dropped_long_ago_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many names are kept, and no more: the first is left out first."""
    monkeypatch.setattr(stages, "_DROPPED", 2)
    session = Session()
    for message in BEGIN:
        session.record(message)
    for number in range(3):
        session.record(replace(TAIL, uuid=f"t{number}"))
        session.record(AllowCompaction(f"t{number}", Antichain()))
        session.record(TailResponse(f"t{max(0, number - 1)}", at(0), at(4)))
    with pytest.raises(ConversationError, match="names the tail 't0', which is not known"):
        session.record(TailResponse("t0", at(0), at(4)))


def test_what_was_on_its_way_when_it_was_dropped_is_no_fault() -> None:
    session = Session()
    for message in [*BEGIN, TAIL, AllowCompaction("t", Antichain()), AllowCompaction("main", Antichain())]:
        session.record(message)

    session.record(Frontiers("main", at(9)))
    session.record(TailResponse("t", at(0), at(4)))
    session.record(DroppedAt("t", at(0), ""))
