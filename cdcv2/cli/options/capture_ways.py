"""Which option of a capture goes with which way to capture: the same for the command and for the job on Spark.

An option that another way would ignore is refused, so no user relies on what does not happen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from cdcv2.errors import UsageError

#: The ways: by commit times, on a shared remap, and of streams; the latter two are named by the option that chooses.
COMMIT_TIMES, REMAP, STREAM = "commit times", "--remap", "--stream"


class _GoesWith(NamedTuple):
    ways: tuple[str, ...]
    #: Why it does not go with --remap, if it goes without.
    reason: str = ""


_OF_CONNECTORS, _OF_REMAPS, _OF_STREAMS = _GoesWith((COMMIT_TIMES, REMAP)), _GoesWith((REMAP,)), _GoesWith((STREAM,))

#: Option -> what it goes with. Options that are not here go with all.
WAYS = {
    **dict.fromkeys(
        ["--prefix", "--tables", "--snapshot", "--notifications", "--full-identity", "--before", "--empty"],
        _OF_CONNECTORS,
    ),
    "--snapshot-again": _GoesWith((COMMIT_TIMES,), "a second snapshot stops a capture there"),
    **dict.fromkeys(
        ["--remap", "--plain", "--ordering", "--bind-as", "--bind-every", "--bind-idle", "--bind-at-most",
         "--begin-at-first", "--propose-recipe"],
        _OF_REMAPS,
    ),
    **dict.fromkeys(["--time-column", "--diff-column"], _OF_STREAMS),
    "--interval": _GoesWith((COMMIT_TIMES, STREAM), "the least time between two bindings is --bind-every"),
    "--state": _GoesWith((COMMIT_TIMES, STREAM), "on a shared remap the logs are the only memory"),
    "--sole": _GoesWith((COMMIT_TIMES, STREAM), "any number of captures may write the same logs there"),
    "--max-files": _GoesWith((COMMIT_TIMES, STREAM), "a batch is a binding there, of --bind-at-most records"),
}


#: Options about Kafka -> what of a capture has to be there: what it reads, or what it writes (logs, a remap).
KAFKA = {
    **dict.fromkeys(["--bootstrap", "--kafka-config", "--patience"], {"reads", "writes"}),
    "--log-bootstrap": {"writes"},
    "--no-create": {"writes"},
}


def check_kafka(given: Collection[str], *, reads: bool, writes: bool) -> None:
    """Raise UsageError for an option about Kafka among those given of a capture that needs it for nothing.

    ``reads``: its topics are in Kafka; ``writes``: its logs are, or its remap is.

    >>> check_kafka(["--bootstrap", "--remap"], reads=False, writes=True)
    >>> check_kafka(["--log-bootstrap"], reads=True, writes=False)
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --log-bootstrap goes with logs or a remap in Kafka, and these are files here: leave it out
    """
    there = {what for what, is_there in (("reads", reads), ("writes", writes)) if is_there}
    wrong = next((option for option in sorted(given) if option in KAFKA and not there & KAFKA[option]), None)
    if wrong is None:
        return
    where, what = "Kafka", "dumps, logs and remap are files here"
    if reads:
        where, what = "logs or a remap in Kafka", "these are files here"
    raise UsageError(f"{wrong} goes with {where}, and {what}: leave it out")


def check_ways(given: Collection[str]) -> None:
    """Raise UsageError for an option among those given that does not go with what is captured.

    >>> check_ways(["--remap", "--plain", "--bind-as"])
    >>> check_ways(["--bind-as", "--prefix"])
    Traceback (most recent call last):
    cdcv2.errors.UsageError: --bind-as goes with --remap, and without it nothing is bound: give it, or leave that out
    """
    way = next((one for one in (STREAM, REMAP) if one in given), COMMIT_TIMES)
    wrong = next((option for option in sorted(given) if option in WAYS and way not in WAYS[option].ways), None)
    if wrong is None:
        return
    ways, reason = WAYS[wrong]
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
