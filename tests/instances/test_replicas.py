"""What a controller makes of its replicas' responses and its clients' requests, message by message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances.commands import (
    CANCELED, AllowCompaction, CancelPeek, CreateInstance, DroppedAt, Frontiers, InitializationComplete, Peek,
    PeekResponse, RowChange, Tail, TailResponse,
)
from cdcv2.instances.replicas import Dispatch, ReplicaSet
from tests.instance_schedules import index_of

MAIN, MORE = index_of("main", 2), index_of("more", 3)
PEEK = Peek("p", "main", {"orders": ((1,),)}, 2)
TAIL = Tail("t", "main", "orders", since=2)
END = Antichain()


def at(frontier: int) -> Antichain:
    return Antichain([frontier])


def made(*connected: str) -> ReplicaSet:
    """With one index, and these replicas."""
    replicas = ReplicaSet("life", [MAIN])
    for one in connected:
        replicas.connect(one)
    return replicas


def sent(dispatch: Dispatch) -> tuple[list[Any], list[Any]]:
    """Commands and answers."""
    return dispatch.commands, dispatch.answers


def answers(dispatch: Dispatch) -> list[Any]:
    """The answers of what sends nothing."""
    assert [] == dispatch.commands
    return dispatch.answers


def test_commands_go_to_all_replicas_and_to_those_that_come_later() -> None:
    """Without what has no effect any more."""
    replicas = made("a")
    first = replicas.connect("b")
    assert [("b", CreateInstance("life")), ("b", MAIN), ("b", InitializationComplete())] == first.commands
    assert [("a", MORE), ("b", MORE)] == replicas.create(MORE).commands and ["a", "b"] == replicas.connected
    own = replace(PEEK, uuid="p.1")
    assert ([("a", own), ("b", own)], []) == sent(replicas.peek(PEEK))
    replicas.disconnect("a")
    replicas.disconnect("unknown")
    assert ["b"] == replicas.connected and [] == answers(replicas.receive("a", PeekResponse("p.1")))
    assert [CreateInstance("life"), MAIN, MORE, own, InitializationComplete()] == [
        command for _, command in replicas.connect("a").commands
    ]
    with pytest.raises(ConversationError, match="CreateIndex that names 'more', which exists"):
        replicas.create(MORE)


def test_copies_are_as_far_as_the_furthest() -> None:
    """What a replica may not report ends its connection; of what was dropped it may."""
    replicas = made("a", "b")
    assert at(0) == replicas.upper("main") and at(2) == replicas.allowed("main")
    assert [Frontiers("main", at(5))] == answers(replicas.receive("a", Frontiers("main", at(5))))
    assert [] == answers(replicas.receive("b", Frontiers("main", at(4))))
    assert [] == answers(replicas.receive("b", Frontiers("main", at(5))))
    assert [Frontiers("main", at(6))] == answers(replicas.receive("b", Frontiers("main", at(6))))
    assert at(6) == replicas.upper("main")
    with pytest.raises(ConversationError, match="goes back from"):
        replicas.receive("a", Frontiers("main", at(4)))
    replicas.allow("main", END)
    assert [] == answers(replicas.receive("a", Frontiers("main", at(9))))


def test_when_what_is_finished_was_committed_is_what_the_furthest_replica_states() -> None:
    """Of each index; of one that was dropped, and is made again, nothing is known."""
    replicas = made("a", "b")
    replicas.create(MORE)
    replicas.receive("a", Frontiers("main", at(6), 60.5))
    replicas.receive("b", Frontiers("main", at(5), 50.5))
    assert (60.5, None) == (replicas.committed_at("main"), replicas.committed_at("more"))
    replicas.receive("b", Frontiers("main", at(7)))
    assert replicas.committed_at("main") is None
    replicas.receive("b", Frontiers("main", at(8), 80.5))
    assert 80.5 == replicas.committed_at("main")
    replicas.allow("main", END)
    assert replicas.committed_at("main") is None


def test_the_first_answer_is_given_and_the_others_are_not() -> None:
    """The replicas need not hold its time any longer."""
    replicas = made("a", "b")
    replicas.peek(PEEK)
    assert (1, 0) == replicas.waiting
    rows = {"orders": ((),)}
    cancel = CancelPeek("p.1")
    assert ([("a", cancel), ("b", cancel)], [PeekResponse("p", rows)]) == sent(
        replicas.receive("b", PeekResponse("p.1", rows))
    )
    assert [] == answers(replicas.receive("a", PeekResponse("p.1", rows))) and (0, 0) == replicas.waiting
    # The uuid is the client's, who may use it again; then it is another one to the replicas.
    assert [("a", replace(PEEK, uuid="p.2")), ("b", replace(PEEK, uuid="p.2"))] == replicas.peek(PEEK).commands
    assert ([], []) == sent(replicas.peek(PEEK)) and (1, 0) == replicas.waiting


def test_a_peek_that_is_cancelled_is_answered_at_once() -> None:
    replicas = made("a")
    replicas.peek(PEEK)
    assert ([("a", CancelPeek("p.1"))], [PeekResponse("p", error=CANCELED)]) == sent(replicas.cancel("p"))
    assert ([], []) == sent(replicas.cancel("p")) == sent(replicas.cancel("unknown"))
    assert [] == answers(replicas.receive("a", PeekResponse("p.1", error=CANCELED)))
    replicas.tail(TAIL)
    assert ([], []) == sent(replicas.cancel("t")) and (0, 1) == replicas.waiting


def test_what_cannot_be_requested_is_answered_with_the_reason() -> None:
    """And leaves nothing behind: the uuid is free."""
    replicas = made("a")
    assert [PeekResponse("p", error="the peek sent Peek that names the index 'other', which is not known")] == answers(
        replicas.peek(replace(PEEK, id="other"))
    )
    assert [DroppedAt("t", at(7), "the tail sent Tail that names the index 'other', which is not known")] == answers(
        replicas.tail(replace(TAIL, id="other", after=at(7)))
    )
    assert [DroppedAt("t", END, "its history is complete")] == answers(replicas.tail(replace(TAIL, after=END)))
    assert (0, 0) == replicas.waiting
    assert [("a", replace(PEEK, uuid="p.3"))] == replicas.peek(PEEK).commands
    assert [("a", replace(TAIL, uuid="t.4"))] == replicas.tail(TAIL).commands
    assert [PeekResponse("t", error="the uuid is that of a tail: take another one")] == answers(
        replicas.peek(replace(PEEK, uuid="t"))
    )
    assert [DroppedAt("p", at(0), "the uuid is that of a peek: take another one")] == answers(
        replicas.tail(replace(TAIL, uuid="p"))
    )
    assert (1, 1) == replicas.waiting


def test_a_tail_goes_on_with_whichever_replica_is_further() -> None:
    """Each change once; a batch that leaves something out, or brings nothing new, is not passed on."""
    replicas = made("a", "b")
    replicas.tail(TAIL)
    for one in "ab":
        replicas.receive(one, Frontiers("main", at(9)))
    two, three, five = (RowChange([1], time, 1) for time in (2, 3, 5))

    def batch(replica: str, lower: int, upper: Antichain, *changes: RowChange) -> tuple[list[Any], list[Any]]:
        return sent(replicas.receive(replica, TailResponse("t.1", at(lower), upper, changes)))

    def passed(lower: int, upper: Antichain, *changes: RowChange) -> tuple[list[Any], list[Any]]:
        allow = AllowCompaction("t.1", upper)
        return [("a", allow), ("b", allow)], [TailResponse("t", at(lower), upper, changes)]

    assert passed(0, at(4), two, three) == batch("a", 0, at(4), two, three)
    assert ([], []) == batch("b", 0, at(3), two) and ([], []) == batch("b", 3, at(4), three)
    assert passed(4, at(6), five) == batch("b", 4, at(6), five)
    assert ([], []) == batch("a", 4, at(5))
    assert passed(6, at(7)) == batch("a", 5, at(7), five)
    replicas.disconnect("b")
    own = replace(TAIL, uuid="t.1", after=at(7))
    assert own in [command for _, command in replicas.connect("b").commands]
    with pytest.raises(ConversationError, match="ends a tail of the index 'main', which was not dropped"):
        replicas.receive("a", DroppedAt("t.1", at(7), ""))
    assert passed(7, END) == batch("b", 7, END) and (0, 0) == replicas.waiting
    # It has ended with its index; the uuid is free.
    assert ([], []) == sent(replicas.end_tail("t"))
    assert [("a", replace(TAIL, uuid="t.2")), ("b", replace(TAIL, uuid="t.2"))] == replicas.tail(TAIL).commands


def test_a_batch_from_further_on_is_not_passed_on() -> None:
    """A client has all before it, or it would miss what was left out."""
    replicas = made("a")
    replicas.tail(replace(TAIL, after=at(5)))
    replicas.tail(replace(TAIL, uuid="u", after=at(4)))
    assert [TailResponse("t", at(5), at(7))] == replicas.receive("a", TailResponse("t.1", at(5), at(7))).answers
    assert [TailResponse("u", at(4), at(6))] == replicas.receive("a", TailResponse("u.2", at(4), at(6))).answers


def test_a_tail_that_is_requested_again_replaces_the_one_that_lives() -> None:
    """Without a word about that one, whose batches may be on their way; and it may be ended."""
    replicas = made("a")
    replicas.tail(TAIL)
    again = replace(TAIL, after=at(4))
    assert ([("a", AllowCompaction("t.1", END)), ("a", replace(again, uuid="t.2"))], []) == sent(replicas.tail(again))
    assert [] == answers(replicas.receive("a", TailResponse("t.1", at(0), at(9)))) and (0, 1) == replicas.waiting
    assert ([("a", AllowCompaction("t.2", END))], [DroppedAt("t", END, "its history is complete")]) == sent(
        replicas.tail(replace(TAIL, after=END))
    )
    replicas.tail(TAIL)
    refused = replicas.tail(replace(TAIL, id="other"))
    assert [("a", AllowCompaction("t.3", END))] == refused.commands and 1 == len(refused.answers)
    replicas.tail(TAIL)
    assert ([("a", AllowCompaction("t.5", END))], []) == sent(replicas.end_tail("t"))
    assert ([], []) == sent(replicas.end_tail("t")) == sent(replicas.end_tail("unknown")) and (0, 0) == replicas.waiting
    replicas.peek(PEEK)
    assert ([], []) == sent(replicas.end_tail("p")) and (1, 0) == replicas.waiting


def test_an_index_is_compacted_as_far_as_was_allowed_and_needed() -> None:
    """A catalogue keeps no since that is further than what lives needs."""
    replicas = made("a")
    replicas.peek(replace(PEEK, time=4))
    assert ([("a", AllowCompaction("main", at(6)))], []) == sent(replicas.allow("main", at(6)))
    assert at(6) == replicas.allowed("main") and [replace(MAIN, since=4)] == replicas.indexes
    replicas.cancel("p")
    assert [replace(MAIN, since=6)] == replicas.indexes
    with pytest.raises(ConversationError, match="that goes back from"):
        replicas.allow("main", at(5))
    with pytest.raises(ConversationError, match="the controller was to allow compaction of 't.1', which is no index"):
        replicas.allow("t.1", at(9))
    assert at(6) == replicas.allowed("main")


def test_what_was_requested_of_an_index_that_is_dropped_ends() -> None:
    """And nothing of another; what replicas report of it later is no fault of theirs."""
    replicas = made("a")
    replicas.create(MORE)
    for one in ("main", "more"):
        replicas.peek(replace(PEEK, uuid=f"peek {one}", id=one, time=9))
        replicas.tail(replace(TAIL, uuid=f"tail {one}", id=one, after=at(7)))
    reason = "the index main was dropped"
    assert (
        [("a", AllowCompaction("main", END))],
        [PeekResponse("peek main", error=reason), DroppedAt("tail main", at(7), reason)],
    ) == sent(replicas.allow("main", END))  # fmt: skip
    assert [MORE] == replicas.indexes and (1, 1) == replicas.waiting
    for answer in (PeekResponse("peek main.1", error=reason), DroppedAt("tail main.2", at(7), reason)):
        assert [] == answers(replicas.receive("a", answer))
    for ask in (replicas.upper, replicas.allowed):
        with pytest.raises(KeyError):
            ask("main")
    assert [("a", replace(PEEK, uuid="peek main.5", id="more", time=9))] == replicas.peek(
        replace(PEEK, uuid="peek main", id="more", time=9)
    ).commands
    assert [PeekResponse("peek more")] == replicas.receive("a", PeekResponse("peek more.3")).answers
    assert [TailResponse("tail more", at(7), at(8))] == replicas.receive(
        "a", TailResponse("tail more.4", at(7), at(8))
    ).answers


def test_where_no_replica_is_requests_wait_for_one() -> None:
    replicas = made()
    assert ([], []) == sent(replicas.peek(PEEK)) == sent(replicas.tail(TAIL)) and (1, 1) == replicas.waiting
    commands = [command for _, command in replicas.connect("a").commands]
    assert [replace(PEEK, uuid="p.1"), replace(TAIL, uuid="t.2")] == commands[2:4]
