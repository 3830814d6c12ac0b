"""``cdcv2 capture --remap``: what the arguments mean, and the capture at work; see :mod:`cdcv2.commands.capture`."""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from cdcv2.commands.console import Output as Written
from cdcv2.commands.console import remark
from cdcv2.commands.logs import is_kafka, kafka_client, kafka_log
from cdcv2.commands.remaps import open_remap
from cdcv2.commands.shown import through_text
from cdcv2.commands.wanted import Wanted, add_wanted_arguments, wanted
from cdcv2.errors import IncompleteError, MissingLogError, UnavailableError, UsageError
from cdcv2.exits import Exit
from cdcv2.protocol.log import Log
from cdcv2.protocol.writer import Writer
from cdcv2.reclock.minting import RemapLog
from cdcv2.sources import shared_capture
from cdcv2.sources.binder import Binder
from cdcv2.sources.database import Database
from cdcv2.sources.dumped import DumpedTopics
from cdcv2.sources.noted_timeline import note_timeline
from cdcv2.sources.plain import PlainRows
from cdcv2.sources.ranged import DumpedRanges, Look, Ranges
from cdcv2.sources.shared_capture import Output, PlainTables, SharedCapture
from cdcv2.wire.files import DirectoryLog
from cdcv2.wire.jsonlines import plain_frontier
from cdcv2.wire.rows import RowType
from cdcv2.wire.temp_rows import TEMP

