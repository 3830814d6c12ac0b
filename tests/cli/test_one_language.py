"""Commands and jobs on Spark speak one language: one meaning for a word, one word for a meaning, old words taken."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.errors import UsageError
from tests.cli.conftest import Run
from tests.cli.test_command_capture import words as capture_words
from tests.cli.test_help_examples import JOBS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations" / "options.md"
CAPTURE = ["--prefix", "p", "--rows", "r"]
READ = ["--state", "s", "--output", "o"]


def parsers() -> dict[str, OptionParser]:
    """Program -> its parser: each command, each job."""
    return {f"cdcv2 {name}": parser_of(name) for name in COMMANDS} | {
        f"{name}.py": parser() for name, parser in JOBS.items()
    }


def declared() -> Iterator[tuple[str, str, argparse.Action]]:
    """Each argument of each program: the program, the word (of one without an option: its metavar), what it takes."""
    for program, parser in parsers().items():
        for action in parser._actions:
            for word in action.option_strings or [str(action.metavar)]:
                if word not in ("-h", "--help"):
                    yield program, word, action


def meaning(action: argparse.Action) -> str:
    """What a help begins with: the rest is what this program adds."""
    return re.split(r"[:;,(]", action.help or "")[0].strip()


def shape(action: argparse.Action) -> tuple[Any, ...]:
    """What a word takes: a value or none, once or often, of which type, and how the help shows it."""
    kind = getattr(action.type, "__name__", action.type)
    choices = None if action.choices is None else tuple(action.choices)
    often = action.nargs if action.option_strings else None
    return type(action).__name__, action.metavar, kind, choices, often


def test_a_word_has_one_meaning() -> None:
    """It takes the same, and its help begins with the same, in every program that has it."""
    found: defaultdict[str, defaultdict[tuple[Any, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for program, word, action in declared():
        own = shape(action) if action.option_strings else ()
        found[word][(*own, meaning(action))].append(program)

    assert {} == {word: dict(several) for word, several in found.items() if len(several) > 1}
    assert {"--into", "--follow", "--rows", "LOG", "FROM"} < {word for word, (one,) in (
        (word, several.values()) for word, several in found.items()) if len(one) > 1}


def test_a_meaning_has_one_word() -> None:
    """No two words have a help that begins with the same; and none has no help."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for _, word, action in declared():
        found[meaning(action)].add(word)

    # A remap is named with a word by who has logs to name, too; it is the same.
    assert {"a shared remap": {"REMAP", "--remap"}} == {text: words for text, words in found.items() if len(words) > 1}
    assert "" not in found


def table(*rows: tuple[str, ...]) -> list[str]:
    """Rows of a page."""
    return [f"| {' | '.join(row)} |" for row in rows]


