"""Can a recipe be carried on? Asked before it is proposed, as that stops whoever has the old one.

What is found out too late stays so: times that are bound under it are written under it, or never.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MissingLogError, SourceStop, UnavailableError
from cdcv2.protocol.log import Log
from cdcv2.protocol.writer import Writer
from cdcv2.reclock.binding import check_int
from cdcv2.reclock.transactions import resume
from cdcv2.sources import lost
from cdcv2.sources.binder import Binder
from cdcv2.sources.debezium import classify
from cdcv2.sources.facts import Unfit
from cdcv2.sources.places import places
from cdcv2.sources.plain import PlainRows
from cdcv2.sources.ranged import Look, Ranges
from cdcv2.sources.shared_capture import Span, check_bound
from cdcv2.sources.snapshot import Place
from cdcv2.sources.wanted import Wanted
from cdcv2.wire.description import description_of

LOGGER = logging.getLogger(__name__)
#: So many records of each partition are tried.
TRIED = 10


def check_there(binder: Binder, logs: Iterable[tuple[str, Callable[[], Log]]]) -> None:
    """Whether these logs, each with the table that it is of, were written with the remap, and none is too far behind.

    One that is not there, which opening it says by MissingLogError, begins with the recipe. Raises ForeignStateError
    and RefusedError as a capture does, and what opening and reading raise. Cost: the whole logs.
    """
    found: list[tuple[str, Antichain]] = []
    spans: list[tuple[str, Span]] = []
    for table, opened in logs:
        try:
            with Writer(opened()) as writer:
                _check_timeline(binder, writer.log)
                found.append((table, writer.known))
                spans.append((writer.log.name, writer.span))
        except MissingLogError:
            found.append((table, Antichain([0])))
    # The logs were read after the remap, and others write them: only now the remap has all that they have.
    binder.follow()
    check_bound(binder.remap, spans)
    resume(binder.remap, [Antichain([binder.starts(table, check_int(at))]) for table, known in found for at in known])


def _check_timeline(binder: Binder, log: Log) -> None:
    stated, bound = description_of(log).timeline, binder.bound.timeline
    if stated not in (None, bound):
        raise ForeignStateError(
            f"the log {log.name} is of the timeline {stated}, and this remap is {bound}: it was written with another "
            "remap, or by a capture without one. Name that remap, or give this capture logs of its own"
        )


def check_fresh(binder: Binder, asked: Wanted, look: Look, ranges: Ranges, *, at_first: bool) -> None:
    """Whether topics of which nothing is bound have their heads, and whether their first records can be captured.

    Raises UnsafeTopicError, DecodeError and SourceStop as a capture does, and what reading raises.
    """
    fresh = asked.topics - {topic for topic, _ in places(binder.remap.current)}
    spans = lost.of_topics_spans(look, fresh)
    plain = {topic for topic, _ in asked.plain.values()}
    firsts = {place: low for place, (low, _) in spans.items() if place[0] in plain} if at_first else {}
    firsts |= binder.bound.firsts
    lost.check(look, binder.remap, firsts, fresh)
    _try(asked, spans, {place: max(low, firsts.get(place, 0)) for place, (low, _) in spans.items()}, ranges)


def check_first(asked: Wanted, look: Look, ranges: Ranges) -> None:
    """Whether the first records of all topics can be captured; asked before a timeline is begun with the recipe.

    A wrong row type is then an error that leaves nothing behind. Raises DecodeError and SourceStop as a capture does,
    and what reading raises, but for UnavailableError.
    """
    spans = lost.of_topics_spans(look, asked.topics)
    try:
        _try(asked, spans, {place: low for place, (low, _) in spans.items()}, ranges)
    except UnavailableError:
        # The capture reads the same records next, and knows whether to wait for what does not answer.
        LOGGER.debug("the first records cannot be read now")


def _try(asked: Wanted, spans: Mapping[Place, tuple[int, int]], tried: Mapping[Place, int], ranges: Ranges) -> None:
    plain = {topic: PlainRows(row_type) for topic, row_type in asked.plain.values()}
    recipes = {topic: recipe for recipe, _ in asked.databases.values() for topic in recipe.topics()}
    for record in ranges.read({place: (first, min(first + TRIED, spans[place][1])) for place, first in tried.items()}):
        if record.topic in plain:
            plain[record.topic].row(record)
            continue
        fact = classify(record, recipes[record.topic])
        if isinstance(fact, Unfit):
            raise SourceStop(f"{fact.reason}, at {fact.position}", fact.remedy)
