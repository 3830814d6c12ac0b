"""A part of a pipeline that runs on Spark: what spark-submit is given, what is refused, and how its job is kept.

The processes are real; spark-submit is a script that starts a driver as the real one does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.capture_parser import add_capture_job_options
from cdcv2.cli.options.spark_jobs import add_materialize_job_options
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of
from cdcv2.control.supervision import JobState
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.servers.processes import poll_until
from cdcv2.spark_files import job_file

pytest.importorskip("yaml")
SCRIPT = Path(__file__).with_name("spark_script.py")
SHOP = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {}}
captures:
  shop:
    before: from-state
    max-records: 1000
    spark:
      state: capture-state
      submit: SUBMIT
      arguments: [--master, "local[2]", --jars, "a.jar,b.jar"]
      conf: {spark.executor.memory: 2g}
      interval: 5
views:
  copy:
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: delta, folder: tables}
    recovery_log: recovery
    spark:
      state: view-state
      submit: SUBMIT
      merge-on-spark: yes
      max-files: 100
      quarantine: decisions
"""


def read(folder: Path, text: str = SHOP) -> Any:
    """The pipeline in a file with this text."""
    (folder / "shop.yaml").write_text(text, "utf-8")
    return read_pipeline(str(folder / "shop.yaml"))


def argv(folder: Path, name: str, text: str = SHOP) -> list[str]:
    """The command line of a job."""
    return list(next(plan for plan in jobs_of(read(folder, text)) if plan.name == name).argv)


def test_spark_submit_gets_its_own_words_then_the_file_of_the_job_then_the_job_s(tmp_path: Path) -> None:
    """Those of a capture are the command's and the job's own; it follows, and states events beside its lock."""
    words = argv(tmp_path, "shop")
    at = words.index(str(job_file("capture")))
    asked = OptionParser("capture.py", None)
    add_capture_job_options(asked)
    options = asked.parse_args(words[at + 1:])

    assert ["SUBMIT", "--deploy-mode", "client", "--conf", f"spark.pyspark.python={sys.executable}", "--conf",
            "spark.executor.memory=2g", "--master", "local[2]", "--jars", "a.jar,b.jar"] == words[:at]  # fmt: skip
    assert (["kafka"], "localhost:9092", ["shop"], "from-state") == (
        options.source, options.bootstrap, options.prefix, options.before,
    )
    assert (1000, 5.0, True, True) == (options.max_records, options.interval, options.follow, options.sole)
    assert str(tmp_path / "capture-state") == options.state
    assert str(tmp_path / "shop.state" / "jobs" / "shop" / "events.jsonl") == options.events


def test_a_view_on_spark_names_the_file_and_itself(tmp_path: Path) -> None:
    """With the options that only the job has."""
    words = argv(tmp_path, "copy")
    asked = OptionParser("materialize.py", None)
    add_materialize_job_options(asked)
    options = asked.parse_args(words[words.index(str(job_file("materialize"))) + 1:])

    assert (str(tmp_path / "shop.yaml"), "copy") == (options.file, options.view)
    assert (str(tmp_path / "view-state"), str(tmp_path / "decisions")) == (options.state, options.quarantine)
    assert (100, True, True) == (options.max_files, options.merge_on_spark, options.follow)


