"""Where a capture on Spark keeps its memory (:mod:`cdcv2.capture.memory`): in a folder, each as a file of its own.

A file has the next number (:mod:`cdcv2.store.numbered`), so that a second process with the same state is detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcv2.capture.memory_format import MEMORY
from cdcv2.store.numbered import NumberedFiles

#: How many old ones are kept, for people.
KEPT = 3


class MemoryFolder:
    """The memory of one capture, in a folder. One thread, one process at a time."""

    def __init__(self, folder: Path) -> None:
        self._files, self._number = NumberedFiles(folder, MEMORY), 0
        #: What it is called in errors.
        self.place = f"the memory in {folder}"

    def load(self) -> dict[str, Any] | None:
        """What was saved last; None if nothing was. Raises ForeignStateError for a file that is damaged."""
        numbers = self._files.numbers()
        if not numbers:
            return None
        self._number = numbers[-1]
        return self._files.read(self._number)

    def save(self, plain: Mapping[str, Any]) -> None:
        """Keep it, durably. Raises RefusedError when another process saved meanwhile, OutputError when it cannot."""
        self._files.put(self._number + 1, dict(plain))
        self._number += 1
        self._files.prune(self._number - KEPT)
