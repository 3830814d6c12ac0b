"""The command's own part: the right sub-command, the right exit code, and no more words than needed."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cdcv2 import __version__, errors
from cdcv2.cli import verify
from cdcv2.cli.main import COMMANDS, PARTS, _module, command
from cdcv2.exits import Exit, exit_of
from cdcv2.protocol.messages import Progress, Updates
from tests.children import CDCV2, started
from tests.cli.conftest import Run, price, write
from tests.test_architecture import PACKAGE


def test_help_lists_every_command(run: Run) -> None:
    """Each in one line."""
    said = run("--help")

    assert (0, "") == (said.code, said.err)
    assert set() == {name for name in COMMANDS if f"  {name} " not in said.out}
    assert (0, f"cdcv2 {__version__}\n", "") == run("--version")


def test_a_command_is_in_one_part_of_the_help(run: Run) -> None:
    """A newcomer sees which few are for a start; one that is in no part is listed last."""
    named = [name for names in PARTS.values() for name in names.split()]
    listed = re.findall(r"^  ([a-z-]+)  +\w", run("--help").out.split("\nexamples:")[0].split("\n\n", 4)[4], re.M)

    assert sorted(COMMANDS) == sorted(listed)
    assert listed[:len(named)] == named and set(named) <= set(COMMANDS)
    assert ["init", "doctor", "up"] == named[:3]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_has_examples_and_exit_codes(run: Run, command: str) -> None:
    """A newcomer copies an example; a script reads the code."""
    said = run(command, "--help")

    assert (0, "") == (said.code, said.err)
    assert f"  cdcv2 {command} " in said.out.partition("examples:")[2]
    shown = {code for code in Exit if f"  {int(code)} " in said.out.partition("exit codes:")[2]}
    assert shown == {code for code in Exit if code not in (Exit.MISSING, Exit.WRONG) or code in own_exits(command)}


@pytest.mark.parametrize("code", [Exit.MISSING, Exit.WRONG])
def test_the_page_of_exit_codes_names_the_commands_that_end_with_a_code(code: Exit) -> None:
    """Each command that has a meaning of its own for it, and no other."""
    page = (PACKAGE.parent / "docs" / "operations" / "exit-codes.md").read_text("utf-8")
    part = page.split(f"\n## Code {int(code)}\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)(?: --[a-z-]+)?`", part))

    assert {name for name in COMMANDS if code in own_exits(name)} == named & set(COMMANDS)


def own_exits(command: str) -> Mapping[Exit, str]:
    """What exit codes mean of one command, beside those that mean the same everywhere."""
    exits: Mapping[Exit, str] = getattr(_module(command), "EXITS", {})
    return exits


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["frobnicate"], "invalid choice: 'frobnicate' (choose from 'capture'"),
        (["verifi"], "invalid choice: 'verifi'; did you mean verify? (see"),
        (["verify", "log", "--ful"], "unrecognized arguments: --ful; did you mean --full?"),
        (["verify"], "required: LOG"),
        (["verify", "log", "--fool"], "unrecognized arguments: --fool"),
        (["--fool", "verify"], "unrecognized arguments: --fool"),
        (["capture", "--out", "x", "--tables", "a"], "unrecognized arguments: --out (see"),
        (["capture", "--row=x", "--intoo", "y"], "unrecognized arguments: --row --intoo; did you mean --rows? (see"),
        (["capture", "--rows", "r"], "required: --into (see"),
        (["rows", "--table", "t", "--sorce", "x"], "unrecognized arguments: --sorce; did you mean --source? (see"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(run: Run, words: list[str], what: str) -> None:
    """With the place where to read more."""
    said = run(*words)

    assert (2, "", 1) == (said.code, said.out, said.err.count("\n"))
    assert what in said.err and "--help)" in said.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.MissingLogError("x"), 2),
        (errors.IncompleteError("x"), 1),
        (errors.MalformedError("x"), 3),
        (errors.DecodeError("x"), 3),
        (errors.ContradictionError("count", 3, 1, 2), 3),
        (errors.UnavailableError("x"), 4),
        (errors.OutputError("x"), 4),
        (errors.ForeignStateError("x"), 4),
        (errors.UnsafeTopicError("x"), 4),
        (errors.SourceStop("x", "y"), 4),
    ],
)
def test_every_error_has_its_exit_code_and_no_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: errors.Cdcv2Error, code: int
) -> None:
    """The text is one line, whatever it quotes."""

    def fail(args: argparse.Namespace) -> Exit:
        raise error

    monkeypatch.setattr(verify, "run", fail)
    said = run("verify", "log")

    assert (code, f"cdcv2 verify: {error}\n") == (said.code, said.err)
    assert code == exit_of(error)


def test_a_mistake_of_ours_shows_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its exit code is none with a meaning for a log."""

    def fail(args: argparse.Namespace) -> Exit:
        raise KeyError("oh")

    monkeypatch.setattr(verify, "run", fail)
    said = run("verify", "log")

    assert (70, True) == (said.code, "Traceback" in said.err)
    assert "a mistake in cdcv2" in said.err.splitlines()[-1]


