"""The events of a job: what it states of itself for programs, one JSON object a line, on a stream of its own.

``--events FILE`` (or ``fd:N``) has every command and job that works for long write them. There are three:

- ``start``, at once;
- ``progress``, when something has changed (at most once a second), and every ten seconds while nothing does: one that
  is silent for much longer hangs, or is in one long step, as reading what its logs hold at the start;
- ``end``, of every way to end but a kill: exit code, error, reason, remedy, and whether a retry helps
  (:mod:`cdcv2.retries`).

::

    {"version": 1, "at": 1795251721.5, "job": "cdcv2 capture", "run": "9f...", "pid": 7, "event": "start", ...}

Where they go, and how they are read, is in :mod:`cdcv2.event_stream`. Nothing here ends the job or has it wait: a
stream that no program reads, or that cannot be written, loses lines. No secret is in an event: what looks like one in a
text is replaced.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType, MappingProxyType
from typing import Any, Protocol

from cdcv2 import __version__
from cdcv2.errors import Cdcv2Error, SourceStop
from cdcv2.event_stream import VERSION
from cdcv2.exits import MEANINGS, Exit
from cdcv2.retries import Retry, RetryRule, retry_rule

#: Seconds between two lines at least; and at most, while the job is at work.
CHANGED, UNCHANGED = 1.0, 10.0
#: How many of the things that a job waits for are named, and how long a text may be.
MOST_WAITS, MOST_TEXT = 20, 2000
#: The exit code of what SIGTERM has ended, as shells have it.
_TERMINATED = 128 + signal.SIGTERM
_SECRET = re.compile(
    r"""(?ix) (\b[\w.-]*(?:password|passwd|pwd|secret|token|sasl\.jaas\.config)[\w.-]*["']?\s*[=:]\s*)
    (?:"[^"]*"|'[^']*'|[^\s"',;&]+) | (?<=://) ([^\s/:@]+:)[^\s/@]+(?=@)"""
)


@dataclass(frozen=True)
class JobWait:
    """Something that a job waits for: what kind, in words, and where: topic, partition, offset, transaction, table."""

    what: str
    text: str
    place: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"what": self.what, "text": shown(self.text), "place": dict(self.place)}


@dataclass(frozen=True)
class JobProgress:
    """How far a job is.

    ``frontier`` is plain (None: not known yet), ``committed_at`` the source's clock at the last commit before it, in
    seconds since 1970 (None: not known). ``counts`` are numbers of this run: records, rows, transactions.
    ``caught_up``: this run has done all that there was to do; False: it has not, or cannot know.
    """

    frontier: Sequence[Any] | None = None
    committed_at: float | None = None
    waits: Sequence[JobWait] = ()
    rows_held: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    caught_up: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "frontier": None if self.frontier is None else list(self.frontier),
            "committed_at": self.committed_at,
            "waits": [wait.plain() for wait in self.waits[:MOST_WAITS]],
            "more_waits": max(0, len(self.waits) - MOST_WAITS),
            "rows_held": self.rows_held,
            "counts": dict(self.counts),
            "caught_up": self.caught_up,
        }


def shown(text: str) -> str:
    """A text in one line, not too long, and without what looks like a secret.

    >>> shown("cannot connect: host=db password=hunter2\\n  postgres://me:hunter2@db/shop")
    'cannot connect: host=db password=*** postgres://me:***@db/shop'
    """
    line = _SECRET.sub(lambda found: f"{found[1] or found[2]}***", " ".join(text.split()))
    return line if len(line) <= MOST_TEXT else f"{line[:MOST_TEXT - 3]}..."


class EventStream(Protocol):
    """Where lines go. Never raises, never waits long."""

    def write(self, line: bytes, *, last: bool = False) -> None:
        """Write a line, with its end; one that cannot be written is lost."""

    def close(self) -> None:
        """Let go of it."""


