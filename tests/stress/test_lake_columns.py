"""Changes of a lake as columns, against Loads and Stores: ten thousand histories, with lies in the log and by hand."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from tests.materialize.lake_by_rows import in_a_lake
from tests.stress.summary import record

SEEDS = range(1_000, 11_000)


def test_columns_end_as_rows_do(tmp_path: Path) -> None:
    """One view, the same files, one error."""
    ends = Counter[str]()
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        rows, columns = in_a_lake(folder, seed)
        assert rows == columns, f"seed {seed}"
        shutil.rmtree(folder)
        ends[columns[0].split(":")[0]] += 1

    record("a lake by columns, against row by row", SEEDS, {"histories": len(SEEDS), **ends})
