"""How a command line names logs: directories, Kafka topics, and what a capture wrote.

::

    logs/public.orders          a directory log; it knows its row type
    logs                        what a capture wrote: every log in it, one per table
    kafka:orders                a topic, at the brokers of --bootstrap, of the row type of --row
    orders=kafka:orders-copy    the same, as (a copy of) the table ``orders``

Each is a :class:`~cdcv2.protocol.log_address.LogAddress` from the arguments on.
Logs of one table are copies: they are read as one. Logs of several tables are parts of one timeline.

All that a command asks of what it was given, before it reads, is here: which logs, of which timeline, whole, and in
which order. From which times on is in :mod:`cdcv2.cli.options.times`. An option that would be ignored is refused in
:mod:`cdcv2.cli.options.log_words`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdcv2.cli.options.log_words import declare_log_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.rows import row_file
from cdcv2.cli.options.times import kind_of_times
from cdcv2.cli.options.words import declare
from cdcv2.cli.progress import progress
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.events import JobEvents
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.log_json import LOG_FILE as LOG_FILE
from cdcv2.logs.named_logs import NamedLog, check_timeline, logs_at_each
from cdcv2.logs.read import LogReader, NullObserver, in_turn
from cdcv2.logs.reading_state import ReadingState
from cdcv2.protocol.log import Entry, Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times
from cdcv2.store.file_system import is_there
from cdcv2.suggestions import meant


def add_log_arguments(parser: OptionParser, *, several: bool) -> None:
    """Declare the log or logs to read, as ``args.log``, and how to reach Kafka."""
    declare(parser, "log", nargs="+" if several else None)
    declare_log_words(parser)


def open_logs(args: argparse.Namespace, *, as_one: bool = True) -> list[NamedLog]:
    """The logs that the arguments name, to be read; ``as_one``: as parts and copies of one timeline.

    Raises UsageError, MissingLogError, UnavailableError, and ForeignStateError for logs of two timelines.
    """

    def topic(name: str, table: str) -> NamedLog:
        row_type, times = _row_type(table, args), kind_of_times(args.times)
        return NamedLog(table, kafka_log(name, args, row_type, times), row_type, times)

    named = logs_at_each(addresses(args), topic)
    if as_one:
        check_timeline(named, args.timeline)
    return named


def open_one(args: argparse.Namespace, table: str | None = None) -> list[NamedLog]:
    """The log of one table, or its copies; ``table`` chooses it where the arguments name logs of several.

    Raises UsageError where nothing chooses one of several, MissingLogError for a table that has none.
    """
    named = open_logs(args, as_one=False)
    tables = sorted({log.table for log in named})
    if table is None and len(tables) > 1:
        how = "choose one of these with --table" if hasattr(args, "table") else "name the log of one table"
        raise UsageError(f"there are logs of {', '.join(tables)}: {how}")
    chosen = [log for log in named if log.table == (table or tables[0])]
    if not chosen:
        close = meant(table or "", tables)
        raise MissingLogError(f"there is no log of the table {table!r}; there are {', '.join(tables)}{close}")
    check_timeline(chosen, args.timeline)
    return chosen


def addresses(args: argparse.Namespace) -> list[LogAddress]:
    """The addresses of the logs that the arguments name."""
    return list(args.log) if isinstance(args.log, list) else [args.log]


def kafka_client(args: argparse.Namespace) -> Any:
    """How to reach Kafka. Raises UsageError without a broker's address, or without the client."""
    from cdcv2.store.kafka_client import Client

    _check_reachable(args)
    return Client(args.bootstrap, args.kafka_config, patience=_patience(args))


def kafka_log(
    topic: str, args: argparse.Namespace, row_type: RowType, times: Times, *, create: bool = False,
    partitions: int = 1, description: LogDescription = LogDescription(),
) -> Log:
    """The log in a topic. Raises UsageError as :func:`kafka_client`, MissingLogError, UnavailableError."""
    from cdcv2.logs.kafka import KafkaLog

    _check_reachable(args)
    return KafkaLog(
        topic, args.bootstrap, row_type,
        config_file=args.kafka_config, create=create, partitions=partitions, times=times, patience=_patience(args),
        description=description,
    )


