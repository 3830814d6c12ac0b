"""Every error that this package raises, as one tree: a child for each decision that a caller can take.

::

    Cdcv2Error                  anything below
    ├── MalformedError          a value that can never be right; mend the value (also a ValueError)
    │   └── DecodeError         bytes that are no message of this log; mend or park them
    ├── ContradictionError      the log states two facts about one thing; decide which is right
    ├── IncompleteError         the input ended before everything stated had arrived; fetch the rest
    ├── RefusedError            going on would break a promise; the text names what to do instead
    │   ├── LogFinishedError    the log's history is complete; nothing can be added to it
    │   ├── ResumeError         a writer is fed another history than the one that its log holds
    │   ├── ForeignStateError   the state or output belongs to another log
    │   ├── UnsafeTopicError    a topic that loses, or has lost, statements
    │   ├── StartError          a log has a history before the time at which reading was to begin
    │   ├── FencedError         another instance has taken over what this one was doing; let it
    │   ├── RestoredError       what was committed last is not there: the target was put back; start again
    │   ├── ForgottenError      what was still to be read of a remap is compacted away; resume from the output
    │   ├── LateTableError      the connector covers a table that it did not when its log was opened; start again
    │   └── SourceStop          a source reported a fact that capture cannot carry over the frontier
    ├── TurnError               one side of a materialization spoke out of turn; mend that side
    ├── ViewError               a view would hold a row less than no times, or two rows for one key
    ├── MissingLogError         no such topic or directory
    ├── UnavailableError        a broker, database or program does not answer; start it and retry
    │   └── MissingExtraError   a library is not installed that this needs; install the extra that has it
    ├── OutputError             the output cannot be written
    └── UsageError              wrong arguments or configuration (also a ValueError)

Each one carries its evidence as attributes, and its text names the value, whose fault it is, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdcv2.completeness import through_text


class Cdcv2Error(Exception):
    """The root: catch it to catch everything that this package raises on purpose."""


class MalformedError(Cdcv2Error, ValueError):
    """A value that can never be right, from any sender: the same value fails again; mend it."""


class DecodeError(MalformedError):
    """Bytes that are no message of this log, or not what else was to be read.

    Attributes:
        reason: what is wrong with them.
        position: where they stand (topic, partition and offset, or file and position), or None when unknown.
        raw: the bytes, where they are at hand.
        fault: who may be at fault, where the position is known; None: the log's writer, or the row type.
        what: what they are not, with its article.
    """

    def __init__(
        self,
        reason: str,
        *,
        position: object = None,
        raw: bytes | None = None,
        fault: str | None = None,
        what: str = "a message of this log",
    ) -> None:
        place, whose = ("", "") if position is None else (f" at {position}", f". {fault or _WRITER}")
        super().__init__(f"not {what}{place}: {reason}{whose}")
        self.reason, self.position, self.raw, self.fault, self.what = reason, position, raw, fault, what

    def __reduce__(self) -> tuple[Any, ...]:
        return _decode_error, (self.reason, self.position, self.raw, self.fault, self.what)


_WRITER = (
    "The writer of the log is at fault, or it was damaged since, or the row type is not the log's: "
    "give the right one, or mend the log"
)


def _decode_error(
    reason: str, position: object, raw: bytes | None, fault: str | None, what: str
) -> DecodeError:
    return DecodeError(reason, position=position, raw=raw, fault=fault, what=what)


class ContradictionError(Cdcv2Error):
    """The log states two facts about one thing, so no reader can be right: the same log fails again until
    it is decided which fact is.

    Attributes:
        time: the time that is in dispute.
        what: ``"diff"`` (one identity, two diffs), ``"count"`` (one time, two counts) or ``"surplus"``
            (more distinct updates than were stated).
        data: the data of the identity, for ``"diff"``; else None.
        first, second: the two facts: diffs or counts; for ``"surplus"``, the count and the number received.
        positions: where each of the two was read; None where the source gave no position.
    """

    def __init__(
        self,
        what: str,
        time: object,
        first: object,
        second: object,
        *,
        data: object = None,
        positions: Sequence[object] = (None, None),
    ) -> None:
        if what == "diff":
            text = f"the log gives {data!r} at time {time} the diff {first} and also {second}"
        elif what == "count":
            text = f"the log states {first} updates at time {time} and also {second}"
        else:
            text = f"the log states {first} updates at time {time} but holds {second}"
        where = [str(position) for position in positions if position is not None]
        #: What contradicts what, and where, in a sentence.
        self.fact = f"{text} ({' and '.join(where)})" if where else text
        super().__init__(
            f"{self.fact}: the writer of the log is at fault. Find which fact is right: cdcv2 verify --quarantine DIR "
            "keeps the evidence of all that is in dispute, cdcv2 resolve DIR takes a decision, and readers with "
            "--quarantine DIR apply it (of a pipeline's file: views and replays with quarantine: DIR; in Python: "
            "on_error='quarantine' and resolve())"
        )
        self.what, self.time, self.data = what, time, data
        self.first, self.second, self.positions = first, second, tuple(positions)

    def __reduce__(self) -> tuple[Any, ...]:
        return _contradiction, (self.what, self.time, self.first, self.second, self.data, self.positions)


def _contradiction(
    what: str, time: object, first: object, second: object, data: object, positions: Sequence[object]
) -> ContradictionError:
    return ContradictionError(what, time, first, second, data=data, positions=positions)


class IncompleteError(Cdcv2Error):
    """The input ended before everything that was stated had arrived.

    Attributes:
        missing: what is missing, as data (see ``protocol.Missing``).
        what: what is incomplete, as a sentence; empty where ``missing`` states it.
    """

    def __init__(self, missing: object, *, what: str = "the log is incomplete") -> None:
        super().__init__(f"{what}: {missing}" if what else str(missing))
        self.missing, self.what = missing, what

    def __reduce__(self) -> tuple[Any, ...]:
        return _incomplete, (self.missing, self.what)


def _incomplete(missing: object, what: str) -> IncompleteError:
    return IncompleteError(missing, what=what)


class RefusedError(Cdcv2Error):
    """Going on would break a promise; the text names it, and what to do instead."""


class LogFinishedError(RefusedError):
    """The log's history is complete (its empty frontier is stated): nothing can be added to it."""


