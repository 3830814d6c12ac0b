"""Minters that race for one remap, on logs in memory, one request at a time, in an order that is drawn.

A schedule decides who is next, who crashes (before its request is done, after it, or so that it is done much later),
who gets no answer, whether it was done or not, and who sleeps until all others have continued. The expected result is
worked out by :func:`decided` from everything that was ever in the log, by the rule in plain words, and shares nothing
with `cdcv2`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop, UnavailableError
from cdcv2.timeline.minting import (
    Append, Get, List, Put, Read, RemapLog, Remove, Trim, agree, compact, follow, mint, on_objects, run,
)
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, offsets
from cdcv2.timeline.shared_remap import AcceptedBinding, LogView, SharedRemap
from tests.strategies import Chooser

Place = dict[int, int]
Part = TypeVar("Part")


class Decision(NamedTuple, Generic[Part]):
    """A proposal that won: the times that it decides, where the sources came to, and the recipe."""

    lower: int
    upper: int
    place: dict[Part, int]
    recipe: str


def decided(history: list[bytes]) -> list[Decision[int]]:
    """What wins, of every record that was ever in the log of one topic, in order."""
    return won(history, lambda frontier: {at["at"]: at["time"] for at in frontier if "at" in at})


def won(history: list[bytes], place_of: Callable[[list[Any]], dict[Part, int]]) -> list[Decision[Part]]:
    """The same of other sources; ``place_of`` has where a frontier is, as it is written."""
    done: list[Decision[Part]] = []
    epoch = 0
    for raw in history:
        said = json.loads(raw)
        if said["kind"] == "genesis" and not done:
            done.append(Decision(0, 1, {}, said["recipe"]))
        if said["kind"] != "proposal" or said["epoch"] != epoch or said["lower"] != done[-1].upper:
            continue
        place = place_of(said["frontier"])
        if said["upper"] > said["lower"] and all(place.get(part, 0) >= at for part, at in done[-1].place.items()):
            done.append(Decision(said["lower"], said["upper"], place, said["recipe"] or done[-1].recipe))
            epoch += said["recipe"] is not None
    return done


def held(history: list[bytes]) -> dict[str, int]:
    """What is held after these records, and from which time on."""
    found: dict[str, int] = {}
    for said in map(json.loads, history):
        if said["kind"] == "hold" and said["since"] is None:
            found.pop(said["of"], None)
        elif said["kind"] == "hold":
            found[said["of"]] = max(said["since"], found.get(said["of"], 0))
    return found


def place_at(decisions: list[Decision[int]], time: int) -> Place:
    """Where the sources are at a time: each decision comes into force at the last of its times."""
    return [decision.place for decision in decisions if decision.upper - 1 <= time][-1]


def place_of(frontier: Antichain) -> Place:
    """The offset of each partition that has started."""
    return {time.part: time.time for time in frontier if isinstance(time, Partitioned) and time.time is not None}


class Topic:
    """A log whose places are never used twice. A read may answer with what was there some time ago."""

    steps = 100

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose
        # Everything that was ever appended.
        self.history: list[bytes] = []
        # (first place that is there, place behind the last) after each change.
        self.states = [(0, 0)]

    def wrap(self, minting: Any) -> Any:
        """The minter as this log runs it."""
        return minting

    def perform(self, who: Minter, request: Any) -> Any:
        """Do what is asked, and answer."""
        low, end = self.states[-1]
        if isinstance(request, Read):
            seen = len(self.states) - 1
            if who.seen < seen and self.choose.chance(3):
                seen = self.choose.integer(who.seen, seen)
            who.seen = seen
            low, end = self.states[seen]
            first = max(low, request.after)
            return LogView([(place, self.history[place]) for place in range(first, end)], end)
        if isinstance(request, Append):
            self.history.append(request.raw)
            self.states.append((low, end + 1))
            return end
        assert isinstance(request, Trim)
        self.states.append((max(low, request.before), end))
        return None


class Objects:
    """A log of objects that are put if absent; a number that was removed is free again."""

    steps = 400

    def __init__(self, choose: Chooser) -> None:
        self.there: dict[int, bytes] = {}
        self.history: list[bytes] = []
        # Records that were put where another one had been: no minter may decide on them.
        self.reused = 0

    def wrap(self, minting: Any) -> Any:
        """The minter as this log runs it."""
        return on_objects(minting)

    def perform(self, who: Minter, request: Any) -> Any:
        """Do what is asked, and answer."""
        if isinstance(request, List):
            return list(self.there)
        if isinstance(request, Get):
            return self.there.get(request.number)
        if isinstance(request, Put):
            if request.number in self.there:
                return False
            self.there[request.number] = request.raw
            if request.number < len(self.history):
                self.reused += 1
            else:
                assert request.number == len(self.history), "a number was left out"
                self.history.append(request.raw)
            return True
        assert isinstance(request, Remove)
        return self.there.pop(request.number, None) and None


class Minter:
    """One process: it does some tasks and then ends; restarted, it knows nothing."""

    def __init__(self, name: str, race: Race) -> None:
        self.name, self.race, self.choose = name, race, race.choose
        self.recipe = "v1"
        # What it observes of the sources only grows, for each minter at its own pace.
        self.place: Place = {}
        self.clock = self.choose.integer(0, 5)
        self.starts = 0
        self.restart()

    def restart(self) -> None:
        """Begin, with nothing known but what was observed."""
        self.starts += 1
        # A log's state that it must not see an earlier one than, having seen this one.
        self.seen = 0
        self.shared = SharedRemap(NOT_STARTED, recipe=self.recipe, name=self.name)
        self.asleep = False
        self.stopped = False
        self.life = self.lives(self.choose.integer(1, 3))
        self.request: Any = next(self.life, None)

    def lives(self, tasks: int) -> Generator[Any, Any, None]:
        """Some tasks, one after the other."""
        for _ in range(tasks):
            task = self.task()
            while True:
                try:
                    self.race.note(self, (yield from self.race.log.wrap(task())))
                    break
                except UnavailableError:
                    continue
                except SourceStop:
                    self.stopped = True
                    return

    def task(self) -> Callable[[], Any]:
        """Something to do, as a function that begins it (again)."""
        shared, kind = self.shared, self.choose.integer(0, 9)
        if kind in (0, 3) and shared.has_started:
            since = self.choose.integer(0, shared.remap.last + 2)
            return lambda: compact(shared, since)
        if kind == 1:
            return lambda: follow(shared)
        if kind == 2:
            return lambda: agree(shared, lambda: shared.propose_idle(self.now()))
        if kind == 4 and self.choose.chance(4):
            self.recipe = shared._wanted = self.choose.pick(("v1", "v2"))
            return lambda: agree(shared, lambda: shared.propose_recipe(self.now()))
        if kind == 5 and shared.has_started:
            of, since = self.choose.pick("xy"), self.choose.integer(0, shared.remap.last + 2)
            wanted = None if self.choose.chance(3) else since
            return lambda: agree(shared, lambda: shared.propose_hold(of, wanted))
        part = self.choose.integer(0, 2)
        self.place = {**self.place, part: self.place.get(part, 0) + self.choose.integer(1, 4)}
        observed = offsets(self.place)
        return lambda: self.minted(observed)

    def minted(self, observed: Antichain) -> Iterator[Any]:
        """Mint, and take note that it was done."""
        won = yield from mint(self.shared, observed, self.now)
        self.race.bound.append(observed)
        return won

    def now(self) -> int:
        """A clock of its own, which may stand still or go back."""
        self.clock = max(0, self.clock + self.choose.integer(-1, 4))
        return self.clock

    def step(self) -> None:
        """One request, or a mishap instead."""
        # Reads of objects are many; what matters is what happens around a change.
        changing = isinstance(self.request, (Append, Put, Trim, Remove))
        request, mishap = self.request, self.choose.integer(0, 19 if changing else 150)
        if mishap == 0:
            self.restart()
            return
        if mishap == 1:
            self.race.ghosts.append((self, request))
            self.restart()
            return
        unknown = mishap == 2
        if unknown and self.choose.chance(2):
            answer = None
        else:
            answer = self.race.log.perform(self, request)
        if mishap == 3:
            self.restart()
            return
        try:
            self.request = self.life.throw(UnavailableError("no answer")) if unknown else self.life.send(answer)
        except StopIteration:
            self.request = None


class Race:
    """Some minters on one log, and everything that they learn."""

    def __init__(self, choose: Chooser, kind: type[Topic] | type[Objects], minters: int = 5) -> None:
        self.choose, self.log = choose, kind(choose)
        # Requests of minters that are dead, which are done some time.
        self.ghosts: list[tuple[Minter, Any]] = []
        self.bound: list[Antichain] = []
        self.won: list[AcceptedBinding] = []
        self._judged: tuple[int, list[Decision]] = (0, [])
        self.minters = [Minter(f"m{number}", self) for number in range(minters)]

    def note(self, who: Minter, won: list[AcceptedBinding]) -> None:
        """A minter has learned something: it must be what was decided."""
        self.won += won
        if who.shared.has_started:
            self.judge(who.shared)

    def decisions(self) -> list[Decision]:
        """What was decided by now; worked out again when something was appended."""
        history = self.log.history
        if len(history) != self._judged[0]:
            self._judged = len(history), decided(history)
        return self._judged[1]

    def judge(self, shared: SharedRemap) -> None:
        """Every time that a reader knows, against what was decided."""
        decisions, remap = self.decisions(), shared.remap
        remap.check()
        assert decisions[-1].upper > remap.last, "it knows more than was decided"
        times = range(remap.since, remap.last + 1)
        assert [place_at(decisions, time) for time in times] == [place_of(remap.at(time)) for time in times]
        recipes = {decision.lower: decision.recipe for decision in decisions}
        known = range(max(shared.recipe_at(0).since, remap.since), remap.last + 1)
        assert [recipes[max(lower for lower in recipes if lower <= time)] for time in known] == [
            shared.recipe_at(time).text for time in known
        ]

    def run(self) -> None:
        """Everybody to the end, in an order that is drawn; then the sleepers, and what the dead have left behind."""
        for _ in range(self.choose.integer(20, self.log.steps)):
            awake = [minter for minter in self.minters if minter.request is not None and not minter.asleep]
            if not awake:
                break
            who = self.choose.pick(awake)
            # One that falls asleep when it was about to write may wake when its place is free again.
            if self.choose.chance(15 if isinstance(who.request, (Append, Put)) else 150):
                who.asleep = True
            elif self.ghosts and self.choose.chance(10):
                self.haunt()
            else:
                who.step()
        while self.ghosts:
            self.haunt()
        for minter in self.choose.shuffled(self.minters):
            while minter.request is not None:
                minter.step()
        while self.ghosts:
            self.haunt()

    def haunt(self) -> None:
        """Something that a dead minter had asked for is done now."""
        self.log.perform(*self.ghosts.pop(self.choose.integer(0, len(self.ghosts) - 1)))

    def read(self, shared: SharedRemap) -> list[AcceptedBinding]:
        """What a reader learns who reads the log now, undisturbed."""
        who = self.minters[0]
        reading = self.log.wrap(follow(shared))
        answer: Any = None
        who.seen = len(self.log.states) - 1 if isinstance(self.log, Topic) else 0
        while True:
            try:
                answer = self.log.perform(who, reading.send(answer))
            except StopIteration as done:
                return list(done.value)


def minted_in_threads(opened: Callable[[], RemapLog], last: int) -> list[SharedRemap]:
    """Five that each bind a partition of their own up to an offset at once, one of whom compacts on the way."""
    readers = [SharedRemap(NOT_STARTED, recipe="v1", name=str(number)) for number in range(5)]
    failures: list[BaseException] = []

    def race(number: int) -> None:
        try:
            log = opened()
            for offset in range(1, last + 1):
                run(log, mint(readers[number], offsets({number: offset}), lambda: offset))
                if number == 0 and offset % 3 == 0:
                    run(log, compact(readers[number], readers[number].remap.last - 3))
        except BaseException as error:  # noqa: B036  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failures
    return readers
