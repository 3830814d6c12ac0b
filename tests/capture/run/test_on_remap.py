"""One capture on a shared remap, one thing at a time: recipes, what is lost, what is no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.capture import binder as binding
from cdcv2.capture.binder import Binder
from cdcv2.capture.facts import Record
from cdcv2.capture.run.on_remap import SharedCapture, run
from cdcv2.capture.run.plain_tables import PlainTables
from cdcv2.capture.run.remap_loop import RunOptions, RunResult, carry_on
from cdcv2.capture.run.request import CaptureRequest
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.plain import PlainRows
from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    DecodeError, ForeignStateError, IncompleteError, MissingLogError, RefusedError, SourceStop, UnsafeTopicError,
)
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Progress
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.binding import Binding, check_int
from cdcv2.timeline.minting import agree, compact, follow, run as minted
from cdcv2.timeline.ordering import COMMIT_ORDER
from cdcv2.timeline.positions import frontier, places
from cdcv2.timeline.ranges import next_stretch
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.records import Genesis, HoldRecord, Proposal, decode, encode
from cdcv2.timeline.shared_remap import SharedRemap
from tests.remap_in_memory import RemapRecords, closing

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})
A, B = ("topic-a", 0), ("topic-b", 0)


class Topics:
    """Topics that can lose their first records, and that can be recreated."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[Record]] = {}
        self.ids: dict[str, str] = {}
        self.lows: dict[tuple[str, int], int] = {}

    def add(self, place: tuple[str, int], *texts: str, raw: bytes | None = None) -> None:
        """More records, of a topic that has an identity."""
        self.ids.setdefault(place[0], f"id of {place[0]}")
        records = self.records.setdefault(place, [])
        for value in [f'{{"text": "{text}"}}'.encode() for text in texts] + ([raw] if raw is not None else []):
            records.append(Record(*place, len(records), None, value))

    def look(self) -> TopicExtents:
        """As they are."""
        return TopicExtents({at: (self.lows.get(at, 0), len(of)) for at, of in self.records.items()}, dict(self.ids))

    def read(self, ranges: Any) -> Any:
        """Each partition in its order."""
        for place, (low, high) in ranges.items():
            yield from self.records[place][low:high]


class Stage:
    """Topics, a remap and logs, and captures of them; the clock goes on by one at each look."""

    def __init__(self) -> None:
        self.topics, self.remap, self.clock = Topics(), RemapRecords(), 99
        self.logs = {"a": MemoryLog("a"), "b": MemoryLog("b")}

    def now(self) -> int:
        self.clock += 1
        return self.clock

    def binder(
        self, tables: str = "a", *, propose: bool = False, at_first: bool = False, mapping: int = 1, **more: Any
    ) -> Binder:
        recipe = BoundRecipe({table: {"topic": f"topic-{table}", "row": "7"} for table in tables}, timeline="drawn")
        topics = frozenset(f"topic-{table}" for table in tables)
        binder = Binder(self.remap, replace(recipe, mapping=mapping), topics=topics, now=self.now, **more)
        binder.begin(self.topics.look(), needed=topics, propose=propose, at_first=at_first)
        return binder

    def capture(self, binder: Binder, *, at_most: int = 50_000, **more: Any) -> SharedCapture:
        tables = {
            table: (str(of["topic"]), PlainRows(ROWS), Writer(self.logs[table]))
            for table, of in binder.recipe.tables.items()
        }
        return SharedCapture(binder, self.topics, [PlainTables(tables)], at_most=at_most, **more)

    def run(self, tables: str = "a", **more: Any) -> SharedCapture:
        binder = self.binder(tables, **more)
        capture = self.capture(binder)
        run(capture, binder)
        return capture

    def told(self, table: str = "a") -> list[tuple[str, int, int]]:
        batches = Iter(self.logs[table].messages)
        return [(row.text, time, diff) for batch in batches for row, time, diff in batch.updates]


@pytest.fixture
def stage() -> Stage:
    """One topic with two records."""
    stage = Stage()
    stage.topics.add(A, "x", "x")
    return stage


