"""``quarantine:`` in a pipeline's file: commands and jobs apply its decisions without being asked again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_status import job_rows
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import MissingLogError
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.servers.processes import poll_until
from tests.cli.conftest import Run, price, write
from tests.cli.test_command_resolve import BEFORE, CLASHES, decided, each_clash

PIPELINE = """
pipeline: shop
views:
  copy:
    logs: {prices: prices}
    bindings: [{log: prices, target: now, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""
#: Beside it, a view of another log and a history of the same.
MORE = """
  sound:
    logs: {sound: sound}
    bindings: [{log: sound, target: now, key: [id]}]
    target: {driver: lake, folder: sound-lake}
    recovery_log: sound-recovery
replays:
  history:
    logs: {prices: prices}
    output: history
"""
KEY = "    quarantine: q\n"


@pytest.fixture
def folder(tmp_path: Path, kind: str) -> Path:
    """A log that contradicts itself, and the pipeline of a view of it."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    write(tmp_path / "prices", *BEFORE, *CLASHES[kind])
    (tmp_path / "shop.yaml").write_text(PIPELINE, "utf-8")
    return tmp_path


def right(kind: str) -> tuple[str, ...]:
    """What decides the case: a key has one row, once."""
    return ("--diff", "1") if kind == "diff" else ()


def names(folder: Path) -> set[str]:
    """Those of the rows of the view."""
    return {values[-1] for _, values in open_lake(folder).rows("now")}


@each_clash
def test_a_run_stops_and_goes_on_with_the_key(run: Run, folder: Path, kind: str) -> None:
    """And the target is judged by the same decisions; the key of a file of one materialization means the same."""
    file = folder / "shop.yaml"
    stopped = run("run", file)
    assert 3 == stopped.code and "views and replays with quarantine: DIR" in stopped.err

    file.write_text(PIPELINE + KEY, "utf-8")
    held, equal = run("run", file), run("compare", file)
    assert (3, 0) == (held.code, equal.code) and f"cdcv2 resolve {folder / 'q'}" in held.err
    assert {"first"} == names(folder / "lake")

    decided(run, folder, kind, *right(kind))
    done = run("run", file)
    one = folder / "copy.yaml"
    alone = (PIPELINE + KEY).replace("    ", "").splitlines()[4:]
    one.write_text("\n".join(["materialization: copy", *alone]), "utf-8")

    assert 0 == done.code and "complete through 8" in done.out, done.err
    assert {"first", "one", "last"} == names(folder / "lake")
    judged = ("compare", file), ("repair", file, "--dry-run"), ("compare", one)
    assert [0, 0, 0] == [run(*words).code for words in judged]
    assert [1, 0] == [run("compare", file, "--quarantine", folder / where).code for where in ("other", "q")]


@pytest.fixture
def jobs(folder: Path) -> Iterator[Supervisor]:
    """The jobs of the pipeline; all of them end with the test."""
    found = Supervisor(folder / "shop.state" / "jobs")
    yield found
    for job in [found.job(name) for name in found.names()]:
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 30)  # type: ignore[misc]


def upper(folder: Path) -> list[Any]:
    """Up to where what a lake has is complete."""
    try:
        return list(open_lake(folder).frontier.elements)
    except MissingLogError:
        return []


@pytest.mark.parametrize("kind", ["count"])
def test_jobs_wait_for_a_decision_and_go_on_by_themselves(
    run: Run, folder: Path, kind: str, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the key they end; it restarts those that have it alone; what is waited for is named."""
    file = folder / "shop.yaml"
    write(folder / "sound", Updates([(price(1, 1, "sound"), 1, 1)]), Progress([0], [2], {1: 1}))
    file.write_text(PIPELINE + MORE, "utf-8")
    assert 0 == main(["up", str(file), "--once"])
    assert poll_until(lambda: upper(folder / "sound-lake") == [2], 60)
    for name in ("copy", "history"):
        assert poll_until(lambda name=name: not jobs.job(name).alive(), 60)  # type: ignore[misc]

    file.write_text(PIPELINE + KEY + MORE + KEY, "utf-8")
    capsys.readouterr()
    main(["plan", str(file), "--json"])
    plan = capsys.readouterr().out
    assert 0 == main(["up", str(file), "--once"])
    for kept in ("lake", "history"):
        assert poll_until(lambda kept=kept: upper(folder / kept) == [5], 60)  # type: ignore[misc]

    def waits() -> list[str]:
        capsys.readouterr()
        main(["explain", str(file), "copy", "--json"])
        return [str(link["fault"]) for way in json.loads(capsys.readouterr().out) for link in way["links"]]

    assert poll_until(lambda: any("time 5" in one for one in waits()), 60), waits()
    decided(run, folder, kind)
    for kept in ("lake", "history"):
        assert poll_until(lambda kept=kept: upper(folder / kept) == [9], 60)  # type: ignore[misc]

    assert {"first", "one", "last"} == names(folder / "lake") and 0 == run("compare", file, "--view", "copy").code
    assert "changed in the file: quarantine" in plan and "sound" not in plan
    runs = {row.name: row.run for row in job_rows(read_pipeline(str(file)))}
    assert runs["sound"] == 1 and min(runs["copy"], runs["history"]) > 1
