"""Follow the changes of a table of an instance, as they are finished.

The instance is a cdcv2 instance, or cdcv2 replicas, that runs. Without
--after the first batch is the table as it is now; then its changes follow,
until Ctrl-C. The instance may be killed and started again meanwhile: each
change is printed once.

As text and as JSON lines (--json): the changes of a batch, then the frontier
that they complete, and the resume token for --after: the frontier with the
identity of the log, as 101936017@LOG. Keep the last token, and continue there
with --after the next time. If another log is there then, or the instance does
not keep the changes after it any more, the tail is refused. --after with a
frontier alone does not look at the log.
"""

from __future__ import annotations

import argparse
import json
import time

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import safe
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import whole_time
from cdcv2.cli.options.words import declare
from cdcv2.completeness import committed_text, frontier_text, through_text, time_text
from cdcv2.exits import Exit
from cdcv2.instances.run.client import InstanceClient
from cdcv2.instances.run.conversation import demand_seconds
from cdcv2.instances.run.tail import SILENCE, InstanceTail, TailBatch
from cdcv2.rows.plain import plain_int

EXAMPLES = (
    ("cdcv2 tail public.orders --instance shop.sock", "the table as it is now, and its changes, until Ctrl-C"),
    ("cdcv2 tail public.orders --instance shop.sock --after 101936017@LOG --until now --json", "what came since then"),
    ("cdcv2 tail public.orders --instance shop.sock --since 0 --until now", "the whole history, as far as it is kept"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: it is up to --until, or the logs have ended",
    Exit.MISSING: "nothing was finished for --timeout: the message states how far the logs are",
    Exit.UNABLE: "no instance answers for --timeout, it does not keep the changes after --after any more, or another "
                 "log is there",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    parser.add_argument("table", metavar="TABLE", help="whose changes: a table of the instance")
    declare(parser, "--instance")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--after", metavar="TOKEN",
                       help="continue after what a tail printed last: a resume token, as 101936017@LOG, or a frontier "
                            "alone")
    begin.add_argument("--since", metavar="TIME",
                       help="begin with the table as it was at this time (default: the last finished one)")
    parser.add_argument("--until", metavar="TIME", help="up to which time: a whole number, or now; then it ends")
    declare(parser, "--json", more="one object a line")
    declare(parser, "--timeout", default=None,
            help="give up after so many seconds (in which nothing was finished; default: wait; for an instance that "
                 f"does not answer, {SILENCE:.0f} seconds)")


def run(args: argparse.Namespace) -> Exit:
    """Print batches."""
    if args.timeout is not None:
        demand_seconds("--timeout ", args.timeout)
    since = None if args.since is None else whole_time("--since", args.since)
    until = None if args.until in (None, "now") else whole_time("--until", args.until)
    tail = InstanceClient(args.instance).tail(args.table, after=args.after, since=since, timeout=args.timeout)
    with ResultOutput.standard() as output, tail:
        for batch in tail if args.until is None else tail.until(until):
            _print(output, batch, as_json=args.json)
            if args.until is None:
                output.flush()
    remark(f"cdcv2 tail: {_end(tail)}")
    return Exit.DONE


def _print(output: ResultOutput, batch: TailBatch, *, as_json: bool) -> None:
    for row, at, diff in batch.changes:
        if as_json:
            plain = {"table": safe(batch.table), "data": batch.row_type.to_plain(row), "time": plain_int(at),
                     "diff": plain_int(diff)}
            output.line(json.dumps(plain))
        else:
            output.line(f"{diff:+d} at {time_text(at)}  {batch.table}  {batch.row_type.text(row)}")
    if as_json:
        times = [plain_int(at) for at in batch.upper if isinstance(at, int)]
        output.line(json.dumps({"frontier": times, "after": safe(batch.resume_token)}))
    else:
        ago = committed_text(batch.committed_at, time.time())
        through, frontier = through_text(batch.upper), frontier_text(batch.upper)
        output.line(f"-- {through}, frontier {frontier}{ago} (--after {batch.resume_token})")


def _end(tail: InstanceTail) -> str:
    ended = "the logs have ended" if not tail.upper else f"continue with --after {tail.resume_token}"
    return f"{through_text(tail.upper)}; {ended}"