def test_every_word_is_on_the_page() -> None:
    """Who adds an option adds it there, among the words for what there is already; it is what this renders."""
    found: dict[str, tuple[str, list[str]]] = {}
    for program, word, action in declared():
        found.setdefault(word, (meaning(action), []))[1].append(program.removeprefix("cdcv2 "))
    rows = [(f"`{word}`", text, ", ".join(names)) for word, (text, names) in sorted(found.items()) if word[0] == "-"]

    assert table(*rows) == [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `--")]


def test_every_old_word_is_in_the_changes() -> None:
    """With what it is now; no help shows it, and no program has it as a word of its own."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for program, parser in parsers().items():
        for old, (new, meant) in parser.old.items():
            plain = {"{}": "no word", "--row={}": "--row", "--source=service:{}": "--source service:NAME"}.get(new, new)
            plain = plain.replace("=", " ").replace("{}", "FILE")
            assert f"`{old}` → `{plain}`".replace("`no word`", "no word") in changes, (program, old, plain)
            assert meant is not None or not re.search(rf"(?<![\w-]){old}(?![\w-])", parser.format_help()), old


OLD = {
    "capture.py dumps": (["--files", "d", *CAPTURE, "--logs", "kafka:l", "--available-now", "--log-partitions=2"],
                         ["d", *CAPTURE, "--into", "kafka:l", "--no-follow", "--partitions", "2"]),
    "capture.py kafka": ([*CAPTURE, "--bootstrap", "b", "--logs=l", "--max-offsets-per-trigger", "5", "--name", "n"],
                         [*CAPTURE, "--bootstrap", "b", "--into", "l", "--max-records", "5", "--app-name", "n"]),
    "replay.py": (["--log", "a=kafka:x", "--rows", "a=f.avsc", *READ, "--log=kafka:y", "--max-messages", "3"],
                  ["a=kafka:x", "kafka:y", "--row", "a=f.avsc", *READ, "--max-records", "3"]),
    "replay.py types": (["--log", "kafka:y", *READ, "--rows", "rows", "--available-now", "--name", "n"],
                        ["kafka:y", *READ, "--rows", "rows", "--no-follow", "--app-name", "n"]),
    "materialize.py": (["f.yaml", "--state", "s", "--name=n", "--max-messages=3", "--available-now"],
                       ["f.yaml", "--state", "s", "--app-name", "n", "--max-records", "3", "--no-follow"]),
    "cdcv2 capture": (["d", *CAPTURE, "--into", "l", "--release-every", "5", "--name", "n", "--remap", "r"],
                      ["d", *CAPTURE, "--into", "l", "--max-records", "5", "--bind-as", "n", "--remap", "r"]),
    "cdcv2 materialize": (["f.yaml", "--every", "2"], ["f.yaml", "--report-every", "2"]),
    "cdcv2 compare": (["f.yaml", "--source", "env", "--table", "a=s.b"],
                      ["f.yaml", "--source", "env", "--source-table", "a=s.b"]),
    "cdcv2 inspect": (["kafka:r", "--remap"], ["kafka:r", "--bindings"]),
    "cdcv2 resolve": (["q", "4f", "--row", "{}", "--diff", "1"], ["q", "4f", "--data", "{}", "--diff", "1"]),
    "cdcv2 rows": (["--from-postgres", "--table", "s.t"], ["--source", "env", "--table", "s.t"]),
    "cdcv2 rows service": (["--service", "shop", "--from-postgres", "--table", "s.t"],
                           ["--source", "service:shop", "--table", "s.t"]),
    "cdcv2 rows file": (["--from-postgres", "--dsn-file=x", "--table", "s.t"],
                        ["--source", "file:x", "--table", "s.t"]),
    "cdcv2 demo tables": (["--tables"], ["--targets"]),
    "cdcv2 demo doubled": (["--doubled"], ["--two-captures"]),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_an_old_word_means_what_it_meant(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The arguments are the same, and one line names the words of now."""
    old, new = OLD[name]
    parser = next(parser for program, parser in parsers().items() if name.startswith(program))
    expected = vars(parser.parse_args(new))
    assert "" == capsys.readouterr().err

    assert expected == vars(parser.parse_args(old))
    said = capsys.readouterr().err.splitlines()
    assert (1, True) == (len(said), said[0].startswith(f"{parser.prog}: --")), said


def test_every_old_word_was_tried() -> None:
    """Of every program, the one for types in a job included."""
    tried = {(program, word.partition("=")[0]) for program, _ in parsers().items() for name, (old, _) in OLD.items()
             if name.startswith(program) for word in old}  # fmt: skip

    assert set() == {(program, old) for program, parser in parsers().items() for old in parser.old} - tried


@pytest.mark.parametrize("again", ["--tables=b", "--tables b"])
def test_a_list_is_given_once(again: str) -> None:
    """The last one would count alone, and without a word."""
    parser = OptionParser("p", None)
    parser.add_argument("--tables", metavar="A,B")
    parser.add_argument("--at", metavar="TIME")
    assert "b" == parser.parse_args(["--tables", "b", "--at", "1", "--at", "2"]).tables
    with pytest.raises(UsageError, match="--tables is given 2 times: give it once, with commas: --tables A,B"):
        parser.parse_args(["--tables", "a", *again.split()])


def test_behind_two_hyphens_nothing_is_an_option() -> None:
    """An argument there is what it is, an old word or not; and one that lacks its value is no argument."""
    parser = parser_of("resolve")

    assert "--row" == parser.parse_args(["--json", "--", "--row"]).folder
    with pytest.raises(UsageError, match="expected one argument"):
        parser.parse_args(["q", "4f", "--row"])


def test_a_command_with_an_old_word_runs(run: Run, captured: Path, tmp_path: Path) -> None:
    """With one line beside its other lines."""
    now = run(*capture_words(captured, tmp_path / "now"), "--max-records", 100)
    old = run(*capture_words(captured, tmp_path / "old"), "--release-every", 100)

    assert (now.code, now.out) == (old.code, old.out)
    # A run that takes long has lines about how far it is, by the clock.
    first, *_, last = old.err.splitlines()
    assert ("cdcv2 capture: --release-every is --max-records now", now.err.splitlines()[-1]) == (first, last)
