"""What a capture by commit times keeps comes back as it was, and goes with its own logs and options alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.connector import FIRST_KIND
from cdcv2.capture.memory import (
    CaptureMemory, LogTail, StreamMemory, check_memory, check_not_ahead, declares_same, resumable, same_topics,
    tails_of,
)
from cdcv2.capture.memory_format import BatchMemory, capture_identity, has_released, plain_memory, read_memory
from cdcv2.capture.stream_counts import StreamCounts
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.rows.row_type import RowType

T = "public.t"
LOG = {"positions": {"0": 7}, "marks": {}, "rows": 3}
NEW = CaptureMemory.empty()
ME = {"prefix": "p", "tables": {T: "7f"}}


def kept(*declared: int, through: int = 100, **more: Any) -> CaptureMemory:
    """One with these resnapshots declared, at work through there."""
    commits = CommitTransactions([T], notifications=True, known=through + 1, again=declared)
    plain: Any = {**commits.export(), **more}
    return CaptureMemory(plain, {("p.public.t", 2): 9}, {"p.public.t": "id"}, {T: LOG})


def of_stream(batch: BatchMemory | None = None) -> StreamMemory:
    """One with open updates, bounds, and a log that was compared."""
    counts = StreamCounts(None, 5)
    counts.bound(9, 3)
    counts.update("part", 7, 2)
    place = "things", 0
    return StreamMemory({"t": counts.plain()}, {place: 3}, {place: 8}, {"things": "7f"}, {"t": LOG}, batch)


@pytest.mark.parametrize("memory", [
    NEW, kept(), kept(90), StreamMemory.empty(), of_stream(), of_stream({"query": "4c", "number": 3}),
])
def test_it_comes_back(memory: CaptureMemory | StreamMemory) -> None:
    """Through JSON, with the capture that it is of; where nothing is kept, there is an empty one."""
    plain = json.loads(json.dumps(plain_memory(memory, ME)))
    found: CaptureMemory | StreamMemory = read_memory(type(memory), plain, ME)

    assert plain == json.loads(json.dumps(plain_memory(found, ME)))
    assert type(memory).empty() == read_memory(type(memory), None, ME)


@dataclass(frozen=True)
class OtherRecipe(Recipe):
    """That of a connector of another kind, which differs from the first one in nothing else."""

    kind: ClassVar[str] = "another"


def test_it_is_of_a_connector_of_one_kind() -> None:
    """One that does not state the kind, as those of before, is of the first one."""
    rows = {T: RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})}
    first, other = capture_identity(Recipe("p", rows)), capture_identity(OtherRecipe("p", rows))

    assert {"prefix": "p", "tables": {T: rows[T].fingerprint}} == first
    assert {**first, "connector": "another"} == other
    for kept_of, asked, said in ((first, other, f"'{FIRST_KIND}', here it is 'another'"),
                                 (other, first, f"'another', here it is '{FIRST_KIND}'")):
        plain = plain_memory(NEW, kept_of)
        assert NEW == read_memory(CaptureMemory, plain, kept_of)
        with pytest.raises(ForeignStateError, match=f"its connector is {said}"):
            read_memory(CaptureMemory, plain, asked)


def test_those_of_before_are_read() -> None:
    """When topics had no identities; and when a job on Spark called the capture its binding."""
    plain = json.loads(json.dumps(plain_memory(kept(), ME)))
    del plain["topics"]
    assert {} == read_memory(CaptureMemory, plain, ME).topics

    plain["binding"] = plain.pop("capture")
    assert {("p.public.t", 2): 9} == read_memory(CaptureMemory, plain, ME).positions


@pytest.mark.parametrize("change, reason", [
    ({"version": 7}, "there has version 7, and this release reads 1: remove the memory"),
    ({"version": None}, "there has version None, and"),
    ({"capture": {**ME, "prefix": "q"}}, "there is of another capture: its prefix is 'q', here it is 'p'. Give each"),
    ({"capture": {"prefix": "p"}}, "its tables is None, here it is {'public.t': '7f'}"),
    ({"capture": {**ME, "more": 3}}, "its more is 3, here it is None"),
    ({"capture": 3}, "there is damaged (3 is no object)"),
])
def test_the_memory_of_another_capture_is_refused(change: dict[str, Any], reason: str) -> None:
    """With what differs."""
    with pytest.raises(ForeignStateError) as refused:
        read_memory(CaptureMemory, {**plain_memory(kept(), ME), **change}, ME, "there")
    assert reason in str(refused.value)


@pytest.mark.parametrize("change", [
    {"counts": {"t": {}}}, {"counts": {"t": {**of_stream().counts["t"], "promised": None}}}, {"logs": {"t": {}}},
    {"topics": {"t": 7}}, {"positions": {"t": 3}}, {"read": {"t": 3}}, {"batch": {"query": 1, "number": 2}},
    {"batch": {"query": "4c"}},
])
def test_what_is_of_another_type_in_that_of_a_stream_is_refused(change: dict[str, Any]) -> None:
    """As in that of a database."""
    with pytest.raises(ForeignStateError, match="^there is damaged "):
        read_memory(StreamMemory, {**plain_memory(of_stream(), ME), **change}, ME, "there")


def test_tails_of_logs_come_back() -> None:
    """One of another type is refused, with what to do."""
    tail = LogTail(5, {0: 3}, {"topic": "7f"}, 2)
    assert {"t": tail} == tails_of({"t": tail.to_plain()})
    with pytest.raises(ForeignStateError, match="^the memory of the capture is damaged .*'known' is missing.*: remove"):
        tails_of({"t": LOG})


def test_a_tail_of_before_has_neither_marks_nor_rows() -> None:
    """Nothing identifies its log, and the rows are not known."""
    assert LogTail(5, {0: 3}) == LogTail.from_plain({"known": 5, "positions": {"0": 3}})


@pytest.mark.parametrize("batch", [None, {"query": "4c", "number": 3}])
def test_the_last_batch_of_spark_is_kept(batch: BatchMemory | None) -> None:
    """Without Spark there is none."""
    assert batch == read_memory(StreamMemory, plain_memory(of_stream(batch), ME), ME).batch


def test_whether_anything_was_released() -> None:
    """Then what is in the logs must not be removed."""
    for through, released in ((100, True), (0, False), (None, False)):
        assert released is has_released({"commits": {"through": through}})
    assert [True, False] == [has_released(plain_memory(memory, ME)) for memory in (of_stream(), StreamMemory.empty())]


@pytest.mark.parametrize("change, reason", [
    ({"logs": []}, "[]"), ({"logs": {T: {}}}, "'positions' is missing"), ({"commits": {}}, "is missing"),
    ({"commits": {**kept(90).to_plain()["commits"], "first": [True]}}, "true is no whole number"),
    ({"commits": {name: one for name, one in (kept(90).to_plain()["commits"] or {}).items() if name != "first"}},
     "'first' is missing"),
    ({"topics": {"t": 7}}, "7 is no text"), ({"positions": {"t": 3}}, "int"),
])
def test_what_is_of_another_type_is_named_with_its_place(change: dict[str, Any], reason: str) -> None:
    """And what to do: it can be removed."""
    for place in ((), ("there/_memory.json",)):
        with pytest.raises(ForeignStateError) as refused:
            read_memory(CaptureMemory, {**plain_memory(kept(90), ME), **change}, ME, *place)
        text = str(refused.value)
        assert text.startswith(f"{place[0] if place else 'the memory of the capture'} is damaged (")
        assert reason in text and "remove the memory (_memory.json in the folder of the logs;" in text


def test_a_topic_that_was_made_again_is_refused() -> None:
    """One that is not there now, and one that was not there then, are not judged."""
    found = {"a": "1", "b": "2"}
    assert {"a": "1", "b": "2", "c": "3"} == same_topics(found, {"a": "1", "c": "3"})
    with pytest.raises(ForeignStateError, match="the topic b is another one"):
        same_topics(found, {"a": "1", "b": "1"})


@pytest.mark.parametrize("memory, again, same", [
    (NEW, (), True), (NEW, (90,), False), (kept(), (), True), (kept(), (190,), False),
    (kept(90), (90,), True), (kept(90), (90, 190), False), (kept(90, through=80), (), False),
    (kept(90, through=80), (95,), False), (kept(1, through=0), (), False),
    (kept(spoilt=["a row is lacking", "start over"]), (190,), True),
    (kept(spoilt=["a row is lacking", "start over", False]), (190,), True),
    (kept(spoilt=["a row is lacking", "start over", True]), (190,), False),
    (kept(spoilt=None), (190,), False),
])
def test_it_goes_with_the_resnapshots_that_it_was_kept_with(
    memory: CaptureMemory, again: tuple[int, ...], same: bool
) -> None:
    """Others may stand before its positions; a stop that no resnapshot explains counts with all of them."""
    assert same is declares_same(memory, again)


@pytest.mark.parametrize("memory, again, remains, remarks", [
    (NEW, (), NEW, 0), (NEW, (90,), NEW, 0), (kept(), (), kept(), 0),
    (kept(90), (90,), kept(90), 0), (kept(), (190,), replace(NEW, topics=kept().topics), 1),
])
def test_where_others_are_declared_only_the_topics_are_remembered(
    memory: CaptureMemory, again: tuple[int, ...], remains: CaptureMemory, remarks: int
) -> None:
    """So that those that are read from their start are still the ones that were captured; an empty one is no reason."""
    reported: list[str] = []
    assert remains == resumable(memory, again, reported.append)
    assert remarks * ["the topics are read from their start, as other snapshots are declared than before"] == reported


@pytest.mark.parametrize("through, again, kept_ones", [(200, (), "90,120"), (120, (90,), "90,120"), (119, (), "90")])
def test_a_resnapshot_that_is_in_the_logs_must_be_declared_for_ever(
    through: int, again: tuple[int, ...], kept_ones: str
) -> None:
    """It is named, with the others."""
    with pytest.raises(RefusedError, match=re.escape(f"captured with --snapshot-again {kept_ones}, and")):
        declares_same(kept(90, 120, through=through), again)


@pytest.mark.parametrize("snapshot, through, known, ahead", [
    ("initial", 100, 100, True), ("initial", 100, 101, False), ("initial", 0, 0, True), ("none", 0, 0, False),
    ("none", 1, 1, True), ("none", 100, 0, True), ("initial", None, 0, False),
])
def test_one_that_is_ahead_of_its_logs_is_refused(
    snapshot: str, through: int | None, known: int, ahead: bool
) -> None:
    """Without a snapshot all begins at 0, before anything is stated."""
    plain = {"version": 1, "tables": [T], "mode": snapshot, "through": through}
    if not ahead:
        check_memory(plain, (T,), snapshot, known)
        return
    reason = (
        f"the log that is furthest behind is complete before {(through or 0) + 1}, and it is complete before {known} "
        "only"
    )
    with pytest.raises(ForeignStateError, match=reason):
        check_memory(plain, (T,), snapshot, known)


def test_that_of_another_release_is_refused_by_what_it_is() -> None:
    """With what to do."""
    plain = {"version": 2, "tables": [T], "mode": "none", "through": 0}
    with pytest.raises(ForeignStateError, match="^the memory of the capture has version 2, and this .* 1: remove"):
        check_memory(plain, (T,), "none", 0)


def test_a_log_that_is_as_far_as_its_memory_is_taken() -> None:
    """One that is further, too: a crash came before the memory was kept."""
    check_not_ahead("the log of t", 5, 5)
    check_not_ahead("the log of t", 5, 6)
    with pytest.raises(ForeignStateError, match="by the memory the log of t is complete before 5, and it is complete"):
        check_not_ahead("the log of t", 5, 4)
