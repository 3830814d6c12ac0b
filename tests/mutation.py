"""Small wrong changes, one at a time: those that no test notices are explained in writing, or they are a hole.

``python -m tests.mutation`` (``make mutate``) lets mutmut change the boxes named in setup.cfg and run their tests, and
holds the survivors against ``docs/mutation/survivors.txt``. An entry there is the function, the changed lines, and
after ``=`` the reason why no test can or need notice::

    cdcv2.core.order.join
    -        return a if a >= b else b
    +        return a if a > b else b
    = two equal ints are one value

A change is tried with the tests of its own box first (``NEAR``), which are short; what these do not notice and no entry
explains, with all tests that call the function, some of which take minutes.

With words behind the command only modules are judged whose dotted names begin with one of them. The changed files in
``mutants/`` stay, and what became of each change, so a run that was stopped goes on, as long as no code was edited.

The key is the change itself and not a number, so an entry holds until the line that it is about changes. Exit 0: every
survivor is explained; 1: some are not, and they are printed in this form, to be killed by a test or explained.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

EXPLAINED = Path(__file__).resolve().parent.parent / "docs" / "mutation" / "survivors.txt"
STATS = Path("mutants") / "mutmut-stats.json"
#: Functions, by the beginning of their dotted names -> files of tests, by the beginning of theirs; the first that fits.
NEAR = {
    "cdcv2.capture.": ("tests/capture/",),
    "cdcv2.core.": ("tests/core/",),
    "cdcv2.protocol.mangle.": ("tests/protocol/test_mangle",),
    "cdcv2.protocol.coverage.": ("tests/protocol/test_coverage",),
    "cdcv2.protocol.writer.": ("tests/protocol/test_writer",),
    "cdcv2.protocol.timeline.": ("tests/protocol/test_timeline", "tests/protocol/test_histories"),
    "cdcv2.protocol.": tuple(f"tests/protocol/test_{name}" for name in (
        "histories", "integer", "iter", "ledger", "log", "mar", "me", "mi", "open", "ordered", "quarantine",
        "rules", "state")),
    **{f"cdcv2.instances.{name}.": (f"tests/instances/test_{name}",) for name in (
        "arrangement", "commands", "history", "instance", "kept_times", "reconcile", "replicas", "stages", "wire")},
    "cdcv2.instances.front.": ("tests/instances/test_front_steps",),
    "cdcv2.instances.requests.": ("tests/instances/test_front",),
    "cdcv2.timeline.": ("tests/timeline/",),
    "cdcv2.views.arrow_columns.": ("tests/views/test_arrow_columns",),
    "cdcv2.views.changes.": ("tests/views/test_changes",),
    "cdcv2.views.columns.": ("tests/views/test_columns",),
    "cdcv2.views.identity.": ("tests/views/test_identity",),
    **{f"cdcv2.views.{module}.": tuple(f"tests/views/test_{name}" for name in (
        "changes", "binding", "combined_updates", "view_tables")) for module in ("binding", "combined_updates")},
    "cdcv2.views.reductions.": (
        "tests/views/test_binding", "tests/views/test_view_tables", "tests/materialize/test_source_columns"),
    "cdcv2.views.source_columns.": ("tests/views/test_source_columns",),
    **{f"cdcv2.materialize.targets.{name}.": ("tests/materialize/targets/test_manifests",) for name in (
        "delta.manifest", "lake.manifest", "manifests")},
    **{f"cdcv2.materialize.targets.lake.{name}.": ("tests/materialize/targets/test_lake_parts",) for name in (
        "columns", "counts", "file_cache")},
    "cdcv2.materialize.targets.lake.view.": ("tests/materialize/targets/test_lake_view",),
    "cdcv2.materialize.targets.lake.history.": ("tests/materialize/targets/test_lake_histor",),
    "cdcv2.materialize.targets.kafka.ends.": ("tests/materialize/targets/test_kafka_ends",),
    "cdcv2.materialize.targets.webhook.": ("tests/materialize/targets/test_whole_request",),
    **{f"cdcv2.materialize.targets.process.{name}.": (f"tests/materialize/targets/test_process_{name}",) for name in (
        "spec", "values")},
    "cdcv2.materialize.intake.": ("tests/materialize/test_intake",),
    "cdcv2.materialize.protocol.deltas.": ("tests/materialize/test_subscriber",),
    "cdcv2.materialize.protocol.messages.": ("tests/materialize/protocol/test_messages",),
    **{f"cdcv2.materialize.{name}.": (f"tests/materialize/test_{name}",) for name in (
        "connection", "distributed", "repair", "subscriber", "texts")},
    "cdcv2.materialize.recovery_log": ("tests/materialize/test_recovery_log", "tests/materialize/test_runtime"),
    "cdcv2.materialize.protocol.fence.": (
        "tests/materialize/protocol/test_fence", "tests/materialize/test_recovery_log",
        "tests/materialize/test_runtime"),
    "cdcv2.materialize.": ("tests/materialize/test_runtime", "tests/materialize/protocol/test_turns"),
}  # fmt: skip
# Noticed: a test failed, the types did, or the run never ended.
NOTICED = {"killed", "timeout", "segfault", "caught by type check"}


@dataclass(frozen=True)
class Change:
    """What was changed, and in which function."""

    function: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((self.function, *self.lines))


def readable(mutant: str) -> str:
    """The dotted name of the function that a mutant changes.

    >>> readable("cdcv2.core.order.xǁProductǁ__hash____mutmut_1"), readable("cdcv2.core.order.x_join__mutmut_12")
    ('cdcv2.core.order.Product.__hash__', 'cdcv2.core.order.join')
    """
    module, _, name = mutant.rpartition(".")
    name = re.sub(r"__mutmut_\d+$", "", name)
    return f"{module}." + (name[2:].replace("ǁ", ".") if name.startswith("xǁ") else name.removeprefix("x_"))


def changed_lines(diff: str) -> tuple[str, ...]:
    """The lines that a unified diff takes away and adds, with their signs."""
    return tuple(line for line in diff.splitlines() if re.match(r"[-+](?!--|\+\+)", line))


def explained(text: str) -> dict[Change, str]:
    """The entries of a file of survivors, with their reasons. ValueError for an entry without one."""
    entries = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        reason = " ".join(line[1:].strip() for line in lines if line.startswith("="))
        if not reason:
            raise ValueError(f"{lines[0]}: the entry has no reason; add a line '= why no test need notice'")
        entries[Change(lines[0].strip(), tuple(line for line in lines[1:] if not line.startswith("=")))] = reason
    return entries


def mutmut(*arguments: str) -> str:
    """What a mutmut command prints; its own failure ends the run, with its last words."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode:
        sys.exit(f"mutmut {arguments[0]} failed:\n{ran.stdout[-3000:]}")
    return ran.stdout


