"""The supervisor keeps real processes running, goes on where the one before it stopped, and never runs a job twice."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdcv2.cli.up import show
from cdcv2.control import kept_value, supervision
from cdcv2.control.disks import unwritable
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import OwnedFolder, is_owned, owner
from cdcv2.control.supervision import DEATHS, PATIENCE, JobAct, JobState
from cdcv2.control.supervisor import JobPlan, Supervisor
from cdcv2.errors import MalformedError, OutputError, RefusedError, UsageError
from cdcv2.failpoints import PlacedCrash, placed
from cdcv2.servers.processes import poll_until

JOB = Path(__file__).with_name("job_script.py")


class Clock:
    """Moves as the test does."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the jobs, which end with the test. No run lives for long, however often the clock is asked."""
    monkeypatch.setattr(supervision, "SETTLED", math.inf)
    folder = tmp_path / "jobs"
    yield folder
    for name in Supervisor(folder).names():
        job = JobFolder(folder / name)
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 20)  # type: ignore[misc]


def plan(jobs: Path, name: str, number: int = 7) -> JobPlan:
    return JobPlan(name, (sys.executable, str(JOB), str(jobs / name / "events.jsonl"), str(number)))


def wait(jobs: Path, name: str, condition: Callable[[JobFolder], bool]) -> None:
    assert poll_until(lambda: condition(JobFolder(jobs / name)), 20)


def starts(jobs: Path, name: str) -> int:
    """How often the job began."""
    return (jobs / name / "events.jsonl").read_text("utf-8").count('"event": "start"')


def test_a_killed_job_runs_again_and_one_that_left_the_file_ends(jobs: Path) -> None:
    """Three jobs: one is killed, one is no longer planned, one has another command."""
    clock = Clock()
    first = Supervisor(jobs, clock=clock)
    first.turn([plan(jobs, "a"), plan(jobs, "b"), plan(jobs, "c")])
    for name in "abc":
        wait(jobs, name, lambda job: job.observe().progress == "[7]")
    first.turn([plan(jobs, "a"), plan(jobs, "b"), plan(jobs, "c")])
    JobFolder(jobs / "a").kill()
    wait(jobs, "a", lambda job: not job.alive())

    # Another supervisor: what it needs is in the folders.
    second, wanted = Supervisor(jobs, clock=clock), [plan(jobs, "a"), plan(jobs, "c", 9)]
    assert poll_until(lambda: second.turn(wanted) and JobFolder(jobs / "c").observe().progress == "[9]", 20)
    assert poll_until(lambda: bool(second.turn(wanted)) and JobFolder(jobs / "a").alive(), 20)
    wait(jobs, "a", lambda job: starts(jobs, "a") == 2)
    states = {report.name: report.status.state for report in second.turn(wanted)}

    assert states == {"a": JobState.RUNNING, "b": JobState.IDLE, "c": JobState.RUNNING}
    assert (starts(jobs, "a"), starts(jobs, "b"), starts(jobs, "c")) == (2, 1, 2)
    assert not JobFolder(jobs / "b").alive()


def test_a_job_under_a_new_name_starts_when_the_old_one_has_ended(jobs: Path) -> None:
    """Both write the same. One that goes on as it was is started again at once, whatever ends."""
    supervisor, before = Supervisor(jobs, clock=Clock()), [plan(jobs, "old"), plan(jobs, "same")]
    supervisor.turn(before)
    for name in ("old", "same"):
        wait(jobs, name, lambda job: job.observe().progress == "[7]")
    supervisor.turn(before)
    pid = JobFolder(jobs / "old")._holders()[0]
    os.kill(pid, signal.SIGSTOP)
    JobFolder(jobs / "same").kill()
    wait(jobs, "same", lambda job: not job.alive())
    wanted = [plan(jobs, "new"), plan(jobs, "same")]
    for _ in range(4):
        reports = {report.name: report for report in supervisor.turn(wanted)}
        assert "old to end: the file does not have it any more" == reports["new"].status.waits
    wait(jobs, "same", lambda job: starts(jobs, "same") == 2)
    assert not JobFolder(jobs / "new").alive()

    os.kill(pid, signal.SIGCONT)
    wait(jobs, "old", lambda job: not job.alive())
    supervisor.turn(wanted)
    wait(jobs, "new", lambda job: job.observe().progress == "[7]")


@pytest.mark.parametrize(("end", "state", "began"), [
    ({"exit": 4, "retry": "never", "reason": "fenced"}, JobState.HELD, 1),
    ({"exit": 4, "retry": "now", "reason": "no answer"}, JobState.HELD, DEATHS),
    ({"exit": 4, "retry": "mended", "reason": "no space"}, JobState.WAITING, 10),
    ({"exit": 0, "retry": None, "frontier": []}, JobState.FINISHED, 1),
])  # fmt: skip
def test_the_end_that_a_job_reports_says_what_follows(
    jobs: Path, end: dict[str, object], state: JobState, began: int
) -> None:
    """Twenty turns, far apart: every second one may start it, the one between them sees how it ended."""
    clock = Clock()
    supervisor, environment = Supervisor(jobs, clock=clock), {**os.environ, "CDCV2_TEST_END": json.dumps(end)}
    for _ in range(20):
        supervisor.turn([plan(jobs, "a")], environment)
        wait(jobs, "a", lambda job: not job.alive())
        clock.now += 1000.0

    assert [report.status.state for report in supervisor.look()] == [state]
    assert starts(jobs, "a") == began


