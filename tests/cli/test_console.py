"""Results go where they are asked for; a bar is for people, and only on their terminal."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from cdcv2.commands import console, shown
from cdcv2.errors import IncompleteError, OutputError


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """It is."""
        return True


class Bar:
    """Stands in for tqdm's."""

    made: list[Bar] = []

    def __init__(self, **settings: object) -> None:
        self.settings, self.steps, self.closed = settings, 0, False
        self.made.append(self)

    def update(self, steps: int) -> None:
        """Move on."""
        self.steps += steps

    def close(self) -> None:
        """Go away."""
        self.closed = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    """The bars that are made."""
    import tqdm

    Bar.made = []
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    return Bar.made


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch, bars: list[Bar]) -> None:
    """On standard error, and only if the work takes a while."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    with console.progress(7, "reading") as move:
        move(3)
        move(4)
    (bar,) = bars

    assert (7, True) == (bar.steps, bar.closed)
    assert (7, False, True) == (bar.settings["total"], bar.settings["leave"], bar.settings["delay"] > 0)


def test_nobody_else_gets_one(monkeypatch: pytest.MonkeyPatch, bars: list[Bar]) -> None:
    """Not a file, not a pipe; and not over lines that the terminal shows."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with console.progress(7, "reading") as move:
        move(7)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with console.progress(7, "reading", shown=False) as move:
        move(7)

    assert [] == bars


def test_without_tqdm_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to an extra; nothing needs it."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with console.progress(7, "reading") as move:
        move(7)

    assert "" == stream.getvalue()


def test_a_file_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And standard output stays empty."""
    target = tmp_path / "out"
    target.write_text("before", "utf-8")
    with console.Output(str(target)) as output:
        output.line("π")
        assert not output.is_terminal

    assert ("π\n", "") == (target.read_text("utf-8"), capsys.readouterr().out)


def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(OutputError, match="is a directory|Is a directory") as caught, console.Output(str(tmp_path)):
        raise AssertionError("it was opened")

    assert str(tmp_path) in str(caught.value) and "--output" in str(caught.value)


def test_a_file_stays_as_it_was_when_the_command_fails(tmp_path: Path) -> None:
    """It may be the last good one; and nothing is left beside it."""
    kept, fresh = tmp_path / "kept", tmp_path / "fresh"
    kept.write_text("before", "utf-8")
    for target in (kept, fresh):
        with pytest.raises(IncompleteError), console.Output(str(target)) as output:
            output.line("half")
            raise IncompleteError("the rest is missing")

    assert ("before", [kept]) == (kept.read_text("utf-8"), list(tmp_path.iterdir()))


def test_a_file_keeps_its_rights_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    """It is its content that is made anew."""
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_text("before", "utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    with console.Output(str(link)) as output:
        output.line("after")

    assert (True, "after\n", 0o640) == (link.is_symlink(), target.read_text("utf-8"), target.stat().st_mode & 0o777)


def test_what_is_no_regular_file_is_written_as_it_is(tmp_path: Path) -> None:
    """A named pipe has a reader that waits at it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with console.Output(str(pipe)) as output:
        output.line("through")
    said = os.read(reader, 100)
    os.close(reader)

    assert (b"through\n", True) == (said, pipe.is_fifo())


def test_values_of_a_column_have_an_order() -> None:
    """Null first, then NaN, then by value; inside of lists, too."""
    values = [(3,), (None,), (float("nan"),), (-1,), ((2, None),), ((2, 1),)]
    rows = sorted([(1.5,), (float("nan"),), (None,), (-2.0,)], key=shown.sort_key)

    assert [(None,), -2.0, 1.5] == [rows[0], rows[2][0], rows[3][0]]
    assert [values[4], values[5]] == sorted([values[5], values[4]], key=shown.sort_key)


def test_an_encoding_that_lacks_a_letter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy; nothing is written in another way than it is."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    with console.Output(None) as output, pytest.raises(OutputError, match="takes ascii only.*PYTHONIOENCODING=utf-8"):
        output.line("caf\xe9")
