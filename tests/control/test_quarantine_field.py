"""``quarantine:`` of a view or of a replay in a pipeline's file: the folder of decisions that its job applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.cli.main import parser_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.spark_jobs import add_materialize_job_options, add_replay_job_options
from cdcv2.control.materialization_file import check_view, read_plan
from cdcv2.control.owned_folders import demand_alone
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_changes import job_changes
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of
from cdcv2.control.supervision import JobAct, JobObservation, JobState, JobStatus
from cdcv2.control.supervisor import JobReport
from cdcv2.errors import UsageError
from cdcv2.spark.materialize import parser, planned
from cdcv2.spark_files import job_file
from tests.cli.conftest import HISTORY, PRICES, write

pytest.importorskip("yaml")
FILE = """
pipeline: shop
views:
  copy:
    logs: {prices: prices}
    bindings: [{log: prices, target: now, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
    quarantine: decisions
  plain:
    logs: {prices: prices}
    bindings: [{log: prices, target: now, key: [id]}]
    target: {driver: lake, folder: other}
    recovery_log: recovery-2
replays:
  history:
    logs: {prices: prices}
    output: history
    quarantine: decisions
timers:
  equal: {compare: copy, every: 1h}
"""
#: The same on Spark, where the job has the option, too.
ON_SPARK = FILE.replace("decisions\n", "decisions\n    spark: {state: STATE, submit: SUBMIT}\n")


def read(folder: Path, text: str = FILE) -> Pipeline:
    """The pipeline of a file in this folder."""
    (folder / "shop.yaml").write_text(text, "utf-8")
    return read_pipeline(str(folder / "shop.yaml"))


def test_a_view_and_a_replay_have_the_folder_as_other_paths_of_the_file(tmp_path: Path) -> None:
    """The view's is in what each command reads of the file; the replay's is a word of its command."""
    write(tmp_path / "prices", *HISTORY)
    pipeline = read(tmp_path)
    argv = {plan.name: plan.argv[3:] for plan in jobs_of(pipeline)}
    replay = parser_of("replay").parse_args(argv["history"][1:])

    assert [read_plan(str(pipeline.path), name).quarantine for name in ("copy", "plain")] == [
        tmp_path / "decisions", None
    ]
    assert (pipeline.replays["history"].quarantine, replay.quarantine) == (
        tmp_path / "decisions", str(tmp_path / "decisions")
    )
    assert not any("quarantine" in word for name in ("copy", "plain", "equal") for word in argv[name])


def test_a_job_on_spark_has_it_beside_spark_or_in_it(tmp_path: Path) -> None:
    """With the same meaning: a command that reads the view applies it, too."""
    write(tmp_path / "prices", *HISTORY)
    inside = ON_SPARK.replace("    quarantine: decisions\n", "")
    inside = inside.replace("submit: SUBMIT", "submit: SUBMIT, quarantine: decisions")
    for text in (ON_SPARK, inside):
        pipeline = read(tmp_path, text)
        words = {plan.name: list(plan.argv) for plan in jobs_of(pipeline)}
        asked = OptionParser("replay.py", None)
        add_replay_job_options(asked)
        replay = asked.parse_args(words["history"][words["history"].index(str(job_file("replay"))) + 1:])
        asked = OptionParser("materialize.py", None)
        add_materialize_job_options(asked)
        given = words["copy"][words["copy"].index(str(job_file("materialize"))) + 1:]
        asked.parse_args(given)
        job = planned(read_plan(str(pipeline.path), "copy"), parser().parse_args(given))

        assert replay.quarantine == str(tmp_path / "decisions") == str(job.quarantine)
        assert words["history"].count(f"--quarantine={tmp_path / 'decisions'}") == 1
        assert pipeline.replays["history"].quarantine == read_plan(str(pipeline.path), "copy").quarantine


@pytest.mark.parametrize(("part", "line"), [("  copy:", 10), ("  history:", 21)])
def test_twice_is_refused(tmp_path: Path, part: str, line: int) -> None:
    """Nothing states which of the two holds."""
    text = ON_SPARK.replace("submit: SUBMIT", "submit: SUBMIT, quarantine: more")
    other = ON_SPARK.replace("submit: SUBMIT", "submit: SUBMIT, quarantine: more", 1)
    found = other if part == "  copy:" else text.replace(", quarantine: more", "", 1)
    with pytest.raises(UsageError, match=rf"line {line}: .*'quarantine' is there twice, here and beside 'spark'"):
        read(tmp_path, found)


WRONG = [
    ("''", "a path is wanted here, and there is none"),
    ("{a: b}", "a text is wanted here, and there is a mapping"),
    ("kafka:x", "a path is wanted here, and kafka:x is a topic"),
    ("http://a/b", "http: is not supported"),
    ("file.txt", "file.txt is a file: name a folder for the quarantine"),
    ("prices", "prices has logs: name another folder for the quarantine"),
]


@pytest.mark.parametrize(("value", "text"), WRONG, ids=[one[0] for one in WRONG])
@pytest.mark.parametrize("line", [9, 19])
def test_what_is_no_folder_is_named_with_its_line(tmp_path: Path, value: str, text: str, line: int) -> None:
    """Of a view and of a replay; before there is anything of them."""
    write(tmp_path / "prices", *HISTORY)
    (tmp_path / "file.txt").write_text("", "utf-8")
    lines = FILE.splitlines()
    lines[line - 1] = f"    quarantine: {value}"
    with pytest.raises(UsageError) as caught:
        check_view(read(tmp_path, "\n".join(lines)).view("copy"), {"prices": PRICES})

    assert f"shop.yaml, line {line}: " in str(caught.value) and text in str(caught.value), str(caught.value)


def test_a_change_of_it_starts_that_job_alone_again_and_the_plan_names_it(tmp_path: Path) -> None:
    """Also where it comes, and where it goes."""
    before = {plan.name: plan for plan in jobs_of(read(tmp_path))}
    first = "    recovery_log: recovery\n    quarantine: decisions\n"
    for old, new, name in (
        (first, first.replace("decisions", "more"), "copy"), (first, "    recovery_log: recovery\n", "copy"),
        ("recovery-2\n", "recovery-2\n    quarantine: decisions\n", "plain"),
        ("history\n    quarantine: decisions", "history", "history"),
    ):
        after = jobs_of(read(tmp_path, FILE.replace(old, new, 1)))
        assert {plan.name for plan in after if plan.digest != before[plan.name].digest} == {name}, new
        runs = [
            JobReport(plan.name, JobAct.NOTHING, JobStatus(JobState.RUNNING, run=1, command=was.digest),
                      JobObservation(True, 1, was.digest, parts=was.parts))
            for plan in after for was in [before[plan.name]]
        ]
        (change,) = [one for one in job_changes(after, runs, 0.0) if one.act == "restart"]
        assert (change.what, change.why) == (f"job {name}", "changed in the file: quarantine")


def test_it_is_in_no_folder_that_a_part_of_the_file_writes_or_removes(tmp_path: Path) -> None:
    """Evidence and decisions are kept as long as the logs."""
    for old in ("recovery\n    quarantine: decisions", "history\n    quarantine: decisions"):
        assert old in FILE
        with pytest.raises(UsageError, match="give history an output of its own"):
            read(tmp_path, FILE.replace(old, old.replace("decisions", "history/q"), 1))
    owned = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {}}
captures: {shop: {owned: yes}}
"""
    for part, what in (("views:" + FILE.partition("views:")[2].partition("  plain:")[0], "a folder of the view copy"),
                       ("replays:" + FILE.partition("replays:")[2].partition("timers:")[0],
                        "the quarantine of the replay history")):
        pipeline = read(tmp_path, owned + part.replace("quarantine: decisions", "quarantine: logs/q"))
        with pytest.raises(UsageError, match=f"line 5: .* and {what} is in it"):
            demand_alone(pipeline)
