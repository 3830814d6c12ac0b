"""One connection of a client to an instance: its request, and the lines that answer it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from cdcv2.core.json_text import parse_json
from cdcv2.errors import RefusedError, UnavailableError, UsageError
from cdcv2.instances.run.place import place_fault

#: Seconds in which a process that works takes a request, and states how far it is.
PATIENCE = 5.0
#: Seconds between two tries to reach an instance.
PAUSE = 0.05
#: The most seconds that a client waits: more than a system takes as a time-out are of no use.
_MOST_SECONDS = 1_000_000


class InstanceConversation:
    """A connection on which a request was sent. Raises OSError, also later, where the instance is not there (any more).
    """

    def __init__(self, place: Path, line: bytes) -> None:
        self._received = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(PATIENCE)
            self._socket.connect(str(place))
            with suppress(BrokenPipeError):
                # It may have closed its side with a line that states why.
                self._socket.sendall(line)
        except TimeoutError:
            self._socket.close()
            raise ConnectionError("it takes no request") from None
        except OSError:
            self._socket.close()
            raise

    def answer(self, deadline: float | None) -> Any:
        """The next line, as JSON. Raises TimeoutError if none comes until then, by the monotonic clock (None: waits).

        Raises UsageError for a request that is wrong, RefusedError for one that cannot be answered there.
        """
        answer = self._line(deadline)
        if "fault" in answer:
            raise UsageError(answer["fault"])
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        if "busy" in answer:
            raise ConnectionError(answer["busy"])
        return answer

    def _line(self, deadline: float | None) -> Any:
        begin = 0
        while (end := self._received.find(b"\n", begin)) < 0:
            begin = len(self._received)
            self._socket.settimeout(None if deadline is None else max(1e-6, deadline - time.monotonic()))
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("it ended while it was asked")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[:end + 1]
        try:
            return parse_json(line)
        except ValueError:
            raise ConnectionError("it answers something else than an instance does") from None

    def close(self) -> None:
        """End it: what was asked is not needed any more."""
        self._socket.close()

    def __enter__(self) -> InstanceConversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def demand_seconds(name: str, seconds: float) -> float:
    """The seconds. Raises UsageError, with ``name`` before them, unless one can wait for them.

    >>> demand_seconds("timeout=", float("inf"))
    Traceback (most recent call last):
    cdcv2.errors.UsageError: timeout=inf: it takes a number of seconds from 0 to 1000000
    """
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= _MOST_SECONDS:
        raise UsageError(f"{name}{seconds!r}: it takes a number of seconds from 0 to {_MOST_SECONDS}")
    return seconds


def demand_place(place: Path) -> None:
    """Raise UsageError if nothing can ever answer there, however long it is waited for."""
    fault = place_fault(place)
    if fault is not None:
        raise UsageError(f"no instance can answer there: {fault}")


def no_answer(place: Path, error: OSError, timeout: float) -> UnavailableError:
    """What is raised where nothing answers for so many seconds."""
    return UnavailableError(
        f"no instance answers at {place} ({error.strerror or error}) for {timeout:g} seconds: start cdcv2 instance, or "
        "cdcv2 replicas, with this --instance, or wait longer: it answers when it has read its logs"
    )
