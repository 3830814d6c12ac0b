"""``cdcv2 up``, ``status``, ``down``: real processes keep a lake of a log that grows, through kills of all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cdcv2.cli import up as up_command
from cdcv2.cli.main import main
from cdcv2.control.catalogue import take_catalogue
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.kept_value import keep
from cdcv2.control.owner import OwnedFolder, is_owned, owner
from cdcv2.control.supervisor import JobPlan, Supervisor
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2

#: A job that only writes events.
JOB = Path(__file__).parents[1] / "control" / "job_script.py"
ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
FILE = """
pipeline: shop
views:
  copy:
    logs: {items: items}
    bindings: [{log: items, target: items, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: {recovery}
"""


def write(folder: Path, *times: int) -> None:
    """A row at each time, in a log that has them up to there."""
    log = DirectoryLog(folder / "items", ROW, create=True)
    with Writer(log) as writer:
        writer.extend([(ROW.row([time]), time, +1) for time in times])
        writer.advance([times[-1] + 1])


def rows(folder: Path) -> int:
    """How many rows the copy has; 0 while there is none."""
    try:
        return len(dict(open_lake(folder / "lake").rows("items")))
    except (MissingLogError, UsageError):  # the lake, or its table, is not there yet
        return 0


def status(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["status", str(file), "--json"])
    return code, json.loads(capsys.readouterr().out)


@contextmanager
def up(file: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process; killed at the end of the block if it still runs. Jobs are the test's to end."""
    with subprocess.Popen([*CDCV2, "up", str(file), *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A pipeline with one view; all of its jobs end with the test."""
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("{recovery}", "recovery"), "utf-8")
    yield path
    jobs = Supervisor(tmp_path / "shop.state" / "jobs")
    for job in [jobs.job(name) for name in jobs.names()]:
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 30)  # type: ignore[misc]


def test_a_view_is_kept_through_kills_of_the_job_and_of_what_keeps_it(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job outlives ``up``, which finds it again; a job that was killed is started; ``down`` ends it."""
    write(tmp_path, 1, 2)
    job = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    before = status(file, capsys)
    with up(file) as first:
        assert poll_until(lambda: rows(tmp_path) == 2, 60)
        running = status(file, capsys)
        first.send_signal(signal.SIGKILL)
        first.wait(30)
    orphaned = status(file, capsys)
    write(tmp_path, 1, 2, 3)
    assert poll_until(lambda: rows(tmp_path) == 3, 60)
    with up(file) as second:
        assert poll_until(lambda: status(file, capsys)[0] == 0, 60)
        same = status(file, capsys)[1]["jobs"][0]["run"]
        job.kill()
        assert poll_until(lambda: status(file, capsys)[1]["jobs"][0]["run"] == 2 and job.alive(), 60)
        write(tmp_path, 1, 2, 3, 4)
        assert poll_until(lambda: rows(tmp_path) == 4, 60)
        refused = subprocess.run([*CDCV2, "down", str(file)], capture_output=True, text=True, timeout=120, check=False)
        second.send_signal(signal.SIGTERM)
        code = second.wait(60)
    alive = job.alive()
    ended = main(["down", str(file)])

    assert (before[0], before[1]["jobs"][0]["state"], before[1]["owner"]) == (Exit.MISSING, "idle", None)
    assert (running[1]["jobs"][0]["state"], running[1]["owner"] is not None) == ("running", True)
    assert (orphaned[0], orphaned[1]["owner"], orphaned[1]["jobs"][0]["alive"]) == (Exit.MISSING, None, True)
    assert (same, code, alive, ended) == (1, Exit.DONE, True, Exit.DONE)
    assert refused.returncode == Exit.UNABLE and f"process {second.pid}" in refused.stderr
    assert not job.alive()


def test_each_round_of_up_is_stated(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is stopped by a signal is named by what reads the status, and goes on as if nothing had happened."""
    state = file.parent / "shop.state"
    with up(file) as process:
        assert poll_until(lambda: is_owned(state) and (state / "owner.json").exists(), 60)
        long_ago = keep_since(state, 600.0)
        assert poll_until(lambda: (state / "owner.lock").stat().st_mtime > long_ago + 300, 30)
        process.send_signal(signal.SIGSTOP)
        os.utime(state / "owner.lock", (long_ago + 300,) * 2)
        stopped = status(file, capsys)
        process.send_signal(signal.SIGCONT)
        assert poll_until(lambda: status(file, capsys)[1]["owner_silent"] is None, 30)

    assert Exit.MISSING == stopped[0] and 299 <= stopped[1]["owner_silent"] < 400


def keep_since(state: Path, seconds: float) -> float:
    """The owner is there since so many seconds, and has made no round; the moment."""
    record, moment = owner(state), time.time() - seconds
    assert record is not None
    keep(state / "owner.json", record._replace(since=moment)._asdict())
    os.utime(state / "owner.lock", (moment,) * 2)
    return moment


def test_a_job_that_cannot_run_is_held_with_its_reason(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log is of another timeline than its file states: no retry mends that. ``status`` shows what to do."""
    write(tmp_path, 1)
    file.write_text(FILE.replace("{recovery}", "recovery") + "    start: 5\n", "utf-8")
    with up(file):
        assert poll_until(lambda: status(file, capsys)[1]["jobs"][0]["state"] == "held", 60)
    capsys.readouterr()
    code = main(["status", str(file)])
    text = capsys.readouterr().out
    main(["resume", str(file), "copy"])
    resumed = capsys.readouterr().out

    assert code == Exit.MISSING
    assert "was not paused, but it is held" in resumed and "--start-held copy" in resumed
    assert "held" in text and "reading was to begin at" in text and "output.log" in text


def test_once_starts_the_jobs_and_ends(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a timer: a second call finds the job at work, and starts no other."""
    write(tmp_path, 1)
    codes = [main(["up", str(file), "--once"]), main(["up", str(file), "--once"])]
    assert poll_until(lambda: rows(tmp_path) == 1, 60)
    ended = main(["down", str(file)])

    assert (codes, ended) == ([Exit.DONE, Exit.DONE], Exit.DONE)
    assert capsys.readouterr().err.count("started (run") == 1
    assert main(["up", str(file), "--once", "--stop-jobs"]) == Exit.USAGE


def test_once_starts_a_job_that_changed_before_it_ends(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A timer may call it again hours later: until then nothing would run. A time-out names the job."""
    folder = tmp_path / "shop.state" / "jobs"

    def once(name: str, number: int, *words: str) -> tuple[int, str]:
        events = str(folder / name / "events.jsonl")
        plans = [JobPlan(name, (sys.executable, str(JOB), events, str(number)))]
        monkeypatch.setattr(up_command, "jobs_of", lambda pipeline: plans)
        capsys.readouterr()
        return main(["up", str(file), "--once", *words]), capsys.readouterr().err

    def runs(name: str) -> tuple[int, bool]:
        return JobFolder(folder / name).observe().run, JobFolder(folder / name).alive()

    first = once("copy", 1)
    assert poll_until(lambda: JobFolder(folder / "copy").observe().progress is not None, 30)
    late = once("copy", 2, "--timeout", "0")
    changed = once("copy", 2), runs("copy")
    renamed = once("other", 2), runs("copy"), runs("other")

    assert Exit.DONE == first[0]
    assert Exit.UNABLE == late[0] and "not done: copy still ends" in late[1]
    assert (Exit.DONE, (2, True)) == (changed[0][0], changed[1])
    assert (Exit.DONE, (2, False), (1, True)) == (renamed[0][0], *renamed[1:])


def test_once_with_a_part_that_cannot_run_is_not_done(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its job may be started all the same, and states its mistake: the others are not held up by it."""
    monkeypatch.setattr(up_command, "jobs_of", lambda pipeline: [])
    right = main(["up", str(file), "--once"])
    monkeypatch.setattr(up_command, "mistakes", lambda pipeline: [("copy", "line 8: a mistake")])
    wrong, errors = main(["up", str(file), "--once"]), capsys.readouterr().err

    assert (Exit.DONE, Exit.UNABLE) == (right, wrong) and "not done: copy cannot run as the file has it" in errors


def test_once_names_the_jobs_that_have_failed_and_do_not_run(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is held, one is tried again in minutes. A next try within the time-out is waited for."""
    folder = tmp_path / "shop.state" / "jobs"
    text = "import json, sys; open(sys.argv[1], 'a').write(json.dumps({"
    text += "'version': 1, 'event': 'end', 'at': 1.0, 'exit': 4, 'retry': sys.argv[2], 'reason': 'so it is'}) + '\\n')"
    plans = [
        JobPlan(name, (sys.executable, "-c", text, str(folder / name / "events.jsonl"), name))
        for name in ("mended", "never")
    ]
    monkeypatch.setattr(up_command, "jobs_of", lambda pipeline: plans)

    def once(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        return main(["up", str(file), "--once", *words]), capsys.readouterr().err

    def ended() -> bool:
        looks = [JobFolder(folder / plan.name).observe() for plan in plans]
        return all(one.end is not None and not one.alive for one in looks)

    first = once()
    assert poll_until(ended, 30)
    second = once("--timeout", "0")
    # The first pause is 5 seconds: it is waited for, and then the job has started.
    third = once("--timeout", "60")

    assert (first[0], second[0], third[0]) == (Exit.DONE, Exit.UNABLE, Exit.UNABLE)
    assert "not done: mended does not run: waits for its next start: so it is" in second[1]
    assert "not done: never does not run: held: so it is" in second[1]
    assert "mended: started (run 2)" in third[1] and "not done: mended" not in third[1]


def test_one_that_was_taken_over_from_starts_nothing_more(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock was removed, and another owns the jobs now: it ends before its next look at them."""
    turns = []

    def turn(self: Supervisor, plans: object, **_: object) -> list[object]:
        turns.append(plans)
        (tmp_path / "shop.state" / "owner.lock").unlink()
        with OwnedFolder(tmp_path / "shop.state", 6.0) as folder, take_catalogue(folder, "another", 6.0, "shop"):
            return []

    monkeypatch.setattr(Supervisor, "turn", turn)

    assert main(["up", str(file)]) == Exit.UNABLE
    assert len(turns) == 1


def test_stop_jobs_ends_them_with_the_command(tmp_path: Path, file: Path) -> None:
    """For a user who wants nothing left behind."""
    write(tmp_path, 1)
    with up(file, "--stop-jobs") as process:
        assert poll_until(lambda: rows(tmp_path) == 1, 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == Exit.DONE

    assert not JobFolder(tmp_path / "shop.state" / "jobs" / "copy").alive()


def test_down_ends_the_jobs_of_a_damaged_catalogue(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ending needs no catalogue. That it is damaged is an error afterwards, with what to do."""
    write(tmp_path, 1)
    assert main(["up", str(file), "--once"]) == Exit.DONE
    job = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    catalogue = tmp_path / "shop.state" / "catalogue.sqlite"
    catalogue.write_bytes(b"no database" * 1000)
    capsys.readouterr()
    code = main(["down", str(file)])
    errors = capsys.readouterr().err

    assert (code, job.alive()) == (Exit.UNABLE, False)
    assert "no job runs" in errors and f"the catalogue in {catalogue.parent} cannot be used" in errors
    assert "it is damaged" in errors and "restarts.md" in errors


def test_down_and_pause_end_jobs_where_nothing_can_be_written(tmp_path: Path, file: Path) -> None:
    """As on a full disk: a process that may write no byte ends them, and then fails. Jobs of others stay."""
    write(tmp_path, 1)
    job = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    renamed = tmp_path / "other.yaml"
    renamed.write_text(
        file.read_text("utf-8").replace("pipeline: shop", f"pipeline: other\nstate: {tmp_path / 'shop.state'}"), "utf-8"
    )

    def unwritten(*words: str) -> tuple[int, str, bool]:
        done = subprocess.run(
            ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", *CDCV2, *words],
            capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        return done.returncode, done.stderr, job.alive()

    assert main(["up", str(file), "--once"]) == Exit.DONE
    of_another = unwritten("down", str(renamed))
    paused = unwritten("pause", str(file), "copy")
    assert main(["up", str(file), "--once"]) == Exit.DONE
    down = unwritten("down", str(file))

    assert (of_another[0], of_another[2]) == (Exit.UNABLE, True) and "the state of the pipeline 'shop'" in of_another[1]
    assert (paused[0], paused[2]) == (Exit.UNABLE, False) and "the next cdcv2 up starts it again" in paused[1]
    assert (down[0], down[2]) == (Exit.UNABLE, False) and "no job runs" in down[1] and "make room" in down[1]


def test_no_secret_is_in_what_is_kept_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command lines can be read by every user of the machine: a password is in the environment alone."""
    monkeypatch.setenv("COPY_PASSWORD", "open-sesame")
    path = tmp_path / "shop.yaml"
    target = 'target: {driver: postgres, conninfo: "host=127.0.0.1 port=1 dbname=copy password=${COPY_PASSWORD}"}'
    text = FILE.replace("target: {driver: lake, folder: lake}", target).replace("    recovery_log: {recovery}\n", "")
    path.write_text(text, "utf-8")
    write(tmp_path, 1)
    main(["up", str(path), "--once"])
    job = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    assert poll_until(lambda: not job.alive(), 60)
    main(["up", str(path), "--once"])
    files = [one for one in (tmp_path / "shop.state").rglob("*") if one.is_file()]

    assert {one.name for one in files} >= {"run.json", "status.json", "events.jsonl", "output.log"}
    assert not [one for one in files if b"open-sesame" in one.read_bytes()]
    assert os.environ["COPY_PASSWORD"] == "open-sesame"


def test_timers_of_a_view_wait_until_something_is_there(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline that is new has no lake yet: none of its timers is held until a person comes."""
    write(tmp_path, 1, 2)
    timers = "timers: {left: {orphans: copy, every: 1h}, equal: {compare: copy, every: 1h}}\n"
    file.write_text(FILE.replace("{recovery}", "recovery") + timers, "utf-8")
    assert main(["pause", str(file), "copy"]) == Exit.DONE

    def timers_now() -> list[dict[str, Any]]:
        return [one for one in status(file, capsys)[1]["jobs"] if one["kind"] == "timer"]

    with up(file):
        assert poll_until(lambda: all(one["reason"] is not None for one in timers_now()), 60)
        early = timers_now()
        assert main(["resume", str(file), "copy"]) == Exit.DONE
        assert poll_until(lambda: all(one["last_exit"] == Exit.DONE for one in timers_now()), 60)

    assert [("equal", "waiting"), ("left", "waiting")] == sorted((one["name"], one["state"]) for one in early)


def test_a_timer_shows_what_it_found_and_runs_again(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that is equal is well; a row that somebody changed in it is shown, and is no death of the timer."""
    write(tmp_path, 1, 2)
    text = FILE.replace("{recovery}", "recovery") + "timers: {equal: {compare: copy, every: 3s}}\n"
    file.write_text(text, "utf-8")
    assert main(["materialize", str(file), "--view", "copy"]) == Exit.DONE

    seen: list[tuple[dict[str, Any], int]] = []

    def rests(*, exited: int) -> bool:
        """Whether the timer waits after a run that ended so, of which all is from one look: it runs again in a moment.

        Between an end and the look of the supervisor, a run that found nothing has a reason, too.
        """
        code, plain = status(file, capsys)
        row = next(one for one in plain["jobs"] if one["name"] == "equal")
        seen.append((row, code))
        found = row["reason"] is not None
        return row["state"] == "waiting" and row["last_exit"] == exited and found is (exited != Exit.DONE)

    with up(file):
        # The view runs by now, too.
        assert poll_until(lambda: rests(exited=Exit.DONE) and seen[-1][1] == Exit.DONE, 60)
        well = seen[-1][0]
        (part,) = (tmp_path / "lake").rglob("*.parquet")
        rows_there = parquet.read_table(part)
        changed = rows_there.set_column(rows_there.schema.get_field_index("id"), "id", pa.array([1, 7], pa.int64()))
        parquet.write_table(changed.cast(rows_there.schema), part)
        assert poll_until(lambda: rests(exited=Exit.WRONG), 60)
        found, code = seen[-1]
    capsys.readouterr()
    main(["status", str(file)])
    shown = capsys.readouterr().out

    assert (well["kind"], well["reason"], code) == ("timer", None, Exit.MISSING)
    assert found["reason"] is not None and found["run"] > well["run"]
    assert found["reason"] in shown and "equal/output.log" in shown
