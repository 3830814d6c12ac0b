"""One capture's part in a shared remap, step by step: what it appends, when it waits, and whose recipe holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.capture import binder as module
from cdcv2.capture.binder import BOUND, OTHER_LOGS, Binder
from cdcv2.capture.topics import TopicExtents
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, MissingLogError, RefusedError, SourceStop
from cdcv2.failpoints import PlacedCrash
from cdcv2.protocol.log import Place
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.minting import agree, run
from cdcv2.timeline.partitioned import NOT_STARTED
from cdcv2.timeline.positions import frontier, places
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.records import Genesis, HoldRecord, Proposal, Record, decode
from cdcv2.timeline.shared_remap import SharedRemap
from tests.remap_in_memory import RemapRecords, closing

A, B = ("topic-a", 0), ("topic-b", 0)
NOTHING_NEW = TopicExtents({})


class Stage(RemapRecords):
    """A remap in memory, and the clock of the timeline, which goes on by ``ticks`` at each look."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.ticks = 100, 0

    def append(self, raw: bytes, after: int) -> int:
        """At the end. What is void again and again never ends: no test needs so many."""
        assert after <= len(self.raws) < 50
        return super().append(raw, after)

    def trim(self, before: int) -> None:
        """Never."""
        raise AssertionError

    def now(self) -> int:
        """The clock."""
        self.clock += self.ticks
        return self.clock

    def records(self) -> list[Record]:
        """All that was appended."""
        return [decode(raw, number) for number, raw in enumerate(self.raws)]

    def binder(self, recipe: BoundRecipe | str = "a", **more: Any) -> Binder:
        """Of a recipe, or of plain tables; not begun."""
        recipe = plain(recipe) if isinstance(recipe, str) else recipe
        topics = frozenset(str(of.get("topic", f"bank.{name}")) for name, of in recipe.tables.items())
        return Binder(self, recipe, topics=topics, now=self.now, **more)

    def begun(self, recipe: BoundRecipe | str = "a", *, propose: bool = False, **more: Any) -> Binder:
        """One that has begun, with topics of which nothing is known."""
        binder = self.binder(recipe, **more)
        binder.begin(NOTHING_NEW, propose=propose)
        return binder

    def close(self) -> None:
        """All times are decided."""
        shared = SharedRemap(NOT_STARTED, recipe="")
        run(self, agree(shared, lambda: None))
        shared.use_recipe(shared.recipe.text)
        run(self, agree(shared, lambda: closing(shared)))


@pytest.fixture
def stage() -> Stage:
    """An empty remap at the time 100."""
    return Stage()


def plain(tables: str = "a", **more: Any) -> BoundRecipe:
    """Each table is a topic."""
    return BoundRecipe({table: {"topic": f"topic-{table}", "row": "7"} for table in tables}, **more)


def seen(ends: Mapping[Place, int], lows: Mapping[Place, int] | None = None, **ids: str) -> TopicExtents:
    """Topics that end there."""
    spans = {place: ((lows or {}).get(place, 0), end) for place, end in ends.items()}
    return TopicExtents(spans, {f"topic-{name}": of for name, of in ids.items()})


def parsed(text: str | None) -> BoundRecipe:
    """A recipe that was appended."""
    assert text is not None
    return BoundRecipe.parse(text)


# -- beginning


def test_the_first_one_starts_the_remap_under_its_recipe(stage: Stage) -> None:
    """With what is known of the topics; nothing of them is bound."""
    binder = stage.binder(plain(timeline="drawn"), name="one", of="logs")
    binder.begin(seen({A: 4}, a="id"))
    (genesis,) = stage.records()

    assert isinstance(genesis, Genesis) and (NOT_STARTED, "one") == (genesis.start, genesis.by)
    assert plain(timeline="drawn", topics={"topic-a": "id"}) == parsed(genesis.recipe) == binder.bound
    assert plain(timeline="drawn", topics={"topic-a": "id"}) == binder.recipe and binder.is_ours
    assert [genesis.recipe] == [recipe.text for recipe in binder.recipes]
    assert [0] == [won.position for won in binder.won]
    assert ({}, 0) == (places(binder.remap.current), binder.remap.last)


