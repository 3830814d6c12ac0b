"""Child processes that cannot outlive us: started, watched, stopped, killed with SIGKILL, and started again.

Each one has a small supervisor (:mod:`cdcv2.servers.supervisor`) that holds the reading end of a pipe from us. When
we end, by return, exception, Ctrl-C or SIGKILL, the kernel closes our end, and the supervisor ends the child with its
whole process group. So nothing here depends on a handler that may not run.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from cdcv2.errors import UnavailableError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_living: weakref.WeakSet[Child] = weakref.WeakSet()


class User(NamedTuple):
    """The user whom a child runs as, when not as ours."""

    uid: int
    gid: int


class Child:
    """A running child process in a process group of its own, whose output goes to a log file.

    Args:
        name: what to call it in messages.
        argv: the program and its arguments. Anyone on the machine can read them: secrets go into ``env``.
        log: the file that its output is appended to.
        env: its whole environment; ours when None.
        user: whom to run it as; ourselves when None.
        stop_signal: what asks it to stop.
        death_signal: what it gets should even the supervisor be killed (Linux).
        grace: seconds that a stop may take before SIGKILL.

    Raises UnavailableError when it cannot be started at all.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: User | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
        grace: float = 20.0,
    ) -> None:
        self.name, self.log = name, log
        self.returncode: int | None = None
        self._stop_signal, self._grace, self._owner = stop_signal, grace, os.getpid()
        self._log_start = log.stat().st_size if log.exists() else 0
        plan = {
            "argv": [str(word) for word in argv],
            "log": str(log.resolve()),
            "user": user and user.uid,
            "group": user and user.gid,
            "stop_signal": int(stop_signal),
            "death_signal": int(death_signal),
            "grace": grace,
        }
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", _SUPERVISOR, json.dumps(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=None if env is None else dict(env),
            cwd=cwd,
        )
        answer = self._receive()
        if "pid" not in answer:
            self._supervisor.wait()
            raise UnavailableError(f"{name} cannot be started: {answer.get('failed', 'its supervisor was killed')}")
        self.pid = int(str(answer["pid"]))
        threading.Thread(target=self._watch, name=f"watch {name}", daemon=True).start()
        _living.add(self)

    def _receive(self) -> dict[str, object]:
        line = self._supervisor.stdout.readline() if self._supervisor.stdout else b""
        answer: dict[str, object] = json.loads(line or b"{}")
        return answer

    def _watch(self) -> None:
        code = self._receive().get("code")
        self._supervisor.wait()
        # Without a word from the supervisor, it was killed, and the kernel killed the child after it.
        self.returncode = int(str(code)) if code is not None else -signal.SIGKILL
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def running(self) -> bool:
        """Whether the child, or anything that it left in its process group, is still there."""
        return self.returncode is None

    def wait(self, timeout: float) -> int:
        """Wait until it has ended, and return its exit code (minus the signal that killed it).

        Raises UnavailableError after ``timeout`` seconds.
        """
        if not poll_until(lambda: not self.running, timeout, pause=0.01):
            raise UnavailableError(f"{self.name} (pid {self.pid}) has not ended within {timeout:g} s")
        return self.returncode or 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group; nothing if it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self) -> None:
        """Ask it to stop, wait, and after the grace end it with SIGKILL. May be called again, and by any thread."""
        if os.getpid() != self._owner:  # a fork of ours: not its child
            return
        self.signal(self._stop_signal)
        if not poll_until(lambda: not self.running, self._grace, pause=0.01):
            self.kill9()

    def kill9(self, *, alone: bool = False) -> None:
        """SIGKILL for the whole process group, or for the one process ``alone``; return when all have ended.

        Those whom one process alone leaves behind have the grace to notice.
        """
        if alone and self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        else:
            self.signal(signal.SIGKILL)
        self.wait(self._grace + 10)

    def log_since_start(self) -> str:
        """What this process has written to its log so far."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode("utf-8", "replace")

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log_since_start().splitlines()[-lines:])

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        """Poll until ``condition`` holds; ``what`` it is goes after "before" in messages.

        Raises UnavailableError, with the end of the log, when the child ends first or ``timeout`` seconds pass.
        """

        if poll_until(lambda: not self.running or condition(), timeout) and self.running:
            return
        fate = f"let {timeout:g} s pass before" if self.running else f"ended with code {self.returncode} before"
        raise UnavailableError(f"{self.name} {fate} {what}; the end of {self.log}:\n{self.log_tail()}")


def poll_until(condition: Callable[[], bool], timeout: float, *, pause: float = 0.05) -> bool:
    """Whether ``condition`` comes to hold within ``timeout`` seconds; asked every ``pause`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free, and that stays free while its server is down.

    It lies below the ports that the system gives to outgoing connections: a client that keeps asking for a server
    that is down could else be given that very port for its own end, and keep the server from coming back. Raises
    UnavailableError when none is found.
    """
    for _ in range(200):
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise UnavailableError("no free port between 20000 and 32000 on 127.0.0.1: too many servers are running")


class Server(ABC):
    """A server as a context manager: entered, it answers; left, it has stopped, and its own folder is removed.

    Args:
        name: what to call it in messages and files.
        folder: where data and log are kept; None: a private temporary folder, removed in the end.
        place: where to make that temporary folder, when not where the system does.

    A subclass defines how to :meth:`_launch` the process and what :meth:`_answers` means.
    """

    #: seconds within which it must answer after a start
    patience = 240.0

    def __init__(self, name: str, folder: Path | None = None, *, place: str | None = None) -> None:
        self.name = name
        self._keep = folder is not None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix=f"cdcv2-{name}-", dir=place))
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / f"{name}.log"
        self._child: Child | None = None

    @abstractmethod
    def _launch(self) -> Child:
        """Start the process on what the folder holds."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server does its work now; asked again and again after a start."""

    @property
    def child(self) -> Child:
        """The process; UnavailableError when the server was not started."""
        if self._child is None:
            raise UnavailableError(f"{self.name} is not started: call start(), or enter it as a context manager")
        return self._child

    @property
    def pid(self) -> int:
        """The process id of the server itself."""
        return self.child.pid

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._child is not None and self._child.running

    def start(self) -> Self:
        """Start it, and return when it answers; nothing when it runs. Raises UnavailableError with the log's end."""
        if not self.running:
            self._child = self._launch()
            try:
                self._child.wait_until(self._answers, "answering", self.patience)
            except BaseException:  # Ctrl-C too: what does not answer is not left behind
                self._child.kill9()
                raise
        return self

    def stop(self) -> None:
        """Stop it cleanly; the data stay."""
        if self._child is not None:
            self._child.stop()

    def kill9(self) -> None:
        """Kill it with SIGKILL; the data stay as they are."""
        self.child.kill9()

    def restart(self) -> Self:
        """Stop it if it runs, and start it on the same ports and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it, and remove its folder unless its user named one."""
        self.stop()
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@atexit.register
def _stop_all() -> None:
    children = [child for child in _living if child.running]
    for child in children:
        child.signal(child._stop_signal)
    for child in children:
        child.stop()


def _forget_in_fork() -> None:
    """A fork must not hold the leash: the supervisors would wait for it to end, too."""
    for child in list(_living):
        if child._supervisor.stdin is not None:
            child._supervisor.stdin.close()
    _living.clear()


os.register_at_fork(after_in_child=_forget_in_fork)
