"""Logs as values for a drawing: updates, what is stated, gaps, and how the frontiers moved while they were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, some_covered
from cdcv2.logs.read import LogReader, NullObserver, logs_of
from cdcv2.protocol.log import Entry
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.viz.draw_logs import LogLane, LogsPicture, Span


def logs_picture(
    addresses: str | LogAddress | Iterable[str | LogAddress], **opening: Any
) -> LogsPicture:
    """The picture of logs at some addresses; ``opening`` and errors are as of :func:`cdcv2.read`. Shows in notebooks.

    Raises UsageError for times that are no whole numbers. Cost: reads the logs. Memory: a number for each time.
    """
    return picture_of(some_covered(logs_of(addresses, **opening)))


def picture_of(found: CoveredLogs) -> LogsPicture:
    """The same of logs that are open.

    Raises UsageError for logs whose times are no whole numbers.
    """
    for named in found.logs:
        if named.times != "int":
            raise UsageError(f"the times of {named.table} are no whole numbers: there is no picture of them")
    watch = _Watch(found)
    finished: dict[str, Counter[int]] = {table: Counter() for table in watch.reading.parts}
    for updates, _ in watch.reading:
        for table, changes in updates.items():
            finished[table].update(time for _, time, _ in changes)
    watch.step()
    missing = watch.reading.missing()
    lanes = []
    for table, reader in watch.reading.readers.items():
        lacks = missing.get(table)
        waiting = Counter(time for time, _ in watch.waiting[table] if reader.frontier.less_equal(time))
        lanes.append(LogLane(
            table, tuple(sorted(finished[table].items())), tuple(sorted(waiting.items())),
            joined(watch.stated[table]),
            tuple((bound(lower) or 0, bound(upper)) for lower, upper in (lacks.statements if lacks else ())),
            tuple((time, count) for time, count in (lacks.updates if lacks else ()) if isinstance(time, int)),
            bound(reader.frontier), tuple(watch.steps[table]),
        ))
    return LogsPicture(tuple(lanes), watch.messages, bound(watch.reading.frontier))


class _Watch(NullObserver):
    """Notes what is read, and how the frontiers move."""

    def __init__(self, found: CoveredLogs) -> None:
        self.reading, self.messages = LogReader(found, observer=self), 0
        self.waiting: dict[str, set[tuple[int, Any]]] = {table: set() for table in self.reading.parts}
        self.stated: dict[str, list[Span]] = {table: [] for table in self.reading.parts}
        self.steps: dict[str, list[tuple[int, int | None]]] = {table: [] for table in self.reading.parts}

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Called before the message is taken in."""
        self.step()
        if entry is None:
            return
        self.messages += 1
        message, frontier = entry.message, self.reading.readers[named.table].frontier
        if isinstance(message, Updates):
            held = self.waiting[named.table]
            held.update(
                (time, data) for data, time, _ in message.updates if isinstance(time, int) and frontier.less_equal(time)
            )
        elif isinstance(message, Progress) and message.lower != message.upper:
            self.stated[named.table].append((bound(message.lower) or 0, bound(message.upper)))

    def step(self) -> None:
        """Note the frontiers where they have moved, and forget what is finished."""
        for table, reader in self.reading.readers.items():
            now, steps = bound(reader.frontier), self.steps[table]
            if not steps or steps[-1][1] != now:
                steps.append((self.messages, now))
                self.waiting[table] = {one for one in self.waiting[table] if reader.frontier.less_equal(one[0])}


def bound(frontier: Antichain) -> int | None:
    """The one element of a frontier of whole numbers; None: the history ends there."""
    return next((time for time in frontier if isinstance(time, int)), None)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same times in as few spans as there can be, in order.

    >>> joined([(5, 7), (0, 3), (3, 5), (9, None)])
    ((0, 7), (9, None))
    """
    found: list[Span] = []
    for lower, upper in sorted(spans, key=lambda span: span[0]):
        if found and (found[-1][1] is None or lower <= found[-1][1]):
            before = found[-1][1]
            found[-1] = (found[-1][0], None if before is None or upper is None else max(before, upper))
        else:
            found.append((lower, upper))
    return tuple(found)
