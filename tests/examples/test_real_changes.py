"""The notebook on real change data runs, and shows what it is committed with: tables at one time, and plots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.examples.test_first_steps import outputs

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "real_changes.ipynb"


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, run from top to bottom."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute(cwd=str(NOTEBOOK.parent))
    return notebook


def test_it_shows_what_is_committed(executed: Any) -> None:
    """With CDCV2_REWRITE=1 what it shows now is committed. Sums are equal at each time, and what is lost is named."""
    if os.environ.get("CDCV2_REWRITE"):
        for cell in executed.cells:
            cell["metadata"] = {}
        nbformat.write(executed, NOTEBOOK)
    committed = nbformat.read(NOTEBOOK, as_version=4)
    texts = ["".join(map(str, shown)) for shown in outputs(executed)]

    nbformat.validate(committed)
    assert outputs(committed) == outputs(executed)
    assert 6 == sum(text.count(" equal\n") for text in texts) and not any("TORN" in text for text in texts)
    assert 2 == sum("<svg" in text for text in texts)
    assert any("updates are missing" in text for text in texts) and any("missing at time" in text for text in texts)