class ResumeError(RefusedError):
    """A writer is fed another history than the one that its log already holds."""


class ForeignStateError(RefusedError):
    """The state directory, output or positions belong to another log, row type or set of tables."""


class DamagedRecordError(RefusedError):
    """A record of a shared remap cannot be read: who passed over it would bind other times than the others do.

    Attributes:
        reason: what is wrong with it.
        position: where it stands: file, or topic and offset.
        raw: its bytes.
    """

    def __init__(self, reason: str, position: object, raw: bytes) -> None:
        super().__init__(
            f"{position} is no record of a shared remap, or was damaged: {reason}. Restore it; or name the remap's own "
            "directory or topic, if this is another"
        )
        self.reason, self.position, self.raw = reason, position, raw

    def __reduce__(self) -> tuple[Any, ...]:
        return DamagedRecordError, (self.reason, self.position, self.raw)


class UnsafeTopicError(RefusedError):
    """A topic that may lose statements (compaction, limited retention), or that has lost some."""


class StartError(RefusedError):
    """A log has updates before the declared start of its history: a reader would leave them out.

    Attributes:
        time: the time of such an update.
        number: how many updates are known there.
        begins: the declared start of the history, a frontier.
        position: where that was read, or None.
    """

    def __init__(self, time: object, number: int, begins: object, *, position: object = None) -> None:
        where = "" if position is None else f" ({position})"
        super().__init__(
            f"the log has {number} update{'s' if number > 1 else ''} at time {time}{where}, and reading was to begin "
            f"at {begins}: what came before would be left out. Leave the start out, or give the time at which the log "
            "begins; in Python, a reader that has what came before is given begins=, where that began"
        )
        self.time, self.number, self.begins, self.position = time, number, begins, position

    def __reduce__(self) -> tuple[Any, ...]:
        return _start_error, (self.time, self.number, self.begins, self.position)


def _start_error(time: object, number: int, begins: object, position: object) -> StartError:
    return StartError(time, number, begins, position=position)


class FencedError(RefusedError):
    """Another instance has taken over what this one was doing, and nothing of this one's can be committed any more.

    Stop; nothing is lost: the other goes on from what was committed last.
    """


class RestoredError(RefusedError):
    """A target, or a recovery log, was put back to an earlier moment while this instance worked.

    Nothing of the transaction was committed. Start again: a new instance goes on from the checkpoint that is there.
    """


