"""``python -m benchmarks [NAME ...]``: ask the questions of this folder and keep their answers."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks.harness import RESULTS, Answer, Plan, Question, ask, keep, row, surroundings

MACHINERY = ("harness", "indexed_shop", "kafka_gate", "pipeline_world", "shop", "stage")


def names() -> list[str]:
    """The questions: every module of this folder but the machinery."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_") and name not in MACHINERY)


def load(name: str) -> tuple[str, Question[Any]]:
    """A question, and the sentence in which its module asks it."""
    module = importlib.import_module(f"benchmarks.{name}")
    return (module.__doc__ or "").strip().splitlines()[0], module.QUESTION


def line(answer: Answer) -> str:
    """An answer for people."""
    spread = answer.spread
    text = f"  {answer.case}: {answer.measure} {spread.median:.4g} [{spread.least:.4g} .. {spread.greatest:.4g}]"
    if answer.per_second:
        text += f"  {answer.per_second:,.0f} {answer.unit}/s"
    if answer.ratio and answer.case != answer.baseline:
        text += f"  x{answer.ratio.median:.2f} of '{answer.baseline}'"
    return text


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="questions to ask; all when none is given")
    parser.add_argument("--list", action="store_true", help="print the questions and ask none")
    parser.add_argument("--seed", type=int, action="append", dest="seeds", help="seed of the input; may be repeated")
    parser.add_argument("--rounds", type=int, help="measured rounds, instead of each question's own number")
    parser.add_argument("--warm-up", type=int, help="rounds before them that are not kept")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the size of the work (1)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the CSV files")
    asked = parser.parse_args(argv)
    if unknown := sorted(set(asked.names) - set(names())):
        parser.error(f"there is no question {', '.join(unknown)}; there are: {', '.join(names())}")
    if asked.rounds is not None and asked.rounds < 1 or asked.scale <= 0:
        parser.error("--rounds and --scale must be greater than 0")
    return asked


def main(argv: Sequence[str] | None = None) -> int:
    """Ask what the command line names; the exit code is 0 when all was answered."""
    asked = arguments(argv)
    plan = Plan(asked.seeds or (1,), asked.rounds, asked.warm_up, asked.scale)
    for name in asked.names or names():
        sentence, question = load(name)
        print(f"{name}: {sentence}", flush=True)
        if asked.list:
            continue
        # Before the run: afterwards the load would be its own.
        around = surroundings(question.versions)
        answers = list(ask(name, question, plan))
        keep([row(answer, around) for answer in answers], asked.results / f"{name}.csv")
        for answer in answers:
            print(line(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
