"""A spark-submit for tests, and the driver that it starts, which the real one starts in the same way.

``submit`` finds the job's ``--events``, and starts ``driver`` with no open file of its own, as Java does. It passes
SIGTERM on, and ends as the driver does. The driver holds its lock, states how far it is, and waits for SIGTERM. It
outlives its parent until the file ``let-go`` beside its events is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

#: Seconds after which a driver ends by itself, if its test did not end it.
LONGEST = 300.0


def submit(words: list[str]) -> int:
    """Start the driver, and end as it does."""
    events = next(word.partition("=")[2] for word in words if word.startswith("--events="))
    Path(events).with_name("words.json").write_text(json.dumps(words), "utf-8")
    driver = subprocess.Popen([sys.executable, __file__, "driver", events])
    signal.signal(signal.SIGTERM, lambda *_: driver.send_signal(signal.SIGTERM))
    return driver.wait()


def drive(path: str) -> None:
    """Hold the lock, and work until SIGTERM, or until the parent has ended and it may end, too."""
    lock = os.open(os.environ["CDCV2_DRIVER_LOCK"], os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    parent, ended = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with open(path, "a", encoding="utf-8") as file:

        def write(**event: object) -> None:
            print(json.dumps({"version": 1, "pid": os.getpid(), **event}), file=file, flush=True)

        write(event="start")
        write(event="progress", frontier=[7])
        until = time.monotonic() + LONGEST
        while os.getppid() == parent or not Path(path).with_name("let-go").exists():
            if ended.wait(0.02) or time.monotonic() > until:
                break
        gone = os.getppid() != parent
        write(event="end", exit=4 if gone else 0, retry="now" if gone else None, frontier=[7])


if __name__ == "__main__":
    if sys.argv[1] == "driver":
        drive(sys.argv[2])
    else:
        sys.exit(submit(sys.argv[1:]))
