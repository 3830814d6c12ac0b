"""A connector that lost its slot took a resnapshot: the logs hold what the tables held, without what was lost."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from cdcv2 import failpoints
from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.memory import CaptureMemory, declares_same
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.facts import Record
from cdcv2.core.antichain import Antichain
from cdcv2.errors import Cdcv2Error, RefusedError, SourceStop, UsageError
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Place
from tests.doubles import GivenRanges, KeptMemory, RecordingLog
from tests.keyed_connector import TABLES, read, recipe
from tests.lost_slots import Topics, World
from tests.steps import RELEASE, killed_anywhere
from tests.timelines import NOTIFICATIONS

Logs = dict[str, RecordingLog]


def opened(logs: Logs, told: Sequence[int], memory: KeptMemory | None = None) -> Capture:
    """The capture, with these resnapshots declared."""
    return Capture(recipe(notification_topic=NOTIFICATIONS, resnapshots=tuple(told)), logs, memory=memory)


def feed(capture: Capture, topics: Topics, chance: random.Random, often: float = 0.3) -> None:
    """Read all topics from the capture's positions on, releasing now and then, and in the end."""
    for record in read(topics, chance, capture.positions()):
        capture.absorb(record)
        if capture.needs_ends:
            capture.ends_read({place: len(records) for place, records in topics.items()})
        if chance.random() < often:
            capture.release()
    capture.ended()
    capture.release()


class GivenTopics:
    """Topics for a capture at work."""

    def __init__(self, topics: Topics, chance: random.Random) -> None:
        self._topics, self._chance = topics, chance

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Record]:
        """From there on, in any order of the partitions."""
        return read(self._topics, self._chance, dict(positions))

    def identities(self) -> dict[str, str]:
        """None."""
        return {}

    def ranges(self, topic: str) -> GivenRanges:
        """The topic."""
        return GivenRanges(record for place, records in self._topics.items() if place[0] == topic for record in records)

    def ends(self) -> dict[Place, int]:
        """Of all partitions."""
        return {place: len(records) for place, records in self._topics.items()}

    def topics(self) -> list[str]:
        """Not asked here."""
        return []

    known_topics = topics

    def unread(self) -> int:
        """None."""
        return 0

    def waits(self) -> None:
        """Nothing."""

    def let_wait(self, is_ahead: object) -> None:
        """Not at all."""


def check(world: World, logs: Logs) -> None:
    """The logs have what the judge has, each fact once, stated up to the last."""
    updates, frontier = world.wanted()
    for table, log in logs.items():
        reader = Iter(log.durable)
        said = [(tuple(row), time, diff) for batch in reader for row, time, diff in batch.updates]
        assert len(said) == len(set(said))
        assert not reader.missing()
        assert updates[table] == set(said)
        assert Antichain([frontier]) == reader.frontier


def new_logs() -> Logs:
    """One empty log per table."""
    return {table: RecordingLog() for table in TABLES}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3))
def test_what_was_lost_with_a_slot_is_healed_in_any_order_of_reading(seed: int, slots: int) -> None:
    """Nothing above a declared resnapshot is released before it, and what is not whole then is superseded."""
    chance = random.Random(seed)
    world = World(chance, slots)
    logs = new_logs()
    feed(opened(logs, world.told), world.topics, chance)
    check(world, logs)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3), st.sampled_from([1, 3, 50, 2000]), st.sampled_from(["kept", "lost"]))
def test_an_end_that_is_lost_before_a_resnapshot_is_healed_however_much_is_read_at_once(
    seed: int, slots: int, every: int, memory: str
) -> None:
    """It stops nothing, before the resnapshot is read or behind it, and nor does it when the capture is killed."""
    chance = random.Random(seed)
    world = World(chance, slots)
    assume(world.lose_an_end())
    kept = KeptMemory()

    def life(logs: Logs) -> None:
        run(opened(logs, world.told, kept), GivenTopics(world.topics, chance), release_every=every)

    logs = killed_anywhere(chance, memory, new_logs(), kept, life)
    logs = {table: log.again() for table, log in logs.items()}
    life(logs)
    check(world, logs)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["kept", "lost", "older"]))