def test_another_one_takes_over_the_name_of_the_timeline(stage: Stage) -> None:
    """Its own name is no difference, and nothing is appended."""
    first = stage.begun(plain(timeline="drawn"))
    other = stage.begun(plain(timeline="other"))

    assert 1 == len(stage.raws) and "drawn" == other.recipe.timeline == first.recipe.timeline and other.is_ours
    assert list(first.won) == list(other.won)


@pytest.mark.parametrize("needed, missing", [
    (["topic-a"], None), (["topic-a", "topic-c", "topic-b"], "topic-b"), (["topic-c"], "topic-c"), ([], None),
])
def test_a_topic_that_never_was_there_is_named(stage: Stage, needed: list[str], missing: str | None) -> None:
    """The first one by name, and nothing is appended."""
    binder = stage.binder("abc")
    if missing is None:
        return binder.begin(seen({A: 1}), needed=needed)
    with pytest.raises(MissingLogError, match=f"there is no topic '{missing}'"):
        binder.begin(seen({A: 1}), needed=needed)

    assert [] == stage.raws
    return None


def test_a_topic_that_was_there_may_be_missing(stage: Stage) -> None:
    """What is bound of it may be written already."""
    stage.begun().bind(seen({A: 1}))
    stage.binder().begin(NOTHING_NEW, needed=["topic-a"])
    with pytest.raises(MissingLogError, match="no topic 'topic-b'"):
        stage.binder("ab").begin(NOTHING_NEW, needed=["topic-a", "topic-b"])


def test_topics_that_have_lost_records_begin_where_they_begin_now(stage: Stage) -> None:
    """Plain ones, on request; a database is read from its first record or not at all."""
    recipe = BoundRecipe({"a": {"topic": "topic-a", "row": "7"}, "t": {"database": "bank", "row": "7"}}, {"bank": {}})
    lows = {A: 3, ("topic-a", 1): 0, ("bank.t", 0): 5, B: 2}
    look = TopicExtents({place: (low, 9) for place, low in lows.items()})
    binder = stage.binder(recipe)
    binder.begin(look, at_first=True)

    assert {"topic-a": {"0": 3}} == binder.recipe.begins == binder.bound.begins
    assert {A: (3, 9), ("topic-a", 1): (0, 9), ("bank.t", 0): (0, 9)} == binder.unbound(look.ends)
    assert 24 == binder.behind(look.ends)
    other = Stage().binder(recipe)
    other.begin(look)
    assert {} == other.recipe.begins


def test_a_topic_of_which_nothing_is_bound_begins_later(stage: Stage) -> None:
    """Where it begins at the later start; of one that is bound nothing may be left out any more."""
    binder = stage.binder()
    binder.begin(seen({A: 9}, {A: 3}), at_first=True)
    later = stage.binder()
    later.begin(seen({A: 9}, {A: 5}), at_first=True)

    assert {"topic-a": {"0": 5}} == later.bound.begins == later.recipe.begins
    assert isinstance(stage.records()[-1], Proposal) and 2 == len(stage.raws)
    later.bind(seen({A: 9}, {A: 5}))
    last = stage.binder()
    last.begin(seen({A: 9}, {A: 7}), at_first=True)
    assert {"topic-a": {"0": 5}} == last.bound.begins == last.recipe.begins and 3 == len(stage.raws)


def test_where_a_topic_begins_is_not_proposed_under_another_recipe(stage: Stage) -> None:
    """A capture of an earlier recipe writes what was bound under that, and appends nothing."""
    stage.begun()
    stage.begun(plain(mapping=9), propose=True)
    before = list(stage.raws)
    stage.binder().begin(seen({A: 9}, {A: 5}), at_first=True)

    assert before == stage.raws


# -- another recipe


def test_without_a_request_another_recipe_is_not_proposed(stage: Stage) -> None:
    """The capture stops, and names what is different."""
    stage.begun()
    with pytest.raises(SourceStop, match="from the time 0 on .* the mapping is version 9, bound 2") as stopped:
        stage.begun(plain(mapping=9))

    assert 1 == len(stage.raws) and stopped.value.frontier is None


