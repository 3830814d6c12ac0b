"""A stop that lasts, kept in the logs themselves: they are stated beyond its cause, so no input can mend them.

A capture that finds that its logs lack a row, at a time that they state, stops. What showed it may be out of sight for
the next run: a row whose position is passed, a memory that is lost, a topic that was trimmed. So the stop is kept in
every log of the set: in a directory as a file ``_stop.DIGEST.json`` beside ``_log.json``, in a topic in a header of an
empty message of updates. Every capture of these logs stops at it, in the same words, and ``cdcv2 verify`` shows it. It
is never taken away: its remedy is to begin with new logs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cdcv2.core.json_text import parse_json
from cdcv2.errors import OutputError, RefusedError, SourceStop, UnavailableError
from cdcv2.protocol.log import Headers, Log
from cdcv2.store.file_system import in_words, matching
from cdcv2.store.put_if_absent import link, sync_folder, write_temporary

#: The header of an empty message that keeps a stop in a topic.
HEADER = "cdcv2-stop"
VERSION = 1
_FILE = "_stop.{}.json"


class Stop(NamedTuple):
    """Why nothing more can be captured into a log, and what to do.

    >>> Stop.from_bytes(Stop("a row is lacking", "start over").to_bytes())
    Stop(reason='a row is lacking', remedy='start over')
    """

    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """For people, wherever it is shown."""
        return f"the capture stopped: {self.reason}. {self.remedy}"

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return json.dumps({"version": VERSION, "reason": self.reason, "remedy": self.remedy}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Stop:
        """The stop that is kept so. Raises ValueError for what is none."""
        plain: Any = parse_json(raw)
        if not isinstance(plain, Mapping) or not all(isinstance(plain.get(name), str) for name in cls._fields):
            raise ValueError("a stop has a reason and a remedy")
        return cls(plain["reason"], plain["remedy"])


@runtime_checkable
class StopLog(Protocol):
    """A log that can keep a stop."""

    def stops(self) -> list[Stop]:
        """The stops that are kept, as far as they are known now, in a fixed order. Raises what reading raises."""

    def put_stop(self, stop: Stop) -> None:
        """Keep it; it is durable when this returns. Putting it again changes nothing. Raises what writing raises."""


def stops_of(logs: Iterable[Log]) -> list[Stop]:
    """The stops that these logs keep, each once, in a fixed order. Raises what reading raises."""
    return sorted({stop for log in logs if isinstance(log, StopLog) for stop in log.stops()})


def stop_of(logs: Iterable[Log]) -> Stop | None:
    """The stop that one of these logs keeps, the same one for the same logs; None: none does."""
    return next(iter(stops_of(logs)), None)


def put_stop(logs: Iterable[Log], stop: SourceStop) -> None:
    """Keep a stop in all these logs, if it lasts."""
    if stop.lasting:
        for log in logs:
            if isinstance(log, StopLog):
                log.put_stop(Stop(stop.reason, stop.remedy))


def in_headers(headers: Headers) -> list[Stop]:
    """The stops in the headers of a message. Raises RefusedError for one that cannot be read."""
    try:
        return [Stop.from_bytes(value) for name, value in headers if name == HEADER]
    except ValueError as error:
        raise RefusedError(f"a message keeps a stop that cannot be read ({error}): upgrade cdcv2") from error


def in_folder(folder: Path) -> list[Stop]:
    """The stops that are kept in the directory of a log. Raises RefusedError, UnavailableError."""
    found = []
    for path in matching(folder, _FILE.format("*")):
        try:
            raw = path.read_bytes()
            found.append(Stop.from_bytes(raw))
        except OSError as error:
            raise UnavailableError(f"{path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise _damaged(path, str(error)) from error
        if path.name != _name(raw):
            raise _damaged(path, "it does not have the digest that its name has")
    return found


def _name(raw: bytes) -> str:
    return _FILE.format(hashlib.sha256(raw).hexdigest()[:32])


def _damaged(path: Path, why: str) -> RefusedError:
    return RefusedError(
        f"{path} is not what a capture writes ({why}), and it states why nothing more was captured: restore it"
    )


def put_in_folder(folder: Path, stop: Stop) -> None:
    """Keep a stop in the directory of a log, durably. Raises OutputError."""
    raw = stop.to_bytes()
    path = folder / _name(raw)
    try:
        temporary = write_temporary(folder, raw)
        # If it is there, its content is the same.
        link(temporary, path)
        temporary.unlink()
        sync_folder(folder)
    except OSError as error:
        raise OutputError(
            f"{path}, which keeps why the capture stopped, cannot be written: {in_words(error)}"
        ) from error
