"""What a long run did, kept: one row per run and number, and a page for people made from all of them.

``record`` is called at the end of a stress test, after its last assertion, so that a run which failed leaves no row;
the run of histories every way is recorded with the seeds that differed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import cdcv2

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "stress"
COLUMNS = ["date", "version", "run", "seeds", "what", "count"]
INTRODUCTION = """# What the long runs did

The last run of each stress test, from [runs.csv](runs.csv), which has all of them. `make stress` runs them again and
appends; a run that failed leaves no row, but for histories captured every way: those that differed are named.

| run | date | seeds | what happened |
|---|---|---|---|
"""


def record(run: str, seeds: Sequence[int], counts: Mapping[str, int], folder: Path = FOLDER) -> None:
    """Append the numbers of one finished run, and write the page again.

    ``counts`` states what the run did, in words that a reader understands: ``{"histories": 20_000, "kills": 31}``.
    Raises ValueError without counts or seeds: such a run could neither be judged nor repeated.
    """
    if not counts or not seeds:
        raise ValueError(f"the run {run!r} needs its seeds and its counts; it has {list(seeds)} and {dict(counts)}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "runs.csv"
    fresh = not path.exists()
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)
        for what, count in counts.items():
            writer.writerow([date, cdcv2.__version__, run, spelled(seeds), what, count])
    (folder / "README.md").write_text(page(path), "utf-8")


def spelled(seeds: Sequence[int]) -> str:
    """Seeds for people: a run of neighbours as its ends.

    >>> spelled([3, 1, 2]), spelled([5]), spelled([1, 9])
    ('1..3', '5', '1 9')
    """
    first, last = min(seeds), max(seeds)
    if len(seeds) > 1 and sorted(seeds) == list(range(first, last + 1)):
        return f"{first}..{last}"
    return " ".join(map(str, seeds))


def page(path: Path) -> str:
    """The Markdown page with the last run of each name."""
    last: dict[str, list[dict[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows = last.setdefault(row["run"], [])
            if rows and rows[0]["date"] != row["date"]:
                rows.clear()
            rows.append(row)
    return INTRODUCTION + "".join(
        f"| {run} | {rows[0]['date']} | {rows[0]['seeds']} | "
        f"{', '.join('{:,} {}'.format(int(row['count']), row['what']) for row in rows)} |\n"
        for run, rows in sorted(last.items())
    )
