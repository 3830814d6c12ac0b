"""What a topic must still have, and which times of the timeline are lost if it does not.

Everything that is bound must stay readable until every log has it. If a topic was trimmed before that, or deleted and
recreated under its name, those records are lost for ever: the error names the times whose rows they were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import UnsafeTopicError
from cdcv2.protocol.log import Place
from cdcv2.timeline.positions import of_topics, places, position
from cdcv2.timeline.remap import Remap

_REMEDY = "Start over, with another remap and other logs; or, if the topic can be had again as it was, bring it back"
_AT_FIRST = ". A plain topic of which nothing is bound may begin with what is there: --begin-at-first"


def check(look: TopicExtents, remap: Remap, read: Mapping[Place, int], topics: Collection[str]) -> None:
    """Raise UnsafeTopicError unless all that is bound and not written is there, and all that is not bound.

    ``read`` is what is written. The error names the times that are lost.
    """
    bound = of_topics(places(remap.current), topics)
    spans, begun = of_topics_spans(look, topics), {topic for topic, _ in bound}
    for place in sorted(spans.keys() | bound.keys()):
        wanted, through = read.get(place, 0), bound.get(place, 0)
        if place not in spans:
            raise UnsafeTopicError(f"{_named(place)}, is missing. {lost(remap, place, wanted, through)}. {_REMEDY}")
        low, high = spans[place]
        if high < through:
            raise UnsafeTopicError(
                f"{_named(place)}, ends at {high}, and what stood before {through} is bound: it was made again, or has "
                f"lost its end, or what is read here is older. {lost(remap, place, max(wanted, high), through)}. "
                f"{_REMEDY}"
            )
        if low > wanted:
            raise UnsafeTopicError(
                f"{_named(place)}, begins at {low}, and {wanted} is wanted: what came before was removed (retention). "
                f"{lost(remap, place, wanted, min(low, through))}. {_REMEDY}{'' if place[0] in begun else _AT_FIRST}"
            )


def recreated_topic(topic: str, remap: Remap, read: Mapping[Place, int]) -> UnsafeTopicError:
    """The error for a topic that is another one than that which is bound."""
    bound = of_topics(places(remap.current), [topic])
    unread = [(place, read.get(place, 0), through) for place, through in sorted(bound.items())]
    texts = " ".join(
        f"{_named(place)}: {lost(remap, place, first, through)}." for place, first, through in unread if first < through
    )
    return UnsafeTopicError(
        f"the topic {topic!r} was deleted and made again: it is not the one that this timeline binds. "
        f"{texts or NOTHING_LOST + '.'} Capture the new one as another source, with another remap and other logs"
    )


NOTHING_LOST = "Of what is bound, the logs have everything"


def lost(remap: Remap, place: Place, first: int, behind: int) -> str:
    """Which times have rows from these offsets, in words.

    >>> from cdcv2.timeline.partitioned import NOT_STARTED
    >>> from cdcv2.timeline.positions import frontier
    >>> remap = Remap(NOT_STARTED)
    >>> _ = [remap.mint(frontier({("a", 0): at}), now=1000 * at) for at in (1, 2, 3)]
    >>> lost(remap, ("a", 0), 1, 3), lost(remap, ("a", 0), 3, 3)
    ('Lost are rows of the times 2000 to 3000', 'Of what is bound, the logs have everything')
    """
    if behind <= first:
        return NOTHING_LOST
    one, other = remap.into_of(position(place, first)), remap.into_of(position(place, behind - 1))
    return f"Lost are rows of the time {one}" if one == other else f"Lost are rows of the times {one} to {other}"


def of_topics_spans(look: TopicExtents, topics: Collection[str]) -> dict[Place, tuple[int, int]]:
    """The spans of these topics."""
    return {place: span for place, span in look.spans.items() if place[0] in topics}


def _named(place: Place) -> str:
    return f"the topic {place[0]!r}, partition {place[1]}"
