"""What a demonstration needs of the machine, and what the programs of Spark want of their environment."""

from __future__ import annotations

import importlib.util
import os
import sys

from cdcv2.errors import MissingExtraError
from cdcv2.servers.java import find_java
from cdcv2.spark_files import spark_home

#: What talks to the servers of a demonstration, or is one of them.
_SERVERS = ("psycopg", "confluent_kafka", "pyspark")


def check_demo(*more: str) -> None:
    """Raise MissingExtraError or UnavailableError unless a demonstration has the libraries and the Java that it needs.

    ``more`` are libraries that it needs beside those of all. Called before it starts a server.
    """
    lacking = [name for name in (*_SERVERS, *more) if importlib.util.find_spec(name) is None]
    if lacking:
        need = f"this demonstration needs {', '.join(lacking)}, and cdcv2 demo --small needs none of it"
        raise MissingExtraError(need, "demo")
    find_java()


def spark_environment() -> dict[str, str]:
    """The environment in which ``spark-submit`` and its like work on 127.0.0.1, with our Java and our Python."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(find_java().resolve().parent.parent),
        # Otherwise executors fetch jars from the machine's own address, which may not be reachable.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
