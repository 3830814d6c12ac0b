"""One Delta table per view: its columns, a transaction's commit to it, once, and its rows as of a cut.

A commit carries the number of its transaction as Delta's own application transaction (``txn``): a table that has this
number or a greater one is not changed by it any more. A commit is made just on top of the version that was looked at,
or not at all (no retries of Delta's own), so two who commit the same transaction cannot both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    ForeignStateError, MalformedError, MissingExtraError, MissingLogError, OutputError, RefusedError, UsageError,
    ViewError,
)
from cdcv2.materialize.protocol.messages import Field, Key, Table, Values
from cdcv2.materialize.targets.delta.manifest import DeltaFolder, DeltaManifest, TableVersion, TransactionFiles
from cdcv2.materialize.targets.lake.columns import as_logged, canonical_keys
from cdcv2.materialize.targets.lake.files import GONE, KEY, arrow, fits, read_part, reason, rows_of, type_of
from cdcv2.materialize.targets.staged_driver import demand_view
from cdcv2.store.numbered import durable
from cdcv2.views.arrow_columns import DIGITS, arrow_column

#: What column names of a Delta table must not have in them.
_NEVER = set(" ,;{}()\n\t=")
#: Puts a transaction's rows into a table: :func:`commit`, or what does the same by other means.
Commit: TypeAlias = Callable[[DeltaFolder, Table, TransactionFiles, int, str, Antichain], "TableVersion | None"]
#: The property of a table that names its materialization.
OWNER = "cdcv2.materialization"


def delta() -> Any:
    """deltalake. Raises MissingExtraError unless it is installed."""
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as cause:
        raise MissingExtraError("Delta tables need deltalake", "delta") from cause
    return deltalake


def check(table: Table) -> None:
    """Raise UsageError unless Delta can have the table."""
    demand_view(table, "Delta")
    name, seen = table.name, {KEY, GONE}
    for column in table.fields:
        if set(column.name) & _NEVER:
            raise UsageError(
                f"{name}: Delta takes no column {column.name!r}: blank, tab, newline, ,;{{}}()= may not be in a name. "
                "Leave the column out, call the reduction otherwise, or take the driver lake"
            )
        if column.name.lower() in seen:
            raise UsageError(f"{name}: Delta has one column of the name {column.name!r} at most, in whatever case")
        if column.kind in ("integer", "decimal") and (column.precision or 0) > DIGITS:
            raise UsageError(f"{name}: {column.name!r} has {column.precision} digits, and Delta's decimals {DIGITS}")
        seen.add(column.name.lower())


def app(materialization: str) -> str:
    """The application that a materialization is, in its tables' logs."""
    return f"cdcv2 {materialization}"


def make(folder: DeltaFolder, table: Table, materialization: str) -> TableVersion:
    """The table, new and empty. Raises RefusedError when there is one that has rows, or is of somebody else."""
    place = folder.table(table.name)
    with delta_errors(place, "made"):
        made = delta().DeltaTable.create(
            str(place), schema=schema_of(table), mode="ignore", configuration={OWNER: materialization},
            raise_if_key_not_exists=False,
        )  # fmt: skip
        owner, version = made.metadata().configuration.get(OWNER), made.version()
    if owner != materialization:
        whose = f"belongs to {owner!r}" if owner else "was made by somebody else"
        raise ForeignStateError(
            f"the Delta table in {place} {whose}, not by {materialization!r}: each materialization needs a folder of "
            "its own"
        )
    if version:
        raise RefusedError(
            f"the Delta table in {place} is at version {version}, and no manifest beside it states what it has: "
            "restore the folder, or start over with an empty folder and an empty recovery log"
        )
    _demand_columns(made, place, table)
    sync(place, version)
    return TableVersion(version, None)


