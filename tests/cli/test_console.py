"""Results go where they are asked for; a bar is for people, and only on their terminal."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from cdcv2.cli import console, display, progress
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.errors import IncompleteError, OutputError


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """It is."""
        return True


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def test_a_bar_appears_after_a_while_moves_and_goes_away() -> None:
    """It shows share, time and what is left, over itself in one line; nothing stays of it."""
    stream, clock = Terminal(), Clock()
    bar = progress.Bar(200, "reading", stream, clock=clock)
    bar.update(40)
    before = stream.getvalue()
    clock.now += 61
    bar.update(10)
    bar.update(50)
    clock.now += 61
    bar.update(100)
    bar.close()
    first, second, *gone = stream.getvalue().split("\r")[1:]

    assert "" == before
    assert (True, True) == (first.startswith("reading:  25% |###"), first.rstrip().endswith("| 1:01, 3:03 to go"))
    assert (True, True) == (second.startswith("reading: 100% |###"), "| 2:02, 0:00 to go" in second)
    assert ["", ""] == [text.strip() for text in gone] and len(second.rstrip()) <= len(gone[0])


def test_only_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a file, not a pipe; and not over lines that the terminal shows. It takes no library."""
    monkeypatch.setattr(progress, "_APPEARS", 0.0)
    drawn = []
    for stream, seen in ((Terminal(), True), (io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.progress(7, "reading", shown=seen) as move:
            move(7)
        drawn.append(bool(stream.getvalue()))

    assert [True, False, False] == drawn


def test_one_that_follows_says_what_changes_but_seldom() -> None:
    """A line at once, then at most each 5 seconds, and each minute where nothing changes; made only when it is due."""
    clock, said, made = Clock(), [], []
    lines = Lines(lambda line: said.append((clock.now - 100, line)), clock=clock)

    def far() -> str:
        made.append(clock.now)
        return f"up to {min(int(clock.now), 108)}"

    for _ in range(1000):
        lines.turn(far)
        clock.now += 0.1

    assert [(0, "up to 100"), (5, "up to 105"), (10, "up to 108"), (70, "up to 108")] == [
        (round(at), line) for at, line in said
    ]
    assert len(made) < 100


def test_a_file_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And standard output stays empty."""
    target = tmp_path / "out"
    target.write_text("before", "utf-8")
    with console.ResultOutput(str(target)) as output:
        output.line("π")
        assert not output.is_terminal

    assert ("π\n", "") == (target.read_text("utf-8"), capsys.readouterr().out)


def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    """With the remedy."""
    with (
        pytest.raises(OutputError, match="is a directory|Is a directory") as caught,
        console.ResultOutput(str(tmp_path)),
    ):
        raise AssertionError("it was opened")

    assert str(tmp_path) in str(caught.value) and "--output" in str(caught.value)


def test_a_file_stays_as_it_was_when_the_command_fails(tmp_path: Path) -> None:
    """It may be the last good one; and nothing is left beside it."""
    kept, fresh = tmp_path / "kept", tmp_path / "fresh"
    kept.write_text("before", "utf-8")
    for target in (kept, fresh):
        with pytest.raises(IncompleteError), console.ResultOutput(str(target)) as output:
            output.line("half")
            raise IncompleteError("the rest is missing")

    assert ("before", [kept]) == (kept.read_text("utf-8"), list(tmp_path.iterdir()))


def test_a_file_keeps_its_rights_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    """Its content is replaced, not the file."""
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_text("before", "utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    with console.ResultOutput(str(link)) as output:
        output.line("after")

    assert (True, "after\n", 0o640) == (link.is_symlink(), target.read_text("utf-8"), target.stat().st_mode & 0o777)


def test_what_is_no_regular_file_is_written_as_it_is(tmp_path: Path) -> None:
    """A named pipe has a reader that waits at it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with console.ResultOutput(str(pipe)) as output:
        output.line("through")
    said = os.read(reader, 100)
    os.close(reader)

    assert (b"through\n", True) == (said, pipe.is_fifo())


def test_values_of_a_column_have_an_order() -> None:
    """Null first, then NaN, then by value; inside of lists, too."""
    values = [(3,), (None,), (float("nan"),), (-1,), ((2, None),), ((2, 1),)]
    rows = sorted([(1.5,), (float("nan"),), (None,), (-2.0,)], key=display.sort_key)

    assert [(None,), -2.0, 1.5] == [rows[0], rows[2][0], rows[3][0]]
    assert [values[4], values[5]] == sorted([values[5], values[4]], key=display.sort_key)


def test_an_encoding_that_lacks_a_letter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy; nothing is written in another way than it is."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    with (
        console.ResultOutput(None) as output,
        pytest.raises(OutputError, match="takes ascii only.*PYTHONIOENCODING=utf-8"),
    ):
        output.line("caf\xe9")
