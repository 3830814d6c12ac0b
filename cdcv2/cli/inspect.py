"""Print the messages of a log as they are: duplicates and disorder included.

Bytes that are no message are shown with their position.

A directory with a shared remap is recognised. For a topic with a remap, give
--bindings. The records of a remap are shown with their result: a proposal that
did not win is void. With --brief only those that hold are shown.

On a terminal, long lines are cut. --json and --output show all of them.

If the capture of a log released each transaction as soon as it was complete,
a line before its messages states it; in JSON each message does ("ordering").
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from shutil import get_terminal_size
from typing import Any

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import cut, plain_position, raw_text, safe
from cdcv2.cli.logs import entries, open_logs
from cdcv2.cli.options.log_words import ROW_WORDS, declare_kafka_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.cli.remaps import is_remap, open_remap, record_lines
from cdcv2.completeness import frontier_text, time_text
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.description import description_of
from cdcv2.logs.jsonlines import JsonLines
from cdcv2.logs.named_logs import NamedLog
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import GarbledMessage, Message, Updates
from cdcv2.timeline.ordering import COMMIT_ORDER

EXAMPLES = (
    ("cdcv2 inspect logs/public.orders", "every message of a log in a directory"),
    ("cdcv2 inspect logs/public.orders --brief --limit 5", "the first five, without their rows"),
    ("cdcv2 inspect logs --json", "all the logs of a capture, as JSON lines"),
    ("cdcv2 inspect kafka:orders --bootstrap localhost:9092 --row rows/public.orders.avsc", "a topic"),
    ("cdcv2 inspect remap --lsn", "the bindings of a shared remap"),
    ("cdcv2 inspect kafka:remap --bindings --brief --bootstrap localhost:9092", "those that hold, of one in a topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.WRONG: "the log holds bytes that are no message",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "log", nargs="+")
    declare_kafka_words(parser)
    # Messages are shown as they stand there, of whatever timeline they are.
    declare(parser, *(word for word in ROW_WORDS if word != "--timeline"))
    parser.add_argument("--limit", type=int, metavar="N", help="stop after N lines: of messages, and of their rows")
    parser.add_argument("--brief", action="store_true", help="without the rows")
    parser.add_argument("--bindings", action="store_true", help="what is named are shared remaps, not logs")
    declare(parser, "--json", more="one object a line")
    declare(parser, "--lsn")
    declare(parser, "--output", more=STANDARD_OUTPUT)
    parser.formerly("--remap", "--bindings")


def run(args: argparse.Namespace) -> Exit:
    """Print each message with its position. Raises UsageError if --limit is below 1."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit}: it takes a number from 1 on")
    if args.bindings or all(map(is_remap, args.log)):
        return _remaps(args)
    logs = open_logs(args, as_one=False)
    eager = {named.log.name: stated for named in logs if (stated := description_of(named.log).ordering) != COMMIT_ORDER}
    show = _json if args.json else _short if args.brief else _text
    garbled = shown = 0
    with ResultOutput(args.output) as output:
        width = get_terminal_size().columns if output.is_terminal and not args.json else None
        for name, stated in () if args.json else eager.items():
            output.line(f"{name}  ordering  {stated}: each transaction as soon as it is complete; no cut is consistent")
        for named, entry in entries(logs, "reading", bar=not output.is_terminal):
            garbled += isinstance(entry.message, GarbledMessage)
            lines = show(named, entry, eager.get(named.log.name))
            fit = lines if args.limit is None else lines[:args.limit - shown]
            for line in fit:
                output.line(cut(line, width))
            shown += len(fit)
            if shown == args.limit:
                break
    if garbled:
        remark(f"cdcv2 inspect: {garbled} of the messages {'is' if garbled == 1 else 'are'} garbled")
    return Exit.WRONG if garbled else Exit.DONE


def _remaps(args: argparse.Namespace) -> Exit:
    lines = (
        line
        for log in [open_remap(address, args) for address in args.log]
        for line in record_lines(log, as_json=args.json, brief=args.brief, as_lsn=args.lsn)
    )
    with ResultOutput(args.output) as output:
        width = get_terminal_size().columns if output.is_terminal and not args.json else None
        for line in islice(lines, args.limit):
            output.line(cut(line, width))
    return Exit.DONE


def _text(named: NamedLog, entry: Entry, eager: str | None) -> list[str]:
    head, message = str(entry.position), entry.message
    if isinstance(message, GarbledMessage):
        return [f"{head}  garbled   {message.reason}: {raw_text(message.raw)}"]
    if isinstance(message, Updates):
        lines = [f"{head}  updates   {len(message.updates)}"]
        for data, time, diff in message.updates:
            lines.append(f"    {diff:+d} at {time_text(time)}  {named.row_type.text(data)}")
        return lines
    counts = "  ".join(f"{time_text(time)}: {count}" for time, count in message.counts)
    return [f"{head}  progress  {frontier_text(message.lower)} to {frontier_text(message.upper)}  {counts}".rstrip()]


def _short(named: NamedLog, entry: Entry, eager: str | None) -> list[str]:
    return _text(named, entry, eager)[:1]


def _json(named: NamedLog, entry: Entry, eager: str | None) -> list[str]:
    plain: dict[str, Any] = safe({"table": named.table, "position": plain_position(entry.position)})
    plain |= {} if eager is None else {"ordering": eager}
    message: Message | GarbledMessage = entry.message
    if isinstance(message, GarbledMessage):
        plain["garbled"] = {"reason": message.reason, "raw": message.raw.hex()}
    else:
        plain |= JsonLines(named.row_type).plain(message)
    return [json.dumps(plain)]
