"""The reports of a job: lines for people on standard error, JSON on standard output, and events.

How far a job is in each of its turns is an event for programs, and now and then a line for people, of one value.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self, TextIO

from cdcv2.cli.options.calm_lines import Lines
from cdcv2.completeness import committed_text, through_text
from cdcv2.events import JobEvents, JobProgress

#: So many of the things that it waits for are in a line.
_SHOWN = 3


class TurnReport:
    """Reports turns, of any thread.

    ``say`` takes a line for people (None: they get none); ``clock`` gives seconds since 1970.
    """

    def __init__(
        self, events: JobEvents, say: Callable[[str], object] | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        #: The events of the job.
        self.events = events
        self._lines, self._clock, self._lock = None if say is None else Lines(say), clock, threading.Lock()

    def turn(self, state: Callable[[], JobProgress], *, last: bool = False) -> None:
        """A turn is done; ``state`` is made only when it is time to report. ``last``: the job ends so: it is stated."""
        once = cache(state)
        self.events.progress(once, at_once=last)
        if self._lines is None or last:
            return
        with self._lock:
            self._lines.turn(lambda: far_text(once()), lambda: committed_text(once().committed_at, self._clock()))


class JobLines:
    """Writes the lines. ``people`` and ``machines`` may each be None: then nothing is written there.

    ``job`` is what the lines call it (None: as its class does), ``events`` are those of the job. ``calm``: people get a
    line now and then, instead of those of every micro-batch.
    """

    JOB: ClassVar[str]

    def __init__(
        self, people: TextIO | None = None, machines: TextIO | None = None, *, job: str | None = None,
        events: JobEvents | None = None, calm: bool = False,
    ) -> None:
        self._people, self._machines, self._calm, self._job = people, machines, calm, job or self.JOB
        self.events = events or JobEvents(f"{self._job}.py")
        self._turns = TurnReport(self.events, self._print if calm else None)

    @classmethod
    def standard(cls, events: JobEvents | None = None, *, job: str | None = None) -> Self:
        """To standard error and standard output."""
        return cls(sys.stderr, sys.stdout, job=job, events=events, calm=True)

    def write(self, what: str, text: str, *, often: bool = False, **facts: Any) -> None:
        """Something happened: ``what`` names its kind, ``facts`` are its numbers. ``often``: as in every batch."""
        if self._machines is not None:
            line = {"job": self._job, "at": round(time.time(), 3), "what": what, "text": text, **facts}
            print(json.dumps(line, ensure_ascii=False), file=self._machines, flush=True)
        if not (often and self._calm):
            self._print(text)

    def turn(self, state: Callable[[], JobProgress], *, last: bool = False) -> None:
        """A turn is done; see :meth:`TurnReport.turn`."""
        self._turns.turn(state, last=last)

    def _print(self, text: str) -> None:
        if self._people is not None:
            print(f"{self._job}: {text}", file=self._people, flush=True)


def far_text(state: JobProgress) -> str:
    """How far it is, in words.

    >>> far_text(JobProgress([18], counts={"records": 12, "transactions": 3}))
    'complete through 17: 12 records, 3 transactions; nothing is open'
    """
    through = "nothing is complete yet" if state.frontier is None else through_text(state.frontier)
    counts = ", ".join(f"{number} {what}" for what, number in state.counts.items())
    texts = list(dict.fromkeys(wait.text for wait in state.waits))
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    waits = "; ".join(texts[:_SHOWN]) or "nothing is open"
    return f"{through}{f': {counts}' if counts else ''}; {waits}{more}"
