"""The rule of a shared remap, case by case: what wins, what is void, what is refused, and who stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    DamagedRecordError,
    ForeignStateError,
    MissingLogError,
    RefusedError,
    SourceStop,
    UnavailableError,
    UnsafeTopicError,
)
from cdcv2.protocol.iter import Iter
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.minting import (
    Append, Get, List, Put, Read, Trim, agree, ask, compact, follow, mint, on_objects, run,
)
from cdcv2.timeline.partitioned import NOT_STARTED, offsets
from cdcv2.timeline.records import Genesis, HoldRecord, Proposal, RecipeEpoch, Record, Summary, decode, encode
from cdcv2.timeline.remap import Remap
from cdcv2.timeline.shared_remap import LogView, SharedRemap
from tests.remap_in_memory import RemapRecords, closing

START = Antichain([0])


class Shelf(RemapRecords):
    """One that has these records."""

    name = "shelf"

    def __init__(self, *records: Record) -> None:
        super().__init__()
        self.raws += map(encode, records)

    def records(self) -> list[Record]:
        """What is there."""
        return [decode(raw) for _, raw in self.read(0).records]


def proposal(lower: int, upper: int | None, line: int | None, epoch: int = 0, recipe: str | None = None) -> Proposal:
    """A proposal over lines of a file; None: the file is finished."""
    return Proposal(epoch, Binding(lower, upper, Antichain([] if line is None else [line])), recipe)


def known(*records: Record) -> SharedRemap:
    """A reader who has read these."""
    shared = SharedRemap()
    run(Shelf(*records), follow(shared))
    return shared


GENESIS = Genesis(START, "v1")


def test_the_first_valid_proposal_wins_and_the_others_are_void() -> None:
    """Each of them breaks one condition of the rule; the next one that keeps all of them is taken."""
    shared = SharedRemap()
    won = run(Shelf(
        GENESIS, Genesis(Antichain([5]), "v2"), proposal(0, 9, 3), proposal(2, 9, 3), proposal(1, 9, 3, epoch=1),
        proposal(1, 9, 3), proposal(1, 9, 4), proposal(9, 20, 2), proposal(9, 20, 4, epoch=-1 + 1, recipe="v2"),
        proposal(20, 30, 7, epoch=0), proposal(20, 30, 6, epoch=1), proposal(30, None, None, epoch=1),
        proposal(40, 50, None, epoch=1),
    ), follow(shared))  # fmt: skip

    assert [0, 5, 8, 10, 11] == [one.position for one in won]
    assert [START, Antichain([3]), Antichain([4]), Antichain([6]), Antichain()] == [
        one.binding.frontier for one in won
    ]
    assert [RecipeEpoch(0, 0, "v1"), RecipeEpoch(0, 0, "v1"), RecipeEpoch(1, 9, "v2"), RecipeEpoch(1, 9, "v2")] == [
        shared.recipe_at(time) for time in (0, 8, 9, 99)
    ]
    assert (13, Antichain(), RecipeEpoch(1, 9, "v2")) == (shared.next, shared.remap.upper, shared.recipe)


def test_the_winners_are_a_collection_that_iter_reads() -> None:
    """With its counts, from the first time to the end of all."""
    won = run(Shelf(GENESIS, proposal(1, 9, 3), proposal(9, 20, 3), proposal(20, None, None)), follow(SharedRemap()))
    messages = [message for one in won for message in one.messages()]
    reader = Iter(reversed(messages))
    updates = [update for batch, _ in reader for update in batch]

    assert [(0, 0, 1), (0, 8, -1), (3, 8, 1), (3, 20, -1)] == sorted(updates, key=lambda update: update[1:])
    assert reader.closed


def test_a_minter_goes_on_until_nothing_that_it_saw_is_missing() -> None:
    """What others have bound meanwhile is not bound again; what is missing is bound once."""
    shelf = Shelf()
    one, other = SharedRemap(START, recipe="v1", name="a"), SharedRemap(START, recipe="v1", name="b")
    run(shelf, mint(one, Antichain([5]), lambda: 10))
    won = run(shelf, mint(other, Antichain([3]), lambda: 11))
    assert 2 == len(shelf.raws) and [Binding(0, 1, START), Binding(1, 11, Antichain([5]))] == [
        each.binding for each in won
    ]
    run(shelf, mint(other, Antichain([7]), lambda: 4))
    run(shelf, agree(other, lambda: other.propose_idle(30)))
    run(shelf, agree(one, lambda: closing(one)))
    assert [] == run(shelf, agree(one, lambda: closing(one))) == run(shelf, agree(one, lambda: one.propose_idle(99)))
    run(shelf, follow(other))
    other.check(one)

    assert [(0, START), (10, Antichain([5])), (11, Antichain([7]))] == list(other.remap.bindings())
    assert Antichain() == other.remap.upper and ["a", "a", "b", "b", "a"] == [record.by for record in shelf.records()]


def test_an_append_of_which_nobody_knows_is_asked_for_again() -> None:
    """If it is there it has won, or is void, and nothing is bound twice."""
    shelf, shared = Shelf(GENESIS), SharedRemap(START, recipe="v1")
    minting = mint(shared, Antichain([5]), lambda: 10)
    minting.send(shelf.read(next(minting).after))
    shelf.append(encode(proposal(1, 11, 5)), 1)
    with pytest.raises(UnavailableError):
        minting.throw(UnavailableError("no answer"))
    run(shelf, mint(shared, Antichain([5]), lambda: 12))

    assert 2 == len(shelf.raws) and 10 == shared.remap.into_of(4)


def test_nothing_is_trimmed_before_the_summary_has_been_read_back() -> None:
    """A crash at any moment leaves a log that can be read."""
    shelf, shared = Shelf(GENESIS, proposal(1, 9, 3), proposal(9, 20, 4)), known()
    compacting = compact(shared, 10)
    requests = []
    answer: Any = None
    while True:
        try:
            requests.append(compacting.send(answer))
        except StopIteration:
            break
        last = requests[-1]
        if isinstance(last, Append):
            answer = shelf.append(*last)
        else:
            answer = shelf.trim(last.before) if isinstance(last, Trim) else shelf.read(last.after)

    assert ["Read", "Append", "Read", "Trim"] == [type(request).__name__ for request in requests]
    assert (3, 10, 4) == (shelf.first, shared.remap.since, shared.next)


def test_a_reader_begins_at_a_summary() -> None:
    """With all that it may ask, and no more; the recipes before `since` are forgotten, too."""
    shelf = Shelf(
        GENESIS, proposal(1, 9, 3, recipe="v2"), proposal(9, 20, 4, epoch=1, recipe="v3"), proposal(20, 30, 6, epoch=2)
    )
    old = SharedRemap()
    run(shelf, compact(old, 12))
    run(shelf, agree(old, lambda: proposal(30, 40, 8, epoch=2) if old.remap.last < 39 else None))
    fresh = SharedRemap()
    won = run(shelf, follow(fresh))
    fresh.check(old)

    assert (12, Antichain([3]), 39) == (fresh.remap.since, fresh.remap.at(12), fresh.remap.last)
    assert [(12, 3, 0), (19, 4, 1), (29, 6, 1), (39, 8, 1)] == [
        (one.binding.into, one.binding.frontier.elements[0], len(one.before)) for one in won
    ]
    assert (RecipeEpoch(2, 9, "v3"), RecipeEpoch(2, 9, "v3")) == (fresh.recipe, fresh.recipe_at(0))
    reader = Iter([message for one in won for message in one.messages()], start=[12])
    assert 7 == sum(len(batch) for batch, _ in reader) and Antichain([40]) == reader.frontier


def test_a_reader_that_was_left_behind_goes_on_at_the_summary() -> None:
    """With every binding, while the summary still has what it had not come to; else only if it holds nothing."""
    behind, held, gone = known(GENESIS), known(GENESIS), known(GENESIS)
    shelf = Shelf(GENESIS, proposal(1, 9, 3), proposal(9, 20, 4))
    run(shelf, compact(SharedRemap(), 0))
    won = run(shelf, follow(behind))
    assert [(1, 9), (9, 20)] == [(one.binding.lower, one.binding.upper) for one in won]

    held.remap.hold(0)
    run(shelf, compact(SharedRemap(), 15))
    with pytest.raises(RefusedError, match="resume from the output"):
        run(shelf, follow(held))
    won = run(shelf, follow(gone))
    assert [(15, 0), (19, 1)] == [(one.binding.into, len(one.before)) for one in won]
    assert 15 == gone.remap.since
    # Its bindings from there on are those of a reader that begins there: a change is one from what was there before.
    assert [one.messages() for one in run(shelf, follow(SharedRemap()))] == [one.messages() for one in won]


def test_nothing_is_forgotten_where_nothing_changed() -> None:
    """A reader that is behind a summary, and has come as far as that begins, goes on; so does one that holds."""
    held = known(GENESIS, proposal(1, 9, 3))
    held.remap.hold(8)
    shelf = Shelf(GENESIS, proposal(1, 9, 3), proposal(9, 15, 3), proposal(15, 20, 4))
    run(shelf, compact(SharedRemap(), 17))
    won = run(shelf, follow(held))
    reader = Iter([message for one in won for message in one.messages()], start=[9])

    assert [(3, 19, -1), (4, 19, 1)] == [update for batch, _ in reader for update in batch]
    assert (0, Antichain([20])) == (held.remap.since, reader.frontier)


def test_a_record_in_a_place_that_a_summary_covers_is_not_looked_at() -> None:
    """Somebody who slept has put it there when the place was free again; all others have read another one there."""
    summary = known(GENESIS, proposal(1, 9, 3), proposal(9, 20, 4)).summarize(10)
    late = proposal(1, 9, 99)
    behind, fresh = known(GENESIS), SharedRemap()
    view = LogView([(1, encode(late)), (3, encode(summary))], 4)
    behind.absorb(view)
    fresh.absorb(LogView([(0, encode(Genesis(START, "late"))), *view.records], 4))
    behind.check(fresh)

    assert Antichain([4]) == behind.remap.current and RecipeEpoch(0, 0, "v1") == fresh.recipe


def test_who_has_another_recipe_stops_and_says_from_when() -> None:
    """Two captures that map differently would write two histories into one log."""
    shelf = Shelf()
    old, new = SharedRemap(START, recipe="v1"), SharedRemap(START, recipe="v2")
    run(shelf, mint(old, Antichain([5]), lambda: 10))
    with pytest.raises(SourceStop, match="'v1'.*'v2'"):
        run(shelf, mint(new, Antichain([6]), lambda: 11))
    run(shelf, agree(new, lambda: new.propose_recipe(20)))
    run(shelf, mint(new, Antichain([6]), lambda: 21))
    with pytest.raises(SourceStop, match="from the time 11 on") as stopped:
        run(shelf, mint(old, Antichain([7]), lambda: 22))
    assert "Run the capture with that recipe, or propose this one again" == stopped.value.remedy
    old.check_recipe(10)

    assert Antichain([11]) == stopped.value.frontier and new.propose_recipe(30) is None
    assert (10, 21) == (old.remap.into_of(4), old.remap.into_of(5))


@pytest.mark.parametrize("reader, records, error", [
    (lambda: known(GENESIS), (), UnsafeTopicError), (SharedRemap, (proposal(1, 9, 3),), UnsafeTopicError),
    (lambda: SharedRemap(NOT_STARTED, recipe="v1"), (GENESIS,), ForeignStateError),
])  # fmt: skip
def test_a_log_that_is_not_the_one_is_refused(
    reader: Callable[[], SharedRemap], records: tuple[Record, ...], error: type[Exception]
) -> None:
    """It was recreated, has lost its beginning, or is of other sources."""
    with pytest.raises(error):
        run(Shelf(*records), follow(reader()))


def test_a_gap_without_a_summary_is_refused() -> None:
    """What is missing may have decided something; so may what is before it, when only a later summary is left."""
    shelf = Shelf(GENESIS, proposal(1, 9, 3), proposal(9, 20, 4))
    shelf.first = 2
    for shared in (known(GENESIS), SharedRemap()):
        with pytest.raises(UnsafeTopicError, match="Restore"):
            run(shelf, follow(shared))


def test_an_empty_log_is_begun_by_a_capture_only() -> None:
    """A reader has no start to begin it with."""
    reader = SharedRemap()
    for asked in (lambda: reader.remap, lambda: reader.propose(START, 1), lambda: reader.propose_idle(1),
                  lambda: reader.recipe, lambda: reader.propose_recipe(1)):  # fmt: skip
        with pytest.raises(MissingLogError):
            asked()
    assert not reader.has_started and Genesis(START, "v1", "a") == SharedRemap(
        START, recipe="v1", name="a"
    ).propose_recipe(3)


def test_a_closed_remap_takes_no_more() -> None:
    """Neither what was observed, nor another recipe."""
    shared = SharedRemap(START, recipe="v2")
    run(Shelf(GENESIS, proposal(1, None, 3)), follow(shared))
    with pytest.raises(RefusedError):
        shared.propose(Antichain([4]), 10)
    with pytest.raises(SourceStop):
        shared.propose_recipe(10)

    assert shared.propose(Antichain([3]), 10) is None is shared.propose_idle(10)


def test_a_reader_of_objects_asks_for_new_ones_only_and_lists_until_nothing_is_new() -> None:
    """What was read before may be trimmed by now; what came while it read may cover what it has read."""
    reading = on_objects(ask(Read(5)))
    asked, answers = [], iter([[4, 5, 6], b"5", None, [4, 5, 7], b"7", [5, 7]])
    request: Any = next(reading)
    view = None
    while view is None:
        asked.append(request)
        try:
            request = reading.send(next(answers, [5, 7]))
        except StopIteration as done:
            view = done.value

    assert [List(), Get(5), Get(6), List(), Get(7), List(), List()] == asked
    assert LogView([(5, b"5"), (7, b"7")], 8) == view


def on_store(store: dict[int, bytes], minting: Any) -> Any:
    """Do what a minter asks for of objects that are put if absent; its result."""
    requests, answer = on_objects(minting), None
    while True:
        try:
            request: Any = requests.send(answer)
        except StopIteration as done:
            return done.value
        if isinstance(request, List):
            answer = sorted(store)
        elif isinstance(request, Get):
            answer = store.get(request.number)
        elif isinstance(request, Put):
            answer = request.number not in store
            store.setdefault(request.number, request.raw)
        else:
            answer = store.pop(request.number, None) and None


def test_records_are_objects_with_the_first_free_numbers() -> None:
    """From where their minter has read; what a summary stands for is removed, and nothing else."""
    store, shared = {0: encode(GENESIS), 1: encode(proposal(1, 9, 3))}, SharedRemap(START, recipe="v1")
    on_store(store, follow(shared))
    store.update({2: encode(proposal(9, 20, 4)), 3: encode(proposal(20, 30, 5))})

    for after in (2, 3):
        assert 4 == on_store(store, ask(Append(b"x", after))) and b"x" == store.pop(4)
    assert LogView([], 0) == on_store({}, ask(Read(0)))
    assert [2, 3, 4] == [one.position for one in on_store(store, mint(shared, Antichain([6]), lambda: 40))]

    on_store(store, compact(shared, 25))

    assert [5] == sorted(store)
    assert [(25, Antichain([4])), (29, Antichain([5])), (40, Antichain([6]))] == list(shared.remap.bindings())


class OneByOne(Shelf):
    """A log of which each reading gives one record."""

    def __init__(self, *records: Record) -> None:
        super().__init__(*records)
        self.after: list[int] = []

    def read(self, after: int) -> LogView:
        """The next."""
        whole = super().read(after)
        return LogView(whole.records[:1], min(after + 1, whole.end))

    def append(self, raw: bytes, after: int) -> int:
        """At the end; where its minter had read to is noted."""
        self.after.append(after)
        return super().append(raw, after)


def test_what_is_won_meanwhile_is_given_out_whoever_proposed_it() -> None:
    """Of the reading before an append, and of each behind it; an append has up to where its minter has read."""
    shelf, shared = OneByOne(GENESIS, proposal(1, 9, 3), proposal(9, 20, 4)), SharedRemap(START, recipe="v1")

    assert [0, 1, 2, 4] == [one.position for one in run(shelf, mint(shared, Antichain([6]), lambda: 40))]
    assert [1, 4] == shelf.after

    other = SharedRemap(START, recipe="v1")

    assert [0, 1, 2, 4] == [one.position for one in run(shelf, compact(other, 0))]
    assert [1, 4, 1] == shelf.after


def test_two_remaps_that_differ_are_not_merged() -> None:
    """A summary that contradicts what was read is of another log."""
    other = known(GENESIS, proposal(1, 9, 4)).remap.export()
    with pytest.raises(RefusedError, match="read from another place"):
        known(GENESIS, proposal(1, 8, 3)).absorb(
            LogView([(3, encode(Summary(3, (RecipeEpoch(0, 0, "v1"),), other)))], 4)
        )


@pytest.mark.parametrize("record", [
    Genesis(NOT_STARTED, "{}", "a"), Proposal(3, Binding(1, None, offsets({1: 4})), "v2", "b"), proposal(1, 5, 3),
    Summary(7, (RecipeEpoch(0, 0, "v1"), RecipeEpoch(1, 9, "v2")), Remap(NOT_STARTED).export(), "c"),
    Summary(7, (RecipeEpoch(0, 0, "v1"),), Remap(NOT_STARTED).export(), "c", {"a": 3}, {"a": "x"}),
    HoldRecord("a", 7, "d"),
    HoldRecord("a", 7, "d", "x"), HoldRecord("a", None),
])  # fmt: skip
def test_records_survive_their_bytes(record: Record) -> None:
    """And are refused when they are of another version, or damaged in any of their fields."""
    raw = encode(record)
    assert record == decode(raw) and raw == encode(decode(raw))
    # Those of earlier releases have no digest, and are judged by their fields.
    said = {key: value for key, value in json.loads(raw).items() if key != "digest"}
    assert record == decode(json.dumps(said).encode())
    with pytest.raises(RefusedError, match="version 2"):
        decode(json.dumps({**said, "cdcv2-remap": 2}).encode())
    for name in set(said) - {"cdcv2-remap", "kind"}:
        lacking = {key: value for key, value in said.items() if key != name}
        # Records of earlier releases have none.
        for wrong in (*([lacking] if name not in ("holds", "called") else []), {**said, name: [["x"]]}):
            with pytest.raises(DamagedRecordError) as found:
                decode(json.dumps(wrong).encode(), 7)
            assert 7 == found.value.position


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[" * 200_000, b"[]", b'{"kind":"genesis"}', b'{"cdcv2-remap":1}',
                                 b'{"cdcv2-remap":1,"kind":"other","by":""}'])  # fmt: skip
def test_bytes_that_are_no_record_are_an_error(raw: bytes) -> None:
    """Somebody else writes here; passing over it would be right only by luck."""
    with pytest.raises(DamagedRecordError) as caught:
        known(GENESIS).absorb(LogView([(1, raw)], 2))
    assert 1 == caught.value.position
    shelf = Shelf(GENESIS)
    shelf.raws.append(raw)
    with pytest.raises(DamagedRecordError, match=r"^remap\[0\]@1 is no record of a shared remap") as found:
        run(shelf, follow(SharedRemap()))
    assert raw == found.value.raw


def test_a_record_in_which_another_number_stands_is_an_error() -> None:
    """It would bind something else, and nothing in it looks wrong."""
    raw = encode(proposal(1, 11, 5)).replace(b'"upper":11', b'"upper":12')
    with pytest.raises(DamagedRecordError, match="was changed after it was written") as found:
        decode(raw, 7)

    assert (7, raw) == (found.value.position, found.value.raw)


def test_a_summary_needs_a_recipe() -> None:
    """Its reader would not know under which one times are bound."""
    with pytest.raises(DamagedRecordError):
        decode(encode(Summary(7, (), Remap(START).export())))


def held(of: str, since: int | None) -> HoldRecord:
    """The hold of some logs."""
    return HoldRecord(of, since)


def test_what_is_held_is_not_compacted() -> None:
    """It moves forward only, by whomever, until it is let go; and is known to who begins at the summary, too."""
    bindings = [proposal(lower, lower + 10, lower) for lower in range(1, 91, 10)]
    shelf = Shelf(GENESIS, *bindings, held("a", 20), held("b", 60), held("a", 40), held("a", 30), held("c", 5))
    one, none = SharedRemap(), SharedRemap()
    run(shelf, follow(one))
    assert {"a": 40, "b": 60, "c": 5} == one.holds
    run(shelf, agree(one, lambda: one.propose_hold("c", None)))
    assert [None, HoldRecord("c", 5), None, HoldRecord("b", 61)] == [
        one.propose_hold("c", None), one.propose_hold("c", 5), one.propose_hold("a", 39), one.propose_hold("b", 61)
    ]
    run(shelf, compact(one, 80))
    [summary] = [record for record in shelf.records() if isinstance(record, Summary)]
    assert (40, {"a": 40, "b": 60}) == (one.remap.since, summary.holds)

    run(shelf, follow(none))
    assert (40, one.holds) == (none.remap.since, none.holds)
    for of in ("a", "b"):
        run(shelf, agree(none, lambda of=of: none.propose_hold(of, None)))  # type: ignore[misc]  # bound now
    run(shelf, compact(none, 80))
    run(shelf, follow(one))
    assert (80, {}, {}) == (none.remap.since, none.holds, one.holds)


def test_two_of_one_name_hold_the_remap_each_for_itself() -> None:
    """On two clusters, or two machines: the slower one finds its place after a compaction."""
    shelf = Shelf()
    fast, slow = (SharedRemap(START, recipe="v1", name=name) for name in ("cluster A", "cluster B"))
    for time in range(1, 11):
        run(shelf, agree(fast, lambda: fast.propose(Antichain([time]), 100 * time)))
    run(shelf, agree(fast, lambda: fast.propose_hold("a", 900, "kafka:cdc.{table}")))
    run(shelf, agree(slow, lambda: slow.propose_hold("b", 200, "kafka:cdc.{table}")))
    run(shelf, compact(fast, 1000))
    late = SharedRemap()
    run(shelf, follow(late))

    assert {"a": 900, "b": 200} == slow.holds == late.holds
    assert (200, "kafka:cdc.{table}") == (late.remap.since, late.called("b"))
    assert None is late.propose_hold("b", 200, "kafka:cdc.{table}")
    assert HoldRecord("b", None) == late.propose_hold("b", None, "kafka:cdc.{table}")


# -- what only a small change of the rule shows


def test_what_is_let_go_twice_or_held_at_0_is_no_matter() -> None:
    """The name that people gave goes with the hold; one of an earlier release is its own."""
    reader = known(GENESIS, HoldRecord("x", None), HoldRecord("a", 0, called="logs of a"), HoldRecord("b", 3))
    assert ({"a": 0, "b": 3}, "logs of a", "b") == (reader.holds, reader.called("a"), reader.called("b"))
    run(
        Shelf(GENESIS, HoldRecord("a", 0, called="logs of a"), HoldRecord("a", None), HoldRecord("a", None)),
        follow(gone := SharedRemap()),
    )
    assert ({}, "a") == (gone.holds, gone.called("a"))


def summary_of(*records: Record, since: int = 0) -> Summary:
    """What these come to."""
    return known(*records).summarize(since)


def test_of_two_summaries_in_one_view_the_one_that_stands_for_more_counts() -> None:
    """In whatever order they were appended; and what stands behind it in the view is taken in with it."""
    records = [GENESIS, proposal(1, 10, 1), proposal(10, 20, 2, recipe="v2"), proposal(20, 30, 3, epoch=1)]
    short, long = summary_of(*records[:2]), summary_of(*records, since=25)
    end = proposal(30, 40, 4, epoch=1)
    # Places 0 to 3 are trimmed; at 4 and 5 the summaries, whatever their order.
    for both in ([short, long], [long, short]):
        view = LogView([(place, encode(one)) for place, one in enumerate([*both, end], 4)], 7)
        reader = SharedRemap()
        won = reader.absorb(view)
        at = 4 + both.index(long)
        assert [at, at, 6] == [one.position for one in won]
        assert [RecipeEpoch(1, 10, "v2")] * 3 == [one.recipe for one in won]
        assert [(25, 26), (26, 30), (30, 40)] == [(one.binding.lower, one.binding.upper) for one in won]
        assert (7, (RecipeEpoch(1, 10, "v2"),)) == (reader.next, reader.recipes)


def test_a_reader_that_fell_behind_a_summary_knows_the_recipe_and_the_place_of_each_binding() -> None:
    """Those that it knew of stay as they were, each once."""
    records = [GENESIS, proposal(1, 10, 1), proposal(10, 20, 2, recipe="v2"), proposal(20, 30, 3, epoch=1)]
    for since, lowers in ((0, [10, 20]), (25, [25, 26])):
        reader = known(*records[:2])
        won = reader.absorb(LogView([(4, encode(summary_of(*records, since=since)))], 5))
        assert [(4, lower, RecipeEpoch(1, 10, "v2")) for lower in lowers] == [
            (one.position, one.binding.lower, one.recipe) for one in won
        ]
        assert (RecipeEpoch(0, 0, "v1"), RecipeEpoch(1, 10, "v2")) == reader.recipes
        reader.check(known(*records))


def test_a_summary_of_what_is_known_already_changes_nothing() -> None:
    """It may be appended long after what it stands for."""
    records = [GENESIS, proposal(1, 10, 1), proposal(10, 20, 2)]
    reader = known(*records)
    view = LogView([(3, encode(proposal(20, 30, 3))), (4, encode(summary_of(*records[:2])))], 5)

    assert [3] == [one.position for one in reader.absorb(view)]
    assert 5 == reader.next


def test_what_a_summary_stands_for_is_passed_over_where_it_is_not_trimmed_yet() -> None:
    """And what follows is taken in at once."""
    records = [GENESIS, proposal(1, 10, 1), proposal(10, 20, 2)]
    view = LogView(list(enumerate(map(encode, [*records, summary_of(*records), proposal(20, 30, 3)]))), 5)
    reader = SharedRemap()

    assert [3, 3, 3, 4] == [one.position for one in reader.absorb(view)]
    assert (5, 29) == (reader.next, reader.remap.last)


def test_each_binding_that_has_won_says_under_which_recipe() -> None:
    """The first one, too."""
    won = run(Shelf(GENESIS, proposal(1, 10, 1), proposal(10, 20, 2, recipe="v2")), follow(SharedRemap()))

    assert [RecipeEpoch(0, 0, "v1"), RecipeEpoch(0, 0, "v1"), RecipeEpoch(1, 10, "v2")] == [one.recipe for one in won]


def test_the_recipe_that_is_wanted_is_proposed_from_the_next_time_on() -> None:
    """By the clock, or for one time where that is behind; in the name of who proposes it."""
    reader = SharedRemap(START, recipe="v1", name="me")
    reader.absorb(LogView([(0, encode(GENESIS)), (1, encode(proposal(1, 10, 1)))], 2))
    assert None is reader.propose_recipe(50)
    reader.use_recipe("v2")

    assert Proposal(0, Binding(10, 51, Antichain([1])), "v2", "me") == reader.propose_recipe(50)
    assert Proposal(0, Binding(10, 11, Antichain([1])), "v2", "me") == reader.propose_recipe(3)


@pytest.mark.parametrize("shared", [SharedRemap(), SharedRemap(START), SharedRemap(recipe="v1")])
def test_only_who_knows_start_and_recipe_begins_a_remap(shared: SharedRemap) -> None:
    """Both are in the genesis."""
    with pytest.raises(MissingLogError, match="only a capture, with start and recipe, can begin it"):
        shared.propose(Antichain([3]), 5)