def test_another_recipe_is_proposed_on_request(stage: Stage) -> None:
    """Once, from the first time on that is not decided, after it was checked; the first capture then stops."""
    first, checked = stage.begun(), list[int]()
    first.bind(seen({A: 2}))
    binder = stage.binder(plain(mapping=9), name="two")
    binder.begin(NOTHING_NEW, propose=True, check=lambda: checked.append(len(stage.raws)))

    assert [2] == checked and 3 == len(stage.raws) and binder.is_ours and 9 == binder.bound.mapping
    proposed = stage.records()[-1]
    assert isinstance(proposed, Proposal) and 9 == parsed(proposed.recipe).mapping and "two" == proposed.by
    assert Binding(101, 102, frontier({A: 2})) == proposed.binding
    assert [0, 101] == [recipe.since for recipe in binder.recipes]
    assert first.bind(seen({A: 3})) and not first.is_ours and 3 == len(stage.raws)
    assert not first.bind(seen({A: 3})) and 3 == len(stage.raws)
    binder.begin(NOTHING_NEW, propose=True, check=lambda: checked.append(0))
    assert [2] == checked and 3 == len(stage.raws), "it is ours already"


def test_what_does_not_pass_the_check_is_not_proposed(stage: Stage) -> None:
    """The error is the check's."""
    stage.begun()

    def refuse() -> None:
        raise RefusedError("no")

    with pytest.raises(RefusedError, match="^no$"):
        stage.binder(plain(mapping=9)).begin(NOTHING_NEW, propose=True, check=refuse)
    assert 1 == len(stage.raws)


def test_a_recipe_that_no_logs_could_follow_is_refused(stage: Stage) -> None:
    """Also if it is unlike an earlier one only."""
    stage.begun()
    stage.begun("b", propose=True)
    before = list(stage.raws)
    other = BoundRecipe({"a": {"topic": "topic-a", "row": "8"}})
    with pytest.raises(RefusedError, match=f"'a' has row '8', bound '7'. Run the .*or {OTHER_LOGS}"):
        stage.begun(other, propose=True)

    assert before == stage.raws


def test_a_capture_of_an_earlier_recipe_may_begin(stage: Stage) -> None:
    """To write what was bound under it; it binds nothing."""
    stage.begun()
    stage.begun("b", propose=True)
    first = stage.begun()
    before = list(stage.raws)

    assert not first.is_ours and not first.bind(seen({A: 2})) and before == stage.raws
    with pytest.raises(SourceStop):
        stage.begun("c")


def test_a_part_under_another_recipe_binds_nothing(stage: Stage) -> None:
    """It reads the same remap by the same clock."""
    binder = stage.begun(at_most=7)
    binder.bind(seen({A: 2}))
    part = binder.under(plain("b"))
    with pytest.raises(SourceStop):
        part.begin(NOTHING_NEW)
    part = binder.under(plain())
    part.begin(seen({A: 4}))
    before = list(stage.raws)

    assert not part.bind(seen({A: 4})) and {} == part.unbound({A: 4}) and 7 == part.at_most
    part.hold(0)
    assert before == stage.raws and part.remap.current == binder.remap.current


# -- binding


def test_what_was_observed_is_bound(stage: Stage) -> None:
    """Of the topics that are captured, at the time of the clock; once."""
    binder = stage.begun(name="one")
    assert binder.bind(seen({A: 2, B: 5}))
    (_, proposal) = stage.records()

    assert Proposal(0, Binding(1, 101, frontier({A: 2})), None, "one") == proposal
    assert [(0, 0), (1, 100)] == [(won.position, won.binding.into) for won in binder.won]
    assert not binder.bind(seen({A: 2, B: 5})) and not binder.bind(seen({A: 1})) and 2 == len(stage.raws)
    assert binder.caught_up({A: 2, B: 5}) and not binder.caught_up({A: 3})


def test_a_moving_clock_binds_once(stage: Stage) -> None:
    """Each look has a later time; nothing is left to bind after the first one."""
    stage.ticks = 1
    binder = stage.begun(idle=0)
    assert binder.bind(seen({A: 2})) and 2 == len(stage.raws)

    assert binder.bind(seen({A: 2})) and 3 == len(stage.raws)


