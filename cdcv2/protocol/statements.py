"""What may be stated in a log, and how: the rules of every writer, in one process and on Spark.

The updates of an interval are durable first, then :func:`statements` count them. Before anything is stated, what the
log holds already must agree: updates that no statement counts (:func:`check_orphans`), and statements of later times
(:func:`check_stated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, sort_key
from cdcv2.errors import ResumeError
from cdcv2.protocol.messages import Progress

#: A statement has at most so many counts: it must fit into a message, of which a topic takes a million bytes.
MOST_COUNTS = 20_000


def statements(
    known: Antichain, upper: Antichain, counts: Mapping[Any, int], at_most: int = MOST_COUNTS
) -> list[Progress]:
    """The statements of the interval from ``known`` to ``upper``, in order; none where it is empty.

    ``counts`` has how many updates are at each time; times that are stated already, and zeros, are left out. Where
    times are ints, several statements share what is more than ``at_most`` counts. Cost: O(counts · log counts).

    >>> statements(Antichain([2]), Antichain([9]), {1: 7, 3: 1, 5: 2, 8: 0}, at_most=1)
    [Progress(lower=Antichain([2]), upper=Antichain([4]), counts=((3, 1),)), \
Progress(lower=Antichain([4]), upper=Antichain([9]), counts=((5, 2),))]
    """
    if known == upper:
        return []
    found = {time: number for time, number in counts.items() if number and known.less_equal(time)}
    times = sorted(found, key=sort_key)
    if len(times) <= at_most or type(times[0]) is not int:
        return [Progress(known, upper, found)]
    stated, lower = list[Progress](), known
    for first in range(0, len(times), at_most):
        part = times[first:first + at_most]
        following = upper if part[-1] == times[-1] else Antichain([part[-1] + 1])
        stated.append(Progress(lower, following, {time: found[time] for time in part}))
        lower = following
    return stated


def check_orphans(name: str, time: Time, held: int, found: int, example: object) -> None:
    """Raise ResumeError unless all the orphans that a log holds at a time are found among what is written there now.

    With the same diffs; ``example`` is the data of one of them. Cost: constant.

    >>> check_orphans("log", 3, 2, 2, "x")
    """
    if found != held:
        raise ResumeError(
            f"log {name} holds {example!r} at time {time}, which no statement counts, and {held - found} of {held} "
            "such updates are not among what is written there now: it is fed another history than the log's. Feed it "
            "the same one, or begin a new log"
        )


def check_stated(statement: Progress, others: Iterable[Progress], name: str) -> None:
    """Raise ResumeError unless it may be stated in the log ``name``, which holds the statements ``others`` already.

    It may not where one of them counts something else at a time of both. Cost: linear in the counts.

    >>> check_stated(Progress([0], [9], {3: 1, 7: 2}), [Progress([5], [8], {7: 2})], "log")
    """
    mine = dict(statement.counts)
    for other in others:
        if other.lower.dominates(statement.upper):
            continue
        theirs = dict(other.counts)
        both = {time for time in mine if other.covers(time)} | {time for time in theirs if statement.covers(time)}
        for time in sorted(both, key=sort_key):
            if mine.get(time, 0) != theirs.get(time, 0):
                raise ResumeError(
                    f"log {name} states {theirs.get(time, 0)} updates at time {time}, and the writer was fed "
                    f"{mine.get(time, 0)}: it is fed another history than the log's. Feed it the same one, or begin a "
                    "new log"
                )
