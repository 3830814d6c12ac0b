"""What a table may be called where its name names a folder, and how a log is named together with its table."""

from __future__ import annotations

import os
from pathlib import Path

from cdcv2.errors import UsageError
from cdcv2.protocol.log_address import LogAddress

#: The most bytes that a file system takes for the name of a folder.
_LONGEST = 255


def table_of(row: str) -> tuple[str | None, str]:
    """``TABLE=THING`` taken apart; a thing alone, and a path that is there, are of no table in particular.

    >>> table_of("orders=logs/a"), table_of("logs/a=b")
    (('orders', 'logs/a'), (None, 'logs/a=b'))
    """
    if os.path.exists(row):
        return None, row
    table, sign, thing = row.partition("=")
    return (table, thing) if sign and table and "/" not in table and ":" not in table else (None, row)


def log_address(text: str) -> LogAddress:
    """The address of a log, perhaps with the table that it is of: ``LOG``, or ``TABLE=LOG``. Raises UsageError.

    >>> log_address("orders=kafka:copy")
    LogAddress(kind='topic', name='copy', table='orders')
    """
    table, thing = table_of(text)
    return LogAddress.parse(thing, table)


def named_after(path: str | os.PathLike[str]) -> str:
    """The table of a directory log that is given without one: the last name of its path, as the user wrote that.

    What a symbolic link leads to may be called otherwise.

    >>> named_after("logs/orders/"), named_after("logs/items/../orders")
    ('orders', 'orders')
    """
    return os.path.basename(os.path.abspath(path))


def place_without_table(text: str) -> LogAddress:
    """The address of several logs, or of a remap: these are of no table. Raises UsageError for one that names a table.

    >>> place_without_table("kafka:cdc.{table}").is_template
    True
    """
    table, _ = table_of(text)
    if table is not None:
        raise UsageError(
            f"{text!r}: {table}= names the table of a log that is read: leave it out here; a directory that is called "
            f"so is written ./{text}"
        )
    return LogAddress.parse(text)


def local_directory(path: str | os.PathLike[str]) -> Path:
    """The directory of a log or a remap. A text is read as an address is. Raises UsageError for another address.

    >>> local_directory("logs/orders")
    PosixPath('logs/orders')
    """
    if isinstance(path, str) and LogAddress.parse(path).is_topic:
        raise UsageError(f"{path!r} is a topic of Kafka, and a directory is wanted here")
    return Path(path)


def check_table(table: str) -> str:
    """The table, if a folder can be called like it: any text that PostgreSQL takes, but for a few characters.

    Raises UsageError.

    >>> check_table("größe.My Table")
    'größe.My Table'
    """
    unfit = sorted({character for character in table if character == "/" or character < " " or character == "\x7f"})
    if table in ("", ".", "..") or unfit or len(table.encode("utf-8", "surrogatepass")) > _LONGEST:
        why = f"names have 1 to {_LONGEST} bytes, and are not dots alone"
        if unfit:
            why = f"its name has {', '.join(map(repr, unfit))}"
        raise UsageError(
            f"the table {table!r} cannot be taken: a folder is called like it, and {why}; rename it, or leave it out"
        )
    return table
