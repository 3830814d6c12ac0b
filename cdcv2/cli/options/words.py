"""The words that commands and jobs on Spark share: each has one meaning, and takes the same, wherever it is.

What a parser adds to a word is more of the same: its default, or what that parser does with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, Union

from cdcv2.errors import UsageError
from cdcv2.event_stream import event_place
from cdcv2.logs.log_names import log_address, place_without_table
from cdcv2.protocol.log_address import LogAddress

T = TypeVar("T")
V = TypeVar("V")
#: A parser, or a group of its arguments.
Arguments: TypeAlias = Union[argparse.ArgumentParser, "argparse._ArgumentGroup", "argparse._MutuallyExclusiveGroup"]
#: What ends the help of --output in a command.
STANDARD_OUTPUT = " (default: standard output)"
#: The default of --timeout, in seconds.
TIMEOUT = 120.0
#: The greatest number that an argument may be: Spark's options are integers of 32 bits.
MOST = 2**31 - 1


def declare(parser: Arguments, *words: str, more: str = "", **changes: Any) -> None:
    """Declare words; ``more`` ends their help, ``changes`` are settings of argparse: a default, ``required``."""
    for word in words:
        settings: dict[str, Any] = {**WORDS[word], **changes}
        parser.add_argument(word, **{**settings, "help": settings["help"] + more})


def declare_follow(parser: Arguments, *, default: bool, more: str = "") -> None:
    """Declare whether the input is followed: by default, as a job, or not, as a command."""
    group = parser.add_mutually_exclusive_group()
    named = ("", " (the default)") if not default else (" (the default)", "")
    declare(group, "--follow", default=default, more=f"{more}{named[0]}")
    declare(group, "--no-follow", default=default, more=named[1])


def positive(kind: type[Any]) -> Any:
    """An argument's type: a number of this kind, above 0 and no greater than Spark takes one."""
    def read(text: str) -> Any:
        number = kind(text)
        # What is no number (nan) is not between any.
        if not 0 < number <= MOST:
            raise argparse.ArgumentTypeError(f"{text} is not above 0 and up to {MOST}")
        return number

    read.__name__ = f"positive {kind.__name__}"
    return read


def place(text: str) -> LogAddress:
    """The same as :func:`log_to_read`, for argparse."""
    return _argument(log_to_read, text)


def log_to_read(text: str) -> LogAddress:
    """The address of one log, or of the directory of a capture, perhaps as ``TABLE=LOG``. Raises UsageError."""
    address = log_address(text)
    address.demand_one()
    return address


def remap_place(text: str) -> LogAddress:
    """The address of a remap; for argparse."""
    address = _argument(place_without_table, text)
    _argument(LogAddress.demand_one, address)
    return address


def places(text: str) -> LogAddress:
    """Where the logs of several tables are written, perhaps with ``{table}``; for argparse."""
    return _argument(place_without_table, text)


def folder(text: str) -> str:
    """The name of a directory of other files; for argparse.

    Raises ArgumentTypeError for an empty name: it would be the current directory.
    """
    if not text:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; the current directory is written as a dot")
    return text


def _argument(parse: Callable[[V], T], value: V) -> T:
    """What ``parse`` makes of it; of an error that is not argparse's own, argparse does not show the text."""
    try:
        return parse(value)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