def test_the_remap_may_be_moved_by_others(stage: Stage) -> None:
    """What they have bound is not bound again."""
    one, other = stage.begun(), stage.begun()
    assert other.bind(seen({A: 2}))
    one.won.clear()

    assert one.bind(seen({A: 2})) and 2 == len(stage.raws) and [100] == [won.binding.into for won in one.won]
    assert not one.bind(seen({A: 2}))


def test_a_binding_covers_so_many_records(stage: Stage) -> None:
    """The rest is for the next ones."""
    binder = stage.begun(at_most=3)
    look = seen({A: 7})
    assert [True, True, True, False] == [binder.bind(look) for _ in range(4)]

    assert [3, 6, 7] == [places(one.binding.frontier)[A] for one in stage.records() if isinstance(one, Proposal)]


def test_without_another_word_a_binding_covers_a_hundred_thousand(stage: Stage) -> None:
    """A capture holds them in memory."""
    binder = stage.begun()
    binder.bind(seen({A: 250_000}))

    assert {A: 100_000} == places(binder.remap.current) and 100_000 == binder.at_most


def test_few_records_wait_for_the_next_binding(stage: Stage) -> None:
    """For the least time since the remap moved; as many as one binding covers do not wait."""
    binder = stage.begun(every=10, at_most=5)
    stage.clock = 109
    assert not binder.bind(seen({A: 4}))
    stage.clock = 110
    assert binder.bind(seen({A: 4}))
    stage.clock = 119
    assert not binder.bind(seen({A: 8}))
    assert binder.bind(seen({A: 9}))

    assert not binder.bind(seen({A: 9, ("topic-a", 1): 4})) and binder.bind(seen({A: 12, ("topic-a", 1): 2}))


def test_records_before_the_beginning_of_a_topic_do_not_count(stage: Stage) -> None:
    """They are lost, and no part of what waits."""
    binder = stage.binder(every=10, at_most=5)
    binder.begin(seen({A: 9}, {A: 6}), at_first=True)

    assert 3 == binder.behind({A: 9}) and not binder.bind(seen({A: 9}, {A: 6})) and binder.bind(seen({A: 11}, {A: 6}))
    assert not binder.caught_up({A: 12}) and binder.caught_up({A: 11, B: 3})
    assert {A: (11, 12)} == binder.unbound({A: 12, B: 3})
    assert {} == binder.unbound({A: 11}) == binder.unbound({A: 10})


def test_a_clock_that_was_set_back_does_not_stop_it(stage: Stage) -> None:
    """It waits as long as ever, and not until the clock is where it was."""
    binder = stage.begun(every=10)
    stage.clock = 50
    assert not binder.bind(seen({A: 4}))
    stage.clock = 59
    assert not binder.bind(seen({A: 4}))
    stage.clock = 60

    assert binder.bind(seen({A: 4}))


def test_what_others_bind_begins_the_wait(stage: Stage) -> None:
    """The time counts from the last move of the remap as it was seen."""
    one, other = stage.begun(every=10), stage.begun()
    stage.clock = 108
    other.bind(seen({A: 1}))
    one.follow()
    stage.clock = 117
    assert not one.bind(seen({A: 2}))
    stage.clock = 118

    assert one.bind(seen({A: 2}))


def test_reading_nothing_new_does_not_begin_the_wait(stage: Stage) -> None:
    """A capture that looks often would wait for ever."""
    binder = stage.begun(every=10)
    for stage.clock in (105, 109):
        binder.follow()
        assert not binder.bind(seen({A: 2}))
    stage.clock = 110

    assert binder.bind(seen({A: 2}))


def test_times_without_anything_new_are_decided(stage: Stage) -> None:
    """After a while, up to the clock; without a number never."""
    binder = stage.begun(idle=20)
    stage.clock = 119
    assert not binder.bind(NOTHING_NEW)
    stage.clock = 120
    assert binder.bind(NOTHING_NEW) and [121] == list(binder.remap.upper)
    assert not binder.bind(NOTHING_NEW)
    never = stage.begun()
    stage.clock = 10**6

    assert not never.bind(NOTHING_NEW) and 2 == len(stage.raws)


