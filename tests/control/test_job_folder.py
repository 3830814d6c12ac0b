"""A job is found by the lock that it holds: after its supervisor died, and however it ended itself.

The jobs are real processes, which write events as cdcv2's do; no process of these tests outlives them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.control.job_folder import LONG, JobFolder
from cdcv2.control.supervision import JobAct, JobEnd, JobState
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import MalformedError, OutputError
from cdcv2.failpoints import PlacedCrash, placed
from cdcv2.retries import Retry
from cdcv2.servers.processes import poll_until

JOB = Path(__file__).with_name("job_script.py")
#: Prints a variable of its environment, and its open files behind the standard streams.
OPEN_FILES = """
import os
files = []
for number in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{number}")
    except FileNotFoundError:
        continue  # the listing itself
    if int(number) > 2:
        files.append(os.path.basename(target))
print(os.environ["WORD"], files)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobFolder]:
    """A folder whose job ends with the test."""
    folder = JobFolder(tmp_path / "job")
    yield folder
    folder.kill()
    assert poll_until(lambda: not folder.alive(), 20)


def argv(job: JobFolder, number: int = 7) -> list[str]:
    return [sys.executable, str(JOB), str(job.events), str(number)]


def wait_for_progress(job: JobFolder) -> None:
    assert poll_until(lambda: job.last_progress() is not None, 20)


def test_a_job_runs_once_and_reports_how_it_ended(job: JobFolder) -> None:
    """A second start is refused while it is alive; its last event is its end."""
    started = job.start(argv(job), 1, "c")
    again = JobFolder(job.path).start(argv(job, 8), 2, "c8")
    wait_for_progress(job)
    seen = job.observe()
    job.stop()

    assert (started, again) == (True, False)
    assert (seen.alive, seen.run, seen.command, seen.end, seen.progress) == (
        True, 1, "c", None, "[7]",
    )  # fmt: skip
    assert poll_until(lambda: not job.alive(), 20)
    assert job.observe().end == JobEnd(0, Retry.NOW)


def test_a_killed_job_reports_nothing_and_the_end_of_the_run_before_is_not_its_own(job: JobFolder) -> None:
    """The file of events has both runs; the second one was killed."""
    job.start(argv(job), 1, "c")
    wait_for_progress(job)
    job.stop()
    assert poll_until(lambda: not job.alive(), 20)
    job.start(argv(job, 9), 2, "c9")
    assert poll_until(lambda: job.observe().progress == "[9]", 20)
    job.kill()
    assert poll_until(lambda: not job.alive(), 20)

    assert job.observe()[:4] == (False, 2, "c9", None)


