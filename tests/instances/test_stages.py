"""What may be sent when: the tables, and a fault of each side for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances.commands import (
    ANSWERS, COMMANDS, AllowCompaction, CreateInstance, DroppedAt, Frontiers, InitializationComplete, Peek,
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


@pytest.mark.parametrize("side, messages", [
    ("controller", [PEEK]),
    ("controller", [*BEGIN, CreateInstance("b")]),
    ("controller", [*BEGIN, InitializationComplete()]),
    ("controller", [*BEGIN, index_of()]),
    ("controller", [*BEGIN, AllowCompaction("main", Antichain()), index_of()]),
    ("controller", [*BEGIN, AllowCompaction("main", at(2))]),
    ("controller", [*BEGIN, AllowCompaction("other", at(9))]),
    ("controller", [*BEGIN, PEEK, PEEK]),
    ("controller", [*BEGIN, Peek("p", "main", {}, 2)]),
    ("controller", [*BEGIN, Peek("p", "main", {"others": ()}, 3)]),
    ("controller", [*BEGIN, Peek("p", "main", {"orders": ((1, 2),)}, 3)]),
    ("controller", [*BEGIN, Peek("p", "other", {}, 3)]),
    ("controller", [*BEGIN, TAIL, TAIL]),
    ("controller", [*BEGIN, Tail("t", "main", "orders", at(3))]),
    ("controller", [*BEGIN, Tail("t", "main", "orders", since=2)]),
    ("controller", [*BEGIN, Tail("t", "main", "others", since=3)]),
    ("controller", [*BEGIN, TAIL, AllowCompaction("t", at(9)), AllowCompaction("t", at(8))]),
    ("instance", [*BEGIN[:2], Frontiers("main", at(4))]),
    ("instance", [*BEGIN, Frontiers("other", at(4))]),
    ("instance", [*BEGIN, Frontiers("main", at(3))]),
    ("instance", [*BEGIN, Frontiers("main", at(5)), Frontiers("main", at(4))]),
    ("instance", [*BEGIN, PeekResponse("p")]),
    ("instance", [*BEGIN, PEEK, PeekResponse("p"), PeekResponse("p")]),
    ("instance", [*BEGIN, TailResponse("t", at(0), at(4))]),
    ("instance", [*BEGIN, TAIL, TailResponse("t", at(1), at(4))]),
    ("instance", [*BEGIN, TAIL, TailResponse("t", at(0), at(0))]),
    ("instance", [*BEGIN, TAIL, TailResponse("t", at(0), at(4), (RowChange([1, 1], 4, 1),))]),
    ("instance", [*BEGIN, TAIL, DroppedAt("t", at(4), "")]),
    ("instance", [*BEGIN, DroppedAt("t", at(0), "")]),
])  # fmt: skip
def test_the_side_that_breaks_a_rule_is_named_and_nothing_changes(side: str, messages: list[Any]) -> None:
    session = Session()
    for message in messages[:-1]:
        session.record(message)

    for _ in range(2):
        with pytest.raises(ConversationError) as caught:
            session.record(messages[-1])
        assert caught.value.side == side


def test_what_was_on_its_way_when_it_was_dropped_is_no_fault() -> None:
    session = Session()
    for message in [*BEGIN, TAIL, AllowCompaction("t", Antichain()), AllowCompaction("main", Antichain())]:
        session.record(message)

    session.record(Frontiers("main", at(9)))
    session.record(TailResponse("t", at(0), at(4)))
    session.record(DroppedAt("t", at(0), ""))
