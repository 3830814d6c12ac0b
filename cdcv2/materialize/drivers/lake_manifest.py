"""What lies in a lake: Parquet files of changed rows per table, and numbered manifests that say which of them count.

A manifest names, for each table, its files in order; a file has the rows that a transaction has changed, whole, or that
they are gone, and of a key the *last* file counts. Manifests are put if absent, so whoever reads the greatest one sees
whole commits over all tables, and nothing of one that is under way. Besides, it says per range of keys up to where it
was applied, which is how applying a transaction a second time is known to be nothing.

::

    folder/_manifests/00000000000000000007.json
    folder/TABLE/9f3c....parquet         columns of the table, cdcv2_key (canonical bytes), cdcv2_gone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, OutputError, RefusedError
from cdcv2.materialize.fence import Holding, Piece, Range, ahead, meet_of, pieces
from cdcv2.materialize.messages import Field, Open, Table
from cdcv2.wire.numbered import Numbered, local_path

_FORMAT, _VERSION = "cdcv2 lake", 1


@dataclass(frozen=True)
class Part:
    """One file of a table, and how many rows it has."""

    name: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What counts: see the module. ``applied``: range -> frontier; ``tables``: columns; ``parts``: files in order."""

    materialization: str
    start: Antichain
    tables: Mapping[str, Table]
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    applied: Mapping[Range, Antichain] = field(default_factory=dict)

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is in the lake, whatever its key."""
        held = [Holding(wanted, 0, at) for wanted, at in self.applied.items()]
        return meet_of(pieces(held, Range(), lambda at: at, self.start))

    def has(self, wanted: Range, upper: Antichain) -> bool:
        """Whether this range's transaction up to ``upper`` was applied."""
        return wanted in self.applied and self.applied[wanted].dominates(upper)

    def with_transaction(self, wanted: Range, upper: Antichain, parts: Mapping[str, Sequence[Part]]) -> Manifest:
        """After a transaction; its files for one table have different keys."""
        merged = {name: (*self.parts.get(name, ()), *parts.get(name, ())) for name in self.tables}
        return replace(self, parts=merged, applied={**self.applied, wanted: upper})

    def with_merged(self, table: str, old: Sequence[Part], new: Part) -> Manifest | None:
        """With one file in place of some that follow each other; None when they do not any more."""
        there = self.parts.get(table, ())
        for at in range(len(there) - len(old) + 1):
            if there[at : at + len(old)] == tuple(old):
                return replace(self, parts={**self.parts, table: (*there[:at], new, *there[at + len(old):])})
        return None

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "format": _FORMAT, "version": _VERSION,
            "materialization": self.materialization, "start": self.start.to_plain(),
            "applied": [[one.begin, one.end, at.to_plain()] for one, at in self.applied.items()],
            "tables": {name: plain_table(table) for name, table in self.tables.items()},
            "files": {name: [[part.name, part.rows] for part in parts] for name, parts in self.parts.items()},
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], place: object) -> Manifest:
        """What :meth:`to_plain` made this of. Raises ForeignStateError for anything else."""
        if plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
            raise ForeignStateError(f"{place} is no lake of version {_VERSION}: name another folder, or a newer cdcv2")
        return cls(
            plain["materialization"], Antichain.from_plain(plain["start"]),
            {name: table_of(name, one) for name, one in plain["tables"].items()},
            {name: tuple(Part(*one) for one in parts) for name, parts in plain["files"].items()},
            {Range(begin, end): Antichain.from_plain(at) for begin, end, at in plain["applied"]},
        )  # fmt: skip


class Folder:
    """The folder of a lake: its manifests, its files. Raises OutputError when it cannot be written or read."""

    #: how many manifests, and the files that only they name, are kept for readers that are slow
    KEPT = 8

    def __init__(self, folder: str | Path) -> None:
        self.path = local_path(folder)
        self._numbered = Numbered(self.path / "_manifests", "the lake")

    def last(self) -> tuple[int, Manifest | None]:
        """The manifest that counts, and its number; -1 and None for a new lake."""
        number, plain = self._numbered.last()
        return number, None if plain is None else Manifest.from_plain(plain, self.path)

    def change(self, decide: Callable[[Manifest | None], Manifest | None]) -> int:
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
        old = [number for number in self._numbered.numbers() if number < first_kept]
        if not old:
            return
        named = [self._named(number) for number in old]
        kept = set[Path]().union(*(self._named(number) for number in self._numbered.numbers() if number >= first_kept))
        self._numbered.prune(first_kept)
        for path in set[Path]().union(*named) - kept:
            path.unlink(missing_ok=True)

    def _named(self, number: int) -> set[Path]:
        try:
            manifest = Manifest.from_plain(self._numbered.read(number), self.path)
        except OutputError:
            # Another instance forgets the same ones.
            return set()
        return {self.file(name, part) for name, parts in manifest.parts.items() for part in parts}

    def orphans(self) -> list[Path]:
        """Files that no manifest names."""
        there = {path for path in self.path.glob("*/*.parquet")}
        # The manifests are read later: what they name by then is no orphan.
        return sorted(there - set[Path]().union(*map(self._named, self._numbered.numbers())))

    def file(self, table: str, part: Part) -> Path:
        """Where a file lies."""
        return self.path / table / f"{part.name}.parquet"


def demand_known(place: Path, applied: Iterable[tuple[Range, Antichain]], message: Open) -> None:
    """Raises RefusedError where more was applied than the recovery log has committed: it is another one, or an old one.

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
            "one (of a backup, say), and what is in the folder would be added again. Name the log that the folder was "
            "made with, restore both from one moment, or begin anew with both empty"
        )


def plain_table(table: Table) -> dict[str, Any]:
    """A table's columns, as JSON holds them."""
    columns = [[one.name, one.kind, one.nullable, one.precision, one.scale] for one in table.fields]
    return {"key": columns[: len(table.key)], "values": columns[len(table.key):]}


def table_of(name: str, plain: Mapping[str, Any]) -> Table:
    """What :func:`plain_table` made this of."""
    return Table(name, tuple(Field(*one) for one in plain["key"]), tuple(Field(*one) for one in plain["values"]))
