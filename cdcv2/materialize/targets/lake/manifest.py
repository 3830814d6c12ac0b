"""The files of a lake: Parquet files of changed rows per table, and numbered manifests that name those that count.

A manifest names, for each table, its files in order. A file has the rows that a transaction has changed, whole, or
marked as deleted, and of a key the *last* file counts; of a multiset, the changes of all files are added
(:mod:`.counts`). Manifests are put if absent, so a reader of the greatest one sees whole commits over all tables, and
nothing of one that is under way. A manifest also has for each range of keys up to where that was applied: so applying a
transaction a second time has no effect. The output of replay is a lake of *histories*: each file has updates, and no
file is ever replaced or removed.

::

    folder/_manifests/00000000000000000007.json
    folder/TABLE/9f3c....parquet         columns of the table, cdcv2_key (canonical bytes), cdcv2_gone;
                                         of a multiset, columns of the rows, and cdcv2_diff;
                                         of a history, in a folder for each batch: data (the row), time, diff
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.own_json import checked, reading
from cdcv2.errors import OutputError, RefusedError
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.materialize.protocol.fence import Range, restored
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.manifests import Manifests, TableFile, TargetManifest, is_staged
from cdcv2.rows.row_type import RowType

#: What stands for the name of a materialization in the output of replay.
REPLAY = "replay"


@dataclass(frozen=True)
class LakeManifest(TargetManifest):
    """What counts: see the module. ``parts``: table -> its files in order.

    ``removing``: names of files that are being removed, which no later manifest may name. ``counts``: the multisets
    whose files are changes of counts, and whether a row stays whose count is 0; a multiset of an earlier release has
    files as the other tables have. ``histories``: the row types of tables of updates, ``coverage``: which of them the
    connector covers; ``reader``: what the reader of the logs keeps beside them.
    """

    WHAT, FORMAT, NEWEST = "lake", "cdcv2 lake", 3

    parts: Mapping[str, tuple[TableFile, ...]] = field(default_factory=dict)
    removing: tuple[str, ...] = ()
    counts: Mapping[str, bool] = field(default_factory=dict)
    histories: Mapping[str, RowType] = field(default_factory=dict)
    coverage: TableCoverage = ALL
    reader: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """See :class:`TargetManifest`. An earlier release would take changes of counts for counts: it must refuse
        them.
        """
        return 3 if self.histories else 2 if self.counts else 1

    def stored_table(self, table: Table) -> Table:
        """See :class:`TargetManifest`."""
        return replace(super().stored_table(table), multiset=table.name in self.counts)

    def with_transaction(
        self, wanted: Range, upper: Antichain, parts: Mapping[str, Sequence[TableFile]]
    ) -> LakeManifest:
        """After a transaction; its files for one table have different keys."""
        return replace(self.with_parts(parts), applied={**self.applied, wanted: upper})

    def with_parts(self, parts: Mapping[str, Sequence[TableFile]]) -> LakeManifest:
        """With more files."""
        names = (*self.tables, *self.histories)
        return replace(self, parts={name: (*self.parts.get(name, ()), *parts.get(name, ())) for name in names})

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
            "files": {name: [part.to_plain() for part in parts] for name, parts in self.parts.items()},
            **({"removing": list(self.removing)} if self.removing else {}),
            **({"counts": dict(self.counts)} if self.counts else {}),
            **({} if not self.histories else {
                "histories": {name: row_type.schema for name, row_type in self.histories.items()},
                "coverage": self.coverage.to_plain(),
                **({"reader": dict(self.reader)} if self.reader else {}),
            }),
        }  # fmt: skip

    @classmethod
    def more_from_plain(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`TargetManifest`."""
        parts = {name: tuple(map(TableFile.from_plain, parts)) for name, parts in plain["files"].items()}
        return {
            "parts": parts, "removing": tuple(checked(one, str) for one in plain.get("removing", ())),
            "counts": {name: checked(zeros, bool) for name, zeros in plain.get("counts", {}).items()},
            "histories": {name: RowType(schema) for name, schema in plain.get("histories", {}).items()},
            "coverage": TableCoverage.from_plain(plain["coverage"]) if "coverage" in plain else ALL,
            "reader": checked(plain.get("reader", {}), dict),
        }  # fmt: skip


class LakeFolder(Manifests[LakeManifest]):
    """The folder of a lake: its manifests, its files. Both of the last ones are kept, for readers that are slow."""

    KIND = LakeManifest
    #: of a history, every so many manifests one lists all files, and the others those that they add
    FULL = 64

    def append(self, number: int, before: LakeManifest | None, after: LakeManifest) -> None:
        """Put the manifest behind ``before``, of histories alone.

        Raises RefusedError where another was faster, RestoredError where ``before`` is not there any more: the folder
        was put back meanwhile.
        """
        there = self._numbered.greatest()
        if before is not None and 0 <= there < number - 1:
            raise restored(before.materialization, f"{self.path} has its manifests up to {there}, and had {number - 1}")
        plain = after.to_plain()
        if before is not None and number % self.FULL:
            new = {name: parts[len(before.parts.get(name, ())):] for name, parts in after.parts.items()}
            plain["files"] = {name: [part.to_plain() for part in parts] for name, parts in new.items() if parts}
            plain["added_to"] = number - 1
        self._numbered.put(number, plain)
        self._greatest = number

    def _load(self, number: int) -> LakeManifest:
        plain = self._numbered.read(number)
        if "builds_on" in plain:
            with reading(self.path):
                plain = _of_replay(plain, number)
        found = LakeManifest.from_plain(plain, self.path)
        if "added_to" not in plain:
            return found
        return replace(found, parts=self.manifest(plain["added_to"]).with_parts(found.parts).parts)

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

    def demand_files(self) -> None:
        """See :class:`Manifests`. Nothing that a table lacks would ever be written again. Cost: one stat per file.

        Raises RefusedError unless each file that the last manifest names is there.
        """
        number, manifest = self.last()
        names = () if manifest is None else [(table, one) for table, parts in manifest.parts.items() for one in parts]
        lost = [self.file(table, part) for table, part in names if not self.file(table, part).exists()]
        if manifest is None or not lost:
            return
        if self._numbered.newest(self.manifest)[0] != number:
            # Others have merged it with other files, and removed it.
            return self.demand_files()
        other = "the reader's state and checkpoint" if manifest.histories else "the recovery log"
        raise RefusedError(
            f"the {manifest.WHAT} in {self.path} has lost files: its last manifest names {lost[0]}, which is not there "
            f"({len(lost)} of {len(names)} are missing). Restore the folder; or remove it, and {other}, to start over"
        )

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


def _of_replay(plain: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A manifest that replay wrote before its output was a lake, as one of a lake.

    It had one number of rows for the files of a batch: the first of them has all.
    """
    files: dict[str, list[list[Any]]] = {}
    for table, paths, lower, _, rows in plain["files"]:
        names = [path.removeprefix(f"{table}/").removesuffix(".parquet") for path in paths]
        files.setdefault(table, []).extend([name, 0 if at else rows, lower[0]] for at, name in enumerate(names))
    return {
        "format": LakeManifest.FORMAT, "version": 3, "materialization": REPLAY, "start": plain["start"],
        "applied": [[Range().begin, Range().end, plain["upper"]]], "tables": {}, "histories": plain["tables"],
        # Earlier ones had no output with a table that is not covered.
        "files": files, "coverage": plain.get("coverage", ALL.to_plain()),
        **({} if plain["builds_on"] is None else {"added_to": number - 1}),
    }  # fmt: skip
