"""A target that has lost what its checkpoint states is refused, also where nothing new has arrived."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import APPLE, PEAR, Run, write

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

SHOP = """
materialization: prices
logs: {{prices: prices}}
bindings:
  - {{log: prices, target: now, key: id}}
  - {{log: prices, target: every}}
target: {{driver: {driver}, folder: target}}
recovery_log: recovery
"""


def one_file(folder: Path) -> None:
    """The rows of a table."""
    next((folder / "now").glob("*.parquet")).unlink()


def a_table(folder: Path) -> None:
    """All that there is of it."""
    shutil.rmtree(folder / "every")


def everything(folder: Path) -> None:
    """The recovery log is kept."""
    shutil.rmtree(folder)


@pytest.mark.parametrize("driver", ["lake", "delta"])
@pytest.mark.parametrize("lose", [one_file, a_table, everything], ids=lambda one: one.__name__)
def test_a_target_that_lost_something_is_not_called_complete(
    run: Run, tmp_path: Path, driver: str, lose: Callable[[Path], None]
) -> None:
    """Each run names what is missing; it goes on when that is back."""
    if driver == "delta":
        pytest.importorskip("deltalake")
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    path, target = tmp_path / "prices.yaml", tmp_path / "target"
    path.write_text(SHOP.format(driver=driver), "utf-8")
    first = run("materialize", path)
    assert 0 == first.code, first.err
    shutil.copytree(target, tmp_path / "backup")

    lose(target)
    for more in (Updates([(PEAR, 6, 1)]), Progress([5], [7], {6: 1})):
        refused = run("materialize", path)
        assert (4, "") == (refused.code, refused.out)
        assert "has lost" in refused.err and str(target) in refused.err and "Restore the folder" in refused.err
        write(tmp_path / "prices", more)
    shutil.rmtree(target, ignore_errors=True)
    (tmp_path / "backup").rename(target)
    assert 0 == run("materialize", path).code
    assert 0 == run("compare", path).code
