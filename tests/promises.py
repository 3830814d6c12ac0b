"""For each promise the line that keeps it, broken: a test that is named beside it must fail.

``python -m tests.promises`` (``make promises``) reads ``docs/mutation/promises.toml``. An entry there is the promise in
one sentence, a file, some of its lines as they are and as broken, and the tests that hold the promise. In copies of the
checkout, never in place, the tests are first run as everything is and must pass; then each entry's lines are broken,
and each of its tests must fail: by what it asserts, not since it could not be collected. With words behind the command
only those entries are tried that have one of these in their text. The results of the runs at one commit are put
together, and where the files are those of the commit, ``docs/mutation/promises.md`` is written from them.

``make mutate`` changes every line of some modules without knowing what it is for. Here it is the other way round: the
promises come first, wherever the lines that keep them are.

Exit 0: every promise is held by all its tests; 1: some are not, and they are printed.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from queue import SimpleQueue
from textwrap import dedent, indent
from time import monotonic
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("docs/mutation/promises.toml")
SUMMARY = Path("docs/mutation/promises.md")
#: The results of the runs at one commit.
KEPT = Path(".work/promises.json")
#: Copies of the checkout that are worked in at once.
COPIES = 2
#: Seconds after which a run of tests is ended: it did not fail.
PATIENCE = 900


@dataclass(frozen=True)
class Promise:
    """What is promised, the lines that keep it, and the tests that hold it: ``FILE::FUNCTION``, or one case of it.

    ``lines`` and ``broken`` are whole lines of ``file``; ``about`` is the heading that the promise stands under.
    """

    about: str
    says: str
    file: str
    lines: str
    broken: str
    tests: tuple[str, ...]

    @property
    def text(self) -> str:
        """What the words of the command line are looked for in."""
        return "\n".join((self.about, self.says, self.file, *self.tests))

    def at(self, content: str) -> list[int]:
        """The numbers of the lines at which ``lines`` stand in a file.

        >>> Promise("a", "b", "c", "x\\n", "y\\n", ()).at("w\\nx\\n  x\\n")
        [2]
        """
        found, start = list[int](), ("\n" + content).find("\n" + self.lines)
        while start >= 0:
            found.append(content.count("\n", 0, start) + 1)
            start = ("\n" + content).find("\n" + self.lines, start + 1)
        return found

    def break_in(self, content: str) -> str:
        """The file with its lines broken. Raises ValueError where they stand at no place, or at several."""
        at = self.at(content)
        if len(at) != 1:
            raise ValueError(f"{self.file}: the lines of {self.says!r} stand at {len(at)} places: {at}")
        before = "".join(content.splitlines(True)[:at[0] - 1])
        return before + self.broken + content[len(before) + len(self.lines):]


def promises(text: str) -> list[Promise]:
    """The entries of the table. Raises KeyError, TypeError for an entry that is none."""
    return [Promise(**{**entry, "tests": tuple(entry["tests"])}) for entry in tomllib.loads(text)["promise"]]


def is_there(test: str, root: Path = ROOT) -> bool:
    """Whether there is a test function of this name; whether it has the case is seen when it is run.

    >>> is_there("tests/test_promises.py::test_lines_are_whole_and_at_one_place[1]"), is_there("tests/checks.py::f")
    (True, False)
    """
    file, _, name = test.partition("[")[0].partition("::")
    body = ast.parse((root / file).read_text("utf-8")).body
    return name in {node.name for node in body if isinstance(node, ast.FunctionDef)} and name.startswith("test_")


@dataclass
class Results:
    """Of each test function how many of its cases passed, failed, and could not be run; and the same of each case."""

    passed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, xml: str) -> Results:
        """The counts in pytest's JUnit report.

        >>> Results.of('<x><testcase classname="tests.core.test_a" name="test_b[1]"><failure/></testcase></x>').failed
        {'tests/core/test_a.py::test_b': 1, 'tests/core/test_a.py::test_b[1]': 1}
        """
        results = cls()
        for case in ElementTree.fromstring(xml).iter("testcase"):
            full = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            kinds = {child.tag for child in case}
            one = results.failed if "failure" in kinds else results.passed
            if kinds & {"error", "skipped"}:
                one = results.broken
            for name in {full, full.partition("[")[0]}:
                one[name] = one.get(name, 0) + 1
        return results


class Checkout:
    """A copy of the checkout's files, with their changes, in a directory of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._clock = 1_000_000_000
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        # Some tests ask git which files there are.
        subprocess.run("git init -q && git add -A", shell=True, cwd=folder, check=True)

    def write(self, file: str, content: str) -> None:
        """Change a file, at a time of its own: bytecode is known by its source's time, in seconds."""
        self._clock += 10
        path = self.folder / file
        path.write_text(content, "utf-8")
        os.utime(path, (self._clock, self._clock))

    def run(self, tests: Iterable[str]) -> tuple[Results | None, str]:
        """Run these tests here: their results, and what pytest printed; None: it was ended, as it took too long."""
        report = self.folder / ".work" / "promises.xml"
        report.parent.mkdir(exist_ok=True)
        report.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "HYPOTHESIS_PROFILE": "mutate",
                       "PYTHONPYCACHEPREFIX": str(self.folder / ".work" / "pycache")}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        try:
            ran = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:
            return None, str(error)
        return Results.of(report.read_text("utf-8")) if report.exists() else Results(), ran.stdout


