"""The table of promises holds: the lines of each entry stand in its file, and its tests are there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.promises import (
    ROOT,
    TABLE,
    Checkout,
    Promise,
    Results,
    Verdict,
    is_there,
    judge,
    keep,
    kept,
    promises,
    summary,
    try_one,
)

ENTRIES = promises((ROOT / TABLE).read_text("utf-8"))
TEST = "tests/test_sum.py::test_sums"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.says[:60])
def test_its_lines_stand_at_one_place_and_its_tests_are_there(entry: Promise) -> None:
    """A line that was moved or rewritten is followed in the table, and so is a test."""
    broken = entry.break_in((ROOT / entry.file).read_text("utf-8"))
    compile(broken, entry.file, "exec")

    assert entry.lines.strip() and entry.lines != entry.broken
    assert entry.lines.endswith("\n") and entry.broken.endswith("\n") or not entry.broken
    assert entry.tests and not [test for test in entry.tests if not is_there(test)]


def test_each_promise_is_made_once() -> None:
    """So that the summary can be read."""
    assert len(ENTRIES) == len({entry.says for entry in ENTRIES})


def test_lines_are_whole_and_at_one_place() -> None:
    """Otherwise it is not known which are meant."""
    promise = Promise("a", "it sums", "f.py", "    x = 1\n", "    x = 2\n", (TEST,))

    assert "def f():\n    x = 2\n" == promise.break_in("def f():\n    x = 1\n")
    with pytest.raises(ValueError, match=r"stand at 2 places: \[1, 2\]"):
        promise.break_in("    x = 1\n    x = 1\n")
    with pytest.raises(ValueError, match="stand at 0 places"):
        promise.break_in("        x = 1\n")


@pytest.mark.parametrize(("results", "said"), [
    (Results(failed={TEST: 1}, passed={TEST: 3}), ""),
    (Results(passed={TEST: 3}), f"broken, and unnoticed by: {TEST}"),
    (Results(), f"broken, and unnoticed by: {TEST}"),
    (Results(failed={TEST: 1}, broken={TEST: 1}), f"could not be run: {TEST}"),
    (None, "its tests did not end in 900 s"),
])
def test_only_a_test_that_fails_holds_a_promise(results: Results | None, said: str) -> None:
    """Not one that could not be run."""
    assert said == judge(Promise("a", "b", "c", "d\n", "e\n", (TEST,)), results)


def test_a_line_is_broken_in_a_copy_and_put_right_again(tmp_path: Path) -> None:
    """And the summary names line and test."""
    there, folder = tmp_path / "there", tmp_path / "copy"
    (there / "tests").mkdir(parents=True)
    (there / "sums.py").write_text("def total(a, b):\n    return a + b\n", "utf-8")
    (there / TEST.partition("::")[0]).write_text(
        "from sums import total\n\n\ndef test_sums():\n    assert 3 == total(1, 2)\n", "utf-8")
    subprocess.run("git init -q && git add -A", shell=True, cwd=there, check=True)
    folder.mkdir()
    checkout = Checkout(there, folder)
    held = try_one(Promise("Sums", "it adds", "sums.py", "    return a + b\n", "    return a - b\n", (TEST,)), checkout)

    assert (True, 2, {TEST: 1}) == (held.held, held.line, held.failed)
    assert (there / "sums.py").read_text("utf-8") == (folder / "sums.py").read_text("utf-8")
    assert "```diff\n- return a + b\n+ return a - b\n```\n\nFailed: `test_sum.py::test_sums` (1)" in summary(
        [held], 2, "0123")


def test_runs_at_one_commit_are_put_together(tmp_path: Path) -> None:
    """And the results of another commit are no part of it."""
    path = tmp_path / ".work" / "promises.json"
    one, other, third = (
        Verdict(Promise("Sums", says, "sums.py", "a\n", "b\n", (TEST,)), 2, {TEST: 1}, "", 1.0)
        for says in ("it adds", "it takes away", "it waits")
    )
    for verdict in (one, other):
        keep(path, "0123", verdict)

    assert [one, other] == kept(path, "0123", [verdict.promise for verdict in (one, other, third)])
    keep(path, "4567", third)
    assert [] == kept(path, "0123", [one.promise])
    assert "at commit 4567: of 3 places that keep a promise 1 were broken" in summary(
        kept(path, "4567", [third.promise]), 3, "4567")
