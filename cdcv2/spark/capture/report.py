"""The reports of a running capture: lines for people on standard error, JSON on standard output, and events."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from cdcv2.events import JobEvents, JobProgress
from cdcv2.spark.turn_report import TurnReport


class CaptureReport:
    """Writes the lines. ``people`` and ``machines`` may each be None: then nothing is written there.

    ``events`` are those of the job. ``calm``: people get a line now and then, instead of those of every micro-batch.
    """

    def __init__(
        self, people: TextIO | None = None, machines: TextIO | None = None, *, events: JobEvents | None = None,
        calm: bool = False,
    ) -> None:
        self._people, self._machines, self._calm = people, machines, calm
        self.events = events or JobEvents("capture.py")
        self._turns = TurnReport(self.events, self._print if calm else None)

    @classmethod
    def standard(cls, events: JobEvents | None = None) -> CaptureReport:
        """To standard error and standard output."""
        return cls(sys.stderr, sys.stdout, events=events, calm=True)

    def write(self, what: str, text: str, *, often: bool = False, **facts: Any) -> None:
        """Something happened: ``what`` names its kind, ``facts`` are its numbers. ``often``: as in every batch."""
        if self._machines is not None:
            line = {"job": "capture", "at": round(time.time(), 3), "what": what, "text": text, **facts}
            print(json.dumps(line, ensure_ascii=False), file=self._machines, flush=True)
        if not (often and self._calm):
            self._print(text)

    def waiting(self, text: str) -> None:
        """It cannot begin, or go on, for what the text states."""
        self.events.waiting(text)
        self.write("waiting", text)

    def turn(self, state: Callable[[], JobProgress], *, last: bool = False) -> None:
        """A turn is done; see :meth:`~cdcv2.spark.turn_report.TurnReport.turn`."""
        self._turns.turn(state, last=last)

    def _print(self, text: str) -> None:
        if self._people is not None:
            print(f"capture: {text}", file=self._people, flush=True)
