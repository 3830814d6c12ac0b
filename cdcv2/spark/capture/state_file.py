"""Where a capture on Spark keeps its memory (:mod:`cdcv2.capture.memory`): in a folder, each as a file of its own.

A file has the next number (:mod:`cdcv2.store.numbered`), so that a second process with the same state is detected. It
belongs to one source, the tables with their row types, and the logs. Of each log it has a :class:`LogTail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdcv2.capture.memory import CaptureMemory
from cdcv2.core.own_json import checked, reading
from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Positions
from cdcv2.store.numbered import NumberedFiles

VERSION = 1
#: How many old ones are kept, for people.
KEPT = 3


@dataclass(frozen=True)
class LogTail:
    """A log is stated up to ``known``; what is behind ``positions`` has not been read.

    ``marks`` identify the log: Kafka's identity of the topic, or digests of a directory's files. ``rows`` is the sum of
    the diffs of all updates before ``known``; None: it is not known, and such a log is read from its start.
    """

    known: int
    positions: Positions
    marks: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None

    def to_plain(self) -> dict[str, Any]:
        """The tail as JSON can hold it."""
        positions = {str(part): at for part, at in self.positions.items()}
        return {"known": self.known, "positions": positions, "marks": dict(self.marks), "rows": self.rows}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> LogTail:
        """The tail that :meth:`to_plain` made this of; one that was kept without marks has none."""
        positions = {int(part): checked(offset, int) for part, offset in plain["positions"].items()}
        rows = plain.get("rows")
        known, marks = checked(plain["known"], int), checked(plain.get("marks", {}), dict)
        return cls(known, positions, marks, None if rows is None else checked(rows, int))


def tails_of(memory: CaptureMemory | None) -> dict[str, LogTail]:
    """The tails of logs by table; a memory that is not there has none."""
    return {table: LogTail.from_plain(tail) for table, tail in memory.logs.items()} if memory is not None else {}


def plain_tails(tails: Mapping[str, LogTail]) -> dict[str, Any]:
    """What a memory has of these logs."""
    return {table: tail.to_plain() for table, tail in tails.items()}


class SparkStateFile:
    """The memory in a folder, for one capture, which ``binding`` describes (plain values only).

    One thread, one process at a time: ``save`` raises RefusedError when another process has saved in between.
    """

    def __init__(self, folder: Path, binding: Mapping[str, Any]) -> None:
        self._files = NumberedFiles(folder, "the memory of the capture")
        self._folder = folder
        self._binding = dict(binding)
        self._number = 0

    def load(self) -> CaptureMemory | None:
        """What was saved last; None if nothing was. Raises ForeignStateError for the memory of another capture."""
        numbers = self._files.numbers()
        if not numbers:
            return None
        self._number = numbers[-1]
        plain = self._files.read(self._number)
        if plain.get("version") != VERSION:
            raise ForeignStateError(
                f"the memory in {self._folder} has version {plain.get('version')!r}, "
                f"this release reads {VERSION}: {_FORGET}"
            )
        with reading(self._folder, _FORGET):
            self._check_binding(plain["binding"])
            memory = CaptureMemory.from_plain(plain, self._folder)
            tails_of(memory)
            return memory

    def save(self, memory: CaptureMemory) -> None:
        """Keep it, durably. Raises RefusedError when another process saved meanwhile, OutputError when it cannot."""
        self._files.put(self._number + 1, {"version": VERSION, "binding": self._binding, **memory.to_plain()})
        self._number += 1
        self._files.prune(self._number - KEPT)

    def _check_binding(self, found: Mapping[str, Any]) -> None:
        for name in sorted(found.keys() | self._binding.keys()):
            if found.get(name) != self._binding.get(name):
                raise ForeignStateError(
                    f"the memory in {self._folder} is of another capture: its {name} is {found.get(name)!r}, here it "
                    f"is {self._binding.get(name)!r}. Give each capture a state directory of its own; if only this "
                    f"memory is wrong, {_FORGET}"
                )


_FORGET = "remove it: the capture then begins at the start of its topics and repeats the facts that are there"
