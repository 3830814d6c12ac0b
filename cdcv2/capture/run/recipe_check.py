"""Can a recipe be carried on? This is checked before it is proposed, as a proposal stops captures of the old one.

An error that is found later is permanent: times that are bound under a recipe are written under it, or never.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from cdcv2.capture.binder import Binder
from cdcv2.capture.facts import UnfitRow
from cdcv2.capture.run import retention_check
from cdcv2.capture.run.on_remap import Span, check_bound
from cdcv2.capture.run.output_frontier import output_known
from cdcv2.capture.run.request import CaptureRequest
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.capture.transactions_on_timeline import resume
from cdcv2.connectors.kinds import PLAIN_TOPIC
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MissingLogError, SourceStop, UnavailableError
from cdcv2.logs.description import description_of
from cdcv2.protocol.log import Log, Place
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.positions import places

LOGGER = logging.getLogger(__name__)
#: So many records of each partition are tried.
TRIED = 10


class DatabaseLogs(NamedTuple):
    """How the logs of a database are opened: of each table of its recipe, and of TEMP; ``names`` are the logs' names.

    ``snapshot``: whether one comes first.
    """

    names: Mapping[str, str]
    tables: Mapping[str, Callable[[], Log]]
    temp: Callable[[], Log]
    snapshot: bool


class _LogContents:
    """What was found in the logs that are there: how far each is known, by table, and when it has updates."""

    def __init__(self, binder: Binder, opened: ExitStack) -> None:
        self._binder, self._opened = binder, opened
        self.known: list[tuple[str, int]] = []
        self.spans: list[tuple[str, Span]] = []

    def writer(self, opened: Callable[[], Log]) -> Writer | None:
        """Of a log, if it is there."""
        log = self._log(opened)
        writer = None if log is None else Writer(log)
        if writer is not None:
            self.spans.append((writer.log.name, writer.span))
        return writer

    def _log(self, opened: Callable[[], Log]) -> Log | None:
        try:
            log = opened()
        except MissingLogError:
            return None
        self._opened.callback(log.close)
        _check_timeline(self._binder, log)
        return log

    def plain(self, table: str, opened: Callable[[], Log]) -> None:
        """The log of a plain table."""
        self.known.append((table, _known(self.writer(opened))))

    def database(self, logs: DatabaseLogs) -> None:
        """All logs of one."""
        found = {table: self._log(opened) for table, opened in logs.tables.items()}
        tables, temp = TableWriters({at: log for at, log in found.items() if log is not None}), self.writer(logs.temp)
        self.spans += [(tables.logs[table].name, span) for table, span in tables.spans().items()]
        known = output_known(tables, temp, snapshot=logs.snapshot, missing=[at for at in found if found[at] is None])
        self.known += [(logs.names[table], at) for table, at in known.items()]
        self.known.append((min(logs.names.values()), _known(temp)))


def check_there(
    binder: Binder, logs: Iterable[tuple[str, Callable[[], Log]]], databases: Iterable[DatabaseLogs] = ()
) -> None:
    """Raise ForeignStateError unless these logs (each with its table) were written with the remap, none too far behind.

    A missing log, for which opening raises MissingLogError, begins with the recipe. Raises ForeignStateError and
    RefusedError as a capture does, and what opening and reading raise. Cost: the whole logs.
    """
    with ExitStack() as opened:
        there = _LogContents(binder, opened)
        for table, log in logs:
            there.plain(table, log)
        for database in databases:
            there.database(database)
    # The logs were read after the remap, and others write them: only now the remap has all that they have.
    binder.follow()
    check_bound(binder.remap, there.spans)
    resume(binder.remap, [Antichain([binder.starts(table, known)]) for table, known in there.known])


def _known(writer: Writer | None) -> int:
    return 0 if writer is None else check_int(writer.known.elements[0])


def _check_timeline(binder: Binder, log: Log) -> None:
    stated, bound = description_of(log).timeline, binder.bound.timeline
    if stated not in (None, bound):
        raise ForeignStateError(
            f"the log {log.name} is of the timeline {stated}, and this remap is {bound}: it was written with another "
            "remap, or by a capture without one. Name that remap, or give this capture logs of its own"
        )


def check_fresh(binder: Binder, asked: CaptureRequest, look: TopicExtents, ranges: Ranges, *, at_first: bool) -> None:
    """Raise an error unless topics of which nothing is bound have their heads, and first records that can be captured.

    Raises UnsafeTopicError, DecodeError and SourceStop as a capture does, and what reading raises.
    """
    fresh = asked.topics - {topic for topic, _ in places(binder.remap.current)}
    spans = retention_check.of_topics_spans(look, fresh)
    plain = {topic for topic, _ in asked.plain.values()}
    firsts = {place: low for place, (low, _) in spans.items() if place[0] in plain} if at_first else {}
    firsts |= binder.bound.firsts
    retention_check.check(look, binder.remap, firsts, fresh)
    _try(asked, spans, {place: max(low, firsts.get(place, 0)) for place, (low, _) in spans.items()}, ranges)


def check_first(asked: CaptureRequest, look: TopicExtents, ranges: Ranges) -> None:
    """Raise an error unless the first records of all topics can be captured; before a timeline starts with the recipe.

    A wrong row type is then an error that leaves nothing behind. Raises DecodeError and SourceStop as a capture does,
    and what reading raises, but for UnavailableError.
    """
    spans = retention_check.of_topics_spans(look, asked.topics)
    try:
        _try(asked, spans, {place: low for place, (low, _) in spans.items()}, ranges)
    except UnavailableError:
        # The capture reads the same records next, and knows whether to wait for what does not answer.
        LOGGER.debug("the first records cannot be read now")


def _try(
    asked: CaptureRequest, spans: Mapping[Place, tuple[int, int]], tried: Mapping[Place, int], ranges: Ranges
) -> None:
    plain = {topic: PLAIN_TOPIC(row_type) for topic, row_type in asked.plain.values()}
    recipes = {topic: recipe for recipe, _ in asked.databases.values() for topic in recipe.topics()}
    for record in ranges.read({place: (first, min(first + TRIED, spans[place][1])) for place, first in tried.items()}):
        if record.topic in plain:
            plain[record.topic].row(record)
            continue
        fact = recipes[record.topic].fact(record)
        if isinstance(fact, UnfitRow):
            raise SourceStop(f"{fact.reason}, at {fact.position}", fact.remedy)
