"""``replays:`` of a pipeline's file: which histories are kept where, as commands or on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.cli.main import main, parser_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.spark_jobs import add_replay_job_options
from cdcv2.control.examination import examine
from cdcv2.control.owned_folders import demand_alone
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_check import mistakes
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import FirstLogs, jobs_of
from cdcv2.control.pipeline_status import job_rows
from cdcv2.errors import UsageError
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.spark_files import job_file

FILE = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {}}
captures:
  shop: {tables: [public.orders, public.lines]}
  topics: {into: "kafka:copy.{table}", remap: timeline, tables: [public.orders]}
replays:
  history:
    capture: shop
    tables: [public.orders, public.lines]
    output: history
    start: 7
  away: {logs: {a: [there/a, there/b]}, output: away}
  copied:
    capture: topics
    tables: [public.orders]
    output: copied
    spark: {state: copied-state, submit: SUBMIT, max-records: 9, quarantine: decisions}
"""


def pipeline_in(folder: Path, text: str = FILE) -> Pipeline:
    """The pipeline of a file in this folder."""
    (folder / "shop.yaml").write_text(text, "utf-8")
    return read_pipeline(str(folder / "shop.yaml"))


def test_a_replay_is_a_command_that_follows_its_logs_into_a_lake(tmp_path: Path) -> None:
    """Its command reads the command line: the logs of a capture, or those of others with their copies."""
    argv = {plan.name: plan.argv[3:] for plan in jobs_of(pipeline_in(tmp_path))}
    read = {name: parser_of(argv[name][0]).parse_args(argv[name][1:]) for name in ("history", "away")}

    assert [(log.table, log.name) for log in read["history"].log] == [
        (table, str(tmp_path / "logs" / table)) for table in ("public.orders", "public.lines")
    ]
    assert (read["history"].lake, read["history"].start) == (str(tmp_path / "history"), ["7"])
    assert read["history"].follow and read["away"].follow
    assert [(log.table, log.name) for log in read["away"].log] == [
        ("a", str(tmp_path / "there" / name)) for name in ("a", "b")
    ]
    assert read["away"].start is None and argv["away"][-1].endswith("jobs/away/events.jsonl")


def test_one_on_spark_is_started_by_spark_submit(tmp_path: Path) -> None:
    """With the options of its job, and how the topics are reached."""
    words = next(list(plan.argv) for plan in jobs_of(pipeline_in(tmp_path)) if plan.name == "copied")
    asked = OptionParser("replay.py", None)
    add_replay_job_options(asked)
    options = asked.parse_args(words[words.index(str(job_file("replay"))) + 1:])

    assert words[0] == "SUBMIT"
    assert [(log.table, str(log)) for log in options.log] == [("public.orders", "kafka:copy.public.orders")]
    assert (options.bootstrap, str(options.rows)) == ("localhost:9092", str(tmp_path / "rows"))
    assert (options.output, options.state) == (str(tmp_path / "copied"), str(tmp_path / "copied-state"))
    assert (options.max_records, options.quarantine, options.follow) == (9, str(tmp_path / "decisions"), True)


def test_a_change_starts_what_it_is_about_again(tmp_path: Path) -> None:
    """Also one of where the logs of its capture are; not one of another replay."""
    before = {plan.name: plan.digest for plan in jobs_of(pipeline_in(tmp_path))}
    for old, new, changed in (("output: history", "output: more", {"history"}), ("output: away", "output: x", {"away"}),
                              ("copy.{", "other.{", {"copied", "topics"})):
        after = {plan.name: plan.digest for plan in jobs_of(pipeline_in(tmp_path, FILE.replace(old, new)))}
        assert {name for name in before if before[name] != after[name]} == changed


def test_it_waits_for_the_logs_that_its_capture_makes_first(tmp_path: Path) -> None:
    """As a view does; of topics, and of logs of others, it states itself that there are none."""
    pipeline = pipeline_in(tmp_path)
    logs = FirstLogs(pipeline)

    assert "public.orders is not there yet" in str(logs.waits("history"))
    assert logs.waits("away") is logs.waits("copied") is None
    assert {row.name for row in job_rows(pipeline) if row.kind == "replay"} == {"history", "away", "copied"}


def test_a_table_that_its_capture_does_not_have_is_a_mistake(tmp_path: Path) -> None:
    """It would wait for ever for its log; the row types of the capture state which there are."""
    (tmp_path / "rows").mkdir()
    for table in ("public.orders", "public.lines"):
        (tmp_path / "rows" / f"{table}.avsc").write_text(
            '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}', "utf-8"
        )
    assert "history" not in dict(mistakes(pipeline_in(tmp_path)))
    wrong = FILE.replace("public.lines]\n    output", "public.line]\n    output")
    text = dict(mistakes(pipeline_in(tmp_path, wrong)))["history"]

    assert "line 10: there is no log of the table 'public.line'; the capture shop has" in text
    assert "did you mean public.lines" in text


