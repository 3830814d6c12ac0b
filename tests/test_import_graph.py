"""The test of the tests in `test_architecture.py`: in small packages, what each of them has to see."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests import test_architecture
from tests.import_graph import by_name, graph_of, imported
from tests.test_architecture import impure, undeclared

Probe = Callable[[str], Path]


def made(root: Path, files: dict[str, str]) -> Path:
    """A package of these files, and of the folders that they need."""
    for name, text in files.items():
        path = root / "cdcv2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for folder in {path.parent for path in (root / "cdcv2").rglob("*.py")} | {root / "cdcv2"}:
        (folder / "__init__.py").touch()
    return root / "cdcv2"


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Writes a file of the box `capture`, in a package with a few others."""
    empty = ("event_stream.py", "errors.py", "capture/run/records.py", "capture/facts.py", "core/order.py",
             "spark/reader.py", "spark/jobs/capture.py")  # fmt: skip
    package = made(tmp_path, dict.fromkeys(empty, "") | {"errors.py": "import os\nfrom os import environ"})
    monkeypatch.setattr(test_architecture, "PACKAGE", package)

    def write(text: str) -> Path:
        path = package / "capture" / "probe.py"
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("from cdcv2.capture import run", "capture.run"),
        ("from cdcv2.capture.run import records", "capture.run"),
        ("def f():\n    from . import run", "capture.run"),
        ("from .run.records import x", "capture.run"),
        ("from cdcv2.spark import jobs", "spark.jobs"),
        ("from cdcv2.spark import reader as x", "spark"),
        ("import cdcv2.spark.reader", "spark"),
        ("from cdcv2 import spark", "spark"),
        ("if TYPE_CHECKING:\n    from cdcv2.spark.reader import x", "spark"),
    ],
)
def test_a_box_that_is_not_declared_is_seen(probe: Probe, text: str, box: str) -> None:
    """However it is imported: from its parent, by a relative import, in a function, for types alone."""
    assert {box} == undeclared(probe(text))


def test_what_is_declared_is_not_refused(probe: Probe) -> None:
    """Modules and names of modules, of the own box and of others."""
    path = probe("from cdcv2.capture import facts\nfrom cdcv2.core import order\nfrom cdcv2 import errors\nimport json")

    assert set() == undeclared(path) | impure(path) | by_name(path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f():\n    open('x', 'w')", "open"),
        ("f = open", "open"),
        ("print(1)", "print"),
        ("import pyarrow.parquet as pq", "pyarrow.parquet"),
        ("from pyarrow import parquet", "pyarrow.parquet"),
        ("from pyarrow.fs import LocalFileSystem", "pyarrow.fs.LocalFileSystem"),
        ("import sqlite3", "sqlite3"),
        ("import urllib.request", "urllib.request"),
        ("from urllib import request", "urllib.request"),
        ("import random", "random"),
        ("from random import random", "random.random"),
        ("import http.client", "http.client"),
        ("import concurrent.futures", "concurrent.futures"),
        ("from concurrent import futures", "concurrent.futures"),
        ("import queue", "queue"),
        ("from datetime import datetime", "datetime.datetime"),
        ("import time", "time"),
        ("import sys", "sys"),
        ("import numpy", "numpy"),
        ("from cdcv2 import event_stream", "event_stream"),
        ("import importlib", "importlib"),
        ("import pyarrow as pa\npa.OSFile('x').read()", "pyarrow.OSFile"),
        ("import pyarrow\npyarrow.memory_map('x')", "pyarrow.memory_map"),
        ("from contextlib import os", "contextlib.os"),
        ("import contextlib as c\nc.os.getcwd()", "contextlib.os"),
        ("from collections import _sys", "collections._sys"),
        ("import operator\noperator.attrgetter('os.environ')", "operator.attrgetter"),
        ("from types import FunctionType", "types.FunctionType"),
        ("from cdcv2.errors import os", "cdcv2.errors.os"),
        ("from cdcv2 import errors as e\ne.os.environ", "cdcv2.errors.os"),
        ("from cdcv2.errors import environ", "cdcv2.errors.environ"),
        ("from random import Random\nRandom()", "Random()"),
        ("from random import Random\nRandom(None)", "Random(None)"),
    ],
)
def test_what_looks_or_acts_outside_is_seen_in_a_pure_box(probe: Probe, text: str, name: str) -> None:
    """Whatever is not on the list, too."""
    assert {name} == impure(probe(text))


