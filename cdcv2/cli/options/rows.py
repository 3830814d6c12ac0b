"""Which file has the row type of a log that does not know it: ``--row [TABLE=]FILE``, and ``--rows DIR``."""

from __future__ import annotations

import argparse

from cdcv2.logs.log_names import table_of
from cdcv2.store.numbered import path_to_read


def row_file(table: str, args: argparse.Namespace) -> str | None:
    """The file of the table's row type: its own of ``--row``, else that for all, else that in ``--rows``."""
    own: dict[str | None, str] = dict(table_of(row) for row in args.row)
    path = own.get(table, own.get(None))
    return str(path_to_read(args.rows) / f"{table}.avsc") if path is None and args.rows else path
