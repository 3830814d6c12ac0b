"""Print the time on a timeline to which a position of its sources is bound.

The time is the first one at which the record at the position is in. If no
binding covers a position yet, it has no time, and a line states it. For
positions before the time to which the remap was compacted, the line has "or
before".

The remap of a capture binds the offsets of its topics: shop.transaction=0@17
is the record at offset 17 of partition 0 of that topic. It knows no LSNs.
LSNs are in remaps that programs of yours bind to LSNs.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.cli.remaps import add_remap_arguments, open_remap, parse_position, places, position_text
from cdcv2.core.order import Time
from cdcv2.errors import ForeignStateError, UsageError
from cdcv2.exits import Exit
from cdcv2.suggestions import meant
from cdcv2.timeline.gauges import to_plain
from cdcv2.timeline.minting import follow, run as mint
from cdcv2.timeline.partitioned import Partitioned
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.remap import Remap
from cdcv2.timeline.remap_queries import TimeAnswer, when
from cdcv2.timeline.shared_remap import SharedRemap

EXAMPLES = (
    ("cdcv2 when remap shop.transaction=0@17", "of a capture: offset 17 of partition 0 of this topic"),
    ("cdcv2 when kafka:remap --bootstrap localhost:9092 shop.transaction=0@17 --json", "a remap in a topic; as JSON"),
    ("cdcv2 when remap bank=0/1A2B orders=0@3", "of a program that binds LSNs and a topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "a position is not bound yet",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_remap_arguments(parser)
    parser.add_argument("position", nargs="+", metavar="POSITION",
                        help="17, 16/B374D848, 2@17 (partition and offset), or NAME=one of these")
    declare(parser, "--json", more="one object a line")
    declare(parser, "--output", more=STANDARD_OUTPUT)


def run(args: argparse.Namespace) -> Exit:
    """Look each position up."""
    positions = [parse_position(text) for text in args.position]
    shared = SharedRemap()
    mint(open_remap(args.remap, args), follow(shared))
    remap = shared.remap
    for position in positions:
        _check_source(position, shared.recipe.text)
    found = [(position, _answer(remap, position, args.lsn)) for position in positions]
    with ResultOutput(args.output) as output:
        for position, answer in found:
            output.line(_json(position, answer) if args.json else _text(position, answer, args.lsn))
    missing = sum(answer is None for _, answer in found)
    if missing:
        remark(f"cdcv2 when: {missing} of {len(found)} not bound by {remap.last}, the last time that is decided")
    return Exit.MISSING if missing else Exit.DONE


def _check_source(position: Time, text: str) -> None:
    """Raise UsageError unless the recipe of a capture has the source; of other recipes nothing is known."""
    try:
        recipe = BoundRecipe.parse(text)
    except ForeignStateError:
        return
    if not isinstance(position, Partitioned):
        return
    name, there = position.part, sorted([*recipe.sources, *(f"{prefix}.*" for prefix in recipe.databases)])
    if not isinstance(name, str):
        raise UsageError(
            f"{position_text(position, False)} names no source of this remap: write NAME=PARTITION@OFFSET; there are "
            f"{', '.join(there)}"
        )
    if not recipe.reads(name):
        raise UsageError(f"there is no source {name!r} in this remap; there are {', '.join(there)}{meant(name, there)}")


def _answer(remap: Remap, position: Time, as_lsn: bool) -> TimeAnswer | None:
    try:
        return when(remap, position)
    except UsageError as cause:
        there = ", ".join(places(remap.current, as_lsn))
        raise UsageError(
            f"{position_text(position, as_lsn)} is no position of the sources of this remap, which are at {there}: "
            "write it as these are written"
        ) from cause


def _text(position: Time, answer: TimeAnswer | None, as_lsn: bool) -> str:
    time = "not bound" if answer is None else f"{answer.time}{' or before' if answer.earlier else ''}"
    return f"{position_text(position, as_lsn)}  {time}"


def _json(position: Time, answer: TimeAnswer | None) -> str:
    return json_line({
        "position": to_plain(position),
        "time": None if answer is None else answer.time,
        "or_before": answer is not None and answer.earlier,
    })
