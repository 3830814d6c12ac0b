"""Draw logs, a timeline or a pipeline as a picture, in SVG.

What is drawn is what is named:

  LOG ...         updates by time, the times that statements cover, what
                  lacks, and how the frontiers moved while the logs were read
  REMAP [LOG ...] the bindings of a remap; how far the logs of its captures
                  are; and, of open-records logs (logs/_temp/PREFIX), when
                  transactions were open
  FILE.yaml       a pipeline: from the source over the log to each target,
                  and how many seconds behind it is

A picture is for light and dark, and asks for nothing from elsewhere: any
browser shows it.
"""

from __future__ import annotations

import argparse

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.cli.console import ResultOutput
from cdcv2.cli.logs import add_log_arguments, addresses, bar_of, open_logs
from cdcv2.cli.options.log_words import refuse_ignored
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.cli.remaps import is_remap, open_remap
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.status_picture import pipeline_picture
from cdcv2.control.pipeline_status import StatusWatch
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.named_logs import covered, some_covered
from cdcv2.logs.read import LogReader
from cdcv2.protocol.log_address import LogAddress
from cdcv2.timeline.minting import follow, run as mint
from cdcv2.timeline.shared_remap import SharedRemap
from cdcv2.viz.draw_logs import draw_logs
from cdcv2.viz.draw_pipeline import draw_pipeline
from cdcv2.viz.draw_timeline import draw_timeline
from cdcv2.viz.logs_picture import bound, picture_of
from cdcv2.viz.svg import LEAST, MOST, USUAL
from cdcv2.viz.draw_timeline import TimelineBar, TimelinePicture
from cdcv2.viz.timeline_picture import open_transactions

EXAMPLES = (
    ("cdcv2 draw logs --output logs.svg", "all the logs of a capture"),
    ("cdcv2 draw logs/public.orders --width 360 --output orders.svg", "one log, for a small screen"),
    ("cdcv2 draw remap temp --output timeline.svg", "a timeline, and its open transactions"),
    ("cdcv2 draw pipeline.yaml --output pipeline.svg", "a pipeline as it is now"),
)


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=True)
    parser.add_argument("--width", type=int, default=USUAL, metavar="PIXELS",
                        help=f"from {LEAST} to {MOST} (default: {USUAL})")
    declare(parser, "--output", more=STANDARD_OUTPUT)


def run(args: argparse.Namespace) -> Exit:
    """Look, and draw it. Raises UsageError if a pipeline is named with anything else."""
    first, *rest = addresses(args)
    if not first.is_topic and first.name.endswith((".yaml", ".yml")):
        if rest:
            raise UsageError(f"{first} is the file of a pipeline: name it alone")
        pipeline = read_pipeline(first.name)
        picture = pipeline_picture(StatusWatch(pipeline).look(), instances=pipeline.instances.values())
        svg = draw_pipeline(picture, args.width)
    elif is_remap(first):
        given = [] if args.timeline is None else ["--timeline"]
        refuse_ignored(given, given, "LOG alone", f"{first} is a remap, which has a timeline of its own")
        args.log = rest
        svg = draw_timeline(_timeline(first, args), args.width)
    else:
        logs = open_logs(args)
        with bar_of(logs, "drawing"):
            svg = draw_logs(picture_of(some_covered(logs)), args.width)
    with ResultOutput(args.output) as output:
        output.line(svg)
    return Exit.DONE


def _timeline(remap: LogAddress, args: argparse.Namespace) -> TimelinePicture:
    shared = SharedRemap()
    mint(open_remap(remap, args), follow(shared))
    times = [time for time, _ in shared.remap.bindings()]
    captures, transactions = list[TimelineBar](), tuple[TimelineBar, ...]()
    for named in open_logs(args, as_one=False) if args.log else ():
        reading = LogReader(covered([named]))
        if named.row_type == TEMP:
            transactions += open_transactions(reading)
            continue
        for _ in reading:
            continue
        captures.append(TimelineBar(named.table, min(times, default=0), bound(reading.frontier)))
    return TimelinePicture(str(remap), tuple(times), tuple(captures), transactions)
