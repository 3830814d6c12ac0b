"""The conformance kit passes the honest toys and catches every planted defect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdcv2.errors import Cdcv2Error, FencedError
from cdcv2.materialize import MemoryRecoveryLog
from cdcv2.materialize.protocol.messages import StartCommit, StartedCommit
from cdcv2.testing import ConformanceError, Scenario, Subject, conform, scenarios
from tests import counting, defects, toys

HONEST: list[type[Subject]] = [
    toys.DatabaseSubject,
    toys.LakeSubject,
    toys.AppendingSubject,
    toys.PushSubject,
    counting.CounterSubject,
    toys.AtLeastOnceSubject,
]
PLAYED = [(subject, scenario) for subject in HONEST for scenario in scenarios(subject)]


@pytest.mark.parametrize(("subject", "scenario"), PLAYED, ids=lambda one: getattr(one, "__name__", str(one)))
def test_each_pattern_comes_through_every_fault(subject: Callable[[], Subject], scenario: Scenario) -> None:
    """A pattern that is right survives a crash, a stall and a zombie wherever they come."""
    conform(subject, scenario)


def with_driver(subject: type[Subject], driver: type[object]) -> type[Subject]:
    """The subject with another driver."""
    return type(driver.__name__, (subject,), {"made": driver})


def with_log(subject: type[toys.LoggedSubject], log: type[MemoryRecoveryLog]) -> type[Subject]:
    """The subject with another recovery log."""

    def begin(self: toys.LoggedSubject) -> None:
        subject.__init__(self)
        self.recovery = log("conformance")

    return type(log.__name__, (subject,), {"__init__": begin})


def caught(subject: type[Subject]) -> set[str]:
    """The names of the scenarios in which something was wrong."""
    found = set()
    for scenario in scenarios(subject):
        try:
            conform(subject, scenario)
        except (ConformanceError, Cdcv2Error):
            found.add(scenario.name)
    return found


@pytest.mark.parametrize(
    ("subject", "defect", "scenario"),
    [
        (toys.AppendingSubject, defects.NonIdempotentAcknowledge, "crash-at-Acknowledged-5"),
        (toys.DatabaseSubject, defects.CommitDuringStore, "crash-at-Store-25"),
        (toys.DatabaseSubject, defects.ForgetState, "again-and-again"),
        (toys.DatabaseSubject, defects.IgnoreKeyRange, "split-during-commit"),
        (toys.DatabaseSubject, defects.SkipFenceCheck, "zombie-at-StartCommit-4"),
        (counting.CounterSubject, defects.DropDocumentCounter, "crash-at-StartedCommit-4"),
        (counting.CounterSubject, defects.ResetCounterOnOpen, "crash-at-StartedCommit-4"),
        (toys.DatabaseSubject, defects.DropDocuments, "baseline"),
        (toys.DatabaseSubject, defects.FloatNumbers, "baseline"),
        (toys.DatabaseSubject, defects.FloatDecimals, "baseline"),
        (toys.DatabaseSubject, defects.NullForNaN, "baseline"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_each_planted_defect_is_caught(subject: type[Subject], defect: type[object], scenario: str) -> None:
    """A kit that passes a wrong driver proves nothing about a right one."""
    assert scenario in caught(with_driver(subject, defect))


@pytest.mark.parametrize("log", [defects.TornPair, defects.TornPairCheckpointFirst])
def test_a_recovery_log_that_tears_its_pair_is_caught(log: type[MemoryRecoveryLog]) -> None:
    """A crash between its two changes repeats a transaction, or loses one; no crash at a message comes between them."""
    found = caught(with_log(toys.AppendingSubject, log))

    assert found and all(name.startswith("crash-after-change-") for name in found)


class Confused(toys.Authoritative):
    """A driver that breaks where another one has taken over, in its own words."""

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """No FencedError."""
        try:
            return super().start_commit(message)
        except FencedError as cause:
            raise KeyError("a row that was there") from cause


def test_a_zombie_may_end_with_any_error() -> None:
    """What counts is that it commits nothing."""
    assert not caught(with_driver(toys.DatabaseSubject, Confused))