class ForgottenError(RefusedError):
    """A remap was compacted past what this reader has come to. What it writes may be past that, too: resume from it."""


class LateTableError(RefusedError):
    """The connector covers a table by now that it did not when its log was opened: start again, and it is read, too."""


class SourceStop(RefusedError):
    """A source reported a fact that capture cannot carry over the frontier; the logs are complete up to there.

    Attributes:
        reason: the fact.
        remedy: what to do.
        frontier: the logs are complete through every time not beyond it; None when nothing was released.
        lasting: whether the logs are stated beyond its cause, so that no input can mend them: it is kept in them.
    """

    def __init__(self, reason: str, remedy: str, frontier: object = None, lasting: bool = False) -> None:
        super().__init__(f"{reason}{_how_far(frontier, 'stated' if lasting else 'complete')}. {remedy}")
        self.reason, self.remedy, self.frontier, self.lasting = reason, remedy, frontier, lasting

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceStop, (self.reason, self.remedy, self.frontier, self.lasting)


def _how_far(frontier: Any, word: str) -> str:
    """Behind the reason of a stop: how far the logs are. A number is a frontier, too."""
    if frontier is None:
        return ""
    text = through_text([frontier] if isinstance(frontier, int) else frontier, word=word)
    return f"; the logs are {text}" if text.startswith(word) else f"; {text}"


class TurnError(Cdcv2Error):
    """One side of a materialization sent a message out of turn. Its program is at fault; retrying cannot help.

    Attributes:
        side: whose fault it is, ``"runtime"`` or ``"driver"``.
        reason: what was wrong with it.
    """

    def __init__(self, side: str, reason: str) -> None:
        super().__init__(f"the {side} {reason}: mend the {side} (docs/writing-a-driver.md#whose-turn-it-is)")
        self.side, self.reason = side, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return TurnError, (self.side, self.reason)


class ConversationError(Cdcv2Error):
    """A controller or an instance sent what it must not. Its program is at fault; retrying cannot help.

    Attributes:
        side: whose fault it is, ``"controller"`` or ``"instance"``.
        reason: what was wrong with it.
    """

    def __init__(self, side: str, reason: str) -> None:
        super().__init__(f"the {side} {reason}: mend the {side}")
        self.side, self.reason = side, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return ConversationError, (self.side, self.reason)


class ViewError(Cdcv2Error):
    """A view would hold a row less than no times, or two current rows for one key.

    Attributes:
        target: the table of the view.
        key: the key in it.
        reason: what would be there.
        rows: the evidence, behind what to do, as it may be long; or nothing.
    """

    def __init__(self, target: str, key: object, reason: str, rows: str = "") -> None:
        super().__init__(
            f"{target}, key {key!r}: {reason}. If the table was changed by hand, or a trigger or another program "
            "writes into it, end that and run cdcv2 repair. If cdcv2 as-of finds it in the log, too, the log lacks "
            "rows from before it begins (cdcv2 verify shows it: take a new snapshot), or ALTER TABLE ... TYPE has "
            "changed rows (docs/operations/columns.md). Else its key columns are no key of the log's rows: name more "
            "of them, or none for a multiset"
            f"{rows and f'. The rows: {rows}'}"
        )
        self.target, self.key, self.reason, self.rows = target, key, reason, rows

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewError, (self.target, self.key, self.reason, self.rows)


class MissingLogError(Cdcv2Error):
    """No such topic or log directory: the name is wrong, or it has not been made yet."""


class UnavailableError(Cdcv2Error):
    """A broker, database or program does not answer, or is not there. Start it and try again.

    Attributes:
        forbidden: whether it answered, and does not let us: the right is missing.
    """

    forbidden = False


class SparkEndedError(UnavailableError):
    """The Java side of a job on Spark has ended, and the job with it. A new start resumes where the job was."""


class MissingExtraError(UnavailableError):
    """A library is not installed that this needs, and the base install has not.

    Attributes:
        need: what needs which library.
        extra: the extra, or several with commas, that installs it.
    """

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need}: pip install '.[{extra}]' in the checkout of cdcv2")
        self.need, self.extra = need, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingExtraError, (self.need, self.extra)


class OutputError(Cdcv2Error):
    """The output cannot be written: a full disk, missing rights, a file in the way."""


class UsageError(Cdcv2Error, ValueError):
    """Wrong arguments or configuration; the text names the argument and what it takes."""
