"""Signals at moments at which a command is not ready for them: one line, the exit code of a signal, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cdcv2.exits import Exit
from tests.children import CDCV2

#: What interrupts a process when a module is imported, or ends it.
FINDER = """
import os, signal, sys

def stop():
    os.kill(os.getpid(), int(os.environ["STOP_BY"]))

class Finalized:
    def __del__(self):
        # What is raised here is printed, and ignored.
        stop()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STOP_AT"]:
            Finalized() if "STOP_IGNORED" in os.environ else stop()

sys.meta_path.insert(0, Finder())
"""


def stopped(
    folder: Path, argv: list[str], module: str, number: int, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """A process that gets a signal at the moment at which it imports a module."""
    (folder / "sitecustomize.py").write_text(FINDER, "utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path, "STOP_AT": module, "STOP_BY": str(int(number)), **environment},
    )


@pytest.mark.parametrize("module", ["cdcv2.errors", "cdcv2.logs.read", "cdcv2.cli.main", "cdcv2.cli.verify"])
def test_an_interrupt_while_a_command_is_imported_is_one_line(module: str, tmp_path: Path) -> None:
    """As later on, wherever it is on its way in."""
    ended = stopped(tmp_path, [*CDCV2, "verify", str(tmp_path)], module, signal.SIGINT)

    assert (ended.returncode, ended.stdout) == (Exit.INTERRUPTED, "")
    assert ended.stderr in ("cdcv2: interrupted\n", "cdcv2 verify: interrupted\n")


@pytest.mark.parametrize("module", ["cdcv2.errors", "cdcv2.cli.verify"])
def test_an_interrupt_that_an_import_would_ignore_ends_the_command(module: str, tmp_path: Path) -> None:
    """As one that is raised in a finalizer: the command went on, with a traceback on its screen."""
    (tmp_path / "log").mkdir()
    ended = stopped(tmp_path, [*CDCV2, "verify", str(tmp_path / "log")], module, signal.SIGINT, {"STOP_IGNORED": "1"})

    assert (ended.returncode, ended.stdout, ended.stderr) == (Exit.INTERRUPTED, "", "cdcv2: interrupted\n")


def test_a_command_that_is_to_ignore_interrupts_ignores_them_while_it_is_imported(tmp_path: Path) -> None:
    """As one that a shell has started behind ``nohup``, or with ``&`` in a script."""
    words = [sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
             "os.execv(sys.argv[1], sys.argv[1:])", *CDCV2, "--version"]
    ended = stopped(tmp_path, words, "cdcv2.logs.read", signal.SIGINT)

    assert (ended.returncode, ended.stderr) == (Exit.DONE, "") and ended.stdout.startswith("cdcv2 ")


def test_a_program_that_imports_the_package_has_its_own_answer_to_an_interrupt(tmp_path: Path) -> None:
    """It is not the command: its traceback is its own."""
    ended = stopped(tmp_path, [sys.executable, "-c", "import cdcv2"], "cdcv2.logs.read", signal.SIGINT)

    assert ended.returncode == -signal.SIGINT and ended.stderr.rstrip().endswith("KeyboardInterrupt")


def test_a_command_that_only_looks_states_that_it_was_ended(tmp_path: Path) -> None:
    """By SIGTERM; as every process that does not answer it, it ends by that signal (143 in a shell)."""
    ended = stopped(tmp_path, [*CDCV2, "status", str(tmp_path / "shop.yaml")], "cdcv2.cli.status", signal.SIGTERM)

    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "")
    assert ended.stderr == "cdcv2 status: ended by SIGTERM\n"