@pytest.mark.parametrize(
    "text",
    [
        "import pyarrow as pa", "import pyarrow.compute as pc", "from collections.abc import Iterator",
        "import collections.abc", "from random import Random", "def f(open_rows, x):\n    x.open()",
        "from sortedcontainers import SortedDict", "from collections import abc",
        "import pyarrow as pa\npa.types.is_map(pa.null())",
        "import collections\ncollections.abc.Iterator", "from random import Random\nRandom(7)",
        "import pyarrow as pa\npa.table({})", "from cdcv2.errors import CdcError",
    ],
)  # fmt: skip
def test_what_decides_alone_is_not_refused(probe: Probe, text: str) -> None:
    """The list is not longer than it has to be, and not shorter."""
    assert set() == impure(probe(text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import importlib\nimportlib.import_module('cdcv2.spark.reader')", {"importlib"}),
        ("from importlib import import_module", {"importlib.import_module"}),
        ("import importlib.util", {"importlib.util"}),
        ("import importlib.resources", {"importlib.resources"}),
        ("import runpy, pkgutil", {"runpy", "pkgutil"}),
        ("from builtins import __import__ as f", {"builtins.__import__"}),
        ("__import__('cdcv2.spark.reader')", {"__import__"}),
        ("exec('import cdcv2.spark')", {"exec"}),
        ("import sys\nsys.modules['cdcv2.cli.main']", {"sys.modules"}),
        ("import sys as s\ns.modules", {"sys.modules"}),
        ("from sys import modules as m", {"sys.modules"}),
        ("from pydoc import locate", {"pydoc.locate"}),
        ("__builtins__['__import__']('cdcv2.spark')", {"__builtins__"}),
        ("from importlib import resources\nfrom importlib.resources import files\nimport re\nre.compile('x')", set()),
    ],
)
def test_what_imports_by_a_name_is_seen(probe: Probe, text: str, names: set[str]) -> None:
    """In any box; files of the package are read by their names, and import nothing."""
    assert names == by_name(probe(text))


@pytest.mark.parametrize(
    "files",
    [
        {"a/x.py": "import cdcv2.a.y", "a/y.py": "from cdcv2.a import x"},
        {"a/x.py": "def f():\n    from . import y", "a/y.py": "from .x import f"},
        # The folder's __init__ runs before what is in it.
        {"a/__init__.py": "from cdcv2.b.x import f", "a/inner/x.py": "", "b/x.py": "import cdcv2.a.inner.x"},
    ],
)
def test_a_circle_is_seen(tmp_path: Path, files: dict[str, str]) -> None:
    """Inside a box, by an import in a function, and by the folders that a module lies in."""
    with pytest.raises(CycleError):
        TopologicalSorter(graph_of(made(tmp_path, files))).prepare()


def test_a_folder_that_gives_out_what_lies_in_it_is_no_circle(tmp_path: Path) -> None:
    """It is imported already when what is in it is."""
    files = {"a/__init__.py": "from cdcv2.a.x import f", "a/x.py": "from cdcv2.a import y", "a/y.py": "", "b.py": ""}
    graph = graph_of(made(tmp_path, files | {"b.py": "from cdcv2.a.x import f"}))

    assert {"cdcv2.a.y"} == graph["cdcv2.a.x"] and {"cdcv2.a", "cdcv2.a.x"} == graph["cdcv2.b"]
    TopologicalSorter(graph).prepare()


def test_what_is_no_module_is_a_name_of_one(tmp_path: Path) -> None:
    """Of others it is not known without them."""
    package = made(tmp_path, {"a/x.py": "from cdcv2.a.y import z\nfrom os import path", "a/y.py": ""})

    assert {"cdcv2.a.y", "os.path"} == {*imported(package / "a" / "x.py", package)}
