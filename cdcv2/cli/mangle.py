"""Copy logs, with every fact duplicated, reordered and re-batched.

A reader of the copy gets the same history. That is the promise, and with this
command you can try it. The same seed makes the same copy.

A directory that a capture wrote is copied log by log, with the manifest of
the capture, so that a copy that is not whole is noticed.

Without --window, messages are reordered over the whole log, which is then in
memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.logs import KAFKA_WORDS, LOG_FILE, ROW_WORDS, addresses, entries, kafka_log, open_logs
from cdcv2.cli.options.words import declare, places
from cdcv2.errors import DecodeError, OutputError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import manifest_of, put_manifest
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_set import demand_room
from cdcv2.logs.opening import NamedLog, check_timeline, demand_whole
from cdcv2.logs.stops import StopLog, stops_of
from cdcv2.protocol.log import TEMPLATE, Log, LogAddress
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import GarbledMessage, Message
from cdcv2.store.file_system import is_there

EXAMPLES = (
    ("cdcv2 mangle logs copies", "all the logs of a capture, each fact twice, in any order"),
    ("cdcv2 mangle logs/public.orders copy --seed 7 --copies 3 --window 50", "one log, reordered within 50 messages"),
    ("cdcv2 mangle kafka:orders kafka:orders-mangled --bootstrap localhost:9092 --row rows/public.orders.avsc",
     "from topic to topic"),
)

#: Messages that become durable together: in a directory, a file.
TOGETHER = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    declare(parser, "log", more=", or the directory of a capture")
    parser.add_argument("to", metavar="DST", type=places,
                        help="a new directory, or kafka:TOPIC; {table} stands for the table")
    declare(parser, *KAFKA_WORDS, *ROW_WORDS)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of the disorder (default: 0)")
    parser.add_argument("--copies", type=int, default=2, metavar="N", help="how many copies of each fact (default: 2)")
    parser.add_argument("--window", type=int, metavar="N",
                        help="how many messages apart two may stand that change places (default: any number)")
    parser.add_argument("--no-rebatch", action="store_true", help="leave the messages as they are")
    parser.add_argument("--doubled", action="store_true",
                        help="put copies of some updates into one message, which not every reader of others expects")
    declare(parser, "--json", more="what was written, one object a log")
    declare(parser, "--partitions")


def run(args: argparse.Namespace) -> Exit:
    """Copy each log."""
    # Refuses wrong numbers before anything is written.
    mangle((), copies=args.copies, window=args.window, rebatch=not args.no_rebatch, doubled=args.doubled)
    logs = open_logs(args, as_one=False)
    demand_whole(addresses(args), logs)
    folder = _capture_folder(args.log)
    targets = [_target(args.to, named.table, within=folder is not None, several=len(logs) > 1) for named in logs]
    with ResultOutput(None) as output:
        for named, target in zip(logs, targets):
            _demand_free(target)
        if folder is not None and not args.to.is_topic:
            _copy_manifest(folder, args.to)
        for named, target in zip(logs, targets):
            written = _copied(named, target, args)
            plain = {"table": named.table, "messages": written, "to": str(target)}
            output.line(json_line(plain) if args.json else f"{named.table}: {written} messages in {target}")
    return Exit.DONE


def _copied(named: NamedLog, target: LogAddress, args: argparse.Namespace) -> int:
    log, stated = _open(target, named, args), _stated(named, args.timeline)
    try:
        _check_empty(log, target)
        if stated != LogDescription():
            log.close()
            log = _open(target, named, args, stated)
        _carry_stops(named.log, log)
        written = 0
        mangled = mangle(
            _messages(named), seed=args.seed, copies=args.copies, window=args.window, rebatch=not args.no_rebatch,
            doubled=args.doubled,
        )  # fmt: skip
        for written, message in enumerate(mangled, 1):
            log.send(message)
            if written % TOGETHER == 0:
                log.flush()
        log.flush()
        # Those of a topic are known when it is read.
        _carry_stops(named.log, log)
        return written
    finally:
        log.close()


def _carry_stops(log: Log, copy: Log) -> None:
    """Keep in the copy why the log's capture stopped: it lacks what the log does."""
    if isinstance(copy, StopLog):
        for stop in stops_of([log]):
            copy.put_stop(stop)


def _stated(named: NamedLog, timeline: str | None) -> LogDescription:
    """What the copy states of itself; ``timeline`` is the user's for a log that does not state one."""
    return replace(description_of(named.log).of_copy(), timeline=check_timeline([named], timeline))


def _messages(named: NamedLog) -> Iterator[Message]:
    for _, entry in entries([named], f"mangling {named.table}"):
        if isinstance(entry.message, GarbledMessage):
            raise DecodeError(entry.message.reason, position=entry.position, raw=entry.message.raw)
        yield entry.message


def _capture_folder(address: LogAddress) -> Path | None:
    """The directory that is copied log by log; None where the address is that of one log."""
    folder = Path(address.name)
    return None if address.is_topic or is_there(folder / LOG_FILE) else folder


def _target(to: LogAddress, table: str, *, within: bool, several: bool) -> LogAddress:
    """Where the copy of a log goes: one of several, or one in a directory of several (``within``), has its name."""
    if several:
        to.demand_several()
    if within or to.is_template:
        demand_room(to)
    return to.of(table) if to.is_template or (within and not to.is_topic) else to


def _demand_free(target: LogAddress) -> None:
    """Raise UsageError for a directory log with messages; of a topic that is asked when its turn comes."""
    if not target.is_topic and is_there(Path(target.name) / LOG_FILE):
        _check_empty(DirectoryLog(Path(target.name)), target)


def _check_empty(log: Log, target: LogAddress) -> None:
    if any(log.ends().values()):
        raise UsageError(f"{target} holds messages already: give the name of a log that is not there yet")


def _copy_manifest(folder: Path, to: LogAddress) -> None:
    """Give the copies the note of the capture, before there is any: what lacks after a crash is then known to lack."""
    note, into = manifest_of(folder), Path(to.name)
    if to.is_template:
        if into.name != TEMPLATE or TEMPLATE in str(into.parent):
            # The copies do not lie in one directory, as the logs of a capture do.
            return
        into = into.parent
    if not note:
        return
    timeline = note.get("timeline") or note.get("id")
    if timeline is not None:
        # The copies get an id of their own; their times are of the same timeline.
        note["timeline"] = timeline
    try:
        put_manifest(into, note)
    except OSError as error:
        raise OutputError(f"{into} cannot be written: {error.strerror or error}; give another target") from error
    there = manifest_of(into)
    if {**there, "id": None} != {**note, "id": None}:
        raise UsageError(f"{into} holds logs of another capture: give the name of a directory that is not there yet")


def _open(
    target: LogAddress, named: NamedLog, args: argparse.Namespace, stated: LogDescription = LogDescription()
) -> Log:
    if target.is_topic:
        return kafka_log(
            target.name, args, named.row_type, named.times, create=True, partitions=args.partitions, description=stated
        )
    return DirectoryLog(Path(target.name), named.row_type, create=True, times=named.times, description=stated)
