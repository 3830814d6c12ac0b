"""Instances of one materialization race on PostgreSQL, and the database itself notes who has committed, and when.

A trigger on the table of the fences writes each change of a holding down, in the transaction that makes it, with the
session that makes it. So what is judged is what was committed, in the order in which it was.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

from cdcv2.errors import FencedError
from cdcv2.materialize import Driver, Runtime, ThreadConnection
from cdcv2.materialize.targets.postgres import fence as postgres_fence
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.testing import Stage, Workload
from tests.materialize.row_by_row import RowByRow
from tests.materialize.targets.test_postgres_driver import PostgresSubject

_NOTED = """
CREATE TABLE noted (number bigserial, session int, claim boolean);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noted (session, claim) VALUES (pg_backend_pid(), TG_OP = 'INSERT' OR NEW.fence <> OLD.fence);
    RETURN NEW;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON cdcv2_checkpoints FOR EACH ROW EXECUTE FUNCTION note();
"""


class Noting(PostgresSubject):
    """The driver on a schema of its own, in which the changes of the fences are noted."""

    #: what a driver is made by
    made: Callable[..., Driver] = PostgresDriver

    def __init__(self) -> None:
        super().__init__()
        with self.connect() as connection:
            connection.execute(postgres_fence.CREATE)
            connection.execute(_NOTED)

    def driver(self) -> Driver:
        """A new session."""
        return type(self).made(connect=self.connect)

    def noted(self) -> list[tuple[int, bool]]:
        """Each change of the one holding, in order: by whom, and whether that was a claim, else a commit."""
        return list(self._reader.execute("SELECT session, claim FROM noted ORDER BY number").fetchall())


class NotingRowByRow(Noting):
    """The same, with a driver that looks every key up."""

    made: Callable[..., Driver] = RowByRow


def judge(noted: list[tuple[int, bool]], seed: int) -> Counter[str]:
    """None has committed after another's claim. Counts commits, and claims that came between the commits of two."""
    owner: int | None = None
    counts = Counter[str]()
    committed = set[int]()
    for session, claim in noted:
        if claim:
            counts["taken over after a commit"] += owner in committed and owner != session
            owner = session
        else:
            assert owner == session, f"seed {seed}: {session} committed after {owner} had claimed: {noted}"
            counts["commits"] += 1
            committed.add(session)
    return counts


def race_in_turns(seed: int, subject: Callable[[], Noting] = Noting) -> Counter[str]:
    """Two instances, step by step in random turns, on one thread: every interleaving of their messages may come."""
    lottery, noting = random.Random(seed), subject()
    stage = Stage(noting, Workload(seed=seed, cuts=3))
    two = [stage.instance(), stage.instance()]
    running = list(two)
    while running:
        one = lottery.choice(running)
        if not all(one.step() for _ in range(lottery.choice([1, 1, 2, 5, 20]))):
            running.remove(one)
    outcomes = [one.outcome for one in two]
    assert "done" in outcomes and set(outcomes) <= {"done", "fenced"}, f"seed {seed}: {outcomes}"
    assert "done" == stage.instance().finish(), f"seed {seed}"
    stage.demand_whole()
    counts = judge(noting.noted(), seed)
    stage.close()
    return counts + Counter({"fenced off": outcomes.count("fenced")})


def race_at_once(seed: int, subject: Callable[[], Noting] = Noting) -> Counter[str]:
    """Two or three instances at the same time, with drivers on threads of their own; begun a random while apart.

    Here they meet inside the database: at its locks, and between its statements.
    """
    lottery, noting = random.Random(seed), subject()
    work = Workload(seed=seed, cuts=8)
    outcomes = Counter[str]()
    wrong: list[BaseException] = []

    def live(delay: float) -> None:
        threading.Event().wait(delay)
        try:
            Runtime("conformance", work.bindings, ThreadConnection(noting.driver()), work.source, rows=1).run()
            outcomes["done"] += 1
        except FencedError:
            outcomes["fenced off"] += 1
        except BaseException as cause:  # handed to the test
            wrong.append(cause)

    delays = [0.0, *(lottery.uniform(0.0, 0.15) for _ in range(lottery.choice([1, 1, 2])))]
    threads = [threading.Thread(target=live, args=[delay], daemon=True) for delay in delays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong, f"seed {seed}: {wrong[0]!r}"
    assert len(delays) == outcomes.total() and outcomes["done"], f"seed {seed}: {outcomes}"
    stage = Stage(noting, work)
    assert "done" == stage.instance().finish(), f"seed {seed}"
    stage.demand_whole()
    counts = judge(noting.noted(), seed)
    stage.close()
    return counts + Counter({"fenced off": outcomes["fenced off"]})
