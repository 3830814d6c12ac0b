"""A stop of logs that are stated beyond its cause is kept in them, wherever the run that finds it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.errors import UnavailableError
from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import (
    FIRST, LAST, NOTIFIED, Captures, end, insert, note, record, row, scanned,
)

WHOLE = [
    note(0, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), scanned(1, 2), note(2, "COMPLETED"),
    insert(0, 2, 10, 5, 1, 100), end(0, 5, 120, 1), end(1, 7, 140, 0),
]  # fmt: skip
#: A row of transaction 6, which was committed between the two; its END is lost.
LATE = insert(2, 0, 11, 6, 1, 120)
#: A resnapshot, which may explain that.
ANEW = row(3, 0, 12, lsn=150, snapshot="last")
STOP = "the END of transaction 6 is missing"


@pytest.fixture
def capture(run: Run, tmp_path: Path) -> Captures:
    """Captures into a folder of the test's."""
    return Captures(run, tmp_path)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
@pytest.mark.parametrize("every", ["1", "2", "4", "2000"])
def test_without_the_memory_a_lost_end_is_kept_wherever_it_is_found(
    capture: Captures, before: str, every: str
) -> None:
    """Also where it is found before it is known that the topics are those of the logs, which is asked first."""
    more = (*NOTIFIED, "--before", before, "--max-records", every)
    assert 0 == capture(WHOLE, *more).code
    capture.forget("lost")
    late = [LATE, *WHOLE]
    said = capture(late, *more)

    assert 4 == said.code and STOP in said.err and "the logs are stated through 140" in said.err, said
    assert 3 == capture.run("verify", capture.logs).code
    for dump in (late, WHOLE):
        capture.forget("lost")
        assert said == capture(dump, *more)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
@pytest.mark.parametrize("every", ["1", "4", "2000"])
def test_without_the_memory_an_end_from_before_the_snapshot_is_kept(
    capture: Captures, before: str, every: str
) -> None:
    """Also when it is not in the topic any more, which may lose what the logs have."""
    more = (*NOTIFIED, "--before", before, "--max-records", every)
    assert 0 == capture(WHOLE, *more).code
    capture.forget("lost")
    said = capture([*WHOLE, end(2, 4, 90, 0)], *more)

    assert 4 == said.code and "transaction 4 was committed at 90, not after the snapshot at 100" in said.err, said
    assert 3 == capture.run("verify", capture.logs).code
    for memory in ("lost", "kept"):
        capture.forget(memory)
        assert said == capture(WHOLE, *more)


@pytest.mark.parametrize("explained", [False, True])
def test_a_run_that_ends_while_it_seeks_what_explains_a_stop_leaves_that_to_the_next_one(
    capture: Captures, monkeypatch: pytest.MonkeyPatch, explained: bool
) -> None:
    """With its state, which has nothing of the stop before the topics were read to their ends."""
    more, late = (*NOTIFIED, "--max-records", "1"), [*WHOLE, LATE, *[ANEW] * explained, end(2, 8, 160, 0)]
    assert 0 == capture(WHOLE, *more).code

    def fails(self: Capture, record: Record) -> None:
        raise UnavailableError("it does not answer")

    with monkeypatch.context() as failing:
        failing.setattr(Capture, "look", fails)
        assert "it does not answer" in capture(late, *more).err
    said = capture(late, *more)
    kept = capture.run("verify", capture.logs)

    assert 4 == said.code and STOP in said.err, said
    assert explained == ("--snapshot-again 150 " in said.err) and kept.code == (0 if explained else 3), (said, kept)
    assert said.err == capture(late, *more).err


def test_a_record_that_is_none_behind_a_stop_does_not_hide_it(capture: Captures) -> None:
    """It is not taken, and means nothing for a snapshot."""
    more = (*NOTIFIED, "--max-records", "1")
    assert 0 == capture(WHOLE, *more).code
    none = record("p.public.t", 2, 1, {"op": "?"})
    said = capture([*WHOLE, LATE, none], *more)

    assert 4 == said.code and STOP in said.err and 3 == capture.run("verify", capture.logs).code, said
