"""The replay job on a cluster of its own: a master and two workers, and executors that are other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.standalone import Standalone
from tests.spark.replaying import ROWS, messages, put, truth, updates
from tests.spark.submitting import left, submit

pytestmark = pytest.mark.spark
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


@pytest.mark.xdist_group("jobs")
@pytest.mark.integration
def test_the_job_runs_on_a_standalone_cluster(tmp_path: Path) -> None:
    """A master and two workers, started from the pip install: executors are other processes, and code is shipped."""
    said = messages(updates(33), 12, seed=33)
    place = put(tmp_path / "things", said, per_file=6)
    with Standalone(2, cores=1, memory="1g", folder=tmp_path / "cluster") as cluster:
        child = submit(tmp_path, [place], "--no-follow", "--max-files", "4", master=cluster.master)
        assert 0 == child.wait(PATIENCE), child.log_tail()

    assert truth({"things": said})["things"] == left(tmp_path, row_type=ROWS)
