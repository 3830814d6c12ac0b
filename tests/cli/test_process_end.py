"""A process ends with its exit code: if a client of Kafka still waits for an answer, and after Ctrl-C anywhere."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

#: A request without an answer, whose time is over when Python is taken down, and before the process has ended: the C
#: library waits for a letter of standard input then.
ASKED = """
import atexit, ctypes, sys, threading, time
from confluent_kafka.admin import AdminClient, NewTopic
from cdcv2.cli.main import main
from cdcv2.process_end import end_with

def ask():
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    asked = admin.create_topics([NewTopic("orders", 1, 1)], request_timeout=0.3)
    begun.set()
    asked["orders"].result()

native = ctypes.CDLL(None)
getattr(native, "__cxa_atexit")(ctypes.cast(native.getchar, ctypes.c_void_p), None, None)
atexit.register(print, "all is written")
begun = threading.Event()
threading.Thread(target=ask, daemon=True).start()
begun.wait()
sys.exit(end_with(main(sys.argv[1:])))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "__cxa_atexit"), reason="needs the C library of Linux")
@pytest.mark.parametrize("arguments, code", [(["--version"], 0), (["verify", "--no-such-option"], 2)])
def test_a_request_without_an_answer_takes_no_exit_code_away(arguments: list[str], code: int) -> None:
    """All that is registered for the end of the process is done."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKED, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        # Its standard input stays open: only the end of the process ends this.
        ended = process.wait(60)
    finally:
        process.kill()
    out, err = process.communicate()

    assert (ended, out.splitlines()[-1:]) == (code, ["all is written"])
    assert "cdcv2" in out + err


def test_an_interrupt_within_code_made_from_text_takes_no_exit_code_away(tmp_path: Path) -> None:
    """As in a dataclass that is being made: Python remembers it, and would end the process by SIGINT."""
    (tmp_path / "interrupted.py").write_text("""
import sys
from cdcv2.process_end import end_with

def main():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130

sys.exit(end_with(main()))
""")
    around = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}

    assert 130 == subprocess.run([sys.executable, "-m", "interrupted"], env=around, check=False).returncode
