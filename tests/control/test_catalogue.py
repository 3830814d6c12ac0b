"""The catalogue: durable, changed as a whole, and by one owner at a time."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cdcv2 import failpoints
from cdcv2.control.catalogue import BEFORE_CHANGE, DATABASE, Catalogue, read_catalogue, take_catalogue
from cdcv2.control.entries import CatalogueEntry, Debt, EntryState, Kind, Reason
from cdcv2.control.owner import OwnedFolder
from cdcv2.errors import FencedError, ForeignStateError, RefusedError, UsageError
from tests.test_architecture import ROOT

GOLDEN = Path(__file__).parent.parent / "golden" / "catalogue"
ENTRIES = [
    CatalogueEntry("7f", Kind.TOPIC, "shop_7f", "kafka k:9092", {"partitions": "3"}, True, ("shop",), since=1.5),
    CatalogueEntry(
        "81", Kind.SLOT, "shop", "PostgreSQL db/shop", {"plugin": "pgoutput"}, True, (), ("7f",), "c1",
        EntryState.UNWANTED, 7.0, 3.5, "7301", "shop", {"plugin": "pgoutput"}, Debt(Reason.BUSY, "why", 6.0, 2),
    ),
]  # fmt: skip


@contextmanager
def taken(folder: Path, owner: str, pipeline: str = "shop") -> Iterator[Catalogue]:
    """The catalogue in a folder, by an owner."""
    with OwnedFolder(folder, 5.0) as owned, take_catalogue(owned, owner, 5.0, pipeline) as catalogue:
        yield catalogue


def test_what_was_written_is_read_by_the_next_owner(tmp_path: Path) -> None:
    """In the order in which the entries were made; each owner has a higher epoch."""
    with taken(tmp_path / "state", "one") as first:
        first.write(ENTRIES)
        first.write([replace(ENTRIES[0], state=EntryState.MADE)])
        assert 1 == first.epoch
    with taken(tmp_path / "state", "two") as second:
        assert 2 == second.epoch
        assert [replace(ENTRIES[0], state=EntryState.MADE), ENTRIES[1]] == second.entries()
        second.remove(["7f"])

        assert [ENTRIES[1]] == second.entries()


def test_a_second_owner_is_refused_with_who_the_first_is(tmp_path: Path) -> None:
    """As long as the first lives; it may be looked at all the time."""
    with taken(tmp_path, "the controller of shop") as first:
        first.write(ENTRIES)
        with pytest.raises(RefusedError, match=rf"are kept by process {os.getpid()} on "), taken(tmp_path, "another"):
            pass
        with read_catalogue(tmp_path) as looked:
            assert (ENTRIES, "the controller of shop") == (looked.entries(), (looked.owner() or {})["owner"])
            with pytest.raises(FencedError):
                looked.write(ENTRIES)


def test_an_owner_follows_one_that_was_killed(tmp_path: Path) -> None:
    """The system frees the lock; what it had written is there, and its epoch is over."""
    program = (
        "import os, signal, sys; from pathlib import Path; from cdcv2.control.owner import OwnedFolder\n"
        "from cdcv2.control.catalogue import take_catalogue\n"
        "owned = OwnedFolder(Path(sys.argv[1]), 5.0); take_catalogue(owned, 'dead', 5.0, 'shop')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=False)

    with taken(tmp_path, "next") as following:
        assert (2, "next") == (following.epoch, (following.owner() or {})["owner"])


def test_one_that_has_lost_its_lock_changes_nothing(tmp_path: Path) -> None:
    """As on a network file system, or when somebody removed the file: the epoch is asked at every change."""
    with taken(tmp_path, "first") as first:
        (tmp_path / "owner.lock").unlink()
        with taken(tmp_path, "second") as second:
            second.write(ENTRIES)
            for change in (lambda: first.write([]), lambda: first.remove(["7f"]), first.demand):
                with pytest.raises(FencedError, match=r"was taken over by second \(process \d+\)"):
                    change()

            assert ENTRIES == second.entries()


def test_several_entries_change_together_or_not_at_all(tmp_path: Path) -> None:
    """Also where the second of them cannot be written."""
    with taken(tmp_path, "one") as catalogue:
        catalogue.write(ENTRIES)
        odd = replace(ENTRIES[1], settings={"x": object()})
        with pytest.raises(TypeError):
            catalogue.write([replace(ENTRIES[0], name="other"), odd])
        with failpoints.placed(BEFORE_CHANGE), pytest.raises(failpoints.PlacedCrash):
            catalogue.write([replace(ENTRIES[0], name="other")])

        assert ENTRIES == catalogue.entries()


def test_what_is_no_catalogue_is_named(tmp_path: Path) -> None:
    """A folder without one, a file that is no database, one of another version, and an entry that was changed."""
    with pytest.raises(UsageError, match="holds no catalogue: name the state folder"):
        read_catalogue(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / DATABASE).write_text("no database at all\n" * 99)
    with pytest.raises(ForeignStateError, match="not a database: it is damaged"), taken(tmp_path / "text", "one"):
        pass
    with taken(tmp_path, "one"):
        pass
    for key, value, said in (
        ("entry:7f", {"nonce": "7f"}, "'debt' is missing"),
        ("entry:7f", {"nonce": "7f", "digest": "0"}, "it was changed after it was written"),
        ("head", {"format": "cdcv2 catalogue", "version": 2}, "holds no catalogue of version 1"),
    ):
        with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
            database.execute("REPLACE INTO cdcv2_catalogue VALUES (?, ?)", [key, json.dumps(value)])
            database.commit()
        with pytest.raises(ForeignStateError, match=said), read_catalogue(tmp_path) as catalogue:
            catalogue.entries()


def test_a_catalogue_is_of_one_pipeline(tmp_path: Path) -> None:
    """Another one would remove what it lists. The first takes what an older release wrote; nothing changes before."""
    shutil.copytree(GOLDEN, tmp_path / "state")
    with taken(tmp_path / "state", "one", "shop") as first:
        epoch = first.epoch
    refused = "is the state of the pipeline 'shop', and the file has the pipeline 'other'.*pipeline: shop again"
    with pytest.raises(RefusedError, match=refused), taken(tmp_path / "state", "two", "other"):
        pass
    with read_catalogue(tmp_path / "state") as looked:
        owner = looked.owner() or {}
        assert ("one", epoch, ENTRIES) == (owner["owner"], owner["epoch"], looked.entries())
        with pytest.raises(RefusedError, match=refused):
            looked.demand_home("other")


def test_a_copy_is_refused_while_the_original_is_there(tmp_path: Path) -> None:
    """And a folder that was moved, or restored where another one is now, or is reached by a link, is no copy."""
    original, copy, link = tmp_path / "state", tmp_path / "copy", tmp_path / "link"
    with taken(original, "one") as first:
        first.write(ENTRIES)
    shutil.copytree(original, copy)
    link.symlink_to(original)
    refused = f"{copy} is a copy of {original}, which is there still"
    with pytest.raises(RefusedError, match=refused), taken(copy, "two"):
        pass
    for folder in (link, original):
        with taken(folder, "one"):
            pass
    original.rename(tmp_path / "saved")
    with taken(copy, "two") as moved:
        assert ENTRIES == moved.entries()
    (tmp_path / "saved").rename(original)
    with taken(original, "another, which does not know of the other"):
        pass
    shutil.rmtree(original)
    with taken(original, "one"):
        pass
    original.rename(tmp_path / "aside")
    with taken(original, "a second pipeline in its place"):
        pass
    with taken(tmp_path / "aside", "one"):
        pass


def test_an_original_that_cannot_be_read_may_be_there(tmp_path: Path) -> None:
    """So nothing is removed on behalf of what may be a copy."""
    original, copy = tmp_path / "state", tmp_path / "copy"
    with taken(original, "one"):
        pass
    shutil.copytree(original, copy)
    (original / DATABASE).write_text("no database at all\n" * 99)
    with pytest.raises(RefusedError, match=f"{copy} was in {original} before, and whether it is there still"):
        with taken(copy, "two"):
            pass


def test_the_first_format_is_read_and_continued(tmp_path: Path) -> None:
    """`tests/golden/catalogue`: written by `python -m tests.golden.catalogue`, before its first release."""
    shutil.copytree(GOLDEN, tmp_path / "state")

    with taken(tmp_path / "state", "next") as catalogue:
        assert (ENTRIES, 2) == (catalogue.entries(), catalogue.epoch)
