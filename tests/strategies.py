"""Histories, logs of them, and everything a log may suffer, drawn at random.

One generator serves two drivers: `Seeded`, for thousands of cheap cases, and Hypothesis, for fewer that shrink.
Both only ever choose an integer, so whatever the one can reach, the other can.

A log is drawn in the oracle's own plain terms (tuples as times, `Told` and `Said` as messages) and built into
real messages last, so that mangling and corrupting here share nothing with `cdcv2.protocol.mangle`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from cdcv2.core.order import Product
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.oracle import Frontier, Said, Time, Told, at_least, beyond, least

T = TypeVar("T")

DATA: tuple[Any, ...] = ("a", "b", "c", None, ("t", None, 1), 10**30, "", (), -7, b"\x00", frozenset({1}))
TOPS = {1: 7, 2: 4, 3: 2}
LARGEST = 2**63 - 1


class Chooser:
    """Choices, all made of one: an integer between two others."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.integer(0, len(items) - 1)]

    def chance(self, one_in: int) -> bool:
        """True once in `one_in`."""
        return self.integer(0, one_in - 1) == one_in - 1

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """`items` in any order; the first choices of each integer keep the order."""
        rest, done = list(items), []
        while rest:
            done.append(rest.pop(self.integer(0, len(rest) - 1)))
        return done

    def chunks(self, items: Sequence[T]) -> list[list[T]]:
        """`items` cut into runs, the order kept."""
        done, at = [], 0
        while at < len(items):
            size = self.integer(1, len(items) - at)
            done.append(list(items[at:at + size]))
            at += size
        return done


def seeded(seed: int) -> Chooser:
    """Choices that a seed decides."""
    return Chooser(random.Random(seed).randint)


@st.composite
def choosers(draw: Callable[[Any], Any]) -> Chooser:
    """Choices that Hypothesis makes and shrinks."""
    return Chooser(lambda low, high: draw(_integers(low, high)))


#: A strategy is looked up for each choice, of which a test makes thousands; Hypothesis takes as long to make one.
_integers = cache(st.integers)


@dataclass(frozen=True)
class History:
    """What happened, and a log of it that a careful writer might have left; all in plain terms."""

    dims: int
    start: tuple[Time, ...]
    truth: dict[Time, dict[Any, int]]
    log: tuple[Told | Said, ...]

    def said(self, lower: Iterable[Time], upper: Iterable[Time]) -> Said:
        """The true statement about an interval."""
        return true_statement(self.truth, lower, upper)


def times(choose: Chooser, dims: int) -> Time:
    """A time of the small grid."""
    return tuple(choose.integer(0, TOPS[dims]) for _ in range(dims))


def antichains(choose: Chooser, dims: int) -> Frontier:
    """A frontier of one to three elements."""
    return least(times(choose, dims) for _ in range(choose.integer(1, 1 if dims == 1 else 3)))


def lifted(lower: Iterable[Time], by: Iterable[Time]) -> Frontier:
    """A frontier beyond `lower`: each element raised to at least each of `by`."""
    by = tuple(by)
    return least(tuple(map(max, low, up)) for low in lower for up in by)


def true_statement(truth: dict[Time, dict[Any, int]], lower: Iterable[Time], upper: Iterable[Time]) -> Said:
    """The statement about [lower, upper) that a history makes true."""
    lower, upper = tuple(lower), tuple(upper)
    within = {time: rows for time, rows in truth.items() if beyond(lower, time) and not beyond(upper, time)}
    return Said(lower, upper, {time: len(rows) for time, rows in within.items()})


def histories(choose: Chooser, dims: int) -> History:
    """A history, and a log with one to three chains of statements about it; the first from the start, the others from
    anywhere."""
    truth: dict[Time, dict[Any, int]] = {}
    for _ in range(choose.integer(0, 8)):
        diff = choose.integer(-2, 2) or LARGEST
        truth.setdefault(times(choose, dims), {})[choose.pick(DATA)] = diff
    start = tuple(antichains(choose, dims)) if choose.chance(3) else ((0,) * dims,)
    statements: list[Said] = []
    for chain in range(choose.integer(1, 3)):
        lower: Frontier = frozenset(start) if chain == 0 else antichains(choose, dims)
        for _ in range(choose.integer(0, 4)):
            upper = lifted(lower, antichains(choose, dims))
            statements.append(true_statement(truth, lower, upper))
            lower = upper
        if choose.chance(2):
            statements.append(true_statement(truth, lower, ()))
    updates = [(data, time, diff) for time, rows in sorted(truth.items()) for data, diff in rows.items()]
    told = [Told(*chunk) for chunk in choose.chunks(updates)]
    if told and choose.chance(5):
        del told[choose.integer(0, len(told) - 1)]
    whole = History(dims, start, truth, (*told, *statements))
    return magnified(whole) if choose.chance(8) else whole


