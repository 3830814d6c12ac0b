"""How a signal stops a command that may go on for ever, and it ends well."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Within the block, SIGTERM and the first Ctrl-C are wishes that can be asked for; a second Ctrl-C interrupts.

    So the command can write what is complete, and report how far it is, before the block ends. Raises
    KeyboardInterrupt at the end of it, if the last wish was Ctrl-C.
    """
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
