"""Processes that tests start: whatever happens, they do not outlive the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: The command, as a process of its own.
CDCV2 = (sys.executable, "-m", "cdcv2")


@contextmanager
def started(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """The process while the block runs; a test that fails must not wait for it, nor leave it."""
    with subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    ) as process:
        try:
            yield process
        finally:
            process.kill()