def test_damage_to_the_files_of_one_job_leaves_the_others_at_work(jobs: Path) -> None:
    """It is shown as held, with what to do, and starts when it is mended; meanwhile another one starts again."""
    supervisor, wanted = Supervisor(jobs, clock=Clock()), [plan(jobs, "a"), plan(jobs, "b")]
    supervisor.turn(wanted)
    for name in "ab":
        wait(jobs, name, lambda job: job.observe().progress == "[7]")
        JobFolder(jobs / name).kill()
        wait(jobs, name, lambda job: not job.alive())
    whole = (jobs / "a" / "events.jsonl").read_bytes()
    (jobs / "a" / "events.jsonl").write_text('{"version": 2, "event": "end"}\n', "utf-8")
    assert poll_until(lambda: bool(supervisor.turn(wanted)) and JobFolder(jobs / "b").alive(), 20)
    damaged = supervisor.turn(wanted)[0]
    seen = supervisor.look()[0]
    (jobs / "a" / "events.jsonl").write_bytes(whole)
    mended = poll_until(lambda: bool(supervisor.turn(wanted)) and JobFolder(jobs / "a").alive(), 20)

    assert damaged.status.state is JobState.HELD and "its version is 2" in str(damaged.status.reason)
    assert (seen.status, damaged.observation.alive, mended) == (damaged.status, False, True)


def test_a_program_that_is_not_there_leaves_the_others_at_work(jobs: Path) -> None:
    """It waits, with the reason, is tried in each turn, and its first run is still its first when it is there."""
    supervisor = Supervisor(jobs, clock=Clock())
    wanted = [JobPlan("a", ("/no/such/program",)), plan(jobs, "b")]
    turns = [supervisor.turn(wanted)[0] for _ in range(DEATHS + 2)]
    others = JobFolder(jobs / "b").alive()
    seen = supervisor.look()[0].status
    supervisor.turn([plan(jobs, "a"), plan(jobs, "b")])
    wait(jobs, "a", lambda job: job.observe().progress == "[7]")

    assert {(turn.status.state, turn.status.run, turn.act) for turn in turns} == {(JobState.WAITING, 0, JobAct.NOTHING)}
    assert all(isinstance(turn.damage, OutputError) for turn in turns)
    assert (others, seen.deaths, "/no/such/program" in str(seen.reason)) == (True, 0, True)
    assert JobFolder(jobs / "a").observe().run == 1


def test_a_lock_that_cannot_be_opened_leaves_the_others_at_work(jobs: Path) -> None:
    """Whether that job is alive is not known: it is shown so, and is not started."""
    (jobs / "a" / "lock").mkdir(parents=True)
    damaged, other = Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a"), plan(jobs, "b")])
    (jobs / "a" / "lock").rmdir()

    assert (damaged.act, damaged.status.state, damaged.observation.alive) == (JobAct.NOTHING, JobState.HELD, True)
    assert isinstance(damaged.damage, OutputError) and other.act is JobAct.START


def test_a_job_of_which_nothing_can_be_written_is_not_called_held(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process goes on: only that cdcv2 up cannot keep how it stands is shown."""
    supervisor = Supervisor(jobs, clock=Clock())
    supervisor.turn([plan(jobs, "a")])
    wait(jobs, "a", lambda job: job.observe().progress == "[7]")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept_value, "replace_file", full)
    report = supervisor.turn([plan(jobs, "a")._replace(argv=("other",))])[0]
    shown = dict[str, str]()
    show(SimpleNamespace(state=jobs.parent), "up", [report], shown)  # type: ignore[arg-type]

    assert JobFolder(jobs / "a").alive() and isinstance(report.damage, OutputError)
    assert shown["a"].startswith("not looked after, and its process keeps running: ") and "No space left" in shown["a"]


@pytest.mark.parametrize(("free", "inodes", "flags", "named"), [
    (9, 9, 0, None), (9, 0, 0, "no inode left"), (0, 9, 0, "is full: make room"), (9, 9, os.ST_RDONLY, "is read-only"),
])
def test_a_disk_on_which_nothing_can_be_written_is_named(
    free: int, inodes: int, flags: int, named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder that is not there yet, that of the one above."""
    disk = SimpleNamespace(f_flag=flags, f_bavail=free << 20, f_frsize=1, f_files=9, f_favail=inodes)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    found = unwritable(tmp_path / "to come")

    assert (found is None) is (named is None) and (named or "") in (found or "")


def test_a_read_only_file_system_is_not_to_be_given_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names what it is."""
    def read_only(path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(kept_value, "replace_file", read_only)
    with pytest.raises(OutputError, match="its file system is read-only: see why") as refused:
        kept_value.keep(tmp_path / "x.json", {})
    assert "make room" not in str(refused.value)


def test_a_job_whose_end_cannot_be_written_is_asked_once_and_then_killed(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: how the job stands cannot be kept, and that it was asked is known all the same."""
    now = [1000.0]
    supervisor = Supervisor(jobs, clock=lambda: now[0])
    deaf = JobPlan("a", (sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                         "print('deaf', flush=True); time.sleep(600)"))
    supervisor.turn([deaf])
    wait(jobs, "a", lambda job: "deaf" in job.output.read_text("utf-8"))

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept_value, "replace_file", full)
    acts = [supervisor.turn([])[0].act for _ in range(2)]
    now[0] += PATIENCE
    killed = supervisor.turn([])[0]
    wait(jobs, "a", lambda job: not job.alive())

    assert (acts, killed.act) == ([JobAct.STOP, JobAct.NOTHING], JobAct.KILL)
    assert "No space left" in str(killed.status.reason) and isinstance(killed.damage, OutputError)


