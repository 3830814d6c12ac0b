"""What a driver receives when it opens, and what becomes of the state that it hands over at each moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import FencedError
from cdcv2.materialize import Checkpoint, Driver, InlineConnection, MemoryRecoveryLog, Range, Runtime
from cdcv2.materialize.protocol.fence import LAST, Piece
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Flush, Flushed, Load, Loaded, Open, Opened, Patch, Response, StartCommit, StartedCommit,
    Store,
)
from cdcv2.materialize.commit_sequence import AFTER_PREPARE, BEFORE_COMMIT
from tests import toys
from tests.materialize.test_runtime import IN_THE_END, THREE, TOTALS, fed

START = Antichain([0])


class Agreeing(toys.Toy):
    """Hands over state whenever it may, under the name of the moment; ``rules``: what it opens with."""

    def __init__(self, rows: toys.Rows, opened: Opened = Opened()) -> None:
        super().__init__(rows)
        self.prepared: list[Open] = []
        self.opened: list[Open] = []
        self._rules, self._at = opened, 0

    def _patch(self, moment: str) -> Patch:
        self._at += 1
        return Patch({moment: self._at})

    def prepare(self, message: Open) -> Patch | None:
        """Twice, in two steps."""
        self.prepared.append(message)
        agreed = (message.state or {}).get("agreed", 0)
        # Without a recovery log nothing of it comes back.
        return Patch({"agreed": agreed + 1}) if agreed < 2 and len(self.prepared) < 3 else None

    def open(self, message: Open) -> Opened:
        """As the test ordered."""
        self.opened.append(message)
        super().open(message)
        return self._rules

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """With state."""
        return [Flushed(self._patch("flushed"))]

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """With state."""
        super().start_commit(message)
        return StartedCommit(self._patch("started"))

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """With state."""
        return Acknowledged(self._patch("acknowledged"))


def run(driver: Agreeing, log: MemoryRecoveryLog | None, cuts: int = 3, range: Range = Range()) -> Runtime:
    """To the end of these cuts, a transaction each."""
    made = Runtime("m", [TOTALS], driver, fed(THREE[:cuts]), log=log, rows=1, range=range)
    made.run()
    return made


def test_a_driver_is_told_all_that_the_recovery_log_has() -> None:
    """Name, tables, share and start; its state, its pieces and what was begun; what it agreed to is in it already."""
    log, rows = MemoryRecoveryLog("m"), toys.Rows()
    first = Agreeing(rows)
    with failpoints.placed(BEFORE_COMMIT), pytest.raises(failpoints.PlacedCrash):
        run(first, log)
    tables = (TOTALS.view().table,)
    assert [None, {"agreed": 1}, {"agreed": 2}] == [one.state or None for one in first.prepared]
    whole = (Piece(Range(), START),)
    assert [Open("m", tables, Range(), {"agreed": 2}, START, whole)] == first.opened

    # A store that wants a transaction repeated as it was, and half of the keys.
    half = Range(0, LAST // 2)
    second = Agreeing(rows, Opened(repeats=True))
    with failpoints.placed(AFTER_PREPARE), pytest.raises(failpoints.PlacedCrash):
        run(second, log, range=half)
    third = Agreeing(rows, Opened(repeats=True))
    run(third, log, range=half)
    ((told,), (begun,)) = (second.opened, third.opened)
    assert (half, (Piece(half, START),), None) == (told.range, told.pieces, told.extent)
    assert Antichain([9]) == begun.extent
    assert {"flushed": 2}.items() <= dict(begun.state or {}).items()


RULES = {"log": Opened(), "store": Opened(Checkpoint(START)), "repeats": Opened(repeats=True)}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_what_a_driver_hands_over_is_kept_at_each_moment(rules: Opened) -> None:
    """Whether the log rules, or the store and the log keeps the state only; the last of each is what is there."""
    log = MemoryRecoveryLog("m")
    run(Agreeing(toys.Rows(), rules), log)
    state = log.open(Range(), START).recovered.state

    # Acknowledged, flushed, started; three transactions; and agreed before.
    assert {"agreed": 2, "flushed": 8, "started": 9, "acknowledged": 10} == state


@pytest.mark.parametrize(("cuts", "frontier"), [(1, [3]), (3, [9])])
def test_the_checkpoint_of_a_log_beside_a_store_that_rules_stays_where_it_was(cuts: int, frontier: list[int]) -> None:
    """Whose it is not; the runtime's is that of the store."""
    log = MemoryRecoveryLog("m")
    made = run(Agreeing(toys.Rows(), Opened(Checkpoint(START))), log, cuts)

    assert Antichain(frontier) == made.checkpoint.frontier
    assert START == log.open(Range(), START).recovered.checkpoint.frontier


