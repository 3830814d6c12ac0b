"""What clients are answered, request by request; many at once are drawn in ``test_front.py``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.instances import front as front_module
from cdcv2.instances.commands import (
    LEAST, AllowCompaction, CancelPeek, CreateIndex, Frontiers, IndexedTable, Peek, PeekResponse, RowChange, RowCount,
    Tail, TailResponse,
)
from cdcv2.instances.front import FrontOutput, FrontTerms, InstanceFront
from cdcv2.instances.kept_times import KeptTimes
from cdcv2.instances.replicas import ReplicaSet
from cdcv2.instances.requests import PeekRequest, Request, StatusRequest, TailRequest

TABLES = (IndexedTable("orders", ("id",), "log-1"), IndexedTable("items", ("order", "n"), "log-2"))
MAIN = CreateIndex("main", TABLES, 2)
TERMS = FrontTerms({"orders": {"o": 1}, "items": {"i": 1}}, lambda upper: 10.5 if upper.integer == 5 else None)
PEEK = PeekRequest("p", {"orders": ((7,),)})
TAIL = TailRequest("t", "orders")
END = Antichain()


def at(frontier: int) -> Antichain:
    return Antichain([frontier])


def made(upper: Antichain | None = None, terms: FrontTerms = TERMS, index: CreateIndex = MAIN) -> InstanceFront:
    """A front of one replica, which is that far."""
    front = InstanceFront(ReplicaSet("life", [index]), index, terms)
    front.connect("a")
    if upper is not None:
        front.receive("a", Frontiers("main", upper))
    return front


def ask(front: InstanceFront, client: int, request: Request) -> FrontOutput:
    """The request of a client."""
    return front.request(client, request.to_line())


def shown(out: FrontOutput) -> tuple[list[Any], list[Any], list[int]]:
    """Commands of the one replica, lines as they are read, and who is at the end."""
    assert all(replica == "a" for replica, _ in out.commands)
    lines = [(client, json.loads(line)) for client, line in out.lines]
    return [command for _, command in out.commands], lines, out.over


def wanted(number: int, time: int, uuid: str = "p") -> Peek:
    """What PEEK comes to."""
    return Peek(f"{uuid}.{number}", "main", PEEK.keys, time)


def test_now_is_not_before_what_is_kept() -> None:
    """Of a client that had an answer, from a controller that was started again and is not reported anything yet."""
    front = made(index=replace(MAIN, since=200))

    assert ([wanted(1, 200)], [], []) == shown(ask(front, 1, replace(PEEK, least=100)))


def test_what_asks_for_now_waits_for_the_first_finished_time() -> None:
    """In the order in which it came; what has a time waits for no other."""
    front = made()
    assert ([], [], []) == shown(ask(front, 1, PEEK))
    assert ([wanted(1, 9, "q")], [], []) == shown(ask(front, 2, replace(PEEK, uuid="q", least=9)))
    assert ([wanted(2, 3, "r")], [], []) == shown(ask(front, 3, replace(PEEK, uuid="r", at=3)))
    begun = {"begun": {"upper": [0], "type": {"o": 1}, "log": "log-1"}}
    assert ([], [(4, begun)], []) == shown(ask(front, 4, TAIL))
    assert ([Tail("u.3", "main", "orders", since=4)], [(5, begun)], []) == shown(
        ask(front, 5, replace(TAIL, uuid="u", since=4))
    )
    assert ([Tail("v.4", "main", "orders", at(7), 2)], [(6, begun)], []) == shown(
        ask(front, 6, replace(TAIL, uuid="v", after=at(7)))
    )
    assert ([], [], []) == shown(ask(front, 7, replace(PEEK, uuid="left"))) == shown(front.leave(7))
    assert ([wanted(5, 4), Tail("t.6", "main", "orders", since=4)], [], []) == shown(
        front.receive("a", Frontiers("main", at(5)))
    )
    assert ([], [], []) == shown(front.receive("a", Frontiers("main", at(6))))
    assert ([wanted(7, 5, "s")], [], []) == shown(ask(front, 8, replace(PEEK, uuid="s", least=4)))
    assert {"peeks": 4, "tails": 3} == front.waiting


def test_a_peek_is_answered_with_its_rows_and_what_they_are() -> None:
    front = made(at(5))
    ask(front, 1, PEEK)
    rows = {"orders": ((RowCount([7], 1),),)}
    line = {"rows": {"orders": [[[[7], 1]]]}, "types": {"orders": {"o": 1}}, "time": 4, "upper": [5]}
    line |= {"committed_at": 10.5, "logs": ["log-1", "log-2"]}
    assert ([CancelPeek("p.1")], [(1, line)], [1]) == shown(front.receive("a", PeekResponse("p.1", rows)))
    ask(front, 2, PEEK)
    assert ([CancelPeek("p.2")], [(2, {"fault": "no key"})], [2]) == shown(
        front.receive("a", PeekResponse("p.2", error="no key"))
    )
    front.receive("a", Frontiers("main", END))
    assert [wanted(3, MAX_TIME)] == shown(ask(front, 3, PEEK))[0]
    line = {"rows": {}, "types": {}, "time": None, "upper": [], "committed_at": None, "logs": line["logs"]}
    assert [(3, line)] == shown(front.receive("a", PeekResponse("p.3")))[1]


def test_what_was_committed_is_of_the_time_that_is_answered() -> None:
    """Of an older time it is not that of what is finished by now, which a replica states where its logs do not."""
    front = made(terms=replace(TERMS, committed_at=lambda upper: {4: 40.0, 5: 50.0}.get(upper.integer or 0)))
    front.receive("a", Frontiers("main", at(6), 60.5))
    for number, (time, committed) in enumerate([(5, 60.5), (4, 50.0), (3, 40.0), (2, None)], 1):
        ask(front, number, replace(PEEK, at=time))
        [(_, line)] = shown(front.receive("a", PeekResponse(f"p.{number}", {"orders": ((),)})))[1]
        assert (time, committed) == (line["time"], line["committed_at"])
    ask(front, 9, TAIL)
    lines = [
        line for lower, upper in ((0, 4), (4, 6))
        for _, line in shown(front.receive("a", TailResponse("t.5", at(lower), at(upper))))[1]
    ]  # fmt: skip
    assert [40.0, 60.5] == [line["committed_at"] for line in lines]


def test_a_tail_of_another_log_is_refused() -> None:
    """With both logs, and what to do."""
    front = made(at(5))
    why = (
        "the tail of orders is of the log log-0, and log-1 is here now: its changes are others. Begin again without "
        "--after (after=), and replace what you have by the first batch"
    )
    assert ([], [(1, {"refused": why})], [1]) == shown(ask(front, 1, replace(TAIL, after=at(3), log="log-0")))
    assert [Tail("t.1", "main", "orders", at(3), 4)] == shown(ask(front, 2, replace(TAIL, after=at(3), log="log-1")))[0]


def test_outputs_add_up_in_order() -> None:
    """All that is to be sent, and who is to be resumed."""
    one, two = (FrontOutput([("a", CancelPeek(str(n)))], [(n, "")], [n], [n]) for n in (1, 2))

    added = one.add(two)
    assert [("a", CancelPeek("1")), ("a", CancelPeek("2"))] == added.commands
    assert ([(1, ""), (2, "")], [1, 2], [1, 2]) == (added.lines, added.over, added.more)


def test_batches_of_a_tail_are_lines_up_to_its_end() -> None:
    front = made(at(5))
    assert [Tail("t.1", "main", "orders", since=4)] == shown(ask(front, 1, TAIL))[0]
    line = {"batch": {"lower": [0], "upper": [5], "changes": [[[7], 4, 1]]}, "committed_at": 10.5}
    assert ([AllowCompaction("t.1", at(5))], [(1, line)], []) == shown(
        front.receive("a", TailResponse("t.1", at(0), at(5), (RowChange([7], 4, 1),)))
    )
    front.receive("a", Frontiers("main", END))
    line = {"batch": {"lower": [5], "upper": [], "changes": []}, "committed_at": None}
    assert ([AllowCompaction("t.1", END)], [(1, line)], [1]) == shown(
        front.receive("a", TailResponse("t.1", at(5), END))
    )
    assert ([], [], []) == shown(front.leave(1)) and {"peeks": 0, "tails": 0} == front.waiting
    begun, ended = {"begun": {"upper": [], "type": {"o": 1}, "log": "log-1"}}, {"ended": "its history is complete"}
    assert ([], [(2, begun), (2, ended)], [2]) == shown(ask(front, 2, replace(TAIL, after=END)))
    assert [Tail("t.2", "main", "orders", since=2)] == shown(ask(front, 3, TAIL))[0]


def test_a_tail_that_is_taken_slowly_goes_on_where_it_is() -> None:
    """What waits there is not sent in the meantime."""
    front = made(at(5))
    ask(front, 1, TAIL)
    front.receive("a", TailResponse("t.1", at(0), at(5)))
    assert ([AllowCompaction("t.1", END)], [], []) == shown(front.pause(1))
    assert ([], [], []) == shown(front.pause(1)) == shown(front.pause(7)) == shown(front.resume(7))
    assert ([Tail("t.2", "main", "orders", at(5), 4)], [], []) == shown(front.resume(1))
    assert ([], [], []) == shown(front.resume(1))
    assert ([AllowCompaction("t.2", END)], [], []) == shown(front.pause(1))
    ask(front, 2, PEEK)
    assert ([], [], []) == shown(front.pause(2)) == shown(front.resume(2))
    front = made(at(5), replace(TERMS, kept=KeptTimes(1)))
    ask(front, 1, TAIL)
    front.pause(1)
    front.keep_up(0.0)
    assert [AllowCompaction("main", at(4))] == shown(front.keep_up(1.0))[0]
    front.receive("a", Frontiers("main", at(9)))
    front.keep_up(2.0)
    assert [AllowCompaction("main", at(8))] == shown(front.keep_up(3.0))[0]
    why = "the time 4 is not kept any more: times are kept for 1 seconds (--history), and by now from 8 on"
    assert ([], [(1, {"refused": why})], [1]) == shown(front.resume(1))


def test_times_are_let_go_of_once_they_are_kept_no_longer() -> None:
    """And what asks for one then is refused with the first that is there."""
    front = made(at(5), replace(TERMS, kept=KeptTimes(10)))
    assert [[], [], [AllowCompaction("main", at(4))], []] == [
        shown(front.keep_up(now))[0] for now in (0.0, 9.9, 10.0, 20.0)
    ]
    assert [] == shown(made(at(5)).keep_up(1e9))[0]
    why = "the time 3 is not kept any more: times are kept for 10 seconds (--history), and by now from 4 on"
    assert ([], [(1, {"refused": why})], [1]) == shown(ask(front, 1, replace(PEEK, at=3)))
    assert [wanted(1, 4)] == shown(ask(front, 2, replace(PEEK, at=4)))[0]
    plain = made(at(5))
    why = "the time 1 is not kept any more: times are kept, and by now from 2 on"
    assert ([], [(1, {"refused": why})], [1]) == shown(ask(plain, 1, replace(PEEK, at=1)))
    assert [(2, {"refused": why})] == shown(ask(plain, 2, replace(TAIL, since=1)))[1][1:]


def test_the_first_time_of_all_is_one_that_can_be_asked_for() -> None:
    """It is 0."""
    front = made(at(1), index=replace(MAIN, since=0))
    assert [wanted(1, 0)] == shown(ask(front, 1, PEEK))[0]
    assert [Tail("t.2", "main", "orders")] == shown(ask(front, 2, TAIL))[0]


@pytest.mark.parametrize(("request_", "fault"), [
    (replace(PEEK, keys={"others": ()}), "the table 'others' is not kept here: there are items, orders"),
    (replace(TAIL, table="others"), "the table 'others' is not kept here: there are items, orders"),
    (replace(PEEK, keys={"items": ((1, 2), (1,))}), "items is kept by the columns order, n, and the key has 1 values"),
    (replace(PEEK, lsn=True), "the times of these logs are milliseconds, of a remap, and no LSNs: give a time. cdcv2 "
     "when states at which time a record of a topic was"),
])  # fmt: skip
def test_what_can_never_be_answered_is_a_fault(request_: Request, fault: str) -> None:
    front = made(at(5), replace(TERMS, on_remap=True))
    assert ([], [(1, {"fault": fault})], [1]) == shown(ask(front, 1, request_))
    assert [wanted(1, 4)] == shown(ask(front, 2, PEEK))[0]
    assert [wanted(1, 4)] == shown(ask(made(at(5)), 2, replace(PEEK, lsn=True)))[0]


def test_nothing_is_left_of_a_client_that_leaves() -> None:
    front = made(at(5))
    ask(front, 1, PEEK)
    ask(front, 2, TAIL)
    assert ([CancelPeek("p.1")], [], []) == shown(front.leave(1))
    assert ([AllowCompaction("t.2", END)], [], []) == shown(front.leave(2))
    assert ([], [], []) == shown(front.leave(1)) == shown(front.leave(3))
    assert ([], [], []) == shown(front.receive("a", PeekResponse("p.1")))


def test_a_request_that_is_repeated_is_answered_where_it_came_last() -> None:
    """The same peek goes on; a tail, and another request under the name, begin again."""
    refused = (1, {"refused": "another connection repeats this request, and is answered"})
    front = made()
    ask(front, 1, PEEK)
    assert ([], [refused], [1]) == shown(ask(front, 2, PEEK))
    assert [wanted(1, 4)] == shown(front.receive("a", Frontiers("main", at(5))))[0]
    assert ([], [(2, refused[1])], [2]) == shown(ask(front, 1, PEEK)) and ([], [], []) == shown(front.leave(2))
    other = replace(PEEK, keys={"orders": ()})
    assert ([CancelPeek("p.1"), Peek("p.2", "main", other.keys, 4)], [refused], [1]) == shown(ask(front, 3, other))
    assert [3] == shown(front.receive("a", PeekResponse("p.2")))[2] and {} == front._clients

    ask(front, 1, TAIL)
    begun = (2, {"begun": {"upper": [5], "type": {"o": 1}, "log": "log-1"}})
    assert ([AllowCompaction("t.3", END), Tail("t.4", "main", "orders", at(5), 4)], [refused, begun], [1]) == shown(
        ask(front, 2, replace(TAIL, after=at(5)))
    )


def test_the_status_is_one_line() -> None:
    front = made(at(5))
    ask(front, 1, PEEK)
    status = {"upper": [5], "since": [2], "tables": {"orders": ["id"], "items": ["order", "n"]}, "replicas": ["a"],
              "committed_at": 10.5, "silent": {}, "asked": {}, "marker": None, "faults": {}, "peeks": 1,
              "tails": 0}  # fmt: skip
    assert ([], [(2, {"status": status})], [2]) == shown(ask(front, 2, StatusRequest()))
    front.disconnect("a")
    assert [] == shown(ask(front, 3, StatusRequest()))[1][0][1]["status"]["replicas"]


def test_a_large_batch_is_given_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which only the last one has the upper; between them the tail is paused, and then it goes on behind it."""
    monkeypatch.setattr(front_module, "_PART", 20)
    front = made(at(5))
    ask(front, 1, TAIL)
    changes = tuple(RowChange([number], 4, 1) for number in range(7))
    out = front.receive("a", TailResponse("t.1", LEAST, at(5), changes))
    assert out.more == [1]
    first, second = [[change.row, 4, 1] for change in changes[:2]], [[change.row, 4, 1] for change in changes[2:4]]
    confirmed = AllowCompaction("t.1", at(5))
    assert ([confirmed, AllowCompaction("t.1", END)], [(1, {"part": first})], []) == shown(out)
    # Who is slow is paused already.
    assert ([], [], []) == shown(front.pause(1))
    again = front.resume(1)
    assert ([], [(1, {"part": second})], []) == shown(again) and again.more == [1]
    front.resume(1)
    line = {"batch": {"lower": [0], "upper": [5], "changes": [[[6], 4, 1]]}, "committed_at": 10.5}
    last = front.resume(1)
    assert ([Tail("t.2", "main", "orders", at(5), 4)], [(1, line)], []) == shown(last) and last.more == []
    # The next batch is given from its first change on. Who leaves between two parts of it leaves nothing behind.
    batch = TailResponse("t.2", at(5), at(6), tuple(RowChange([number], 5, 1) for number in range(7)))
    assert [(1, {"part": [[[0], 5, 1], [[1], 5, 1]]})] == shown(front.receive("a", batch))[1]
    front.leave(1)
    assert front.waiting == {"peeks": 0, "tails": 0} and ([], [], []) == shown(front.resume(1))
    # A change is 11 letters long: a part is over once it has so many as one is.
    for letters, number in ((22, 2), (23, 3)):
        monkeypatch.setattr(front_module, "_PART", letters)
        assert number == front_module._changes_text(changes, 0)[1]
    monkeypatch.setattr(front_module, "_PART", 20)
    # The end of the logs comes in parts, too; nothing follows it.
    ask(front, 2, TailRequest("u", "orders", at(5)))
    front.receive("a", TailResponse("u.3", at(5), END, tuple(RowChange([number], 6, 1) for number in range(3))))
    line = {"batch": {"lower": [5], "upper": [], "changes": [[[2], 6, 1]]}, "committed_at": 10.5}
    assert ([], [(2, line)], [2]) == shown(front.resume(2))
