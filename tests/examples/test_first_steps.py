"""The notebook that a newcomer opens runs, and shows what its text promises."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_steps.ipynb"


def outputs(notebook: Any) -> list[list[Any]]:
    """What each cell of code printed or showed. The kernel may send one text in several parts."""
    return [shown(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def shown(of_cell: list[Any]) -> list[Any]:
    """What a cell printed or showed, in order."""
    found: list[Any] = []
    for name, parts in itertools.groupby(of_cell, lambda output: output.get("name")):
        if name is None:
            found += [part.get("data") or part for part in parts]
        else:
            found.append("".join(part["text"] for part in parts))
    return found


def run_notebook(path: Path) -> Any:
    """The notebook, run from top to bottom."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute(cwd=str(path.parent))
    return notebook


def check_committed(executed: Any, path: Path) -> None:
    """It shows what it is committed with; with CDCV2_REWRITE=1 what it shows now is what is committed."""
    if os.environ.get("CDCV2_REWRITE"):
        for cell in executed.cells:
            cell["metadata"] = {}
        nbformat.write(executed, path)
    committed = nbformat.read(path, as_version=4)

    nbformat.validate(committed)
    assert outputs(committed) == outputs(executed)


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, run from top to bottom."""
    return run_notebook(NOTEBOOK)


def test_it_runs_and_shows_what_is_committed(executed: Any) -> None:
    """Nothing in it depends on the machine or the hour."""
    check_committed(executed, NOTEBOOK)


def test_it_shows_a_frontier_that_moves_to_the_end(executed: Any) -> None:
    """Mangled, the history comes out in order, once; without the plums it stops where they begin."""
    texts = ["".join(map(str, shown)) for shown in outputs(executed)]
    batches = next(text for text in texts if "the history is complete: True" in text)
    short = next(text for text in texts if "missing: 1 update missing at time 4" in text)

    assert 1 == batches.count("('plum', 4, 5)")
    assert batches.index("('apple', 1, 3)") < batches.index("('plum', 4, 5)") < batches.index("('fig', 9, 1)")
    assert "plum" not in short
    assert any("frontier the end" in text for text in texts)
    assert any("the diff 500 and also 5" in text for text in texts)
