"""The process between us and a server: it holds the server's leash, and lets go of nothing.

Run as a script by :mod:`cdcv2.servers.processes`, with a pipe from the owner as standard input. It starts the
server, reports its pid, and waits for one of two things: the server ends, and it reports how; or the pipe closes,
which means that the owner has ended, however that happened, and it ends the server and everything in its process
group. Should it be killed itself, Linux kills the server (PR_SET_PDEATHSIG: a signal on the death of the *thread*
that forked, which is why our own process, where threads come and go, cannot set it without this one). What the
server leaves behind when it ends, children of its own, becomes ours (PR_SET_CHILD_SUBREAPER): it gets a moment to
notice, and is then ended, too.

It uses the standard library only, runs in isolated mode, and never reads what the owner writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _control(option: int, value: int) -> Callable[[], None]:
    """A ready call of Linux's prctl: between fork and exec there is no time to look for libraries."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(option, value, 0, 0, 0)


def _tie_to(parent: int, death_signal: int) -> Callable[[], None]:
    """What the forked child does before it becomes the server: it asks to be signalled when we die."""
    ask = _control(_PR_SET_PDEATHSIG, death_signal)

    def tie() -> None:
        ask()
        if os.getppid() != parent:  # died before it was asked for
            os._exit(1)

    return tie


def _signal_group(pid: int, number: int) -> None:
    """Signal all who are left in the group; none may be (macOS calls a group of zombies forbidden)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _orphans_left(child: subprocess.Popen[bytes]) -> bool:
    """Whether anyone is left of the server and of what became ours when it ended."""
    if child.poll() is None:
        return True
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
    return False


def _kill_all(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the group, and for orphans that left the group (the kernel lists our children)."""
    _signal_group(child.pid, signal.SIGKILL)
    listing = f"/proc/self/task/{os.getpid()}/children"
    with contextlib.suppress(FileNotFoundError), open(listing, encoding="ascii") as file:
        for pid in map(int, file.read().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    """Wait until all have ended; after ``grace`` seconds, and then again and again, make them."""
    deadline = time.monotonic() + grace
    while _orphans_left(child):
        if time.monotonic() > deadline:
            _kill_all(child)
        time.sleep(0.02)


def _report(**what: object) -> None:
    """Report to the owner. If it no longer listens, the broken pipe shows that."""
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(what), flush=True)


def _start(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    who = {} if plan["user"] is None else {"user": plan["user"], "group": plan["group"], "extra_groups": []}
    with open(plan["log"], "ab", buffering=0) as log:
        return subprocess.Popen(
            plan["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_tie_to(os.getpid(), plan["death_signal"]),
            **who,
        )


def run(plan: dict[str, Any]) -> None:
    """Start and watch the server of ``plan`` (see ``processes.Child``)."""
    # The terminal's Ctrl-C and a polite kill are for the owner to answer; we answer to its pipe. Caught, not
    # ignored: what is ignored here would be ignored by the server, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    awake, waker = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    _control(_PR_SET_CHILD_SUBREAPER, 1)()
    try:
        child = _start(plan)
    except (OSError, subprocess.SubprocessError) as error:
        _report(failed=str(error))
        return
    _report(pid=child.pid)
    while child.poll() is None:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            os.read(awake, 1024)
        if 0 in ready and not os.read(0, 1024):
            _signal_group(child.pid, plan["stop_signal"])
            break
    _end(child, plan["grace"])
    _report(code=child.returncode)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