#: Word -> its settings for argparse. A help begins with the meaning, up to the first colon, comma or parenthesis.
WORDS: dict[str, dict[str, Any]] = {
    "log": {"metavar": "LOG", "type": place, "help": "a log: a directory, kafka:TOPIC, or TABLE=one of these"},
    "remap": {"metavar": "REMAP", "type": remap_place, "help": "a shared remap: a directory, or kafka:TOPIC"},
    "file": {"metavar": "FILE.yaml", "help": "the file of cdcv2 materialize, or of a pipeline"},
    "pipeline": {"metavar": "PIPELINE.yaml", "help": "the file of a pipeline (docs/operations/pipeline.md)"},
    "--app-name": {"metavar": "NAME", "help": "the application's name in Spark"},
    "--at": {"metavar": "TIME", "help": "the time that is asked for: "},
    "--bootstrap": {"metavar": "HOST:PORT", "help": "a broker of Kafka, where one is named"},
    "--checkpoint": {"metavar": "DIR", "help": "Spark's checkpoint (default: in --state)"},
    "--csv": {"action": "store_true", "help": "as CSV"},
    "--events": {
        "metavar": "PLACE", "type": event_place,
        "help": "report to programs how far it is: start, progress and end, one JSON object a line; PLACE is a file, "
                "or fd:N (docs/operations/events.md)",
    },
    "--exclude-columns": {"metavar": "A,B", "help": "columns to leave out"},
    "--follow": {"action": "store_true", "help": "continue when the input ends"},
    "--history": {
        "type": positive(float), "metavar": "SECONDS",
        "help": "for how long a time can be asked for, after it is finished",
    },
    "--index": {
        "action": "append", "metavar": "TABLE=COLUMN[,COLUMN]",
        "help": "hold this table by these columns; several tables: repeat the option",
    },
    "--instance": {
        "metavar": "PLACE", "required": True, "type": folder,
        "help": "where the instance answers: a Unix socket, as shop.sock",
    },
    "--interval": {"type": positive(float), "metavar": "SECONDS", "help": "begin a batch at most so often"},
    "--into": {
        "metavar": "LOGS", "type": places, "required": True,
        "help": "where the logs go: a directory, which has one for each table, or kafka:NAME.{table}",
    },
    "--json": {"action": "store_true", "help": "as JSON: "},
    "--kafka-config": {
        "metavar": "FILE",
        "help": "settings for the Kafka client, key=value a line, as Java's clients or librdkafka have them: TLS "
                "(PEM), SASL, passwords",
    },
    "--lsn": {"action": "store_true", "help": "show numbers as PostgreSQL's LSNs (16/B374D848)"},
    "--max-files": {
        "type": positive(int), "metavar": "N", "help": "at most so many files of each directory in a batch",
    },
    "--max-records": {"type": positive(int), "metavar": "N", "help": "at most so many records in a batch"},
    "--no-create": {
        "action": "store_true",
        "help": "make no topic and no table that is missing: others make it, as cdcv2 up does; then it is an error",
    },
    "--no-follow": {"action": "store_false", "dest": "follow", "help": "end where the input ends"},
    "--marker": {"action": "store_true", "help": "commit an empty transaction (pg_logical_emit_message)"},
    "--output": {"metavar": "PATH", "help": "where the output goes"},
    "--partitions": {
        "type": positive(int), "default": 1, "metavar": "N",
        "help": "how many partitions a topic gets that is made (default: 1)",
    },
    "--patience": {
        "type": positive(float), "default": 30.0, "metavar": "SECONDS",
        "help": "how long to wait for Kafka (default: 30)",
    },
    "--quarantine": {
        "metavar": "DIR",
        "help": "a folder of decisions about contradictions, and about bytes that are no message (cdcv2 resolve): "
                "apply them",
    },
    "--remap": {"metavar": "REMAP", "type": remap_place, "help": "a shared remap: a directory, or kafka:TOPIC"},
    "--row": {
        "action": "append", "default": [], "metavar": "[TABLE=]FILE",
        "help": "the row type of a Kafka log: an .avsc file; for one table, or for all",
    },
    "--rows": {"metavar": "DIR", "type": folder, "help": "the row types: DIR/TABLE.avsc, as public.orders.avsc"},
    "--source": {"metavar": "WHERE", "help": "the source database: env, service:NAME, or a file (file:FILE, too)"},
    "--spark-log": {"choices": ("OFF", "ERROR", "WARN", "INFO"), "default": "ERROR", "help": "Spark's own logging"},
    "--start": {
        "action": "append", "metavar": "TIME",
        "help": "where the history begins (default: at 0); once for each element of the frontier",
    },
    "--state": {"metavar": "DIR", "help": "the folder of its own state"},
    "--table": {"metavar": "TABLE", "help": "which table"},
    "--timeline": {
        "metavar": "NAME",
        "help": "the timeline of logs that do not state it, as those of a program of yours: several that are read "
                "together must be of one",
    },
    "--timeout": {
        "type": float, "default": TIMEOUT, "metavar": "SECONDS",
        "help": f"give up after so many seconds: name what is left, and end with code 4 (default: {TIMEOUT:.0f})",
    },
    "--times": {
        "default": "int", "metavar": "N",
        "help": "for Kafka logs whose times have several coordinates: how many",
    },
    "--view": {"metavar": "NAME", "help": "which view, where the file is a pipeline's that has several"},
}  # fmt: skip
