"""Which versions of several Delta tables are one cut: numbered manifests beside them.

Delta commits one table at a time. So a transaction over several goes through two manifests: the first states that it is
*being applied*, with the files that it has staged; then each table has it, by a commit of its own; the second states
that it was applied, and names the versions that have it. Manifests are put if absent, and who finds one that is being
applied, of whatever process, *finishes it* before anything else: so transactions come one after the other in all tables
alike, no process waits for one that died, and the versions that a manifest names are a cut.

::

    folder/_manifests/00000000000000000007.json
    folder/_staged/9f3c....parquet         rows of a transaction, until they are applied
    folder/TABLE/_delta_log/               a Delta table, for any reader of Delta
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.targets.manifests import Manifests, TableFile, TargetManifest, is_staged


class TableVersion(NamedTuple):
    """A table at a commit: Delta's version, and the number of the last transaction that it has (None: none yet)."""

    version: int
    transaction: int | None


class TransactionFiles(NamedTuple):
    """What a transaction does to one table: staged files, of which no two have the same key.

    ``unseen``: Delta's version in which none of the keys was; None when some were.
    """

    names: list[str]
    unseen: int | None


@dataclass(frozen=True)
class PendingCommit:
    """A committed transaction, as the recovery log and a manifest name it."""

    range: Range
    upper: Antichain
    files: Mapping[str, TransactionFiles]

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "range": [self.range.begin, self.range.end], "upper": self.upper.to_plain(),
            "files": {table: list(file) for table, file in self.files.items()},
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> PendingCommit:
        """What :meth:`to_plain` made this of."""
        files = {table: TransactionFiles(*file) for table, file in plain["files"].items()}
        return cls(Range(*plain["range"]), Antichain.from_plain(plain["upper"]), files)


@dataclass(frozen=True)
class DeltaManifest(TargetManifest):
    """What counts: see the module. ``marks``: table -> its version of the cut."""

    WHAT, FORMAT = "folder of Delta tables", "cdcv2 delta"

    marks: Mapping[str, TableVersion]
    applying: PendingCommit | None = None

    def under_way(self) -> list[tuple[Range, Antichain]]:
        """See :class:`TargetManifest`."""
        return [] if self.applying is None else [(self.applying.range, self.applying.upper)]

    def done(self, marks: Mapping[str, TableVersion]) -> DeltaManifest:
        """After the transaction that was being applied: the tables that it has changed are at these marks.

        Raises RefusedError unless one was being applied.
        """
        if self.applying is None:
            raise RefusedError("no transaction is being applied")
        applied = {**self.applied, self.applying.range: self.applying.upper}
        return replace(self, marks={**self.marks, **marks}, applied=applied, applying=None)

    def more_to_plain(self) -> dict[str, Any]:
        """See :class:`TargetManifest`."""
        return {
            "marks": {name: list(mark) for name, mark in self.marks.items()},
            "applying": None if self.applying is None else self.applying.to_plain(),
        }

    @classmethod
    def more_from_plain(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`TargetManifest`."""
        return {
            "marks": {name: TableVersion(*mark) for name, mark in plain["marks"].items()},
            "applying": None if plain["applying"] is None else PendingCommit.from_plain(plain["applying"]),
        }


class DeltaFolder(Manifests[DeltaManifest]):
    """The folder of a materialization: its manifests, what is staged, and its Delta tables."""

    KIND = DeltaManifest

    def put(self, number: int, manifest: DeltaManifest) -> bool:
        """Make it the one that counts; False when another instance has put this number, or a greater one."""
        try:
            self._numbered.put(number, manifest.to_plain())
        except RefusedError:
            return False
        self._numbered.prune(number + 1 - self.KEPT)
        return True

    def table(self, name: str) -> Path:
        """Where a Delta table lies."""
        return self.path / name

    def file(self, table: str, part: TableFile) -> Path:
        """Where a staged file lies."""
        return self.staged(part.name)

    def staged(self, name: str) -> Path:
        """The same, by its name."""
        return self.path / "_staged" / f"{name}.parquet"

    def remove(self, orphans: Iterable[Path]) -> list[Path]:
        """See :class:`Manifests`."""
        going = list(orphans)
        for path in going:
            path.unlink(missing_ok=True)
        return going

    def orphans(self) -> list[Path]:
        """See :class:`Manifests`."""
        there = set(filter(is_staged, self.path.glob("_staged/*.parquet")))
        _, manifest = self.last()
        if manifest is not None and manifest.applying is not None:
            there -= {self.staged(name) for files in manifest.applying.files.values() for name in files.names}
        return sorted(there)
