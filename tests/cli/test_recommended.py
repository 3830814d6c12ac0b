"""What a message recommends is there: an option is one of a parser, a line of pip installs an extra that we have."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import pickle
import re
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.control.materialization_file import read_plan
from cdcv2.errors import MissingExtraError
from cdcv2.exits import Exit, exit_of
from tests.cli.conftest import Run
from tests.test_architecture import PACKAGE, ROOT

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
INSTALL = re.compile(r"pip install (?!--)('[^']*'|[^\s`]+)")
#: Options of the programs of others, and of captures that are not there yet, as messages and examples name them.
OTHERS = {
    "--jars", "--py-files", "--packages", "--conf", "--master", "--help", "--version", "--deploy-mode",
    "--properties-file",
    # kafka-acls.sh
    "--add", "--allow-principal", "--operation", "--topic",
    # curl
    "--netrc-file",
    # kafka-configs.sh, as the others of Kafka; and kafka-topics.sh
    "--bootstrap-server", "--partitions",
    "--alter", "--entity-type", "--entity-name", "--add-config",
    # of a capture, where there is a second kind of database
    "--connector",
}


def options(parser: ArgumentParser) -> set[str]:
    """The options that a parser takes."""
    return {option for action in parser._actions for option in action.option_strings}


def sentences(path: Path) -> Iterator[tuple[str, int]]:
    """The texts of a module that are made of several words, docstrings and comments apart; with their lines."""
    tree = ast.parse(path.read_text("utf-8"))
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body and isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation | parts and " " in node.value.strip():
                yield node.value, node.lineno


def of_commands() -> dict[str, set[str]]:
    """Module -> the options of the command, or the job, in it."""
    from cdcv2.spark import materialize, replay
    from cdcv2.spark.capture import job as capture_job

    found = {f"cli/{name.replace('-', '_')}.py": options(parser_of(name)) for name in COMMANDS}
    return found | {
        "spark/capture/job.py": options(capture_job.parser()),
        "spark/remap_capture/job.py": options(capture_job.parser()),
        "spark/materialize.py": options(materialize.parser()), "spark/replay.py": options(replay.parser()),
        "cli/shared_capture.py": found["cli/capture.py"],
    }


def test_an_option_that_a_text_names_is_one_of_its_commands_or_of_some_command() -> None:
    """Of a module that is a command: one of its own, or of a command that the text names."""
    known = of_commands()
    every = set().union(*known.values())
    unknown = []
    # What starts servers has the options of their programs.
    for path in sorted(set(PACKAGE.rglob("*.py")) - set((PACKAGE / "servers").iterdir())):
        module = str(path.relative_to(PACKAGE))
        for text, line in sentences(path):
            named = [known[f"cli/{name.replace('-', '_')}.py"] for name in COMMANDS if name in text.split()]
            taken = OTHERS.union(known.get(module, every), *named)
            unknown += [f"{module}:{line}: {option}" for option in OPTION.findall(text) if option not in taken]

    assert [] == unknown


def extras() -> set[str]:
    """Those that setup.cfg has."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return set(setup["options.extras_require"])


def test_a_line_of_pip_works_in_a_checkout() -> None:
    """In messages, docs, examples and the Makefile: of this checkout, and with extras that it has."""
    places = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").glob("*.md"), *PACKAGE.rglob("*.py")]
    for folder in ("examples", "docs/operations"):
        places += [path for path in (ROOT / folder).iterdir() if path.is_file() and path.suffix != ".png"]
    wrong = []
    for path in places:
        for found in INSTALL.findall(path.read_text("utf-8")):
            asked = re.fullmatch(r"\.(?:\[([\w,{.}]+)\])?", found.strip("'"))
            names = set((asked[1] or "").split(",")) - {"", "{extra}"} if asked else None
            if names is None or names - extras():
                wrong.append(f"{path.relative_to(ROOT)}: {found}")

    assert [] == wrong


def test_a_missing_library_names_an_extra_that_is_there() -> None:
    """One exit code, wherever it is raised."""
    asked = {
        str(argument.value)
        for path in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "MissingExtraError"
        for argument in call.args[1:]
        if isinstance(argument, ast.Constant)
    }
    error = MissingExtraError("Delta tables need deltalake", "delta")

    assert (set(), True) == (asked - extras(), len(asked) > 5)
    assert "Delta tables need deltalake: pip install '.[delta]' in the checkout of cdcv2" == str(error)
    assert (Exit.UNABLE, "delta", "delta") == (exit_of(error), error.extra, pickle.loads(pickle.dumps(error)).extra)


def test_without_a_library_a_command_ends_with_one_code(run: Run, captured: Path, monkeypatch: Any) -> None:
    """Exit 4, and the line that installs it: Kafka's client, PyYAML, psycopg alike."""
    for name in ("confluent_kafka", "yaml", "psycopg"):
        monkeypatch.setitem(sys.modules, name, None)
    said = [
        run("verify", "kafka:orders", "--bootstrap", "x:1", "--row", captured / "rows" / "public.orders.avsc"),
        run("capture", "kafka", "--bootstrap", "x:1", "--prefix", "a", "--rows", captured / "rows", "--into", "x"),
        run("materialize", "shop.yaml"),
        run("rows", "--source", "env", "--table", "public.a"),
    ]

    assert [(4, True)] * 4 == [(one.code, "pip install '.[" in one.err) for one in said]


@pytest.mark.parametrize("more", [[], ["--tables"], ["--doubled"]])
def test_the_demonstration_with_servers_looks_first_whether_it_can_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """In the base install it begins nothing: exit 4 and the extra, not after half a minute of servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None)
    said = run("demo", *more)

    assert (4, "", True) == (said.code, said.out, "pip install '.[demo]'" in said.err)
    assert "cdcv2 demo --small needs none of it" in said.err
    assert [] == list(tmp_path.iterdir())


def test_the_command_alone_prints_its_commands(run: Run) -> None:
    """With exit code 2: nothing was asked for."""
    said = run()

    assert (2, "") == (said.code, said.err)
    assert all(f"\n  {name} " in said.out for name in COMMANDS)


def test_the_commands_of_the_readme_are_taken_by_their_parsers() -> None:
    """A newcomer types them as they stand, from the top."""
    blocks = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("cdcv2 ")]
    for line in lines:
        words = shlex.split(re.split(r" {2,}|#| &$", line)[0])
        parser_of(words[1]).parse_args(words[2:])

    assert {"demo", "init", "doctor", "up", "compare", "as-of", "status"} <= {line.split()[1] for line in lines}


def test_the_file_of_the_way_by_hand_is_taken(captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, on what a capture wrote."""
    (tmp_path / "logs").symlink_to(captured / "logs")
    text = (ROOT / "docs/operations/without-spark.md").read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "shop.yaml").write_text(text, "utf-8")
    monkeypatch.setenv("COPY_PASSWORD", "secret")
    plan = read_plan(str(tmp_path / "shop.yaml"))

    assert ("shop", ["orders"]) == (plan.name, [binding.target for binding in plan.bindings])
