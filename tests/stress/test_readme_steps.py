"""The steps of README, as they stand there, on real servers: from a checkout to ten tables that are proven right.

A PostgreSQL with ten tables, a Kafka, a distributed Connect without connectors and a second, empty database are there.
Clients change the tables all the time. Each step is typed into one shell, in a new environment, with the addresses and
passwords of the servers in the place of those of README.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cdcv2.servers import jars
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from tests.readme_steps import MOST, ROOT, readme_steps
from tests.stress.summary import record

pytestmark = pytest.mark.integration

TABLES = 10
ROWS = 1000
SEED = 20261126
#: Prints how many seconds a step took, behind it.
TIMED = 'echo "step {number} $(($(date +%s%N) - begin))" >> steps.txt; begin=$(date +%s%N)\n'


def prepared(server: Postgres) -> None:
    """What README has at hand: the roles, the database of the copy, and ten tables, one of them without a key."""
    with server.connect(autocommit=True) as session:
        session.execute("CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'of-cdc'")
        session.execute("GRANT CREATE ON DATABASE shop TO cdc")
        session.execute("GRANT CREATE ON SCHEMA public TO cdc")
        session.execute("CREATE ROLE copy LOGIN PASSWORD 'of-copy'")
        session.execute("CREATE DATABASE copy OWNER copy")
    with server.connect(autocommit=True, user="cdc", password="of-cdc") as session:
        for number in range(TABLES):
            key = " PRIMARY KEY" if number else ""
            session.execute(f"CREATE TABLE t{number} (id int{key}, name text, amount numeric(12, 2), at timestamptz)")
            session.execute(f"INSERT INTO t{number} SELECT n, 'row ' || n, n, now() FROM generate_series(1, {ROWS}) n")
        session.execute("ALTER TABLE t0 REPLICA IDENTITY FULL")


@contextmanager
def changing(server: Postgres) -> Iterator[list[int]]:
    """Transactions over two tables each, until the block is left; gives how many there were."""
    ended, count, draw = threading.Event(), [0], random.Random(SEED)

    def work() -> None:
        with server.connect() as session:
            while not ended.wait(0.02):
                one, other = (f"t{draw.randrange(TABLES)}" for _ in range(2))
                session.execute(f"UPDATE {one} SET amount = amount + 1, at = now() WHERE id = {draw.randrange(ROWS)}")
                session.execute(f"DELETE FROM {other} WHERE id = {draw.randrange(ROWS)}")
                session.execute(f"INSERT INTO {other} VALUES ({ROWS + 1 + count[0]}, NULL, 'NaN', 'infinity')")
                session.commit()
                count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()


def checkout(folder: Path) -> Path:
    """A copy of what is installed, in which nothing was built."""
    for name in ("cdcv2", "schemas"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def rows(session: Any, table: str) -> list[Any]:
    """Of a table, in one order."""
    fields = ", ".join(f"{one}::text" for one in ("id", "name", "amount", "at"))
    return list(session.execute(f"SELECT {fields} FROM {table} ORDER BY 1, 2, 3, 4").fetchall())


def test_the_steps_of_the_readme_end_with_ten_tables_that_are_right(tmp_path: Path) -> None:
    """Each step ends well; when the clients rest, the copies are the tables."""
    jars.fetch("kafka")
    jars.fetch("debezium")
    steps, place = readme_steps(), checkout(tmp_path)
    with ExitStack() as opened:
        server = opened.enter_context(Postgres(database="shop"))
        kafka = opened.enter_context(KafkaBroker())
        connect = opened.enter_context(DistributedConnect(kafka.bootstrap, environment={"PGPASSWORD": "of-cdc"}))
        prepared(server)
        own = {
            "KAFKA:9092": kafka.bootstrap, "http://CONNECT:8083": connect.url, "PGHOST=db": f"PGHOST={server.host}",
            "PGPORT=5432": f"PGPORT={server.port}", "PGPASSWORD=...": "PGPASSWORD=of-cdc",
            "COPY_PASSWORD=...": "COPY_PASSWORD=of-copy",
            "host=COPY port=5432": f"host={server.host} port={server.port}",
        }
        script = "set -e\nbegin=$(date +%s%N)\n"
        for number, step in enumerate(steps, 1):
            for theirs, ours in own.items():
                step = step.replace(theirs, ours)
            script += f"{step}\n{TIMED.format(number=number)}"
        subprocess.run([sys.executable, "-m", "venv", place / "try"], check=True)
        # The processes that it leaves behind keep none of our pipes.
        shell = f". try/bin/activate\n{script}kill %1; wait %1 || true\n"
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PYTHON", "CDCV2"))}
        with changing(server) as changes, open(place / "output.txt", "wb") as output:
            begin = time.monotonic()
            try:
                done = subprocess.run(["bash", "-c", shell], cwd=place, env=plain, stdout=output, stderr=output,
                                      check=False, timeout=600)  # fmt: skip
                took = time.monotonic() - begin
                printed = (place / "output.txt").read_text("utf-8")
                assert 0 == done.returncode, printed
                during = changes[0]
            finally:
                # The jobs outlive cdcv2 up, and are at work until the copies are as the tables at rest.
                opened.callback(subprocess.run, ["bash", "-c", ". try/bin/activate; cdcv2 down shop/pipeline.yaml"],
                                cwd=place, env={**plain, "PGPASSWORD": "of-cdc", "COPY_PASSWORD": "of-copy"},
                                capture_output=True, check=False)  # fmt: skip
        with server.connect(autocommit=True) as source, server.connect(dbname="copy", autocommit=True) as copy:
            names = [f"t{number}" for number in range(TABLES)]

            def same() -> list[str]:
                kept = {name: rows(copy, name) for name in names[1:]}
                return [name for name in names[1:] if kept[name] == rows(source, name)]

            assert poll_until(lambda: same() == names[1:], 60), same()
            (count,) = copy.execute("SELECT sum(cdcv2_count) FROM t0").fetchone() or (0,)
            assert len(rows(source, "t0")) == count
    seconds = [int(line.split()[2]) / 1e9 for line in (place / "steps.txt").read_text("ascii").splitlines()]
    equal = [line for line in printed.splitlines() if line.startswith("equal: ")]

    assert (True, len(steps)) == (len(steps) <= MOST, len(seconds))
    assert ["equal: source at", "equal: copy, com"] == [line[:16] for line in equal], printed
    assert during > 0
    record("the steps of README, from a checkout to ten tables that are right", [SEED], {
        "steps": len(steps), "tables": TABLES, "seconds in all": round(took), "seconds to install": round(seconds[0]),
        "seconds of cdcv2 init": round(seconds[2]), "seconds of cdcv2 doctor": round(seconds[3]),
        "seconds from cdcv2 up to the proof": round(sum(seconds[4:])), "transactions meanwhile": during,
    })  # fmt: skip
