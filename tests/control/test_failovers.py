"""What was sent before a server is seen on another timeline decides whether its slot is lost, and nothing later.

Each test is a controller whose server, topics and captures are what the test states. The random one has a server that
knows which commits it lacks.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.cli import up
from cdcv2.connectors.transaction_ends import TransactionEnd, highest_end
from cdcv2.control import pipeline_probe
from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, ExternalObject, Kind, Look, NoAnswer, Reason
from cdcv2.control.external_state import may_be_accepted
from cdcv2.control.past_knowledge import PastKnowledge
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.reconcile import Reconciliation
from cdcv2.control.slot_marks import SlotMark
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import Cdcv2Error, MissingLogError, RefusedError, UnavailableError, UsageError
from tests.control.test_external_state import NOW, entry_of
from tests.control.test_pipeline_needs import Write, write  # noqa: F401
from tests.external_world import MemoryCatalogue

#: A slot of timeline 1, before its server failed.
BEFORE = SlotMark(wal=500, timeline=1, kept=100, flushed=500, confirmed=470)
DENIED = NoAnswer(Reason.DENIED, "the role may not replicate")


class Slots:
    """The kind of slots: each look finds what was stated last."""

    def __init__(self) -> None:
        self.found: Look = NoAnswer(Reason.UNREACHABLE, "away")
        self.looks = 0

    def look(self, _: CatalogueEntry) -> Look:
        """What was stated."""
        self.looks += 1
        return self.found


class Failover:
    """A controller with one slot in use."""

    def __init__(self, *, owned: bool = True, mark: SlotMark = BEFORE) -> None:
        self.now, self.slots = NOW, Slots()
        #: through which the capture has captured, and all ENDs of the topic, in its order
        self.captured: int | None = None
        self.topic = list[int]()
        #: why the topic cannot be read
        self.unread: Cdcv2Error | None = None
        catalogue, kinds = MemoryCatalogue(), dict[Kind, Any]({Kind.SLOT: self.slots})
        catalogue.taken().write([replace(
            entry_of(Kind.SLOT, EntryState.IN_USE, owned=owned), settings={}, applied={}, slot=mark, server="s1",
            identity="id-1", needs=(),
        )])  # fmt: skip
        self.owner: Any = catalogue.taken()
        self.control = Reconciliation(self.owner, kinds, lambda: self.now, lambda *_: self.captured, self._highest)

    def _highest(self, _: str, confirmed: int) -> int | None:
        if self.unread is not None:
            raise self.unread
        ends = [TransactionEnd(0, lsn, None, at) for at, lsn in enumerate(self.topic)]
        found = highest_end(lambda low, high: ends[low:high], 0, len(ends), confirmed)
        return None if found is None else found.lsn

    def turn(self, timeline: int, *, unjudged: NoAnswer | None = None, seconds: float = 61, **more: Any) -> EntryState:
        """A minute later the server is on this timeline; what becomes of the entry."""
        if unjudged is not None:
            more = {**more, "ancestors": None}
        slot = replace(BEFORE, **{"timeline": timeline, "wal": 2000, "flushed": 2000, **more})
        self.slots.found = Answer("s1", ExternalObject("id-1", slot=slot, unjudged=unjudged))
        self.now += seconds
        self.control.round()
        return self.entry.state

    @property
    def entry(self) -> CatalogueEntry:
        """Of the slot."""
        (found,) = self.owner.entries()
        assert isinstance(found, CatalogueEntry)
        return found

    @property
    def owes(self) -> Reason | None:
        """Why something is left."""
        return None if self.entry.debt is None else self.entry.debt.reason


@pytest.mark.parametrize(("topic", "expected"), [
    ([480, 490], EntryState.IN_USE), ([480, 500], EntryState.IN_USE), ([480, 590], EntryState.LOST),
    # A connector that was started again writes some once more.
    ([480, 590, 475, 480], EntryState.LOST), ([], EntryState.IN_USE),
])  # fmt: skip
def test_what_the_topic_has_and_the_timeline_lacks_is_a_loss(topic: list[int], expected: EntryState) -> None:
    """Also where the capture is on a remap, behind, paused or held, and the connector has not confirmed it yet."""
    case = Failover()
    case.topic = topic

    assert expected is case.turn(2, ancestors={1: 500})


def test_a_topic_that_cannot_be_read_is_owed() -> None:
    """The old mark stays: what is read later is compared with the place where the timelines part."""
    for later, expected in (([480], EntryState.IN_USE), ([480, 590], EntryState.LOST)):
        case = Failover()
        case.topic, case.unread = later, UnavailableError("Kafka is away")
        assert EntryState.IN_USE is case.turn(2, ancestors={1: 500})
        assert (Reason.UNREACHABLE, BEFORE) == (case.owes, case.entry.slot)
        assert case.entry.debt is not None and "Kafka is away" in case.entry.debt.text
        case.unread = None
        assert expected is case.turn(2, ancestors={1: 500})


@pytest.mark.parametrize(("topic", "expected"), [([480], EntryState.IN_USE), ([480, 650], EntryState.LOST)])
def test_what_comes_while_the_right_is_missing_is_of_the_new_timeline(topic: list[int], expected: EntryState) -> None:
    """The slot goes on meanwhile, and keeps nothing of before; what the topic had at the first look counts."""
    case = Failover()
    case.topic = topic
    for reader, captured in ((480, 480), (680, 700), (880, 900)):
        case.captured, there = captured, {"wal": reader + 100, "kept": reader - 300, "confirmed": reader}
        assert EntryState.IN_USE is case.turn(2, unjudged=DENIED, **there)
        assert case.owes is Reason.DENIED
        case.topic = [*case.topic, captured + 100]

    assert expected is case.turn(2, wal=1200, kept=800, confirmed=900, ancestors={1: 600})
    if expected is EntryState.IN_USE:
        assert case.entry.slot is not None and (2, None) == (case.entry.slot.timeline, case.entry.slot.fork)


def test_what_was_sent_on_a_timeline_in_between_counts_on_a_third_one() -> None:
    """A standby is promoted, and then another one that lacks what came since; the right is there at the second only."""
    case = Failover()
    case.topic = [480]
    assert EntryState.IN_USE is case.turn(2, unjudged=DENIED, wal=700, kept=400, confirmed=480)
    case.topic = [480, 650]

    assert EntryState.LOST is case.turn(3, wal=900, kept=400, confirmed=480, ancestors={1: 600, 2: 620})


def test_a_slot_that_was_made_while_the_right_was_missing_is_lost() -> None:
    """It keeps nothing of before, and is not seen to be the one of the first look."""
    case = Failover()
    case.turn(2, unjudged=DENIED, wal=700, kept=100)

    assert EntryState.LOST is case.turn(2, wal=1200, kept=900, ancestors={1: 600})


def test_a_server_that_is_back_on_the_old_timeline_is_lost() -> None:
    """What was captured of the other one meanwhile is not there."""
    case = Failover()
    case.turn(2, unjudged=DENIED)

    assert EntryState.LOST is case.turn(1)
    assert not may_be_accepted(case.entry) or "timeline" in _refusal(case)


@pytest.mark.parametrize(("topic", "expected"), [([480], EntryState.IN_USE), ([480, 590], EntryState.LOST)])
def test_what_was_sent_while_no_file_had_the_slot_counts_when_one_has_it_again(
    topic: list[int], expected: EntryState
) -> None:
    """It is compared with what it was when the topics were last read."""
    case, feeds = Failover(owned=False), {"shop.public.t": "public.t"}
    past = PastKnowledge(NOW, feeds, False, "s1", "id-1", None, BEFORE)
    case.owner.write([replace(
        case.entry, state=EntryState.WANTED, slot=None, identity=None, server=None, feeds=feeds, past=(past,)
    )])  # fmt: skip
    case.topic, case.unread = topic, UnavailableError("Kafka is away")
    assert (EntryState.WANTED, Reason.UNREACHABLE) == (case.turn(2, ancestors={1: 500}), case.owes)
    case.unread = None

    assert expected is case.turn(2, ancestors={1: 500})


def test_one_that_is_away_is_looked_at_every_few_seconds() -> None:
    """Before its connector, which waits longer, has sent what was committed on another timeline."""
    case = Failover()
    for _ in range(120):
        case.now += 1
        case.control.round()

    assert case.owes is Reason.UNREACHABLE and case.slots.looks >= 28


def test_an_owned_slot_is_accepted_after_a_false_alarm() -> None:
    """It is the one that was there, on a timeline that goes on from the one of before, and is not invalidated."""
    case = Failover()
    case.topic = [480, 650]
    assert EntryState.LOST is case.turn(2, ancestors={1: 600}) and may_be_accepted(case.entry)
    thing = _thing(case)
    mark = thing.slot
    assert mark is not None
    for refused in (
        replace(thing, identity="id-2"), replace(thing, invalid="wal_removed"), replace(thing, unjudged=DENIED),
        replace(thing, slot=replace(mark, ancestors={})), replace(thing, slot=replace(mark, timeline=1)),
        replace(thing, slot=replace(mark, timeline=3, ancestors={1: 600})), None,
    ):  # fmt: skip
        case.slots.found = Answer("s1", refused)
        assert _refusal(case)
    case.slots.found = Answer("s1", thing)
    case.control.accept([case.entry.nonce])

    assert (EntryState.IN_USE, replace(mark, parted=650)) == (case.entry.state, case.entry.slot)
    assert EntryState.IN_USE is case.turn(2, wal=3000) and case.owes is None
    # What the topic had then may be of the timeline of before, also after the next looks.
    kept = case.entry.slot
    assert kept is not None and (650, kept) == (kept.parted, SlotMark.from_plain(kept.to_plain()))


def test_a_slot_that_was_made_on_the_other_timeline_is_not_accepted() -> None:
    """What was committed between the promotion and that would be in no topic, and compare shows rows alone."""
    case = Failover()
    case.topic = [480, 590]
    assert EntryState.LOST is case.turn(2, ancestors={1: 600}, kept=900, confirmed=900)

    assert "keeps nothing of before the timeline of its server begins" in _refusal(case)


def test_an_owned_slot_that_is_lost_for_anything_else_is_not_accepted() -> None:
    """It has lost what it held."""
    case = Failover()
    case.turn(2, unjudged=DENIED)
    thing = _thing(case)
    case.slots.found = Answer("s1", replace(thing, invalid="wal_removed"))
    case.now += 61
    case.control.round()

    assert EntryState.LOST is case.entry.state and not may_be_accepted(case.entry)
    with pytest.raises(UsageError, match="what can: nothing"):
        case.control.accept([case.entry.nonce])


def _thing(case: Failover) -> ExternalObject:
    assert isinstance(case.slots.found, Answer) and case.slots.found.thing is not None
    return case.slots.found.thing


def _refusal(case: Failover) -> str:
    with pytest.raises(RefusedError) as error:
        case.control.accept([case.entry.nonce])
    return str(error.value)


@pytest.mark.parametrize("remap", [True, False])
def test_the_topics_of_a_capture_are_asked(
    write: Write, monkeypatch: pytest.MonkeyPatch, remap: bool  # noqa: F811
) -> None:
    """By commit times, and on a remap; a topic that is not there yet has nothing."""
    asked = list[tuple[str, int]]()

    class Ends:
        """A topic that answers with what was asked."""

        def __init__(self, _: object, recipe: Any) -> None:
            if self.missing:
                raise MissingLogError("no such topic")
            self.topic = recipe.transaction_topic

        missing = False

        def highest(self, confirmed: int) -> TransactionEnd:
            asked.append((self.topic, confirmed))
            return TransactionEnd(7, 590, None, 3)

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(pipeline_probe, "TransactionEnds", Ends)
    changes = [] if remap else [('into: "kafka:cdc.{table}", remap: "kafka:timeline"', "into: logs")]
    pipeline = read_pipeline(write(*changes))
    assert 590 == pipeline_probe.sent_through(pipeline, "shop", 470) and [("shop.transaction", 470)] == asked
    assert pipeline_probe.sent_through(pipeline, "copy", 470) is None and 1 == len(asked)
    Ends.missing = True
    assert pipeline_probe.sent_through(pipeline, "shop", 470) is None


@pytest.mark.parametrize(("frontiers", "moved", "expected"), [
    ([[5], [501]], 9.0, 500), ([[501]], 8.0, None), ([[501]], None, None), ([], 9.0, None), ([[]], 9.0, None),
    ([[1, 2]], 9.0, None),
])  # fmt: skip
def test_what_a_capture_by_commit_times_has_stated_counts_as_captured(
    write: Write, frontiers: list[list[int]], moved: float | None, expected: int | None  # noqa: F811
) -> None:
    """If it has moved since; on a remap times are no positions of the source."""
    folder = SimpleNamespace(moved_at=lambda: moved, frontiers=lambda: frontiers)
    supervisor: Any = SimpleNamespace(job=lambda _: folder)
    remapped = read_pipeline(write())
    pipeline = read_pipeline(write(('into: "kafka:cdc.{table}", remap: "kafka:timeline"', "into: logs")))

    assert expected == up.captured_since(pipeline, supervisor, "shop", 8.0)
    assert up.captured_since(pipeline, supervisor, "copy", 8.0) is None
    assert up.captured_since(remapped, supervisor, "shop", 8.0) is None


def test_cdcv2_up_compares_with_the_topics_of_its_captures(
    write: Write, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """And with what these have stated."""
    pipeline, asked = read_pipeline(write()), list[tuple[object, ...]]()

    class Ended(Exception):
        """Nothing is done."""

    def control(*arguments: Any) -> Any:
        asked.append((arguments[3]("shop", 0.0), arguments[4]("shop", 470)))
        raise Ended

    monkeypatch.setattr(up, "Reconciliation", control)
    monkeypatch.setattr(up, "captured_since", lambda *given: ("captured", *given[2:]))
    monkeypatch.setattr(up, "sent_through", lambda *given: ("sent", *given[1:]))
    catalogue: Any = SimpleNamespace(session=lambda: nullcontext())
    external: Any = SimpleNamespace(servers=SimpleNamespace(kinds=dict))
    with pytest.raises(Ended), up.at_work(pipeline, catalogue, external, [], Supervisor(pipeline.state)):
        pass

    assert [(("captured", "shop", 0.0), ("sent", "shop", 470))] == asked


class Timelines:
    """A server that fails over, a connector that confirms late, and a topic: it knows which commits are missing."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.wal, self.timeline = chance, 100, 1
        self.topic, self.sent, self.confirmed = list[int](), 100, 100
        self.commits, self.missing, self.left = list[int](), False, 0

    def commit(self) -> None:
        """One, or several."""
        for _ in range(self.chance.randint(1, 4)):
            self.wal += self.chance.randint(1, 9)
            self.commits.append(self.wal)

    def send(self) -> None:
        """What is committed; the connector was perhaps started again, and has forgotten what it did not confirm."""
        if self.chance.random() < 0.3:
            self.sent = self.confirmed
        for lsn in self.commits:
            if lsn > self.sent and self.chance.random() < 0.8:
                self.topic.append(lsn)
                self.sent = lsn
            elif lsn > self.sent:
                break

    def confirm(self) -> None:
        """A transaction that was sent."""
        sent = [lsn for lsn in self.topic if self.confirmed <= lsn <= self.sent]
        self.confirmed = self.chance.choice([self.confirmed, *sent])

    def fail(self) -> None:
        """A standby goes on that has all, or not the last."""
        lacking = self.chance.randint(max(100, self.confirmed - 9), self.wal)
        self.left = self.wal if self.chance.random() < 0.5 else lacking
        self.missing = any(lsn > self.left for lsn in self.topic)
        self.commits = [lsn for lsn in self.commits if lsn <= self.left]
        self.wal, self.timeline, self.sent = self.left, 2, self.confirmed

    def happen(self) -> None:
        """Something."""
        self.chance.choice([self.commit, self.send, self.confirm])()


