"""``spark-submit`` as a child process: the jobs, started as a user starts them.

The package goes to driver and executors as a zip (``--py-files``); the jars are those of the committed lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cdcv2.servers import jars
from cdcv2.servers.archive import flags
from cdcv2.servers.java import SHORT_LIVED
from cdcv2.servers.package_zip import package_zip
from cdcv2.servers.processes import Child
from cdcv2.servers.spark_home import spark_environment
from cdcv2.spark_files import job_file, spark_submit_program


def spark_submit(
    job: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    master: str = "local[2]",
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    sets: Sequence[str] = ("spark",),
) -> Child:
    """Start a job; what it prints goes to ``folder/JOB.log``.

    It gets the jars of ``sets``; ``settings`` are Spark's (``--conf``), ``environment`` adds to ours. The pid is
    that of the driver's JVM, whose child is the Python driver; both are in its process group. Raises UnavailableError
    without pyspark or Java.
    """
    program = spark_submit_program()
    folder.mkdir(parents=True, exist_ok=True)
    quick = " ".join((*SHORT_LIVED, *flags("spark")))
    conf = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.driver.extraJavaOptions": f"-Xss8m {quick}",
        "spark.executor.extraJavaOptions": quick,
        "spark.sql.session.timeZone": "UTC",
        **(settings or {}),
    }
    command: list[str | Path] = [
        program,
        "--master", master,
        "--driver-memory", memory,
        "--jars", ",".join(jars.comma_list(name) for name in sets),
        "--py-files", package_zip(folder),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        job_file(job),
        *arguments,
    ]  # fmt: skip
    ours = {**spark_environment(), **(environment or {})}
    return Child(job, command, log=folder / f"{job}.log", env=ours, cwd=folder)
