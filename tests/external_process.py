"""``cdcv2 up --once`` and ``cdcv2 down`` as a process of its own, without its jobs, and with a clock that is ahead.

``external_process.py SECONDS up|down FILE ...``: all that the command does in other systems is done. Jobs are not
started, as a thousand of them would take an hour. What a request without an answer makes a command wait for is over as
soon as the clock is moved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, NoReturn

from cdcv2.cli import up
from cdcv2.cli.main import main
from cdcv2.control.supervisor import JobReport
from cdcv2.errors import UsageError
from cdcv2.process_end import end_with


class NoJobs:
    """Where :class:`cdcv2.control.supervisor.Supervisor` is expected: there is no job, and none is started."""

    def __init__(self, folder: object) -> None:
        self.folder = folder

    def turn(self, plans: Iterable[object], **_: Any) -> list[JobReport]:
        """No job has anything to report."""
        return []

    def look(self) -> list[JobReport]:
        """The same."""
        return []

    def job(self, name: str) -> NoReturn:
        """None is there."""
        raise UsageError(f"there is no job {name!r}")


if __name__ == "__main__":
    ahead, clock = float(sys.argv[1]), time.time
    time.time = lambda: clock() + ahead
    up.Supervisor = NoJobs  # type: ignore[assignment,misc]
    sys.exit(end_with(main(sys.argv[2:])))
