"""What a controller of replicas keeps: its indexes with their sinces. One process at a time changes it.

::

    {"format": "cdcv2-replicas", "version": 1, "epoch": 3, "named": 2,
     "indexes": [{"CreateIndex": {"id": "2", "tables": [["orders", ["id"], "log-1"]], "since": 7}}], "digest": "..."}

The file is replaced as a whole, before commands are sent whose effect it states. Peeks and tails are not in it: their
clients request them again. A lock on the folder lets one process work; ``epoch`` grows with each, and one that has lost
the lock without noticing it (a folder that was copied back, a network file system) writes nothing any more.
``named`` is how many indexes were ever named: a name is of one thing for ever.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cdcv2 import failpoints
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import checked, reading, with_digest, without_digest
from cdcv2.errors import FencedError, ForeignStateError, OutputError, RefusedError, UnavailableError
from cdcv2.instances.commands import CreateIndex, IndexedTable
from cdcv2.instances.run.locks import LockedError, locked
from cdcv2.instances.wire import decode, encode
from cdcv2.store.file_system import in_words
from cdcv2.store.put_if_absent import replace_file

#: The name of its file in the folder.
CATALOGUE = "replicas.json"
BEFORE_WRITE = failpoints.declare("index-catalogue.before-write", "a change of the indexes is decided, and not written")
AFTER_WRITE = failpoints.declare("index-catalogue.after-write", "it is written, and no command was sent")
_FORMAT, _VERSION = "cdcv2-replicas", 1
_RESTORE = "restore it, or name another --state: then the replicas read their logs again"


class IndexCatalogue:
    """The catalogue in a folder, which is made if it is not there, and ours until :meth:`close`.

    Raises RefusedError where another process has it, ForeignStateError for a file that is damaged or of a later
    version, OutputError.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CATALOGUE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = locked(folder / "replicas.lock")
        except OSError as error:
            raise OutputError(f"{folder} cannot be written: {in_words(error)}; give another --state") from error
        except LockedError as other:
            raise RefusedError(
                f"another process keeps the replicas of {folder} ({other}): end that one first, or give another --state"
            ) from None
        try:
            plain = self._read()
            #: The number of this owner.
            self.epoch = plain["epoch"] + 1
            self._named: int = plain["named"]
            self._indexes: list[CreateIndex] = plain["indexes"]
            self._put(self.epoch - 1)
        except BaseException:
            self.close()
            raise

    @property
    def indexes(self) -> Sequence[CreateIndex]:
        """The indexes, each with the since that it may have by now."""
        return tuple(self._indexes)

    def index_of(self, tables: tuple[IndexedTable, ...]) -> CreateIndex:
        """The one index over these tables; others are dropped. One that is not there yet gets a name, and is kept."""
        found = [one for one in self._indexes if one.definition == frozenset(tables)][:1]
        if not found:
            self._named += 1
            found = [CreateIndex(str(self._named), tables)]
        self.keep(found)
        return found[0]

    def keep(self, indexes: Iterable[CreateIndex]) -> None:
        """Keep these, durably; nothing is written where they are kept already. Raises FencedError, OutputError."""
        changed = list(indexes)
        if changed != self._indexes:
            self._indexes = changed
            self._put(self.epoch)

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    def __enter__(self) -> IndexCatalogue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, expected: int) -> None:
        """Write it, if the owner there is the one that is expected."""
        there = self._read()["epoch"]
        if there != expected:
            raise FencedError(
                f"{self._path} is kept by another process by now (its number is {there}, and ours {self.epoch}): let "
                "that one work"
            )
        plain = {"format": _FORMAT, "version": _VERSION, "epoch": self.epoch, "named": self._named,
                 "indexes": [json.loads(encode(index)) for index in self._indexes]}
        failpoints.reach(BEFORE_WRITE)
        try:
            replace_file(self._path, json.dumps(with_digest(plain)).encode())
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {in_words(error)}; make room, or grant the right") \
                from error
        failpoints.reach(AFTER_WRITE)

    def _read(self) -> dict[str, Any]:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return {"epoch": 0, "named": 0, "indexes": []}
        except OSError as error:
            raise UnavailableError(f"{self._path} cannot be read: {in_words(error)}; grant the right to") from error
        with reading(self._path, _RESTORE):
            plain = checked(parse_json(raw), dict)
            if plain["format"] != _FORMAT or plain["version"] != _VERSION:
                raise ForeignStateError(
                    f"{self._path} is of the format {plain['format']!r} {plain['version']!r}, and this is "
                    f"{_FORMAT!r} {_VERSION}: use the cdcv2 that wrote it, or give another --state"
                )
            stated = without_digest(plain, self._path, _RESTORE)
            indexes = [decode(json.dumps(one)) for one in checked(stated["indexes"], list)]
            if not all(isinstance(one, CreateIndex) for one in indexes):
                raise TypeError("it has commands that are no index")
            return {"epoch": checked(stated["epoch"], int), "named": checked(stated["named"], int), "indexes": indexes}
