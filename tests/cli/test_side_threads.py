"""A command that ends while a server is still being asked ends with its exit code, and all that it printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: A question that has no answer, and the command as its own process has it.
ASKED = """
import atexit, sys, threading
from cdcv2.cli.main import main
from cdcv2.control.questions import ask_all

atexit.register(print, "Python was taken down")
asked = threading.Event()
ask_all({"server": lambda: asked.wait(SECONDS)}, 0.01)
sys.argv = ["cdcv2", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize("arguments, code", [(["--version"], 0), (["verify", "--no-such-option"], 2)])
def test_python_is_not_taken_down_below_a_question_to_a_server(arguments: list[str], code: int) -> None:
    """The native client that the question is within would be taken apart: that ends in a segmentation fault."""
    ended = run_with(3600, arguments)
    assert ended.returncode == code
    assert "taken down" not in ended.stdout
    assert (ended.stdout or ended.stderr).startswith("cdcv2")


def test_a_command_that_waits_for_no_server_ends_as_python_does() -> None:
    """All that is registered for the end is done."""
    ended = run_with(0, ["--version"])
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "Python was taken down")


def run_with(seconds: int, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The command, after a question whose answer takes so many seconds."""
    code = ASKED.replace("SECONDS", str(seconds))
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
