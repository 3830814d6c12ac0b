"""Shorten a shared remap: forget the bindings that no log set needs.

Each capture on a remap states in it which logs it writes, and from which time
on these need the remap. That is a hold. Nothing that is held is forgotten.
Neither are the last --keep hours, so that cdcv2 when and cdcv2 where can be
asked about them. Their answers about times that are kept do not change.

So you may run it at any moment, as often as you like, also twice at once,
while captures run. New logs cannot begin from the start of a remap that was
shortened: begin them before, and they hold it.

Logs that are no longer written hold a remap for ever. --release forgets their
hold. After the remap was shortened beyond it, no capture can continue them.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.options.log_words import declare_kafka_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.remaps import open_remap
from cdcv2.errors import RefusedError, UsageError
from cdcv2.exits import Exit
from cdcv2.timeline.minting import RemapLog, agree, compact, follow, run as minted
from cdcv2.timeline.shared_remap import SharedRemap

EXAMPLES = (
    ("cdcv2 compact-remap remap --keep 48", "but for the last two days, and what logs need"),
    ("cdcv2 compact-remap remap --release /data/old-logs", "also what only these logs need"),
    ("cdcv2 compact-remap kafka:timeline --bootstrap localhost:9092", "a remap in a topic"),
)
HOUR = 3_600_000
#: So many hours are kept at most.
LONGEST = 10**9


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "remap")
    parser.add_argument("--keep", type=float, default=24.0, metavar="HOURS",
                        help="how much is kept in any case, before the last time that is bound (default: 24)")
    parser.add_argument("--release", action="append", default=[], metavar="LOGS",
                        help="forget the hold of logs that are no longer written: their name, or the identity under "
                             "which they hold the remap")
    declare(parser, "--json", more="the result, one object")
    declare_kafka_words(parser)
    declare(parser, "--events")


def run(args: argparse.Namespace) -> Exit:
    """Let go what is released, and compact as far as the rest allows.

    Raises UsageError if --keep is no number of hours, RefusedError if no logs are known to hold the remap.
    """
    # Written so that what is no number is none of these either.
    if not 0 <= args.keep <= LONGEST:
        raise UsageError(f"--keep {args.keep}: it takes hours, 0 to {LONGEST}")
    log, shared = open_remap(args.remap, args), SharedRemap(name="cdcv2 compact-remap")
    minted(log, follow(shared))
    before, began = shared.remap.since, len(log.read(0).records)
    for of in args.release:
        _release(log, shared, of)
    if not shared.holds and not args.release:
        raise RefusedError(
            f"no logs hold the remap {args.remap}, so it is not known what is needed of it: run each of its "
            "captures once, which states that; then shorten it"
        )
    minted(log, compact(shared, max(0, shared.remap.last - round(args.keep * HOUR))))
    records = len(log.read(0).records)
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json_line({
                "since": shared.remap.since, "before": before, "records": records, "records_before": began,
                "holds": shared.holds, "called": {of: shared.called(of) for of in shared.holds},
                "last": shared.remap.last,
            }))
        else:
            output.line(f"from the time {shared.remap.since} on, before from {before}: {records} records of {began}")
    for of, since in sorted(shared.holds.items()):
        text = f"{_shown(shared, of)} needs it from {since} on, {shared.remap.last - since} before the last time"
        remark(f"cdcv2 compact-remap: {text}")
    return Exit.DONE


def _shown(shared: SharedRemap, of: str) -> str:
    """Name and identity; a hold of an earlier release has only the name, and may be of any logs that are called so."""
    name = shared.called(of)
    if name != of:
        return f"{name} ({of})"
    return f"{name} (by an earlier release: once all captures of that name run this one, --release it)"


def _release(log: RemapLog, shared: SharedRemap, given: str) -> None:
    """Let go what holds the remap under this identity; or under this name, if only one does."""
    found = [given] if given in shared.holds else [of for of in shared.holds if shared.called(of) == given]
    if len(found) != 1:
        there = ", ".join(_shown(shared, of) for of in sorted(found or shared.holds)) or "none"
        what = "several logs hold" if found else "no logs hold"
        raise UsageError(f"--release {given}: {what} the remap under this name; there are {there}. Give the identity")
    minted(log, agree(shared, lambda: shared.propose_hold(found[0], None)))