def test_crashes_anywhere_change_nothing(seed: int, memory: str) -> None:
    """At any step, any number of times, with the memory kept, lost or set back."""
    chance = random.Random(seed)
    world = World(chance, chance.randint(2, 3))
    kept = KeptMemory()
    logs = killed_anywhere(
        chance, memory, new_logs(), kept, lambda logs: feed(opened(logs, world.told, kept), world.topics, chance)
    )
    logs = {table: log.again() for table, log in logs.items()}
    feed(opened(logs, world.told, kept), world.topics, chance)
    check(world, logs)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["kept", "lost"]))
@example(1233354, True, "lost")
def test_one_that_stopped_at_it_goes_on_when_told_or_refuses(seed: int, at_work: bool, memory: str) -> None:
    """The run without a declaration stops; with it, the logs become what they must, or were beyond it before.

    ``at_work`` before the slot was lost; else it reads all of it at once.
    """
    chance = random.Random(seed)
    world = World(chance)
    logs, kept = new_logs(), KeptMemory()
    if at_work:
        with suppress(SourceStop):  # of what cannot be known, as the end of the slot is not all there
            feed(opened(logs, (), kept), world.stages[0], chance)
    for _ in range(2):
        logs = {table: log.again() for table, log in logs.items()}
        # Without its memory it may find that the logs begin at another snapshot than the first one that it reads.
        with pytest.raises(SourceStop if kept.plain else RefusedError):
            feed(opened(logs, (), kept), world.topics, chance)
        kept.plain = kept.plain if memory == "kept" else None
    beyond = min(map(_known, logs.values())) > world.told[0]
    logs = {table: log.again() for table, log in logs.items()}
    if beyond:
        # Read before the first one it may have passed for that: then it is part of the logs.
        assume(not any(time == world.told[0] for log in logs.values() for time in _times(log)))
        with pytest.raises(RefusedError, match="declared too late"):
            opened(logs, world.told, kept)
        return
    feed(opened(logs, world.told, kept), world.topics, chance)
    check(world, logs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["kept", "lost"]))
@example(115705393, "lost")
def test_told_once_it_must_be_told_always(seed: int, memory: str) -> None:
    """A run that no longer declares it stops and names the option; nothing is written; with it, the run resumes."""
    chance = random.Random(seed)
    world = World(chance)
    logs, kept = new_logs(), KeptMemory()
    feed(opened(logs, world.told, kept), world.topics, chance)
    logs = {table: log.again() for table, log in logs.items()}
    if memory == "lost":
        kept.plain = None
    with pytest.raises(Cdcv2Error) as refused:
        run(opened(logs, (), kept), GivenTopics(world.topics, chance))
    assert "captured with --snapshot-again" in str(refused.value) and str(world.told[0]) in str(refused.value)
    check(world, logs)
    feed(opened(logs, world.told, kept), world.topics, chance)
    check(world, logs)


NAMED = re.compile(r"continue with --snapshot-again ([0-9,]+) ")


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3), st.sampled_from(["kept", "lost", "older"]))
def test_who_does_what_the_line_says_arrives(seed: int, slots: int, memory: str) -> None:
    """At work as slots are lost, killed now and then: each stop names the next LSN, unless it is too late for it."""
    chance = random.Random(seed)
    world = World(chance, slots)
    arrives(world, (*world.stages, world.topics, world.topics), chance, memory, new_logs(), KeptMemory())


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["kept", "lost", "older"]))
def test_who_does_what_the_line_of_a_lost_end_says_arrives(seed: int, memory: str) -> None:
    """It names the resnapshot, once there is one: when that is declared, it makes up for that END."""
    chance = random.Random(seed)
    world = World(chance)
    assume(world.lose_an_end())
    logs, kept = new_logs(), KeptMemory()
    with suppress(SourceStop):
        run(opened(logs, (), kept), GivenTopics(world.stages[0], chance), release_every=chance.choice((1, 5, 100)))
    arrives(world, (world.topics, world.topics), chance, memory, logs, kept)


