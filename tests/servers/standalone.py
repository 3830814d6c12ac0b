"""A Spark cluster of one's own: a standalone master and workers, from the installed pyspark package.

The package has no start scripts, but its classes are all there: ``spark-class`` runs them. Each worker starts
executors in JVMs and Python processes of their own, so what runs here has been shipped, as on a real cluster.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from cdcv2.servers.archive import flags
from cdcv2.servers.java import SHORT_LIVED
from cdcv2.servers.processes import Child, Server, free_port
from cdcv2.servers.spark_home import spark_environment
from cdcv2.spark_files import spark_home


class _Daemon(Server):
    """A master or a worker: a class of Spark's with a web page that has a JSON form."""

    def __init__(self, name: str, folder: Path | None, spark_class: str, arguments: Sequence[str]) -> None:
        super().__init__(name, folder)
        self._page = free_port()
        where = ["--host", "127.0.0.1", "--webui-port", str(self._page)]
        self._command = [f"org.apache.spark.deploy.{spark_class}", *where, *arguments]

    def _launch(self) -> Child:
        quick = " ".join((*SHORT_LIVED, *flags("spark")))
        environment = {**spark_environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick}
        program = spark_home() / "bin" / "spark-class"
        return Child(self.name, [program, *self._command], log=self.log, env=environment, cwd=self.folder)

    def status(self) -> dict[str, Any]:
        """The content of its page; empty when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError):  # not there yet, or its page is not
            return {}

    def _answers(self) -> bool:
        return bool(self.status())


class Standalone(_Daemon):
    """The cluster. Entered, all its workers are ready: ``spark-submit --master`` :attr:`master` runs on it.

    Its own process is the master; :attr:`workers` are servers, too, to be killed and restarted one by one.

    Args:
        workers: how many; each offers ``cores`` and ``memory`` to executors.
        folder: logs and the executors' work; None: a temporary folder, removed in the end.
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, memory: str = "1g", folder: Path | None = None) -> None:
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        super().__init__("spark-master", folder, "master.Master", ["--port", str(port)])
        self.workers: list[Server] = []
        for number in range(workers):
            name = f"spark-worker-{number}"
            offer = ["--cores", str(cores), "--memory", memory, "-d", str(self.folder / name), self.master]
            self.workers.append(_Daemon(name, self.folder, "worker.Worker", offer))

    @property
    def alive(self) -> int:
        """How many workers the master counts as alive."""
        return int(self.status().get("aliveworkers", 0))

    def start(self) -> Self:
        """Start the master, then all workers at once, and return when the master knows them all."""
        super().start()
        with ThreadPoolExecutor(max(1, len(self.workers))) as together:
            list(together.map(Server.start, self.workers))
        self.child.wait_until(lambda: self.alive >= len(self.workers), "its workers' registration", self.patience)
        return self

    def stop(self) -> None:
        """Stop the workers, and with them the executors, then the master."""
        for worker in self.workers:
            worker.stop()
        super().stop()
