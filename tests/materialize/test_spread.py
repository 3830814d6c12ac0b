"""Transactions that executors carry out, without Spark: tasks here are calls, some of them twice, some half."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import FencedError, OutputError, RefusedError, UsageError, ViewError
from cdcv2.materialize import Checkpoint, Range, Runtime, distributed as spreading
from cdcv2.materialize.distributed import DistributedRuntime, TargetWorker, carry
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.fence import LAST
from cdcv2.materialize.protocol.messages import Key
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.materialize.targets.webhook.driver import WebhookDriver
from cdcv2.protocol.messages import Update
from cdcv2.protocol.timeline import Cut
from cdcv2.servers.postgres import Postgres
from cdcv2.testing import Subject, Workload
from tests.lakes import DeltaSubject, LakeSubject
from tests.materialize.targets.test_postgres_driver import PostgresSubject

Carried = Callable[[TargetWorker], Iterator[tuple[int, Any]]]
TASKS = 3
STEPS = ["after-prepare", "carried", "before-commit", "after-commit"]


class Served(PostgresSubject):
    """PostgreSQL, whose executors connect by name, as a callable of a test cannot be pickled."""

    def driver(self) -> Any:
        """A new session."""
        with self.connect() as connection:
            schema = connection.execute("SELECT current_schema()").fetchone()[0]
        told = " ".join(f"{name[2:].lower()}={value}" for name, value in _libpq(self.server).items())
        return PostgresDriver(f"{told} options='-c search_path={schema}'")


def _libpq(server: Postgres) -> dict[str, str]:
    names = {"PGHOST": "PGhost", "PGPORT": "PGport", "PGUSER": "PGuser", "PGPASSWORD": "PGpassword"}
    names["PGDATABASE"] = "PGdbname"
    return {names[name]: value for name, value in server.environment.items() if name in names}


SUBJECTS = [LakeSubject, DeltaSubject, pytest.param(Served, marks=pytest.mark.integration)]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """A store of each kind that can be spread."""
    if request.param is Served:
        PostgresSubject.server = request.getfixturevalue("server")
    made = request.param()
    yield made
    made.close()


def opened(subject: Subject, work: Workload) -> DistributedRuntime:
    """A new instance."""
    made = DistributedRuntime("conformance", work.bindings, subject.driver(), log=subject.log())
    made.open()
    return made


def carried(runtime: DistributedRuntime, cut: Cut, *, twice: bool = True) -> Carried:
    """Sends the hand to three tasks per binding; each of them dies once behind its work, and is done again."""
    def send(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
        for number, (binding, view) in enumerate(zip(runtime.bindings, runtime.views)):
            keys: dict[Key, list[Update]] = {}
            for update in cut.updates.get(binding.log, []):
                keys.setdefault(view.key_of(update[0]), []).append(update)
            for task in range(TASKS):
                mine = {key: one for key, one in keys.items() if zlib.crc32(canonical(key)) % TASKS == task}
                if twice:
                    carry(view, number, pickle.loads(pickle.dumps(hand)), mine.items())
                yield number, carry(view, number, pickle.loads(pickle.dumps(hand)), mine.items())

    return send


def run(runtime: DistributedRuntime, work: Workload, cuts: int | None = None) -> None:
    """The cuts that the view does not have yet, or so many of them."""
    cuts_all = work.source(Checkpoint(Antichain([0])))
    left = [cut for cut in cuts_all if not runtime.checkpoint.frontier.dominates(cut.upper)]
    for cut in left[:cuts]:
        runtime.transact(cut.upper, carried(runtime, cut))


def demand(subject: Subject, work: Workload, upper: Antichain) -> None:
    """What a reader sees is the truth at that frontier."""
    until = upper.elements[0] if upper else None
    assert work.truth(until) == work.shown(subject.view())


def test_each_transaction_is_a_cut(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, a multiset and rows by key; keys are looked up two at a time; tasks that are done twice count once."""
    monkeypatch.setattr(spreading, "AT_ONCE", 2)
    work = Workload()
    runtime = opened(subject, work)
    for cut in work.source(Checkpoint(Antichain([0]))):
        runtime.transact(cut.upper, carried(runtime, cut))
        demand(subject, work, cut.upper)
    runtime.close()

    assert (9, Antichain()) == (runtime.transactions, runtime.checkpoint.frontier)


@pytest.mark.parametrize("step", [f"materialize.{one}" for one in STEPS])
def test_a_crash_repeats_nothing(subject: Subject, step: str) -> None:
    """The next runtime, spread or not, goes on from what was committed."""
    work = Workload(cuts=4)
    dying = opened(subject, work)
    with failpoints.placed(step, 2), pytest.raises(failpoints.PlacedCrash):
        run(dying, work)
    dying.close()
    following = opened(subject, work)
    demand(subject, work, following.checkpoint.frontier)
    run(following, work, 1)
    following.close()
    Runtime("conformance", work.bindings, subject.driver(), work.source, log=subject.log(), rows=1).run()

    demand(subject, work, Antichain())