def test_a_time_that_goes_on_is_decided_once(stage: Stage) -> None:
    """Up to where the clock was when it was found out."""
    binder = stage.begun(idle=20)
    stage.clock, stage.ticks = 150, 1
    assert binder.bind(NOTHING_NEW)

    assert 2 == len(stage.raws)


def test_times_are_not_decided_past_records_that_wait(stage: Stage) -> None:
    """They would come later than they need."""
    binder = stage.begun(every=50, idle=20)
    stage.clock = 130

    assert not binder.bind(seen({A: 1})) and 1 == len(stage.raws)


def test_a_finished_remap_is_left_alone(stage: Stage) -> None:
    """No time is left to bind at."""
    binder = stage.begun(idle=0)
    stage.close()
    before = list(stage.raws)

    assert binder.bind(seen({A: 1})) and not binder.bind(seen({A: 1})) and before == stage.raws


def test_what_is_known_of_a_new_topic_is_bound_with_it(stage: Stage) -> None:
    """Its identity comes first: the binding is of the topic of that identity."""
    binder = stage.begun()
    assert binder.bind(seen({A: 2}, a="id"))
    (_, known, bound) = stage.records()

    assert isinstance(known, Proposal) and {"topic-a": "id"} == parsed(known.recipe).topics == binder.bound.topics
    assert Binding(1, 101, NOT_STARTED) == known.binding
    assert Proposal(1, Binding(101, 102, frontier({A: 2}))) == bound
    assert binder.bind(seen({A: 2, B: 1}, b="other")) is False, "nothing to bind"
    assert binder.bind(seen({A: 3})) and {"topic-a": "id", "topic-b": "other"} == binder.bound.topics


def test_what_another_one_knows_of_topics_is_kept(stage: Stage) -> None:
    """Identities that are bound are not replaced."""
    one, other = stage.begun(), stage.begun()
    one.bind(seen({A: 1}, a="id"))
    other.bind(seen({A: 2}, a="other"))

    assert {"topic-a": "id"} == other.bound.topics == parsed(other.recipes[-1].text).topics


def test_it_may_die_as_soon_as_it_has_bound(stage: Stage) -> None:
    """The binding is there, and the one that comes after it binds nothing."""
    with pytest.raises(PlacedCrash), failpoints.placed(BOUND):
        stage.begun().bind(seen({A: 2}))
    again = stage.begun()

    assert {A: 2} == places(again.remap.current) and not again.bind(seen({A: 2})) and 2 == len(stage.raws)


# -- what logs need


def holds(stage: Stage) -> list[tuple[str, int | None, str, str]]:
    """What was written of holds."""
    return [(one.of, one.since, one.by, one.called) for one in stage.records() if isinstance(one, HoldRecord)]


def advanced(binder: Binder, stage: Stage, steps: int, first: int = 1) -> None:
    """Bind so many records, each a time later."""
    for end in range(first, first + steps):
        stage.clock += 1
        assert binder.bind(seen({A: end}))


def test_logs_hold_the_remap_where_they_are(stage: Stage) -> None:
    """Under their identity, once it is known, with the users' name; what they do not need is forgotten here."""
    binder = stage.begun(name="one", of="logs")
    advanced(binder, stage, 3)
    binder.hold(101)
    assert [("logs", 101, "one", "")] == holds(stage) and 101 == binder.remap.since
    binder.of_log_set("7f")
    binder.hold(102)
    assert [("7f", 102, "one", "logs")] == holds(stage)[1:] and 102 == binder.remap.since
    binder.hold(102)
    binder.hold(50)
    assert 2 == len(holds(stage)) and 102 == binder.remap.since
    binder.hold(500)
    assert 103 == binder.remap.since and 500 == holds(stage)[-1][1]
    binder.hold(None)

    assert ("7f", None, "one", "") == holds(stage)[-1] and 103 == binder.remap.since


def test_a_capture_that_has_only_read_may_hold(stage: Stage) -> None:
    """It has no part of its own in what is kept meanwhile."""
    stage.begun()
    binder = stage.binder(of="logs")
    binder.follow()
    binder.hold(0)

    assert [("logs", 0, "", "")] == holds(stage)


