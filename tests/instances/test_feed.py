"""An instance over the logs of recorded change data answers at each finished time what the logs sum up to."""

from __future__ import annotations

import gc
import json
from collections import Counter
from pathlib import Path

import pytest

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UsageError
from cdcv2.instances.commands import (
    CreateIndex, CreateInstance, Frontiers, InitializationComplete, Peek, PeekResponse, Tail, TailResponse,
)
from cdcv2.instances.run import feed as feed_module
from cdcv2.instances.run import follower as follower_module
from cdcv2.instances.run.feed import IndexSource
from cdcv2.instances.run.follower import LogFollower
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog, directory_logs
from cdcv2.logs.log_names import named_after
from cdcv2.rows.row_type import RowType
from tests.market import PRICES, Market

KEYS = {"public.orders": "id", "public.order_items": "order_id"}


def opened(folder: Path) -> list[NamedLog]:
    logs = [DirectoryLog(path) for path in directory_logs(folder)]
    return [NamedLog(named_after(log.path), log, log.row_type) for log in logs]


def text(row: object) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def test_another_index_of_a_name_reads_its_own_tables(tmp_path: Path) -> None:
    """Also where nothing was finished before: another controller may call its first index the same."""
    row = RowType({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    writers = [
        cdcv2.Writer(DirectoryLog(tmp_path / name, row, create=True, description=LogDescription(identity=name)))
        for name in ("a", "b")
    ]
    source = IndexSource([NamedLog(n, DirectoryLog(tmp_path / n, idle_wait=0.0), row) for n in ("a", "b")], follow=True)
    a, b = source.table("a", ["id"]), source.table("b", ["id"])
    for tables in ((a,), (a, b)):
        source.instance.connect()
        for command in (CreateInstance("1"), CreateIndex("1", tables), InitializationComplete()):
            source.instance.receive(command)
        assert source.read() == ([], False)
    for writer, upper in zip(writers, (9, 5)):
        writer.update(row.row([7]), 3, 1)
        writer.advance([upper])
    for _ in range(20):
        source.read()
    assert source.instance.upper("1") == Antichain([5])
    [answer] = source.instance.receive(Peek("u", "1", {"a": ((7,),), "b": ((7,),)}, 3))

    assert isinstance(answer, PeekResponse) and answer.rows is not None
    assert [1, 1] == [found[0].multiplicity for rows in answer.rows.values() for found in rows]


def test_nothing_is_responded_before_what_the_logs_held_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a replica: what was finished long ago is no answer of one that was started again."""
    monkeypatch.setattr(feed_module, "_MOMENT", 0.0)
    market = Market(tmp_path)
    for at in range(2, 100):
        market.reprice(at)
    source = IndexSource(
        [NamedLog("prices", DirectoryLog(market.log.path, idle_wait=0.0), PRICES)], follow=True, withhold=True
    )
    main = CreateIndex("main", (source.table("prices", ["name"]),))
    asked = (Peek("u", "main", {"prices": (("pear",),)}, 3), Tail("t", "main", "prices", since=5))
    for command in (CreateInstance("a"), main, *asked, InitializationComplete()):
        assert source.instance.receive(command) == []
    turns, answers = 0, list[object]()
    while not answers:
        turns += 1
        assert turns < 1000
        answers, _ = source.read()  # type: ignore[assignment]  # they are of several kinds
    assert turns > 50 and source.instance.upper("main") == Antichain([100])
    assert [type(answer) for answer in answers] == [Frontiers, PeekResponse, TailResponse]
    assert answers[0] == Frontiers("main", Antichain([100]))
    market.reprice(101)
    found = [answer for _ in range(10) for answer in source.read()[0]]
    assert found[0] == Frontiers("main", Antichain([101])) or found[0] == Frontiers("main", Antichain([102]))
    source.instance.connect()
    again = [answer for command in (CreateInstance("b"), main, InitializationComplete())
             for answer in source.instance.receive(command)]  # fmt: skip
    assert again == [Frontiers("main", Antichain([102]))]


def test_an_instance_over_recorded_logs_answers_what_they_sum_up_to(logs: Path) -> None:
    """Every key of two tables, at four times of one cut, judged by a sum over all updates; and a tail of each table."""
    feed = IndexSource(opened(logs))
    tables = tuple(feed.table(name, [key]) for name, key in KEYS.items())
    history: dict[str, list[tuple[object, int, int]]] = {name: [] for name in KEYS}
    types = {named.table: named.row_type for named in opened(logs)}
    for cut in cdcv2.read(str(logs)):
        for name in KEYS:
            history[name] += [(types[name].to_plain(row), time, diff) for row, time, diff in cut.updates.get(name, ())]
    times = sorted({time for updates in history.values() for _, time, _ in updates})
    keys = {name: sorted({row[KEYS[name]] for row, _, _ in history[name]}) for name in KEYS}  # type: ignore[index]
    peeks = [
        Peek(str(time), "main", {name: tuple((key,) for key in keys[name]) for name in KEYS}, time)
        for time in (times[0], times[len(times) // 3], times[-2], times[-1])
    ]

    answers = []
    for command in (CreateInstance("a"), CreateIndex("main", tables), *peeks,
                    *(Tail(f"tail of {name}", "main", name) for name in KEYS), InitializationComplete()):
        answers += feed.instance.receive(command)
    moved = True
    while moved:
        given, moved = feed.read()
        answers += given

    found = {one.uuid: one for one in answers if isinstance(one, PeekResponse)}
    assert len(found) == len(peeks) and len(times) > 10
    for peek in peeks:
        for name in KEYS:
            for key, rows in zip(keys[name], found[peek.uuid].rows[name], strict=True):
                wanted = Counter[str]()
                for row, time, diff in history[name]:
                    if row[KEYS[name]] == key and time <= peek.time:  # type: ignore[index]
                        wanted[text(row)] += diff
                assert Counter({text(row): count for row, count in rows}) == +wanted
    for name in KEYS:
        batches = [one for one in answers if isinstance(one, TailResponse) and one.uuid == f"tail of {name}"]
        given_rows = Counter((text(row), time, diff) for one in batches for row, time, diff in one.changes)
        assert given_rows == Counter((text(row), time, diff) for row, time, diff in history[name])
    feed.close()


def test_a_session_with_another_index_reads_its_logs_from_the_beginning(logs: Path) -> None:
    """A name that is of another key now: what was read for the old one is of no use."""
    feed = IndexSource(opened(logs))
    for key in ("id", "cust"):
        feed.instance.connect()
        for command in (CreateInstance("a"), CreateIndex("main", (feed.table("public.orders", [key]),)),
                        InitializationComplete()):
            feed.instance.receive(command)
        while feed.read()[1]:
            pass
        assert feed.instance.upper("main") != Antichain([0])
    assert feed.instance.reconciliation is not None and feed.instance.reconciliation.replaced


def test_what_an_index_cannot_be_of_is_refused(logs: Path) -> None:
    feed = IndexSource(opened(logs))

    with pytest.raises(UsageError, match="no log of the table 'none'"):
        feed.table("none", ["id"])
    with pytest.raises(UsageError, match="no key column 'none'"):
        feed.table("public.orders", ["none"])
    other = feed.table("public.orders", ["id"])._replace(log="another")
    for command in (CreateInstance("a"), CreateIndex("main", (other,)), InitializationComplete()):
        feed.instance.receive(command)
    with pytest.raises(RefusedError, match="of the log another of public.orders"):
        feed.read()


def test_what_is_finished_already_is_one_cut(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many times it has: so an instance that starts is not asked after each of them. The changes are alike."""
    found = []
    for moment in (60.0, 0.0):
        monkeypatch.setattr(feed_module, "_MOMENT", moment)
        feed = IndexSource(opened(logs))
        answers = []
        for command in (CreateInstance("a"), CreateIndex("main", (feed.table("public.orders", ["id"]),)),
                        Tail("tail", "main", "public.orders"), InitializationComplete()):
            answers += feed.instance.receive(command)
        moved = True
        while moved:
            given, moved = feed.read()
            answers += given
        batches = [one for one in answers if isinstance(one, TailResponse)]
        assert [one.lower for one in batches[1:]] == [one.upper for one in batches[:-1]]
        found.append((len(batches), [(text(row), time, diff) for one in batches for row, time, diff in one.changes]))
        feed.close()

    (once, changes), (often, same) = found
    assert once == 1 < often and sorted(changes) == sorted(same)


def test_rows_that_are_held_are_not_looked_through_for_garbage(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over millions of rows would hold up each client for as long as it takes. Later there is garbage, too."""
    monkeypatch.setattr(follower_module, "_TURN", 0.0)
    follower = LogFollower(opened(logs))
    for command in (CreateInstance("a"), CreateIndex("main", (follower.source.table("public.orders", ["id"]),)),
                    InitializationComplete()):
        follower.source.instance.receive(command)
    before = gc.get_freeze_count()
    try:
        while not follower.source.instance.size("main"):
            follower.look()
        assert gc.get_freeze_count() > before
        while not follower.caught_up:
            follower.look()
        gc.unfreeze()
        follower.look()
        assert follower.more and not gc.get_freeze_count()
    finally:
        gc.unfreeze()
        follower.close()
