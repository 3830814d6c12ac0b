"""The common part of the manifests of a lake and of Delta tables: whose they are, and up to where they have it.

A manifest is put if absent, under the next number in ``folder/_manifests``, and the greatest one counts. It names the
materialization and the columns of its tables, and has for each range of keys up to where a transaction was applied.
:mod:`.lake_manifest` and :mod:`.delta_manifest` have the rest. An instance that opens the folder is checked against it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from cdcv2.core.antichain import Antichain
from cdcv2.core.own_json import checked, reading
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.fence import Holding, Piece, Range, ahead, meet_of, pieces, restored
from cdcv2.materialize.protocol.messages import Field, Open, Table
from cdcv2.rows.source_types import SourceType
from cdcv2.store.numbered import NumberedFiles, local_path

S = TypeVar("S", bound="TargetManifest")


@dataclass(frozen=True)
class TableFile:
    """One file of a table, and how many rows it has; of updates, ``lower``: no time in it is before."""

    name: str
    rows: int
    lower: int | None = None

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> TableFile:
        """The file that a manifest names, or the state of a driver. Raises TypeError and ValueError."""
        name, *numbers = plain
        return cls(checked(name, str), *(checked(one, int) for one in numbers))

    def to_plain(self) -> list[Any]:
        """As JSON holds it."""
        return [self.name, self.rows] if self.lower is None else [self.name, self.rows, self.lower]


_STAGED = re.compile(r"[0-9a-f]{32}\.parquet", re.ASCII)


def is_staged(path: Path) -> bool:
    """Whether the name of a file is one of those that are staged here, not one of another program."""
    return _STAGED.fullmatch(path.name) is not None


@dataclass(frozen=True)
class TargetManifest(ABC):
    """A manifest, as far as all are alike. ``tables``: name -> columns; ``applied``: range of keys -> frontier."""

    #: what the folder holds, in the words of errors and of the file itself
    WHAT: ClassVar[str]
    FORMAT: ClassVar[str]
    #: the newest version of the file that is read
    NEWEST: ClassVar[int] = 1

    materialization: str
    start: Antichain
    tables: Mapping[str, Table]
    applied: Mapping[Range, Antichain] = field(default_factory=dict, kw_only=True)

    @property
    def version(self) -> int:
        """The oldest version of the file that can state this."""
        return 1

    def stored(self, message: Open) -> Open:
        """What is opened, with the tables as they are kept here."""
        return replace(message, tables=tuple(map(self.stored_table, message.tables)))

    def stored_table(self, table: Table) -> Table:
        """A table as it is kept here: its columns in the types that they were made in; another one as it is."""
        there = self.tables.get(table.name)
        found = replace(there, soft=table.soft) if there == table and there is not None else table
        return replace(found, multiset=False)

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is in the manifest's files, for every key."""
        held = [Holding(wanted, 0, at) for wanted, at in self.applied.items()]
        return meet_of(pieces(held, Range(), lambda at: at, self.start))

    def has(self, wanted: Range, upper: Antichain) -> bool:
        """Whether this range's transaction up to ``upper`` was applied."""
        return wanted in self.applied and self.applied[wanted].dominates(upper)

    def under_way(self) -> list[tuple[Range, Antichain]]:
        """What is being applied: ranges, and up to where."""
        return []

    @abstractmethod
    def more_to_plain(self) -> dict[str, Any]:
        """The rest of it, as JSON holds it."""

    @classmethod
    @abstractmethod
    def more_from_plain(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """The same again, as arguments."""

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "format": self.FORMAT, "version": self.version,
            "materialization": self.materialization, "start": self.start.to_plain(),
            "applied": [[one.begin, one.end, at.to_plain()] for one, at in self.applied.items()],
            "tables": {name: _plain_table(table) for name, table in self.tables.items()},
            **self.more_to_plain(),
        }  # fmt: skip

    @classmethod
    def from_plain(cls: type[S], plain: Mapping[str, Any], place: object) -> S:
        """What :meth:`to_plain` made this of. Raises ForeignStateError for anything else."""
        if plain.get("format") != cls.FORMAT or plain.get("version") not in range(1, cls.NEWEST + 1):
            raise ForeignStateError(
                f"{place} holds no {cls.WHAT} of cdcv2, version {cls.NEWEST}: name another folder, or use a newer cdcv2"
            )
        with reading(place):
            return cls(
                checked(plain["materialization"], str), Antichain.from_plain(plain["start"]),
                {name: _table_of(name, one) for name, one in plain["tables"].items()},
                applied={Range(begin, end): Antichain.from_plain(at) for begin, end, at in plain["applied"]},
                **cls.more_from_plain(plain),
            )  # fmt: skip


