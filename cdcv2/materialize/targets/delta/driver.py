"""Delta tables, without Spark: the recovery log rules, and what it has committed is applied to each table once.

A transaction is one staged file per table; the recovery log commits their names with the checkpoint. Then they are
applied: each table by one Delta commit (an append where every key is new, else a MERGE by key), which carries the
transaction's number, so that it is made once, by whomever; and a manifest names the versions that are one cut over all
tables (:mod:`cdcv2.materialize.targets.delta.manifest`).

Any reader of Delta may read any of the tables: each of its versions is a cut of that table. :func:`open_delta` reads
several at one cut. OPTIMIZE and VACUUM are the owner's business, at any time: a commit that meets one is made again.
Needs deltalake (``pip install '.[delta]'``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cdcv2 import failpoints
from cdcv2.errors import OutputError, RefusedError
from cdcv2.materialize.distributed import TargetWorker
from cdcv2.materialize.protocol.messages import Changes, Flush, Flushed, Loaded, Open, Opened, Store
from cdcv2.materialize.targets.delta.manifest import DeltaFolder, DeltaManifest, PendingCommit, TransactionFiles
from cdcv2.materialize.targets.delta.tables import Commit, DeltaView, check, commit, delta, demand, make, open_delta
from cdcv2.materialize.targets.file_workers import DeltaWorker, demand_there
from cdcv2.materialize.targets.lake.columns import canonical_keys
from cdcv2.materialize.targets.lake.files import arrow
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.materialize.targets.staged_driver import StagedDriver

__all__ = ["DeltaDriver", "DeltaView", "open_delta"]

BEGUN = failpoints.declare("delta.begun", "a manifest states that the transaction is being applied; no table has it")
TABLE = failpoints.declare("delta.table", "one more table has the transaction; the others may not")


class DeltaDriver(StagedDriver):
    """One instance on the folder of Delta tables, a directory or ``file:`` URI, which one materialization has."""

    STAGED = failpoints.declare("delta.staged", "the files of a transaction are durable; no commit names them yet")
    APPLIED = failpoints.declare(
        "delta.applied", "all tables have the transaction; the recovery log does not state that they do"
    )
    WHAT = "Delta tables"

    def __init__(self, folder: str | Path) -> None:
        self._folder = DeltaFolder(folder)
        super().__init__(self._folder)
        #: what puts a transaction's rows into a table
        self.commit: Commit = commit
        # Number of the table -> Delta's version in which its keys were looked up; tables of which a key was there.
        self._looked: dict[int, int] = {}
        self._changed: set[int] = set()
        # Number of the table -> names of the files that are to be applied.
        self._names: dict[int, list[str]] = {}

    def open(self, message: Open) -> Opened:
        """See :class:`Driver`. Raises UsageError for tables that Delta cannot have, ForeignStateError, RefusedError."""
        delta()
        for table in message.tables:
            check(table)
        state = message.state or {}
        self._message = message
        self._pending = dict(state.get("staged", {}))
        number, manifest = self._manifest(message)
        self._folder.demand_there(number, state)
        self._message = manifest.stored(message)
        for table in self._message.tables:
            demand(self._folder, manifest, table)
        return Opened(changes=frozenset(at for at, table in enumerate(message.tables) if not table.multiset))

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Look all keys up."""
        view, tables = open_delta(self._folder.path), self._opened().tables
        for number, keys in self._asked.items():
            self._looked[number], found = view.look(tables[number].name, keys)
            yield from (Loaded(number, key, values) for key, values in found)
        self._asked = {}
        yield Flushed()

    def store(self, message: Store) -> None:
        """Into the table's new file. Raises MalformedError for what it cannot hold, OutputError."""
        super().store(message)
        if message.exists:
            self._changed.add(message.binding)

    def changes(self, message: Changes) -> None:
        """Into the table's new file, when what is there is what they go with. Raises ConflictError otherwise."""
        pa, table = arrow(), self._opened().tables[message.binding]
        gone, come = canonical_keys(table, message.gone), canonical_keys(table, message.come)
        names = [field.name for field in table.key]
        keys = pa.concat_tables([message.gone.select(names), message.come.slice(message.both).select(names)])
        self._looked[message.binding], there = open_delta(self._folder.path).at(table.name, keys)
        self._stage(message, gone, come, there)
        if len(there):
            self._changed.add(message.binding)

    def hand(self) -> TargetWorker:
        """See :class:`DistributedDriver`. Executors must see the folder under the same path."""
        hand = DeltaWorker(open_delta(self._folder.path), self._opened().tables)
        self._looked = dict(enumerate(hand.versions))
        return hand

    def took(self, number: int, receipt: Any) -> None:
        """See :class:`DistributedDriver`."""
        *part, there = receipt
        demand_there(self._folder.staged(part[0]))
        self._name(number, TableFile(*part))
        if there:
            self._changed.add(number)

    def _name(self, number: int, part: TableFile) -> None:
        self._names.setdefault(number, []).append(part.name)

    def _take_files(self) -> dict[str, Any]:
        tables, files = self._opened().tables, dict[str, Any]()
        for number, names in self._names.items():
            unseen = None if number in self._changed else self._looked.get(number)
            files[tables[number].name] = list(TransactionFiles(names, unseen))
        self._names, self._looked, self._changed = {}, {}, set()
        return files

    def _manifest(self, message: Open) -> tuple[int, DeltaManifest]:
        """The manifest that counts; the first one, and the tables, are made where there is none."""
        while True:
            number, manifest = self._folder.last()
            if manifest is not None:
                self._folder.demand_same(manifest, message)
                return number, manifest
            try:
                marks = {table.name: make(self._folder, table, message.materialization) for table in message.tables}
            except RefusedError:
                if self._folder.last()[1] is None:
                    raise
                continue  # another instance has begun meanwhile, and has come further
            tables = {table.name: table for table in message.tables}
            self._folder.put(0, DeltaManifest(message.materialization, message.start, tables, marks))

    def _apply(self, transaction: Mapping[str, Any]) -> None:
        wanted = PendingCommit.from_plain(transaction)
        while True:
            number, manifest = self._folder.last()
            if manifest is None:
                raise RefusedError(f"the manifests in {self._folder.path} are missing: restore them, and start again")
            if manifest.applying is not None:
                self._finish(number, manifest, manifest.applying)
            elif manifest.has(wanted.range, wanted.upper):
                return
            else:
                # A range is applied in the order of its commits: an instance that commits has applied the one before.
                self._folder.put(number + 1, replace(manifest, applying=wanted))
                failpoints.reach(BEGUN)

    def _finish(self, number: int, manifest: DeltaManifest, transaction: PendingCommit) -> None:
        """Apply what manifest ``number`` names as being applied, by any instance."""
        marks = {}
        for name, files in transaction.files.items():
            try:
                table = manifest.tables[name]
                mark = self.commit(self._folder, table, files, number, manifest.materialization, transaction.upper)
            except OutputError:
                if self._folder.last()[0] == number:
                    raise
                return  # others have finished it, and removed what it had staged
            if mark is None:
                if self._folder.last()[0] == number:
                    raise RefusedError(
                        f"the table {name!r} in {self._folder.path} has later transactions than the manifests beside "
                        "it state: restore all of the folder from one moment, or start over with an empty one"
                    )
                return  # others have finished it, and continued
            marks[name] = mark
            failpoints.reach(TABLE)
        self._folder.put(number + 1, manifest.done(marks))
        for files in transaction.files.values():
            for name in files.names:
                self._folder.staged(name).unlink(missing_ok=True)
