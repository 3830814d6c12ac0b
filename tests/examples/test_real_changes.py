"""The notebook on real change data runs, and shows what it is committed with: tables at one time, and plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_first_steps import check_committed, outputs, run_notebook

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "real_changes.ipynb"


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, run from top to bottom."""
    return run_notebook(NOTEBOOK)


def test_it_shows_what_is_committed(executed: Any) -> None:
    """Sums are equal at each time, and what is lost is named."""
    check_committed(executed, NOTEBOOK)
    texts = ["".join(map(str, shown)) for shown in outputs(executed)]

    assert 6 == sum(text.count(" equal\n") for text in texts) and not any("TORN" in text for text in texts)
    assert 2 == sum("<svg" in text for text in texts)
    assert any("updates are missing" in text for text in texts) and any("missing at time" in text for text in texts)
