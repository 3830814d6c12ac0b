"""A job is another one when its part of the file changes: only that job is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of

FILE = """
pipeline: shop
views:
  one:
    logs: {a: a}
    bindings: [{log: a, target: a, key: [id]}]
    target: {driver: postgres, conninfo: "dbname=copy password=${COPY_PASSWORD}"}
  two:
    logs: {b: b}
    bindings: [{log: b, target: b, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""


def digests(path: Path, text: str) -> dict[str, str]:
    """What each job of a file is known by."""
    path.write_text(text, "utf-8")
    return {plan.name: plan.digest for plan in jobs_of(read_pipeline(str(path)))}


def test_a_change_of_a_part_is_another_job_and_one_of_the_environment_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret itself is in no digest: two values give the same job."""
    monkeypatch.setenv("COPY_PASSWORD", "first")
    before = digests(tmp_path / "shop.yaml", FILE)
    monkeypatch.setenv("COPY_PASSWORD", "second")
    same = digests(tmp_path / "shop.yaml", FILE)
    changed = digests(tmp_path / "shop.yaml", FILE.replace("folder: lake", "folder: lake2"))

    assert before == same
    assert changed["one"] == before["one"]
    assert changed["two"] != before["two"]
