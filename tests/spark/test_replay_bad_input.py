"""What is wrong with a log ends replay, with the place where it is wrong; nothing of it reaches the output."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError, DecodeError, UnsafeTopicError, UsageError
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.container import pack
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol import Iter, Position, Progress, Updates
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.spark.sources import row_type_of
from tests.spark.replaying import PLAIN, plan, put, replayed, run, told

pytestmark = pytest.mark.spark

CODEC = MessageCodec(PLAIN)
ONE = PLAIN.row([1, "a"])


def raw_log(path: Path, files: Sequence[Sequence[bytes]]) -> Any:
    """A log in which each file holds these bytes as messages."""
    place = put(path, [], row_type=PLAIN)
    for number, values in enumerate(files):
        (path / f"{number:020d}.avro").write_bytes(pack(values))
    return place


GOOD = CODEC.encode(Updates([(ONE, 0, 1), (PLAIN.row([2, "bb"]), 0, 1)]))
BAD = {
    "left-over bytes": (GOOD + b"\x00", "left over"),
    "bytes that end early": (GOOD[:-1], ""),
    "no bytes at all": (b"", ""),
    "a foreign message": (b'{"id": 1}', "branch"),
    "a branch that is none": (b"\x04", "branch"),
    "a branch of eleven bytes": (b"\x80" * 10 + b"\x00", "64 bits"),
    "a branch that ends early": (b"\x80", ""),
    "text that is not UTF-8": (GOOD.replace(b"bb", b"b\xff"), "UTF-8"),
    "a diff of zero": (CODEC.encode(Updates([(ONE, 0, 1)]))[:-2] + b"\x00\x00", "diff 0"),
    "a negative time": (CODEC.encode(Updates([(ONE, 0, 1)]))[:-3] + b"\x01\x02\x00", "negative time"),
    "a statement that ends early": (CODEC.encode(Progress([0], [3], {1: 2}))[:-1], ""),
    "a statement that cannot be": (b"\x02\x02\x06\x00\x02\x00\x00\x00", "not beyond"),
}


@pytest.mark.parametrize("name", BAD)
def test_bytes_that_are_no_message_are_an_error_with_their_position(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The good messages around them do not hide them, and the reason is the one that every reader gives."""
    raw, word = BAD[name]
    place = raw_log(tmp_path / "things", [[GOOD], [GOOD, raw, GOOD]])
    with pytest.raises(DecodeError) as by_python:
        CODEC.decode(raw)

    with pytest.raises(DecodeError) as caught:
        run(spark, plan(tmp_path, [place]))

    assert Position(place.name, 0, 1, 1) == caught.value.position
    assert by_python.value.reason == caught.value.reason
    assert word in caught.value.reason


def test_a_damaged_file_is_an_error_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """The messages before the damage are read; the error names where they end."""
    place = raw_log(tmp_path / "things", [[GOOD], [GOOD]])
    damaged = tmp_path / "things" / f"{1:020d}.avro"
    damaged.write_bytes(damaged.read_bytes()[:-3])

    with pytest.raises(DecodeError, match=r"things\[0\]@1"):
        run(spark, plan(tmp_path, [place]))


def wide(number: int, size: int) -> bytes:
    """An Avro integer of a small number in so many bytes, which may be more than it needs."""
    return bytes([number << 1 | 128] + [128] * (size - 2) + [0]) if size > 1 else bytes([number << 1])


#: An Updates message of one row, piece by piece: integers by what they are, and the text.
PIECES = ("branch", "rows", "id", "union", "length", "text", "time", "diff", "end")


def spelled(row: int, **sizes: int) -> bytes:
    """The Updates message of the row ``(row, "x")`` at time 3, with some of its integers in more bytes."""
    numbers = dict(branch=0, rows=1, id=row, union=1, length=1, time=3, diff=1, end=0)
    return b"".join(
        b"x" if piece == "text" else wide(numbers[piece], sizes.get(piece, 1)) for piece in PIECES
    )


def odd_forms() -> dict[str, bytes]:
    """Messages of one row each, row n the n-th of them, that are encoded as no writer of ours does."""
    made = {}
    for piece in PIECES:
        for size in (2, 5, 6, 10) if piece != "text" else ():
            made[f"{piece} in {size} bytes"] = spelled(len(made), **{piece: size})
    for name, before, behind in (
        ("a block with a size", b"\x00\x01\x0c", b"\x00"), ("a long size", b"\x00\x81\x00\x8c\x00", b"\x80\x00"),
    ):
        made[name] = before + spelled(len(made))[2:-1] + behind
    return made


