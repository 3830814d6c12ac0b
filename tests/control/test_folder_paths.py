"""A folder of this machine is one thing by every path to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdcv2.control.entries import THIS_MACHINE, CatalogueEntry, EntryState, Kind
from cdcv2.control.folder_paths import planned_by_path
from cdcv2.control.intents import DesiredState


def wished(name: Path | str, address: str = THIS_MACHINE) -> DesiredState:
    return DesiredState(Kind.STATE_FOLDER, str(name), address, {}, True, "job")


@pytest.fixture
def made(tmp_path: Path) -> CatalogueEntry:
    """The entry of the folder ``logs``, in use."""
    (tmp_path / "logs").mkdir()
    [entry] = planned_by_path([], [wished(tmp_path / "logs")], 1.0, lambda: "n1")
    return replace(entry, state=EntryState.IN_USE, identity="x", attempted=1.0)


@pytest.mark.parametrize("spelled", ["link/logs", "logs/../logs", "logs/."])
def test_by_another_path_it_is_the_same(tmp_path: Path, made: CatalogueEntry, spelled: str) -> None:
    """There and back: its entry gets the path of the file, and nothing else changes."""
    (tmp_path / "link").symlink_to(tmp_path)
    name = f"{tmp_path}/{spelled}"
    other = planned_by_path([made], [wished(name)], 2.0, lambda: "n2")
    assert [replace(made, name=name)] == other
    assert [made] == planned_by_path(other, [wished(made.name)], 3.0, lambda: "n3")


def test_a_link_that_leads_elsewhere_now_is_not_touched(tmp_path: Path, made: CatalogueEntry) -> None:
    """Its entry has the path of the file, so it is neither dropped nor another one; a look shows what is there."""
    (tmp_path / "link").symlink_to("logs")
    [entry] = planned_by_path([made], [wished(tmp_path / "link")], 2.0, lambda: "n2")
    (tmp_path / "link").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    assert [] == planned_by_path([entry], [wished(tmp_path / "link")], 3.0, lambda: "n3")


def test_what_is_at_a_server_is_no_path(made: CatalogueEntry, tmp_path: Path) -> None:
    """A name there that looks like a path stays as it is, and is no other path of a folder."""
    (tmp_path / "link").symlink_to(tmp_path)
    both = [wished(made.name), wished(tmp_path / "link" / "logs", "h")]
    assert ["n2"] == [one.nonce for one in planned_by_path([made], both, 2.0, lambda: "n2")]
    there = replace(made, address="h")
    changed = planned_by_path([there], [wished(tmp_path / "link" / "logs", "h")], 2.0, lambda: "n2")
    assert {"n1": EntryState.UNWANTED, "n2": EntryState.WANTED} == {one.nonce: one.state for one in changed}
