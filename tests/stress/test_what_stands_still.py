"""What each kind of change in a pipeline file restarts, and for how long its targets stand still meanwhile: measured.

Ten tables of a PostgreSQL change all the time; two views keep them in another database. For each change ``cdcv2 up`` is
ended, the file is changed, and it is started again, as its page has it. A target stands still from one move of its
frontier to the next one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.job_folder import JobFolder
from cdcv2.exits import Exit
from cdcv2.servers import jars
from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2
from tests.stress.summary import record
from tests.stress.test_readme_steps import SEED, changing, prepared

pytestmark = pytest.mark.integration

#: Each change so often.
TIMES = 3
PATIENCE = 120
VIEWS = ("copy", "other")


class World:
    """The servers, and a pipeline of ``cdcv2 init`` with a second view; ``opened`` closes them."""

    def __init__(self, folder: Path, opened: ExitStack, variables: pytest.MonkeyPatch) -> None:
        self.folder, self.path = folder, folder / "shop" / "pipeline.yaml"
        self.server = opened.enter_context(Postgres(database="shop"))
        kafka = opened.enter_context(KafkaBroker())
        connect = opened.enter_context(DistributedConnect(kafka.bootstrap, environment={"PGPASSWORD": "of-cdc"}))
        prepared(self.server)
        for name, value in {"PGHOST": self.server.host, "PGPORT": str(self.server.port), "PGDATABASE": "shop",
                            "PGUSER": "cdc", "PGPASSWORD": "of-cdc", "COPY_PASSWORD": "of-copy"}.items():  # fmt: skip
            variables.setenv(name, value)
        target = f"host={self.server.host} port={self.server.port} dbname=copy user=copy"
        assert Exit.DONE == main(["init", "--source", "env", "--bootstrap", kafka.bootstrap, "--connect", connect.url,
                                  "--owned", "--target", target, "--output", str(folder / "shop")])  # fmt: skip
        text = self.path.read_text("utf-8")
        self.view = text.partition("  copy:\n")[2]
        self.text = text + "  other:\n" + self.view.replace('target: "t', 'target: "o')
        self.path.write_text(self.text, "utf-8")
        self.jobs = {name: JobFolder(folder / "shop" / "shop.state" / "jobs" / name) for name in ("shop", *VIEWS)}
        opened.callback(self._end)
        self.process = self.up()

    def up(self) -> subprocess.Popen[bytes]:
        """``cdcv2 up``, as a process of its own, which its jobs outlive."""
        with open(self.folder / "up.log", "ab") as log:
            return subprocess.Popen([*CDCV2, "up", str(self.path)], stderr=log)

    def change(self, text: str) -> None:
        """The file, changed as its page has it."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self.path.write_text(text, "utf-8")
        self.process = self.up()

    def runs(self) -> dict[str, int]:
        """Job -> its run."""
        return {name: job.observe().run for name, job in self.jobs.items()}

    def frontiers(self, session: Any) -> dict[str, int]:
        """View -> how far its target is; none before the first commit."""
        rows = session.execute("SELECT materialization, checkpoint FROM cdcv2_checkpoints").fetchall()
        return {name: int(json.loads(checkpoint)["frontier"][0]) for name, checkpoint in rows}

    def marker(self) -> int:
        """A position of the source behind all that was committed."""
        with self.server.connect() as session:
            row = session.execute("SELECT (pg_logical_emit_message(true, 'test', 'now') - '0/0')::bigint").fetchone()
        return int(row[0]) if row else 0

    def _end(self) -> None:
        self.process.kill()
        for job in self.jobs.values():
            if job.path.exists():
                job.kill()


class Watch:
    """Sees all along when the frontier of each target moves."""

    def __init__(self, world: World) -> None:
        self._world, self._stop = world, threading.Event()
        #: view -> (moment, frontier) of each move
        self.moves: dict[str, list[tuple[float, int]]] = {name: [] for name in VIEWS}
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _work(self) -> None:
        with self._world.server.connect(dbname="copy", autocommit=True) as session:
            while not self._stop.wait(0.05):
                for name, frontier in self._world.frontiers(session).items():
                    moves = self.moves.setdefault(name, [])
                    if not moves or moves[-1][1] != frontier:
                        moves.append((time.monotonic(), frontier))

    def past(self, position: int) -> bool:
        """Whether both targets are complete through there."""
        return all(moves and moves[-1][1] > position for moves in (self.moves[name] for name in VIEWS))

    def still(self, view: str, since: float) -> float:
        """For how many seconds at most the target stood still from that moment on."""
        moments = [moment for moment, _ in self.moves[view]]
        return max(later - earlier for earlier, later in zip(moments, moments[1:]) if later >= since)


