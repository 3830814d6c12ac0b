"""Turn topics into one log per table, without Spark.

The topics are those of Debezium's PostgreSQL connector, or others (--plain,
--stream). They are read from Kafka, or from dumps: JSON lines with topic,
partition, offset, key, value (or payload, as kcat -J writes them), plain or
.gz. Each table needs its row type, DIR/SCHEMA.TABLE.avsc (see cdcv2 rows).

The logs are directories below --into; with --remap also topics,
kafka:NAME.{table}. What was captured before is not written again. So you may
run it again after a crash, and over topics that have grown. Two captures of
one version, with the same arguments, may run at once, and write the same logs.

Before-images. An update or a delete needs the row before it. By default that
must be in the records: the tables need REPLICA IDENTITY FULL. With --before
from-state the capture looks it up in what the logs hold, by the key of the
table. REPLICA IDENTITY DEFAULT is then enough, large values that did not
change are filled in, and a TRUNCATE takes every row away. All rows are then
in memory, and each start reads the logs from their beginning. A table without
a key needs FULL in any case. --before from-state also works with --remap, in
the order of commits.

Remap. With --remap the times are not those of commits. The capture binds
offsets to milliseconds: it writes into the remap that all records up to these
offsets have this time. So topics that do not come from a database can be
captured (--plain). The remap also keeps the recipe: which topics, tables and
options there are. Any number of captures may share a remap, and write the
same logs, or other ones with the same times. Any of them may be killed,
upgraded or moved.

Streams. With --stream the records are updates that have times of their own,
in a column, and bounds: how far the topic is complete. --stream goes without
--prefix and --remap.

End. It ends where the topics end. With --follow it continues until SIGTERM or
Ctrl-C: it then writes what is complete, and reports how far that is. A second
Ctrl-C ends it at once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Record
from cdcv2.capture.memory import missing_logs
from cdcv2.capture.release_answers import RELEASE_EVERY, WaitReason
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.loop import run as run_capture
from cdcv2.capture.run.manifest import write_manifest
from cdcv2.capture.run.memory_file import MEMORY_FILE, MemoryFile
from cdcv2.capture.run.waits import capture_waits, stated_frontier, unread_waits
from cdcv2.capture.topics import Item, Topics
from cdcv2.capture.topics_check import check_dumped, check_meet
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.logs import kafka_client
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.cli.options.capture_arguments import dump_files, from_kafka, left_out, log_directory, recipe_of
from cdcv2.cli.options.capture_parser import add_command_options
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.progress import progress
from cdcv2.cli.shared_capture import run_shared
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.cli.stream_capture import run_streams
from cdcv2.completeness import committed_text, through_text
from cdcv2.connectors.dump_files import DumpedTopics, absent
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.events import JobProgress, JobWait
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import CAPTURE_FILE, log_set_in
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.log_json import in_directories, kept_types
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.logs.release_times import ReleaseTimes
from cdcv2.protocol.log import Place
from cdcv2.store.file_system import is_there

EXAMPLES = (
    ("cdcv2 capture topics.jsonl.gz --prefix clean_full --rows rows --into logs", "from a dump"),
    ("cdcv2 capture topics.jsonl.gz --prefix clean_full --rows rows --tables public.order_items --into items-only",
     "one table of it"),
    ("cdcv2 capture topics.jsonl.gz --prefix clean_full --rows rows --into logs --before from-state",
     "tables with REPLICA IDENTITY DEFAULT: before-images are looked up"),
    ("cdcv2 capture kafka --bootstrap localhost:9092 --prefix shop --notifications shop.notifications --rows rows "
     "--into logs --follow --events capture.events", "from Kafka, until SIGTERM or Ctrl-C, with events for programs"),
    ("cdcv2 capture clicks.jsonl --remap timeline --plain clicks=web.clicks --rows web --into clicks",
     "a plain topic, dumped, on a remap"),
    ("cdcv2 capture kafka --bootstrap localhost:9092 --remap kafka:timeline --plain clicks=web.clicks --rows web "
     "--into kafka:cdc.{table} --follow", "the same from Kafka into Kafka; run it twice, and either may die"),
    ("cdcv2 capture prices.jsonl --stream prices=market.prices --rows market --into prices",
     "a topic whose records have times of their own, dumped"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done; with --follow: SIGTERM ended it",
    Exit.MISSING: "the topics end inside a transaction or a snapshot",
    Exit.WRONG: "a record does not have the form of a row, or cannot be read: topic, partition and offset are named",
    Exit.UNABLE: "a server is down, or the capture met something that no log can continue across, such as a second "
                 "snapshot: reason and remedy are printed, and the logs are complete up to there",
}

#: Why a table may seem not to be covered where a dump is read.
_OR_NOT_DUMPED = ". If its topic was not dumped: dump that whole, too, and capture into an empty directory"


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_command_options(parser)


def run(args: argparse.Namespace) -> Exit:
    """Capture until the topics end, or a signal stops it."""
    overlooked = left_out(args)
    if overlooked is not None:
        _print(overlooked)
    if args.stream:
        return run_streams(args)
    if args.remap:
        return run_shared(args)
    recipe = recipe_of(args)
    topics = _topics(args, recipe)
    # Asked before anything is written: a source that does not answer, or is not the recipe's, leaves nothing behind.
    total = sum(topics.ends().values())
    into = log_directory(args)
    begun = is_there(into / CAPTURE_FILE) or is_there(into / MEMORY_FILE)
    check_meet(recipe, topics.topics(), follow=args.follow, remark=_print, begun=begun)
    if not begun:
        _try_first(topics, recipe, follow=args.follow)
    with ExitStack() as opened, stop_signals() as stopping:
        used = opened.enter_context(FolderInUse(into, sole=args.sole))
        memory = MemoryFile(into / MEMORY_FILE, logs=write_manifest(used, recipe))
        logs = _logs(recipe, into, memory)
        describe_log_set(logs, log_set_in(into))
        for text in kept_types(in_directories(args.into, recipe.tables)):
            _print(text)
        capture = opened.enter_context(Capture(
            recipe, logs, memory=memory, times=ReleaseTimes(into), memory_rows=args.memory_rows,
        ))
        move = opened.enter_context(progress(total, "capturing", shown=not args.follow))
        if not from_kafka(args):
            known = {place: at for place, at in capture.next_positions().items() if place[0] in recipe.topics()}
            for text in absent(known, topics.ends()):
                _print(text)
        lines, events, age = Lines(_print), args.events, partial(_age, capture)

        def state() -> JobProgress:
            return _state(capture, topics, recipe, at_rest=watched.at_rest)

        def turn() -> None:
            events.progress(state)
            if args.follow:
                lines.turn(partial(_far, capture, topics, recipe), age)

        watched = _WatchedTopics(topics, move, turn)
        run_capture(
            capture, watched, follow=args.follow, stopping=stopping, release_every=args.max_records or RELEASE_EVERY,
        )
        capture.save()
        events.progress(state, at_once=True)
        # What notifications state of a table is of no dump's making.
        dumped = not from_kafka(args) and (not args.notifications or args.snapshot == "none")
        waiting = _waits(capture, topics, recipe)
        _report(capture, waiting, as_json=args.json, dumped=dumped)
    return Exit.MISSING if waiting.inside and not stopping() else Exit.DONE


def _try_first(topics: Topics, recipe: DatabaseConnector, *, follow: bool) -> None:
    """Raise what the topics raise when they are read from their start, and what their first record is refused with."""
    for item in topics.read({}, follow=follow):
        if isinstance(item, Record):
            recipe.fact(item)
            return
        if item is None and follow:
            return


def _print(text: str) -> None:
    remark(f"cdcv2 capture: {text}")


def _waits(capture: Capture, topics: Topics, recipe: DatabaseConnector) -> WaitReason:
    """Why nothing more can be released; a snapshot whose notifications have no topic waits for that."""
    waiting = capture.waits()
    lacks = recipe.unnotified(topics.known_topics()) if waiting.what == "snapshot" else None
    return waiting if lacks is None else replace(waiting, text=lacks)


def _far(capture: Capture, topics: Topics, recipe: DatabaseConnector) -> str:
    """How far one is that follows, and what it waits for."""
    through = through_text(stated_frontier(capture.frontier))
    unread = topics.unread()
    waits = topics.waits() or (f"{unread} records to be read" if unread else _waits(capture, topics, recipe).text)
    return f"{through}: {capture.counters.transactions} transactions, {capture.counters.rows} rows; {waits}"


def _state(capture: Capture, topics: Topics, recipe: DatabaseConnector, *, at_rest: bool) -> JobProgress:
    """The same for programs. ``at_rest``: what was read is released, as far as it can be."""
    unread, hindered = topics.unread(), topics.waits()
    if hindered is not None:
        waits: Sequence[JobWait] = [JobWait("unavailable", hindered)]
    elif unread:
        waits = unread_waits(unread)
    else:
        waits = capture_waits(_waits(capture, topics, recipe), recipe, capture.next_positions())
    counted = capture.counters
    return JobProgress(
        stated_frontier(capture.frontier).to_plain(), capture.committed_at, waits, capture.held_rows,
        {"records": counted.records, "rows": counted.rows, "transactions": counted.transactions},
        at_rest and unread == 0 and hindered is None,
    )


def _age(capture: Capture) -> str:
    return committed_text(capture.committed_at, time.time())


class _WatchedTopics:
    """Topics, and a bar that moves as they are read, or lines."""

    def __init__(self, topics: Topics, move: Callable[[int], object], turn: Callable[[], object]) -> None:
        self._topics, self._move, self._turn = topics, move, turn
        #: Whether nothing was read since there was nothing to be read: then the capture has released what it could.
        self.at_rest = False
        self.ends, self.identities, self.let_wait = topics.ends, topics.identities, topics.let_wait
        self.topics, self.known_topics, self.ranges = topics.topics, topics.known_topics, topics.ranges
        self.unread, self.waits = topics.unread, topics.waits

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """The same items."""
        self._move(sum(positions.values()))
        for item in self._topics.read(positions, follow=follow):
            if isinstance(item, Record):
                self._move(1)
                self.at_rest = False
            self._turn()
            yield item
            self.at_rest = self.at_rest or item is None


def _logs(recipe: DatabaseConnector, into: Path, memory: MemoryFile) -> dict[str, DirectoryLog]:
    """The logs; they are made unless the state knows them: a removed log must not come back as a new one."""
    known = memory.load() is not None
    try:
        tables = sorted(recipe.tables.items())
        return {table: DirectoryLog(into / table, row_type, create=not known) for table, row_type in tables}
    except MissingLogError as error:
        raise missing_logs(error, f"the memory {memory.path}") from error


def _topics(args: argparse.Namespace, recipe: DatabaseConnector) -> Topics:
    if from_kafka(args):
        from cdcv2.connectors.kafka_topics import KafkaTopics

        return KafkaTopics(kafka_client(args), recipe)
    if args.follow:
        raise UsageError("--follow goes with kafka: a dump does not grow")
    dumped = DumpedTopics(*dump_files(args), needed=recipe.topics())
    check_dumped(recipe, dumped.topics())
    return dumped


def _report(capture: Capture, waiting: WaitReason, *, as_json: bool, dumped: bool) -> None:
    frontier = stated_frontier(capture.frontier)
    counted = capture.counters
    with ResultOutput.standard() as output:
        if as_json:
            output.line(json_line({
                "frontier": plain_frontier(frontier),
                "waiting": {"what": waiting.what, "text": waiting.text},
                "records": counted.records, "rows": counted.rows, "repeats": counted.repeats,
                "transactions": counted.transactions, "not_covered": list(capture.coverage.uncovered),
            }))
            return
        output.line(
            f"{through_text(frontier)}: {counted.transactions} transactions released; read {counted.rows} rows "
            f"({counted.repeats} repeats) in {counted.records} records"
        )
    _print(waiting.text)
    coverage = capture.coverage
    for table, text in zip(coverage.uncovered, coverage.texts()):
        _print(f"{text}{_OR_NOT_DUMPED if dumped and table not in coverage.partial else ''}")
