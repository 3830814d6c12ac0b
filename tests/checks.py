"""What must hold for any history, whatever happened to its log; each check draws one and judges a reader by it.

The ordinary tests run them over thousands of seeds and with Hypothesis, the stress tests over many more.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from cdcv2.errors import ContradictionError, StartError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.resolver import Resolver
from tests import oracle
from tests.judge import CONTRADICTION, LazyReader, judge, plain_batch, truth_about
from tests.oracle import Contradiction, Oracle, Out, Said, Time, Told, beyond
from tests.strategies import Chooser, antichains, beginning, build, corrupted, histories, lift, mangled, seeded


def check_mangled(choose: Chooser, dims: int) -> None:
    """Mangled, a log is read as the oracle reads it, and its content and its end are those of the original."""
    history = histories(choose, dims)
    log = mangled(choose, history.log)

    reader, judged, outs = judge(history.start, log, general=choose.chance(3))

    plainly = Oracle(history.start, history.log)
    straight = [out for out in map(plainly.absorb, history.log) if out]
    assert plainly.reported == judged.reported
    assert oracle.content(straight) == oracle.content(outs)
    told = {(data, time): diff for time, rows in history.truth.items() for data, diff in rows.items()}
    assert oracle.content(outs).items() <= told.items()
    if reader.closed:
        assert (0, 0, {}) == (reader.held_updates(), reader.waiting_statements(), reader.open_times())
        assert {key: diff for key, diff in told.items() if beyond(judged.origin, key[1])} == oracle.content(outs)


def check_moved(choose: Chooser, dims: int) -> None:
    """A reader that is exported and imported on the way, and starts at any frontier, does as any other reader does."""
    history = histories(choose, dims)
    log = mangled(choose, history.log)
    if choose.chance(3):
        log = corrupted(choose, log)
    start = tuple(antichains(choose, dims)) if choose.chance(2) else history.start

    def moved(reader: Resolver, *_: object) -> Resolver:
        if not choose.chance(4):
            return reader
        state = reader.export_state()
        again = Resolver.restore({**state, "ledger": json.loads(json.dumps(state["ledger"]))})
        assert state == again.export_state()
        return again

    judge(start, log, between=moved)


def check_mangle(choose: Chooser, dims: int) -> None:
    """The mangling that is part of the product changes no fact: same content, same end, in every setting."""
    history = histories(choose, dims)
    log = list(mangle(
        map(build, history.log),
        seed=choose.integer(0, 9),
        copies=choose.integer(1, 3),
        window=choose.pick([None, 1, 2, 5]),
        rebatch=choose.chance(2),
    ))
    straight = Oracle(history.start, history.log)
    outs = [out for out in map(straight.absorb, history.log) if out]

    reader = Iter(log, start=map(lift, history.start), begins=beginning(history.start))
    again = [plain_batch(batch) for batch in reader]

    assert oracle.content(outs) == oracle.content(out for out in again if out)
    assert straight.reported == oracle.frontier(reader.frontier)
    assert reader.closed or bool(straight.missing()) == bool(reader.missing())


def check_contradictory(choose: Chooser, dims: int) -> None:
    """Lies raise at the very message where the oracle objects, change nothing, and the rest of the log is read.

    When all is kept, they are found however late they come.
    """
    history = histories(choose, dims)
    log = corrupted(choose, mangled(choose, history.log))
    judge(history.start, log, keep_all=choose.chance(2), general=choose.chance(3))


def check_quarantine(choose: Chooser, dims: int) -> None:
    """With quarantine nothing raises, disputed times hold the frontier, and resolving them lets it go on."""
    history = histories(choose, dims)
    log = corrupted(choose, mangled(choose, history.log))

    def resolved(reader: Resolver, judged: Oracle, outs: list[Out]) -> Resolver:
        for time in sorted(judged.contested()):
            if choose.chance(3):
                resolve_one(choose, time, reader, judged, outs)
        return Resolver.restore(reader.export_state()) if choose.chance(4) else reader

    judge(history.start, log, quarantine=True, between=resolved)


def resolve_one(choose: Chooser, time: Time, reader: Resolver, judged: Oracle, outs: list[Out]) -> None:
    """Decide one dispute at a time, one way or another, for both."""
    undecided = [key for key, diffs in judged.held.items()
                 if key[1] == time and len(diffs) > 1 and key not in judged.ruled_diffs]
    if undecided:
        data = choose.pick(undecided)[0]
        diff = choose.pick([0, *sorted(judged.held[data, time])])
        expected = judged.rule_diff(data, time, diff)
        actual = reader.resolve(lift(time), data=data, diff=diff)
    else:
        count = choose.pick(sorted(judged.counted(time) | {judged.received(time)}))
        expected = judged.rule_count(time, count)
        actual = reader.resolve(lift(time), count=count)
    assert expected == plain_batch(actual)
    if expected is not None:
        outs.append(expected)


def check_folded_late(choose: Chooser, dims: int) -> None:
    """Counting distinct rows only when asked gives the same batches at the same messages, and notices lies in time."""
    history = histories(choose, dims)
    log = mangled(choose, history.log)
    if choose.chance(2):
        log = corrupted(choose, log)
    judged, reader = Oracle(history.start, log), LazyReader(history.start)
    for message in log:
        truth = truth_about(judged, message)
        if truth == CONTRADICTION:
            return never_released(judged, reader, log[log.index(message):])
        assert truth == reader.absorb(build(message))
        assert judged.reported == oracle.frontier(reader.ledger.reported)
        assert judged.known == oracle.frontier(reader.ledger.known)


def never_released(judged: Oracle, reader: LazyReader, rest: list[Told | Said]) -> None:
    """From a lie on, a reader that folds late either raises too, or does not pass the disputed times."""
    try:
        judged.absorb(rest[0])
    except Contradiction as raised:
        disputed = raised.times
    try:
        for message in rest:
            reader.absorb(build(message))
    except ContradictionError:
        pass
    for time in disputed:
        assert reader.ledger.keeps(lift(time))


def check_begun(choose: Chooser, dims: int) -> None:
    """A message that has, or counts, an update before the start raises and changes nothing; any other does not."""
    log, start = mangled(choose, histories(choose, dims).log), tuple(antichains(choose, dims))
    reader, lenient = Resolver(map(lift, start)), Resolver(map(lift, start), begins=beginning(start))
    for message in log:
        times = [time for _, time, _ in message.updates] if isinstance(message, Told) else dict(message.counts)
        early = [lift(time) for time in times if not beyond(oracle.least(start), time)]
        state = reader.export_state()
        try:
            batch = reader.absorb(build(message))
        except StartError as error:
            assert error.time in early and state == reader.export_state()
        else:
            assert not early and lenient.absorb(build(message)) == batch


CHECKS: dict[str, Callable[[Chooser, int], None]] = {
    "mangled": check_mangled,
    "moved": check_moved,
    "mangled by mangle": check_mangle,
    "contradictory": check_contradictory,
    "in quarantine": check_quarantine,
    "folded late": check_folded_late,
    "from the start": check_begun,
}


def run_seeds(kind: str, seeds: range) -> int:
    """Put the history of each seed through one kind of check; a failure names its seed. How many there were."""
    for seed in seeds:
        try:
            CHECKS[kind](seeded(seed), 1 + seed % 3)
        except Exception as failure:
            failure.add_note(f"run_seeds({kind!r}, range({seed}, {seed + 1})) repeats it")
            raise
    return len(seeds)
