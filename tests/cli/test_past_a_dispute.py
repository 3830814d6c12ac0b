"""A job that has no folder of decisions is led past a time in dispute by the command that has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run, write
from tests.cli.test_command_resolve import BEFORE, CLASHES, decided, each_clash

PIPELINE = """
pipeline: prices
views:
  copy:
    logs: {prices: prices}
    bindings:
      - {log: prices, target: now}
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""


@pytest.fixture
def folder(tmp_path: Path, kind: str) -> Path:
    """A log that contradicts itself, and a pipeline with a view and a replay of it."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    write(tmp_path / "prices", *BEFORE, *CLASHES[kind])
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    return tmp_path


@each_clash
def test_what_is_past_the_time_in_dispute_goes_on_without_the_folder(run: Run, folder: Path, kind: str) -> None:
    """Before that it stops each time; with the folder it passes; then the job can go on as before."""
    quarantine = ("--quarantine", folder / "q")
    jobs = (("materialize", folder / "pipeline.yaml"), ("replay", folder / "prices", "--lake", folder / "history"))
    assert [3, 3] == [run(*job).code for job in jobs]

    run("verify", folder / "prices", *quarantine)
    assert [3, 3] == [run(*job, *quarantine).code for job in jobs]
    decided(run, folder, kind)
    assert [0, 0] == [run(*job, *quarantine).code for job in jobs]

    for job in jobs:
        said = run(*job)
        assert 0 == said.code and "complete through 8" in said.out, said.err
