"""Two captures by commit times may write the same logs at once, and share a memory: the facts are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import given, settings, strategies as st

from cdcv2.capture.run.commit_times import Capture
from tests.capture.run.test_capture import content, end_of, frontiers, new_logs, recipe
from tests.connector import Topics, histories, sent
from tests.doubles import KeptMemory


def turns(capture: Capture, topics: Topics, chance: random.Random) -> Iterator[None]:
    """Read all topics, in some order, and release now and then; a turn for each record."""
    for fact, position in topics.read(chance, capture.positions()):
        capture.absorb_fact(fact, position)
        if capture.needs_ends:
            capture.ends_read(topics.ends())
        if chance.random() < 0.3:
            capture.release()
        yield
    capture.release()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_two_at_once_write_what_one_alone_writes(seed: int, shared: bool) -> None:
    """In one folder they share its memory, elsewhere each has its own; a third goes on, and adds nothing."""
    chance = random.Random(seed)
    history = histories(chance, snapshot=True)
    topics = sent(history, chance, notified=True)
    logs, memories = new_logs(), [KeptMemory(), KeptMemory()]
    asked = recipe(notification_topic="notifications")
    with Capture(asked, logs, memory=memories[0]) as one, Capture(asked, logs, memory=memories[not shared]) as other:
        at_work = [turns(one, topics, chance), turns(other, topics, chance)]
        while at_work:
            turn = chance.choice(at_work)
            if next(turn, turn) is turn:
                at_work.remove(turn)
    found = content(logs)
    with Capture(asked, logs, memory=memories[0]) as third:
        list(turns(third, topics, chance))

    assert history.truth() == found == content(logs)
    assert {end_of(history)} == frontiers(logs)
