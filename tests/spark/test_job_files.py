"""The files that spark-submit starts: those of the package, and those of the checkout, which start the same."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from cdcv2.errors import MissingExtraError, UsageError
from cdcv2.spark_files import SPARK_JOBS, job_file, spark_submit_program

pytestmark = pytest.mark.spark
CHECKOUT = Path(__file__).resolve().parents[2] / "streaming_jobs"


@pytest.mark.parametrize("name", SPARK_JOBS)
def test_both_files_of_a_job_start_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the arguments of the process: here those that show the job's help."""
    shown = []
    for path in (job_file(name), CHECKOUT / f"{name}.py"):
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(path), run_name="__main__")
        assert 0 == left.value.code
        shown.append(capsys.readouterr().out)

    assert shown[0] == shown[1]
    assert f"usage: {name}.py" in shown[0]


def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of another name, and Spark where it is not installed."""
    with pytest.raises(UsageError, match="no job 'captures'; there are capture, replay, .*; did you mean capture"):
        job_file("captures")
    assert spark_submit_program().is_file()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="Spark is not installed"):
        spark_submit_program()
