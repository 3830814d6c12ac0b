"""The scenarios: what may happen to a materialization, each of which its driver must come through.

One fault each, placed at the n-th message of a kind: the instance dies before it, stands still before it, or becomes a
zombie there. Some split the range of keys under a running instance, or join it again. In the end the store must show
the history, once (or at least once, if the driver claims no more).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cdcv2.materialize.protocol.fence import LAST, Range
from cdcv2.materialize.protocol.messages import (
    REQUESTS, RESPONSES, Acknowledge, Acknowledged, Changes, Flush, Load, Loaded, Open, Opened, StartCommit,
    StartedCommit, Store,
)
from cdcv2.testing.stage import ConformanceError, Instance, Stage, Subject
from cdcv2.testing.workload import Workload

_LOWER, _UPPER = Range(0, LAST // 2), Range(LAST // 2 + 1, LAST)


@dataclass(frozen=True)
class Scenario:
    """One thing that may happen."""

    name: str
    play: Callable[[Stage], None]

    def __str__(self) -> str:
        return self.name


def conform(make: Callable[[], Subject], scenario: Scenario) -> None:
    """Play one scenario against a new subject. Raises ConformanceError, and whatever the driver raises."""
    subject = make()
    kind = "delta" if subject.delta else "full" if subject.guarantee == "exactly once" else "sums"
    stage = Stage(subject, Workload(kind))
    try:
        scenario.play(stage)
    finally:
        stage.close()


def scenarios(subject: type[Subject]) -> list[Scenario]:
    """Every scenario that a driver like this has to come through."""
    found = [Scenario("baseline", _baseline), Scenario("again-and-again", _restarted)]
    for kind in (*REQUESTS, *RESPONSES):
        if (subject.delta and kind in (Load, Loaded)) or (kind is Changes and not subject.columns):
            continue
        for nth in _places(kind):
            where = f"{kind.__name__}-{nth}"
            found.append(Scenario(f"crash-at-{where}", _crash(kind, nth)))
            found.append(Scenario(f"stall-at-{where}", _stall(kind, nth)))
            found.append(Scenario(f"zombie-at-{where}", _zombie(kind, nth)))
    found.append(Scenario("crash-every-time", _crash_every_time))
    # Opening, and each change that a transaction makes, twice: none is so small that nothing can come behind it.
    found += [Scenario(f"crash-after-change-{nth}", _crash_after_change(nth)) for nth in range(1, 9)]
    if subject.splits:
        found += [
            Scenario("split-during-store", _split(Store, 25)),
            Scenario("split-during-commit", _split(StartCommit, 4)),
            Scenario("split-after-commit-before-apply", _split(Acknowledge, 4)),
            Scenario("split-lands-on-prepared-transaction", _split(StartedCommit, 4)),
            Scenario("split-before-acknowledged", _split(Acknowledged, 4)),
            Scenario("crash-in-one-half", _crash_in_one_half),
            Scenario("join-after-split", _join),
        ]
    return found


def _places(kind: type[Any]) -> tuple[int, ...]:
    """At which of the messages of the kind a fault is tried."""
    if kind in (Open, Opened):
        return (1,)
    return {Load: (1, 25), Loaded: (1, 8), Store: (1, 25), Flush: (1, 4), Acknowledged: (1, 2, 5)}.get(kind, (1, 2, 4))


def _last_word(stage: Stage) -> None:
    """Somebody comes and finishes what is left; then all of it must be there."""
    outcome = stage.instance().finish()
    if outcome != "done":
        raise ConformanceError(f"an instance that nothing disturbs is {outcome}")
    stage.demand_whole()


def _baseline(stage: Stage) -> None:
    """Nothing happens. A reader who looks after each step sees cuts, and never goes back."""
    one, seen = stage.instance(), 0
    while one.step():
        if stage.subject.consistent:
            seen = stage.demand_cut(seen)
    if one.outcome != "done" or one.runtime.checkpoint.frontier:
        raise ConformanceError(f"the instance is {one.outcome} at {one.runtime.checkpoint.frontier}, not done with all")
    stage.demand_whole()


def _restarted(stage: Stage) -> None:
    """An instance that finds everything done does nothing; it finds the checkpoint as it was committed, all of it."""
    one = stage.instance()
    one.finish()
    again = stage.instance()
    again.finish()
    kept, found = ((it.runtime.checkpoint.state, it.runtime.checkpoint.views) for it in (one, again))
    if kept != found:
        raise ConformanceError(f"state and views of the checkpoint were {kept}, and are {found} to the second instance")
    if again.runtime.transactions or again.runtime.checkpoint.frontier:
        raise ConformanceError(
            f"the second instance went on from {again.runtime.checkpoint.frontier}; the first was done"
        )
    stage.demand_whole()


def _demand_place(stage: Stage, one: Instance, kind: type[Any], nth: int) -> None:
    if not one.until(kind, nth):
        raise ConformanceError(f"there was no {kind.__name__} number {nth}: the instance was {one.outcome} before")
    if stage.subject.consistent:
        stage.demand_cut()


def _crash(kind: type[Any], nth: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        one = stage.instance()
        _demand_place(stage, one, kind, nth)
        one.kill()
        if stage.subject.consistent:
            stage.demand_cut()
        _last_word(stage)

    return play


def _stall(kind: type[Any], nth: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        one = stage.instance(stall=(kind, nth))
        if one.finish() != "done":
            raise ConformanceError(f"an instance that only stood still for a while is {one.outcome}")
        stage.demand_whole()

    return play


def _zombie(kind: type[Any], nth: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        zombie, successor = stage.instance(), stage.instance()
        _demand_place(stage, zombie, kind, nth)
        successor.commit(2)
        before = zombie.runtime.transactions
        zombie.thaw()
        # A store that rules had committed before StartedCommit could be taken note of.
        committed = zombie.runtime.transactions - before - (kind is StartedCommit)
        if committed > 0 and kind is not Open:
            raise ConformanceError(f"the zombie committed {committed} transactions after another had taken its place")
        successor.finish()
        if committed > 0 and successor.outcome != "fenced":
            raise ConformanceError(
                f"two instances committed side by side; the one that came first is {successor.outcome}"
            )
        _last_word(stage)

    return play


def _crash_every_time(stage: Stage) -> None:
    """Each instance dies a little later than the one before: progress is made all the same."""
    for nth in range(1, 60):
        one = stage.instance()
        for _ in range(7 * nth):
            if not one.step():
                break
        if one.outcome == "done":
            break
        one.kill()
    _last_word(stage)


def _crash_after_change(nth: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        one = stage.instance(changes=nth)
        if one.finish() not in ("killed", "done"):
            raise ConformanceError(f"an instance that nothing disturbs is {one.outcome}")
        if stage.subject.consistent:
            stage.demand_cut()
        _last_word(stage)

    return play


def _split(kind: type[Any], nth: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        parent = stage.instance()
        _demand_place(stage, parent, kind, nth)
        halves = [stage.instance(_LOWER), stage.instance(_UPPER)]
        for half in halves:
            half.commit(1)
        before = parent.runtime.transactions
        parent.thaw()
        if parent.outcome != "fenced" and parent.runtime.transactions > before:
            raise ConformanceError("the instance of the whole range went on after its halves had been taken over")
        for half in halves:
            half.commit(1)
        for half in halves:
            if half.finish() != "done":
                raise ConformanceError(
                    f"the instance of one half is {half.outcome}: the other half is not its business"
                )
        stage.demand_whole()

    return play


def _crash_in_one_half(stage: Stage) -> None:
    lower, upper = stage.instance(_LOWER), stage.instance(_UPPER)
    lower.until(StartedCommit, 2)
    upper.until(Store, 9)
    lower.kill()
    upper.commit(1)
    again = stage.instance(_LOWER)
    outcomes = [again.finish(), upper.finish()]
    if outcomes != ["done", "done"]:
        raise ConformanceError(f"after a crash in one half, the halves are {outcomes}")
    stage.demand_whole()


def _join(stage: Stage) -> None:
    """The halves have come to different frontiers when somebody takes over both; thawed, they may do nothing."""
    stage.instance().commit(1)
    lower, upper = stage.instance(_LOWER), stage.instance(_UPPER)
    lower.commit(1)
    upper.commit(4)
    lower.until(StartCommit, 3)
    whole = stage.instance()
    whole.commit(1)
    before = lower.runtime.transactions, upper.runtime.transactions
    outcomes = [lower.thaw(), upper.thaw()]
    after = lower.runtime.transactions, upper.runtime.transactions
    if not {"fenced", "failed"}.issuperset(outcomes) or before != after:
        raise ConformanceError(f"the halves went on after the whole range had been taken over: {outcomes}")
    if whole.finish() != "done":
        raise ConformanceError(f"the instance that joined the halves is {whole.outcome}")
    stage.demand_whole()
