"""A job is another one when its part of the file changes: only that job is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.cli.main import parser_of
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import FirstLogs, jobs_of
from cdcv2.errors import UsageError
from cdcv2.logs.log_json import LOG_FILE

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


TIMERS = FILE + """
kafka: {bootstrap: "localhost:9092", config: kafka.properties}
captures:
  clicks: {remap: "kafka:timeline", plain: clicks=web.clicks}
  files: {remap: timeline, plain: clicks=web.clicks, into: other}
  apart: {stream: prices=market.prices, into: prices}
timers:
  equal: {compare: one, every: 1h, arguments: [--at, now]}
  left-files: {orphans: two, every: 90m}
  shorter: {compact-remap: clicks, every: 1d}
  shorter-too: {compact-remap: files, every: 30s}
"""


def test_a_timer_is_a_job_that_is_due_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command is one of cdcv2's, about a part of the file, with events beside its lock."""
    monkeypatch.setenv("COPY_PASSWORD", "first")
    (tmp_path / "shop.yaml").write_text(TIMERS, "utf-8")
    plans = {plan.name: plan for plan in jobs_of(read_pipeline(str(tmp_path / "shop.yaml")))}
    words = {name: plans[name].argv[3:] for name in ("equal", "left-files", "shorter", "shorter-too")}
    file, of = str(tmp_path / "shop.yaml"), f"--events={tmp_path / 'shop.state' / 'jobs'}"

    assert {"one": None, "clicks": None, "equal": 3600.0, "left-files": 5400.0, "shorter": 86400.0} == {
        name: plans[name].period for name in ("one", "clicks", "equal", "left-files", "shorter")
    }
    assert ("compare", file, "--view=one", "--at", "now", f"{of}/equal/events.jsonl") == words["equal"]
    assert ("orphans", file, "--view=two", f"{of}/left-files/events.jsonl") == words["left-files"]
    assert ("compact-remap", "kafka:timeline", "--bootstrap=localhost:9092",
            f"--kafka-config={tmp_path / 'kafka.properties'}") == words["shorter"][:-1]  # fmt: skip
    assert ("compact-remap", str(tmp_path / "timeline")) == words["shorter-too"][:-1]
    for name, given in words.items():
        parser_of(given[0]).parse_args(given[1:])


@pytest.mark.parametrize(("old", "new", "text"), [
    ("compare: one", "compare: three", "there is no view 'three'; there are one, two"),
    ("compact-remap: clicks", "compact-remap: apart", "the capture apart is on no remap"),
    ("compact-remap: clicks", "compact-remap: one", "there is no capture 'one'"),
    ("every: 1h", "every: hourly", "'hourly' is no span of time"),
    ("every: 1h", "every: 0h", "'0h' is no span of time"),
    ("compare: one, ", "", "what is due. Name one of compare, orphans, compact-remap"),
    ("compare: one", "compare: one, orphans: one", "what is due"),
    ("compare: one", "verify: one", "'verify' is not known here"),
    ("orphans: two", "orphans: one", "the view one is kept by postgres: this driver leaves no files"),
    ("every: 90m", "every: 90m, arguments: [--remove]", "--remove takes the view over"),
    ("every: 90m", 'every: 90m, arguments: ["--source=postgresql://u:hunter2@h/d"]', "user and password in an address"),
    ("every: 90m", 'every: 90m, arguments: [--source, "host=h password=hunter2"]', "password looks like a secret"),
    ("every: 90m", "every: 90m, arguments: [--token, hunter2]", "token looks like a secret"),
    ("every: 90m", "every: 90m, arguments: [--api-key, hunter2]", "api-key looks like a secret"),
    ("every: 90m", "every: 90m, arguments: [--view=two]", "--view is given by the pipeline"),
    ("every: 90m", "every: 90m, arguments: [--events, there]", "--events is given by the pipeline"),
    ("  left-files:", "  one:", "two parts are called 'one'"),
])  # fmt: skip
def test_a_timer_that_is_none_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, text: str
) -> None:
    """Before anything starts."""
    monkeypatch.setenv("COPY_PASSWORD", "first")
    assert old in TIMERS
    (tmp_path / "shop.yaml").write_text(TIMERS.replace(old, new), "utf-8")

    with pytest.raises(UsageError, match=f"line 2[0-3]: .*{text}") as caught:
        jobs_of(read_pipeline(str(tmp_path / "shop.yaml")))
    assert "hunter2" not in str(caught.value)


FIRST = """
pipeline: shop
sources: {shop: {}}
captures:
  shop: {into: logs, from: topics.jsonl}
views:
  copy:
    bindings: [{log: public.orders, target: orders, key: [id]}, {log: public.items, target: items}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
  wrong:
    bindings: [{target: orders}]
    target: {driver: lake, folder: lake2}
"""


def test_a_view_waits_for_the_logs_that_its_capture_makes_first(tmp_path: Path) -> None:
    """Of each that it binds, which is named; not again once they were there: that one is lost is for the job to report.
    """
    (tmp_path / "rows").mkdir()
    (tmp_path / "shop.yaml").write_text(FIRST, "utf-8")
    logs, waited = FirstLogs(read_pipeline(str(tmp_path / "shop.yaml"))), []
    for table in ("public.orders", "public.items"):
        waited.append(logs.waits("copy"))
        (tmp_path / "logs" / table).mkdir(parents=True)
        (tmp_path / "logs" / table / LOG_FILE).write_text("{}", "utf-8")
    there = logs.waits("copy")
    (tmp_path / "logs" / "public.items" / LOG_FILE).unlink()

    assert [f"the logs of its capture: {tmp_path / 'logs' / table} is not there yet"
            for table in ("public.orders", "public.items")] == waited  # fmt: skip
    assert [None] * 4 == [there, *(logs.waits(name) for name in ("copy", "wrong", "shop"))]


def test_another_interpreter_or_path_of_the_file_gives_the_same_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade into another environment starts nothing again, and no job that is held; another folder does."""
    for name in ("one", "two"):
        (tmp_path / name / "rows").mkdir(parents=True)
    before, other = digests(tmp_path / "one" / "shop.yaml", TIMERS), digests(tmp_path / "two" / "shop.yaml", TIMERS)
    (tmp_path / "link").symlink_to(tmp_path / "one")
    monkeypatch.setattr("sys.executable", "/opt/other/bin/python")
    again = [digests(tmp_path / one / "shop.yaml", TIMERS) for one in ("link", "two/../one")]

    assert again == [before, before]
    assert len(before) > 6 and not set(before.values()) & set(other.values())
