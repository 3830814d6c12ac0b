"""A repair takes a target over, applies what was committed, and writes at the checkpoint that it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import FencedError, UsageError
from cdcv2.materialize import Checkpoint, MemoryRecoveryLog, Patch, Range
from cdcv2.materialize.protocol.messages import Acknowledge, Acknowledged, Field, Open, Opened, Table
from cdcv2.materialize.repair import RepairableDriver, TableRepair, TargetRepair
from tests import toys

TABLES = (Table("t", (Field("id", "int"),), ()),)
START, REPAIRS = Antichain([0]), [TableRepair(0, {(1,): ()}, {(1,): ()})]


class Damaged(toys.Toy, RepairableDriver):
    """Notes what is asked of it. ``own``: the checkpoint that its store keeps."""

    def __init__(self, own: Checkpoint | None = None, state: Patch | None = None) -> None:
        super().__init__({})
        self.own, self.state = own, state
        self.asked: list[Any] = []
        self.demand: Callable[[], None]

    def open_damaged(self, message: Open) -> Opened:
        """Note it."""
        self.asked.append(message)
        return Opened(self.own)

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Note it."""
        self.asked.append(message)
        return Acknowledged(self.state)

    def repair(self, tables: Sequence[TableRepair], checkpoint: Checkpoint, demand: Callable[[], None]) -> None:
        """Note it, and ask whether another has taken over."""
        demand()
        self.asked.append((tables, checkpoint))

    def close(self) -> None:
        """Note it."""
        self.asked.append("close")


def interrupted() -> tuple[MemoryRecoveryLog, Checkpoint]:
    """A log with a checkpoint, a state, and a transaction that has begun."""
    log, checkpoint = MemoryRecoveryLog("m"), Checkpoint(Antichain([5]), "reader")
    claim = log.open(Range(), START)
    claim.commit(checkpoint, Patch({"staged": "x"}))
    claim.prepare(Antichain([9]), None)
    return log, checkpoint


def test_it_is_opened_as_the_log_has_it_and_stays_there() -> None:
    """State, pieces and extent go to the driver; what it has applied goes to the state, and nothing else changes."""
    log, checkpoint = interrupted()
    found = log.open(Range(), START).recovered
    driver = Damaged(state=Patch({"staged": None, "applied": 1}))
    repair = TargetRepair("m", TABLES, driver, log, START)
    repair.demand_at(Antichain([5]))
    repair.write(REPAIRS)
    repair.close()

    assert checkpoint == repair.checkpoint
    assert [
        Open("m", TABLES, Range(), {"staged": "x"}, START, found.pieces, Antichain([9])), Acknowledge(),
        (REPAIRS, checkpoint), "close",
    ] == driver.asked  # fmt: skip
    after = log.open(Range(), START).recovered
    assert ({"applied": 1}, checkpoint, Antichain([9])) == (after.state, after.checkpoint, after.extent)


def test_a_store_that_rules_needs_no_log() -> None:
    """Its own checkpoint counts, also where there is a log."""
    own = Checkpoint(Antichain([7]))
    driver = Damaged(own)
    repair = TargetRepair("m", TABLES, driver, None, Antichain([2]))
    repair.write(REPAIRS)

    assert [Open("m", TABLES, start=Antichain([2])), Acknowledge(), (REPAIRS, own)] == driver.asked
    assert own == TargetRepair("m", TABLES, Damaged(own), interrupted()[0], START).checkpoint


def test_a_store_that_does_not_rule_needs_one() -> None:
    """The name of the materialization is in the error."""
    with pytest.raises(UsageError, match="'m' leaves the checkpoint to the recovery log"):
        TargetRepair("m", TABLES, Damaged(), None, START)


def test_a_target_that_was_taken_over_is_not_written() -> None:
    """It is seen in the log when it is written, and by the frontier that a reader sees."""
    log, _ = interrupted()
    driver = Damaged()
    repair = TargetRepair("m", TABLES, driver, log, START)
    log.open(Range(), START)
    with pytest.raises(FencedError, match="'m'"):
        repair.write(REPAIRS)
    with pytest.raises(FencedError, match="instance of 'm' was"):
        repair.demand_at(Antichain([6]))

    assert Acknowledge() == driver.asked[-1]
