"""What clients are answered: by random schedules against a sum over the log, and what must not be left of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import LEAST
from cdcv2.instances.front import FrontOutput, FrontTerms, InstanceFront
from cdcv2.instances.instance import IndexInstance
from cdcv2.instances.kept_times import KeptTimes
from cdcv2.instances.replicas import ReplicaSet
from cdcv2.instances.requests import PeekRequest, StatusRequest, TailRequest, request_of
from tests.instance_schedules import END, FORM, TABLES, as_of, cut, index_of, log_of

GOLDEN = Path(__file__).parent.parent / "golden" / "instances" / "requests.jsonl"
REQUESTS = [
    PeekRequest("p1", {"orders": ((42,), ("Zoë",)), "items": ((1, None),)}),
    PeekRequest("p2", {"orders": ((42,),)}, at=9),
    PeekRequest("p3", {"orders": ((42,),)}, least=25, lsn=True),
    TailRequest("t1", "orders"),
    TailRequest("t2", "orders", Antichain([10])),
    TailRequest("t3", "orders", since=7),
    TailRequest("t4", "orders", Antichain([10]), log="log-1"),
    StatusRequest(),
]


def test_requests_are_written_as_they_were() -> None:
    """A client and an instance of two versions understand each other only by this."""
    assert [request.to_line() for request in REQUESTS] == GOLDEN.read_bytes().splitlines(keepends=True)
    assert [request_of(request.to_line()) for request in REQUESTS] == REQUESTS


def test_what_a_client_has_seen_goes_with_its_request() -> None:
    """With the logs that it saw. A client that has seen nothing sends what older ones do."""
    request = PeekRequest("p4", {"orders": ((42,),)}, least=25, seen=31, logs=("orders-1", "items-1"))
    plain = {"uuid": "p4", "keys": {"orders": [[42]]}, "at": None, "least": 25, "lsn": False}

    assert {"peek": {**plain, "seen": 31, "logs": ["orders-1", "items-1"]}} == json.loads(request.to_line())
    assert request == request_of(request.to_line())
    assert {"peek": plain} == json.loads(replace(request, seen=0).to_line())


@pytest.mark.parametrize(("seen", "least", "logs", "expected"), [
    (9, 5, {"b", "c"}, 9), (9, 5, {"c"}, 5), (9, 5, set(), 5), (5, 9, {"a"}, 9), (9, 5, {"a", "b"}, 9),
])  # fmt: skip
def test_what_was_seen_counts_over_one_of_its_logs(seen: int, least: int, logs: set[str], expected: int) -> None:
    """Over others a time means something else."""
    assert expected == PeekRequest("p", {}, least=least, seen=seen, logs=("a", "b")).least_over(logs)


@pytest.mark.parametrize("line", [
    '{"peek": {"uuid": "a", "keys": {}, "at": null, "least": 0, "lsn": false, "seen": 1, "logs": [7]}}',
    '{"peek": {"uuid": "a", "keys": {}, "at": null, "least": 0, "lsn": false, "seen": 1, "logs": "orders"}}',
    '{"peek": {"uuid": "a", "keys": {}, "at": null, "least": 0, "lsn": false, "seen": -1, "logs": []}}',
    "", "{}", "[]", '{"peek": {}}', '{"none": {}}', '{"status": {"more": 1}}', '{"status": {}, "tail": {}}',
    '{"peek": {"uuid": "a", "keys": {"orders": [7]}, "at": null, "least": 0, "lsn": false}}',
    '{"peek": {"uuid": "a", "keys": {"orders": [[7]]}, "at": -1, "least": 0, "lsn": false}}',
    '{"peek": {"uuid": "a", "keys": {"orders": [[7]]}, "at": null, "least": null, "lsn": false}}',
    '{"peek": {"uuid": 1, "keys": {}, "at": null, "least": 0, "lsn": false}}',
    '{"tail": {"uuid": "a", "table": "orders", "after": 7, "since": null}}',
    '{"tail": {"uuid": "a", "table": "orders", "after": [true], "since": null}}',
    '{"tail": {"uuid": "a", "table": "orders", "after": [4, 5], "since": null}}',
    '{"CreateInstance": {"nonce": "a"}}',
])  # fmt: skip
def test_what_is_no_request_is_a_fault_and_leaves_nothing(line: str) -> None:
    world = FrontWorld(1)
    with pytest.raises(MalformedError):
        request_of(line.encode() + b"\n")
    world.perform(world.front.request(1, line.encode() + b"\n"))
    assert "fault" in world.lines[1][0] and world.over == {1}
    assert world.front._clients == {}


class FrontWorld:
    """A front before one instance, which obeys at once, and the clients of it."""

    def __init__(self, seed: int, kept: float | None = None) -> None:
        self.random = Random(seed)
        self.log = log_of(self.random)
        self.instance = IndexInstance(lambda table: FORM)
        self.replicas = ReplicaSet("a", [index_of()])
        terms = FrontTerms(dict.fromkeys(TABLES, "type"), kept=None if kept is None else KeptTimes(kept))
        self.front = InstanceFront(self.replicas, index_of(), terms)
        self.lines: dict[int, list[Any]] = {}
        self.over: set[int] = set()
        self.requests: dict[int, Any] = {}
        self.now, self.number = 0.0, 0
        self.counts = Counter[str]()
        self.perform(self.front.connect("self"))

    def perform(self, out: FrontOutput) -> None:
        outputs = [out]
        while outputs:
            out = outputs.pop(0)
            for replica, command in out.commands:
                outputs += [self.front.receive(replica, answer) for answer in self.instance.receive(command)]
            for client, line in out.lines:
                assert client not in self.over, "a line behind the last one"
                self.lines.setdefault(client, []).append(json.loads(line))
            self.over |= set(out.over)

    def ask(self, request: Any) -> int:
        self.number += 1
        self.requests[self.number] = request
        self.perform(self.front.request(self.number, request.to_line()))
        return self.number

    def read(self, upper: Antichain | None = None) -> None:
        at = self.instance.upper("main")
        if at.integer is None:
            return
        beyond = at.integer + self.random.randrange(1, 4)
        upper = upper if upper is not None else Antichain([beyond]) if beyond < END else Antichain()
        for answer in self.instance.apply("main", cut(self.log, at, upper), upper):
            self.perform(self.front.receive("self", answer))

    # -- steps --------------------------------------------------------------------------------------------------

    def peek(self) -> None:
        at = self.random.choice((None, None, self.random.randrange(END)))
        least = self.random.choice((0, self.random.randrange(END))) if at is None else 0
        keys = {table: tuple((self.random.randrange(4),) for _ in range(2)) for table in TABLES}
        self.ask(PeekRequest(f"p{self.number}", keys, at, least))

    def repeat(self) -> None:
        """A client connects a second time, before its first connection is found to be over."""
        waiting = sorted(self.front._clients)
        if waiting:
            before = self.random.choice(waiting)
            request = self.requests[before]
            if isinstance(request, TailRequest) and self.batches(before):
                request = TailRequest(request.uuid, request.table, self.upper_of(before))
            self.ask(request)
            assert before in self.over

    def tail(self) -> None:
        after = self.random.choice((LEAST, Antichain([self.random.randrange(1, END)])))
        since = self.random.choice((None, self.random.randrange(END))) if after == LEAST else None
        self.ask(TailRequest(f"t{self.number}", self.random.choice(TABLES), after, since))

    def leave(self) -> None:
        waiting = sorted(self.front._clients)
        if waiting:
            client = self.random.choice(waiting)
            self.over.add(client)
            self.perform(self.front.leave(client))

    def pause(self) -> None:
        waiting = sorted(self.front._clients)
        if waiting:
            self.perform(self.front.pause(self.random.choice(waiting)))

    def resume(self) -> None:
        for client in sorted(self.front._clients):
            self.perform(self.front.resume(client))

    def keep_up(self) -> None:
        self.now += self.random.randrange(4)
        self.perform(self.front.keep_up(self.now))

    # -- judging ------------------------------------------------------------------------------------------------

    def batches(self, client: int) -> list[Any]:
        return [line["batch"] for line in self.lines.get(client, ()) if "batch" in line]

    def upper_of(self, client: int) -> Antichain:
        found = self.batches(client)
        return Antichain(found[-1]["upper"]) if found else self.requests[client].after

    def judge(self) -> None:
        for client, lines in self.lines.items():
            request = self.requests[client]
            if isinstance(request, PeekRequest):
                assert len(lines) == 1 and client in self.over
                self.judge_peek(request, lines[0])
            else:
                self.judge_tail(client, request)

    def judge_peek(self, request: PeekRequest, line: Any) -> None:
        if "refused" in line:
            self.counts["refused"] += 1
            return
        time = MAX_TIME if line["time"] is None else line["time"]
        assert time == request.at if request.at is not None else time >= request.least
        self.counts["peeks"] += 1
        for table, keys in request.keys.items():
            for (key,), rows in zip(keys, line["rows"][table], strict=True):
                assert Counter({tuple(row): count for row, count in rows}) == as_of(self.log, table, key, time)

    def judge_tail(self, client: int, request: TailRequest) -> None:
        at, had, wanted = request.after, Counter[Any](), Counter[Any]()
        for batch in self.batches(client):
            assert Antichain(batch["lower"]) == at
            at = Antichain(batch["upper"])
            had.update({(tuple(row), time): diff for row, time, diff in batch["changes"]})
        least = min((time for _, time in had), default=0) if request.since is None else request.since
        for row, time, diff in self.log[request.table]:
            if request.after.less_equal(time) and not at.less_equal(time):
                wanted[row, max(time, least) if request.after == LEAST else time] += diff
        self.counts["batches"] += len(self.batches(client))
        if request.since is None and request.after == LEAST:
            # Where it began is the front's choice; what is there in the end is not.
            had, wanted = (summed(one) for one in (had, wanted))
        assert {one: diff for one, diff in had.items() if diff} == {one: diff for one, diff in wanted.items() if diff}


def summed(changes: Counter[Any]) -> Counter[Any]:
    found = Counter[Any]()
    for (row, _), diff in changes.items():
        found[row] += diff
    return found


STEPS = {
    FrontWorld.read: 4, FrontWorld.peek: 4, FrontWorld.tail: 2, FrontWorld.repeat: 2, FrontWorld.leave: 1,
    FrontWorld.pause: 1, FrontWorld.resume: 1, FrontWorld.keep_up: 2,
}  # fmt: skip


def test_clients_are_answered_as_the_log_sums_up() -> None:
    """Also where some leave, repeat or are slow, and old times go. Then nothing is left of any of them."""
    counts = Counter[str]()
    for seed in range(150):
        world = FrontWorld(seed, kept=None if seed % 2 else 3.0)
        for step in world.random.choices(list(STEPS), list(STEPS.values()), k=40):
            step(world)
        world.judge()
        world.resume()
        world.read(Antichain())
        world.judge()
        assert world.front._clients == {} and world.front._numbers == {} and world.front._unplaced == {}, seed
        assert world.replicas.waiting == (0, 0) and world.instance._peeks == {} and world.instance._tails == {}
        answered = {client for client in world.requests if client in world.over}
        assert answered == set(world.requests), seed
        counts += world.counts
    assert min(counts[name] for name in ("refused", "peeks", "batches")) > 100, counts


def test_ten_thousand_peeks_for_a_time_that_does_not_come_leave_nothing() -> None:
    """Their clients go away before a time is finished, and after one is."""
    world = FrontWorld(3)
    for finished in (False, True):
        for number in range(5_000):
            at = None if not finished and number % 2 else 10**9
            client = world.ask(PeekRequest(f"u{number}", {"orders": ((1,),)}, at))
            world.perform(world.front.leave(client))
        world.read(Antichain([5]))
    world.lines.clear()
    for kept in (world.front, world.replicas, world.replicas._own, world.instance, world.instance._session):
        assert all(len(value) <= 10 for value in vars(kept).values() if hasattr(value, "__len__")), kept


def test_tails_that_ended_leave_no_more_names_than_a_session_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcv2.instances.stages._DROPPED", 30)
    world = FrontWorld(3)
    world.read(Antichain([5]))
    for number in range(50):
        world.perform(world.front.leave(world.ask(TailRequest(f"u{number}", "orders"))))
    assert len(world.replicas._own._dropped) == len(world.instance._session._dropped) == 30


def test_a_time_that_is_not_kept_is_refused_with_what_is() -> None:
    world = FrontWorld(5, kept=10)
    world.read(Antichain([6]))
    for now in (0.0, 12.0):
        world.perform(world.front.keep_up(now))
        world.read(Antichain([9]))
    text = "the time 3 is not kept any more: times are kept for 10 seconds (--history), and by now from 5 on"
    requests = (PeekRequest("p", {"orders": ((1,),)}, 3), TailRequest("t", "orders", Antichain([4])),
                TailRequest("u", "orders", since=3))
    for request in requests:
        client = world.ask(request)
        assert world.lines[client][-1] == {"refused": text} and client in world.over
    assert world.instance._indexes["main"].arrangement.since == 5
    assert "rows" in world.lines[world.ask(PeekRequest("q", {"orders": ((1,),)}, 5))][0]


def test_an_lsn_is_no_time_of_a_remap() -> None:
    world = FrontWorld(5)
    world.front._terms = FrontTerms(dict.fromkeys(TABLES, "type"), on_remap=True)
    client = world.ask(PeekRequest("p", {"orders": ((1,),)}, None, 5, True))
    assert "milliseconds, of a remap, and no LSNs" in world.lines[client][0]["fault"]


def test_the_status_states_how_far_it_is() -> None:
    world = FrontWorld(5)
    world.read(Antichain([9]))
    world.ask(PeekRequest("p", {"orders": ((1,),)}, 50))
    client = world.ask(StatusRequest())
    assert world.lines[client] == [{"status": {
        "upper": [9], "since": [0], "tables": {"orders": ["id"], "items": ["id"]}, "replicas": ["self"],
        "committed_at": None, "silent": {}, "asked": {}, "marker": None, "faults": {}, "peeks": 1, "tails": 0,
    }}]  # fmt: skip
