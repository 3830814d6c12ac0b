"""Folders may be called as anybody likes: a space, an é or a bracket in a path changes nothing of what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import log_address
from cdcv2.spark.capture.topics import FileTopics
from cdcv2.spark.output import OutputFolder, as_of
from cdcv2.spark.paths import nameable, readable, streamable, writable
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import opened
from cdcv2.spark.sources import LogPlace
from tests.recorded import TABLES, dump, recipe
from tests.spark.capturing import CaptureRun, dump_into, facts_of
from tests.spark.replaying import PLAIN, ROWS, messages, plan, put, replayed, run, truth, updates

pytestmark = pytest.mark.spark

#: What a directory that is read as a stream may be called, and what anything else may.
STREAMED, ODD = "sp ace é%20#,+=", "sp ace é%20 b[1] {a,b}?*\\"
RECORDED = "clean_full"


def test_a_replay_in_oddly_named_folders_makes_what_it_makes_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """State, checkpoint, output and log; in two runs, so that what the first left is read by the second."""
    facts = [(row, time, abs(diff)) for row, time, diff in updates(11, count=40, row_type=PLAIN)]
    said = messages(facts, 12, seed=11)
    folder = tmp_path / ODD
    for part in (said[:len(said) // 2], said[len(said) // 2:]):
        place = put(tmp_path / STREAMED / "things", part, row_type=PLAIN, per_file=5)
        wanted = plan(folder, [place], checkpoint=folder / "kept elsewhere")
        run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)
    for at in (4, 11):
        expected: Counter[object] = Counter()
        for row, time, diff in facts:
            expected[tuple(row)] += diff if time <= at else 0
        found = as_of(spark, wanted.output, at).collect()
        assert +expected == {tuple(row)[:-1]: row["multiplicity"] for row in found}
    assert ["kept elsewhere", "out", "state"] == sorted(path.name for path in folder.iterdir())
    assert sorted([ODD, STREAMED]) == sorted(path.name for path in tmp_path.iterdir())


def test_a_capture_in_oddly_named_folders_makes_what_it_makes_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """The dumped topics, the state and the logs; the second run goes on from the memory of the first."""
    records = list(dump(RECORDED).read())[:1600]
    capture = CaptureRun(tmp_path / ODD, recipe(RECORDED), files=None, topics=tmp_path / STREAMED)
    for part in (records[:1000], records[1000:]):
        dump_into(tmp_path / STREAMED, part, size=1000)
        capture.run(spark)
    elsewhere = CaptureRun(tmp_path / "plain", recipe(RECORDED), files=None)
    dump_into(tmp_path / "plain" / "topics", records, size=1600)
    elsewhere.run(spark)

    made, expected = (
        facts_of({table: each.messages(table) for table in TABLES}) for each in (capture, elsewhere)
    )
    assert expected == made
    assert any(facts for facts, _ in made.values())
    assert sorted(["plain", ODD, STREAMED]) == sorted(path.name for path in tmp_path.iterdir())


def test_tables_may_be_called_as_the_database_calls_them(spark: SparkSession, tmp_path: Path) -> None:
    """Folders of the output and of the state are called like them; the directory of a log as a stream needs it."""
    logs = {
        "größe.тест Tab=le, x": tmp_path / "größe.тест Tab=le, x",
        "_a:b.c": tmp_path / "_a:b.c",
        "d.e[1]*\\": tmp_path / "linked",
    }
    said = {
        table: messages(updates(number, count=12, times=5, row_type=PLAIN), 5, seed=number)
        for number, table in enumerate(logs)
    }
    places = []
    for table, path in logs.items():
        put(path, said[table], row_type=PLAIN, per_file=99)
        places.append(LogPlace.of(log_address(str(path) if path.name == table else f"{table}={path}")))
    wanted = plan(tmp_path, places)

    run(spark, wanted)

    assert truth(said) == replayed(spark, wanted)
    assert sorted([*logs, "_manifests"]) == sorted(path.name for path in wanted.output.iterdir())
    with pytest.raises(UsageError, match="_manifests cannot be replayed"):
        OutputFolder(tmp_path / "other", {"_manifests": PLAIN}, Antichain([0]))


@pytest.mark.parametrize("character", list("*?[]{}\\"))
def test_a_pattern_cannot_be_read_as_a_stream_and_is_refused_by_name(character: str, tmp_path: Path) -> None:
    """Spark would bring each file again for every file of a micro-batch: wrong in cost, so better not at all."""
    folder = tmp_path / f"a{character}b"

    with pytest.raises(UsageError) as caught:
        LogPlace.of(log_address(f"things={folder}"))
    assert f"has {character} in its name" in str(caught.value)
    assert "symbolic link" in str(caught.value)
    with pytest.raises(UsageError, match="in its name"):
        FileTopics(folder, recipe(RECORDED))


def test_a_symbolic_link_helps(spark: SparkSession, tmp_path: Path) -> None:
    """As the refusal states."""
    said = messages(updates(12, count=20), 12, seed=12)
    put(tmp_path / "b[1]" / "things", said, per_file=5)
    (tmp_path / "linked").symlink_to(tmp_path / "b[1]")
    wanted = plan(tmp_path, [LogPlace.of(log_address(f"things={tmp_path / 'linked' / 'things'}"))])
    run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_name_that_java_cannot_say_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes that are no UTF-8, or, in a poor locale, anything that is not English."""
    place = put(tmp_path / "things", [])
    for wanted in (plan(tmp_path / "\udcff", [place]), plan(tmp_path, [place], output=tmp_path / "\udcff")):
        with pytest.raises(UsageError, match=r"'.*\\udcff.*' has characters that Java has no name for"):
            opened(spark, wanted, ProgressLines())
    nameable(spark, tmp_path / ODD, tmp_path / "a:b")
    with pytest.raises(UsageError, match=r"b\[1\]' has both a colon and '\['"):
        opened(spark, plan(tmp_path, [replace(place, table="a:b[1]")], tables={"a:b[1]": ROWS}), ProgressLines())


def test_a_path_is_the_driver_s_own_whatever_the_default_file_system_is() -> None:
    """And two slashes do not make a host of its first folder."""
    assert ["file:/a b[1]"] * 2 == [writable("/a b[1]"), writable(Path("//a b[1]"))]
    assert r"file:/a b\[1\]\{\}\*\?\\" == readable("/a b[1]{}*?\\")
    assert f"file:{Path.cwd()}/a b" == streamable("a b")
