"""How a process ends: with its exit code, whatever still runs in it, and wherever Ctrl-C met it.

A client of Kafka answers by threads of its own, which Python does not know. One that answers a request while Python is
taken down ends the process by a segmentation fault. A request that its server never answered is answered when its time
is over, which may be then.

Python notes an interrupt that leaves code made from text, as the ``__init__`` of a dataclass is made, even if it is
caught further out. With this note ``python -m`` ends by SIGINT, and not with the exit code. The next code made from
text takes the note away.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

#: The exit code, once it is known.
_codes: list[int] = []


def end_with(code: int) -> int:
    """The exit code, with which this process ends when all that is registered for its end is done.

    For the entry point of a process alone: ``sys.exit(end_with(main()))``.
    """
    _codes.append(code)
    exec("")
    return code


@atexit.register
def _end() -> None:
    """Registered by the first import, so done after what others have registered."""
    if not _codes or "confluent_kafka" not in sys.modules:
        return
    for stream in (sys.stdout, sys.stderr):
        # A stream that is closed, or has no reader.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(_codes[-1])
