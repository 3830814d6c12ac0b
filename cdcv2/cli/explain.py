"""Name the first thing that stands still on the way to a table, and what mends it.

PART is a capture, a view, a replay or an instance of the file, a table as its
log is called, or a target. The way of its rows is

  server -> slot -> connector -> topic -> capture -> log -> reader -> target

and to an instance, after its log,

  log -> replica -> instance

A line for each of them: how far it is in its own measure (an LSN, an offset, a
transaction, a frontier), and how long ago it moved last. What stands still has
a second line with the reason, the place (topic, partition, offset,
transaction) and, after ->, what mends it. Later parts of the way need no
repair.

This command only looks, as cdcv2 status does, and takes some seconds where a
server does not answer. What the file does not name is not asked.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.age import age
from cdcv2.control.chain import Link
from cdcv2.control.explanation import Explanation, explain
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 explain pipeline.yaml copy", "the way to a view"),
    ("cdcv2 explain pipeline.yaml public.orders", "to each target of a table"),
    ("cdcv2 explain pipeline.yaml copy --json", "for a program"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "nothing stands still",
    Exit.MISSING: "something stands still, or is lost",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("name", metavar="PART", help="a capture, a view, a replay, an instance, a table or a target")
    declare(parser, "--json", more="a list of ways")


def run(args: argparse.Namespace) -> Exit:
    """Print the way."""
    ways = explain(read_pipeline(args.pipeline), args.name)
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json.dumps([way.to_plain() for way in ways]))
        else:
            for way in ways:
                for line in lines(way, time.time()):
                    output.line(line)
    return Exit.MISSING if any(way.fault is not None or way.hangs is not None for way in ways) else Exit.DONE


def lines(way: Explanation, now: float) -> Iterator[str]:
    """The way for people; ``now`` in seconds since 1970."""
    yield f"{way.name}:"
    width = max((len(link.name) for link in way.links), default=0)
    for link in way.links:
        moved = "" if link.moved_at is None else f"; moved {age(max(0.0, now - link.moved_at))} ago"
        yield f"  {link.kind:<9}  {link.name:<{width}}  {link.measure}{moved}"
        if link.fault is not None:
            yield f"  {'':<9}  stands still: {link.fault}{_place(link)}"
            if link.remedy is not None:
                yield f"  {'':<9}  -> {link.remedy}"
    for row in way.tables:
        yield f"  {row.table if row.target is None else f'{row.job}: {row.target}'}: {row.behind}"
    if way.hangs is not None:
        yield f"  {way.hangs}"
    if way.fault is None:
        yield "  nothing stands still"
    else:
        yield f"  the first that stands still is the {way.fault.kind} {way.fault.name}"


def _place(link: Link) -> str:
    named = ", ".join(f"{name} {value}" for name, value in link.place.items())
    return f" ({named})" if named else ""
