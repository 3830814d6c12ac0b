"""The last lines of a job's two files, and those that come: against all lines at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.control import job_output
from cdcv2.control.job_folder import before_of
from cdcv2.control.job_output import JobOutput
from cdcv2.errors import OutputError

LINES = st.lists(st.text("aé", max_size=3), max_size=6)


@given(before=LINES, now=LINES, whole=st.booleans(), number=st.integers(0, 14), block=st.integers(1, 9))
def test_the_last_lines_are_those_of_both_files(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], now: list[str], whole: bool, number: int, block: int
) -> None:
    """However few bytes are read at a time; a last line may have no end yet."""
    path = tmp_path_factory.mktemp("job") / "output.log"
    before_of(path).write_text("".join(f"{line}\n" for line in before), "utf-8")
    text = "".join(f"{line}\n" for line in now)
    path.write_text(text if whole else text.removesuffix("\n"), "utf-8")
    if not whole and now and not now[-1]:
        # Nothing stands behind the last line break.
        now = now[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_output, "_BLOCK", block)
        found = JobOutput(path).last(number)

    assert [*before, *now][max(0, len(before) + len(now) - number):] == found


def test_lines_that_come_are_followed_into_the_next_file(tmp_path: Path) -> None:
    """The one that is put aside is read to its end; a line is shown when it is whole, or its file ended."""
    path = tmp_path / "output.log"
    printed, steps = JobOutput(path), iter(range(9))

    def write(file: Path, data: bytes) -> None:
        with open(file, "ab") as opened:
            opened.write(data)

    def pause() -> bool:
        step = next(steps)
        if step == 0:
            write(path, b"one\ntw")
        elif step == 1:
            write(path, b"o\nthree")
        elif step == 2:
            path.rename(before_of(path))
        elif step == 3:
            write(before_of(path), b"!")
            write(path, b"\xff\nfour\n")
        return step == 4

    assert [] == printed.last(5)
    assert ["one", "two", "three!", "\ufffd", "four"] == list(printed.following(pause))
    assert ["two", "three!", "\ufffd", "four"] == printed.last(4)
    printed.close()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A folder stands in its place."""
    (tmp_path / "output.log").mkdir()
    with pytest.raises(OutputError, match="output.log cannot be read: Is a directory"):
        JobOutput(tmp_path / "output.log").last(3)
