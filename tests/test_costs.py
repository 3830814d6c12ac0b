"""docs/costs.md has what the last rows of benchmarks/results state, each figure with its date."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "costs.md").read_text("utf-8")
#: The same, each run of spaces and line ends as one space.
TEXT = " ".join(PAGE.split())

CPU, WITH_SERVERS = "CPU seconds of this process", "CPU seconds, servers included"


@cache
def results(question: str) -> list[dict[str, str]]:
    """All rows of a question; the last ones are the answer."""
    with (ROOT / "benchmarks" / "results" / f"{question}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def last(question: str, case: str, measure: str) -> dict[str, str]:
    """The newest row of a case."""
    return [row for row in results(question) if (row["case"], row["measure"]) == (case, measure)][-1]


def day(row: dict[str, str]) -> str:
    """When it was measured."""
    return row["date"].partition(" ")[0]


#: Beginning of a line of the table -> the row that it is of.
TABLE = {
    "read a log in memory, CPU time": ("iter_throughput", "Iter", CPU),
    "capture on Spark": ("spark_capture", "capture job", "seconds"),
    "replay on Spark": ("spark_replay", "replay job", "seconds"),
    "materialize into PostgreSQL, from a log, CPU time with that of the server": (
        "materialize_postgres_log", "cdcv2 materialize, from a log", WITH_SERVERS,
    ),
}  # fmt: skip


def test_the_table_has_the_last_answers() -> None:
    """Three digits of a number of updates, two of smaller ones; and no line without a benchmark."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:2] == "| "]
    found = {cells[0]: cells for cells in lines if len(cells) == 5 and cells[0]}
    assert TABLE.keys() == found.keys()
    for what, named in TABLE.items():
        row, (_, speed, _, ratio, date) = last(*named), found[what]
        number = int(row["per_second"])
        shown = f"{round(number, -3 if number < 1_000_000 else -4):,}"
        assert (shown, f"{float(row['ratio_median']):.1f}", day(row)) == (speed, ratio, date), what


def micros(question: str, case: str) -> float:
    """Microseconds of CPU of a changed row, without servers."""
    row = last(question, case, CPU)
    assert "2026-11-30" == day(row)
    return 1e6 * float(row["median"]) / int(row["size"])


def test_the_cpu_of_a_row_is_between_what_was_measured() -> None:
    """As columns, and row by row; in both targets of the benchmarks."""
    lake, postgres = "materialize_lake", "materialize_postgres"
    columns = [micros(lake, "append to a lake, a multiset"), micros(lake, "rows by key in a lake"),
               micros(postgres, "materialize"), micros(postgres, "materialize, a multiset")]  # fmt: skip
    by_row = [micros(lake, "rows by key in a lake, a Load and a Store a key"),
              micros(postgres, "materialize, a multiset, a Load and a Store a row")]  # fmt: skip

    assert f"takes {min(columns):.0f} to {max(columns):.0f} microseconds of CPU (measured on 2026-11-30" in TEXT
    # Two digits would state more than such a measurement does.
    assert f"takes {round(min(by_row), -1):.0f} to {round(max(by_row), -1):.0f} microseconds." in TEXT


def test_the_cpu_of_a_capture_is_what_was_measured() -> None:
    """Of a row of a snapshot, in the process of the capture, which is a child of that of the benchmark."""
    row = last("capture_memory", "all rows in memory", WITH_SERVERS)
    micros_of_a_row = 1e6 * float(row["median"]) / int(row["size"])

    assert "1000000" == row["size"]
    assert f"million rows took {micros_of_a_row:.0f} microseconds of CPU (measured on {day(row)}, by commit" in TEXT


def test_a_small_transaction_takes_what_was_measured() -> None:
    """Each is one of twenty."""
    def millis(case: str) -> float:
        row = last("materialize_transactions", case, "seconds")
        assert "2026-11-22" == day(row)
        return 1e3 * float(row["median"]) / int(row["size"])

    first = millis("INSERT ... ON CONFLICT of one row")
    for target, begin in (("PostgreSQL", "takes {} to {} ms in PostgreSQL"), ("a lake", "takes {} to {} ms in a lake")):
        times = [millis(f"{rows} rows into {target}") for rows in (1, 10, 100)]
        assert begin.format(round(min(times)), round(max(times))) in TEXT
    assert f"commit: {first:.0f} ms" in TEXT
    assert "This was measured on 2026-11-22" in TEXT


@pytest.mark.parametrize(("where", "case"), [
    ("in the connector's topic", "in the connector's topic"),
    ("in the log, by `cdcv2 capture`", "finished in the log of cdcv2 capture --remap"),
    ("in the log, by the job on Spark", "finished in the log of the job on a shared remap"),
])  # fmt: skip
def test_the_latency_is_what_was_measured(where: str, case: str) -> None:
    """In seconds."""
    rows = [last("capture_latency", case, f"ms from commit, {kind}") for kind in ("median", "p99")]
    shown = " | ".join(f"{float(row['median']) / 1000:.1f} s" for row in rows)

    assert f"| {where} | {shown} |" in TEXT
    assert {"2026-11-22"} == set(map(day, rows)) and "It was measured on 2026-11-22, on a [remap]" in TEXT


def test_the_space_is_what_was_measured() -> None:
    """Of two kinds of rows."""
    small = last("spark_replay", "Kafka to Parquet with from_avro", "bytes of the log per distinct update")
    wide = last("spark_capture", "capture job", "bytes of the log per update")

    short, long = (f"{float(row['median']):.0f}" for row in (small, wide))
    assert f"{short} bytes per update of four short columns, and {long} per update of a `pgbench_accounts` row" in TEXT
    assert {"2026-11-22"} == {day(small), day(wide)} and "filler (2026-11-22)" in TEXT


def test_no_date_is_of_a_day_on_which_nothing_was_measured() -> None:
    """The judge knows each day that the page names."""
    days = {day(row) for path in (ROOT / "benchmarks" / "results").glob("*.csv") for row in results(path.stem)}

    assert set(re.findall(r"\d{4}-\d\d-\d\d", PAGE)) <= days