def test_finished_logs_need_nothing(stage: Stage) -> None:
    """All but the last time is forgotten; logs of no name write no hold."""
    binder = stage.begun()
    advanced(binder, stage, 3)
    binder.hold(None)

    assert [] == holds(stage) and 103 == binder.remap.since


def test_nothing_is_forgotten_before_it_is_known_what_the_logs_need(stage: Stage) -> None:
    """Others may go on meanwhile."""
    stage.begun()
    binder = stage.begun(of="logs")
    advanced(binder, stage, 3)
    binder.remap.compact(103)
    assert 0 == binder.remap.since
    binder.hold(102)

    assert 103 == binder.remap.since


def test_holds_are_written_seldom(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many records of the remap since the last one, its own among them not counted."""
    monkeypatch.setattr(module, "HOLD_EVERY", 3)
    binder = stage.begun(of="logs")
    advanced(binder, stage, 1)
    binder.hold(100, seldom=True)
    assert [] == holds(stage)
    advanced(binder, stage, 1, 2)
    binder.hold(101, seldom=True)
    assert [101] == [since for _, since, _, _ in holds(stage)]
    advanced(binder, stage, 2, 3)
    binder.hold(102, seldom=True)
    assert [101] == [since for _, since, _, _ in holds(stage)] and 101 == binder.remap.since
    binder.hold(102)
    advanced(binder, stage, 2, 5)
    binder.hold(103, seldom=True)
    assert [101, 102] == [since for _, since, _, _ in holds(stage)]
    advanced(binder, stage, 1, 7)
    binder.hold(103, seldom=True)

    assert [101, 102, 103] == [since for _, since, _, _ in holds(stage)]


# -- times of other recipes


def written(stage: Stage, *tables: str) -> Binder:
    """A remap whose recipes follow each other, each with one binding; a capture of the last one."""
    for number, names in enumerate(tables):
        stage.clock = 100 * (number + 1)
        last = stage.begun(names, propose=True)
        stage.clock += 1
        assert last.bind(seen({(f"topic-{name}", 0): number + 1 for name in names}))
    return last


@pytest.mark.parametrize("known, table, start", [
    (0, "a", 0), (50, "a", 50), (0, "b", 102), (50, "b", 102), (101, "b", 102), (102, "b", 102), (150, "b", 150),
    (0, "c", 202), (150, "c", 202), (201, "c", 202), (202, "c", 202), (250, "c", 250), (0, "d", 302), (250, "d", 302),
    (302, "d", 302), (400, "d", 400), (102, "a", 102), (150, "a", 150), (202, "a", 302), (250, "a", 302),
])
def test_times_that_have_nothing_of_a_table_need_not_be_read(stage: Stage, known: int, table: str, start: int) -> None:
    """The recipe that they are bound under does not capture it: it begins where one does, or where the remap ends."""
    binder = written(stage, "a", "ab", "c")

    assert start == binder.starts(table, known)


def test_all_times_of_a_finished_remap_are_read(stage: Stage) -> None:
    """Which of its times is the last is not known from where a table is."""
    binder = written(stage, "a", "ab", "c")
    stage.close()
    binder.follow()

    assert [0, 150] == [binder.starts("b", known) for known in (0, 150)]


def second(found: object) -> str:
    """What there is to do beside running a capture with the recipe that is bound."""
    assert isinstance(found, SourceStop)
    first, _, other = found.remedy.partition(", or ")
    assert first.startswith("Run the capture with that recipe")
    return other


def test_a_time_of_another_recipe_stops_the_capture(stage: Stage) -> None:
    """With what is different, where its logs are, and how to go on."""
    stage.begun()
    where = Antichain([1])
    stop = stage.binder(plain(mapping=9))
    stop.follow()
    found = stop.stopped(0, where)

    assert isinstance(found, SourceStop) and where == found.frontier and not found.lasting
    assert found.reason == (
        "from the time 0 on this timeline is bound under another recipe than ours: the mapping is version 9, bound 2"
    )
    assert "propose this one with --propose-recipe: the same command, once, with that option" == second(found)


def test_the_remedy_names_the_command(stage: Stage) -> None:
    """As it was started."""
    stage.begun()
    stop = stage.binder(plain(mapping=9), command_line="cdcv2 capture-shared x")
    stop.follow()
    found = stop.stopped(0, None)

    assert second(found) == (
        "propose this one with --propose-recipe: start, once: cdcv2 capture-shared x --propose-recipe"
    )


def test_three_differences_are_enough(stage: Stage) -> None:
    """There may be hundreds."""
    stage.begun("abcd")
    stop = stage.binder("efgh")
    stop.follow()

    text = str(stop.stopped(0, None))
    points = "; ".join(f"{name!r} is captured here, and not bound" for name in "efg")

    assert f"ours: {points}." in text and "'h'" not in text


def test_what_cannot_be_proposed_needs_other_logs(stage: Stage) -> None:
    """Its logs are unlike those of the recipe that is bound."""
    stage.begun()
    stop = stage.binder(BoundRecipe({"a": {"topic": "topic-a", "row": "8"}}))
    stop.follow()
    found = stop.stopped(0, None)

    assert OTHER_LOGS == second(found)


def test_a_later_time_of_ours_waits_for_a_capture_of_the_earlier_recipe(stage: Stage) -> None:
    """That one writes its times; then ours goes on, from the first time that is ours."""
    binder = written(stage, "a", "b", "c", "b")
    found = binder.stopped(50, None)

    assert isinstance(found, IncompleteError) and (
        "the logs have come to 50, and times up to 102 are bound under another recipe ('b' is captured here, and not "
        "bound; 'a' is bound, and not captured here): a capture with that one writes them, "
    ) in str(found)
    assert "times up to 302 are" in str(binder.stopped(250, None)) and "'c' is bound" in str(binder.stopped(250, None))
    other = stage.binder("a")
    other.follow()
    stop = other.stopped(102, None)
    assert isinstance(stop, SourceStop) and "from the time 102 on" in stop.reason and "'b' is bound" in stop.reason


def bank(row: str = "7", **options: object) -> BoundRecipe:
    """Two tables of a database."""
    tables = {name: {"database": "bank", "row": row} for name in ("public.a", "public.b")}
    return BoundRecipe(tables, {"bank": options})


@pytest.mark.parametrize("other, names", [
    (bank(empty=["public.a"]), "public.a"), (bank(empty=["public.b", "public.a"]), "public.a, public.b"),
])
def test_what_was_judged_of_a_snapshot_is_bound(stage: Stage, other: BoundRecipe, names: str) -> None:
    """Tables that a user states to be empty, and that the other recipe does not: neither remedy may help."""
    stage.begun(bank())
    stop = stage.binder(other)
    stop.follow()
    found = stop.stopped(0, None)

    option, _, judged = second(found).partition(" stops because of ")

    assert "with that option. If a capture with that recipe" in option
    assert f"the snapshot of {names}, neither helps, as what was judged of it is bound: {OTHER_LOGS}" == judged


def test_where_other_logs_are_needed_nothing_is_judged(stage: Stage) -> None:
    """They are the only remedy."""
    stage.begun(bank())
    stop = stage.binder(bank("8", empty=["public.a"]))
    stop.follow()
    found = stop.stopped(0, None)

    assert OTHER_LOGS == second(found)


def test_what_is_different_is_judged_once_for_each_text(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at every time."""
    parse, parsed_texts = BoundRecipe.parse, list[str]()

    def counting(text: str) -> BoundRecipe:
        parsed_texts.append(text)
        return parse(text)

    binder = stage.begun()
    mine, other = plain().text(), replace(plain(), mapping=9).text()
    monkeypatch.setattr(BoundRecipe, "parse", counting)
    answers = [binder.differences(text) for text in (mine, other, mine, other, other)]

    assert [0, 1, 0, 1, 1] == [len(answer) for answer in answers] and 1 == parsed_texts.count(other)


def test_a_remap_that_was_not_read_has_no_times(stage: Stage) -> None:
    """It is read first."""
    ask: list[Callable[[Binder], object]] = [lambda one: one.remap, lambda one: one.bound]
    for asked in ask:
        with pytest.raises(MissingLogError, match="is empty"):
            asked(stage.binder())
