"""A connector: a program that receives and answers JSON objects, one a line, on its standard streams.

It is started without a shell, in a group of its own: a Ctrl-C at the terminal does not reach it, and all processes that
it has started end with it. What it writes to standard error are log lines of ours; an error shows the last of them.
Every wait has an end: when it has answered, when it has ended, when the patience is over, when the runtime no longer
waits (:meth:`Connector.interrupt`). In every case it is reaped.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO, Any, NoReturn

from cdcv2.core.json_text import parse_json
from cdcv2.errors import Cdcv2Error, FencedError, TurnError, UnavailableError, UsageError
from cdcv2.store.file_system import in_words

#: The last message of known connectors when another instance has raised the fence: the protocol has no word for it.
FENCED = "fenced off by another"

_LOG = logging.getLogger(__name__)
_LEVELS = {
    "trace": logging.DEBUG, "debug": logging.DEBUG, "info": logging.INFO,
    "error": logging.ERROR, "fatal": logging.ERROR, "panic": logging.ERROR,
}  # fmt: skip
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# How many bytes are collected before they are written, how many one line may have, how many lines may wait to be taken.
_BUFFER, _LONGEST, _MOST = 1 << 16, 1 << 28, 100_000


class _News(Enum):
    """What the thread that reads can report beside lines."""

    ENDED = "closed its output"
    CUT = "closed its output in the midst of a line"
    LONG = "wrote a line that has no end"
    INTERRUPTED = "was let go"


class Connector:
    """One run of a program.

    Args:
        command: the program and its arguments; a program with a ``/`` is looked for from the folder.
        folder: where it is run; by default here.
        patience: how many seconds it may take to answer, or to take in what it is sent.
        grace: how many seconds it may take to end when its input has ended.

    Raises UsageError when there is no such program. Later on: UnavailableError when it does not answer or has ended,
    FencedError when it ended because another instance has taken over, TurnError when it wrote what is no JSON.
    """

    def __init__(
        self, command: Sequence[str], *, folder: str | Path = ".", patience: float = 600.0, grace: float = 5.0
    ) -> None:
        if not command or not command[0]:
            raise UsageError("the command is empty: name a program, and its arguments")
        if not patience > 0 or not grace >= 0:
            raise UsageError(f"patience={patience}, grace={grace}: they take seconds, patience more than 0")
        self._folder = Path(folder).absolute()
        self._command = [_program(command[0], self._folder), *command[1:]]
        self._patience, self._grace = patience, grace
        #: as errors call it
        self.name = f"the connector {Path(command[0]).name!r}"
        self._process: subprocess.Popen[bytes] | None = None
        self._news: queue.SimpleQueue[bytes | _News] = queue.SimpleQueue()
        self._waiting = bytearray()
        self._words: deque[str] = deque(maxlen=5)
        self._threads: list[threading.Thread] = []
        self._interrupted = False

    def start(self) -> None:
        """Start it. Raises UsageError when the system refuses to."""
        environment = {"LOG_FORMAT": "json", "LOG_LEVEL": "info", **os.environ, "FLOW_RUNTIME_CODEC": "json"}
        try:
            process = subprocess.Popen(
                self._command, cwd=self._folder, env=environment, start_new_session=True, bufsize=0,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except (OSError, ValueError) as cause:
            raise UsageError(f"{self.name} cannot be started: {in_words(cause)}; mend the command") from cause
        self._process = process
        # If it is not closed, it ends with this interpreter.
        weakref.finalize(self, _end, process)
        os.set_blocking(_open(process.stdin).fileno(), False)
        for target in (self._read, self._log):
            thread = threading.Thread(target=target, args=(process,), name=self.name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send it something, soon: :meth:`flush` waits for that."""
        self._waiting += _ENCODE(message).encode("utf-8", "surrogatepass")
        self._waiting += b"\n"
        if len(self._waiting) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Return when it has taken in what it was sent, or the system holds it for it."""
        left, self._waiting = memoryview(bytes(self._waiting)), bytearray()
        try:
            stdin, poll = _open(self._running().stdin).fileno(), select.poll()
            poll.register(stdin, select.POLLOUT)
            until = time.monotonic() + self._patience
            while left:
                if poll.poll(200):
                    with suppress(BlockingIOError):
                        left = left[os.write(stdin, left):]
                    until = time.monotonic() + self._patience
                elif self._interrupted:
                    self._ended(_News.INTERRUPTED)
                elif time.monotonic() > until:
                    self._fail(f"has taken in nothing for {self._patience:g} seconds (patience)")
        except OSError:
            # It reads no more.
            self._ended(_News.ENDED)

    def receive(self, *patience: float | None) -> dict[str, Any]:
        """Its next answer, when it has come; ``patience``: for this one, None for any time."""
        self.flush()
        self._running()
        seconds = patience[0] if patience else self._patience
        while True:
            try:
                return self._parsed(self._news.get(timeout=self._patience if seconds is None else seconds))
            except queue.Empty:
                if seconds is not None:
                    self._fail(f"has answered nothing for {seconds:g} seconds (patience)")
                _LOG.info("%s has answered nothing for %g seconds, and is waited for", self.name, self._patience)

    def received(self) -> dict[str, Any] | None:
        """Its next answer, or None while there is none."""
        return None if self._news.empty() else self._parsed(self._news.get())

    def interrupt(self) -> None:
        """From another thread: all waits are to end."""
        self._interrupted = True
        self._news.put(_News.INTERRUPTED)

    def close(self, *, kill: bool = False) -> None:
        """End its input, let it end by itself for a while, then end it, and all that it has started."""
        process = self._process
        if process is None or not self._threads:
            return
        threads, self._threads = self._threads, []
        with suppress(OSError):
            _open(process.stdin).close()
        if not kill and not _ended(process, self._grace):
            _LOG.warning("%s has not ended %g seconds after its input, and is ended", self.name, self._grace)
            _signal(process, signal.SIGTERM)
            _ended(process, 1.0)
        _end(process)
        for thread in threads:
            # A process that has left the group may still hold a stream; that one is not waited for.
            thread.join(1.0)
        for stream, thread in zip((process.stdout, process.stderr), threads):
            if not thread.is_alive():
                _open(stream).close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self._threads:
            raise UnavailableError(f"{self.name} is not running: open it again")
        return self._process

    def _parsed(self, news: bytes | _News) -> dict[str, Any]:
        if isinstance(news, _News):
            self._ended(news)
        try:
            found = parse_json(news, parse_constant=_no_constant)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        self.close(kill=True)
        text = news[:80].decode("utf-8", "backslashreplace")
        raise TurnError("driver", f"({self.name}) wrote to its output what is no JSON object: {text!r}")

    def _ended(self, news: _News) -> NoReturn:
        """Raise an error for a connector that has ended, or must: with the last lines that it wrote itself."""
        if news is _News.LONG:
            self.close(kill=True)
            raise TurnError("driver", f"({self.name}) {news.value}: {_LONGEST} bytes, and it does not end there")
        if news is not _News.INTERRUPTED:
            _ended(self._running(), 1.0)
        self._fail(news.value, kill=news is not _News.INTERRUPTED)

    def _fail(self, what: str, *, kill: bool = True) -> NoReturn:
        """End it, and raise what became of it."""
        code = self._running().poll()
        self.close(kill=kill)
        if code is not None:
            what = f"was ended by the signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise self._described(what)

    def _described(self, what: str) -> Cdcv2Error:
        words = " / ".join(self._words)
        note = f"; it printed: {words}" if words else ""
        if FENCED in words.lower():
            return FencedError(f"{self.name} {what}{note}. Another instance has taken over: let it, or stop it first")
        return UnavailableError(
            f"{self.name} {what} while it was needed{note}. See to it, and start again: nothing that was not committed "
            "counts"
        )

    # --- the threads

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Its output, line by line."""
        number, rest, pause = _open(process.stdout).fileno(), bytearray(), threading.Event()
        while chunk := _chunk(number):
            # The taker of the answers finds out when there are too many; until then the connector has to wait.
            while self._news.qsize() > _MOST and self._threads:
                pause.wait(0.05)
            *lines, last = chunk.split(b"\n")
            for line in lines:
                self._news.put(bytes(rest) + line)
                rest.clear()
            rest += last
            if len(rest) > _LONGEST:
                return self._news.put(_News.LONG)
        self._news.put(_News.CUT if rest else _News.ENDED)

    def _log(self, process: subprocess.Popen[bytes]) -> None:
        """What it writes to standard error, as our log lines."""
        number, rest = _open(process.stderr).fileno(), b""
        while chunk := _chunk(number):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _BUFFER:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._keep(line.decode("utf-8", "replace").rstrip())
        self._keep(rest.decode("utf-8", "replace").rstrip())

    def _keep(self, line: str) -> None:
        if not line:
            return
        level, text = logging.WARNING, line
        with suppress(ValueError):
            plain = parse_json(line)
            if isinstance(plain, dict) and isinstance(plain.get("msg"), str):
                level = _LEVELS.get(str(plain.get("level")).lower(), logging.WARNING)
                fields = plain.get("fields")
                text = plain["msg"] + (f" {json.dumps(fields, ensure_ascii=False)}" if fields else "")
        if level >= logging.WARNING:
            self._words.append(text[:500])
        _LOG.log(level, "%s: %s", self.name, text)


def _program(word: str, folder: Path) -> str:
    """Where the program is. Raises UsageError when it is not there, or is none."""
    found = shutil.which(str(folder / word) if "/" in word else word)
    if found is None:
        where = f"in {folder}" if "/" in word else "in the PATH"
        raise UsageError(f"there is no program {word!r} {where}, or it may not be run: mend the command")
    return found


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise UnavailableError("a connector was started without its streams")
    return stream


def _chunk(number: int) -> bytes:
    """What is there to read, when there is something; nothing at the end."""
    try:
        return os.read(number, _BUFFER)
    except OSError:
        return b""


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends by itself within so many seconds."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To it and to all that it has started: a group keeps its number, also without its leader."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the group, and reap."""
    _signal(process, signal.SIGKILL)
    process.wait()