def test_a_held_job_starts_again_when_it_is_released(jobs: Path) -> None:
    """And only then; a job that is not there is named with those that are."""
    clock = Clock()
    end = {"CDCV2_TEST_END": json.dumps({"exit": 4, "retry": "never", "reason": "fenced"})}
    supervisor = Supervisor(jobs, clock=clock)
    supervisor.turn([plan(jobs, "a")], {**os.environ, **end})
    wait(jobs, "a", lambda job: not job.alive())
    (held,) = supervisor.turn([plan(jobs, "a")])
    was_held = supervisor.release("a")
    supervisor.turn([plan(jobs, "a")])
    wait(jobs, "a", lambda job: job.observe().progress == "[7]")

    assert (held.status.state, held.status.reason, was_held) == (JobState.HELD, "fenced", True)
    assert not supervisor.release("a")
    with pytest.raises(UsageError, match="no job 'b'; there are a"):
        supervisor.release("b")
    with pytest.raises(UsageError, match="two jobs have the name 'a'"):
        supervisor.turn([plan(jobs, "a"), plan(jobs, "a")])


def test_a_supervisor_that_died_before_the_act_is_followed_by_one_that_does_it(jobs: Path) -> None:
    """The start was written down and not made: the next one makes it, once."""
    with pytest.raises(PlacedCrash), placed("supervisor.status-kept"):
        Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a")])
    Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a")])
    wait(jobs, "a", lambda job: job.observe().progress == "[7]")
    Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a")])

    assert starts(jobs, "a") == 1


def test_a_damaged_status_is_refused(jobs: Path) -> None:
    """It might be one that is held: it is not taken for one that never ran, and a request to end still ends the job."""
    Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a")])
    wait(jobs, "a", lambda job: job.observe().progress == "[7]")
    (jobs / "a" / "status.json").write_text('{"version": 1, "state": "lost"}', "utf-8")
    damaged = Supervisor(jobs, clock=Clock()).turn([plan(jobs, "a")])[0]
    ending = Supervisor(jobs, clock=Clock()).turn([])[0]

    assert isinstance(damaged.damage, MalformedError) and "no status of a job" in str(damaged.status.reason)
    assert (damaged.act, ending.act) == (JobAct.NOTHING, JobAct.STOP)
    wait(jobs, "a", lambda job: not job.alive())


def test_a_second_owner_is_told_who_is_there_and_a_dead_one_is_taken_over_from(tmp_path: Path) -> None:
    """The first one is a process of its own; it is killed."""
    code = (
        "import sys, time; from pathlib import Path; from cdcv2.control.owner import OwnedFolder;"
        "folder = OwnedFolder(Path(sys.argv[1]), 5.0); print('owned', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "owned\n"
            with pytest.raises(RefusedError, match=f"kept by process {process.pid} on"):
                OwnedFolder(tmp_path, 6.0)
            seen = is_owned(tmp_path)
        finally:
            process.send_signal(signal.SIGKILL)
    with OwnedFolder(tmp_path, 7.0):
        record = owner(tmp_path)

    assert seen and not is_owned(tmp_path)
    assert record is not None and (record.pid, record.since) == (os.getpid(), 7.0)


@pytest.mark.parametrize("changed", [
    b"[" * 100_000, b"[]", b'{"version": 1, "pid": 7}', b'{"version": 1, "pid": "7", "host": "h", "since": 1.0}',
    b'{"version": 1, "pid": 7, "host": "h", "since": 1.0, "more": 2}',
    b'{"version": 1, "pid": true, "host": "h", "since": 1.0}',
])  # fmt: skip
def test_a_record_of_the_owner_of_another_shape_is_damage(tmp_path: Path, changed: bytes) -> None:
    """With the name of the file, and what to do; a whole number of seconds is none."""
    (tmp_path / "owner.json").write_bytes(changed)
    with pytest.raises(MalformedError, match=r"owner\.json .*(Restore it|restore it|Use that one), or remove it"):
        owner(tmp_path)

    (tmp_path / "owner.json").write_bytes(b'{"version": 1, "pid": 7, "host": "h", "since": 1}')
    assert owner(tmp_path) == (7, "h", 1)