def magnified(history: History) -> History:
    """The same history at the far end of time: each coordinate but 0 is near the largest there is."""

    def far(time: Time) -> Time:
        return tuple(x and LARGEST - (TOPS[history.dims] - x) * 10**17 for x in time)

    def moved(message: Told | Said) -> Told | Said:
        if isinstance(message, Told):
            return Told(*((data, far(time), diff) for data, time, diff in message.updates))
        return Said(map(far, message.lower), map(far, message.upper), {far(time): n for time, n in message.counts})

    return History(history.dims, tuple(map(far, history.start)), {far(t): rows for t, rows in history.truth.items()},
                   tuple(map(moved, history.log)))


def mangled(choose: Chooser, log: Iterable[Told | Said]) -> list[Told | Said]:
    """A log with its facts repeated, reordered and stated in other batches and other intervals."""
    updates: list[tuple[Any, Time, int]] = []
    statements: list[Said] = []
    for message in log:
        for _ in range(1 + choose.chance(3)):
            if isinstance(message, Told):
                updates.extend(message.updates)
            elif choose.chance(3):
                statements.extend(split(choose, message))
            else:
                statements.append(message)
    told = [Told(*chunk) for chunk in choose.chunks(choose.shuffled(updates))]
    return choose.shuffled([*told, *merged(choose, statements)])


def split(choose: Chooser, said: Said) -> list[Said]:
    """One statement as two that mean the same together, and perhaps a third about a part of it."""
    dims = len(said.lower[0])
    middle = lifted(said.lower, antichains(choose, dims))
    parts = [cut(said, said.lower, least(middle | set(said.upper))), cut(said, middle, lifted(middle, said.upper))]
    if choose.chance(2):
        again = lifted(said.lower, antichains(choose, dims))
        parts.append(cut(said, again, lifted(again, said.upper)))
    return parts


def cut(said: Said, lower: Iterable[Time], upper: Iterable[Time]) -> Said:
    """A statement about [lower, upper), which lies inside that of `said`."""
    lower, upper = tuple(lower), tuple(upper)
    return Said(lower, upper, {time: n for time, n in said.counts if beyond(lower, time) and not beyond(upper, time)})


def merged(choose: Chooser, statements: list[Said]) -> list[Said]:
    """Here and there two statements as one, where the one ends as the other begins."""
    done: list[Said] = []
    for said in statements:
        before = next((one for one in done if set(one.upper) == set(said.lower)), None)
        if before is not None and choose.chance(3):
            done.remove(before)
            said = Said(before.lower, said.upper, dict(before.counts) | dict(said.counts))
        done.append(said)
    return done


def corrupted(choose: Chooser, log: Sequence[Told | Said]) -> list[Told | Said]:
    """A log with one to three lies in it, of every kind that the protocol can notice."""
    done = list(log)
    for _ in range(choose.integer(1, 3)):
        told = [message for message in done if isinstance(message, Told)]
        said = [message for message in done if isinstance(message, Said)]
        kind = choose.integer(0, 3)
        if kind == 0 and told:
            data, time, diff = choose.pick(choose.pick(told).updates)
            lie: Told | Said = Told((data, time, 3 if diff != 3 else 4))
        elif kind == 1 and told:
            lie = Told(("surplus", choose.pick(choose.pick(told).updates)[1], 1))
        elif kind == 2 and said:
            lie = miscounted(choose, choose.pick(said))
        elif said:
            lie = Told(("surplus", times(choose, len(said[0].lower[0])), 1))
        else:
            continue
        done.insert(choose.integer(0, len(done)), lie)
    return done


def miscounted(choose: Chooser, said: Said) -> Said:
    """A statement with a count too many, too few, or left out."""
    counts = dict(said.counts)
    if counts and choose.chance(2):
        time = choose.pick(sorted(counts))
        if choose.chance(2):
            del counts[time]
        else:
            counts[time] += 1
    else:
        candidates = sorted(set(said.lower) | set(lifted(said.lower, antichains(choose, len(said.lower[0])))))
        for time in candidates:
            if not beyond(said.upper, time):
                counts[time] = counts.get(time, 0) + 1
                break
    return Said(said.lower, said.upper, counts)


def beginning(start: Iterable[Time]) -> list[Any]:
    """The frontier before which nothing can be, of times of this kind."""
    return [lift((0,) * len(next(iter(start))))]


def lift(time: Time) -> Any:
    """A plain time as cdcv2 wants it: an int, or a Product."""
    return time[0] if len(time) == 1 else Product(*time)


def build(message: Told | Said) -> Message:
    """A plain message as a real one."""
    if isinstance(message, Told):
        return Updates((data, lift(time), diff) for data, time, diff in message.updates)
    return Progress(map(lift, message.lower), map(lift, message.upper), [(lift(time), n) for time, n in message.counts])


def facts(log: Iterable[Any]) -> tuple[dict[tuple[Any, Time], int], list[Said]]:
    """Every update of a log and every statement, to be compared with those of another."""
    updates: dict[tuple[Any, Time], int] = {}
    statements = []
    for message in log:
        if hasattr(message, "updates"):
            updates.update({(data, time): diff for data, time, diff in message.updates})
        else:
            statements.append(message)
    return updates, statements


def below(time: Time, other: Time) -> bool:
    """Whether `other` is at least `time` everywhere."""
    return at_least(other, time)