@dataclass(frozen=True)
class Verdict:
    """The result of a broken promise: the cases that failed, by test; ``held`` if each of its tests has one."""

    promise: Promise
    line: int
    failed: Mapping[str, int]
    trouble: str
    seconds: float

    @property
    def held(self) -> bool:
        """Whether all its tests failed."""
        return not self.trouble


def judge(promise: Promise, results: Results | None) -> str:
    """Why the tests do not hold the promise; empty: they do."""
    if results is None:
        return f"its tests did not end in {PATIENCE} s"
    if unrun := [test for test in promise.tests if test in results.broken]:
        return f"could not be run: {', '.join(unrun)}"
    if silent := [test for test in promise.tests if test not in results.failed]:
        return f"broken, and unnoticed by: {', '.join(silent)}"
    return ""


def try_one(promise: Promise, checkout: Checkout) -> Verdict:
    """Break the promise in a copy, run its tests, and put the copy right again."""
    path, begun = checkout.folder / promise.file, monotonic()
    whole = path.read_text("utf-8")
    checkout.write(promise.file, promise.break_in(whole))
    try:
        results, printed = checkout.run(promise.tests)
    finally:
        checkout.write(promise.file, whole)
    trouble = judge(promise, results)
    if trouble:
        print(indent(printed[-3000:], "    | "), file=sys.stderr)
    failed = results.failed if results is not None else {}
    return Verdict(promise, promise.at(whole)[0], failed, trouble, monotonic() - begun)


def unbroken(entries: Sequence[Promise], checkouts: Sequence[Checkout]) -> list[str]:
    """The tests that do not pass as everything is."""
    files: dict[str, list[str]] = {}
    for test in sorted({test for promise in entries for test in promise.tests}):
        files.setdefault(test.partition("::")[0], []).append(test)
    shares: list[list[str]] = [[] for _ in checkouts]
    # Those that share a Spark are one share's.
    for at, (file, tests) in enumerate(sorted(files.items(), key=lambda item: item[0].startswith("tests/spark/"))):
        shares[0 if file.startswith("tests/spark/") else at % len(shares)] += tests
    with ThreadPoolExecutor(len(checkouts)) as together:
        ran = list(together.map(lambda pair: pair[0].run(pair[1]), (
            (checkout, share) for checkout, share in zip(checkouts, shares) if share)))
    wrong = []
    for share, (results, printed) in zip(filter(None, shares), ran):
        good = results or Results()
        bad = [test for test in share if test not in good.passed or test in good.failed or test in good.broken]
        wrong += bad
        if bad:
            print(indent(printed[-6000:], "    | "), file=sys.stderr)
    return wrong


def verdicts(entries: Sequence[Promise], checkouts: Sequence[Checkout]) -> Iterator[Verdict]:
    """Try each entry, each in a copy that is free; in their order."""
    free: SimpleQueue[Checkout] = SimpleQueue()
    for checkout in checkouts:
        free.put(checkout)

    def tried(promise: Promise) -> Verdict:
        checkout = free.get()
        try:
            return try_one(promise, checkout)
        finally:
            free.put(checkout)

    with ThreadPoolExecutor(len(checkouts)) as together:
        yield from together.map(tried, entries)


