"""Waiting for a condition, with a deadline; no test sleeps for a while and hopes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], bool], what: str, *, seconds: float = 300) -> None:
    """Return as soon as the condition holds; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds: {what}"
        pause.wait(0.01)


def next_of(followed: Iterator[T | None], *, seconds: float = 300) -> T:
    """The next entry of a source that is followed, however often it has nothing before."""
    deadline = time.monotonic() + seconds
    for entry in followed:
        if entry is not None:
            return entry
        assert time.monotonic() < deadline, f"nothing came within {seconds} seconds"
    raise AssertionError("a followed source ended")
