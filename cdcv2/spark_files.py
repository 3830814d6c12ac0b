"""Where the installed Spark is, and the files of ours that it starts: found without either being imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from cdcv2.errors import MissingExtraError, UsageError
from cdcv2.suggestions import meant

#: The variable of the environment with the path of the lock that the driver of a supervised job holds.
DRIVER_LOCK = "CDCV2_DRIVER_LOCK"
#: The jobs on Spark, by name, and what each does.
SPARK_JOBS = {
    "capture": "turns topics into logs",
    "replay": "writes the finished history of logs as Parquet files",
    "materialize": "keeps tables of PostgreSQL, a lake or Delta up to date with logs",
}


def job_file(name: str) -> Path:
    """The file of a job, for ``spark-submit``; in a checkout and in an installation. Raises UsageError."""
    if name not in SPARK_JOBS:
        raise UsageError(f"there is no job {name!r}; there are {', '.join(SPARK_JOBS)}{meant(name, SPARK_JOBS)}")
    return Path(__file__).resolve().parent / "spark" / "jobs" / f"{name}.py"


def spark_home() -> Path:
    """The folder of the installed pyspark. Raises MissingExtraError where there is none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingExtraError("Spark is not installed", "spark")
    return Path(found.origin).resolve().parent


def spark_submit_program() -> Path:
    """The ``spark-submit`` of the installed pyspark. Raises MissingExtraError where there is none."""
    return spark_home() / "bin" / "spark-submit"
