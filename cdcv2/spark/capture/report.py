"""The reports of a running capture."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cdcv2.spark.turn_report import JobLines

#: How often one that waits looks again, in seconds.
_LOOK = 1.0


class CaptureReport(JobLines):
    """The lines of a capture."""

    JOB = "capture"

    def waiting(self, text: str) -> None:
        """It cannot begin, or go on, for what the text states."""
        self.events.waiting(text)
        self.write("waiting", text)

    def wait(self, there: Callable[[Callable[[str], None]], bool], stopping: threading.Event) -> bool:
        """Ask ``there`` every second until it is; False: the job is to end before that.

        ``there`` is given what takes a text that states for what is waited; each is reported once. Raises what it does.
        """
        reported: set[str] = set()

        def remark(text: str) -> None:
            if text not in reported:
                reported.add(text)
                self.waiting(text)

        while not stopping.is_set():
            if there(remark):
                return True
            self.events.alive()
            stopping.wait(_LOOK)
        return False
