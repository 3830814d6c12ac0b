"""Archives of loaded classes: what one JVM has read, checked and laid out, the next ones only map into memory.

Half of what a short-lived Spark or Kafka costs is loading its many thousands of classes. Java can write those that a
process has loaded to a file when it ends, and later processes with the same Java and the same jars start from there
(*application class-data sharing*, JDK 13 and later). :mod:`cdcv2.servers.rehearse` makes the archives.

An archive is a convenience: without one, or with one that does not fit, everything runs, and only starts more slowly.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from cdcv2.errors import UsageError
from cdcv2.servers import jars
from cdcv2.servers.java import find_java
from cdcv2.spark_files import spark_home

#: The programs that have an archive.
PROGRAMS = ("spark", "kafka")


def flags(program: str) -> tuple[str, ...]:
    """The options by which a JVM of this program starts from its archive; none when it is not there.

    Raises UsageError for an unknown program, and UnavailableError when it is not installed.
    """
    made = archive(program)
    # A file that does not fit is passed over; a line about that would only disturb those who asked for something else.
    return (f"-XX:SharedArchiveFile={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if made.exists() else ()


def archive(program: str) -> Path:
    """Where this program's archive is, or would be; its name depends on Java and jars. Raises as :func:`flags`."""
    if program not in PROGRAMS:
        raise UsageError(f"there is no archive of {program!r}; there are {', '.join(PROGRAMS)}")
    java = find_java()
    fit = [f"{java.resolve()} {java.resolve().stat().st_mtime_ns}"]
    for jar in sorted(_jars(program).glob("*.jar")):
        fit.append(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}")
    name = f"{program}-{hashlib.sha256(chr(10).join(fit).encode()).hexdigest()[:12]}.jsa"
    return Path(sys.prefix).resolve() / "var" / "cdcv2" / name


def _jars(program: str) -> Path:
    return spark_home() / "jars" if program == "spark" else jars.fetch(program)
