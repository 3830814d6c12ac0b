"""The log of a shared remap in a directory: a file for each record, with consecutive numbers, put if absent.

::

    remap/00000000000000000000.json       {"cdcv2-remap": 1, "kind": "genesis", ...}
    remap/00000000000000000001.json       {"cdcv2-remap": 1, "kind": "proposal", ...}

Trimming removes the first ones. What that means for who sleeps meanwhile is explained, and tried in all orders, where
the requests are made: :func:`cdcv2.timeline.minting.on_objects`. Here each of them is one call of the file system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

from cdcv2 import failpoints
from cdcv2.errors import MissingLogError, OutputError, RefusedError
from cdcv2.logs.log_names import local_directory
from cdcv2.store.file_system import in_words, unreadable_part
from cdcv2.store.put_if_absent import link, sync_folder, write_temporary
from cdcv2.timeline.minting import Append, Get, List, ObjectRequest, Put, Read, Remove, Trim, ask, on_objects
from cdcv2.timeline.shared_remap import LogView

BEFORE_PUT = failpoints.declare(
    "remap.before-put", "a record of a remap is durable under a temporary name, not in the log"
)
AFTER_PUT = failpoints.declare("remap.after-put", "a record of a remap is in the log, and who put it does not know yet")
WITHIN_TRIM = failpoints.declare("remap.within-trim", "a record that a summary covers is about to be removed")

_NAME = re.compile(r"([0-9]{20})\.json\Z")
T = TypeVar("T")


class DirectoryRemap:
    """The log in the directory ``path``; with ``create`` the directory is made if it is not there.

    Any number of processes may use it at once, on one file system with hard links. Raises MissingLogError without a
    directory, RefusedError when it holds something else, OutputError when it cannot be made, UsageError for a URL.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = local_directory(path)
        if create:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                sync_folder(self.path.parent)
            except OSError as cause:
                raise OutputError(f"no remap can be made in {self.name}: {cause}") from cause
        # The mark of an owner (docs/operations/external-state.md) begins with _.
        foreign = [name for name in self._names() if not name.startswith((".", "_")) and not _NAME.match(name)]
        if foreign:
            raise RefusedError(
                f"the directory {self.name} holds other things ({min(foreign)}): a remap needs a directory of its own. "
                "Name another one, or move them away"
            )

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def place(self, number: int) -> str:
        """The file of a record."""
        return str(self._file(number))

    def read(self, after: int) -> LogView:
        """The records from a number on; see :class:`~cdcv2.timeline.minting.RemapLog`."""
        view: LogView = self._run(on_objects(ask(Read(after))))
        return view

    def append(self, raw: bytes, after: int) -> int:
        """Put a record under the first free number from ``after`` on, durably; the number."""
        return int(self._run(on_objects(ask(Append(raw, after)))))

    def trim(self, before: int) -> None:
        """Remove the records before a number."""
        self._run(on_objects(ask(Trim(before))))

    def _run(self, requests: Generator[ObjectRequest, Any, T]) -> T:
        answer: Any = None
        while True:
            try:
                request = requests.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]  # what the generator returns is a T
            try:
                answer = self._perform(request)
            except OSError as cause:
                if isinstance(request, (Put, Remove)):
                    raise OutputError(f"the remap {self.name} cannot be written: {in_words(cause)}") from cause
                raise unreadable_part(f"the remap {self.name}", cause) from cause

    def _perform(self, request: ObjectRequest) -> Any:
        if isinstance(request, List):
            return [int(found[1]) for found in map(_NAME.match, self._names()) if found]
        place = self._file(request.number)
        if isinstance(request, Get):
            try:
                return place.read_bytes()
            except FileNotFoundError:
                return None
        if isinstance(request, Put):
            return self._put(place, request.raw)
        failpoints.reach(WITHIN_TRIM)
        return place.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self.path / f"{number:020d}.json"

    def _put(self, place: Path, raw: bytes) -> bool:
        if place.exists():
            return False
        temporary = write_temporary(self.path, raw)
        failpoints.reach(BEFORE_PUT)
        free = link(temporary, place)
        if free:
            failpoints.reach(AFTER_PUT)
        temporary.unlink()
        sync_folder(self.path)
        return free

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingLogError(
                f"there is no directory {self.name}, so it is no remap: is the path right, and has a capture begun it?"
            ) from None
        except OSError as cause:
            raise unreadable_part(f"the remap {self.name}", cause) from cause
