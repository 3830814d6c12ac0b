"""The pipeline of the demonstration, ``examples/bank``, as ``cdcv2 up`` keeps it, and the kills of what it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import is_owned, owner
from cdcv2.servers.processes import Child, poll_until

#: The file of the pipeline, which ``examples/bank`` is.
FILE = Path(__file__).with_name("example") / "bank.yaml"
#: The names of its jobs: of the capture, which is one on Spark, and of the view.
CAPTURE, COPY = "bank", "copy"
#: Seconds that a job has to end, between two micro-batches.
_GRACE = 90.0
#: What a service manager does: it starts a program again that was killed, and ends with one that has ended.
_SERVICE = 'trap : TERM; until "$@"; do code=$?; [ $code -gt 128 ] || exit $code; done'


class KeptPipeline:
    """``cdcv2 up`` of it as a service, in this environment; what it writes is below ``folder``. ``stop`` ends all."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, {**environment, "BANK_FOLDER": str(folder)}
        self.jobs = {name: JobFolder(folder / "state" / "jobs" / name) for name in (CAPTURE, COPY)}
        command = ["sh", "-c", _SERVICE, "up", sys.executable, "-m", "cdcv2", "up", str(FILE), "--stop-jobs"]
        self.child = Child("up", command, log=folder / "up.log", env=self._environment, cwd=folder, grace=_GRACE)

    def kill_up(self) -> None:
        """SIGKILL for ``cdcv2 up``, which leaves its jobs at work; return when another one has found them.

        Raises UnavailableError.
        """
        state = self._folder / "state"
        before = owner(state)
        if before is not None:
            os.kill(before.pid, signal.SIGKILL)
        self.child.wait_until(lambda: owner(state) != before and is_owned(state), "cdcv2 up is started again", 60)

    def runs(self) -> dict[str, int]:
        """Job -> how often it was started."""
        return {name: job.observe().run for name, job in self.jobs.items() if job.path.exists()}

    def is_restarted(self, name: str, before: Mapping[str, int]) -> bool:
        """Whether the job lives in a later run than ``before``: a run is written down before its process is there."""
        return self.runs()[name] > before[name] and self.jobs[name].alive()

    def has_copied(self) -> bool:
        """Whether the view has stated how far it is."""
        job = self.jobs[COPY]
        return job.path.exists() and job.last_progress() is not None

    def compare(self) -> subprocess.CompletedProcess[str]:
        """``cdcv2 compare`` of source, logs and copy, as a process."""
        command = [sys.executable, "-m", "cdcv2", "compare", str(FILE), "--source", "env", "--wait", "120", "--marker"]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def stop(self) -> None:
        """End ``cdcv2 up``, and with it the jobs; what then still lives is killed."""
        self.child.stop()
        for job in self.jobs.values():
            if job.path.exists() and job.alive():
                job.kill()
                poll_until(lambda job=job: not job.alive(), _GRACE)  # type: ignore[misc]
