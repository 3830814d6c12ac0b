"""Logs that one capture writes state one timeline and one log set, in whatever order and however often it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.errors import ForeignStateError, UsageError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import LogPart, describe_log_set, one_timeline
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.log import Log
from cdcv2.rows.row_type import RowType

ROW = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})


def logs(folder: Path, *names: str) -> dict[str, Log]:
    """The logs of these tables, made if they are not there; and one that cannot state anything."""
    return {"memory": MemoryLog(), **{name: DirectoryLog(folder / name, ROW, create=True) for name in names}}


def stated(folder: Path, *names: str) -> set[tuple[str | None, str | None]]:
    """Timeline and log set that each of them states."""
    found = (DirectoryLog(folder / name).description() for name in names)
    return {(one.timeline, one.log_set) for one in found}


def test_without_a_note_the_first_log_stands_for_all(tmp_path: Path) -> None:
    """Its identity was put if absent: who begins the same logs at the same time finds the same, in any order."""
    one = describe_log_set(logs(tmp_path, "b", "a"), LogDescription())
    other = describe_log_set(logs(tmp_path, "a", "b"), LogDescription())
    first = DirectoryLog(tmp_path / "a").description().identity

    assert LogDescription(timeline=first, log_set=first) == one == other
    assert {(first, first)} == stated(tmp_path, "a", "b")


def test_what_some_log_states_stands_for_one_that_comes_later(tmp_path: Path) -> None:
    """Also where it is the first by name, and where the manifest was written a second time."""
    whole = describe_log_set(logs(tmp_path, "b", "c"), LogDescription(log_set="noted"))
    again = describe_log_set(logs(tmp_path, "a", "b", "c"), LogDescription(log_set="noted anew"))

    assert LogDescription(timeline="noted", log_set="noted") == whole == again
    assert {("noted", "noted")} == stated(tmp_path, "a", "b", "c")


def test_on_a_remap_the_timeline_is_that_of_the_remap(tmp_path: Path) -> None:
    """The log set is another thing: two log sets may be of one timeline. The timeline of a log does not change."""
    describe_log_set(logs(tmp_path / "one", "a"), LogDescription(timeline="remap", log_set="one"))
    describe_log_set(logs(tmp_path / "other", "a"), LogDescription(timeline="remap", log_set="other"))

    assert {("remap", "one"), ("remap", "other")} == stated(tmp_path, "one/a", "other/a")
    with pytest.raises(ForeignStateError, match="is of the timeline remap, and of the timeline another"):
        describe_log_set(logs(tmp_path / "one", "a", "b"), LogDescription(timeline="another"))
    assert {("remap", "one"), (None, None)} == stated(tmp_path / "one", "a", "b")


def test_logs_of_two_log_sets_are_not_written_as_one(tmp_path: Path) -> None:
    """One of them was copied there from another place."""
    for name in "ab":
        describe_log_set(logs(tmp_path, name), LogDescription(timeline="remap", log_set=name))
    with pytest.raises(ForeignStateError, match="b is of the log set b, and of the log set a"):
        describe_log_set(logs(tmp_path, "a", "b"), LogDescription(timeline="remap"))


def test_older_logs_without_an_identity_state_nothing(tmp_path: Path) -> None:
    """Nothing that two captures would find alike stands for them."""
    golden = Path(__file__).resolve().parents[1] / "golden" / "v1-without-identity" / "everything" / "_log.json"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "_log.json").write_bytes(golden.read_bytes())

    assert LogDescription() == describe_log_set({"a": DirectoryLog(tmp_path / "a")}, LogDescription())
    assert {(None, None)} == stated(tmp_path, "a")


def test_one_log_alone_needs_no_timeline() -> None:
    """Several do, each of them."""
    assert (None, "x", "x") == (
        one_timeline([LogPart("a", None)]), one_timeline([LogPart("a", "x")]), one_timeline([LogPart("a", None)], "x")
    )  # fmt: skip
    with pytest.raises(UsageError, match="b does not state .* together with a, which is of x"):
        one_timeline([LogPart("a", "x"), LogPart("b", None)])
    with pytest.raises(UsageError, match="a does not state .* together with b: .* --timeline NAME"):
        one_timeline([LogPart("a", None), LogPart("b", None)])
