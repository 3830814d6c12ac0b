"""Standard streams may be closed or full: the exit code shows what became of the result, and none is a mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import Run

FULL = Path("/dev/full")


class Done(NamedTuple):
    """The result of a command in a shell."""

    code: int
    out: str
    err: str


def shell(words: str, log: Path) -> Done:
    """Run the command in a shell, which sees to its streams."""
    line = f'exec "$1" -m cdcv2 {words.replace("LOG", chr(34) + "$2" + chr(34))}'
    done = subprocess.run(["sh", "-c", line, "sh", sys.executable, log], capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_a_closed_standard_output_is_said(prices: Path, command: str) -> None:
    """Exit 4, in a line: the result has nowhere to go."""
    done = shell(f"{command} LOG >&-", prices)

    assert (4, 1) == (done.code, done.err.count("\n"))
    assert f"cdcv2 {command}: standard output is closed: open it, or lead it to /dev/null" in done.err


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_a_closed_standard_error_takes_nothing_from_the_result(prices: Path, command: str) -> None:
    """Remarks are lost, and do not go among the lines of the result."""
    closed, heard = shell(f"{command} LOG 2>&-", prices), shell(f"{command} LOG 2>/dev/null", prices)

    assert (0, heard.out) == (closed.code, closed.out)
    assert "complete through 9" in closed.out


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(("log", "code"), [("LOG", 0), ("LOG/none", 2)])
def test_a_full_standard_error_changes_no_exit_code(prices: Path, log: str, code: int) -> None:
    """Neither that of a good result nor that of an error."""
    done = shell(f"as-of {log} 2>{FULL}", prices)

    assert (code, bool(code)) == (done.code, not done.out)


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_a_full_standard_output_is_said(prices: Path) -> None:
    """Exit 4."""
    done = shell(f"as-of LOG >{FULL}", prices)

    assert (4, True) == (done.code, "standard output cannot be written" in done.err)


def test_an_output_by_the_name_of_a_stream_goes_there(prices: Path, tmp_path: Path) -> None:
    """/dev/stdout leads to a file that is open: no reader would see one in its place."""
    words = [sys.executable, "-m", "cdcv2", "as-of", prices, "--output", "/dev/stdout"]
    with open(tmp_path / "out", "w+b") as out:
        done = subprocess.run(words, stdout=out, stderr=subprocess.DEVNULL, check=False)
        out.seek(0)
        assert (0, b"id,price,name\n") == (done.returncode, out.readline())


def test_wrong_usage_leaves_the_output_of_before(run: Run, prices: Path, tmp_path: Path) -> None:
    """CSV of two tables is refused, and the file is not emptied."""
    kept = tmp_path / "keep.csv"
    kept.write_text("before", "utf-8")
    said = run("replay", prices, f"other={prices}", "--csv", "--output", kept)

    assert (2, "before") == (said.code, kept.read_text("utf-8"))
