"""A recovery log that is not the one of its folder any more: another one, or one that a backup has brought back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import FencedError, RefusedError
from cdcv2.materialize import Checkpoint, Count, Driver, FileRecoveryLog, Range, Runtime, Sum, ViewBinding
from cdcv2.materialize.distributed import DistributedDriver, DistributedRuntime
from cdcv2.materialize.protocol.fence import LAST
from cdcv2.materialize.protocol.messages import Open
from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType

pytest.importorskip("deltalake")
ENTRY = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "account", "type": "string"}, {"name": "amount", "type": "long"}],
})  # fmt: skip
TOTALS = ViewBinding("entries", ENTRY, "totals", ("account",), {"n": Count(), "total": Sum("amount")})
SAID = r"is at \[{}\], and the recovery log at \[{}\]: it is another log, or an old one"


class Place:
    """A folder and its recovery log."""

    def __init__(self, folder: Path, make: Callable[[Path], DistributedDriver], look: Callable[[Path], Any]) -> None:
        self.folder, self.recovery, self._make, self._look = folder / "lake", folder / "recovery", make, look

    def driver(self) -> DistributedDriver:
        """A new instance."""
        return self._make(self.folder)

    def log(self) -> FileRecoveryLog:
        """The log, opened."""
        return FileRecoveryLog("m", self.recovery)

    def keep(self, first: int, last: int, *, driver: Driver | None = None, share: Range = Range()) -> None:
        """The cuts with these numbers, each a transaction: one coin for each account."""

        def source(checkpoint: Checkpoint) -> Iterator[Cut]:
            for time in range(first, last):
                updates = [(ENTRY.row((name, 1)), time, 1) for name in "abcdefgh"]
                yield Cut({"entries": updates}, Antichain([time]), Antichain([time + 1]))

        Runtime("m", [TOTALS], driver or self.driver(), source, log=self.log(), rows=1, range=share).run()

    def totals(self) -> dict[str, tuple[int, int]]:
        """Account -> how many entries, and their sum."""
        return {key[0]: values for key, values in self._look(self.folder).rows("totals")}

    def demand(self, coins: int) -> None:
        """Each account has so many."""
        assert dict.fromkeys("abcdefgh", (coins, coins)) == self.totals()


@pytest.fixture(params=[(LakeDriver, open_lake), (DeltaDriver, open_delta)], ids=["lake", "delta"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Either, with two transactions."""
    made = Place(tmp_path, *request.param)
    made.keep(0, 2)
    return made


def test_one_from_a_backup_is_refused_until_the_right_one_is_back(place: Place, tmp_path: Path) -> None:
    """By either runtime; nothing is stored, and with the right log it goes on as if nothing had been."""
    shutil.copytree(place.recovery, tmp_path / "backup")
    place.keep(2, 4)
    shutil.move(place.recovery, tmp_path / "right")
    shutil.copytree(tmp_path / "backup", place.recovery)

    with pytest.raises(RefusedError, match=SAID.format(4, 2)):
        place.keep(2, 5)
    with pytest.raises(RefusedError, match=SAID.format(4, 2)):
        DistributedRuntime("m", [TOTALS], place.driver(), log=place.log()).open()
    place.demand(4)

    shutil.rmtree(place.recovery)
    shutil.move(tmp_path / "right", place.recovery)
    place.keep(4, 5)
    place.demand(5)


def test_a_lost_one_is_refused(place: Place) -> None:
    """A view that has something, and a log that has nothing."""
    shutil.rmtree(place.recovery)

    with pytest.raises(RefusedError, match=SAID.format(2, 0)):
        place.keep(0, 3)
    place.demand(2)


def test_one_that_is_older_than_a_transaction_that_is_being_applied(tmp_path: Path) -> None:
    """Delta tables have it in part, and only a process that knows of it can finish it."""
    place = Place(tmp_path, DeltaDriver, open_delta)
    place.keep(0, 2)
    shutil.copytree(place.recovery, tmp_path / "backup")
    with failpoints.placed("delta.begun"), pytest.raises(failpoints.PlacedCrash):
        place.keep(2, 3)
    shutil.move(place.recovery, tmp_path / "right")
    shutil.copytree(tmp_path / "backup", place.recovery)

    with pytest.raises(RefusedError, match=SAID.format(3, 2)):
        place.keep(2, 3)
    shutil.rmtree(place.recovery)
    shutil.move(tmp_path / "right", place.recovery)
    place.keep(3, 4)
    place.demand(4)


def test_ranges_that_are_split_and_joined_again_are_not_taken_for_old(place: Place) -> None:
    """Each has its own frontier, in the folder as in the log; and an old log is noticed in the part where it is old."""
    left, right = Range(0, LAST // 2), Range(LAST // 2 + 1, LAST)
    place.keep(2, 4, share=left)
    place.keep(2, 3, share=right)
    old = place.recovery.with_name("old")
    shutil.copytree(place.recovery, old)
    place.keep(3, 5)
    place.demand(5)
    shutil.rmtree(place.recovery)
    shutil.move(old, place.recovery)

    with pytest.raises(RefusedError, match=SAID.format(5, 4)):
        place.keep(4, 6, share=left)
    with pytest.raises(RefusedError, match=SAID.format(5, 3)):
        place.keep(3, 6, share=right)


def overtaken(place: Place) -> DistributedDriver:
    """A driver; another instance commits before it has looked at the folder."""

    class Overtaken(type(place.driver())):  # type: ignore[misc]
        """Asleep between the recovery log and the folder."""

        def open(self, message: Open) -> Any:
            place.keep(2, 3)
            return super().open(message)

    made: DistributedDriver = Overtaken(place.folder)
    return made


def test_whoever_was_overtaken_while_it_opened_was_fenced_off(place: Place) -> None:
    """It has read the recovery log, and then another one goes on: its log is not old, it is a zombie."""
    with pytest.raises(FencedError):
        place.keep(2, 4, driver=overtaken(place))
    place.demand(3)


def test_a_runtime_on_executors_that_was_overtaken_was_fenced_off_too(place: Place) -> None:
    """The same."""
    with pytest.raises(FencedError):
        DistributedRuntime("m", [TOTALS], overtaken(place), log=place.log()).open()
    place.demand(3)