def test_no_loss_passes_and_a_look_that_comes_first_is_no_false_alarm() -> None:
    """1,000 failovers, with looks that are denied, or cannot read the topic, at any moment."""
    found = {(lost, alarm): 0 for lost in (True, False) for alarm in (True, False)}
    for seed in range(1000):
        chance = Random(seed)
        server, case = Timelines(chance), Failover(mark=replace(BEFORE, wal=100, flushed=100, confirmed=100, kept=90))
        case.topic = server.topic

        def look(*, ready: bool) -> EntryState:
            case.captured = chance.choice([None, *server.topic[-3:]])
            case.unread = None if ready or chance.random() < 0.7 else UnavailableError("Kafka is away")
            history = {1: server.left} if server.timeline == 2 else None
            unjudged = None if ready or history is None or chance.random() < 0.5 else DENIED
            case.topic = server.topic
            return case.turn(
                server.timeline, unjudged=unjudged, wal=server.wal, flushed=server.wal, confirmed=server.confirmed,
                kept=90, ancestors=history,
            )  # fmt: skip

        for _ in range(chance.randrange(12)):
            server.happen()
            if chance.random() < 0.3:
                assert EntryState.IN_USE is look(ready=False)
        server.fail()
        first = chance.random() < 0.5
        if first:
            case.turn(2, unjudged=DENIED, wal=server.wal, flushed=server.wal, confirmed=server.confirmed, kept=90)
            asked = case.entry.slot is not None and case.entry.slot.fork is not None
            first = asked or case.entry.state is EntryState.LOST
        for _ in range(chance.randrange(12)):
            server.happen()
            if chance.random() < 0.3:
                look(ready=False)
        alarm = look(ready=True) is EntryState.LOST

        assert alarm or not server.missing, seed
        assert server.missing or not (first and alarm), seed
        found[server.missing, alarm] += 1

    assert min(found[True, True], found[False, False]) > 100
