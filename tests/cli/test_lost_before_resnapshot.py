"""An END that is lost before a declared resnapshot, by the command: the resnapshot makes up for it, however it is read.

Transaction 6 was committed between 5 (at 120) and 7 (at 140), and its END is lost; the resnapshot is at 200.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import (
    FIRST, LAST, NOTIFIED, Captures, end, insert, note, record, row, scanned,
)

BEFORE = [
    note(0, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 2, **LAST), scanned(1, 2), note(2, "COMPLETED"),
    insert(0, 2, 10, 5, 1, 100), end(0, 5, 120, 1),
]  # fmt: skip
BY_A_ROW = [insert(1, 0, 11, 6, 1, 120)]
BY_ITS_BEGIN = [record("p.transaction", 0, 0, {"status": "BEGIN", "id": "6:1"})]
NEXT = [insert(2, 0, 12, 7, 1, 130), end(0, 7, 140, 1)]
RESNAPSHOT = [
    note(3, "STARTED"), *(row(3, at, number, lsn=200) for at, number in enumerate((1, 2, 10, 11, 12, 13))),
    scanned(4, 6), note(5, "COMPLETED"),
]  # fmt: skip
HELD = [1, 2, 10, 11, 12, 13]
#: Behind the resnapshot: transaction 9 at 220, and 11 at 240. That of 10, between them, is lost.
BEHIND = [insert(4, 0, 14, 9, 1, 200), end(0, 9, 220, 1)]
LOST_BEHIND = [insert(5, 0, 15, 10, 1, 220), insert(6, 0, 16, 11, 1, 230), end(0, 11, 240, 1)]
DECLARED = (*NOTIFIED, "--before", "from-state", "--snapshot-again", "200")
STOP = "the END of transaction 6 is missing"


def dumped(*parts: list[str]) -> list[str]:
    """The records, those of the transaction topic without a gap."""
    records = [json.loads(line) for part in parts for line in part]
    for at, one in enumerate(one for one in records if one["topic"] == "p.transaction"):
        one["offset"] = at
    return [json.dumps(one) for one in records]


@pytest.fixture
def capture(run: Run, tmp_path: Path) -> Captures:
    """Captures into a folder of the test's."""
    return Captures(run, tmp_path)


@pytest.mark.parametrize("every", ["1", "4", "2000"])
@pytest.mark.parametrize("shown", [BY_A_ROW, BY_ITS_BEGIN], ids=["by a row", "by its BEGIN"])
def test_it_stops_nothing_at_any_start(capture: Captures, every: str, shown: list[str]) -> None:
    """With the memory and without it, and whether the resnapshot is read together with what shows it or later."""
    dump, more = dumped(BEFORE, shown, NEXT, RESNAPSHOT, BEHIND), (*DECLARED, "--max-records", every)
    for memory in ("kept", "kept", "lost"):
        capture.forget(memory)
        said = capture(dump, *more)
        assert 0 == said.code and "complete through 220" in said.out and "missing" not in said.err, said
        assert [*HELD, 14] == capture.held() and 0 == capture.run("verify", capture.logs).code


@pytest.mark.parametrize("every", ["1", "2000"])
@pytest.mark.parametrize("shown", [BY_A_ROW, BY_ITS_BEGIN], ids=["by a row", "by its BEGIN"])
def test_the_capture_waits_for_the_rest_of_the_resnapshot(capture: Captures, every: str, shown: list[str]) -> None:
    """Nothing behind the lost END is released meanwhile, and the line states what is waited for."""
    dump, more = dumped(BEFORE, shown, NEXT, RESNAPSHOT[:-1]), (*DECLARED, "--max-records", every)
    for memory in ("kept", "kept", "lost"):
        capture.forget(memory)
        said = capture(dump, *more)
        assert 1 == said.code and "complete through 120" in said.out, said
        assert "the snapshot at 200 has not been completed" in said.err and STOP not in said.err, said
    said = capture([*dump, RESNAPSHOT[-1]], *more)

    assert 0 == said.code and "complete through 200" in said.out and HELD == capture.held(), said


def test_who_declares_what_the_line_names_need_not_start_over(capture: Captures) -> None:
    """The capture stopped at the lost END before there was a resnapshot."""
    more = (*NOTIFIED, "--before", "from-state", "--max-records", "1")
    said = capture(dumped(BEFORE, BY_A_ROW, NEXT), *more)
    assert 4 == said.code and STOP in said.err and "--snapshot-again" not in said.err, said
    dump = dumped(BEFORE, BY_A_ROW, NEXT, RESNAPSHOT)
    said = capture(dump, *more)
    assert 4 == said.code and "continue with --snapshot-again 200 " in said.err, said
    said = capture(dump, *more, "--snapshot-again", "200")

    assert 0 == said.code and HELD == capture.held(), said


@pytest.mark.parametrize("every", ["1", "2000"])
def test_one_that_is_lost_behind_the_resnapshot_stops_the_capture(capture: Captures, every: str) -> None:
    """At each start, and all that comes before it is released."""
    dump = dumped(BEFORE, BY_A_ROW, NEXT, RESNAPSHOT, BEHIND, LOST_BEHIND)
    for memory in ("kept", "kept", "lost"):
        capture.forget(memory)
        said = capture(dump, *DECLARED, "--max-records", every)
        assert 4 == said.code and "the END of transaction 10 is missing" in said.err, said
        assert "the logs are complete through 220" in said.err and [*HELD, 14] == capture.held(), said
    assert json.loads(capture.run("verify", capture.logs, "--json").out)["frontier"] == [221]
