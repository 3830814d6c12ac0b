"""The files of a lake: Parquet files of changed rows per table, and numbered manifests that name those that count.

A manifest names, for each table, its files in order. A file has the rows that a transaction has changed, whole, or
marked as deleted, and of a key the *last* file counts; of a multiset, the changes of all files are added
(:mod:`.counts`). Manifests are put if absent, so a reader of the greatest one sees whole commits over all tables, and
nothing of one that is under way. A manifest also has for each range of keys up to where that was applied: so applying a
transaction a second time has no effect.

::

    folder/_manifests/00000000000000000007.json
    folder/TABLE/9f3c....parquet         columns of the table, cdcv2_key (canonical bytes), cdcv2_gone;
                                         of a multiset, columns of the rows, and cdcv2_diff
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.own_json import checked
from cdcv2.errors import OutputError, RefusedError
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.manifests import Manifests, TableFile, TargetManifest, is_staged


@dataclass(frozen=True)
class LakeManifest(TargetManifest):
    """What counts: see the module. ``parts``: table -> its files in order.

    ``removing``: names of files that are being removed, which no later manifest may name. ``counts``: the multisets
    whose files are changes of counts, and whether a row stays whose count is 0; a multiset of an earlier release has
    files as the other tables have.
    """

    WHAT, FORMAT, NEWEST = "lake", "cdcv2 lake", 2

    parts: Mapping[str, tuple[TableFile, ...]] = field(default_factory=dict)
    removing: tuple[str, ...] = ()
    counts: Mapping[str, bool] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """See :class:`TargetManifest`. An earlier release would take changes of counts for counts: it must refuse
        them.
        """
        return 2 if self.counts else 1

    def stored_table(self, table: Table) -> Table:
        """See :class:`TargetManifest`."""
        return replace(super().stored_table(table), multiset=table.name in self.counts)

    def with_transaction(
        self, wanted: Range, upper: Antichain, parts: Mapping[str, Sequence[TableFile]]
    ) -> LakeManifest:
        """After a transaction; its files for one table have different keys."""
        merged = {name: (*self.parts.get(name, ()), *parts.get(name, ())) for name in self.tables}
        return replace(self, parts=merged, applied={**self.applied, wanted: upper})

    def with_merged(self, table: str, old: Sequence[TableFile], new: TableFile) -> LakeManifest | None:
        """With one file in place of some that follow each other; None when they do not any more, or it is removed."""
        there = () if new.name in self.removing else self.parts.get(table, ())
        for at in range(len(there) - len(old) + 1):
            if there[at : at + len(old)] == tuple(old):
                return replace(self, parts={**self.parts, table: (*there[:at], new, *there[at + len(old):])})
        return None

    def more_to_plain(self) -> dict[str, Any]:
        """See :class:`TargetManifest`."""
        return {
            "files": {name: [[part.name, part.rows] for part in parts] for name, parts in self.parts.items()},
            **({"removing": list(self.removing)} if self.removing else {}),
            **({"counts": dict(self.counts)} if self.counts else {}),
        }

    @classmethod
    def more_from_plain(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`TargetManifest`."""
        parts = {name: tuple(map(TableFile.from_plain, parts)) for name, parts in plain["files"].items()}
        return {
            "parts": parts, "removing": tuple(checked(one, str) for one in plain.get("removing", ())),
            "counts": {name: checked(zeros, bool) for name, zeros in plain.get("counts", {}).items()},
        }  # fmt: skip


class LakeFolder(Manifests[LakeManifest]):
    """The folder of a lake: its manifests, its files. Both of the last ones are kept, for readers that are slow."""

    KIND = LakeManifest

    def change(self, decide: Callable[[LakeManifest | None], LakeManifest | None]) -> int:
        """Put what ``decide`` makes of the manifest that counts, if it makes something; the number that counts then.

        ``decide`` is asked again when another instance was faster.
        """
        while True:
            number, before = self.last()
            after = decide(before)
            if after is None or after == before:
                return number
            try:
                self._numbered.put(number + 1, after.to_plain())
            except RefusedError:
                continue
            self._forget(number + 2 - self.KEPT)
            return number + 1

    def _forget(self, first_kept: int) -> None:
        """Remove the manifests before that one, and the files that only they name."""
        there = self._numbered.numbers()
        old = [number for number in there if number < first_kept]
        if not old:
            return
        first, *kept = [number for number in there if number >= first_kept]
        gone = self._named(*old) - self._named(first)
        if gone:
            gone -= self._named(*kept)
        self._numbered.prune(first_kept)
        for table, name in gone:
            self._path(table, name).unlink(missing_ok=True)

    def _named(self, *numbers: int) -> set[tuple[str, str]]:
        """Table and name of each file that one of these manifests has."""
        found = set[tuple[str, str]]()
        for number in numbers:
            try:
                manifest = self.manifest(number)
            except OutputError:
                # Another instance forgets the same ones.
                continue
            found.update((table, part.name) for table, parts in manifest.parts.items() for part in parts)
        return found

    def _paths(self) -> set[Path]:
        """The files that any manifest names."""
        return {self._path(table, name) for table, name in self._named(*self._numbered.numbers())}

    def orphans(self) -> list[Path]:
        """See :class:`Manifests`."""
        _, manifest = self.last()
        tables = () if manifest is None else manifest.tables
        there = {path for name in tables for path in self.path.glob(f"{escape(name)}/*.parquet") if is_staged(path)}
        # The manifests are read later: what they name then is no orphan.
        return sorted(there - self._paths())

    def remove(self, orphans: Iterable[Path]) -> list[Path]:
        """See :class:`Manifests`. A merge commits nothing, so no fence stops an instance frozen with a merged file.

        A manifest states that the files go, before they do. An instance that builds on an earlier manifest is too late
        to put its own; one that builds on a later manifest does not find the file.
        """
        wanted, going = list(orphans), list[Path]()

        def decide(before: LakeManifest | None) -> LakeManifest | None:
            # Named meanwhile: it stays.
            named = self._paths()
            going[:] = [path for path in wanted if path not in named]
            return before and replace(before, removing=tuple(path.stem for path in going))

        self.change(decide)
        for path in going:
            path.unlink(missing_ok=True)
        self.change(lambda before: before and replace(before, removing=()))
        return going

    def file(self, table: str, part: TableFile) -> Path:
        """Where a file lies."""
        return self._path(table, part.name)

    def _path(self, table: str, name: str) -> Path:
        return self.path / table / f"{name}.parquet"
