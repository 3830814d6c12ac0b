"""A history begins where its log begins: what stands before a start that was given is an error, and never left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import APPLE, PEAR, PLUM, Run, write

FILE = (
    "materialization: prices\nlogs: {{prices: prices}}\nbindings: [{{log: prices, target: now, key: [id]}}]\n"
    "target: {{driver: lake, folder: lake}}\nrecovery_log: recovery\nstart: {start}\n"
)
#: From 5 on it is whole; there is an update before, which is stated first, comes last, or is counted only, or received.
FROM_5 = (Updates([(PLUM, 6, 1)]), Progress([5], [9], {6: 1}))
LOGS: dict[str, tuple[Message, ...]] = {
    "first": (Updates([(APPLE, 1, 1), (PEAR, 1, 1)]), Progress([0], [5], {1: 2}), *FROM_5),
    "last": (*FROM_5, Updates([(APPLE, 1, 1), (PEAR, 1, 1)]), Progress([0], [5], {1: 2})),
    "only counted": (*FROM_5, Progress([0], [5], {1: 2})),
    "only received": (*FROM_5, Updates([(APPLE, 1, 1), (PEAR, 1, 1)])),
    "within one statement": (Progress([0], [9], {1: 2, 6: 1}), FROM_5[0]),
}
READERS = [
    ("as-of", "prices", "--start", 5), ("as-of", "prices", "--start", 5, "--at", 7), ("replay", "prices", "--start", 5),
    ("verify", "prices", "--start", 5), ("verify", "prices", "--full", "--start", 5), ("materialize", "prices.yaml"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names a log beside it."""
    monkeypatch.chdir(tmp_path)
    Path("prices.yaml").write_text(FILE.format(start=5), "utf-8")


@pytest.mark.parametrize("messages", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("words", READERS, ids=lambda words: " ".join(map(str, words)))
def test_what_is_before_the_start_is_an_error_in_every_reader(
    run: Run, words: tuple[object, ...], messages: tuple[Message, ...]
) -> None:
    """Exit 4, with the time, how many, where it stands, and what to do."""
    write(Path("prices"), *messages)
    said = run(*words)

    assert 4 == said.code, said
    assert "the log has 2 updates at time 1 (" in said.err and "prices[0]@" in said.err
    assert "reading was to begin at [5]" in said.err and "Leave the start out" in said.err


@pytest.mark.parametrize("messages", LOGS.values(), ids=LOGS)
def test_compare_never_calls_equal_what_both_sides_left_out(run: Run, messages: tuple[Message, ...]) -> None:
    """The target was made of a log that lacked it, and is what a view from 5 on is."""
    pytest.importorskip("yaml")
    write(Path("prices"), *FROM_5)
    assert 0 == run("materialize", "prices.yaml").code
    assert 0 == run("compare", "prices.yaml").code
    for file in Path("prices").glob("*.avro"):
        file.unlink()
    write(Path("prices"), *messages)
    said = run("compare", "prices.yaml")

    assert (4, "") == (said.code, said.out)
    assert "the log has 2 updates at time 1 (" in said.err


def test_the_time_at_which_a_log_begins_is_a_start(run: Run) -> None:
    """Its first statement begins there, and there is nothing before."""
    write(Path("prices"), *FROM_5)

    assert {0} == {run(*words).code for words in READERS}
    assert "equal: prices, complete through 8" in run("compare", "prices.yaml").out


def test_a_view_that_has_what_came_before_goes_on(run: Run) -> None:
    """From its checkpoint, which is beyond the start of its file: what it reads again of that is none of these."""
    Path("prices.yaml").write_text(FILE.format(start=0), "utf-8")
    write(Path("prices"), *LOGS["first"])
    assert "3 updates read" in run("materialize", "prices.yaml").out
    write(Path("prices"), Updates([(PEAR, 9, -1), (APPLE, 1, 1), (PEAR, 1, 1)]), Progress([9], [12], {9: 1}))
    said = run("materialize", "prices.yaml")

    assert (0, True) == (said.code, "complete through 11" in said.out), said
    assert "equal: prices, complete through 11" in run("compare", "prices.yaml").out