def test_what_another_writer_encodes_in_its_own_way_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Integers may be longer than they need be, arrays be in several blocks, and blocks have a size."""
    odd = list(odd_forms().values())
    one, two = (spelled(row)[2:-1] for row in (len(odd), len(odd) + 1))
    odd.append(b"\x00\x02" + one + b"\x01" + wide(len(two), 3) + two + b"\x00")
    count = len(odd) + 1
    # Of the times from 0 to 5, in blocks: lower in one with a size, upper and counts with long integers.
    tail = b"\x01\x02\x00\x00" + b"\x82\x00\x8a\x00\x80\x00" + b"\x02\x86\x80\x00" + wide(count, 2) + b"\x00"
    statements = [wide(1, size) + tail for size in (1, 2, 6, 10)]
    place = raw_log(tmp_path / "things", [odd, statements])
    wanted = plan(tmp_path, [place])
    expected = {(PLAIN.row([row, "x"]), 3, 1) for row in range(count)}
    assert Progress([0], [5], {3: count}) == CODEC.decode(statements[-1])
    assert expected == {update for batch, _ in Iter(map(CODEC.decode, [*odd, *statements])) for update in batch}

    run(spark, wanted)

    assert expected == set(replayed(spark, wanted)["things"])
    assert Antichain([5]) == open_lake(wanted.output).frontier


def contradiction(spark: SparkSession, tmp_path: Path, said: Sequence[Any]) -> ContradictionError:
    """The contradiction that ends the replay of these messages, a file for each, a file per batch."""
    place = put(tmp_path / "things", said, row_type=PLAIN, per_file=1)
    with pytest.raises(ContradictionError) as caught:
        run(spark, plan(tmp_path, [place], files=1))
    return caught.value


def test_a_file_in_the_place_of_another_is_refused_as_by_every_reader(spark: SparkSession, tmp_path: Path) -> None:
    """With exit code 4 and what to do: it is no damage, and no fault of who wrote the log."""
    place = put(tmp_path / "things", [Updates([(ONE, 0, 1)]), Progress([0], [1], {0: 1})], row_type=PLAIN, per_file=1)
    files = sorted((tmp_path / "things").glob("*.avro"))
    shutil.copy(files[0], files[1])
    with pytest.raises(UnsafeTopicError) as by_reader:
        [*DirectoryLog(tmp_path / "things").read()]

    with pytest.raises(UnsafeTopicError, match="has not its own file 0{19}1.avro: it is file 0 of") as caught:
        run(spark, plan(tmp_path, [place]))
    assert str(by_reader.value) == str(caught.value)


def test_two_diffs_of_one_identity_are_told_with_both_positions(spark: SparkSession, tmp_path: Path) -> None:
    """Neither is chosen, and nothing of that time is given out."""
    error = contradiction(spark, tmp_path, [
        Updates([(ONE, 2, 1), (ONE, 3, 1)]), Updates([(ONE, 3, 2)]), Progress([0], [4], {2: 1, 3: 1})])

    place = str(tmp_path / "things")
    assert ("diff", 3, 1, 2, ONE) == (error.what, error.time, error.first, error.second, error.data)
    assert (Position(place, 0, 0), Position(place, 0, 1)) == error.positions
    assert Antichain([0]) == open_lake(tmp_path / "out").frontier


def test_two_diffs_are_found_though_no_statement_ever_comes(spark: SparkSession, tmp_path: Path) -> None:
    """At the end of the input everything that is open is looked at."""
    error = contradiction(spark, tmp_path, [Updates([(ONE, 3, 1)]), Updates([(ONE, 3, -1)])])

    assert ("diff", 3) == (error.what, error.time)


def test_two_counts_of_one_time_are_told_with_both_positions(spark: SparkSession, tmp_path: Path) -> None:
    """Statements that overlap must agree."""
    error = contradiction(spark, tmp_path, [Progress([0], [4], {3: 1}), Progress([1], [9], {3: 2})])

    place = str(tmp_path / "things")
    assert ("count", 3, 1, 2) == (error.what, error.time, error.first, error.second)
    assert (Position(place, 0, 0), Position(place, 0, 1)) == error.positions


def test_more_updates_than_were_stated_are_a_contradiction(spark: SparkSession, tmp_path: Path) -> None:
    """Repeats do not count; a second row does."""
    said = [Updates([(ONE, 3, 1)]), Updates([(ONE, 3, 1), (PLAIN.row([2, None]), 3, 1)])]
    error = contradiction(spark, tmp_path, [*said, Progress([0], [3]), Progress([3], [4], {3: 1})])

    assert ("surplus", 3, 1, 2) == (error.what, error.time, error.first, error.second)
    assert Antichain([3]) == open_lake(tmp_path / "out").frontier


def test_what_comes_after_its_time_is_finished_is_counted_as_late(spark: SparkSession, tmp_path: Path) -> None:
    """A reader that has forgotten a time can no longer distinguish a duplicate from a contradiction."""
    said = [Updates([(ONE, 1, 1)]), Progress([0], [2], {1: 1}), Updates([(ONE, 1, 5), (ONE, 2, 1)])]
    place = put(tmp_path / "things", said, row_type=PLAIN, per_file=2)
    wanted = plan(tmp_path, [place], files=1)

    reader, people = told(spark, wanted)

    assert 1 == reader.tables["things"].late
    assert {(ONE, 1, 1): 1} == replayed(spark, wanted)["things"]
    assert "complete through 1; 1 open times, 1 rows held; nothing that was stated is missing" in people


def test_what_is_missing_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """The log itself shows what it lacks: an update, and a statement."""
    said = [Updates([(ONE, 1, 1), (ONE, 1, 1)]), Progress([0], [2], {1: 2}), Progress([5], [9])]
    _, people = told(spark, plan(tmp_path, [put(tmp_path / "things", said, row_type=PLAIN)]))

    end = people.splitlines()[-1]
    assert "replay: complete through 0;" in end
    assert "missing: things: no statement covers the times from 2 to before 5; 1 update missing at time 1" in end


def test_times_of_several_coordinates_are_refused_by_name(tmp_path: Path) -> None:
    """They are for Iter; this job refuses them before it starts."""
    DirectoryLog(tmp_path / "things", PLAIN, create=True, times=2)

    with pytest.raises(UsageError, match="2 coordinates: this job takes integer times only"):
        row_type_of(tmp_path / "things")