def arrives(
    world: World, stages: Iterable[Topics], chance: random.Random, memory: str, logs: Logs, kept: KeptMemory
) -> None:
    """Who does what the lines state gets what the judge has."""
    told = list[int]()
    for topics in stages:
        for _ in range(20):
            logs = {table: log.again() for table, log in logs.items()}
            kept.plain = {"kept": kept.plain, "lost": None, "older": chance.choice(kept.older)}[memory]
            every = chance.choice((1, 5, 100))
            try:
                with failpoints.placed(chance.choice(RELEASE), nth=chance.randint(1, 6)):
                    run(opened(logs, told, kept), GivenTopics(topics, chance), release_every=every)
                    break
            except failpoints.PlacedCrash:
                continue
            except RefusedError as stop:
                named = NAMED.search(str(stop))
                if named is None:
                    assert min(map(_known, logs.values())) > next(lsn for lsn in world.told if lsn not in told)
                    return
                told = [int(lsn) for lsn in named[1].split(",")]
    assert world.told == told
    check(world, {table: log.again() for table, log in logs.items()})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_wrong_lsn_writes_nothing_that_is_wrong(seed: int, at_work: bool) -> None:
    """It is refused, or nothing is released behind it; with the right one declared, the capture goes on."""
    chance = random.Random(seed)
    world = World(chance)
    logs, kept = new_logs(), KeptMemory()
    if at_work:
        run(opened(logs, (), kept), GivenTopics(world.stages[0], chance))
    wrong = chance.choice([lsn for lsn, *_ in world.history[1:] if lsn < world.told[0]] or [1000])
    wrong = min(wrong + chance.choice((0, 0, 1, 3)), world.told[0] - 1)
    assume(wrong > 1000)
    for _ in range(2):
        logs = {table: log.again() for table, log in logs.items()}
        with pytest.raises(RefusedError):
            run(opened(logs, (wrong,), kept), GivenTopics(world.topics, chance), release_every=chance.choice((1, 50)))
    logs = {table: log.again() for table, log in logs.items()}
    try:
        opened(logs, world.told, kept)
    except RefusedError as refused:
        assert f"captured with --snapshot-again {wrong}, " in str(refused) and "remove the memory" in str(refused)
        kept.plain = None
    feed(opened(logs, world.told, kept), world.topics, chance)
    check(world, logs)


STARTED, COMPLETED = ("STARTED", None, None), ("COMPLETED", None, None)
SCANNED = ("TABLE_SCAN_COMPLETED", "t", 2)


@pytest.mark.parametrize(("said", "rows", "stops"), [
    ([STARTED, SCANNED, STARTED], 2, "began its snapshot twice (notification STARTED at offset 5, before COMPLETED)"),
    ([STARTED, ("ABORTED", None, None)], 2, "aborted its snapshot (notification ABORTED at offset 4)"),
    ([STARTED, SCANNED, COMPLETED, STARTED], 2, "has begun a second snapshot"),
    ([STARTED, COMPLETED], 0, "do not state how many rows of t the snapshot scanned, of the snapshot at 90"),
    ([STARTED, SCANNED, COMPLETED], 3, "3 snapshot rows of t, but its notification states 2, of the snapshot at 90"),
    ([STARTED, ("TABLE_SCAN_COMPLETED", "t", 0), COMPLETED], 0, "without a row"),
])  # fmt: skip
def test_what_is_no_whole_snapshot_stops_and_is_never_mixed(said: list[Any], rows: int, stops: str) -> None:
    """Broken off, unannounced, with more rows than it stated, or with none: everything before it stands."""
    commits = CommitTransactions(["t"], notifications=True, again=[90])
    for at, one in enumerate([STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED, *said]):
        commits.notification(*one, at)
    commits.snapshot_rows("t", 10, 1)
    commits.end(1, 20, {})
    commits.end(2, 95, {})
    if rows:
        commits.snapshot_rows("t", 90, rows)
    commits.ends_read({("t", 0): 1})
    commits.snapshots.consumed({("t", 0): 1})
    release = commits.ready()
    assert release is not None and release.again is None and release.through == 20
    commits.settle(release)
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and stops in stop.reason


def test_what_is_told_must_be_possible() -> None:
    """Only where old rows come from the state, by LSNs that grow, with notifications."""
    with pytest.raises(UsageError, match="notification topic"):
        recipe(resnapshots=(5,))
    for lsns in ((5, 5), (7, 5), (0,)):
        with pytest.raises(UsageError, match="positive and grow"):
            recipe(resnapshots=lsns, notification_topic="n")
    with pytest.raises(UsageError, match="snapshot initial"):
        recipe(resnapshots=(5,), notification_topic="n", snapshot="none")
    with pytest.raises(UsageError, match="from-state"):
        replace(recipe(resnapshots=(5,), notification_topic="n"), before="from-envelope")


