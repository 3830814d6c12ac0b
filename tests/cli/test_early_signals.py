"""Signals at moments at which a command is not ready for them: one line, the exit code of a signal, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdcv2.exits import Exit
from tests.children import CDCV2

#: What interrupts a process when a module is imported, or ends it.
FINDER = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STOP_AT"]:
            os.kill(os.getpid(), int(os.environ["STOP_BY"]))

sys.meta_path.insert(0, Finder())
"""


def stopped(folder: Path, argv: list[str], module: str, number: int) -> subprocess.CompletedProcess[str]:
    """A process that gets a signal at the moment at which it imports a module."""
    (folder / "sitecustomize.py").write_text(FINDER, "utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path, "STOP_AT": module, "STOP_BY": str(int(number))},
    )


@pytest.mark.parametrize("module", ["cdcv2.errors", "cdcv2.logs.read", "cdcv2.cli.main", "cdcv2.cli.verify"])
def test_an_interrupt_while_a_command_is_imported_is_one_line(module: str, tmp_path: Path) -> None:
    """As later on, wherever it is on its way in."""
    ended = stopped(tmp_path, [*CDCV2, "verify", str(tmp_path)], module, signal.SIGINT)

    assert (ended.returncode, ended.stdout) == (Exit.INTERRUPTED, "")
    assert ended.stderr in ("cdcv2: interrupted\n", "cdcv2 verify: interrupted\n")


def test_a_program_that_imports_the_package_has_its_own_answer_to_an_interrupt(tmp_path: Path) -> None:
    """It is not the command: its traceback is its own."""
    ended = stopped(tmp_path, [sys.executable, "-c", "import cdcv2"], "cdcv2.logs.read", signal.SIGINT)

    assert ended.returncode == -signal.SIGINT and ended.stderr.rstrip().endswith("KeyboardInterrupt")


def test_a_command_that_only_looks_states_that_it_was_ended(tmp_path: Path) -> None:
    """By SIGTERM; as every process that does not answer it, it ends by that signal (143 in a shell)."""
    ended = stopped(tmp_path, [*CDCV2, "status", str(tmp_path / "shop.yaml")], "cdcv2.cli.status", signal.SIGTERM)

    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "")
    assert ended.stderr == "cdcv2 status: ended by SIGTERM\n"
