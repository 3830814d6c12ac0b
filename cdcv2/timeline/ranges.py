"""Which offsets are in at which time: bindings as ranges to be read, a few at once.

What is read is exactly what is bound, so each record has its time when it arrives, and none waits for one: the operator
of :mod:`cdcv2.timeline.reclock`, which is for sources that are read ahead of their bindings, comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.protocol.log import Place
from cdcv2.timeline.lookup import Steps
from cdcv2.timeline.positions import of_topics, places
from cdcv2.timeline.shared_remap import AcceptedBinding


@dataclass
class BoundRanges:
    """Some bindings that follow each other: the ranges to be read, and up to where all is complete then."""

    start: Mapping[Place, int]
    end: dict[Place, int] = field(default_factory=dict)
    upper: Antichain = field(default_factory=lambda: Antichain([0]))
    bindings: int = 0
    # Partition -> the offsets up to which it comes, and the times at which it does.
    _steps: dict[Place, Steps] = field(default_factory=dict)

    def add(self, won: AcceptedBinding, moved: Mapping[Place, int]) -> None:
        """Go on by one binding, which moves some partitions to these offsets."""
        binding = won.binding
        for place, offset in moved.items():
            self._steps.setdefault(place, Steps()).add(offset, binding.into)
        self.end |= moved
        self.upper = Antichain([] if binding.upper is None else [binding.upper])
        self.bindings += 1

    @property
    def ranges(self) -> dict[Place, tuple[int, int]]:
        """What is to be read."""
        return {place: (self.start.get(place, 0), end) for place, end in self.end.items()}

    @property
    def records(self) -> int:
        """How many offsets that are."""
        return sum(end - start for start, end in self.ranges.values())

    def into(self, place: Place, offset: int) -> int:
        """The time of the record there. Raises MalformedError for a record behind what is to be read."""
        into = self._steps[place].into(offset)
        if into is None:
            raise MalformedError(
                f"topic {place[0]}, partition {place[1]}: the record at offset {offset} was read, and what was to be "
                f"read ends before {self.end[place]}: the source of the records is at fault"
            )
        return into


def next_stretch(
    pending: Collection[AcceptedBinding],
    start: Mapping[Place, int],
    topics: Collection[str],
    at_most: int,
    is_ours: Callable[[str], bool],
) -> BoundRanges | None:
    """The next bindings, with about ``at_most`` records in all, at least one; None where the next is not ours, or none.

    ``start`` is how far these topics were before the first of them.
    """
    stretch = BoundRanges(start)
    for won in pending:
        if not is_ours(won.recipe.text):
            break
        now = of_topics(places(won.binding.frontier), topics)
        moved = {
            place: offset for place, offset in now.items() if offset > stretch.end.get(place, start.get(place, 0))
        }
        more = sum(offset - stretch.end.get(place, start.get(place, 0)) for place, offset in moved.items())
        if stretch.bindings and stretch.records + more > at_most:
            break
        stretch.add(won, moved)
    return stretch if stretch.bindings else None
