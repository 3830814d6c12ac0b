"""Captures that race for one timeline: same topics, same remap, same logs, one request at a time, as is drawn.

Each capture runs in a thread of its own, and stops before and after everything that it asks of a log, a topic or the
remap, until a schedule lets it go on. There it may be killed, with what it had sent durable, in part, or done much
later; or a request gets no answer, done or not; or it sleeps until the others are through. The topics grow meanwhile,
and another process may compact the remap as far as the captures let it.

What the logs must have is worked out from every record that was ever in the remap, in plain words (:func:`decided`,
:func:`times_of`), and shares nothing with `cdcv2`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from cdcv2.capture import binder
from cdcv2.capture.binder import Binder
from cdcv2.capture.facts import Record
from cdcv2.capture.run.database import Database
from cdcv2.capture.run.on_remap import SharedCapture, run
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForgottenError, UnavailableError
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import Message
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.minting import compact, follow, run as minted
from cdcv2.timeline.ordering import COMMIT_ORDER
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.shared_remap import LogView, SharedRemap
from tests.minters import Decision, won
from tests.strategies import Chooser

Place = tuple[str, int]
PATIENCE = 60


class Killed(BaseException):
    """The process is no more. Not an Exception, so that no handler of the product catches it."""


def decided(history: list[bytes]) -> list[Decision[Place]]:
    """What wins, of every record that was ever in the remap, in order."""
    return won(history, lambda frontier: {
        (at["at"], at["time"]["at"]): at["time"]["time"] for at in frontier if "at" in at and "at" in at["time"]
    })


def times_of(decisions: list[Decision[Place]]) -> Callable[[Place, int], int | None]:
    """The definition: a record happens at the first time at which the topics have come to behind it."""

    def time_of(place: Place, offset: int) -> int | None:
        return next((one.upper - 1 for one in decisions if one.place.get(place, 0) > offset), None)

    return time_of


class World:
    """What outlives every process: topics, remap, logs; and what dead processes had asked for."""

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose
        self.topics: dict[Place, list[Record]] = {}
        # Everything that was ever in the remap; what is before `first` is trimmed.
        self.remap: list[bytes] = []
        self.first = 0
        self.logs: dict[str, list[Message]] = {}
        self.ghosts: list[Callable[[], object]] = []
        self.back = threading.Semaphore(0)
        self.processes: list[Process] = []

    def produce(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> None:
        """One more record."""
        records = self.topics.setdefault((topic, partition), [])
        records.append(Record(topic, partition, len(records), key, value))

    def run(self, grow: Callable[[], bool], turns: int) -> None:
        """Everybody, for some turns, in an order that is drawn; then the sleepers, the dead's wishes, everybody else.

        ``grow`` lets the topics grow, and returns whether they can still.
        """
        growing = True
        for _ in range(turns):
            if growing and self.choose.chance(6):
                growing = grow()
            elif self.ghosts and self.choose.chance(10):
                self.ghosts.pop(self.choose.integer(0, len(self.ghosts) - 1))()
            else:
                awake = [process for process in self.processes if not process.asleep]
                if awake:
                    self.choose.pick(awake).turn()
        while grow():
            pass
        for process in self.choose.shuffled(self.processes):
            process.asleep = False
            while process.lives:
                process.turn(calm=True)
            if self.ghosts:
                self.ghosts.pop(0)()
        for ghost in self.ghosts:
            ghost()

    def race(self, live: Callable[[Process], None], grow: Callable[[], bool], turns: int) -> None:
        """Some captures that live so, and perhaps somebody who compacts; then one more, undisturbed.

        That one finds everything as the others have left it. Raises what ended any of them.
        """
        choose = self.choose
        self.processes = [Process(self, f"c{at}", live, choose.integer(1, 4)) for at in range(choose.integer(2, 3))]
        if choose.chance(2):
            self.processes.append(Process(self, "compacting", compacting, choose.integer(1, 9)))
        try:
            with mock.patch.object(binder, "HOLD_EVERY", choose.integer(0, 9)):
                self.run(grow, turns)
                last = Process(self, "last", live, 1)
                self.processes.append(last)
                last.turn()
                while last.lives:
                    last.turn(calm=True)
        finally:
            self.close()
        for error in [error for process in self.processes for error in process.failed]:
            raise error

    def close(self) -> None:
        """Kill every process that still lives."""
        for process in self.processes:
            while process.lives:
                process.mishap = "killed"
                process.step()


class Process:
    """One capture, over and over: each life runs ``live`` to its end, or dies."""

    def __init__(self, world: World, name: str, live: Callable[[Process], None], lives: int) -> None:
        self.world, self.name, self.live, self.left = world, name, live, lives
        self.go = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.asleep = False
        self.mishap: str | None = None
        self.clock = world.choose.integer(0, 5)
        #: What ended a life that was neither killed nor left without an answer.
        self.failed: list[BaseException] = []

    def now(self) -> int:
        """A clock of its own, which may stand still or go back."""
        self.clock = max(0, self.clock + self.world.choose.integer(-1, 4))
        return self.clock

    @property
    def lives(self) -> bool:
        """Whether it is at work."""
        return self.thread is not None

    def turn(self, calm: bool = False) -> None:
        """Let it do its next request, or something worse."""
        if self.thread is None:
            if not self.left:
                return
            self.left -= 1
            self.thread = threading.Thread(target=self._life, daemon=True)
            self.thread.start()
            self._wait()
            return
        if not calm and self.world.choose.chance(40):
            self.asleep = True
            return
        drawn = 99 if calm else self.world.choose.integer(0, 60)
        self.mishap = {0: "killed", 1: "unknown", 2: "later"}.get(drawn)
        self.step()

    def step(self) -> None:
        """Up to its next request."""
        self.go.release()
        self._wait()

    def _wait(self) -> None:
        assert self.world.back.acquire(timeout=PATIENCE), "a capture hangs"

    def _life(self) -> None:
        try:
            self.live(self)
        except (Killed, UnavailableError, ForgottenError):
            # One whose remap was compacted while it slept begins again, as one that follows does.
            pass
        except BaseException as error:
            self.failed.append(error)
        finally:
            self.thread = None
            self.world.back.release()

    def stop(self) -> str | None:
        """Called in its thread, at each request: wait, and learn what happens with it; raises Killed."""
        self.world.back.release()
        assert self.go.acquire(timeout=PATIENCE), "the schedule has left a capture alone"
        mishap, self.mishap = self.mishap, None
        if mishap == "killed":
            raise Killed
        return mishap


class RacingRemap:
    """The remap as one process reaches it."""

    name = "remap"

    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    def place(self, number: int) -> str:
        """For people."""
        return f"remap[0]@{number}"

    def read(self, after: int) -> LogView:
        """As :class:`~cdcv2.timeline.minting.RemapLog`."""
        self._process.stop()
        end = len(self._world.remap)
        places = range(max(after, self._world.first), end)
        return LogView([(place, self._world.remap[place]) for place in places], end)

    def append(self, raw: bytes, after: int) -> int:
        """The same."""
        mishap = self._process.stop()
        if mishap == "later":
            self._world.ghosts.append(lambda: self._world.remap.append(raw))
            raise Killed
        if mishap == "unknown":
            if self._world.choose.chance(2):
                self._world.remap.append(raw)
            raise UnavailableError("no answer")
        self._world.remap.append(raw)
        place = len(self._world.remap) - 1
        self._process.stop()
        return place

    def trim(self, before: int) -> None:
        """The same."""
        def done() -> None:
            self._world.first = max(self._world.first, before)

        mishap = self._process.stop()
        if mishap == "later":
            self._world.ghosts.append(done)
            raise Killed
        done()


def compacting(process: Process) -> None:
    """Forget all that has no hold."""
    log, shared = RacingRemap(process), SharedRemap(name=process.name)
    minted(log, follow(shared))
    if shared.has_started and shared.holds:
        minted(log, compact(shared, shared.remap.last))


def begun(process: Process, bound: BoundRecipe, topics: frozenset[str], most: int) -> tuple[Binder, RacingRanges]:
    """What binds for a capture with sizes of its own, after a first look at the topics, and how far these are."""
    choose, ranges = process.world.choose, RacingRanges(process, topics)
    made = Binder(
        RacingRemap(process), bound, topics=topics, now=process.now, name=process.name,
        at_most=choose.integer(1, most), idle=choose.pick((None, 3)), of="logs",
    )
    made.begin(ranges.look())
    return made, ranges


def capturing(how: Recipe, bound: BoundRecipe, ordering: str = COMMIT_ORDER) -> Callable[[Process], None]:
    """What a capture of a database does from its start until what the topics hold is written."""
    def live(process: Process) -> None:
        made, ranges = begun(process, bound, frozenset(how.topics()), 30)
        writers = TableWriters({table: RacingLog(process, table) for table in how.tables})
        temp = RacingLog(process, "temp")
        output = Database(how, writers, (temp, Writer(temp)), ordering=ordering)
        run(SharedCapture(made, ranges, [output], at_most=process.world.choose.integer(1, 40)), made)

    return live


class RacingRanges:
    """The topics as one process reaches them."""

    def __init__(self, process: Process, topics: frozenset[str]) -> None:
        self._process, self._topics = process, topics

    def _records(self) -> Mapping[Place, list[Record]]:
        return {place: records for place, records in self._process.world.topics.items() if place[0] in self._topics}

    def look(self) -> TopicExtents:
        """As :class:`~cdcv2.capture.topics.Ranges`."""
        self._process.stop()
        return TopicExtents({place: (0, len(records)) for place, records in self._records().items()})

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The same, partitions in any order."""
        self._process.stop()
        for place in self._process.world.choose.shuffled(sorted(ranges)):
            low, high = ranges[place]
            assert high <= len(self._records().get(place, [])), "it reads what is not there"
            yield from self._records().get(place, [])[low:high]


