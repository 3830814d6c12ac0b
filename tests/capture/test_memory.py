"""What a capture by commit times keeps comes back as it was, and goes with its own logs and options alone."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.memory import CaptureMemory, check_memory, declares_same, same_topics
from cdcv2.errors import ForeignStateError, RefusedError

T = "public.t"
LOG = {"positions": {"0": 7}, "marks": {}, "rows": 3}


def kept(*declared: int, through: int = 100, **more: Any) -> CaptureMemory:
    """One with these resnapshots declared, at work through there."""
    commits = CommitTransactions([T], notifications=True, known=through + 1, again=declared)
    plain: Any = {**commits.export(), **more}
    return CaptureMemory(plain, {("p.public.t", 2): 9}, {"p.public.t": "id"}, {T: LOG})


@pytest.mark.parametrize("memory", [CaptureMemory(), kept(), kept(90)])
def test_it_comes_back(memory: CaptureMemory) -> None:
    """Through JSON."""
    plain = memory.to_plain()
    assert {"commits", "positions", "topics", "logs"} == plain.keys()

    assert memory == CaptureMemory.from_plain(json.loads(json.dumps(plain)))


def test_one_of_before_topics_had_identities_has_none() -> None:
    """It is read all the same."""
    plain = kept().to_plain()
    del plain["topics"]

    assert {} == CaptureMemory.from_plain(plain).topics


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
            CaptureMemory.from_plain({**kept(90).to_plain(), **change}, *place)
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
    (CaptureMemory(), (), True), (CaptureMemory(), (90,), False), (kept(), (), True), (kept(), (190,), False),
    (kept(90), (90,), True), (kept(90), (90, 190), False), (kept(90, through=80), (), False),
    (kept(90, through=80), (95,), False), (kept(1, through=0), (), False),
    (kept(spoilt=["a row is lacking", "begin anew"]), (190,), True),
    (kept(spoilt=["a row is lacking", "begin anew", False]), (190,), True),
    (kept(spoilt=["a row is lacking", "begin anew", True]), (190,), False),
    (kept(spoilt=None), (190,), False),
])
def test_it_goes_with_the_resnapshots_that_it_was_kept_with(
    memory: CaptureMemory, again: tuple[int, ...], same: bool
) -> None:
    """Others may stand before its positions; a stop that no resnapshot explains counts with all of them."""
    assert same is declares_same(memory, again)


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
    with pytest.raises(ForeignStateError, match=f"all through {through} is in the logs"):
        check_memory(plain, (T,), snapshot, known)