def test_equal_records_are_one_update_and_a_second_run_adds_nothing(stage: Stage) -> None:
    """A multiset; the frontier is behind the binding."""
    first = stage.run()
    (told,) = stage.told()
    again = stage.run()

    assert ("x", 2) == (told[0], told[2])
    assert Antichain([told[1] + 1]) == first.frontier == again.frontier
    assert (2, 0, 2) == (first.records, again.records, len(stage.logs["a"].messages))


def test_what_is_no_row_stops_it_with_everything_before_it_written(stage: Stage) -> None:
    """Also what comes at earlier times in the same stretch; nothing at its time or after."""
    stage.topics.add(A, raw=b"nothing")
    stage.topics.add(A, "y")
    binder = stage.binder(at_most=1)
    for _ in range(4):
        binder.bind(stage.topics.look())
    with pytest.raises(DecodeError, match=r"topic-a\[0\]@2"):
        stage.capture(binder).carry()
    bad = [time for time, _ in binder.remap.bindings()][3]

    assert [("x", 1), ("x", 1)] == [(text, diff) for text, _, diff in stage.told()]
    assert Antichain([bad]) == stage.logs["a"].messages[-1].upper  # type: ignore[union-attr]


def test_a_topic_that_is_not_there_leaves_the_remap_alone(stage: Stage) -> None:
    """One that was there is another matter."""
    with pytest.raises(MissingLogError, match="no topic 'topic-b'"):
        stage.binder("ab")
    assert [] == stage.remap.raws
    stage.run()
    del stage.topics.records[A], stage.topics.ids[A[0]]

    with pytest.raises(UnsafeTopicError, match="topic-a.*is missing.*the logs have everything"):
        stage.run()


def test_what_is_bound_and_gone_is_named_by_its_times(stage: Stage) -> None:
    """Trimmed, cut off, recreated: the times that are lost, and none where the logs have all."""
    binder = stage.binder(at_most=1)
    binder.bind(stage.topics.look())
    binder.bind(stage.topics.look())
    one, other = [time for time, _ in binder.remap.bindings()][1:]
    capture = stage.capture(binder)
    stage.topics.lows[A] = 1
    with pytest.raises(UnsafeTopicError, match=f"at 1, and 0 is wanted.*Lost are rows of the time {one}. Start over"):
        capture.look()
    stage.topics.lows[A] = 2
    with pytest.raises(UnsafeTopicError, match=f"Lost are rows of the times {one} to {other}"):
        capture.look()
    del stage.topics.lows[A]
    stage.topics.records[A].pop()
    with pytest.raises(UnsafeTopicError, match=f"ends at 1, and what stood before 2 is bound.*the time {other}"):
        capture.look()
    stage.topics.add(A, "x")
    stage.topics.ids[A[0]] = "another"
    with pytest.raises(UnsafeTopicError, match=f"was deleted and made again.*{one} to {other}.*as another source"):
        capture.look()
    stage.topics.ids[A[0]] = "id of topic-a"
    while capture.carry():
        pass
    stage.topics.ids[A[0]] = "another"

    with pytest.raises(UnsafeTopicError, match="Of what is bound, the logs have everything"):
        capture.look()


