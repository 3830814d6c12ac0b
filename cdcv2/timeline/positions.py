"""How far topics are, as offsets and as a frontier: every topic is one source of a timeline, with its partitions.

A place is a partition of a topic. One that is not named has not started: partitions and topics may be added at any
time, and one in which nothing is written holds nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Place
from cdcv2.timeline.partitioned import Part, Partitioned, frontier_of, offsets


def frontier(places: Mapping[Place, int]) -> Antichain:
    """The frontier at which each partition is read up to its offset.

    >>> frontier({("orders", 0): 4, ("orders", 1): 0}).elements[-1]
    Partitioned.at('orders', Partitioned.at(0, 4))
    """
    topics: dict[Part, dict[Part, int | None]] = {}
    for (topic, partition), offset in places.items():
        topics.setdefault(topic, {})[partition] = offset
    return frontier_of({topic: offsets(parts) for topic, parts in topics.items()})


def places(where: Antichain) -> dict[Place, int]:
    """The offsets of a frontier; the other way round.

    >>> places(frontier({("orders", 0): 4}))
    {('orders', 0): 4}

    Raises ForeignStateError for a frontier of sources that are no topics.
    """
    found: dict[Place, int] = {}
    for element in where:
        if not isinstance(element, Partitioned):
            raise _foreign(element)
        inner = element.time
        if inner is None:
            continue
        if not isinstance(element.part, str) or not isinstance(inner, Partitioned):
            raise _foreign(element)
        if inner.part is None:
            continue
        if type(inner.part) is not int or type(inner.time) is not int:
            raise _foreign(element)
        found[element.part, inner.part] = inner.time
    return found


def position(place: Place, offset: int) -> Partitioned:
    """The from-time of a record.

    >>> position(("orders", 2), 17)
    Partitioned.at('orders', Partitioned.at(2, 17))
    """
    topic, partition = place
    return Partitioned.at(topic, Partitioned.at(partition, offset))


def limited(current: Mapping[Place, int], ends: Mapping[Place, int], most: int) -> dict[Place, int]:
    """A place between two, about ``most`` records on: every partition its share, then those that have more records.

    >>> limited({("a", 0): 5}, {("a", 0): 7, ("b", 0): 100, ("b", 1): 1}, 30)
    {('a', 0): 7, ('b', 0): 27, ('b', 1): 1}
    """
    behind = {place: end - current.get(place, 0) for place, end in sorted(ends.items()) if end > current.get(place, 0)}
    share = max(1, most // len(behind)) if behind else 0
    steps = {place: min(share, lacks) for place, lacks in behind.items()}
    left = most - sum(steps.values())
    for place, lacks in behind.items():
        more = max(0, min(left, lacks - steps[place]))
        steps[place] += more
        left -= more
    return {place: current.get(place, 0) + step for place, step in steps.items()}


def of_topics(where: Mapping[Place, int], topics: Iterable[str]) -> dict[Place, int]:
    """Those places that are of these topics."""
    wanted = frozenset(topics)
    return {place: offset for place, offset in where.items() if place[0] in wanted}


def _foreign(element: Time) -> ForeignStateError:
    return ForeignStateError(
        f"the remap binds {element!r}, which is no offset in a topic: it is of other sources. Name the right remap, or "
        "begin a new one"
    )
