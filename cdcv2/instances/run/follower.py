"""Follows the logs of an instance beside other work: it looks at them when it is called, and does not wait there."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from functools import reduce
from typing import Protocol, runtime_checkable

from cdcv2.core.antichain import Antichain
from cdcv2.instances.commands import LEAST, Answer
from cdcv2.instances.run.feed import IndexSource
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog

#: Seconds between two looks at logs that have nothing new.
_PAUSE = 0.02
#: At most one part in so many of the time is looked while nothing is new.
_SHARE = 10
#: Seconds after which others get their turn, while much is new.
_TURN = 0.02


@runtime_checkable
class PatientLog(Protocol):
    """A log whose readers wait for what comes next."""

    idle_wait: float


class LogFollower:
    """The instance over some logs, and how it is given what is finished in them; ``withhold`` as of an IndexSource."""

    def __init__(self, logs: Sequence[NamedLog], *, withhold: bool = False) -> None:
        #: When what is finished was committed: read beside the logs, and in the messages of topics.
        self.clock = CommitClock([named.log for named in logs])
        for named in logs:
            if isinstance(named.log, PatientLog):
                named.log.idle_wait = 0.0
        self._topics = any(not isinstance(named.log, DirectoryLog) for named in logs)
        seen = self.clock.seen if self._topics else None
        self.source = IndexSource(logs, follow=True, withhold=withhold, seen=seen)
        #: Whether more may be there now.
        self.more = True
        self._next = 0.0
        # One log may have nothing, while another one has.
        self._enough = 2 * len(logs)

    @property
    def caught_up(self) -> bool:
        """Whether what was finished in the logs when they were opened is in the instance."""
        return self.source.caught_up

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is finished in all indexes; where there is none, nothing is."""
        instance = self.source.instance
        return reduce(Antichain.meet, map(instance.upper, instance.indexes), Antichain()) if instance.indexes else LEAST

    def look(self) -> list[Answer]:
        """Take in what is finished now; where it is much, a part of it. Returns the responses.

        Raises what reading the logs raises.
        """
        begin = time.monotonic()
        catches_up = not self.caught_up
        answers: list[Answer] = []
        idle = 0
        while True:
            found, moved = self.source.read()
            answers += found
            idle = 0 if moved else idle + 1
            now = time.monotonic()
            self.more = idle < self._enough or not self.caught_up
            if not self.more or now > begin + _TURN:
                break
        if self._topics:
            # So of the moments that were met in messages only those beyond it are kept.
            self.clock.at(list(self.upper))
        if catches_up:
            # What is held stays: the garbage collector need not look through millions of rows again and again. Not
            # later: what is garbage then would never be found.
            gc.freeze()
        self._next = now + max(_PAUSE, _SHARE * (now - begin))
        return answers

    def wait(self) -> float:
        """For how many seconds nothing need be looked at."""
        return 0.0 if self.more else max(0.0, self._next - time.monotonic())

    def close(self) -> None:
        """Close the logs."""
        self.source.close()