def test_one_that_was_replaced_commits_nothing(subject: Subject) -> None:
    """While its tasks are under way, another takes over and commits; also where a view would go wrong by it."""
    work = Workload(cuts=4)
    zombie = opened(subject, work)
    run(zombie, work, 1)
    cuts = list(work.source(Checkpoint(Antichain([0]))))
    followers = []

    def overtaken(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
        followers.append(opened(subject, work))
        run(followers[0], work, 1)
        yield from carried(zombie, cuts[1])(hand)

    with pytest.raises(FencedError):
        zombie.transact(cuts[1].upper, overtaken)
    zombie.close()
    demand(subject, work, cuts[1].upper)
    run(followers[0], work)
    followers[0].close()

    demand(subject, work, Antichain())


def test_a_view_that_goes_wrong_is_an_error_and_nothing_counts(subject: Subject) -> None:
    """A row that is taken away twice; the view stays, and goes on from there when the log is mended."""
    work = Workload(cuts=4)
    runtime = opened(subject, work)
    run(runtime, work, 2)
    cut = list(work.source(Checkpoint(Antichain([0]))))[3]
    gone = [(row, time, -5) for row, time, diff in cut.updates["entries"] if diff > 0]
    with pytest.raises(ViewError):
        runtime.transact(cut.upper, carried(runtime, Cut({"entries": gone}, cut.lower, cut.upper), twice=False))
    runtime.close()
    again = opened(subject, work)
    demand(subject, work, again.checkpoint.frontier)
    run(again, work)
    again.close()

    demand(subject, work, Antichain())


def test_what_cannot_be_spread_is_refused() -> None:
    """By the driver's name, with what does it instead; and ranges that are at different frontiers."""
    work = Workload(cuts=4)
    with pytest.raises(UsageError, match="WebhookDriver takes its rows from one process.*use cdcv2 materialize"):
        DistributedRuntime("m", work.bindings, WebhookDriver("http://localhost:1"))
    subject = LakeSubject()
    half = Range(0, LAST // 2)
    Runtime("conformance", work.bindings, subject.driver(), work.source, log=subject.log(), range=half, rows=1).run()
    with pytest.raises(RefusedError, match="at different frontiers"):
        opened(subject, work)
    subject.close()


def test_what_went_wrong_is_told_though_the_store_is_gone_too() -> None:
    """Asking for the fence fails as well then: that error is not reported."""
    work, subject = Workload(cuts=4), LakeSubject()
    runtime = opened(subject, work)
    cut = next(work.source(Checkpoint(Antichain([0]))))

    def dying(hand: TargetWorker) -> Iterable[tuple[int, Any]]:
        subject.folder.rename(subject.folder.with_suffix(".gone"))
        raise ViewError("t", (), "it is wrong")

    with pytest.raises(ViewError, match="it is wrong"):
        runtime.transact(cut.upper, dying)
    subject.folder.with_suffix(".gone").rename(subject.folder)
    runtime.close()
    subject.close()


def test_a_file_that_the_driver_does_not_see_is_said() -> None:
    """A folder that is not the same on every machine."""
    work, subject = Workload(cuts=4), LakeSubject()
    runtime = opened(subject, work)
    cut = next(work.source(Checkpoint(Antichain([0]))))

    def elsewhere(hand: TargetWorker) -> Iterable[tuple[int, Any]]:
        yield 0, ["nowhere", 1]

    with pytest.raises(OutputError, match="under the same path"):
        runtime.transact(cut.upper, elsewhere)
    runtime.close()
    subject.close()


@pytest.mark.integration
def test_a_table_that_is_altered_while_tasks_are_under_way_is_refused(request: pytest.FixtureRequest) -> None:
    """In PostgreSQL: nothing of the transaction counts; mended, it goes on."""
    PostgresSubject.server = request.getfixturevalue("server")
    subject, work = Served(), Workload(cuts=4)
    runtime = opened(subject, work)
    run(runtime, work, 1)
    cut = list(work.source(Checkpoint(Antichain([0]))))[1]

    def altered(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
        yield from carried(runtime, cut)(hand)
        with subject.connect() as connection:
            connection.execute("ALTER TABLE account_total ALTER total TYPE numeric(30,1)")

    with pytest.raises(RefusedError, match=r"account_total .* 'total' has the type numeric.30,1. and should have"):
        runtime.transact(cut.upper, altered)
    runtime.close()
    demand(subject, work, cut.lower)
    with subject.connect() as connection:
        connection.execute("ALTER TABLE account_total ALTER total TYPE numeric")
    again = opened(subject, work)
    run(again, work)
    again.close()

    demand(subject, work, Antichain())
    subject.close()


@pytest.mark.integration
def test_staging_tables_of_the_dead_are_removed(request: pytest.FixtureRequest) -> None:
    """In PostgreSQL, by the next instance that is spread; those of another materialization stay; a commit empties."""
    PostgresSubject.server = request.getfixturevalue("server")
    subject, work = Served(), Workload(cuts=4)
    with subject.connect() as connection:
        connection.execute("CREATE TABLE cdcv2_staged_0_1_0 ()")
    living = opened(subject, work)
    run(living, work, 1)
    living.close()
    with subject.connect() as connection:
        left = connection.execute(f"SELECT count(*) FROM {_staged(connection)[0]}".encode()).fetchone()[0]
    for _ in range(2):
        dying = opened(subject, work)
        with failpoints.placed("materialize.carried"), pytest.raises(failpoints.PlacedCrash):
            run(dying, work, 1)
        dying.close()
    with subject.connect() as connection:
        names, all_of_them = _staged(connection), _staged(connection, "cdcv2_staged_")

    assert (0, 3, 4) == (left, len(names), len(all_of_them))
    assert 1 == len({name.rsplit("_", 2)[1] for name in names})
    subject.close()


def _staged(connection: Any, prefix: str = "cdcv2_staged_[0-9a-f]{8}_") -> list[str]:
    """The names of staging tables; by default without that of another materialization."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relname ~ %s AND relnamespace = current_schema()::regnamespace "
        "AND relkind = 'r' ORDER BY 1", [prefix],
    ).fetchall()  # fmt: skip
    return [name for (name,) in rows]
