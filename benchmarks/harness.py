"""A benchmark is a question, a baseline and cases that are measured against it, pair by pair.

In one *round* the baseline and every case run once, over the same input, in an order that turns by one place from round
to round. The machine's mood of the minute is then in both halves of each pair, and the ratio of a pair is steadier than
either time. What is kept is the median, least and greatest of the rounds: of the seconds, of the ratio to the baseline,
and of all other numbers that a case reports, as rows of a CSV with their date, machine and versions.
"""

from __future__ import annotations

import csv
import gc
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time
from typing import Generic, TypeVar

import cdcv2

Input = TypeVar("Input")

RESULTS = Path(__file__).resolve().parent / "results"
#: The measures that every case has: wall time, and the CPU time of all threads of this process.
SECONDS = "seconds"
CPU_SECONDS = "CPU seconds of this process"
#: What cases have beside these whose work is done by servers, too.
CPU_WITH_SERVERS = "CPU seconds, servers included"


@dataclass(frozen=True)
class Case(Generic[Input]):
    """One way to do the work.

    ``run(input)`` is timed, by the wall and by the CPU time of this process. It returns figures of its own, by name
    (``{"bytes per row": 31.2}``), or nothing.
    ``reset(input)`` comes before each run and is not timed: a fresh output folder, a new topic.
    ``check(input)`` comes after each run and is not timed: it raises when the work was not done, as a wrong answer has
    no speed.
    """

    name: str
    run: Callable[[Input], Mapping[str, float] | None]
    reset: Callable[[Input], object] | None = None
    check: Callable[[Input], object] | None = None


@dataclass(frozen=True)
class Question(Generic[Input]):
    """What is asked: the same ``size`` units of work, done by the baseline and by each case.

    ``prepare(seed, size)`` makes the input, once per seed, deterministically; ``close(input)`` ends what it started.
    ``versions`` names the installed packages whose version belongs to the answer. ``servers(input)`` is the CPU time
    that its servers have taken so far; it is asked before and after each run, outside of the clock.
    """

    prepare: Callable[[int, int], Input]
    baseline: Case[Input]
    cases: Sequence[Case[Input]]
    size: int
    unit: str
    versions: Sequence[str] = ()
    close: Callable[[Input], object] | None = None
    servers: Callable[[Input], float] | None = None
    rounds: int = 5
    warm_up: int = 2


@dataclass(frozen=True)
class Plan:
    """How to ask: None means as in the question itself. ``scale`` multiplies its size."""

    seeds: Sequence[int] = (1,)
    rounds: int | None = None
    warm_up: int | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class Spread:
    """The median, least and greatest of the rounds."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Answer:
    """One measure of one case: ``measure`` is one that every case has, or the name of a figure that the case reports.

    ``ratio`` is that of each round's value to the baseline's value in the same round; None for figures that the
    baseline does not report, and where it is zero.
    """

    question: str
    case: str
    baseline: str
    measure: str
    unit: str
    size: int
    seed: int
    rounds: int
    warm_up: int
    spread: Spread
    ratio: Spread | None

    @property
    def per_second(self) -> float | None:
        """Units of work per second at the median; None for measures that are no time."""
        timed = self.measure in (SECONDS, CPU_SECONDS, CPU_WITH_SERVERS)
        return self.size / self.spread.median if timed and self.spread.median else None


@dataclass
class Rounds:
    """What each case measured in each round so far, by case and measure."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, case: str, measured: Mapping[str, float]) -> None:
        """Take in one run's measures."""
        for measure, value in measured.items():
            self.values.setdefault(case, {}).setdefault(measure, []).append(value)

    def ratios(self, case: str, baseline: str, measure: str) -> Spread | None:
        """The spread of the ratios, pair by pair; None if there are no pairs."""
        ours, theirs = self.values[case][measure], self.values[baseline].get(measure, [])
        if len(ours) != len(theirs) or 0 in theirs:
            return None
        return Spread.of([mine / other for mine, other in zip(ours, theirs)])


