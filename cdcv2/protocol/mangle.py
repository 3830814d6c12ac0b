"""Duplicated, reordered, re-batched: the same facts, as the worst transport could deliver them.

A reader cannot see the difference; that is the promise, and this is how to try it. Mangled logs are for tests,
benchmarks and demonstrations, and for moving a log: what comes out states exactly the facts that went in.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time
from cdcv2.errors import MalformedError, UsageError
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Message, Progress, Update, Updates


def mangle(
    messages: Iterable[Union[Message, Entry, None]],
    *,
    seed: int = 0,
    copies: int = 2,
    window: int | None = None,
    rebatch: bool = True,
    doubled: bool = False,
) -> Iterator[Message]:
    """The facts of ``messages``, each ``copies`` times, reordered within ``window`` messages, and re-batched.

    ``window=None`` reorders without bounds, and reads all ``messages`` first; else a fact comes before one of another
    message only if the two messages stood at most ``window`` places apart, and memory is bounded by it. ``rebatch``
    splits and merges updates across messages, and statements into sub-intervals and unions, differently for each copy.
    ``doubled`` puts the copies of some updates into one message, which the rules allow and not every reader expects.
    The same seed gives the same result.

    >>> log = [Updates([("a", 1, 1), ("b", 2, 1)]), Progress([0], [3], {1: 1, 2: 1})]
    >>> from cdcv2.protocol.iter import Iter
    >>> sorted(update for updates, frontier in Iter(mangle(log, seed=7)) for update in updates)
    [('a', 1, 1), ('b', 2, 1)]

    ``messages`` may be entries, as a log's ``read`` gives them. Raises UsageError for fewer than one copy, a window
    below one, or ``doubled`` without ``rebatch``; MalformedError for anything that is no message. Cost: linear times
    ``copies``, and a heap of ``window`` messages.
    """
    if type(copies) is not int or copies < 1:
        raise UsageError(f"copies is {copies!r}: it takes an int from 1 on")
    if window is not None and (type(window) is not int or window < 1):
        raise UsageError(f"window is {window!r}: it takes None, or an int from 1 on")
    if not isinstance(messages, Iterable):
        raise UsageError(f"{messages!r} is no log: it takes an iterable of messages")
    if doubled and not rebatch:
        raise UsageError("doubled puts updates into other messages, and without rebatch all stay in theirs: choose one")
    facts, how = _facts(messages), _How(Random(seed), copies, rebatch, doubled)
    if window is None:
        everything = [piece for group in _grouped(facts, None) for piece in how.copied(group)]
        how.random.shuffle(everything)
        return iter(everything)
    return _within(facts, how, window)


class _How(NamedTuple):
    """What becomes of neighbours that may be merged."""

    random: Random
    copies: int
    rebatch: bool
    doubled: bool

    def copied(self, group: list[Message]) -> list[Message]:
        """Their facts, each so many times, in other messages."""
        if not self.rebatch:
            return [message for message in group for _ in range(self.copies)]
        messages = sum(isinstance(message, Updates) for message in group)
        pieces: list[Message] = []
        for runs in self._runs(group):
            pieces += self._rebatched(runs, messages)
            pieces += _rebatched_statements(group, self.random)
        self.random.shuffle(pieces)
        return pieces

    def _runs(self, group: list[Message]) -> list[list[tuple[Update, ...]]]:
        """For each copy, its updates; those of a run stay in one message."""
        updates = [update for message in group if isinstance(message, Updates) for update in message.updates]
        rounds: list[list[tuple[Update, ...]]] = [[] for _ in range(self.copies)]
        for update in updates:
            if self.doubled and self.random.random() < 0.5:
                self.random.choice(rounds).append((update,) * self.copies)
            else:
                for one in rounds:
                    one.append((update,))
        return rounds

    def _rebatched(self, runs: list[tuple[Update, ...]], messages: int) -> list[Message]:
        self.random.shuffle(runs)
        size = max(1, -(-len(runs) // max(1, messages)))
        pieces: list[Message] = []
        while runs:
            taken: list[Update] = []
            for _ in range(min(len(runs), self.random.randint(1, 2 * size))):
                taken.extend(runs.pop())
            if self.doubled:
                self.random.shuffle(taken)
            pieces.append(Updates.trusted(tuple(taken)))
        return pieces


def _facts(messages: Iterable[Union[Message, Entry, None]]) -> Iterator[Message]:
    for item in messages:
        message = item.message if isinstance(item, Entry) else item
        if isinstance(message, (Updates, Progress)):
            yield message
        elif message is not None:
            raise MalformedError(f"{item!r:.200} is no message: what cannot be read cannot be mangled; leave it out")


def _within(messages: Iterable[Message], how: _How, window: int) -> Iterator[Message]:
    waiting: list[tuple[float, int, Message]] = []
    # What is merged stands less than `size` apart, and two groups change places that begin less than `reach` apart.
    size = (window + 1) // 2 if how.rebatch else 1
    reach = window + 2 - size
    place = number = 0
    for group in _grouped(messages, size):
        for piece in how.copied(group):
            heapq.heappush(waiting, (place + how.random.random() * reach, number, piece))
            number += 1
        place += len(group)
        while waiting and waiting[0][0] < place:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _grouped(messages: Iterable[Message], size: int | None) -> Iterator[list[Message]]:
    """Neighbours that may be merged with each other."""
    group: list[Message] = []
    for message in messages:
        group.append(message)
        if size is not None and len(group) >= size:
            yield group
            group = []
    if group:
        yield group


def _rebatched_statements(group: list[Message], random: Random) -> list[Message]:
    merged: list[Progress] = []
    for message in group:
        if not isinstance(message, Progress):
            continue
        if merged and merged[-1].upper == message.lower and random.random() < 0.5:
            before = merged.pop()
            message = Progress(before.lower, message.upper, before.counts + message.counts)
        merged.append(message)
    return [piece for statement in merged for piece in _split(statement, random, depth=3)]


def _split(statement: Progress, random: Random, depth: int) -> list[Message]:
    """The statement as sub-intervals that together mean the same."""
    middle = _between(statement, random) if depth and random.random() < 0.6 else None
    if middle is None or middle in (statement.lower, statement.upper):
        return [statement]
    first = Progress(statement.lower, middle, [pair for pair in statement.counts if not middle.less_equal(pair[0])])
    second = Progress(middle, statement.upper, [pair for pair in statement.counts if middle.less_equal(pair[0])])
    return _split(first, random, depth - 1) + _split(second, random, depth - 1)


def _between(statement: Progress, random: Random) -> Antichain | None:
    """A frontier between the bounds of ``statement``, or one of them."""
    lower, upper = statement.lower, statement.upper
    first = lower.elements[0]
    if type(first) is int:
        behind = max((time for time in _times(statement) if type(time) is int), default=first) + 4
        last = upper.elements[0] if upper else min(MAX_TIME, behind)
        return Antichain([random.randint(first, last)]) if type(last) is int else None
    candidates = _times(statement) + list(upper)
    if not candidates:
        return None
    return lower.join(Antichain([random.choice(candidates)])).meet(upper)


def _times(statement: Progress) -> list[Time]:
    return [time for time, _ in statement.counts]
