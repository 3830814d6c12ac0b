"""The reports of a running capture: a line for people on standard error, the same as JSON on standard output."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, TextIO


class CaptureReport:
    """Writes the lines. ``people`` and ``machines`` may each be None: then nothing is written there."""

    def __init__(self, people: TextIO | None = None, machines: TextIO | None = None) -> None:
        self._people = people
        self._machines = machines

    @classmethod
    def standard(cls) -> CaptureReport:
        """To standard error and standard output."""
        return cls(sys.stderr, sys.stdout)

    def write(self, what: str, text: str, **facts: Any) -> None:
        """Something happened: ``what`` names its kind, ``facts`` are its numbers."""
        if self._machines is not None:
            line = {"job": "capture", "at": round(time.time(), 3), "what": what, "text": text, **facts}
            print(json.dumps(line, ensure_ascii=False), file=self._machines, flush=True)
        if self._people is not None:
            print(f"capture: {text}", file=self._people, flush=True)
