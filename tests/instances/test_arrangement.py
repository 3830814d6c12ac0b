"""An arrangement answers what a sum over all updates answers, however it was fed and compacted; at a bounded cost."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.instances import arrangement
from cdcv2.instances.arrangement import Arrangement, TableForm
from cdcv2.instances.commands import LEAST
from tests.instance_schedules import END, FORM, TABLES, Log, as_of, cut, log_of


def long_log(random: Random) -> Log:
    """Several histories, one behind the other: times have several changes of one key, and some have none."""
    parts = [log_of(random) for _ in range(4)]
    ends = [number * END for number in range(4)]
    return {
        table: [(row, time + end, diff) for part, end in zip(parts, ends) for row, time, diff in part[table]]
        for table in TABLES
    }


def changes_of(log: Log, table: str, after: Antichain, upper: Antichain, since: int) -> Counter[Any]:
    """What a tail from ``after`` on is to get, by the sum."""
    wanted = Counter[Any]()
    for row, time, diff in log[table]:
        if after.less_equal(time) and not upper.less_equal(time):
            wanted[str(list(row)), max(time, since) if after == LEAST else time] += diff
    return Counter({key: diff for key, diff in wanted.items() if diff})


def judge(held: Arrangement, log: Log, random: Random) -> None:
    """Peeks of every key at a time, and the changes from a time on and from the beginning."""
    held.check()
    if not held.readable:
        with pytest.raises(MalformedError, match="is not from"):
            held.at("orders", [0], held.since)
        return
    last = 5 * END if held.upper.integer is None else held.upper.integer - 1
    for table in TABLES:
        for time in {held.since, random.randint(held.since, last), last}:
            for key in range(4):
                found = Counter({tuple(row): count for row, count in held.at(table, [key], time)})
                assert found == as_of(log, table, key, time)
        for after in (LEAST, Antichain([random.randint(held.since, last) + 1]), held.upper):
            given = held.changes(table, after, held.since)
            assert [change.time for change in given] == sorted(change.time for change in given)
            assert len({(str(row), time) for row, time, _ in given}) == len(given)
            found = Counter({(str(row), time): diff for row, time, diff in given})
            assert found == changes_of(log, table, after, held.upper, held.since)


@pytest.mark.parametrize("seed", range(25))
def test_it_answers_what_a_sum_answers(seed: int) -> None:
    """Cuts of any width, in any order within; compaction by any step, also beyond what is there."""
    random = Random(seed)
    log = long_log(random)
    held = Arrangement({table: FORM for table in TABLES}, random.choice((0, 0, random.randrange(4 * END))))
    while held.upper:
        upper = Antichain([held.upper.elements[0] + random.choice((1, 1, 2, 9))])
        if upper.elements[0] > 4 * END:
            upper = Antichain()
        given = cut(log, held.upper, upper)
        for updates in given.values():
            random.shuffle(updates)
        held.apply({table: updates for table, updates in given.items() if updates or random.random() < 0.5}, upper)
        judge(held, log, random)
        while random.random() < 0.4:
            held.compact(random.randint(0, (held.upper.integer or 4 * END) + random.choice((-1, -1, 2))))
            judge(held, log, random)


def test_a_cut_that_is_none_is_refused_as_a_whole() -> None:
    held = Arrangement({table: FORM for table in TABLES})
    held.apply({"orders": [((1, "a"), 3, 1)]}, Antichain([4]))
    good = ((1, "b"), 4, 1)
    for updates, upper, text in (
        ({"orders": [good]}, [3], "given to an index that is at"), ({"orders": [good], "none": []}, [5], "'none'"),
        ({"orders": [good], "items": [good, (good[0], 5, 1)]}, [5], "of items at 5"),
        ({"orders": [good], "items": [good, (good[0], 3, 1)]}, [5], "of items at 3"),
        ({"orders": [good, (good[0], True, 1)]}, [5], "at True"),
        ({"orders": [good, (good[0], 4.0, 1)]}, [5], "at 4.0"),
    ):
        with pytest.raises(MalformedError, match=text):
            held.apply(updates, Antichain(upper))
        held.check()
        assert len(held) == 1 and held.upper == Antichain([4])
    same = ((2, "c"), 4, 1)
    held.apply({"orders": [same, same]}, Antichain([5]))
    assert [count for _, count in held.at("orders", [2], 4)] == [2]


@pytest.mark.parametrize("keeps", [True, False])
def test_compaction_is_paid_for_by_what_comes(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key gets (and loses) a row at each time, and is compacted each time: no quadratic work, and no heap of
    what is over."""
    work, number, sums = 0, 2000, arrangement._sums

    def counted(changes: Any) -> Any:
        nonlocal work
        work += len(changes)
        return sums(changes)

    monkeypatch.setattr(arrangement, "_sums", counted)
    held = Arrangement({"orders": TableForm(lambda row: 0, lambda key: 0, list)})
    for time in range(number):
        gone = [((time - 1,), time, -1)] if time and not keeps else []
        held.apply({"orders": [*gone, ((time,), time, 1)]}, Antichain([time + 1]))
        held.compact(time)
        there = time + 1 if keeps else 1
        assert there <= len(held) <= 1.5 * there + 1
    assert work <= 5 * number
    assert not held._recent["orders"]


def test_a_key_is_summed_up_when_half_as_many_changes_again_have_come() -> None:
    """And not before: a sum is paid for by what came."""
    held = Arrangement({"orders": TableForm(lambda row: 0, lambda key: 0, list)})
    held.apply({"orders": [((row,), 0, 1) for row in range(5)]}, Antichain([1]))
    lengths = []
    for time, change in enumerate((((0,), -1), ((1,), -1), ((2,), -1), ((3,), 1), ((4,), -1)), 1):
        held.apply({"orders": [(change[0], time, change[1])]}, Antichain([time + 1]))
        held.compact(time)
        lengths.append(len(held))
    # 5 rows, and of 8 changes two rows are left; the second of which is there twice, and then 2 changes are few again.
    assert (0, [6, 7, 2, 2, 1]) == (Arrangement({}).since, lengths)
