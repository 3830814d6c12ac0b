"""A job for tests: ``job_script.py EVENTS NUMBER``, which writes events as cdcv2's commands do, and waits.

With ``CDCV2_TEST_END`` in the environment it ends at once: the variable has the fields of its last event.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading


def main(path: str, number: int) -> None:
    """Write that it began and how far it is; at SIGTERM, that it ended."""
    with open(path, "a", encoding="utf-8") as file:

        def write(**event: object) -> None:
            print(json.dumps({"version": 1, **event}), file=file, flush=True)

        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        write(event="start", pid=os.getpid())
        end = os.environ.get("CDCV2_TEST_END")
        if end is not None:
            write(event="end", **json.loads(end))
            return
        write(event="progress", frontier=[number], pid=os.getpid())
        ended.wait()
        write(event="end", exit=0, retry=None, frontier=[number])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
