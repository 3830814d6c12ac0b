"""What a capture is asked for on a command line, as a recipe: the same for the command and for the job on Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeAlias, Union

from cdcv2.connectors.debezium.envelope import FROM_ENVELOPE, Recipe
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import check_table, table_of
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there, matching
from cdcv2.store.numbered import path_to_read
from cdcv2.suggestions import meant

#: A parser, or a group of its arguments.
Arguments: TypeAlias = Union[argparse.ArgumentParser, "argparse._ArgumentGroup"]
#: What is captured by commit times, and what else there is.
ONE_SOURCE = (
    "it takes one --prefix NAME, of a connector; or --remap REMAP, for plain topics and databases; or --stream "
    "TABLE=TOPIC, for records with times of their own"
)


def recipe_of(
    prefix: str,
    rows: str,
    *,
    tables: str | None,
    snapshot: str,
    notifications: str | None,
    full_identity: str | None,
    before: str = FROM_ENVELOPE,
    snapshot_again: str | None = None,
    empty: str | None = None,
) -> Recipe:
    """The recipe of these options' values; ``rows`` is the folder of the row types, ``SCHEMA.TABLE.avsc``.

    ``tables`` and ``full_identity`` are lists with commas; without ``tables`` each that has a file is captured. Raises
    UsageError for row types that lack or are none, and for what :class:`Recipe` refuses.
    """
    check_topic("--notifications", notifications)
    folder = path_to_read(rows)
    found = {path.name.removesuffix(".avsc"): path for path in matching(folder, "*.avsc")}
    wanted = listed("--tables", tables) or list(found)
    if not wanted:
        raise UsageError(f"there is no row type in {folder}: make one per table with cdcv2 rows")
    for table in map(check_table, wanted):
        if table not in found:
            raise UsageError(
                f"the row type of {table} is missing: {folder / table}.avsc; make it with cdcv2 rows"
                f"{meant(table, found)}"
            )
    return Recipe(
        prefix,
        {table: RowType.load(found[table]) for table in wanted},
        snapshot=snapshot,
        notification_topic=notifications,
        full_identity=frozenset(listed("--full-identity", full_identity)),
        before=before,
        resnapshots=_lsns(snapshot_again),
        empty=frozenset(listed("--empty", empty)),
    )


def add_empty(group: Arguments) -> None:
    """Declare the option that names empty tables."""
    group.add_argument(
        "--empty", metavar="A,B",
        help="tables that were empty when the snapshot was taken, or made later; needed for those that have no topic "
             "and that no notification names. The logs keep a mark of it",
    )


def add_resnapshot_option(group: Arguments) -> None:
    """Declare the option that names resnapshots."""
    group.add_argument(
        "--snapshot-again", metavar="LSN,LSN",
        help="the connector lost its slot, made a new one, and took a second snapshot, with this source.lsn. It "
             "becomes the difference to what the logs hold. Name all such snapshots, in every run. Needs --before "
             "from-state and --notifications",
    )


def _lsns(text: str | None) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",")] if text is not None else []
    wrong = next((name for name in names if not (name.isascii() and name.isdigit())), None)
    if wrong is not None:
        raise UsageError(f"--snapshot-again {wrong!r} is no LSN: write source.lsn of the snapshot's rows, a number")
    return tuple(map(int, names))


def check_topic(option: str, topic: str | None) -> None:
    """Raise UsageError for the name of a topic that is given, and empty."""
    if topic is not None and not topic.strip():
        raise UsageError(f"{option} {topic!r} names no topic: write its name, or leave the option out")


def listed(option: str, text: str | None) -> list[str]:
    """The names in a list with commas; none where nothing is given. Raises UsageError for commas alone, and for ''.

    >>> listed("--tables", "public.a, public.b"), listed("--tables", None)
    (['public.a', 'public.b'], [])
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise UsageError(f"{option} {text!r} names no table: write them with commas, or leave the option out")
    return names


def topics_of(option: str, given: Sequence[str], rows: str) -> dict[str, tuple[str, RowType]]:
    """Table -> its topic and row type, of texts TABLE=TOPIC; ``rows`` is the folder of the row types, TABLE.avsc.

    Raises UsageError for a text that is none, a table or a topic that comes twice, and a row type that lacks.
    """
    found: dict[str, tuple[str, RowType]] = {}
    for text in given:
        table, topic = table_of(text)
        if table is None or not topic:
            raise UsageError(f"{option} {text!r}: write TABLE=TOPIC")
        if table in found or topic in {taken for taken, _ in found.values()}:
            raise UsageError(f"{option} {text!r}: each table has one topic, and each topic one table")
        path = path_to_read(rows) / f"{table}.avsc"
        if not is_there(path):
            raise UsageError(f"the row type of {table} is missing: {path}")
        found[table] = topic, RowType.load(path)
    return found
