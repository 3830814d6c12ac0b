"""A capture that was restarted at any moment judges rows and ENDs that come late like one that was not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cdcv2.capture.open_records import EndRecord, RestartRecord, RowRecord, SourceRecord
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER


def row(tx: int, number: int, after: int | None, **more: Any) -> RowRecord:
    """A row of table a."""
    return RowRecord("a", tx, number, after, ((f"row {tx}.{number}", 1),), number, **more)


STORIES: dict[str, tuple[list[list[SourceRecord]], str | None]] = {
    "its END is lost": (
        [[EndRecord.of(5, 70, {})], [EndRecord.of(7, 90, {})], [row(6, 1, 70)], [EndRecord.of(8, 120, {})]],
        "the END of transaction 6 is missing",
    ),
    "its END counts too few, and the row comes late": (
        [[EndRecord.of(5, 70, {})], [row(7, 1, 70), EndRecord.of(7, 90, {"a": 1})], [row(7, 2, 70)]],
        "has a row of a numbered 2, but its END 90 counts 1",
    ),
    "its END counts too few, and the row is there": (
        [[row(7, 2, 0)], [EndRecord.of(7, 90, {"a": 1})]], "has 1 rows of a, numbered up to 2, but its END 90 counts 1",
    ),
    "it is given out before an earlier one, and a row comes late": (
        [[EndRecord.of(5, 70, {"a": 1})], [row(7, 1, 70), EndRecord.of(7, 90, {"a": 1})], [row(7, 2, 70)],
         [row(5, 1, 0)]],
        "numbered (up to )?2, but its END 90 counts 1",
    ),
    "one END says two things": (
        [[EndRecord.of(5, 70, {})], [EndRecord.of(7, 90, {})], [EndRecord.of(5, 70, {"a": 2})]], "END 70 states both",
    ),
    "an END comes for the first time": (
        [[EndRecord.of(5, 70, {})], [EndRecord.of(7, 90, {})], [EndRecord.of(6, 80, {})]],
        "END 80 .* came for the first time",
    ),
    "it is numbered anew": (
        [[row(7, 1, 0, renumbered=True)], [RestartRecord(7)], [EndRecord.of(7, 90, {"a": 1})]],
        "two BEGINs, one directly after the other",
    ),
    "it is sent again": (
        [[row(7, 1, None, renumbered=True), EndRecord.of(7, 90, {"a": 1})],
         [RestartRecord(7), row(7, 1, 50, renumbered=True)],
         [EndRecord.of(7, 90, {"a": 1})]], None,
    ),
    "it is sent again while it is open, with another sequence": (
        [[row(7, 1, None)], [row(7, 1, 50), row(7, 1, 60)], [row(7, 2, 50), EndRecord.of(7, 90, {"a": 2})]], None,
    ),
}  # fmt: skip


def went(
    story: list[list[SourceRecord]], ordering: str, begun: int | None = None
) -> tuple[list[Update], list[Update], str]:
    """What came out, what TEMP did, and why it stopped; ``begun``: at that time another capture goes on with TEMP."""
    one, output, temp = Transactions(["a"], ordering=ordering), list[Update](), list[Update]()
    ends: dict[int, tuple[int, int, dict[str, int]]] = {}
    for time, records in enumerate(story, 1):
        if time == begun:
            recalled = ReleasedEnds(tuple(ends[lsn] for lsn in sorted(ends)), True, None)
            one = Transactions(["a"], ordering=ordering, temp=temp, frontier=Antichain([time]), recalled=recalled)
        step = one.updates([(said, time, 1) for said in records], Antichain([time + 1]))
        output, temp = output + step.output["a"], temp + step.temp
        if one.stop is not None:
            return output, temp, str(one.stop)
        for said in records:
            if isinstance(said, EndRecord):
                ends[said.commit] = int(said.tx), said.commit, dict(said.counts)
    return output, temp, ""


@pytest.mark.parametrize("ordering", (COMMIT_ORDER, AS_COMPLETE))
@pytest.mark.parametrize("name", STORIES)
def test_whenever_it_is_begun_it_says_the_same(name: str, ordering: str) -> None:
    """Output, TEMP and the words of the stop."""
    story, said = STORIES[name]
    alive = went(story, ordering)
    if said is None:
        assert "" == alive[2]
    else:
        assert re.search(said, alive[2]), alive[2]
    for begun in range(2, len(story) + 1):
        assert alive == went(story, ordering, begun), f"begun at {begun}"


@pytest.mark.parametrize("begun", (None, 3))
@pytest.mark.parametrize("ordering", (COMMIT_ORDER, AS_COMPLETE))
def test_an_end_that_contradicts_what_is_given_out_is_a_stop_that_lasts(ordering: str, begun: int | None) -> None:
    """Also where an earlier transaction is not: the topic may lose the first END, and then nothing shows it."""
    story: list[list[SourceRecord]] = [
        [EndRecord.of(5, 70, {"a": 1})],
        [row(7, 1, 70), EndRecord.of(7, 90, {"a": 1})],
        [EndRecord.of(7, 90, {})],
    ]
    output, _, said = went(story, ordering, begun)

    assert "END 90 states both that transaction 7 has {'a': 1} rows, and 7 has {}" in said
    assert (ordering == AS_COMPLETE) == ("; the logs are stated beyond it" in said) == bool(output)


def test_without_what_was_released_whatever_comes_again_stops_it() -> None:
    """A start without that knowledge does not guess."""
    first = Transactions(["a"])
    temp = first.updates([(EndRecord.of(5, 70, {}), 1, 1)], Antichain([2])).temp
    second = Transactions(["a"], temp=temp, frontier=Antichain([2]))
    second.updates([(row(5, 1, 60), 2, 1)], Antichain([3]))

    assert second.stop is not None and "is a duplicate cannot be known" in str(second.stop)


@pytest.mark.parametrize("turned", (False, True))
def test_of_copies_at_one_time_the_one_that_names_the_least_commit_is_held(turned: bool) -> None:
    """TEMP is a function of the records, whatever order they come in; of later copies nothing is held."""
    copies, one = [row(7, 1, 50), row(7, 1, None), row(7, 1, 60)], Transactions(["a"])
    temp = one.updates([(said, 1, 1) for said in (copies[::-1] if turned else copies)], Antichain([2])).temp
    later = one.updates([(row(7, 1, -1), 2, 1)], Antichain([3])).temp

    assert [(row(7, 1, None), 1, 1)] == [update for update in temp if isinstance(update[0], RowRecord)]
    assert [] == later