def test_without_a_program_it_is_that_of_the_installed_spark_or_the_one_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cdcv2 status` reads the file, too, on a machine without Spark."""
    text = SHOP.replace("      submit: SUBMIT\n", "")
    found = argv(tmp_path, "shop", text)[0]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert found.endswith("/pyspark/bin/spark-submit")
    assert "spark-submit" == argv(tmp_path, "shop", text)[0]


@pytest.mark.parametrize(("old", "new", "line", "text"), [
    ("      state: capture-state\n", "", 10, "'state' is missing"),
    ("      interval: 5\n", "      intervall: 5\n", 14, "'intervall' is not known .*; did you mean interval"),
    ("      interval: 5\n", "      interval: soon\n", 14, "--interval: invalid"),
    ("      interval: 5\n", "      before: from-state\n", 14, "'before' is not known here"),
    ("    max-records: 1000\n", "    patience: 9\n", 10, "unrecognized arguments: --patience=9"),
    ('--jars, "a.jar', '--deploy-mode, cluster, "a.jar', 12, "driver of a job must run on this machine"),
    ('--jars, "a.jar', '--deploy-mode=cluster, "a.jar', 12, "driver of a job must run on this machine"),
    ('--jars, "a.jar', '--conf, spark.submit.deployMode=cluster, "a.jar', 12, "driver of a job must run"),
    ("spark.executor.memory: 2g", "spark.submit.deployMode: cluster", 13, "driver of a job must run"),
    ("spark.executor.memory: 2g", "spark.ssl.keyPassword: hunter2", 13, "spark.ssl.keyPassword looks like a secret"),
    ('--jars, "a.jar', '--conf, spark.x.token=hunter2, "a.jar', 12, "spark.x.token looks like a secret"),
    ('--jars, "a.jar', '--my.password, hunter2, "a.jar', 12, "my.password looks like a secret"),
    ("spark.executor.memory: 2g", '"spark.x.uri": "jdbc:x://db/y?user=u&password=hunter2"', 13, "password looks like"),
    ("spark.executor.memory: 2g", '"spark.x": "-Dmy.password=hunter2"', 13, "my.password looks like a secret"),
    ('--jars, "a.jar', '--conf, "spark.x=postgresql://u:hunter2@h/d", "a.jar', 12, "user and password in an address"),
    ('--jars, "a.jar', """--conf, 'spark.x={"apiKey": "hunter2"}', "a.jar""", 12, "apiKey looks like a secret"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    """Before anything starts; and no secret is in the message."""
    assert old in SHOP
    with pytest.raises(UsageError, match=f"line {line}: .*{text}") as caught:
        jobs_of(read(tmp_path, SHOP.replace(old, new)))
    assert "hunter2" not in str(caught.value)


def test_what_is_no_secret_is_given_as_it_is(tmp_path: Path) -> None:
    """Coordinates of jars, addresses with a port, and a file of a secret."""
    words = [
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0", "spark://a:7077,b:7077",
        "/etc/token", "hdfs://name:9000/jars/a@b.jar",
    ]  # fmt: skip
    given = argv(tmp_path, "shop", SHOP.replace('--jars, "a.jar', f'{", ".join(map(repr, words))}, --jars, "a.jar'))
    assert words == [word for word in given if word in words]


def test_a_capture_on_a_remap_has_no_state_and_a_run_in_one_process_no_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its logs are its memory; and `cdcv2 run` must not leave out what a file states."""
    bound = SHOP.replace("    before: from-state\n", "    remap: timeline\n").replace("      interval: 5\n", "")
    with pytest.raises(UsageError, match="keeps no state beside its logs"):
        read(tmp_path, bound)
    stateless = bound.replace("      state: capture-state\n", "")

    assert not [word for word in argv(tmp_path, "shop", stateless) if word.startswith("--state")]
    assert Exit.USAGE == main(["run", str(tmp_path / "shop.yaml")])
    assert "start it with cdcv2 up" in capsys.readouterr().err


# -- kept running


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Supervisor, list[Any], JobFolder]]:
    """A supervisor of one view whose spark-submit is the script; its processes end with the test."""
    submit = tmp_path / "spark-submit"
    submit.write_text(f'#!/bin/sh\nexec {sys.executable} {SCRIPT} "$@"\n', "utf-8")
    submit.chmod(0o755)
    text = SHOP.replace("SUBMIT", str(submit))
    start, end = text.index("sources:"), text.index("views:")
    pipeline = read(tmp_path, (text[:start] + text[end:]).replace("    bindings", "    logs: logs\n    bindings"))
    folder = pipeline.state / "jobs"
    yield Supervisor(folder), jobs_of(pipeline), JobFolder(folder / "copy")
    (folder / "copy" / "let-go").touch()
    JobFolder(folder / "copy").kill()
    assert poll_until(lambda: not JobFolder(folder / "copy").alive(), 20)


def started(kept: tuple[Supervisor, list[Any], JobFolder]) -> tuple[int, int]:
    """Start the job; the processes of spark-submit and of the driver."""
    supervisor, plans, job = kept
    supervisor.turn(plans)
    assert poll_until(lambda: job.observe().progress == "[7]", 20)
    last = job.last_progress()
    assert last is not None
    driver = last["pid"]
    (submit,) = [pid for pid in job._holders() if pid != driver]
    return submit, driver


def test_a_driver_that_outlives_java_is_the_job_until_it_ends(
    kept: tuple[Supervisor, list[Any], JobFolder]
) -> None:
    """Its writes may be under way: no second copy may work beside it. Then its end counts, and the job runs again."""
    supervisor, plans, job = kept
    submit, driver = started(kept)
    os.kill(submit, signal.SIGKILL)
    assert poll_until(lambda: job._holders() == [driver], 20)
    (report,) = supervisor.turn(plans)
    alive, again = job.alive(), job.start(plans[0].argv, 2, "another")
    (job.path / "let-go").touch()
    assert poll_until(lambda: not job.alive(), 20)
    (job.path / "let-go").unlink()
    (waits,) = supervisor.turn(plans)
    assert poll_until(lambda: supervisor.turn(plans)[0].status.run == 2 and job.alive(), 20)

    assert (alive, again, report.status.state) == (True, False, JobState.RUNNING)
    assert (waits.status.state, waits.status.deaths) == (JobState.WAITING, 1)
    assert waits.observation.end is not None and 4 == waits.observation.end.exit


def test_both_end_politely_and_both_are_killed(kept: tuple[Supervisor, list[Any], JobFolder]) -> None:
    """SIGTERM goes to spark-submit, which has the driver end; SIGKILL to all that belong to the job."""
    supervisor, plans, job = kept
    started(kept)
    words = json.loads((job.path / "words.json").read_text("utf-8"))
    supervisor.turn([])
    assert poll_until(lambda: not job.alive(), 20)
    ended = job.observe().end
    started(kept)
    job.kill()
    assert poll_until(lambda: not job.alive(), 20)

    assert str(job_file("materialize")) in words and "--follow" in words
    assert ended is not None and (0, None) == (ended.exit, ended.reason)
    assert job.observe().end is None
