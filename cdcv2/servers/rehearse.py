"""Rehearsals: each program runs once, small, to leave an archive of the classes that its kind loads.

``python -m cdcv2.servers.rehearse`` makes the archives of :mod:`cdcv2.servers.archive` that are not there yet.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cdcv2.errors import Cdcv2Error, UnavailableError
from cdcv2.servers.archive import PROGRAMS, archive, flags
from cdcv2.servers.java import SHORT_LIVED
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.spark_home import spark_environment
from cdcv2.spark_files import spark_submit_program


def make(program: str) -> Path:
    """Make the archive of this program, unless it is there, and return its path; half a minute for Spark.

    Two processes that ask at once make it once. Raises as :func:`~cdcv2.servers.archive.flags` does, and
    UnavailableError when the rehearsal fails or the archive cannot be written.
    """
    target = archive(program)
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
        text = _REHEARSALS[program](Path(work), (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:cds=off"))
        if not fresh.exists():
            raise UnavailableError(f"the rehearsal of {program} left no archive; it printed:\n{text[-1000:]}")
        for old in target.parent.glob(f"{program}-*.jsa"):  # of other jars, or of another Java
            old.unlink()
        fresh.rename(target)
    return target


def _rehearse_spark(work: Path, options: Sequence[str]) -> str:
    """A small query of every kind that the jobs make."""
    return _run([
        spark_submit_program(), "--master", "local[2]",
        "--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.extraJavaOptions=-Xss8m {' '.join(options)}",
        Path(__file__).parents[1] / "spark" / "rehearsal.py", work / "data",
    ], env=spark_environment())  # fmt: skip


def _run(command: Sequence[str | Path], env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired as cause:
        raise UnavailableError(f"a rehearsal did not end within 10 minutes: {command[0]}") from cause
    return done.stdout.decode("utf-8", "replace")


def _rehearse_kafka(work: Path, options: Sequence[str]) -> str:
    """A broker that starts, is given a topic with a message, and stops."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

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
    """Make all archives at once, with a line for each new one; 0, also when one cannot be had: it only saves time."""
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        list(pool.map(_make, PROGRAMS))
    return 0


def _make(program: str) -> None:
    try:
        if not flags(program):
            print(f"rehearsing {program}, so that it starts faster from now on (once)", flush=True)
            print(f"made {make(program)}", flush=True)
    except Cdcv2Error as error:
        print(f"{program} goes without an archive of its classes: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
