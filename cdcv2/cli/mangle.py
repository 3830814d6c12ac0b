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

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.log_copies import capture_folder, copy_manifest, demand_free, open_copy, targets_of
from cdcv2.cli.logs import addresses, entries, open_logs
from cdcv2.cli.options.log_words import declare_log_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare, places
from cdcv2.errors import DecodeError
from cdcv2.exits import Exit
from cdcv2.logs.named_logs import NamedLog, demand_whole
from cdcv2.logs.stops import StopLog, stops_of
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import GarbledMessage, Message

EXAMPLES = (
    ("cdcv2 mangle logs copies", "all the logs of a capture, each fact twice, in any order"),
    ("cdcv2 mangle logs/public.orders copy --seed 7 --copies 3 --window 50", "one log, reordered within 50 messages"),
    ("cdcv2 mangle kafka:orders kafka:orders-mangled --bootstrap localhost:9092 --row rows/public.orders.avsc",
     "from topic to topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.WRONG: "a log holds bytes that are no message",
}

#: Messages that become durable together: in a directory, a file.
TOGETHER = 100


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "log", more=", or the directory of a capture")
    parser.add_argument("to", metavar="DST", type=places,
                        help="a new directory, or kafka:TOPIC; {table} stands for the table")
    declare_log_words(parser)
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
    folder = capture_folder(args.log)
    targets = targets_of(args.to, [named.table for named in logs], [args.log], within=folder is not None)
    with ResultOutput.standard() as output:
        for target in targets.values():
            demand_free(target)
        if folder is not None and not args.to.is_topic:
            copy_manifest(folder, args.to)
        for named in logs:
            target = targets[named.table]
            written = _copied(named, target, args)
            plain = {"table": named.table, "messages": written, "to": str(target)}
            output.line(json_line(plain) if args.json else f"{named.table}: {written} messages in {target}")
    return Exit.DONE


def _copied(named: NamedLog, target: LogAddress, args: argparse.Namespace) -> int:
    log = open_copy(named, target, args)
    try:
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


def _messages(named: NamedLog) -> Iterator[Message]:
    for _, entry in entries([named], f"mangling {named.table}"):
        if isinstance(entry.message, GarbledMessage):
            raise DecodeError(entry.message.reason, position=entry.position, raw=entry.message.raw)
        yield entry.message
