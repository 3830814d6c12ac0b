"""What is public is listed, in order, and documented; what is not listed is not public."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cdcv2
from tests.import_graph import sources
from tests.test_architecture import PACKAGE, ROOT, in_package

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
PACKAGES = sorted(PACKAGE.rglob("__init__.py"))


def listed(tree: ast.Module) -> list[str]:
    """The `__all__` of a module, read without importing it; empty when it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(at, ast.Name) and at.id == "__all__" for at in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def bound(tree: ast.Module) -> set[str]:
    """Every name that the module's own statements bind: imported, assigned, defined."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    return names


def public_definitions(node: ast.AST, name: str) -> Iterator[tuple[str, Definition]]:
    """Public classes, functions and methods of a module, by dotted name; what is inside a function is private."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            if child.name.startswith("_") or is_restated(child):
                continue
            yield f"{name}.{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from public_definitions(child, f"{name}.{child.name}")
        elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler):
            yield from public_definitions(child, name)


def is_restated(node: Definition) -> bool:
    """Whether another definition of the name carries the docstring: this is an overload or a property's setter."""
    marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
    return bool(marks & {"overload", "setter"})


def public_values(module: ModuleType) -> dict[str, Any]:
    """What `from module import ...` could reach by a public name, other modules and future flags apart."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and type(value).__name__ != "_Feature"
    }


def test_the_front_door_lists_every_public_name() -> None:
    """A name that can be imported will be imported, so it is either in `__all__` or private."""
    assert set() == set(public_values(cdcv2)) - set(cdcv2.__all__)
    assert [] == [name for name in cdcv2.__all__ if not hasattr(cdcv2, name)]


def test_every_name_at_the_front_door_is_documented() -> None:
    """`help(cdcv2.NAME)` answers with a meaning of its own, not with one inherited from `object` or `tuple`."""
    silent = [name for name in cdcv2.__all__ if not name.startswith("__") and not inspect.getdoc(getattr(cdcv2, name))]

    assert [] == silent


@pytest.mark.parametrize("path", PACKAGES, ids=in_package)
def test_lists_of_public_names_are_sorted_and_bound(path: Path) -> None:
    """Sorted, so that a name is found and two changes do not meet in one line; bound, so that each can be had."""
    tree = ast.parse(path.read_text("utf-8"), str(path))
    names = listed(tree)

    assert sorted(set(names)) == names
    assert set() == set(names) - bound(tree)


@pytest.mark.parametrize("path", sources(PACKAGE), ids=in_package)
def test_every_public_name_has_a_docstring(path: Path) -> None:
    """The module states its idea, each class and function its meaning; a body that only looks clear is not enough."""
    tree = ast.parse(path.read_text("utf-8"), str(path))
    silent = [name for name, node in public_definitions(tree, path.stem) if not ast.get_docstring(node)]

    assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} does not say what it is"
    assert [] == silent
