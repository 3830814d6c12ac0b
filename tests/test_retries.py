"""Every error has an answer to "does it help to start it again?", and the answers are what supervisors rely on."""

from __future__ import annotations

import inspect

import pytest

from cdcv2 import errors
from cdcv2.exits import MEANINGS, Exit, exit_of
from cdcv2.materialize.protocol.messages import ConflictError
from cdcv2.retries import LASTING_STOP, OF_EXITS, RETRIES, Retry, retry_rule


def every_error() -> set[type[errors.Cdcv2Error]]:
    """The classes of cdcv2/errors.py."""
    there = (value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == "cdcv2.errors")
    return {kind for kind in there if issubclass(kind, BaseException)}


def test_every_class_of_error_has_an_answer_of_its_own() -> None:
    """A new error must be thought through: with its parent's answer a supervisor might try for ever, or never."""
    assert set() == every_error() - RETRIES.keys()


def test_every_exit_code_has_an_answer_and_all_but_done_have_a_reason() -> None:
    """A judgement (verify, compare) ends without an error, and is started again by the same rule."""
    assert set(Exit) == set(MEANINGS) == OF_EXITS.keys()
    assert [Exit.DONE] == [code for code, rule in OF_EXITS.items() if rule is None]
    rules = [*RETRIES.values(), LASTING_STOP, *(rule for rule in OF_EXITS.values() if rule is not None)]
    assert [] == [rule for rule in rules if not rule.why]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.UnavailableError("Kafka does not answer"), Retry.MENDED),
        (errors.ForgottenError("compacted away"), Retry.NOW),
        (errors.RestoredError("put back"), Retry.NOW),
        (errors.LateTableError("covered by now"), Retry.NOW),
        (errors.SparkEndedError("the Java side of Spark has ended"), Retry.NOW),
        (errors.MissingExtraError("Kafka needs confluent-kafka", "kafka"), Retry.MENDED),
        (errors.ContradictionError("count", 7, 1, 2), Retry.MENDED),
        (errors.OutputError("the disk is full"), Retry.MENDED),
        (errors.FencedError("another has taken over"), Retry.NEVER),
        (errors.UsageError("no such option"), Retry.NEVER),
        (errors.TurnError("driver", "answered twice"), Retry.NEVER),
        (errors.ConversationError("instance", "answered twice"), Retry.NEVER),
        (errors.SourceStop("a second snapshot", "Declare it"), Retry.MENDED),
        (errors.SourceStop("an END is lost", "Begin with new logs", lasting=True), Retry.NEVER),
        (ConflictError("orders", 0, (1,), None), Retry.MENDED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_answers(error: errors.Cdcv2Error, expected: Retry) -> None:
    """Each of those that a supervisor meets, and children of other modules, which have that of the class above."""
    rule = retry_rule(error, exit_of(error))

    assert rule is not None
    assert expected is rule.retry


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (None, Exit.MISSING, Retry.MENDED),
        (None, Exit.WRONG, Retry.MENDED),
        (FileNotFoundError(2, "No such file", "rows"), Exit.UNABLE, Retry.MENDED),
        (BrokenPipeError(), Exit.NOBODY_READS, Retry.MENDED),
        (KeyboardInterrupt(), Exit.INTERRUPTED, Retry.NEVER),
        (KeyError("a mistake"), Exit.BUG, Retry.NEVER),
        # A full disk at a write, which names no file, is no mistake of ours.
        (OSError(28, "No space left on device"), Exit.BUG, Retry.MENDED),
        # Spark's, of which it is not known what it is.
        (RuntimeError("an executor was lost"), Exit.UNABLE, Retry.MENDED),
    ],
)
def test_what_is_no_error_of_ours(error: BaseException | None, code: Exit, expected: Retry) -> None:
    """An end without an error, and those of the system, of Spark, and of a mistake."""
    rule = retry_rule(error, code)

    assert rule is not None
    assert expected is rule.retry


def test_what_is_done_is_not_started_again() -> None:
    """SIGTERM to a job that follows ends with 0, too."""
    assert retry_rule(None, Exit.DONE) is None
