"""A queue of updates by time is what a list is of which some are taken away."""

from __future__ import annotations

from random import Random

from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.protocol.ordered_updates import OrderedUpdates


def test_it_is_what_a_list_is() -> None:
    """Some come, some leave, in steps of any size; it is asked from any time on, and what left is not kept."""
    random = Random(15)
    for _ in range(200):
        queue, wanted, now = OrderedUpdates(), list[Update](), 0
        for _ in range(30):
            for _ in range(random.choice((0, 0, 1, 3))):
                fresh = [(str(random.random()), now := now + random.choice((0, 0, 1, 4)), 1) for _ in range(3)]
                queue.extend(fresh)
                wanted += fresh
            end = random.randint(0, now + 2)
            frontier = random.choice((Antichain([end]), Antichain([random.randint(0, end)])))
            if random.random() < 0.05:
                frontier = Antichain()
            assert queue.pop_not_beyond(frontier) == [one for one in wanted if not frontier.less_equal(one[1])]
            wanted = [one for one in wanted if frontier.less_equal(one[1])]
            assert (list(queue), len(queue)) == (wanted, len(wanted))
            assert queue.since(end) == [one for one in wanted if one[1] >= end]  # type: ignore[operator]
            assert len(queue._updates) <= 2 * len(wanted) + 1
            assert all(queue._updates[queue._first:]) and not any(queue._updates[:queue._first])
