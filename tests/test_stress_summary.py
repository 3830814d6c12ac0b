"""What the long runs leave behind can be read and repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stress.summary import record, spelled


def test_the_page_has_the_last_run_of_each_and_the_table_has_all(tmp_path: Path) -> None:
    """A page of old runs would hide what holds today; the CSV keeps them to be compared."""
    (tmp_path / "runs.csv").write_text(
        "date,version,run,seeds,what,count\n"
        "2026-01-01 00:00:00,0.0.1,kills,1..3,runs,3\n"
        "2026-01-01 00:00:00,0.0.1,kills,1..3,kills,7\n",
        "utf-8",
    )
    record("kills", [4, 5], {"runs": 2000, "kills": 9}, tmp_path)
    record("histories", [1], {"histories": 10}, tmp_path)
    page = (tmp_path / "README.md").read_text("utf-8").splitlines()

    assert ["| histories", "| kills"] == [line.rsplit(" | ", 3)[0] for line in page[-2:]]
    assert page[-1].endswith("| 4..5 | 2,000 runs, 9 kills |")
    assert 6 == len((tmp_path / "runs.csv").read_text("utf-8").splitlines())


def test_seeds_are_spelled_so_that_they_can_be_typed_again() -> None:
    """Neighbours by their ends, others one by one."""
    assert ["1..3", "5", "1 9"] == [spelled([3, 1, 2]), spelled([5]), spelled([1, 9])]


@pytest.mark.parametrize(("seeds", "counts"), [([], {"runs": 1}), ([1], {})])
def test_a_run_without_seeds_or_counts_is_refused(tmp_path: Path, seeds: list[int], counts: dict[str, int]) -> None:
    """It could be neither repeated nor judged."""
    with pytest.raises(ValueError, match="needs its seeds and its counts"):
        record("nothing", seeds, counts, tmp_path)

    assert [] == list(tmp_path.iterdir())
