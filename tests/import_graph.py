"""What files of the package import: read from their source, imports inside functions and for types alone included.

What is computed is not seen, nor what a module that may be imported does itself. Attributes of an imported module are
read where they stand behind its name, as in ``pa.OSFile``: see :func:`attributes`. Modules that are imported by a name
are refused, see :data:`BY_NAME`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

#: The files that import or make something by a name or a text, which no reading of imports sees, or could, and why.
BY_NAME = {
    "cdcv2/cli/main.py": "the module of a sub-command, when it is called: others need not be loaded",
    "cdcv2/materialize/__init__.py": "the public names that need views, which need the protocol in the same folder",
    "cdcv2/process_end.py": "whether the client of Kafka was imported",
    "cdcv2/rows/binary.py": "a codec is compiled for each row type, from a text that names no module",
    "cdcv2/servers/postgres.py": "whether a package is installed, and where its files are",
    "cdcv2/servers/spark_home.py": "whether a package is installed",
    "cdcv2/spark_files.py": "whether a package is installed, and where its files are",
}
_HARMLESS = {"importlib.resources", "importlib.metadata"}
_IMPORTERS = {"importlib", "pkgutil", "pydoc", "runpy", "zipimport", "builtins"}
_CALLS = {"__import__", "__builtins__", "__loader__", "__spec__", "eval", "exec", "compile"}
#: Names that every module has, by which it reads or writes something.
_OUTSIDE = {"open", "print", "input", "breakpoint"}


def sources(folder: Path) -> list[Path]:
    """The files of Python in it."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def imported(path: Path, package: Path) -> frozenset[str]:
    """Every module that a file of a package imports, anywhere in it, by its full dotted name.

    ``from X import Y`` imports X.Y where that is a module of the package, and else X. Of others it is named as X.Y:
    whether that is a module is not known without it.
    """
    return frozenset(_imported(path, package))


def _imported(path: Path, package: Path) -> Iterator[str]:
    root = package.parent
    inside = path.relative_to(root).parent.parts
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *((node.module,) if node.module else ())))
            names = {f"{origin}.{alias.name}" for alias in node.names}
            modules = {name for name in names if is_module(root, name)}
            if origin == package.name:
                # What the front door itself has is named, too.
                yield from names
            elif origin.partition(".")[0] == package.name:
                yield from modules
                yield from [origin] if names - modules else []
            else:
                yield from names


def is_module(root: Path, name: str) -> bool:
    """Whether a dotted name is that of a file, or of a folder with one."""
    path = root / name.replace(".", "/")
    return path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()


def graph_of(package: Path) -> dict[str, set[str]]:
    """Module of a package -> the modules of it that must have run before it.

    With a module, its folders are imported, up to one that the importer lies in, too: what is in their ``__init__``
    runs first. Where a file imports by a name, its imports for types alone are not counted: see :data:`BY_NAME`.
    """
    root, graph = package.parent, dict[str, set[str]]()
    for path in sources(package):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for_types = typed(path, package) if path.relative_to(root).as_posix() in BY_NAME else set()
        wanted = {one for one in imported(path, package) - for_types if one.partition(".")[0] == package.name}
        graph[name] = {one for inner in wanted for one in with_folders(inner) if is_module(root, one)}
        graph[name] -= {*with_folders(name)}
    return graph


def with_folders(name: str) -> list[str]:
    """A module, and the folders that it lies in.

    >>> with_folders("a.b.c")
    ['a', 'a.b', 'a.b.c']
    """
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def typed(path: Path, package: Path) -> set[str]:
    """What a file imports at its outermost ``if TYPE_CHECKING``."""
    blocks = (node.body for node in _tree(path).body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
              and node.test.id == "TYPE_CHECKING")  # fmt: skip
    froms = [one for block in blocks for one in block if isinstance(one, ast.ImportFrom)]
    origins = {one.module for one in froms if one.module}
    return origins | {f"{one.module}.{alias.name}" for one in froms for alias in one.names}


def by_name(path: Path) -> set[str]:
    """By what a file imports something by a name, or runs a text: modules and names that can."""
    found = set[str]()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] in _IMPORTERS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _IMPORTERS:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= set() if node.module in _HARMLESS else names - _HARMLESS
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            found |= {"sys.modules" for alias in node.names if alias.name == "modules"}
        elif isinstance(node, ast.Name) and node.id in _CALLS:
            found.add(node.id)
    return found | {"sys.modules"} & attributes(path)


def attributes(path: Path) -> set[str]:
    """The attributes of modules that a file uses behind the name of the module, whatever it calls that: full names."""
    modules = dict[str, str]()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            tops = (one.name.partition(".")[0] for one in node.names if not one.asname)
            modules |= {top: top for top in tops} | {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    used = [_dotted(node) for node in nodes_of(path) if isinstance(node, ast.Attribute)]
    return {".".join((modules[names[0]], *names[1:])) for names in used if names[0] in modules}


def _dotted(node: ast.expr) -> list[str]:
    """The names of ``a.b.c``, the first of them ``""`` where that is behind something else than a name."""
    behind = list[str]()
    while isinstance(node, ast.Attribute):
        behind.append(node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(behind)]


def borrowed(path: Path, package: Path) -> set[str]:
    """The names that a file takes out of another file of the package, and that file has from outside the package."""
    taken = {f"{node.module}.{alias.name}" for node in nodes_of(path) if isinstance(node, ast.ImportFrom)
             for alias in node.names} | attributes(path)  # fmt: skip
    found = set[str]()
    for name in taken:
        origin, _, last = name.rpartition(".")
        if origin.partition(".")[0] == package.name and is_module(package.parent, origin):
            found |= {name} if last in _from_outside(_file_of(package.parent, origin), package.name) else set()
    return found


@cache
def _from_outside(path: Path, package: str) -> frozenset[str]:
    """The names that a file gives to what it imports from outside the package."""
    found = set[str]()
    for node in nodes_of(path):
        own = isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] == package)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not own:
            names = {one.asname or one.name.partition(".")[0] for one in node.names}
            found |= names - {package, "annotations"}
    return frozenset(found)


def _file_of(root: Path, name: str) -> Path:
    path = root / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def outside(path: Path) -> set[str]:
    """The names in a file by which it reads or writes something without an import."""
    return {node.id for node in nodes_of(path) if isinstance(node, ast.Name) and node.id in _OUTSIDE}


def unseeded(path: Path) -> set[str]:
    """The calls of ``Random`` in a file without a seed: such a one begins by what the system draws."""
    calls = [node for node in nodes_of(path) if isinstance(node, ast.Call) and not node.keywords]
    texts = {ast.unparse(node) for node in calls if ast.unparse(node.func).rpartition(".")[2] == "Random"}
    return texts & {"Random()", "Random(None)"}


@lru_cache(maxsize=1)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


@lru_cache(maxsize=1)
def nodes_of(path: Path) -> list[ast.AST]:
    """All that is in a file: the walk takes three times as long as the parse, so it is done once for all that look."""
    return list(ast.walk(_tree(path)))
