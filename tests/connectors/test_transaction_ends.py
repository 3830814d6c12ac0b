"""ENDs of a transaction topic are found in few reads, as a reader of the whole topic finds them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from cdcv2.connectors.transaction_ends import TransactionEnd, first_end_beyond, highest_end, last_end


class TopicDouble:
    """Records of a topic; None: one that is no END. Counts what is read."""

    def __init__(self, lsns: list[int | None], low: int = 0) -> None:
        self.ends = [
            None if lsn is None else TransactionEnd(lsn, lsn, None, low + at) for at, lsn in enumerate(lsns)
        ]
        self.low, self.high, self.reads = low, low + len(lsns), 0

    def read(self, low: int, high: int) -> list[TransactionEnd]:
        self.reads += 1
        found = self.ends[max(0, low - self.low): max(0, high - self.low)]
        return [end for end in found if end is not None]


@st.composite
def topics(draw: st.DrawFn) -> TopicDouble:
    """Commits in order; a connector that starts again repeats some, and then goes beyond what it wrote before."""
    lsns: list[int | None] = []
    newest = 0
    for _ in range(draw(st.integers(0, 3))):
        between = draw(st.sampled_from([0, 1, 2, 90]))
        begins = max(1, newest - draw(st.integers(0, 40)))
        ends = newest + draw(st.integers(1, 150))
        for lsn in range(begins, ends + 1):
            lsns += [None] * between + [10 * lsn]
        newest = ends
    return TopicDouble(lsns, draw(st.sampled_from([0, 7])))


@given(topics(), st.integers(0, 460))
def test_ends_are_found_as_by_a_reader_of_all(topic: TopicDouble, at: int) -> None:
    """The last one, and the first beyond any frontier."""
    ends = topic.read(topic.low, topic.high)
    frontier = 10 * at + 1
    beyond = [end.lsn for end in ends if end.lsn >= frontier]
    found = first_end_beyond(topic.read, topic.low, topic.high, frontier)

    assert last_end(topic.read, topic.low, topic.high) == (ends[-1] if ends else None)
    assert (None if found is None else found.lsn) == min(beyond, default=None)


def test_a_long_topic_needs_few_reads() -> None:
    """A copy that is up to date is seen in a few of them, one that is far behind in some tens."""
    lsns: list[int | None] = [*range(1, 100_001)]
    near, far = TopicDouble(lsns), TopicDouble(lsns)

    assert first_end_beyond(near.read, 0, near.high, 100_000) == near.ends[-1]
    assert first_end_beyond(far.read, 0, far.high, 17) == far.ends[16]
    assert (near.reads <= 3, far.reads < 90) == (True, True), (near.reads, far.reads)


def test_the_highest_end_is_found_behind_those_that_were_written_again() -> None:
    """However many were; and nothing is read that was written long before what is confirmed."""
    lsns: list[int | None] = [*range(1, 10_001), *range(9_000, 9_950)]
    topic = TopicDouble(lsns)
    found = highest_end(topic.read, 0, topic.high, 9_000)

    assert found is not None and (10_000, True) == (found.lsn, topic.reads < 6)
    assert highest_end(TopicDouble([None]).read, 0, 1, 0) is None


def test_a_topic_without_an_end_has_none() -> None:
    """One transaction, not whole."""
    topic = TopicDouble([None, None])

    assert last_end(topic.read, 0, 2) is first_end_beyond(topic.read, 0, 2, 5) is None
