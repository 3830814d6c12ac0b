"""Small wrong changes, each tried in a fork of one run of pytest: tests are collected once for all of them.

``python -m tests.mutants_in_forks WORK RESULTS``, in the folder ``mutants`` that mutmut has made. WORK is JSON with, in
``tests``, for each mutant those to try it with, in that order; in ``took``, the seconds that a test takes. A line of
RESULTS is a mutant and what became of it: ``killed``, ``timeout`` (it took many times what its tests take, and was
ended), or ``survived``. Mutants that are there already are not tried again, so a run that was stopped goes on. A test
that has noticed a change of a function is tried first with its next ones.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

#: Seconds of CPU for the tests of one mutant, beside this many times what they took before.
LEAST, TIMES = 8, 6
#: A change that waits and uses no CPU is ended after that many times as many seconds.
PATIENCE = 10
#: Changes at a time for each core: some wait for ever, and only the patience above ends them.
AT_ONCE = 3
#: The file in which a child states the test that noticed the change.
NOTICING = "noticing"


class Forks:
    """The plugin: instead of running the collected tests it tries the mutants with them."""

    def __init__(
        self, work: Mapping[str, Sequence[str]], took: Mapping[str, float], results: Path, children: int
    ) -> None:
        self._work, self._took, self._results, self._children = work, took, results, children
        self._running: dict[int, tuple[str, Path]] = {}
        # Function -> the tests that have noticed changes of it, the last one first.
        self._noticing: dict[str, list[str]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all that has no result yet."""
        items = {item.nodeid: item for item in session.items}
        done = {line.split()[0] for line in self._results.read_text("utf-8").splitlines()}
        waiting = [mutant for mutant in self._work if mutant not in done]
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]  # a child gets a folder of its own
        base = factory.getbasetemp()
        # What is there stays, and a child that collects garbage would copy all of it.
        gc.freeze()
        for number, mutant in enumerate(waiting):
            while len(self._running) >= self._children:
                self._reap()
            folder = base / f"m{number}"
            folder.mkdir()
            first = self._noticing.get(_function(mutant), [])
            tests = [test for test in dict.fromkeys([*first, *self._work[mutant]]) if test in items]
            child = os.fork()
            if not child:
                factory._basetemp = folder
                seconds = ceil(sum(self._took.get(test, 0) for test in tests))
                _try(mutant, [items[test] for test in tests], seconds, folder / NOTICING)
            self._running[child] = (mutant, folder)
        while self._running:
            self._reap()
        return True

    def _reap(self) -> None:
        child, status = os.wait()
        mutant, folder = self._running.pop(child)
        code = os.waitstatus_to_exitcode(status)
        with self._results.open("a", encoding="utf-8") as file:
            file.write(f"{mutant} {'survived' if code == 0 else 'timeout' if code < 0 else 'killed'}\n")
        if (folder / NOTICING).exists():
            test, last = (folder / NOTICING).read_text("utf-8"), self._noticing.get(_function(mutant), [])
            self._noticing[_function(mutant)] = [test, *(other for other in last if other != test)]
        shutil.rmtree(folder, ignore_errors=True)


def _function(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


def _try(mutant: str, items: Sequence[pytest.Item], seconds: int, noticing: Path) -> None:
    """In the child: run these tests with the change, to the first that fails; the exit code states whether one did."""
    try:
        limit = LEAST + TIMES * seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(PATIENCE * limit)
        from mutmut.mutation.trampoline import set_mutant_under_test

        set_mutant_under_test(mutant)
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                noticing.write_text(item.nodeid, "utf-8")
                os._exit(1)
        os._exit(0)
    finally:
        # What a change raises past pytest, SystemExit among it, is noticed as well.
        os._exit(1)


def main(work: Path, results: Path) -> int:
    """Collect, and try; see the module."""
    asked = json.loads(work.read_text("utf-8"))
    results.touch()
    files = sorted({test.split("::")[0] for tests in asked["tests"].values() for test in tests})
    # The tracebacks are not read, and pytest's own form of one takes a hundred times as long as the test that fails.
    options = [
        "-q", "--tb=native", "--capture=sys", "-p", "no:xdist", "-p", "no:cacheprovider",
        "-m", "not integration and not spark",
    ]
    forks = Forks(asked["tests"], asked["took"], results, AT_ONCE * (os.cpu_count() or 1))
    return int(pytest.main([*options, *files], plugins=[forks]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
