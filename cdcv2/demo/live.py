"""Mangled copies of logs that grow: what is written to a log is soon in its copy, in pieces, and in no order.

In each round, half of what is new goes into the copy at once, and the other half waits for the next round; with both
go messages of long ago. What goes together is duplicated, shuffled and re-batched by :func:`cdcv2.protocol.mangle`. So
facts and statements overtake each other across rounds, and come again when readers have long finished their times.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from random import Random
from typing import Protocol, Self

from cdcv2.demo.watch import smaller
from cdcv2.protocol.log import Sink
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Message

#: seconds between two rounds
PAUSE = 0.4
#: so many messages of long ago go with the new ones of a round, at most
AGAIN = 3


class GrowingLog(Protocol):
    """What is copied: :class:`cdcv2.demo.watch.LogWatch`."""

    def messages(self, table: str) -> list[Message]:
        """Every message that the table's log holds by now, in the order of reading."""


class LiveMangler:
    """Within the block, a thread copies logs, as they grow; leaving it without an error copies the rest.

    Args:
        watch: reads the logs; of this thread alone.
        copies: table -> where its copy goes.
        seed: what the disorder is drawn from.
    """

    def __init__(self, watch: GrowingLog, copies: Mapping[str, Sink], *, seed: int) -> None:
        self._watch, self._copies, self._draw = watch, copies, Random(f"{seed}/mangling")
        self._stop, self._failure = threading.Event(), list[BaseException]()
        # Whether the rest is wanted: not after an error, which may be that nothing can be written.
        self._whole = False
        self._read = dict.fromkeys(copies, 0)
        # Table -> what was copied, in pieces.
        self._copied: dict[str, list[Message]] = {table: [] for table in copies}
        self._waiting: dict[str, list[Message]] = {table: [] for table in copies}
        self._thread = threading.Thread(target=self._work, name="mangling", daemon=True)
        #: how many rounds there were that had anything new
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        if kind is None:
            self.finish()
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        """Copy what is there by now, all of it, and end. Raises what the thread raised."""
        self._whole = True
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what the thread raised."""
        if self._failure:
            raise self._failure[0]

    def _work(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                self.round()
            if self._whole:
                self.round(last=True)
        except BaseException as failure:  # kept for the thread that asks for it
            self._failure.append(failure)

    def round(self, *, last: bool = False) -> None:
        """One round; the last one lets nothing wait."""
        for table, copy in self._copies.items():
            there = self._watch.messages(table)
            new = list(smaller(there[self._read[table]:]))
            self._read[table] = len(there)
            self._draw.shuffle(new)
            half = len(new) if last else (len(new) + 1) // 2
            now, self._waiting[table] = self._waiting[table] + new[:half], new[half:]
            if now:
                copied = self._copied[table]
                self._put(copy, [*now, *self._draw.sample(copied, min(AGAIN, len(copied)))])
                copied += now
                self.rounds += 1

    def _put(self, copy: Sink, messages: Iterable[Message]) -> None:
        for message in mangle(messages, seed=self._draw.randrange(1 << 30), copies=2):
            copy.send(message)
        copy.flush()
