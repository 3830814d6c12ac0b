"""How far a reading of logs is, for the events of who reads (:mod:`cdcv2.events`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cdcv2.core.order import to_plain
from cdcv2.events import JobProgress, JobWait
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.read import LogReader
from cdcv2.protocol.log import Entry, Log
from cdcv2.protocol.missing import MissingUpdates


def missing_waits(lacks: Mapping[str, MissingUpdates]) -> tuple[JobWait, ...]:
    """What lacks, table by table: statements, updates, decisions; each with its table and time.

    >>> missing_waits({"orders": MissingUpdates(updates=((7, 2),))})
    (JobWait(what='updates', text='2 updates missing at time 7', place={'table': 'orders', 'time': 7, 'updates': 2}),)
    """
    found: list[JobWait] = []
    for table, missing in sorted(lacks.items()):
        places: list[tuple[str, MissingUpdates, dict[str, Any]]] = [
            ("statements", MissingUpdates(statements=(one,)), {"lower": one[0].to_plain(), "upper": one[1].to_plain()})
            for one in missing.statements
        ]
        places += [
            ("updates", MissingUpdates(updates=(one,)), {"time": to_plain(one[0]), "updates": one[1]})
            for one in missing.updates
        ]
        places += [
            ("decision", MissingUpdates(contested=(one,)), {"time": to_plain(one)}) for one in missing.contested
        ]
        found += [JobWait(what, str(lack), {"table": table, **place}) for what, lack, place in places]
    return tuple(found)


class ReadingState:
    """How far logs are read. One thread.

    Give it what is read, and :meth:`follow` the reading once there is one.
    """

    def __init__(self, logs: Collection[Log]) -> None:
        self._clock, self._messages = CommitClock(logs), 0
        self._reading: LogReader | None = None

    def seen(self, entry: Entry) -> None:
        """A message was read."""
        self._messages += 1
        self._clock.seen(entry)

    def follow(self, reading: LogReader) -> None:
        """What reads them."""
        self._reading = reading

    def state(self, frontier: Collection[Any] | None = None, **counts: int) -> JobProgress:
        """How far it is: at the frontier (default: what was given out), with these numbers beside that of messages."""
        reading = self._reading
        plain = list(frontier) if frontier is not None else None if reading is None else reading.frontier.to_plain()
        waits = () if reading is None else missing_waits(reading.incomplete())
        # What was given out, and is not in the target yet, is still to be done.
        done = reading is not None and reading.at_end and plain == reading.frontier.to_plain()
        return JobProgress(
            plain, None if plain is None else self._clock.at(plain), waits, None,
            {"messages": self._messages, **counts}, done,
        )

    def committed_at(self, frontier: Collection[Any]) -> float | None:
        """When the last of what is before a frontier was committed, in seconds since 1970; None: not known."""
        return self._clock.at(list(frontier))
