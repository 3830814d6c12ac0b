"""Print the history that logs hold, in order, each update once.

Logs of several tables are read together, as one timeline. After each line
that names a frontier, everything before it is complete in all of them. Logs
of the same table are copies, and are read as one. The times of several logs
must come from one source.

As text and as JSON lines (--json): the updates of a batch by table, then the
frontier that they complete. As CSV (--csv, for one table): time, diff, and
the columns. NULL is an empty field, an empty string is "".

With --lake DIR it is not printed: it goes into Parquet files, as the replay
job on Spark writes them, and cdcv2.read_lake reads them. A later run resumes
where the lake is, so you may kill it and run it again at any time. With
--follow it continues until SIGTERM or Ctrl-C. cdcv2 up keeps such a replay
running.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.coverage import remark_logs
from cdcv2.cli.display import csv_line, safe
from cdcv2.cli.disputes import add_quarantine_argument, quarantine_of, remark_disputes
from cdcv2.cli.logs import add_log_arguments, addresses, bar_of, open_logs
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import start_of
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare, declare_follow
from cdcv2.cli.replay_lake import write_lake
from cdcv2.completeness import frontier_text, through_text, time_text
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.jsonlines import plain_frontier, plain_time
from cdcv2.logs.named_logs import demand_whole, some_covered
from cdcv2.logs.read import LogReader
from cdcv2.protocol.messages import Update
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.plain import plain_int
from cdcv2.rows.row_type import RowType

EXAMPLES = (
    ("cdcv2 replay logs/public.orders", "the history of one table"),
    ("cdcv2 replay logs --json", "of all the tables of a capture, as JSON lines"),
    ("cdcv2 replay logs/public.orders --csv --output orders.csv", "as CSV, into a file"),
    ("cdcv2 replay orders=logs/public.orders orders=copies/public.orders", "two copies of one log, as one"),
    ("cdcv2 replay logs --lake history", "into Parquet files; a later run continues there"),
    ("cdcv2 replay kafka:orders --bootstrap localhost:9092 --row rows/public.orders.avsc", "from a topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "the logs end before all that they state has arrived; what is complete is printed",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message; with --quarantine, what is before "
                "the time in dispute is printed",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=True)
    form = parser.add_mutually_exclusive_group()
    declare(form, "--json", more="one object a line")
    declare(form, "--csv", more="; for one table")
    form.add_argument("--lake", metavar="DIR", help="write into the lake in this folder, and continue where it ends")
    declare(parser, "--start")
    add_quarantine_argument(parser)
    declare(parser, "--output", more=STANDARD_OUTPUT)
    declare_follow(parser, default=False, more="; with --lake")
    declare(parser, "--events")


def run(args: argparse.Namespace) -> Exit:
    """Read the logs to their ends, and print each batch as it is complete; or write them into a lake.

    Raises UsageError if --output is given with --lake, or --follow without it.
    """
    if args.lake is not None:
        if args.output is not None:
            raise UsageError("--lake and --output: the history goes into the lake, or is printed; leave one out")
        return write_lake(args)
    if args.follow:
        raise UsageError("--follow goes with --lake: what is printed ends where the logs end; cdcv2 tail follows")
    logs = open_logs(args)
    demand_whole(addresses(args), logs)
    found = some_covered(logs)
    row_types = {named.table: named.row_type for named in found.logs}
    start = start_of(args.start, logs)
    with ResultOutput(args.output) as output, bar_of(
        found.logs, "replaying", shown=not output.is_terminal, events=args.events
    ) as bar:
        write = _writer(args, row_types, output)
        reading = LogReader(found, start=start, observer=bar, quarantine=quarantine_of(args))
        bar.follow(reading)
        for cut in reading:
            write(cut)
    remark_logs("cdcv2 replay", found)
    disputed = remark_disputes("cdcv2 replay", reading.disputed(), quarantine_of(args))
    return _outcome(reading, disputed=disputed)


def _outcome(reading: LogReader, *, disputed: bool) -> Exit:
    missing = reading.missing()
    remark(f"cdcv2 replay: {through_text(reading.frontier)}")
    for table, lacks in missing.items():
        remark(f"cdcv2 replay: {table} is incomplete: {lacks}")
    return Exit.WRONG if disputed else Exit.MISSING if missing else Exit.DONE


def _writer(args: argparse.Namespace, row_types: dict[str, RowType], output: ResultOutput) -> Callable[[Cut], None]:
    if args.csv:
        return _csv(row_types, output)
    return _json(row_types, output) if args.json else _text(row_types, output)


def _each(cut: Cut) -> list[tuple[str, Update]]:
    return [(table, update) for table, updates in cut.updates.items() for update in updates]


def _text(row_types: dict[str, RowType], output: ResultOutput) -> Callable[[Cut], None]:
    def write(cut: Cut) -> None:
        for table, (data, time, diff) in _each(cut):
            output.line(f"{diff:+d} at {time_text(time)}  {table}  {row_types[table].text(data)}")
        output.line(f"-- {through_text(cut.upper)}, frontier {frontier_text(cut.upper)}")

    return write


def _json(row_types: dict[str, RowType], output: ResultOutput) -> Callable[[Cut], None]:
    names = {table: safe(table) for table in row_types}

    def write(cut: Cut) -> None:
        for table, (data, time, diff) in _each(cut):
            row = row_types[table].to_plain(data)
            plain = {"table": names[table], "data": row, "time": plain_time(time), "diff": plain_int(diff)}
            output.line(json.dumps(plain))
        output.line(json.dumps({"frontier": plain_frontier(cut.upper)}))

    return write


def _csv(row_types: dict[str, RowType], output: ResultOutput) -> Callable[[Cut], None]:
    if len(row_types) > 1:
        raise UsageError(f"CSV has one set of columns: name the log of one table, not of {', '.join(row_types)}")
    (row_type,) = row_types.values()
    output.line(csv_line(["time", "diff", *row_type.columns]))

    def write(cut: Cut) -> None:
        for _, (data, time, diff) in _each(cut):
            output.line(csv_line([time_text(time), diff, *row_type.to_plain(data).values()]))

    return write