def test_what_its_logs_need_is_held_and_the_rest_forgotten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the remap, at each start and now and then, for its compaction; in memory then, too."""
    monkeypatch.setattr(binding, "HOLD_EVERY", 6)
    stage.topics.add(A, *"abcdefghijkl")
    binder = stage.binder(at_most=1, of="logs")
    capture = stage.capture(binder, at_most=1)
    run(capture, binder)
    upper, known = check_int(capture.frontier.elements[0]), SharedRemap()
    minted(stage.remap, follow(known))

    held = [one.since for one in map(decode, stage.remap.raws) if isinstance(one, HoldRecord)]
    assert [0, upper - 1] == [held[0], held[-1]] and 3 <= len(held) == len(set(held)) <= 5
    assert ({"logs": upper - 1}, upper - 1) == (known.holds, binder.remap.since)
    assert 1 == len(binder.remap) < len(known.remap)
    stage.run(of="logs")
    assert known.next == len(stage.remap.raws), "nothing new is said where nothing is new"

    known.use_recipe(known.recipe.text)
    minted(stage.remap, agree(known, lambda: closing(known)))
    assert Antichain() == stage.run(of="logs").frontier
    minted(stage.remap, follow(known))
    assert {} == known.holds, "finished logs need nothing"


def test_one_that_slept_through_a_compaction_begins_again(stage: Stage) -> None:
    """Where its logs are, which others wrote meanwhile; nothing is written twice, or not at all."""
    asked, said = CaptureRequest({"a": ("topic-a", ROWS)}, {}, COMMIT_ORDER), list[str]()
    slept = list[Binder]()

    def carried(opened: Any) -> RunResult | None:
        how = RunOptions(asked, logs=LogAddress.parse("kafka:cdc.{table}"))
        return carry_on(
            how, stage.remap, stage.topics.look(), opened, check=lambda binder: None, stopping=lambda: False,
            remark=said.append,
        )

    @contextmanager
    def others(binder: Binder) -> Iterator[SharedCapture]:
        yield stage.capture(binder)

    @contextmanager
    def slowly(binder: Binder) -> Iterator[SharedCapture]:
        capture = stage.capture(binder)
        slept.append(binder)
        if len(slept) == 1:
            for text in "yz":
                stage.topics.add(A, text)
                carried(others)
            compacting = SharedRemap()
            minted(stage.remap, follow(compacting))
            minted(stage.remap, compact(compacting, compacting.remap.last))
        yield capture

    came = carried(slowly)

    assert came is not None and (2, 1, True) == (len(slept), len(said), "begins again: the remap was comp" in said[0])
    assert Counter("xxyz") == Counter({text: diff for text, _, diff in stage.told()})
    assert 0 < stage.remap.first


def test_a_topic_made_anew_is_known_after_a_restart(stage: Stage) -> None:
    """Its identity is bound; as is that of one that comes later."""
    stage.run()
    stage.topics.ids[A[0]] = "another"
    with pytest.raises(UnsafeTopicError, match="made again"):
        stage.run()


def test_a_topic_made_anew_is_not_taken_for_the_old_one_by_a_proposal(stage: Stage) -> None:
    """Neither by one that adds another topic, nor by one that first sees the topic when another has bound it."""
    stage.run()
    stage.topics.add(B, "b")
    stage.topics.records[A], stage.topics.ids[A[0]] = [], "another"
    stage.topics.add(A, "n", "n", "n")
    with pytest.raises(UnsafeTopicError, match="'topic-a' was deleted and made again"):
        stage.run("ab", propose=True)
    late = stage.binder("ab")
    late.bind(stage.topics.look())

    assert ("id of topic-a", [("x", 2)]) == (late.bound.topics[A[0]], [one[::2] for one in stage.told()])
    with pytest.raises(UnsafeTopicError, match="'topic-a' was deleted and made again"):
        stage.run("ab")


def test_records_that_are_gone_without_a_time_are_wanted_too(stage: Stage) -> None:
    """They were never bound, so no time is lost; but they were never captured."""
    stage.run()
    stage.topics.add(A, "y", "z")
    stage.topics.lows[A] = 3

    with pytest.raises(UnsafeTopicError, match="begins at 3, and 2 is wanted.*the logs have everything"):
        stage.run()


def test_a_topic_made_anew_while_it_is_read_gives_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records may be those of the other one: they are not stated."""
    binder = stage.binder()
    capture = stage.capture(binder)
    binder.bind(stage.topics.look())
    read = stage.topics.read

    def deleted(ranges: Any) -> Any:
        stage.topics.ids[A[0]] = "another"
        yield from read(ranges)

    monkeypatch.setattr(stage.topics, "read", deleted)
    with pytest.raises(UnsafeTopicError, match="made again.*Lost are rows of the time"):
        while capture.carry():
            pass

    assert [] == stage.told()