def change(mutant: str) -> Change:
    """What a mutant changes; as ``mutmut show`` has it, which takes seconds for each."""
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

    return Change(readable(mutant), changed_lines(get_diff_for_mutant(mutant, path=find_mutant(mutant).path)))


def near(function: str, tests: Iterable[str]) -> list[str]:
    """Of the tests that call a function those of its own box; all of them where none is.

    >>> near("cdcv2.core.order.x_join", ["tests/core/test_order.py::a", "tests/testing/test_conformance.py::b"])
    ['tests/core/test_order.py::a']
    """
    files = next((files for name, files in NEAR.items() if function.startswith(name)), ())
    return [test for test in tests if test.startswith(files)] or list(tests)


def mutants() -> list[str]:
    """All that mutmut has made, by file."""
    metas = sorted(Path("mutants", "cdcv2").rglob("*.meta"))
    return [name for meta in metas for name in json.loads(meta.read_text("utf-8"))["exit_code_by_key"]]


def content() -> str:
    """A digest of the code and its tests: what became of a change is of this content, and of no other."""
    digest = sha256()
    for path in sorted(path for folder in ("cdcv2", "tests") for path in Path(folder).rglob("*.py")):
        digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def tried(
    wanted: Collection[str], tests: Mapping[str, Collection[str]], took: Mapping[str, float], name: str
) -> dict[str, str]:
    """What became of each of these mutants, tried with these tests of its function: see mutants_in_forks.

    Not by a run of mutmut: that collects the tests twice in a process, and then pytest escapes names of cases twice,
    so that the second time it does not find them. ``name`` is that of the results, which stay.
    """
    work, results = Path("mutants", "work.json"), Path("mutants", f"{name}-{content()}.txt")
    work.write_text(json.dumps({"took": took, "tests": {
        mutant: sorted(tests.get(mutant.rpartition("__mutmut_")[0], ()), key=lambda test: took.get(test, 0))
        for mutant in wanted
    }}), "utf-8")  # fmt: skip
    command = [sys.executable, "-m", "tests.mutants_in_forks", work.name, results.name]
    subprocess.run(command, cwd="mutants", check=True)
    found = dict(line.split() for line in results.read_text("utf-8").splitlines())
    return {mutant: found[mutant] for mutant in wanted}


def main(asked: tuple[str, ...]) -> int:
    """Change, test, compare; see the module."""
    os.environ.setdefault("HYPOTHESIS_PROFILE", "mutate")
    # The changed files are made, and which tests call which function is found out, by a run of a few changes.
    mutmut("run", "--max-children", str(os.cpu_count() or 1), "cdcv2.core.json_text.*")
    stats = json.loads(STATS.read_text("utf-8"))
    called, took = stats["tests_by_mangled_function_name"], stats["duration_by_test"]
    wanted = [mutant for mutant in mutants() if mutant.startswith(asked)]
    found = tried(wanted, {name: near(name, tests) for name, tests in called.items()}, took, "results")
    left = [name for name, status in found.items() if status not in NOTICED]
    known = explained(EXPLAINED.read_text("utf-8"))
    changes = {name: change(name) for name in left}
    if unknown := [name for name in left if changes[name] not in known]:
        found |= tried(unknown, called, took, "again")
    unnoticed = {name: status for name, status in found.items() if status not in NOTICED}
    survivors = {changes[name]: status for name, status in unnoticed.items()}
    holes = survivors.keys() - known.keys()
    for hole in sorted(holes, key=str):
        print(f"{hole}\n# {survivors[hole]}\n")
    print(f"{len(found)} changes, {len(found) - len(unnoticed)} noticed; of {len(survivors)} survivors "
          f"{len(survivors) - len(holes)} are explained, {len(holes)} are not")  # fmt: skip
    for killed in {change for change in known if change.function.startswith(asked)} - survivors.keys():
        print(f"explained, but no survivor any more: {killed.function}")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or ("",)))
