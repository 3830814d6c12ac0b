"""An option that a text names is one of the program that prints it: an error's advice can be followed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.cli.options.capture_options import OPTIONS
from tests.cli.test_help_examples import JOBS
from tests.import_graph import imported, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cdcv2"
#: Program -> its module.
MODULES = {name: f"cdcv2.cli.{name.replace('-', '_')}" for name in COMMANDS} | {
    "capture.py": "cdcv2.spark.capture.job", "replay.py": "cdcv2.spark.replay",
    "materialize.py": "cdcv2.spark.materialize",
}
#: Options of programs of others: spark-submit, and what Kafka comes with.
OF_OTHERS = {"--jars", "--packages", "--py-files", "--conf", "--master", "--properties-file", "--deploy-mode"}
#: Module and option of another program, which the text names in other words than ``cdcv2 NAME``.
NAMED_OTHERWISE = {("cdcv2.cli.open_transactions", "--remap")}
_WORD = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def options(program: str) -> set[str]:
    """All that it takes today; words of before are no advice."""
    parser = JOBS[program.removesuffix(".py")]() if program.endswith(".py") else parser_of(program)
    # Some are there only where there is a choice.
    several = {one.name for one in OPTIONS if one.several} if program.startswith("capture") else set()
    return {*parser._option_string_actions, *several}


OPTIONS_OF = {program: options(program) for program in MODULES}


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PATHS = {name_of(path): path for box in ("cli", "spark") for path in sources(PACKAGE / box)}


@cache
def reached(module: str) -> frozenset[str]:
    """The modules of these two boxes that a program loads, itself included."""
    found, left = {module}, [module]
    while left:
        for other in imported(PATHS[left.pop()], PACKAGE):
            if other in PATHS and other not in found:
                found.add(other)
                left.append(other)
    return frozenset(found)


def raised(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text, as far as it is written there, of each error that a file raises."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Raise):
            constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            yield node.lineno, " ".join(text for text in constants if isinstance(text, str))


def test_an_error_names_options_of_its_own_program() -> None:
    """Of one that loads the module, or of the command that the text names."""
    wrong, tried = [], 0
    for module, path in PATHS.items():
        own = {program for program, of in MODULES.items() if module in reached(of)} or set(MODULES)
        known = OF_OTHERS.union(*(OPTIONS_OF[program] for program in own))
        for line, text in raised(path):
            named = re.findall(r"cdcv2 ([a-z-]+)", text)
            there = known.union(*(OPTIONS_OF[name] for name in named if name in OPTIONS_OF))
            for word in _WORD.findall(text):
                tried += 1
                if word not in there and (module, word) not in NAMED_OTHERWISE:
                    wrong.append((f"{path.relative_to(ROOT)}:{line}", word))

    assert [] == wrong
    assert tried > 60


def test_a_module_is_judged_by_the_commands_that_load_it() -> None:
    """So the rule has force: what compares with a source asks for no --table, which other commands have."""
    loading = {program for program, of in MODULES.items() if "cdcv2.cli.compare_source" in reached(of)}

    assert {"compare", "repair"} == loading
    assert "--table" in OPTIONS_OF["as-of"] and not any("--table" in OPTIONS_OF[program] for program in loading)