class JobEvents:
    """The events of one run of a job; without a stream, none is written.

    ``clock`` gives seconds since 1970, ``ticks`` seconds that only grow. Any thread may call it.
    """

    def __init__(
        self, job: str, stream: EventStream | None = None, *, clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job, self._stream, self._clock, self._ticks = job, stream, clock, ticks
        self._run = uuid.uuid4().hex
        # A signal's handler may write the end while a line is written.
        self._lock = threading.RLock()
        self._state, self._instead = JobProgress(), tuple[JobWait, ...]()
        self._looked = self._at = float("-inf")
        self._result: str | None = None
        # What is known of a job at its start: nothing.
        self._last = JobProgress().plain()

    @property
    def written(self) -> bool:
        """Whether there is a stream."""
        return self._stream is not None

    def start(self) -> None:
        """Write the start."""
        self._write("start", {"cdcv2": __version__})
        self._at = self._ticks()

    def progress(self, state: Callable[[], JobProgress], *, at_once: bool = False) -> None:
        """Write how far the job is, if it is time to: ``state`` is called at most once a second.

        ``at_once``: whatever was written last; for the state that a job ends with.
        """
        if self._stream is None:
            return
        with self._lock:
            now = self._ticks()
            if now < max(self._looked, self._at) + CHANGED and not at_once:
                return
            self._looked = now
            self._state, self._instead = state(), ()
            self._progress(now, at_once=at_once)

    def waiting(self, text: str, what: str = "unavailable", place: Mapping[str, Any] = MappingProxyType({})) -> None:
        """It cannot go on, for what the text states, until there is progress again."""
        if self._stream is None:
            return
        with self._lock:
            self._instead = (JobWait(what, text, place),)
            self._progress(self._ticks())

    def alive(self) -> None:
        """Nothing has happened, and the job is at work: write what is known, if nothing was written for long."""
        if self._stream is None:
            return
        with self._lock:
            self._progress(self._ticks())

    def keeping_alive(self, stopping: Callable[[], bool]) -> Callable[[], bool]:
        """The same question, which a job asks in each turn, and so shows that it is alive."""
        def requested() -> bool:
            self.alive()
            return stopping()

        return stopping if self._stream is None else requested

    def _progress(self, now: float, *, at_once: bool = False) -> None:
        state = replace(self._state, waits=self._instead, caught_up=False) if self._instead else self._state
        if at_once or now >= self._at + CHANGED:
            facts = state.plain()
            if at_once or facts != self._last or now >= self._at + UNCHANGED:
                self._write("progress", facts)
                self._last, self._at = facts, now

    def result(self, text: str) -> None:
        """What the job has found, in words: the reason of its end, if that is not an error."""
        self._result = text

    def end(self, code: int, error: BaseException | None = None, reason: str | None = None) -> None:
        """Write the end, once; ``reason`` is what happened, where the error's text does not state it.

        It names the frontier that was written last. Closes the stream.
        """
        with self._lock:
            stream, known = self._stream, self._state
            if stream is None:
                return
            if error is None and reason is None and code != Exit.DONE:
                reason = self._result
            ended = {"frontier": known.plain()["frontier"], "committed_at": known.committed_at}
            self._write("end", {**end_facts(code, error, reason), **ended}, last=True)
            self._stream = None
            stream.close()

    def _write(self, what: str, facts: Mapping[str, Any], *, last: bool = False) -> None:
        if self._stream is None:
            return
        line = {
            "version": VERSION, "at": round(self._clock(), 3), "job": self._job, "run": self._run, "pid": os.getpid(),
            "event": what, **facts,
        }
        self._stream.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n", last=last)


def end_facts(code: int, error: BaseException | None, reason: str | None = None) -> dict[str, Any]:
    """What an end states of exit code and error.

    Of a mistake it has the place, and not the text, which may quote anything: the traceback on standard error has it.
    """
    known = Exit(code) if code in set(Exit) else None
    if known is None:
        rule: RetryRule | None = RetryRule(Retry.NOW, "a signal has ended it")
        reason = reason or f"a signal has ended it (exit code {code})"
    else:
        rule = retry_rule(error, known)
    remedy = getattr(error, "remedy", None)
    if reason is None and isinstance(error, Cdcv2Error):
        reason = error.reason if isinstance(error, SourceStop) else str(error)
    elif reason is None and isinstance(error, OSError):
        reason = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    elif reason is None and error is not None and known is Exit.BUG:
        reason = f"{type(error).__name__} at {_place_of(error)}"
    if reason is None and known not in (None, Exit.DONE):
        reason = MEANINGS[Exit(code)]
    return {
        "exit": int(code), "error": None if error is None else type(error).__name__,
        "reason": None if reason is None else shown(reason),
        "remedy": shown(remedy) if isinstance(remedy, str) else None,
        "retry": None if rule is None else rule.retry.value, "why": None if rule is None else rule.why,
    }


def _place_of(error: BaseException) -> str:
    """Module and line where it was raised."""
    *_, last = [(frame.f_globals.get("__name__"), line) for frame, line in traceback.walk_tb(error.__traceback__)] or [
        ("an unknown place", 0)
    ]
    return f"{last[0]}, line {last[1]}"


@contextmanager
def ending_on_sigterm(events: JobEvents, line: str | None = None) -> Iterator[None]:
    """Within the block, SIGTERM writes the end before it ends the process as ever; for what does not answer it itself.

    ``line`` is printed then, on standard error; None: nothing is.

    Where somebody else answers it already, or this is not the main thread, nothing is changed.
    """
    def end(number: int, frame: FrameType | None) -> None:
        events.end(_TERMINATED)
        if line is not None:
            with suppress(OSError):
                # Not by way of the stream, in the middle of which the signal may have come.
                os.write(2, f"{line}\n".encode())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    if not (events.written or line) or not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