#: How many records are read at once, if nothing else is said.
AT_MOST = 50_000
#: Where TEMP of each database is: no log of a table, so not beside these.
TEMP_FOLDER = "_temp"
#: How long, in seconds, a capture that follows waits when nothing has happened.
WAIT = 0.2


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what only a capture on a shared remap takes."""
    shared = parser.add_argument_group("on a shared remap")
    shared.add_argument("--remap", metavar="REMAP", help="a directory, or kafka:TOPIC: made if it is not there")
    add_wanted_arguments(shared)
    shared.add_argument("--bind-every", type=float, default=1.0, metavar="SECONDS",
                        help="with --follow, the least time between two bindings (default: 1)")
    shared.add_argument("--bind-idle", type=float, default=10.0, metavar="SECONDS",
                        help="with --follow, state that nothing has happened after so long (default: 10; 0: never)")
    shared.add_argument("--bind-at-most", type=int, default=100_000, metavar="N",
                        help="about how many records one binding takes in; they are held in memory (default: 100000)")
    shared.add_argument("--name", metavar="NAME", help="who binds, for people who read the remap (default: host:pid)")
    shared.add_argument("--begin-at-first", action="store_true",
                        help="plain topics that are bound for the first time begin with the first record that is there")
    shared.add_argument("--propose-recipe", action="store_true",
                        help="if times are bound under another recipe, bind them under this one from now on")


def run_shared(
    args: argparse.Namespace, told_to_stop: Callable[[], AbstractContextManager[Callable[[], bool]]]
) -> Exit:
    """Capture until what the topics hold now is written, or it is told to stop."""
    _check(args)
    asked = wanted(args)
    ranges = _ranges(args, asked)
    look = ranges.look()
    log = _remap(args, asked, look)
    propose, said = args.propose_recipe, ""
    with told_to_stop() as stopping:
        while True:
            try:
                binder = _binder(args, asked, log)
                binder.begin(look, needed=asked.needed, propose=propose, at_first=args.begin_at_first)
                # Asked for once: another recipe that is proposed after this one is obeyed.
                propose = False
                with _opened(args, asked, binder, ranges) as capture:
                    shared_capture.run(
                        capture, binder, follow=args.follow, stopping=stopping, wait=lambda: time.sleep(WAIT)
                    )
                    _report(capture, as_json=args.json)
                    return Exit.MISSING if capture.waits() and not stopping() else Exit.DONE
            except (IncompleteError, UnavailableError) as later:
                # Times under an earlier recipe are written by whoever has that; and what does not answer may again.
                if not args.follow:
                    raise
                if stopping():
                    return Exit.DONE
                if str(later) != said:
                    said = str(later)
                    remark(f"cdcv2 capture: waiting: {said}")
                time.sleep(1)


def _binder(args: argparse.Namespace, asked: Wanted, log: RemapLog) -> Binder:
    follow = args.follow
    return Binder(
        log, asked.recipe, topics=asked.topics, now=lambda: time.time_ns() // 1_000_000,
        name=args.name or f"{socket.gethostname()}:{os.getpid()}", at_most=args.bind_at_most,
        every=int(args.bind_every * 1000) if follow else 0,
        idle=int(args.bind_idle * 1000) if follow and args.bind_idle else None,
    )


def _check(args: argparse.Namespace) -> None:
    for name in ("bind_at_most", "release_every"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value}: it takes a number from 1 on")
    topic = is_kafka(args.into)
    if topic is not None and "{table}" not in topic:
        raise UsageError(f"--into {args.into}: the topics of several tables need names: kafka:NAME.{{table}}")


def _ranges(args: argparse.Namespace, asked: Wanted) -> Ranges:
    if args.source == ["kafka"]:
        from cdcv2.sources.kafka_ranges import KafkaRanges

        return KafkaRanges(kafka_client(args), asked.topics, single=asked.single)
    if "kafka" in args.source:
        raise UsageError("topics come from dumps or from Kafka, not from both")
    if args.follow:
        raise UsageError("--follow goes with kafka: a dump does not grow")
    return DumpedRanges(DumpedTopics(*args.source))


def _remap(args: argparse.Namespace, asked: Wanted, look: Look) -> RemapLog:
    """The remap, which is made if it is not there; not for topics that are not, which would leave it behind empty."""
    missing = sorted(asked.needed - look.topics)
    try:
        return open_remap(args.remap, args, create=not missing)
    except MissingLogError:
        if not missing:
            raise
        raise MissingLogError(
            f"there is no topic {missing[0]!r} in {' '.join(args.source)}: its name is wrong, or nobody has written it "
            "yet"
        ) from None


@contextmanager
def _opened(args: argparse.Namespace, asked: Wanted, binder: Binder, ranges: Ranges) -> Iterator[SharedCapture]:
    """The capture with its logs, which are made if they are not there."""
    if is_kafka(args.into) is None:
        note_timeline(Path(args.into), str(binder.recipe.timeline), asked.recipe.tables, ordering=asked.ordering)
    with ExitStack() as opened:
        def written(log: Log) -> Writer:
            return opened.enter_context(Writer(log))

        outputs: list[Output] = []
        if asked.plain:
            outputs.append(PlainTables({
                table: (topic, PlainRows(row_type), written(_log(args, table, row_type)))
                for table, (topic, row_type) in asked.plain.items()
            }))
        for prefix, (recipe, names) in asked.databases.items():
            writers = {table: written(_log(args, names[table], kind)) for table, kind in recipe.tables.items()}
            temp = _log(args, f"{TEMP_FOLDER}{'.' if is_kafka(args.into) else '/'}{prefix}", TEMP)
            outputs.append(Database(recipe, writers, (temp, written(temp)), ordering=asked.ordering, names=names))
        capture = SharedCapture(binder, ranges, outputs, at_most=args.release_every or AT_MOST)
        opened.callback(capture.close)
        yield capture


def _log(args: argparse.Namespace, name: str, row_type: RowType) -> Log:
    topic = is_kafka(args.into)
    if topic is None:
        return DirectoryLog(Path(args.into) / name, row_type, create=True)
    return kafka_log(topic.replace("{table}", name), args, row_type, "int", create=True)


def _report(capture: SharedCapture, *, as_json: bool) -> None:
    waiting = capture.waits()
    with Written(None) as output:
        if as_json:
            output.line(json.dumps({
                "frontier": plain_frontier(capture.frontier), "records": capture.records, "waiting": waiting,
            }))
        else:
            output.line(f"{through_text(capture.frontier)}: {capture.records} records")
    for text in waiting:
        remark(f"cdcv2 capture: {text}")
