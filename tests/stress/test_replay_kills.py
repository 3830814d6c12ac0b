"""Replay is killed with SIGKILL again and again, at random moments, and its output is right each time."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.protocol import mangle
from tests.spark.replaying import PLAIN, messages, put, truth, updates
from tests.spark.submitting import before, left, reached, rolling, submit
from tests.stress.summary import record

pytestmark = pytest.mark.spark

KILLS = 24
SEED = 20261121
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


def test_replay_survives_many_kills(tmp_path: Path) -> None:
    """Now the driver's Java process alone, now the whole process group, anywhere within a batch or at the start."""
    choice = random.Random(SEED)
    times = 16 * KILLS
    said = rolling(times, seed=SEED)
    everything = truth({"things": said})["things"]
    copies = [
        put(tmp_path / "things", mangle(said, seed=1, window=6), row_type=PLAIN, per_file=6),
        put(tmp_path / "things~copy", mangle(said, seed=2, window=6), row_type=PLAIN, per_file=6),
    ]
    options = ("--max-files", "1", "--interval", "0.01")
    counts = {"kills": 0, "of the driver's JVM alone": 0, "of the process group": 0, "strictly in mid-run": 0}
    marks = set()

    while counts["kills"] < KILLS:
        child = submit(tmp_path, copies, *options)
        at_start = reached(tmp_path)
        further = choice.randrange(1, 4)
        child.wait_until(lambda: reached(tmp_path) >= min(at_start + further, times), "it went on", PATIENCE)
        # A random moment within the next batches; nothing is expected to have happened before it.
        threading.Event().wait(choice.uniform(0.0, 1.5))
        alone = counts["kills"] % 2 == 0
        child.kill9(alone=alone)
        upper = reached(tmp_path)
        assert before(everything, Antichain([upper])) == left(tmp_path), f"after kill {counts['kills']} at {upper}"
        counts["kills"] += 1
        counts["of the driver's JVM alone" if alone else "of the process group"] += 1
        counts["strictly in mid-run"] += 0 < upper < times
        marks.add(upper)
        if upper == times:
            break

    assert 0 == submit(tmp_path, copies, "--no-follow").wait(PATIENCE)
    assert everything == left(tmp_path) and times == reached(tmp_path)
    assert counts["strictly in mid-run"] >= 20
    counts["different uppers at which it was killed"] = len(marks)
    record("replay is killed", [SEED], {**counts, "updates": len(everything)})


def test_a_bad_log_ends_a_job_on_other_processes_with_its_position(tmp_path: Path) -> None:
    """Code 3, and one line that names the log, though what was found out was found by an executor."""
    said = messages(updates(31), 12, seed=31)
    contradicting = [*said, *messages(updates(32), 12, seed=32)]
    bad_place = put(tmp_path / "things", contradicting, per_file=9)
    bad = submit(tmp_path, [bad_place], "--no-follow", master="local-cluster[1,1,1024]")
    assert 3 == bad.wait(PATIENCE), bad.log_tail()
    said_of_it = [line for line in bad.log_since_start().splitlines() if line.startswith("replay: ")]
    assert "the log states" in said_of_it[-1] or "the log gives" in said_of_it[-1]
    assert str(bad_place.name) in said_of_it[-1]
