"""How a signal stops a command that may run for ever, and it ends well."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


#: The wish of the command that runs this one as a part, in this thread.
_WISH: ContextVar[Callable[[], bool] | None] = ContextVar("wish", default=None)


@contextmanager
def stopped_by(wish: Callable[[], bool]) -> Iterator[None]:
    """Within the block, commands that are run in this thread stop when ``wish`` is true, whatever signals come."""
    token = _WISH.set(wish)
    try:
        yield
    finally:
        _WISH.reset(token)


class _EndRequest(BaseException):
    """SIGTERM was received."""


@contextmanager
def put_right_first() -> Iterator[None]:
    """Within the block SIGTERM ends the process as ever, but behind what the block does on its way out."""
    ending: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        if not ending:
            ending.append(number)
            raise _EndRequest

    try:
        before = signal.signal(signal.SIGTERM, receive)
    except ValueError:
        # Not the main thread: the caller handles signals.
        yield
        return
    try:
        yield
    except _EndRequest:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        if ending:
            os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Within the block, SIGTERM and the first Ctrl-C are wishes that can be asked for; a second Ctrl-C interrupts.

    So the command can write what is complete, and report how far it is, before the block ends. Raises
    KeyboardInterrupt at the end of it, if the last wish was Ctrl-C. Within :func:`stopped_by` its wish counts instead.
    """
    wish = _WISH.get()
    if wish is not None:
        yield wish
        return
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and received:
            raise KeyboardInterrupt
        received.append(number)

    try:
        before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        # Not the main thread: the caller handles signals.
        yield lambda: False
        return
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received[-1:] == [signal.SIGINT]:
        raise KeyboardInterrupt