def demand(folder: DeltaFolder, manifest: DeltaManifest, table: Table) -> None:
    """Raise RefusedError if the table has lost commits or files, or has other columns than the binding."""
    place, mark = folder.table(table.name), manifest.marks[table.name]
    if not delta().DeltaTable.is_deltatable(str(place)):
        raise _lost(place, "nothing", mark)
    found = opened(place)
    if found.version() < mark.version:
        raise _lost(place, f"version {found.version()}", mark)
    _demand_files(found, place)
    _demand_columns(found, place, table)


def _lost(place: Path, found: str, mark: TableVersion) -> RefusedError:
    return RefusedError(
        f"the Delta table in {place} has lost commits: there is {found}, and version {mark.version} was there. Restore "
        "the folder, or start over with an empty folder and an empty recovery log"
    )


def _demand_files(found: Any, place: Path) -> None:
    with delta_errors(place, "read"):
        paths = arrow().table(found.get_add_actions())["path"].to_pylist()
    # Of another place where the table is a clone: then the path is a whole one.
    files = [place / unquote(path) for path in paths if "://" not in path]
    lost = [file for file in files if not file.exists()]
    if lost:
        raise RefusedError(
            f"the Delta table in {place} has lost files: its last version names {lost[0]}, which is not there "
            f"({len(lost)} of {len(paths)} are missing). Restore the folder; or remove it, and the recovery log, to "
            "start over"
        )


def schema_of(table: Table) -> Any:
    """The columns in Arrow's types. A key's are never null, against the type."""
    pa = arrow()
    return pa.schema([pa.field(one.name, type_of(one)) for one in table.fields])


def _demand_columns(found: Any, place: Path, table: Table) -> None:
    there = arrow().schema(found.schema().to_arrow())
    wanted = schema_of(table)
    if [(one.name, one.type) for one in there] != [(one.name, one.type) for one in wanted]:
        raise RefusedError(
            f"the Delta table in {place} has other columns ({_columns(there)}) than its binding ({_columns(wanted)}): "
            "alter it, or materialize into a new folder, with a new recovery log"
        )


def _columns(schema: Any) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in schema)


def opened(place: Path) -> Any:
    """The table as it is now. Raises OutputError."""
    with delta_errors(place, "read"):
        return delta().DeltaTable(str(place))


def commit(
    folder: DeltaFolder, table: Table, files: TransactionFiles, number: int, materialization: str, upper: Antichain
) -> TableVersion | None:
    """Put a transaction's rows into the table, unless it has them; its mark then. None: another is further already.

    Raises OutputError when the staged file or the table cannot be read, or the commit not be written.
    """
    place, name = folder.table(table.name), app(materialization)
    while True:
        found = opened(place)
        last = found.transaction_version(name)
        if last is not None and last > number:
            return None
        if last == number:
            sync(place, found.version())
            return TableVersion(found.version(), number)
        rows = arrow().concat_tables([read_part(folder.staged(one)) for one in files.names])
        properties = delta().CommitProperties(
            custom_metadata={"cdcv2.upper": json.dumps(upper.to_plain())},
            max_commit_retries=0,
            app_transactions=[delta().Transaction(name, number)],
        )
        before = found.version()
        with delta_errors(place, "written"):
            try:
                if files.unseen == before:
                    # Nothing has changed since its keys were looked up, and none was there.
                    _append(found, table, rows, properties)
                else:
                    _merge(found, table, rows, properties)
            except delta().exceptions.CommitFailedError:
                if opened(place).version() == before:
                    raise
                # Somebody was faster, with this transaction or with maintenance: look again.


def _append(found: Any, table: Table, rows: Any, properties: Any) -> None:
    names = [one.name for one in table.fields]
    delta().write_deltalake(found, rows.select(names), mode="append", commit_properties=properties)