@pytest.mark.parametrize(("said", "lsn", "stops"), [
    ([STARTED, STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED], 10, "began its snapshot twice"),
    ([STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED], 95, "the first snapshot is at 95, not before that at 90"),
])  # fmt: skip
def test_a_first_snapshot_that_is_not_the_first_is_not_given_out(said: list[Any], lsn: int, stops: str) -> None:
    """Started twice, its slot was there; and what comes behind a declared one is not the first."""
    commits = CommitTransactions(["t"], notifications=True, again=[90])
    for at, one in enumerate(said):
        commits.notification(*one, at)
    commits.snapshot_rows("t", lsn, 1)
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and stops in stop.reason


def test_a_told_lsn_is_that_of_no_transaction() -> None:
    """Taken for released, it would let through what is behind the snapshot that was meant."""
    commits = CommitTransactions(["t"], notifications=True, known=91, again=[90])
    commits.end(1, 90, {})
    commits.end(2, 95, {})
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and "transaction 1 was committed at 90, declared" in stop.reason


def test_a_snapshot_that_is_released_had_rows() -> None:
    """Also one that another run released; without any, only the declaration shows that it was at that LSN."""
    commits = CommitTransactions(["t"], notifications=True, known=91, again=[90])
    first = [STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED]
    for at, one in enumerate([*first, STARTED, ("TABLE_SCAN_COMPLETED", "t", 0), COMPLETED]):
        commits.notification(*one, at)
    stop = commits.stopped()
    assert stop is not None and "without a row" in stop.reason


def test_nothing_is_released_while_the_lsn_of_a_new_snapshot_is_not_known() -> None:
    """It would be without what was lost; once a row is found, what was committed before it is released."""
    commits = CommitTransactions(["t"], notifications=True)
    for at, one in enumerate([STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED]):
        commits.notification(*one, at)
    commits.snapshot_rows("t", 10, 1)
    release = commits.ready()
    assert release is not None
    commits.settle(release)
    commits.notification(*STARTED, 3)
    commits.end(1, 20, {})
    commits.end(2, 95, {})
    assert commits.searches_resnapshot and commits.ready() is None
    assert "--snapshot-again LSN " in str(commits.stopped())
    commits.snapshot_found(90)
    release = commits.ready()
    assert release is not None and 20 == release.through
    assert "--snapshot-again 90 " in str(commits.stopped())


def test_the_first_transaction_of_a_new_slot_spoils_no_memory_for_what_is_told() -> None:
    """Its rows name no commit, as if it had come before the first one that is released; taken up to then."""
    commits = CommitTransactions(["t"], notifications=True)
    for at, one in enumerate([STARTED, ("TABLE_SCAN_COMPLETED", "t", 1), COMPLETED]):
        commits.notification(*one, at)
    commits.snapshot_rows("t", 10, 1)
    commits.end(1, 20, {})
    release = commits.ready()
    assert release is not None
    commits.settle(release)
    assert commits.is_repeat(None, 7)
    assert commits.lost
    plain = json.loads(json.dumps(commits.export()))
    kept = CaptureMemory(plain, {}, {}, {})
    assert declares_same(kept, ()) and not declares_same(kept, (90,))
    again = CommitTransactions.restore(plain, ["t"], notifications=True, known=21)
    assert again.ready() is None
    assert "the END of transaction 7 is missing" in str(again.stopped()) and "start over" in str(again.stopped())
    again.snapshot_found(90)
    assert "continue with --snapshot-again 90 " in str(again.stopped())


def test_rows_that_nobody_told_of_stop_it_and_name_their_lsn() -> None:
    """Also behind a declared one."""
    commits = CommitTransactions(["t"], notifications=True, known=91, again=[90])
    commits.snapshot_rows("t", 90, 1)
    assert commits.stopped() is None, "a repeat"
    commits.snapshot_read("t", 120, ("t", 0), 0)
    stop = commits.stopped()
    assert stop is not None and "--snapshot-again 90,120 " in str(stop)


def _times(log: RecordingLog) -> set[Any]:
    return {time for batch in Iter(log.durable) for _, time, _ in batch.updates}


def _known(log: RecordingLog) -> int:
    frontier = Iter(log.durable)
    for _ in frontier:
        pass
    return int(frontier.frontier.elements[0])
