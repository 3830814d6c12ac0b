"""Which file has the row type of a log that does not know it: ``--row [TABLE=]FILE``, and ``--rows DIR``."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from cdcv2.errors import UsageError
from cdcv2.logs.log_names import table_of
from cdcv2.store.numbered import path_to_read
from cdcv2.suggestions import meant


def row_file(table: str, args: argparse.Namespace) -> str | None:
    """The file of the table's row type: its own of ``--row``, else that for all, else that in ``--rows``."""
    own = _own(args)
    path = own.get(table, own.get(None))
    return str(path_to_read(args.rows) / f"{table}.avsc") if path is None and args.rows else path


def unused_row_word(tables: Collection[str], args: argparse.Namespace) -> str | None:
    """What of ``--row`` and ``--rows``, as it is written, is the file of none of these tables; None: nothing is.

    Raises UsageError for a table that is not among them.
    """
    own = _own(args)
    chosen = {table if table in own else None for table in tables}
    for row in args.row:
        table, path = table_of(row)
        if table is not None and table not in tables:
            raise UsageError(
                f"--row names {table}, of which no log is given that needs it{meant(table, tables)}: leave it out"
            )
        if table not in chosen or own[table] != path:
            return f"--row {row}"
    return f"--rows {args.rows}" if args.rows and (None in own or None not in chosen) else None


def _own(args: argparse.Namespace) -> dict[str | None, str]:
    """Table -> its file of ``--row``; that of None is for all others."""
    return dict(table_of(row) for row in args.row)
