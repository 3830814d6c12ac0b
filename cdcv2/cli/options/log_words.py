"""The words with which a program reaches logs and remaps. One that would be ignored is refused: this is the one place.

What a capture refuses beside that is in :mod:`~cdcv2.cli.options.capture_ways`. Only words that were given are judged,
and no defaults.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable

from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.rows import unused_row_word
from cdcv2.cli.options.words import declare, log_to_read
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import named_after, table_of
from cdcv2.protocol.log_address import LogAddress

#: The words for how to reach Kafka.
KAFKA_WORDS = ("--bootstrap", "--kafka-config", "--patience")
#: Those for what a topic does not state of itself: the type of its rows, the kind of its times, its timeline.
ROW_WORDS = ("--row", "--rows", "--times", "--timeline")


def declare_kafka_words(parser: OptionParser) -> None:
    """Declare how to reach Kafka, of a program that reads a remap, or a log that states the rest."""
    declare(parser, *KAFKA_WORDS)
    parser.checks.append(check_used)


def declare_log_words(parser: OptionParser) -> None:
    """Declare how to reach Kafka, and what a topic does not state of itself."""
    declare_kafka_words(parser)
    declare(parser, *ROW_WORDS)


def refuse_ignored(given: Collection[str], words: Iterable[str], goes_with: str, here: str) -> None:
    """Raise UsageError if one of these words was given: what they go with is not here.

    >>> refuse_ignored(["--at"], ["--patience"], "Kafka", "directories are named here")
    >>> refuse_ignored(["--patience"], ["--patience"], "Kafka", "directories are named here")
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --patience goes with Kafka, and directories are named here: leave it out
    """
    wrong = min(set(given).intersection(words), default=None)
    if wrong is not None:
        raise UsageError(f"{wrong} goes with {goes_with}, and {here}: leave it out")


def check_used(given: Collection[str], args: argparse.Namespace) -> None:
    """Raise UsageError for a word that was given and that a command would ignore.

    The arguments are ``log`` (one, several, or the file that names them) or ``remap``, and ``to`` of a copy.
    """
    file = _file(args)
    if file is not None:
        refuse_ignored(given, (*KAFKA_WORDS, *ROW_WORDS), "LOG", f"{file} states how its logs are read")
        return
    read, to = _read(args), getattr(args, "to", None)
    _check_kafka(given, [*read, *([] if to is None else [to])])
    if to is not None and not to.is_topic:
        refuse_ignored(given, ("--partitions",), "a copy in Kafka", f"{to} is a directory")
    if getattr(args, "bindings", False):
        refuse_ignored(given, ROW_WORDS, "logs", "remaps are named here")
    topics = [log for log in read if log.is_topic]
    if not topics:
        refuse_ignored(given, ("--times",), "logs in Kafka", "a directory states the kind of its times")
    if not {"--row", "--rows"}.isdisjoint(given):
        _check_rows(args, map(_table, topics))


def check_used_on_spark(given: Collection[str], args: argparse.Namespace) -> None:
    """The same for the replay job. It compares the row type of a ``--row TABLE=`` with that of a directory."""
    if not args.log:
        # An error of its own.
        return
    _check_kafka(given, args.log)
    check_batch(given, {log.kind for log in args.log})
    typed = {table for table, _ in map(table_of, args.row)}
    _check_rows(args, (table for log in args.log for table in [_table(log)] if log.is_topic or table in typed))


def check_batch(given: Collection[str], kinds: Collection[str]) -> None:
    """Raise UsageError for a limit of a batch, of a job on Spark, that is about none of the logs that it reads.

    ``kinds``: those of their addresses.

    >>> check_batch(["--max-files"], ["directory", "topic"])
    >>> check_batch(["--max-files"], ["topic"])
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --max-files goes with directories, and the logs are in Kafka here: leave it out
    """
    if "topic" not in kinds:
        refuse_ignored(given, ("--max-records",), "Kafka", "the logs are directories here")
    if "directory" not in kinds:
        refuse_ignored(given, ("--max-files",), "directories", "the logs are in Kafka here")


def _check_kafka(given: Collection[str], places: Iterable[LogAddress]) -> None:
    if not any(place.is_topic for place in places):
        refuse_ignored(given, KAFKA_WORDS, "Kafka", "all that is named here are directories")


def _check_rows(args: argparse.Namespace, tables: Iterable[str]) -> None:
    unused = unused_row_word(set(tables), args)
    if unused is not None:
        raise UsageError(
            f"{unused} goes with a log in Kafka whose row type no other option states, and there is none here: "
            "leave it out"
        )


def _file(args: argparse.Namespace) -> str | None:
    """The file of a pipeline or a materialization that is named in place of logs."""
    first = str(next(iter(args.log), "")) if isinstance(getattr(args, "log", None), list) else ""
    return first if first.endswith((".yaml", ".yml")) and not first.startswith("kafka:") else None


def _read(args: argparse.Namespace) -> list[LogAddress]:
    named = args.log if hasattr(args, "log") else args.remap
    # Words that may name a file are texts yet.
    several = named if isinstance(named, list) else [named]
    return [log_to_read(one) if isinstance(one, str) else one for one in several]


def _table(log: LogAddress) -> str:
    """The table of a log, or of what has several."""
    return log.table or (log.name if log.is_topic else named_after(log.name))
