"""`cdcv2 when` and `cdcv2 where` ask a remap in both directions; `cdcv2 inspect` shows how it came to be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.cli.remaps import parse_position, places, position_text
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.gauges import frontier_from_plain
from cdcv2.timeline.minting import compact, follow, run as minted
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, frontier_of, offsets
from cdcv2.timeline.shared_remap import SharedRemap
from tests.cli.conftest import Run, bound


@pytest.fixture
def remap(tmp_path: Path) -> Path:
    """Of the sources bank and orders, with bindings at 1000 and 2000."""
    return bound(tmp_path / "remap")


def test_when_looks_up_each_position(run: Run, remap: Path) -> None:
    """An LSN, a number, an offset; what is not bound is missing."""
    said = run("when", remap, "bank=0/FFF", "bank=4096", "orders=0@17")
    assert (0, ["bank=4095  1000", "bank=4096  2000", "orders=0@17  2000"], "") == (
        said.code, said.out.splitlines(), said.err
    )  # fmt: skip
    some = run("when", remap, "--lsn", "orders=1@3", "bank=0/1B00", "other=5")

    assert (1, ["orders=1@3  2000", "bank=0/1B00  not bound", "other=0/5  not bound"]) == (
        some.code, some.out.splitlines()
    )  # fmt: skip
    assert "cdcv2 when: 2 of 3 not bound by 2000, the last time that is decided\n" == some.err


def test_when_in_json(run: Run, remap: Path) -> None:
    """A line for each."""
    said = run("when", remap, "orders=0@17", "bank=6912", "--json")

    assert 1 == said.code
    assert [
        {"position": {"at": "orders", "time": {"at": 0, "time": 17}}, "time": 2000, "or_before": False},
        {"position": {"at": "bank", "time": 6912}, "time": None, "or_before": False},
    ] == [json.loads(line) for line in said.out.splitlines()]


def test_where_says_how_far_the_sources_were(run: Run, remap: Path) -> None:
    """At a time, and at the last; a time that is not decided is missing."""
    said, early = run("where", remap), run("where", remap, "--at", 1999, "--lsn")

    assert (0, ["bank=6912", "orders=0@18", "orders=1@4"]) == (said.code, said.out.splitlines())
    assert "cdcv2 where: at 2000; decided through 2000\n" == said.err
    assert (0, ["bank=0/1000", "orders=0@2"]) == (early.code, early.out.splitlines())
    assert ["not started"] == run("where", remap, "--at", 999).out.splitlines()
    plain = json.loads(run("where", remap, "--json").out)
    expected = frontier_of({"bank": Antichain([0x1B00]), "orders": offsets({0: 18, 1: 4})})
    assert (2000, expected) == (plain["time"], frontier_from_plain(plain["frontier"]))
    missing = run("where", remap, "--at", 2001)
    assert (1, "") == (missing.code, missing.out) and "2001 is not decided" in missing.err


def test_what_a_remap_has_forgotten(run: Run, remap: Path) -> None:
    """What happened before is reported as such; where the sources were before is refused."""
    log, shared = DirectoryRemap(remap), SharedRemap()
    minted(log, follow(shared))
    minted(log, compact(shared, 1500))

    assert ["orders=0@1  1500 or before"] == run("when", remap, "orders=0@1").out.splitlines()
    assert ["orders=0@3  2000"] == run("when", remap, "orders=0@3").out.splitlines()
    assert (0, 4) == (run("where", remap, "--at", 1500).code, run("where", remap, "--at", 1499).code)
    assert [f"{remap}@4  summary   of all before 4, from the time 1500 on"] == run("inspect", remap).out.splitlines()


def test_inspect_shows_each_record_and_what_came_of_it(run: Run, remap: Path) -> None:
    """Proposals that came too late are void; with --brief only what holds is shown."""
    lines = [
        f"{remap}@0  genesis   under 'v1', from not started  by a",
        f"{remap}@1  binding   1 to 1000: bank=0/1000, orders=0@2  by a",
        f"{remap}@2  binding   1001 to 2000: bank=0/1B00, orders=0@18, orders=1@4  by a",
        f"{remap}@3  binding   1001 to 1500: bank=0/1200, orders=0@2  by b  (void)",
    ]
    said = run("inspect", remap, "--lsn")
    assert (0, lines) == (said.code, said.out.splitlines())
    assert lines[:3] == run("inspect", remap, "--lsn", "--brief").out.splitlines()
    assert lines[:1] == run("inspect", "--bindings", remap, "--limit", 1).out.splitlines()
    plain = [json.loads(line) for line in run("inspect", remap, "--json").out.splitlines()]

    assert [(0, "genesis", True), (1, "proposal", True), (2, "proposal", True), (3, "proposal", False)] == [
        (one["position"], one["kind"], one["won"]) for one in plain
    ]


def test_a_remap_with_foreign_bytes_cannot_be_read_and_one_that_is_not_there_is_misnamed(run: Run, remap: Path) -> None:
    """4 with the file; 2 for names, also of an empty directory, where no remap has started."""
    empty = remap.parent / "empty"
    empty.mkdir()
    misnamed = (["where", empty / "nowhere"], ["when", empty, "orders=0@1"], ["inspect", "kafka:x", "--bindings"])
    assert [2, 2, 2] == [run(*words).code for words in misnamed]
    (remap / f"{4:020d}.json").write_text("{}", "utf-8")
    said = run("inspect", remap)

    assert 4 == said.code and str(remap / f"{4:020d}.json") in said.err
    assert 4 == run("where", remap.parent).code, "a directory that holds other things"


@pytest.mark.parametrize("words", [
    ["when", "17"], ["when", "bank=0@3"], ["when", "x@3"], ["when", "0/x"], ["when", "1/2/3"], ["when", "orders="],
    ["where", "--at", "1,2"], ["where", "--at", "-1"], ["where", "--at", "soon"],
])  # fmt: skip
def test_what_is_no_position_and_no_time_is_wrong_usage(run: Run, remap: Path, words: list[str]) -> None:
    """Also a position of another kind than the sources have."""
    assert 2 == run(words[0], remap, *words[1:]).code


def test_a_position_of_another_kind_is_told_what_kinds_there_are(run: Run, remap: Path) -> None:
    """In the words in which positions are written."""
    said = run("when", remap, "orders=5")

    text = "orders=5 is no position of the sources of this remap, which are at bank=6912, orders=0@18, orders=1@4: "
    assert (2, True) == (said.code, text in said.err), said.err


@pytest.mark.parametrize("text", ("17", "3,4", "2@17", "bank=5", "orders=2@17", "a=b=0@1"))
def test_positions_are_shown_as_they_are_written(text: str) -> None:
    """What one command prints another takes."""
    assert text == position_text(parse_position(text), False)


def test_lsns_are_shown_as_such_but_offsets_never_are() -> None:
    """Both are numbers; only the parts of a topic have numbers for names."""
    assert ("16/B374D848", "bank=16/B374D848", "orders=2@17") == tuple(
        position_text(parse_position(text), True) for text in ("16/B374D848", "bank=16/B374D848", "orders=2@17")
    )
    with pytest.raises(UsageError, match="write 17, 16/B374D848"):
        parse_position("16/")


@pytest.mark.parametrize("frontier, expected", [
    (Antichain(), ["finished"]),
    (NOT_STARTED, ["not started"]),
    (Antichain([7]), ["7"]),
    (offsets({0: 4, 2: None}), ["0@4", "2 finished"]),
    (offsets({0: 4}, closed=True), ["0@4", "all others finished"]),
    (frontier_of({"a": offsets({0: 4, 1: None}), "b": Antichain()}), ["a=0@4", "a=1 finished", "b finished"]),
    (Antichain([Partitioned.among([1])]), []),
])  # fmt: skip
def test_every_frontier_has_words(frontier: Antichain, expected: list[str]) -> None:
    """What is not named has not started."""
    assert expected == list(places(frontier, False))