def test_a_topic_trimmed_while_it_is_read_is_told_with_its_times(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader only reports that records are missing."""
    binder = stage.binder()
    capture = stage.capture(binder)
    binder.bind(stage.topics.look())

    def trimmed(ranges: Any) -> Any:
        stage.topics.lows[A] = 1
        raise UnsafeTopicError("gone")

    monkeypatch.setattr(stage.topics, "read", trimmed)
    with pytest.raises(UnsafeTopicError, match="begins at 1, and 0 is wanted.*Lost are rows of the time"):
        while capture.carry():
            pass


def test_a_topic_whose_head_is_gone_begins_with_what_is_there(stage: Stage) -> None:
    """If it is asked for when it is first bound; then that is bound, too, and is so for everybody, and for ever."""
    stage.topics.add(A, "y", "z")
    stage.topics.lows[A] = 3
    with pytest.raises(UnsafeTopicError, match="begins at 3, and 0 is wanted.*--begin-at-first"):
        stage.run()
    stage.topics.lows[A] = 2
    stage.binder(at_first=True)
    stage.topics.lows[A] = 3
    stage.run(at_first=True, at_most=1)
    stage.topics.add(A, "w")
    stage.run()
    assert ["z", "w"] == [text for text, _, _ in stage.told()]
    stage.logs["a"] = MemoryLog("a")
    stage.run()
    assert ["z", "w"] == [text for text, _, _ in stage.told()]
    stage.topics.lows[A] = 4
    stage.logs["a"] = MemoryLog("a")

    with pytest.raises(UnsafeTopicError, match="begins at 4, and 3 is wanted.*Lost are rows of the time [^-]*$"):
        stage.run(at_first=True)


def test_a_topic_that_another_has_bound_meanwhile_does_not_begin_anew(stage: Stage, monkeypatch: Any) -> None:
    """Who wants it to begin with what is there sees that when it proposes."""
    one, append = stage.binder(), stage.remap.append
    seen = stage.topics.look()
    stage.topics.lows[A] = 1

    def beaten(raw: bytes, after: int) -> int:
        monkeypatch.undo()
        one.bind(seen)
        return append(raw, after)

    monkeypatch.setattr(stage.remap, "append", beaten)
    other = stage.binder(at_first=True)

    assert ({}, {A: 2}) == (other.bound.begins, places(other.remap.current))


def test_a_topic_that_is_bound_already_does_not_begin_again(stage: Stage) -> None:
    """A proposal that adds another topic has where that one begins, and nothing of the first."""
    stage.run()
    stage.topics.add(B, "b", "c")
    stage.topics.lows |= {A: 1, B: 1}
    stage.run("ab", propose=True, at_first=True)

    assert ({B[0]: {"0": 1}}, ["c"]) == (stage.binder("ab").bound.begins, [text for text, _, _ in stage.told("b")])


# -- recipes


def test_another_recipe_is_refused_before_anything_is_written(stage: Stage) -> None:
    """With what differs, and the option that proposes it."""
    stage.run()
    with pytest.raises(SourceStop, match="mapping is version 2, bound 1.*--propose-recipe"):
        stage.binder(mapping=2)
    with pytest.raises(ForeignStateError, match="no recipe of a capture"):
        stage.remap.raws[0] = encode(Genesis(frontier({}), "something else"))
        stage.binder()


def test_a_table_is_added_by_a_proposal_and_the_old_capture_stops(stage: Stage) -> None:
    """The old one writes up to there, and reports where; the new one goes on, with the new table from there on."""
    stage.topics.add(B, "b")
    old = stage.binder()
    capture = stage.capture(old)
    while old.bind(stage.topics.look()) or capture.carry():
        pass
    stage.topics.add(A, "y")
    old.bind(stage.topics.look())
    new = stage.binder("ab", propose=True)
    behind = stage.capture(new)
    with pytest.raises(IncompleteError, match="times up to [0-9]* are bound under another recipe") as early:
        behind.carry()
    since = int(str(early.value).partition("times up to ")[2].partition(" ")[0])
    old.bind(stage.topics.look())
    assert capture.carry()
    with pytest.raises(SourceStop, match=f"from the time {since}.*'b' is bound, and not captured here") as caught:
        capture.carry()
    assert Antichain([since]) == caught.value.frontier
    assert not old.bind(stage.topics.look())
    stage.topics.add(A, "z")
    stage.run("ab")

    assert ["x", "y", "z"] == [text for text, _, _ in stage.told()]
    ((text, time, _),) = stage.told("b")
    assert ("b", True) == (text, time > since)
    last = [log.messages[-1] for log in stage.logs.values()]
    assert isinstance(last[0], Progress) and isinstance(last[1], Progress) and last[0].upper == last[1].upper


def test_a_table_of_another_topic_goes_on_when_all_of_the_first_one_is_written(stage: Stage) -> None:
    """What the old recipe bound is for a capture with that one to write: it is not stated as nothing."""
    stage.run()
    written, stage.logs["a"] = stage.logs["a"], MemoryLog("a")
    stage.topics.add(B, "b")

    def moved(*, propose: bool = False) -> None:
        binder = Binder(
            stage.remap, BoundRecipe({"a": {"topic": B[0], "row": "7"}}), topics=frozenset([B[0]]), now=stage.now
        )
        binder.begin(stage.topics.look(), needed=[B[0]], propose=propose)
        run(stage.capture(binder), binder)

    with pytest.raises(IncompleteError, match="'a' has topic 'topic-b', bound 'topic-a'"):
        moved(propose=True)
    with pytest.raises(SourceStop, match="'a' has topic 'topic-a', bound 'topic-b'"):
        stage.run()
    moved()

    assert [("x", 2), ("b", 1)] == [(text, diff) for text, _, diff in stage.told()]
    assert written.messages[:2] == stage.logs["a"].messages[:2]


def test_another_row_type_is_not_proposed(stage: Stage) -> None:
    """A log has rows of one type, also if another table was captured in between."""
    stage.run()
    stage.topics.add(B, "b")
    stage.run("b", propose=True)
    raws = list(stage.remap.raws)
    recipe = BoundRecipe({"a": {"topic": A[0], "row": "8"}})
    binder = Binder(stage.remap, recipe, topics=frozenset([A[0]]), now=stage.now)
    with pytest.raises(RefusedError, match="'a' has row '8', bound '7'.*a remap and logs of its own"):
        binder.begin(stage.topics.look(), propose=True)

    assert raws == stage.remap.raws


def test_a_capture_obeys_who_proposes_after_it(stage: Stage) -> None:
    """It asks once; one that is started again with the option asks again."""
    first = stage.binder()
    second = stage.binder(mapping=2, propose=True)
    first.bind(stage.topics.look())
    assert 2 == first.bound.mapping
    third = stage.binder(mapping=3, propose=True)

    assert not second.bind(stage.topics.look()) or 3 == second.bound.mapping
    assert 3 == third.bound.mapping
    with pytest.raises(SourceStop, match="version 2, bound 3"):
        raise second.stopped(second.remap.last, None)


def test_a_topic_that_comes_later_is_bound_with_its_identity(stage: Stage) -> None:
    """Two captures that see it first agree; one that has seen less goes along."""
    stage.topics.add(B, "b")
    seen = stage.topics.ids.pop(B[0])
    one, other, blind = stage.binder("ab"), stage.binder("ab"), stage.binder("ab")
    stage.topics.ids[B[0]] = seen
    look = stage.topics.look()
    one.bind(look)
    other.bind(look)
    blind.bind(replace(look, ids={}))

    assert seen == one.bound.topics[B[0]] == other.bound.topics[B[0]] == blind.bound.topics[B[0]]
    assert 2 == len({raw for raw in stage.remap.raws if b"proposal" in raw and b'"recipe":null' not in raw} | {b""})


# -- logs that are not of this remap


@pytest.mark.parametrize("added", [False, True])
def test_logs_of_another_remap_are_refused(stage: Stage, added: bool) -> None:
    """All that they have would be written again, at other times; also where the table is new to this remap."""
    stage.topics.add(B, "b")
    other = Stage()
    other.topics, other.clock = stage.topics, 1000
    other.run("b" if added else "a")
    stage.run()
    other.logs["a"] = stage.logs["a"]
    before = stage.told()
    with pytest.raises(ForeignStateError, match=f"log a has updates at {before[0][1]}, .* written with another remap"):
        other.run("ab" if added else "a", propose=added)

    assert before == stage.told()


def test_logs_are_known_by_a_remap_that_was_compacted(stage: Stage) -> None:
    """Times that it has forgotten show nothing; later ones are bound, or are not."""
    stage.run()
    stage.topics.add(A, "y")
    stage.run()
    (_, first, _), (_, last, _) = stage.told()
    minted(stage.remap, compact(SharedRemap(), last - 1))
    binder = stage.binder()
    assert first < binder.remap.since
    assert Antichain([last + 1]) == stage.capture(binder).frontier


# -- when something is bound


def test_a_binder_is_of_one_capture(stage: Stage) -> None:
    """What another one has carried would be missing here, and its records would come at a later time."""
    binder = stage.binder(at_most=1)
    binder.bind(stage.topics.look())
    stage.capture(binder).carry()
    binder.bind(stage.topics.look())
    stage.logs["a"] = MemoryLog("a")

    with pytest.raises(RefusedError, match="give each a binder of its own"):
        stage.capture(binder).carry()


def test_bindings_come_at_an_interval_but_for_a_backlog(stage: Stage) -> None:
    """And an idle one decides times without anything new."""
    binder = stage.binder(every=100, idle=1000, at_most=5)
    assert not binder.bind(stage.topics.look())
    stage.clock += 100
    assert binder.bind(stage.topics.look())
    stage.topics.add(A, *"0123456789")
    assert binder.bind(stage.topics.look()) and not binder.caught_up(stage.topics.look().ends)
    assert binder.bind(stage.topics.look()) and binder.caught_up(stage.topics.look().ends)
    stage.clock += 500
    assert not binder.bind(stage.topics.look())
    stage.clock += 500
    before = binder.remap.current
    assert binder.bind(stage.topics.look())

    assert (before, True) == (binder.remap.current, stage.clock - 3 <= binder.remap.last <= stage.clock)


def test_a_clock_that_is_set_back_holds_nothing_up(stage: Stage) -> None:
    """Times go on from the last one; what is waited for is counted from then on."""
    binder = stage.binder(every=100, idle=1000)
    stage.clock = 10_000
    assert binder.bind(stage.topics.look())
    last = binder.remap.last
    stage.topics.add(A, "y")
    stage.clock = 5_000
    assert not binder.bind(stage.topics.look())
    stage.clock += 100

    assert (True, last + 1) == (binder.bind(stage.topics.look()), binder.remap.last)


def test_a_turn_binds_as_much_of_a_backlog_as_it_carries(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bindings of their own size: there are more times then than turns."""
    stage.topics.add(A, *"0123456789")
    ranges: list[Any] = []
    read = stage.topics.read
    monkeypatch.setattr(stage.topics, "read", lambda wanted: [ranges.append(wanted), *read(wanted)][1:])
    binder = stage.binder(at_most=2)
    capture = stage.capture(binder, at_most=9)
    run(capture, binder)

    assert [{A: (0, 8)}, {A: (8, 12)}] == [wanted for wanted in ranges if wanted]
    assert 6 == len({time for _, time, _ in stage.told()})


def test_stretches_take_as_many_bindings_as_fit(stage: Stage) -> None:
    """At least one; each offset at the time of its binding; none of another recipe."""
    binder = stage.binder()
    for number, at in enumerate((2, 3, 9, 9), 1):
        binding = Binding(number, number + 1, frontier({A: at, B: number}))
        stage.remap.append(encode(Proposal(0, binding)), 0)
    binder.follow()
    pending = list(binder.won)[1:]
    first = next_stretch(pending, {}, {A[0]}, 4, lambda text: True)
    whole = next_stretch(pending, {A: 1}, {A[0]}, 100, lambda text: True)

    assert first is not None and ({A: (0, 3)}, 2, Antichain([3])) == (first.ranges, first.bindings, first.upper)
    assert whole is not None and (8, 4, {A: 9}) == (whole.records, whole.bindings, whole.end)
    assert [1, 2, 3, 3] == [whole.into(A, offset) for offset in (1, 2, 3, 8)]
    large = next_stretch(pending[2:], {A: 3}, {A[0]}, 1, lambda text: True)
    assert large is not None and 6 == large.records
    assert next_stretch(pending, {}, {A[0]}, 4, lambda text: False) is None


def test_all_is_carried_when_nothing_that_is_bound_is_left(stage: Stage) -> None:
    """A binding that is not read yet is left, and so is the rest of those that are too many for one turn."""
    stage.topics.add(A, "one", "two", "three")
    binder = stage.binder(at_most=1)
    capture = stage.capture(binder, at_most=1)
    while binder.bind(stage.topics.look()):
        assert not capture.has_carried_all
    carried = []
    while capture.carry():
        carried.append(capture.has_carried_all)

    assert len(carried) > 2
    assert carried == [*[False] * (len(carried) - 1), True]
