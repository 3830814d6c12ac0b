"""The folder of a supervised job: by it, any supervisor finds the job again, and no second copy of it can start.

::

    capture.shop/
      lock            the job holds a lock on it for as long as it lives, whatever started it
      driver.lock     a job on Spark: Java gives its children no open file, so the Python driver has a lock of its own
      run.json        which run it is, of which command, and where its events begin
      events.jsonl    what it writes with --events
      output.log      what it prints
      pause.json      who paused it; it is there as long as the job is to stay ended

A job does not end with its supervisor. The next supervisor asks the lock, and not a process number, whether the job is
alive: the system frees the lock however the job ends, and numbers of processes are given again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cdcv2.control.kept_value import keep, kept
from cdcv2.control.owner import is_held
from cdcv2.control import supervision
from cdcv2.control.supervision import JobEnd, JobObservation
from cdcv2.errors import MalformedError, MissingLogError, OutputError
from cdcv2.event_stream import read_events
from cdcv2.failpoints import declare, reach
from cdcv2.retries import Retry
from cdcv2.spark_files import DRIVER_LOCK

# What /proc has of an open file whose lock is held for one alone; others that ask for it hold it shared.
_EXCLUSIVE = re.compile(r"^lock:.* FLOCK .* WRITE ", re.MULTILINE)
#: Before a run, events and output that are longer than so many bytes are put aside; the ones before them are removed.
LONG = 16 << 20
#: So many bytes at the end of the events are looked at: far more than one line.
TAIL = 1 << 18
#: What the file of a run has at least, and of which type.
_RUN_FIELDS = {"run": int, "command": str, "events_from": int}
_RUN_KEPT = declare("job.run-kept", "a run of a job is written down, and not started")
_STARTED = declare("job.started", "a job is started, and its supervisor has not seen it yet")


class JobFolder:
    """A supervised job by its folder, which its first start makes."""

    def __init__(self, path: Path) -> None:
        #: The folder.
        self.path = path

    @property
    def events(self) -> Path:
        """The file that the job is given for its events."""
        return self.path / "events.jsonl"

    @property
    def output(self) -> Path:
        """The file that has what the job prints."""
        return self.path / "output.log"

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @property
    def _driver_lock(self) -> Path:
        return self.path / "driver.lock"

    @property
    def _run(self) -> Path:
        return self.path / "run.json"

    @property
    def _pause(self) -> Path:
        return self.path / "pause.json"

    def pause(self, by: str) -> None:
        """Have it end, and not start, until :meth:`resume`: its supervisor sees to that. ``by``: who wants that.

        Raises OutputError.
        """
        self.make()
        keep(self._pause, {"by": by})

    def resume(self, by: str | None = None) -> bool:
        """Let it start again; whether it was paused. Raises OutputError, MalformedError.

        ``by``: only where it was paused by this one, and by no other since.
        """
        if by is not None and (kept(self._pause) or {}).get("by") != by:
            return False
        try:
            self._pause.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise OutputError(
                f"{self._pause} cannot be removed: {error.strerror or error}; grant the rights"
            ) from error
        return True

    def paused(self) -> str | None:
        """Who paused it; None: it is not paused. Raises MalformedError."""
        found = kept(self._pause)
        return None if found is None else f"paused by {found.get('by')}"

    def make(self) -> None:
        """Make the folder, if it is not there. Raises OutputError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be made: {error.strerror or error}; give another state folder"
            ) from error

    def start(
        self, argv: Sequence[str], run: int, command: str, environment: Mapping[str, str] | None = None,
        parts: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Start it, as its run number ``run`` of the command with this digest. Not if a copy is alive: then False.

        ``parts``: digests of the parts of the file of which the command is made, kept for a later comparison.

        The command line can be read by everybody on the machine: secrets are in the environment, or in files. Raises
        OutputError where the program or the folder cannot be used.
        """
        self.make()
        with self._alone(self._lock) as lock:
            if lock is None or self._is_held(self._driver_lock):
                return False
            try:
                for file in (self.events, self.output):
                    _put_aside(file)
                begins = self.events.stat().st_size if self.events.exists() else 0
                keep(self._run, {"run": run, "command": command, "events_from": begins, "parts": dict(parts)})
                reach(_RUN_KEPT)
                with open(self.output, "ab", buffering=0) as output:
                    subprocess.Popen(
                        list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(lock,),
                        start_new_session=True,
                        env={**(os.environ if environment is None else environment),
                             DRIVER_LOCK: str(self._driver_lock.absolute())},
                    )  # fmt: skip
            except OSError as error:
                raise OutputError(
                    f"the job in {self.path} cannot be started: {error.filename or argv[0]}: {error.strerror or error}"
                ) from error
        reach(_STARTED)
        return True

    def alive(self) -> bool:
        """Whether the job, or a process that it left behind, holds its lock."""
        return self._is_held(self._lock) or self._is_held(self._driver_lock)

    def observe(self) -> JobObservation:
        """What is seen of the job now. Raises MalformedError where its files are damaged."""
        # Whether it is alive comes first: a job that ends in between has written its last event before it is asked for.
        alive, last_run, paused = self.alive(), kept(self._run), self.paused()
        if last_run is None:
            return JobObservation(alive, paused=paused)
        for field, kind in _RUN_FIELDS.items():
            if type(last_run.get(field)) is not kind:
                raise MalformedError(f"{self._run} has no {field} as it was written: restore it, or remove it")
        parts = last_run.get("parts") or {}
        if not isinstance(parts, dict) or not all(isinstance(one, str) for one in parts.values()):
            raise MalformedError(f"{self._run} has no parts as they were written: restore it, or remove it")
        if last_run["run"] < 0 or last_run["events_from"] < 0:
            raise MalformedError(f"{self._run} has a number below 0: restore it, or remove it")
        last, own = self._last_events(), self._last_events(last_run["events_from"])
        end = next((event for event in reversed(own) if event.get("event") == "end"), None)
        frontier = next((event["frontier"] for event in reversed(last) if event.get("frontier") is not None), None)
        progress = None if frontier is None else json.dumps(frontier)
        reported = None if alive or end is None else _end(end)
        caught_up = any(event.get("caught_up") is True for event in own)
        return JobObservation(alive, last_run["run"], last_run["command"], reported, progress, parts, paused, caught_up)

    def last_progress(self) -> dict[str, Any] | None:
        """The newest event that states how far the job is; None: there is none. Raises as :meth:`observe`."""
        return next((event for event in reversed(self._last_events()) if event["event"] != "start"), None)

    def frontiers(self) -> list[list[Any]]:
        """Those that its last events state, oldest first, of whatever run. Raises as :meth:`observe`."""
        return [event["frontier"] for event in self._last_events() if event.get("frontier") is not None]

    def last_exit(self) -> int | None:
        """The exit code of the last run that reported its end; None: none has. Raises as :meth:`observe`."""
        codes = [event.get("exit") for event in self._last_events() if event.get("event") == "end"]
        return codes[-1] if codes and isinstance(codes[-1], int) else None

    def _last_events(self, begins: int = 0) -> list[dict[str, Any]]:
        """The last ones that stand from a byte on; none where there is no file yet."""
        try:
            return read_events(self.events, begins=begins, most=TAIL)
        except MissingLogError:
            return []

    def moved_at(self) -> float | None:
        """When it came further last, in seconds since 1970, as far back as its newest events go; None: not known.

        Raises as :meth:`observe`.
        """
        return supervision.moved_at(self._last_events())

    def printed_at(self) -> float | None:
        """When it has printed something last, in seconds since 1970; None: it has printed nothing."""
        with suppress(OSError):
            return self.output.stat().st_mtime if self.output.stat().st_size else None
        return None

    def stop(self) -> None:
        """Ask it to end (SIGTERM): its first process, or what is left of it."""
        holders = self._holders()
        first = [pid for pid in holders if _session(pid) == pid]
        for pid in first or holders:
            self._signal(pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it with all that it started (SIGKILL)."""
        for pid in self._holders():
            self._signal(pid, signal.SIGKILL, group=_session(pid) == pid)

    def _signal(self, pid: int, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to a process that holds a lock, and to no other that has its number by now.

        Raises OutputError where the system does not let this user do so.
        """
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                # It is the same process from here on: what is asked of its number is of it, or it has ended.
                if self._holds(pid):
                    if group:
                        os.killpg(pid, number)
                    signal.pidfd_send_signal(process, number)
            except PermissionError:
                raise OutputError(
                    f"{self.path.name}: this user may not end the process {pid}, which belongs to it: end it as the "
                    "user that it runs as"
                ) from None
            finally:
                os.close(process)

    def _holders(self) -> list[int]:
        """The processes that hold a lock, and so belong to the job; one that only has its file open does not."""
        numbers = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return sorted(pid for pid in numbers if pid != os.getpid() and self._holds(pid))

    def _holds(self, pid: int) -> bool:
        """Whether a process has a lock: opened by itself, or taken over from the process that started it."""
        locks = {os.path.realpath(lock) for lock in (self._lock, self._driver_lock)}
        with suppress(OSError):  # of other users, or it has ended
            folder = Path(f"/proc/{pid}")
            for number in os.listdir(folder / "fd"):
                if _target(f"{folder}/fd/{number}") in locks:
                    # The system names the locks of an open file; all that share it hold them.
                    if _EXCLUSIVE.search((folder / "fdinfo" / number).read_text("utf-8")):
                        return True
        return False

    def _is_held(self, path: Path) -> bool:
        try:
            return is_held(path)
        except OSError as error:
            raise OutputError(f"{path} cannot be opened: {error.strerror or error}") from error

    @contextmanager
    def _alone(self, path: Path) -> Iterator[int | None]:
        """A lock, opened and held; None: another process holds it."""
        try:
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OutputError(f"{path} cannot be opened: {error.strerror or error}") from error
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            yield None
            return
        try:
            yield opened
        finally:
            # What was started has the same open file, and with it the lock; if nothing was, the lock is free.
            os.close(opened)


def _end(event: Mapping[str, Any]) -> JobEnd:
    """Raise MalformedError for an end that no job has written."""
    for name, kinds in (("exit", {int}), ("reason", {str, type(None)}), ("remedy", {str, type(None)})):
        if type(event.get(name)) not in kinds:
            raise MalformedError(f"the event 'end' has {name}: {event.get(name)!r}, which no job writes")
    try:
        retry = Retry(event.get("retry") or Retry.NOW)
    except ValueError:
        # Of a newer version: what it does not know, a person decides.
        retry = Retry.NEVER
    return JobEnd(event["exit"], retry, event.get("reason"), event.get("remedy"), event.get("frontier") == [])


def before_of(path: Path) -> Path:
    """Where a file of a job is put aside, which has what came before it.

    >>> before_of(Path("output.log")).name
    'output.before.log'
    """
    return path.with_suffix(f".before{path.suffix}")


def _put_aside(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.stat().st_size > LONG:
            os.replace(path, before_of(path))


def _session(pid: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None


def _target(link: str) -> str | None:
    with suppress(OSError):
        return os.readlink(link)
    return None
