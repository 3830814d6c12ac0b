"""What the arguments of a capture mean: its source, and the recipe of one database; for the command and the job."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.connectors.kinds import database_kind
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import check_table, table_of
from cdcv2.logs.timeline_of_logs import demand_room
from cdcv2.rows.row_type import RowType
from cdcv2.sql_names import names_in
from cdcv2.store.file_system import is_there, matching
from cdcv2.store.numbered import local_path, path_to_read
from cdcv2.suggestions import meant

#: How the names of dumps end, and how many that are not read are named.
_ENDINGS, _SHOWN = (".jsonl", ".json", ".ndjson", ".gz"), 5

#: What is captured by commit times, and what else there is.
ONE_SOURCE = (
    "it takes one --prefix NAME, of a connector; or --remap REMAP, for plain topics and databases; or --stream "
    "TABLE=TOPIC, for records with times of their own"
)


def from_kafka(args: argparse.Namespace) -> bool:
    """Whether the topics are read from Kafka, and not from dumps. Raises UsageError where that is not clear."""
    if not args.source and not args.bootstrap:
        raise UsageError("what is captured? Name dumps, or the one word kafka with --bootstrap HOST:PORT")
    if args.source in ([], ["kafka"]):
        return True
    if "kafka" in args.source:
        raise UsageError("topics come from dumps or from Kafka, not from both")
    return False


def broker(args: argparse.Namespace) -> str:
    """The broker that the topics are read from. Raises UsageError where none is named."""
    if not args.bootstrap:
        raise UsageError("Kafka needs --bootstrap HOST:PORT")
    return str(args.bootstrap)


def dump_files(args: argparse.Namespace) -> list[Path]:
    """The dumps that the arguments name; of a directory its files. Raises UnavailableError for one without access."""
    paths = map(path_to_read, args.source)
    return [one for path in paths for one in (matching(path, "[!._]*") if path.is_dir() else [path])]


def log_directory(args: argparse.Namespace) -> Path:
    """Where the command puts its logs without a remap. Raises UsageError where that is no directory for several."""
    demand_directory(args)
    demand_room(args.into)
    return Path(args.into.name)


def demand_directory(args: argparse.Namespace) -> None:
    """Raise UsageError unless the command may put its logs there: without a remap they are in one directory."""
    if args.remap is not None or not (args.into.is_topic or args.into.is_template):
        return
    which = "the logs of --stream are" if args.stream else "without --remap the logs are"
    other = "; the job on Spark writes topics, too" if args.stream else ", or --remap"
    raise UsageError(
        f"--into {args.into}: {which} in one directory, each in a folder called like its table: give that directory"
        f"{other}"
    )


def left_out(args: argparse.Namespace) -> str | None:
    """Files in the directories of dumps that look like dumps and are not read, in words; None: there are none.

    By convention names that begin with ``_`` or ``.`` are of files that are not finished; Spark does not read them.
    """
    folders = [path for path in map(path_to_read, [] if from_kafka(args) else args.source) if path.is_dir()]
    found = [path for folder in folders for path in matching(folder, "[_.]*") if path.name.endswith(_ENDINGS)]
    if not found:
        return None
    names = ", ".join(map(str, found[:_SHOWN])) + (f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    return f"not read, as their names begin like those of unfinished files, with _ or a dot: {names}"


def dump_directory(args: argparse.Namespace) -> Path:
    """The directory of dumps of a job that reads one as it grows. Raises UsageError for several."""
    if len(args.source) > 1:
        raise UsageError(f"{' '.join(args.source)}: without --remap the job reads one directory of dumps")
    return local_path(args.source[0])


def recipe_of(args: argparse.Namespace) -> DatabaseConnector:
    """The recipe of a capture of one database; ``--rows`` is the folder of the row types, ``SCHEMA.TABLE.avsc``.

    Without ``--tables`` each that has a file is captured. Raises UsageError for what goes with --remap alone, for row
    types that lack or are none, and for what the connector refuses.
    """
    if args.plain or len(args.prefix or []) != 1 or len(args.notifications) > 1:
        raise UsageError(ONE_SOURCE)
    notifications = next(iter(args.notifications), None)
    check_topic("--notifications", notifications)
    folder = path_to_read(args.rows)
    found = {path.name.removesuffix(".avsc"): path for path in matching(folder, "*.avsc")}
    wanted = listed("--tables", args.tables) or list(found)
    if not wanted:
        raise UsageError(f"there is no row type in {folder}: make one per table with cdcv2 rows")
    for table in map(check_table, wanted):
        if table not in found:
            raise UsageError(
                f"the row type of {table} is missing: {folder / table}.avsc; make it with cdcv2 rows"
                f"{meant(table, found)}"
            )
    return recipe_from(args, args.prefix[0], {table: found[table] for table in wanted}, notifications)


def recipe_from(
    args: argparse.Namespace, prefix: str, rows: Mapping[str, Path], notifications: str | None,
    tables_of: Callable[[Collection[str]], Iterable[str]] = tuple,
) -> DatabaseConnector:
    """The recipe of one database, with each table's file in ``rows``, and the topic of its notifications.

    All databases of one capture are of one kind, ``args.connector``: those of another kind have a capture of their own,
    which may share the remap.
    ``tables_of`` gives of names as a user writes them those of its tables. Raises as :func:`recipe_of`.
    """
    return database_kind(args.connector).connector(
        prefix,
        {table: RowType.load(path) for table, path in rows.items()},
        snapshot=args.snapshot,
        notification_topic=notifications,
        full_identity=frozenset(tables_of(listed("--full-identity", args.full_identity))),
        before=args.before,
        resnapshots=_lsns(args.snapshot_again, database_kind(args.connector).words.snapshot_lsn),
        empty=frozenset(tables_of(listed("--empty", args.empty))),
    )


def _lsns(text: str | None, where: str) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",")] if text is not None else []
    wrong = next((name for name in names if not (name.isascii() and name.isdigit())), None)
    if wrong is not None:
        raise UsageError(f"--snapshot-again {wrong!r} is no LSN: write {where} of the snapshot's rows, a number")
    return tuple(map(int, names))


def check_topic(option: str, topic: str | None) -> None:
    """Raise UsageError if the name of a topic is given, and empty."""
    if topic is not None and not topic.strip():
        raise UsageError(f"{option} {topic!r} names no topic: write its name, or leave the option out")


def listed(option: str, text: str | None) -> list[str]:
    """The names in a list as :func:`~cdcv2.sql_names.name_list` makes it; none where nothing is given.

    Raises UsageError for commas alone, and for ''.

    >>> listed("--tables", "public.a, public.b"), listed("--tables", None)
    (['public.a', 'public.b'], [])
    """
    names = names_in(text or "")
    if text is not None and not names:
        raise UsageError(f"{option} {text!r} names nothing: write names with commas, or leave the option out")
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
