"""What a topic must still have: the error for one that has lost something names the times that are lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cdcv2.capture.run.retention_check import check, lost, of_topics_spans, recreated_topic
from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import UnsafeTopicError
from cdcv2.protocol.log import Place
from cdcv2.timeline.partitioned import NOT_STARTED
from cdcv2.timeline.positions import frontier
from cdcv2.timeline.remap import Remap

A, B, OTHER = ("a", 0), ("a", 1), ("b", 0)


def bound() -> Remap:
    """Bound are four records of one partition, at the times 1000 to 4000, and the first of another at 4000."""
    remap = Remap(NOT_STARTED)
    for at in (1, 2, 3):
        remap.mint(frontier({A: at}), now=1000 * at)
    remap.mint(frontier({A: 4, B: 1, OTHER: 9}), now=4000)
    return remap


@pytest.mark.parametrize(
    ("spans", "read"),
    [
        ({A: (0, 4), B: (0, 1)}, {}),
        ({A: (4, 4), B: (1, 1)}, {A: 4, B: 1}),
        ({A: (2, 9), B: (0, 5), ("a", 2): (0, 7)}, {A: 2}),
        ({A: (0, 4), B: (0, 1), ("a", 2): (3, 7)}, {("a", 2): 3}),
        ({A: (0, 4), B: (0, 1), ("a", 2): (0, 0)}, {}),
    ],
)
def test_all_is_there(spans: Mapping[Place, tuple[int, int]], read: Mapping[Place, int]) -> None:
    """What is bound and not written, and what is not bound; other topics are not asked about."""
    check(TopicExtents(spans), bound(), read, ["a"])


@pytest.mark.parametrize(
    ("spans", "read", "text"),
    [
        ({A: (0, 4)}, {}, "the topic 'a', partition 1, is missing. Lost are rows of the time 4000. Start over"),
        ({A: (0, 4)}, {B: 1}, "partition 1, is missing. Of what is bound, the logs have everything. Start over"),
        ({A: (0, 3), B: (0, 1)}, {A: 1}, "'a', partition 0, ends at 3, and what stood before 4 is bound: it was made "
         "again, or has lost its end, or what is read here is older. Lost are rows of the time 4000. Start"),
        ({A: (0, 1), B: (0, 1)}, {A: 2}, "Lost are rows of the times 3000 to 4000. Start"),
        ({A: (2, 9), B: (0, 1)}, {}, "'a', partition 0, begins at 2, and 0 is wanted: what came before was removed "
         "(retention). Lost are rows of the times 1000 to 2000. Start over"),
        ({A: (8, 9), B: (0, 1)}, {A: 3}, "begins at 8, and 3 is wanted: what came before was removed (retention). "
         "Lost are rows of the time 4000. Start over"),
        ({A: (8, 9), B: (0, 1)}, {A: 7}, "Of what is bound, the logs have everything. Start over"),
    ],
)  # fmt: skip
def test_what_is_lost_is_named(
    spans: Mapping[Place, tuple[int, int]], read: Mapping[Place, int], text: str
) -> None:
    """The partition, what is wrong with it, and the times whose rows were lost."""
    with pytest.raises(UnsafeTopicError) as caught:
        check(TopicExtents(spans), bound(), read, ["a"])

    assert text in str(caught.value)
    assert "--begin-at-first" not in str(caught.value)


def test_a_topic_of_which_nothing_is_bound_may_begin_later() -> None:
    """Then the error names the option."""
    text = "'c', partition 0, begins at 2, and 0 .*bring it back. A plain topic of which nothing is bound may"
    with pytest.raises(UnsafeTopicError, match=text):
        check(TopicExtents({("c", 0): (2, 5)}), bound(), {}, ["c"])


def test_a_topic_that_was_made_again() -> None:
    """Each partition that has lost something, and when; or that nothing is lost."""
    text = str(recreated_topic("a", bound(), {A: 3}))

    assert "the topic 'a' was deleted and made again: it is not the one that this timeline binds. the topic 'a', " \
        "partition 0: Lost are rows of the time 4000. the topic 'a', partition 1: Lost are rows of the time 4000. " \
        "Capture the new one" in text  # fmt: skip
    assert "binds. Of what is bound, the logs have everything. Capture" in str(
        recreated_topic("a", bound(), {A: 4, B: 1})
    )
    assert "binds. the topic 'a', partition 1: Lost are rows of the time 4000. Capture" in str(
        recreated_topic("a", bound(), {A: 4})
    )


def test_the_times_of_offsets() -> None:
    """From the first to the last."""
    assert "Lost are rows of the times 1000 to 4000" == lost(bound(), A, 0, 4)
    assert "Lost are rows of the time 2000" == lost(bound(), A, 1, 2)
    assert "Of what is bound, the logs have everything" == lost(bound(), A, 2, 2) == lost(bound(), A, 3, 2)


def test_the_spans_of_some_topics() -> None:
    """All their partitions."""
    spans = {A: (0, 4), B: (1, 1), OTHER: (0, 9)}

    assert {A: (0, 4), B: (1, 1)} == of_topics_spans(TopicExtents(spans), {"a"})
