"""A capture that is to be the only one of its logs is: a second is refused, with who is there, whichever came first."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from cdcv2.capture.run import folder_lock
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.cli.main import main
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of
from cdcv2.errors import RefusedError, UsageError
from cdcv2.exits import Exit
from tests.recorded import HOME


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process of a test is about to end."""
    monkeypatch.setattr(folder_lock, "WAIT", 0.0)


@given(st.lists(st.tuples(st.sampled_from(["sole", "beside", "end", "alone"]), st.integers(0, 3)), max_size=12))
def test_a_sole_one_is_alone_and_others_are_together(steps: list[tuple[str, int]]) -> None:
    """An oracle of two sentences: a sole one comes if there is no other, any other one if there is no sole one."""
    running: dict[int, tuple[str, FolderInUse]] = {}
    with TemporaryDirectory() as folder, ExitStack() as opened:
        opened.callback(lambda: [one.close() for _, one in running.values()])
        for step, who in steps:
            if step in ("end", "alone"):
                if who in running and step == "end":
                    running.pop(who)[1].close()
                elif who in running:
                    with running[who][1].alone() as alone:
                        assert alone == (len(running) == 1)
                continue
            if who in running:
                continue
            kinds = {kind for kind, _ in running.values()}
            allowed = not kinds if step == "sole" else "sole" not in kinds
            try:
                running[who] = step, FolderInUse(Path(folder), sole=step == "sole")
            except RefusedError as error:
                assert not allowed and f"process {os.getpid()} writes the logs in {folder}" in str(error)
            else:
                assert allowed


def test_one_that_is_refused_leaves_nothing_and_holds_nothing(tmp_path: Path) -> None:
    """Each of the two texts has its own way out; the lock is free when its holder has ended."""
    place = tmp_path / "logs"
    with FolderInUse(place, sole=True) as one:
        # It looks whether it is alone, and stays so.
        with one.alone() as alone:
            assert alone
        with pytest.raises(RefusedError, match="cdcv2 down"):
            FolderInUse(place)
    with FolderInUse(place), FolderInUse(place):
        with pytest.raises(RefusedError, match="end the other one"):
            FolderInUse(place, sole=True)
    with FolderInUse(place, sole=True):
        pass

    assert not place.exists()


def test_the_command_is_refused_beside_one_that_is_supervised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of the two is, with code 4; on a remap the word has no sense."""
    dump, rows = HOME / "clean_full" / "topics.jsonl.gz", HOME / "rows"
    words = ["capture", str(dump), "--prefix", "clean_full", "--rows", str(rows), "--into"]
    logs = str(tmp_path / "logs")
    found = []
    for sole, more in ((True, []), (False, ["--sole"])):
        with FolderInUse(tmp_path / "logs", sole=sole):
            found.append((main([*words, logs, *more]), capsys.readouterr().err))
    remap = main([*words, logs, "--sole", "--remap", str(tmp_path / "remap")])

    assert [code for code, _ in found] == [Exit.UNABLE] * 2, found
    assert all(f"process {os.getpid()} writes the logs in {logs}" in text for _, text in found)
    assert remap == Exit.USAGE and "--sole" in capsys.readouterr().err


FILE = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {prefix: shop}}
captures:
  one: {source: shop, into: logs}
  prices: {stream: prices=prices, into: prices}
  clicks: {plain: clicks=clicks, remap: timeline, into: clicks}
  again: {plain: clicks=clicks, remap: timeline, into: clicks}
"""


def test_the_jobs_of_a_file_are_sole_but_for_those_on_a_remap(tmp_path: Path) -> None:
    """There two may write the same logs, where the file has both; it refuses all others, with both lines."""
    path = tmp_path / "shop.yaml"
    path.write_text(FILE, "utf-8")
    sole = {plan.name: "--sole" in plan.argv for plan in jobs_of(read_pipeline(str(path)))}
    wrong = {
        "  two: {source: shop, into: logs}\n": "line 10: the captures one (line 6) and two write",
        "  two: {plain: clicks=clicks, remap: timeline, into: logs}\n": "line 10: the captures one (line 6) and two",
        "  two: {source: shop, into: clicks}\n": "line 10: the captures clicks (line 8) and two write",
        "  two: {plain: clicks=clicks, remap: other, into: clicks}\n": "line 10: the captures clicks (line 8) and two",
    }  # fmt: skip
    found = {}
    for line in wrong:
        path.write_text(FILE + line, "utf-8")
        with pytest.raises(UsageError) as caught:
            read_pipeline(str(path))
        found[line] = str(caught.value)

    assert sole == {"one": True, "prices": True, "clicks": False, "again": False}
    assert all(text in found[line] for line, text in wrong.items()), found