def test_doctor_looks_at_a_replay_and_at_its_disk(tmp_path: Path) -> None:
    """Of logs of others, there is no more to look at before it starts."""
    found = list(examine(pipeline_in(tmp_path, """
pipeline: shop
replays: {away: {logs: {a: there/a}, output: away}}
""")))

    assert [one.part for one in found][0] == "replay away" and f"into {tmp_path / 'away'}" in found[0].text
    assert any("history of away" in one.text for one in found)


def test_the_folder_of_a_capture_s_own_holds_no_history(tmp_path: Path) -> None:
    """It would be removed with the logs."""
    text = FILE.replace("  shop: {tables", "  shop: {owned: yes, tables").replace("output: away", "output: logs/away")

    with pytest.raises(UsageError, match="the output of the replay away is in it"):
        demand_alone(pipeline_in(tmp_path, text))


@pytest.mark.parametrize(("old", "new", "text"), [
    ("    capture: shop\n", "    capture: shp\n", "line 10: there is no capture 'shp'"),
    ("    capture: shop\n", "", "line 10: which capture writes its logs"),
    ("    capture: shop\n", "    capture: shop\n    logs: x\n", "line 10: 'capture' and 'logs' both name logs"),
    ("    tables: [public.orders, public.lines]\n", "", "line 10: which tables"),
    ("[public.orders, public.lines]\n    output", "[a, a]\n    output", "line 11: a list of tables is wanted here"),
    ("[public.orders, public.lines]\n    output", "[]\n    output", "line 11: a list of tables is wanted here"),
    ("    output: history\n", "", "line 10: 'output' is missing"),
    ("    start: 7\n", "    start: now\n", "line 13: 'now' is no time of a lake"),
    ("output: away", "output: kafka:away", "line 14: output: a path is wanted here"),
    ("output: away", "output: history", "line 14: .*/history is written by the replay history"),
    ("output: away", "output: logs", "line 14: .*/logs is written by the capture shop, too"),
    ("output: away", "outputs: away", "line 14: 'outputs' is not known here.*did you mean output"),
    ("  away: {", "  away: {tables: [a], ", "line 14: 'logs' names the tables: leave 'tables' out"),
    ("  away:", "  shop:", "line 14: two parts are called 'shop', of captures and of replays"),
    ("state: copied-state, ", "", "line 19: 'state' is missing"),
    ("max-records: 9", "output: x", "line 19: 'output' is not known here"),
    ("max-records: 9", "max-records: none", "line 19: .*--max-records: invalid"),
    ("max-records: 9", "max-files: 9", "line 19: --max-files goes with directories, and the logs are in Kafka here"),
])  # fmt: skip
def test_one_that_cannot_be_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    """Before anything starts."""
    assert old in FILE
    with pytest.raises(UsageError, match=text):
        pipeline_in(tmp_path, FILE.replace(old, new))


@pytest.mark.parametrize("output", [
    "kept", "kept/jobs/history", "other/items", "other/_manifests", "items", "items/x", ".", "file", "loop",
    "loop/x",
])
def test_an_output_is_a_folder_of_its_own(tmp_path: Path, output: str) -> None:
    """Neither in what another part writes, nor around that; and no file, and no link to itself."""
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / LOG_FILE).touch()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    text = f"""
pipeline: shop
state: kept
replays:
  other: {{logs: {{items: items}}, output: other}}
  history: {{logs: {{items: items}}, output: {output}}}
"""
    (tmp_path / "shop.yaml").write_text(text, "utf-8")
    with pytest.raises(UsageError, match="line [56]: .*(output of its own|is a file|is no path here)"):
        read_pipeline(tmp_path / "shop.yaml")


def test_a_timer_is_on_no_way_and_replays_alone_are_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands name what has an answer."""
    file = tmp_path / "shop.yaml"
    text = "pipeline: shop\nreplays:\n  history: {logs: {items: items}, output: history}\n"
    file.write_text(text, "utf-8")
    runs = main(["run", str(file)]), capsys.readouterr().err
    file.write_text("""
pipeline: shop
views:
  copy:
    logs: {items: items}
    bindings: [{log: items, target: items, key: [id]}]
    target: {driver: lake, folder: copy}
    recovery_log: recovery
timers: {equal: {compare: copy, every: 1h}}
""", "utf-8")
    explains = main(["explain", str(file), "equal"]), capsys.readouterr().err

    assert runs[0] == 2 and "has no captures and no views, and cdcv2 run starts nothing else: use cdcv2 up" in runs[1]
    assert explains[0] == 2 and "equal is a timer, and on no way of rows: cdcv2 status" in explains[1]
