"""Placed crashes: a job names the steps of its work, and a test chooses the step at which it dies.

Recovery is only as good as the moments at which it was tried. Code calls :func:`reach` at each moment that
matters ("the rows are written, the manifest is not"). That costs a dictionary look-up, unless a crash has been
placed there: by :func:`placed` inside a test, or by the environment of a real process::

    CDCV2_CRASH=reader.before-manifest:3 CDCV2_CRASH_HOW=kill  spark-submit ...

which kills that process with SIGKILL at the third time that it reaches the step.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: name of each declared step -> what has been done, and what not, when it is reached
KNOWN: dict[str, str] = {}

_placed: dict[str, int] = {}


class PlacedCrash(BaseException):
    """The crash that a test placed. Not an ``Exception``: no handler of the code under test may swallow it."""


def declare(name: str, meaning: str) -> str:
    """Make ``name`` a step, and return it. Declaring it twice with two meanings is a mistake (ValueError)."""
    if KNOWN.setdefault(name, meaning) != meaning:
        raise ValueError(f"step {name!r} is declared twice: {KNOWN[name]!r} and {meaning!r}")
    return name


def reach(name: str) -> None:
    """Raise PlacedCrash, or be killed, if a crash is placed at the step that has been reached; else return."""
    if not _placed or name not in _placed:
        return
    _placed[name] -= 1
    if _placed[name] > 0:
        return
    del _placed[name]
    if os.environ.get("CDCV2_CRASH_HOW") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise PlacedCrash(name)


@contextmanager
def placed(name: str, nth: int = 1) -> Iterator[None]:
    """Within the block, the ``nth`` time that the step is reached raises :class:`PlacedCrash`.

    Raises KeyError for a step that is not declared: a crash that can never happen proves nothing.
    """
    if name not in KNOWN:
        raise KeyError(f"no step {name!r}; declared are {sorted(KNOWN)}")
    _placed[name] = nth
    try:
        yield
    finally:
        _placed.pop(name, None)


def _from_environment() -> None:
    wanted = os.environ.get("CDCV2_CRASH", "")
    for part in filter(None, wanted.split(",")):
        name, _, nth = part.partition(":")
        _placed[name] = int(nth or 1)


_from_environment()
