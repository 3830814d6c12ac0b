"""`cdcv2 external` lists what a pipeline has in other systems: owner, identity, state, age, what is owed and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cdcv2.control.catalogue import take_catalogue
from cdcv2.control.entries import CatalogueEntry, Debt, EntryState, Kind, Reason
from cdcv2.control.owner import OwnedFolder
from tests.cli.conftest import Run

pytest.importorskip("yaml")
TOPIC = CatalogueEntry(
    "7f", Kind.TOPIC, "cdc.orders", "Kafka k:9092", {}, True, (), state=EntryState.UNWANTED, since=10.0, identity="Vb0",
    debt=Debt(Reason.UNREACHABLE, "Kafka at k:9092 does not answer", 10.0, 7),
)  # fmt: skip
SLOT = CatalogueEntry("81", Kind.SLOT, "shop", "PostgreSQL db", {}, False, ("capture shop",), state=EntryState.MADE)
CONNECTOR = CatalogueEntry("93", Kind.CONNECTOR, "shop", "Connect", {}, True, ("capture shop",), ("a0",))
WAITED = CatalogueEntry("a0", Kind.PUBLICATION, "shop", "PostgreSQL db", {}, True, ("capture shop",))
REMOVED = replace(TOPIC, nonce="b1", state=EntryState.GONE, debt=None)

PIPELINE = """
pipeline: shop
kafka: {bootstrap: "k:9092"}
sources:
  shop: {}
captures:
  shop: {into: logs}
"""
ROW = '{"type": "record", "name": "orders", "fields": [{"name": "id", "type": "long"}]}'


def made(folder: Path, *entries: CatalogueEntry) -> Path:
    """A state folder with a catalogue of these."""
    with OwnedFolder(folder, 5.0) as owned, take_catalogue(owned, "cdcv2 up of shop", 5.0, "shop") as catalogue:
        catalogue.write(entries)
    return folder


def test_it_lists_what_there_is_and_what_is_owed(run: Run, tmp_path: Path) -> None:
    """A line for each entry, and one for each reason; with exit code 1, as something is owed."""
    said = run("external", str(made(tmp_path / "shop.state", TOPIC, SLOT, CONNECTOR, WAITED, REMOVED)))
    lines = said.out.splitlines()

    assert 1 == said.code
    assert 6 == len(lines)
    assert lines[0].startswith("topic cdc.orders (Kafka k:9092): unwanted for ")
    assert lines[0].endswith(", used by no job, entry 7f, identity Vb0")
    assert "  unreachable for " in lines[1] and lines[1].endswith(
        ", tried 7 times: Kafka at k:9092 does not answer"
    )
    assert lines[2].endswith(", used by capture shop, not owned, entry 81")
    assert "  waits for the publication 'shop' (PostgreSQL db)" == lines[4]


def test_as_json_it_has_everything(run: Run, tmp_path: Path) -> None:
    """For programs; what was removed is there with --all."""
    folder = str(made(tmp_path / "shop.state", SLOT, REMOVED))
    plain = json.loads(run("external", folder, "--json").out)
    assert ["81"] == [entry["nonce"] for entry in plain["entries"]]
    assert ("cdcv2 up of shop", 1) == (plain["owner"]["owner"], plain["owner"]["epoch"])
    said = run("external", folder, "--all", "--json")

    assert (0, ["made", "gone"]) == (said.code, [entry["state"] for entry in json.loads(said.out)["entries"]])


def test_a_pipelines_file_names_the_folder(run: Run, tmp_path: Path) -> None:
    """By default the folder beside it."""
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE, "utf-8")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(ROW, "utf-8")
    said = run("external", str(file))
    assert 2 == said.code
    assert f"shop.state holds no catalogue: no cdcv2 up was started with {file} yet" in said.err
    made(tmp_path / "shop.state", SLOT)

    assert 0 == run("external", str(file)).code


def test_it_may_run_beside_the_owner(run: Run, tmp_path: Path) -> None:
    """It takes nothing over."""
    folder = tmp_path / "shop.state"
    with OwnedFolder(folder, 5.0) as owned, take_catalogue(owned, "up", 5.0, "shop") as catalogue:
        catalogue.write([SLOT])
        assert 0 == run("external", str(folder)).code
        catalogue.write([TOPIC])

        assert 1 == run("external", str(folder)).code
