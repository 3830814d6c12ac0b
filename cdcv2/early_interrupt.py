"""Ctrl-C while the command still imports its modules: one line and exit code 130, as later on, and no traceback."""

from __future__ import annotations

import os
import sys
from types import TracebackType

#: As cdcv2.exits.Exit has it. That module imports others, before which this one has to answer.
_INTERRUPTED = 130


def answer() -> None:
    """If this process is the command, end it so at an interrupt that nothing else answers."""
    if not _is_command():
        return
    before = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            before(kind, error, trace)
            return
        print("cdcv2: interrupted", file=sys.stderr, flush=True)
        os._exit(_INTERRUPTED)

    sys.excepthook = end


def _is_command() -> bool:
    """Whether it was started as ``cdcv2`` or ``python -m cdcv2``, and did not import the package for itself."""
    module = sys.orig_argv[1:3] == ["-m", "cdcv2"]
    return os.path.basename(sys.argv[0] if sys.argv else "") == "cdcv2" or module


# When it is imported: so it is there before the next import.
answer()
