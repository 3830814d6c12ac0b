"""A child process ends when it is asked to, and when its owner ends, in whatever way that happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import Child, Server, free_port, poll_until

LINUX = sys.platform.startswith("linux")

# A server of a kind: it starts a child of its own, prints both pids, and waits. "deaf" ignores the polite signals.
PROGRAM = """
import os, signal, sys
if "deaf" in sys.argv:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
child = os.fork()
if child:
    print(f"pids {os.getpid()} {child}", flush=True)  # in one piece, also without a buffer
while True:
    signal.pause()  # until somebody ends it
"""

# An owner of such a server, in a Python of its own.
OWNER = """
import os, select, signal, sys, threading
from pathlib import Path
from cdcv2.servers.processes import Child
log = Path(sys.argv[1])
started = []
def start():
    started.append(Child("server", [sys.executable, "-c", {program!r}, *sys.argv[2:]], log=log, grace=0.5))
# From a thread that then ends: the server must not end with it.
thread = threading.Thread(target=start)
thread.start()
thread.join()
started[0].wait_until(lambda: "pids" in log.read_text(), "its pids", 20)
fork = os.fork()
if fork == 0:
    signal.alarm(60)  # it goes on for a while, with what it inherited, and ends by itself
    signal.pause()
print("ready", started[0]._supervisor.pid, fork, flush=True)
# Asked again and again, as all of our waits do: a signal that comes just before a blocking read does not end it.
while not select.select([sys.stdin], [], [], 0.1)[0]:
    pass
"""


def alive(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def pids(log: Path) -> list[int]:
    """The pids that the program printed: its own, and its child's."""
    line = next(line for line in log.read_text().splitlines() if line.startswith("pids"))
    return [int(word) for word in line.split()[1:]]


def program(log: Path, *arguments: str, grace: float = 10.0) -> Child:
    """The program, started, with its pids in the log."""
    child = Child("server", [sys.executable, "-c", PROGRAM, *arguments], log=log, grace=grace)
    child.wait_until(lambda: "pids" in child.log_since_start(), "its pids", 20)
    return child


@contextmanager
def owner(log: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A Python that owns the program, and the pid of the supervisor between them."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(program=PROGRAM), str(log), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        word, supervisor, fork = process.stdout.readline().split() if process.stdout else ("", "", "")
        assert "ready" == word
        try:
            yield process, int(supervisor)
        finally:
            process.kill()
            os.kill(int(fork), signal.SIGKILL)


def test_a_stopped_child_is_gone_with_its_own_children(tmp_path: Path) -> None:
    """Servers have children: backends, executors, Python workers."""
    child = program(tmp_path / "log")
    everyone = pids(child.log)

    child.stop()

    assert -signal.SIGTERM == child.returncode
    assert [False, False] == [alive(pid) for pid in everyone]


def test_a_child_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    """A server that hangs in its shutdown must not hang a test run."""
    child = program(tmp_path / "log", "deaf", grace=0.3)

    child.stop()

    assert -signal.SIGKILL == child.returncode


def test_kill9_of_one_process_alone_leaves_nobody_behind_for_long(tmp_path: Path) -> None:
    """A driver's JVM dies alone in a test of recovery; its Python may notice, but not stay for ever."""
    child = program(tmp_path / "log", grace=0.3)
    everyone = pids(child.log)

    child.kill9(alone=True)

    assert -signal.SIGKILL == child.returncode
    assert [False, False] == [alive(pid) for pid in everyone]


@pytest.mark.skipif(not LINUX, reason="looks into /proc")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT", "return"])
@pytest.mark.parametrize("kind", ["polite", "deaf"])
def test_no_child_outlives_its_owner(tmp_path: Path, how: str, kind: str) -> None:
    """However the owner ends, and although a fork of it lives on, the server and its children end, too."""
    with owner(tmp_path / "log", kind) as (process, supervisor):
        everyone = [*pids(tmp_path / "log"), supervisor]
        assert [True] * 3 == [alive(pid) for pid in everyone]

        if how == "return" and process.stdin is not None:
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])

        assert poll_until(lambda: not any(map(alive, everyone)), 60), [pid for pid in everyone if alive(pid)]


@pytest.mark.skipif(not LINUX, reason="needs PR_SET_PDEATHSIG")
def test_a_killed_supervisor_takes_the_server_along(tmp_path: Path) -> None:
    """No process is left to end it later, so the kernel does."""
    with owner(tmp_path / "log") as (_, supervisor):
        server, child_of_server = pids(tmp_path / "log")

        os.kill(supervisor, signal.SIGKILL)

        assert poll_until(lambda: not alive(server), 60)
        os.kill(child_of_server, signal.SIGKILL)  # the kernel ends the server only


def test_a_program_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    """The most frequent mistake of all."""
    with pytest.raises(UnavailableError, match="server cannot be started.*no-such-program"):
        Child("server", ["/no-such-program"], log=tmp_path / "log")


def test_a_child_that_ends_before_it_answers_shows_its_last_words(tmp_path: Path) -> None:
    """They hold the reason; without them one would have to find the log first. Those of an earlier run are not."""
    (tmp_path / "log").write_text("words of another run\n")
    child = Child("server", [sys.executable, "-c", "print('no such disk'); exit(3)"], log=tmp_path / "log")

    with pytest.raises(UnavailableError, match="server ended with code 3 before answering.*\nno such disk$") as caught:
        child.wait_until(lambda: False, "answering", 20)

    assert "another run" not in str(caught.value)


def test_what_does_not_answer_in_time_is_not_left_behind(tmp_path: Path) -> None:
    """A failed start must leave nothing to clean up."""

    class Mute(Server):
        patience = 0.2

        def _launch(self) -> Child:
            return program(self.log)

        def _answers(self) -> bool:
            return False

    server = Mute("mute")
    with pytest.raises(UnavailableError, match="mute|server let 0.2 s pass before answering"):
        server.__enter__()

    assert not server.running
    assert not server.folder.exists()


def test_a_server_that_was_not_started_says_so(tmp_path: Path) -> None:
    """Instead of an AttributeError about None."""
    with pytest.raises(UnavailableError, match="kafka is not started: call start"):
        KafkaBroker(tmp_path).kill9()


def test_free_ports_are_not_those_of_outgoing_connections() -> None:
    """A client that retries a port of its own range may connect to itself, and keep the server from coming back."""
    lowest = 32768
    if LINUX:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert all(free_port() < lowest for _ in range(50))


def test_polling_ends_at_the_deadline() -> None:
    """False, and not for ever."""
    begun = time.monotonic()

    assert not poll_until(lambda: False, 0.05)
    assert time.monotonic() >= begun + 0.05
