"""The house is as it is drawn: a folder is a box with a declared list of the boxes that it may import.

Read from the source with `ast`, imports inside functions and under `TYPE_CHECKING` included, so nothing has to be
installed and nothing can hide. There is no list of exceptions.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cdcv2"
JOBS = ROOT / "streaming_jobs"

# Box -> the boxes that it may import, besides itself. A folder in a folder that is named here is a box of its own.
IMPORTS = {
    "core": "",
    "protocol": "core",
    "store": "core",
    "rows": "core protocol store",
    "timeline": "core protocol",
    "logs": "core protocol store rows timeline",
    "capture": "core protocol rows timeline",
    "connectors.debezium": "core protocol store rows logs capture",
    "connectors": "core protocol store rows logs capture connectors.debezium",
    "capture.run": "core protocol store rows timeline logs capture connectors",
    "materialize.protocol": "core rows",
    "views": "core protocol rows materialize.protocol",
    "instances": "core protocol",
    "instances.run": "core protocol store rows timeline logs instances",
    "materialize": "core protocol store rows materialize.protocol views",
    "materialize.targets": "core protocol store rows logs materialize.protocol views materialize",
    "cli.options": "core protocol store rows timeline logs capture connectors capture.run",
    "spark": (
        "core protocol store rows timeline logs capture connectors capture.run views "
        "materialize.protocol materialize materialize.targets cli.options"
    ),
    "spark.jobs": "spark control",
    "servers": "",
    "testing": "core protocol rows views materialize.protocol materialize",
    "viz": "core protocol logs",
    "demo": "core protocol rows timeline logs capture connectors.debezium materialize.targets control servers",
    "control": (
        "core protocol store rows timeline logs capture connectors connectors.debezium capture.run views "
        "materialize.protocol materialize materialize.targets cli.options viz instances.run"
    ),
    "cli": (
        "core protocol store rows timeline logs capture connectors capture.run views "
        "materialize.protocol materialize materialize.targets cli.options control demo viz instances.run"
    ),
}
# What everybody may import: errors, exit codes and whether a retry helps, events, how far something is complete in
# words, named crash points, names in SQL, words that were probably meant, where Spark and its jobs are, how a process
# ends, the published format, and which version this is.
FOR_EVERYONE = {
    "completeness", "early_interrupt", "errors", "event_stream", "events", "exits", "failpoints", "retries",
    "process_end", "sql_names", "suggestions", "schemas", "spark_files", "__version__",
}  # fmt: skip
# What lies beside the boxes: the front door shows what the base install can do, no more.
DOORS = {"__init__": {"core", "protocol", "rows", "logs", "instances.run", "materialize.targets"}, "__main__": {"cli"}}
# Pure boxes decide: they have no clock and no connection; their guests have none either.
PURE = ("core", "protocol", "timeline", "capture", "views", "instances", "materialize.protocol")
# Modules of other boxes that decide, and do nothing else.
PURE_MODULES = (
    "control/entries.py", "control/external_state.py", "control/intents.py", "control/metrics/model.py",
    "control/seconds_behind.py",
)  # fmt: skip
PURE_GUESTS = {"pyarrow", "sortedcontainers"}
IMPURE_MODULES = {
    "asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "secrets", "shutil", "signal", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "managers", "misc"}


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def box_of_module(parts: tuple[str, ...]) -> str:
    """The box of a module, by its names below the package; its own name where it lies beside the boxes."""
    inner = ".".join(parts[:2])
    return inner if inner in IMPORTS else parts[0]


def box_of(path: Path) -> str:
    """The box that a file of the package lies in."""
    return box_of_module(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, anywhere in it, by its full dotted name."""
    return frozenset(imported(path))


def imported(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *((node.module,) if node.module else ())))
            # `from cdcv2 import errors` imports the module cdcv2.errors.
            yield from (f"{origin}.{alias.name}" for alias in node.names) if origin == "cdcv2" else (origin,)


def modules_imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, anywhere in it; of a package the modules that it takes of it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            files = {name for name in inner if (ROOT / f"{name.replace('.', '/')}.py").is_file()}
            names = [*files, *([node.module] if inner - files else [])]
        yield from (name for name in names if name.startswith(f"{PACKAGE.name}."))


def test_modules_import_one_way() -> None:
    """No two need each other, inside a box neither, and not by an import in a function."""
    graph = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): {*modules_imported(path)}
        for path in sources(PACKAGE)
    }
    order = [*TopologicalSorter(graph).static_order()]

    assert len(graph) > 500 and {*graph} <= {*order}


def boxes_imported(path: Path) -> Iterator[str]:
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "cdcv2":
            yield box_of_module(tuple(rest))


def third_parties(path: Path) -> set[str]:
    tops = {name.partition(".")[0] for name in imports(path)}
    return tops - set(sys.stdlib_module_names) - {"cdcv2", "__future__"}


