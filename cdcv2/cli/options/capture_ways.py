"""What is refused of options that were given together: the same for the command and for the job on Spark.

An option that another way to capture would ignore is refused, so no user relies on what does not happen. Which option
goes with which way is stated with the option, in :mod:`~cdcv2.cli.options.capture_options`.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection

from cdcv2.capture.connector import FROM_STATE
from cdcv2.cli.options.capture_options import COMMIT_TIMES, DUMPS, OPTIONS, READS, REMAP, STREAM, WRITES
from cdcv2.cli.options.log_words import refuse_ignored
from cdcv2.connectors.kinds import database_kind
from cdcv2.errors import UsageError

_BY_NAME = {option.name: option for option in OPTIONS}


def check_together(given: Collection[str], args: argparse.Namespace) -> None:
    """Raise UsageError unless the options that were ``given`` go together, and with the arguments."""
    check_ways(given)
    _check_before(given, args.before)
    refused = database_kind(args.connector).refused
    wrong = next((name for name in sorted(given) if name in refused), None)
    if wrong is not None:
        raise UsageError(f"{wrong} does not go with --connector {args.connector}: {refused[wrong]}. Leave it out")
    written = [place for place in (args.into, args.remap) if place is not None]
    # Without a source it is Kafka, or an error of its own.
    reads = not args.source or "kafka" in args.source
    check_places(given, reads=reads, writes=any(place.is_topic for place in written))


def check_places(given: Collection[str], *, reads: bool, writes: bool) -> None:
    """Raise UsageError if an option about Kafka, or about dumps, is given to a capture that has none for it.

    ``reads``: its topics are in Kafka; ``writes``: its logs are, or its remap is.

    >>> check_places(["--bootstrap", "--remap"], reads=False, writes=True)
    >>> check_places(["--log-bootstrap"], reads=True, writes=False)
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --log-bootstrap goes with logs or a remap in Kafka, and these are files here: leave it out
    """
    there = {READS if reads else DUMPS, *([WRITES] if writes else [])}
    idle = {name: option.places for name, option in _BY_NAME.items() if option.places and not there & option.places}
    dumps = [name for name, places in idle.items() if DUMPS in places]
    refuse_ignored(given, dumps, "dumps", "the topics are in Kafka here")
    where, what = "Kafka", "dumps, logs and remap are files here"
    if reads:
        where, what = "logs or a remap in Kafka", "these are files here"
    refuse_ignored(given, idle, where, what)


def _check_before(given: Collection[str], before: str) -> None:
    """Raise UsageError unless all options that were given go with where before-images come from."""
    named = (name for name in sorted(given) if name in _BY_NAME and _BY_NAME[name].from_state)
    wrong = next(named, None) if before == FROM_STATE else None
    if wrong is not None:
        raise UsageError(
            f"{wrong} does not go with --before {FROM_STATE}: {_BY_NAME[wrong].from_state}. Leave out {wrong}, or "
            "--before"
        )


def check_ways(given: Collection[str]) -> None:
    """Raise UsageError unless all options that are given go with what is captured.

    >>> check_ways(["--remap", "--plain", "--bind-as"])
    >>> check_ways(["--bind-as", "--prefix"])
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --bind-as goes with --remap, and without it nothing is bound: give it, or leave that out
    """
    way = next((one for one in (STREAM, REMAP) if one in given), COMMIT_TIMES)
    wrong = next((name for name in sorted(given) if name in _BY_NAME and way not in _BY_NAME[name].ways), None)
    if wrong is None:
        return
    ways, reason = _BY_NAME[wrong].ways, _BY_NAME[wrong].reason
    if way == STREAM:
        raise UsageError(
            f"{wrong} does not go with --stream, whose records have times of their own: run two captures, each with "
            "logs of its own"
        )
    if way == REMAP and reason:
        raise UsageError(f"{wrong} does not go with --remap: {reason}. Leave out {wrong}, or --remap")
    what = "its records have no times" if wrong == "--plain" else "nothing is bound"
    what = "no record has such a column" if ways == (STREAM,) else what
    raise UsageError(f"{wrong} goes with {ways[0]}, and without it {what}: give it, or leave that out")
