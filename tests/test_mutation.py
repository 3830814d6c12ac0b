"""The list of survivors is read as it is written."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutation import EXPLAINED, Change, changed_lines, explained, near, readable, tried


def test_a_mutant_is_known_by_what_it_changes() -> None:
    """Its number moves with every edit of the file; the function and the lines do not."""
    diff = "# x: survived\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return a\n+    return b\n"

    assert ("-    return a", "+    return b") == changed_lines(diff)
    assert "cdcv2.core.order.Product.__hash__" == readable("cdcv2.core.order.xǁProductǁ__hash____mutmut_1")
    assert "cdcv2.core.order.join" == readable("cdcv2.core.order.x_join__mutmut_12")


def test_an_entry_is_a_change_and_a_reason() -> None:
    """As `make mutate` prints it, with one line added."""
    first = "cdcv2.f\n-  a\n+  b\n# survived\n= equal\n= anyway\n"
    entries = explained(f"# a comment\n\n{first}\n\ncdcv2.g\n+  c\n= slower only\n")

    assert {
        Change("cdcv2.f", ("-  a", "+  b")): "equal anyway",
        Change("cdcv2.g", ("+  c",)): "slower only",
    } == entries


def test_an_entry_without_a_reason_is_refused() -> None:
    """Copying the list of survivors is not explaining it."""
    with pytest.raises(ValueError, match="cdcv2.f: the entry has no reason"):
        explained("cdcv2.f\n-  a\n+  b\n")


def test_the_committed_list_has_a_reason_for_every_entry() -> None:
    """So that a reader of the list can judge it without running anything."""
    assert all(explained(EXPLAINED.read_text("utf-8")).values())


def test_what_is_explained_is_a_line_that_is_there() -> None:
    """An entry of code that was changed or moved explains nothing any more."""
    for change in explained(EXPLAINED.read_text("utf-8")):
        parts, root = change.function.split("."), EXPLAINED.parents[2]
        module = next(path for path in (Path(root, *parts[:at]).with_suffix(".py") for at in range(len(parts), 1, -1))
                      if path.exists())  # fmt: skip
        there = {line.strip() for line in module.read_text("utf-8").splitlines()}
        assert {line[1:].strip() for line in change.lines if line.startswith("-")} <= there, change.function


def test_what_is_changed_and_what_is_run_are_there() -> None:
    """A file that was moved is moved in these lists as well: otherwise it is judged no more, or nothing is run."""
    root, config = EXPLAINED.parents[2], configparser.ConfigParser()
    config.read(root / "setup.cfg")
    for name in ("only_mutate", "pytest_add_cli_args_test_selection"):
        listed = config["mutmut"][name].split()
        assert [] == [path for path in listed if not list(root.glob(path))] and len(set(listed)) == len(listed)


def test_the_tests_of_its_own_box_are_tried_first() -> None:
    """And all, where the box has none that calls the function."""
    own, other = "tests/timeline/test_remap.py::a", "tests/testing/test_conformance.py::b"

    assert [own] == near("cdcv2.timeline.remap.x_f", [own, other])
    assert [other] == near("cdcv2.timeline.remap.x_f", [other]) == near("cdcv2.logs.x_f", [other])


def test_changes_are_tried_again_beside_the_results_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tests of their functions, short ones first; pytest escapes the name of a case once, as for the stats."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants" / "test_sample.py").write_text(dedent(r"""
        import pytest
        from mutmut.mutation.trampoline import get_mutant_under_test

        @pytest.mark.parametrize("text", ["é\n"], ids=repr)
        def test_text(text):
            assert not get_mutant_under_test().endswith("_1")

        def test_long():
            assert not get_mutant_under_test().endswith("_2")
    """), "utf-8")  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXPLAINED.parents[2]), str(tmp_path / "mutants")]))
    name = "test_sample.py::test_text['\\xe9\\\\n']"
    found = {}
    for results, tests in (("results", [name]), ("again", ["test_sample.py::test_long", name])):
        wanted = [f"sample.x_f__mutmut_{number}" for number in (1, 2, 3)]
        found[results] = tried(wanted, {"sample.x_f": tests}, {"test_sample.py::test_long": 1.0}, results).values()
        plain = json.loads((tmp_path / "mutants" / "work.json").read_text("utf-8"))
        assert dict.fromkeys(wanted, [name, *tests[:-1]]) == plain["tests"]

    assert ["killed", "survived", "survived"] == [*found["results"]]
    assert ["killed", "killed", "survived"] == [*found["again"]]


def test_changes_are_tried_in_forks(tmp_path: Path) -> None:
    """To the first test that fails; a change that raises past pytest or never ends is noticed; a second run goes on."""
    (tmp_path / "sample.py").write_text(dedent("""
        import os
        import signal

        from mutmut.mutation.trampoline import get_mutant_under_test

        def double(number):
            changed = get_mutant_under_test()
            if changed == "sample.x_double__mutmut_2":
                raise SystemExit(0)
            if changed == "sample.x_double__mutmut_3":
                os.kill(os.getpid(), signal.SIGXCPU)
            return number * (3 if changed == "sample.x_double__mutmut_1" else 2)
    """), "utf-8")  # fmt: skip
    (tmp_path / "test_sample.py").write_text(dedent("""
        from sample import double

        def test_zero(tmp_path):
            assert 0 == double(0)

        def test_one():
            assert 2 == double(1)
    """), "utf-8")  # fmt: skip
    tests = ["test_sample.py::test_zero", "test_sample.py::test_one"]
    asked = {f"sample.x_double__mutmut_{number}": tests for number in (1, 2, 3, 4)}
    asked["sample.x_double__mutmut_5"] = tests[:1]
    asked["sample.x_double__mutmut_6"] = []
    (tmp_path / "work.json").write_text(json.dumps({"tests": asked, "took": {}}), "utf-8")
    (tmp_path / "results.txt").write_text("sample.x_double__mutmut_4 killed\n", "utf-8")

    command = [sys.executable, "-m", "tests.mutants_in_forks", "work.json", "results.txt"]
    path = os.pathsep.join([str(EXPLAINED.parents[2]), str(tmp_path)])
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": path})

    found = dict(line.split() for line in (tmp_path / "results.txt").read_text("utf-8").splitlines())
    becoming = {1: "killed", 2: "killed", 3: "timeout", 4: "killed", 5: "survived", 6: "survived"}
    assert {f"sample.x_double__mutmut_{number}": what for number, what in becoming.items()} == found