def _merge(found: Any, table: Table, rows: Any, properties: Any) -> None:
    same = " AND ".join(f"t.{quoted(one.name)} = s.{quoted(one.name)}" for one in table.key)
    merger = found.merge(
        rows.drop_columns([KEY]), predicate=same, source_alias="s", target_alias="t", commit_properties=properties
    )
    merger = merger.when_matched_delete(predicate=f"s.{GONE}")
    if table.values:
        merger = merger.when_matched_update({quoted(one.name): f"s.{quoted(one.name)}" for one in table.values})
    every = {quoted(one.name): f"s.{quoted(one.name)}" for one in table.fields}
    merger.when_not_matched_insert(every, predicate=f"NOT s.{GONE}").execute()


def quoted(name: str) -> str:
    """A column's name, in conditions of the engine's and of Spark's."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def sync(place: Path, version: int) -> None:
    """Return when the commit of this version would survive a loss of power; Delta's writers do not see to that.

    Raises OutputError, also where the commit or a file that it adds is missing.
    """
    log = place / "_delta_log" / f"{version:020d}.json"
    try:
        actions = [json.loads(line) for line in log.read_bytes().splitlines() if line.strip()]
        files = [place / unquote(one["add"]["path"]) for one in actions if "add" in one]
        durable(log, *files)
    except OSError as cause:
        raise unusable(place, "written", reason(cause)) from cause


class DeltaView:
    """The tables of a materialization as of one cut. While it is read, others may commit; see :func:`open_delta`."""

    def __init__(self, folder: DeltaFolder, manifest: DeltaManifest) -> None:
        self.folder, self.manifest = folder, manifest

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is in the view."""
        return self.manifest.frontier

    def table(self, name: str) -> Any:
        """The ``deltalake.DeltaTable`` at the version that belongs to the cut.

        It is the newest one for as long as no transaction came after: so what maintenance made of it (OPTIMIZE), or
        somebody by hand, is what one sees, as any reader of Delta does. Raises MissingLogError for an unknown table.
        """
        place, mark = self._place(name)
        found = opened(place)
        if found.transaction_version(app(self.manifest.materialization)) != mark.transaction:
            with delta_errors(place, "read"):
                found.load_as_version(mark.version)
        return found

    def read(self, table: str) -> Any:
        """The rows, as a pyarrow.Table with the table's columns."""
        place, _ = self._place(table)
        with delta_errors(place, "read"):
            return _scanned(self.table(table), self.manifest.tables[table]).read_all()

    def rows(self, table: str) -> Iterator[tuple[Key, Values]]:
        """The same as Python values: keys and values."""
        rows = self.read(table)
        return rows_of(self.manifest.tables[table], rows)

    def look(
        self, table: str, keys: Sequence[Key], version: int | None = None
    ) -> tuple[int, list[tuple[Key, Values]]]:
        """Delta's version (that of the cut, unless one is given), and what is at these keys in it. Raises ViewError."""
        read, rows = self._near(table, keys, version)
        wanted = set(keys)
        there = [one for one in rows_of(self.manifest.tables[table], rows) if one[0] in wanted]
        # A Delta table has no key of its own: others may have put a row beside ours.
        twice = next((key for key, count in Counter(key for key, _ in there).items() if count > 1), None)
        if twice is not None:
            raise ViewError(table, twice, "it has more than one row")
        return read, there

    def at(self, table: str, keys: Any) -> tuple[int, Any]:
        """The same at the version of the cut as columns, with the canonical keys; ``keys`` is a table of the key's.

        Raises ViewError if a key has more than one row.
        """
        view = self.manifest.tables[table]
        read, rows = self._near(table, list(zip(*(column.to_pylist() for column in keys.columns))), None)
        there = canonical_keys(view, arrow().table([as_logged(one, rows[one.name]) for one in view.key], keys.schema))
        found = rows.append_column(KEY, there).filter(arrow().compute.is_in(there, canonical_keys(view, keys)))
        if len(found[KEY].unique()) < len(found):
            twice = Counter(key for key, _ in rows_of(view, found)).most_common(1)[0][0]
            raise ViewError(table, twice, "it has more than one row")
        return read, found

    def _near(self, table: str, keys: Sequence[Key], version: int | None) -> tuple[int, Any]:
        """Delta's version, and the rows at these keys in it, with a few others."""
        place, _ = self._place(table)
        view, found = self.manifest.tables[table], self.table(table)
        if version is not None and found.version() != version:
            with delta_errors(place, "read"):
                found.load_as_version(version)
        near = _near(view, keys)
        with delta_errors(place, "read"):
            batches = [batch.filter(near) for batch in _scanned(found, view, _between(view, keys))]
            return found.version(), arrow().Table.from_batches(batches, schema_of(view))

    def stored_table(self, table: Table) -> Table:
        """The table with its columns in the types that they were made in."""
        return self.manifest.stored_table(table)

    def close(self) -> None:
        """Nothing is held open."""

    def _place(self, name: str) -> tuple[Path, TableVersion]:
        try:
            return self.folder.table(name), self.manifest.marks[name]
        except KeyError:
            there = ", ".join(self.manifest.tables)
            raise MissingLogError(
                f"there is no Delta table {name!r} in {self.folder.path}; there are {there}"
            ) from None


