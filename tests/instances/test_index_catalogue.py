"""What a controller keeps is whole whenever it dies, is of one process, and is read by later versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2 import failpoints
from cdcv2.core.own_json import with_digest
from cdcv2.errors import FencedError, ForeignStateError, RefusedError
from cdcv2.instances.commands import CreateIndex, IndexedTable
from cdcv2.instances.run.index_catalogue import AFTER_WRITE, BEFORE_WRITE, CATALOGUE, IndexCatalogue

GOLDEN = Path(__file__).parent.parent / "golden" / "instances" / "catalogue"
ORDERS, ITEMS = IndexedTable("orders", ("id",), "log-1"), IndexedTable("items", ("order_id", "n"), "log-2")
KEPT = CreateIndex("2", (ORDERS, ITEMS), 7)


def write_golden(folder: Path) -> None:
    """As the golden one was written: by an owner that had another index before."""
    with IndexCatalogue(folder) as catalogue:
        catalogue.index_of((ORDERS,))
        catalogue.index_of((ORDERS, ITEMS))
        catalogue.keep([KEPT])


def test_what_was_written_before_is_read_and_written_alike(tmp_path: Path) -> None:
    write_golden(tmp_path / "new")
    assert (tmp_path / "new" / CATALOGUE).read_bytes() == (GOLDEN / CATALOGUE).read_bytes()
    shutil.copytree(GOLDEN, tmp_path / "old")
    with IndexCatalogue(tmp_path / "old") as catalogue:
        assert catalogue.epoch == 2 and catalogue.indexes == (KEPT,)
        assert catalogue.index_of((ITEMS, ORDERS)) == KEPT
        assert catalogue.index_of((ORDERS,)).id == "3", "a name is of one thing for ever"
        assert [one.id for one in catalogue.indexes] == ["3"]


@pytest.mark.parametrize("step, kept", [(BEFORE_WRITE, []), (AFTER_WRITE, ["1"])])
def test_a_crash_leaves_the_old_or_the_new(tmp_path: Path, step: str, kept: list[str]) -> None:
    with IndexCatalogue(tmp_path) as catalogue, failpoints.placed(step):
        with pytest.raises(failpoints.PlacedCrash):
            catalogue.index_of((ORDERS,))
    with IndexCatalogue(tmp_path) as catalogue:
        assert [one.id for one in catalogue.indexes] == kept


def test_it_is_of_one_process(tmp_path: Path) -> None:
    with IndexCatalogue(tmp_path) as catalogue:
        with pytest.raises(RefusedError, match="another process keeps the replicas"):
            IndexCatalogue(tmp_path)
        shutil.copytree(tmp_path, tmp_path / "copy")
        with IndexCatalogue(tmp_path / "copy"):
            shutil.copy(tmp_path / "copy" / CATALOGUE, tmp_path)
        with pytest.raises(FencedError, match="by another process by now"):
            catalogue.index_of((ORDERS,))


def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    with IndexCatalogue(tmp_path) as catalogue:
        catalogue.keep([KEPT])
        (tmp_path / CATALOGUE).unlink()
        catalogue.keep([KEPT])
        assert not (tmp_path / CATALOGUE).exists()


@pytest.mark.parametrize("change", [
    {"version": 2}, {"format": "other"}, {"indexes": [{"CancelPeek": {"uuid": "u"}}]}, {"indexes": {}}, {"epoch": "1"},
    {"named": None},
])  # fmt: skip
def test_what_is_none_is_refused_by_name(tmp_path: Path, change: dict[str, object]) -> None:
    write_golden(tmp_path)
    path = tmp_path / CATALOGUE
    plain = json.loads(path.read_bytes())
    path.write_text(json.dumps(with_digest({**plain, **change})), "utf-8")
    with pytest.raises(ForeignStateError, match=CATALOGUE):
        IndexCatalogue(tmp_path)
    path.write_text(json.dumps({**plain, "epoch": 9}), "utf-8")
    with pytest.raises(ForeignStateError, match="damaged"):
        IndexCatalogue(tmp_path)
    path.write_text(json.dumps(plain), "utf-8")
    IndexCatalogue(tmp_path).close()
