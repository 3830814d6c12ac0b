"""Whether it helps to start a program again that has ended: one answer for every error, for the programs that start it.

- ``now``: the same start may work the next time, and no person has to do anything.
- ``mended``: it works once something outside of it is mended: a server's settings, a file, a decision, a full disk. To
  try again does no harm, so that it is noticed when it is mended.
- ``never``: the same start ends in the same way, or must not be made, as another process does the work.

How a supervisor uses it: it holds and shows ``never``; it tries ``mended`` again with pauses that grow, and shows it;
it starts ``now`` again at once. A program that was killed states nothing, and is as one that stated ``now``. After five
ends in a row between which the frontier has not moved, a program is held, whatever it stated: the answer was wrong.

The answer is the error's class's (:data:`RETRIES`), of the nearest class above it that has one. Where a program ends
without an error, or with one that is not of this table, it is that of its exit code (:data:`OF_EXITS`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cdcv2 import errors
from cdcv2.exits import Exit


class Retry(StrEnum):
    """Whether it helps to start it again; see the top of this module."""

    NOW = "now"
    MENDED = "mended"
    NEVER = "never"


class RetryRule(NamedTuple):
    """The answer, and why it is this one."""

    retry: Retry
    why: str


_NOW, _MENDED, _NEVER = Retry.NOW, Retry.MENDED, Retry.NEVER

#: Class of an error -> whether it helps to start again what ended with it, and why.
RETRIES: dict[type[BaseException], RetryRule] = {
    errors.Cdcv2Error: RetryRule(_MENDED, "its text names what to mend"),
    errors.MalformedError: RetryRule(_MENDED, "the value has to be mended where it stands"),
    errors.DecodeError: RetryRule(_MENDED, "the bytes have to be mended, or a decision about them taken"),
    errors.ContradictionError: RetryRule(_MENDED, "a person has to decide which of two facts is right"),
    errors.IncompleteError: RetryRule(_MENDED, "what is missing has to be written first"),
    errors.RefusedError: RetryRule(_MENDED, "what would break a promise has to be changed first"),
    errors.LogFinishedError: RetryRule(_NEVER, "the history is complete: there is nothing left to do"),
    errors.ResumeError: RetryRule(_MENDED, "the history that the log holds has to be restored"),
    errors.ForeignStateError: RetryRule(_MENDED, "the state, output or topic that belongs to it has to be restored"),
    errors.DamagedRecordError: RetryRule(_MENDED, "the record has to be restored"),
    errors.UnsafeTopicError: RetryRule(_MENDED, "the topic's settings have to be mended, or its records restored"),
    errors.StartError: RetryRule(_NEVER, "it needs another start of the history, which is an argument"),
    errors.FencedError: RetryRule(_NEVER, "another process has taken over, and a new start would take it back"),
    errors.RestoredError: RetryRule(_NOW, "a new start resumes from the checkpoint that was put back"),
    errors.ForgottenError: RetryRule(_NOW, "a new start resumes from the output, behind what is compacted away"),
    errors.LateTableError: RetryRule(_NOW, "a new start reads the log of that table, too"),
    errors.SourceStop: RetryRule(_MENDED, "the source has to be mended; while it is not, it stops there again"),
    errors.TurnError: RetryRule(_NEVER, "the program of one side is at fault"),
    errors.ConversationError: RetryRule(_NEVER, "the program of one side is at fault"),
    errors.ViewError: RetryRule(_MENDED, "the log or the table has to be mended"),
    errors.MissingLogError: RetryRule(_MENDED, "the topic or directory has to be made"),
    errors.UnavailableError: RetryRule(_MENDED, "the server has to answer again; an outage may be long"),
    errors.SparkEndedError: RetryRule(_NOW, "it was killed, as a program is; a new start resumes where it was"),
    errors.MissingExtraError: RetryRule(_MENDED, "the library has to be installed"),
    errors.OutputError: RetryRule(_MENDED, "room or rights for the output have to be there"),
    errors.UsageError: RetryRule(_NEVER, "the same arguments are wrong every time"),
    # Not ours, and no mistake of ours.
    OSError: RetryRule(_MENDED, "a file or the machine has to be mended"),
    BrokenPipeError: RetryRule(_MENDED, "the program that read the output has ended; it needs another reader"),
    MemoryError: RetryRule(_MENDED, "the machine has to have more memory"),
    KeyboardInterrupt: RetryRule(_NEVER, "a person has ended it"),
}

#: The answer for a stop that is kept in the logs for ever.
LASTING_STOP = RetryRule(_NEVER, "the stop is kept in the logs, and no input can mend them")

#: Exit code -> the answer for an end without an error, or with one that is in no table; None: it has done its work.
OF_EXITS: dict[Exit, RetryRule | None] = {
    Exit.DONE: None,
    Exit.MISSING: RetryRule(_MENDED, "what is missing has to be written first"),
    Exit.USAGE: RetryRule(_NEVER, "the same arguments are wrong every time"),
    Exit.WRONG: RetryRule(_MENDED, "what is wrong has to be mended"),
    Exit.UNABLE: RetryRule(_MENDED, "what is in the way has to be mended"),
    Exit.BUG: RetryRule(_NEVER, "a mistake in cdcv2 itself: the same start ends in the same way"),
    Exit.INTERRUPTED: RetryRule(_NEVER, "a person has ended it"),
    Exit.NOBODY_READS: RetryRule(_MENDED, "the program that read the output has ended; it needs another reader"),
}


def retry_rule(error: BaseException | None, code: Exit) -> RetryRule | None:
    """Whether it helps to start again what ended with this error (None: without one), and with this exit code.

    None: there is nothing to start again, it has done its work.

    >>> retry_rule(errors.UnavailableError("Kafka does not answer"), Exit.UNABLE).retry.value
    'mended'
    >>> retry_rule(KeyError("a mistake"), Exit.BUG).retry.value, retry_rule(None, Exit.DONE)
    ('never', None)
    """
    if isinstance(error, errors.SourceStop) and error.lasting:
        return LASTING_STOP
    kinds = () if error is None else type(error).__mro__
    return next((RETRIES[kind] for kind in kinds if kind in RETRIES), OF_EXITS[code])
