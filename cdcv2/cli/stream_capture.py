"""``cdcv2 capture --stream``: topics whose records have times of their own; see :mod:`cdcv2.cli.capture`."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial

from cdcv2.capture.memory import missing_logs
from cdcv2.capture.release_answers import RELEASE_EVERY
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.manifest import write_stream_manifest
from cdcv2.capture.run.memory_file import MEMORY_FILE, MemoryFile
from cdcv2.capture.run.stream_tables import StreamTables, demand_topics, run
from cdcv2.capture.run.waits import stream_waits
from cdcv2.capture.topics import Ranges
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.logs import kafka_client
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.cli.options.capture_arguments import dump_files, from_kafka, log_directory
from cdcv2.cli.options.stream_arguments import stream_topics
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import through_text
from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics, absent
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.events import JobProgress
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import log_set_in
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.log_json import in_directories, kept_types
from cdcv2.logs.timeline_of_logs import describe_log_set


def run_streams(args: argparse.Namespace) -> Exit:
    """Capture until the topics end, or a signal stops it.

    Raises UsageError for arguments that do not go together, MissingLogError for a log that the memory knows and that is
    not there, and what reading the topics and writing the logs raise.
    """
    asked = stream_topics(args)
    into = log_directory(args)
    ranges = _ranges(args, {one.topic for one in asked.values()})
    rows = {table: one.records.row_type for table, one in asked.items()}
    if not args.follow:
        # Before anything is written: a topic that is not there leaves nothing behind.
        demand_topics((one.topic for one in asked.values()), ranges.look().topics, " ".join(args.source))
    with ExitStack() as opened, stop_signals() as stopping:
        used = opened.enter_context(FolderInUse(into, sole=args.sole))
        memory = MemoryFile(into / MEMORY_FILE, logs=write_stream_manifest(used, asked))
        known = memory.load() is not None
        try:
            logs = {table: DirectoryLog(into / table, kind, create=not known) for table, kind in sorted(rows.items())}
        except MissingLogError as error:
            raise missing_logs(error, f"the memory {memory.path}") from error
        describe_log_set(logs, log_set_in(into))
        for text in kept_types(in_directories(args.into, rows)):
            _print(text)
        tables = opened.enter_context(StreamTables(asked, logs, memory))
        for text in absent(tables.known, ranges.look().spans) if not from_kafka(args) else ():
            _print(text)
        lines, events = Lines(_print), args.events

        def turn(records: int) -> None:
            events.progress(partial(_state, tables))
            if args.follow:
                lines.turn(partial(_far, tables))

        def waits(text: str) -> None:
            events.waiting(text)
            _print(text)

        run(
            tables, ranges, follow=args.follow, release_every=args.max_records or RELEASE_EVERY,
            stopping=events.keeping_alive(stopping), remark=waits, turn=turn,
        )
        tables.save()
        events.progress(partial(_state, tables), at_once=True)
        _report(tables, as_json=args.json)
    return Exit.MISSING if tables.waits() and not stopping() else Exit.DONE


def _print(text: str) -> None:
    remark(f"cdcv2 capture: {text}")


def _far(tables: StreamTables) -> str:
    """How far one is that follows, and what it waits for."""
    return (
        f"{through_text(tables.frontier)}: {tables.records} records; {'; '.join(tables.waits()) or 'nothing is open'}"
    )


def _state(tables: StreamTables) -> JobProgress:
    """The same for programs; when a time of a stream was, is not known."""
    waits = stream_waits(tables.waits_by_topics())
    return JobProgress(tables.frontier.to_plain(), None, waits, tables.held, {"records": tables.records})


def _ranges(args: argparse.Namespace, topics: Collection[str]) -> Ranges:
    if from_kafka(args):
        from cdcv2.connectors.kafka_ranges import KafkaRanges

        return KafkaRanges(kafka_client(args), topics)
    if args.follow:
        raise UsageError("--follow goes with kafka: a dump does not grow")
    return DumpedRanges(DumpedTopics(*dump_files(args), needed=topics), topics)


def _report(tables: StreamTables, *, as_json: bool) -> None:
    with ResultOutput.standard() as output:
        if as_json:
            output.line(json_line({
                "frontier": plain_frontier(tables.frontier), "tables": tables.frontiers(), "records": tables.records,
                "waiting": tables.waits(),
            }))
        else:
            output.line(f"{through_text(tables.frontier)}: {tables.records} records")
            frontiers = tables.frontiers()
            if len(set(frontiers.values())) > 1:
                for table, frontier in sorted(frontiers.items()):
                    output.line(f"  {table}: {through_text(Antichain([frontier]))}")
    for text in tables.waits():
        _print(text)