class RacingLog:
    """A log as one process reaches it: what it has sent is durable in part when it dies."""

    def __init__(self, process: Process, table: str) -> None:
        self._process, self.name = process, table
        self._durable = process.world.logs.setdefault(table, [])
        self._sent: list[Message] = []

    def canonical(self, data: Any) -> Any:
        """Rows are canonical already."""
        return data

    def send(self, message: Message) -> None:
        """Buffer it."""
        self._sent.append(message)

    def flush(self) -> None:
        """Make it durable; or some of it, or later."""
        choose, sent = self._process.world.choose, self._sent
        self._sent = []
        mishap = self._process.stop()
        if mishap == "later":
            self._process.world.ghosts.append(lambda: self._durable.extend(choose.shuffled(sent)))
            raise Killed
        if mishap == "unknown":
            self._durable.extend(choose.shuffled(sent)[choose.integer(0, len(sent)):])
            raise UnavailableError("no answer")
        self._durable.extend(sent)
        self._process.stop()

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """To the end as it is now."""
        self._process.stop()
        for offset, message in enumerate(list(self._durable)):
            yield Entry(Position(self.name, 0, offset), message)

    def ends(self) -> Positions:
        """Behind the last."""
        return {0: len(self._durable)}

    def close(self) -> None:
        """Forget what was sent."""
        self._sent = []
