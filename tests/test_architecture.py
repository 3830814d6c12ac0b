"""The house is as it is drawn: a folder is a box with a declared list of the boxes that it may import.

Read from the source with `ast`, imports inside functions and under `TYPE_CHECKING` included, so nothing has to be
installed: see `import_graph.py`, which states what is not seen, and names each file that imports by a name. Boxes are
judged by what their own files import: a module of another box may import more.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

from tests.import_graph import (
    BY_NAME, attributes, borrowed, by_name, graph_of, imported, nodes_of, outside, sources, unseeded,
)

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
    "control/observations.py", "control/seconds_behind.py",
)  # fmt: skip
# What a pure box may import besides boxes, all of it or a part of it: names for types and values, and nothing that
# looks or acts outside.
PURE_IMPORTS = {
    "__future__", "abc", "bisect", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "decimal",
    "enum", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "sortedcontainers",
    "types", "typing", "zlib",
}  # fmt: skip
# The same, and only these parts: others of these packages read and write files, or draw from the system.
PURE_PARTS = {"pyarrow", "pyarrow.compute", "pyarrow.types", "random.Random"}
# Attributes of these by which a file is read or written, code is reached by its name, or the process is changed.
ACTING = {
    "pyarrow.MemoryMappedFile", "pyarrow.OSFile", "pyarrow.PythonFile", "pyarrow.create_library_symlinks",
    "pyarrow.create_memory_map", "pyarrow.input_stream", "pyarrow.memory_map", "pyarrow.output_stream",
    "pyarrow.set_cpu_count", "pyarrow.set_io_thread_count", "pyarrow.set_memory_pool", "pyarrow.show_info",
    "pyarrow.show_versions", "operator.attrgetter", "operator.methodcaller", "types.CodeType", "types.FunctionType",
}  # fmt: skip
# Of what everybody may import, that which is pure itself; a failpoint ends the process, in tests alone.
PURE_FOR_EVERYONE = {"completeness", "errors", "failpoints", "sql_names", "suggestions"}
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "managers", "misc"}


def box_of_module(parts: tuple[str, ...]) -> str:
    """The box of a module, by its names below the package; its own name where it lies beside the boxes."""
    inner = ".".join(parts[:2])
    return inner if inner in IMPORTS else parts[0]


def box_of(path: Path) -> str:
    """The box that a file of the package lies in."""
    return box_of_module(path.relative_to(PACKAGE).with_suffix("").parts)


def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, anywhere in it, by its full dotted name."""
    return imported(path, PACKAGE)


def test_modules_import_one_way() -> None:
    """No two need each other, inside a box neither, and not by an import in a function, or by the `__init__` of a
    folder; but for what is imported by a name."""
    graph = graph_of(PACKAGE)
    order = [*TopologicalSorter(graph).static_order()]

    assert len(graph) > 500 and {*graph} <= {*order}


def test_what_imports_by_a_name_is_declared() -> None:
    """No reading of imports sees it. Each is there for the reason that stands beside it."""
    found = {in_package(path) for path in sources(PACKAGE) if by_name(path)}

    assert {*BY_NAME} == found


def test_the_names_that_are_imported_late_are_of_views_and_what_needs_them() -> None:
    """The one circle: `cdcv2.materialize` gives them out, and views need the protocol below it."""
    from cdcv2 import materialize

    assert {"cdcv2.materialize.runtime", "cdcv2.views.binding", "cdcv2.views.reductions"} == {
        *materialize._NEEDS_VIEWS.values()
    }
    assert {*materialize._NEEDS_VIEWS} <= {*materialize.__all__}


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
    assert set() == undeclared(path)


def undeclared(path: Path) -> set[str]:
    """The boxes that a file imports, and its own may not."""
    box = box_of(path)
    allowed = {box, *IMPORTS[box].split()} if box in IMPORTS else DOORS.get(box, set())
    return set(boxes_imported(path)) - allowed - FOR_EVERYONE


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

    assert paths and {} == {in_package(path): names for path in paths if (names := impure(path))}


def impure(path: Path) -> set[str]:
    """What a file imports or uses by which it could look or act outside, as far as its own text shows."""
    others = {name for name in imports(path) if name.partition(".")[0] != PACKAGE.name}
    allowed = PURE_IMPORTS | PURE_PARTS
    wrong = {name for name in others - allowed if name.rpartition(".")[0] not in PURE_IMPORTS}
    reached = {name for name in others | attributes(path) if name.rpartition(".")[0] in allowed}
    wrong |= {name for name in reached if name in ACTING or (name not in allowed and holds_module(name))}
    wrong |= outside(path) | unseeded(path) | borrowed(path, PACKAGE)
    return wrong | {*boxes_imported(path)} - {*IMPORTS} - PURE_FOR_EVERYONE


@cache
def holds_module(name: str) -> bool:
    """Whether a name of a module that may be imported is itself a module, as ``contextlib.os`` is."""
    origin, _, last = name.rpartition(".")
    return isinstance(getattr(importlib.import_module(origin), last, None), ModuleType)


def test_names_say_what_is_inside() -> None:
    """The name of a folder of helpers does not show what is in it."""
    folders = [PACKAGE, JOBS, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]
    paths = {path.relative_to(ROOT).with_suffix("") for folder in folders for path in sources(folder)}
    names = {part for path in paths for part in path.parts}

    assert set() == names & MEANINGLESS


@pytest.mark.parametrize("module", ["cdcv2.views.binding", "cdcv2.materialize.protocol.messages"])
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
    nodes = nodes_of(path)
    audits = {
        inner
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name == "check"
        for inner in ast.walk(node)
    }
    wrong = [
        f"line {node.lineno}: {type(node).__name__}"
        for node in nodes
        if (isinstance(node, ast.Assert) and node not in audits)
        or (isinstance(node, ast.ExceptHandler) and node.type is None)
        or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
    ]

    assert [] == wrong
