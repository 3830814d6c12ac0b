"""`cdcv2 as-of` prints a table as it was at a finished time, or why it cannot."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from cdcv2.logs.capture_manifest import put_manifest
from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import APPLE, HISTORY, PEAR, PLUM, Run, write


@pytest.mark.parametrize(
    ("at", "rows"),
    [
        (3, ["1,10,apple", '2,,""', '2,,""']),
        (5, ["1,10,apple", '2,,""', '2,,""']),
        (6, ["1,12,apple", '2,,""']),
        (9, ["1,12,apple", '2,,""', '3,7,"pl""um, ripe"']),
        (None, ["1,12,apple", '2,,""', '3,7,"pl""um, ripe"']),
    ],
)
def test_it_is_the_sum_of_what_happened_up_to_the_time(run: Run, prices: Path, at: int | None, rows: list[str]) -> None:
    """A row that is there twice is two lines; without a time it is all that is finished."""
    said = run("as-of", prices, *(["--at", at] if at is not None else []))

    assert (0, ["id,price,name", *rows]) == (said.code, said.out.splitlines())
    assert said.err.startswith("cdcv2 as-of: prices, ")


@pytest.mark.parametrize("at", [0, 2])
def test_a_time_before_the_history_is_wrong_usage(run: Run, prices: Path, at: int) -> None:
    """An empty table would mean that it is known to have been empty then."""
    said = run("as-of", prices, "--at", at)

    assert (2, "") == (said.code, said.out)
    assert f"nothing is known at time {at}: the history begins at 3" in said.err


def test_a_table_that_got_its_first_row_later_is_empty_before(run: Run, tmp_path: Path) -> None:
    """The logs that were captured with it know of something, so somebody looked; whether it is named by its folder."""
    logs = tmp_path / "logs"
    write(logs / "early", *HISTORY)
    write(logs / "late", Updates([(PLUM, 7, 1)]), Progress([0], [10], {7: 1}))
    empty = run("as-of", write(logs / "empty", Progress([0], [10])), "--at", 5)
    alone = run("as-of", logs / "late", "--at", 5)
    put_manifest(logs, {"version": 1, "tables": ["early", "late"]})

    assert (0, 2) == (empty.code, alone.code)
    for words in ([logs / "late"], [logs, "--table", "late"]):
        said = run("as-of", *words, "--at", 5)
        assert (0, ["id,price,name"]) == (said.code, said.out.splitlines())
        assert (2, True) == (run("as-of", *words, "--at", 2).code, "begins at 3" in run("as-of", *words, "--at", 2).err)


def test_a_captured_history_begins_with_its_snapshot(run: Run, captured: Path) -> None:
    """Its logs are stated from 0 on, and no reader looked before."""
    said = run("as-of", captured / "logs/public.orders", "--at", 5)

    assert (2, "", True) == (said.code, said.out, "the history begins at 101779848" in said.err)
    assert 0 == run("as-of", captured / "logs/public.orders", "--at", 101779848).code


def test_what_is_said_to_be_complete_through_is_a_time_that_is_taken(run: Run, prices: Path) -> None:
    """And the next one is not."""
    through = int(run("as-of", prices).err.split("complete through ")[1].split(":")[0])

    assert [0, 1] == [run("as-of", prices, "--at", at).code for at in (through, through + 1)]


def test_json_gives_distinct_rows_and_how_often_they_are_there(run: Run, prices: Path) -> None:
    """One object a line."""
    said = run("as-of", "--json", prices, "--at", 4)

    assert [
        {"data": {"id": 1, "price": 10, "name": "apple"}, "multiplicity": 1},
        {"data": {"id": 2, "price": None, "name": ""}, "multiplicity": 2},
    ] == [json.loads(line) for line in said.out.splitlines()]


def test_a_time_that_is_not_finished_is_refused_with_what_is_known(run: Run, tmp_path: Path) -> None:
    """Nothing is printed that could be taken for the table."""
    log = write(tmp_path / "prices", *HISTORY[:2], *HISTORY[3:])
    said = run("as-of", log, "--at", 7)

    assert (1, "") == (said.code, said.out)
    assert "time 7 is not finished in prices: complete through 5, and 3 updates missing at time 6" in said.err
    assert 0 == run("as-of", log, "--at", 5).code


def test_a_time_that_no_statement_covers_yet_is_named_as_that(run: Run, tmp_path: Path) -> None:
    """Nothing of it is missing, and it is not complete: the log has not come to it."""
    said = run("as-of", write(tmp_path / "prices", *HISTORY), "--at", 99)
    none = run("as-of", write(tmp_path / "none"))

    assert (1, "") == (said.code, said.out)
    assert "time 99 is not finished in prices: complete through 9, and no statement covers it yet: let what" in said.err
    assert "writes the log continue, or ask for an earlier time" in said.err
    assert (1, True) == (none.code, "no time is finished in none yet: no statement covers one: let what" in none.err)


def test_a_row_that_is_there_less_than_no_times_is_an_error(run: Run, tmp_path: Path) -> None:
    """The log does not hold the whole history, or its writer was wrong: no table can be made of it."""
    log = write(tmp_path / "prices", Updates([(APPLE, 3, 1), (PEAR, 3, -2)]), Progress([0], [5], {3: 2}))
    said = run("as-of", log, "--at", 4)

    assert (3, "") == (said.code, said.out)
    assert '{"id": 2, "price": null, "name": ""} is in prices -2 times' in said.err


def test_a_table_is_chosen_among_those_of_a_capture(run: Run, captured: Path) -> None:
    """By name; without one, the names are printed."""
    undecided = run("as-of", captured / "logs")
    unknown = run("as-of", captured / "logs", "--table", "public.nothing")

    assert (2, True) == (undecided.code, "choose one of these with --table" in undecided.err)
    assert (2, True) == (unknown.code, "there is no log of the table 'public.nothing'; there are" in unknown.err)


@pytest.mark.parametrize("tag", ["01_quiesced", "02_quiesced", "03_quiesced"])
def test_it_equals_what_the_database_held_when_it_was_recorded(run: Run, captured: Path, tag: str) -> None:
    """PostgreSQL's own copy of the table, taken while no client wrote."""
    truth = Path(__file__).resolve().parents[1] / "data" / "debezium" / "clean_full" / "truth" / tag
    at = json.loads((truth / "_meta.json").read_text("utf-8"))["lsn_int"]
    said = run("as-of", captured / "logs", "--table", "public.pgbench_tellers", "--at", at)
    with gzip.open(truth / "pgbench_tellers.csv.gz", "rt", encoding="utf-8", newline="") as file:
        expected = Counter(map(tuple, csv.reader(file)))

    assert 0 == said.code
    assert expected == Counter(map(tuple, csv.reader(io.StringIO(said.out))))


@pytest.mark.parametrize("words", [["--at", "soon"], ["--at", "-1"], ["--at", "1,x"]])
def test_a_time_that_is_none_is_wrong_usage(run: Run, prices: Path, words: list[str]) -> None:
    """An integer from 0 on, or several."""
    said = run("as-of", prices, *[f"{words[0]}={words[1]}"])

    assert (2, True) == (said.code, "is no time" in said.err)


@pytest.mark.parametrize("words", [
    ["as-of", "--at"], ["as-of", "--start"], ["replay", "--start"], ["verify", "--start"],
])  # fmt: skip
def test_a_time_of_another_kind_is_wrong_usage(run: Run, prices: Path, words: list[str]) -> None:
    """A log's times are integers, or Products of so many coordinates: the log is right, and the option is not."""
    said = run(words[0], prices, f"{words[1]}=3,4")

    assert 2 == said.code
    assert f"{words[1]} is for prices: the time Product(3, 4) is no int from 0 to 2**63 - 1" in said.err
