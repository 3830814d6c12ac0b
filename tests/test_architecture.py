"""The drawing is true: a folder is a box, and a box imports only boxes above it.

Read from the source with `ast`, imports inside functions and under `TYPE_CHECKING` included, so nothing has to be
installed and nothing can hide. There is no list of exceptions.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cdcv2"
JOBS = ROOT / "streaming_jobs"

# From the top of the drawing to the bottom.
BOXES = (
    "core",
    "protocol",
    "capture",
    "reclock",
    "wire",
    "sources",
    "materialize",
    "control",
    "viz",
    "spark",
    "embedded",
    "testing",
    "demo",
)
# What everyone needs: errors and exit codes, the names of steps, the published format, and which version this is.
FOR_EVERYONE = {"errors", "exits", "steps", "schemas", "__version__"}
# What lies beside the boxes and puts them together: the front door, and the command with its sub-commands.
DOORS = {"__init__", "__main__", "cli", "commands"}
# The front door shows what the base install can do, no more.
BEHIND_THE_FRONT_DOOR = {"core", "protocol", "wire"}
# Pure boxes decide: they have no clock and no connection, and one guest.
PURE = ("core", "protocol", "capture", "reclock")
PURE_GUESTS = {"sortedcontainers"}
IMPURE_MODULES = {
    "asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "secrets", "shutil", "signal", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "managers", "misc"}


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def box_of(path: Path) -> str:
    """The box that a file of the package lies in, or its own name when it lies beside the boxes."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, by its full dotted name."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *((node.module,) if node.module else ())))
            # `from cdcv2 import errors` imports the module cdcv2.errors.
            yield from (f"{origin}.{alias.name}" for alias in node.names) if origin == "cdcv2" else (origin,)


def boxes_imported(path: Path) -> Iterator[str]:
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "cdcv2":
            yield rest.partition(".")[0]


def third_parties(path: Path) -> set[str]:
    tops = {name.partition(".")[0] for name in imports(path)}
    return tops - set(sys.stdlib_module_names) - {"cdcv2", "__future__"}


def in_package(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(PACKAGE), ids=in_package)
def test_a_box_imports_only_boxes_above_it(path: Path) -> None:
    """The order of the folders is the order of learning: what is above never needs what is below."""
    box = box_of(path)
    if box in DOORS:
        allowed = BEHIND_THE_FRONT_DOOR if box == "__init__" else {*BOXES, *DOORS}
    else:
        allowed = {box, *BOXES[: BOXES.index(box)]} if box in BOXES else set()

    assert set() == set(boxes_imported(path)) - allowed - FOR_EVERYONE


def test_every_folder_is_a_box() -> None:
    """A folder that is not in the drawing has no place in the order, so nothing could be checked about it."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set() == folders - {*BOXES, *DOORS}


def test_the_map_of_the_readme_is_the_tree() -> None:
    """Every folder of the checkout and of the package is on it, the boxes in their order, and nothing that is not."""
    drawn = (ROOT / "README.md").read_text("utf-8").split("## The map")[1].split("```")[1]
    names, inside = [], ""
    for line in drawn.splitlines()[1:]:
        for indent, first, beside in re.findall(r"^( *)([\w./]+)|[;,] +([\w.]+/?):", line):
            name = first or beside
            inside = "" if first and not indent else inside
            names.append(inside + name)
            inside = name if first and not indent and name.endswith("/") else inside
    folders = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and is_kept(path)}
    boxes = [f"cdcv2/{box}/" for box in BOXES if (PACKAGE / box).is_dir()]

    assert [] == [name for name in names if not (ROOT / name).exists()]
    assert boxes == [name for name in names if name in boxes]
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


@pytest.mark.parametrize("box", PURE)
def test_a_pure_box_has_no_clock_and_no_connection(box: str) -> None:
    """What decides is a function of what it was told, so a test can tell it everything."""
    found = {path: set(imports(path)) & IMPURE_MODULES for path in sources(PACKAGE / box)}
    guests = {path: third_parties(path) - PURE_GUESTS for path in sources(PACKAGE / box)}

    assert {} == {in_package(path): names for path, names in found.items() if names}
    assert {} == {in_package(path): names for path, names in guests.items() if names}


def test_names_say_what_is_inside() -> None:
    """A folder of helpers says only that nobody knew what its content is."""
    folders = [PACKAGE, JOBS, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]
    paths = {path.relative_to(ROOT).with_suffix("") for folder in folders for path in sources(folder)}
    names = {part for path in paths for part in path.parts}

    assert set() == names & MEANINGLESS


@pytest.mark.parametrize("path", sources(JOBS), ids=in_package)
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