def test_a_runtime_goes_on_from_the_least_of_the_pieces_that_a_store_names() -> None:
    """Its own checkpoint is not of all of them, and the reader's state in it is of none; the views are."""
    half, rest = Range(0, 9), Range(10, LAST)
    views = run(Agreeing(toys.Rows()), MemoryRecoveryLog("m"), 1).checkpoint.views
    pieces = (Piece(half, Antichain([4])), Piece(rest, Antichain([3])))
    seen: list[Checkpoint] = []

    def source(checkpoint: Checkpoint) -> Any:
        seen.append(checkpoint)
        return iter(THREE)

    for told, wanted in ((pieces, None), ((), "state"), ((Piece(Range(), Antichain([4])),), "state")):
        store = Opened(Checkpoint(Antichain([4]), "state", views), told)
        Runtime("m", [TOTALS], Agreeing(toys.Rows(), store), source, rows=1).run()
        assert (Antichain([3] if wanted is None else [4]), wanted) == (seen[-1].frontier, seen[-1].state)
        assert views == seen[-1].views is not None


def test_before_it_is_opened_a_runtime_is_at_its_start() -> None:
    """A caller that asks it how far it is gets the truth."""
    driver = Agreeing(toys.Rows())
    made = Runtime("m", [TOTALS], driver, fed([]), log=MemoryRecoveryLog("m"), start=[7])

    assert Checkpoint(Antichain([7])) == made.checkpoint
    made.run()
    assert Antichain([7]) == driver.opened[0].start


def test_who_stops_between_two_transactions_settles_and_asks_who_has_taken_over() -> None:
    """What is committed is in the store then; another instance is noticed without a transaction."""
    log, rows = MemoryRecoveryLog("m"), toys.Rows()
    made = Runtime("m", [TOTALS], Agreeing(rows), fed(THREE), log=log, rows=1)
    for step in made.steps():
        if made.transactions == 2 and step is not Acknowledge:
            break
    made.settle()
    made.demand()
    assert {"acknowledged": 7}.items() <= dict(log.open(Range(), START).recovered.state).items()
    with pytest.raises(FencedError):
        made.demand()
    Runtime("m", [TOTALS], Agreeing(rows), fed(THREE)).demand()


def test_a_runtime_gives_out_each_message_of_either_side() -> None:
    """Before it is sent, or recorded: so one that schedules several can stop it there."""
    made = Runtime("m", [TOTALS], toys.Authoritative(toys.Database()), fed(THREE[:2]), rows=1)
    stored = [Store, StartCommit, StartedCommit, Acknowledge]

    assert [
        Open, Opened, Acknowledge, Load, Load, Acknowledged, Flush, Flushed, Store, *stored,
        Load, Acknowledged, Loaded, Flush, Flushed, *stored, Acknowledged,
    ] == list(made.steps())  # fmt: skip


class Late(InlineConnection):
    """Gives an answer at each time of asking that the number divides, and none in between."""

    def __init__(self, driver: Driver, every: int) -> None:
        super().__init__(driver)
        self._every, self._asked = every, 0

    def poll(self) -> Response | None:
        """Not yet, mostly."""
        self._asked += 1
        return super().poll() if self._asked % self._every == 0 else None


@pytest.mark.parametrize("every", range(1, 6))
def test_an_answer_counts_whenever_it_comes(every: int) -> None:
    """Also while the source of a transaction that is repeated has nothing: what was loaded is not forgotten."""
    log, rows, repeats = MemoryRecoveryLog("m"), toys.Rows(), Opened(repeats=True)
    run(Agreeing(rows, repeats), log, 1)
    with failpoints.placed(AFTER_PREPARE), pytest.raises(failpoints.PlacedCrash):
        Runtime("m", [TOTALS], Agreeing(rows, repeats), fed(THREE), log=log).run()
    pausing = fed([THREE[0], *(one for cut in THREE[1:] for one in (cut, *[None] * 5))])
    Runtime("m", [TOTALS], Late(Agreeing(rows, repeats), every), pausing, log=log).run()

    assert {"totals": IN_THE_END} == rows
