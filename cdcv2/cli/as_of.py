"""Print a table as it was at a time, as CSV or JSON.

The time must be finished: everything up to it is in the log. Without --at it
is the last finished time.

In CSV, a row that is there n times is n lines. NULL is an empty field, an
empty string is "". In JSON, each different row is a line, with how often it
is there.
"""

from __future__ import annotations

import argparse
import json

from cdcv2.cli.at_option import TAKES, time_at
from cdcv2.cli.collection import collection
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.coverage import remark_logs
from cdcv2.cli.display import csv_line, sort_key
from cdcv2.cli.disputes import add_quarantine_argument, quarantine_of, remark_disputes
from cdcv2.cli.logs import add_log_arguments, open_one
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import start_of
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.completeness import through_text, time_text
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.named_logs import NamedLog, some_covered
from cdcv2.rows.plain import plain_int
from cdcv2.rows.row_type import Row

EXAMPLES = (
    ("cdcv2 as-of logs --table public.orders", "all that is finished"),
    ("cdcv2 as-of logs --table public.orders --at 101936016", "at a time"),
    ("cdcv2 as-of logs --table public.orders --at 2026-11-21T09:02:06Z", "as it was by the clock"),
    ("cdcv2 as-of logs/public.orders --json --output orders.json", "as JSON lines, into a file"),
    ("cdcv2 as-of kafka:orders --bootstrap localhost:9092 --row rows/public.orders.avsc", "from a topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "the time of --at is not finished, or no time is: nothing is printed but what is known",
    Exit.WRONG: "the logs contradict themselves; or a row is there less than zero times, because the log does not "
                "hold the whole history, or its writer was wrong",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=False)
    declare(parser, "--table", more=", of those in the directory")
    declare(parser, "--at", more=f"{TAKES} (default: the last finished time)")
    declare(parser, "--start")
    add_quarantine_argument(parser)
    form = parser.add_mutually_exclusive_group()
    declare(form, "--json", more="one object a line")
    declare(form, "--csv", more=" (the default)")
    declare(parser, "--output", more=STANDARD_OUTPUT)


def run(args: argparse.Namespace) -> Exit:
    """Add up the updates, and print what they come to. Raises UsageError if --table is empty."""
    if args.table == "":
        raise UsageError("--table '' names nothing: name a table, or leave it out")
    logs = open_one(args, args.table)
    at = time_at(args.at, logs, "cdcv2 as-of") if args.at is not None else None
    found = some_covered(logs)
    quarantine = quarantine_of(args)
    rows, frontier, disputed = collection(found, at, start_of(args.start, logs), quarantine)
    shown = sorted(rows, key=lambda item: sort_key(tuple(item[0])))
    with ResultOutput(args.output) as output:
        _print(shown, logs[0], output, as_json=args.json)
    number = sum(count for _, count in shown)
    when = f"at {time_text(at)}" if at is not None else through_text(frontier)
    remark_logs("cdcv2 as-of", found)
    remark(f"cdcv2 as-of: {logs[0].table}, {when}: {number} rows")
    return Exit.WRONG if remark_disputes("cdcv2 as-of", disputed, quarantine) else Exit.DONE


def _print(shown: list[tuple[Row, int]], named: NamedLog, output: ResultOutput, *, as_json: bool) -> None:
    if as_json:
        for row, count in shown:
            plain = {"data": named.row_type.to_plain(row), "multiplicity": plain_int(count)}
            output.line(json.dumps(plain))
        return
    output.line(csv_line(list(named.row_type.columns)))
    for row, count in shown:
        line = csv_line(list(named.row_type.to_plain(row).values()))
        for _ in range(count):
            output.line(line)