def changes(world: World) -> dict[str, tuple[Callable[[int], None], set[str]]]:
    """A kind of change -> how it is made for the nth time, and which jobs it restarts."""
    view, base = world.view, world.text

    def connector(number: int) -> None:
        path = world.folder / "shop" / "connector.json"
        config = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**config, "heartbeat.interval.ms": str(2000 + number)}), "utf-8")
        world.change(base)

    def replaced(old: str, new: str) -> Callable[[int], None]:
        assert old in base
        # The last one: of two views, the second.
        return lambda number: world.change(new.replace("N", str(number)).join(base.rsplit(old, 1)))

    def rows(number: int) -> None:
        world.change(base.replace("rows: rows\n", f"rows: {'./' * (number + 1)}rows\n"))

    third = "  third:\n" + view.replace('target: "t', 'target: "u')
    return {
        "nothing": (lambda number: world.change(base), set()),
        "a field of one view": (replaced("user=copy", "user=copy application_name=aN"), {"other"}),
        "an option of the capture": (replaced("    into: logs\n", "    into: logs\n    max-records: 100N\n"), {"shop"}),
        "a field of all of them, rows": (rows, {"shop", *VIEWS}),
        "a view is added, and left out": (lambda number: world.change(base + third if number % 2 else base), set()),
        "the connector's settings": (connector, set()),
    }


def test_what_a_change_restarts_and_for_how_long_a_target_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the jobs whose part of the file has changed; and no row is lost meanwhile."""
    jars.fetch("kafka")
    jars.fetch("debezium")
    counts: dict[str, int] = {}
    with ExitStack() as opened:
        world = World(tmp_path, opened, monkeypatch)
        with changing(world.server):
            with world.server.connect(dbname="copy", autocommit=True) as session:
                there = "SELECT to_regclass('cdcv2_checkpoints') IS NOT NULL"
                assert poll_until(lambda: (session.execute(there).fetchone() or (False,))[0], PATIENCE)
            with Watch(world) as watch:
                first = world.marker()
                assert poll_until(lambda: watch.past(first), PATIENCE)
                for kind, (change, restarts) in changes(world).items():
                    longest = dict.fromkeys(VIEWS, 0.0)
                    for number in range(TIMES):
                        longest = _once(world, watch, kind, lambda n=number: change(n), restarts, longest)
                    # And back: it restarts the same jobs, and their start is no part of the next kind.
                    _once(world, watch, kind, lambda: world.change(world.text), restarts, longest)
                    _settle(world, watch)
                    for view, seconds in longest.items():
                        counts[f"ms that {view} stood still at most: {kind}"] = round(1000 * seconds)
        assert Exit.DONE == main(["compare", str(world.path), "--view", "copy", "--source", "env", "--wait", "60",
                                  "--marker"])  # fmt: skip
        world.process.send_signal(signal.SIGINT)
        world.process.wait(PATIENCE)
        main(["down", str(world.path)])
    record("what a change of a pipeline file restarts", [SEED], {"changes of each kind": TIMES, **counts})


def _once(
    world: World, watch: Watch, kind: str, change: Callable[[], None], restarts: set[str], longest: dict[str, float]
) -> dict[str, float]:
    before, begin = world.runs(), time.monotonic()
    change()
    assert poll_until(lambda: {name for name, run in world.runs().items() if run != before[name]} == restarts, PATIENCE)
    _settle(world, watch)
    assert restarts == {name for name, run in world.runs().items() if run != before[name]}, kind
    return {view: max(longest[view], watch.still(view, begin)) for view in VIEWS}


def _settle(world: World, watch: Watch) -> None:
    """All jobs work, and both targets are past what was committed until now; three seconds of that."""
    begin = time.monotonic()
    assert poll_until(lambda: all(job.alive() for job in world.jobs.values()), PATIENCE)
    assert poll_until(lambda: time.monotonic() > begin + 3, PATIENCE)
    position = world.marker()
    assert poll_until(lambda: watch.past(position), PATIENCE)
