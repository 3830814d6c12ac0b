"""``cdcv2 pause`` and ``resume``: a real job ends and stays ended; ``repair`` and ``orphans`` pause for themselves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.pausing import paused
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.supervisor import Supervisor
from cdcv2.exits import Exit
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2
from tests.cli.test_command_up import FILE, rows, status, write

TWO = FILE.replace("{recovery}", "recovery") + """
  other:
    logs: {items: items}
    bindings: [{log: items, target: items, key: [id]}]
    target: {driver: lake, folder: other}
    recovery_log: other-recovery
"""


#: A repair of the view that is at work for as long as it is let.
_PAUSED = """
import sys, time
from cdcv2.cli.view_alone import view_alone
with view_alone(sys.argv[1], "copy", "cdcv2 repair"):
    print("paused", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Supervisor]:
    """The jobs of a pipeline with two views; all of them end with the test."""
    (tmp_path / "shop.yaml").write_text(TWO, "utf-8")
    write(tmp_path, 1, 2)
    found = Supervisor(tmp_path / "shop.state" / "jobs")
    yield found
    for job in [found.job(name) for name in found.names()]:
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 30)  # type: ignore[misc]


def states(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The state of each job."""
    return {row["name"]: row["state"] for row in status(file, capsys)[1]["jobs"]}


def other(folder: Path) -> int:
    """How many rows the lake of the other view has."""
    return len(dict(open_lake(folder / "other").rows("items")))


def test_one_job_is_paused_beside_up_and_stays_so_for_the_next_up(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other view gets what comes meanwhile; after ``resume`` the paused one goes on where it was."""
    file, job = tmp_path / "shop.yaml", jobs.job
    with subprocess.Popen([*CDCV2, "up", str(file)], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == 2 and states(file, capsys)["other"] == "running", 60)
            paused = main(["pause", str(file), "copy"])
            write(tmp_path, 1, 2, 3)
            assert poll_until(lambda: other(tmp_path) == 3, 60)
            between = states(file, capsys)
            main(["explain", str(file), "copy", "--json"])
            (way,) = json.loads(capsys.readouterr().out)
        finally:
            up.terminate()
            up.wait(60)
    with subprocess.Popen([*CDCV2, "up", str(file)], stderr=subprocess.PIPE, text=True) as up:
        try:
            assert up.stderr is not None and any("copy: paused by cdcv2 pause" in line for line in up.stderr)
            again, plan = states(file, capsys), main(["plan", str(file)])
            resumed = main(["resume", str(file), "copy"])
            assert poll_until(lambda: rows(tmp_path) == 3, 60)
        finally:
            up.terminate()
            up.wait(60)

    assert (paused, resumed, plan, rows(tmp_path)) == (Exit.DONE, Exit.DONE, Exit.DONE, 3)
    assert between == again == {"copy": "paused", "other": "running"}
    assert way["fault"]["fault"] == "it is paused by cdcv2 pause"
    assert way["fault"]["remedy"] == f"cdcv2 resume {file} copy"
    assert job("copy").observe().run == 2 and job("other").observe().run == 1


def test_without_up_a_job_is_asked_to_end_by_the_command(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs outlive ``up``; so a pause may find one at work, and no supervisor that would end it."""
    file = tmp_path / "shop.yaml"
    assert main(["up", str(file), "--once"]) == Exit.DONE
    assert poll_until(lambda: rows(tmp_path) == 2, 60)
    code, again = main(["pause", str(file), "copy"]), main(["pause", str(file), "copy"])
    alive, shown = jobs.job("copy").alive(), states(file, capsys)
    assert main(["up", str(file), "--once"]) == Exit.DONE
    later = jobs.job("copy").alive()
    main(["resume", str(file), "copy"])
    main(["resume", str(file), "copy"])
    out = capsys.readouterr().out

    assert (code, again, alive, later, shown["copy"]) == (0, 0, False, False, "paused")
    assert f"cdcv2 up {file} starts it" in out and "copy was not paused" in out


def test_a_job_that_is_not_in_the_file_is_named_with_those_that_are(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what was probably meant."""
    codes = [main([command, str(tmp_path / "shop.yaml"), "cpoy"]) for command in ("pause", "resume")]
    err = capsys.readouterr().err

    assert codes == [Exit.USAGE, Exit.USAGE]
    assert err.count("there is no job 'cpoy'; there are copy, other; did you mean copy") == 2


def test_a_job_that_the_file_got_later_is_named_as_such_at_once(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cdcv2 up`` has the file as it was when it began: a wait would not end."""
    file = tmp_path / "shop.yaml"
    with subprocess.Popen([*CDCV2, "up", str(file)], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == 2 and states(file, capsys)["copy"] == "running", 60)
            file.write_text(TWO.replace("  other:", "  later:"), "utf-8")
            codes = [main([command, str(file), "later"]) for command in ("pause", "resume")]
        finally:
            up.terminate()
            up.wait(60)
    out = capsys.readouterr().out

    assert codes == [0, 0] and "later does not run: the cdcv2 up that runs does not have it" in out
    assert "later is not paused any more; the cdcv2 up that runs does not have it" in out


def test_a_part_of_a_run_is_not_paused_alone(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a thread of ``cdcv2 run``: the command would report that it has ended."""
    file = tmp_path / "shop.yaml"
    with subprocess.Popen([*CDCV2, "run", str(file), "--follow"], stderr=subprocess.DEVNULL) as run:
        try:
            assert poll_until(lambda: rows(tmp_path) == 2, 60)
            code = main(["pause", str(file), "copy"])
        finally:
            run.terminate()
            run.wait(60)

    assert code == Exit.UNABLE and "copy is a part of the cdcv2 run that is at work" in capsys.readouterr().err
    assert jobs.names() == [] and main(["pause", str(file), "copy"]) == Exit.DONE


def test_a_pause_by_a_person_during_a_repair_stays(tmp_path: Path, jobs: Supervisor) -> None:
    """Who paused a job for a moment lets it go on for itself alone."""
    file = tmp_path / "shop.yaml"
    assert main(["up", str(file), "--once"]) == Exit.DONE
    pipeline = read_pipeline(file)
    with paused(pipeline, "copy", "cdcv2 repair", 60) as ours:
        assert ours and main(["pause", str(file), "copy"]) == Exit.DONE
    assert jobs.job("copy").paused() == "paused by cdcv2 pause"

    with paused(pipeline, "other", "cdcv2 repair", 60):
        assert jobs.job("other").paused() == "paused by cdcv2 repair"
    assert jobs.job("other").paused() is None


def test_a_repair_that_sigterm_ends_lets_the_job_go_on(tmp_path: Path, jobs: Supervisor) -> None:
    """It ends by that signal, as any command, and the view does not stand still."""
    file = tmp_path / "shop.yaml"
    assert main(["up", str(file), "--once"]) == Exit.DONE
    words = [sys.executable, "-c", _PAUSED, str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as repair:
        try:
            assert repair.stdout is not None and repair.stdout.readline() == "paused\n"
            before = jobs.job("copy").paused()
            repair.terminate()
            code = repair.wait(60)
        finally:
            repair.kill()

    assert (before, code) == ("paused by cdcv2 repair", -signal.SIGTERM)
    assert jobs.job("copy").paused() is None


def test_a_repair_of_a_job_that_is_paused_names_what_lets_it_go_on(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that was killed has left it."""
    file = tmp_path / "shop.yaml"
    assert main(["run", str(file)]) == Exit.DONE
    JobFolder(tmp_path / "shop.state" / "jobs" / "copy").pause("cdcv2 repair")
    (part,) = open_lake(tmp_path / "lake").manifest.parts["items"]
    open_lake(tmp_path / "lake").folder.file("items", part).unlink()

    assert main(["repair", str(file), "--view", "copy"]) == Exit.DONE
    text = f"the job copy is paused by cdcv2 repair already, and stays so: cdcv2 resume {file} copy resumes it"
    assert text in capsys.readouterr().err


def test_a_repair_is_not_disturbed_by_the_job_of_its_view(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cdcv2 up`` would start it, and it would take over: it is paused, and goes on at the end."""
    file = tmp_path / "shop.yaml"
    with subprocess.Popen([*CDCV2, "up", str(file)], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == 2 and states(file, capsys)["copy"] == "running", 60)
            (part,) = open_lake(tmp_path / "lake").manifest.parts["items"]
            open_lake(tmp_path / "lake").folder.file("items", part).unlink()
            code = main(["repair", str(file), "--view", "copy"])
            err = capsys.readouterr().err
            write(tmp_path, 1, 2, 3)
            assert poll_until(lambda: rows(tmp_path) == 3, 60)
        finally:
            up.terminate()
            up.wait(60)

    assert code == Exit.DONE and "cdcv2 repair: the job copy is paused until the end" in err
    assert jobs.job("copy").paused() is None and jobs.job("other").observe().run == 1
    assert main(["compare", str(file), "--view", "copy"]) == Exit.DONE


def test_files_are_removed_beside_up_and_the_job_of_the_view_goes_on(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that was fenced off would be held: it is paused, and starts again at the end."""
    file = tmp_path / "shop.yaml"
    with subprocess.Popen([*CDCV2, "up", str(file)], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == 2 and states(file, capsys)["copy"] == "running", 60)
            left = tmp_path / "lake" / "items" / f"{'0' * 32}.parquet"
            left.write_bytes(b"left")
            code = main(["orphans", str(file), "--view", "copy", "--remove"])
            err = capsys.readouterr().err
            write(tmp_path, 1, 2, 3)
            assert poll_until(lambda: rows(tmp_path) == 3, 60)
        finally:
            up.terminate()
            up.wait(60)
    shown = states(file, capsys)

    assert code == Exit.DONE and not left.exists()
    assert "cdcv2 orphans: the job copy is paused until the end" in err
    assert jobs.job("copy").paused() is None and jobs.job("other").observe().run == 1
    assert shown["copy"] == "running" and jobs.job("copy").observe().run == 2