def test_ctrl_c_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell expects it: 128 and the signal's number."""

    def interrupted(args: argparse.Namespace) -> Exit:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "run", interrupted)

    assert (130, "", "cdcv2 verify: interrupted\n") == run("verify", "log")


def test_a_warning_of_the_package_is_said_with_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only while the command runs."""

    def warn(args: argparse.Namespace) -> Exit:
        logging.getLogger("cdcv2.connectors").warning("assumed")
        return Exit.DONE

    monkeypatch.setattr(verify, "run", warn)

    assert (0, "", "cdcv2 verify: assumed\n") == run("verify", "log")
    assert [] == logging.getLogger("cdcv2").handlers


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose text is more than a pipe holds."""
    rows = [(price(number, None, "x" * 50), 1, 1) for number in range(4000)]
    return write(tmp_path_factory.mktemp("long") / "log", Updates(rows), Progress([0], [2], {1: 4000}))


def test_a_reader_that_goes_away_ends_it_quietly(long_log: Path) -> None:
    """As `cdcv2 inspect LOG | head` does."""
    with started(*CDCV2, "inspect", str(long_log)) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said, code = process.stderr.read(), process.wait(180)

    assert (141, "") == (code, said)


def test_an_interrupt_while_it_writes_is_one_line(long_log: Path) -> None:
    """The pipe is full, so it waits; then Ctrl-C comes."""
    with started(*CDCV2, "replay", str(long_log)) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        said, code = process.stderr.read(), process.wait(180)

    assert (130, "cdcv2 replay: interrupted\n") == (code, said)


def test_a_full_disk_is_told(long_log: Path) -> None:
    """Output that cannot be written is lost: exit 4."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [*CDCV2, "verify", str(long_log)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=180, check=False
        )

    assert (4, 1) == (done.returncode, done.stderr.count("\n"))
    assert "standard output cannot be written: No space left on device" in done.stderr


def test_only_what_is_asked_for_is_imported(long_log: Path) -> None:
    """Verifying a directory needs no Kafka, no Spark, no bar, and none of the other commands."""
    script = (
        "import sys, json\n"
        "from cdcv2.cli.main import main\n"
        f"code = main(['verify', {str(long_log)!r}])\n"
        "print(json.dumps([code, sorted(name for name in sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    other = {"cdcv2.cli.replay", "cdcv2.capture.run.commit_times"}
    unwanted = {"confluent_kafka", "pyspark", "psycopg", "pandas", *other}

    assert (0, set()) == (code, unwanted & set(modules))


def test_the_console_script_is_this_command() -> None:
    """What pip installs, and `python -m cdcv2`, are the same."""
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="cdcv2")

    assert command is script.load()
