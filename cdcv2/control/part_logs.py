"""The logs of some tables that a part of a pipeline's file reads: of a capture, or logs that are there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from cdcv2.control.yaml_lines import YamlNode
from cdcv2.suggestions import meant


def logs_of_tables(
    part: YamlNode, tables: Collection[str], under: Callable[[YamlNode], Path], named_in: str
) -> Iterator[str]:
    """``logs`` of a part as words of a command line: each table with its folder, or copies of it; or the folder with
    what a capture wrote. ``under`` reads a path of the file.

    Raises UsageError with the line of a table that has no log, or that ``named_in``, a key of the part, does not name.
    """
    if part.is_text:
        yield from (str(under(part) / table) for table in tables)
        return
    given = dict(part.entries())
    for table in tables:
        if table not in given:
            part.fail(f"there is no log of the table {table!r}; there are {', '.join(given)}{meant(table, given)}")
    for table, copies in given.items():
        if table not in tables:
            copies.fail(f"no key of the table {table!r} is named: name it in {named_in}, or leave it out")
        yield from (f"{table}={under(copy)}" for copy in copies.items())
