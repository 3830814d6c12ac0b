"""Where a capture without Spark keeps its memory (:mod:`cdcv2.capture.memory`): one small JSON file, replaced whole.

What is in it is stated in :mod:`cdcv2.capture.memory_format`.

Losing it costs time, never facts. So it is enough that it is either the old one or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from cdcv2.capture.memory_format import FORGET
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import with_digest, without_digest
from cdcv2.errors import ForeignStateError, OutputError
from cdcv2.store.file_system import in_words
from cdcv2.store.put_if_absent import replace_file

#: Where a capture without Spark keeps from where to read its topics again, beside its logs.
MEMORY_FILE = "_memory.json"


class MemoryStore(Protocol):
    """Keeps one plain JSON object."""

    def load(self) -> dict[str, Any] | None:
        """What was saved last; None if nothing was."""

    def save(self, plain: Mapping[str, Any]) -> None:
        """Keep it, durably, in place of what was kept before. Raises OutputError."""


class MemoryFile:
    """The memory of a capture in a file. Raises ForeignStateError for a file of another kind, OutputError on failure.

    ``logs`` is the name of the logs that it belongs to, if they have one: the memory of other logs is refused, as its
    positions skip what these lack.
    """

    def __init__(self, path: str | os.PathLike[str], *, logs: str | None = None) -> None:
        self.path = Path(path)
        self._logs = logs

    def load(self) -> dict[str, Any] | None:
        """What was saved last; None if there is no file. Raises ForeignStateError unless it is of these logs."""
        try:
            plain = parse_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ForeignStateError(f"{self.path} is no memory of a capture ({error}): {FORGET}") from None
        if not isinstance(plain, dict):
            raise ForeignStateError(f"{self.path} is no memory of a capture: give another file")
        plain = without_digest(plain, self.path, FORGET)
        if self._logs is not None and plain.pop("of", None) != self._logs:
            raise ForeignStateError(
                f"{self.path} was made for other logs, and its positions skip what these lack: {FORGET}"
            )
        return plain

    def save(self, plain: Mapping[str, Any]) -> None:
        """Write beside, then put in place: a crash leaves the old or the new. Raises OutputError unless it can."""
        kept = plain if self._logs is None else {**plain, "of": self._logs}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, json.dumps(with_digest(kept), sort_keys=True).encode())
        except OSError as error:
            raise OutputError(f"the capture's memory {self.path} cannot be written: {in_words(error)}") from error
