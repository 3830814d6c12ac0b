"""A log that ends before the view does has lost something: materialize and compare report it alike, exit code 1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import Run, price, write
from tests.cli.test_logs_of_a_view import file

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
FIRST: list[Message] = [Updates([(price(1, 10, "apple"), 3, 1)]), Progress([0], [5], {3: 1})]
THEN: list[Message] = [Updates([(price(2, 20, "nut"), 6, 1)]), Progress([5], [10], {6: 1})]


def made(run: Run, folder: Path, a: list[Message], b: list[Message]) -> Path:
    """The view of two logs."""
    write(folder / "t", *a)
    write(folder / "u", *b)
    path = file(folder)
    assert 0 == run("materialize", path).code
    return path


def cut(log: Path, messages: int) -> None:
    """So many of the last messages of the log are lost."""
    for path in sorted(log.glob("*.avro"))[-messages:]:
        path.unlink()


@pytest.mark.parametrize("messages, known", [(1, "complete through 4"), (2, "complete through 4"),
                                             (3, "nothing is complete yet")])  # fmt: skip
def test_a_log_that_was_cut_is_1(run: Run, tmp_path: Path, messages: int, known: str) -> None:
    """In the words of compare; brought back, all is as it was. What is committed stays."""
    path = made(run, tmp_path, [*FIRST, *THEN], [*FIRST, *THEN])
    shutil.copytree(tmp_path / "t", tmp_path / "backup")
    cut(tmp_path / "t", messages)
    said, compared, plain = run("materialize", path), run("compare", path), run("materialize", path, "--json")

    text = f"the target is complete through 9, and its logs {known}: these are not the logs that it was made of"
    assert (1, 1, 1) == (said.code, compared.code, plain.code)
    assert text in said.err and text in compared.err, said.err
    lower = 5 if messages < 3 else 0
    assert f"a is incomplete: no statement covers the times from {lower} to before 10" in said.err
    found = json.loads(plain.out)
    assert ([10], [[[lower], [10]]]) == (found["frontier"], found["incomplete"]["a"]["statements"])
    assert ["a"] == list(found["incomplete"])
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "backup", tmp_path / "t")
    assert (0, 0) == (run("materialize", path).code, run("compare", path).code)


def test_a_log_that_was_ahead_and_was_cut_behind_its_bookmark_is_1(run: Run, tmp_path: Path) -> None:
    """What was read before stands there still; what the view has of the log beyond that does not."""
    path = made(run, tmp_path, [*FIRST, *THEN], [*FIRST, Progress([5], [8], {})])
    assert 0 == run("materialize", path).code
    cut(tmp_path / "t", 2)
    said, compared = run("materialize", path), run("compare", path)
    text = "the target is complete through 7, and its logs complete through 4"
    assert (1, 1, True, True) == (said.code, compared.code, text in said.err, text in compared.err), said.err
    write(tmp_path / "t", *THEN)
    assert (0, 0) == (run("materialize", path).code, run("compare", path).code)


def test_a_finished_history_that_was_cut_is_1(run: Run, tmp_path: Path) -> None:
    """Nothing can come any more, and it is asked whether all is still there."""
    path = made(run, tmp_path, [*FIRST, Progress([5], [], {})], [*FIRST, Progress([5], [], {})])
    assert 0 == run("materialize", path).code
    cut(tmp_path / "u", 1)
    said, compared = run("materialize", path), run("compare", path)
    text = "and its logs complete through 4: these are not the logs"
    assert (1, 1, True, True) == (said.code, compared.code, text in said.err, text in compared.err), said.err


def test_a_log_that_is_not_read_to_its_end_is_not_judged(run: Run, tmp_path: Path) -> None:
    """It is ahead, and what lies before stands where no reader needs it."""
    path = made(run, tmp_path, [Progress([4], [9]), Progress([0], [4])], [Progress([0], [5])])
    said = run("materialize", path)
    assert (0, True) == (said.code, "complete through 4" in said.out), said.err


def test_copies_state_together(run: Run, tmp_path: Path) -> None:
    """Where one ends another goes on: only what none of them has is lost."""
    path = made(run, tmp_path, FIRST, [*FIRST, *THEN])
    write(tmp_path / "copy", *THEN)
    path.write_text(path.read_text("utf-8").replace("a: t,", "a: [t, copy],"), "utf-8")
    assert (0, 0, 0) == (run("materialize", path).code, run("materialize", path).code, run("compare", path).code)
    cut(tmp_path / "copy", 1)
    said = run("materialize", path)
    assert (1, True) == (said.code, "its logs complete through 4" in said.err), said.err
