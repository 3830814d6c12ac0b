"""Random schedules of a controller, its instances and clients, with crashes of each: judged by an oracle of the log.

The oracle is a sum over a list of updates; it knows no arrangement, no since and no history. Connections lose what is
on its way when they break, and deliver late: each message waits in a queue until the schedule takes it out.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.instances.arrangement import TableForm
from cdcv2.instances.commands import (
    CANCELED, LEAST, CreateIndex, DroppedAt, Frontiers, IndexedTable, Peek, PeekResponse, Tail, TailResponse,
)
from cdcv2.instances.instance import IndexInstance
from cdcv2.instances.replicas import Dispatch, ReplicaSet
from cdcv2.instances.wire import decode, encode

TABLES = ("orders", "items")
#: Rows are (key, value).
FORM = TableForm(lambda row: row[0], lambda key: key[0], list)
END = 14
Log = dict[str, list[tuple[Any, int, int]]]


def index_of(name: str = "main", since: int = 0, log: str = "1") -> CreateIndex:
    """An index of both tables."""
    return CreateIndex(name, tuple(IndexedTable(table, ("id",), f"{table} {log}") for table in TABLES), since)


def log_of(random: Random) -> Log:
    """A history of some keys: rows come and go at random times, several of one key, too."""
    log: Log = {table: [] for table in TABLES}
    for table, updates in log.items():
        there: list[Any] = []
        for time in range(END):
            changes = Counter[Any]()
            for _ in range(random.choice((0, 0, 1, 2))):
                if there and random.random() < 0.5:
                    changes[there.pop(random.randrange(len(there)))] -= 1
                else:
                    there.append((random.randrange(3), random.randrange(3)))
                    changes[there[-1]] += 1
            updates.extend((row, time, diff) for row, diff in changes.items() if diff)
    return log


def as_of(log: Log, table: str, key: int, time: int) -> Counter[Any]:
    """What is at a key at a time."""
    found = Counter[Any]()
    for row, at, diff in log[table]:
        if row[0] == key and at <= time:
            found[row] += diff
    return Counter({row: count for row, count in found.items() if count})


def cut(log: Log, lower: Antichain, upper: Antichain) -> Log:
    """The updates of an interval."""
    return {
        table: [one for one in updates if lower.less_equal(one[1]) and not upper.less_equal(one[1])]
        for table, updates in log.items()
    }


@dataclass
class TailClient:
    """What a client of a tail keeps: the changes with the upper, as one thing."""

    request: Tail
    upper: Antichain
    changes: list[tuple[Any, int, int]] = field(default_factory=list)
    ended: str | None = None


class World:
    """A controller, its replicas, the connections between them, and clients."""

    def __init__(self, seed: int, replicas: int) -> None:
        self.random = Random(seed)
        self.log = log_of(self.random)
        self.catalogue = [index_of()]
        self.lives = 0
        self.controller = ReplicaSet("0", self.catalogue)
        self.instances = {f"r{number}": IndexInstance(lambda table: FORM) for number in range(replicas)}
        self.down: dict[str, deque[str]] = {}
        self.up: dict[str, deque[str]] = {}
        self.peeks: dict[str, Peek] = {}
        self.answers: dict[str, PeekResponse] = {}
        self.canceled: set[str] = set()
        self.tails: dict[str, TailClient] = {}
        self.frontiers: dict[str, Antichain] = {}
        self.allowed = 0
        self.counts = Counter[str]()

    # -- the parts ----------------------------------------------------------------------------------------------

    def send(self, outgoing: Dispatch) -> None:
        """The catalogue first, then the commands, as the shell around the controller has to do it."""
        self.catalogue = self.controller.indexes
        for name, command in outgoing.commands:
            self.down[name].append(encode(command))
        for answer in outgoing.answers:
            self.take(answer)

    def take(self, answer: Any) -> None:
        """A client receives an answer."""
        match answer:
            case Frontiers():
                before = self.frontiers.get(answer.id, LEAST)
                assert answer.upper.dominates(before) and answer.upper != before, "a frontier goes back"
                self.frontiers[answer.id] = answer.upper
            case PeekResponse():
                assert answer.uuid in self.peeks and answer.uuid not in self.answers, f"{answer} is a second answer"
                self.answers[answer.uuid] = answer
                self.judge(answer)
            case TailResponse():
                client = self.tails[answer.uuid]
                assert answer.lower == client.upper and client.ended is None, f"{answer} behind {client.upper}"
                client.changes += [(tuple(row), time, diff) for row, time, diff in answer.changes]
                client.upper = answer.upper
                self.counts["batches"] += 1
            case DroppedAt():
                client = self.tails[answer.uuid]
                assert answer.frontier == client.upper, "a tail ended elsewhere"
                client.ended = answer.reason

    def judge(self, answer: PeekResponse) -> None:
        """An answer is what `as_of` gives, or was cancelled."""
        peek = self.peeks[answer.uuid]
        if answer.error == CANCELED:
            assert answer.uuid in self.canceled
            return
        assert answer.error is None, answer.error
        self.counts["answered"] += 1
        for table, keys in peek.keys.items():
            for (key,), rows in zip(keys, answer.rows[table], strict=True):
                assert Counter({tuple(row): count for row, count in rows}) == as_of(self.log, table, key, peek.time)

    def judge_tails(self) -> None:
        """What a client has is what happened beyond where it began and not beyond its upper, each row once."""
        for client in self.tails.values():
            request = client.request
            wanted, had = Counter[Any](), Counter[Any]()
            for row, time, diff in self.log[request.table]:
                if request.after.less_equal(time) and not client.upper.less_equal(time):
                    wanted[row, max(time, request.since) if request.after == LEAST else time] += diff
            for row, time, diff in client.changes:
                had[row, time] += diff
            assert {one: n for one, n in wanted.items() if n} == {one: n for one, n in had.items() if n}
            assert len(client.changes) == len({change[:2] for change in client.changes}), "a batch is not consolidated"

    # -- what happens -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        name = self.random.choice(sorted(self.instances))
        self.disconnect(name)
        self.down[name], self.up[name] = deque(), deque()
        self.instances[name].connect()
        self.send(self.controller.connect(name))

    def disconnect(self, name: str | None = None) -> None:
        name = name or self.random.choice(sorted(self.instances))
        self.down.pop(name, None)
        self.up.pop(name, None)
        self.controller.disconnect(name)

    def deliver(self) -> None:
        queues = [(name, queue) for name, queue in sorted(self.down.items()) if queue]
        if queues:
            name, queue = self.random.choice(queues)
            command = decode(queue.popleft())
            self.up[name].extend(map(encode, self.instances[name].receive(command)))

    def respond(self) -> None:
        queues = [(name, queue) for name, queue in sorted(self.up.items()) if queue]
        if queues:
            name, queue = self.random.choice(queues)
            self.send(self.controller.receive(name, decode(queue.popleft())))

    def read(self) -> None:
        """A replica reads on; the cuts of each are its own."""
        name = self.random.choice(sorted(self.instances))
        instance = self.instances[name]
        for index in instance.indexes:
            at = instance.upper(index).integer
            if at is not None:
                step = self.random.randrange(1, 5)
                self.absorb(name, index, Antichain([at + step] if at + step < END else []))

    def absorb(self, name: str, index: str, upper: Antichain) -> None:
        instance = self.instances[name]
        answers = instance.apply(index, cut(self.log, instance.upper(index), upper), upper)
        if name in self.up:
            self.up[name].extend(map(encode, answers))

    def crash_instance(self) -> None:
        name = self.random.choice(sorted(self.instances))
        self.disconnect(name)
        self.instances[name] = IndexInstance(lambda table: FORM)

    def crash_controller(self) -> None:
        """Its successor has the catalogue; clients connect again by themselves, and request what they wait for."""
        self.lives += 1
        self.down, self.up, self.frontiers = {}, {}, {}
        self.controller = ReplicaSet(str(self.lives), self.catalogue)
        for uuid, peek in self.peeks.items():
            if uuid not in self.answers:
                self.send(self.controller.peek(peek))
        for client in self.tails.values():
            if client.ended is None and client.upper:
                self.send(self.controller.tail(replace(client.request, after=client.upper)))

    def peek(self) -> None:
        uuid = f"p{len(self.peeks)}"
        keys = {
            table: tuple((self.random.randrange(4),) for _ in range(self.random.randrange(3)))
            for table in self.random.sample(TABLES, self.random.randrange(1, 3))
        }
        peek = self.peeks[uuid] = Peek(uuid, "main", keys, self.random.randrange(self.allowed, END + 2))
        self.send(self.controller.peek(peek))

    def repeat(self) -> None:
        """A client repeats what it waits for: its connection broke."""
        waiting = [peek for uuid, peek in self.peeks.items() if uuid not in self.answers]
        if waiting:
            self.send(self.controller.peek(self.random.choice(waiting)))
        clients = [client for client in self.tails.values() if client.ended is None and client.upper]
        if clients:
            client = self.random.choice(clients)
            self.send(self.controller.tail(replace(client.request, after=client.upper)))

    def cancel(self) -> None:
        uuid = f"p{self.random.randrange(len(self.peeks) + 1)}"
        self.canceled.add(uuid)
        self.send(self.controller.cancel(uuid))

    def tail(self) -> None:
        uuid = f"t{len(self.tails)}"
        begin = self.random.choice((None, self.random.randrange(self.allowed + 1, END + 1)))
        after = LEAST if begin is None else Antichain([begin])
        request = Tail(uuid, "main", self.random.choice(TABLES), after, self.random.randrange(self.allowed, END))
        self.tails[uuid] = TailClient(request, after)
        self.send(self.controller.tail(request))

    def allow(self) -> None:
        self.allowed = self.random.randrange(self.allowed, min(self.allowed + 3, END))
        self.send(self.controller.allow("main", Antichain([self.allowed])))

    def finish(self) -> None:
        """All connect and read to the end: then nothing waits."""
        for name in sorted(self.instances):
            self.down[name], self.up[name] = deque(), deque()
            self.instances[name].connect()
            self.send(self.controller.connect(name))
        while any(self.down.values()) or any(self.up.values()):
            self.deliver()
            self.respond()
        for name, instance in sorted(self.instances.items()):
            for index in instance.indexes:
                if instance.upper(index):
                    self.absorb(name, index, Antichain())
        while any(self.down.values()) or any(self.up.values()):
            self.deliver()
            self.respond()
        assert set(self.peeks) == set(self.answers), "a peek was not answered"
        assert all(client.ended is not None or not client.upper for client in self.tails.values())
        assert self.controller.waiting == (0, 0)
        self.judge_tails()


STEPS = {
    World.deliver: 12, World.respond: 12, World.read: 5, World.connect: 3, World.disconnect: 1, World.crash_instance: 1,
    World.crash_controller: 1, World.peek: 3, World.repeat: 1, World.cancel: 1, World.tail: 1, World.allow: 1,
}  # fmt: skip


def run(seed: int, replicas: int, steps: int = 120) -> Counter[str]:
    """One history; returns what it came to. Raises AssertionError where an answer is wrong."""
    world = World(seed, replicas)
    for step in world.random.choices(list(STEPS), list(STEPS.values()), k=steps):
        world.counts[step.__name__] += 1
        step(world)
        world.judge_tails()
    world.finish()
    return world.counts