def test_a_job_outlives_its_supervisor_and_is_found_again(job: JobFolder) -> None:
    """The supervisor is killed with SIGKILL; the next one sees the job alive, and can end it."""
    code = (
        "import os, signal, sys; from pathlib import Path; from cdcv2.control.job_folder import JobFolder;"
        "JobFolder(Path(sys.argv[1])).start(sys.argv[2:], 1, 'c'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(job.path), *argv(job)], check=False, timeout=60)
    wait_for_progress(job)
    alive = job.observe().alive
    job.stop()

    assert alive
    assert poll_until(lambda: not job.alive(), 20)


def test_what_a_job_leaves_behind_holds_it(job: JobFolder, tmp_path: Path) -> None:
    """The first process ends, a child of it does not: another copy would work beside it, so the job is alive."""
    first = tmp_path / "first"
    shell = f'{sys.executable} -c "import time; time.sleep(600)" & echo $$ > {first}.new; mv {first}.new {first}'
    job.start(["/bin/sh", "-c", shell], 1, "c")
    assert poll_until(lambda: first.exists() and not is_running(int(first.read_text("utf-8"))), 20)

    assert job.alive()
    job.kill()
    assert poll_until(lambda: not job.alive(), 20)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie that waits for us to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_crash_before_the_start_leaves_no_job_and_one_behind_it_leaves_one(job: JobFolder) -> None:
    """At both moments the next supervisor sees what is true."""
    with pytest.raises(PlacedCrash), placed("job.run-kept"):
        job.start(argv(job), 1, "c")
    before = job.observe()
    with pytest.raises(PlacedCrash), placed("job.started"):
        job.start(argv(job), 2, "c")

    assert (before.alive, before.run, before.end) == (False, 1, None)
    assert (job.observe().alive, job.observe().run) == (True, 2)


def test_long_files_are_put_aside_before_a_run(job: JobFolder) -> None:
    """Events and output of a year do not fill the disk: those of the run before are kept, no more."""
    job.path.mkdir()
    job.output.write_bytes(b"x" * (LONG + 1))
    job.events.write_bytes((json.dumps({"version": 1, "event": "progress", "frontier": [3]}).encode() + b"\n") * 2)
    job.start(argv(job), 1, "c")

    assert (job.path / "output.before.log").stat().st_size == LONG + 1
    assert not (job.path / "events.before.jsonl").exists()


def test_a_torn_line_is_no_event_and_a_damaged_file_is_refused(job: JobFolder) -> None:
    """A kill may tear the last line. The file of the run is replaced whole: damage there is damage."""
    job.path.mkdir()
    lines = [{"event": "progress", "frontier": [3]}, {"event": "end", "exit": 4, "retry": "later"}]
    whole = "\n".join(json.dumps({"version": 1, **line}) for line in lines)
    job.events.write_text(whole + '\n{"event": "end", "ex', "utf-8")
    (job.path / "run.json").write_text(json.dumps({"version": 1, "run": 1, "command": "c", "events_from": 0}), "utf-8")
    seen = job.observe()
    (job.path / "run.json").write_text("{", "utf-8")

    # A word that this version does not know is for a person to decide.
    assert (seen.end, seen.progress) == (JobEnd(4, Retry.NEVER), "[3]")
    with pytest.raises(MalformedError, match="run.json cannot be read"):
        job.observe()


@pytest.mark.parametrize("wrong", [{"run": "x"}, {"events_from": None}, {"command": 7}, {"run": ...}])
def test_a_run_that_is_not_as_it_was_written_is_refused(job: JobFolder, wrong: dict[str, object]) -> None:
    """With the field that is wrong, or missing."""
    job.path.mkdir()
    plain = {"version": 1, "run": 1, "command": "c", "events_from": 0, **wrong}
    (job.path / "run.json").write_text(json.dumps({k: v for k, v in plain.items() if v is not ...}), "utf-8")

    with pytest.raises(MalformedError, match=f"run.json has no {next(iter(wrong))} as it was written"):
        job.observe()


@pytest.mark.parametrize("wrong", [
    {}, {"exit": "x"}, {"exit": None}, {"exit": 4, "reason": 5}, {"exit": 4, "remedy": []},
])  # fmt: skip
def test_an_end_that_no_job_writes_is_damage(job: JobFolder, wrong: dict[str, object]) -> None:
    """And ends no turn over all jobs."""
    job.path.mkdir()
    job.events.write_text(json.dumps({"version": 1, "event": "end", **wrong}) + "\n", "utf-8")
    (job.path / "run.json").write_text(json.dumps({"version": 1, "run": 1, "command": "c", "events_from": 0}), "utf-8")

    with pytest.raises(MalformedError, match=r"the event 'end' has (exit|reason|remedy): .*, which no job writes"):
        job.observe()


def test_events_of_a_later_release_are_refused(job: JobFolder) -> None:
    """What they mean is not known: nothing is decided on them."""
    job.path.mkdir()
    job.events.write_text(json.dumps({"version": 2, "event": "end", "exit": 0}) + "\n", "utf-8")
    (job.path / "run.json").write_text(json.dumps({"version": 1, "run": 1, "command": "c", "events_from": 0}), "utf-8")

    for look in (job.observe, job.last_progress):
        with pytest.raises(MalformedError, match=r"events.jsonl, line 1: its version is 2.* or a newer one"):
            look()


def test_a_program_that_is_not_there_is_an_error_with_its_name(job: JobFolder) -> None:
    """And the lock is free again."""
    with pytest.raises(OutputError, match="/no/such/program: No such file"):
        job.start(["/no/such/program"], 1, "c")

    assert not job.alive()


def test_the_environment_is_given_and_the_lock_is_the_only_open_file(job: JobFolder, tmp_path: Path) -> None:
    """Secrets go through the environment; nothing else of the supervisor reaches the job."""
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    job.start([sys.executable, "-c", OPEN_FILES], 1, "c", {**os.environ, "WORD": "open sesame"})
    os.close(secret)

    assert poll_until(lambda: not job.alive(), 20)
    assert job.output.read_text("utf-8") == "open sesame ['lock']\n"


def test_the_last_exit_is_of_the_last_run_that_reported_its_end(tmp_path: Path) -> None:
    """While another run is at work, and behind one that was killed, it is still what was found last."""
    job, found = JobFolder(tmp_path), list[int | None]()
    for event in ({"event": "start"}, {"event": "end", "exit": 0}, {"event": "end", "exit": 3}, {"event": "start"}):
        with open(job.events, "a", encoding="utf-8") as file:
            file.write(json.dumps({"version": 1, "at": 1.0, "job": "compare", **event}) + "\n")
        found.append(job.last_exit())

    assert found == [None, 0, 3, 3]


def test_only_what_holds_the_lock_is_ended(job: JobFolder, tmp_path: Path) -> None:
    """A program that only reads the file, as a backup does, belongs to no job; the job goes all the same."""
    job.start(argv(job), 1, "c")
    wait_for_progress(job)
    with open(job.path / "lock", "rb") as lock:
        reader = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    job.stop()
    assert poll_until(lambda: not job.alive(), 20)
    job.kill()
    went_on = reader.poll() is None
    reader.communicate(b"\n", timeout=20)

    assert went_on and reader.returncode == 0


def test_who_only_asks_whether_the_job_is_there_is_not_taken_for_it(job: JobFolder) -> None:
    """As cdcv2 status does, by a shared lock; two that ask do not see each other."""
    job.make()
    (job.path / "lock").touch()
    asks = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH); print(flush=True); input()"
    command = [sys.executable, "-c", asks, str(job.path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as other:
        assert other.stdout is not None and other.stdout.readline()
        there = job.alive()
        job.stop()
        job.kill()
        went_on = other.poll() is None
        other.communicate(b"\n", timeout=20)

    assert (there, went_on, other.returncode) == (False, True, 0)


def test_a_number_that_another_process_has_by_now_gets_no_signal(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends between the look and the signal, and its number is given again."""
    job.make()
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    monkeypatch.setattr(job, "_holders", lambda: [other.pid])
    job.stop()
    job.kill()
    went_on = other.poll() is None
    other.communicate(b"\n", timeout=20)

    assert went_on and other.returncode == 0


@pytest.mark.parametrize("changed", [
    b"[" * 100_000, b"[]", b'{"version": 1}', b'{"version": 1, "run": true, "command": "c", "events_from": 0}',
    b'{"version": 1, "run": 1, "command": "c", "events_from": -1}',
    b'{"version": 1, "run": 1, "command": "c", "events_from": 0, "parts": [1]}',
    b'{"version": 1, "run": 1, "command": "c", "events_from": 0, "parts": {"kafka:": 1}}',
])  # fmt: skip
def test_a_run_of_another_shape_is_damage(job: JobFolder, changed: bytes) -> None:
    """With the name of the file, and what to do."""
    job.make()
    (job.path / "run.json").write_bytes(changed)

    with pytest.raises(MalformedError, match=r"run\.json .*(Restore it|restore it|Use that one), or remove it"):
        job.observe()


def test_a_process_that_may_not_be_ended_is_named(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it has another user: that job alone is shown, with who must end it."""

    def refuse(process: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    job.start(argv(job), 1, "c")
    with monkeypatch.context() as changed:
        changed.setattr(signal, "pidfd_send_signal", refuse)
        with pytest.raises(OutputError, match=r"job: this user may not end the process \d+, which belongs to it"):
            job.stop()
        (report,) = Supervisor(job.path.parent).turn([])
    assert (JobAct.NOTHING, JobState.HELD) == (report.act, report.status.state)
    assert "end it as the user that it runs as" in str(report.damage)


def test_a_run_has_caught_up_when_it_has_stated_that_itself(job: JobFolder) -> None:
    """Once is enough; what the run before has stated is of that one."""
    job.path.mkdir()
    first = [{"event": "start"}, {"event": "progress", "frontier": [3], "caught_up": True}]
    second: list[dict[str, object]] = [{"event": "start"}, {"event": "progress", "frontier": [3], "caught_up": False}]
    begins = job.events.write_text("".join(f"{json.dumps({'version': 1, **one})}\n" for one in first), "utf-8")
    run = {"version": 1, "run": 2, "command": "c", "events_from": begins}
    (job.path / "run.json").write_text(json.dumps(run), "utf-8")
    found = [job.observe().caught_up]
    for event in (*second, {"event": "progress", "caught_up": True}, {"event": "progress", "caught_up": False}):
        with open(job.events, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'version': 1, **event})}\n")
        found.append(job.observe().caught_up)

    assert [False, False, False, True, True] == found
