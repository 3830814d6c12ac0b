"""What a lake and Delta tables have in common: a transaction is staged files, committed by name, and then applied once.

The recovery log rules. Rows go into a new file per table (or per task of an executor, :mod:`.staging`); StartCommit
names the files in the state that is committed with the checkpoint; Acknowledge applies what the state names, as far as
it was not. How keys are looked up, and what applying is, is the driver's.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from cdcv2 import failpoints
from cdcv2.errors import RefusedError, UsageError
from cdcv2.materialize.distributed import DistributedDriver
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, ConflictError, Key, Load, Loaded, Open, Patch, StartCommit, StartedCommit,
    Store, Table,
)
from cdcv2.materialize.targets.lake.columns import canonical_keys, conflict
from cdcv2.materialize.targets.lake.files import KEY, StagedFile, StagingFolder, arrow
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.columns import rows_at


class ManifestFolder(StagingFolder, Protocol):
    """A folder with numbered manifests, and staged files."""

    def last(self) -> tuple[int, Any]:
        """The manifest that counts, and its number."""


def demand_view(table: Table, what: str) -> None:
    """Raise UsageError unless the table keeps a view, under a name that a folder can have; ``what`` keeps it."""
    name = table.name
    if table.delta:
        raise UsageError(f"{name}: {what} keeps views, not changes: leave delta out")
    if not name or "/" in name or "\\" in name or name[0] in "._":
        raise UsageError(
            f"{name!r} cannot be the name of a table of {what}, as it names a folder: no /, no leading . or _"
        )


class StagedDriver(DistributedDriver):
    """One instance on a folder. A subclass opens it, looks keys up in ``flush``, and applies.

    Args:
        folder: where files are staged, and manifests are.
    """

    #: the step at which all files are durable, and the one at which all that was committed is applied
    STAGED: ClassVar[str]
    APPLIED: ClassVar[str]
    #: what it is, in an error
    WHAT: ClassVar[str]

    def __init__(self, folder: ManifestFolder) -> None:
        self._place = folder
        self._message: Open | None = None
        # Name of a committed transaction -> its state; those that were applied since the last commit.
        self._pending: dict[str, Any] = {}
        self._done: list[str] = []
        # Number of the table -> the keys that are to be looked up; the file that is being written.
        self._asked: dict[int, list[Key]] = {}
        self._staged: dict[int, StagedFile] = {}

    @abstractmethod
    def _apply(self, transaction: Mapping[str, Any]) -> None:
        """Apply a transaction of the state, unless it was applied."""

    @abstractmethod
    def _name(self, number: int, part: TableFile) -> None:
        """A finished file of a table belongs to the transaction."""

    @abstractmethod
    def _take_files(self) -> dict[str, Any]:
        """Table -> its files, as the state has them; the next transaction begins without."""

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Apply what the state names, as far as it was not."""
        for transaction in sorted(self._pending.values(), key=lambda one: one["upper"] or [float("inf")]):
            self._apply(transaction)
        failpoints.reach(self.APPLIED)
        self._done += self._pending
        self._pending = {}
        return Acknowledged(Patch({"staged": dict.fromkeys(self._done), "manifest": self._place.last()[0]}))

    def load(self, message: Load) -> Iterable[Loaded]:
        """Note the key."""
        self._asked.setdefault(message.binding, []).append(message.key)
        return ()

    def store(self, message: Store) -> None:
        """Into the table's new file. Raises MalformedError for what it cannot hold, OutputError."""
        self._file(message.binding).add(message)

    def _stage(self, message: Changes, gone: Any, come: Any, there: Any, column: str = KEY) -> None:
        """Changes into the table's new file, when the rows that are ``there`` are what they go with.

        ``gone`` and ``come`` are their keys, as this column of ``there`` has them. Raises ConflictError
        otherwise.
        """
        pa, table = arrow(), self._opened().tables[message.binding]
        odd = conflict(table, message, gone, come, there, column)
        if odd is not None:
            raise ConflictError(table.name, message.binding, *odd)
        left = message.gone.slice(message.both)
        rows = pa.concat_tables([message.come, left])
        marks = pa.concat_arrays([pa.repeat(False, len(come)), pa.repeat(True, len(left))])
        order = pa.compute.sort_indices(rows, [(field.name, "ascending") for field in table.key])
        rows = rows_at(rows, order)
        self._file(message.binding).add_columns(rows, canonical_keys(table, rows), marks.take(order))

    def _file(self, number: int) -> StagedFile:
        """The table's new file."""
        staged = self._staged.get(number)
        if staged is None:
            staged = self._staged[number] = StagedFile(self._place, self._opened().tables[number])
        return staged

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Make the files durable, and name them."""
        opened = self._opened()
        for number, staged in self._staged.items():
            self._name(number, staged.finish())
        self._staged, files = {}, self._take_files()
        failpoints.reach(self.STAGED)
        transaction = {
            "range": [opened.range.begin, opened.range.end],
            "upper": message.checkpoint.frontier.to_plain(),
            "files": files,
        }
        # What was applied is forgotten here for certain: the patch of Acknowledged may have been lost.
        name, done = uuid.uuid4().hex, dict.fromkeys(self._done)
        self._pending, self._done = {name: transaction}, []
        return StartedCommit(Patch({"staged": {**done, name: transaction}}))

    def close(self) -> None:
        """Remove what is staged and not finished."""
        staged, self._staged = self._staged, {}
        for one in staged.values():
            one.discard()

    def _opened(self) -> Open:
        if self._message is None:
            raise RefusedError(f"this driver of {self.WHAT} is not open")
        return self._message