def check_kafka(args: argparse.Namespace) -> float:
    """How long to wait for Kafka, in seconds. Raises UsageError without a broker's address, or for wrong settings."""
    _check_reachable(args)
    return _patience(args)


def snapshot_assumed(args: argparse.Namespace) -> bool:
    """Whether a capture wrote these logs that could only assume its snapshot to be complete."""
    return any(note.get("snapshot_completeness") == "assumed" for note in _remarks(args))


def captured_streams(args: argparse.Namespace) -> bool:
    """Whether a capture of streams wrote these logs: each ends where its own topic does. Topics do not state it."""
    return any("stream" in note for note in _remarks(args))


def assumed_empty(args: argparse.Namespace, logs: Iterable[NamedLog]) -> list[str]:
    """The tables that the captures of these logs took for empty at the snapshot, by their users' --empty.

    The logs state it, and the manifests of captures whose logs could not.
    """
    stated = {named.table for named in logs if description_of(named.log).empty is not None}
    return sorted(stated | {str(table) for note in _remarks(args) for table in note.get("empty", ())})


def _remarks(args: argparse.Namespace) -> list[dict[str, Any]]:
    # The note stands beside the logs: a log that is given alone has it above.
    around = [path.absolute().parent if is_there(path / LOG_FILE) else path for path in _directories(args)]
    return [manifest_of(path) for path in around]


class ProgressObserver(NullObserver):
    """An observer that moves a bar on with each message that is read, and states it as events."""

    def __init__(
        self, logs: Sequence[NamedLog], move: Callable[[int], object], events: JobEvents | None = None
    ) -> None:
        self._move, self._events = move, events
        self._state = ReadingState([named.log for named in logs])
        # By identity: a log may be given twice.
        self._seen: dict[int, dict[int, int]] = {id(named): {} for named in logs}

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Move it on by what was read of the log."""
        if entry is not None:
            seen, part, following = self._seen[id(named)], entry.position.part, entry.position.offset + 1
            self._move(following - seen.get(part, 0))
            seen[part] = following
        if self._events is not None:
            if entry is not None:
                self._state.seen(entry)
            self._events.progress(self._state.state)

    def follow(self, reading: LogReader) -> None:
        """What reads the logs: the events have its frontier, and what it waits for."""
        self._state.follow(reading)

    def ended(self) -> None:
        """State how far it is in the end."""
        if self._events is not None:
            self._events.progress(self._state.state, at_once=True)


@contextmanager
def bar_of(
    logs: Sequence[NamedLog], what: str, *, shown: bool = True, events: JobEvents | None = None
) -> Iterator[ProgressObserver]:
    """A bar that shows how far logs are read to their present ends, while the block runs; ``events`` have it, too."""
    total = sum(sum(named.log.ends().values()) for named in logs)
    with progress(total, what, shown=shown) as move:
        observer = ProgressObserver(logs, move, events)
        yield observer
        observer.ended()


def entries(logs: Sequence[NamedLog], what: str, *, bar: bool = True) -> Iterator[tuple[NamedLog, Entry]]:
    """The messages of all the logs, as they stand there, to their present ends, a message of each in turn."""
    with bar_of(logs, what, shown=bar) as observer:
        for number, entry in in_turn([named.log.read() for named in logs]):
            if entry is not None:
                observer.read(logs[number], entry)
                yield logs[number], entry


def _directories(args: argparse.Namespace) -> list[Path]:
    return [Path(address.name) for address in addresses(args) if not address.is_topic]


def _row_type(table: str, args: argparse.Namespace) -> RowType:
    if getattr(args, "row_type", None) is not None:
        # All logs that the command reads are of one type.
        return RowType.load(args.row_type)
    path = row_file(table, args)
    if path is None:
        raise UsageError(f"the row type of {table} is not given, and Kafka does not know it: --row FILE.avsc")
    return RowType.load(path)


def _check_reachable(args: argparse.Namespace) -> None:
    if not args.bootstrap and not args.kafka_config:
        raise UsageError("Kafka needs --bootstrap HOST:PORT, or bootstrap.servers in the file of --kafka-config")


def _patience(args: argparse.Namespace) -> float:
    if not args.patience > 0:
        raise UsageError(f"--patience {args.patience}: it takes a number of seconds above 0")
    return float(args.patience)
