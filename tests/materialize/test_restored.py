"""A target, or a recovery log, that is put back to an earlier moment while its view runs: nothing is lost by it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import FencedError, RefusedError, RestoredError
from cdcv2.materialize import FileRecoveryLog, Runtime, SqliteRecoveryLog
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.intake import Cut
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.history_output import HistoryFolder
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.messages import Update
from cdcv2.rows.row_type import RowType
from cdcv2.views.binding import ViewBinding

ENTRY = RowType({"type": "record", "name": "entry", "fields": [{"name": "id", "type": "string"}]})
BINDING = ViewBinding("entries", ENTRY, "entries", ("id",))
LAST = 6


def keep(driver: Driver, log: RecoveryLog | None, before: Callable[[int], None]) -> None:
    """The view to its end, a transaction for each row; ``before`` is called before each row, with its number."""

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time in range(LAST):
            before(time)
            yield Cut({"entries": [(ENTRY.row([f"row {time}"]), time, 1)]}, Antichain([time]), Antichain([time + 1]))

    Runtime("m", [BINDING], driver, source, log=log, rows=1).run()


def nothing(time: int) -> None:
    """Between two rows."""


EXPECTED = [f"row {time}" for time in range(LAST)]


@pytest.mark.integration
@pytest.mark.parametrize("fence", ["fence", "fence - 1"], ids=["of this run", "of an earlier run"])
def test_a_database_that_is_put_back_under_its_view_gets_again_what_it_lacks(
    connect: Callable[[], Any], fence: str
) -> None:
    """The view ends with an error that a start mends; it went on behind the rows that were missing."""

    def put_back(time: int) -> None:
        with connect() as session:
            if time == 2:
                session.execute("CREATE TABLE rows AS TABLE entries")
                session.execute(f"CREATE TABLE kept AS SELECT materialization, key_begin, key_end, {fence}, "
                                "checkpoint FROM cdcv2_checkpoints")  # fmt: skip
            if time == 4:
                session.execute("DELETE FROM entries; INSERT INTO entries TABLE rows")
                session.execute("DELETE FROM cdcv2_checkpoints; INSERT INTO cdcv2_checkpoints TABLE kept")

    with pytest.raises(RestoredError, match="'m' was put back to another moment .*cdcv2 up does"):
        keep(PostgresDriver(connect=connect), None, put_back)
    keep(PostgresDriver(connect=connect), None, nothing)
    with connect() as session:
        assert EXPECTED == [one for (one,) in session.execute("SELECT id FROM entries ORDER BY id").fetchall()]


@pytest.mark.parametrize("parts", [("lake", "log"), ("lake",), ("log",)], ids=" and ".join)
def test_a_lake_that_is_put_back_under_its_view_is_noticed(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """Both of one moment: a start goes on from there. One alone: a start states what is to be restored."""

    def put_back(time: int) -> None:
        for part in parts:
            if time == 2:
                shutil.copytree(tmp_path / part, tmp_path / "kept" / part)
            if time == 4:
                shutil.rmtree(tmp_path / part)
                shutil.copytree(tmp_path / "kept" / part, tmp_path / part)

    def go_on(before: Callable[[int], None]) -> None:
        keep(LakeDriver(tmp_path / "lake"), FileRecoveryLog("m", tmp_path / "log"), before)

    with pytest.raises(RestoredError):
        go_on(put_back)
    if len(parts) == 2:
        go_on(nothing)

        assert EXPECTED == sorted(key[0] for key, _ in open_lake(tmp_path / "lake").rows("entries"))
    else:
        with pytest.raises(RefusedError, match="has lost commits|it is another log, or an old one"):
            go_on(nothing)


def test_a_recovery_log_in_sqlite_that_is_put_back_is_noticed(tmp_path: Path) -> None:
    """By the value that the instance left; and an instance that was overtaken still gets that error."""
    log = SqliteRecoveryLog("m", tmp_path / "log.sqlite")
    claim = log.open(Range(), Antichain([0]))
    kept = log.holdings()
    claim.commit(Checkpoint(Antichain([1])), None)
    claim.commit(Checkpoint(Antichain([2])), None)
    log.change(lambda _: (kept, None))
    with pytest.raises(RestoredError):
        claim.demand()
    claim = log.open(Range(), Antichain([0]))
    log.open(Range(), Antichain([0]))
    with pytest.raises(FencedError):
        claim.demand()
    log.close()


def test_a_lake_of_histories_that_is_put_back_is_not_written_behind_a_gap(tmp_path: Path) -> None:
    """A manifest that builds on one that is not there could be read by no one; a start goes on from what is there."""
    kind = RowType({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
    lake, backup = tmp_path / "lake", tmp_path / "backup"

    def opened() -> HistoryFolder:
        return HistoryFolder(lake, {"t": kind}, Antichain([0]))

    def take(output: HistoryFolder, time: int) -> dict[str, int]:
        return output.apply({"t": [Update((kind.row([time]), time, 1))]}, Antichain([time]), Antichain([time + 1]))

    output = opened()
    for time in range(3):
        take(output, time)
    shutil.copytree(lake, backup)
    take(output, 3)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    with pytest.raises(RestoredError, match=r"manifests up to 3, and had 4.*cdcv2 up does"):
        take(output, 4)
    again = opened()
    assert again.upper == Antichain([3])
    for time in (3, 4):
        assert take(again, time) == {"t": 1}
    assert opened().upper == Antichain([5])