class Manifests(ABC, Generic[S]):
    """The folder of a materialization: its manifests. Raises OutputError when it cannot be written or read."""

    #: how many manifests are kept
    KEPT = 8
    #: what its manifests are
    KIND: type[S]

    def __init__(self, folder: str | Path) -> None:
        self.path = local_path(folder)
        self._numbered = NumberedFiles(self.path / "_manifests", f"the {self.KIND.WHAT}")
        # The greatest number that was seen: none of them is ever removed.
        self._greatest = -1
        # Number -> its file's stamp, and the manifest: each is read once.
        self._read: dict[int, tuple[Any, S]] = {}

    def last(self) -> tuple[int, S | None]:
        """The manifest that counts, and its number; -1 and None where there is none yet.

        Raises RestoredError where it is an older one than this object has seen: the folder was put back meanwhile.
        """
        number, manifest = self._numbered.newest(self.manifest)
        if manifest is not None and number < self._greatest:
            there = f"the last manifest in {self.path} has the number {number}, and {self._greatest} was there"
            raise restored(manifest.materialization, there)
        self._greatest = max(number, self._greatest)
        return number, manifest

    def manifest(self, number: int) -> S:
        """The one with this number. Raises OutputError when it is not there, ForeignStateError when it is damaged."""
        stamp = self._numbered.stamp(number)
        known = self._read.get(number)
        if known is None or stamp is None or known[0] != stamp:
            known = self._read[number] = stamp, self._load(number)
            for old in [one for one in self._read if one <= number - 2 * self.KEPT]:
                del self._read[old]
        return known[1]

    def _load(self, number: int) -> S:
        return self.KIND.from_plain(self._numbered.read(number), self.path)

    @abstractmethod
    def file(self, table: str, part: TableFile) -> Path:
        """Where a file of a table lies, or where it is staged."""

    @abstractmethod
    def orphans(self) -> list[Path]:
        """Files that no manifest names: of transactions that died, of such as are under way, **and of such as were
        committed and not yet applied**: those the recovery log names, however old they are.

        An instance may remove them (:meth:`remove`) if it has opened all keys and applied what was committed, asks for
        these *after* that, and then finds that no other instance has taken over. Then their writers can commit no more,
        and a later instance names files of its own. That is what ``cdcv2 orphans --remove`` does.
        """

    @abstractmethod
    def remove(self, orphans: Iterable[Path]) -> list[Path]:
        """Remove files when :meth:`orphans` allows it; returns those that are removed. No frozen instance names one.
        """

    def demand_there(self, number: int, state: Mapping[str, Any]) -> None:
        """Raise RefusedError if the recovery log knows of a later manifest than the one that counts."""
        known = state.get("manifest", 0)
        if number < known:
            raise RefusedError(
                f"the {self.KIND.WHAT} in {self.path} has lost commits: the last manifest has the number {number}, and "
                f"the recovery log knows of {known}. Restore the folder, or start over with an empty folder and an "
                "empty recovery log"
            )

    def demand_files(self) -> None:
        """Raise RefusedError where a file is missing that the last manifest names: by default, nothing is looked at."""

    def demand_same(self, manifest: S, message: Open) -> None:
        """Raise ForeignStateError or RefusedError unless what is opened continues what is there."""
        self.demand_own(manifest, message.materialization, message.tables)
        _demand_known(self.path, [*manifest.applied.items(), *manifest.under_way()], message)

    def demand_own(self, manifest: S, materialization: str, tables: Iterable[Table]) -> None:
        """Raise ForeignStateError unless the folder is of this name, RefusedError unless it has these tables."""
        if manifest.materialization != materialization:
            raise ForeignStateError(
                f"{self.path} holds the {manifest.WHAT} of {manifest.materialization!r}, not of "
                f"{materialization!r}: each needs a folder of its own"
            )
        for table in tables:
            if manifest.tables.get(table.name) != table:
                state = "has other columns" if table.name in manifest.tables else "is not in it"
                raise RefusedError(
                    f"the {manifest.WHAT} in {self.path} is at {manifest.frontier}, and the table {table.name!r} "
                    f"{state}: what came before would be missing there. Materialize into a new folder, with a new "
                    "recovery log"
                )


def _demand_known(place: Path, applied: Iterable[tuple[Range, Antichain]], message: Open) -> None:
    """Raise RefusedError if more was applied than the recovery log has committed: it is another one, or an old one.

    A transaction is applied when the recovery log has it. One whose log has lost it would be made again, of other cuts,
    and what is there already would be added a second time.
    """
    held = [Holding(one, 0, at) for one, at in applied]
    found = pieces(held, message.range, lambda at: at, message.start)
    beyond = ahead(found, message.pieces or (Piece(message.range, message.start),))
    if beyond is not None:
        there, known = beyond
        raise RefusedError(
            f"{place} is at {there.frontier}, and the recovery log at {known.frontier}: it is another log, or an old "
            "one (as of a backup), and what is in the folder would be added again. Name the log that the folder was "
            "made with, restore both from one moment, or start over with both empty"
        )


def _plain_table(table: Table) -> dict[str, Any]:
    columns = [_plain_field(one) for one in table.fields]
    return {"key": columns[: len(table.key)], "values": columns[len(table.key):]}


def _plain_field(one: Field) -> list[Any]:
    plain = [one.name, one.kind, one.nullable, one.precision, one.scale]
    return plain if one.source is None else [*plain, one.source.to_plain()]


def _table_of(name: str, plain: Mapping[str, Any]) -> Table:
    return Table(name, tuple(map(_field_of, plain["key"])), tuple(map(_field_of, plain["values"])))


def _field_of(plain: Sequence[Any]) -> Field:
    """A column; older files have no type of the source: then the column is as the log has it."""
    name, kind, nullable, precision, scale, *source = plain
    digits = checked(precision, int, type(None)), checked(scale, int, type(None))
    typed = SourceType.from_plain(source[0]) if source else None
    return Field(checked(name, str), checked(kind, str), checked(nullable, bool), *digits, typed)