def in_package(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(PACKAGE), ids=in_package)
def test_a_box_imports_only_what_is_declared(path: Path) -> None:
    """Commands and jobs, too: what a box needs is read in one table."""
    box = box_of(path)
    allowed = {box, *IMPORTS[box].split()} if box in IMPORTS else DOORS.get(box, set())

    assert set() == set(boxes_imported(path)) - allowed - FOR_EVERYONE


def test_what_is_declared_has_no_circle_and_no_more_than_is_used() -> None:
    """A list that allows more than is there would let the next import in without a word."""
    used: dict[str, set[str]] = {box: set() for box in IMPORTS}
    for path in sources(PACKAGE):
        if box_of(path) in IMPORTS:
            used[box_of(path)] |= set(boxes_imported(path)) & set(IMPORTS)

    assert {box: set(may.split()) for box, may in IMPORTS.items()} == {box: may - {box} for box, may in used.items()}
    assert set(IMPORTS) == set(TopologicalSorter({box: may.split() for box, may in IMPORTS.items()}).static_order())


def test_every_folder_is_a_box() -> None:
    """A folder that is not declared has no list, so nothing could be checked about it."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set() == folders - set(IMPORTS)


def test_the_map_is_the_tree() -> None:
    """Every folder of the checkout and of the package is on it, and nothing that is not."""
    drawn = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## The map")[1].split("```")[1]
    names, inside = [], ""
    for line in drawn.splitlines()[1:]:
        for indent, first, beside in re.findall(r"^( *)([\w./-]+)|[;,] +([\w.]+/?):", line):
            name = first or beside
            inside = "" if first and not indent else inside
            names.append(inside + name)
            inside = name if first and not indent and name.endswith("/") else inside
    folders = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and is_kept(path)}

    assert [] == [name for name in names if not (ROOT / name).exists()]
    kept = {f"cdcv2/{path.name}/" for path in PACKAGE.iterdir() if path.is_dir() and is_kept(path)}
    assert folders | kept - {"cdcv2/schemas/"} <= set(names)


def is_kept(folder: Path) -> bool:
    """Whether it is of the project, and not what a tool left."""
    made = {"build", "dist", "mutants", "__pycache__"}
    hidden = folder.name.startswith(".") and folder.name != ".ci"
    return not (folder.name in made or hidden or folder.name.endswith(".egg-info"))


def test_only_the_spark_box_imports_pyspark() -> None:
    """The decisions are made in pure code; a Spark of another version touches one folder."""
    importers = {box_of(path) for path in sources(PACKAGE) if third_parties(path) & {"pyspark", "py4j"}}

    assert set() == importers - {"spark"}


@pytest.mark.parametrize("part", [*PURE, *PURE_MODULES])
def test_what_is_pure_has_no_clock_and_no_connection(part: str) -> None:
    """What decides is a function of its arguments, so a test can pass it everything."""
    module = [PACKAGE / part] if part in PURE_MODULES else []
    paths = module or [path for path in sources(PACKAGE) if box_of(path) == part]
    found = {path: set(imports(path)) & IMPURE_MODULES for path in paths}
    guests = {path: third_parties(path) - PURE_GUESTS for path in paths}

    assert {} == {in_package(path): names for path, names in found.items() if names}
    assert {} == {in_package(path): names for path, names in guests.items() if names}


def test_names_say_what_is_inside() -> None:
    """The name of a folder of helpers does not show what is in it."""
    folders = [PACKAGE, JOBS, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]
    paths = {path.relative_to(ROOT).with_suffix("") for folder in folders for path in sources(folder)}
    names = {part for path in paths for part in path.parts}

    assert set() == names & MEANINGLESS


@pytest.mark.parametrize("module", ["cdcv2.views.combine", "cdcv2.materialize.protocol.messages"])
def test_a_view_can_be_imported_first(module: str) -> None:
    """As a worker of Spark does, to which a view was sent: the package of the protocol needs views itself."""
    subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", sources(JOBS) + sources(PACKAGE / "spark" / "jobs"), ids=in_package)
def test_a_job_holds_nothing_but_its_start(path: Path) -> None:
    """What is in a job can be tried only by spark-submit, so next to nothing may be in it."""
    assert len(path.read_text("utf-8").splitlines()) < 60


@pytest.mark.parametrize("path", sources(PACKAGE) + sources(JOBS), ids=in_package)
def test_nothing_is_swallowed_and_nothing_validates_by_assert(path: Path) -> None:
    """`python -O` removes an assert, a bare except hides what it was not meant for, a star hides where a name is from.

    A method called `check` audits its own structure for the tests; there an assert is the point.
    """
    tree = ast.parse(path.read_text("utf-8"), str(path))
    audits = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "check"
        for inner in ast.walk(node)
    }
    wrong = [
        f"line {node.lineno}: {type(node).__name__}"
        for node in ast.walk(tree)
        if (isinstance(node, ast.Assert) and node not in audits)
        or (isinstance(node, ast.ExceptHandler) and node.type is None)
        or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
    ]

    assert [] == wrong
