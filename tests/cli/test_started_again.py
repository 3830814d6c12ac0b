"""A capture that is started again knows of what was given out and begun before the records that it reads first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import (
    FIRST,
    LAST,
    NOTIFIED,
    Captures,
    end,
    insert,
    note,
    record,
    row,
    scanned,
)
from tests.cli.test_uncovered import OnRemap


class Bound(OnRemap):
    """Captures on a remap; the dump has the topic of the transactions already."""

    @staticmethod
    def on_remap(dump: list[str]) -> list[str]:
        """The dump as it is."""
        return dump


@pytest.fixture(params=["commit times", "commit", "complete"])
def capture(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Captures:
    """Captures by commit times, and on a remap in both orderings."""
    way = str(request.param)
    return Captures(run, tmp_path) if way == "commit times" else Bound(run, tmp_path, way)


def begin(offset: int, tx: int) -> str:
    """The BEGIN of a transaction."""
    value = {"status": "BEGIN", "id": f"{tx}:1", "event_count": None, "data_collections": None}
    return record("p.transaction", 0, offset, value)


BEGUN = [
    begin(0, 5),
    note(0, "STARTED"), row(0, 0, 1, **FIRST), row(0, 1, 3, **LAST), scanned(1, 2), note(2, "COMPLETED"),
]  # fmt: skip


def test_what_was_given_out_before_is_a_duplicate(capture: Captures) -> None:
    """The connector repeats a row; the ENDs before show that it was released, and the capture goes on."""
    first = [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(1, 5, 120, 1)]
    assert (0, [1, 3, 10]) == (capture(first, *NOTIFIED).code, capture.held())
    again = capture([*first, insert(0, 3, 10, 5, 1, 100), insert(0, 4, 11, 6, 1, 130), end(2, 6, 140, 1)], *NOTIFIED)
    assert (0, [1, 3, 10, 11]) == (again.code, capture.held()), again.err


def test_the_begin_before_is_one_of_two(capture: Captures) -> None:
    """The connector was killed inside the transaction and renumbers its rows: some of them may be lost."""
    assert 4 != capture(BEGUN, *NOTIFIED).code
    transaction = {"id": "5:1", "total_order": 1, "data_collection_order": 1}
    anew = row(0, 2, 10, op="c", txId=5, transaction=transaction, version="3.4.1.Final")
    said = capture([*BEGUN, begin(1, 5), anew, end(2, 5, 120, 1)], *NOTIFIED)
    assert (4, [1, 3]) == (said.code, capture.held()) and "has two BEGINs" in said.err, said.err


def test_a_row_that_its_end_did_not_count_is_no_duplicate(capture: Captures) -> None:
    """It comes when its transaction was given out, by another run: what that END counted is in the topic."""
    first = [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(1, 5, 120, 1)]
    assert (0, [1, 3, 10]) == (capture(first, *NOTIFIED).code, capture.held())
    said = capture([*first, insert(0, 3, 11, 5, 2, 100), end(2, 6, 140, 0)], *NOTIFIED)
    assert 4 == said.code and "numbered 2, but its END 120 counts 1" in said.err, said.err


GIVEN_OUT = [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(1, 5, 120, 1)]
CONTRADICTED = {
    "another END of it": [end(2, 5, 120, 2)],
    "an END of another": [end(2, 77, 120, 1)],
    "one more row, and an END that counts it": [insert(0, 3, 11, 5, 2, 100), end(2, 5, 120, 2)],
    "an END before it that comes late": [end(2, 9, 110, 1), insert(0, 3, 11, 9, 1, 100)],
    "a late one, and the last one again": [end(2, 9, 110, 1), end(3, 5, 120, 1), insert(0, 3, 11, 9, 1, 100)],
}  # fmt: skip


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("later", CONTRADICTED.values(), ids=CONTRADICTED.keys())
def test_no_end_vouches_for_itself(capture: Captures, tmp_path: Path, later: list[str], memory: str) -> None:
    """What comes after a start, and contradicts what was given out before it, stops the capture and is kept."""
    assert (0, [1, 3, 10]) == (capture(GIVEN_OUT, *NOTIFIED).code, capture.held())
    for dump in ([*GIVEN_OUT, *later], [*GIVEN_OUT, *later, insert(0, 4, 12, 6, 1, 130), end(4, 6, 140, 1)]):
        if memory == "lost":
            (capture.logs / "_memory.json").unlink(missing_ok=True)
        assert 4 == capture(dump, *NOTIFIED).code
    assert [1, 3, 10] == capture.held()