def _scanned(found: Any, table: Table, predicate: str | None = None) -> Any:
    """The rows, batch by batch, in our types (the engine has views of strings)."""
    pa = arrow()
    names = [one.name for one in table.fields]
    return pa.RecordBatchReader.from_stream(found.scan(names, predicate)).cast(schema_of(table))


def _between(table: Table, keys: Iterable[Key]) -> str | None:
    """The same for the engine, which leaves out whole files by it: whole numbers lie between two."""
    bounds = []
    for column, values in zip(table.key, zip(*keys)):
        if column.kind in ("int", "long") and arrow_column(column) is None:
            bounds.append(f"{quoted(column.name)} BETWEEN {min(values)} AND {max(values)}")
    return " AND ".join(bounds) or None


def _near(table: Table, keys: Iterable[Key]) -> Any:
    """A filter that these keys pass, and few others: column by column one of theirs.

    What a column cannot hold, no row has. Staging refuses such a key.
    """
    pa = arrow()
    passing = pa.compute.scalar(True)
    for column, values in zip(table.key, zip(*keys)):
        passing = passing & pa.compute.field(column.name).isin(_held(column, set(values)))
    return passing


def _held(column: Field, values: Iterable[Any]) -> Any:
    """Those of the log's values that the column can hold, as an array of its type."""
    pa, typed, kind = arrow(), arrow_column(column), type_of(column)
    wanted = []
    for value in values:
        try:
            wanted.append(value if typed is None else typed.put(value))
        except MalformedError:
            continue
    try:
        return pa.array(wanted, kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return pa.array([value for value in wanted if fits(value, kind)], kind)


def open_delta(folder: str | Path) -> DeltaView:
    """The Delta tables of the materialization in a folder, at the last cut: whole transactions, over all tables.

    Raises MissingLogError where none are.
    """
    place = DeltaFolder(folder)
    _, manifest = place.last()
    if manifest is None:
        raise MissingLogError(
            f"there are no Delta tables of a materialization in {place.path}: the name is wrong, or nothing was "
            "materialized yet"
        )
    delta()
    return DeltaView(place, manifest)


@contextmanager
def delta_errors(place: Path, what: str) -> Iterator[None]:
    """In its block, errors of deltalake, of pyarrow and of the system are raised as OutputError, see :func:`unusable`.

    Their words are in the cause.
    """
    try:
        yield
    except (delta().exceptions.DeltaError, arrow().ArrowException, OSError) as cause:
        raise unusable(place, what, reason(cause)) from cause


def unusable(place: Path, what: str, why: str) -> OutputError:
    """The error of a table that cannot be ``what``."""
    return OutputError(
        f"the Delta table in {place} cannot be {what}: {why}. Make room, grant the rights, or restore it, and start "
        "again: what was committed is applied then"
    )