def named(root: Path) -> str:
    """The commit, and whether the files are other than it."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "-uno", "--", ".", f":!{SUMMARY}")
    return git("rev-parse", "--short=12", "HEAD") + (_CHANGED if changed else "")


_CHANGED = " with changes"


def keep(path: Path, commit: str, verdict: Verdict) -> None:
    """Add it to the results of other runs at this commit; those of another commit are forgotten."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        plain = json.loads(file.read() or "{}")
        kept = plain.get("verdicts", {}) if plain.get("commit") == commit else {}
        kept[verdict.promise.says] = [verdict.line, verdict.failed, verdict.trouble, verdict.seconds]
        file.truncate(0)
        file.write(json.dumps({"commit": commit, "verdicts": kept}))


def kept(path: Path, commit: str, entries: Iterable[Promise]) -> list[Verdict]:
    """The results of these entries at this commit, as far as they were tried."""
    plain = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = plain.get("verdicts", {}) if plain.get("commit") == commit else {}
    return [Verdict(promise, *found[promise.says]) for promise in entries if promise.says in found]


def summary(found: Sequence[Verdict], of: int, commit: str) -> str:
    """The results of the entries that were tried, of so many."""
    seconds = sum(verdict.seconds for verdict in found)
    held = sum(verdict.held for verdict in found)
    day = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    parts = [
        "# Promises, and what notices when they are broken\n",
        f"Written by `make promises` on {day}, at commit {commit}: of {of} places that keep a promise {len(found)} "
        f"were broken, each by itself, in {seconds / 60:.0f} minutes; for {held} of them each test that is named "
        "beside it failed (in so many cases).\n",
    ]
    about, headings = "", list(dict.fromkeys(verdict.promise.about for verdict in found))
    for verdict in sorted(found, key=lambda one: headings.index(one.promise.about)):
        promise = verdict.promise
        if promise.about != about:
            about = promise.about
            parts.append(f"## {about}\n")
        width = len(promise.lines) - len(promise.lines.lstrip(" "))
        change = "".join(
            f"{sign} {line}\n" for sign, lines in (("-", promise.lines), ("+", promise.broken))
            for line in dedent_by(lines, width).splitlines()
        )
        # The name of a file of tests is unique.
        tests = ", ".join(f"`{test.rpartition('/')[2]}` ({verdict.failed[test]})"
                          for test in promise.tests if test in verdict.failed)
        parts.append(f"{promise.says}\n\n`{promise.file}`, line {verdict.line}:\n\n```diff\n{change}```\n\n"
                     f"{verdict.trouble or 'Failed'}: {tests or 'none'}\n")
    return "\n".join(parts)


def dedent_by(lines: str, width: int) -> str:
    """The lines without so many spaces before them, where there are as many.

    >>> dedent_by("  a\\n    b\\n", 2)
    'a\\n  b\\n'
    """
    return dedent("".join(line[min(width, len(line) - len(line.lstrip(" "))):] for line in lines.splitlines(True)))


def main(words: Sequence[str]) -> int:
    """Try them; see the module."""
    every, commit, begun = promises((ROOT / TABLE).read_text("utf-8")), named(ROOT), monotonic()
    entries = [promise for promise in every if not words or any(word in promise.text for word in words)]
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="promises-"))) for _ in range(COPIES)]
        checkouts = [Checkout(ROOT, folder) for folder in folders]
        print(f"{len(entries)} promises; their tests as everything is ...", flush=True)
        if wrong := unbroken(entries, checkouts):
            print("these tests do not pass unbroken:", *wrong, sep="\n  ")
            return 1
        found = list[Verdict]()
        for verdict in verdicts(entries, checkouts):
            found.append(verdict)
            keep(ROOT / KEPT, commit, verdict)
            print(f"{len(found):4} {verdict.seconds:5.0f} s  {'held' if verdict.held else 'NOT HELD'}  "
                  f"{verdict.promise.says}", flush=True)  # fmt: skip
            if verdict.trouble:
                print(f"            {verdict.promise.file}:{verdict.line}: {verdict.trouble}", flush=True)
    held = sum(verdict.held for verdict in found)
    print(f"{len(found)} promises, {held} held, {len(found) - held} not; {monotonic() - begun:.0f} s")
    if not commit.endswith(_CHANGED):
        (ROOT / SUMMARY).write_text(summary(kept(ROOT / KEPT, commit, every), len(every), commit), "utf-8")
    return 0 if held == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
