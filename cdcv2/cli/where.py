"""Print how far the sources of a timeline were at one of its times.

It prints offsets, LSNs or lines. At that time, everything before these
positions is bound, and nothing else. A source that is not named has not
started.

Without --at it is the last time at which something is bound.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.cli.remaps import add_remap_arguments, check_time, open_remap, places
from cdcv2.exits import Exit
from cdcv2.timeline.gauges import frontier_to_plain
from cdcv2.timeline.remap_queries import known, where

EXAMPLES = (
    ("cdcv2 where remap", "at the last time that is bound"),
    ("cdcv2 where remap --at 2000", "at a time"),
    ("cdcv2 where remap --at 2000 --json", "as JSON"),
    ("cdcv2 where kafka:remap --bootstrap localhost:9092 --lsn", "a remap in a topic, of a program that binds LSNs"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "nothing is bound at the time of --at yet",
    Exit.UNABLE: "a server is down, or the remap has forgotten the time of --at",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_remap_arguments(parser)
    declare(parser, "--at", more="a time of the timeline (default: the last one that is bound)")
    declare(parser, "--json", more="one object")
    declare(parser, "--output", more=STANDARD_OUTPUT)


def run(args: argparse.Namespace) -> Exit:
    """Look the time up."""
    at = None if args.at is None else check_time(args.at)
    remap = known(open_remap(args.remap, args))
    time, frontier = remap.last if at is None else at, where(remap, at)
    with ResultOutput(args.output) as output:
        if args.json:
            output.line(json_line({"time": time, "frontier": frontier_to_plain(frontier)}))
        else:
            for line in places(frontier, args.lsn):
                output.line(line)
    remark(f"cdcv2 where: at {time}; decided through {'the end' if not remap.upper else remap.last}")
    return Exit.DONE
