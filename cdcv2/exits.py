"""What an exit code means: the same for the command and for the streaming jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from cdcv2.errors import Cdcv2Error, ContradictionError, IncompleteError, MalformedError, MissingLogError, UsageError


class Exit(IntEnum):
    """What the exit code means; the same for every sub-command, and for the jobs."""

    DONE = 0
    MISSING = 1
    USAGE = 2
    WRONG = 3
    UNABLE = 4
    BUG = 70
    INTERRUPTED = 130
    NOBODY_READS = 141


#: Exit code -> what it means, of whatever program.
MEANINGS = {
    Exit.DONE: "done: nothing that was stated is missing or in dispute; capture and materialize: also after SIGTERM",
    Exit.MISSING: "not complete, and what is missing: in a log, in the topics, or in the logs of a target",
    Exit.USAGE: "wrong usage: an argument, a file of settings, the name of a log",
    Exit.WRONG: "wrong, with the evidence: a log is contradictory or malformed, its capture stopped permanently, "
                "source or target have other rows, or a record is no row (capture)",
    Exit.UNABLE: "not possible here or now: a server is down, an output cannot be written, or to continue would break "
                 "a promise; the message states what to do",
    Exit.BUG: "a mistake in cdcv2 itself, with a traceback",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
    Exit.NOBODY_READS: "the program that read the output has ended",
}


def meanings_of(own: Mapping[Exit, str]) -> dict[Exit, str]:
    """Exit code -> what it means, of one program: ``own``, and what every program may end with.

    >>> " ".join(one.name for one in meanings_of({Exit.MISSING: "a line is missing"}))
    'DONE MISSING USAGE UNABLE BUG INTERRUPTED NOBODY_READS'
    """
    everywhere = {
        Exit.DONE: "done",
        Exit.UNABLE: "not possible here or now, as where a server is down: the message states what to do",
        **{code: MEANINGS[code] for code in (Exit.USAGE, Exit.BUG, Exit.INTERRUPTED, Exit.NOBODY_READS)},
    }
    return {code: text for code, text in sorted({**everywhere, **own}.items())}


def exit_of(error: Cdcv2Error) -> Exit:
    """The exit code that an error deserves.

    >>> exit_of(UsageError("no such option")).name, exit_of(MalformedError("no time")).name
    ('USAGE', 'WRONG')
    """
    if isinstance(error, (UsageError, MissingLogError)):
        return Exit.USAGE
    if isinstance(error, (ContradictionError, MalformedError)):
        return Exit.WRONG
    return Exit.MISSING if isinstance(error, IncompleteError) else Exit.UNABLE
