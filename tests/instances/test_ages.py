"""When what an answer holds was committed: of an older time, or of a cut batch, not that of what came later."""

from __future__ import annotations

import json
from pathlib import Path

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.instances.commands import CreateIndex, Frontiers, IndexedTable, Peek, PeekResponse, TailResponse
from cdcv2.instances.front import FrontOutput, FrontTerms, InstanceFront
from cdcv2.instances.replicas import ReplicaSet
from cdcv2.instances.requests import PeekRequest, TailRequest
from cdcv2.instances.wire import decode, encode
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.release_times import HEADER, ReleaseTime
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Progress
from tests.market import Market
from tests.serving import served

PATIENCE = 60.0
MAIN = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),))


def release(lsn: int) -> ReleaseTime:
    """A release that was committed as many seconds after 1970 as its LSN states."""
    return ReleaseTime(lsn, lsn * 1000)


def test_a_clock_is_asked_for_what_it_has_passed(monkeypatch: object) -> None:
    """As far as it remembers; before that nothing is known, which is not what came later."""
    clock = CommitClock([])
    for lsn in range(1, 3001):
        header = (HEADER, release(lsn).to_text().encode())
        clock.seen(Entry(Position("t", 0, lsn), Progress([lsn], [lsn + 1], {}), (header,)))
    assert [clock.at([frontier]) for frontier in (3001, 2501, 2500, 3001)] == [3000.0, 2500.0, 2499.0, 3000.0]
    assert clock.at([100]) is None
    clock.seen(Entry(Position("t", 0, 4000), Progress([4000], [4001], {}), ((HEADER, b"{}"),)))
    assert clock.at([5000]) == 3000.0


def answer(out: FrontOutput) -> object:
    return json.loads(out.lines[-1][1])["committed_at"]


def test_an_answer_has_the_age_of_what_it_holds() -> None:
    """Of an older time what the logs have of that; where only replicas read it, what they report with a frontier."""
    front = InstanceFront(
        ReplicaSet("a", [MAIN]), MAIN,
        FrontTerms({"orders": {}}, lambda upper: float((upper.integer or 0) - 1) if upper.integer != 9 else None),
    )
    front.connect("one")
    front.receive("one", Frontiers("main", Antichain([11]), 7.0))
    peeked = [
        answer(front.request(1, PeekRequest("u", {"orders": ((1,),)}, at).to_line()).add(
            front.receive("one", PeekResponse(f"u.{number}", {"orders": ((),)}))))
        for number, at in ((1, 4), (2, 10), (3, None), (4, 8))
    ]  # fmt: skip
    assert peeked == [4.0, 10.0, 10.0, None]
    front.request(2, TailRequest("t", "orders", Antichain([3])).to_line())
    front.connect("two")
    behind = front.receive("two", TailResponse("t.5", Antichain([3]), Antichain([6])))
    assert answer(behind) == 5.0
    topics = InstanceFront(ReplicaSet("a", [MAIN]), MAIN, FrontTerms({"orders": {}}))
    topics.connect("one")
    topics.receive("one", decode(encode(Frontiers("main", Antichain([11]), 7.5))))
    assert topics.committed_at == 7.5
    assert any(isinstance(command, Peek) for _, command in topics.request(
        1, PeekRequest("u", {"orders": ((1,),)}).to_line()).commands)  # fmt: skip


def test_a_batch_that_was_cut_has_no_age_of_what_was_cut_off(tmp_path: Path) -> None:
    market = Market(tmp_path)
    for time in range(2, 6):
        market.log.keep_release(release(time))
    market.reprice(5)
    with served(market.instance, market.place) as place:
        client = cdcv2.connect(place)
        client.peek({"prices": "pear"}, at=5, timeout=PATIENCE)
        [whole], [cut] = ([*client.tail("prices", after=1, timeout=PATIENCE).until(end)] for end in (5, 3))
        found = [client.peek({"prices": "pear"}, at=at, timeout=PATIENCE).committed_at for at in (3, 5, None)]
    assert (whole.committed_at, cut.committed_at) == (5.0, None)
    assert found == [3.0, 5.0, 5.0]