def ask(name: str, question: Question[Input], plan: Plan = Plan()) -> Iterator[Answer]:
    """Run the question as planned, and give the answers for each seed when its rounds are done.

    Whatever a case raises ends the question: half an answer is none.
    """
    rounds = question.rounds if plan.rounds is None else plan.rounds
    warm_up = question.warm_up if plan.warm_up is None else plan.warm_up
    size = max(1, round(question.size * plan.scale))
    for seed in plan.seeds:
        given = question.prepare(seed, size)
        try:
            measured = _measure(question, given, rounds, warm_up)
        finally:
            if question.close:
                question.close(given)
        for case, measures in measured.values.items():
            for measure, values in measures.items():
                ratio = measured.ratios(case, question.baseline.name, measure)
                about = (name, case, question.baseline.name, measure, question.unit)
                yield Answer(*about, size, seed, rounds, warm_up, Spread.of(values), ratio)


def _measure(question: Question[Input], given: Input, rounds: int, warm_up: int) -> Rounds:
    contenders = [question.baseline, *question.cases]
    measured = Rounds({case.name: {} for case in contenders})
    for number in range(warm_up + rounds):
        turn = number % len(contenders)
        for case in contenders[turn:] + contenders[:turn]:
            figures = _run(case, given, question.servers)
            if number >= warm_up:
                measured.add(case.name, figures)
    return measured


def _run(case: Case[Input], given: Input, servers: Callable[[Input], float] | None) -> dict[str, float]:
    if case.reset:
        case.reset(given)
    # What the case before left behind is not cleared away on this one's time.
    gc.collect()
    before = 0.0 if servers is None else servers(given)
    cpu, start = process_time(), perf_counter()
    figures = case.run(given)
    measured = {SECONDS: perf_counter() - start, CPU_SECONDS: process_time() - cpu}
    if servers is not None:
        measured[CPU_WITH_SERVERS] = measured[CPU_SECONDS] + servers(given) - before
    if case.check:
        case.check(given)
    return {**measured, **(figures or {})}


def surroundings(packages: Sequence[str]) -> dict[str, str | int]:
    """What the figures depend on beside the code: date, machine, cores, versions."""
    versions = [f"cdcv2 {cdcv2.__version__}", *(f"{package} {metadata.version(package)}" for package in packages)]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "versions": "; ".join(versions),
        "cores": os.cpu_count() or 0,
        "machine": f"{platform.system()} {platform.machine()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def row(answer: Answer, around: Mapping[str, str | int]) -> dict[str, str | int]:
    """An answer as a row of the CSV; empty cells are what does not apply."""
    return {
        **around,
        "question": answer.question,
        "case": answer.case,
        "baseline": answer.baseline,
        "measure": answer.measure,
        "unit": answer.unit,
        "size": answer.size,
        "seed": answer.seed,
        "rounds": answer.rounds,
        "warm_up": answer.warm_up,
        **_cells("", answer.spread),
        **_cells("ratio_", answer.ratio),
        "per_second": "" if answer.per_second is None else f"{answer.per_second:.0f}",
    }


def _cells(prefix: str, spread: Spread | None) -> dict[str, str]:
    values = (spread.median, spread.least, spread.greatest) if spread else ("", "", "")
    named = zip(("median", "min", "max"), values)
    return {prefix + name: value if isinstance(value, str) else f"{value:.6g}" for name, value in named}


def keep(rows: Sequence[Mapping[str, str | int]], path: Path) -> None:
    """Append rows to a CSV, which is made with a header when it is not there.

    Raises ValueError when the file has other columns: its figures would no longer fit its header.
    """
    columns = list(rows[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    if not fresh:
        with path.open(encoding="utf-8", newline="") as file:
            found = next(csv.reader(file), [])
        if found != columns:
            raise ValueError(f"{path} has the columns {found}, not {columns}: move it away, or convert it")
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(rows)
