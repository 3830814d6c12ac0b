"""Archives of loaded classes: what one JVM has read, checked and laid out, the next ones only map into memory.

Half of what a short-lived Spark or Kafka costs is loading its many thousands of classes. Java can write those that a
process has loaded to a file when it ends, and later processes with the same Java and the same jars start from there
(*application class-data sharing*, JDK 13 and later). For each program there is one *rehearsal* that loads what its
kind needs; it runs once, when :func:`make` is asked for.

An archive is a convenience: without one, or with one that does not fit, everything runs, and only starts more slowly.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cdcv2.embedded import jars
from cdcv2.embedded.java import SHORT_LIVED, find_java
from cdcv2.errors import Cdcv2Error, UnavailableError, UsageError

#: The programs that have an archive.
PROGRAMS = ("spark", "kafka")


def flags(program: str) -> tuple[str, ...]:
    """The options by which a JVM of this program starts from its archive; none when it is not there.

    Raises UsageError for an unknown program, and UnavailableError when it is not installed.
    """
    made = _path(program)
    # A file that does not fit is passed over; that it was is nothing to tell those who asked for something else.
    return (f"-XX:SharedArchiveFile={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if made.exists() else ()


def make(program: str) -> Path:
    """Make the archive of this program, unless it is there, and return its path; half a minute for Spark.

    Two processes that ask at once make it once. Raises as :func:`flags` does, and UnavailableError when the rehearsal
    fails or the archive cannot be written.
    """
    target = _path(program)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = (target.parent / f".{program}.lock").open("w")
    except OSError as cause:
        raise UnavailableError(f"{str(target.parent)!r} cannot be written ({cause.strerror})") from cause
    with lock, tempfile.TemporaryDirectory(prefix=f".{program}.", dir=target.parent) as work:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed by close, and by the end of the process
        if target.exists():
            return target
        fresh = Path(work, target.name)
        told = _REHEARSALS[program](Path(work), (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:cds=off"))
        if not fresh.exists():
            raise UnavailableError(f"the rehearsal of {program} left no archive; it said:\n{told[-1000:]}")
        for old in target.parent.glob(f"{program}-*.jsa"):  # of other jars, or of another Java
            old.unlink()
        fresh.rename(target)
    return target


def _path(program: str) -> Path:
    """Where the archive is, with the installed packages: its name tells of which Java and of which jars it is."""
    if program not in PROGRAMS:
        raise UsageError(f"there is no archive of {program!r}; there are {', '.join(PROGRAMS)}")
    java = find_java()
    fit = [f"{java.resolve()} {java.resolve().stat().st_mtime_ns}"]
    for jar in sorted(_jars(program).glob("*.jar")):
        fit.append(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}")
    name = f"{program}-{hashlib.sha256(chr(10).join(fit).encode()).hexdigest()[:12]}.jsa"
    return Path(sys.prefix).resolve() / "var" / "cdcv2" / name


def _jars(program: str) -> Path:
    from cdcv2.embedded.standalone import spark_home

    return spark_home() / "jars" if program == "spark" else jars.fetch(program)


def _rehearse_spark(work: Path, options: Sequence[str]) -> str:
    """A small query of every kind that the jobs make."""
    from cdcv2.embedded.standalone import spark_environment, spark_home

    return _run([
        spark_home() / "bin" / "spark-submit", "--master", "local[2]",
        "--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.extraJavaOptions=-Xss8m {' '.join(options)}",
        Path(__file__).parents[1] / "spark" / "rehearsal.py", work / "data",
    ], env=spark_environment())  # fmt: skip


def _run(command: Sequence[str | Path], env: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


def _rehearse_kafka(work: Path, options: Sequence[str]) -> str:
    """A broker that starts, is given a topic with a message, and stops."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from cdcv2.embedded.kafka import KafkaBroker

    with KafkaBroker(work / "broker", options=options) as broker:
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("rehearsal", 1, 1)])["rehearsal"].result(60)
        producer = Producer({**client, "enable.idempotence": True})
        producer.produce("rehearsal", b"one")
        producer.flush(60)
    return broker.log.read_text("utf-8", "replace")


_REHEARSALS: dict[str, Callable[[Path, Sequence[str]], str]] = {"spark": _rehearse_spark, "kafka": _rehearse_kafka}


def main() -> int:
    """Make all archives, with a line for each that is new; 0, also when one cannot be had: it only saves time."""
    for program in PROGRAMS:
        try:
            if not flags(program):
                print(f"rehearsing {program}, so that it starts faster from now on (once)", flush=True)
                print(f"made {make(program)}", flush=True)
        except Cdcv2Error as error:
            print(f"{program} goes without an archive of its classes: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
