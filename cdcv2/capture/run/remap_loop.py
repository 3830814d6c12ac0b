"""A capture on a shared remap at work: started, carried on, and started over when that is needed.

The command and the job on Spark differ in who reads the records and writes the logs. When to bind, when to go on and
when to give up is the same for both, and decided here.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cdcv2.capture.binder import Binder
from cdcv2.capture.run import on_remap
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.request import CaptureRequest
from cdcv2.capture.topics import TopicExtents
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForgottenError, IncompleteError, MissingLogError, UnavailableError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.protocol.log_address import LogAddress
from cdcv2.timeline.minting import RemapLog

#: How long, in seconds, a capture that follows waits when nothing has happened.
WAIT = 0.2
#: About how many records one binding covers, and how many are read at once, by default.
BIND_AT_MOST, AT_MOST = 100_000, 50_000


@dataclass(frozen=True)
class RunOptions:
    """How a capture runs: with ``follow`` for ever, else until what the topics hold now is written.

    ``bind_every`` and ``bind_idle`` are seconds between bindings, and until nothing new is bound as such (0: never);
    they are for one that follows. ``name`` is for people who read the remap (None: host and process). ``propose`` and
    ``at_first`` are those of :meth:`~cdcv2.capture.binder.Binder.begin`. ``logs`` is where the logs are, as it was
    asked for: kafka:NAME.{table}, or a directory; under this name they hold the remap. ``rows`` is the folder of the
    row types. ``at_most`` is about how many records are read at once. ``command_line`` started it. ``create``: whether
    it makes the topics of its logs and of its remap.
    """

    request: CaptureRequest
    logs: LogAddress
    rows: Path = Path()
    at_most: int = AT_MOST
    follow: bool = False
    bind_every: float = 1.0
    bind_idle: float = 10.0
    bind_at_most: int = BIND_AT_MOST
    name: str | None = None
    propose: bool = False
    at_first: bool = False
    command_line: str | None = None
    create: bool = True

    def binder(self, log: RemapLog) -> Binder:
        """A binder for the remap, which has not started."""
        return Binder(
            log, self.request.recipe, topics=self.request.topics, now=lambda: time.time_ns() // 1_000_000,
            name=self.name or f"{socket.gethostname()}:{os.getpid()}", at_most=self.bind_at_most,
            every=int(self.bind_every * 1000) if self.follow else 0,
            idle=int(self.bind_idle * 1000) if self.follow and self.bind_idle else None,
            of=_called(self.logs), command_line=self.command_line,
        )


class RunResult(NamedTuple):
    """The result of a run: all logs are complete up to ``frontier``; ``waiting`` has in words what is held back.

    ``coverage`` has the tables of which nothing is stated.
    """

    frontier: Antichain
    records: int
    waiting: list[str]
    coverage: TableCoverage


def carry_on(
    run: RunOptions,
    log: RemapLog,
    look: TopicExtents,
    opened: Callable[[Binder], AbstractContextManager[SharedCapture]],
    *,
    check: Callable[[Binder], object],
    stopping: Callable[[], bool],
    remark: Callable[[str], None],
    turn: Callable[[SharedCapture, Binder, TopicExtents], object] = lambda capture, binder, look: None,
) -> RunResult | None:
    """Capture until it is done, or ``stopping``; None if it was stopped while it could not go on.

    ``look`` is a first look at the topics, ``opened`` opens a capture for a binder that has started.
    ``check`` raises, before another recipe is proposed, if that could not be carried on. ``turn`` is called after each
    turn.

    A following capture waits for what does not answer, and for times that others must write first, and reports that by
    ``remark``. If another process has compacted the remap up to where its logs are, it starts again there. Raises what
    binder and capture raise.
    """
    propose, reported = run.propose, ""
    while True:
        try:
            binder = run.binder(log)
            binder.begin(
                look, needed=run.request.needed, propose=propose, at_first=run.at_first,
                check=partial(check, binder),
            )
            # Asked for once: another recipe that is proposed after this one is obeyed.
            propose = False
            with opened(binder) as capture:
                on_remap.run(
                    capture, binder, follow=run.follow, stopping=stopping, wait=lambda: time.sleep(WAIT),
                    turn=partial(turn, capture, binder),
                )
                return RunResult(capture.complete, capture.records, capture.waits(), capture.coverage)
        except ForgottenError as behind:
            # The logs are further than this capture was: others have written them.
            if stopping():
                return None
            remark(f"begins again: {behind}")
        except (IncompleteError, UnavailableError) as later:
            # Times under an earlier recipe are written by a capture of it; a service that is down may answer later.
            if not run.follow:
                raise
            if stopping():
                return None
            if str(later) != reported:
                reported = str(later)
                remark(f"waiting: {reported}")
            time.sleep(1)


def begin_when_there(
    run: RunOptions,
    begin: Callable[[TopicExtents], RemapLog],
    look: Callable[[], TopicExtents],
    *,
    stopping: Callable[[], bool],
    remark: Callable[[str], object],
) -> tuple[RemapLog, TopicExtents] | None:
    """The remap, which ``begin`` opens or makes, and the look with which it did; None if it was stopped before.

    A following capture waits for the topics that a connector makes with the first transaction after its start, and
    reports that by ``remark``. Raises what ``begin`` and ``look`` raise.
    """
    reported: set[str] = set()
    while not stopping():
        seen = look()
        try:
            return begin(seen), seen
        except MissingLogError:
            missing = run.request.needed - seen.topics
            if not run.follow or not missing or not missing <= run.request.single:
                raise
        for topic in sorted(missing - reported):
            remark(f"waits for the topic {topic}. {run.request.made_by(topic)}")
        reported |= missing
        time.sleep(WAIT)
    return None


def _called(logs: LogAddress) -> str:
    """What logs are called wherever a capture of them runs, as far as that can be known."""
    return str(logs) if logs.is_topic else str(Path(logs.name).absolute())
