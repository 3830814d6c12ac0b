"""Threads that ask a server, and may still do so when the command ends: it does not wait for a server that is away.

Such a thread is within the native client of a server. Python, as it ends, takes that client apart, and the process
would end by a segmentation fault instead of by its exit code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class SideThread(threading.Thread):
    """A thread that a command may end without."""

    def __init__(self, target: Callable[..., object], name: str, args: tuple[Any, ...] = ()) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)


def end_without_them(code: int) -> None:
    """End this process with that exit code if a side thread is still at work; else return.

    All that the process writes has to be written: nothing else is taken down.
    """
    if any(isinstance(one, SideThread) for one in threading.enumerate()):
        os._exit(code)
